"""Check what both sides of a segment audit have: files against manifest and register, and stretches that differ down to the column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.compare.segment_findings import Finding, find_differences
from auditor.config import Settings
from auditor.errors import SegmentFailed
from auditor.model import RegisteredSegment, Segment, SegmentVerdict
from auditor.pipeline.events import table_of_stream
from auditor.pipeline.segments.partitions import NAMED, spread
from auditor.pipeline.segments.sides import Side, column_names, find_file, is_masked, list_files, read_events
from auditor.pipeline.segments.verifying import EventDifference, check_segment, find_first_difference
from auditor.store import Store, segment_register
from auditor.store.segment_register import FIRST, TableState

Place = tuple[int, int]

IMAGES = ("before", "after")

MOST_FINDINGS = 1000
"""Segments of a side and table that do not match and are looked at, from the first one on."""

WRONG: tuple[SegmentVerdict, ...] = ("start mismatch", "end mismatch", "content mismatch", "behind", "doubled")


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What is wrong with a side's segment or its file."""

    side: str
    table: str
    start: Place
    end: Place
    first: int
    """Position of its first event."""
    last: int
    sentence: str


def list_findings(store: Store, audit: str, state: TableState, with_buckets: bool = False) -> list[Finding]:
    """Return what is wrong between the two sides of a table, as the register has it. Raises StoreError.

    The segments in it have their digests by bucket only if that is asked for.
    """
    if state.compared_from is None:
        return []
    after = (state.compared_from[0], state.compared_from[1] - 1)
    first, second = [
        segment_register.list_entries(
            store, audit, state.table, side, after=after, verdicts=WRONG, limit=MOST_FINDINGS, with_buckets=with_buckets
        )
        for side in segment_register.list_sides(store, audit)
    ]
    return find_differences(state.table, first, second, state.compared_from)


def list_incomparable(store: Store, audit: str, state: TableState) -> list[Finding]:
    """Return the segments whose digests are of other versions of the events' text, as if altered. Raises StoreError."""
    if not any(side.not_comparable for side in state.sides):
        return []
    first, second = [
        {one.start: one for one in segment_register.list_entries(store, audit, state.table, side, verdicts=("not comparable",))}
        for side in segment_register.list_sides(store, audit)
    ]
    pairs = [(first[start], second[start]) for start in sorted(first.keys() & second.keys())]
    return [Finding("altered", state.table, 0, one.start, one.end, ((one,), (other,))) for one, other in pairs]


def check_files(store: Store, audit: str, side: Side, table: str) -> Iterator[FileProblem]:
    """Read a side's files of a table anew, and yield what is wrong with each, and where the manifest is not what was registered.

    Files of a log that is read anew are kept of segments that do not match alone. Raises StoreError.
    """
    entries = _registered(store, audit, side, table)
    for one in list_files(store, side, table):
        entry = entries.pop((one.first, one.first_row, one.last, one.last_row), None)
        if side.is_anew and (entry is None or entry.verdict == "match"):
            continue
        if entry and (entry.rows, entry.schema_id, entry.sha256, entry.encoding) != (one.rows, one.schema_id, one.sha256, one.encoding):
            sentence = (
                f"the manifest lists {one.rows:,} events with the digest {one.sha256[:12]}, and {entry.rows:,} with {entry.sha256[:12]}"
            )
            yield _problem(side, one, entry, f"{sentence} were registered")
        elif sentence := check_segment(side.folder, one):
            yield _problem(side, one, entry, sentence)
    for entry in entries.values():
        if not entry.overlap:
            places = (entry.start, entry.end, entry.first, entry.last)
            yield FileProblem(side.name, table, *places, "it was registered, and the manifest does not list it any more")


def _registered(store: Store, audit: str, side: Side, table: str) -> dict[tuple[int, int, int, int], RegisteredSegment]:
    found: dict[tuple[int, int, int, int], RegisteredSegment] = {}
    after = FIRST
    while page := segment_register.list_entries(store, audit, table, side.name, after=after):
        found |= {(one.first, one.start[1], one.last, one.end[1]): one for one in page}
        after = page[-1].start
    return found


def _problem(side: Side, one: Segment, entry: RegisteredSegment | None, sentence: str) -> FileProblem:
    start, end = (entry.start, entry.end) if entry else ((one.first, one.first_row), (one.last, one.last_row))
    return FileProblem(side.name, one.table, start, end, one.first, one.last, sentence)


def first_difference(settings: Settings, store: Store, sides: tuple[Side, Side], finding: Finding) -> EventDifference | None:
    """Return the first event that differs in a stretch that both sides have, down to the column; None if there is none.

    Raises SegmentFailed if a file cannot be read, and StoreError.
    """
    found = [_events(store, side, some) for side, some in zip(sides, finding.segments, strict=True)]
    ids = {one.schema_id for some in finding.segments for one in some}
    names = next((names for side in sides for one in sorted(ids) if (names := column_names(store, side, one))), [])
    if ids == {NAMED}:
        names = sorted({name for some in found for event in some for row in _images(event) for name in row[::2]})
        found = [[{**event, **{image: spread(event[image], names) for image in IMAGES}} for event in some] for some in found]
    table = table_of_stream(finding.table)
    renamed = {new: old for old, new in sides[0].pipeline.columns_of(table.partition(".")[2]).rename.items()}
    masked = {name for name in names if is_masked(settings, sides[0].pipeline, table, renamed.get(name, name))}
    return find_first_difference((sides[0].name, sides[1].name), (found[0], found[1]), names, masked)


def _images(event: Mapping[str, Any]) -> list[list[str]]:
    return [event[image] for image in IMAGES if event[image] is not None]


def _events(store: Store, side: Side, entries: Sequence[RegisteredSegment]) -> list[dict[str, Any]]:
    files = []
    for one in entries:
        file = find_file(store, side, one)
        if file is None:
            raise SegmentFailed(f"the manifest of {side.name} no longer lists the segment of {one.table} that ends at {one.last}")
        files.append(file)
    return read_events(side, files)
