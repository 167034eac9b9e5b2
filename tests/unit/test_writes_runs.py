"""Runs that are chosen by the distribution of writes find what others find: however wrong it is, wherever they are interrupted."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.config import Audit
from auditor.history.handover import EarlierRuns, NoCheckpoint
from auditor.model import SIDES, Method, Plan, Report, State, Verdict
from auditor.planning import writes
from auditor.run import audit_run
from tests.unit.test_prescan_runs import (
    COUNTS,
    DAMAGE,
    METHODS,
    ROW,
    Interrupted,
    Rows,
    Tables,
    damage,
    findings,
    same,
    tables,
)

__all__ = ["tables"]  # a fixture

pytestmark = pytest.mark.duckdb

RESUMED = ("verdict", "rows", "unequal", "one-sided", "named", "counts")
WRITTEN = st.lists(st.integers(-40, 100), max_size=12)
"""Keys that are said to be written, some of which no row has; whether what differs is among them is left to chance."""

FORTY: Rows = [(key, "a", 1) for key in range(40)]

SHARES = st.sampled_from([0.5, 0.05, 0.0])
"""The share of the partitions that differed in the last run."""


@pytest.fixture(autouse=True, scope="module")
def _any_gain() -> Any:
    """Let writes decide in tables of a few rows, whatever is gained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "LEAST_ROWS", 0)
        patch.setattr(writes, "LEAST_GAIN", -2.0)
        yield


def perform(
    tables: Tables,
    written: list[int],
    share: float,
    checkpoint: NoCheckpoint | None = None,
    resumed: Plan | None = None,
    ranges: tuple[tuple[int, int], ...] = (),
    **more: Any,
) -> Report:
    """Run with a history in which ``share`` of the partitions differed, and rows were written since; of these ranges of partitions."""
    ends = {side: {"connection": side, "table": "t"} for side in SIDES}
    audit = Audit.model_validate({**ends, "key": ["id"], "salt": "", "partition": {"size": 3}, **more})
    earlier = EarlierRuns(
        plan=resumed,
        verified_through=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        unequal_shares=(share,),
        unequal_keys=(1000,) if share else (),
        events=lambda _, __: written,
        choose_partitions=(lambda _: ranges) if ranges else None,
    )
    return audit_run.perform("t", audit, tables.connections, checkpoint=checkpoint, earlier=earlier).report


def parts_at_once(report: Report) -> int:
    assert report.plan and report.plan.prescan
    return len(report.plan.prescan.at_once)


@pytest.mark.parametrize("examples", COUNTS)
def test_no_distribution_changes_what_is_found(tables: Tables, examples: int) -> None:
    chosen: list[int] = []

    @settings(max_examples=examples)
    @given(rows=st.lists(ROW, max_size=50), what=DAMAGE, written=WRITTEN, share=SHARES, method=METHODS)
    @example(rows=FORTY, what=[("change", 5, (0, "b", 1))], written=[4, 5, 6], share=0.5, method="exact")
    @example(rows=FORTY, what=[], written=[], share=0.0, method="exact")
    def compare(rows: Rows, what: Any, written: list[int], share: float, method: Method) -> None:
        tables.fill("source", rows)
        tables.fill("target", damage(rows, what))
        plain = tables.perform(prescan=False, method=method, partition={"size": 3})
        by_writes = perform(tables, written, share, method=method)
        assert same(findings(by_writes), findings(plain), "range")
        assert by_writes.exit_code == plain.exit_code
        is_equal = sorted(rows, key=repr) == sorted(damage(rows, what), key=repr)
        assert (by_writes.verdict is Verdict.MISMATCH) == (not is_equal)
        chosen.append(parts_at_once(by_writes))

    compare()
    assert any(chosen) and not all(chosen), "some examples read parts at once, others none"


