"""A store that fails while a run is kept in it: the run goes on, its report is told, and says that it was not kept."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

from auditor import plan, service
from auditor.cli import main
from auditor.config import Settings
from auditor.model import Progress, Report, Verdict
from auditor.store import Store, _url, open_store, runs
from tests import processes
from tests.processes import configure

pytestmark = pytest.mark.duckdb

ROWS = 20_000


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plan, "COLUMN_CHUNK_ROWS", 2000)
    monkeypatch.setattr(_url, "WAIT", 0.2)
    for side in ("source", "target"):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute(f"CREATE TABLE live AS SELECT i AS id, 'row ' || i AS v FROM range({ROWS}) r(i)")
            if side == "target":
                connection.execute("DELETE FROM live WHERE id = 777")
    return tmp_path


@pytest.fixture
def store(tables: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tables}/store.db")
    yield opened
    opened.close()


def run(tables: Path, store: Store, fail: Callable[[], object], **audit: Any) -> Report:
    """A run that is disturbed once, in the middle of its scan."""
    ends = {side: {"connection": side, "table": "live"} for side in ("source", "target")}
    settings = Settings.model_validate(
        {
            "connections": {side: {"url": f"duckdb:///{tables}/{side}.duckdb"} for side in ends},
            "audits": {"live": {**ends, "key": ["id"], "partition": {"size": 100}, **audit}},
        }
    )
    once = threading.Lock()

    def watch(now: Progress) -> None:
        if now.side == "source" and now.done > 1000 and once.acquire(blocking=False):
            fail()

    report = service.run_audit(settings, "live", watch, store)
    assert once.locked(), "it was never disturbed"
    return report


def told(report: Report, words: str) -> None:
    """What it found stands, and it says that it was not kept."""
    assert report.verdict is Verdict.MISMATCH and report.exit_code == 3 and not report.resumable
    assert report.differences and [one.key for one in report.differences.named] == [{"id": "777"}]
    assert any(reason.startswith("this run was not kept: ") and words in reason for reason in report.reasons), report.reasons


def on_every_connection(store: Store, pragma: str) -> None:
    """Set this for what is open, and for what will be."""

    def set_it(connection: Any, *_: object) -> None:
        connection.execute(pragma)

    sa.event.listen(store.engine, "checkout", set_it)


def test_it_becomes_read_only(tables: Path, store: Store) -> None:
    told(run(tables, store, lambda: on_every_connection(store, "PRAGMA query_only = ON")), "may not be written")


def test_its_disk_is_full(tables: Path, store: Store) -> None:
    told(run(tables, store, lambda: on_every_connection(store, "PRAGMA max_page_count = 1")), "disk is full")


def test_its_file_is_deleted(tables: Path, store: Store) -> None:
    def delete() -> None:
        for path in tables.glob("store.db*"):
            path.unlink()

    told(run(tables, store, delete), "deleted or replaced")


def test_its_file_is_deleted_under_a_rolling_audit(tables: Path, store: Store) -> None:
    def delete() -> None:
        for path in tables.glob("store.db*"):
            path.unlink()

    told(run(tables, store, delete, rolling={"per_run": "50%"}), "deleted or replaced")


def test_another_process_holds_it_for_good(tables: Path, store: Store) -> None:
    other = sqlite3.connect(tables / "store.db", isolation_level=None, check_same_thread=False)
    told(run(tables, store, lambda: other.execute("BEGIN IMMEDIATE")), "another process holds it locked")
    other.close()


def test_another_process_holds_it_for_a_while(tables: Path, store: Store) -> None:
    """Chunks that could not be kept make the run not resumable; its end is kept all the same."""
    other = sqlite3.connect(tables / "store.db", isolation_level=None, check_same_thread=False)

    def hold() -> None:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, lambda: other.execute("ROLLBACK")).start()

    report = run(tables, store, hold)
    assert (report.verdict, report.exit_code) == (Verdict.MISMATCH, 1), report.reasons
    assert runs.find(store, report.run).state.value == "done"
    other.close()


def test_it_fails_between_two_levels(tables: Path, store: Store) -> None:
    """What the first level found is not lost with the second's plan."""
    report = run(tables, store, lambda: on_every_connection(store, "PRAGMA query_only = ON"), ladder=["signature", "exact"])
    told(report, "may not be written")
    assert [step.method for step in report.steps] == ["signature"]


def test_a_level_that_is_resumed_reads_its_own_chunks(tables: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunks that are kept are those of the plan that is kept, whichever level of a ladder the run was ended in."""
    from auditor.kept import Kept
    from auditor.store import chunks

    kept: list[int] = []
    pin = Kept.pin

    def pinned(self: Kept, *arguments: Any) -> None:
        pin(self, *arguments)
        kept.append(len(chunks.done(store, self.run)))

    monkeypatch.setattr(Kept, "pin", pinned)
    report = run(tables, store, lambda: None, ladder=["signature", "exact"])
    assert report.method == "exact" and kept == [0, 0]


@pytest.fixture
def files(tables: Path) -> Path:
    configure(tables, f"duckdb:///{tables}/source.duckdb", f"duckdb:///{tables}/target.duckdb", partition={"size": 100})
    value = json.loads((tables / "auditor.yaml").read_text())
    value["audits"]["other"] = value["audits"]["live"]
    (tables / "auditor.yaml").write_text(json.dumps(value))
    return tables


def test_two_processes_on_one_store(files: Path) -> None:
    """The same audit is refused; another is not."""
    first = processes.run(files, settings=processes.PAUSING)
    assert first.says("planned"), first.said
    second = processes.run(files)
    assert second.end() == 2 and second.out == ""
    [run] = processes.runs(files)
    assert f"live is being run already: run {run['run']}" in second.said[-1]
    other = processes.Process(files, "run", "other", "--format", "json")
    assert other.report()["verdict"] == "mismatch"
    first.go()
    assert first.report()["verdict"] == "mismatch"
    assert {(one["audit"], one["state"]) for one in processes.runs(files)} == {("live", "done"), ("other", "done")}


def test_the_command_says_so_too(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.kept import Kept

    told_, once = Kept.told, threading.Lock()

    def failing(self: Kept, progress: Progress) -> None:
        told_(self, progress)
        if progress.done and once.acquire(blocking=False):
            on_every_connection(self.store, "PRAGMA query_only = ON")

    monkeypatch.setattr(Kept, "told", failing)
    assert main(["run", "live", "--quiet", "--config", str(files / "auditor.yaml")]) == 3
    out = capsys.readouterr().out
    assert "this run was not kept" in out and "777" in out
