"""A cluster in memory for lanes: what brokers, clocks, networks and crashes do to them, and nothing that helps them.

Sources follow a script: what they append, when, and what the broker's clock said. Time passes in every call of a
client, so records are appended between any two calls. A read gives some of what is there, or nothing. Logs written
in transactions are kept as Kafka lays them out: data and markers, both of which take offsets. Faults may end a call
at every step of it.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from shepherd.lane.client import Away, Fenced
from shepherd.lane.judge import UNREADABLE as UNREADABLE
from shepherd.lane.strand import Chunk

Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[str, int]
Record = tuple[int, int, bytes | None, bytes | None, Headers]  # append time, offset, key, value, headers
Outgoing = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]  # time, key, value, headers

POLICY: Place = ("policy", 0)
QUARANTINE = "quarantine"


class Crash(Exception):
    """The process is gone."""


@dataclass(frozen=True)
class Append:
    """One line of the script: what is appended where, when (`at`), and the time that the broker stamps on it."""

    at: int
    stamp: int
    place: Place
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    gap: int = 0  # offsets that are missing before it


def lay_out(script: Iterable[Append], bases: Mapping[Place, int]) -> dict[Place, list[Record]]:
    """All inputs once the script has run to its end."""
    inputs: dict[Place, list[Record]] = {place: [] for place in bases}
    for line in script:
        _append(inputs, bases, line)
    return inputs


def _append(inputs: dict[Place, list[Record]], bases: Mapping[Place, int], line: Append) -> None:
    records = inputs[line.place]
    offset = (records[-1][1] + 1 if records else bases[line.place]) + line.gap
    records.append((line.stamp, offset, line.key, line.value, line.headers))


class Faults(Protocol):
    """Says where calls end in a fault."""

    def at(self, point: str) -> None:
        """Raise Crash or Away, or let the call go on."""


class NoFaults:
    """All goes well; counts the points at which it might not have."""

    def __init__(self) -> None:
        self.points = 0

    def at(self, point: str) -> None:
        self.points += 1


class RandomFaults:
    """A fault at any point, with some likelihood, so many of them at most."""

    def __init__(self, rng: random.Random, likelihood: float, most: int) -> None:
        self._rng, self._likelihood, self._left = rng, likelihood, most
        self.happened: Counter[str] = Counter()

    def at(self, point: str) -> None:
        if self._left and self._rng.random() < self._likelihood:
            self._left -= 1
            self.happened[point] += 1
            raise Away("simulated") if self._rng.random() < 0.3 else Crash(point)

    def stop(self) -> None:
        """No more faults."""
        self._left = 0


class NthFault:
    """A crash at exactly one point of a run, counted from 0."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.point = ""

    def at(self, point: str) -> None:
        self._left -= 1
        if self._left == -1:
            self.point = point
            raise Crash(point)


class PublishFaults:
    """Crashes at chosen steps of chosen transactions with tuples: {number of the transaction: step}."""

    def __init__(self, steps: Mapping[int, str]) -> None:
        self._steps = dict(steps)
        self._number = -1
        self.happened = 0

    def at(self, point: str) -> None:
        if point == "tuples: before":
            self._number += 1
        if self._steps.get(self._number) == point:
            del self._steps[self._number]
            self.happened += 1
            raise Crash(point)


@dataclass
class Transaction:
    """One producer's transaction; what became of it is None while it is open."""

    number: int
    producer: str
    outcome: str | None = None
    places: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """One offset of a log: data or a marker of a transaction."""

    offset: int
    transaction: Transaction
    kind: str  # "data", "COMMIT" or "ABORT"
    time: int = 0
    key: bytes | str | None = None
    value: object = None
    headers: tuple[tuple[str, bytes], ...] = ()


