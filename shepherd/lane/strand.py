"""The strand of one level partition: the tuples of its input partitions, judged, merged and cut. Pure.

R2: tuples go out in the order of (append time, topic, partition, offset). What is still to come is known to be later
than the horizon, so everything before it can go. Should the broker's clock run backwards, tuples of one source with
one label keep their order (`Last.time`), which depends on nothing that a site below could not see.

R3: a transaction ends with a bucket of append time, or is full. Both depend on the tuples in it alone.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from shepherd.lane.judge import Headers, Judge, Meaning
from topology.document import Lanes

MOST_HELD_BYTES = 8 << 20  # for each input, unless the others wait for this one
RECORD_BYTES = 200  # what a held record costs beside its key and value
Place = tuple[str, int]  # topic and partition
Record = tuple[int, int, bytes | None, bytes | None, Headers]  # append time, offset, key, value, headers
# Time, rank of the input, offset: the order. Then what goes out, the sequence for freshness, and the size.
Placed = tuple[int, int, int, bytes | None, bytes | None, Meaning, int, int]
Outgoing = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]  # time, key, value, headers


@dataclass
class Feed:
    """One input partition."""

    topic: str
    partition: int
    judge: Judge
    position: int  # the next offset to read
    backlog: deque[Record] = field(default_factory=deque)  # read, and not yet judged
    newest: int = 0  # append time
    held_bytes: int = 0  # of the backlog and of what was judged and waits to go out
    skipped: int = 0  # counts since the start, for metrics
    refused: int = 0

    @property
    def next_to_judge(self) -> int:
        """The first offset that is not judged."""
        return self.backlog[0][1] if self.backlog else self.position

    def take_in(self, records: Sequence[Record], position: int) -> None:
        """Records that were read; `position` is behind them."""
        self.backlog.extend(records)
        self.position = position
        for time, _, key, value, _ in records:
            self.held_bytes += size_of(key, value)
            if time > self.newest:
                self.newest = time

    def horizon(self, time: int, end: int, skew_ms: int) -> int:
        """What is not judged yet was appended no earlier; `end` was the end offset at `time`."""
        newest = time if self.position >= end and not self.backlog else min(time, self.newest)
        # One that waits to be judged may be older than the one that it waits behind.
        return min([newest - skew_ms, *(record[0] for record in self.backlog)])


@dataclass(frozen=True)
class Chunk:
    """What goes out in one transaction, with the state that belongs to it."""

    partition: int
    tuples: list[Outgoing]
    state: dict[str, str]
    audit: list[dict[str, object]] = field(default_factory=list)


def size_of(key: bytes | None, value: bytes | None) -> int:
    """What a record costs to hold."""
    return (len(key) if key else 0) + (len(value) if value else 0) + RECORD_BYTES


class Strand:
    """Merges the feeds of one level partition."""

    def __init__(self, partition: int, feeds: Sequence[Feed], shape: Lanes, sequence: int, newest: int) -> None:
        """`sequence` and `newest` are those of the last tuple that went out."""
        self.partition = partition
        self.feeds = sorted(feeds, key=lambda feed: feed.topic)
        self.sequence = sequence
        self.newest = newest
        self.late = 0  # R2: tuples that came after their place was past
        self._shape = shape
        self._last: tuple[int, ...] = (newest, -1, -1)
        self._placed: list[Placed] = []
        self._slowest: Feed | None = None
        self._written: Mapping[Place, int] = self._positions()

    def hungry(self) -> list[Feed]:
        """The feeds to read from: those with room, and the one that the others wait for, if it has nothing to judge."""
        slowest = self._slowest
        return [f for f in self.feeds if f.held_bytes < MOST_HELD_BYTES or (f is slowest and not f.backlog)]

    def advance(self, time: int, ends: Mapping[Place, int]) -> Iterator[Chunk]:
        """Judge and merge what is known for certain at `time`, when the inputs ended at `ends`."""
        for rank, feed in enumerate(self.feeds):
            self._judge(rank, feed, time - self._shape.skew_ms)
        horizons = [feed.horizon(time, ends[feed.topic, feed.partition], self._shape.skew_ms) for feed in self.feeds]
        horizon = min(horizons)
        self._slowest = self.feeds[horizons.index(horizon)]
        self._placed.sort()
        ready = bisect_left(self._placed, (horizon,))
        cuts = [0]
        while (end := self._cut(cuts[-1], ready, horizon)) > cuts[-1]:
            cuts.append(end)
        chunks = [self._placed[start:end] for start, end in pairwise(cuts)]
        del self._placed[: cuts[-1]]
        for left, chunk in enumerate(chunks, 1 - len(chunks)):
            # Before the last one positions lag behind. What went out and is read again is stale: it goes out once.
            yield self._send_off(chunk, self._positions() if left == 0 else self._written)

    def progress(self) -> dict[str, str]:
        """R3: the state after input of which nothing went out; empty if there was none."""
        positions = self._positions()
        return self._state(positions) if positions != self._written else {}

    def _judge(self, rank: int, feed: Feed, known: int) -> None:
        """R6: judge what was appended before `known`, up to which the policy is known, in the order of offsets."""
        backlog, judge, place = feed.backlog, feed.judge.judge, self._placed.append
        while backlog and backlog[0][0] < known:
            time, offset, key, value, headers = backlog.popleft()
            meaning, sequence, placed_at = judge(time, key, value, headers)
            if sequence:
                place((placed_at, rank, offset, key, value, meaning, sequence, size_of(key, value)))
                continue
            feed.held_bytes -= size_of(key, value)
            if meaning.refusal:
                feed.refused += 1  # the quarantine lane says why
            else:
                feed.skipped += 1

    def _cut(self, start: int, ready: int, horizon: int) -> int:
        """Where the transaction ends that begins at `start`; `start` itself if it cannot end yet."""
        if start == ready:
            return start
        bucket_end = (self._placed[start][0] // self._shape.bucket_ms + 1) * self._shape.bucket_ms
        end = bisect_left(self._placed, (bucket_end,), start, ready)
        size = 0
        for index in range(start, min(end, start + self._shape.transaction_tuples)):
            size += self._placed[index][7]
            if size >= self._shape.transaction_bytes or index + 1 - start == self._shape.transaction_tuples:
                return index + 1
        return end if horizon >= bucket_end else start

    def _send_off(self, chunk: list[Placed], positions: Mapping[Place, int]) -> Chunk:
        self.late += sum(1 for _ in takewhile(lambda placed: placed[:3] < self._last, chunk))
        self._last = max(self._last, chunk[-1][:3])
        sequence, newest, tuples, lasts = self.sequence, self.newest, [], {}
        for placed_at, rank, _, key, value, meaning, number, held in chunk:
            if placed_at > newest:
                newest = placed_at  # never backwards: a late tuple has the time of the one before it
            sequence += 1
            tuples.append((newest, key, value, [meaning.stamp, ("bw-seq", sequence.to_bytes(8, "big"))]))
            lasts[meaning.last] = (number, newest)
            self.feeds[rank].held_bytes -= held
        self.sequence, self.newest = sequence, newest
        state = self._state(positions)
        # Two claims can have a `Last` of one name each: the greater sequence goes in last.
        for last, (number, time) in sorted(lasts.items(), key=lambda item: item[1]):
            state[f"last {self.partition} {last.name}"] = f"{number} {time}"
        return Chunk(self.partition, tuples, state)

    def _positions(self) -> dict[Place, int]:
        """Where a restart must read from: the first offset of each input that is not done with."""
        lowest = [feed.next_to_judge for feed in self.feeds]
        for _, rank, offset, *_ in self._placed:
            if offset < lowest[rank]:
                lowest[rank] = offset
        return {(feed.topic, feed.partition): offset for feed, offset in zip(self.feeds, lowest, strict=True)}

    def _state(self, positions: Mapping[Place, int]) -> dict[str, str]:
        self._written = positions
        state = {f"position {topic} {partition}": str(offset) for (topic, partition), offset in positions.items()}
        return state | {f"strand {self.partition}": f"{self.sequence} {self.newest}"}
