"""A run of a small table is stored in two transactions, and a longer or broken one can be resumed all the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

import dialects
from auditor import service
from auditor.config import Settings, validate_settings
from auditor.connections import prefetch
from auditor.errors import EngineError, StoreError
from auditor.model import Chunk, Plan, Progress, Report, Side, State, Verdict
from auditor.planning import chunks
from auditor.run import scan
from auditor.service import stored_runs
from auditor.store import Store, events, open_store, run_lifecycle, runs
from auditor.summary.arrays import Summaries
from dialects import Session
from tests.durations import SetDurations

pytestmark = pytest.mark.duckdb


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for side in ("source", "target"):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            connection.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(1000) r(i)")
    ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
    audit = {**ends, "key": ["id"], "partition": {"size": 50}, "prescan": False}
    connections = {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ends}
    return validate_settings({"connections": connections, "audits": {"t": audit, "u": audit}})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


class Statements:
    """What a store is asked, in the order of the statements."""

    def __init__(self, engine: sa.Engine) -> None:
        self.all: list[str] = []
        sa.event.listen(engine, "before_cursor_execute", lambda *given: self.all.append(given[2]))

    def take(self) -> list[str]:
        """Return the statements since the last call."""
        taken, self.all = self.all, []
        return taken


def transactions(statements: list[str]) -> tuple[int, int]:
    """Return how many transactions these statements began: that wrote, and that read."""
    return statements.count("BEGIN IMMEDIATE"), statements.count("BEGIN")


def test_a_short_run_is_stored_in_two_transactions(settings: Settings, store: Store, set_durations: SetDurations) -> None:
    set_durations(run_unsaved=600.0, run_heartbeat=600.0)  # so that no machine is too slow for it
    asked = Statements(store.engine)
    first = service.run_audit(settings, "t", store=store, requested_by="ann")
    created_and_pruned = transactions(asked.take())
    assert created_and_pruned[0] <= 4, "its start and its end, and in each process once pruning, and in each store the salt"
    second = service.run_audit(settings, "t", store=store, requested_by="ann")
    statements = asked.take()
    assert transactions(statements)[0] == 2 and transactions(statements)[1] <= 5, statements
    assert len(statements) < 45, statements
    for report in (first, second):
        stored = runs.get_run(store, report.run)
        assert (stored.verdict, stored.state, stored.rows) == (Verdict.MATCH, State.DONE, {"source": 1000, "target": 1000})
        assert stored.schema and set(stored.schema) == {"source", "target"}, "the columns, which the next run compares its own with"
        assert runs.get_partition_map(store, report.run) and runs.get_plan(store, report.run) is None
        assert not run_lifecycle.list_chunks(store, report.run)
    noted = [(event.action, event.subject, event.actor) for event in events.list_events(store)]
    assert noted == [("run requested", report.run, "ann") for report in (second, first)]
    assert {cost.connection for cost in second.spent} == {"source", "target"}


def test_a_store_of_this_version_is_opened_with_one_question(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    open_store(url).close()
    asked: list[str] = []

    def note(*given: Any) -> None:
        asked.append(given[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        open_store(url).close()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert asked == ["BEGIN", "SELECT version_num FROM auditor_version"]


def test_what_is_written_within_a_transaction_is_part_of_it(store: Store) -> None:
    def work(connection: sa.Connection) -> None:
        events.record_event(store, actor="ann", action="run requested", subject="r")
        assert [event.subject for event in events.list_events(store)] == ["r"], "what is read is as the transaction has it"
        connection.execute(sa.text("SELECT * FROM not_there"))

    with pytest.raises(StoreError):
        store.write(work)
    assert not events.list_events(store)
    store.write(lambda _: events.record_event(store, actor="ann", action="run requested", subject="s"))
    assert [event.subject for event in events.list_events(store)] == ["s"]


def break_after(statements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the summary of each side's chunk fail for good after so many."""
    done, summarise = {"source": 0, "target": 0}, scan.summarise

    def fail(plan: Plan, side: Side, chunk: Chunk, session: Session) -> Summaries:
        done[side] += 1
        if done[side] > statements:
            raise EngineError("the server is gone")
        return summarise(plan, side, chunk, session)

    monkeypatch.setattr(scan, "summarise", fail)


def test_a_short_run_that_fails_can_be_resumed(settings: Settings, store: Store, set_durations: SetDurations) -> None:
    """Its plan and its chunks are stored with its end."""
    set_durations(run_unsaved=600.0, run_heartbeat=600.0, connection_retry_waits=())
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(chunks, "COLUMN_CHUNK_ROWS", 100)
        break_after(3, broken)
        failed = service.run_audit(settings, "t", store=store)
    assert (failed.state, failed.resumable) == (State.FAILED, True), failed.reasons
    saved = {side: len([one for one in run_lifecycle.list_chunks(store, failed.run) if one.side == side]) for side in ("source", "target")}
    assert runs.get_run(store, failed.run).resumable and max(saved.values()) == 3, saved
    resumed = stored_runs.resume(settings, store, failed.run)
    assert (resumed.verdict, resumed.run) == (Verdict.MATCH, failed.run), resumed.reasons
    assert any("was resumed" in note for note in resumed.notes)


def test_the_first_heartbeat_stores_what_a_killed_process_would_lose(
    settings: Settings, store: Store, set_durations: SetDurations, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_durations(run_unsaved=600.0, run_heartbeat=0.05)
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 100)
    seen: list[int] = []

    def wait_for_chunks(now: Progress) -> None:
        if now.side == "source" and now.done > 300 and not seen:
            [running] = runs.list_runs(store, state="running")
            until = time.monotonic() + 60
            while not (stored := run_lifecycle.list_chunks(store, running.run)):
                assert time.monotonic() < until, "no heartbeat has stored a chunk"
                time.sleep(0.01)
            assert runs.get_plan(store, running.run)
            seen.append(len(stored))

    report = service.run_audit(settings, "t", wait_for_chunks, store)
    assert seen and report.verdict is Verdict.MATCH, report.reasons
    assert not run_lifecycle.list_chunks(store, report.run) and runs.get_plan(store, report.run) is None


def statements_of(report: Report) -> dict[str, int]:
    return {cost.connection: cost.spent.statements for cost in report.spent}


def test_runs_of_one_command_share_sessions_and_none_pays_for_another(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    connect = dialects.connect

    def count(url: str, *given: Any) -> Session:
        opened.append(url)
        return connect(url, *given)

    monkeypatch.setattr(dialects, "connect", count)
    alone = service.run_audit(settings, "t")
    assert len(opened) == 2
    with prefetch.keeping():
        service.run_audit(settings, "t")
    assert len(opened) == 4, "a file is free between two runs"
    opened.clear()
    monkeypatch.setattr(prefetch, "opens_file", lambda _: False)  # as of a server
    with prefetch.keeping():
        reports = [service.run_audit(settings, name) for name in ("t", "u", "t")]
    assert len(opened) == 2
    assert [statements_of(report) for report in reports] == [statements_of(alone)] * 3
    service.run_audit(settings, "t")
    assert len(opened) == 4, "behind the block nothing is kept"
