"""How many differences decode, and choosing a method from earlier runs."""

from __future__ import annotations

from auditor.planning import cost
from auditor.planning.cost import choose_method


def test_decodable_mean_follows_a_poisson_distribution() -> None:
    """Two percent of partitions overflow at about one difference per partition for t = 3, and about four for t = 8."""
    assert 0.95 < cost.decodable_mean(3) < 1.1
    assert 3.8 < cost.decodable_mean(8) < 4.2


def test_few_differences_choose_exact_and_many_choose_minhash() -> None:
    assert choose_method([], 3, 1024, finished_runs=0) == "exact"
    assert choose_method([0.5, 0.5], 3, 1024, finished_runs=2) == "exact", "two runs are too few to judge by"
    assert choose_method([1e-6] * 5, 3, 1024, finished_runs=5) == "exact"
    assert choose_method([0.3] * 5, 3, 1024, finished_runs=5) == "minhash"
    assert choose_method([0.3] * 10, 3, 1024, finished_runs=10) == "exact", "every tenth run is exact"
    assert choose_method([0.3] * 11, 3, 1024, finished_runs=11) == "minhash"
    assert choose_method([*[0.3] * 11, *[0.0] * 6], 3, 1024, finished_runs=17) == "exact", "recent runs found few differences"


def test_every_tenth_run_is_exact_also_when_the_history_is_full() -> None:
    methods = [choose_method([0.3] * 30, 3, 1024, finished_runs=ended) for ended in range(31, 51)]
    assert [ended for ended, method in zip(range(31, 51), methods, strict=True) if method == "exact"] == [40, 50]
