"""Every difference that a run stored is read again, however many there are: in reports of each door, and by patches."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from auditor import config
from auditor.cli import main
from auditor.history import records
from auditor.model import Verdict
from auditor.repair.keys import Selection
from auditor.repair.proposal import unnamed
from auditor.service import patches
from auditor.store import open_store, runs

DIFFERENCES = 10_050
"""More than the 10,000 that audits keep unless they say otherwise."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Settings:
    """The configuration of an audit that keeps all differences of two tables, in which every row differs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    with duckdb.connect(str(tmp_path / "tables.duckdb")) as connection:
        connection.execute(f"CREATE TABLE a (id BIGINT PRIMARY KEY, v BIGINT); INSERT INTO a SELECT i, i FROM range({DIFFERENCES}) t(i)")
        connection.execute("CREATE TABLE b (id BIGINT PRIMARY KEY, v BIGINT); INSERT INTO b SELECT id, v + 1 FROM a")
    url = f"duckdb:///{tmp_path}/tables.duckdb"
    ends = {side: {"connection": side, "table": table} for side, table in (("source", "a"), ("target", "b"))}
    limits = {"max_differences": 20_000, "max_rows_listed": 100_000}
    value = {
        "connections": {"source": {"url": url}, "target": {"url": url, "write": {"url": url}}},
        "store": {"url": f"sqlite:///{tmp_path}/store.db"},
        "audits": {"all": {**ends, "key": ["id"], "method": "exact", "limits": limits}},
    }
    (tmp_path / "auditor.yaml").write_text(json.dumps(value), encoding="utf-8")
    return config.load(tmp_path / "auditor.yaml")


@pytest.mark.slow
def test_all_stored_differences_are_read(settings: config.Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "all", "--quiet", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert settings.store
    store = open_store(settings.store.url)
    run = runs.list_runs(store, audit="all", limit=1)[0].run
    assert len(found["differences"]["sample"]) == DIFFERENCES, "the run itself names them all"

    report = records.load_report(store, run)
    assert report and report.verdict is Verdict.MISMATCH and report.differences and len(report.differences.named) == DIFFERENCES
    assert unnamed(report.differences) == ""
    for command in (["show", run], ["report", "--run", run]):
        assert main([*command, "--format", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["differences"]["sample"]) == DIFFERENCES, command

    printed = "".join(patches.print_patch(settings, store, run, Selection(), "sql"))
    assert "further rows" not in printed and printed.count("\nUPDATE ") == DIFFERENCES
    assert printed.endswith(f"-- {DIFFERENCES:,} rows: {DIFFERENCES:,} to update.\n")
    store.close()
