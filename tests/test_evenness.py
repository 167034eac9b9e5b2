"""Sparse integer keys: even ones are read by wide ranges, clustered ones by buckets of their hash; both name every difference."""

from __future__ import annotations

import pytest

from auditor.evenness import PROBES, lie_evenly, probes
from auditor.model import Report
from auditor.plan import Bounds
from dialects import Kind
from tests import tables
from tests.engines import LivePair, pair_params
from tests.test_exact import audited, filled

COLUMNS = [("id", Kind("integer")), ("label", Kind("text"))]


def test_probes_lie_between_the_keys_and_hold_the_aim() -> None:
    bounds = Bounds(1_000_000, 5, 10**12)
    found = probes(bounds, 1024)
    assert len(found) == PROBES
    assert all(5 <= first < end <= 10**12 + 1 for first, end in found)
    assert all((end - first) * 1_000_000 // (10**12 - 4) in (1023, 1024) for first, end in found)


@pytest.mark.parametrize("bounds", [Bounds(1000, 1, 2000), Bounds(0), Bounds(10), Bounds(10, 0, 10**9)])
def test_dense_few_or_unknown_keys_are_not_probed(bounds: Bounds) -> None:
    assert probes(bounds, 1024) == []


def test_three_probes_of_four_decide() -> None:
    assert lie_evenly([1000] * 12 + [0] * 4, 1024)
    assert not lie_evenly([1000] * 11 + [0] * 5, 1024)
    assert not lie_evenly([100_000] * 16, 1024)


def run(pair: LivePair, keys: list[int]) -> Report:
    rows = [(key, f"row {key}") for key in keys]
    gone = {keys[3], keys[-3]}
    filled(pair, COLUMNS, rows, [row for row in rows if row[0] not in gone])
    tables.execute(pair.source, f"CREATE INDEX by_id_{len(keys)} ON exact_source (id)")
    report = audited(pair, ["id"], {"rows": 32})
    assert report.differences, report.reasons
    assert {one.key_number for one in report.differences.named} == gone
    return report


@pytest.mark.parametrize("pair", pair_params("mariadb", "postgres"), indirect=True)
def test_even_keys_are_read_by_range_and_clustered_ones_by_hash(pair: LivePair) -> None:
    even = run(pair, [number * 1_000_003 for number in range(2000)])
    assert even.plan and even.plan.partitioning.strategy == "range"
    clustered = run(pair, [*range(1000), *(10**11 + number for number in range(1000))])
    assert clustered.plan and clustered.plan.partitioning.strategy == "hash"
