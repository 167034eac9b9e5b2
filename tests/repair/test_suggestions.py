"""The suggestions after a mismatch: which tool fits what differs, with rows, share, seconds and the command to paste."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from auditor import service
from auditor.bootstrap import use_cases
from auditor.config import ConnectionSettings, TableRef
from auditor.errors import BootstrapRefused, PatchRefused
from auditor.history import audit_status
from auditor.model import Report, Suggestions, Verdict
from auditor.repair.suggestions import Rates, suggest
from auditor.report import json, render
from auditor.service import patches
from auditor.store.patches import measure_rate
from tests.live import LiveEngine
from tests.repair import small
from tests.repair.small import Small

ROWS = 5000
SOURCE = ("CREATE TABLE s (id INTEGER PRIMARY KEY, name VARCHAR)", f"INSERT INTO s SELECT i, 'n' || i FROM range({ROWS}) r(i)")
EQUAL = ("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR)", f"INSERT INTO t SELECT i, 'n' || i FROM range({ROWS}) r(i)")


def make(folder: Path, *damage: str, **more: Any) -> Small:
    target = LiveEngine("duckdb", "duckdb", f"duckdb:///{folder}/target.duckdb")
    return small.make(folder, target, SOURCE, (*EQUAL, *damage), **more)


def suggestions_of(report: Report) -> Suggestions:
    assert report.verdict is Verdict.MISMATCH and report.suggestions
    return report.suggestions


@pytest.mark.parametrize(
    ("damage", "audit", "tools", "rows", "command", "why"),
    [
        pytest.param(
            "UPDATE t SET name = 'x' WHERE id IN (7, 4000)", {}, ["patch", "bootstrap"], 2, "auditor patch {run}",
            "the limit is 1,000 rows", id="few",
        ),
        pytest.param(
            "INSERT INTO t VALUES (6000, 'extra')", {}, ["patch", "range bootstrap", "bootstrap"], 1,
            "auditor patch {run} --delete-extra", "the limit is", id="extra",
        ),
        pytest.param(
            "DELETE FROM t WHERE id BETWEEN 1000 AND 2499", {"partition": {"size": 100}}, ["range bootstrap", "patch", "bootstrap"], 1500,
            "auditor bootstrap small --keys 1000..2499", "more rows differ than a patch may change, and they lie in one range", id="range",
        ),
        pytest.param(
            "DELETE FROM t WHERE id < 480", {"partition": {"size": 10}, "write": {"max_share": "10%"}},
            ["range bootstrap", "patch", "bootstrap"], 480, "auditor bootstrap small --keys 0..479", "more rows differ than a patch may",
            id="a tenth of the source, more of the target",
        ),
        pytest.param(
            "UPDATE t SET name = 'x' WHERE id % 2 = 0", {}, ["bootstrap", "patch"], ROWS, "auditor bootstrap small", "", id="everywhere"
        ),
        pytest.param(
            "UPDATE t SET name = 'x' WHERE id = 7", {"method": "signature", "partition": {"size": 100}},
            ["exact", "range bootstrap", "bootstrap"], ROWS, "auditor run small --method exact",
            "the method signature names no rows; then patch them if they are few, else copy", id="no rows named",
        ),
        pytest.param(
            "UPDATE t SET name = 'x' WHERE id = 7", {"columns": {"override": {"id": {"mask": True}}}}, ["bootstrap"], ROWS,
            "auditor bootstrap small", "its rows cannot be patched one by one", id="masked key",
        ),
    ],
)  # fmt: skip
def test_the_tool_fits_what_differs(
    damage: str, audit: dict[str, Any], tools: list[str], rows: int, command: str, why: str, tmp_path: Path
) -> None:
    report = make(tmp_path, damage, **audit).run()
    found = suggestions_of(report)
    assert [one.tool for one in found.items] == tools
    first = found.items[0]
    assert (first.rows, first.command) == (rows, command.format(run=report.run[:12]))
    assert found.why.startswith(why)
    assert first.share == rows / max(report.comparison.rows.values() if report.comparison else ())
    assert first.seconds >= 1


def test_a_range_is_counted_by_what_is_known(tmp_path: Path) -> None:
    """A few keys beyond all others do not make the rest of the table a small part of its keys."""
    far = "INSERT INTO t VALUES (1000000, 'extra')"
    pair = make(tmp_path, "UPDATE t SET name = 'x' WHERE id BETWEEN 10 AND 4900", far, partition={"strategy": "hash"})
    assert [one.tool for one in suggestions_of(pair.run()).items] == ["bootstrap", "patch"]


def test_a_run_by_another_method_names_the_rows(tmp_path: Path) -> None:
    """It says nothing of the audit's standing, and can be patched."""
    pair = make(tmp_path, "UPDATE t SET name = 'x' WHERE id = 7", method="counts")
    pair.on_target("UPDATE t SET id = 9000 WHERE id = 8")
    counted = pair.run()
    assert suggestions_of(counted).items[0].command == "auditor run small --method exact"
    named = service.run_audit(pair.settings, "small", store=pair.store, overrides={"method": "exact"})
    assert named.other_settings == "method exact" and suggestions_of(named).items[0].tool == "patch"
    audit, connections = pair.settings.audits["small"], pair.settings.connections
    latest = audit_status.load_standing(pair.store, "small", audit, connections, dt.datetime.now(dt.UTC)).run
    assert latest and latest.run == counted.run


