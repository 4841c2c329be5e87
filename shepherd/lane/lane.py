"""The lane: from ticks, inputs and policy to transactions. Its parts decide, its client talks."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from shepherd.lane.client import Client, LaneError
from shepherd.lane.judge import Judge, Last, Secrets
from shepherd.lane.sieve import Sieve
from shepherd.lane.strand import Chunk, Feed, Place, Strand
from shepherd.policy import History, PolicyError
from topology.cluster import Group, Site, Topology
from topology.kafka_plan import input_topic

POLICY: Place = ("policy", 0)
QUARANTINE = "quarantine"
TICK_SECONDS = 0.02  # between two looks at the ends of the inputs
PROGRESS_MS = 1_000  # R3: the fixed tick for progress over skipped input


class Lane:
    """One run of a lane: from its opening to its end or its first error."""

    def __init__(
        self, topology: Topology, site: Site | None, client: Client, authority: bytes, secrets: Secrets
    ) -> None:
        """Open: fence, read the state, seek (R8). `site` None is the quarantine lane."""
        self.name = site.name if site else QUARANTINE
        self.history = History(authority)
        self.ignored = 0  # R6: policy records that count for nothing
        self.admitted = self.admitted_bytes = self.transactions = self.behind = 0  # for metrics
        self._client = client
        self._shape = topology.lanes
        self._audit: list[dict[str, object]] = [{"event": "start"}]
        self._late = 0
        state = client.open()
        self._begin(state, topology.partitions, hashlib.sha256(authority).hexdigest()[:16])
        groups = topology.groups_at(site) if site else topology.groups  # R4
        feeds = self._feeds(topology, list(groups), site, secrets, state)
        self.strands = self._strands(topology.partitions, feeds, site, state)
        self._progress_at = client.now()

    def step(self) -> bool:
        """One round: look where the inputs end, read, judge, merge, publish. Whether there was anything to do."""
        client, worked = self._client, False
        time = client.now()
        ends = client.ends()
        self._learn(ends[POLICY])
        for strand in self.strands:
            # What was read before is judged now: no change of the policy that came before it can be unknown (R6).
            for chunk in strand.advance(time, ends):
                client.publish(replace(chunk, audit=self._dated(chunk.audit)))
                self.admitted += len(chunk.tuples)
                self.admitted_bytes += sum(len(key or b"") + len(value or b"") for _, key, value, _ in chunk.tuples)
                self.transactions += 1
            for feed in strand.hungry():
                records, position = client.read((feed.topic, feed.partition))
                feed.take_in(records, position)
                worked = worked or bool(records)
        if time - self._progress_at >= PROGRESS_MS:
            self._progress_at = time
            self.behind = sum(
                max(0, ends[feed.topic, feed.partition] - feed.position) for s in self.strands for feed in s.feeds
            )
            self._write_progress()
        return worked

    def drain(self) -> None:
        """The last words of a run that ends in order; what is half done stays for the next."""
        self._audit.append({"event": "stop"})
        self._write_progress()

    def _begin(self, state: Mapping[str, str], partitions: int, authority: str) -> None:
        """R8: the state stands before the first tuple does, so its absence beside a log means that it was lost."""
        ends = {partition: self._client.log_end(partition) for partition in range(partitions)}
        if not state and any(ends.values()):
            raise LaneError(
                f"the state of lane `{self.name}` is missing beside a log that is not empty: restore "
                f"`lane.{self.name}`. To empty the log and build it again loses what its inputs no longer keep"
            )
        for partition, end in ends.items():
            if end < int(state.get(f"strand {partition}", "0").split()[0]):
                raise LaneError(f"the log of lane `{self.name}` holds less than its state says: restore it")
        if state.get("lane", authority) != authority:
            raise LaneError("this is not the login authority that the lane has known: all would be refused")
        if not state:
            self._client.publish(Chunk(0, [], {"lane": authority}))

    def _feeds(
        self, topology: Topology, groups: list[Group], site: Site | None, secrets: Secrets, state: Mapping[str, str]
    ) -> list[Feed]:
        wanted: dict[Place, int | None] = {POLICY: None}
        lasts: dict[int, dict[str, Last]] = {}  # by partition, not by topic: a source may move to another group
        for name, text in state.items():
            match name.split(" ", 2):
                case ["position", topic, partition]:
                    wanted[topic, int(partition)] = int(text)
                case ["last", partition, said]:
                    sequence, time = map(int, text.split())
                    lasts.setdefault(int(partition), {})[said] = Last(said, sequence, time)
        # Nothing is lost in silence, if the topology was changed before the lane was done with an input.
        known = {input_topic(group) for group in groups}
        self._audit += [
            {"event": "input-gone", "topic": topic, "partition": partition, "done-to": offset}
            for (topic, partition), offset in wanted.items()
            if topic not in known and topic != POLICY[0]
        ]
        places = {(input_topic(group), p): group for group in groups for p in range(topology.partitions)}
        started = self._client.start({place: wanted.get(place) for place in [POLICY, *places]})
        self._policy_position = started[POLICY]
        subject = site.subject if site else None
        feeds = []
        for place, group in places.items():
            judge = Judge(topology, group, subject, self.history, secrets, lasts.get(place[1], {}), place[1])
            feeds.append(Feed(*place, judge, started[place]))
        return feeds

    def _strands(
        self, partitions: int, feeds: list[Feed], site: Site | None, state: Mapping[str, str]
    ) -> list[Strand] | list[Sieve]:
        if site is None:
            return [Sieve(feed, self._shape) for feed in feeds]
        strands = []
        for partition in range(partitions):
            sequence, newest = map(int, state.get(f"strand {partition}", "0 0").split())
            own = [feed for feed in feeds if feed.partition == partition]
            if own:
                strands.append(Strand(partition, own, self._shape, sequence, newest))
        return strands

    def _learn(self, end: int) -> None:
        """R6: know the policy up to this tick before anything of it is judged."""
        while self._policy_position < end:
            records, position = self._client.read(POLICY)
            if position == self._policy_position:
                self._client.wait(TICK_SECONDS)
            self._policy_position = position
            for time, offset, _, value, _ in records:
                try:
                    self.history.add(time, value or b"")
                    self._audit.append({"event": "policy", "number": self.history.number})
                except PolicyError as error:
                    self.ignored += 1
                    self._audit.append({"event": "policy-ignored", "offset": offset, "why": str(error)})

    def _write_progress(self) -> None:
        """R3: in transactions that touch no level partition."""
        late = sum(strand.late for strand in self.strands)
        if late > self._late:
            self._audit.append({"event": "overrun", "tuples": late - self._late})  # R2
            self._late = late
        state: dict[str, str] = {}
        for strand in self.strands:
            state |= strand.progress()
        audit, self._audit = self._audit, []
        if state or audit:
            self._client.publish(Chunk(0, [], state, self._dated(audit)))

    def _dated(self, audit: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{"lane": self.name, "time": self._client.now(), **record} for record in audit]
