"""The cost that a plan estimates, on tables of live engines."""

from __future__ import annotations

import dialects
from auditor.planning.cost import estimate_cost, max_decodable_per_million
from tests.live import LiveEngine
from tests.pairs.test_exact import ensure_oracle_table, make_plan, oracle_rows


def test_estimated_cost_of_a_plan(engine: LiveEngine) -> None:
    ensure_oracle_table(engine, oracle_rows())
    session = dialects.connect(engine.url)
    try:
        plan = make_plan(session, {"strategy": "range", "size": 16}, 3, 60)
    finally:
        session.close()
    load = max_decodable_per_million(plan)
    assert load and 55_000 < load < 70_000, "about one in sixteen rows"
    cost = estimate_cost(plan, "source")
    assert cost.partitions == 7
    assert 80 <= cost.bytes / cost.partitions <= 200
    assert cost.statements == 1
