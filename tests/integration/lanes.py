"""A live cluster with lanes as processes, sources that speak, and logs read raw."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from console.broker import broker_directory
from console.commands import run
from console.speaker import SourceKey, Speaker
from console.where import Where
from shepherd.lane.judge import UNREADABLE
from shepherd.says import Proof
from tests.live import SECONDS
from tests.properties.lane_oracle import Oracle
from tests.raw_batches import Batch, aborted_by_markers, aborted_in, batches_of, end_of, visible
from topology import Topology, TopologyError, load, plan
from topology.embedded.broker import Broker, running
from topology.kafka_plan import input_topic, source_principal
from topology.provisioning.connection import Connection, connect
from topology.provisioning.kafka import provision
from topology.provisioning.secrets import Secrets

ROOT = Path(__file__).parents[2]
CLIENT = os.environ.get("BELLWETHER_CLIENT", "kafka-python")  # what lanes publish with


@dataclass
class Cluster:
    """A provisioned broker with the files of a whole cluster."""

    data: Path
    file: Path
    topology: Topology
    keys: dict[str, SourceKey] = field(default_factory=dict)
    port: int | None = None

    @property
    def where(self) -> Where:
        return Where(self.data)

    def door(self, principal: str) -> Connection:
        return self.where.door(principal)

    def administrator(self) -> Connection:
        return self.broker.home.connection()

    @contextmanager
    def up(self) -> Iterator["Cluster"]:
        """The broker runs and is provisioned inside the block."""
        with running(broker_directory(self.data), self.port) as self.broker:
            self.port = self.broker.home.ports()["client"]
            self.provision()
            yield self

    def provision(self) -> None:
        with connect(self.administrator()) as admin:
            secrets = Secrets(self.broker.home.secrets / "principals")
            provision(admin, plan(self.topology), secrets, self.administrator(), say=lambda text: None)

    broker: Broker = None  # type: ignore[assignment]

    def command(self, *words: str) -> None:
        """A command of the console on this cluster."""
        assert run([*words, "--data", str(self.data), "--output", "json"]) == 0

    def give_keys(self, *sources: str, proof: str = "hmac") -> None:
        for source in sources:
            self.command("source", "key", source, "--proof", proof, "--topology", str(self.file))
            self.keys[source] = SourceKey.read(self.where.source_keys(source))

    def speaker(self, source: str) -> Speaker:
        return Speaker(self.door(source_principal(source)), self.topology, source, self.keys[source])

    def lane(self, site: str, *words: str, dies_at: str = "") -> "subprocess.Popen[bytes]":
        """A lane as a process of its own, whose log is a file; one that dies at a step, if told so."""
        module = "tests.integration.victim" if dies_at else "console.main"
        command = [sys.executable, "-m", module, "lane", "run", "--site", site]
        command += ["--topology", str(self.file), "--data", str(self.data), "--client", CLIENT, *words]
        with (self.data / f"lane.{site}.log").open("ab") as log:
            environment = {**os.environ, "VICTIM": dies_at}
            return subprocess.Popen(command, stderr=log, stdout=log, cwd=ROOT, env=environment)

    def log_of(self, site: str) -> list[dict[str, Any]]:
        lines = (self.data / f"lane.{site}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def raw(self, topic: str, partition: int = 0) -> list[Batch]:
        with connect(self.administrator()) as admin:
            return batches_of(admin, topic, partition)

    def aborted(self, topic: str) -> list[Any]:
        with connect(self.administrator()) as admin:
            return list(aborted_in(admin, topic))

    def end(self, topic: str) -> int:
        with connect(self.administrator()) as admin:
            return end_of(admin, topic)

    def inputs(self) -> dict[tuple[str, int], list[Any]]:
        """All that the oracle needs of the inputs, read raw."""
        topics = [input_topic(group) for group in self.topology.groups]
        found: dict[tuple[str, int], list[Any]] = {}
        with connect(self.administrator()) as admin:
            for topic, partitions in [("policy", 1), *((topic, self.topology.partitions) for topic in topics)]:
                for partition in range(partitions):
                    found[topic, partition] = [
                        (r.timestamp, r.offset, r.key, r.value, [(name.decode(), text) for name, text in r.headers])
                        for batch in batches_of(admin, topic, partition)
                        for r in batch.records
                    ]
        return found

    def oracle(self) -> Oracle:
        """What SPECIFICATION.md makes of the inputs."""
        authority = bytes.fromhex(self.where.authority.read_text())
        hmac = {key.key_id: key.secret for key in self.keys.values() if key.proof is Proof.HMAC}
        return Oracle(self.topology, self.inputs(), authority, hmac, UNREADABLE)

    def seen(self, topic: str, partition: int = 0) -> list[Any]:
        """What readers of committed records are shown, worked out from the raw batches, in the oracle's form."""
        batches = self.raw(topic, partition)
        return [
            (r.timestamp, r.key, r.value, [(name.decode(), text) for name, text in r.headers])
            for r in visible(batches, aborted_by_markers(batches))
        ]

    def committed(self, topic: str, partition: int = 0) -> list[Any]:
        """What a reader of committed records sees."""
        place = TopicPartition(topic, partition)
        settings = self.administrator().client_settings()
        consumer = KafkaConsumer(
            **settings, group_id=None, enable_auto_commit=False, isolation_level="read_committed", check_crcs=True
        )
        try:
            consumer.assign([place])
            consumer.seek_to_beginning()
            end, found = consumer.end_offsets([place])[place], []
            while consumer.position(place) < end:
                found += consumer.poll(timeout_ms=200).get(place, [])
            return found
        finally:
            consumer.close()

    def caught_up(self, site: str) -> bool:
        """Whether the lane has done with everything that its inputs hold."""
        words = ["lane", "status", "--site", site, "--topology", str(self.file), "--data", str(self.data), "-o", "json"]
        return run(words) == 0


