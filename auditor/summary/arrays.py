"""Arrays of one side's summaries, read from an engine's result.

Results arrive column by column in batches and become arrays at once: 65,536 partitions at k = 64 take some 40 MB per side.
Summaries are linear: those of several chunks add up, even if the chunks share partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from auditor.model import NULL_PARTITION
from auditor.summary import measures
from auditor.summary.key_number import P
from dialects import ColumnBatch

if TYPE_CHECKING:
    import numpy.typing as npt

Integers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Summaries:
    """The summaries of one side: n partitions, ascending by id."""

    partition: Integers
    """Partition ids, (n,) int64; NULL_PARTITION for rows whose key holds a NULL."""
    rows: Integers
    """Row counts, (n,) int64."""
    hashed: Integers
    """Rows with a hash, (n,) int64. Fewer than ``rows`` where an engine could not build a row's text: the partition is skipped."""
    least: npt.NDArray[np.object_]
    """Least key of each partition, (n,) Python integers without a limit, or None where keys have no order."""
    greatest: npt.NDArray[np.object_]
    """Greatest key of each partition, like ``least``."""
    words: Integers
    """Sums of the row hashes' words, (n, words) int64: words of 30 bits, or 32 in the published encoding."""
    syndromes: Integers
    """Power sums S_1, S_2, .. modulo p, (n, sums - 1) int64 in 0 .. p - 1; S_0 is the first word."""
    minhashes: Integers
    """Minhashes, (n, k) int64 in 0 .. 2^31 - 1."""
    measures: npt.NDArray[np.object_]
    """Measures of the method counts, (n, m) canonical texts, or None for no value."""

    def __len__(self) -> int:
        return len(self.partition)


def read(batches: Iterable[ColumnBatch], names: Sequence[str]) -> Summaries:
    """Return the summaries in an engine's result, whose columns are ``names`` in that order."""
    where = {name: index for index, name in enumerate(names)}
    words = [name for name in names if name.startswith("word_")]
    powers = [name for name in names if name.startswith("syndrome_")]
    minima = [name for name in names if name.startswith("minhash_")]
    standard = {"partition_id", "row_count", "hashed", "key_min", "key_max", *words, *powers, *minima}
    measured = [name for name in names if name not in standard]
    parts: list[Summaries] = []
    for batch in batches:
        rows = _integers(batch[where["row_count"]])
        parts.append(
            Summaries(
                partition=_integers(batch[where["partition_id"]], NULL_PARTITION),
                rows=rows,
                hashed=_integers(batch[where["hashed"]]) if "hashed" in where else rows,
                least=_keys(batch[where["key_min"]]),
                greatest=_keys(batch[where["key_max"]]),
                words=_matrix([_integers(batch[where[name]]) for name in words], len(rows)),
                syndromes=_matrix([_integers(batch[where[name]]) for name in powers], len(rows)),
                minhashes=_matrix([_integers(batch[where[name]]) for name in minima], len(rows)),
                measures=_objects([batch[where[name]] for name in measured], len(rows)),
            )
        )
    merged = _merge_partitions(_concatenate_fields(parts, (len(words), len(powers), len(minima)), len(measured)), measured)
    return replace(merged, syndromes=merged.syndromes % P)


def of_equal(partition: Integers, rows: Integers, names: Sequence[str]) -> Summaries:
    """Return summaries of partitions, ascending by id, that are known to be equal on both sides: zeros stand for sums nobody computed.

    ``names`` are those of ``read``. The summaries of both sides have to be made so, or the partitions differ.
    """
    none = np.full(len(partition), None, np.object_)

    def zeros(prefix: str) -> Integers:
        return np.zeros((len(partition), sum(name.startswith(prefix) for name in names)), np.int64)

    return Summaries(
        partition=partition,
        rows=rows,
        hashed=rows,
        least=none,
        greatest=none,
        words=zeros("word_"),
        syndromes=zeros("syndrome_"),
        minhashes=zeros("minhash_"),
        measures=np.zeros((len(partition), 0), np.object_),
    )


def of_sums(partition: Integers, rows: Integers, words: Integers, syndromes: Integers) -> Summaries:
    """Return the summaries of partitions, all of whose rows have a hash, and of whose keys nothing is known."""
    none = np.full(len(partition), None, np.object_)
    empty = np.zeros((len(partition), 0), np.int64)
    return Summaries(partition, rows, rows, none, none, words, syndromes, empty, np.zeros((len(partition), 0), np.object_))


def without_keys(summaries: Summaries) -> Summaries:
    """Return summaries without least and greatest keys."""
    none = np.full(len(summaries), None, np.object_)
    return replace(summaries, least=none, greatest=none)


def with_limits(summaries: Summaries, size: int) -> Summaries:
    """Return summaries of ranges of so many keys with the limits of these for the least and greatest keys, which nobody knows."""
    least, greatest = summaries.least.copy(), summaries.greatest.copy()
    for index, number in enumerate(summaries.partition.tolist()):
        if number != NULL_PARTITION:
            least[index], greatest[index] = number * size, (number + 1) * size - 1
    return replace(summaries, least=least, greatest=greatest)


