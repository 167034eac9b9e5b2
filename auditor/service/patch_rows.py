"""The status of a patch and its rows: as they were, as they should be, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor import canonical
from auditor.compare.accounting import MASK
from auditor.errors import PatchRefused
from auditor.report.listing import WRITTEN
from auditor.shapes.patch import Patch, PatchOutcome, PatchProgress, PatchRow, Texts
from auditor.store import patch_requests, patches
from auditor.store.patches import JournalColumns, JournalRow
from auditor.store.patches import Patch as StoredPatch
from dialects import Kind

if TYPE_CHECKING:
    from auditor.store import Store


def describe(store: Store, patch: StoredPatch) -> Patch:
    """Return the status of a patch. Raises StoreError."""
    detail, undo = patch.detail, patch_requests.find_undo(store, patch.patch)
    total = detail.get("planned", 0)
    done = total if patch.state in ("done", "undone") else count_done(store, patch)
    return Patch(
        patch=patch.patch,
        run=patch.run,
        audit=patch.audit,
        state=patch.state,
        undoes=patch.undoes,
        undone_by=undo.patch if undo and undo.state != "failed" else None,
        requested_by=patch.requested_by,
        proposed_by=detail.get("proposed_by"),
        applied_by=detail.get("applied_by"),
        at=patch.at,
        rows=total,
        kinds=detail.get("kinds", {}),
        cannot_apply=detail.get("cannot_apply", ""),
        progress=PatchProgress(done=done, total=total),
        counts={name: detail.get(name, 0) for name in WRITTEN},
        undoable=patch.undoable,
        why=detail.get("why", ""),
        after_run=patch.after_run,
        not_audited=detail.get("not_audited", ""),
    )


def list_rows(store: Store, patch: StoredPatch) -> list[PatchRow]:
    """Return the rows of a patch. Raises PatchRefused if they were dropped."""
    plan = patch_requests.get_plan(store, patch.patch)
    batches = patches.list_batches(store, patch.patch)
    if any(batch.rows is None for batch in batches) or (plan is None and patch.state == "proposed"):
        raise PatchRefused(f"the rows of patch {patch.patch} were dropped, as `keep: journal` or a scrub of masked columns has it")
    journal = [row for batch in batches if batch.state != "void" for row in batch.rows or ()]
    shown: JournalColumns | None = plan["columns"] if plan else patch.detail.get("columns")
    if shown is None:
        return []
    outcomes = {tuple(row["key"]): row["outcome"] for row in journal}
    ended: PatchOutcome = "not written" if patch.state in ("done", "failed", "undone") else ""
    rows = plan["rows"] if plan else journal
    return [_show(number, row, shown, outcomes.get(tuple(row["key"])) or ended) for number, row in enumerate(rows, 1)]


def get_script(store: Store, patch: StoredPatch) -> str:
    """Return the SQL of a proposed patch. Raises PatchRefused where a masked column would be shown, or it was not proposed."""
    plan = patch_requests.get_plan(store, patch.patch)
    if plan is None:
        raise PatchRefused(f"patch {patch.patch} has no script: it was not proposed over HTTP, or its rows were dropped")
    if plan["script"] is None:
        name = plan["columns"]["masked"][0]
        raise PatchRefused(f"the column {name!r} is masked, and a masked column is never shown; the patch can only be applied")
    return plan["script"]


def count_done(store: Store, patch: StoredPatch) -> int:
    """Return how many rows of a patch were written, or left, so far."""
    batches = patches.list_batches(store, patch.patch)
    return sum(len(batch.rows or ()) for batch in batches if batch.state in ("committed", "applied"))


def _show(number: int, row: JournalRow, shown: JournalColumns, outcome: PatchOutcome) -> PatchRow:
    old, new = (_by_name(texts["texts"], shown) if texts else None for texts in (row["old"], row["new"]))
    key = _by_name(row["key"], shown)
    sql = row.get("sql")
    return PatchRow(number=number, kind=row["kind"], key=key, columns=row["columns"], old=old, new=new, sql=sql, outcome=outcome)


def _by_name(texts: Sequence[str | None], shown: JournalColumns) -> Texts:
    """Return readable texts by the names of the columns; of a key, which comes first, those of its columns."""
    masked = set(shown["masked"])
    columns = zip(shown["names"], shown["kinds"], texts, strict=False)
    return {name: MASK if name in masked else canonical.readable(Kind(kind[0], scale=kind[1]), text) for name, kind, text in columns}
