"""What an engine stores of a finer time equals the canonical text that every engine gives the finer time.

The first test asks each engine: fine values are inserted into its coarser columns, and what it then holds must be the oracle's text by the
rounding that the dialect states. The second asks each engine, as the source, for the text of the same fine values by every rounding that
any target has. Both use the oracle, so any pair agrees.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from contextlib import closing
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dialects
from auditor import canonical
from dialects import Dialect, Kind, versions
from dialects.kinds import Rounding
from dialects.spark.catalogue import writes_times
from tests import tables
from tests.live import LiveEngine, engine_params

EXAMPLES, DEEP_EXAMPLES = 1_000, 10_000
SCALES = (0, 1, 3, 5)
ROUNDINGS: tuple[Rounding, ...] = ("", "half up", "half from 1970", "half from 2000")
FINE = {"stamp": Kind("timestamp", scale=6), "moment": Kind("timestamptz", scale=6), "clock": Kind("time", scale=6)}
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)

Row = dict[str, dt.datetime | dt.time | None]


def _times(first: dt.datetime, last: dt.datetime) -> st.SearchStrategy[dt.datetime]:
    """Draw timestamps: half of them lie at, or beside, the middle between two coarser ones, many at the end of a day or year."""
    middles = st.builds(
        lambda at, scale, digits, beside: at.replace(microsecond=digits * 10 ** (6 - scale) % 10**6 + 5 * 10 ** (5 - scale) + beside),
        st.datetimes(first, last) | st.datetimes(dt.datetime(1999, 12, 31), dt.datetime(2000, 1, 2)),
        st.sampled_from(SCALES),
        st.integers(0, 99_999) | st.just(-1),
        st.sampled_from([-1, 0, 0, 1]),
    )
    ends = st.builds(
        lambda at, micros: at.replace(hour=23, minute=59, second=59, microsecond=micros),
        st.datetimes(first, last) | st.sampled_from([dt.datetime(year, 12, 31) for year in (1972, 1999, 2000, 2023)]),
        st.integers(999_990, 999_999) | st.sampled_from([500_000, 499_999, 999_500, 999_499, 950_000]),
    )
    epochs = st.builds(lambda base, micros: base + dt.timedelta(microseconds=micros),
                       st.sampled_from([dt.datetime(1970, 1, 2), dt.datetime(2000, 1, 1)]), st.integers(-3_000_000, 3_000_000))  # fmt: skip
    return st.datetimes(first, last) | middles | ends | epochs


@cache
def rows(count: int) -> list[Row]:
    drawn: list[Row] = []
    moments = _times(dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 18))

    @settings(max_examples=count - 3, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(st.none() | _times(dt.datetime(1, 1, 1), LAST), moments, moments)
    def draw(at: dt.datetime | None, moment: dt.datetime, clock: dt.datetime) -> None:
        drawn.append({"stamp": at, "moment": moment.replace(tzinfo=dt.UTC), "clock": clock.time()})

    draw()
    edges = [LAST, dt.datetime(9999, 12, 31, 23, 59, 59, 500000), dt.datetime(1, 1, 1, 0, 0, 0, 1)]
    drawn += [{"stamp": at, "moment": None, "clock": at.time()} for at in edges]
    return drawn


@pytest.fixture
def drawn(request: pytest.FixtureRequest) -> list[Row]:
    return rows(DEEP_EXAMPLES if request.config.getoption("--deep") else EXAMPLES)


def coarse_types(engine: LiveEngine, dialect: Dialect) -> list[tuple[str, Kind, str]]:
    """Return (fine column, kind of the coarser column, its native type) for every coarser type of an engine."""
    if engine.name == "duckdb":
        return [("stamp", Kind("timestamp", scale=3), "TIMESTAMP_MS"), ("stamp", Kind("timestamp", scale=0), "TIMESTAMP_S"),
                ("stamp", Kind("date"), "DATE")]  # fmt: skip
    kinds = [(name, Kind(kind.name, scale=scale)) for name, kind in FINE.items() for scale in SCALES]
    found = [(name, kind, dialect.types.native_type(kind)) for name, kind in kinds]
    return [*found, ("stamp", Kind("date"), "DATE")]


def fill(engine: LiveEngine, table: str, drawn: list[Row]) -> None:
    """Create a table with the fine values; an engine without a type of times holds them as text."""
    kinds = {name: Kind("text") if engine.name == "spark" and name == "clock" else kind for name, kind in FINE.items()}
    values = [
        [number, *(str(value) if kinds[name].name == "text" and value else value for name, value in row.items())]
        for number, row in enumerate(drawn)
    ]
    tables.make(engine, table, [("n", Kind("integer")), *kinds.items()], values)


def is_stored(engine: LiveEngine, row: Row, column: str, rounding: Rounding) -> bool:
    """Whether an engine can store the row's value rounded at all: MySQL's years end with 9999."""
    value = row[column]
    return not (engine.dialect == "mysql" and rounding and isinstance(value, dt.datetime) and value.date() == LAST.date())


@pytest.mark.quick_for("mysql", "duckdb", "postgres")
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "duckdb"), indirect=True)
def test_stored_times_equal_the_oracle(engine: LiveEngine, drawn: list[Row]) -> None:
    """What an engine makes of a fine value on INSERT is the canonical text of that value by the engine's rounding."""
    with tables.open_writable(engine) as session:
        dialect = session.dialect
    rounding = dialect.times.TIME_ROUNDING
    drawn = [row for row in drawn if is_stored(engine, row, "stamp", rounding)]
    fill(engine, "fine_times", drawn)
    coarse = coarse_types(engine, dialect)
    columns = [f"c{index}" for index in range(len(coarse))]
    natives = ", ".join(f"{column} {native}" for column, (_, _, native) in zip(columns, coarse, strict=True))
    fine = ", ".join(name for name, _, _ in coarse)
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS coarse_times",
        f"CREATE TABLE coarse_times (n BIGINT, {natives})",
        f"INSERT INTO coarse_times SELECT n, {fine} FROM fine_times",
    )
    texts = ", ".join(dialect.canonical.canonical_text(kind, column, kind) for column, (_, kind, _) in zip(columns, coarse, strict=True))
    wrong = []
    for row, (_, *found) in zip(drawn, tables.query(engine, f"SELECT n, {texts} FROM coarse_times ORDER BY n"), strict=True):
        for text, (name, kind, _) in zip(found, coarse, strict=True):
            how: Rounding = rounding if kind.name != "date" or dialect.times.ROUNDS_TO_DATES else ""
            wanted = canonical.text(Kind(kind.name, scale=kind.scale, rounding=how), row[name])
            if text != wanted:
                wrong.append((row[name], str(kind), text, wanted))
    assert not wrong, wrong[:10]


