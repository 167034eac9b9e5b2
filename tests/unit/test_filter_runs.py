"""Filters in whole runs: the clock is read once, and what nothing checked is said in every report."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dialects
from auditor import service
from auditor.config import Audit, ConnectionSettings, Settings, validate_settings
from auditor.history import stored_plan
from auditor.model import SIDES, Plan, Progress, State, Verdict
from auditor.planning import watermark
from auditor.report import render
from auditor.report.day import load_day
from auditor.run import audit_run
from auditor.service import stored_runs
from auditor.sql import user_sql
from auditor.store import Store, open_store, runs

pytestmark = pytest.mark.duckdb

NOON = dt.datetime(2026, 3, 31, 12, tzinfo=dt.UTC)
ON_TRUST = "both filters (where) were taken on trust: nothing checked that they select the same rows"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An audit of two equal tables with a row for each minute of a day, and its filter ``at < now``."""
    for side in SIDES:
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE t AS SELECT i AS id, TIMESTAMP '2026-03-31' + i * INTERVAL 1 MINUTE AS at, 'row ' || i AS v"
                " FROM range(1440) r(i)"
            )
    ends: dict[str, Any] = {side: {"connection": side, "table": "t"} for side in SIDES}
    return validate_settings(
        {
            "connections": {side: {"url": f"duckdb:///{tmp_path / side}.duckdb"} for side in SIDES},
            "audits": {"t": {**ends, "key": ["id"], "where": "at < now"}},
        }
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[dt.datetime]:
    """The source's clock: it is noon when it is first read, and an hour later each time. The list holds what was read."""
    read: list[dt.datetime] = []

    def tick(_: object) -> dt.datetime:
        read.append(NOON + len(read) * dt.timedelta(hours=1))
        return read[-1]

    monkeypatch.setattr(watermark, "read_clock", tick)
    return read


def changed(settings: Settings, **more: Any) -> Settings:
    definition = settings.audit("t").model_dump(mode="json", by_alias=True, exclude_unset=True) | more
    return settings.model_copy(update={"audits": {"t": Audit.model_validate(definition)}})


def plan_of(store: Store, run: str) -> Plan:
    stored = runs.get_plan(store, run)
    assert stored
    plan = stored_plan.load_plan(stored)
    assert plan
    return plan


def test_now_is_the_sources_clock_read_once_for_both_sides(settings: Settings, clock: list[dt.datetime]) -> None:
    report = service.run_audit(settings, "t")
    assert report.verdict is Verdict.MATCH and report.comparison and report.plan
    assert report.comparison.rows == {"source": 720, "target": 720}
    assert {side.where for side in report.plan.sides.values()} == {"(\"at\" < TIMESTAMP '2026-03-31 12:00:00.000000')"}
    assert "where: now is 2026-03-31 12:00:00.000000 UTC by the source's clock, for both sides and for all of the run" in report.plan.notes
    assert clock == [NOON]


def test_every_level_of_a_ladder_has_the_same_now(settings: Settings, clock: list[dt.datetime]) -> None:
    report = service.run_audit(changed(settings, ladder=["counts", "signature", "exact"]), "t")
    assert (report.method, [step.method for step in report.steps]) == ("exact", ["counts", "signature"]), "a first run takes all levels"
    assert report.comparison and report.comparison.rows["source"] == 720
    assert clock == [NOON]


def test_a_resumed_run_keeps_the_now_of_its_beginning(settings: Settings, clock: list[dt.datetime], store: Store) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.doing == "finding the rows that differ":
            raise KeyboardInterrupt

    first = service.run_audit(settings, "t", interrupt, store)
    assert first.state is State.CANCELLED and first.resumable and plan_of(store, first.run).now == "2026-03-31 12:00:00.000000"
    resumed = stored_runs.resume(settings, store, first.run)
    assert resumed.verdict is Verdict.MATCH and resumed.comparison and resumed.comparison.rows == {"source": 720, "target": 720}
    assert resumed.plan and resumed.plan.now == "2026-03-31 12:00:00.000000"
    assert clock == [NOON]


def test_two_runs_bind_their_own_now_and_count_as_one_audit(settings: Settings, clock: list[dt.datetime], store: Store) -> None:
    rows = [report.comparison.rows["source"] for _ in range(2) if (report := service.run_audit(settings, "t", store=store)).comparison]
    assert rows == [720, 780] and len(clock) == 2


def test_printed_scripts_of_both_sides_have_the_same_now(settings: Settings, clock: list[dt.datetime]) -> None:
    scripts = service.sql(settings, "t")
    assert clock == [NOON] and all("\"at\" < TIMESTAMP '2026-03-31 12:00:00.000000'" in script for script in scripts.values())


@pytest.fixture
def reports(settings: Settings, store: Store) -> dict[str, str]:
    """The texts of a run's report, of its day, and of its plan, with filters that are written for each side."""
    per_side = changed(settings, where={"source": "t.at < NOW() OR id > 0 -- each its own", "target": "date_part('year', t.at) = 2026"})
    report = service.run_audit(per_side, "t", store=store)
    assert (report.state, report.verdict) == (State.DONE, Verdict.MATCH), report.reasons
    texts = {format: render.run(report, None, format) for format in render.FORMATS}
    day = load_day(store, per_side, dt.datetime.now(dt.UTC).date())
    texts |= {f"day {format}": render.day(day, format) for format in render.FORMATS if format != "markdown"}  # that one is a summary
    return texts


def test_every_report_says_that_filters_for_each_side_are_taken_on_trust(reports: dict[str, str]) -> None:
    for format, text in reports.items():
        plain = " ".join(text.replace("&#39;", "'").split())
        assert "oth filters (where) were taken on trust: nothing checked that they select the same rows" in plain, format
        assert "reads the clock of its own server (NOW), again in each statement" in plain, format
    said = [(one["side"], one["how"], one["what"]) for one in json.loads(reports["json"])["plan"]["not_compared"]]
    assert said[0] == (None, "assumed", ON_TRUST) and said[1][:2] == ("source", "assumed")


@pytest.mark.parametrize(
    ("text", "dialect", "read"),
    [
        ("at < NOW()", "mysql", "NOW"),
        ("at < current_timestamp", "postgres", "current_timestamp"),
        ("at > 'yesterday'", "postgres", "yesterday"),
        ("at < GETDATE()", "redshift", "GETDATE"),
        ("day = current_date()", "spark", "current_date"),
        ("day = today()", "duckdb", "today"),
        ("`now` = 'NOW()'", "mysql", ""),
        ("known = 'other'", "postgres", ""),
    ],
)
def test_a_clock_is_found_in_a_filter_of_one_side(text: str, dialect: str, read: str) -> None:
    assert user_sql.find_clock(text, dialects.get(dialect)) == read


def test_a_comparison_of_saved_results_says_it_too(settings: Settings, tmp_path: Path) -> None:
    per_side = changed(settings, where=dict.fromkeys(SIDES, "id < 10"))
    files = {side: tmp_path / f"{side}.csv" for side in SIDES}
    for side, script in service.sql(per_side, "t").items():
        assert "nothing checked that they select the same rows" in script
        with duckdb.connect(str(tmp_path / f"{side}.duckdb"), read_only=True) as connection:
            connection.execute(script[script.index("SELECT") : script.rindex("COMMIT")]).df().to_csv(files[side], index=False)
    report = service.compare_files(files["source"], files["target"], per_side.audit("t"))
    assert report.verdict is Verdict.MATCH and report.notes == (ON_TRUST,)


def test_a_filter_for_each_side_reaches_its_engine_as_it_is_written(settings: Settings) -> None:
    text = {"source": "id % 2 = 0 # even", "target": "mod(id, 2) = 0"}
    with pytest.raises(Exception, match="where of the source is not valid duckdb SQL"):
        service.make_plan(settings, "t", changed(settings, where=text).audit("t"))
    commented = changed(settings, where={**text, "source": "id % 2 = 0 -- even"}).audit("t")
    plan = service.make_plan(settings, "t", commented)
    assert (plan.sides["source"].where, plan.sides["target"].where) == ("(id % 2 = 0 -- even\n)", "(mod(id, 2) = 0)")
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=settings.connections[side].url) for side in SIDES}
    report = audit_run.run("t", commented, connections)
    assert report.verdict is Verdict.MATCH and report.comparison and report.comparison.rows["source"] == 720
