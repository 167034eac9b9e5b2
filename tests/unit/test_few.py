"""What a quick run takes of many combinations: each value of each parameter is in one of them, and each engine in one of a module's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.few import is_quick_one, refuse_unknown, slow_ones

ENGINES = ["mysql", "spark", "duckdb"]


@dataclass(eq=False)
class Made:
    """A test as pytest makes it, so far as is asked for."""

    nodeid: str
    callspec: SimpleNamespace
    mark: pytest.MarkDecorator

    def iter_markers(self) -> Iterator[pytest.Mark]:
        """The markers of a test."""
        return iter(self.own_markers)

    @property
    def own_markers(self) -> list[pytest.Mark]:
        """Those of the test itself."""
        return [self.mark.mark]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """The marker of this name."""
        return next((mark for mark in self.own_markers if mark.name == name), None)


def made(function: str, mark: pytest.MarkDecorator, **values: list[Any]) -> list[Any]:
    """The tests that are made of a function for all combinations of these values."""
    cases = [dict(zip(values, case, strict=True)) for case in product(*values.values())]
    names = ["-".join(map(str, case.values())) for case in cases]
    return [Made(f"m.py::{function}[{name}]", SimpleNamespace(params=case, id=name), mark) for name, case in zip(names, cases, strict=True)]


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


def test_those_that_are_named_are_quick_and_a_name_that_none_has_is_an_error() -> None:
    def chosen_for(*parts: str) -> list[dict[str, Any]]:
        items = made("f", pytest.mark.quick_for(*parts), engine=ENGINES, size=[1, 12])
        refuse_unknown(items)
        return [item.callspec.params for item in items if is_quick_one(item)]

    assert chosen_for("spark", "mysql-1") == [{"engine": "mysql", "size": 1}, *({"engine": "spark", "size": size} for size in (1, 12))]
    with pytest.raises(pytest.UsageError, match=r"m\.py::f: 2$"):
        chosen_for("duckdb", "2")
