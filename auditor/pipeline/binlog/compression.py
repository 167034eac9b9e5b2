"""Unpack compressed transactions, events and columns.

https://dev.mysql.com/doc/refman/9.4/en/binary-log-transaction-compression.html
https://mariadb.com/kb/en/compressing-events-to-reduce-size-of-the-binary-log/
https://mariadb.com/kb/en/storage-engine-independent-column-compression/
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pyarrow as pa

from auditor.pipeline.binlog.event_types import HEADER, LONGEST_EVENT

PAYLOAD_SIZE, PAYLOAD_ALGORITHM, PAYLOAD_RAW_SIZE = 1, 2, 3
ZSTANDARD, UNCOMPRESSED = 0, 255

BLOCK_BYTES = 1 << 17
"""The most bytes of a block of Zstandard, of which a reader needs the whole. https://www.rfc-editor.org/rfc/rfc8878#name-blocks"""


def transaction_begin(data: bytes, first: int) -> bytes:
    """Return so many of the first bytes of the events of MySQL's compressed transaction, one after another, each without a checksum.

    ``data`` is the body of the event: fields of a number, a size and a value, up to the one with the number 0, then the payload. It may be
    cut off after `BLOCK_BYTES`. Raises ValueError or OSError if it cannot be unpacked.
    """
    payload, algorithm, raw_size = _fields(data)
    if algorithm == UNCOMPRESSED:
        return bytes(payload[:first])
    with pa.CompressedInputStream(pa.BufferReader(payload), "zstd") as stream:
        unpacked: bytes = stream.read(min(first, raw_size))
    return unpacked


def each_transaction_event(data: bytes) -> Iterator[bytes]:
    """Yield the events of MySQL's compressed transaction, each without a checksum: no more of them is unpacked than is asked for.

    Raises ValueError or OSError if it cannot be unpacked.
    """
    payload, algorithm, raw_size = _fields(data)
    stream = pa.BufferReader(payload)
    with stream if algorithm == UNCOMPRESSED else pa.CompressedInputStream(stream, "zstd") as events:
        while raw_size:
            header = events.read(HEADER.size)
            size = HEADER.unpack(header)[3] if len(header) == HEADER.size else 0
            if not HEADER.size <= size <= min(raw_size, LONGEST_EVENT):
                raise ValueError(f"an event of it says that it has {size:,} bytes, and {raw_size:,} are left")
            event = header + events.read(size - HEADER.size)
            if len(event) != size:
                raise ValueError("it ends within an event")
            raw_size -= size
            yield event


def _fields(data: bytes) -> tuple[memoryview, int, int]:
    """Return a compressed transaction's payload, its algorithm, and its size when it is unpacked. Raises ValueError and KeyError."""
    at, fields = 0, {}
    while True:
        kind, at = packed_integer(data, at)
        if kind == 0:
            break
        size, at = packed_integer(data, at)
        fields[kind] = packed_integer(data, at)[0]
        at += size
    algorithm = fields.get(PAYLOAD_ALGORITHM, ZSTANDARD)
    if algorithm not in (ZSTANDARD, UNCOMPRESSED):
        raise ValueError(f"a transaction is compressed by the unknown algorithm {algorithm}")
    payload = memoryview(data)[at : at + fields[PAYLOAD_SIZE]]
    return payload, algorithm, fields.get(PAYLOAD_RAW_SIZE, len(payload))


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded integer and where it ends. Raises LookupError or ValueError if there is none.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html
    """
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    if at + 1 + size > len(data):
        raise ValueError("a number ends after its event")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def uncompressed_event(data: bytes) -> bytes:
    """Return the end of an event that MariaDB compressed: a byte whose low bits say how many bytes of the size follow, then zlib's.

    Raises ValueError or zlib.error if it cannot be unpacked, or has another size.
    """
    begin = 1 + (data[0] & 0x07)
    return _inflated(data[begin:], int.from_bytes(data[1:begin], "big"), zlib.MAX_WBITS)


def uncompressed_column(data: bytes) -> bytes:
    """Return the value of a column that is declared COMPRESSED in MariaDB.

    The first byte is 0 before a value that is not compressed. Else its high half names the method (8 is zlib), its bit 3 is set where
    zlib's header and checksum are left out, and its lowest bits say how many bytes of the size follow. Raises ValueError or zlib.error.
    """
    if not data:
        return data
    head = data[0]
    if head == 0:
        return data[1:]
    if head >> 4 != 8:
        raise ValueError(f"a column is compressed by the unknown method {head >> 4}")
    begin = 1 + (head & 0x07)
    return _inflated(data[begin:], int.from_bytes(data[1:begin], "big"), -zlib.MAX_WBITS if head & 0x08 else zlib.MAX_WBITS)


def _inflated(packed: bytes, size: int, bits: int) -> bytes:
    """Return what zlib packed, which is so many bytes: a few of them can stand for any number, and no more are made of them."""
    if size > LONGEST_EVENT:
        raise ValueError(f"{size:,} bytes are packed, and {LONGEST_EVENT:,} are the most")
    unpacking = zlib.decompressobj(bits)
    unpacked = unpacking.decompress(packed, size + 1)
    if len(unpacked) != size or not unpacking.eof:
        raise ValueError(f"{size:,} bytes are packed, it says, and there are others")
    return unpacked
