"""Every engine's canonical text and row hash against the plain-Python oracle, on random and on tricky values.

For each engine one table holds every kind it has, filled with rows that Hypothesis draws. For each ordered pair of engines
every pair of columns that shares a kind is compared as that kind, text by text, and then whole rows by SHA-256 and MD5.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical, render
from auditor.errors import AuditorError
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, Side, SidePlan
from dialects import Algorithm, Dialect, Kind, Session
from dialects._kinds import NAMES
from tests import tables
from tests.engines import LiveEngine, LivePair
from tests.values import EXTREMES, FAMILIES, Family, adapt

TABLE = "canonical_values"
EXAMPLES = 200


@cache
def rows(examples: int) -> list[dict[str, Any]]:
    """So many rows, a value a family, NULLs among them: the first ones what Hypothesis finds simplest, then anything."""
    found: list[dict[str, Any]] = []
    drawn = st.fixed_dictionaries({family.name: st.none() | family.values | family.values for family in FAMILIES})

    @settings(max_examples=examples + 50, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(drawn)
    def draw(row: dict[str, Any]) -> None:
        found.append(row)

    draw()
    return found


def examples(request: pytest.FixtureRequest) -> int:
    return 5000 if request.config.getoption("--deep") else EXAMPLES


class Compared(NamedTuple):
    """Two columns of one family, the kinds they were made as, and how they are compared."""

    family: Family
    kinds: dict[Side, Kind]
    column: ColumnPlan


def held(dialect: Dialect) -> list[tuple[Family, Kind]]:
    """The columns that an engine can hold."""
    found = []
    for family in FAMILIES:
        for kind in family.kinds:
            try:
                dialect.native_type(kind)
            except LookupError:
                continue
            found.append((family, kind))
    return found


_MADE: set[tuple[str, int]] = set()


def made(engine: LiveEngine, count: int) -> None:
    """Fill the engine's table, once a run."""
    if (engine.name, count) in _MADE:
        return
    columns = held(dialects.get(engine.dialect))
    drawn = rows(count)
    values = [[number, *(adapt(family, row[family.name], kind) for family, kind in columns)] for number, row in enumerate(drawn)]
    tables.make(engine, TABLE, [("n", Kind("integer")), *((family.column(kind), kind) for family, kind in columns)], values)
    _MADE.add((engine.name, count))


def described(session: Session) -> dict[str, dialects.Column]:
    table = session.dialect.describe(session, dialects.Place((TABLE,)))[0]
    return {column.name: column for column in table.columns}


def column_plans(pair: LivePair, sessions: dict[str, Session]) -> list[Compared]:
    """Every pair of columns of one family that shares a kind."""
    found: list[Compared] = []
    columns = {side: described(sessions[side]) for side in SIDES}
    for family in FAMILIES:
        for mine in family.kinds:
            for other in family.kinds:
                here, there = columns["source"].get(family.column(mine)), columns["target"].get(family.column(other))
                if not here or not there or ("text" in (mine.name, other.name) and not {mine, other} <= {family.kinds[0], Kind("text")}):
                    continue
                assert here.kind and there.kind, f"{here.native} or {there.native} has no kind"
                shared = canonical.share(here.kind, there.kind)
                if shared is None:
                    continue
                found.append(
                    Compared(
                        family,
                        {"source": mine, "target": other},
                        ColumnPlan(
                            name=f"{here.name}/{there.name}",
                            kind=shared.kind,
                            native={"source": here.kind, "target": there.kind},
                            expression={
                                "source": sessions["source"].dialect.quote(here.name),
                                "target": sessions["target"].dialect.quote(there.name),
                            },
                            types={"source": here.native, "target": there.native},
                            why=shared.why,
                        ),
                    )
                )
    return found


@pytest.fixture
def sessions(pair: LivePair, request: pytest.FixtureRequest) -> Any:
    count = examples(request)
    for engine in {pair.source, pair.target}:
        made(engine, count)
    opened = {side: dialects.connect(getattr(pair, side).url) for side in SIDES}
    yield opened
    for session in opened.values():
        session.close()


def test_canonical_text_of_every_shared_kind_is_the_oracles(
    pair: LivePair, sessions: dict[str, Session], request: pytest.FixtureRequest
) -> None:
    drawn = rows(examples(request))
    assert len(drawn) >= EXAMPLES
    plans = column_plans(pair, sessions)
    assert len({compared.family.name for compared in plans}) >= 12, "few families were compared"
    wrong: dict[str, str] = {}
    for side in SIDES:
        dialect = sessions[side].dialect
        texts = ", ".join(render.text(column, side, dialect) for _, _, column in plans)
        got = sessions[side].query(f"SELECT n, {texts} FROM {dialect.quote(TABLE)} ORDER BY n")
        assert len(got) == len(drawn)
        for row, (_, *found) in zip(drawn, got, strict=True):
            for compared, text in zip(plans, found, strict=True):
                family, column = compared.family, compared.column
                wanted = expected(compared, side, row)
                if text != wanted:
                    wrong.setdefault(f"{side}: {column.name} as {column.kind}", f"{row[family.name]!r}: {text!r}, not {wanted!r}")
    assert not wrong, "\n" + "\n".join(f"{where}: {what}" for where, what in wrong.items())


