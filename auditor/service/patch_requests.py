"""Patches over HTTP: propose one, ask for it to be applied or undone, and do what was asked for in a worker."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.config import Settings
from auditor.errors import AuditorError, EngineError, StoreError, UnknownPatch, UnknownRun
from auditor.history import records
from auditor.repair.facts import Accepted
from auditor.repair.keys import Selection
from auditor.service import notify, patches
from auditor.service.patches import Followed
from auditor.store import patch_requests, runs
from auditor.store import patches as stored_patches
from auditor.store.patches import Patch

if TYPE_CHECKING:
    from auditor.store import Store

log = logging.getLogger(__name__)


def propose(
    settings: Settings,
    store: Store,
    run: str,
    selection: Selection,
    accepted: Sequence[Accepted] = (),
    *,
    who: str,
    idempotency: str | None = None,
) -> Patch:
    """Read the rows of a run's differences anew, and store what a patch of them would change; nothing is written to the target.

    A repeated request with the same ``idempotency`` returns the first proposal. Raises UnknownRun, PatchRefused, RunOutdated,
    ValueRefused, PlanError and EngineError.
    """
    audited = runs.get_run(store, run)
    asked, patch = patches.to_asked(selection, accepted), patch_requests.proposal_id(who, idempotency)
    if earlier := patch_requests.find_proposal(store, patch, audited.run, asked):
        return earlier
    plan = patches.plan_patch(settings, store, audited.run, selection, accepted, dt.datetime.now(dt.UTC))
    detail = {"planned": plan.counts.total(), "kinds": dict(plan.counts), "asked": asked, "cannot_apply": plan.cannot_apply}
    values = {"patch": patch, "run": audited.run, "audit": audited.audit, "target": plan.target, "who": who}
    return patch_requests.save_proposal(store, **values, detail=detail, plan=plan.body)


def request_apply(settings: Settings, store: Store, patch: str, *, rows: int, who: str, idempotency: str) -> Patch:
    """Ask for a proposed patch of so many ``rows`` to be applied. Raises UnknownPatch, PatchRefused, RunOutdated and ConfigError."""
    requested = stored_patches.get_patch(store, patch)
    if requested.state == "proposed":
        patches.find_run(settings, store, requested.run)  # refuses one that is too old by now
    return patch_requests.request_apply(store, requested.patch, rows=rows, who=who, idempotency_key=idempotency)


def request_undo(store: Store, patch: str, *, rows: int, who: str, idempotency: str) -> Patch:
    """Ask for the rows that a patch wrote to be written back; return the undo. Raises UnknownPatch, PatchRefused and ConfigError."""
    return patch_requests.request_undo(store, patch, rows=rows, who=who, idempotency_key=idempotency)


def run_next(settings: Settings, store: Store, stopped: threading.Event) -> bool:
    """Claim the next requested patch and execute it, until ``stopped`` is set; return whether there was one. Raises StoreError."""
    claimed = patch_requests.claim_patch(store)
    if claimed is None:
        return False
    log.info("a patch begins", extra={"action": "patch_begun", "patch": claimed.patch, "run": claimed.run})
    try:
        result = patches.apply_claimed(settings, store, claimed, Followed(who=claimed.requested_by, stopped=stopped))
    except AuditorError as error:
        if isinstance(error, StoreError) and not isinstance(error, UnknownRun | UnknownPatch):
            patch_requests.release_patch(store, claimed.patch)  # it is settled once the store is there again
            raise
        _fail(store, claimed, _describe(store, claimed, error))
    except Exception as error:  # a failure of one patch must not stop the others
        log.exception("internal error", extra={"action": "patch_failed", "patch": claimed.patch})
        _fail(store, claimed, f"internal error ({type(error).__name__}); see the log of the auditor")
    else:
        if result.after:
            notify.notify_run(settings.notify, store, result.after, evidence=settings.evidence)
    ended = stored_patches.get_patch(store, claimed.patch)
    if ended.state == "running":  # it is settled later
        return True
    notify.notify_patch(settings.notify, store, ended, patches.describe_counts(ended.detail))
    return True


def settle_dead(settings: Settings, store: Store) -> None:
    """Find out what became of patches whose process died, and log it. Raises StoreError."""
    for sentence in patches.settle_dead(settings, store) if stored_patches.list_dead(store) else ():
        log.warning("%s", sentence, extra={"action": "patch_settled"})


def _fail(store: Store, claimed: Patch, why: str) -> None:
    """Store why a patch failed, unless that is known already, or it is not known whether its last batch was committed."""
    log.warning("a patch failed: %s", why, extra={"action": "patch_failed", "patch": claimed.patch})
    if stored_patches.get_patch(store, claimed.patch).state != "running":
        return
    if any(batch.state in ("prepared", "committed") for batch in stored_patches.list_batches(store, claimed.patch)):
        patch_requests.release_patch(store, claimed.patch)  # it is settled as if its process had died
        return
    stored_patches.end_patch(store, claimed.patch, "failed", {"why": why})


def _describe(store: Store, claimed: Patch, error: AuditorError) -> str:
    """Return an error's message, unless it is a server's, which may show values, and the audit masks columns."""
    report = records.load_report(store, claimed.run, max_differences=0)
    masks = report is None or report.plan is None or any(column.masked for column in report.plan.columns)
    return type(error).__name__ if masks and isinstance(error, EngineError) else str(error)
