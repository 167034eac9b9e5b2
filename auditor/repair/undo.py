"""Undo a patch: write the rows back as they were, under the same checks, and leave those that were changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from auditor.repair.apply import Application, Found
from auditor.repair.facts import check_changes
from auditor.repair.journal import require_rows, to_undo
from auditor.repair.proposal import Proposal
from auditor.repair.rows import RowChange, read_rows
from auditor.store import patches
from auditor.store.patches import Batch, Patch


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