@pytest.mark.slow_on("spark")
def test_rounded_texts_equal_the_oracle(engine: LiveEngine, drawn: list[Row]) -> None:
    """As the source, every engine gives a fine value the oracle's text by every rounding that a target has."""
    fill(engine, "source_times", drawn)
    with closing(dialects.connect(engine.url)) as session:
        dialect = session.dialect
        asked: list[tuple[str, Kind]] = []
        for name, kind in FINE.items():
            if name == "clock" and engine.name == "spark" and not writes_times(session.server):
                continue
            scales = (0, 3) if engine.name == "spark" else SCALES  # it takes long to compile expressions
            asked += [(name, Kind(kind.name, scale=scale, rounding=rounding)) for scale in scales for rounding in ROUNDINGS]
        asked += [(name, Kind("date", rounding=rounding)) for name in ("stamp", "moment") for rounding in ROUNDINGS]
        wrong: list[Any] = []
        for some in (asked[start : start + 14] for start in range(0, len(asked), 14)):
            sql = ", ".join(dialect.canonical.canonical_text(kind, _expression(engine, dialect, name), FINE[name]) for name, kind in some)
            got = session.query(f"SELECT n, {sql} FROM source_times ORDER BY n")
            for row, (_, *found) in zip(drawn, got, strict=True):
                for text, (name, kind) in zip(found, some, strict=True):
                    if text != canonical.text(kind, row[name]):
                        wrong.append((row[name], str(kind), text, canonical.text(kind, row[name])))
    assert not wrong, wrong[:10]


def _expression(engine: LiveEngine, dialect: Dialect, name: str) -> str:
    quoted = dialect.names.quote(name)
    return f"CAST({quoted} AS TIME(6))" if engine.name == "spark" and name == "clock" else quoted


