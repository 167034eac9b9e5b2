"""Apply a patch, or what was approved of one, batch by batch; undo one; and settle one whose process died.

Each batch is journalled before it is written, and its inserted rows are compared with the source once more after.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.compare.accounting import Key
from auditor.connections.connection import CONTINUING
from auditor.errors import EngineError, LockTimeout, PatchFailed, PatchRefused, SerializationConflict, StatementRefused
from auditor.points import reach
from auditor.repair.batch import BatchWriter, Written, batch_rows
from auditor.repair.journal import (
    DONE,
    count_outcomes,
    describe_columns,
    find_digest,
    is_as_stored,
    meant_row,
    require_rows,
    shown_columns,
    to_rows,
    to_undo,
)
from auditor.repair.proposal import Proposal
from auditor.repair.rows import ExactRow, RowChange, read_rows
from auditor.repair.script import sql_script
from auditor.repair.target_facts import check_changes
from auditor.store import Store, patches
from auditor.store.patches import Batch, BatchState, JournalRow, JournalTexts, Patch, PatchPlan

ATTEMPTS = 3
"""How often a batch is tried whose rows others change at the same time."""


Found = tuple[Sequence[RowChange], Counter[str]]
"""What is to be changed of a batch, and how many of its other rows are what: ``equal`` by now, or ``left`` as they changed."""

NOT_COMMITTED = (StatementRefused, SerializationConflict, LockTimeout)
"""Errors of a COMMIT after which it is certain that nothing was committed."""


@dataclass(slots=True)
class Application:
    """A patch that is being applied."""

    store: Store
    patch: str
    proposal: Proposal
    writer: BatchWriter
    is_of_source: bool
    """Whether the rows are the source's, not those that an undo writes back."""
    stopped: threading.Event
    """Set once no further batch may begin."""
    total: int
    """Rows that are to be changed, for the progress."""
    journal_key: str = ""
    """The key that encrypts masked columns in the journal; empty to leave them out."""
    counts: Counter[str] = field(default_factory=Counter)
    """Rows by what became of them."""
    keys: list[int] = field(default_factory=list)
    """The least and the greatest key of the written rows, where keys have an order; empty before the first."""
    number: int = 0
    """The number of the last batch."""
    meant: Mapping[Key, str] = field(default_factory=dict)
    """The digests of the last batch's rows as they are meant to be, by their keys."""
    in_doubt: bool = False
    """Whether it is not known if the last batch was committed, or its inserted rows were not compared once more: left to the next start."""

    def run(self) -> None:
        """Write all batches of the proposal, until ``stopped`` is set. Raises errors of the tree; batches that were committed stay."""
        for keys in self.proposal.keys.batches(batch_rows(self.proposal)):
            if self.stopped.is_set():
                return
            self.write(lambda keys=keys: self._find(keys))  # type: ignore[misc]

    def _find(self, keys: list[Key]) -> Found:
        changes = self.proposal.read_changes(keys)
        return changes, Counter(equal=len(keys) - len(changes))

    def write(self, read: Callable[[], Found]) -> None:
        """Read the changes of a batch, and write them; again where others change the rows meanwhile."""
        before: Sequence[RowChange] | None = None
        for attempt in range(ATTEMPTS):
            changes, others = read()
            self.counts += others if attempt == 0 else Counter()
            if not changes:
                return
            try:
                self._write(changes)
            except (StatementRefused, LockTimeout, SerializationConflict, PatchFailed) as error:
                is_same = list(changes) == list(before or ())
                if attempt == ATTEMPTS - 1 or (is_same and not isinstance(error, LockTimeout | SerializationConflict)):
                    raise _as_failure(error) from error
                before = changes
            else:
                self._report()
                return

    def _write(self, changes: Sequence[RowChange]) -> None:
        self.number += 1
        names = self.proposal.transfer.names
        self.meant = {change.key: row.digest for change in changes if (row := meant_row(names, change))}
        self._journal("prepared", changes)
        reach("patch.prepared")
        try:
            written = self.writer.write(self.number, changes)
        except BaseException as error:
            self.in_doubt = self.writer.at_commit and not isinstance(error, NOT_COMMITTED)
            if not self.in_doubt:
                self._journal("void", changes)
            raise
        self.in_doubt = not self.writer.is_dry
        inserted = self._to_recheck(changes, written)
        self._journal("committed" if inserted else "applied", changes, written)
        reach("patch.noted")
        taken: set[Key] = set()
        if inserted:
            taken = take_back_ghosts(self.proposal, self.writer, inserted, written)
            self._journal("applied", changes, written, taken)
        self.in_doubt = False
        self._count(changes, written, taken)

    def _to_recheck(self, changes: Sequence[RowChange], written: Written) -> dict[Key, ExactRow | None]:
        """Return the inserted rows that are compared with the source once more.

        The source may have deleted or changed a row between its read and the commit, and its event may have found nothing to change.
        """
        if self.writer.is_dry or not self.is_of_source:
            return {}
        return {change.key: change.new for change in changes if change.kind == "missing" and written.get(change.key)}

    def _journal(
        self, state: BatchState, changes: Sequence[RowChange], written: Written | None = None, taken: Collection[Key] = ()
    ) -> None:
        if not self.writer.is_dry:
            rows = to_rows(self.proposal, changes, written, taken, key=self.journal_key)
            patches.write_batch(self.store, self.patch, self.number, state, rows)

    def _count(self, changes: Sequence[RowChange], written: Written, taken: Collection[Key]) -> None:
        for change in changes:
            if change.key in taken:
                self.counts["taken back"] += 1
            elif change.key in written:
                self.counts[DONE[change.kind]] += 1
            else:
                self.counts["left"] += 1
        if self.proposal.transfer.plan.has_integer_key:
            numbers = [*self.keys, *(int(change.key[0] or 0) for change in changes)]
            self.keys = [min(numbers), max(numbers)]

    def _report(self) -> None:
        done = sum(self.counts[name] for name in (*DONE.values(), "left", "taken back"))
        doing = "patching, to be rolled back" if self.writer.is_dry else "patching"
        self.proposal.reader.report("target", doing if done < self.total else CONTINUING, done, self.total)


