"""What is wrong between two writers of one stream, from the segments of both that do not match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from auditor.model import FindingKind, RegisteredSegment

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A stretch of a table's stream that two sides do not have alike."""

    kind: FindingKind
    table: str
    side: int
    """The side that lacks or doubled it; the first one of an altered stretch, or one cut otherwise, which say nothing of who is right."""
    start: Place
    end: Place
    segments: tuple[tuple[RegisteredSegment, ...], tuple[RegisteredSegment, ...]]
    """Those of both sides in it."""

    @property
    def rows(self) -> int:
        """Return the events in it, those of the side that has more."""
        return max(sum(one.rows for one in some) for some in self.segments)


def find_differences(
    table: str, first: Iterable[RegisteredSegment], second: Iterable[RegisteredSegment], compared_from: Place
) -> list[Finding]:
    """Return what is wrong between two sides of a table, in the order of the stream.

    ``first`` and ``second`` are their segments that do not match, doubled ones too; what starts before ``compared_from`` was not compared.
    """
    listed = [(number, one) for number, some in enumerate((first, second)) for one in some if one.start >= compared_from]
    found = [_doubled(table, number, one) for number, one in listed if one.verdict == "doubled"]
    standing = sorted(((number, one) for number, one in listed if one.verdict != "doubled"), key=lambda each: (each[1].start, each[1].end))
    for stretch in _stretches(standing):
        sides = tuple(one for number, one in stretch if number == 0), tuple(one for number, one in stretch if number == 1)
        if any(one.verdict != "behind" for _, one in stretch):
            found += _classify(table, sides)
    return sorted(found, key=lambda one: (one.start, one.kind))


def _stretches(standing: Sequence[tuple[int, RegisteredSegment]]) -> list[list[tuple[int, RegisteredSegment]]]:
    """Return segments, sorted by their start, in groups of those that overlap."""
    found: list[list[tuple[int, RegisteredSegment]]] = []
    end: Place = (-1, -1)
    for number, one in standing:
        if not found or one.start > end:
            found.append([])
        found[-1].append((number, one))
        end = max(end, one.end)
    return found


def _classify(table: str, sides: tuple[tuple[RegisteredSegment, ...], tuple[RegisteredSegment, ...]]) -> list[Finding]:
    both = [*sides[0], *sides[1]]
    start, end = min(one.start for one in both), max(one.end for one in both)
    if not sides[0] or not sides[1]:
        return [Finding("missing", table, 0 if sides[1] else 1, start, end, sides)]
    is_same = len(both) == 2 and all((one.start, one.end) == (start, end) for one in both)
    return [Finding("altered" if is_same else "cut otherwise", table, 0, start, end, sides)]


def _doubled(table: str, number: int, one: RegisteredSegment) -> Finding:
    return Finding("doubled", table, number, one.start, one.end, ((one,), ()) if number == 0 else ((), (one,)))
