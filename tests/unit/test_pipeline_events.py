"""Positions sort as the log does, and schemas survive their JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.pipeline.events import ColumnSchema, Position, TableSchema

positions = st.builds(Position, st.integers(0, 127), st.integers(0, 2**24 - 1), st.integers(0, 2**32 - 1))


@given(positions, positions)
def test_packed_positions_sort_as_positions_do(one: Position, other: Position) -> None:
    assert (one.pack() < other.pack()) == (one < other)
    assert Position.unpack(one.pack()) == one
    assert 0 <= one.pack() < 2**63


@pytest.mark.parametrize("position", [Position(128, 0, 0), Position(0, 2**24, 0), Position(0, 0, 2**32)])
def test_position_that_does_not_fit_is_refused(position: Position) -> None:
    with pytest.raises(OverflowError, match="does not fit into a position"):
        position.pack()


def test_schema_survives_its_json_and_has_another_id_when_it_changes() -> None:
    columns = (ColumnSchema("id", "bigint unsigned", nullable=False), ColumnSchema("näme", "varchar(40)", nullable=True, charset="utf8mb4"))
    schema = TableSchema("shop", "orders", columns, ("id",))
    assert TableSchema.from_json(schema.to_json()) == schema
    assert len(schema.id) == 12
    assert TableSchema("shop", "orders", columns[:1], ("id",)).id != schema.id
