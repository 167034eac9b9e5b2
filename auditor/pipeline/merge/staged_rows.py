"""Make rows of a staging table of events: for each the key that goes and the row that comes, as texts that the target's types read."""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import ValueRefused
from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.merge.target_table import TargetTable
from auditor.sql.merge import CHANGE_COLUMNS
from dialects import Dialect, Kind

DATE_CHARACTERS = len("2024-02-29")

NO_TIME_OF_DAY = r"^-|^(2[5-9]|[3-9]\d|\d{3,}):|^24:.*[1-9]"
"""Times of MySQL that are durations: negative ones, and those beyond 24 hours."""


AS_THEY_ARE = frozenset({"integer", "decimal", "float64", "binary", "uuid"})
"""Kinds of which a target reads each value as the source's text says it."""

MOST_BYTES = 4
"""Bytes of a character in UTF-8, at most."""

Key: TypeAlias = tuple[str | None, ...]
"""The values of a key's columns."""

Row: TypeAlias = tuple[str | None, ...]
"""A row of a staging table, whose columns are `TargetTable.stage_columns`."""

COMES = ["insert", "update", "refresh"]
"""Events by which a row comes."""

GOES = ["delete", "absent"]
"""Events by which the row of a key goes, as that of an update does which changes the key."""

WITH_KEY_BEFORE = {*GOES, "update", "bounds"}
"""Events whose image before is read, of which only the key is."""


def staged_rows(events: pa.RecordBatch, table: TargetTable, attempt: str) -> pa.Table:
    """Return the changes of a batch of events of one schema, as texts in the columns of the staging table.

    An update inserts its row after, and deletes its key before if that is another; a change's place in the stream is its event's, an
    insertion after the deletion of the same event. Bounds become two rows, their lower key (l) and
    their upper one (h). Raises ValueRefused for a value that the target cannot hold.
    """
    schema, prefix = table.schema, table.statements.prefix
    # Where tables are many, most events come a few at a time: what no event of a batch needs is not computed.
    kinds, found = events["kind"], {*events["kind"].unique().to_pylist()}
    every, key = range(len(schema.columns)), [index for index, column in enumerate(schema.columns) if column.name in schema.key]
    before = _columns(events["before"], len(every), key) if found & WITH_KEY_BEFORE else {}
    after = _columns(events["after"], len(every), every)
    sides: list[tuple[str, Mapping[int, pa.Array], pa.Array]] = []
    if found & {*GOES, "update"}:
        goes = pc.is_in(kinds, pa.array(GOES))
        if "update" in found:
            moves = _differ([before[index] for index in key], [after[index] for index in key])
            goes = pc.or_(goes, pc.and_(pc.equal(kinds, "update"), moves))
        sides.append(("d", before, goes))
    if found & {*COMES}:
        sides.append(("i", after, pc.is_in(kinds, pa.array(COMES)) if found - {*COMES} else None))
    if "bounds" in found:
        bounds = pc.equal(kinds, "bounds")
        sides += [("l", before, bounds), ("h", {index: after[index] for index in key}, bounds)]
    changes = pa.concat_tables(
        [_side(events, schema, image, chosen, op, attempt, prefix) for op, image, chosen in sides or [("i", after, None)]]
    )
    columns = {name: changes[name] for name in (f"{prefix}{one}" for one in CHANGE_COLUMNS)}
    texts = {column.name: changes[column.name] for column in schema.columns}
    return pa.table(columns | _as_target_reads(table, texts))


def inserted_rows(texts: pa.Table, table: TargetTable, attempt: str, position: int) -> pa.Table:
    """Return rows, given as events give their values, as insertions in the columns of the staging table. Raises ValueRefused."""
    prefix, count = table.statements.prefix, texts.num_rows
    changes = {
        f"{prefix}attempt": pa.array([attempt] * count, pa.string()),
        f"{prefix}position": pa.array([str(position)] * count, pa.string()),
        f"{prefix}row": pa.array(np.arange(count) * 2 + 1).cast(pa.string()),
        f"{prefix}op": pa.array(["i"] * count, pa.string()),
    }
    return pa.table(changes | _as_target_reads(table, {column.name: texts[column.name] for column in table.schema.columns}))


