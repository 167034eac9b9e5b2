"""Limits of the exact method: partitions with many differences are refined or listed within limits, the rest is estimated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Verdict
from auditor.run import audit_run
from auditor.run.locate import refining

ROWS = 120_000


def make_table(path: Path, key: str, value: str, kept: str) -> None:
    columns = f"{key} AS id, {value} AS v, TIMESTAMP '2026-03-01' + INTERVAL (i) SECOND AS at"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT {columns} FROM range({ROWS}) r(i) WHERE {kept}")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that returns the database of the source whose rows have this key."""

    @cache
    def source(key: str) -> Path:
        path = tmp_path_factory.mktemp("source") / "source.duckdb"
        make_table(path, key, "'v' || i", "true")
        return path

    return source


@pytest.fixture
def audit_damaged(tmp_path: Path, sources: Callable[[str], Path]) -> Any:
    """Return a function that audits two tables whose target rows are changed where ``damaged`` holds, and missing where ``lost`` does."""

    def report(damaged: str, key: str = "i", *, lost: str = "false", **more: Any) -> Report:
        paths = {"source": sources(key), "target": tmp_path / "target.duckdb"}
        make_table(paths["target"], key, f"CASE WHEN {damaged} THEN 'x' || i ELSE 'v' || i END", f"NOT ({lost})")
        ends = {side: {"connection": side, "table": "t"} for side in paths}
        connections = {side: ConnectionSettings(url=f"duckdb:///{path}") for side, path in paths.items()}
        return audit_run.run("t", Audit.model_validate({**ends, "key": ("id",), "salt": "s4lt", **more}), connections)

    return report


@pytest.mark.quick_for("range")
@pytest.mark.parametrize("key", ["i", "'k' || i"], ids=["range", "hash"])
def test_partitions_with_many_differences_are_refined(audit_damaged: Any, key: str) -> None:
    report = audit_damaged("i % 200 = 7", key, limits={"max_rows_listed": 0}, partition={"rows": 3072})
    assert report.differences is not None and report.jaccard, report.reasons
    assert report.differences.partitions["refined"] == report.comparison.unequal
    changed = ROWS // 200
    if report.differences.exact:
        assert (report.differences.changed, len(report.differences.named)) == (changed, changed)
        assert report.jaccard.score.value == (ROWS - changed) / (ROWS + changed)
    else:  # some refined partitions still had too many differences, and listing is disabled
        assert report.differences.changed > 0.5 * changed
        assert report.jaccard.least <= (ROWS - changed) / (ROWS + changed) <= report.jaccard.most


