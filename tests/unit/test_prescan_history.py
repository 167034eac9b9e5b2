"""Pre-scans of stored runs: the last runs decide, rolling audits go on, and a level of a ladder counts."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.model import SIDES, Side, Verdict
from auditor.planning import writes
from auditor.report import json as report_json
from auditor.report import text as report_text
from auditor.service import planning, stored_runs
from auditor.store import audit_state, open_store, runs

pytestmark = pytest.mark.duckdb


def write_settings(folder: Path, **audit: Any) -> Settings:
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    connections = {side: {"url": f"duckdb:///{folder}/{side}.duckdb"} for side in SIDES}
    return validate_settings({"connections": connections, "audits": {"t": {**ends, "key": ["id"], **audit}}})


def fill_large(folder: Path, changed: Mapping[Side, str], rows: int = 20_000) -> None:
    for side in SIDES:
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            value = f"CASE WHEN {changed.get(side, 'false')} THEN 'x' ELSE 'v' || i END"
            connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT i AS id, {value} AS v FROM range({rows}) r(i)")


@pytest.mark.slow
def test_the_last_runs_of_the_store_decide(tmp_path: Path) -> None:
    configured, store = write_settings(tmp_path, partition={"size": 100}), open_store(f"sqlite:///{tmp_path}/store.db")
    decided: list[tuple[bool, Verdict]] = []
    for changed in ("false", "i % 50 = 0", "i = 7", "i = 7", "false", "false"):
        fill_large(tmp_path, {"target": changed})
        report = service.run_audit(configured, "t", store=store)
        assert report.plan and report.plan.prescan
        decided.append((report.plan.prescan.used, report.verdict))
    match, mismatch = Verdict.MATCH, Verdict.MISMATCH
    assert decided == [(True, match), (True, mismatch), (False, mismatch), (False, mismatch), (False, match), (True, match)]
    notes = service.run_audit(configured, "t", store=store).notes
    assert any(note.startswith("pre-scan: all ") for note in notes), notes
    store.close()


def test_a_rolling_audit_reads_its_whole_table_by_stretches(tmp_path: Path) -> None:
    """Equal stretches count as read: each run takes the next part, and the whole table is verified in the end."""
    fill_large(tmp_path, {})
    configured = write_settings(tmp_path, partition={"size": 100}, rolling={"per_run": "25%"}, prescan=True)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    for run in range(4):
        report = service.run_audit(configured, "t", store=store)
        assert report.verdict is Verdict.MATCH and report.coverage["partitions"] == 0.25
        assert (report.verified_through is not None) == (run == 3)
    fill_large(tmp_path, {"target": "i = 2_345"})
    report = service.run_audit(configured, "t", store=store)
    assert report.differences is not None and [one.key["id"] for one in report.differences.named] == ["2345"]
    table = stored_runs.rolling_table(store, "t")
    assert table and (table.partitions, table.partitions_read, table.unequal, table.verdict) == (200, 200, 1, Verdict.MISMATCH)
    assert len(runs.list_runs(store, audit="t")) == 5
    store.close()


def test_a_ladder_that_found_a_difference_reads_by_the_method(tmp_path: Path) -> None:
    fill_large(tmp_path, {"target": "i = 7"})
    report = service.run_audit(write_settings(tmp_path, ladder=["signature", "exact"]), "t")
    assert report.steps and report.plan and report.plan.prescan
    assert report.plan.prescan.why == "the method signature has found a difference in this run"


def fill_written(folder: Path, changed: str, written: str) -> None:
    """Fill tables whose rows were moved long ago, or lately where they were ``written``."""
    for side in SIDES:
        with duckdb.connect(str(folder / f"{side}.duckdb")) as connection:
            value = f"CASE WHEN {changed} THEN 'x' ELSE 'v' || i END" if side == "target" else "'v' || i"
            moved = f"CASE WHEN {written} THEN TIMESTAMP '2025-11-02' ELSE TIMESTAMP '2025-01-01' END"
            connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT i AS id, {value} AS v, {moved} AS moved FROM range(20_000) r(i)")


@pytest.mark.slow
def test_writes_since_the_last_match_decide_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store says since when, how much differs and where the last run found it; the settle column, where rows were written."""
    monkeypatch.setattr(writes, "LEAST_GAIN", 0.0)  # a pre-scan without digests gains little
    configured = write_settings(tmp_path, partition={"size": 100}, settle={"column": "moved", "lag": "1h"})
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    fill_written(tmp_path, "false", "false")
    assert service.run_audit(configured, "t", store=store).verdict is Verdict.MATCH
    state = audit_state.get_state(store, "t")
    audit_state.update_state(
        store, "t", verified_settings=state.verified_settings, verified_through=dt.datetime(2025, 11, 1, tzinfo=dt.UTC)
    )
    fill_written(tmp_path, "i >= 18_000 AND i % 90 = 0", "i >= 18_000")
    seen = []
    for _ in range(2):
        report = service.run_audit(configured, "t", store=store)
        assert report.verdict is Verdict.MISMATCH and report.plan and report.plan.prescan and report.differences is not None
        seen.append((report.plan.prescan.at_once, str(report.plan.writes), [one.key for one in report.differences.named]))
    why = "no pipeline of the store carries the table, and the last runs found no difference for which rows would be counted"
    unknown = f"not known, because {why}"
    assert seen[0][:2] == ((), unknown)
    assert seen[1][0] == ((18_000, 20_000),) and seen[1][2] == seen[0][2]
    plan = planning.make_plan(configured, "t", configured.audits["t"], store)
    assert plan.prescan and plan.prescan.at_once == ((18_000, 20_000),)
    console = Console(width=200, file=io.StringIO())
    console.print(report_text.plan(plan))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "writes: 5 of 50 parts hold 100% of 2,000 writes since 2025-11-01 00:00:00 UTC (rows by their moved), and are read first" in text
    shown = report_json.plan(plan)
    assert shown.read_at_once == ((18_000, 20_000),) and shown.writes and shown.writes.first == ((18_000, 20_000),)
    assert (shown.writes.origin, shown.writes.total, shown.writes.parts, shown.writes.written_parts) == ("settle column", 2000, 50, 5)
    store.close()
