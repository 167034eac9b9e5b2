"""The rows of a patch for people and programs: as they were, as they should be, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from auditor import canonical
from auditor.compare.accounting import MASK
from auditor.errors import PatchRefused
from auditor.store import patch_requests, patches
from auditor.store.patches import Patch
from dialects import Kind

if TYPE_CHECKING:
    from auditor.store import Store

Outcome = Literal["", "written", "left", "taken back", "not written"]
"""What became of a row: nothing yet, or as the journal has it; ``not written`` where the patch ended without a batch of it."""

Texts = dict[str, str | None]
"""The readable texts of a row's columns by the source's names; ``***`` for a masked one, None for NULL."""


@dataclass(frozen=True, slots=True)
class PatchRow:
    """A row that a patch changes, or would."""

    number: int
    """Its place in the patch, from 1."""
    kind: str
    """``missing`` rows are inserted, ``changed`` ones updated, ``extra`` ones deleted."""
    key: Texts
    columns: list[str]
    """The columns that change."""
    old: Texts | None
    """The target's row as it was read; None if there was none."""
    new: Texts | None
    """The row as it should be; None if there should be none."""
    sql: str | None
    """The statement, if the patch was proposed and no column is masked."""
    outcome: Outcome


def list_rows(store: Store, patch: Patch) -> list[PatchRow]:
    """Return the rows of a patch. Raises PatchRefused if they were dropped."""
    plan = patch_requests.get_plan(store, patch.patch)
    batches = patches.list_batches(store, patch.patch)
    if any(batch.rows is None for batch in batches) or (plan is None and patch.state == "proposed"):
        raise PatchRefused(f"the rows of patch {patch.patch} were dropped, as `keep: journal` or a scrub of masked columns has it")
    journal = [row for batch in batches if batch.state != "void" for row in batch.rows or ()]
    shown = plan["columns"] if plan else patch.detail.get("columns")
    if shown is None:
        return []
    outcomes = {tuple(row["key"]): row["outcome"] for row in journal}
    ended: Outcome = "not written" if patch.state in ("done", "failed", "undone") else ""
    rows = plan["rows"] if plan else journal
    return [_show(number, row, shown, outcomes.get(tuple(row["key"])) or ended) for number, row in enumerate(rows, 1)]


def get_script(store: Store, patch: Patch) -> str:
    """Return the SQL of a proposed patch. Raises PatchRefused where a masked column would be shown, or it was not proposed."""
    plan = patch_requests.get_plan(store, patch.patch)
    if plan is None:
        raise PatchRefused(f"patch {patch.patch} has no script: it was not proposed over HTTP, or its rows were dropped")
    if plan["script"] is None:
        name = plan["columns"]["masked"][0]
        raise PatchRefused(f"the column {name!r} is masked, and a masked column is never shown; the patch can only be applied")
    script: str = plan["script"]
    return script


def count_done(store: Store, patch: Patch) -> int:
    """Return how many rows of a patch were written, or left, so far."""
    batches = patches.list_batches(store, patch.patch)
    return sum(len(batch.rows or ()) for batch in batches if batch.state in ("committed", "applied"))


def _show(number: int, row: Mapping[str, Any], shown: Mapping[str, Any], outcome: Outcome) -> PatchRow:
    old, new = (_by_name(row[name]["texts"], shown) if row[name] else None for name in ("old", "new"))
    key = _by_name(row["key"], shown)
    return PatchRow(number, row["kind"], key, row["columns"], old, new, row.get("sql"), outcome)


def _by_name(texts: Sequence[str | None], shown: Mapping[str, Any]) -> Texts:
    """Return readable texts by the names of the columns; of a key, which comes first, those of its columns."""
    masked = set(shown["masked"])
    found = zip(shown["names"], shown["kinds"], texts, strict=False)
    return {name: MASK if name in masked else canonical.readable(Kind(kind[0], scale=kind[1]), text) for name, kind, text in found}
