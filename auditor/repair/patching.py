"""Apply a patch, undo one, and settle those whose process died: the sessions, the checks before, and the journal around the batches."""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import dialects
from auditor.compare.accounting import Key
from auditor.config import Audit, ConnectionSettings, WriteSettings
from auditor.connections.reader import OnProgress
from auditor.connections.writer import open_files_for_writing, open_patch_session, patching_dialect
from auditor.errors import AuditorError, ConfigError, PatchRefused
from auditor.model import Report
from auditor.repair.apply import (
    Application,
    ApprovablePlan,
    check_approved,
    check_readable,
    plan_approvable,
    read_approved,
    recover_patch,
    undo_batches,
    write_approved,
)
from auditor.repair.batch import BatchWriter
from auditor.repair.journal import describe_columns
from auditor.repair.keys import Selection
from auditor.repair.proposal import Proposal, count_changes, propose, unnamed
from auditor.repair.target_facts import unwritten_columns
from auditor.repair.target_writer import target_writer
from auditor.sql.row_changes import MarkStatements
from auditor.store import Store, patches
from auditor.store.patches import NOT_UNDOABLE, JournalRow, Patch

log = logging.getLogger(__name__)

ALWAYS_ALLOWED = 10
"""Rows that a patch may change however small the table is."""

STOPPED = "it was stopped after a batch; the rows of later ones are as they were"
"""Why a patch that is done has not written all of its rows."""

NO_WRITE = WriteSettings(url="")
"""The limits of patches of a connection without ``write``."""

NO_KEYS = Selection(limit=0, delete_extra=True)
"""Selects nothing of a run: for what is read from the journal."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a patch works with: its run, the audit and connections, who asked for it, and how it is followed and stopped."""

    store: Store
    report: Report
    audit: Audit
    connections: Mapping[str, ConnectionSettings]
    who: str
    accepted: Collection[str]
    stopped: threading.Event
    on_progress: OnProgress
    claimed: str = ""
    """The id of the patch, if it was requested and claimed before; empty for one that begins now."""
    journal_key: str = ""
    """The key that encrypts masked columns in the journal; empty if there is none."""

    @property
    def target(self) -> str:
        """The name of the connection that is written to."""
        return self.audit.target.connection


@dataclass(frozen=True, slots=True)
class Patched:
    """What a patch did: its id (empty for a dry run), rows by what became of them, and the least and greatest key that it touched."""

    patch: str
    counts: Counter[str]
    keys: tuple[int, int] | None
    stopped: bool
    """Whether it was stopped after a batch, before its end."""


def plan_patch(job: Job, selection: Selection, made: str) -> ApprovablePlan:
    """Return what a patch of a run would change now, row by row, for somebody to approve; ``made`` is when, for its script.

    Raises PatchRefused, also for more rows than one patch may change, and errors of the tree.
    """
    write = job.connections[job.target].write
    most = most_rows(job.report, write or NO_WRITE)
    few = replace(selection, limit=min(selection.limit or most + 1, most + 1))
    with propose(job.store, job.report, job.audit, job.connections, few, job.accepted, job.on_progress) as proposal:
        return plan_approvable(proposal, most, _target_id(job, proposal), _why_not(job, write), made, job.journal_key)


def _why_not(job: Job, write: WriteSettings | None) -> str:
    """Return why the target cannot be written to; empty if it can."""
    try:
        patching_dialect(job.target, job.connections[job.target])
    except ConfigError as error:
        return str(error)
    return unnamed(job.report.differences) if job.report.differences is not None else ""


def apply_approved(job: Job, selection: Selection, rows: Sequence[JournalRow]) -> Patched:
    """Apply the approved rows of a plan, each as it was approved: what would be changed otherwise by now is left.

    Every row is read, and every statement made, before the first is written. Raises PatchRefused, PatchFailed and errors of the tree.
    """
    _refuse_unnamed(job)
    approved = read_approved(rows)
    with _opened(job, replace(selection, limit=0, first=None, last=None)) as (proposal, write):
        planned = check_approved(proposal, approved, job.journal_key)
        _check_size(planned, job.report, write)
        return _write(job, proposal, lambda application: write_approved(application, approved), planned)


