"""Find out what became of a patch whose process died: which of its batches were committed, and whether inserted rows are ghosts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from auditor.repair.apply import take_back_ghosts
from auditor.repair.batch import Writer
from auditor.repair.journal import count_outcomes, require_rows, row_of
from auditor.repair.marks import was_committed
from auditor.repair.rows import read_rows
from auditor.store import Store, patches
from auditor.store.patches import Patch

KILLED = "its process ended before it did"
"""Why a patch failed whose process was killed."""


def recover_patch(store: Store, patch: Patch, writer: Writer, why: str = KILLED) -> Counter[str]:
    """Settle every batch of a dead patch as committed or void, do what was left to do, and store the patch as failed.

    Returns its rows by what became of them. Raises LockTimeout while a transaction of the dead process is still in flight, and other
    errors of the tree; then nothing is settled that was not known for sure.
    """
    for batch in patches.list_batches(store, patch.patch):
        if batch.state == "prepared" and not was_committed(writer.session, writer.marks, batch.number):
            patches.write_batch(store, patch.patch, batch.number, "void", batch.rows or [])
        elif batch.state in ("prepared", "committed"):
            rows = require_rows(batch.rows, patch.patch)
            if batch.state == "prepared":
                rows = _with_outcomes(writer, rows)
            if patch.undoes is None:
                rows = _without_ghosts(writer, rows)
            patches.write_batch(store, patch.patch, batch.number, "applied", rows)
    counts = count_outcomes(patches.list_batches(store, patch.patch))
    patches.end_patch(store, patch.patch, "failed", {**counts, "why": why})
    return counts


def _with_outcomes(writer: Writer, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a committed batch with what became of each: a row that is not as it was meant was left, or changed since."""
    plan = writer.proposal.transfer.plan
    keys = [tuple(row["key"]) for row in rows]
    now = writer.proposal.reader.ask_side("target", lambda side, session: read_rows(plan, side, session, keys), fresh=True)
    found = []
    for row, key in zip(rows, keys, strict=True):
        meant, here = row["new"], now.get(key)
        is_written = here is None if meant is None else here is not None and here.digest == meant["digest"]
        found.append({**row, "outcome": "written" if is_written else "left"})
    return found


def _without_ghosts(writer: Writer, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take back inserted rows whose source differs by now, and return the rows with that noted."""
    inserted = {tuple(row["key"]): row_of(row["new"]) for row in rows if row["kind"] == "missing" and row["outcome"] == "written"}
    taken = take_back_ghosts(writer.proposal, writer, inserted, inserted)
    return [{**row, "outcome": "taken back"} if tuple(row["key"]) in taken else row for row in rows]