def take_back_ghosts(proposal: Proposal, writer: BatchWriter, inserted: Mapping[Key, ExactRow | None], written: Written) -> set[Key]:
    """Delete the inserted rows whose source differs by now from what was inserted, and return their keys.

    ``written`` are the rows as they were read back; of one that changed since, nothing is deleted.
    """
    source = proposal.read_source(list(inserted))
    ghosts: dict[Key, ExactRow] = {}
    for key, meant in inserted.items():
        now, row = source.get(key), written.get(key)
        if row and meant and (now is None or now.digest != meant.digest):
            ghosts[key] = row
    return writer.take_back(ghosts) if ghosts else set()


def _as_failure(error: EngineError | PatchFailed) -> EngineError | PatchFailed:
    return PatchFailed(f"the target refused a batch, which was rolled back: {error}") if isinstance(error, StatementRefused) else error


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
    for keys in proposal.keys.batches(batch_rows(proposal)):
        batches.append(proposal.read_changes(keys))
        if sum(map(len, batches)) > most:
            raise PatchRefused(
                f"more than {most:,} rows are to be changed, which is what one patch may change; propose fewer with limit or keys, raise"
                " max_rows or max_share under write:, or copy the range again"
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
    for keys in _batches(approved, batch_rows(proposal)):
        changes, _ = _find(proposal, approved, keys, key)
        for change in changes:
            proposal.statement(change)
            counts[change.kind] += 1
    return counts


def write_approved(application: Application, approved: ApprovedRows) -> None:
    """Write the changes that are still as they were approved, and leave the others."""
    for keys in _batches(approved, batch_rows(application.proposal)):
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


def undo_batches(application: Application, original: Patch) -> None:
    """Write back what a patch changed, its last batch first. Rows that are no longer as the patch left them are counted as left.

    Raises PatchRefused if the patch's rows were dropped, and errors of the tree.
    """
    for batch in reversed(patches.list_batches(application.store, original.patch)):
        if batch.state not in ("committed", "applied"):
            continue
        if application.stopped.is_set():
            return
        meant = to_undo(require_rows(batch.rows, original.patch), application.journal_key, original.patch)
        if meant:
            application.write(lambda meant=meant: _unchanged(application, meant))  # type: ignore[misc]


def check_readable(batches: Iterable[Batch], original: Patch, key: str) -> None:
    """Raise PatchRefused unless the rows of a patch are there, and can be read with this key."""
    for batch in batches:
        if batch.state in ("committed", "applied"):
            to_undo(require_rows(batch.rows, original.patch), key, original.patch)


def _unchanged(application: Application, meant: Sequence[RowChange]) -> Found:
    """Return the changes whose rows are still as the patch left them, and how many others there are."""
    proposal: Proposal = application.proposal
    plan = proposal.transfer.plan
    keys = [change.key for change in meant]
    now = proposal.reader.ask_side("target", lambda side, session: read_rows(plan, side, session, keys), fresh=True)
    unchanged = [change for change in meant if now.get(change.key) == change.old]
    check_changes(proposal.facts, plan, proposal.written, unchanged, proposal.accepted)
    return unchanged, Counter(left=len(meant) - len(unchanged))


KILLED = "its process ended before it did"
"""Why a patch failed whose process was killed."""

NOT_RECHECKED = (
    "rows that it inserted were not compared with the source once more, as their masked columns cannot be read from the journal without the"
    " key under keep: journal_key; run the audit again"
)
"""What was not done for a patch whose process was killed."""

NOTHING: Mapping[Key, str] = {}
"""What the next process knows of the rows of a batch, beside the journal."""


def recover_patch(
    store: Store, patch: Patch, writer: BatchWriter, key: str, why: str = KILLED, meant: Mapping[Key, str] = NOTHING
) -> Counter[str]:
    """Settle every batch of a dead patch as committed or void, do what was left to do, and store the patch as failed.

    ``key`` is that of masked columns in the journal, ``meant`` has the digests of the last batch's rows by their keys, if they are known.
    Returns its rows by what became of them. Raises LockTimeout while a transaction of the dead process is still in flight, and other
    errors of the tree; then nothing is settled that was not known for sure.
    """
    for batch in patches.list_batches(store, patch.patch):
        if batch.state == "prepared" and not writer.target.was_committed(writer.marks, batch.number):
            patches.write_batch(store, patch.patch, batch.number, "void", batch.rows or [])
        elif batch.state in ("prepared", "committed"):
            rows = require_rows(batch.rows, patch.patch)
            if batch.state == "prepared":
                readable = all(find_digest(row["new"], key, patch.patch) for row in rows if row["new"])
                rows = _with_outcomes(writer, rows, key if readable else "")
            if patch.undoes is None:
                rows, is_rechecked = _without_ghosts(writer, rows, lambda row: _digest(row, key, patch, meant))
                why = why if is_rechecked else f"{why}; {NOT_RECHECKED}"
            patches.write_batch(store, patch.patch, batch.number, "applied", rows)
    counts = count_outcomes(patches.list_batches(store, patch.patch))
    patches.end_patch(store, patch.patch, "failed", {**counts, "why": why})
    return counts


def _digest(row: JournalRow, key: str, patch: Patch, meant: Mapping[Key, str]) -> str | None:
    return meant.get(tuple(row["key"])) or (find_digest(row["new"], key, patch.patch) if row["new"] else None)


def _with_outcomes(writer: BatchWriter, rows: list[JournalRow], key: str) -> list[JournalRow]:
    """Return the rows of a committed batch with what became of each: a row that is not as it was meant was left, or changed since."""
    plan = writer.proposal.transfer.plan
    keys = [tuple(row["key"]) for row in rows]
    now = writer.proposal.reader.ask_side("target", lambda side, session: read_rows(plan, side, session, keys), fresh=True)
    shown = shown_columns(writer.proposal)
    return [
        {**row, "outcome": "written" if is_as_stored(now.get(place), row["new"], shown, key) else "left"}
        for row, place in zip(rows, keys, strict=True)
    ]


def _without_ghosts(writer: BatchWriter, rows: list[JournalRow], find: Callable[[JournalRow], str | None]) -> tuple[list[JournalRow], bool]:
    """Take back inserted rows whose source differs by now; return the rows with that noted, and whether all could be compared.

    ``find`` returns the digest of the row that was inserted; of one without it, nobody knows whether the target's is that one.
    """
    written = [row for row in rows if row["kind"] == "missing" and row["outcome"] == "written"]
    known = {tuple(row["key"]): ExactRow(tuple(row["new"]["texts"]), digest) for row in written if row["new"] and (digest := find(row))}
    taken = take_back_ghosts(writer.proposal, writer, known, known)
    noted: list[JournalRow] = [{**row, "outcome": "taken back"} if tuple(row["key"]) in taken else row for row in rows]
    return noted, len(known) == len(written)
