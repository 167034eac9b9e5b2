"""Make rows of a staging table of events: for each the key that goes and the row that comes, as texts that the target's types read."""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import ValueRefused
from auditor.pipeline.events import TableSchema, source_kind
from auditor.sql.merge import CHANGE_COLUMNS, PREFIX
from dialects import Dialect, Kind

NO_DATE = r"^0000|^\d+-00|^\d+-\d+-00"
"""Dates of MySQL that are no dates elsewhere: the year 0, and a month or day of 0."""

LAST_DAYS = r"^\d{4}-(?:\d\d-(?:29|3\d)|(?:1[3-9]|[2-9]\d)-)"
"""Dates at the ends of months, which may be no dates at all."""

NO_TIME_OF_DAY = r"^-|^(2[5-9]|[3-9]\d|\d{3,}):|^24:.*[1-9]"
"""Times of MySQL that are durations: negative ones, and those beyond 24 hours."""


def staged_rows(
    events: pa.RecordBatch,
    schema: TableSchema,
    names: Mapping[str, str],
    dialect: Dialect,
    attempt: str,
    longest: Mapping[str, int],
    prefix: str = PREFIX,
) -> pa.Table:
    """Return the changes of a batch of events of one schema, as texts in the columns of a staging table.

    An update inserts its row after, and deletes its key before if that is another; a change's place in the stream is its event's, an
    insertion after the deletion of the same event. Bounds become two rows, their lower key (l) and
    their upper one (h). ``names`` are the target's names of the columns, ``longest`` the bytes of the longest
    value that some of its columns hold, by these names; the names of the other columns begin with ``prefix``. Raises ValueRefused for a
    value that the target cannot hold.
    """
    kinds = events["kind"]
    updates, bounds = pc.equal(kinds, "update"), pc.equal(kinds, "bounds")
    before, after = (_columns(events[name], len(schema.columns)) for name in ("before", "after"))
    key = [index for index, column in enumerate(schema.columns) if column.name in schema.key]
    comes = pc.is_in(kinds, pa.array(["insert", "update", "refresh"]))
    moves = pc.and_(updates, _differ([before[index] for index in key], [after[index] for index in key]))
    goes = pc.or_(pc.is_in(kinds, pa.array(["delete", "absent"])), moves)
    gone = _side(events, schema, before, goes, "d", attempt, prefix, only=key)
    new = _side(events, schema, after, comes, "i", attempt, prefix, only=range(len(schema.columns)))
    low, high = (_side(events, schema, image, bounds, op, attempt, prefix, only=key) for image, op in ((before, "l"), (after, "h")))
    changes = pa.concat_tables([gone, new, low, high])
    columns = {name: changes[name] for name in (f"{prefix}{one}" for one in CHANGE_COLUMNS)}
    for column in schema.columns:
        kind = source_kind(column)
        assert kind is not None
        about, name = f"{schema.database}.{schema.table}.{column.name}", names[column.name]
        columns[name] = _texts(changes[column.name], kind, about, dialect)
        if name in longest:
            _refuse_long(columns[name], kind, about, longest[name])
    return pa.table(columns)


def _columns(rows: pa.ListArray, width: int) -> list[pa.Array]:
    """Return the columns of row images; NULL where there is none."""
    present = rows.is_valid()
    places = pc.if_else(present, pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1), None)
    values = rows.flatten()
    return [pc.take(values, pc.add(pc.multiply(places, width), index)) for index in range(width)]


def _differ(one: Sequence[pa.Array], other: Sequence[pa.Array]) -> pa.Array:
    found = pc.not_equal(one[0], other[0])
    for left, right in zip(one[1:], other[1:], strict=True):
        found = pc.or_(found, pc.not_equal(left, right))
    return found.fill_null(False)


def _side(
    events: pa.RecordBatch,
    schema: TableSchema,
    columns: Sequence[pa.Array],
    chosen: pa.Array,
    op: str,
    attempt: str,
    prefix: str,
    only: Sequence[int],
) -> pa.Table:
    count = pc.sum(chosen).as_py() or 0
    rows = pc.add(pc.multiply(events["row"].filter(chosen), 2), 1 if op == "i" else 0)
    changes = {
        f"{prefix}attempt": pa.array([attempt] * count, pa.string()),
        f"{prefix}position": events["position"].filter(chosen).cast(pa.string()),
        f"{prefix}row": rows.cast(pa.string()),
        f"{prefix}op": pa.array([op] * count, pa.string()),
    }
    texts = [column.filter(chosen) if index in only else pa.nulls(count, pa.string()) for index, column in enumerate(columns)]
    return pa.table({**changes, **{column.name: text for column, text in zip(schema.columns, texts, strict=True)}})


def _texts(texts: pa.ChunkedArray, kind: Kind, column: str, dialect: Dialect) -> pa.ChunkedArray:
    """Return values as the target's type reads them. Raises ValueRefused."""
    if kind.name in ("date", "timestamp", "timestamptz"):
        if dialect.types.ZERO_DATES:
            return texts
        _refuse(texts, NO_DATE, column, "no date of any target", show=True)
        _refuse_days(texts, column)
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


def _refuse_days(texts: pa.ChunkedArray, column: str) -> None:
    """Refuse days that no month has, which MySQL stores with ALLOW_INVALID_DATES. Raises ValueRefused."""
    for date in pc.unique(texts.filter(pc.match_substring_regex(texts, LAST_DAYS).fill_null(False))).to_pylist():
        year, month, day = (int(one) for one in date[:10].split("-"))
        if month > 12 or day > calendar.monthrange(year, month)[1]:
            raise ValueRefused(
                f"{column} holds a date that does not exist ({date[:10]}), which no target takes; exclude the column (columns: exclude), or"
                " correct the value in the source"
            )


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
