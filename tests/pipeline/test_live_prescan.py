"""Audits by live summaries that read stretches of the target first: the stream's sums of partitions add up to those of stretches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from auditor.model import NULL_PARTITION, Report, Verdict
from auditor.pipeline.live import find_sums
from auditor.run.live import running_sums
from tests.live import Engines
from tests.pipeline.aligned_road import AUDIT, AlignedRoad

TABLE, KEYS = "live_stretches", 3000
_numbers = itertools.count()


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[AlignedRoad]:
    more = f"summaries: live, prescan: true, partition: {request.param}"
    about = (engines.live("mariadb"), TABLE, engines.live("postgres").url, f"stretched_{next(_numbers)}", more)
    made = AlignedRoad(tmp_path, *about)
    made.fill(KEYS)
    yield made
    made.close()


def named(report: Report) -> list[tuple[str, str | None]]:
    assert report.differences is not None
    return [(one.kind, one.key["id"]) for one in report.differences.named]


def arrive(road: AlignedRoad) -> None:
    sums = find_sums(road.settings, road.store, AUDIT, road.settings.audits[AUDIT])
    assert not isinstance(sums, str) and sums.pass_end() == ""


@pytest.mark.alone
@pytest.mark.mariadb
@pytest.mark.postgres
@pytest.mark.parametrize("road", ["{size: 16}"], indirect=True)
def test_stretches_are_read_first_and_what_differs_by_the_method(road: AlignedRoad) -> None:
    with road.delivering():
        assert road.audit().verdict is Verdict.MATCH
        road.log.run(f"UPDATE {TABLE} SET price = price + 1 WHERE id % 7 = 0", f"DELETE FROM {TABLE} WHERE id BETWEEN 100 AND 200")
        arrive(road)
        same = road.audit()
        assert same.verdict is Verdict.MATCH and same.live and not same.live.scanned, same.reasons
        assert same.plan and same.plan.prescan and same.plan.prescan.used, same.notes
        assert "pre-scan: all 62 parts of the table are equal" in same.notes, same.notes
        assert same.comparison and same.comparison.rows == {"source": KEYS - 101, "target": KEYS - 101}
        table = f"{road.schema}.{TABLE}"
        road.execute(
            f"UPDATE {table} SET price = 7.5 WHERE id = 77", f"DELETE FROM {table} WHERE id = 1500",
            f"INSERT INTO {table} VALUES (150, 'again', 1), (3050, 'more', 1)",
        )  # fmt: skip
        other = road.audit()
        assert other.verdict is Verdict.MISMATCH and other.live and not other.live.scanned, other.reasons
        assert "pre-scan: 4 of 64 parts of the table differ, and were read in full" in other.notes, other.notes
        assert other.differences and other.differences.exact
        found = {*named(other), *(("extra", str(one.first)) for one in other.differences.ranges)}
        assert {("changed", "77"), ("missing", "1500")} < found and other.differences.extra == 2
        road.execute(
            f"UPDATE {table} SET price = 2 WHERE id = 77", f"DELETE FROM {table} WHERE id IN (150, 3050)",
            f"INSERT INTO {table} VALUES (1500, 'item 1500', 1)",
        )  # fmt: skip
        assert road.audit().verdict is Verdict.MATCH


def test_signatures_of_partitions_add_up_to_those_of_unions() -> None:
    words = np.array([[5, 2**30 - 1], [7, 2], [1, 1]], np.int64)
    sums = running_sums.of(np.array([NULL_PARTITION, -3, 4]), np.array([1, 2, 3]), words, np.zeros((3, 5), np.int64))
    united = running_sums.unite(sums, np.array([NULL_PARTITION, 0, 0]))
    assert united.partition.tolist() == [NULL_PARTITION, 0] and united.rows.tolist() == united.hashed.tolist() == [1, 5]
    assert united.words.tolist() == [[5, 2**30 - 1], [8, 3]] and united.syndromes.shape == (2, 0)
