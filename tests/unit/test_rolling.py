"""Rolling audits: every partition is read in turn, and the verified time is never set too early."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor import service
from auditor.config import Settings
from auditor.history.rolling import Piece, choose_partitions, fill_gaps, partitions_per_run
from auditor.model import Report, Verdict
from auditor.service import stored_runs
from auditor.store import audit_state, open_store, run_lifecycle, runs

T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
numbers = st.integers(-50, 200)


def at(run: int) -> dt.datetime:
    return T0 + dt.timedelta(minutes=run)


@st.composite
def readings(draw: st.DrawFn) -> tuple[list[Piece], int, int]:
    """Generate the pieces read before, ascending and disjoint, and the current bounds of the table."""
    bounds = sorted(draw(st.lists(numbers, unique=True, max_size=20)))
    moments = st.one_of(st.none(), st.integers(0, 9).map(at))
    read = [Piece(low, high, draw(moments)) for low, high in zip(bounds[::2], bounds[1::2], strict=False)]
    first = draw(numbers)
    return read, first, first + draw(st.integers(1, 200))


@given(readings())
def test_fill_gaps_covers_every_partition_once(reading: tuple[list[Piece], int, int]) -> None:
    read, first, end = reading
    found = fill_gaps(read, first, end)
    assert [number for piece in found for number in range(piece.first, piece.end)] == list(range(first, end))
    for piece in found:
        for number in range(piece.first, piece.end):
            assert piece.at == next((one.at for one in read if one.first <= number < one.end), None)


@given(readings(), st.integers(1, 300), st.integers(0, 300))
def test_least_recently_read_partitions_are_chosen(reading: tuple[list[Piece], int, int], count: int, reserved: int) -> None:
    every = fill_gaps(*reading)
    ages = {number: piece.at for piece in every for number in range(piece.first, piece.end)}
    chosen = choose_partitions(every, count, min(reserved, count))
    numbers = [number for low, high in chosen for number in range(low, high)]
    assert len(numbers) == len(set(numbers)) == min(count, len(ages)) and numbers == sorted(numbers) and set(numbers) <= set(ages)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(chosen)), "adjacent ranges are joined"
    left = set(ages) - set(numbers)
    read, read_left = [one for n in numbers if (one := ages[n])], [one for n in left if (one := ages[n])]
    assert not read or not read_left or max(read) <= min(read_left)
    never = sum(age is None for age in ages.values())
    assert len(read) >= min(reserved, count, len(ages) - never)
    if reserved == 0:
        assert sum(ages[n] is None for n in numbers) == min(count, never)


@settings(max_examples=settings().max_examples // 3)  # a share of the profile's examples, which --slow and --deep raise
@given(st.integers(1, 400), st.integers(1, 60), st.integers(0, 60), st.integers(0, 30))
def test_growing_table_is_read_again(size: int, each: int, growth: int, warm: int) -> None:
    """However fast the table grows, all partitions read once are read again within a bounded number of runs."""
    read: list[Piece] = []
    end = size
    for run in range(warm):
        _read(read, end, each, run, reserved=0)
        end += growth
    reserved = each // 2
    last = {number: piece.at for piece in read for number in range(piece.first, piece.end)}
    for run in range(warm, warm + math.ceil(len(last) / max(1, reserved))):
        _read(read, end, each, run, reserved)
        end += growth
    now = {number: piece.at for piece in read for number in range(piece.first, piece.end)}
    if reserved:
        assert all(now[number] != age for number, age in last.items())


def _read(read: list[Piece], end: int, each: int, run: int, reserved: int) -> None:
    chosen = choose_partitions(fill_gaps(read, 0, end), each, reserved)
    ages = {number: piece.at for piece in read for number in range(piece.first, piece.end)}
    ages |= {number: at(run) for low, high in chosen for number in range(low, high)}
    read[:] = [Piece(number, number + 1, ages[number]) for number in sorted(ages)]


def test_partitions_per_run() -> None:
    assert [partitions_per_run(1000, share, None, 100, None) for share in (0.05, 1.0, 0.0001)] == [50, 1000, 1]
    assert (
        partitions_per_run(1000, None, 60, 100, 1000.0) == 600
        and partitions_per_run(10, None, 60, 100, 1000.0) == 10
        and partitions_per_run(10, None, 1, 1e9, None) == 1
    )


class Table:
    """A table on both sides of a rolling audit."""

    def __init__(self, folder: Path) -> None:
        self.paths = {side: folder / f"{side}.duckdb" for side in ("source", "target")}
        self.store = open_store(f"sqlite:///{folder}/store.db")
        for path in self.paths.values():
            with duckdb.connect(str(path)) as connection:
                connection.execute("CREATE TABLE t AS SELECT i AS id, 'row ' || i AS v FROM range(10000) r(i)")

    def execute(self, sql: str, sides: Sequence[str] = ("source", "target")) -> None:
        for side in sides:
            with duckdb.connect(str(self.paths[side])) as connection:
                connection.execute(sql)

    def run(self, per_run: str = "25%", **audit: Any) -> Report:
        ends = {side: {"connection": side, "table": "t"} for side in self.paths}
        settings = Settings.model_validate(
            {
                "connections": {side: {"url": f"duckdb:///{path}"} for side, path in self.paths.items()},
                "audits": {"t": {**ends, "key": ["id"], "partition": {"size": 100}, "rolling": {"per_run": per_run}, **audit}},
            }
        )
        report = service.run_audit(settings, "t", store=self.store)
        assert report.state.value == "done", report.reasons
        return report


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def _partition_ranges(*reports: Report) -> list[tuple[int, int]]:
    return [partition_range for report in reports if report.plan for partition_range in report.plan.partition_ranges]


@pytest.mark.duckdb
def test_all_partitions_are_read_in_turn_and_then_verified(table: Table) -> None:
    reports = [table.run() for _ in range(8)]
    assert _partition_ranges(*reports) == 2 * [(0, 25), (25, 50), (50, 75), (75, 100)]
    assert [report.covered for report in reports] == [0.25] * 8
    assert [report.comparison.rows["source"] for report in reports if report.comparison] == [2500] * 8
    verified = [report.verified_through for report in reports]
    assert verified[:3] == [None] * 3
    began = [report.began for report in reports]
    for number in range(3, 8):
        through, first = verified[number], began[number - 3]
        assert through and first and abs((through - first).total_seconds()) < 1, "the start of the oldest of the four runs"
    assert audit_state.get_state(table.store, "t").verified_through == verified[-1]


@pytest.mark.duckdb
def test_difference_blocks_the_verified_time(table: Table) -> None:
    table.execute("UPDATE t SET v = 'x' WHERE id = 3000", sides=["target"])
    reports = [table.run() for _ in range(5)]
    assert [report.verdict for report in reports] == [Verdict.MATCH, Verdict.MISMATCH, Verdict.MATCH, Verdict.MATCH, Verdict.MATCH]
    assert not any(report.verified_through for report in reports)
    table.execute("UPDATE t SET v = 'row 3000' WHERE id = 3000", sides=["target"])
    repaired = table.run()
    assert _partition_ranges(repaired) == [(25, 50)] and repaired.verified_through


@pytest.mark.slow
@pytest.mark.duckdb
def test_new_keys_do_not_starve_old_partitions(table: Table) -> None:
    ranges_read: list[tuple[int, int]] = []
    for run in range(16):
        ranges_read += _partition_ranges(table.run("10%"))
        table.execute(f"INSERT INTO t SELECT i, 'row ' || i FROM range({10000 + run * 2000}, {12000 + run * 2000}) r(i)")
    numbers_read = [number for low, high in ranges_read for number in range(low, high)]
    assert numbers_read.count(0) >= 2, "the first partition is read again although more keys are added than read"


@pytest.mark.duckdb
def test_clock_set_back_changes_neither_order_nor_verified_time(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading order continues and the verified time stays."""
    reports = [table.run() for _ in range(4)]
    verified = reports[-1].verified_through
    assert verified
    monkeypatch.setattr("auditor.run.audit_run.datetime", _Past)
    monkeypatch.setattr("auditor.store.run_lifecycle.database_time", lambda _: _Past.now(dt.UTC))
    later = [table.run() for _ in range(5)]
    assert _partition_ranges(*later) == [(0, 25), (25, 50), (50, 75), (75, 100), (0, 25)]
    assert {report.verified_through for report in later} == {verified}
    assert [run.state.value for run in runs.list_runs(table.store)] == ["done"] * 9 and run_lifecycle.recover_runs(table.store).failed == []