@pytest.mark.alone
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_the_servers_own_mode_decides(engine: LiveEngine) -> None:
    """A server can be set to round where it cuts by default, and the other way round; the dialect says what it does."""
    mode = tables.query(engine, "SELECT @@GLOBAL.sql_mode")[0][0]
    with tables.open_writable(engine) as session:
        usual = session.dialect.times.TIME_ROUNDING
    other = "TIME_ROUND_FRACTIONAL" if engine.name == "mariadb" else "TIME_TRUNCATE_FRACTIONAL"
    assert usual == ("" if engine.name == "mariadb" else "half up")
    tables.execute(engine, f"SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',{other}')")
    try:
        with tables.open_writable(engine) as session:
            dialect = session.dialect
            session.execute("SET sql_mode = @@GLOBAL.sql_mode")
            session.execute("DROP TABLE IF EXISTS own_mode")
            session.execute("CREATE TABLE own_mode (v DATETIME, d DATE)")
            fine = "SELECT CAST('2024-12-31 23:59:59.6' AS DATETIME(6)) AS v"
            session.execute(f"INSERT INTO own_mode SELECT v, v FROM ({fine}) AS fine")
            found = session.query("SELECT CAST(v AS CHAR), CAST(d AS CHAR) FROM own_mode")
    finally:
        tables.execute(engine, f"SET GLOBAL sql_mode = '{mode}'")
    value = dt.datetime(2024, 12, 31, 23, 59, 59, 600_000)
    day = Kind("date", rounding=dialect.times.TIME_ROUNDING if dialect.times.ROUNDS_TO_DATES else "")
    assert found == [(canonical.text(Kind("timestamp", scale=0, rounding=dialect.times.TIME_ROUNDING), value), canonical.text(day, value))]
    assert usual != dialect.times.TIME_ROUNDING


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_nanoseconds_are_rounded_as_they_are_stored(engine: LiveEngine) -> None:
    """DuckDB's nanoseconds, stored as microseconds and as milliseconds, in steps around halves, before and after 1970."""
    if not tables.casts_nanoseconds():
        pytest.skip("DuckDB before 2 cuts nanoseconds towards 1970, and stores none as milliseconds")
    native = Kind("timestamp", scale=9)
    with tables.open_writable(engine) as session:
        dialect = session.dialect
        session.execute("DROP TABLE IF EXISTS nanoseconds")
        session.execute("CREATE TABLE nanoseconds (v TIMESTAMP_NS, us TIMESTAMP, ms TIMESTAMP_MS)")
        session.execute(
            "INSERT INTO nanoseconds (v) SELECT MAKE_TIMESTAMP_NS(day * 86400000000000 + unit * 1000000 + digits * 500 + beside)"
            " FROM range(-20000, 30000, 2501) AS a(day), range(0, 3) AS b(unit), range(0, 2001) AS c(digits), range(-1, 2) AS d(beside)"
        )
        session.execute("UPDATE nanoseconds SET us = v, ms = v")
        for column, scale in (("us", 6), ("ms", 3)):
            stored = dialect.canonical.canonical_text(Kind("timestamp", scale=scale), column, Kind("timestamp", scale=scale))
            compared = dialect.canonical.canonical_text(Kind("timestamp", scale=scale, rounding="half from 1970"), "v", native)
            found = session.query(f"SELECT v::VARCHAR, {stored}, {compared} FROM nanoseconds WHERE {stored} <> {compared} LIMIT 5")
            assert found == [], column


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_long_and_negative_times_and_dates_with_zeros(engine: LiveEngine) -> None:
    """MySQL's times go beyond a day on both sides of zero, where rounding goes away from it; dates with zeros are not rounded."""
    micros = [0, 500_000, 499_999, 999_500, 999_499, 50_000]
    seconds = [0, 59, 3_599, 86_399, 838 * 3600 + 59 * 60 + 58]
    times = [sign * dt.timedelta(seconds=s, microseconds=m) for sign in (1, -1) for s in seconds for m in micros]
    kinds = [Kind("time", scale=scale) for scale in SCALES]
    natives = ", ".join(f"c{kind.scale} TIME({kind.scale})" for kind in kinds)
    values = ", ".join(f"({n}, '{canonical.text(FINE['clock'], value)}')" for n, value in enumerate(times))
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS long_times, short_times",
        "CREATE TABLE long_times (n INT, v TIME(6))",
        f"INSERT INTO long_times VALUES {values}",
        f"CREATE TABLE short_times (n INT, {natives})",
        f"INSERT INTO short_times SELECT n, {', '.join(['v'] * len(kinds))} FROM long_times",
    )
    with tables.open_writable(engine) as session:
        dialect, rounding = session.dialect, session.dialect.times.TIME_ROUNDING
        stored = [dialect.canonical.canonical_text(kind, f"c{kind.scale}", kind) for kind in kinds]
        found = session.query(f"SELECT n, {', '.join(stored)} FROM short_times ORDER BY n")
        assert [list(row[1:]) for row in found] == _texts(times, kinds, rounding)
        for other in ROUNDINGS:
            compared = [dialect.canonical.canonical_text(dataclasses.replace(kind, rounding=other), "v", FINE["clock"]) for kind in kinds]
            found = session.query(f"SELECT n, {', '.join(compared)} FROM long_times ORDER BY n")
            assert [list(row[1:]) for row in found] == _texts(times, kinds, other)
        zero = "CAST('0000-00-00 00:00:00' AS DATETIME(6))"
        asked = [dialect.canonical.canonical_text(Kind("timestamp", scale=3, rounding=other), zero, FINE["stamp"]) for other in ROUNDINGS]
        assert set(session.query(f"SELECT {', '.join(asked)}")[0]) == {"0000-00-00 00:00:00"}


def _texts(times: list[dt.timedelta], kinds: list[Kind], rounding: Rounding) -> list[list[str | None]]:
    return [[canonical.text(dataclasses.replace(kind, rounding=rounding), value) for kind in kinds] for value in times]


@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
def test_time_that_spark_cannot_format_is_of_no_kind(engine: LiveEngine) -> None:
    """Spark 4.0 has no such type, and 4.1 and 4.2 no function that writes it: only a column that is compared has a kind."""
    with closing(dialects.connect(engine.url)) as session:
        number = versions.parse(session.server)[1]
        if number == "4.0":
            pytest.skip("Spark 4.0 has no TIME")
        session.execute("CREATE OR REPLACE TEMPORARY VIEW of_times AS SELECT CAST('12:34:56' AS TIME(6)) AS clock")
        [found] = session.dialect.catalogue.describe(session, dialects.Place(("of_times",)))
        assert (found.columns[0].kind is None) is (number in ("4.1", "4.2"))