@pytest.mark.slow
def test_files_are_not_copied_anew(tmp_path: Path) -> None:
    """Files are written by their owner's own means, so that no command of this package mends them."""
    both = make(tmp_path)
    both.on_target(f"COPY (SELECT id, name || 'x' AS name FROM t) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    audit = both.settings.audits["small"]
    files = audit.model_copy(update={"target": TableRef(connection="b", table=f"{tmp_path}/t.parquet")})
    both.settings = both.settings.model_copy(update={"audits": {"small": files}})
    assert both.run().verdict is Verdict.MISMATCH and both.run().suggestions is None
    with pytest.raises(BootstrapRefused, match="is files, which are not copied again by this command"):
        use_cases.run_bootstrap(both.settings, both.store, "small")


def test_every_door_shows_the_numbers_and_the_command(tmp_path: Path) -> None:
    report = make(tmp_path, "UPDATE t SET name = 'x' WHERE id = 7").run()
    shown = " ".join(render.run(report, None, "text").split())
    assert f"Suggested: auditor patch {report.run[:12]} (1 row, about 1 s; the limit is 1,000 rows)" in shown
    assert "or (copies the table again): auditor bootstrap small (5,000 rows, about" in shown
    written = json.report(report).suggestions
    assert written and written.items[0].model_dump() == {
        "tool": "patch", "rows": 1, "share": 1 / ROWS, "seconds": 1.0, "command": f"auditor patch {report.run[:12]}",
    }  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("CREATE TABLE t AS", id="no key"),
        pytest.param("CREATE TABLE t (id INTEGER, name VARCHAR, PRIMARY KEY (id, name)); INSERT INTO t", id="a key of more columns"),
        pytest.param("CREATE TABLE t (id INTEGER, name VARCHAR PRIMARY KEY); INSERT INTO t", id="a key of another column"),
    ],
)
def test_no_patch_is_suggested_that_would_be_refused_for_its_key(table: str, tmp_path: Path) -> None:
    target = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/target.duckdb")
    rows = "SELECT i AS id, 'n' || if(i = 7, 'x', i::VARCHAR) AS name FROM range(5000) r(i)"
    pair = small.make(tmp_path, target, SOURCE, tuple(f"{table} {rows}".split("; ")))
    found = suggestions_of(pair.run())
    assert [one.tool for one in found.items] == ["range bootstrap", "bootstrap"]
    assert found.why == "the target has no primary key of the audit's key, which a patch needs, and they lie in one range"
    with pytest.raises(PatchRefused, match="has no primary or unique key of id"):
        patches.apply_patch(pair.settings, pair.store, "small", small.EVERYTHING)


def test_what_is_young_waits(tmp_path: Path) -> None:
    pair = make(tmp_path, "UPDATE t SET name = 'x' WHERE id = 7")
    report = pair.run()
    assert report.differences
    moving = dataclasses.replace(report, differences=dataclasses.replace(report.differences, unsettled=40))
    audit, target = pair.settings.audits["small"], pair.settings.connections["b"]
    found = suggest(moving, audit, target, Rates())
    assert found and (found.items[0].tool, found.items[0].rows, found.items[0].command) == ("wait", 40, "auditor run small")
    assert found.why == "most rows that differ were still changing when they were looked at last"
    files = ConnectionSettings(url="spark:///local")
    settled = suggest(report, audit, files, Rates())
    assert settled is None, "no command writes Spark's tables"


@pytest.mark.slow
def test_the_rate_is_measured_by_earlier_patches(tmp_path: Path) -> None:
    pair = make(tmp_path, "UPDATE t SET name = 'x' WHERE id < 300")
    first = suggestions_of(pair.run())
    assert first.items[0].seconds == pytest.approx(1 + 300 / Rates().patched)
    assert measure_rate(pair.store, "small") is None
    result = patches.apply_patch(pair.settings, pair.store, "small", small.EVERYTHING)
    assert result.patched.counts["updated"] == 300
    pair.on_target("UPDATE t SET name = 'x' WHERE id < 300")
    measured = measure_rate(pair.store, "small")
    assert measured
    assert suggestions_of(pair.run()).items[0].seconds == pytest.approx(1 + 300 / measured)


def test_a_match_and_a_run_that_is_not_stored_have_none(tmp_path: Path) -> None:
    pair = make(tmp_path)
    assert pair.run().suggestions is None
    pair.on_target("UPDATE t SET name = 'x' WHERE id = 7")
    assert service.run_audit(pair.settings, "small").suggestions is None
