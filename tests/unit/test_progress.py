"""Progress of a run while it runs: rows and statements of each side."""

from __future__ import annotations

import io
import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest
import rich.progress

from auditor import service
from auditor.api.runs import run_body
from auditor.cli._progress import bars, watching
from auditor.config import Settings, validate_settings
from auditor.errors import ColumnRefused, ColumnsChanged, ConnectionLost
from auditor.history import checkpoint
from auditor.history.handover import CountStatements
from auditor.history.records import get_run
from auditor.model import SIDES, Progress, Report, Side, State
from auditor.report import listing, render
from auditor.run import scan
from auditor.store import open_store, run_lifecycle, runs
from tests.durations import SetDurations

ROWS = 5000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for side in SIDES:
        with duckdb.connect(f"{tmp_path}/{side}.duckdb") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT i::BIGINT AS id, i % 7 AS v FROM range({ROWS}) r(i)")
            if side == "target":
                connection.execute("DELETE FROM t WHERE id = 4711")
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    urls = {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in SIDES}
    return validate_settings({"connections": urls, "audits": {"t": {**ends, "key": ["id"]}}})


def test_progress_counts_the_statements_of_each_side(settings: Settings) -> None:
    steps: dict[Side, list[Progress]] = defaultdict(list)
    report = service.run_audit(settings, "t", lambda now: steps[now.side].append(now))
    for side in SIDES:
        counts = [one.statements for one in steps[side]]
        assert counts == sorted(counts)
        assert (counts[0], steps[side][0].doing) == (0, "connecting")
        assert 0 < counts[-1] <= report.cost[side].statements
        done = next(one for one in steps[side] if one.doing == "done")
        assert (done.done, done.total, done.running) == (ROWS - (side == "target"), ROWS - (side == "target"), 0)


@pytest.mark.parametrize(
    ("changed", "least", "step"),
    [("id IN (5, 2000)", 3, "reading the rows that differ"), ("id < 3000", 3000, "listing the rows of partitions that differ")],
)
def test_progress_goes_on_while_differences_are_named(settings: Settings, tmp_path: Path, changed: str, least: int, step: str) -> None:
    """Both sides say what they fetch and how many rows of it have come, and nothing says again that no row was read."""
    with duckdb.connect(f"{tmp_path}/target.duckdb") as connection:
        connection.execute(f"UPDATE t SET v = v + 1 WHERE {changed}")
    steps: dict[Side, list[Progress]] = defaultdict(list)
    service.run_audit(settings, "t", lambda now: steps[now.side].append(now))
    for side in SIDES:
        doing = [one.doing for one in steps[side]]
        after = steps[side][doing.index("finding the rows that differ") :]
        of_step = [one for one in after if one.doing == step]
        assert (of_step[0].done, of_step[0].total > 0) == (0, True)
        assert of_step[-1].total >= of_step[-1].done >= least - 1, of_step[-1]  # one row is missing in the target
        assert all(one.total for one in after), after


