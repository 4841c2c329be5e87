"""What a lane needs of a Kafka client; kafka-python, librdkafka and the tests' simulator give it."""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from shepherd.lane.strand import Chunk, Place, Record


class LaneError(Exception):
    """The lane cannot go on: the message says why, for people at system high."""


class Fenced(LaneError):
    """R8: another process runs this lane."""


class Away(LaneError):
    """The cluster does not answer; trying again later may help."""


class Client(Protocol):
    """One lane's connection. Every method raises Fenced, Away or LaneError."""

    def open(self) -> dict[str, str]:
        """R8: fence out whoever ran this lane before, then read the state it left."""

    def log_end(self, partition: int) -> int:
        """The end offset of a partition of the lane's log."""

    def start(self, positions: Mapping[Place, int | None]) -> dict[Place, int]:
        """Read these inputs from these offsets, None meaning the first there is; the offsets that came of it."""

    def now(self) -> int:
        """The time in milliseconds."""

    def ends(self) -> Mapping[Place, int]:
        """The end offsets of all inputs at this moment."""

    def read(self, place: Place) -> tuple[Sequence[Record], int]:
        """Some of the next records of an input, maybe none, and the offset behind them."""

    def publish(self, chunk: Chunk) -> None:
        """One transaction: its tuples to the lane's log, its state to `lane.<site>`, its audit records to `audit`."""

    def wait(self, seconds: float) -> None:
        """Sleep, but not through a signal to stop."""

    def close(self) -> None:
        """Let go of the cluster."""


def encode_audit(record: Mapping[str, object]) -> bytes:
    """An audit record as it is written."""
    return json.dumps(record, separators=(",", ":")).encode()
