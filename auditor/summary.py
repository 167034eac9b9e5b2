"""Engine rows to aligned arrays: what one side says of its partitions.

Results come column by column in batches, and become arrays at once: 65,536 partitions at k = 64 are some 40 MB a side.
Summaries are linear: those of chunks, even of overlapping partitions, add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor import measuring
from auditor.field import P
from auditor.model import NULL_PARTITION
from dialects import Columns

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summaries:
    """The summaries of one side, one row a partition, ascending by id.

    ``partition``, ``rows`` and ``hashed`` are (n,) integers; a partition with fewer hashed rows than rows holds a row whose
    text the engine could not build, and cannot be compared. ``least`` and ``greatest`` are (n,) keys as Python integers or
    None. ``words`` is (n, words), ``syndromes`` (n, sums - 1) modulo P from S_1 on (S_0 is the first word), ``minhashes`` (n, k),
    ``measures`` (n, m) texts.
    """

    partition: Integers
    rows: Integers
    hashed: Integers
    least: npt.NDArray[np.object_]
    greatest: npt.NDArray[np.object_]
    words: Integers
    syndromes: Integers
    minhashes: Integers
    measures: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.partition)


def read(batches: Iterable[Columns], names: Sequence[str]) -> Summaries:
    """The summaries in a result whose columns are ``names``, in that order."""
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
                words=_table([_integers(batch[where[name]]) for name in words], len(rows)),
                syndromes=_table([_integers(batch[where[name]]) for name in powers], len(rows)),
                minhashes=_table([_integers(batch[where[name]]) for name in minima], len(rows)),
                measures=_objects([batch[where[name]] for name in measured], len(rows)),
            )
        )
    found = _folded(_joined(parts, (len(words), len(powers), len(minima)), len(measured)), measured)
    return replace(found, syndromes=found.syndromes % P)


def together(parts: list[Summaries], names: Sequence[str] = ()) -> Summaries:
    """The summaries of several chunks or readers of one side, as one; ``names`` as in ``read``, for measures are folded by them."""
    if len(parts) == 1:
        return parts[0]
    widths = (parts[0].words.shape[1], parts[0].syndromes.shape[1], parts[0].minhashes.shape[1])
    width = parts[0].measures.shape[1]
    found = _folded(_joined(parts, widths, width), list(names)[len(names) - width :])
    return replace(found, syndromes=found.syndromes % P)


def _integers(values: Sequence[Any], null: int = 0) -> Integers:
    held: Any = values
    if isinstance(held, np.ndarray) and held.dtype.kind in "iu":
        return np.asarray(held, np.int64)
    return np.fromiter((null if _is_null(value) else int(value) for value in values), np.int64, len(values))


def _is_null(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 - Arrow's NULL in a column of integers becomes NaN


def _keys(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    keys = np.empty(len(values), dtype=np.object_)
    keys[:] = [None if _is_null(value) else int(value) for value in values]
    return keys


def _table(columns: list[Integers], rows: int) -> Integers:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)


def _objects(columns: list[Sequence[Any]], rows: int) -> npt.NDArray[np.object_]:
    table = np.empty((rows, len(columns)), dtype=np.object_)
    for index, column in enumerate(columns):
        table[:, index] = [None if _is_null(value) else str(value) for value in column]
    return table


def _joined(parts: list[Summaries], widths: tuple[int, int, int], measured: int) -> Summaries:
    if not parts:
        none, nothing = np.zeros(0, np.int64), np.zeros(0, np.object_)
        words, powers, minima = (np.zeros((0, width), np.int64) for width in widths)
        return Summaries(none, none, none, nothing, nothing, words, powers, minima, np.zeros((0, measured), np.object_))
    pieces = {name: [getattr(part, name) for part in parts] for name in Summaries.__slots__}
    parts.clear()  # a column's pieces go as it is joined, so that both are held of one column only
    return Summaries(**{name: np.concatenate(pieces.pop(name)) for name in Summaries.__slots__})


def _folded(found: Summaries, measured: Sequence[str]) -> Summaries:
    """Ascending by id; partitions that several chunks contributed to, added up."""
    if len(found) > 1 and not (np.diff(found.partition) > 0).all():
        found = _taken(found, np.argsort(found.partition, kind="stable"))
    starts = np.flatnonzero(np.diff(found.partition, prepend=found.partition[:1] - 1)) if len(found) else np.zeros(0, np.int64)
    if len(starts) == len(found):
        return found
    ends = np.append(starts[1:], len(found))
    least, greatest = (_extremes(keys, starts, ends, pick) for keys, pick in ((found.least, min), (found.greatest, max)))
    return Summaries(
        partition=found.partition[starts],
        rows=np.add.reduceat(found.rows, starts),
        hashed=np.add.reduceat(found.hashed, starts),
        least=least,
        greatest=greatest,
        words=np.add.reduceat(found.words, starts, axis=0),
        syndromes=np.add.reduceat(found.syndromes, starts, axis=0) if found.syndromes.shape[1] else found.syndromes[starts],
        minhashes=np.minimum.reduceat(found.minhashes, starts, axis=0) if found.minhashes.shape[1] else found.minhashes[starts],
        measures=_measures(found.measures, starts, ends, measured),
    )


def _extremes(keys: npt.NDArray[np.object_], starts: Integers, ends: Integers, pick: Any) -> npt.NDArray[np.object_]:
    folded = np.empty(len(starts), dtype=np.object_)
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        folded[index] = pick((key for key in keys[start:end] if key is not None), default=None)
    return folded


def _measures(cells: npt.NDArray[np.object_], starts: Integers, ends: Integers, names: Sequence[str]) -> npt.NDArray[np.object_]:
    folded = cells[starts].copy()
    for row in np.flatnonzero(ends - starts > 1):
        for index, name in zip(range(cells.shape[1]), names, strict=True):
            folded[row, index] = measuring.fold(name, cells[starts[row] : ends[row], index])
    return folded


def _taken(found: Summaries, rows: Integers) -> Summaries:
    return Summaries(**{name: getattr(found, name)[rows] for name in Summaries.__slots__})
