"""What a quick run takes of many combinations: each value of each parameter is in one of them, and each engine in one of a module's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.few import slow_ones

ENGINES = ["mysql", "spark", "duckdb"]


@dataclass(eq=False)
class Made:
    """A test as pytest makes it, so far as is asked for."""

    nodeid: str
    callspec: SimpleNamespace
    mark: pytest.MarkDecorator

    def iter_markers(self) -> Iterator[pytest.Mark]:
        """The markers of a test."""
        return iter([self.mark.mark])


def made(function: str, mark: pytest.MarkDecorator, **values: list[Any]) -> list[Any]:
    """The tests that are made of a function for all combinations of these values."""
    cases = [dict(zip(values, case, strict=True)) for case in product(*values.values())]
    return [Made(f"m.py::{function}[{n}]", SimpleNamespace(params=case), mark) for n, case in enumerate(cases)]


def chosen(*items: Any) -> list[dict[str, Any]]:
    left = slow_ones(items)
    return [item.callspec.params for item in items if item not in left]


def test_each_value_is_in_one_combination_and_the_cheapest_engine_in_most() -> None:
    found = chosen(*made("f", pytest.mark.few, engine=ENGINES, size=[1, 2, 3, 4, 5], form=["a", "b"]))
    assert len(found) == 5
    assert [{case[name] for case in found} for name in ("engine", "size", "form")] == [{*ENGINES}, {1, 2, 3, 4, 5}, {"a", "b"}]
    assert [case["engine"] for case in found].count("duckdb") == 3


def test_named_parameters_stand_in_each_combination() -> None:
    found = chosen(*made("f", pytest.mark.few("size", "form"), engine=ENGINES, size=[1, 2, 3], form=["a", "b"]))
    assert sorted((case["size"], case["form"]) for case in found) == [*product([1, 2, 3], ["a", "b"])]
    assert {case["engine"] for case in found} == {*ENGINES}


def test_each_engine_is_in_one_test_of_a_module_and_each_test_runs() -> None:
    turn = pytest.mark.engines_in_turn
    pairs = [("mysql", "spark"), ("duckdb", "mysql")]
    found = chosen(*made("f", turn, engine=ENGINES), *made("g", turn, engine=ENGINES, size=[1, 2]), *made("h", turn, pair=pairs))
    assert {case["size"] for case in found if "size" in case} == {1, 2}
    assert len(found) == 4
    assert {name for case in found for name in case.get("pair", (case.get("engine"),))} == {*ENGINES}
    main = made("main", pytest.mark.few, engine=ENGINES)
    assert len(chosen(*main)) == 3 and len(chosen(*main, *made("f", turn, engine=ENGINES))) == 4


def test_what_has_no_mark_is_left_as_it_is() -> None:
    assert len(chosen(*made("f", pytest.mark.alone, engine=ENGINES, size=[1, 2]))) == 6