class _Past(dt.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return super().now(tz) - dt.timedelta(days=3)


@pytest.mark.duckdb
def test_unknown_part_does_not_starve_the_others(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part whose verdict is unknown still counts as read."""
    table.execute("UPDATE t SET v = 'x' WHERE id = 5", sides=["target"])
    from auditor.compare import verdict

    real = verdict.conclude

    def unknown(comparison: Any, *rest: Any) -> Any:
        found = real(comparison, *rest)
        return (Verdict.UNKNOWN, ("it moves",)) if found[0] is Verdict.MISMATCH else found

    monkeypatch.setattr(verdict, "conclude", unknown)
    first = table.run()
    rest = [table.run() for _ in range(3)]
    assert first.verdict is Verdict.UNKNOWN and _partition_ranges(*rest) == [(25, 50), (50, 75), (75, 100)]
    assert not rest[-1].verified_through
    table.execute("UPDATE t SET v = 'row 5' WHERE id = 5", sides=["target"])
    assert table.run().verified_through


@pytest.mark.duckdb
def test_empty_table_matches_if_allowed(table: Table) -> None:
    table.execute("DELETE FROM t")
    assert table.run(allow_empty=True).verdict is Verdict.MATCH


@pytest.mark.duckdb
def test_rows_without_a_key_are_read_in_each_run(table: Table) -> None:
    """They are of no range of keys, so that where the oldest rows are always deleted, no part would have them in its turn."""
    table.execute("INSERT INTO t VALUES (NULL, 'of the source')", sides=["source"])
    table.execute("INSERT INTO t VALUES (NULL, 'of the target')", sides=["target"])
    for end in (1000, 3000, 6000):
        assert table.run().verdict is Verdict.MISMATCH
        table.execute(f"DELETE FROM t WHERE id < {end}")
    whole = stored_runs.rolling_table(table.store, "t")
    assert not table.run("100%").verified_through and whole and whole.verdict is Verdict.MISMATCH
    table.execute("DELETE FROM t WHERE id IS NULL")
    assert table.run("50%").verified_through
    whole = stored_runs.rolling_table(table.store, "t")
    assert whole and whole.verdict is Verdict.MATCH


@pytest.mark.duckdb
def test_part_without_rows_matches(table: Table) -> None:
    table.execute("UPDATE t SET id = id + 20000 WHERE id >= 5000")
    reports = [table.run("20%") for _ in range(5)]
    assert [report.verdict for report in reports] == [Verdict.MATCH] * 5 and reports[-1].verified_through
    assert reports[2].reasons == ("neither side has a row in this part of the table",)


@pytest.mark.duckdb
def test_part_that_is_unknown_without_a_difference_is_not_equal(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("auditor.run.prescan.ReadResult.doubt", lambda _, verdict, reasons: (Verdict.UNKNOWN, (*reasons, "contradicted")))
        assert table.run().verdict is Verdict.UNKNOWN
    later = [table.run() for _ in range(3)]
    whole = stored_runs.rolling_table(table.store, "t")
    assert not later[-1].verified_through and whole and (whole.verdict, whole.undecided) == (Verdict.UNKNOWN, 25)
    assert table.run().verified_through
