"""Choose a few of many: partitions to read and differences to keep, spread evenly over the table and fair between kinds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import TypeVar

from auditor import canonical
from auditor.model import Difference, Plan
from auditor.summary.measures import numeric_value

T = TypeVar("T")
G = TypeVar("G", bound=Hashable)

ZERO = Fraction(0)
"""The number of a text in the order of keys, in which texts decide among themselves."""


def spread(items: Sequence[T]) -> list[T]:
    """Return the items in an order of which every beginning is spread evenly over them: by bit-reversed index (van der Corput, 1935)."""
    width = max(1, (len(items) - 1).bit_length())
    return [items[index] for index in sorted(range(len(items)), key=lambda index: int(f"{index:0{width}b}"[::-1], 2))]


def alternate(groups: Iterable[Sequence[T]]) -> list[T]:
    """Return the items of all groups, one of each group in turn, in each group's own order."""
    return [item[0] for turn in zip_longest(*([(item,) for item in group] for group in groups)) for item in turn if item]


def fair_shares(sizes: Mapping[G, int], most: int) -> dict[G, int]:
    """Return how many items each group gets of ``most`` together: as evenly as their sizes allow."""
    shares: dict[G, int] = {}
    for place, group in enumerate(sorted(sizes, key=lambda key: sizes[key])):
        shares[group] = min(sizes[group], (most - sum(shares.values())) // (len(sizes) - place))
    return shares


def first_and_spread(items: Sequence[T], most: int) -> list[T]:
    """Return up to ``most`` items in their order: half of them the first ones, half spread evenly over the rest."""
    if len(items) <= most:
        return list(items)
    first, rest = items[: (most + 1) // 2], items[(most + 1) // 2 :]
    wanted = most - len(first)
    return [*first, *(rest[step * len(rest) // wanted] for step in range(wanted))]


def examples(items: Sequence[Difference], most: int) -> list[Difference]:
    """Return up to ``most`` differences in their order, fair between kinds and differing columns: the first, and evenly of the rest."""
    if len(items) <= most:
        return list(items)
    places: dict[tuple[str, ...], list[int]] = {}
    for index, difference in enumerate(items):
        places.setdefault((difference.kind, *(column.name for column in difference.columns)), []).append(index)
    shares = fair_shares({group: len(indexes) for group, indexes in places.items()}, most)
    return [
        items[index] for index in sorted(place for group, indexes in places.items() for place in first_and_spread(indexes, shares[group]))
    ]


class Sample:
    """Keeps up to ``most`` of the differences that are added, fair between kinds.

    Of a kind with too many it keeps the first ones by their keys for one half, and of the rest those with the least hashes of their keys:
    spread over the table, and the same ones in every run.
    """

    def __init__(self, most: int, plan: Plan) -> None:
        self.most = most
        self._numeric = [column.kind.name in ("integer", "decimal") for column in plan.key_columns]
        self._kept: dict[str, list[Difference]] = {}

    def add(self, differences: Iterable[Difference]) -> None:
        """Add differences."""
        for difference in differences:
            kept = self._kept.setdefault(difference.kind, [])
            kept.append(difference)
            if len(kept) > 2 * self.most + 1000:
                self._kept[difference.kind] = self._choose(kept, self.most, self.most)

    def chosen(self) -> list[Difference]:
        """Return the kept differences in the order of their keys: numbers by their value, NULL last."""
        shares = fair_shares({kind: len(kept) for kind, kept in self._kept.items()}, self.most)
        chosen = [
            difference for kind, kept in self._kept.items() for difference in self._choose(kept, (shares[kind] + 1) // 2, shares[kind] // 2)
        ]
        return sorted(chosen, key=self._place)

    def _choose(self, kept: list[Difference], first: int, others: int) -> list[Difference]:
        """Return the first of these by their keys, and as many ``others`` as are wanted with the least hashes."""
        if len(kept) <= first + others:
            return kept
        ordered = sorted(kept, key=self._place)
        return [*ordered[:first], *sorted(ordered[first:], key=key_hash)[:others]]

    def _place(self, difference: Difference) -> list[tuple[bool, Fraction, str]]:
        """Return where a difference stands in the order of keys; a text column may hold what is no number of its kind."""
        values = zip(difference.key.values(), self._numeric, strict=True)
        return [(text is None, (numeric_value(text) if is_number else None) or ZERO, text or "") for text, is_number in values]


def key_hash(difference: Difference) -> str:
    """Return the hash of a difference's key: an order that is the same in every run, and independent of the key's own."""
    return canonical.row_hash(canonical.row_text(tuple(difference.key.values())))
