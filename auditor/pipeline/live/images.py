"""Compute of rows, before and after their events, what their partitions' sums take: partition, position and hash words.

`auditor.sql.power_sums` and `auditor.sql.key_number` say what the source's SQL computes; these are the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import ValueRefused
from auditor.model import Plan
from auditor.pipeline.live.texts import canonical_texts, row_texts
from auditor.summary import live
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.key_number import FACTORS, POSITIONS, P, Q, forms, key_number

WORD = 30
"""Bits of a word."""

LOW = (1 << WORD) - 1

Unsigned = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Images:
    """Rows that were taken away (-1) or added (+1): n of them, in any order."""

    position: Integers
    """Of their events in the stream."""
    sign: Integers
    partition: Integers
    x: Integers
    """The row's position in its partition."""
    hashes: Integers
    """The first 60 bits of their row hashes, or the next as well, (n, 1) or (n, 2)."""

    def __len__(self) -> int:
        return len(self.position)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Images:
        """Return some of them."""
        return Images(self.position[which], self.sign[which], self.partition[which], self.x[which], self.hashes[which])


def no_images(plan: Plan) -> Images:
    """Return no rows, as wide as those of a plan."""
    nothing = np.zeros(0, np.int64)
    return Images(nothing, nothing, nothing, nothing, np.zeros((0, plan.bits // 60), np.int64))


def hash_rows(columns: Sequence[pa.Array], plan: Plan) -> tuple[Integers, Integers, Integers]:
    """Return partitions, positions in them and hashes of rows; ``columns`` are the texts that events have of the plan's columns.

    Raises ValueRefused.
    """
    plans = list(plan.columns)
    texts = [canonical_texts(column, column_plan) for column, column_plan in zip(columns, plans, strict=True)]
    rows = row_texts(texts, plans, plan.salt)
    digest, count = (hashlib.sha256 if plan.hash == "sha256" else hashlib.md5), plan.bits // 60
    size = 15 * count // 2 + count % 2
    numbers = [int.from_bytes(digest(row).digest()[:size], "big") for row in rows.cast(pa.binary()).to_pylist()]
    if count == 1:
        hashes = np.fromiter((number >> 4 for number in numbers), np.int64, len(numbers)).reshape(-1, 1)
    else:
        pairs = [(number >> 60, number & ((1 << 60) - 1)) for number in numbers]
        hashes = np.array(pairs, np.int64).reshape(-1, 2)
    return *_places(columns[: plan.key], texts[: plan.key], plan), hashes


def _places(columns: Sequence[pa.Array], texts: Sequence[pa.Array], plan: Plan) -> tuple[Integers, Integers]:
    """Return partitions and positions in them by keys, their own texts and canonical ones."""
    how = plan.partitioning
    if how.strategy == "range":
        size = how.size
        keys = _whole(columns[how.column])
        return np.asarray(keys // size, np.int64), np.asarray(keys % size, np.int64) + 1
    numbers = _key_numbers(columns, texts, plan)
    return numbers * numbers % P % how.buckets, numbers % POSITIONS + 1


def _whole(texts: pa.Array) -> Integers | Unsigned:
    if texts.null_count:
        raise ValueRefused("a row without a key came through the stream")
    keys: Integers | Unsigned
    try:
        keys = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        keys = texts.cast(pa.uint64()).to_numpy(zero_copy_only=False)
    return keys


def _key_numbers(columns: Sequence[pa.Array], texts: Sequence[pa.Array], plan: Plan) -> Integers:
    shapes = forms(plan)
    if shapes and set(shapes) == {"whole"}:
        total = np.zeros(len(columns[0]), np.int64)
        for column, factor in zip(columns, FACTORS, strict=False):
            keys = _whole(column)
            rest = np.fmod(keys, Q) if keys.dtype == np.int64 else (keys % np.uint64(Q)).astype(np.int64)
            total += (np.asarray(rest, np.int64) + Q) * factor
        return total % P
    lists = zip(*(column_texts.to_pylist() for column_texts in texts), strict=True)
    numbers = [key_number(plan, key) for key in lists]
    if None in numbers:
        raise ValueRefused("a key has no place among the partitions: it is a date that is no day")
    return np.fromiter((number or 0 for number in numbers), np.int64, len(numbers))


def add_up(images: Images, plan: Plan) -> Summaries:
    """Return what images change in the sums of their partitions, ascending by partition."""
    powers = 2 * plan.t - 1 if plan.method == "exact" else 0
    words = 2 * images.hashes.shape[1]
    if not len(images):
        return live.none(words, powers)
    order = np.argsort(images.partition, kind="stable")
    partition, sign, x = images.partition[order], images.sign[order], images.x[order] % P
    hashes = images.hashes[order]
    halves = [half for column in hashes.T for half in (column >> WORD, column & LOW)]
    starts = np.flatnonzero(np.diff(partition, prepend=partition[0] - 1))
    symbol, sums = halves[0], []
    term = symbol
    for _ in range(powers):
        term = term * x % P
        sums.append(np.add.reduceat(sign * term, starts) % P)
    none = np.zeros((len(starts), 0), np.int64)
    return live.of(
        partition[starts],
        np.add.reduceat(sign, starts),
        np.column_stack([np.add.reduceat(sign * half, starts) for half in halves]),
        np.column_stack(sums) if sums else none,
    )


def columns_of(rows: pa.ListArray, width: int, indexes: Sequence[int]) -> list[pa.Array]:
    """Return columns of row images, of the rows that are there."""
    values = rows.flatten()
    count = len(values) // width
    places = np.arange(count) * width
    return [pc.take(values, pa.array(places + index)) for index in indexes]
