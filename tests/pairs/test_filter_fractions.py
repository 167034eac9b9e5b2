"""A filter on times that are finer in the source than in the target selects the same rows on both sides.

The target's engine stores the fine values itself, or they are stored as a loader does that ``fraction`` describes. Filters are drawn beside
these values: at halves of the digits that are kept, at the ends of days and years, and at the years from which engines count.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical
from auditor.config import Audit
from auditor.model import SIDES, Side
from auditor.planning.columns import Endpoint, NameResolver
from auditor.planning.filters import plan_filter
from dialects import Kind, Session
from dialects.kinds import Rounding
from tests import tables
from tests.engines import test_time_rounding as rounding
from tests.live import LiveEngine, LivePair, chosen_pairs
from tests.pairs.test_fractions import COARSE

pytestmark = pytest.mark.engines_in_turn

EXAMPLES, DEEP = 300, 10_000
AT_ONCE = 100
"""Filters in one statement, a column each."""

NAMES = ("stamp", "day", "moment")
FINE = [("id", Kind("integer")), ("stamp", Kind("timestamp", scale=6)), ("day", Kind("timestamp", scale=6)),
        ("moment", Kind("timestamptz", scale=6))]  # fmt: skip
NOW = dt.datetime(2024, 3, 31, 23, 59, 59, 500_000)
PAIRS = chosen_pairs("mysql-postgres", "postgres-mysql", "postgres-mariadb", "mariadb-duckdb", "duckdb-mysql")

Row = tuple[int, dt.datetime | None, dt.datetime | None, dt.datetime | None]


@cache
def rows() -> list[Row]:
    """Return fine values: whatever is stored in the year 10000, or before the year 1, is left out."""
    first, last = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 31)
    drawn = [row for row in rounding.rows(400) if row["stamp"] is None or first < row["stamp"] < last]  # type: ignore[operator]
    found: list[Row] = [(n, row["stamp"], row["stamp"], row["moment"]) for n, row in enumerate(drawn)]  # type: ignore[misc]
    edges = [dt.datetime(9999, 12, 30, 23, 59, 59, 500_000), dt.datetime(1999, 12, 31, 23, 59, 59, 500_000), NOW,
             dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2000, 1, 1), dt.datetime(1970, 1, 2)]  # fmt: skip
    return [*found, *((len(found) + n, at, at, None) for n, at in enumerate(edges))]


@cache
def drawn_filters(count: int) -> list[str]:
    values = sorted({at.replace(tzinfo=None) for row in rows() for at in row[1:] if at})
    beside = st.builds(lambda at, micros: at + dt.timedelta(microseconds=micros), st.sampled_from(values), st.integers(-2, 2))
    whole = st.builds(lambda at, digits: at.replace(microsecond=at.microsecond // 10**digits * 10**digits), beside, st.integers(3, 6))
    times = (st.sampled_from(values) | beside | whole).map(lambda at: f"TIMESTAMP '{at.isoformat(' ', 'microseconds')}'")
    days = st.sampled_from(values).map(lambda at: f"DATE '{at.date().isoformat()}'")
    clock = st.builds("{} {} INTERVAL '{}' second".format, st.sampled_from(["now", "today"]), st.sampled_from("+-"), st.integers(0, 9))
    literal = times | times | days | clock
    column = st.sampled_from(NAMES)
    operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    simple = (
        st.builds("{} {} {}".format, column, operator, literal)
        | st.builds("{2} {1} {0}".format, column, operator, literal)
        | st.builds("{} BETWEEN {} AND {}".format, column, literal, literal)
        | st.builds("{} NOT IN ({}, {})".format, column, literal, literal)
        | st.builds("{} + INTERVAL '{}' minute > {}".format, column, st.integers(0, 99), clock)
    )
    conditions = simple | st.builds("NOT ({} OR {})".format, simple, simple)
    found: list[str] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(conditions)
    def draw(one: str) -> None:
        found.append(one)

    draw()
    return found


def select(session: Session, table: str, conditions: Sequence[str]) -> list[set[int]]:
    """Return the ids that each condition selects."""
    found: list[set[int]] = []
    for start in range(0, len(conditions), AT_ONCE):
        some = conditions[start : start + AT_ONCE]
        answers = ", ".join(f"CASE WHEN {sql} THEN 1 ELSE 0 END AS f{number}" for number, sql in enumerate(some))
        ids, *columns = zip(*session.query(f"SELECT id, {answers} FROM {table}"), strict=True)
        found += [{id for id, answer in zip(ids, column, strict=True) if answer} for column in columns]
    return found


def assert_same_rows(pair: LivePair, count: int, fraction: str | None = None, least: float = 0.33) -> None:
    override = {name: {"fraction": fraction} for name in NAMES} if fraction else {}
    ends = {side: {"connection": side, "table": f"filter_{side}"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "columns": {"override": override}})
    engines: dict[Side, LiveEngine] = {side: getattr(pair, side) for side in SIDES}
    sessions = {side: dialects.connect(engine.url) for side, engine in engines.items()}
    described = {
        side: Endpoint(side, side, session.dialect, session.dialect.catalogue.describe(session, dialects.Place((f"filter_{side}",)))[0])
        for side, session in sessions.items()
    }
    names, problems = NameResolver(audit, described), list[str]()
    planned = [plan_filter(text, described, names, lambda: NOW, problems) for text in drawn_filters(count)]
    assert not problems, problems[:3]
    selected = {side: select(sessions[side], f"filter_{side}", [one.sql[side] for one in planned]) for side in SIDES}
    for session in sessions.values():
        session.close()
    wrong = [
        (text, one.sql["source"], sorted(source ^ target)[:5])
        for text, one, source, target in zip(drawn_filters(count), planned, selected["source"], selected["target"], strict=True)
        if source != target
    ]
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert sum(bool(ids) for ids in selected["source"]) > count * least


@pytest.mark.parametrize("pair", PAIRS, indirect=True)
def test_filters_select_what_the_targets_engine_stored(pair: LivePair, request: pytest.FixtureRequest) -> None:
    tables.make(pair.source, "filter_source", FINE, rows())
    tables.make(pair.target, "filter_stage", FINE, rows())
    columns = ", ".join(f"{name} {COARSE[pair.target.name][name]}" for name in NAMES)
    tables.execute(
        pair.target,
        "DROP TABLE IF EXISTS filter_target",
        f"CREATE TABLE filter_target (id BIGINT, {columns})",
        "INSERT INTO filter_target SELECT id, stamp, day, moment FROM filter_stage",
    )
    assert_same_rows(pair, DEEP if request.config.getoption("--deep") else EXAMPLES)


@pytest.mark.parametrize("fraction", ["cut", "round"])
@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "postgres-mariadb"), indirect=True)
def test_filters_select_what_a_loader_stored(pair: LivePair, fraction: str) -> None:
    """Whatever the target's engine would do: what is cut, or rounded, is inserted as it is to be."""
    with tables.open_writable(pair.target) as session:
        how: Rounding = "" if fraction == "cut" else session.dialect.times.TIME_ROUNDING or "half up"
    coarse = {"stamp": Kind("timestamp", scale=0), "day": Kind("date"), "moment": Kind("timestamptz", scale=3)}

    def store(name: str, at: dt.datetime | None) -> dt.datetime | dt.date | None:
        kind = coarse[name]
        text = canonical.text(Kind(kind.name, scale=kind.scale, rounding=how), at)
        return None if text is None else dt.date.fromisoformat(text) if name == "day" else dt.datetime.fromisoformat(text)

    tables.make(pair.source, "filter_source", FINE, rows())
    stored = [(row[0], *(store(name, at) for name, at in zip(NAMES, row[1:], strict=True))) for row in rows()]
    tables.make(pair.target, "filter_target", [FINE[0], *coarse.items()], stored)
    assert_same_rows(pair, EXAMPLES, fraction)


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-duckdb"), indirect=True)
def test_filters_select_nanoseconds_as_they_are_stored(pair: LivePair) -> None:
    """DuckDB's nanoseconds, beside halves of what is kept; literals may lie beyond the years that they reach."""
    if not tables.casts_nanoseconds():
        pytest.skip("DuckDB before 2 casts no nanoseconds to milliseconds")
    tables.execute(
        pair.source,
        "DROP TABLE IF EXISTS filter_source",
        "DROP TABLE IF EXISTS filter_target",
        "CREATE TABLE filter_source (id BIGINT, stamp TIMESTAMP_NS, day TIMESTAMP, moment TIMESTAMP_NS)",
        "INSERT INTO filter_source SELECT row_number() OVER (), w, w, w"
        " FROM (SELECT MAKE_TIMESTAMP_NS(seconds::BIGINT * 1000000000 + beside) AS w"
        " FROM (VALUES (0), (86399), (1711929599), (946684799), (-3600)) a(seconds),"
        " (VALUES (0), (499), (500), (501), (499499), (499999499), (499999500), (500000000), (999999499), (999999500), (-1)) b(beside))",
        "CREATE TABLE filter_target (id BIGINT, stamp TIMESTAMP, day DATE, moment TIMESTAMP_MS)",
        "INSERT INTO filter_target SELECT * FROM filter_source",
    )
    assert_same_rows(pair, EXAMPLES, least=0.2)
