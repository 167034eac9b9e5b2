"""Planning without a database: how many partitions a table has, and into which chunks it is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model import SIDES, Chunk
from auditor.planning import planner as planning
from auditor.planning.chunks import CHUNK_ROWS
from auditor.planning.partitioning import Bounds
from tests.unit.test_planner import MAX_PARTITIONS, audit, end, ends, finish_plan

KEYS = st.integers(-(2**63), 2**63 - 1)


@given(st.integers(0, 10**10), KEYS, KEYS)
def test_number_of_partitions_is_limited(rows: int, one: int, other: int) -> None:
    least, greatest = min(one, other), max(one, other)
    plan = finish_plan("bigint", Bounds(rows, least, greatest), Bounds(rows // 2, least, greatest))
    partitioning = plan.partitioning
    assert (plan.least, plan.greatest) == (least, greatest)
    if partitioning.strategy == "range":
        assert greatest // partitioning.size - least // partitioning.size + 1 <= MAX_PARTITIONS + 1
    for side in SIDES:
        side_plan = plan.sides[side]
        assert [chunk.null_key for chunk in side_plan.chunks] == ([False, False, True] if side_plan.chunk_keys else [False])


def test_small_tables_and_redshift_are_not_chunked() -> None:
    many = Bounds(10 * CHUNK_ROWS, 1, 10 * CHUNK_ROWS)
    assert finish_plan("bigint", many).sides["source"].chunk_keys == CHUNK_ROWS
    assert finish_plan("bigint", many, dialect="redshift").sides["source"].chunk_keys == 0
    assert finish_plan("bigint", Bounds(CHUNK_ROWS, 1, CHUNK_ROWS)).sides["source"].chunk_keys == 0


@pytest.mark.parametrize(
    ("columns", "nullable", "chunk"),
    [({}, [], False), ({}, ["id"], True), ({"override": {"id": {"expr": "id + 0", "kind": "integer"}}}, [], True)],
)
def test_null_keys_have_a_chunk_only_if_the_key_is_nullable(columns: dict[str, Any], nullable: list[str], chunk: bool) -> None:
    both = ends(*(end("mysql", {"id": "bigint"}, key=["id"], nullable=nullable),) * 2)
    definition = audit(columns=columns)
    plan = planning.finish(planning.draft("a", definition, both), definition, both, dict.fromkeys(SIDES, Bounds(10**7, 1, 10**7)))
    assert any(one.null_key for one in plan.sides["source"].chunks) == chunk


def test_engine_that_finds_no_key_ranges_reads_any_table_in_one_statement() -> None:
    sides = {name: finish_plan("bigint", Bounds(10**9, 1, 10**9), dialect=name).sides["source"] for name in ("spark", "duckdb")}
    assert (sides["spark"].chunks, sides["spark"].chunk_keys) == ((Chunk(),), 0)
    assert sides["duckdb"].chunk_keys
