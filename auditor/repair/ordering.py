"""The order in which the changes of a batch are written, so that no unique value is taken before its holder gave it up."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from auditor.errors import PatchRefused
from auditor.repair.rows import RowChange, meant_texts

Action = Literal["insert", "update", "delete"]

ACTIONS: dict[str, Action] = {"missing": "insert", "changed": "update", "extra": "delete"}
"""What is done with a row of each kind of change."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a batch. A row of a cycle of unique values is deleted by one step and inserted again by a later one."""

    action: Action
    change: RowChange


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index of a target's table, by the places of its columns in a row."""

    places: Sequence[int]
    nulls_equal: bool = False
    """Whether it takes one NULL only, as NULLS NOT DISTINCT does."""
    is_of_expressions: bool = False
    """Whether it is of expressions on these columns, as LOWER(name): texts that differ in case or in blanks around count as one then."""


@dataclass(frozen=True, slots=True)
class SelfReference:
    """A foreign key of a table to itself: the places in a row of the columns that refer, and of those that they refer to."""

    refers: Sequence[int]
    referred: Sequence[int]


def order_steps(
    changes: Sequence[RowChange],
    names: Sequence[str],
    unique: Sequence[Sequence[int] | UniqueIndex],
    references: Sequence[SelfReference] = (),
) -> list[Step]:
    """Return the steps of a batch in an order in which no unique value is held twice, and no row refers to one that is not there.

    ``unique`` are the unique indexes, or only the places of their columns. Deletes come first where nothing else decides. Raises
    PatchRefused where rows refer to one another in a circle.
    """
    indexes = [index if isinstance(index, UniqueIndex) else UniqueIndex(index) for index in unique]
    split: set[int] = set()
    while True:
        sorter = _sorter(changes, names, indexes, references, split)
        try:
            sorter.prepare()
        except CycleError as error:
            # Its nodes are (change, part); one of the cycle's changed rows is deleted first and inserted last.
            splittable = next((number for number, _ in error.args[1] if changes[number].kind == "changed" and number not in split), None)
            if splittable is None or references:
                raise PatchRefused(
                    "rows refer to one another in a circle, or exchange unique values, so that no order of them is accepted; repair these"
                    " by hand"
                ) from error
            split.add(splittable)
            continue
        return list(_in_order(sorter, changes, split))


def _in_order(sorter: TopologicalSorter[tuple[int, int]], changes: Sequence[RowChange], split: set[int]) -> Iterator[Step]:
    """Yield the steps, each as soon as those before it are done; deletes first."""
    unblocked: list[tuple[bool, int, int]] = []
    while sorter.is_active():
        for number, part in sorter.get_ready():
            heapq.heappush(unblocked, (_step(changes[number], part, number in split).action != "delete", number, part))
        _, number, part = heapq.heappop(unblocked)
        yield _step(changes[number], part, number in split)
        sorter.done((number, part))


def _sorter(
    changes: Sequence[RowChange],
    names: Sequence[str],
    unique: Sequence[UniqueIndex],
    references: Sequence[SelfReference],
    split: set[int],
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
    for reference in references:
        for before, after in _referring(changes, names, reference):
            graph[after, 1 if after in split else 0].add((before, 1 if before in split else 0))
    return TopologicalSorter(graph)


def _referring(changes: Sequence[RowChange], names: Sequence[str], reference: SelfReference) -> Iterator[tuple[int, int]]:
    """Yield pairs of changes, the first of which has to be done first: a row comes before those that refer to it, and goes after them."""
    old = [change.old.texts if change.old else None for change in changes]
    new = [meant_texts(names, change) if change.new else None for change in changes]
    come = {
        _at(row, reference.referred): number
        for number, row in enumerate(new)
        if row and _at(row, reference.referred) != _at(old[number], reference.referred)
    }
    go = {
        _at(row, reference.referred): number
        for number, row in enumerate(old)
        if row and _at(row, reference.referred) != _at(new[number], reference.referred)
    }
    for number in range(len(changes)):
        before, after = _at(old[number], reference.refers), _at(new[number], reference.refers)
        if after and None not in after and (parent := come.get(after)) is not None and parent != number:
            yield parent, number
        if before and before != after and None not in before and (parent := go.get(before)) is not None and parent != number:
            yield number, parent


def _at(row: Sequence[str | None] | None, places: Sequence[int]) -> tuple[str | None, ...] | None:
    return tuple(row[place] for place in places) if row else None


def _step(change: RowChange, part: int, is_split: bool) -> Step:
    if not is_split:
        return Step(ACTIONS[change.kind], change)
    return Step("insert" if part else "delete", change)


Value = tuple[int, tuple[str | None, ...]]
"""A unique index by its number, and the texts of its columns."""


def _given_up(change: RowChange, names: Sequence[str], unique: Sequence[UniqueIndex]) -> Iterator[Value]:
    if change.old is None:
        return
    after = set(_taken(change, names, unique)) if change.new else set()
    yield from (value for value in _values(change.old.texts, unique) if value not in after)


def _taken(change: RowChange, names: Sequence[str], unique: Sequence[UniqueIndex]) -> Iterator[Value]:
    if change.new:
        yield from _values(meant_texts(names, change), unique)


def _values(texts: Sequence[str | None], unique: Sequence[UniqueIndex]) -> Iterator[Value]:
    for number, index in enumerate(unique):
        values = tuple(texts[place] for place in index.places)
        if index.is_of_expressions:
            values = tuple(text if text is None else text.strip().casefold() for text in values)
        if index.nulls_equal or None not in values:  # else NULLs equal nothing
            yield number, values
