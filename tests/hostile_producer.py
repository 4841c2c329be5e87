"""A source with valid credentials that writes whatever bytes it likes.

`batch` puts any bytes into a record batch, right unless told to lie; below it, what is worth trying, by name.
`offer` hands a batch to the broker and gives back the broker's error code.
"""

import random
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat

from crc32c import crc32c
from kafka.admin import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest

from tests.raw_batches import FRONT, GZIP, LENGTH_COUNTS_FROM, NONE, REST, SNAPPY, ZSTD
from tests.security.broker_requests import BY_NAME, WAIT_MS, send

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20  # in a batch's attributes
NOBODY = -1  # no producer id, no epoch, no sequence
MADE_UP_PRODUCER = 4_242_424_242
YEAR_MS = 365 * 24 * 3_600_000
NOT_UTF_8 = b"\xff\xfe\xc0\x80"
CHUNK = MB = 1 << 20

Header = tuple[bytes, bytes | None]


class Answer(IntEnum):
    """The error codes that a broker answers a hostile batch with; the numbers are Kafka's own."""

    UNKNOWN = -1
    NONE = 0
    CORRUPT_MESSAGE = 2
    MESSAGE_TOO_LARGE = 10
    INVALID_TIMESTAMP = 32
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    INVALID_RECORD = 87


@dataclass(frozen=True)
class Record:
    """A record to be written. What is None is worked out; the rest is written as it is, true or not."""

    value: bytes | None = b"tuple"
    key: bytes | None = None
    headers: Sequence[Header] = ()
    attributes: int = 0
    timestamp_delta: int = 0
    offset_delta: int | None = None
    size: int | None = None
    value_size: int | None = None
    header_count: int | None = None


def varint(number: int) -> bytes:
    """A zigzag number of variable length."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(0x80 | number & 0x7F)
        number >>= 7
    out.append(number)
    return bytes(out)


def record_bytes(record: Record, index: int = 0) -> bytes:
    """A record as it stands in a batch, the `index`-th of it."""
    headers = (varint(len(name)) + name + _sized(content) for name, content in record.headers)
    body = b"".join((
        bytes([record.attributes]), varint(record.timestamp_delta),
        varint(index if record.offset_delta is None else record.offset_delta),
        _sized(record.key), _sized(record.value, record.value_size),
        varint(len(record.headers) if record.header_count is None else record.header_count), *headers,
    ))  # fmt: skip
    return varint(len(body) if record.size is None else record.size) + body


def batch(
    records: Sequence[Record] | bytes = (Record(),),
    *,
    attributes: int = 0,
    compression: int = NONE,
    count: int | None = None,
    last_offset_delta: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    length: int | None = None,
    timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = NOBODY,
    producer_epoch: int = NOBODY,
    base_sequence: int = NOBODY,
) -> bytes:
    """A record batch. What is None is worked out. Records given as bytes are packed already; then say how many."""
    if isinstance(records, bytes):
        body, many = records, 1 if count is None else count
    else:
        plain = b"".join(record_bytes(record, index) for index, record in enumerate(records))
        body, many = pack(plain, compression), len(records) if count is None else count
    now = int(time.time() * 1000) if timestamp is None else timestamp
    rest = REST.pack(
        attributes | compression, many - 1 if last_offset_delta is None else last_offset_delta, now,
        now if max_timestamp is None else max_timestamp, producer_id, producer_epoch, base_sequence, many,
    )  # fmt: skip
    size = FRONT.size - LENGTH_COUNTS_FROM + len(rest) + len(body) if length is None else length
    front = FRONT.pack(base_offset, size, leader_epoch, magic, crc32c(rest + body) if crc is None else crc)
    return front + rest + body


def offer(
    client: KafkaAdminClient, topic: str, records: bytes, partition: int = 0, transaction: str | None = None
) -> Answer:
    """Write these bytes to a partition; the broker's error code."""
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=transaction, acks=-1, timeout_ms=WAIT_MS, max_version=BY_NAME,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )  # fmt: skip
    return Answer(send(client, request).responses[0].partition_responses[0].error_code)


# Packing. Of gzip the standard library packs truly; snappy and zstd are packed by hand, in blocks that do not shrink
# or that repeat one byte, which is all that a bomb needs.


