"""Which rows are left out as being in flight, and that no wrong time hides a difference for ever."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from auditor import run
from auditor.config import Audit, Connection
from auditor.model import SIDES, Report, Verdict
from dialects import Kind
from tests import tables
from tests.engines import LiveEngine, engine_params

every = pytest.mark.parametrize("engine", engine_params(), indirect=True)
most = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb"), indirect=True)
LONG_AGO, FAR = dt.datetime(2026, 1, 1), dt.datetime(2037, 1, 1)
ROWS: dict[int, tuple[str, dt.datetime | None]] = {number: (f"row {number}", LONG_AGO) for number in range(50)}


def soon() -> dt.datetime:
    """A time that is younger than any watermark, and may be that of a row on its way."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(hours=2)


def audited(engine: LiveEngine, sides: Mapping[str, Mapping[int, tuple[str, Any]]], kind: str = "timestamp", **more: Any) -> Report:
    """The report on two tables of (v, moved) by id, of which those that moved in the last minute are left out."""
    columns = [("id", Kind("integer")), ("v", Kind("text")), ("moved", Kind("date") if kind == "date" else Kind(kind, scale=6))]
    for side in SIDES:
        rows: Sequence[Sequence[Any]] = [(number, *row) for number, row in sides[side].items()]
        tables.make(engine, f"settle_{side}", columns, rows, ["id"])
    ends = {side: {"connection": "here", "table": f"settle_{side}"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "settle": {"column": "moved", "lag": "1m"}, **more})
    return run.run("settle", audit, {"here": Connection(url=engine.url)})


def named(report: Report) -> list[tuple[str, str | None, str]]:
    assert report.differences, report.reasons
    return [(one.kind, one.key["id"], one.state) for one in report.differences.named]


@every
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_a_time_that_no_clock_has_shown_yet_hides_nothing(engine: LiveEngine, kind: str) -> None:
    source = {**ROWS, 7: ("row 7", FAR), 8: ("only here", FAR), 10: ("the same", FAR)}
    target = {**ROWS, 7: ("mangled", FAR), 9: ("mangled", FAR), 10: ("the same", FAR), 99: ("extra", FAR)}
    del target[8]
    report = audited(engine, {"source": source, "target": target}, kind)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    found = [("changed", "7", "confirmed"), ("changed", "9", "confirmed"), ("extra", "99", "confirmed"), ("missing", "8", "confirmed")]
    assert sorted(named(report)) == found


@most
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_rows_on_their_way_are_left_out_on_both_sides(engine: LiveEngine, kind: str) -> None:
    source = {**ROWS, 7: ("new", soon()), 60: ("new", soon())}
    report = audited(engine, {"source": source, "target": {**ROWS, 7: ("newer", soon())}}, kind)
    assert report.verdict is Verdict.MATCH and report.comparison and report.comparison.rows == {"source": 49, "target": 49}, report.reasons


@most
@pytest.mark.parametrize("nulls", ["compare", "leave_out"])
def test_a_wrong_time_in_the_target_is_never_a_match(engine: LiveEngine, nulls: str) -> None:
    """A source's row that is settled, and the target's of the same key that looks as if it were on its way."""
    moved = None if nulls == "leave_out" else soon()
    sides = {"source": ROWS, "target": {**ROWS, 7: ("mangled", moved)}}
    settle: dict[str, Any] = {"settle": {"column": "moved", "lag": "1m", "nulls": nulls}}
    once = audited(engine, sides, **settle)
    assert once.differences and (once.verdict, once.differences.unsettled, once.differences.in_flight) == (Verdict.UNKNOWN, 1, 0)
    again = audited(engine, sides, **settle, recheck={"times": 2, "wait": "1ms"})
    assert again.verdict is Verdict.MISMATCH and named(again) == [("changed", "7", "confirmed")], again.reasons
    assert audited(engine, sides, **settle, method="signature").verdict is Verdict.MISMATCH


@most
def test_rows_without_a_time_are_left_out_aloud(engine: LiveEngine) -> None:
    sides = {"source": ROWS, "target": {**ROWS, 99: ("extra", None)}}
    assert named(audited(engine, sides)) == [("extra", "99", "confirmed")]
    report = audited(engine, sides, settle={"column": "moved", "lag": "1m", "nulls": "leave_out"})
    assert report.verdict is Verdict.MATCH and report.plan
    assert report.plan.left_out == ("rows whose moved is NULL: nothing is said of them",)


@most
def test_tables_of_which_nothing_is_settled_are_not_empty(engine: LiveEngine) -> None:
    young = {number: ("new", soon()) for number in range(3)}
    report = audited(engine, {"source": young, "target": {}}, allow_empty=True)
    assert report.verdict is Verdict.UNKNOWN and "nothing was compared yet" in report.reasons[0]
    report = audited(engine, {"source": {}, "target": {}}, allow_empty=True)
    assert report.verdict is Verdict.MATCH, report.reasons


@most
def test_all_rows_of_the_watermarks_day_are_on_their_way_where_days_are_all_that_is_known(engine: LiveEngine) -> None:
    today, tomorrow = (soon().date() + dt.timedelta(days=days) for days in (0, 1))
    old: dict[int, tuple[str, Any]] = {number: (text, LONG_AGO.date()) for number, (text, _) in ROWS.items()}
    report = audited(engine, {"source": {**old, 60: ("new", today), 61: ("new", tomorrow)}, "target": old}, "date")
    assert report.verdict is Verdict.MATCH and report.plan and report.plan.watermark.endswith("00:00:00.000000"), report.reasons
    report = audited(engine, {"source": {**old, 60: ("wrong", today + dt.timedelta(days=9))}, "target": old}, "date")
    assert named(report) == [("missing", "60", "confirmed")]


@every
@pytest.mark.parametrize("method", ["signature", "counts"])
def test_a_method_that_names_no_rows_claims_nothing_of_what_rows_on_their_way_explain(engine: LiveEngine, method: str) -> None:
    """The watermark's own condition, turned round, counts them in every engine's SQL; where there are none, what differs is wrong."""
    moved, without = {**ROWS, 7: ("a new text", soon()), 30: ("a new text", None)}, {**ROWS, 30: ("a new text", None)}
    target = {**ROWS, 30: ("a new text", None)}
    by_ten: dict[str, Any] = {"method": method, "partition": {"size": 10}}
    young = audited(engine, {"source": moved, "target": target}, **by_ten)
    assert young.verdict is Verdict.UNKNOWN and any("1 rows of the source are in flight" in reason for reason in young.reasons)
    wrong = {**target, 23: ("another text", LONG_AGO)}
    assert audited(engine, {"source": without, "target": wrong}, **by_ten).verdict is Verdict.MISMATCH
