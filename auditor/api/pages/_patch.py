"""The part of a run's page that repairs the target: propose a patch, look at it row by row, apply it, and see what it did."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.authentication import Applier, Reader, Repairer
from auditor.api.dependencies import App, AppState
from auditor.api.pages._layout import now, redirect, render_page, url
from auditor.api.routing import slow_request
from auditor.api_models.repair import Patch, PatchRow
from auditor.durations import durations
from auditor.errors import ConfigError, PatchRefused, UnknownPatch, UnknownRun
from auditor.history import records
from auditor.model import Report, State, Suggestions
from auditor.repair.keys import Selection
from auditor.repair.script import VERBS
from auditor.report.listing import WRITTEN
from auditor.service import patches
from auditor.store import Store, runs
from auditor.store import patches as stored_patches
from auditor.store.patches import Patch as StoredPatch
from auditor.store.runs import StoredRun

router = APIRouter()

PAGE_ROWS = 25
"""Rows of a patch on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPatch:
    """A patch as the page shows it, with the rows ``first`` to ``last`` of ``total``."""

    patch: Patch
    sentence: str
    """What it changes, or what it did."""
    rows: Sequence[PatchRow]
    total: int
    next: int | None
    """The row after which the next page starts; None on the last one."""
    dropped: str
    """Why its rows are not shown."""
    script: str
    no_script: str
    """Why there is no SQL to copy."""
    is_active: bool
    written: int
    """Rows that an undo would write back."""
    after: StoredRun | None
    """The run that looked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patching:
    """The patches of a run: the one that is ``shown``, the ``others``, and the patch ``before`` this run, after which it looked again."""

    shown: ShownPatch | None
    others: Sequence[StoredPatch]
    before: StoredPatch | None
    may_propose: bool
    extra: int
    """Rows that only the target has."""
    too_many: int | None
    """The rows that differ, if they are more than one patch may change; None if they are not."""
    most: int | None
    """Rows that one patch may change; None if that is not known."""
    suggestions: Suggestions | None
    form_key: str
    """The idempotency key of the page's forms: a form that is sent twice asks for one thing."""


def build_view(app: AppState, run: StoredRun, report: Report, chosen: str, row: int) -> Patching | None:
    """Return the patches of a run, of which the ``chosen`` one or the newest is shown from the row after ``row``.

    None if there is none, and nothing to patch. Raises UnknownPatch.
    """
    store = app.store
    listed, before = stored_patches.list_patches(store, run.run), stored_patches.find_patch_before(store, run.run)
    differences = report.differences
    count = differences.missing + differences.extra + differences.changed if differences else 0
    may_propose = bool(count) and run.state is State.DONE
    if not listed and before is None and not may_propose and report.suggestions is None:
        return None
    if chosen and not any(patch.patch == chosen for patch in listed):
        raise UnknownPatch(f"run {run.run} has no patch {chosen!r}; open the run's page to see its patches")
    most = patches.most_rows(app.configured, store, report) if may_propose else None
    shown = next((patch for patch in listed if patch.patch == chosen), listed[-1] if listed else None)
    others = [patch for patch in listed if patch is not shown]
    return Patching(
        shown=_show(store, shown, row) if shown else None,
        others=others[::-1],
        before=before,
        may_propose=may_propose,
        extra=differences.extra if differences else 0,
        too_many=count if most is not None and count > most else None,
        most=most,
        suggestions=report.suggestions,
        form_key=secrets.token_hex(16),
    )


def _show(store: Store, stored: StoredPatch, after_row: int) -> ShownPatch:
    rows: list[PatchRow] = []
    dropped = script = no_script = ""
    try:
        rows = patches.list_rows(store, stored)
    except PatchRefused as error:
        dropped = str(error)
    try:
        script = patches.get_script(store, stored) if not stored.undoes else ""
    except PatchRefused as error:
        no_script = str(error)
    page = rows[after_row : after_row + PAGE_ROWS]
    patch = patches.describe(store, stored)
    written = sum(patch.counts[name] for name in WRITTEN[:3])
    return ShownPatch(
        patch=patch,
        sentence=_sentence(patch),
        rows=page,
        total=len(rows),
        next=after_row + PAGE_ROWS if len(rows) > after_row + PAGE_ROWS else None,
        dropped=dropped,
        script=script,
        no_script=no_script,
        is_active=patch.state in ("waiting", "running") or _awaits_audit(stored, written),
        written=written,
        after=_after(store, patch),
    )


