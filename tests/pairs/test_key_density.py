"""Sparse integer keys: uniform ones are partitioned by range, clustered ones by hash; both name every difference."""

from __future__ import annotations

import pytest

from auditor.model import Report
from auditor.planning.introspect import PROBE_COUNT, is_uniform, probe_ranges
from auditor.planning.partitioning import Bounds
from dialects import Kind
from tests import tables
from tests.live import LivePair, pair_params
from tests.pairs.test_exact import run_audit

COLUMNS = [("id", Kind("integer")), ("label", Kind("text"))]


def test_probes_lie_between_the_keys_and_cover_the_aimed_rows() -> None:
    bounds = Bounds(1_000_000, 5, 10**12)
    found = probe_ranges(bounds, 1024)
    assert len(found) == PROBE_COUNT
    assert all(5 <= first < end <= 10**12 + 1 for first, end in found)
    assert all((end - first) * 1_000_000 // (10**12 - 4) in (1023, 1024) for first, end in found)


@pytest.mark.parametrize("bounds", [Bounds(1000, 1, 2000), Bounds(0), Bounds(10), Bounds(10, 0, 10**9)])
def test_dense_few_or_unknown_keys_are_not_probed(bounds: Bounds) -> None:
    assert probe_ranges(bounds, 1024) == []


def test_keys_are_uniform_if_three_quarters_of_the_probes_agree() -> None:
    assert is_uniform([1000] * 12 + [0] * 4, 1024)
    assert not is_uniform([1000] * 11 + [0] * 5, 1024)
    assert not is_uniform([100_000] * 16, 1024)


def audit_with_missing_rows(pair: LivePair, keys: list[int]) -> Report:
    rows = [(key, f"row {key}") for key in keys]
    missing = {keys[3], keys[-3]}
    tables.make(pair.source, "dense_source", COLUMNS, rows)
    tables.make(pair.target, "dense_target", COLUMNS, [row for row in rows if row[0] not in missing])
    tables.execute(pair.source, f"CREATE INDEX by_id_{len(keys)} ON dense_source (id)")
    report = run_audit(pair, ("dense_source", "dense_target"), ["id"], {"rows": 32})
    assert report.differences is not None, report.reasons
    assert {one.key_number for one in report.differences.named} == missing
    return report


@pytest.mark.parametrize("pair", pair_params("mariadb", "postgres"), indirect=True)
def test_uniform_keys_use_ranges_and_clustered_keys_use_hash(pair: LivePair) -> None:
    uniform = audit_with_missing_rows(pair, [number * 1_000_003 for number in range(2000)])
    assert uniform.plan and uniform.plan.partitioning.strategy == "range"
    clustered = audit_with_missing_rows(pair, [*range(1000), *(10**11 + number for number in range(1000))])
    assert clustered.plan and clustered.plan.partitioning.strategy == "hash"
