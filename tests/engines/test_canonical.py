"""Every engine's canonical text and row hash equal the plain-Python oracle's, on random values and edge cases.

Each engine has one table with a column of every kind it supports, filled with rows that Hypothesis draws. Each column is read as every
kind it shares with a column of any engine, then whole rows are hashed with SHA-256 and MD5. If each engine yields the oracle's text, any
two engines yield the same text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical
from auditor.errors import AuditorError
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, SidePlan
from auditor.sql import row_text
from dialects import Dialect, HashAlgorithm, Kind, Session
from dialects.kinds import KIND_NAMES
from tests import tables
from tests.live import ENGINES, Engine, LiveEngine
from tests.values import EXTREMES, FAMILIES, Family, adapt

TABLE = "canonical_values"
EXAMPLES = 200


@cache
def rows(examples: int) -> list[dict[str, Any]]:
    """Draw rows with one value per family, including NULLs; the first rows are the simplest, later ones are random."""
    drawn_rows: list[dict[str, Any]] = []
    drawn = st.fixed_dictionaries({family.name: st.none() | family.values | family.values for family in FAMILIES})

    @settings(max_examples=examples + 50, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(drawn)
    def draw(row: dict[str, Any]) -> None:
        drawn_rows.append(row)

    draw()
    return drawn_rows


def examples(request: pytest.FixtureRequest) -> int:
    return 5000 if request.config.getoption("--deep") else EXAMPLES


class Compared(NamedTuple):
    """A column of the engine's table, the kind it was created with, and the kind it is compared as."""

    family: Family
    created_as: Kind
    column: ColumnPlan


def supported_columns(dialect: Dialect) -> list[tuple[Family, Kind]]:
    """Return the family and kind of every column that an engine can store."""
    found = []
    for family in FAMILIES:
        for kind in family.kinds:
            try:
                dialect.native_type(kind)
            except LookupError:
                continue
            found.append((family, kind))
    return found


_CREATED: set[tuple[str, int]] = set()


def ensure_table(engine: LiveEngine, count: int) -> None:
    """Create and fill the engine's table, once per session."""
    if (engine.name, count) in _CREATED:
        return
    columns = supported_columns(dialects.get(engine.dialect))
    drawn = rows(count)
    values = [[number, *(adapt(family, row[family.name], kind) for family, kind in columns)] for number, row in enumerate(drawn)]
    tables.make(engine, TABLE, [("n", Kind("integer")), *((family.column(kind), kind) for family, kind in columns)], values)
    _CREATED.add((engine.name, count))


def columns_of(engine: Engine | LiveEngine) -> list[tuple[Family, Kind]]:
    """Return the columns of an engine's table."""
    return supported_columns(dialects.get(engine.dialect))


ALIASES = {
    ("mariadb", Kind("json")): Kind("text"),  # https://mariadb.com/kb/en/json/
    ("redshift", Kind("uuid")): Kind("text"),
    ("redshift", Kind("network")): Kind("text"),
    ("redshift", Kind("integer", unsigned=True)): Kind("decimal", 20, 0),
}
"""Kinds that the catalogue reports in place of the kind a column was created with, because the engine lacks the latter."""


def catalogue_kind(engine: Engine | LiveEngine, kind: Kind) -> Kind:
    """Return the kind that the engine's catalogue reports for a column created with this kind."""
    dialect = dialects.get(engine.dialect)
    native = dialect.native_type(kind).partition(" CHARACTER SET ")[0].lower()
    return ALIASES.get((engine.name, kind)) or dialect.kind(native) or kind


def describe_columns(session: Session) -> dict[str, dialects.Column]:
    table = session.dialect.describe(session, dialects.Place((TABLE,)))[0]
    return {column.name: column for column in table.columns}


