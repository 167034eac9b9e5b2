"""Find out what became of a patch whose process died: which of its batches were committed, and whether inserted rows are ghosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from auditor.compare.accounting import Key
from auditor.repair.apply import take_back_ghosts
from auditor.repair.batch import BatchWriter
from auditor.repair.journal import count_outcomes, find_digest, is_as_stored, require_rows, shown_columns
from auditor.repair.rows import ExactRow, read_rows
from auditor.store import Store, patches
from auditor.store.patches import JournalRow, Patch

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
