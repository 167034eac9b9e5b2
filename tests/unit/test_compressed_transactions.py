"""Compressed transactions are unpacked event by event, and damaged ones are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.compression import UNCOMPRESSED, ZSTANDARD, each_transaction_event, transaction_begin

SIZES = ((2, 40), (19, 0), (30, 9000))
EVENTS = [types.HEADER.pack(0, kind, 1, types.HEADER.size + size, 0, 0) + bytes([kind]) * size for kind, size in SIZES]


def packed(events: bytes, algorithm: int = ZSTANDARD, raw_size: int | None = None) -> bytes:
    """The body of the event of a compressed transaction."""

    def number(value: int) -> bytes:
        return b"\xfe" + value.to_bytes(8, "little")

    payload = pa.compress(events, codec="zstd", asbytes=True) if algorithm == ZSTANDARD else events
    fields = ((1, len(payload)), (2, algorithm), (3, len(events) if raw_size is None else raw_size))
    return b"".join(bytes([kind, 9]) + number(value) for kind, value in fields) + b"\0" + payload


@pytest.mark.parametrize("algorithm", [ZSTANDARD, UNCOMPRESSED])
def test_events_are_unpacked_one_by_one(algorithm: int) -> None:
    data = packed(b"".join(EVENTS), algorithm)
    assert list(each_transaction_event(data)) == EVENTS
    assert b"".join(each_transaction_event(data)) == b"".join(EVENTS) and transaction_begin(data, 50) == b"".join(EVENTS)[:50]


def test_no_more_is_unpacked_than_is_asked_for() -> None:
    many = 4000
    data = packed(EVENTS[2] * many)
    before = pa.total_allocated_bytes()
    found = each_transaction_event(data)
    held = [pa.total_allocated_bytes() - before for event in found if event == EVENTS[2]]
    assert len(held) == many and max(held) < len(EVENTS[2]) * many // 10


@pytest.mark.parametrize(
    "data",
    [
        packed(b"".join(EVENTS)[:-1], UNCOMPRESSED),
        packed(b"".join(EVENTS), raw_size=5),
        packed(b"".join(EVENTS), raw_size=len(b"".join(EVENTS)) + 30),
        packed(types.HEADER.pack(0, 2, 1, 5, 0, 0)),
        packed(b"".join(EVENTS), algorithm=7),
        packed(b"".join(EVENTS))[:-10],
    ],
    ids=["cut off", "larger than it says", "smaller than it says", "an event of no size", "another algorithm", "its end is missing"],
)
def test_what_cannot_be_unpacked_is_told(data: bytes) -> None:
    with pytest.raises((ValueError, OSError)):
        list(each_transaction_event(data))