def test_the_clock_goes_on_after_all_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are named after the last one was read, and until then the time is that since the run began."""
    now, file = [100.0], io.StringIO()
    monkeypatch.setattr("sys.stderr", file)

    class Bars(rich.progress.Progress):
        def __init__(self, *columns: Any, **more: Any) -> None:
            super().__init__(*columns, **{**more, "get_time": lambda: now[0], "auto_refresh": False})
            shown.append(self)

    shown: list[rich.progress.Progress] = []
    monkeypatch.setattr(rich.progress, "Progress", Bars)
    with bars() as watch:
        watch(Progress("t", "source", "reading", 5, 5))
        now[0] = 175.0
        watch(Progress("t", "source", "listing the rows of partitions that differ", 5, 5))
        (task,) = shown[0].tasks
        clock = shown[0].columns[-1]
        assert isinstance(clock, rich.progress.ProgressColumn) and str(clock(task)) == "0:01:15"


def test_running_statements_are_counted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    counters: list[CountStatements] = []
    seen: dict[Side, list[tuple[int, int]]] = defaultdict(list)
    alive, summary = checkpoint.StoreCheckpoint.keep_alive, scan.summarise

    def keep_alive(self: checkpoint.StoreCheckpoint, stop: Any, statements: CountStatements) -> Any:
        counters.append(statements)
        return alive(self, stop, statements)

    def summarise(plan: Any, side: Side, chunk: Any, session: Any) -> Any:
        before = counters[0](side)
        found = summary(plan, side, chunk, session)
        seen[side] += [before, counters[0](side)]
        return found

    monkeypatch.setattr(checkpoint.StoreCheckpoint, "keep_alive", keep_alive)
    monkeypatch.setattr(scan, "summarise", summarise)
    store = open_store(_store(settings))
    report = service.run_audit(settings, "t", store=store)
    for side in SIDES:
        (before, running), (after, still) = seen[side]
        assert (running, still, after) == (1, 1, before + 1)
        assert counters[0](side) == (report.cost[side].statements, 0), "nothing is running after the run"
    store.close()


def test_lines_of_both_sides_are_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides report from their own threads: a line and its end are one write, and no step is printed twice."""
    written: list[str] = []

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            threading.Event().wait(0.001)  # lets the other threads in
            return len(text)

    monkeypatch.setattr("sys.stderr", Slow())
    with watching(quiet=False) as watch:

        def report(side: Side) -> None:
            for n in range(40):
                watch(Progress("t", side, f"step {n % 9}", n, 40))

        threads = [threading.Thread(target=report, args=(side,)) for side in SIDES for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(written) == len(set(written)) > 20
    assert all(line.startswith(("t: source: step", "t: target: step")) and line.find("\n") == len(line) - 1 for line in written)


def test_bars_show_one_audit_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[list[str]] = []

    class Bars(rich.progress.Progress):
        def update(self, *given: Any, **more: Any) -> None:
            super().update(*given, **more)
            shown.append([task.description for task in self.tasks])

    monkeypatch.setattr(rich.progress, "Progress", Bars)
    with bars() as watch:
        for audit in ("first", "second"):
            for side in SIDES:
                watch(Progress(audit, side, "reading"))
    assert shown[1] == ["first source: reading", "first target: reading"]
    assert shown[-1] == ["second source: reading", "second target: reading"]


def test_resume_is_offered_only_where_it_can_help(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before a chunk was read, nor where only other settings help or the columns changed, after which a run begins anew."""
    store = open_store(_store(settings))

    def run_until(step: str, error: BaseException) -> Report:
        def watch(now: Progress) -> None:
            if now.doing.startswith(step):
                raise error

        return service.run_audit(settings, "t", watch, store)

    for step, error, offered in (
        ("connecting", KeyboardInterrupt(), False),
        ("finding the rows that differ", KeyboardInterrupt(), True),
        ("finding the rows that differ", ConnectionLost("gone"), True),
        ("finding the rows that differ", ColumnRefused("no"), False),
        ("finding the rows that differ", ColumnsChanged("gone"), False),
    ):
        report = run_until(step, error)
        assert report.state in (State.CANCELLED, State.FAILED)
        assert (report.resumable, "auditor resume" in render.run(report, None, "text")) == (offered, offered), (step, error)
        assert runs.get_run(store, report.run).resumable is offered
    store.close()


def _store(settings: Settings) -> str:
    directory = Path(settings.connections["source"].url.removeprefix("duckdb:///")).parent
    return f"sqlite:///{directory}/runs.db"


def test_heartbeats_report_statements(settings: Settings, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> None:
    store = open_store(_store(settings))
    run_lifecycle.start_run(store, run="a" * 32, audit="t", definition={}, method="exact")
    saver = checkpoint.StoreCheckpoint(store, "a" * 32)
    saver.save_progress(Progress("t", "source", "summarising", 100, 400, 1, 0))
    counted = {"source": (12, 3), "target": (0, 0)}
    set_durations(run_heartbeat=0.01)
    beats: list[Any] = []

    def beat(*given: Any) -> bool:
        beats.append(given)
        return True

    monkeypatch.setattr(run_lifecycle, "record_heartbeat", beat)
    ended = threading.Event()
    with saver.keep_alive(ended.set, lambda side: counted[side]):
        assert ended.wait(30)
    step = {"doing": "summarising", "done": 100, "total": 400, "statements": 12, "running": 3}
    assert beats[0][2] == {"source": step}, "the current counts, not those of the side's last progress"
    monkeypatch.undo()
    run_lifecycle.record_heartbeat(store, "a" * 32, beats[0][2])
    found = get_run(store, "a" * 32)
    answered = json.loads(run_body(found))["progress"]["source"]
    assert answered == step, "the API, and its event stream, report the same"
    shown = render.plain_text(listing.run_status(found))
    assert "source: summarising, 100 of about 400 rows; 12 statements done, 3 running" in shown
    store.close()
