"""What is wrong between two writers of one stream, from the segments of both that do not match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from auditor.model import FindingKind, RegisteredSegment, ValueDifferences
from auditor.summary.bucket_sums import find_unequal

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of a table's stream that two sides do not have alike."""

    kind: FindingKind
    table: str
    side: int
    """The side that misses or doubled it; the first one of an altered part, or one cut otherwise, which say nothing of who is right."""
    start: Place
    end: Place
    segments: tuple[tuple[RegisteredSegment, ...], tuple[RegisteredSegment, ...]]
    """Those of both sides in it."""
    values: ValueDifferences | None = None
    """Whose events differ, if that was read from the files."""

    @property
    def rows(self) -> int:
        """Return the events in it, those of the side that has more."""
        return max(sum(segment.rows for segment in some) for some in self.segments)

    @property
    def unequal_buckets(self) -> tuple[str, tuple[int, ...]] | None:
        """Return by which column segments have digests, and the buckets that are unequal; None if they have none that can be compared.

        Raises SegmentFailed if digests are damaged.
        """
        first, second = ([segment.buckets for segment in some] for some in self.segments)
        return find_unequal(first, second)


def find_differences(
    table: str, first: Iterable[RegisteredSegment], second: Iterable[RegisteredSegment], compared_from: Place
) -> list[Finding]:
    """Return what is wrong between two sides of a table, in the order of the stream.

    ``first`` and ``second`` are their segments that do not match, doubled ones too; what starts before ``compared_from`` was not compared.
    """
    listed = [(number, segment) for number, some in enumerate((first, second)) for segment in some if segment.start >= compared_from]
    findings = [_doubled(table, number, segment) for number, segment in listed if segment.verdict == "doubled"]
    standing = sorted(
        ((number, segment) for number, segment in listed if segment.verdict != "doubled"), key=lambda each: (each[1].start, each[1].end)
    )
    for stretch in _stretches(standing):
        sides = tuple(segment for number, segment in stretch if number == 0), tuple(segment for number, segment in stretch if number == 1)
        if any(segment.verdict != "behind" for _, segment in stretch):
            findings += _classify(table, sides)
    return sorted(findings, key=lambda finding: (finding.start, finding.kind))


def _stretches(standing: Sequence[tuple[int, RegisteredSegment]]) -> list[list[tuple[int, RegisteredSegment]]]:
    """Return segments, sorted by their start, in groups of those that overlap."""
    stretches: list[list[tuple[int, RegisteredSegment]]] = []
    end: Place = (-1, -1)
    for number, segment in standing:
        if not stretches or segment.start > end:
            stretches.append([])
        stretches[-1].append((number, segment))
        end = max(end, segment.end)
    return stretches


def _classify(table: str, sides: tuple[tuple[RegisteredSegment, ...], tuple[RegisteredSegment, ...]]) -> list[Finding]:
    both = [*sides[0], *sides[1]]
    start, end = min(segment.start for segment in both), max(segment.end for segment in both)
    if not sides[0] or not sides[1]:
        return [Finding("missing", table, 0 if sides[1] else 1, start, end, sides)]
    is_same = len(both) == 2 and all((segment.start, segment.end) == (start, end) for segment in both)
    return [Finding("altered" if is_same else "cut otherwise", table, 0, start, end, sides)]


def _doubled(table: str, number: int, segment: RegisteredSegment) -> Finding:
    return Finding("doubled", table, number, segment.start, segment.end, ((segment,), ()) if number == 0 else ((), (segment,)))