def cluster_in(directory: Path, text: str | None = None, example: str = "battlefield") -> Cluster:
    """A cluster that is not up yet, of a topology given as text or of an example."""
    file = directory / "bellwether.yaml"
    shape = text if text is not None else (ROOT / "topology" / "examples" / f"{example}.yaml").read_text()
    file.write_text(shape)
    return Cluster(directory / "data", file, load(str(file)))


def stop(*processes: "subprocess.Popen[bytes]", number: int = signal.SIGTERM) -> list[int]:
    """End processes and say how they ended."""
    for process in processes:
        if process.poll() is None:
            os.kill(process.pid, number)
    return [process.wait(SECONDS) for process in processes]


class Load:
    """Sources that speak without pause, until told to stop; what was acknowledged is counted."""

    def __init__(self, cluster: Cluster, said: Sequence[tuple[str, str, str]], per_second: int = 400) -> None:
        """`said` is a list of source, stream, label."""
        self._cluster, self._said, self._per_second = cluster, said, per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged = 0
        self.errors: list[str] = []

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            speakers: dict[str, Speaker] = {}
            try:
                for source, _, _ in self._said:
                    if source not in speakers:
                        speakers[source] = self._cluster.speaker(source)
                while not self._stop.is_set():
                    for _ in range(max(1, self._per_second // 20)):
                        source, stream, label = self._said[number % len(self._said)]
                        number += 1
                        value = b'{"sid": "s%d", "bp": %d, "pr": 60}' % (number % 9, number)
                        speakers[source].say(stream, value, label)
                    before = sum(speaker.acknowledged for speaker in speakers.values())
                    for speaker in speakers.values():
                        speaker.flush()
                    self.acknowledged += sum(speaker.acknowledged for speaker in speakers.values()) - before
                    time.sleep(0.05)
            except TopologyError as error:  # the broker may be away; what was not acknowledged is not counted
                self.errors.append(str(error))
                time.sleep(0.5)
            finally:
                for speaker in speakers.values():
                    speaker._producer.close(timeout=1)
