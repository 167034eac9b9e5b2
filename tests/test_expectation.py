"""What is expected of a plan, and the choice of a method from a history."""

from __future__ import annotations

import dialects
from auditor import expectation
from auditor.expectation import choose, exact_load, expected
from tests.engines import LiveEngine
from tests.test_exact import made_oracle_table, oracle_rows, planned


def test_the_load_is_that_of_a_poisson_distribution() -> None:
    """At t = 3, two per cent of partitions overflow at about one difference a partition; t = 8 takes four."""
    assert 0.95 < expectation._load(3) < 1.1
    assert 3.8 < expectation._load(8) < 4.2


def test_a_calm_table_is_named_and_a_rewritten_one_estimated() -> None:
    assert choose([], 3, 1024, ended=0) == "exact"
    assert choose([0.5, 0.5], 3, 1024, ended=2) == "exact", "two runs are no history"
    assert choose([1e-6] * 5, 3, 1024, ended=5) == "exact"
    assert choose([0.3] * 5, 3, 1024, ended=5) == "minhash"
    assert choose([0.3] * 10, 3, 1024, ended=10) == "exact", "every tenth run looks again"
    assert choose([0.3] * 11, 3, 1024, ended=11) == "minhash"
    assert choose([*[0.3] * 11, *[0.0] * 6], 3, 1024, ended=17) == "exact", "it has calmed down"


def test_a_history_that_is_full_grows_no_longer_and_still_only_every_tenth_run_is_exact() -> None:
    methods = [choose([0.3] * 30, 3, 1024, ended=ended) for ended in range(31, 51)]
    assert [ended for ended, method in zip(range(31, 51), methods, strict=True) if method == "exact"] == [40, 50]


def test_a_plan_says_what_it_will_cost(engine: LiveEngine) -> None:
    made_oracle_table(engine, oracle_rows())
    session = dialects.connect(engine.url)
    try:
        plan = planned(session, {"strategy": "range", "size": 16}, 3, 60)
    finally:
        session.close()
    load = exact_load(plan)
    assert load and 55_000 < load < 70_000, "one in sixteen rows"
    cost = expected(plan, "source")
    assert cost.partitions == 7
    assert 80 <= cost.bytes / cost.partitions <= 200
    assert cost.statements == 1