def column_plans(engine: LiveEngine, session: Session) -> list[Compared]:
    """Return every column of the engine in every kind it can be compared as with its family's columns on any engine, on either side."""
    found: dict[tuple[str, Kind], Compared] = {}
    columns = describe_columns(session)
    partners = {(one.name, family.name, kind): catalogue_kind(one, kind) for one in ENGINES for family, kind in columns_of(one)}
    for family, kind_here in columns_of(engine):
        column_here = columns[family.column(kind_here)]
        assert column_here.kind, f"{column_here.native} has no kind"
        for (_, name, kind_there), catalogue_there in partners.items():
            if name != family.name or (
                "text" in (kind_here.name, kind_there.name) and not {kind_here, kind_there} <= {family.kinds[0], Kind("text")}
            ):
                continue
            for shared in (
                canonical.shared_kind(column_here.kind, catalogue_there),
                canonical.shared_kind(catalogue_there, column_here.kind),
            ):
                if shared is not None:
                    expression, quoted = session.dialect.quote(column_here.name), f"{column_here.name} as {shared.kind}"
                    column = ColumnPlan(
                        name=quoted,
                        kind=shared.kind,
                        native=dict.fromkeys(SIDES, column_here.kind),
                        expression=dict.fromkeys(SIDES, expression),
                        types=dict.fromkeys(SIDES, column_here.native),
                        why=shared.why,
                    )
                    found.setdefault((column_here.name, shared.kind), Compared(family, kind_here, column))
    return list(found.values())


@pytest.fixture
def session(engine: LiveEngine, request: pytest.FixtureRequest) -> Iterator[Session]:
    ensure_table(engine, examples(request))
    with closing(dialects.connect(engine.url)) as opened:
        yield opened


def test_canonical_text_of_every_shared_kind_equals_the_oracle(
    engine: LiveEngine, session: Session, request: pytest.FixtureRequest
) -> None:
    drawn = rows(examples(request))
    assert len(drawn) >= EXAMPLES
    plans = column_plans(engine, session)
    assert len({compared.family.name for compared in plans}) >= 12, "too few families were compared"
    wrong: dict[str, str] = {}
    dialect = session.dialect
    texts = ", ".join(row_text.text(compared.column, "source", dialect) for compared in plans)
    got = session.query(f"SELECT n, {texts} FROM {dialect.quote(TABLE)} ORDER BY n")
    assert len(got) == len(drawn)
    for row, (_, *found) in zip(drawn, got, strict=True):
        for compared, text in zip(plans, found, strict=True):
            wanted = expected(compared, row)
            if text != wanted:
                wrong.setdefault(compared.column.name, f"{row[compared.family.name]!r}: {text!r}, not {wanted!r}")
    assert not wrong, "\n" + "\n".join(f"{where}: {what}" for where, what in wrong.items())


def test_catalogue_reports_the_kind_a_column_was_created_with(engine: LiveEngine, session: Session) -> None:
    """This makes the shared kinds of two engines computable without connecting to the other engine."""
    columns = describe_columns(session)
    found = {family.column(kind): columns[family.column(kind)].kind for family, kind in columns_of(engine)}
    assert found == {family.column(kind): catalogue_kind(engine, kind) for family, kind in columns_of(engine)}


def test_case_is_folded_as_the_oracle_does(engine: LiveEngine, session: Session, request: pytest.FixtureRequest) -> None:
    """Letters beyond A to Z stay as they are, also those that engines, locales and editions of Unicode fold in different ways."""
    dialect, many = session.dialect, "".join(map(chr, range(0x21, 0x600))) + "ẞΣς\u212aǅⅧⓐꙀﬀ😀𐐀"
    column, constant = dialect.characters(dialect.quote("free_text")), dialect.string_literal(many)
    folded = ", ".join(function(c) for c in (column, constant) for function in (dialect.lower, dialect.upper))
    got = session.query(f"SELECT {folded} FROM {dialect.quote(TABLE)} ORDER BY n")
    assert {row[2:] for row in got} == {(canonical.fold_case(many, "lower"), canonical.fold_case(many, "upper"))}
    for text, (lower, upper, *_) in zip((row["free"] for row in rows(examples(request))), got, strict=True):
        wanted = (None, None) if text is None else (canonical.fold_case(text, "lower"), canonical.fold_case(text, "upper"))
        assert (lower, upper) == wanted


