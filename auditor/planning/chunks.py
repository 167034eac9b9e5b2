"""The chunks in which each side's table is read, and how many rows one holds.

A chunk is a key range that one statement reads. Planning cuts a table into two of them and says how many keys one of the usual size spans;
from there the run divides them, and adapts their width to how long statements take: `run/chunk_queue.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import dialects
from auditor.model import Chunk, Plan, Side, SidePlan
from auditor.planning.columns import Endpoint

CHUNK_ROWS = 262144
"""Most rows per statement on a row store whose derived tables spill to disk: MariaDB's do beyond about 400,000 rows."""

COLUMN_CHUNK_ROWS = 1 << 26
"""Most rows per statement on a column store."""

NO_SPILL_FACTOR = 4
"""Factor on CHUNK_ROWS for row stores that do not spill: each further chunk costs a query plan and compiled expressions."""


def plan_chunks(plan: Plan, end: Endpoint, rows: int, side: Side) -> SidePlan:
    """Return a side with its chunks: a large table with an integer key is read in key ranges, on a row store through its index.

    A column store's chunks are larger, because it finds a key range by its sort key at best. An engine that finds none reads the
    table in one statement; so is a query, which would run as a whole for each of its key ranges.
    """
    here = dataclasses.replace(plan.sides[side], estimate=rows)
    most = (
        COLUMN_CHUNK_ROWS
        if not end.dialect.ROW_STORE
        else CHUNK_ROWS
        if end.dialect.SPILLS_LARGE_DERIVED_TABLES
        else CHUNK_ROWS * NO_SPILL_FACTOR
    )
    if (
        end.query
        or not plan.span
        or not end.dialect.FINDS_KEY_RANGES
        or rows <= (CHUNK_ROWS if end.dialect.ROW_STORE else COLUMN_CHUNK_ROWS)
    ):
        return here
    column = plan.columns[0]
    middle = (plan.least or 0) + plan.span // 2
    middle -= middle % (plan.partitioning.size or 1)
    # Rows whose key is NULL lie in no key range, so they need a chunk of their own. A computed key may always be NULL.
    never_null = column.expression[side] in {end.dialect.names.quote(c.name) for c in end.table.columns if not c.nullable}
    chunks = (Chunk(),) if never_null else (Chunk(end=middle), Chunk(first=middle), Chunk(null_key=True))
    return dataclasses.replace(here, chunks=chunks, chunk_keys=math.ceil(plan.span * most / rows))


def chunks_of_digests(here: SidePlan, most_keys: int) -> SidePlan:
    """Return a side with the chunks in which digests of stretches are read.

    They are as large as on an engine that does not write derived tables to disk, because the rows of digests are none, but have at most
    ``most_keys`` keys where each stretch is written into the statement.
    """
    dialect = dialects.get(here.dialect)
    keys = here.chunk_keys * (NO_SPILL_FACTOR if dialect.SPILLS_LARGE_DERIVED_TABLES else 1)
    return dataclasses.replace(here, chunk_keys=keys if dialect.HAS_LATERAL else min(keys, most_keys))


def subtract(chunk: Chunk, done: Sequence[Chunk]) -> list[Chunk]:
    """Return the ranges of a chunk that none of the ``done`` ones covers."""
    if chunk.null_key or chunk.within:
        return [] if chunk in done else [chunk]
    rest = [chunk]
    for read in done:
        if not read.null_key and not read.within:
            rest = [piece for chunk in rest for piece in _subtract_one(chunk, read)]
    return rest


def _subtract_one(chunk: Chunk, read: Chunk) -> list[Chunk]:
    if not chunk.overlaps(read):
        return [chunk]
    (first, end), (low, high) = chunk.bounds, read.bounds
    pieces = []
    if low > first:
        pieces.append(dataclasses.replace(chunk, end=read.first))
    if high < end:
        pieces.append(dataclasses.replace(chunk, first=read.end))
    return pieces


def read_first(here: SidePlan, ranges: Sequence[tuple[int, int]]) -> SidePlan:
    """Return a side with the same rows in its chunks, those of some ranges of keys before all others.

    Each range is from the first key (inclusive) to the end (exclusive), and none overlaps another. A side that is read in one statement
    stays as it is.
    """
    if not here.chunk_keys:
        return here
    chosen = [Chunk(first, end) for first, end in ranges]
    first = [piece for wanted in chosen for piece in within(here, wanted)]
    others = [piece for chunk in here.chunks for piece in subtract(chunk, chosen)]
    return dataclasses.replace(here, chunks=(*first, *others))


def within(here: SidePlan, wanted: Chunk) -> list[Chunk]:
    """Return what a side reads of a range of keys with both bounds, as such ranges."""
    assert wanted.first is not None and wanted.end is not None, "only of ranges with both bounds"
    return [
        Chunk(
            wanted.first if chunk.first is None else max(chunk.first, wanted.first),
            wanted.end if chunk.end is None else min(chunk.end, wanted.end),
        )
        for chunk in here.chunks
        if not chunk.null_key and not chunk.within and chunk.overlaps(wanted)
    ]
