"""Which of a test's parametrizations a quick run takes: few of them, in which each value of each parameter occurs; the others are slow.

Two markers ask for that. `few` is for one test: each value of each of its parameters is in one of the chosen ones, also each engine and
each pair of engines. Parameters that it names stand in each of their combinations: `few("key", "how")`. `engines_in_turn` is for a module
of tests of one thing: each value of each other parameter as above, but each engine once in the module, whether alone or in a pair. A test
there that is marked `few` runs on each engine by itself, which the main one should.

Engines that cost least are taken where the choice is free. A third, `quick_for`, names which ones a quick run takes, by what stands in
brackets behind the test's name: where the others prove the same by the same means.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from typing import Any

import pytest

COSTS = {"spark": 9, "redshift": 3, "mysql": 2, "mariadb": 2, "delta": 1, "parquet": 1, "postgres": 1, "duckdb": 0}
"""About what a test costs on an engine, beside the others."""

ENGINES = ("engine", "pair")
"""Parameters whose values are engines."""


def slow_ones(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those of these tests that `few` and `engines_in_turn` leave to slow runs."""
    tests, modules = dict[str, list[pytest.Item]](), dict[str, list[pytest.Item]]()
    for item in items:
        if mark := _mark(item):
            in_turn = mark.name == "engines_in_turn"
            (modules if in_turn else tests).setdefault(item.nodeid.partition("::" if in_turn else "[")[0], []).append(item)
    left = [item for group in tests.values() for item in _not_needed(group, set())]
    for module, group in modules.items():
        main = [one for name, found in tests.items() if name.startswith(f"{module}::") for one in found if one not in left]
        left += _not_needed(group, {part for item in main for part in _in_module(item)})
    return left


def is_quick_one(item: pytest.Item) -> bool:
    """Whether a quick run takes this parametrization, as far as `quick_for` says."""
    mark = item.get_closest_marker("quick_for")
    return mark is None or any(_names(item, part) for part in mark.args)


def refuse_unknown(items: Sequence[pytest.Item]) -> None:
    """Raise UsageError if a `quick_for` names a part that no parametrization of its test has: the test would never be quick."""
    known = dict[tuple[str, str], bool]()
    for item in items:
        if (mark := item.get_closest_marker("quick_for")) and mark in item.own_markers:
            for part in mark.args:
                key = item.nodeid.partition("[")[0], part
                known[key] = known.get(key, False) or _names(item, part)
    if unknown := [f"{test}: {part}" for (test, part), is_known in known.items() if not is_known]:
        raise pytest.UsageError(f"quick_for names what no parametrization has: {', '.join(unknown)}")


def _names(item: pytest.Item, part: str) -> bool:
    """Whether a part is one of those, or several in a row, of which a parametrization's name is made with hyphens."""
    call = getattr(item, "callspec", None)
    return call is not None and f"-{part}-" in f"-{call.id}-"


def _mark(item: pytest.Item) -> pytest.Mark | None:
    """The marker that counts: a test's own before its module's."""
    return next((mark for mark in item.iter_markers() if mark.name in {"few", "engines_in_turn"}), None)


def _not_needed(items: Sequence[pytest.Item], covered: Set[Hashable]) -> list[pytest.Item]:
    """Choose the test that brings most of what is not covered yet, until all is covered; return the others."""
    brings = {item: _covered(item) for item in items}
    left = sorted(items, key=_cost)
    missing = set().union(*brings.values()) - covered
    while missing:
        best = max(left, key=lambda item: len(brings[item] & missing))
        left.remove(best)
        missing -= brings[best]
    return left


def _covered(item: pytest.Item) -> set[Hashable]:
    """What a test covers: its function, each value of its parameters, and the combination of those that its marker names."""
    function, _, _ = item.nodeid.partition("[")
    values = _values(item)
    mark = _mark(item)
    if mark and mark.name == "engines_in_turn":
        return {function, *((function, name, repr(value)) for name, value in values.items() if name not in ENGINES), *_in_module(item)}
    together = tuple(repr(values[str(name)]) for name in mark.args) if mark else ()
    return {function, (function, together), *((function, name, repr(value)) for name, value in values.items())}


def _in_module(item: pytest.Item) -> set[Hashable]:
    """What a test covers for all tests of its module: engines."""
    return {("engine", name) for name in _engines(item)}


def _cost(item: pytest.Item) -> int:
    return max((COSTS.get(name, 0) for name in _engines(item)), default=0)


def _engines(item: pytest.Item) -> list[str]:
    values = [value for name, value in _values(item).items() if name in ENGINES]
    return [name for value in values for name in ((value,) if isinstance(value, str) else value)]


def _values(item: pytest.Item) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return dict(call.params) if call else {}
