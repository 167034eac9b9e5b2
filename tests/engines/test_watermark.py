"""The watermark excludes rows in flight, and a wrong time never hides a difference permanently."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.history.handover import EarlierRuns
from auditor.history.left_out import LeftOut, LeftOutRow
from auditor.model import SIDES, Progress, Report, State, Verdict
from auditor.run import audit_run, in_flight
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.engines_in_turn

on_every_engine = pytest.mark.parametrize("engine", engine_params(), indirect=True)
MOST = ("mysql", "mariadb", "postgres", "redshift", "duckdb")
on_most_engines = pytest.mark.parametrize("engine", engine_params(*MOST), indirect=True)
on_two_engines = pytest.mark.parametrize("engine", engine_params(*MOST, slow=["mariadb", "redshift", "duckdb"]), indirect=True)
"""In a normal run on two: which rows the watermark excludes, and those without a time, the tests beside these find on most engines."""
LONG_AGO, FAR = dt.datetime(2026, 1, 1), dt.datetime(2037, 1, 1)
ROWS: dict[int, tuple[str, dt.datetime | None]] = {number: (f"row {number}", LONG_AGO) for number in range(50)}


def future_time() -> dt.datetime:
    """Return a time later than any watermark, plausible for a row in flight."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(hours=2)


def run_audit(engine: LiveEngine, sides: Mapping[str, Mapping[int, tuple[str, Any]]], kind: str = "timestamp", **more: Any) -> Report:
    """Audit two tables of (v, moved) by id, excluding rows that moved in the last minute, and return the report."""
    columns = [("id", Kind("integer")), ("v", Kind("text")), ("moved", Kind("date") if kind == "date" else Kind(kind, scale=6))]
    for side in SIDES:
        rows: Sequence[Sequence[Any]] = [(number, *row) for number, row in sides[side].items()]
        tables.make(engine, f"settle_{side}", columns, rows, ["id"])
    ends = {side: {"connection": "here", "table": f"settle_{side}"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "settle": {"column": "moved", "lag": "1m"}, **more})
    return audit_run.run("settle", audit, {"here": ConnectionSettings(url=engine.url)})


def named(report: Report) -> list[tuple[str, str | None, str]]:
    assert report.differences is not None, report.reasons
    return [(one.kind, one.key["id"], one.state) for one in report.differences.named]


@pytest.mark.slow_on("spark")
@on_every_engine
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_times_far_in_the_future_hide_no_differences(engine: LiveEngine, kind: str) -> None:
    source = {**ROWS, 7: ("row 7", FAR), 8: ("only here", FAR), 10: ("the same", FAR)}
    target = {**ROWS, 7: ("mangled", FAR), 9: ("mangled", FAR), 10: ("the same", FAR), 99: ("extra", FAR)}
    del target[8]
    report = run_audit(engine, {"source": source, "target": target}, kind)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    found = [("changed", "7", "confirmed"), ("changed", "9", "confirmed"), ("extra", "99", "confirmed"), ("missing", "8", "confirmed")]
    assert sorted(named(report)) == found


@on_most_engines
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.few
def test_rows_in_flight_are_excluded_on_both_sides(engine: LiveEngine, kind: str) -> None:
    source = {**ROWS, 7: ("new", future_time()), 60: ("new", future_time())}
    report = run_audit(engine, {"source": source, "target": {**ROWS, 7: ("newer", future_time())}}, kind)
    assert report.verdict is Verdict.MATCH and report.comparison and report.comparison.rows == {"source": 49, "target": 49}, report.reasons


@on_two_engines
@pytest.mark.parametrize("nulls", ["compare", "leave_out"])
def test_wrong_time_in_the_target_is_never_a_match(engine: LiveEngine, nulls: str) -> None:
    """The source's row is settled, but the target's row of the same key looks as if it were in flight."""
    moved = None if nulls == "leave_out" else future_time()
    sides = {"source": ROWS, "target": {**ROWS, 7: ("mangled", moved)}}
    settle: dict[str, Any] = {"settle": {"column": "moved", "lag": "1m", "nulls": nulls}}
    first = run_audit(engine, sides, **settle)
    assert first.differences is not None and (first.verdict, first.differences.unsettled, first.differences.in_flight) == (
        Verdict.UNKNOWN,
        1,
        0,
    )
    rechecked = run_audit(engine, sides, **settle, recheck={"times": 2, "wait": "1ms"})
    assert rechecked.verdict is Verdict.MISMATCH and named(rechecked) == [("changed", "7", "confirmed")], rechecked.reasons
    assert run_audit(engine, sides, **settle, method="signature").verdict is Verdict.MISMATCH


@on_most_engines
def test_excluded_rows_without_a_time_are_reported(engine: LiveEngine) -> None:
    sides = {"source": ROWS, "target": {**ROWS, 99: ("extra", None)}}
    assert named(run_audit(engine, sides)) == [("extra", "99", "confirmed")]
    report = run_audit(engine, sides, settle={"column": "moved", "lag": "1m", "nulls": "leave_out"})
    assert report.verdict is Verdict.MATCH and report.plan
    assert [str(one) for one in report.plan.not_compared] == ["moved: rows in which it is NULL: nothing is said of them"]


