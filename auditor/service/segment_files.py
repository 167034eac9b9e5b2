"""What people ask of the files of segment audits: verify them, mend one side from the other, and forget a register."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.compare.segment_findings import Finding
from auditor.config import ANEW, Settings
from auditor.errors import ConfigError, SegmentFailed
from auditor.pipeline.events import is_of_table
from auditor.pipeline.segments.checking import check_files, first_difference, list_findings, list_incomparable
from auditor.pipeline.segments.repair import describe, mend, repair_hint
from auditor.pipeline.segments.sides import list_files, side_of
from auditor.service import segment_audits
from auditor.store import Store, events, segment_register

if TYPE_CHECKING:
    from auditor.compare.segment_findings import Finding
    from auditor.pipeline.segments.checking import FileProblem
    from auditor.pipeline.segments.repair import Mended
    from auditor.pipeline.segments.sides import Side
    from auditor.pipeline.segments.verifying import EventDifference


SAME_EVENTS = "both files hold the same events"


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found of one table."""

    table: str
    segments: int
    """Segments that were read."""
    problems: tuple[tuple[FileProblem, str], ...]
    """What is wrong with them, each with the first event that differs from the other side's, where that is known; else ''."""
    findings: tuple[tuple[Finding, str], ...]
    """What is wrong between the two sides, each with the first event that differs, or why that is not known; '' where a side has none."""


def verify(settings: Settings, store: Store, audit: str, table: str | None = None) -> Iterator[Verified]:
    """Read the segments of both sides anew, and yield what is wrong with them and between them, table by table.

    Raises UnknownAudit, ConfigError for a table without segments, and StoreError.
    """
    sides = sides_of(settings, store, audit)
    tables = segment_register.list_tables(store, audit)
    chosen = [state for state in tables if is_of_table(state.table, table)]
    if table and not chosen:
        raise ConfigError(f"{audit} has no segments of {table!r}; it has of {', '.join(state.table for state in tables) or 'no table yet'}")
    for state in chosen:
        problems = [problem for side in sides for problem in check_files(store, audit, side, state.table)]
        read = sum(1 for side in sides if not side.is_anew for _ in list_files(store, side, state.table))
        findings = segment_audits.open_findings(settings, store, audit, list_findings(store, audit, state, with_buckets=True))
        told = [(finding, _first_difference(settings, store, sides, finding)) for finding in findings]
        not_compared = [(finding, _first_difference(settings, store, sides, finding)) for finding in list_incomparable(store, audit, state)]
        told += [(finding, text) for finding, text in not_compared if text != SAME_EVENTS]
        damaged = [(problem, _first_damage(settings, store, sides, audit, problem)) for problem in problems]
        yield Verified(state.table, read, tuple(damaged), tuple(told))


def sides_of(settings: Settings, store: Store, audit: str) -> tuple[Side, Side]:
    """Return the sides of a segment audit in the order of its register. Raises UnknownAudit."""
    names = segment_register.list_sides(store, audit) or settings.segment_audit(audit).sides
    return side_of(settings, audit, names[0]), side_of(settings, audit, names[1])


def _first_difference(settings: Settings, store: Store, sides: tuple[Side, Side], finding: Finding) -> str:
    if not all(finding.segments):
        return ""
    try:
        difference = first_difference(settings, store, sides, finding)
    except SegmentFailed as error:
        return f"the first event that differs is not known: {error}"
    if difference is None:
        return SAME_EVENTS
    return _tell(difference)


def _first_damage(settings: Settings, store: Store, sides: tuple[Side, Side], audit: str, problem: FileProblem) -> str:
    """Return the first event in which a damaged file differs from the other side's; '' if it cannot be read, or has no counterpart."""
    before = (problem.start[0], problem.start[1] - 1)
    listed = [segment_register.list_entries(store, audit, problem.table, side.name, after=before, limit=1) for side in sides]
    pairs = [tuple(entry for entry in some if (entry.start, entry.end) == (problem.start, problem.end)) for some in listed]
    if not all(pairs):
        return ""
    try:
        difference = first_difference(
            settings, store, sides, Finding("altered", problem.table, 0, problem.start, problem.end, (pairs[0], pairs[1]))
        )
    except SegmentFailed:  # the problem says why
        return ""
    return _tell(difference) if difference else ""


def _tell(difference: EventDifference) -> str:
    return f"event {difference.number:,}, at {difference.place}: {'; '.join(difference.sentences)}"


def plan_copy(settings: Settings, store: Store, audit: str, good: str, table: str | None) -> list[Mended]:
    """Return what `copy` would copy; nothing is written. Raises what that raises."""
    return mend(settings, store, audit, good, table, apply=False)


def copy(settings: Settings, store: Store, audit: str, good: str, table: str | None, *, by: str) -> list[Mended]:
    """Mend the other side's segments from those of ``good``, and record the event.

    Raises UnknownAudit, ConfigError, SegmentFailed and StoreError.
    """
    repairs = mend(settings, store, audit, good, table, apply=True)
    for repair in repairs:
        if not repair.refused:
            detail = {
                "audit": audit,
                "from": good,
                "table": repair.table,
                "first": repair.first,
                "last": repair.last,
                "files": list(repair.copied),
            }
            events.record_event(store, actor=by, action="segments copied", subject=audit, detail=detail)
    return repairs


def reset(settings: Settings, store: Store, audit: str, *, by: str) -> None:
    """Forget the register of a segment audit, and what it read anew; record the event. Raises UnknownAudit and StoreError."""
    sides = settings.segment_audit(audit).sides
    segment_register.forget(store, audit)
    if ANEW in sides:
        from auditor.pipeline.segments.rereading import forget

        forget(store, side_of(settings, audit, ANEW))
    events.record_event(store, actor=by, action="segments reset", subject=audit)


def tell_planned(repairs: Sequence[Mended], good: str, bad: str, file: str) -> Iterator[str]:
    """Yield what would be copied, or why not; ``file`` is any file of the log."""
    for repair in repairs:
        what = f"not copied: {repair.refused}" if repair.refused else f"would be copied from {good} into {bad}: {', '.join(repair.copied)}"
        yield f"{describe(repair, file)}: {what}"


def tell_copied(settings: Settings, repairs: Sequence[Mended], good: str, bad: str, file: str) -> Iterator[str]:
    """Yield what was copied, or why not, and the targets that were built from what was wrong; ``file`` is any file of the log."""
    for repair in repairs:
        if repair.refused:
            yield f"{describe(repair, file)}: not copied: {repair.refused}"
            continue
        yield f"{describe(repair, file)}: copied from {good} into {bad}, and verified: {', '.join(repair.copied)}"
        if repair.replaced:
            yield f"  no longer listed, and yours to delete: {', '.join(repair.replaced)}"
    for target, table in sorted({(target, repair.table) for repair in repairs for target in repair.targets}):
        yield repair_hint(settings, bad, target, table)