@pytest.mark.parametrize("examples", COUNTS)
def test_an_interrupted_run_finds_the_same(tables: Tables, examples: int) -> None:
    """However often a run is interrupted, in what it reads at once, in the pre-scan or after it."""

    @settings(max_examples=examples)
    @given(
        rows=st.lists(ROW, min_size=1, max_size=50), what=DAMAGE, written=WRITTEN,
        stops=st.lists(st.integers(0, 14), min_size=1, max_size=3),
    )  # fmt: skip
    def interrupt(rows: Rows, what: Any, written: list[int], stops: list[int]) -> None:
        tables.fill("source", rows)
        tables.fill("target", damage(rows, what))
        expected = findings(tables.perform(prescan=False, partition={"size": 3}))
        checkpoint, resumed = Interrupted(0), None
        for stop in [*stops, 1000]:
            checkpoint.after, checkpoint.read = stop, []
            report = perform(tables, written, 0.5, checkpoint, resumed)
            if report.state is State.DONE:
                break
            resumed = checkpoint.plan
        assert same(findings(report), expected, "range", RESUMED)

    interrupt()


def test_rows_without_a_key_are_counted_once_by_a_run_that_is_resumed(tables: Tables) -> None:
    rows: Rows = [(None, "a", 1), *((key, "a", 1) for key in range(0, 90, 3))]
    tables.fill("source", rows)
    tables.fill("target", rows[1:])
    expected = findings(tables.perform(prescan=False, partition={"size": 3}))
    for stop in range(40):
        checkpoint = Interrupted(stop)
        if perform(tables, [16, 16], 0.5, checkpoint).state is State.DONE:
            break
        checkpoint.after, checkpoint.read = 1000, []
        report = perform(tables, [16, 16], 0.5, checkpoint, checkpoint.plan)
        assert same(findings(report), expected, "range", RESUMED), stop
    assert stop > 10, "in each part of the run"


def test_only_the_partitions_of_a_rolling_run_are_read(tables: Tables) -> None:
    rows: Rows = [(key, "a", 1) for key in range(-30, 90)]
    tables.fill("source", rows)
    tables.fill("target", damage(rows, [("change", place, (0, "b", 1)) for place in (10, 46, 52, 90)]))
    for ranges in (((-3, -2), (1, 9)), ((-7, 2), (4, 5)), ((5, 8),)):
        plain = perform(tables, [], 0.0, ranges=ranges, prescan=False)
        by_writes = perform(tables, [16, 16, 22, -20, 60], 0.5, ranges=ranges)
        assert parts_at_once(by_writes)
        assert same(findings(by_writes), findings(plain), "range")
        assert by_writes.coverage == plain.coverage


def test_what_is_written_most_is_read_first_and_by_the_method(tables: Tables) -> None:
    rows: Rows = [(key, "a", 1) for key in range(-30, 90)]
    tables.fill("source", rows)
    tables.fill("target", damage(rows, [("change", 112, (0, "b", 1)), ("change", 60, (0, "b", 1))]))
    whole = Interrupted(1000)
    report = perform(tables, [80] * 9 + [40] * 90, 0.5, whole)
    assert report.plan and report.plan.prescan and report.plan.writes
    first, second = report.plan.prescan.at_once
    assert first[0] <= 40 < first[1] and second[0] <= 80 < second[1], "the most writes first"
    assert str(report.plan.writes).startswith("2 of 7 parts hold 100% of 99 writes since 2026-01-01 00:00:00 UTC (events")
    kinds = [kind for kind, _ in whole.read]
    assert kinds[:4].count("summaries") == 4, "both sides of both parts, before any stretch"
    read = [chunk for side, chunk in whole.chunks if side == "source"]
    assert read[0].bounds[0] >= first[0] and read[0].bounds[1] <= first[1]
    assert "stretches" in kinds and report.differences is not None
    assert [one.key for one in report.differences.named] == [{"id": "30"}, {"id": "82"}], "one where nothing was written among them"


def test_an_order_alone_changes_no_chunk_but_its_place(tables: Tables) -> None:
    rows: Rows = [(key, "a", 1) for key in range(90)]
    tables.fill("source", rows)
    tables.fill("target", rows)
    whole = Interrupted(1000)
    report = perform(tables, [70] * 10, 0.0, whole, prescan=False)
    assert report.verdict is Verdict.MATCH and report.plan and report.plan.prescan and not report.plan.prescan.used
    [(low, end)] = report.plan.writes.first if report.plan.writes else ()
    width = report.plan.writes.width if report.plan.writes else 0
    read = [chunk for side, chunk in whole.chunks if side == "target"]
    assert low * width <= read[0].bounds[0] < end * width
    covered = sorted(chunk.bounds for chunk in read if not chunk.null_key)
    assert all(end == first for (_, end), (first, _) in itertools.pairwise(covered)), "each key is read once"
