"""Rows that are left out run after run: young each time, or changing at every look. They are named, and lower the coverage."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor import service
from auditor.config import Audit, ConnectionSettings, validate_settings
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.history import left_out
from auditor.history.handover import EarlierRuns, Outcome
from auditor.history.left_out import Key, LeftOut, LeftOutRow, Span, Stretch, advance, advance_stretches
from auditor.model import SIDES, Progress, Report, Verdict, consecutive_ranges
from auditor.planning import prescan as deciding
from auditor.report import json as as_json
from auditor.run import audit_run, in_flight, recheck
from auditor.store import Store, open_store
from auditor.summary.key_number import FACTORS, P, Q

pytestmark = pytest.mark.duckdb
ROWS = 1000
SETTLE: dict[str, Any] = {"settle": {"column": "moved", "lag": "1h"}, "overdue_after": 3, "partition": {"size": 100}}
YOUNG = "moved = now() AT TIME ZONE 'UTC'"


class Tables:
    """Both sides' tables in DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.paths = {side: folder / f"{side}.duckdb" for side in SIDES}
        self.urls: dict[str, Any] = {side: {"url": f"duckdb:///{path}"} for side, path in self.paths.items()}
        for side in SIDES:
            self.execute(side, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR, moved TIMESTAMP)")
            self.execute(side, f"INSERT INTO t SELECT i, 'v', '2020-01-01' FROM range({ROWS}) r(i)")

    def execute(self, side: str, sql: str) -> None:
        with duckdb.connect(str(self.paths[side])) as connection:  # type: ignore[index]
            connection.execute(sql)

    def definition(self, **audit: Any) -> dict[str, Any]:
        return {**{side: {"connection": side, "table": "t"} for side in SIDES}, **SETTLE, **audit}

    def run(self, store: Store, **audit: Any) -> Report:
        settings = validate_settings({"connections": self.urls, "audits": {"t": self.definition(**audit)}})
        return service.run_audit(settings, "t", store=store)

    def perform(self, earlier: LeftOut, on_progress: OnProgress = ignore_progress, **audit: Any) -> Outcome:
        connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(**url) for side, url in self.urls.items()}
        parsed = Audit.model_validate(self.definition(**audit))
        return audit_run.perform("t", parsed, connections, on_progress, earlier=EarlierRuns(left_out=earlier))