def last_changes(events: pa.RecordBatch, table: TargetTable, attempt: str) -> pa.Table:
    """Return of what `staged_rows` returns the last change of each key; there are no bounds among the events, which are in order.

    Keys are equal if their texts are.
    """
    schema, prefix = table.schema, table.statements.prefix
    width, key = len(schema.columns), _key_of(schema)
    kinds = events["kind"].to_pylist()
    before, after = (_Images(events[name], width) for name in ("before", "after"))
    gone = before.keys(key) if {*kinds} & WITH_KEY_BEFORE else []
    come = after.keys(key) if {*kinds} & {*COMES} else []
    last = _choose_last(kinds, gone, come)
    at, comes = np.array([number for number, _ in last], np.int64), np.array([one for _, one in last], bool)
    columns = [pa.chunked_array([column]) for column in _columns_of(before, after, at, comes, key)]
    changes = {
        f"{prefix}attempt": pa.array([attempt] * len(at), pa.string()),
        f"{prefix}position": pa.array(events["position"].to_numpy()[at]).cast(pa.string()),
        f"{prefix}row": pa.array(events["row"].to_numpy()[at] * 2 + comes).cast(pa.string()),
        f"{prefix}op": pa.array(["i" if one else "d" for one in comes], pa.string()),
    }
    texts = dict(zip((column.name for column in schema.columns), columns, strict=True))
    return pa.table(changes | _as_target_reads(table, texts))


def few_last_changes(events: pa.RecordBatch, table: TargetTable, attempt: str) -> list[Row]:
    """Return the rows of `last_changes`, without Arrow's calls for each column, which of few events take longer than their values do."""
    schema, key = table.schema, _key_of(table.schema)
    kinds, positions, rows, before, after = (events[name].to_pylist() for name in ("kind", "position", "row", "before", "after"))
    gone, come = ([image and tuple(image[index] for index in key) for image in images] for images in (before, after))
    changes: list[Row] = []
    images: list[Sequence[str | None]] = []
    for number, comes in _choose_last(kinds, gone, come):
        changes.append((attempt, str(positions[number]), str(rows[number] * 2 + comes), "i" if comes else "d"))
        image = (after if comes else before)[number]
        images.append(image if comes else [text if index in key else None for index, text in enumerate(image)])
    if not changes:
        return []
    texts = [_few_texts(texts, column, table) for column, texts in zip(schema.columns, zip(*images, strict=True), strict=True)]
    return [(*change, *image) for change, image in zip(changes, zip(*texts, strict=True), strict=True)]


def _key_of(schema: TableSchema) -> list[int]:
    return [index for index, column in enumerate(schema.columns) if column.name in schema.key]


def _choose_last(kinds: Sequence[str], gone: Sequence[Key | None], come: Sequence[Key | None]) -> Collection[tuple[int, bool]]:
    """Return the number of the last event of each key, and whether the row comes by it, of the keys before and after the events."""
    last: dict[Key | None, tuple[int, bool]] = {}
    for number, kind in enumerate(kinds):
        if kind in GOES or (kind == "update" and gone[number] != come[number]):
            last[gone[number]] = number, False
        if kind in COMES:
            last[come[number]] = number, True
    return last.values()


class _Images:
    """The rows before, or after, some events, as one array of values."""

    def __init__(self, rows: pa.ListArray, width: int) -> None:
        self.values, self.width = rows.flatten(), width
        self._present = rows.is_valid().to_numpy(zero_copy_only=False)
        self.starts: np.ndarray = (np.cumsum(self._present) - self._present) * width
        """Where the row of each event begins in the array, if it has one."""

    def keys(self, indexes: Sequence[int]) -> list[Key | None]:
        """Return the values of some columns for each event; None where there is no row."""
        columns = [self.values.take(pa.array(np.arange(index, len(self.values), self.width))).to_pylist() for index in indexes]
        found = iter(zip(*columns, strict=True))
        return [next(found) if present else None for present in self._present]