def apply_patch(job: Job, selection: Selection, *, dry_run: bool = False) -> Patched:
    """Apply the patch of a run, or with ``dry_run`` execute it and roll every batch back.

    Every row is read, and every statement made, before the first is written. Raises PatchRefused, PatchFailed and errors of the tree.
    """
    _refuse_unnamed(job)
    with _opened(job, selection) as (proposal, write):
        planned = count_changes(proposal)
        _check_size(planned, job.report, write)
        if not planned:
            _refuse_repeated(job)
            return Patched("", Counter(equal=0), None, False)
        return _write(job, proposal, lambda application: application.run(), planned, dry_run=dry_run)


def undo_patch(job: Job, original: Patch) -> Patched:
    """Write the rows of a patch back as they were. Raises PatchRefused if it cannot be undone, and errors of the tree."""
    check_undo(job.store, original, job.journal_key)
    with _opened(job, NO_KEYS) as (proposal, _):
        if original.target != _target_id(job, proposal):
            raise PatchRefused(f"patch {original.patch} is of another table than {proposal.facts.table}")
        total = Counter(rows=sum(original.detail.get(name, 0) for name in ("inserted", "updated", "deleted")))
        return _write(job, proposal, lambda application: undo_batches(application, original), total, undoes=original.patch)


def check_undo(store: Store, original: Patch, journal_key: str) -> None:
    """Raise PatchRefused if the rows of a patch cannot be written back, as far as its journal says. No database is asked."""
    if original.state == "running":
        raise PatchRefused(f"patch {original.patch} is at work; wait for its end")
    if original.state == "undone":
        raise PatchRefused(f"patch {original.patch} was undone already")
    if not original.undoable:
        raise PatchRefused(f"patch {original.patch} cannot be undone: {NOT_UNDOABLE}")
    check_readable(patches.list_batches(store, original.patch), original, journal_key)


def settle_patch(job: Job, dead: Patch) -> Counter[str]:
    """Find out what became of a patch whose process died, and store it. Raises errors of the tree."""
    with _opened(job, NO_KEYS) as (proposal, _):
        marks = _marks(proposal, dead.patch)
        with _writer(job, proposal, marks, dry_run=False) as writer:
            writer.target.prepare_marks(marks)
            counts = recover_patch(job.store, dead, writer, job.journal_key)
            writer.target.remove_marks(marks)
    log.info("a patch whose process died was settled", extra={"action": "patch_settled", "patch": dead.patch})
    return counts


@contextmanager
def _opened(job: Job, selection: Selection) -> Iterator[tuple[Proposal, WriteSettings]]:
    """Yield the proposal of a run whose target may be written to, and how."""
    settings = job.connections[job.target]
    patching_dialect(job.target, settings)
    assert settings.write is not None
    connections = open_files_for_writing(job.connections, job.target)
    with propose(job.store, job.report, job.audit, connections, selection, job.accepted, job.on_progress) as proposal:
        yield proposal, settings.write


def _write(
    job: Job,
    proposal: Proposal,
    work: Callable[[Application], None],
    planned: Counter[str],
    *,
    dry_run: bool = False,
    undoes: str | None = None,
) -> Patched:
    patch = job.claimed or uuid.uuid4().hex
    marks = _marks(proposal, patch)
    with _writer(job, proposal, marks, dry_run) as writer:
        application = Application(job.store, patch, proposal, writer, undoes is None, job.stopped, planned.total(), job.journal_key)
        if dry_run:
            work(application)
            return _patched(application, "")
        writer.target.prepare_marks(marks)
        begin_patch(job, proposal, patch, planned, undoes)
        try:
            work(application)
        except BaseException as error:
            why = type(error).__name__ if proposal.transfer.masked else str(error)  # a server's message may show values
            if not application.in_doubt:
                patches.end_patch(job.store, patch, "failed", {**application.counts, "why": why})
            elif isinstance(error, AuditorError):
                with suppress(AuditorError):  # what cannot be found out now, the next start finds out
                    _settle_at_once(job, proposal, patch, why, application.meant)
            raise
        stopped = {"why": STOPPED} if application.stopped.is_set() else {}
        patches.end_patch(job.store, patch, "done", {**application.counts, **stopped})
        with suppress(AuditorError):  # marks that remain do no harm
            writer.target.remove_marks(marks)
        return _patched(application, patch)