@pytest.fixture
def both(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/store.db")


def test_row_that_is_always_young_is_reported_by_name(both: Tables, store: Store) -> None:
    """The damage of rows 5 and 6 stays unseen, and the report says so; others are young now and then."""
    both.execute("target", "UPDATE t SET v = 'damaged' WHERE id IN (5, 6)")
    reports = []
    for run in range(4):
        both.execute("source", f"UPDATE t SET {YOUNG} WHERE id IN (5, 6)")
        both.execute("target", f"UPDATE t SET {YOUNG} WHERE id IN (5, 6)")
        for side in SIDES:
            both.execute(side, "UPDATE t SET moved = '2020-01-01' WHERE id >= 100")
            both.execute(side, f"UPDATE t SET {YOUNG} WHERE id BETWEEN {100 + run * 10} AND {109 + run * 10}")
        reports.append(both.run(store, method="signature" if run == 2 else "exact"))
    assert [report.verdict for report in reports] == [Verdict.MATCH] * 4, [report.reasons for report in reports]
    assert [report.left_out for report in reports] == [12] * 4
    assert [report.overdue_rows for report in reports] == [0, 0, 2, 2]
    assert reports[0].coverage["rows"] == 1 and reports[3].coverage["rows"] == pytest.approx(1 - 2 / ROWS)
    assert "2 rows were not compared in the last 3 runs or more" in reports[3].reasons[-1] and ": keys 5 to 6" in reports[3].reasons[-1]
    body = as_json.report(reports[3])
    assert [(row.key, row.runs) for row in body.overdue] == [({"id": "5"}, 4), ({"id": "6"}, 4)] and body.left_out_rows == 12
    both.execute("source", "UPDATE t SET moved = '2020-01-01' WHERE id = 5")
    both.execute("target", "UPDATE t SET moved = '2020-01-01' WHERE id = 5")
    seen = both.run(store)
    assert seen.verdict is Verdict.MISMATCH and seen.overdue_rows == 1, "a row that is compared is no longer overdue"


def test_rolling_run_keeps_what_is_known_of_parts_that_it_does_not_read(both: Tables, store: Store) -> None:
    found = []
    for _ in range(6):
        for side in SIDES:
            both.execute(side, f"UPDATE t SET {YOUNG} WHERE id IN (7, 907)")
        found.append(both.run(store, rolling={"per_run": "50%"}))
    assert [report.overdue_rows for report in found] == [0, 0, 0, 0, 1, 2], "each part is read every second time"
    assert {row.key["id"]: row.runs for row in found[-1].overdue} == {"7": 3, "907": 3}


def test_many_young_rows_are_followed_by_a_sample(both: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (left_out, in_flight):
        monkeypatch.setattr(module, "MAX_FOLLOWED", 64)
    for side in SIDES:
        both.execute(side, f"UPDATE t SET {YOUNG} WHERE id < 600")
    earlier = LeftOut()
    for partition in ({"size": 100}, {"buckets": 8}, {"column": "moved", "unit": "hour"}):
        outcome = both.perform(earlier, partition=partition)
        earlier = outcome.left_out or LeftOut()
        assert len(earlier.rows) <= 64 and outcome.report.left_out == 600
    assert outcome.report.overdue_rows == pytest.approx(600, rel=0.5) and "about" in outcome.report.reasons[-1]
    assert 0.2 < outcome.report.coverage["rows"] < 0.7


def test_masked_keys_are_not_shown(both: Tables) -> None:
    columns = {"override": {"id": {"mask": True}}}
    earlier = LeftOut()
    for _ in range(3):
        for side in SIDES:
            both.execute(side, f"UPDATE t SET {YOUNG} WHERE id = 777 OR id BETWEEN 400 AND 499")
        outcome = both.perform(earlier, columns=columns, partition={"buckets": 8})
        earlier = outcome.left_out or LeftOut()
    told = as_json.report(outcome.report).to_json()
    assert outcome.report.overdue_rows == 101 and not {"777", "400", "499"} & set(re.findall(r"\d+", told))


KEYS = st.integers(0, 9).map(lambda number: (str(number),))


@given(st.lists(st.tuples(st.sets(KEYS), st.sets(KEYS)), max_size=12))
def test_streaks_count_the_runs_that_would_have_told(runs: list[tuple[set[Key], set[Key]]]) -> None:
    """Each run leaves out some keys, and does not read others."""
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    state: dict[Key, LeftOutRow] = {}
    expected: dict[Key, int] = {}
    for number, (young, unread) in enumerate(runs):
        now = young - unread
        read = {(str(number),) for number in range(10)} - unread
        packed = left_out.pack(LeftOut(advance(state, now, read.__contains__, at + dt.timedelta(number))))
        state = dict(left_out.unpack(packed).rows)
        expected = {key: expected.get(key, 0) + (key in now) for key in {*now, *(expected.keys() & unread)}}
        assert {key: row.runs for key, row in state.items()} == expected


POSITIONS = st.sets(st.integers(0, 29))


def _spans(positions: set[int]) -> list[Span]:
    """Return neighbouring positions as spans, with ten rows at each position."""
    return [Span(first, last, 10 * (last - first + 1)) for first, last in consecutive_ranges(sorted(positions))]


@given(st.lists(st.tuples(POSITIONS, POSITIONS), max_size=12))
def test_stretches_count_the_runs_that_compared_nothing_there(runs: list[tuple[set[int], set[int]]]) -> None:
    """Each run leaves out some positions, and does not read others."""
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    state: tuple[Stretch, ...] = ()
    expected: dict[int, int] = {}
    for number, (young, unread) in enumerate(runs):
        now, read = young - unread, set(range(30)) - unread
        state = advance_stretches(state, _spans(now), consecutive_ranges(sorted(read)), at + dt.timedelta(number))
        state = left_out.unpack(left_out.pack(LeftOut(stretches=state, positions="keys"))).stretches
        expected = {one: expected.get(one, 0) + (one in now) for one in {*now, *(expected.keys() & unread)}}
        found = {position: one.runs for one in state for position in range(one.span.first, one.span.last + 1)}
        assert found == expected
        assert all(one.span.rows == 10 * (one.span.last - one.span.first + 1) for one in state)


def test_stretches_keep_the_fewest_rows_and_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    state: tuple[Stretch, ...] = ()
    for rows in (500, 200, 900):
        state = advance_stretches(state, [Span(0, 99, rows)], None, at)
    assert state == (Stretch(Span(0, 99, 200), 3, at),)
    monkeypatch.setattr(left_out, "MAX_STRETCHES", 5)
    state = advance_stretches(state, [Span(0, 99, 200), *(Span(n, n, 1) for n in range(200, 300, 2))], None, at)
    assert len(state) == 5 and state[0] == Stretch(Span(0, 99, 200), 4, at)


def _rows_of_sample(keys: Sequence[int], most: int) -> int:
    """Return how many rows the sampled of these keys stand for: one in so many is followed that there are at most ``most``.

    The sample is drawn by the keys' numbers, which are the same in every run: of n keys, one in q is n / q on average, and what they
    stand for has a standard deviation of about sqrt(q * n), here a quarter of n; so no tolerance would tell much.
    """
    numbers, one_in = [(key + Q) * FACTORS[0] % P for key in keys], 1
    while len(keys) > most * one_in or sum(number % one_in == 0 for number in numbers) > most:
        one_in *= 2
    return one_in * sum(number % one_in == 0 for number in numbers)


@pytest.mark.quick_for("partition1")
@pytest.mark.parametrize("prescan", [False, True])
@pytest.mark.parametrize("partition", [{"size": 100}, {"buckets": 4}, {"column": "made", "unit": "day"}])
@pytest.mark.few
def test_stretch_that_no_run_compares_is_told_beyond_the_rows_that_are_followed(
    both: Tables, store: Store, monkeypatch: pytest.MonkeyPatch, partition: dict[str, Any], prescan: bool
) -> None:
    """A third of the table, or all of it, is written before each run; its damage stays unseen, and the report says where.

    With a pre-scan it lies in the middle of a stretch that is equal.
    """
    monkeypatch.setattr(deciding, "STRETCHES", 1)
    for module in (left_out, in_flight):
        monkeypatch.setattr(module, "MAX_FOLLOWED", 16)
    is_all = "buckets" in partition
    where = "TRUE" if is_all else "id BETWEEN 300 AND 599"
    for side in SIDES:
        both.execute(side, "ALTER TABLE t ADD COLUMN made TIMESTAMP")
        both.execute(side, "UPDATE t SET made = TIMESTAMP '2026-01-01' + INTERVAL 1 DAY * (id // 100)")
    both.execute("target", "UPDATE t SET v = 'damaged' WHERE id BETWEEN 300 AND 599")
    reports = []
    for _ in range(3):
        for side in SIDES:
            both.execute(side, f"UPDATE t SET {YOUNG} WHERE {where}")
        reports.append(both.run(store, partition=partition, allow_empty=True, prescan=prescan))
    last, rows = reports[-1], ROWS if is_all else 300
    assert [report.overdue_rows for report in reports[:2]] == [0, 0] and last.coverage["rows"] == pytest.approx(1 - rows / ROWS)
    # A key does not tell its bucket: what the sampled keys stand for, about as many rows, counts if it is more than the stretches hold.
    counted = last.overdue_rows
    assert counted == (max(rows, _rows_of_sample(range(ROWS), 16)) if is_all else rows)
    told = {"size": "keys 300 to 599", "buckets": "bucket 0 of 4 to bucket 3 of 4", "column": "2026-01-04 to 2026-01-06"}
    label = next(text for name, text in told.items() if name in partition)
    assert f"{counted:,} rows were not compared in the last 3 runs or more" in last.reasons[-1] and f": {label}" in last.reasons[-1]
    assert [(one.label, one.rows, one.runs) for one in as_json.report(last).overdue_ranges] == [(label, rows, 3)]
    for side in SIDES:
        both.execute(side, "UPDATE t SET moved = '2020-01-01' WHERE id < 450")
    seen = both.run(store, partition=partition, allow_empty=True, prescan=prescan)
    assert seen.verdict is Verdict.MISMATCH and seen.overdue_rows < rows, "what is compared is no longer overdue"


@pytest.mark.slow
def test_long_range_that_never_stands_still_is_told(both: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing rows that change at each look, too many to be rechecked one by one."""
    monkeypatch.setattr(recheck, "MAX_LISTED_ROWS", 50)
    turns = itertools.count()

    def write(now: Progress) -> None:
        if now.doing.startswith("waits") and now.side == "source":
            both.execute("source", f"UPDATE t SET v = 'w{next(turns)}' WHERE id BETWEEN 200 AND 499")
            both.execute("target", f"DELETE FROM t WHERE id = 200; INSERT INTO t VALUES (200, 'x{next(turns)}', '2020-01-01')")

    for side in SIDES:  # so that this process may write while a run reads
        both.urls[side] = {"url": f"{both.urls[side]['url']}?access_mode=read_write"}
    earlier = LeftOut()
    for _ in range(3):
        both.execute("target", "DELETE FROM t WHERE id BETWEEN 200 AND 499")
        outcome = both.perform(earlier, write, recheck={"times": 2, "wait": 0.01}, settle=None)
        earlier = outcome.left_out or LeftOut()
    assert outcome.report.overdue_rows >= 300, outcome.report.reasons
    assert "keys 200 to 499" in outcome.report.reasons[-1] and outcome.report.coverage["rows"] < 0.75
