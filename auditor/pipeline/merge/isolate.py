"""Find the one event that a target cannot hold, and merge what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AuditorError, StatementRefused, TableShared, ValueRefused
from auditor.model import Part, TableNote
from auditor.pipeline.s3_folder import Folder
from auditor.pipeline.staged_parts import read_part

POISONING = (ValueRefused, StatementRefused, TableShared)
"""Errors of a merge that may be the fault of one event, or one statement of the source."""


def find_poison(
    merge_through: Callable[[int], object], root: Folder, parts: Sequence[Part], after: int, through: int | None
) -> tuple[int, AuditorError] | None:
    """Merge what can be merged of parts that failed together; return the position of the first event that cannot be, and its error.

    ``merge_through`` merges up to a position. None if all of it could be merged after all. Raises other errors than `POISONING`.
    """
    left = _positions(root, parts, after, through)
    while left:
        half = left[: (len(left) + 1) // 2]
        try:
            merge_through(half[-1])
        except POISONING as error:
            if len(half) == 1:
                return half[0], error
            left = half
        else:
            left = left[len(half) :]
    return None


def describe_poison(root: Folder, parts: Sequence[Part], position: int, target: str, reason: str) -> TableNote:
    """Return the note on the events at one position that a target cannot hold."""
    [found] = [part for part in parts if part.first <= position <= part.last][:1]
    at = [batch.filter(pc.equal(batch["position"], position)) for batch in read_part(root, found, position - 1)]
    times = [value for batch in at for value in batch["time"].to_pylist()]
    body = {"stage": "merge", "reason": reason}
    return TableNote(found.table, "poison", position, position, len(times), times[0] if times else found.time, body, target)


def describe_statement(change: TableNote, target: str, reason: str) -> TableNote:
    """Return the note on a statement of the source that cannot be done to a target's table."""
    return replace(change, kind="poison", last=change.position, events=1, body={"stage": "merge", "reason": reason}, target=target)


def _positions(root: Folder, parts: Sequence[Part], after: int, through: int | None) -> list[int]:
    found = [pa.array([], pa.int64())]
    for part in parts:
        found += [pc.unique(batch["position"]) for batch in read_part(root, part, after)]
    listed: list[int] = pc.unique(pa.concat_arrays(found)).sort().to_pylist()
    return [position for position in listed if through is None or position <= through]
