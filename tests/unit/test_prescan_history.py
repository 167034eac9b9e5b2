"""Pre-scans of stored runs: the last runs decide, rolling audits go on, and a level of a ladder counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import service
from auditor.config import Settings, validate_settings
from auditor.model import SIDES, Side, Verdict
from auditor.service import stored_runs
from auditor.store import open_store, runs

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
