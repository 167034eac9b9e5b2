"""A table with a column of every kind that an engine stores, and what the reference in Python makes of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, SidePlan
from auditor.sql.literals import value_literal
from auditor.testing.values import FAMILIES, Family, adapt
from dialects import Dialect, Kind, Session

TABLE = "canonical_values"
"""The name of the table."""

ROWS = 500
"""Number of rows per INSERT."""

Columns = Sequence[tuple[str, Kind]]


class Compared(NamedTuple):
    """A column of the engine's table, the kind it was created with, and the kind it is compared as."""

    family: Family
    created_as: Kind
    column: ColumnPlan


@cache
def draw_rows(count: int) -> Sequence[Mapping[str, Any]]:
    """Return at least so many rows with one value per family, NULLs among them; the first are the simplest, later ones are random."""
    drawn_rows: list[dict[str, Any]] = []
    drawn = st.fixed_dictionaries({family.name: st.none() | family.values | family.values for family in FAMILIES})

    @settings(max_examples=count + 50, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(drawn)
    def draw(row: dict[str, Any]) -> None:
        drawn_rows.append(row)

    draw()
    return drawn_rows


def supported_columns(dialect: Dialect) -> list[tuple[Family, Kind]]:
    """Return the family and kind of every column that an engine can store."""
    supported = []
    for family in FAMILIES:
        for kind in family.kinds:
            try:
                dialect.types.native_type(kind)
            except LookupError:
                continue
            supported.append((family, kind))
    return supported


def catalogue_kind(dialect: Dialect, kind: Kind) -> Kind:
    """Return the kind that an engine's catalogue reports for a column created with this kind."""
    return dialect.types.kind(dialect.types.native_type(kind).partition(" CHARACTER SET ")[0].lower()) or kind


def make_table(url: str, name: str, columns: Columns, rows: Sequence[Sequence[Any]], key: str = "") -> None:
    """Create and fill a table, replacing any previous one; ``key`` becomes its primary key. Raises AuditorError and ValueError."""
    parsed = dialects.parse_url(url)
    dialect = dialects.by_scheme(parsed.scheme)
    with closing(dialect.connect(dialect.addresses.write_url(parsed), 3600.0)) as session:
        quoted, primary = session.dialect.names.quote(name), f", PRIMARY KEY ({session.dialect.names.quote(key)})" if key else ""
        types = ", ".join(f"{session.dialect.names.quote(column)} {session.dialect.types.native_type(kind)}" for column, kind in columns)
        session.execute(f"DROP TABLE IF EXISTS {quoted}")
        session.execute(f"CREATE TABLE {quoted} ({types}{primary})")
        for start in range(0, len(rows), ROWS):
            values = (
                "(" + ", ".join(value_literal(session.dialect, kind, value) for (_, kind), value in zip(columns, row, strict=True)) + ")"
                for row in rows[start : start + ROWS]
            )
            session.execute(f"INSERT INTO {quoted} VALUES {', '.join(values)}")


_made: set[tuple[str, int]] = set()


def ensure_table(url: str, count: int) -> None:
    """Create and fill the table of every kind, once per process and URL."""
    if (url, count) in _made:
        return
    columns = supported_columns(dialects.by_scheme(dialects.parse_url(url).scheme))
    rows = [[number, *(adapt(family, row[family.name], kind) for family, kind in columns)] for number, row in enumerate(draw_rows(count))]
    make_table(url, TABLE, [("n", Kind("integer")), *((family.column(kind), kind) for family, kind in columns)], rows)
    _made.add((url, count))


def describe_columns(session: Session) -> dict[str, dialects.Column]:
    """Return the columns of the table as the catalogue describes them, by name."""
    table = session.dialect.catalogue.describe(session, dialects.Place((TABLE,)))[0]
    return {column.name: column for column in table.columns}


def column_plans(session: Session) -> list[Compared]:
    """Return every column in every kind in which it can be compared with its family's columns on any installed engine, on either side."""
    compared_by_kind: dict[tuple[str, Kind], Compared] = {}
    columns = describe_columns(session)
    pairs = [(dialect, *pair) for dialect in dialects.working() for pair in supported_columns(dialect)]
    partners = {(family.name, kind, catalogue_kind(dialect, kind)) for dialect, family, kind in pairs}
    for family, kind_here in supported_columns(session.dialect):
        here = columns[family.column(kind_here)]
        assert here.kind, f"{here.native} has no kind"
        for name, kind_there, catalogue_there in sorted(partners, key=str):
            among_texts = {kind_here, kind_there} <= {family.kinds[0], Kind("text")}
            if name != family.name or ("text" in (kind_here.name, kind_there.name) and not among_texts):
                continue
            for shared in (canonical.shared_kind(here.kind, catalogue_there), canonical.shared_kind(catalogue_there, here.kind)):
                if shared is not None:
                    column = _plan_column(session.dialect, here, shared)
                    compared_by_kind.setdefault((here.name, shared.kind), Compared(family, kind_here, column))
    return list(compared_by_kind.values())


def _plan_column(dialect: Dialect, column: dialects.Column, shared: canonical.Shared) -> ColumnPlan:
    return ColumnPlan(
        name=f"{column.name} as {shared.kind}",
        kind=shared.kind,
        native=dict.fromkeys(SIDES, column.kind or shared.kind),
        expression=dict.fromkeys(SIDES, dialect.names.quote(column.name)),
        types=dict.fromkeys(SIDES, column.native),
        why=shared.why,
    )


def expected(compared: Compared, row: Mapping[str, Any]) -> str | None:
    """Return the reference's text of the family's value as the column stores it."""
    value = adapt(compared.family, row[compared.family.name], compared.created_as)
    if value is None or (compared.created_as.name == "text" and compared.column.kind.name != "json"):
        return None if value is None else str(value)
    return canonical.text(compared.created_as if compared.column.kind.name == "bit" else compared.column.kind, value)


def make_plan(session: Session, columns: Sequence[ColumnPlan]) -> Plan:
    """Return a plan of these columns of the table, whose rows are read on either side."""
    side = SidePlan(dialect=session.dialect.name, connection="", label="", table=session.dialect.names.quote(TABLE), where="")
    return Plan(
        audit="canonical",
        method="signature",
        sides={"source": side, "target": side},
        columns=tuple(columns),
        key=1,
        partitioning=Partitioning(strategy="hash", buckets=1),
        prefix="a_",
    )