def _columns_of(before: _Images, after: _Images, at: np.ndarray, comes: np.ndarray, key: Sequence[int]) -> list[pa.Array]:
    """Return the columns of rows that come, and of those that go the columns of their keys, with NULL in the others."""
    values, starts, mask = after.values, after.starts[at], None
    columns = np.arange(after.width)[:, None]
    if not comes.all():
        values = pa.concat_arrays([values, before.values])
        starts = np.where(comes, starts, before.starts[at] + len(after.values))
        mask = (~comes & ~np.isin(columns, key)).ravel()
    found = values.take(pa.array((starts + columns).ravel(), mask=mask))
    return [found.slice(column * len(at), len(at)) for column in range(after.width)]


def _as_target_reads(table: TargetTable, texts: Mapping[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    """Return the values of the source's columns as those of the target's. Raises ValueRefused."""
    return {table.names[column.name]: _texts_of(texts[column.name], column, table) for column in table.schema.columns}


def _texts_of(texts: pa.ChunkedArray, column: ColumnSchema, table: TargetTable) -> pa.ChunkedArray:
    """Return the values of a column as the target's reads them. Raises ValueRefused."""
    name = table.names[column.name]
    kind, about = table.columns[name], f"{table.schema.database}.{table.schema.table}.{column.name}"
    found = _texts(texts, kind, about, table.statements.dialect)
    if name in table.longest:
        _refuse_long(found, kind, about, table.longest[name])
    return found


def _few_texts(texts: Sequence[str | None], column: ColumnSchema, table: TargetTable) -> Sequence[str | None]:
    """Return the same of a few values: as they are where it is seen at once that this is what `_texts_of` returns."""
    name, types = table.names[column.name], table.statements.dialect.types
    kind, present = table.columns[name], [text for text in texts if text is not None]
    if kind.name in ("date", "timestamp", "timestamptz"):
        is_seen = types.ZERO_DATES or not any(_why_no_date(text[:DATE_CHARACTERS]) for text in present)
    elif kind.is_free_text:
        is_seen = "NUL in text" not in types.UNSUPPORTED_VALUES or not any("\0" in text for text in present)
    else:
        is_seen = kind.name in AS_THEY_ARE
    longest = table.longest.get(name)
    if is_seen and (longest is None or not present or MOST_BYTES * max(map(len, present)) <= longest):
        return texts
    found: list[str | None] = _texts_of(pa.chunked_array([pa.array(texts, pa.string())]), column, table).to_pylist()
    return found


def _columns(rows: pa.ListArray, width: int, indexes: Iterable[int]) -> dict[int, pa.Array]:
    """Return some columns of row images, by their indexes; NULL where there is none."""
    absent = rows.is_null().to_numpy(zero_copy_only=False) if rows.null_count else None
    number = np.arange(len(rows)) if absent is None else np.cumsum(~absent) - 1
    values = rows.flatten()
    return {index: values.take(pa.array(number * width + index, mask=absent)) for index in indexes}


def _differ(one: Sequence[pa.Array], other: Sequence[pa.Array]) -> pa.Array:
    found = pc.not_equal(one[0], other[0])
    for left, right in zip(one[1:], other[1:], strict=True):
        found = pc.or_(found, pc.not_equal(left, right))
    return found.fill_null(False)


def _side(
    events: pa.RecordBatch,
    schema: TableSchema,
    columns: Mapping[int, pa.Array],
    chosen: pa.Array | None,
    op: str,
    attempt: str,
    prefix: str,
) -> pa.Table:
    """Return one change for each chosen event, or each of all (None), with the values of these columns."""

    def choose(values: pa.Array) -> pa.Array:
        return values if chosen is None else values.filter(chosen)

    position, row = choose(events["position"]), choose(events["row"]).to_numpy(zero_copy_only=False)
    count = len(position)
    changes = {
        f"{prefix}attempt": pa.array([attempt] * count, pa.string()),
        f"{prefix}position": position.cast(pa.string()),
        f"{prefix}row": pa.array(row * 2 + (1 if op == "i" else 0)).cast(pa.string()),
        f"{prefix}op": pa.array([op] * count, pa.string()),
    }
    texts = {
        column.name: choose(columns[index]) if index in columns else pa.nulls(count, pa.string())
        for index, column in enumerate(schema.columns)
    }
    return pa.table({**changes, **texts})


def _texts(texts: pa.ChunkedArray, kind: Kind, column: str, dialect: Dialect) -> pa.ChunkedArray:
    """Return values as the target's type reads them. Raises ValueRefused."""
    if kind.name in ("date", "timestamp", "timestamptz"):
        if dialect.types.ZERO_DATES:
            return texts
        _refuse_dates(texts, column)
    elif kind.name == "time":
        if dialect.types.LONG_CLOCKS:
            return texts
        _refuse(texts, NO_TIME_OF_DAY, column, "no time of day, as every target's TIME is", show=True)
    elif kind.is_free_text and (reason := dialect.types.UNSUPPORTED_VALUES.get("NUL in text")):
        _refuse(texts, "\0", column, f"a text with the character U+0000, and {dialect.name}: {reason}", show=False)
    elif kind.name == "float32" and dialect.writing.READS_FLOATS_AS_DOUBLES:
        return texts.cast(pa.float32()).cast(pa.float64()).cast(pa.string())
    elif kind.name == "bit":
        return _bits(texts, kind.digits or 1)
    return texts


def _refuse(texts: pa.ChunkedArray, pattern: str, column: str, what: str, show: bool) -> None:
    found = pc.match_substring(texts, pattern) if pattern == "\0" else pc.match_substring_regex(texts, pattern)
    if pc.any(found).as_py():
        value = f" ({texts.filter(found)[0].as_py()})" if show else ""
        raise ValueRefused(f"{column} holds {what}{value}; exclude the column (columns: exclude), or correct the value in the source")


def _refuse_dates(texts: pa.ChunkedArray, column: str) -> None:
    """Refuse dates that are none but in MySQL: with a year, month or day of 0, or, with ALLOW_INVALID_DATES, days that no month has."""
    for day in pc.unique(pc.utf8_slice_codeunits(texts, 0, DATE_CHARACTERS)).to_pylist():
        if day is None or not (why := _why_no_date(day)):
            continue
        found = why.format(day=day, text=texts.filter(pc.starts_with(texts, day))[0].as_py())
        raise ValueRefused(f"{column} holds {found}; exclude the column (columns: exclude), or correct the value in the source")


@lru_cache(maxsize=100_000)
def _why_no_date(text: str) -> str:
    """Return what a date is that no target takes, with places for it and for the text that begins with it; '' for any other."""
    year, month, day = (int(one) for one in text.split("-"))
    if not (year and month and day):
        return "no date of this target ({text})"
    if month > 12 or day > calendar.monthrange(year, month)[1]:
        return "a date that does not exist ({day}), which this target does not take"
    return ""


def _refuse_long(texts: pa.ChunkedArray, kind: Kind, column: str, longest: int) -> None:
    lengths = pc.binary_length(texts)
    most = (pc.max(lengths).as_py() or 0) // (2 if kind.name == "binary" else 1)
    if most > longest:
        raise ValueRefused(
            f"{column} holds a value of {most:,} bytes, and the target's column takes {longest:,}; exclude the column (columns: exclude),"
            " or shorten the value in the source"
        )


def _bits(texts: pa.ChunkedArray, width: int) -> pa.ChunkedArray:
    """Return bit strings of numbers in decimal digits."""
    numbers = texts.combine_chunks().cast(pa.uint64())
    present = numbers.is_valid()
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    shifts = np.arange(width - 1, -1, -1, dtype=np.uint64)
    digits = ((values[:, None] >> shifts) & np.uint64(1)).astype(np.uint8) + ord("0")
    found = pa.array(digits.view(f"S{width}").ravel().astype(str), pa.string()) if len(values) else pa.array([], pa.string())
    return pa.chunked_array([pc.if_else(present, found, None)], pa.string())


def plain_message(text: str, names: Collection[str] = ()) -> str:
    """Return an engine's message without what it quotes, which may be a value of a row, unless that is one of these ``names``."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", lambda found: found[0] if found[0][1:-1] in names else "'...'", text)
