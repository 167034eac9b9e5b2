"""How far the method exact goes: partitions with many differences are cut smaller or listed within limits, the rest is estimated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import run
from auditor.config import Audit, Connection
from auditor.model import Report, Verdict

ROWS = 120_000


@pytest.fixture
def audited(tmp_path: Path) -> Any:
    """The report of two tables of which the target's rows are changed where ``damaged`` holds."""

    def report(damaged: str, key: str = "i", **more: Any) -> Report:
        for side, value in (("source", "'v' || i"), ("target", f"CASE WHEN {damaged} THEN 'x' || i ELSE 'v' || i END")):
            with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
                connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT {key} AS id, {value} AS v FROM range({ROWS}) r(i)")
        ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
        connections = {side: Connection(url=f"duckdb:///{tmp_path}/{side}.duckdb") for side in ends}
        return run.run("t", Audit.model_validate({**ends, "key": ("id",), "salt": "s4lt", **more}), connections)

    return report


@pytest.mark.parametrize("key", ["i", "'k' || i"], ids=["range", "hash"])
def test_partitions_with_many_differences_are_cut_smaller(audited: Any, key: str) -> None:
    report = audited("i % 200 = 7", key, limits={"max_rows_listed": 0})
    assert report.differences and report.jaccard, report.reasons
    assert report.differences.partitions["refined"] == report.comparison.unequal
    changed = ROWS // 200
    if report.differences.exact:
        assert (report.differences.changed, len(report.differences.named)) == (changed, changed)
        assert report.jaccard.score.value == (ROWS - changed) / (ROWS + changed)
    else:  # a few of the smaller ones held too many again, and nothing may be listed here
        assert report.differences.changed > 0.5 * changed
        assert report.jaccard.least <= (ROWS - changed) / (ROWS + changed) <= report.jaccard.most


def test_what_the_limits_allow_is_listed(audited: Any) -> None:
    """A hot range, whose partitions are wholly rewritten: too many to cut smaller."""
    report = audited("i BETWEEN 9000 AND 11999")
    assert report.differences and report.differences.exact, report.reasons
    assert (report.differences.changed, report.differences.partitions["listed"] > 0) == (3000, True)


def test_two_totally_different_tables_are_not_listed(audited: Any) -> None:
    equal, different = audited("false"), audited("true")
    assert different.verdict is Verdict.MISMATCH
    assert different.jaccard and different.jaccard.score.value < 0.2 and different.jaccard.least == 0
    assert different.differences and (different.differences.named, different.differences.exact) == ((), False)
    assert "max_rows_listed" in different.differences.why
    for side in ("source", "target"):
        assert different.cost[side].statements == equal.cost[side].statements, "nothing was read beyond the first scan"


@pytest.mark.parametrize(("limits", "why"), [({"max_rows_listed": 100}, "max_rows_listed"), ({"max_seconds": 0}, "max_seconds")])
def test_what_is_beyond_the_limits_is_estimated_and_says_why(audited: Any, limits: dict[str, Any], why: str) -> None:
    report = audited("i BETWEEN 9000 AND 11999", limits=limits)
    assert report.differences and report.jaccard, report.reasons
    assert report.differences.partitions["estimated"] > 0 and why in report.differences.why
    assert any(why in reason for reason in report.reasons)
    score, true = report.jaccard.score, (ROWS - 3000) / (ROWS + 3000)
    assert report.jaccard.least <= score.lower <= score.value <= score.upper <= report.jaccard.most
    assert report.jaccard.least <= true <= report.jaccard.most


def test_counts_are_exact_where_samples_are_capped(audited: Any) -> None:
    report = audited("i % 5000 = 3", limits={"max_differences": 5})
    assert report.differences and report.differences.exact, report.reasons
    assert (report.differences.changed, len(report.differences.named)) == (ROWS // 5000, 5)
