"""Every name of a time zone means on every engine what it means to the IANA database, or is refused or noted by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest

import dialects
from auditor.errors import ColumnRefused
from auditor.planning import times
from auditor.testing.statements import plan_of
from dialects import Kind, Session
from tests import tables
from tests.live import LiveEngine, engine_params

ALL = sorted(available_timezones())
SOME = sorted({name for name in ALL if "/" not in name} | set(ALL[::40]) | set(times.AREAS.values()))[::3]
AT = Kind("timestamp", scale=6)
MOMENTS = [
    dt.datetime(year, month, day, 11, 30)
    for year in (1973, 1979, 1986, 1995, 2003, 2011, 2018, 2024, 2026)
    for month, day in ((1, 9), (7, 9))
]


@pytest.fixture(scope="module", autouse=True)
def clocks_of_all_names_are_kept() -> Iterator[None]:
    """Compute once what the clocks of each name show: there are more names than a process remembers, and every engine is asked for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "clocks", cache(times.clocks.__wrapped__))
        yield


def shown_by_rules(name: str, at: dt.datetime) -> str:
    return str(at.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(name)).replace(tzinfo=None))


def check(session: Session, name: str) -> None:
    """Fail if a plan takes times to a zone of this name, and the server then shows others than the rules, of which nothing is said."""
    made = plan_of(session.dialect, "exact", "hash")
    zone = times.area_of(name)
    plan = replace(made, columns=(replace(made.columns[0], zones={"target": zone}),))
    try:
        notes = times.check_known(plan, "target", session)
    except ColumnRefused as error:
        assert f"time zone {zone}" in str(error)
        return
    dialect = session.dialect
    literals = [dialect.names.timestamp_literal(f"{at}.000000") for at in MOMENTS]
    said = session.query(
        f"SELECT {', '.join(dialect.times.timestamp_text(dialect.times.wall_time(one, AT, zone), AT) for one in literals)}"
    )[0]
    wrong = {str(at): text for at, text in zip(MOMENTS, said, strict=True) if str(text) != shown_by_rules(name, at)}
    assert not wrong or (notes and max(wrong) < str(times.REFUSED_FROM)), (name, zone, wrong, notes)


@pytest.mark.quick_for("mysql-some", "postgres-some")
@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.slow)])
@pytest.mark.slow_on("spark")
def test_every_name_is_read_as_meant_or_refused(engine: LiveEngine, names: list[str]) -> None:
    tables.load_zones(engine, names)
    with tables.open_writable(engine) as session:  # also of a DuckDB file that is not there yet
        for name in names:
            check(session, name)


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize("name", ["CET", "MET", "EET", "WET", "EST", "MST", "HST"])
def test_abbreviations_are_areas_or_refused(engine: LiveEngine, name: str) -> None:
    """PostgreSQL takes them for offsets without summer time."""
    session = dialects.connect(engine.url)
    try:
        made = plan_of(session.dialect, "exact", "hash")
        plan = replace(made, columns=(replace(made.columns[0], zones={"target": name}),))
        if times.clocks(name) == times.clocks(times.AREAS[name]):
            assert times.area_of(name) == times.AREAS[name]
            check(session, name)
        else:
            with pytest.raises(ColumnRefused, match=f"reads the time zone {name} otherwise.*write zone: {times.AREAS[name]}"):
                times.check_known(plan, "target", session)
    finally:
        session.close()


@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
def test_rules_that_are_older_than_a_change_are_refused(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the tables of a server that were loaded before summer time was abolished."""
    with monkeypatch.context() as patched:
        patched.setattr(times, "clocks", lambda name: {dt.datetime(1971, 1, 1): dt.datetime(1970, 12, 31, 18)})
        tables.load_zones(engine, ["Mexico/General"])
    session = dialects.connect(engine.url)
    try:
        made = plan_of(session.dialect, "exact", "hash")
        plan = replace(made, columns=(replace(made.columns[0], zones={"target": "Mexico/General"}),))
        with pytest.raises(ColumnRefused, match=r"reads the time zone Mexico/General otherwise.*load its time zone tables"):
            times.check_known(plan, "target", session)
    finally:
        session.close()
