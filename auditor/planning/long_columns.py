"""Choose the columns whose digests enter the row text, where an engine cannot build a text of all their values.

Redshift builds no text of more than 65,535 bytes. Whether a row is longer is known only from its columns' declared lengths, before its
values are read, and both sides' row texts must be made alike: so the plan decides, by the lengths of the side that has the limit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from auditor.model import SIDES, ColumnPlan, Side
from auditor.planning.columns import Endpoint
from dialects.hashes import PIECE_BYTES
from dialects.kinds import FREE_TEXT_KINDS

DIGEST_WIDTH = 66
"""Bytes of a digest and the separator after it."""

OTHER_WIDTH = 80
"""Bytes of the longest text of a number, a time or a UUID, and the separator after it."""

RESERVE = 1000
"""Bytes left for the salt."""

MOST_PIECES = 16
"""Pieces of a value whose longest length is not declared: a SUPER beyond 512,000 bytes is not hashed, so that its row is not compared.
Each piece makes every statement longer."""


def hash_long_columns(columns: Sequence[ColumnPlan], ends: Mapping[Side, Endpoint]) -> tuple[ColumnPlan, ...]:
    """Return the columns of an injective row text, those with a digest that would make it too long for a side's engine.

    First those of which a single value can be too long, then the widest, and no more than are needed.
    """
    chosen = tuple(columns)
    for side in SIDES:
        most = ends[side].dialect.MAX_TEXT_BYTES
        if most is not None:
            chosen = _fit(tuple(_cut(column, side, most) for column in chosen), side, most)
    return chosen


def notes(columns: Sequence[ColumnPlan]) -> list[str]:
    """Return the sentence of a plan about columns that are hashed on their own; empty where none is."""
    names = [column.name for column in columns if column.digest]
    if not names:
        return []
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"the row text holds the SHA-256 of {listed} instead of the text, because an engine builds no text as long as all may be"]


def _cut(column: ColumnPlan, side: Side, most: int) -> ColumnPlan:
    """Return a column with a digest of pieces if its own text may be too long on this side, without the text of the whole row."""
    native = column.native[side]
    is_document = native.name == "json"
    is_long = column.kind.name == "binary" and (native.bytes is None or 2 * native.bytes > most)
    if not (is_document or is_long) or column.trim or column.case or column.null_as is not None:
        return column
    pieces = MOST_PIECES if native.bytes is None else math.ceil(native.bytes / PIECE_BYTES)
    return dataclasses.replace(column, digest=True, pieces=max(pieces, column.pieces))


def _fit(columns: tuple[ColumnPlan, ...], side: Side, most: int) -> tuple[ColumnPlan, ...]:
    widths = [_width(column, side, most) for column in columns]
    hashed = set[int]()
    for index in sorted(range(len(columns)), key=lambda place: -widths[place]):
        if sum(widths) + RESERVE <= most or widths[index] <= OTHER_WIDTH:
            break
        widths[index] = DIGEST_WIDTH
        hashed.add(index)
    return tuple(dataclasses.replace(column, digest=True) if index in hashed else column for index, column in enumerate(columns))


def _width(column: ColumnPlan, side: Side, most: int) -> int:
    """Return the bytes that a column takes at most in the row text: each character may be a bar, which is written as two."""
    native = column.native[side]
    if column.digest:
        return DIGEST_WIDTH
    if column.kind.name == "binary":
        return OTHER_WIDTH + 2 * (native.bytes or most)
    if native.name not in FREE_TEXT_KINDS:
        return OTHER_WIDTH
    return OTHER_WIDTH + 2 * (most if native.bytes is None else native.bytes)
