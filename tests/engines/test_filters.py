"""A portable filter selects the same rows on every engine: those that plain Python selects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import pytest
from hypothesis import Phase, given, settings

import dialects
from auditor.model import SIDES, Side
from auditor.sql import filter as portable
from auditor.sql.filter import FilterColumn
from dialects import Column, Dialect
from tests import filters, tables
from tests.filters import COLUMNS, NOW, Filter
from tests.live import ENGINES, LiveEngine

EXAMPLES, DEEP = 400, 10_000
AT_ONCE = 100
"""Filters in one statement, a column each."""
BY_WHERE = 12
"""Filters that are also tried as the condition of a SELECT, where engines use indexes and push conditions down to files."""


@cache
def draw_filters(count: int) -> list[Filter]:
    drawn: list[Filter] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(filters.filters())
    def draw(one: Filter) -> None:
        drawn.append(one)

    draw()
    return drawn


@cache
def table_of(engine: LiveEngine) -> str:
    return tables.shared_table(engine, COLUMNS, [list(row.values()) for row in filters.rows()], ["id"])


def described(engine: LiveEngine) -> dict[str, Column]:
    name = table_of(engine)
    session = dialects.connect(engine.url)
    try:
        return {column.name: column for column in session.dialect.catalogue.describe(session, dialects.Place((name,)))[0].columns}
    finally:
        session.close()


def expected(dialect: Dialect) -> dict[str, Column]:
    """Return the columns that an engine's catalogue reports of the table."""
    found = {}
    for name, kind in COLUMNS:
        native = dialect.types.native_type(kind).partition(" CHARACTER SET ")[0].lower()
        found[name] = Column(name, native, dialect.types.kind(native) or kind, nullable=True)
    return found


def renderers(here: Mapping[str, Column], dialect: Dialect) -> Iterator[portable.Renderer]:
    """Yield what renders an engine's SQL against each engine on the other side, in both directions; ``here`` are its own columns."""
    for other in dict.fromkeys(dialects.get(one.dialect) for one in ENGINES if one.dialect):
        there = expected(other)
        for side in SIDES:
            columns = {}
            for name, _ in COLUMNS:
                both: dict[Side, Column] = dict.fromkeys(SIDES, there[name])
                both[side] = here[name]
                columns[name] = FilterColumn(name, dict.fromkeys(SIDES, dialect.names.quote(name)), both)
            if columns["flag"].sort == "truth":  # MySQL beside itself has no truth values
                yield portable.Renderer(columns, side, dialect)


def render(ways: Sequence[portable.Renderer], one: Filter) -> set[str]:
    """Return the SQL of a filter on an engine: one text, or several if it depends on the other side's types."""
    bound = portable.bind(portable.parse(one.text), NOW)
    return {way.condition(bound) for way in ways}


@pytest.mark.slow_on("spark")
def test_a_portable_filter_selects_the_same_rows_on_every_engine(engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    drawn = draw_filters(DEEP if request.config.getoption("--deep") else EXAMPLES)
    here = described(engine)
    session = dialects.connect(engine.url)
    ways = list(renderers(here, session.dialect))
    rendered = [(sql, one) for one in drawn for sql in sorted(render(ways, one))]
    table, data = session.dialect.names.quote(table_of(engine)), filters.rows()
    wrong: list[tuple[str, str]] = []
    for start in range(0, len(rendered), AT_ONCE):
        some = rendered[start : start + AT_ONCE]
        answers = ", ".join(f"CASE WHEN {sql} THEN 1 ELSE 0 END AS f{number}" for number, (sql, _) in enumerate(some))
        ids, *found = zip(*session.query(f"SELECT id, {answers} FROM {table}"), strict=True)
        for (sql, one), column in zip(some, found, strict=True):
            if {id for id, answer in zip(ids, column, strict=True) if answer} != one.selects(data):
                wrong.append((one.text, sql))
    tried = [pair for pair in rendered if 3 < len(pair[1].selects(data)) < len(data) - 3][:BY_WHERE]
    by_where = [f"SELECT {number} AS filter, id FROM {table} WHERE {sql}" for number, (sql, _) in enumerate(tried)]
    rows = session.query(" UNION ALL ".join(by_where))
    for number, (sql, one) in enumerate(tried):
        if {id for filter, id in rows if int(filter) == number} != one.selects(data):
            wrong.append((one.text, sql))
    session.close()
    assert not wrong, "\n\n".join(f"{text}\n{sql}" for text, sql in wrong[:10])
