"""What a person should know of how a run went, besides what it found."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.compare.patterns import fraction_hints
from auditor.connections.reader import Reader
from auditor.model import Comparison, Difference, Plan
from auditor.waits import waits


def notes_of(
    reader: Reader,
    plan: Plan | None,
    comparison: Comparison | None,
    named: Sequence[Difference],
    *,
    schema_changes: Sequence[str],
    is_resumed: bool,
    asks_recheck: bool,
    share_read: float,
    prescan: str,
    live: str,
    uncounted: str,
) -> tuple[str, ...]:
    """Return the notes of a run, a sentence each.

    ``share_read`` is the share of partitions that it read, 0 to 1; ``prescan`` says what the pre-scan found, empty if there was none;
    ``live`` why live summaries did not begin with the run's scan, ``uncounted`` why its rows were not counted in another way.
    """
    notes = [*(f"schema: {change}" for change in schema_changes), *([prescan] if prescan else [])]
    if plan and plan.barrier:
        notes.append(plan.barrier)
    if is_resumed:
        notes.append("the run was resumed: chunks that were read before were not read again")
    for place, connection in reader.sides.items():
        side = reader.name(place)
        notes += [f"{side}: {note}" for note in connection.server_notes]
        if connection.retries:
            notes.append(f"{side}: {_times(connection.retries, 'a transient error was', 'transient errors were')} retried")
        if connection.snapshots_lost and plan and plan.snapshot == "whole":
            lost = _times(connection.snapshots_lost, "snapshot was", "snapshots were")
            notes.append(f"{side}: {lost} lost, so what was read later shows the table as it was later")
        if connection.snapshots_given_up:
            given_up = _times(connection.snapshots_given_up, "a snapshot was", "snapshots were")
            pause = f"a pause of more than {waits().snapshot_in_pause / 60:g} minutes"
            notes.append(f"{side}: {given_up} given up in {pause}, so what was read later shows the table as it was later")
        if connection.snapshots_not_held:
            ended = _times(connection.snapshots_not_held, "a connection was", "connections were")
            notes.append(
                f"{side}: {ended} lost after the last row was read, so the session could not be asked at the end whether it was the one"
                " that the run began with"
            )
    for place, why in sorted(reader.alone.items()):
        notes.append(f"{reader.name(place)}: one connection read all chunks, for no other could join its snapshot: {why}")
    for place in sorted(reader.unshared):
        notes.append(
            f"{reader.name(place)}: this engine or user cannot share a snapshot, so further connections read each chunk in one of its own"
        )
    if asks_recheck and plan and plan.method != "exact" and comparison and comparison.unequal:
        notes.append(f"nothing was rechecked: the method {plan.method} names no rows")
    notes += fraction_hints(plan, named) if plan else []
    notes += [note for note in (live, uncounted) if note]
    if share_read < 1:
        notes.append(f"{share_read:.2%} of the table's partitions were read in this run")
    return tuple(notes)


def _times(count: int, singular: str, plural: str) -> str:
    return singular if count == 1 else f"{count:,} {plural}"
