"""The row hash is computed once per row: the derived tables that hold it are not merged into their outer query.

A merged derived table leaves the engine's plan, and the hash is then computed once per sum. Engines that compute common
subexpressions once by themselves have no barrier, and are measured instead: benchmarks/ compares them with a bare scan.
"""

from __future__ import annotations

import re

import pytest

import dialects
from auditor import render
from auditor.model import Chunk
from tests.engines import LiveEngine
from tests.test_exact import made_oracle_table, oracle_rows, planned

SHOWN: dict[str, tuple[str, str]] = {
    "mysql": ("EXPLAIN", r"-> Materialize|\bDERIVED\b"),
    "postgres": ("EXPLAIN VERBOSE", r"Seq Scan on \S+ .*\n *Output: .*sha256"),
    "redshift": ("EXPLAIN VERBOSE", r"Seq Scan on \S+ .*\n *Output: .*sha2"),
}
"""How each engine that has a barrier is asked for its plan, and what shows that the innermost derived table was kept apart: a
table of its own, or a scan that puts out the hash and not the columns it is made of."""


def explained(engine: LiveEngine, t: int, strategy: str) -> tuple[str, str]:
    """The statement of one side, and the engine's plan of it as text."""
    made_oracle_table(engine, oracle_rows())
    session = dialects.connect(engine.url)
    try:
        partition = {"range": {"size": 16}, "hash": {"buckets": 5}}[strategy]
        sql = render.summary(planned(session, {"strategy": strategy, **partition}, t, 60), "source", session.dialect, Chunk())
        rows = session.query(f"{SHOWN[engine.dialect][0]} {sql}")
    finally:
        session.close()
    return sql, "\n".join(" ".join(str(value) for value in row) for row in rows)


@pytest.mark.parametrize("strategy", ["range", "hash"])
@pytest.mark.parametrize("t", [3, 16])
def test_each_row_is_hashed_once(engine: LiveEngine, t: int, strategy: str) -> None:
    dialect = dialects.get(engine.dialect)
    if not dialect.FENCE and not dialect.FENCE_COLUMN:
        assert engine.dialect not in SHOWN
        return
    sql, plan = explained(engine, t, strategy)
    hashes = len(re.findall(r"\b(?:sha256|sha2)\(", sql, re.IGNORECASE))
    assert hashes == (2 if strategy == "hash" else 1), "one hash of the row, one of the key"
    kept = re.findall(SHOWN[engine.dialect][1], plan, re.IGNORECASE)
    assert kept, f"the derived table was merged:\n{plan}"
