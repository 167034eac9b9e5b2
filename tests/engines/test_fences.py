"""The row hash is computed once per row: the optimizer does not merge the derived tables that compute it into their outer query.

If a derived table were merged, the hash would be computed once per sum. Engines that compute common subexpressions only once need no
barrier; benchmarks/ measures them against a plain scan instead.
"""

from __future__ import annotations

import re

import pytest

import dialects
from auditor.model import Chunk
from auditor.sql import render
from tests.live import LiveEngine
from tests.pairs.test_exact import ensure_oracle_table, make_plan, oracle_rows

EXPLAINS: dict[str, tuple[str, str]] = {
    "mysql": ("EXPLAIN", r"-> Materialize|\bDERIVED\b"),
    "postgres": ("EXPLAIN VERBOSE", r"Seq Scan on \S+ .*\n *Output: .*sha256"),
    "redshift": ("EXPLAIN VERBOSE", r"Seq Scan on \S+ .*\n *Output: .*sha2"),
}
"""For each engine with a barrier: the EXPLAIN statement, and a pattern that shows that the innermost derived table was not merged, either
as a materialized table or as a scan that outputs the hash instead of its columns."""


def explain(engine: LiveEngine, t: int, strategy: str) -> tuple[str, str, int]:
    """Return the summary statement of one side, the engine's plan for it as text, and how many columns are hashed by themselves."""
    ensure_oracle_table(engine, oracle_rows())
    session = dialects.connect(engine.url)
    try:
        partition = {"range": {"size": 16}, "hash": {"buckets": 5}}[strategy]
        plan = make_plan(session, {"strategy": strategy, **partition}, t, 60)
        sql = render.summary(plan, "source", session.dialect, Chunk())
        rows = session.query(f"{EXPLAINS[engine.dialect][0]} {sql}")
    finally:
        session.close()
    return sql, "\n".join(" ".join(str(value) for value in row) for row in rows), sum(column.digest for column in plan.columns)


@pytest.mark.parametrize("strategy", ["range", "hash"])
@pytest.mark.parametrize("t", [3, 16])
@pytest.mark.few
def test_each_row_is_hashed_once(engine: LiveEngine, t: int, strategy: str) -> None:
    dialect = dialects.get(engine.dialect)
    if not dialect.OPTIMIZER_BARRIER and not dialect.OPTIMIZER_BARRIER_COLUMN:
        assert engine.dialect not in EXPLAINS
        return
    sql, plan, digests = explain(engine, t, strategy)
    hashes = len(re.findall(r"\b(?:sha256|sha2)\(", sql, re.IGNORECASE))
    assert hashes == 1 + digests, "expected one hash of the row, and none of a key that is a whole number"
    materialized = re.findall(EXPLAINS[engine.dialect][1], plan, re.IGNORECASE)
    assert materialized, f"the derived table was merged:\n{plan}"
