"""The least that a lane could be: records go from one topic to another and get two headers. Nothing is verified.

What a lane costs is told as a ratio to this loop. It is written as one would write it who wants it fast: large
fetches and batches, a fixed partition, no waiting for single records, headers made without formatting. The child
process counts its CPU time from when both clients are connected until all is acknowledged.
"""

import argparse
import hashlib
import importlib
import json
import struct
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.cluster import Cluster, Record
from benchmarks.harness import Round, Variant, run_child
from topology.provisioning.connection import Connection
from topology.provisioning.knock import MECHANISM

STAMP = b"L 00000000 by patrol"  # about as long as the stamp of a lane
SAYS_BYTES = 64
PACK_SEQUENCE = struct.Struct(">q").pack
POLL_RECORDS = 10_000
FETCH_BYTES = 4 << 20
BATCH_BYTES = 1 << 19  # while more than one batch waits, kafka-python wakes its sender for every record
LINGER_MS = 20
SECONDS = 120


@dataclass(frozen=True)
class Job:
    """Which records to copy where, on partition 0 of both topics."""

    source: str
    start: int
    count: int
    target: str


def sample_records(count: int, says_bytes: int = SAYS_BYTES) -> Iterable[Record]:
    """Records as a source writes them: a value of 100 bytes and one header with what the source says."""
    says = [("bw-says", b"s" * says_bytes)]
    for number in range(count):
        value = b'{"sid": "s%06d", "bp": %d, "pr": %d, "at": ' % (number % 1000, 90 + number % 60, 50 + number % 70)
        yield Record(b"s%06d" % (number % 1000), value + b'"' + b"x" * (98 - len(value)) + b'"}', says)


def variant(cluster: Cluster, principal: str, job: Job, client: str = "kafka-python") -> Variant:
    """Rounds of this loop in fresh processes of their own; what they wrote is read back and checked."""
    options = ["--client", client, "--source", job.source, "--start", str(job.start)]
    options += ["--count", str(job.count), "--target", job.target]
    command = [sys.executable, "-m", "benchmarks.bare_loop", *cluster.arguments(principal), *options]

    def run() -> Round:
        begin, broker = cluster.end(job.target), cluster.broker_cpu_seconds()
        report = run_child(command).report
        broker = cluster.broker_cpu_seconds() - broker
        outcome = digest((r.key, r.value, r.timestamp, r.headers) for r in cluster.read(job.target, begin))
        return Round(report["cpu_seconds"], report["count"], outcome, broker)

    copied = enumerate(cluster.read(job.source, job.start)[: job.count])
    expected = digest((r.key, r.value, r.timestamp, stamps(number)) for number, r in copied)
    return Variant(f"bare loop with {client}", run, expected)


def stamps(number: int) -> list[tuple[str, bytes]]:
    """The headers of the record of that number."""
    return [("bw-stamp", STAMP), ("bw-seq", PACK_SEQUENCE(number))]


def digest(records: Iterable[tuple[bytes, bytes, int, list[tuple[str, bytes]]]]) -> tuple[int, str]:
    """How many records there are, and a sum over all that is in them, in order."""
    total, count = hashlib.sha256(), 0
    for record in records:
        total.update(repr(record).encode())
        count += 1
    return count, total.hexdigest()


def copy_with_kafka_python(door: Connection, job: Job) -> float:
    """Do the job with kafka-python; return the CPU seconds it took."""
    consumer = KafkaConsumer(
        **door.client_settings(),
        group_id=None,
        enable_auto_commit=False,
        max_partition_fetch_bytes=FETCH_BYTES,
        max_poll_records=POLL_RECORDS,
    )
    producer = KafkaProducer(**door.client_settings(), acks="all", batch_size=BATCH_BYTES, linger_ms=LINGER_MS)
    source = TopicPartition(job.source, 0)
    consumer.assign([source])
    consumer.seek(source, job.start)
    consumer.end_offsets([source])
    producer.partitions_for(job.target)
    send, target, left = producer.send, job.target, job.count
    begin = time.process_time()
    while left:
        for record in consumer.poll(SECONDS * 1000, left if left < POLL_RECORDS else None)[source]:
            headers = [("bw-stamp", STAMP), ("bw-seq", PACK_SEQUENCE(job.count - left))]
            last = send(target, record.value, record.key, headers, 0, record.timestamp)
            left -= 1
    producer.flush(SECONDS)
    last.get(0)
    used = time.process_time() - begin
    producer.close()
    consumer.close()
    return used


def copy_with_librdkafka(door: Connection, job: Job) -> float:
    """Do the job with confluent-kafka; return the CPU seconds it took."""
    confluent: Any = importlib.import_module("confluent_kafka")
    common = {
        "bootstrap.servers": door.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(door.authority),
        "sasl.mechanism": MECHANISM,
        "sasl.username": door.username,
        "sasl.password": door.password,
    }
    consumer = confluent.Consumer(
        common
        | {
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "max.partition.fetch.bytes": FETCH_BYTES,
        }
    )
    producer = confluent.Producer(
        common
        | {
            "acks": "all",
            "enable.idempotence": True,
            "batch.size": BATCH_BYTES,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    consumer.list_topics(job.source, timeout=SECONDS)
    producer.list_topics(job.target, timeout=SECONDS)
    consumer.assign([confluent.TopicPartition(job.source, 0, job.start)])
    produce, target, left = producer.produce, job.target, job.count
    begin = time.process_time()
    while left:
        for record in consumer.consume(min(left, POLL_RECORDS), timeout=1):
            if error := record.error():
                if error.code() == confluent.KafkaError.GROUP_AUTHORIZATION_FAILED:
                    continue  # it looks for the group's coordinator, which nobody may, and then works without
                raise confluent.KafkaException(error)
            headers = [("bw-stamp", STAMP), ("bw-seq", PACK_SEQUENCE(job.count - left))]
            produce(target, record.value(), record.key(), 0, timestamp=record.timestamp()[1], headers=headers)
            left -= 1
        producer.poll(0)
    if producer.flush(SECONDS):
        raise TimeoutError("not all was acknowledged")
    used = time.process_time() - begin
    consumer.close()
    return used


CLIENTS = {"kafka-python": copy_with_kafka_python, "librdkafka": copy_with_librdkafka}


def main() -> None:
    """Do one job in this process and report it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bare_loop", description=__doc__)
    for name in ("--bootstrap", "--user", "--source", "--target"):
        parser.add_argument(name, required=True)
    for name in ("--ca", "--password-file"):
        parser.add_argument(name, required=True, type=Path)
    for name in ("--start", "--count"):
        parser.add_argument(name, required=True, type=int)
    parser.add_argument("--client", choices=sorted(CLIENTS), default="kafka-python")
    given = parser.parse_args()
    door = Connection(given.bootstrap, given.ca, given.user, given.password_file.read_text().strip())
    used = CLIENTS[given.client](door, Job(given.source, given.start, given.count, given.target))
    print(json.dumps({"client": given.client, "cpu_seconds": used, "count": given.count}))


if __name__ == "__main__":
    main()
