"""The order in which the changes of a batch are written, so that no unique value is taken before its holder gave it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from auditor.repair.rows import RowChange, meant_texts

Action = Literal["insert", "update", "delete"]

ACTIONS: dict[str, Action] = {"missing": "insert", "changed": "update", "extra": "delete"}
"""What is done with a row of each kind of change."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a batch. A row of a cycle of unique values is deleted by one step and inserted again by a later one."""

    action: Action
    change: RowChange


def order_steps(changes: Sequence[RowChange], names: Sequence[str], unique: Sequence[Sequence[int]]) -> list[Step]:
    """Return the steps of a batch in an order in which no unique value is held twice.

    ``unique`` are the places, in a row, of the columns of each unique index. Deletes come first where nothing else decides.
    """
    split: set[int] = set()
    while True:
        sorter = _sorter(changes, names, unique, split)
        try:
            order = list(sorter.static_order())
        except CycleError as error:
            # Its nodes are (change, part); one of the cycle's changed rows is deleted first and inserted last.
            split.add(next(number for number, _ in error.args[1] if changes[number].kind == "changed" and number not in split))
            continue
        steps = [_step(changes[number], part, number in split) for number, part in order]
        return sorted(steps, key=lambda step: step.action != "delete")


def _sorter(
    changes: Sequence[RowChange], names: Sequence[str], unique: Sequence[Sequence[int]], split: set[int]
) -> TopologicalSorter[tuple[int, int]]:
    """Return the graph of the changes: each after those that give up a value that it takes. A split change has two parts, 0 and 1."""
    holders = {value: number for number, change in enumerate(changes) for value in _given_up(change, names, unique)}
    graph: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for number, change in enumerate(changes):
        last = 1 if number in split else 0
        graph[number, 0] = set()
        graph.setdefault((number, last), set())
        if last:
            graph[number, last].add((number, 0))
        for value in _taken(change, names, unique):
            holder = holders.get(value)
            if holder is not None and holder != number:
                graph[number, last].add((holder, 0))
    return TopologicalSorter(graph)


def _step(change: RowChange, part: int, is_split: bool) -> Step:
    if not is_split:
        return Step(ACTIONS[change.kind], change)
    return Step("insert" if part else "delete", change)


Value = tuple[int, tuple[str | None, ...]]
"""A unique index by its number, and the texts of its columns."""


def _given_up(change: RowChange, names: Sequence[str], unique: Sequence[Sequence[int]]) -> Iterator[Value]:
    if change.old is None:
        return
    after = set(_taken(change, names, unique)) if change.new else set()
    yield from (value for value in _values(change.old.texts, unique) if value not in after)


def _taken(change: RowChange, names: Sequence[str], unique: Sequence[Sequence[int]]) -> Iterator[Value]:
    if change.new:
        yield from _values(meant_texts(names, change), unique)


def _values(texts: Sequence[str | None], unique: Sequence[Sequence[int]]) -> Iterator[Value]:
    for number, places in enumerate(unique):
        found = tuple(texts[place] for place in places)
        if None not in found:  # NULLs equal nothing
            yield number, found
