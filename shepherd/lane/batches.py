"""Reads Kafka's record batches, as strictly as a hostile source deserves. Pure.

A source chooses every byte inside a batch; the broker checks its frame, and little of the records. Clients read the
rest in different ways, or not at all, so lanes read it themselves: a batch is exactly what the format says, with
offsets that count from its first, or it is unreadable as a whole. That costs nobody else: a batch has one writer.
"""

import struct
from collections.abc import Iterator

from shepherd.lane.judge import UNREADABLE
from shepherd.lane.strand import Record
from shepherd.says import HEADER

FRAME = struct.Struct(">qiibIhiqqqhii")  # up to the number of records
MAGIC = 2
_COMPRESSED, _CONTROL = 0x07, 0x20
_SAYS = HEADER.encode()


class _Unreadable(ValueError):
    pass


def read_batch(data: bytes) -> list[Record]:
    """The records of one whole batch, all with its append time; or one in their place, if it is unreadable."""
    first, _, _, magic, _, attributes, last, _, time, _, _, _, count = FRAME.unpack_from(data)
    if attributes & _CONTROL:
        return []
    try:
        if magic != MAGIC or attributes & _COMPRESSED or count != last + 1:
            raise _Unreadable
        return list(_records(data, first, time, count))
    except (_Unreadable, IndexError):
        return [(time, first + last, None, data, UNREADABLE)]


def _records(data: bytes, first: int, time: int, count: int) -> Iterator[Record]:
    at = FRAME.size
    for index in range(count):
        length, at = _varint(data, at)
        end = at + length
        at += 1  # attributes, which mean nothing
        _, at = _varint(data, at)  # a timestamp; the append time counts
        delta, at = _varint(data, at)
        key, at = _bytes(data, at)
        value, at = _bytes(data, at)
        number, at = _varint(data, at)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(number):
            name, at = _bytes(data, at)
            content, at = _bytes(data, at)
            if name is None or at > end:
                raise _Unreadable
            if name == _SAYS and len(headers) < 2:  # no other means anything, and two are as wrong as many
                headers.append((HEADER, content))
        if delta != index or at != end or number < 0 or end > len(data):
            raise _Unreadable
        yield time, first + index, key, value, headers
    if at != len(data):
        raise _Unreadable


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise _Unreadable


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length = data[at]
    if length < 0x80 and not length & 1:  # short, as most are
        start, end = at + 1, at + 1 + (length >> 1)
    else:
        length, start = _varint(data, at)
        if length == -1:
            return None, start
        end = start + length
    if not start <= end <= len(data):
        raise _Unreadable
    return data[start:end], end
