"""Summaries and partition maps round-trip through Parquet and stay small; corrupt or foreign bytes are rejected."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import StoreError
from auditor.model import NULL_PARTITION
from auditor.summary.arrays import Summaries
from auditor.summary.codec import PartitionMap, pack_partition_map, pack_summaries, unpack_partition_map, unpack_summaries
from auditor.summary.partition_states import STATES

MANY = 65_536


def summaries(count: int, *, k: int = 0, t: int = 4, measures: int = 0, keys: int = 0) -> Summaries:
    generator = np.random.default_rng(count)
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    least[:] = [None if index % 7 == 3 else keys + index * 1000 for index in range(count)]
    greatest[:] = [None if index % 7 == 3 else keys + index * 1000 + 999 for index in range(count)]
    texts = np.empty((count, measures), np.object_)
    texts[:] = [[None if (row + column) % 3 == 0 else f"{row}.{column}, naïve 🙂" for column in range(measures)] for row in range(count)]
    partition = np.arange(count, dtype=np.int64) + 5
    if count:
        partition[0] = NULL_PARTITION
    return Summaries(
        partition=partition,
        rows=generator.integers(900, 1100, count),
        hashed=generator.integers(900, 1100, count),
        least=least,
        greatest=greatest,
        words=generator.integers(-(2**63), 2**63 - 1, (count, 2)),
        syndromes=generator.integers(0, 2**31 - 1, (count, 2 * t - 1 if t else 0)),
        minhashes=generator.integers(0, 2**31 - 1, (count, k)),
        measures=texts,
    )


@pytest.mark.parametrize(
    "found",
    [
        summaries(0),
        summaries(1),
        summaries(100, k=16, t=0),
        summaries(100, t=0, measures=3),
        summaries(100, keys=2**64),
        summaries(9, keys=-(2**63) - 1),
        summaries(9, keys=-(2**63)),
    ],
)
def test_summaries_round_trip(found: Summaries) -> None:
    _, unpacked = unpack_summaries(pack_summaries(found))
    for name in Summaries.__slots__:
        before, after = getattr(found, name), getattr(unpacked, name)
        assert after.dtype == before.dtype and after.shape == before.shape and np.array_equal(after, before), name
    assert all(key is None or type(key) is int for key in unpacked.least)


def random_partition_map(count: int, unequal: float, *, even: bool = True, keys: int = 0) -> PartitionMap:
    """Return a random partition map: ``unequal`` is the share of unequal partitions; uneven row counts vary as in hash buckets."""
    generator = np.random.default_rng(count)
    states = np.where(generator.random(count) < unequal, generator.integers(1, len(STATES), count), 0).astype(np.uint8)
    differs = states != 0
    source = np.full(count, 1000, np.int64) if even else generator.poisson(1000, count).astype(np.int64)
    target = source - np.where(differs, generator.integers(0, 5, count), 0)
    similarity = np.where(differs, 1 - generator.random(count) / 100, 1).astype(np.float32)
    similarity[differs & (generator.random(count) < 0.1)] = np.nan
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    for index in np.flatnonzero(differs):
        least[index] = keys + int(index) * 1000 + int(generator.integers(0, 3))
        greatest[index] = None if index % 11 == 5 else keys + int(index) * 1000 + 999 - int(generator.integers(0, 3))
    return PartitionMap(np.arange(count, dtype=np.int64) + 77, states, similarity, {"source": source, "target": target}, least, greatest)


@pytest.mark.parametrize(
    "found",
    [
        random_partition_map(0, 0),
        random_partition_map(1, 1),
        random_partition_map(500, 0.3),
        random_partition_map(500, 1, keys=2**70),
        random_partition_map(500, 0),
    ],
)
def test_partition_maps_round_trip(found: PartitionMap) -> None:
    unpacked = unpack_partition_map(pack_partition_map(found))
    for name in ("partition", "state", "least", "greatest"):
        assert getattr(unpacked, name).dtype == getattr(found, name).dtype
        assert np.array_equal(getattr(unpacked, name), getattr(found, name)), name
    assert unpacked.similarity.dtype == np.float32 and np.array_equal(unpacked.similarity, found.similarity, equal_nan=True)
    assert all(np.array_equal(unpacked.rows[side], found.rows[side]) for side in found.rows)


@pytest.mark.parametrize(("same", "max_bytes"), [(False, 2_500_000), (True, 500_000)])
def test_packed_summaries_are_small(same: bool, max_bytes: int) -> None:
    found = summaries(MANY, t=3)
    if same:
        found.words[:], found.syndromes[:], found.rows[:] = 1000 * 2**29, 123_456, 1000
    found.words[:] %= 2**40
    found.hashed[:] = found.rows
    size = len(pack_summaries(found))
    print(f"{MANY:,} partitions, {'equal' if same else 'random'} signatures: {size:,} bytes")
    assert size < max_bytes


@pytest.mark.parametrize(
    ("unequal", "even", "max_bytes"),
    [(0, True, 5_000), (0, False, 90_000), (0.01, True, 20_000), (1, True, 300_000), (1, False, 400_000)],
)
def test_packed_partition_maps_are_small(unequal: float, even: bool, max_bytes: int) -> None:
    size = len(pack_partition_map(random_partition_map(MANY, unequal, even=even)))
    print(f"{MANY:,} partitions, {unequal:.0%} unequal, {'even' if even else 'uneven'}: {size:,} bytes")
    assert size < max_bytes


def with_metadata(data: bytes, **changes: str) -> bytes:
    """Return the same Parquet file with changed metadata."""
    table = pq.read_table(pa.BufferReader(data))
    metadata = {**table.schema.metadata, **{f"auditor.{name}".encode(): text.encode() for name, text in changes.items()}}
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file.getvalue()


def test_corrupt_bytes_are_rejected() -> None:
    for packed, unpack in (
        (pack_summaries(summaries(100)), unpack_summaries),
        (pack_partition_map(random_partition_map(100, 0.5)), unpack_partition_map),
    ):
        middle = len(packed) // 3
        for damaged in (b"", b"nothing", packed[:-30], packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]):
            with pytest.raises(StoreError, match=r"are damaged, or were written by an older version .* start a new run"):
                unpack(damaged)


def test_bit_flips_never_unpack_to_different_summaries() -> None:
    packed = pack_summaries(summaries(20))
    for offset in range(0, len(packed), 7):
        damaged = packed[:offset] + bytes([packed[offset] ^ 0x15]) + packed[offset + 1 :]
        try:
            _, unpacked = unpack_summaries(damaged)
        except StoreError:
            continue
        assert all(np.array_equal(getattr(unpacked, name), getattr(summaries(20), name)) for name in Summaries.__slots__), offset


def test_unknown_formats_and_versions_are_rejected() -> None:
    with pytest.raises(StoreError, match="the stored format is 'partition_map'; start a new run"):
        unpack_summaries(pack_partition_map(random_partition_map(3, 1)))
    with pytest.raises(StoreError, match="format version 2, and this auditor reads version 1; start a new run"):
        unpack_summaries(with_metadata(pack_summaries(summaries(3)), version="2"))
    with pytest.raises(StoreError, match="format version 0"):
        unpack_partition_map(with_metadata(pack_partition_map(random_partition_map(3, 1)), version="0"))
    with pytest.raises(StoreError, match="the stored format is ''"):
        unpack_partition_map(with_metadata(pack_partition_map(random_partition_map(3, 1)), format=""))


def test_unknown_partition_states_are_rejected() -> None:
    found = random_partition_map(3, 1)
    found.state[1] = len(STATES)
    with pytest.raises(StoreError, match=f"unknown state {len(STATES)}; start a new run"):
        unpack_partition_map(pack_partition_map(found))


def test_pandas_is_not_imported() -> None:
    """Arrow imports it for what Python gives it, although it is not needed, and that takes longer than to audit a small table."""
    code = """
import sys
import numpy as np
from auditor.summary import arrays, codec
from tests.unit.test_codec import random_partition_map, summaries
for keys in (2**40, 2**64):
    codec.unpack_summaries(codec.pack_summaries(summaries(10, measures=2, keys=keys)))
    codec.pack_partition_map(random_partition_map(10, 0.5, keys=keys))
assert "pyarrow.parquet" in sys.modules
print("pandas" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "False\n", ran.stderr
