"""What tests on live brokers share."""

import time
from collections.abc import Callable
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from topology.provisioning.connection import Connection, connect

SECONDS = 60  # for anything that a loaded machine may delay; a second is usual


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + SECONDS
    while not (done := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return done


def enter(door: Connection) -> None:
    """Log in and out again."""
    with connect(door):
        pass


def write(door: Connection, topic: str, value: bytes) -> None:
    """Write one value to a topic."""
    producer = KafkaProducer(**door.client_settings(), enable_idempotence=False, max_block_ms=SECONDS * 1000)
    try:
        producer.send(topic, value).get(timeout=SECONDS)
    finally:
        producer.close()


def read(door: Connection, topic: str, count: int) -> list[bytes]:
    """The first `count` values of a topic."""
    consumer = KafkaConsumer(
        topic, **door.client_settings(), group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS * 1000
    )
    try:
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == count:
                break
        return values
    finally:
        consumer.close()


def command_lines(fragment: str) -> dict[int, str]:
    """The command lines of all processes that have `fragment` in theirs."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if fragment in line:
                found[int(entry.name)] = line
    return found