def pack(plain: bytes, compression: int) -> bytes:
    """Compress, truly or as a mere frame around the same bytes."""
    if compression == NONE:
        return plain
    if compression == GZIP:
        return gzipped([plain])
    if compression == SNAPPY:
        return snappy_frame(len(plain), plain)
    if compression == ZSTD:
        blocks = [plain[at : at + 0xFFFF] for at in range(0, len(plain), 0xFFFF)] or [b""]
        return zstd_frame([(len(block), block) for block in blocks])
    raise ValueError(f"compression {compression}")


def gzipped(chunks: Iterable[bytes]) -> bytes:
    """Compress without ever holding the whole."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packer.compress(chunk) for chunk in chunks]) + packer.flush()


def snappy_frame(says: int, plain: bytes) -> bytes:
    """One literal in a block that says how long it is, true or not, in the framing that Kafka's clients use."""
    literal = bytes([62 << 2]) + (len(plain) - 1).to_bytes(3, "little") + plain
    block = _plain_varint(says) + literal
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


def zstd_frame(blocks: Sequence[tuple[int, bytes]]) -> bytes:
    """Blocks of a size and its bytes; one byte with a greater size is repeated that often."""
    out = [b"\x28\xb5\x2f\xfd\x00\x38"]  # no checksum, no size; a window of 128 KiB
    for index, (size, content) in enumerate(blocks):
        kind = 1 if len(content) == 1 and size > 1 else 0
        out.append((size << 3 | kind << 1 | (index == len(blocks) - 1)).to_bytes(3, "little") + content)
    return b"".join(out)


# Bombs: small batches that become huge.


