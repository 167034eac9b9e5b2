"""Read segments anew: check them against what the manifest and the register say, and find the first event that differs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from auditor.errors import SegmentFailed
from auditor.masking import as_shown
from auditor.model import Segment
from auditor.pipeline.events import place_text, table_of_stream
from auditor.pipeline.segments.event_text import TEXTS, text_bytes
from auditor.pipeline.segments.folders import SegmentFolder
from auditor.pipeline.segments.partitions import NAMED

LENGTH = 60
"""Characters of a value that are shown."""


def digest_of(events: pa.Table, version: int) -> str:
    """Return the SHA-256 of events, as a segment has it whose text has this version."""
    found = hashlib.sha256()
    for batch in events.to_batches():
        found.update(text_bytes(TEXTS[version](batch)))
    return found.hexdigest()


def check_segment(folder: SegmentFolder, segment: Segment) -> str:
    """Return what is wrong with a segment where it is kept; '' if that holds what was hashed, at the places that the manifest says."""
    digests = {**segment.older, segment.encoding: segment.sha256}
    known = [version for version in sorted(digests, reverse=True) if version in TEXTS]
    if not known:
        said, made = (", ".join(map(str, sorted(versions))) for versions in (digests, TEXTS))
        return f"its digest is of version {said} of the events' text, and this release makes {made}; it cannot be verified"
    try:
        events = folder.read(segment)
    except SegmentFailed as error:
        return str(error)
    if any(digest_of(events, version) != digests[version] for version in known):
        return f"{folder.place_of(segment)} does not hold the events that were hashed: it has {events.num_rows:,} of {segment.rows:,}"
    return _check_places(folder, segment, events)


def _check_places(folder: SegmentFolder, segment: Segment, events: pa.Table) -> str:
    """Return what is wrong with that of a file's events that is not hashed, because it differs between servers."""
    listed = events.select(["database", "table", "schema_id", "position", "row", "time"]).to_pydict()
    names = {f"{database}.{table}" for database, table in zip(listed["database"], listed["table"], strict=True)}
    places = list(zip(listed["position"], listed["row"], strict=True))
    wrong = [
        *(["tables"] if names != {table_of_stream(segment.table)} else []),
        *(["schema ids"] if set(listed["schema_id"]) != {segment.schema_id} else []),
        *(["positions"] if places != sorted(places) or (places[0], places[-1]) != _bounds(segment) else []),
        *(["times"] if (listed["time"][0], listed["time"][-1]) != (segment.began, segment.ended) else []),
    ]
    return f"{folder.place_of(segment)} has other {' and '.join(wrong)} than the manifest says" if wrong else ""


def _bounds(segment: Segment) -> tuple[tuple[int, int], tuple[int, int]]:
    return (segment.first, segment.first_row), (segment.last, segment.last_row)


@dataclass(frozen=True, slots=True)
class EventDifference:
    """The first event in which two sides differ."""

    number: int
    """Its number in the segments' stretch, from 1."""
    place: str
    """File and position of the log, row within the transaction, and global id."""
    sentences: tuple[str, ...]
    """What differs, for each side in its order."""


def find_first_difference(
    names: tuple[str, str],
    sides: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
    columns: Sequence[str],
    masked: Collection[str] = (),
) -> EventDifference | None:
    """Return the first event that differs between two sides' events of one table, down to the column; None if there is none.

    ``columns`` are the names of the values, of which those of ``masked`` columns are not shown; an event is a row of `events.ARROW_SCHEMA`.
    """
    known = [{_identity(event) for event in some} for some in sides]
    for number, (one, other) in enumerate(zip_longest(*sides), 1):
        if one is not None and (other is None or _identity(one) not in known[1]):
            return EventDifference(number, _place(one), (f"{names[1]} lacks this {one['kind']}, which {names[0]} has",))
        if one is None or _identity(other) not in known[0]:
            return EventDifference(number, _place(other), (f"{names[0]} lacks this {other['kind']}, which {names[1]} has",))
        if sentences := _compare(names, one, other, columns, masked):
            return EventDifference(number, _place(one), tuple(sentences))
    return None


def _identity(event: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what an event has in common on all servers; without global ids, on one."""
    return event["gtid"] or event["position"], event["row"]


def _compare(
    names: tuple[str, str], one: Mapping[str, Any], other: Mapping[str, Any], columns: Sequence[str], masked: Collection[str]
) -> list[str]:
    sentences = []
    for field, said in (("gtid", "transaction"), ("row", "row of the transaction"), ("kind", "kind"), ("schema_id", "schema")):
        if one[field] != other[field]:
            sentences.append(f"{said}: {_text(one[field])} in {names[0]}, {_text(other[field])} in {names[1]}")
    if sentences:  # other events: to compare their columns would say nothing
        return sentences
    for image in ("before", "after"):
        values = zip_longest(one[image] or [], other[image] or [], fillvalue=None)
        if (one[image] is None) != (other[image] is None):
            sentences.append(f"the row {image}: only {names[0 if other[image] is None else 1]} has it")
            continue
        for index, (mine, its) in enumerate(values):
            if mine != its:
                column = columns[index] if index < len(columns) else f"number {index + 1}"
                shown = [as_shown(_text(value), column in masked) for value in (mine, its)]
                sentences.append(f"column {column}, {image}: {shown[0]} in {names[0]}, {shown[1]} in {names[1]}")
    return sentences


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"


def _place(event: Mapping[str, Any]) -> str:
    if event["schema_id"] == NAMED:
        return f"offset {event['position']}"
    gtid = f", {event['gtid']}" if event["gtid"] else ""
    return f"{place_text(event['position'])} row {event['row']}{gtid}"