def expected(compared: Compared, side: Side, row: dict[str, Any]) -> str | None:
    """The oracle's text of what the side's column holds of the family's value."""
    held_kind = compared.kinds[side]
    value = adapt(compared.family, row[compared.family.name], held_kind)
    if value is None or (held_kind.name == "text" and compared.column.kind.name != "json"):
        return None if value is None else str(value)
    return canonical.text(held_kind if compared.column.kind.name == "bit" else compared.column.kind, value)


@pytest.mark.parametrize("algorithm", ["sha256", pytest.param("md5", marks=pytest.mark.slow)])
def test_row_hashes_are_the_oracles(
    pair: LivePair, sessions: dict[str, Session], algorithm: Algorithm, request: pytest.FixtureRequest
) -> None:
    drawn = rows(examples(request))
    chosen = column_plans(pair, sessions)
    random.Random(f"{pair.source.name}-{pair.target.name}").shuffle(chosen)
    for side in SIDES:
        session = sessions[side]
        if algorithm == "md5" and not session.dialect.HAS_MD5:
            with pytest.raises(AuditorError):
                session.query("SELECT MD5('')")
            continue
        # Different shapes of rows: all columns, and a few at a time.
        for some in (chosen, *(chosen[i : i + 3] for i in range(0, len(chosen), 3))):
            plan = plan_of(session, [compared.column for compared in some])
            text = render.row_text(plan, side, session.dialect)
            hashed = session.dialect.row_hash(text, algorithm)
            got = session.query(f"SELECT n, {hashed} FROM {session.dialect.quote(TABLE)} ORDER BY n")
            for row, (_, found) in zip(drawn, got, strict=True):
                wanted = [expected(compared, side, row) for compared in some]
                assert found == canonical.row_hash(canonical.row_text(wanted), algorithm), f"{side}: {row}"


def plan_of(session: Session, columns: list[ColumnPlan]) -> Plan:
    side = SidePlan(dialect=session.dialect.name, connection="", label="", table=session.dialect.quote(TABLE), where="")
    return Plan(
        audit="canonical",
        method="signature",
        sides={"source": side, "target": side},
        columns=tuple(columns),
        key=1,
        partitioning=Partitioning(strategy="hash", buckets=1),
    )


def test_a_kind_without_a_native_type_is_a_stated_gap(engine: LiveEngine) -> None:
    dialect = dialects.get(engine.dialect)
    for name in NAMES - {"rounded", "enum", "set"}:
        if name not in dialect.NATIVE:
            assert dialect.GAPS.get(name), f"{engine.dialect} has no type for {name} and does not say so"


def test_a_nul_in_text_is_kept_or_a_stated_gap(engine: LiveEngine) -> None:
    dialect = dialects.get(engine.dialect)
    column = [("n", Kind("integer")), ("x", Kind("text"))]
    if "NUL in text" in dialect.GAPS:
        with pytest.raises((AuditorError, ValueError)):
            tables.make(engine, "nul", column, [(1, "a\0b")])
        return
    tables.make(engine, "nul", column, [(1, "a\0b")])
    hashed = dialect.row_hash(dialect.text(Kind("text"), dialect.quote("x"), Kind("text")), "sha256")
    assert tables.query(engine, f"SELECT {hashed} FROM {dialect.quote('nul')}") == [(canonical.row_hash("a\0b"),)]


def test_values_an_engine_cannot_hold_are_stated_gaps(engine: LiveEngine) -> None:
    """NaN and the infinities: an engine yields the oracle's text of them, or refuses them and says so among its gaps."""
    dialect = dialects.get(engine.dialect)
    kind = Kind("float64")
    values = EXTREMES["double"]
    columns = [("n", Kind("integer")), ("x", kind)]
    if "nan" in dialect.GAPS:
        for value in values:
            with pytest.raises(AuditorError):
                tables.make(engine, "extremes", columns, [(0, value)])
        return
    tables.make(engine, "extremes", columns, list(enumerate(values)))
    text = dialect.text(kind, dialect.quote("x"), kind)
    got = tables.query(engine, f"SELECT {text} FROM {dialect.quote('extremes')} ORDER BY n")
    assert [row[0] for row in got] == [canonical.text(kind, value) for value in values]