def expected(compared: Compared, row: dict[str, Any]) -> str | None:
    """Return the oracle's text of the family's value as the column stores it."""
    value = adapt(compared.family, row[compared.family.name], compared.created_as)
    if value is None or (compared.created_as.name == "text" and compared.column.kind.name != "json"):
        return None if value is None else str(value)
    return canonical.text(compared.created_as if compared.column.kind.name == "bit" else compared.column.kind, value)


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("algorithm", ["sha256", pytest.param("md5", marks=pytest.mark.slow)])
def test_row_hashes_equal_the_oracle(
    engine: LiveEngine, session: Session, algorithm: HashAlgorithm, request: pytest.FixtureRequest
) -> None:
    drawn = rows(examples(request))
    chosen = column_plans(engine, session)
    random.Random(engine.name).shuffle(chosen)
    if algorithm == "md5" and not session.dialect.HAS_MD5:
        with pytest.raises(AuditorError):
            session.query("SELECT MD5('')")
        return
    # Rows of different shapes: all columns, and ten at a time in one statement, which Spark plans once.
    for some in ([chosen], [chosen[i : i + 10] for i in range(0, len(chosen), 10)]):
        plans = [make_plan(session, [compared.column for compared in columns]) for columns in some]
        hashes = [session.dialect.row_hash(row_text.row_text(plan, "source", session.dialect), algorithm) for plan in plans]
        got = session.query(f"SELECT n, {', '.join(hashes)} FROM {session.dialect.quote(TABLE)} ORDER BY n")
        for row, (_, *found) in zip(drawn, got, strict=True):
            for columns, one in zip(some, found, strict=True):
                wanted = [expected(compared, row) for compared in columns]
                assert one == canonical.row_hash(canonical.row_text(wanted), algorithm), row


def make_plan(session: Session, columns: list[ColumnPlan]) -> Plan:
    side = SidePlan(dialect=session.dialect.name, connection="", label="", table=session.dialect.quote(TABLE), where="")
    return Plan(
        audit="canonical",
        method="signature",
        sides={"source": side, "target": side},
        columns=tuple(columns),
        key=1,
        partitioning=Partitioning(strategy="hash", buckets=1),
    )


def test_kind_without_a_native_type_is_listed_as_unsupported(engine: LiveEngine) -> None:
    dialect = dialects.get(engine.dialect)
    for name in KIND_NAMES - {"rounded", "enum", "set"}:
        if name not in dialect.TYPE_BY_KIND:
            assert dialect.UNSUPPORTED_VALUES.get(name), (
                f"{engine.dialect} has no type for {name} and does not list it in UNSUPPORTED_VALUES"
            )


def test_nul_in_text_is_stored_or_listed_as_unsupported(engine: LiveEngine) -> None:
    dialect = dialects.get(engine.dialect)
    column = [("n", Kind("integer")), ("x", Kind("text"))]
    if "NUL in text" in dialect.UNSUPPORTED_VALUES:
        with pytest.raises((AuditorError, ValueError)):
            tables.make(engine, "nul", column, [(1, "a\0b")])
        return
    tables.make(engine, "nul", column, [(1, "a\0b")])
    hashed = dialect.row_hash(dialect.canonical_text(Kind("text"), dialect.quote("x"), Kind("text")), "sha256")
    assert tables.query(engine, f"SELECT {hashed} FROM {dialect.quote('nul')}") == [(canonical.row_hash("a\0b"),)]


def test_nan_and_infinity_are_stored_or_listed_as_unsupported(engine: LiveEngine) -> None:
    """For NaN and infinities an engine yields the oracle's text, or rejects them and lists them as unsupported."""
    dialect = dialects.get(engine.dialect)
    kind = Kind("float64")
    values = EXTREMES["double"]
    columns = [("n", Kind("integer")), ("x", kind)]
    if "nan" in dialect.UNSUPPORTED_VALUES:
        for value in values:
            with pytest.raises(AuditorError):
                tables.make(engine, "extremes", columns, [(0, value)])
        return
    tables.make(engine, "extremes", columns, list(enumerate(values)))
    text = dialect.canonical_text(kind, dialect.quote("x"), kind)
    got = tables.query(engine, f"SELECT {text} FROM {dialect.quote('extremes')} ORDER BY n")
    assert [row[0] for row in got] == [canonical.text(kind, value) for value in values]
