"""Apply a patch: batch by batch, each journalled before it is written, and its inserted rows compared with the source once more after."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.compare.accounting import Key
from auditor.connections.connection import CONTINUING
from auditor.errors import EngineError, LockTimeout, PatchFailed, SerializationConflict, StatementRefused
from auditor.points import reach
from auditor.repair.batch import BatchWriter, Written
from auditor.repair.journal import DONE, meant_row, to_rows
from auditor.repair.proposal import Proposal
from auditor.repair.rows import ExactRow, RowChange
from auditor.store import Store, patches
from auditor.store.patches import BatchState

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
        for keys in self.proposal.keys.batches(self.proposal.batch_rows):
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
