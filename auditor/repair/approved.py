"""A patch that somebody approves before it is applied: what it would change, row by row, and the application of just that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.errors import PatchRefused
from auditor.repair.apply import Application, Found
from auditor.repair.journal import describe_columns, is_as_stored, meant_row, shown_columns, to_rows
from auditor.repair.proposal import Proposal
from auditor.repair.rows import RowChange
from auditor.repair.script import sql_script
from auditor.store.patch_requests import PatchPlan
from auditor.store.patches import JournalRow, JournalTexts


@dataclass(frozen=True, slots=True)
class ApprovablePlan:
    """What a patch would change, for the store."""

    target: str
    """What identifies the patched table."""
    counts: Counter[str]
    """The changes by kind."""
    cannot_apply: str
    """Why it can only be read; empty if it can be applied."""
    body: PatchPlan


def plan_approvable(proposal: Proposal, most: int, target: str, cannot_apply: str, made: str, key: str) -> ApprovablePlan:
    """Return what a proposal would change now; ``made`` is when, for the script's header.

    ``key`` keys the digests of rows that have masked columns; without one they are left out. Neither texts of masked columns nor statements
    that hold any are in it. Raises PatchRefused for more than ``most`` rows, and ValueRefused for a value that cannot be written exactly.
    """
    batches: list[list[RowChange]] = []
    for keys in proposal.keys.batches(proposal.batch_rows):
        batches.append(proposal.read_changes(keys))
        if sum(map(len, batches)) > most:
            raise PatchRefused(
                f"more than {most:,} rows are to be changed, which is what one patch may change; propose fewer with limit or keys, raise"
                " max_rows under write:, or copy the range again"
            )
    changes = [change for batch in batches for change in batch]
    statements = [proposal.statement(change) for change in changes]
    masked = proposal.transfer.masked
    stored = to_rows(proposal, changes, key=key, seals=False)
    rows: list[JournalRow] = [{**row, "sql": None if masked else sql} for row, sql in zip(stored, statements, strict=True)]
    script = None if masked else "".join(sql_script(proposal, made, batches))
    body: PatchPlan = {"rows": rows, "columns": describe_columns(proposal), "script": script}
    return ApprovablePlan(target, Counter(change.kind for change in changes), cannot_apply, body)


@dataclass(frozen=True, slots=True)
class Approved:
    """A change that was approved: the kind of change, the columns, and as the store has them the row as it should be and as it was."""

    kind: str
    columns: tuple[str, ...]
    new: JournalTexts | None
    old: JournalTexts | None


ApprovedRows = Mapping[tuple[str | None, ...], Approved]
"""The approved changes by key."""


def read_approved(rows: Sequence[JournalRow]) -> ApprovedRows:
    """Return the approved changes of a stored plan."""
    return {tuple(row["key"]): Approved(row["kind"], tuple(row["columns"]), row["new"], row["old"]) for row in rows}


def check_approved(proposal: Proposal, approved: ApprovedRows, key: str) -> Counter[str]:
    """Return how many changes are still as they were approved, by kind, after a check that each can be written."""
    counts: Counter[str] = Counter()
    for keys in _batches(approved, proposal.batch_rows):
        changes, _ = _find(proposal, approved, keys, key)
        for change in changes:
            proposal.statement(change)
            counts[change.kind] += 1
    return counts


def write_approved(application: Application, approved: ApprovedRows) -> None:
    """Write the changes that are still as they were approved, and leave the others."""
    for keys in _batches(approved, application.proposal.batch_rows):
        if application.stopped.is_set():
            return
        application.write(lambda keys=keys: _find(application.proposal, approved, keys, application.journal_key))  # type: ignore[misc]


def _find(proposal: Proposal, approved: ApprovedRows, keys: list[tuple[str | None, ...]], key: str) -> Found:
    """Return the changes of these keys that are as they were approved; rows that differ otherwise by now are left."""
    differing = proposal.read_changes(keys)
    chosen = [change for change in differing if _is_as_approved(proposal, change, approved[change.key], key)]
    return chosen, Counter(equal=len(keys) - len(differing), left=len(differing) - len(chosen))


def _is_as_approved(proposal: Proposal, change: RowChange, approved: Approved, key: str) -> bool:
    if (change.kind, change.columns) != (approved.kind, approved.columns):
        return False
    shown, meant = shown_columns(proposal), meant_row(proposal.transfer.names, change)
    return is_as_stored(meant, approved.new, shown, key) and is_as_stored(change.old, approved.old, shown, key)


def _batches(approved: ApprovedRows, size: int) -> Iterator[list[tuple[str | None, ...]]]:
    keys = list(approved)
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
