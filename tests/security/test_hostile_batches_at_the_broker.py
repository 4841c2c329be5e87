"""What a source with valid credentials and no manners can do to the broker: bytes that are no tuple at all.

The broker checks the frame of a batch, not what is in it. So these tests say both what never gets past it, which
readers of input topics need not fear, and what does, which they must bear.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from tests.conftest import Figure
from tests.hostile_producer import (
    LIES,
    MB,
    ODDITIES,
    Answer,
    Record,
    batch,
    gzip_bomb_of_length_only,
    gzip_bomb_of_many_records,
    gzip_bomb_of_one_value,
    offer,
    snappy_bomb_of_length_only,
    value_of_batch_size,
    zstd_bomb_of_one_value,
)
from tests.live import SECONDS, command_lines
from tests.raw_batches import LOG_APPEND_TIME, NONE, Batch, batches_of, end_of
from tests.security.conftest import Live
from topology.kafka_plan import source_principal
from topology.provisioning.connection import connect

pytestmark = pytest.mark.parametrize("live", ["battlefield"], indirect=True)

SOURCE = source_principal("patrol")
MOST_BROKER_MB = 1024  # twice its heap
LIMIT = "max.message.bytes"
A_PRODUCER = 1_000_001

REFUSALS = {
    Answer.CORRUPT_MESSAGE: {
        "wrong CRC", "magic 3", "batch length too small", "batch length negative", "random bytes",
    },
    Answer.INVALID_TIMESTAMP: {"LogAppendTime claimed, far ahead"},
    Answer.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: {
        "commit marker", "transactional flag without a transaction", "transactional flag without a producer id",
    },
    Answer.UNKNOWN: {
        "not gzip at all", "not snappy at all", "not lz4 at all", "not zstd at all", "gzip cut off",
        "compression 5, which is none",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def source(live: Live) -> Iterator[KafkaAdminClient]:
    """The hostile source, logged in."""
    with connect(live.connection(SOURCE)) as client:
        yield client


@pytest.fixture(scope="module")
def reader(live: Live) -> Iterator[KafkaAdminClient]:
    """The administrator, who sees what was stored."""
    with connect(live.home.connection()) as client:
        yield client


@pytest.fixture(scope="module")
def topic(live: Live) -> str:
    """The input topic for Vitals that the source may write."""
    (name,) = (a.resource.name for a in live.plan.acls if a.principal == SOURCE and ".Vitals." in a.resource.name)
    return name


def refusal(name: str) -> Answer:
    """How a lie is refused; as an invalid record, if it is not told otherwise above."""
    return next((answer for answer, names in REFUSALS.items() if name in names), Answer.INVALID_RECORD)


def broker_mb(live: Live) -> int:
    """The memory that the broker holds."""
    (process,) = (pid for pid, line in command_lines(str(live.home.properties)).items() if "kafka.Kafka" in line)
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) >> 10


def test_all_refusals_are_of_lies_that_are_told(live: Live) -> None:
    assert set().union(*REFUSALS.values()) <= set(LIES)


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_is_refused_and_nothing_of_it_stored(
    source: KafkaAdminClient, reader: KafkaAdminClient, topic: str, lie: str
) -> None:
    before = end_of(reader, topic)
    assert offer(source, topic, LIES[lie]()) is refusal(lie)
    assert batches_of(reader, topic, start=before) == []


@pytest.mark.parametrize("oddity", ODDITIES)
def test_an_odd_batch_is_stored_unpacked_and_with_the_clock_of_the_broker(
    source: KafkaAdminClient, reader: KafkaAdminClient, topic: str, oddity: str
) -> None:
    before, earliest = end_of(reader, topic), int(time.time() * 1000)
    assert offer(source, topic, ODDITIES[oddity]()) is Answer.NONE
    (stored,) = batches_of(reader, topic, start=before)
    assert (stored.compression, stored.timestamp_type, stored.transactional, stored.control) == (
        NONE, LOG_APPEND_TIME, False, False,
    )  # fmt: skip
    assert all(earliest <= record.timestamp <= earliest + SECONDS * 1000 for record in stored.records)
    # Whatever the records claim, the batch itself takes up one offset for each, right after the one before.
    assert stored.base_offset == before
    assert stored.last_offset_delta == len(stored.records) - 1


def test_what_a_hostile_source_can_make_a_reader_see(
    source: KafkaAdminClient, reader: KafkaAdminClient, topic: str
) -> None:
    """The broker looks into no record, so neither names of headers nor offsets inside a batch can be relied on."""

    def stored(oddity: str) -> Batch:
        before = end_of(reader, topic)
        offer(source, topic, ODDITIES[oddity]())
        return batches_of(reader, topic, start=before)[0]

    assert stored("header name not UTF-8").records[0].headers == ((b"\xff\xfe\xc0\x80", b"x"),)
    assert stored("the same header twice").records[0].headers == ((b"label", b"L"), (b"label", b"H"))
    assert len(stored("10,000 headers").records[0].headers) == 10_000
    ahead, doubled = stored("offset delta far ahead"), stored("offset deltas all 0")
    assert ahead.records[0].offset == ahead.last_offset + 1_000_000
    assert [record.offset - doubled.base_offset for record in doubled.records] == [0, 0]


def test_the_greatest_batch_is_as_great_as_the_topology_says(
    live: Live, source: KafkaAdminClient, reader: KafkaAdminClient, topic: str
) -> None:
    limit, before = int(live.plan.topics[topic].settings[LIMIT]), end_of(reader, topic)
    assert offer(source, topic, value_of_batch_size(limit + 1)) is Answer.MESSAGE_TOO_LARGE
    assert batches_of(reader, topic, start=before) == []
    assert offer(source, topic, value_of_batch_size(limit)) is Answer.NONE
    assert [len(stored.raw) for stored in batches_of(reader, topic, start=before)] == [limit]


def test_a_packed_batch_is_held_to_the_limit_unpacked(
    live: Live, source: KafkaAdminClient, reader: KafkaAdminClient, topic: str, figure: Figure
) -> None:
    before = end_of(reader, topic)
    for bomb in (gzip_bomb_of_one_value(32 * MB), gzip_bomb_of_many_records(200_000)):
        assert len(bomb) < int(live.plan.topics[topic].settings[LIMIT])
        assert offer(source, topic, bomb) is Answer.MESSAGE_TOO_LARGE
    assert batches_of(reader, topic, start=before) == []
    assert offer(source, topic, batch()) is Answer.NONE
    held = broker_mb(live)
    figure(f"hostile batches: {len(LIES)} refused, {len(ODDITIES)} stored, then the broker held {held} MB")
    assert held < MOST_BROKER_MB


@pytest.mark.parametrize(
    "bomb",
    [
        lambda: gzip_bomb_of_one_value(300 * MB),
        gzip_bomb_of_length_only,
        lambda: zstd_bomb_of_one_value(1000 * MB),
        snappy_bomb_of_length_only,
    ],
    ids=["gzip of 300 MB", "gzip that says 2 GB", "zstd of 1 GB", "snappy that says 2 GB"],
)
def test_a_batch_that_would_take_all_memory_is_refused_and_the_broker_goes_on(
    live: Live, source: KafkaAdminClient, reader: KafkaAdminClient, topic: str, bomb: Callable[[], bytes]
) -> None:
    before = end_of(reader, topic)
    assert offer(source, topic, bomb()) in (Answer.UNKNOWN, Answer.MESSAGE_TOO_LARGE)
    assert offer(source, topic, batch()) is Answer.NONE
    assert len(batches_of(reader, topic, start=before)) == 1
    assert broker_mb(live) < MOST_BROKER_MB


def test_who_makes_up_the_producer_id_of_another_makes_the_broker_swallow_what_that_one_writes(
    source: KafkaAdminClient, reader: KafkaAdminClient, topic: str
) -> None:
    """Producer ids are not bound to anybody: sources that share an input topic must not rely on them."""
    before = end_of(reader, topic)

    def write(value: bytes, epoch: int, sequence: int) -> Answer:
        made = batch([Record(value)], producer_id=A_PRODUCER, producer_epoch=epoch, base_sequence=sequence)
        return offer(source, topic, made)

    assert write(b"the thief's", 0, 0) is Answer.NONE
    assert write(b"the owner's", 0, 0) is Answer.NONE  # as if it were a repetition
    assert write(b"the thief's, of a later epoch", 1, 0) is Answer.NONE
    assert write(b"the owner's, at last", 0, 1) is Answer.INVALID_PRODUCER_EPOCH
    stored = [record.value for one in batches_of(reader, topic, start=before) for record in one.records]
    assert stored == [b"the thief's", b"the thief's, of a later epoch"]