@on_two_engines
def test_tables_without_settled_rows_are_not_considered_empty(engine: LiveEngine) -> None:
    young = {number: ("new", future_time()) for number in range(3)}
    report = run_audit(engine, {"source": young, "target": {}}, allow_empty=True)
    assert report.verdict is Verdict.UNKNOWN and "nothing was compared yet" in report.reasons[0]
    report = run_audit(engine, {"source": {}, "target": {}}, allow_empty=True)
    assert report.verdict is Verdict.MATCH, report.reasons


@on_most_engines
def test_all_rows_of_the_day_of_the_watermark_are_in_flight_for_date_columns(engine: LiveEngine) -> None:
    today, tomorrow = (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=days) for days in (0, 1))
    old: dict[int, tuple[str, Any]] = {number: (text, LONG_AGO.date()) for number, (text, _) in ROWS.items()}
    report = run_audit(engine, {"source": {**old, 60: ("new", today), 61: ("new", tomorrow)}, "target": old}, "date")
    assert report.verdict is Verdict.MATCH and report.plan and report.plan.watermark.endswith("00:00:00.000000"), report.reasons
    report = run_audit(engine, {"source": {**old, 60: ("wrong", today + dt.timedelta(days=9))}, "target": old}, "date")
    assert named(report) == [("missing", "60", "confirmed")]


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize(
    ("engine", "method"),
    [
        pytest.param(name, method, id=f"{method}-{name}", marks=[getattr(pytest.mark, name), *slow])
        for method in ("signature", "counts")
        for name in (*MOST, "spark")
        for slow in ([pytest.mark.slow] if method == "counts" and name != "duckdb" else [],)
    ],
    indirect=["engine"],
)
def test_rows_in_flight_make_the_verdict_unknown_for_methods_that_name_no_rows(engine: LiveEngine, method: str) -> None:
    """The negated watermark condition counts rows in flight on every engine; if there are none, a difference is a mismatch.

    Both methods count rows in flight by the same statement, so one of them runs on a single engine without --slow.
    """
    with_row_in_flight, without_row_in_flight = (
        {**ROWS, 7: ("a new text", future_time()), 30: ("a new text", None)},
        {**ROWS, 30: ("a new text", None)},
    )
    target = {**ROWS, 30: ("a new text", None)}
    by_ten: dict[str, Any] = {"method": method, "partition": {"size": 10}}
    report = run_audit(engine, {"source": with_row_in_flight, "target": target}, **by_ten)
    assert report.verdict is Verdict.UNKNOWN and any("1 row of the source is in flight" in reason for reason in report.reasons)
    wrong = {**target, 23: ("another text", LONG_AGO)}
    assert run_audit(engine, {"source": without_row_in_flight, "target": wrong}, **by_ten).verdict is Verdict.MISMATCH


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        pytest.param(*one.values, kind, id=f"{one.id}-{kind}", marks=one.marks)
        for kind, slow in {"timestamp": [], "timestamptz": ["mariadb", "redshift", "duckdb"]}.items()
        for one in engine_params(*MOST, slow=slow)
    ],
    indirect=["engine"],
)
def test_heartbeat_ahead_of_the_source_clock_is_not_believed(engine: LiveEngine, kind: str) -> None:
    """Rows of the last hour have not arrived: a beat that lies in the future would call them missing."""
    recent = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(minutes=30)
    sides = {"source": {**ROWS, 60: ("on its way", recent), 61: ("on its way", recent)}, "target": ROWS}
    settle: dict[str, Any] = {"settle": {"column": "moved", "heartbeat": {"table": "beats", "column": "at"}}}

    def run_with(beat: dt.datetime, **more: Any) -> Report:
        tables.make(engine, "beats", [("at", Kind(kind, scale=6))], [(LONG_AGO,), (beat,)])
        heartbeat = {**settle["settle"]["heartbeat"], **more}
        return run_audit(engine, sides, settle={"column": "moved", "heartbeat": heartbeat})

    ahead = recent + dt.timedelta(hours=2)
    report = run_with(ahead)
    assert (report.state, report.verdict, report.exit_code) == (State.FAILED, Verdict.UNKNOWN, 3), report.reasons
    assert f"{ahead:%Y-%m-%d %H:%M:%S} UTC" in report.reasons[0] and "the source's clock is at 2" in report.reasons[0]
    report = run_with(recent - dt.timedelta(minutes=1))
    assert report.verdict is Verdict.MATCH, report.reasons
    report = run_with(ahead, ahead="3h")
    assert report.plan and report.plan.watermark < f"{recent + dt.timedelta(hours=1):%Y-%m-%d %H:%M:%S}", "never later than the clock"
    assert named(report) == [("missing", "60", "confirmed"), ("missing", "61", "confirmed")], "the allowance is the user's word"


