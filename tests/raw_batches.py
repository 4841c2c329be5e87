"""The record batches of a partition as they lie on the broker: markers, aborted records, producer ids and all.

Consumers show only records. A test that compares two logs must see what consumers hide. The parser is our own and
strict, so that it shares no mistake with the client that the code under test uses.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.protocol.consumer import FetchRequest

from tests.security.broker_requests import BY_NAME, send

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
OFFSET_OUT_OF_RANGE = 1
PAGE_BYTES = 8 << 20
MOST_BYTES_UNPACKED = 256 << 20  # of one compressed batch
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CREATE_TIME, LOG_APPEND_TIME = 0, 1
ABORT, COMMIT = "ABORT", "COMMIT"

# Base offset, length, leader epoch, magic, CRC; the CRC is over all that follows it.
FRONT = struct.Struct(">qiibI")
# Attributes, last offset delta, first and greatest timestamp, producer id and epoch, base sequence, record count.
REST = struct.Struct(">hiqqqhii")
LENGTH_COUNTS_FROM = 12  # base offset and length itself are not in a batch's length

Headers = tuple[tuple[bytes, bytes | None], ...]


class Malformed(ValueError):
    """A batch that is not what the format says."""


@dataclass(frozen=True)
class RawRecord:
    """One record; names of headers are bytes, for nobody makes them be text."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class Batch:
    """One record batch. `marker` and `coordinator_epoch` are those of the control record, if it is one."""

    base_offset: int
    last_offset_delta: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[RawRecord, ...]
    marker: str | None
    coordinator_epoch: int | None
    raw: bytes

    @property
    def last_offset(self) -> int:
        """The last offset that the batch takes up, whether or not a record has it."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """NONE, GZIP, SNAPPY, LZ4 or ZSTD."""
        return self.attributes & 0b111

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return self.attributes >> 3 & 1

    @property
    def transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & 0x10)

    @property
    def control(self) -> bool:
        """Whether the batch is a marker and no data."""
        return bool(self.attributes & 0x20)


@dataclass(frozen=True, order=True)
class Aborted:
    """An aborted transaction: whose, and the first offset that it wrote."""

    first_offset: int
    producer_id: int


def end_of(admin: KafkaAdminClient, topic: str, partition: int = 0) -> int:
    """The offset after the last one of a partition."""
    return int(_fetch(admin, topic, partition, READ_UNCOMMITTED, 0, most_bytes=1).high_watermark)


def batches_of(admin: KafkaAdminClient, topic: str, partition: int = 0, start: int = 0) -> list[Batch]:
    """The batches of a partition, from the one that has offset `start` to the end."""
    pages = _pages(admin, topic, partition, READ_UNCOMMITTED, start)
    found = {batch.base_offset: batch for page in pages for batch in parse(bytes(page.records or b""))}
    return [found[offset] for offset in sorted(found)]


def aborted_in(admin: KafkaAdminClient, topic: str, partition: int = 0) -> list[Aborted]:
    """The aborted transactions of a partition, as the broker tells them to a reader of committed records."""
    pages = _pages(admin, topic, partition, READ_COMMITTED)
    return sorted({Aborted(a.first_offset, a.producer_id) for page in pages for a in page.aborted_transactions or ()})


def aborted_by_markers(batches: Iterable[Batch]) -> list[Aborted]:
    """The same, from the batches and markers alone."""
    begun: dict[int, int] = {}
    found = []
    for batch in batches:
        if batch.control:
            first = begun.pop(batch.producer_id, None)
            if first is not None and batch.marker == ABORT:
                found.append(Aborted(first, batch.producer_id))
        elif batch.transactional:
            begun.setdefault(batch.producer_id, batch.base_offset)
    return sorted(found)


def stable_end(batches: Sequence[Batch]) -> int:
    """The offset up to which every transaction is decided, and readers of committed records are shown records."""
    begun: dict[int, int] = {}
    for batch in batches:
        if batch.control:
            begun.pop(batch.producer_id, None)
        elif batch.transactional:
            begun.setdefault(batch.producer_id, batch.base_offset)
    return min([*begun.values(), batches[-1].last_offset + 1 if batches else 0])


def visible(batches: Sequence[Batch], aborted: Iterable[Aborted]) -> list[RawRecord]:
    """The records that a reader of committed records is shown."""
    end, waiting, dropping, shown = stable_end(batches), sorted(aborted), set[int](), list[RawRecord]()
    for batch in batches:
        if batch.base_offset >= end:
            break
        while waiting and waiting[0].first_offset <= batch.last_offset:
            dropping.add(waiting.pop(0).producer_id)
        if batch.control:
            if batch.marker == ABORT:
                dropping.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in dropping):
            shown.extend(batch.records)
    return shown


def without(batches: Iterable[Batch], *left_out: str) -> list[dict[str, Any]]:
    """The batches for comparison, less the named fields.

    `timestamp` leaves out those of records, too. What is computed over a field goes with it: the CRC and the raw
    bytes whenever anything is left out that is in them.
    """
    known = {field.name for field in fields(Batch)} | {"timestamp"}
    if unknown := set(left_out) - known:
        raise ValueError(f"no such field: {sorted(unknown)}")
    gone = set(left_out)
    if gone & {"timestamp"}:
        gone |= {"first_timestamp", "max_timestamp"}
    if gone - {"raw", "crc"}:
        gone |= {"raw", "crc"}
    return [_fields(batch, gone) for batch in batches]


def parse(data: bytes) -> Iterator[Batch]:
    """The whole batches in an answer; a last one that was cut off is left out."""
    return (parse_one(raw) for raw in _slices(data))


def parse_one(raw: bytes) -> Batch:
    """One batch, all of it."""
    if len(raw) < FRONT.size + REST.size:
        raise Malformed(f"a batch of {len(raw)} bytes")
    base, _, epoch, magic, crc = FRONT.unpack_from(raw)
    if magic != 2:
        raise Malformed(f"magic {magic}")
    attributes, last, first, greatest, producer, producer_epoch, sequence, count = REST.unpack_from(raw, FRONT.size)
    body = _unpacked(raw[FRONT.size + REST.size :], attributes & 0b111)
    stamp = greatest if attributes & 0b1000 else None
    records = tuple(_records(body, count, base, first, stamp))
    marker, coordinator = _marker(records) if attributes & 0x20 else (None, None)
    return Batch(
        base_offset=base, last_offset_delta=last, leader_epoch=epoch, magic=magic, crc=crc, attributes=attributes,
        first_timestamp=first, max_timestamp=greatest, producer_id=producer, producer_epoch=producer_epoch,
        base_sequence=sequence, records=records, marker=marker, coordinator_epoch=coordinator, raw=raw,
    )  # fmt: skip


def _pages(admin: KafkaAdminClient, topic: str, partition: int, isolation: int, offset: int = 0) -> Iterator[Any]:
    while True:
        page = _fetch(admin, topic, partition, isolation, offset)
        if page.error_code == OFFSET_OUT_OF_RANGE and page.log_start_offset > offset:
            offset = page.log_start_offset
            continue
        if page.error_code:
            raise AssertionError(f"reading `{topic}` at {offset}: error code {page.error_code}")
        yield page
        ends = [_last_offset(raw) + 1 for raw in _slices(bytes(page.records or b""))]
        if not ends or ends[-1] <= offset:
            return
        offset = ends[-1]


def _fetch(
    admin: KafkaAdminClient, topic: str, partition: int, isolation: int, offset: int, most_bytes: int = PAGE_BYTES
) -> Any:
    wanted = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=most_bytes, isolation_level=isolation, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])], max_version=BY_NAME,
    )  # fmt: skip
    return send(admin, request).responses[0].partitions[0]


def _slices(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + LENGTH_COUNTS_FROM <= len(data):
        end = at + LENGTH_COUNTS_FROM + int(struct.unpack_from(">i", data, at + 8)[0])
        if end > len(data):
            return
        yield data[at:end]
        at = end


def _last_offset(raw: bytes) -> int:
    """Without a look at the records, so that no batch can keep a reader from the next one."""
    base, delta = struct.unpack_from(">q", raw)[0], struct.unpack_from(">i", raw, FRONT.size + 2)[0]
    return int(base) + int(delta)


def _unpacked(body: bytes, compression: int) -> bytes:
    if compression == NONE:
        return body
    if compression != GZIP:
        raise Malformed(f"compression {compression}, which is not unpacked here")
    unpacker = zlib.decompressobj(wbits=31)
    data = unpacker.decompress(body, MOST_BYTES_UNPACKED)
    if not unpacker.eof:
        raise Malformed("compressed records that are cut off, or too many")
    return data


def _records(body: bytes, count: int, base: int, first: int, stamp: int | None) -> Iterator[RawRecord]:
    at = 0
    for _ in range(count):
        size, at = _varint(body, at)
        end = at + size
        at += 1  # the attributes, which are one byte and mean nothing
        stamp_delta, at = _varint(body, at)
        offset_delta, at = _varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        headers = []
        many, at = _varint(body, at)
        for _ in range(many):
            name, at = _bytes(body, at)
            content, at = _bytes(body, at)
            if name is None:
                raise Malformed("a header without a name")
            headers.append((name, content))
        if at != end:
            raise Malformed(f"a record that ends at {at} and not at {end}")
        yield RawRecord(
            base + offset_delta, first + stamp_delta if stamp is None else stamp, key, value, tuple(headers)
        )
    if at != len(body):
        raise Malformed(f"{len(body) - at} bytes after the last record")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of variable length, and where the next thing starts."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number that does not end")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return (value >> 1) ^ -(value & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise Malformed(f"{size} bytes announced, {len(data) - at} there")
    return data[at : at + size], at + size


def _marker(records: tuple[RawRecord, ...]) -> tuple[str, int]:
    (record,) = records
    if record.key is None or record.value is None:
        raise Malformed("a marker without a key or a value")
    _, kind = struct.unpack_from(">hh", record.key)
    _, coordinator = struct.unpack_from(">hi", record.value)
    return {0: ABORT, 1: COMMIT}[kind], int(coordinator)


def _fields(batch: Batch, gone: set[str]) -> dict[str, Any]:
    kept = {field.name: getattr(batch, field.name) for field in fields(batch) if field.name not in gone}
    if "timestamp" in gone and "records" in kept:
        kept["records"] = tuple((r.offset, r.key, r.value, r.headers) for r in batch.records)
    return kept