def join_words(summaries: Summaries) -> Summaries:
    """Return signatures in which the second word's sum has its 30 low bits, and what is above them was added to the first.

    Both then are the digits of one number, the sum of the rows' words of 60 bits, whichever of the two an engine has summed.
    """
    words = summaries.words.copy()
    words[:, 0] += words[:, 1] >> 30
    words[:, 1] &= (1 << 30) - 1
    return replace(summaries, words=words)


def concatenate(parts: list[Summaries], names: Sequence[str] = ()) -> Summaries:
    """Return the summaries of several chunks of one side, merged by partition.

    ``names`` are those of ``read``; they are needed if there are measures, which are merged by name.
    """
    if len(parts) == 1:
        return parts[0]
    widths = (parts[0].words.shape[1], parts[0].syndromes.shape[1], parts[0].minhashes.shape[1])
    width = parts[0].measures.shape[1]
    merged = _merge_partitions(_concatenate_fields(parts, widths, width), list(names)[len(names) - width :])
    return replace(merged, syndromes=merged.syndromes % P)


def _integers(values: Sequence[Any], null: int = 0) -> Integers:
    integers: Any = values
    if isinstance(integers, np.ndarray) and integers.dtype.kind in "iu":
        return np.asarray(integers, np.int64)
    return np.fromiter((null if _is_null(value) else int(value) for value in values), np.int64, len(values))


def _is_null(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NULL in an Arrow column of integers becomes NaN


def _keys(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    keys = np.empty(len(values), dtype=np.object_)
    keys[:] = [None if _is_null(value) else int(value) for value in values]
    return keys


def _matrix(columns: list[Integers], rows: int) -> Integers:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)


def _objects(columns: list[Sequence[Any]], rows: int) -> npt.NDArray[np.object_]:
    table = np.empty((rows, len(columns)), dtype=np.object_)
    for index, column in enumerate(columns):
        table[:, index] = [None if _is_null(value) else str(value) for value in column]
    return table


def _concatenate_fields(parts: list[Summaries], widths: tuple[int, int, int], measured: int) -> Summaries:
    if not parts:
        none, nothing = np.zeros(0, np.int64), np.zeros(0, np.object_)
        words, powers, minima = (np.zeros((0, width), np.int64) for width in widths)
        return Summaries(none, none, none, nothing, nothing, words, powers, minima, np.zeros((0, measured), np.object_))
    pieces = {name: [getattr(part, name) for part in parts] for name in Summaries.__slots__}
    parts.clear()  # frees each column's pieces once they are joined, to halve the peak memory
    return Summaries(**{name: np.concatenate(pieces.pop(name)) for name in Summaries.__slots__})


def _merge_partitions(summaries: Summaries, measured: Sequence[str]) -> Summaries:
    """Return summaries ascending by id, with those of equal ids added up. ``measured`` are the names of the measures."""
    if not (summaries.partition[1:] > summaries.partition[:-1]).all():  # their difference may exceed 64 bits
        summaries = _take(summaries, np.argsort(summaries.partition, kind="stable"))
    starts = np.flatnonzero(np.diff(summaries.partition, prepend=summaries.partition[:1] - 1)) if len(summaries) else np.zeros(0, np.int64)
    if len(starts) == len(summaries):
        return summaries
    ends = np.append(starts[1:], len(summaries))
    least, greatest = (_merge_keys(keys, starts, ends, pick) for keys, pick in ((summaries.least, min), (summaries.greatest, max)))
    return Summaries(
        partition=summaries.partition[starts],
        rows=np.add.reduceat(summaries.rows, starts),
        hashed=np.add.reduceat(summaries.hashed, starts),
        least=least,
        greatest=greatest,
        words=np.add.reduceat(summaries.words, starts, axis=0),
        syndromes=np.add.reduceat(summaries.syndromes, starts, axis=0) if summaries.syndromes.shape[1] else summaries.syndromes[starts],
        minhashes=np.minimum.reduceat(summaries.minhashes, starts, axis=0) if summaries.minhashes.shape[1] else summaries.minhashes[starts],
        measures=_merge_measures(summaries.measures, starts, ends, measured),
    )


def _merge_keys(keys: npt.NDArray[np.object_], starts: Integers, ends: Integers, pick: Any) -> npt.NDArray[np.object_]:
    folded = np.empty(len(starts), dtype=np.object_)
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        folded[index] = pick((key for key in keys[start:end] if key is not None), default=None)
    return folded


def _merge_measures(cells: npt.NDArray[np.object_], starts: Integers, ends: Integers, names: Sequence[str]) -> npt.NDArray[np.object_]:
    folded = cells[starts].copy()
    for row in np.flatnonzero(ends - starts > 1):
        for index, name in zip(range(cells.shape[1]), names, strict=True):
            folded[row, index] = measures.fold(name, cells[starts[row] : ends[row], index])
    return folded


def _take(summaries: Summaries, rows: Integers) -> Summaries:
    return Summaries(**{name: getattr(summaries, name)[rows] for name in Summaries.__slots__})
