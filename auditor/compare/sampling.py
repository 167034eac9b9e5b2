"""Choose a few of many: partitions to read and differences to keep, spread evenly over the table and fair between kinds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

from auditor import canonical
from auditor.model import Difference

T = TypeVar("T")
G = TypeVar("G", bound=Hashable)


def spread(items: Sequence[T]) -> list[T]:
    """Return the items in an order of which every beginning is spread evenly over them: by bit-reversed index (van der Corput, 1935)."""
    width = max(1, (len(items) - 1).bit_length())
    return [items[index] for index in sorted(range(len(items)), key=lambda index: int(f"{index:0{width}b}"[::-1], 2))]


def alternate(groups: Iterable[Sequence[T]]) -> list[T]:
    """Return the items of all groups, one of each group in turn, in each group's own order."""
    return [item[0] for turn in zip_longest(*([(one,) for one in group] for group in groups)) for item in turn if item]


def fair_shares(sizes: Mapping[G, int], most: int) -> dict[G, int]:
    """Return how many items each group gets of ``most`` together: as evenly as their sizes allow."""
    shares: dict[G, int] = {}
    for place, group in enumerate(sorted(sizes, key=lambda one: sizes[one])):
        shares[group] = min(sizes[group], (most - sum(shares.values())) // (len(sizes) - place))
    return shares


def examples(items: Sequence[Difference], most: int) -> list[Difference]:
    """Return up to ``most`` differences in their order: fair between kinds and differing columns, and spread evenly over each."""
    if len(items) <= most:
        return list(items)
    places: dict[tuple[str, ...], list[int]] = {}
    for index, one in enumerate(items):
        places.setdefault((one.kind, *(column.name for column in one.columns)), []).append(index)
    shares = fair_shares({group: len(found) for group, found in places.items()}, most)
    chosen = [found[step * len(found) // shares[group]] for group, found in places.items() for step in range(shares[group])]
    return [items[index] for index in sorted(chosen)]


class Sample:
    """Keeps up to ``most`` of the differences that are added, fair between kinds.

    Of a kind with too many it keeps those with the least hashes of their keys: spread over the table, and the same ones in every run.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._added = 0
        self._kept: dict[str, list[tuple[int, Difference]]] = {}

    def add(self, differences: Iterable[Difference]) -> None:
        """Add differences."""
        for one in differences:
            kept = self._kept.setdefault(one.kind, [])
            kept.append((self._added, one))
            self._added += 1
            if len(kept) > 2 * self.most + 1000:
                self._kept[one.kind] = _least_hashes(kept, self.most)

    def chosen(self) -> list[Difference]:
        """Return the kept differences in the order in which they were added."""
        shares = fair_shares({kind: len(kept) for kind, kept in self._kept.items()}, self.most)
        return [
            one for _, one in sorted((pair for kind, kept in self._kept.items() for pair in _least_hashes(kept, shares[kind])), key=_place)
        ]


def _least_hashes(kept: list[tuple[int, Difference]], most: int) -> list[tuple[int, Difference]]:
    return kept if len(kept) <= most else sorted(kept, key=lambda pair: (key_hash(pair[1]), pair[0]))[:most]


def _place(pair: tuple[int, Difference]) -> int:
    return pair[0]


def key_hash(difference: Difference) -> str:
    """Return the hash of a difference's key: an order that is the same in every run, and independent of the key's own."""
    return canonical.row_hash(canonical.row_text(tuple(difference.key.values())))
