"""A provisioned broker of its own for a benchmark, and quick hands to fill and read its topics."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from topology import KafkaPlan, Topology, plan
from topology.embedded.broker import running
from topology.embedded.home import Home
from topology.provisioning.connection import Connection, connect
from topology.provisioning.kafka import provision
from topology.provisioning.secrets import Secrets

SECONDS = 120  # for anything that a loaded machine may delay


@dataclass(frozen=True)
class Record:
    """What is written to an input topic."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True)
class Cluster:
    """A provisioned broker."""

    plan: KafkaPlan
    home: Home
    secrets: Secrets
    broker_pid: int

    def door(self, principal: str) -> Connection:
        """How a principal of the plan reaches the broker."""
        return replace(self.home.connection(), username=principal, password=self.secrets.password(principal))

    def arguments(self, principal: str) -> list[str]:
        """The same for the command line of a child process: a password goes by its file."""
        door, password_file = self.door(principal), self.secrets.password_file(principal)
        return [
            "--bootstrap", door.bootstrap, "--ca", str(door.authority),
            "--user", principal, "--password-file", str(password_file),
        ]  # fmt: skip

    def preload(self, topic: str, records: Iterable[Record], partition: int = 0) -> int:
        """Write records to a topic, in order; return the offset of the first one."""
        first = self.end(topic, partition)
        settings = self.home.connection().client_settings()
        producer = KafkaProducer(**settings, batch_size=1 << 17, linger_ms=50)
        try:
            last = None
            for record in records:
                last = producer.send(topic, record.value, record.key, record.headers, partition)
            producer.flush(SECONDS)
            if last is not None:
                last.get(SECONDS)
        finally:
            producer.close()
        return first

    def end(self, topic: str, partition: int = 0) -> int:
        """The offset after the last committed record."""
        with self._reader() as reader:
            return _end(reader, TopicPartition(topic, partition))

    def read(self, topic: str, start: int, partition: int = 0) -> list[Any]:
        """All committed records from an offset to the end."""
        place = TopicPartition(topic, partition)
        with self._reader() as reader:
            end, records = _end(reader, place), []
            reader.assign([place])
            reader.seek(place, start)
            deadline = time.monotonic() + SECONDS
            while reader.position(place) < end:
                # Shortly: what is left may be the mark of a transaction's end, which is no record.
                records += reader.poll(100).get(place, [])
                if time.monotonic() > deadline:
                    raise TimeoutError(f"`{topic}` cannot be read to its end within {SECONDS} seconds")
        return records

    def broker_cpu_seconds(self) -> float:
        """The CPU time that the broker has used so far, user and system."""
        # Fields 14 and 15 of /proc/<pid>/stat; the name before them is in parentheses and may hold anything.
        fields = Path(f"/proc/{self.broker_pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def _reader(self) -> Iterator[KafkaConsumer]:
        reader = KafkaConsumer(
            **self.home.connection().client_settings(),
            group_id=None,
            isolation_level="read_committed",
            max_poll_records=10_000,
        )
        try:
            yield reader
        finally:
            reader.close()


@contextmanager
def cluster(topology: Topology) -> Iterator[Cluster]:
    """A broker in a temporary directory, provisioned for a topology; gone after the block."""
    wanted = plan(topology)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory, running(Path(directory)) as broker:
        secrets = Secrets(broker.home.secrets / "principals")
        with connect(broker.home.connection()) as admin:
            provision(admin, wanted, secrets, broker.home.connection(), say=lambda text: None)
        yield Cluster(wanted, broker.home, secrets, broker.process.pid)


def _end(reader: KafkaConsumer, place: TopicPartition) -> int:
    return int(reader.end_offsets([place])[place])