class SimulatedCluster:
    """Inputs that fill by the script, logs that fill in transactions, and one clock that never goes back."""

    def __init__(self, script: Sequence[Append], bases: Mapping[Place, int], clock: int, rng: random.Random) -> None:
        assert all(a.at <= b.at for a, b in pairwise(script)), "the script is in order"
        self.clock = clock
        self.inputs: dict[Place, list[Record]] = {place: [] for place in bases}
        self.bases = bases
        self.logs: dict[Place, list[Entry]] = {}
        self._script, self._line, self._rng = script, 0, rng
        self._epochs: Counter[str] = Counter()
        self._open: dict[str, Transaction] = {}
        self._transactions = 0
        self._append_due()

    @property
    def finished(self) -> bool:
        """Whether the script has run to its end."""
        return self._line == len(self._script)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and with it the script."""
        self.clock += milliseconds
        self._append_due()

    def _append_due(self) -> None:
        """All of the milliseconds before this one; of this one, only some: it is not over."""
        while self._line < len(self._script):
            line = self._script[self._line]
            if line.at > self.clock or (line.at == self.clock and self._rng.random() < 0.3):
                return
            _append(self.inputs, self.bases, line)
            self._line += 1

    def end(self, place: Place) -> int:
        """The end offset of an input."""
        records = self.inputs[place]
        return records[-1][1] + 1 if records else self.bases[place]

    def available(self, place: Place, position: int) -> list[Record]:
        """What an input has from this offset on."""
        records = self.inputs[place]
        return records[bisect_left(records, position, key=lambda record: record[1]) :]

    def fence(self, producer: str) -> int:
        """A new epoch of a producer; what the one before left open is aborted."""
        self._epochs[producer] += 1
        if producer in self._open:
            self.finish(self._open[producer], "ABORT")
        return self._epochs[producer]

    def check_epoch(self, producer: str, epoch: int) -> None:
        """Only the newest epoch of a producer may do anything."""
        if self._epochs[producer] != epoch:
            raise Fenced("simulated")

    def begin(self, producer: str) -> Transaction:
        """A new transaction."""
        assert producer not in self._open, "a transaction begins inside of another one"
        self._transactions += 1
        transaction = self._open[producer] = Transaction(self._transactions, producer)
        return transaction

    def write(
        self,
        transaction: Transaction,
        place: Place,
        time: int,
        key: bytes | str | None,
        value: object,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> None:
        """Data of a transaction."""
        log = self.logs.setdefault(place, [])
        log.append(Entry(len(log), transaction, "data", time, key, value, tuple(headers)))
        if place not in transaction.places:
            transaction.places.append(place)

    def finish(self, transaction: Transaction, outcome: str) -> None:
        """Commit or abort: a marker in every partition that has data of the transaction."""
        transaction.outcome = outcome
        for place in transaction.places:
            log = self.logs[place]
            log.append(Entry(len(log), transaction, outcome))
        del self._open[transaction.producer]

    def committed(self, place: Place) -> list[Entry]:
        """What a reader of committed data sees."""
        return [e for e in self.logs.get(place, []) if e.kind == "data" and e.transaction.outcome == "COMMIT"]

    def compacted(self, place: Place) -> dict[str, str]:
        """The last committed value of each key."""
        return {str(entry.key): str(entry.value) for entry in self.committed(place)}

    def cuts(self, place: Place) -> list[int]:
        """The sizes of the committed transactions of a log, in the order in which they stand there."""
        return list(Counter(entry.transaction.number for entry in self.committed(place)).values())

    def layout(self, place: Place) -> list[tuple[object, ...]]:
        """All that can be seen of a log, offset by offset, with transactions numbered as they appear in it."""
        numbers: dict[int, int] = {}
        return [
            (
                e.offset,
                numbers.setdefault(e.transaction.number, len(numbers)),
                e.kind,
                e.time,
                e.key,
                e.value,
                e.headers,
            )
            for e in self.logs.get(place, [])
        ]


class SimulatedClient:
    """One lane's connection to the cluster."""

    def __init__(
        self, cluster: SimulatedCluster, lane: str, rng: random.Random, faults: Faults, pace: int = 5, most: int = 8
    ) -> None:
        """`lane` is a site's name or `quarantine`; `pace` is how slow calls are, `most` the size of a fetch."""
        self.cluster, self.lane, self.faults = cluster, lane, faults
        self.positions: dict[Place, int] = {}
        self.published = 0
        self._rng, self._pace, self._most = rng, pace, most
        self._epoch = 0
        self._log = QUARANTINE if lane == QUARANTINE else f"level.{lane}"
        self._state: Place = (f"lane.{lane}", 0)

    def _step(self, point: str) -> None:
        """Between any two things time may pass, and all may end."""
        draw = self._rng.random()
        if draw < 0.5:
            self.cluster.pass_time(0)
        elif draw < 0.98:
            self.cluster.pass_time(self._rng.randint(0, self._pace))
        else:
            self.cluster.pass_time(self._rng.randint(0, 40 * self._pace))
        self.faults.at(point)

    def open(self) -> dict[str, str]:
        self._step("open: before")
        self._epoch = self.cluster.fence(self.lane)
        self._step("open: fenced")
        state = self.cluster.compacted(self._state)
        self._step("open: after")
        return state

    def log_end(self, partition: int) -> int:
        self._step("log_end")
        return len(self.cluster.logs.get((self._log, partition), []))

    def start(self, positions: Mapping[Place, int | None]) -> dict[Place, int]:
        self._step("start")
        bases = self.cluster.bases
        self.positions = {place: bases[place] if at is None else at for place, at in positions.items()}
        self._step("start: after")
        return dict(self.positions)

    def now(self) -> int:
        self._step("now")
        return self.cluster.clock

    def ends(self) -> Mapping[Place, int]:
        self._step("ends")
        ends = {place: self.cluster.end(place) for place in self.positions}
        self._step("ends: after")
        return ends

    def read(self, place: Place) -> tuple[Sequence[Record], int]:
        self._step("read")
        records: list[Record] = []
        if self._rng.random() < 0.75:
            records = self.cluster.available(place, self.positions[place])[: self._rng.randint(1, self._most)]
        if records:
            self.positions[place] = records[-1][1] + 1
        self._step("read: after")
        return records, self.positions[place]

    def publish(self, chunk: Chunk) -> None:
        what = "tuples" if chunk.tuples else "progress"
        self._step(f"{what}: before")
        cluster, epoch = self.cluster, self._epoch
        cluster.check_epoch(self.lane, epoch)
        transaction = cluster.begin(self.lane)
        for number, (time, key, value, headers) in enumerate(chunk.tuples):
            cluster.write(transaction, (self._log, chunk.partition), time, key, value, headers)
            self._step(f"{what}: {'first' if number == 0 else 'some'} written")
        for name, text in chunk.state.items():
            assert isinstance(name, str)
            assert isinstance(text, str)
            cluster.write(transaction, self._state, cluster.clock, name, text)
        self._step(f"{what}: state written")
        for record in chunk.audit:
            cluster.write(transaction, ("audit", 0), cluster.clock, self.lane, dict(record))
        self._step(f"{what}: all written")
        cluster.check_epoch(self.lane, epoch)
        cluster.finish(transaction, "COMMIT")
        self.published += 1
        self._step(f"{what}: committed")

    def wait(self, seconds: float) -> None:
        self.cluster.pass_time(int(seconds * 1000))
        self._step("wait")

    def close(self) -> None:
        self._step("close")

    @property
    def caught_up(self) -> bool:
        """Whether everything was read."""
        return bool(self.positions) and all(self.cluster.end(place) == at for place, at in self.positions.items())