def test_a_percent_of_scattered_differences_is_nearly_all_named_from_one_scan(audit_damaged: Any) -> None:
    report = audit_damaged("i % 100 = 7")
    found = report.differences
    assert found is not None and found.exact, report.reasons
    assert (found.changed, len(found.named)) == (ROWS // 100, ROWS // 100)
    assert found.partitions["refined"] == found.partitions["listed"] == 0 and found.partitions["accounted"] == report.comparison.unequal


def test_rewritten_partitions_are_listed_within_the_limits(audit_damaged: Any) -> None:
    """A range of keys is rewritten completely, so its partitions have too many differences to refine."""
    report = audit_damaged("i BETWEEN 9000 AND 11999")
    assert report.differences is not None and report.differences.exact, report.reasons
    assert (report.differences.changed, report.differences.partitions["listed"] > 0) == (3000, True)


def test_some_rows_of_completely_different_tables_are_named(audit_damaged: Any) -> None:
    """About as many are listed as are kept with their keys, from partitions all over the table.

    The rest is estimated from the two words of each of about 38 partitions that are not listed: the truth times chi-square with 76
    degrees of freedom, divided by 76. What is above the truth, which is all rows, is cut by the hard bound. Of random salts (the test
    has a fixed one) one in ten leads to less than 0.8 of the truth, and one in five hundred to less than 0.6.
    """
    rows = {"rows": 3072}
    equal, different = audit_damaged("false", partition=rows), audit_damaged("true", limits={"max_differences": 5000}, partition=rows)
    assert different.verdict is Verdict.MISMATCH
    found = different.differences
    assert found and different.jaccard and len(found.named) == min(found.changed, 5000)
    assert 3072 <= found.changed <= 1.4 * 5000
    assert different.jaccard.score.value < 0.2 and different.jaccard.least == 0
    assert found.partitions["listed"] + found.partitions["estimated"] == 40 and found.partitions["estimated"] >= 37
    assert 0.6 * ROWS < found.changed + found.estimated <= ROWS
    assert not found.exact and "max_rows_listed" in found.why
    assert re.fullmatch(r"about [\d,]+00 of [\d,]+ rows differ; counted: [\d,]+ changed \(\w+\)", different.reasons[0]), different.reasons
    for side in SIDES:
        assert different.cost[side].statements <= equal.cost[side].statements + 4, "the scan, one list, its count, and its columns"
        assert different.cost[side].bytes < 100 * 20_000


SCATTERED, LOST = "hash(i) % 100 < 6", "hash(i) % 1000 = 999"
"""Six of a hundred rows are changed, and one of a thousand is missing, all over the table."""


@pytest.fixture(scope="module")
def scattered() -> tuple[int, int]:
    """How many rows these conditions change and lose."""
    counts = f"SELECT count(*) FILTER ({SCATTERED} AND NOT ({LOST})), count(*) FILTER ({LOST}) FROM range({ROWS}) r(i)"
    with duckdb.connect() as connection:
        changed, missing = connection.execute(counts).fetchall()[0]
    return changed, missing


@pytest.mark.quick_for("{'max_differences': 400}-range")
@pytest.mark.parametrize("key", ["i", "'k' || i"], ids=["range", "hash"])
@pytest.mark.parametrize("limits", [{"max_differences": 400}, {"max_rows_listed": 10_000, "max_differences": 600}], ids=str)
@pytest.mark.few
def test_many_scattered_differences_are_named_as_far_as_the_limits_allow(
    audit_damaged: Any, scattered: tuple[int, int], key: str, limits: dict[str, int]
) -> None:
    """Some are named from all over the table, all are estimated, and the bounds of the score hold."""
    report = audit_damaged(SCATTERED, key, lost=LOST, limits=limits, partition={"rows": 1000})
    found = report.differences
    assert found and report.jaccard, report.reasons
    changed, missing = scattered
    assert 0 < found.missing <= missing and 0 < found.changed <= changed
    assert abs(found.changed + found.missing + found.estimated - changed - missing) < 0.15 * (changed + missing)
    check_bounds(report, changed, missing)
    named = Counter(one.kind for one in found.named)
    assert 0.9 * limits["max_differences"] <= len(found.named) <= limits["max_differences"]
    assert named["missing"] == min(found.missing, limits["max_differences"] // 2), "the rare kind is not crowded out"
    places = Counter(int((one.key["id"] or "").lstrip("k")) * 10 // ROWS for one in found.named)
    assert len(places) >= 5 and min(places.values()) > 20, places
    assert sum(1 for one in found.named if one.columns) == named["changed"]


def check_bounds(report: Report, changed: int, missing: int) -> None:
    assert report.jaccard
    rows, differing = 2 * ROWS - missing, 2 * changed + missing
    true = (rows - differing) / (rows + differing)
    assert report.jaccard.least <= true <= report.jaccard.most
    assert report.jaccard.score.lower <= true <= report.jaccard.score.upper


@pytest.mark.quick_for("hash", "time")
@pytest.mark.parametrize(
    "partition",
    [{"strategy": "time", "column": "at", "unit": "month"}, {"size": 10 * ROWS}, {"strategy": "hash", "buckets": 2}],
    ids=["time", "range", "hash"],
)
def test_part_of_a_partition_that_is_too_large_is_listed(
    audit_damaged: Any, scattered: tuple[int, int], partition: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of it is estimated, as if its listed rows were not there."""
    monkeypatch.setattr(refining, "MAX_PARTITIONS", 0)
    report = audit_damaged(SCATTERED, lost=LOST, limits={"max_rows_listed": 20_000}, partition=partition)
    found = report.differences
    assert found and report.jaccard, report.reasons
    changed, missing = scattered
    assert 0.04 * changed < found.changed == sum(one.kind == "changed" for one in found.named) < 0.2 * changed
    assert 0 < found.missing < missing and found.extra == 0
    check_bounds(report, changed, missing)
    assert found.partitions["estimated"] == report.comparison.unequal and not found.exact
    known = 2 * found.changed + found.missing
    assert report.jaccard.most <= (2 * ROWS - known) / (2 * ROWS + known), "the listed rows differ for certain"


@pytest.mark.parametrize(("limits", "why"), [({"max_rows_listed": 100}, "max_rows_listed"), ({"max_seconds": 0}, "max_seconds")])
def test_differences_beyond_the_limits_are_estimated_with_a_reason(audit_damaged: Any, limits: dict[str, Any], why: str) -> None:
    report = audit_damaged("i BETWEEN 9000 AND 11999", limits=limits)
    assert report.differences is not None and report.jaccard, report.reasons
    assert report.differences.partitions["estimated"] > 0 and why in report.differences.why
    assert any(why in reason for reason in report.reasons)
    score, true = report.jaccard.score, (ROWS - 3000) / (ROWS + 3000)
    assert report.jaccard.least <= score.lower <= score.value <= score.upper <= report.jaccard.most
    assert report.jaccard.least <= true <= report.jaccard.most


def test_counts_stay_exact_if_named_differences_are_capped(audit_damaged: Any) -> None:
    report = audit_damaged("i % 5000 = 3", limits={"max_differences": 5})
    assert report.differences is not None and report.differences.exact, report.reasons
    assert (report.differences.changed, len(report.differences.named)) == (ROWS // 5000, 5)