@pytest.mark.parametrize("engine", engine_params(*MOST, slow=["mariadb", "duckdb"]), indirect=True)
def test_status_of_one_task_among_several_shows_how_far_the_target_is(engine: LiveEngine) -> None:
    """AWS DMS writes a row for each of its tasks: a task that is further says nothing of the tables of another."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    ours, another = now - dt.timedelta(hours=1), now - dt.timedelta(minutes=1)
    columns = [("task_name", Kind("text")), ("task_status", Kind("text")), ("source_timestamp_applied", Kind("timestamp", scale=6))]
    tables.make(engine, "awsdms_status", columns, [("OURS", "CHANGE PROCESSING", ours), ("IT'S", "CHANGE PROCESSING", another)])
    on_its_way = {60: ("on its way", now - dt.timedelta(minutes=30))}
    sides = {"source": {**ROWS, 8: ("changed", LONG_AGO), **on_its_way}, "target": ROWS}

    def run_with(**rows: str) -> Report:
        heartbeat = {"table": "awsdms_status", "column": "SOURCE_TIMESTAMP_APPLIED", "rows": rows}
        return run_audit(engine, sides, settle={"column": "moved", "heartbeat": heartbeat})

    assert named(run_with(TASK_NAME="OURS")) == [("changed", "8", "confirmed")]
    assert named(run_with(task_name="IT'S")) == [("changed", "8", "confirmed"), ("missing", "60", "confirmed")]
    for rows, reason in (
        ({"task_name": "gone"}, "holds no time, of rows whose task_name is 'gone'"),
        ({"task": "OURS"}, "has no column 'task'"),
    ):
        report = run_with(**rows)
        assert report.verdict is Verdict.UNKNOWN and reason in report.reasons[0], report.reasons


@on_most_engines
def test_rows_left_out_in_many_runs_are_named(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Young rows are counted and sampled on every engine; a young row's damage stays unseen, and the report says so."""
    sides = {"source": {**ROWS, 7: ("hot", future_time())}, "target": {**ROWS, 7: ("damaged", future_time())}}
    connections = {"here": ConnectionSettings(url=engine.url)}
    for most, left_out in ((10, 1), (0.5, 1)):
        monkeypatch.setattr(in_flight, "MAX_FOLLOWED", most)
        first = run_audit(engine, sides)
        assert (first.verdict, first.left_out) == (Verdict.MATCH, left_out), first.reasons
        earlier = LeftOut({("7",): LeftOutRow(1, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))})
        ends = {side: {"connection": "here", "table": f"settle_{side}"} for side in SIDES}
        audit = Audit.model_validate({**ends, "key": ["id"], "settle": {"column": "moved", "lag": "1m"}, "overdue_after": 2})
        outcome = audit_run.perform("settle", audit, connections, earlier=EarlierRuns(left_out=earlier))
        if most >= 1:
            assert outcome.report.overdue_rows == 1 and ": keys 7" in outcome.report.reasons[-1], outcome.report.reasons
            assert outcome.report.coverage["rows"] == pytest.approx(1 - 1 / 50)
        assert outcome.left_out is not None and ("7",) in outcome.left_out.rows, "a key that the sample leaves out stays as it was"


@pytest.mark.parametrize("engine", engine_params("mysql", "postgres"), indirect=True)
def test_row_that_changes_at_every_look_is_named_after_some_runs(engine: LiveEngine) -> None:
    """Damaged and hot: no run confirms it; another row's damage is confirmed."""
    sides: dict[str, dict[int, tuple[str, Any]]] = {"source": dict(ROWS), "target": {**ROWS, 5: ("x", LONG_AGO), 8: ("x", LONG_AGO)}}
    columns = [("id", Kind("integer")), ("v", Kind("text")), ("moved", Kind("timestamp", scale=6))]
    for side in SIDES:
        tables.make(engine, f"settle_{side}", columns, [(number, *row) for number, row in sides[side].items()], ["id"])
    ends = {side: {"connection": "here", "table": f"settle_{side}"} for side in SIDES}
    recheck = {"times": 2, "wait": "1ms"}
    audit = Audit.model_validate({**ends, "key": ["id"], "recheck": recheck, "overdue_after": 2, "columns": {"include": ["v"]}})
    changes = iter(range(1000))

    def on_progress(progress: Progress) -> None:
        if progress.doing.startswith("waits") and progress.side == "source":
            tables.execute(engine, f"UPDATE settle_source SET v = 'hot {next(changes)}' WHERE id = 5")

    earlier = LeftOut()
    for overdue_rows in (0, 1):
        outcome = audit_run.perform(
            "settle", audit, {"here": ConnectionSettings(url=engine.url)}, on_progress, earlier=EarlierRuns(left_out=earlier)
        )
        report, earlier = outcome.report, outcome.left_out or LeftOut()
        assert named(report) == [("changed", "5", "unsettled"), ("changed", "8", "confirmed")], report.reasons
        assert report.overdue_rows == overdue_rows and report.verdict is Verdict.MISMATCH
    assert ": keys 5" in report.reasons[-1] and report.coverage["rows"] < 1
