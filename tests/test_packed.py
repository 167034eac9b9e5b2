"""Arrays as bytes come back as they were, and take little."""

from __future__ import annotations

import numpy as np
import pytest

from auditor.errors import StoreError
from auditor.model import NULL_PARTITION
from auditor.packed import STATES, Picture, pack_picture, pack_summaries, unpack_picture, unpack_summaries
from auditor.summary import Summaries

MANY = 65_536


def summaries(count: int, *, k: int = 0, t: int = 4, measures: int = 0, keys: int = 0) -> Summaries:
    chance = np.random.default_rng(count)
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    least[:] = [None if index % 7 == 3 else keys + index * 1000 for index in range(count)]
    greatest[:] = [None if index % 7 == 3 else keys + index * 1000 + 999 for index in range(count)]
    texts = np.empty((count, measures), np.object_)
    texts[:] = [
        [None if (row + column) % 3 == 0 else f"{row}.{column}, naïve 🙂\ud800" for column in range(measures)] for row in range(count)
    ]
    partition = np.arange(count, dtype=np.int64) + 5
    if count:
        partition[0] = NULL_PARTITION
    return Summaries(
        partition=partition,
        rows=chance.integers(900, 1100, count),
        hashed=chance.integers(900, 1100, count),
        least=least,
        greatest=greatest,
        words=chance.integers(-(2**63), 2**63 - 1, (count, 2)),
        syndromes=chance.integers(0, 2**31 - 1, (count, 2 * t - 1 if t else 0)),
        minhashes=chance.integers(0, 2**31 - 1, (count, k)),
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
def test_summaries_come_back(found: Summaries) -> None:
    again = unpack_summaries(pack_summaries(found))
    for name in Summaries.__slots__:
        before, after = getattr(found, name), getattr(again, name)
        assert after.dtype == before.dtype and after.shape == before.shape and np.array_equal(after, before), name
    assert all(key is None or type(key) is int for key in again.least)


def picture(count: int, unequal: float, *, even: bool = True, keys: int = 0) -> Picture:
    """``unequal`` is the share of partitions that are; uneven ones hold as many rows as buckets of a hash do."""
    chance = np.random.default_rng(count)
    states = np.where(chance.random(count) < unequal, chance.integers(1, len(STATES), count), 0).astype(np.uint8)
    told = states != 0
    source = np.full(count, 1000, np.int64) if even else chance.poisson(1000, count).astype(np.int64)
    target = source - np.where(told, chance.integers(0, 5, count), 0)
    similarity = np.where(told, 1 - chance.random(count) / 100, 1).astype(np.float32)
    similarity[told & (chance.random(count) < 0.1)] = np.nan
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    for index in np.flatnonzero(told):
        least[index] = keys + int(index) * 1000 + int(chance.integers(0, 3))
        greatest[index] = None if index % 11 == 5 else keys + int(index) * 1000 + 999 - int(chance.integers(0, 3))
    return Picture(np.arange(count, dtype=np.int64) + 77, states, similarity, {"source": source, "target": target}, least, greatest)


@pytest.mark.parametrize("found", [picture(0, 0), picture(1, 1), picture(500, 0.3), picture(500, 1, keys=2**70), picture(500, 0)])
def test_pictures_come_back(found: Picture) -> None:
    again = unpack_picture(pack_picture(found))
    for name in ("partition", "state", "least", "greatest"):
        assert getattr(again, name).dtype == getattr(found, name).dtype
        assert np.array_equal(getattr(again, name), getattr(found, name)), name
    assert again.similarity.dtype == np.float32 and np.array_equal(again.similarity, found.similarity, equal_nan=True)
    assert all(np.array_equal(again.rows[side], found.rows[side]) for side in found.rows)


@pytest.mark.parametrize(
    ("unequal", "even", "most"),
    [(0, True, 5_000), (0, False, 120_000), (0.01, True, 20_000), (1, True, 400_000), (1, False, 500_000)],
)
def test_pictures_are_small(unequal: float, even: bool, most: int) -> None:
    size = len(pack_picture(picture(MANY, unequal, even=even)))
    print(f"{MANY:,} partitions, {unequal:.0%} unequal, {'even' if even else 'uneven'}: {size:,} bytes")
    assert size < most


def test_what_is_damaged_is_refused() -> None:
    for kept in (pack_summaries(summaries(100)), pack_picture(picture(100, 0.5))):
        unpack = unpack_summaries if kept == pack_summaries(summaries(100)) else unpack_picture
        middle = len(kept) // 3
        for damaged in (b"", b"nothing", kept[:-30], kept[:middle] + bytes([kept[middle] ^ 0xFF]) + kept[middle + 1 :]):
            with pytest.raises(StoreError, match="damaged"):
                unpack(damaged)
    with pytest.raises(StoreError, match="not what this version keeps"):
        unpack_summaries(pack_picture(picture(3, 1)))
