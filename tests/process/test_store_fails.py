"""A store that fails during a run: the run continues, and its report says that it was not stored."""

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

from auditor import service
from auditor.cli import main
from auditor.config import Settings
from auditor.errors import StoreUnavailable
from auditor.model import Progress, Report, Verdict
from auditor.planning import chunks
from auditor.store import Store, open_store, runs
from tests.durations import SetDurations
from tests.programs import processes
from tests.programs.processes import write_config

pytestmark = [pytest.mark.clock, pytest.mark.duckdb]

ROWS = 20_000


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> Path:
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 2000)
    set_durations(store_lock=0.2)
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


def run_with_failure(tables: Path, store: Store, fail: Callable[[], object], **audit: Any) -> Report:
    """Run the audit, calling ``fail`` once in the middle of its scan, and return the report."""
    ends = {side: {"connection": side, "table": "live"} for side in ("source", "target")}
    settings = Settings.model_validate(
        {
            "connections": {side: {"url": f"duckdb:///{tables}/{side}.duckdb"} for side in ends},
            "audits": {"live": {**ends, "key": ["id"], "partition": {"size": 100}, **audit}},
        }
    )
    once = threading.Lock()

    def on_progress(now: Progress) -> None:
        if now.side == "source" and now.done > 1000 and once.acquire(blocking=False):
            fail()

    report = service.run_audit(settings, "live", on_progress, store)
    assert once.locked(), "the scan never reached the point of failure"
    return report


def assert_reported_as_not_stored(report: Report, words: str) -> None:
    """Assert that the report has its findings and says, in these words, that it was not stored."""
    assert report.verdict is Verdict.MISMATCH and report.exit_code == 3 and not report.resumable
    assert report.differences is not None and [one.key for one in report.differences.named] == [{"id": "777"}]
    assert any(reason.startswith("this run was not stored: ") and words in reason for reason in report.reasons), report.reasons


def set_pragma(store: Store, pragma: str) -> None:
    """Set a pragma on every connection of the store, open or new."""

    def set_on_checkout(connection: Any, *_: object) -> None:
        connection.execute(pragma)

    sa.event.listen(store.engine, "checkout", set_on_checkout)


def test_report_survives_a_store_that_becomes_read_only(tables: Path, store: Store) -> None:
    assert_reported_as_not_stored(run_with_failure(tables, store, lambda: set_pragma(store, "PRAGMA query_only = ON")), "is read-only")


def test_report_survives_a_full_disk(tables: Path, store: Store) -> None:
    assert_reported_as_not_stored(run_with_failure(tables, store, lambda: set_pragma(store, "PRAGMA max_page_count = 1")), "disk is full")


def test_report_survives_a_deleted_store_file(tables: Path, store: Store) -> None:
    def delete() -> None:
        for path in tables.glob("store.db*"):
            path.unlink()

    assert_reported_as_not_stored(run_with_failure(tables, store, delete), "deleted or replaced")


def test_report_of_a_rolling_audit_survives_a_deleted_store_file(tables: Path, store: Store) -> None:
    def delete() -> None:
        for path in tables.glob("store.db*"):
            path.unlink()

    assert_reported_as_not_stored(run_with_failure(tables, store, delete, rolling={"per_run": "50%"}), "deleted or replaced")


def test_reading_by_a_new_connection_says_that_the_file_was_deleted(tables: Path, store: Store) -> None:
    with store.engine.connect():  # which keeps the file's inode from being used again
        for path in tables.glob("store.db*"):
            path.unlink()
        with pytest.raises(StoreUnavailable, match="deleted or replaced"), store.reading() as connection:
            connection.execute(sa.text("SELECT count(*) FROM auditor_audit_states"))


def test_report_survives_a_store_locked_by_another_process(tables: Path, store: Store) -> None:
    other = sqlite3.connect(tables / "store.db", isolation_level=None, check_same_thread=False)
    assert_reported_as_not_stored(run_with_failure(tables, store, lambda: other.execute("BEGIN IMMEDIATE")), "locked by another process")
    other.close()


def test_result_is_stored_after_a_temporary_lock(tables: Path, store: Store) -> None:
    """Chunks that could not be stored make the run not resumable; its result is stored nevertheless."""
    other = sqlite3.connect(tables / "store.db", isolation_level=None, check_same_thread=False)

    def hold() -> None:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, lambda: other.execute("ROLLBACK")).start()

    report = run_with_failure(tables, store, hold)
    assert (report.verdict, report.exit_code) == (Verdict.MISMATCH, 1), report.reasons
    assert runs.get_run(store, report.run).state.value == "done"
    other.close()


def test_first_level_is_reported_when_the_store_fails_before_the_second(tables: Path, store: Store) -> None:
    """The report has the first level's result although the second level's plan could not be stored."""
    report = run_with_failure(tables, store, lambda: set_pragma(store, "PRAGMA query_only = ON"), ladder=["signature", "exact"])
    assert_reported_as_not_stored(report, "is read-only")
    assert [step.method for step in report.steps] == ["signature"]


def test_each_level_of_a_ladder_starts_without_stored_chunks(tables: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored chunks belong to the stored plan, at every level of a ladder."""
    from auditor.history.checkpoint import StoreCheckpoint
    from auditor.store import run_lifecycle

    stored_chunks: list[int] = []
    save_plan = StoreCheckpoint.save_plan

    def count_after_save(self: StoreCheckpoint, *arguments: Any) -> None:
        save_plan(self, *arguments)
        stored_chunks.append(len(run_lifecycle.list_chunks(store, self.run)))

    monkeypatch.setattr(StoreCheckpoint, "save_plan", count_after_save)
    report = run_with_failure(tables, store, lambda: None, ladder=["signature", "exact"])
    assert report.method == "exact" and stored_chunks == [0, 0]


@pytest.fixture
def files(tables: Path) -> Path:
    write_config(tables, f"duckdb:///{tables}/source.duckdb", f"duckdb:///{tables}/target.duckdb", partition={"size": 100})
    value = json.loads((tables / "auditor.yaml").read_text())
    value["audits"]["other"] = value["audits"]["live"]
    (tables / "auditor.yaml").write_text(json.dumps(value))
    return tables


def test_running_audit_is_refused_to_a_second_process(files: Path) -> None:
    """A second process is refused the audit that is running, but can run another one."""
    first = processes.start_run(files, settings=processes.PAUSING)
    assert first.wait_for_output("planned"), first.stderr_lines
    second = processes.start_run(files)
    assert second.wait() == 2 and second.stdout == ""
    [run] = processes.list_runs(files)
    assert f"audit live is already running: run {run['run']}" in second.stderr_lines[-1]
    other = processes.Process(files, "run", "other", "--format", "json")
    assert other.report()["verdict"] == "mismatch"
    first.release()
    assert first.report()["verdict"] == "mismatch"
    assert {(one["audit"], one["state"]) for one in processes.list_runs(files)} == {("live", "done"), ("other", "done")}


def test_command_line_reports_that_the_run_was_not_stored(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.history.checkpoint import StoreCheckpoint

    save_progress, once = StoreCheckpoint.save_progress, threading.Lock()

    def save_and_fail(self: StoreCheckpoint, progress: Progress) -> None:
        save_progress(self, progress)
        if progress.done and once.acquire(blocking=False):
            set_pragma(self.store, "PRAGMA query_only = ON")

    monkeypatch.setattr(StoreCheckpoint, "save_progress", save_and_fail)
    assert main(["run", "live", "--quiet", "--config", str(files / "auditor.yaml")]) == 3
    out = capsys.readouterr().out
    assert "this run was not stored" in out and "777" in out
