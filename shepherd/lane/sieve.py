"""The quarantine lane's part for one input partition: judges every tuple and keeps those that proved nothing. Pure.

Nobody below system high sees what comes out, so no order among inputs and no shape has to be kept.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from shepherd.lane.strand import MOST_HELD_BYTES, Chunk, Feed, Outgoing, Place, size_of
from shepherd.says import HEADER
from topology.document import Lanes

REASON, FROM = "bw-reason", "bw-from"  # headers of a tuple in quarantine, before the `bw-says` it came with


class Sieve:
    """Sifts one feed."""

    def __init__(self, feed: Feed, shape: Lanes) -> None:
        self.partition = feed.partition
        self.feeds = [feed]
        self.sequence, self.newest, self.late = 0, 0, 0
        self.reasons: Counter[str] = Counter()  # since the start, for metrics
        self._shape = shape
        self._lasts: dict[str, str] = {}  # that changed since the state was written
        self._written = feed.position

    def hungry(self) -> list[Feed]:
        """The feed to read from."""
        return [feed for feed in self.feeds if feed.held_bytes < MOST_HELD_BYTES]

    def advance(self, time: int, ends: Mapping[Place, int]) -> Iterator[Chunk]:
        """Judge what was appended before the time up to which the policy is known (R6)."""
        feed, known = self.feeds[0], time - self._shape.skew_ms
        tuples: list[Outgoing] = []
        reasons: Counter[str] = Counter()
        size = 0
        while feed.backlog and feed.backlog[0][0] < known:
            appended, offset, key, value, headers = feed.backlog.popleft()
            meaning, sequence, placed_at = feed.judge.judge(appended, key, value, headers)
            held = size_of(key, value)
            feed.held_bytes -= held
            if sequence:
                self._lasts[f"last {feed.partition} {meaning.last.name}"] = f"{sequence} {placed_at}"
                continue
            reasons[meaning.refusal] += 1
            feed.refused += 1
            where = f"{feed.topic} {feed.partition} {offset}".encode()
            said = [(name, content or b"") for name, content in headers if name == HEADER][:1]
            tuples.append((appended, key, value or b"", [(REASON, meaning.refusal.encode()), (FROM, where), *said]))
            self.newest, size = appended, size + held
            if len(tuples) == self._shape.transaction_tuples or size >= self._shape.transaction_bytes:
                yield self._send_off(tuples, reasons)
                tuples, reasons, size = [], Counter(), 0
        if tuples:
            yield self._send_off(tuples, reasons)

    def progress(self) -> dict[str, str]:
        """The state after input of which nothing went out; empty if there was none."""
        return self._state() if self.feeds[0].next_to_judge != self._written else {}

    def _send_off(self, tuples: list[Outgoing], reasons: Counter[str]) -> Chunk:
        self.sequence += len(tuples)
        self.reasons += reasons
        audit: dict[str, object] = {"event": "quarantined", "topic": self.feeds[0].topic, "reasons": dict(reasons)}
        return Chunk(self.partition, tuples, self._state(), [audit])

    def _state(self) -> dict[str, str]:
        feed = self.feeds[0]
        self._written = feed.next_to_judge
        state, self._lasts = self._lasts, {}
        return state | {f"position {feed.topic} {feed.partition}": str(self._written)}
