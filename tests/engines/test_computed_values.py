"""A value of the portable language is the same on every engine, and in the tasks of a pipeline, or it is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings

import dialects
from auditor.config import ComputedColumn
from auditor.errors import BadExpression
from auditor.model import SIDES
from auditor.pipeline.row_expressions import ComputedColumns
from auditor.sql import filter as portable
from auditor.sql.filter import FilterColumn
from dialects import Column, Dialect
from tests import computed, filters
from tests.computed import Computed
from tests.engines.test_filters import described, table_of
from tests.live import LiveEngine
from tests.pipeline_events import table

EXAMPLES, DEEP = 300, 10_000
AT_ONCE = 50
"""Values in one statement."""
LEAST = 0.8
"""The part of the drawn values that an engine computes at least; the others may need too many digits."""

NATIVES = {
    "id": "bigint", "n": "bigint null", "u": "bigint unsigned null", "d": "decimal(10,2) null", "e": "decimal(18,6) null",
    "x": "double null", "flag": "tinyint(1) null", "s": "text null", "r": "text null", "c": "char(8) null", "day": "date null",
    "at": "datetime(6) null", "zoned": "timestamp(6) null",
}  # fmt: skip
"""The columns of the table as a pipeline's source has them."""


@cache
def draw_values(count: int) -> list[Computed]:
    drawn: list[Computed] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(computed.values())
    def draw(one: Computed) -> None:
        drawn.append(one)

    draw()
    return drawn


def render(one: Computed, here: Mapping[str, Column], dialect: Dialect) -> str | None:
    """Return SQL of the canonical text of a value; None if it is refused."""
    columns = {
        name: FilterColumn(name, dict.fromkeys(SIDES, dialect.names.quote(name)), dict.fromkeys(SIDES, column))
        for name, column in here.items()
    }
    try:
        found = portable.Renderer(columns, "source", dialect).value(portable.bind_value(portable.parse_value(one.text)))
        value = portable.of_kind(found, one.kind, dialect)
    except BadExpression:
        return None
    assert value.kind
    return dialect.canonical.canonical_text(one.kind, f"({value.sql})", value.kind)


@pytest.mark.few
@pytest.mark.slow_on("spark")
def test_a_computed_value_is_the_same_on_every_engine(engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    drawn = draw_values(DEEP if request.config.getoption("--deep") else EXAMPLES)
    here = described(engine)
    session = dialects.connect(engine.url)
    rendered = [(sql, one) for one in drawn if (sql := render(one, here, session.dialect)) is not None]
    quoted, data = session.dialect.names.quote(table_of(engine)), filters.rows()
    wrong: list[Any] = []
    for start in range(0, len(rendered), AT_ONCE):
        some = rendered[start : start + AT_ONCE]
        answers = ", ".join(f"{sql} AS f{number}" for number, (sql, _) in enumerate(some))
        for id, *found in session.query(f"SELECT id, {answers} FROM {quoted}"):
            row = data[int(id)]
            for value, (sql, one) in zip(found, some, strict=True):
                if value != (right := one.canonical(row)):
                    wrong.append((one.text, value, right, row, sql))
    session.close()
    assert not wrong, "\n\n".join(f"{text}\n{value!r}, not {right!r}\n{row}\n{sql}" for text, value, right, row, sql in wrong[:5])
    assert len(rendered) > LEAST * len(drawn)


def logged(row: filters.Row) -> list[str | None]:
    """Return a row as the texts that a pipeline's events hold."""
    return [None if row[name] is None else _logged(row[name], native) for name, native in NATIVES.items()]


def _logged(value: Any, native: str) -> str:
    match value:
        case bool():
            return str(int(value))
        case dt.datetime():
            return f"{value:%m-%d %H:%M:%S.%f}".join([f"{value.year:04}-", ""])
        case float():
            return repr(value)
    return str(value)


def test_a_pipeline_computes_the_same_values(request: pytest.FixtureRequest) -> None:
    schema, data = table("kept", ("id",), **NATIVES), filters.rows()
    texts = [pa.array(column, pa.string()) for column in zip(*(logged(row) for row in data), strict=True)]
    drawn = draw_values(DEEP if request.config.getoption("--deep") else EXAMPLES)
    wrong, done = list[tuple[str, Any, Any]](), 0
    for one in drawn:
        kind = "text" if one.sort == "text" else str(one.kind)
        try:
            column = ComputedColumns({"made": ComputedColumn(kind=kind, expr=one.text)}, schema)
        except (BadExpression, ValueError):
            continue
        done += 1
        [found] = column.compute({index: texts[index] for index in column.indexes}, len(data))
        for row, value in zip(data, found.to_pylist(), strict=True):
            right = one.canonical(row)
            if _canonical(one, value) != right:
                wrong.append((one.text, value, right))
    assert not wrong, wrong[:10]
    assert done > LEAST * len(drawn)


def _canonical(one: Computed, text: str | None) -> str | None:
    """Return the canonical text of a value that an event holds."""
    return text.rstrip("0").rstrip(".") if text is not None and one.sort == "time" else text
