"""Columns whose texts stand in a digest with bars between them: which they are, and that their texts are never empty and hold no bar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor import canonical
from auditor.model import SIDES
from auditor.summary.row_bytes import CLOSED_KINDS, is_closed
from auditor.testing.values import EXTREMES, FAMILIES, adapt
from dialects import Kind
from tests.unit.test_prescan import plan

INTEGER = plan().columns[0]
CASES = [(family, kind) for family in FAMILIES for kind in family.kinds if kind.name in CLOSED_KINDS]


def test_each_closed_kind_has_values_here() -> None:
    assert {kind.name for _, kind in CASES} == CLOSED_KINDS


@given(st.data())
def test_closed_texts_are_never_empty_and_hold_no_bar(data: st.DataObject) -> None:
    family, kind = data.draw(st.sampled_from(CASES))
    drawn = data.draw(family.values | st.sampled_from(EXTREMES[family.name]) if family.name in EXTREMES else family.values)
    text = canonical.text(kind, adapt(family, drawn, kind))
    assert text and canonical.BAR not in text


@pytest.mark.parametrize(
    ("more", "closed"),
    [
        ({}, True),
        ({"native": {"source": Kind("integer"), "target": Kind("decimal", 20, 0)}}, True),
        ({"native": {"source": Kind("integer"), "target": Kind("text")}}, False),  # which holds whatever was written
        ({"native": {"source": Kind("char", 8), "target": Kind("integer")}}, False),
        ({"kind": Kind("text"), "native": dict.fromkeys(SIDES, Kind("text"))}, False),
        ({"kind": Kind("bit", 4), "native": dict.fromkeys(SIDES, Kind("bit", 4))}, False),
        ({"null_as": "|"}, False),
        ({"digest": True}, False),
        ({"expression": {"source": "`id`", "target": "(CAST(`note` AS CHAR))"}}, False),
    ],
)
def test_a_column_is_closed_by_the_types_of_both_sides(more: dict[str, Any], closed: bool) -> None:
    column = replace(INTEGER, expression=dict.fromkeys(SIDES, "`id`"), native=dict.fromkeys(SIDES, Kind("integer")))
    assert is_closed(replace(column, **more)) == closed