def huge_value_chunks(size: int) -> Iterable[bytes]:
    """A record whose value is `size` zeros, piece by piece."""
    before = bytes([0]) + varint(0) + varint(0) + varint(-1) + varint(size)
    after = varint(0)
    yield varint(len(before) + size + len(after)) + before
    yield from repeat(bytes(CHUNK), size // CHUNK)
    yield bytes(size % CHUNK)
    yield after


def gzip_bomb_of_one_value(size: int) -> bytes:
    """One record; about a thousandth of its size in gzip."""
    return batch(gzipped(huge_value_chunks(size)), compression=GZIP)


def gzip_bomb_of_length_only(says: int = 0x7FFF_FFFF) -> bytes:
    """A record that merely says that it is huge, in a compressed batch of a hundred bytes."""
    return batch([Record(size=says)], compression=GZIP)


def gzip_bomb_of_many_records(count: int) -> bytes:
    """As many records as told, each of nothing but its offset."""
    chunks = (
        b"".join(record_bytes(Record(None), at) for at in range(start, min(start + 10_000, count)))
        for start in range(0, count, 10_000)
    )
    return batch(gzipped(chunks), compression=GZIP, count=count)


def zstd_bomb_of_one_value(size: int) -> bytes:
    """One record whose value repeats a byte: four bytes for every 128 KiB."""
    before, *_, after = huge_value_chunks(size)
    block = 128 << 10
    zeros = [(block, b"\0")] * (size // block) + ([(size % block, b"\0")] if size % block > 1 else [])
    return batch(zstd_frame([(len(before), before), *zeros, (len(after), after)]), compression=ZSTD)


def snappy_bomb_of_length_only(says: int = 0x7FFF_FFF0) -> bytes:
    """A block of a few bytes that says that it unpacks to two gigabytes."""
    return batch(snappy_frame(says, record_bytes(Record())), compression=SNAPPY)


# Everything else, by name. Each is one batch for one Produce request.


def value_of_batch_size(size: int) -> bytes:
    """A batch of exactly so many bytes, of one record with random bytes as its value."""
    spare = len(batch([Record(b"")]))
    for overhead in range(spare, spare + 16):
        made = batch([Record(random.Random(size).randbytes(size - overhead))])
        if len(made) == size:
            return made
    raise ValueError(f"no batch of {size} bytes")


def two_faced(one: bytes = b"read by one", other: bytes = b"read by the other") -> Record:
    """A record whose attributes go on for a byte, if they are taken for a number of variable length.

    Kafka takes them for one byte and reads `other` as the value. A client that takes them for a number, as
    kafka-python does, finds the fields in the key: `one` and what comes after it are its value.
    """
    rest = varint(len(other)) + other
    key = varint(-1) + varint(len(one) + len(rest)) + one
    return Record(other, key, attributes=0x80)


def old_magic(magic: int) -> bytes:
    """A message of the format before batches."""
    value = b"old"
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 0) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


TWO = (Record(b"first"), Record(b"second"))
FUTURE = int(time.time() * 1000) + 100 * YEAR_MS

# What the embedded broker takes, although few writers would ever write it.
ODDITIES: dict[str, Callable[[], bytes]] = {
    "plain": lambda: batch([Record(b"plain", b"key", [(b"a", b"1")])]),
    "null key and null value": lambda: batch([Record(None, None)]),
    "empty value": lambda: batch([Record(b"", b"")]),
    "the same header twice": lambda: batch([Record(headers=[(b"label", b"L"), (b"label", b"H")])]),
    "10,000 headers": lambda: batch([Record(headers=[(b"h%d" % n, b"x") for n in range(10_000)])]),
    "100,000 empty headers": lambda: batch([Record(headers=[(b"", None)] * 100_000)]),
    "header value null": lambda: batch([Record(headers=[(b"label", None)])]),
    "header name empty": lambda: batch([Record(headers=[(b"", b"x")])]),
    "header name not UTF-8": lambda: batch([Record(headers=[(NOT_UTF_8, b"x")])]),
    "header name not UTF-8, between good records": lambda: batch(
        [Record(b"before"), Record(headers=[(NOT_UTF_8, b"x")]), Record(b"after")]
    ),
    "header name is a surrogate": lambda: batch([Record(headers=[(b"\xed\xa0\x80", b"x")])]),
    "10,000 records": lambda: batch([Record(b"")] * 10_000),
    "record attributes with the high bit": lambda: batch([Record(b"shifted", attributes=0x80)]),
    "record attributes all ones": lambda: batch([Record(b"shifted", attributes=0xFF)]),
    "record that clients read differently": lambda: batch([two_faced()]),
    "number in ten bytes": lambda: batch(_long_number()),
    "CreateTime far ahead": lambda: batch(timestamp=FUTURE),
    "CreateTime negative": lambda: batch(timestamp=-5),
    "greatest timestamp wrong": lambda: batch(timestamp=1, max_timestamp=2**62),
    "timestamp delta of 2^62": lambda: batch([Record(timestamp_delta=2**62)]),
    "unused attributes set": lambda: batch(attributes=0x4000),
    "delete horizon set": lambda: batch(attributes=0x40),
    "leader epoch 1,000": lambda: batch(leader_epoch=1_000),
    "gzip": lambda: batch(TWO, compression=GZIP),
    "snappy": lambda: batch(TWO, compression=SNAPPY),
    "zstd": lambda: batch(TWO, compression=ZSTD),
    "made-up producer id": lambda: batch(producer_id=MADE_UP_PRODUCER, producer_epoch=0, base_sequence=0),
    "made-up producer id, odd epoch and sequence": lambda: batch(
        producer_id=MADE_UP_PRODUCER + 1, producer_epoch=77, base_sequence=1_234
    ),
    "value size of -5": lambda: batch([Record(b"", value_size=-5)]),
    "bytes after the batch": lambda: batch() + b"more",
    "bytes after the gzip": lambda: batch(pack(record_bytes(Record()), GZIP) + b"more", compression=GZIP),
    "offset delta far ahead in gzip": lambda: batch([Record(offset_delta=1_000_000)], compression=GZIP),
    # Offsets inside the batch that are not 0, 1, 2, …
    "offset delta far ahead": lambda: batch([Record(b"ahead", offset_delta=1_000_000)]),
    "offset delta of 2^31 - 1": lambda: batch([Record(b"farthest", offset_delta=0x7FFF_FFFF)]),
    "offset deltas all 0": lambda: batch([Record(b"one", offset_delta=0), Record(b"two", offset_delta=0)]),
    "offset deltas backwards": lambda: batch([Record(b"one", offset_delta=1), Record(b"two", offset_delta=0)]),
    "offset delta negative": lambda: batch([Record(b"behind", offset_delta=-3)]),
}

# What it refuses.
LIES: dict[str, Callable[[], bytes]] = {
    "wrong CRC": lambda: batch(crc=1),
    "LogAppendTime claimed, far ahead": lambda: batch(timestamp=FUTURE, attributes=LOG_APPEND_TIME),
    "base offset 1,000,000": lambda: batch(base_offset=1_000_000),
    "zero records": lambda: batch([]),
    "zero records that take an offset": lambda: batch([], last_offset_delta=0),
    "zero records in gzip": lambda: batch([], compression=GZIP, last_offset_delta=0),
    "count above the truth": lambda: batch(TWO, count=3),
    "count below the truth": lambda: batch(TWO, count=1),
    "count below the truth, offsets true": lambda: batch(TWO, count=1, last_offset_delta=1),
    "count negative": lambda: batch(TWO, count=-1),
    "count of 2^31 - 1": lambda: batch(TWO, count=0x7FFF_FFFF),
    "count above the truth in gzip": lambda: batch(TWO, count=3, compression=GZIP),
    "count below the truth in gzip": lambda: batch(TWO, count=1, compression=GZIP),
    "last offset delta too great": lambda: batch(TWO, last_offset_delta=1_000_000),
    "last offset delta too small": lambda: batch(TWO, last_offset_delta=0),
    "last offset delta negative": lambda: batch(TWO, last_offset_delta=-2),
    "record size too great": lambda: batch([Record(size=10_000)]),
    "record size too small": lambda: batch([Record(size=3)]),
    "record size negative": lambda: batch([Record(size=-1)]),
    "value size too great": lambda: batch([Record(value_size=10_000)]),
    "header count too great": lambda: batch([Record(headers=[(b"a", b"1")], header_count=2)]),
    "header count of 2^31 - 1": lambda: batch([Record(header_count=0x7FFF_FFFF)]),
    "header count negative": lambda: batch([Record(header_count=-1)]),
    "batch length too great": lambda: batch(length=10_000),
    "batch length too small": lambda: batch(length=20),
    "batch length negative": lambda: batch(length=-1),
    "two batches": lambda: batch() + batch(),
    "random bytes": lambda: random.Random(1).randbytes(500),
    "not gzip at all": lambda: batch(b"this is not gzip", compression=GZIP),
    "not snappy at all": lambda: batch(b"this is not snappy", compression=SNAPPY),
    "not lz4 at all": lambda: batch(b"this is not lz4", compression=3),
    "not zstd at all": lambda: batch(b"this is not zstd", compression=ZSTD),
    "gzip cut off": lambda: batch(pack(record_bytes(Record()), GZIP)[:-9], compression=GZIP),
    "compression 5, which is none": lambda: batch(b"unknown", compression=5),
    "magic 0": lambda: old_magic(0),
    "magic 1": lambda: old_magic(1),
    "magic 3": lambda: batch(magic=3),
    "control flag": lambda: batch(attributes=CONTROL),
    "commit marker": lambda: batch(
        [Record(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, 1))],
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=MADE_UP_PRODUCER,
        producer_epoch=0,
    ),
    "transactional flag without a transaction": lambda: batch(
        attributes=TRANSACTIONAL, producer_id=MADE_UP_PRODUCER, producer_epoch=0, base_sequence=0
    ),
    "transactional flag without a producer id": lambda: batch(attributes=TRANSACTIONAL),
    "producer id without a sequence": lambda: batch(producer_id=MADE_UP_PRODUCER + 2, producer_epoch=0),
}


def _sized(content: bytes | None, says: int | None = None) -> bytes:
    if content is None:
        return varint(-1 if says is None else says)
    return varint(len(content) if says is None else says) + content


def _plain_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes([*out, number])


def _long_number() -> bytes:
    """A record whose timestamp delta of 0 is written in ten bytes: allowed, and no writer does it."""
    body = bytes([0]) + b"\x80" * 9 + b"\0" + varint(0) + varint(-1) + _sized(b"long") + varint(0)
    return varint(len(body)) + body
