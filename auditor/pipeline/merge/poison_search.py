"""Find the one event that a target cannot hold, and merge the transactions before its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AuditorError, EngineError, StatementRefused, TableShared, ValueRefused, ValuesChanged
from auditor.model import Part, TableNote
from auditor.pipeline.events import TableSchema, describe_key
from auditor.pipeline.folders import Folder
from auditor.pipeline.staged_parts import read_part

WAYS_ON = (
    ("value too long", "; widen the target's column, exclude it (columns: exclude), or shorten the value in the source and skip this"),
    (
        "null value in column",
        "; let the target's column be NULL (ALTER COLUMN ... DROP NOT NULL), or skip this",
    ),
    ("no partition of relation", "; add a partition for it to the target's table, or a DEFAULT one"),
    ("violates check constraint", "; change the target's constraint, or skip this"),
    ("violates unique constraint", "; drop the target's constraint, or delete the row there that has these values"),
    ("violates foreign key constraint", "; drop the target's constraint, or bring the row that it wants there"),
    ("out of range", "; widen the target's column, exclude it (columns: exclude), or correct the value in the source and skip this"),
    ("invalid input syntax", "; change the target's column to a type that holds the source's, or exclude it (columns: exclude)"),
)
"""What an engine says, and what can be done."""

POISONING = (ValueRefused, StatementRefused, TableShared, ValuesChanged)
"""Errors of a merge that may be the fault of one event, or one statement of the source."""


@dataclass(frozen=True, slots=True)
class Poison:
    """An event that a target cannot hold."""

    position: int
    row: int
    """Its number in the transaction at the position; -1 if that cannot be held as a whole."""
    rows: int
    """How many events of the table that transaction has."""
    error: AuditorError


def find_poison(
    merge: Callable[[int, int | None], object],
    root: Folder,
    parts: Sequence[Part],
    after: int,
    through: int | None,
    skipped: Collection[tuple[int, int]],
) -> Poison | None:
    """Merge the transactions that can be merged of parts that failed together; return the first event that cannot be.

    ``merge`` merges up to a position; with a number of rows, it tries that with the rows of that position's transaction that have lower
    numbers, and undoes it. None if all of it could be merged after all. Raises other errors than `POISONING`.
    """
    left = _positions(root, parts, after, through)
    while left:
        half = left[: (len(left) + 1) // 2]
        try:
            merge(half[-1], None)
        except POISONING as error:
            if len(half) == 1:
                return _find_row(merge, root, parts, half[0], skipped, error)
            left = half
        else:
            left = left[len(half) :]
    return None


def _find_row(
    merge: Callable[[int, int | None], object],
    root: Folder,
    parts: Sequence[Part],
    position: int,
    skipped: Collection[tuple[int, int]],
    error: AuditorError,
) -> Poison | None:
    """Return the event of a transaction with which it begins to fail, and why; None if it fails no more.

    It may have been skipped during the search, or the target altered: what was tried before that says nothing of the event that is left.
    """
    every = [row for batch in _at(root, parts, position) for row in batch["row"].to_pylist()]
    rows = [row for row in every if (position, row) not in skipped]
    if isinstance(error, TableShared):  # a chunk of a refresh, which is one transaction
        return Poison(position, -1, len(every), error)
    first, last = 0, len(rows) - 1  # rows before the first one can be merged, and those up to the last one cannot
    while first < last:
        middle = (first + last) // 2
        try:
            merge(position, rows[middle] + 1)
        except POISONING:
            last = middle
        else:
            first = middle + 1
    tried = rows[first] + 1 if first < len(rows) - 1 else None  # all of them for good: a constraint may fail at the COMMIT alone
    try:
        merge(position, tried)
    except POISONING as found:
        return Poison(position, rows[first] if rows else -1, len(every), found)
    return None


def describe_poison(root: Folder, parts: Sequence[Part], found: Poison, target: str, reason: str, schema: TableSchema) -> TableNote:
    """Return the note on an event that a target cannot hold, with the key of its row (as it was staged: masked if it is) and the way on."""
    [batch, *_] = _at(root, parts, found.position)
    about = _key_of(root, parts, found, schema)
    way_on = next((mend for words, mend in WAYS_ON if words in reason), "") if isinstance(found.error, EngineError) else ""
    body = {"stage": "merge", "reason": f"{reason}{f'; the row with {about}' if about else ''}{way_on}", "of": found.rows}
    table = f"{batch['database'][0]}.{batch['table'][0]}"
    place = (found.position, found.position, 1 if found.row >= 0 else found.rows)
    return TableNote(table, "poison", *place, batch["time"][0].as_py(), body, target, row=found.row)


def _key_of(root: Folder, parts: Sequence[Part], found: Poison, schema: TableSchema) -> str:
    """Return the key of the row of an event, as conditions; '' where all of a transaction is meant."""
    for part in parts if found.row >= 0 else ():
        if not part.first <= found.position <= part.last or part.schema_id != schema.id:
            continue
        for batch in read_part(root, part, found.position - 1):
            at = batch.filter(pc.and_(pc.equal(batch["position"], found.position), pc.equal(batch["row"], found.row)))
            for event in at.to_pylist():
                values = dict(zip((column.name for column in schema.columns), event["after"] or event["before"] or (), strict=False))
                return describe_key({name: values.get(name) for name in schema.key})
    return ""


def describe_statement(change: TableNote, target: str, reason: str) -> TableNote:
    """Return the note on a statement of the source that cannot be done to a target's table."""
    return replace(change, kind="poison", last=change.position, events=1, body={"stage": "merge", "reason": reason}, target=target)


def _at(root: Folder, parts: Sequence[Part], position: int) -> list[pa.RecordBatch]:
    """Return the events at a position."""
    read = (batch for part in parts if part.first <= position <= part.last for batch in read_part(root, part, position - 1))
    found = [batch.filter(pc.equal(batch["position"], position)).select(["database", "table", "row", "time"]) for batch in read]
    return [batch for batch in found if batch.num_rows]


def _positions(root: Folder, parts: Sequence[Part], after: int, through: int | None) -> list[int]:
    found = [pa.array([], pa.int64())]
    for part in parts:
        found += [pc.unique(batch["position"]) for batch in read_part(root, part, after)]
    listed: list[int] = pc.unique(pa.concat_arrays(found)).sort().to_pylist()
    return [position for position in listed if through is None or position <= through]