def _after(store: Store, patch: Patch) -> StoredRun | None:
    with suppress(UnknownRun):  # it may have been deleted
        return runs.get_run(store, patch.after_run) if patch.after_run else None
    return None


def _awaits_audit(patch: StoredPatch, written: int) -> bool:
    """Return whether the run that looks again has not ended yet."""
    ended = patch.detail.get("ended")
    is_open = patch.state == "done" and written and not patch.after_run and not patch.detail.get("not_audited")
    return bool(is_open and ended and (now() - dt.datetime.fromisoformat(ended)).total_seconds() < durations().patch_page)


def _sentence(patch: Patch) -> str:
    """Return what a patch changes, or once it has ended what it did."""
    if patch.state in ("done", "failed", "undone"):
        return ", ".join(f"{patch.counts[name]:,} {name}" for name in WRITTEN if patch.counts[name]) or "nothing was written"
    parts = [f"{patch.kinds[kind]:,} to {verb}" for kind, verb in VERBS.items() if patch.kinds.get(kind)]
    return f"{patch.rows:,} {'row' if patch.rows == 1 else 'rows'}{': ' if parts else ''}{', '.join(parts)}"


@router.get("/runs/{run}/patches/{patch}")
def live_patch(request: Request, app: App, visitor: Reader, run: str, patch: str) -> HTMLResponse:
    """Return the part of the page that changes while a patch is at work."""
    stored = runs.get_run(app.store, run)
    report = records.load_report(app.store, stored.run, max_differences=0)
    patching = build_view(app, stored, report, patch, 0) if report else None
    return render_page(request, "patch.html", visitor=visitor, run=stored, patching=patching, watched=True)


@router.post("/runs/{run}/patches")
def propose_patch(
    app: App,
    visitor: Repairer,
    run: str,
    only: Annotated[Literal["", "missing", "changed", "extra"], Form()] = "",
    delete_extra: Annotated[bool, Form()] = False,
    limit: Annotated[str, Form(max_length=12)] = "",
    column: Annotated[str, Form(max_length=255)] = "",
    key: Annotated[str, Form(max_length=1000)] = "",
) -> RedirectResponse:
    """Propose a patch, and show it on the run's page; ``column`` and ``key`` are those of the filter of the differences."""
    selection = Selection(
        only=only or None,
        delete_extra=delete_extra or only == "extra",
        limit=_count(limit) if limit.strip() else None,
        column=column,
        key=key.strip(),
    )
    with slow_request():
        proposed = patches.propose(app.configured, app.store, run, selection, who=visitor.name)
    return redirect(_place(proposed))


Rows = Annotated[str, Form(max_length=12)]
FormKey = Annotated[str, Form(min_length=1, max_length=64)]


@router.post("/runs/{run}/patches/{patch}/apply")
def apply_patch(app: App, visitor: Applier, run: str, patch: str, rows: Rows, key: FormKey) -> RedirectResponse:
    """Have the patch applied if the number of rows that was typed is its own."""
    wanted = patches.request_apply(app.configured, app.store, patch, rows=_count(rows), who=visitor.name, idempotency=key)
    return redirect(_place(wanted))


@router.post("/runs/{run}/patches/{patch}/undo")
def undo_patch(app: App, visitor: Applier, run: str, patch: str, rows: Rows, key: FormKey) -> RedirectResponse:
    """Have the patch undone if the number of rows that was typed is the one that it wrote."""
    wanted = patches.request_undo(app.store, patch, rows=_count(rows), who=visitor.name, idempotency=key)
    return redirect(_place(wanted))


def _place(patch: StoredPatch) -> str:
    return f"{url('runs', patch.run)}?patch={patch.patch}#patch"


def _count(text: str) -> int:
    """Return the number that was typed, with or without thousands separators (1,000). Raises ConfigError."""
    digits = text.strip().replace(",", "")
    if not re.fullmatch(r"[0-9]{1,9}", digits):
        raise ConfigError(f"{text!r} is not a number of rows; write digits only, such as 1000")
    return int(digits)