def begin_patch(job: Job, proposal: Proposal, patch: str, planned: Counter[str], undoes: str | None) -> None:
    """Store that a patch begins. Raises PatchRefused while another one of the table is at work."""
    undoable, columns = _is_undoable(job, proposal, planned), {"columns": describe_columns(proposal)}
    if job.claimed:
        patches.begin_claimed(job.store, patch, undoable=undoable, detail=columns)
        return
    identity = {"run": job.report.run, "audit": job.report.audit, "target": _target_id(job, proposal), "who": job.who}
    detail = {"planned": planned.total(), **columns}
    patches.begin_patch(job.store, patch=patch, undoes=undoes, undoable=undoable, detail=detail, **identity)


def _settle_at_once(job: Job, proposal: Proposal, patch: str, why: str, meant: Mapping[Key, str]) -> None:
    """Find out, over a new session, what became of the last batch of a patch whose connection was lost; ``meant`` are its rows' digests."""
    marks = _marks(proposal, patch)
    with _writer(job, proposal, marks, dry_run=False) as writer:
        recover_patch(job.store, patches.get_patch(job.store, patch), writer, job.journal_key, why, meant)
        writer.target.remove_marks(marks)


def _is_undoable(job: Job, proposal: Proposal, planned: Counter[str]) -> bool:
    """Return whether the journal will have all that the changed rows hold: a deleted row also has columns that are not compared."""
    is_whole = not proposal.transfer.unwritable and not unwritten_columns(proposal.facts, proposal.written)
    return bool(not proposal.transfer.masked or job.journal_key) and (is_whole or not planned["extra"])


def _patched(application: Application, patch: str) -> Patched:
    first_and_last = (application.keys[0], application.keys[1]) if application.keys else None
    return Patched(patch, +application.counts, first_and_last, application.stopped.is_set())


@contextmanager
def _writer(job: Job, proposal: Proposal, marks: MarkStatements, dry_run: bool) -> Iterator[BatchWriter]:
    session = open_patch_session(job.target, job.connections[job.target])
    try:
        yield BatchWriter(proposal, target_writer(session), marks, dry_run)
    finally:
        session.close()


def _marks(proposal: Proposal, patch: str) -> MarkStatements:
    return MarkStatements(proposal.target, proposal.table.names[-2], patch, proposal.table.sql)


def _target_id(job: Job, proposal: Proposal) -> str:
    """Return what identifies the patched table: its database and its name, hashed."""
    database = dialects.database_id(job.connections[job.target].url)
    return hashlib.sha256(f"{database}\n{proposal.table.sql}".encode()).hexdigest()


def most_rows(report: Report, write: WriteSettings) -> int:
    """Return how many rows one patch of a run may change: `max_rows`, or `max_share` of the target's rows if that is less."""
    rows = report.comparison.rows["target"] if report.comparison else 0
    return min(write.max_rows, max(ALWAYS_ALLOWED, int(write.max_share * rows)))


def _check_size(planned: Counter[str], report: Report, write: WriteSettings) -> None:
    total = planned.total()
    if total > write.max_rows:
        raise PatchRefused(
            f"{total:,} rows are to be changed, and one patch may change {write.max_rows:,}; use --limit or --keys, raise max_rows under"
            " write:, or copy the range again"
        )
    rows = report.comparison.rows["target"] if report.comparison else 0
    if total > max(ALWAYS_ALLOWED, write.max_share * rows):
        raise PatchRefused(
            f"{total:,} of {rows:,} rows are to be changed, and one patch may change {write.max_share:.3g} of a table; copy it again, or"
            " raise max_share under write:"
        )


def _refuse_unnamed(job: Job) -> None:
    if job.report.differences is not None and (why := unnamed(job.report.differences)):
        raise PatchRefused(f"{why}: a patch would leave the target half repaired; copy the table again, or run {job.report.audit} again")


def _refuse_repeated(job: Job) -> None:
    done = [patch for patch in patches.list_patches(job.store, job.report.run) if patch.state == "done" and patch.undoes is None]
    if done:
        raise PatchRefused(f"run {job.report.run} was patched already, by patch {done[-1].patch}, and nothing differs by now")
