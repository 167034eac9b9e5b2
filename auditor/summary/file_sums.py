"""The sums of one file's rows by partition, as bytes: what is kept of a file in place of reading it again.

All of a summary's numbers that add up: rows, words and power sums; of the keys only the least and the greatest of the file. Each column
takes as few bytes as its greatest number needs, and all are compressed. `FORM` is a part of what a file's sums are known by: raise it
whenever the form, or the meaning of a number, changes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from auditor.errors import FileSumsWrong
from auditor.summary import arrays
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.key_number import P

FORM = 1
"""The version of the form."""

TYPES = ("<u1", "<u2", "<u4", "<i8")


@dataclass(frozen=True, slots=True)
class FileSums:
    """The sums of rows of a file, or of several, by partition, ascending."""

    sums: Summaries
    """Without keys."""
    least: int | None = None
    """Least key of all rows; None where keys have no order, or there are no rows."""
    greatest: int | None = None
    """Greatest key, likewise."""


def of_rows(summaries: Summaries) -> FileSums:
    """Return the sums of a summary, all of whose rows have a hash."""
    least = min((key for key in summaries.least if key is not None), default=None)
    greatest = max((key for key in summaries.greatest if key is not None), default=None)
    return FileSums(arrays.without_keys(summaries), least, greatest)


def pack(sums: FileSums) -> bytes:
    """Return sums as bytes."""
    numbers = sums.sums
    columns = [np.diff(numbers.partition, prepend=numbers.partition[:1]), numbers.rows, *numbers.words.T, *numbers.syndromes.T]
    bodies, types = [], []
    for column in columns:
        kind = _narrowest(column)
        width = np.dtype(TYPES[kind]).itemsize
        bodies.append(np.ascontiguousarray(column.astype(TYPES[kind]).view(np.uint8).reshape(-1, width).T).tobytes())
        types.append(kind)
    first = int(numbers.partition[0]) if len(numbers) else 0
    head = {
        "form": FORM,
        "n": len(numbers),
        "first": first,
        "words": numbers.words.shape[1],
        "powers": numbers.syndromes.shape[1],
        "types": types,
        "keys": [None if key is None else str(key) for key in (sums.least, sums.greatest)],
    }
    return json.dumps(head).encode() + b"\n" + zlib.compress(b"".join(bodies), 1)


def unpack(body: bytes, words: int, powers: int) -> FileSums:
    """Return what `pack` wrote, of so many words and power sums a partition. Raises FileSumsWrong."""
    try:
        text, _, compressed = body.partition(b"\n")
        head, data = json.loads(text), zlib.decompress(compressed)
        if (head["form"], head["words"], head["powers"]) != (FORM, words, powers):
            raise ValueError("another form")
        columns, at, count = [], 0, int(head["n"])
        for kind in head["types"]:
            width = np.dtype(TYPES[kind]).itemsize
            piece = np.frombuffer(data, np.uint8, count * width, at).reshape(width, count).T
            columns.append(np.ascontiguousarray(piece).view(TYPES[kind]).reshape(count).astype(np.int64))
            at += count * width
        if at != len(data) or len(columns) != 2 + words + powers:
            raise ValueError("another length")
        least, greatest = (None if key is None else int(key) for key in head["keys"])
    except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
        raise FileSumsWrong("the sums of a file cannot be read; the file is read again") from error
    partition = np.cumsum(columns[0]) + int(head["first"])
    wide = [np.stack(part, axis=1) if part else np.zeros((count, 0), np.int64) for part in (columns[2 : 2 + words], columns[2 + words :])]
    return FileSums(arrays.of_sums(partition, columns[1], *wide), least, greatest)


def add(parts: Sequence[FileSums], words: int, powers: int) -> FileSums:
    """Return the sums of several files together, of so many words and power sums a partition."""
    nothing = np.zeros(0, np.int64)
    none = arrays.of_sums(nothing, nothing, np.zeros((0, words), np.int64), np.zeros((0, powers), np.int64))
    total = arrays.concatenate([none, *(arrays.without_keys(part.sums) for part in parts)])
    least = min((part.least for part in parts if part.least is not None), default=None)
    greatest = max((part.greatest for part in parts if part.greatest is not None), default=None)
    return FileSums(replace(total, syndromes=total.syndromes % P), least, greatest)


def subtract(all_rows: FileSums, hidden: FileSums, words: int, powers: int) -> FileSums:
    """Return the sums of the rows that are left without some of them; the keys are at most as far apart as those of all rows.

    Raises FileSumsWrong where what is left cannot be the sums of rows.
    """
    minus = hidden.sums
    negative = arrays.of_sums(minus.partition, -minus.rows, -minus.words, -minus.syndromes % P)
    left = add([all_rows, FileSums(negative)], words, powers).sums
    is_empty = left.rows == 0
    if (left.rows < 0).any() or (left.words < 0).any() or left.words[is_empty].any() or left.syndromes[is_empty].any():
        raise FileSumsWrong("the sums of files and those of the rows that deletes hide do not fit each other")
    kept = arrays.of_sums(left.partition[~is_empty], left.rows[~is_empty], left.words[~is_empty], left.syndromes[~is_empty])
    return FileSums(kept, all_rows.least, all_rows.greatest)


def fingerprint(sums: FileSums) -> bytes:
    """Return what is equal for sums of equal rows, and for no others."""
    digest = hashlib.sha256()
    for numbers in (sums.sums.partition, sums.sums.rows, sums.sums.words, sums.sums.syndromes):
        digest.update(str(numbers.shape).encode() + np.ascontiguousarray(numbers, "<i8").tobytes())
    return digest.digest()


def _narrowest(column: Integers) -> int:
    if not len(column):
        return 0
    least, greatest = int(column.min()), int(column.max())
    return next((kind for kind, bits in enumerate((8, 16, 32)) if least >= 0 and greatest < 1 << bits), 3)
