"""Print, apply, request and undo patches, each by an audit's run, and show what they changed row by row."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from auditor import canonical
from auditor.api_models.repair import Patch as ShownPatch
from auditor.api_models.repair import PatchOutcome, PatchProgress, PatchRow, Texts
from auditor.config import Audit, Settings
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.errors import AuditorError, EngineError, PatchRefused, RunOutdated, StoreError, StoreUnavailable, UnknownPatch, UnknownRun
from auditor.history import records
from auditor.masking import as_shown
from auditor.model import DifferenceKind, Report
from auditor.quantities import plural
from auditor.repair import patching, proposal, script
from auditor.repair.apply import ApprovablePlan
from auditor.repair.keys import Selection
from auditor.repair.patching import Job, Patched
from auditor.repair.script import Format
from auditor.repair.target_facts import ACCEPTABLE, Accepted
from auditor.service import audits, definitions, running
from auditor.service.definitions import definition_of_run
from auditor.store import patches, repairs, runs
from auditor.store.patches import JournalColumns, JournalRow, Patch
from dialects import Kind

if TYPE_CHECKING:
    from auditor.store import Store
    from auditor.store.runs import StoredRun


def print_patch(
    settings: Settings,
    store: Store,
    what: str,
    selection: Selection,
    form: Format,
    *,
    accepted: Sequence[Accepted] = (),
    on_progress: OnProgress = ignore_progress,
) -> Iterator[str]:
    """Yield the text of the patch of a run, or of the last run of an audit, piece by piece. Nothing is written.

    Raises UnknownRun, PatchRefused, RunOutdated, ValueRefused, PlanError and EngineError.
    """
    audit, report = find_run(settings, store, what)
    with proposal.propose(store, report, audit, settings.connections, selection, accepted, on_progress) as proposed:
        made = f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
        yield from script.print_patch(proposed, form, made)


@dataclass(frozen=True, slots=True)
class Followed:
    """How a patch is asked for, followed and stopped."""

    who: str = ""
    accepted: Sequence[Accepted] = ()
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set once no further batch may begin."""
    on_progress: OnProgress = ignore_progress


NOBODY = Followed()
"""A patch that nobody follows or stops."""


@dataclass(frozen=True, slots=True)
class PatchResult:
    """What a patch or its undo did, and the run that looked at its rows afterwards (None after a dry run, or where nothing was changed)."""

    patched: Patched
    after: Report | None
    settled: tuple[str, ...]
    """Sentences about earlier patches whose process had died, and what was found of them."""
    not_audited: str = ""
    """Why no run looked at the rows afterwards."""


def apply_patch(
    settings: Settings, store: Store, what: str, selection: Selection, followed: Followed = NOBODY, *, dry_run: bool = False
) -> PatchResult:
    """Apply the patch of a run, or of the last run of an audit, and audit the touched rows again; a dry run rolls everything back.

    Raises UnknownRun, PatchRefused, RunOutdated, ValueRefused and ConfigError with nothing written; PatchFailed and EngineError, after
    which the batches before stay and are journalled.
    """
    settled = settle_dead(settings, store, followed)
    audit, report = find_run(settings, store, what)
    patched = patching.apply_patch(_job(settings, store, audit, report, followed), selection, dry_run=dry_run)
    after, why = _audit_again(settings, store, report, patched, followed) if patched.patch else (None, "")
    return PatchResult(patched, after, settled, why)


def undo_patch(settings: Settings, store: Store, patch: str, followed: Followed = NOBODY) -> PatchResult:
    """Write the rows of a patch back as they were, and audit them again. Raises UnknownPatch, and what `apply_patch` raises."""
    settled = settle_dead(settings, store, followed)
    original = patches.get_patch(store, patch)
    audit, report = _load_run(settings, store, original.run)
    patched = patching.undo_patch(_job(settings, store, audit, report, followed), original)
    after, why = _audit_again(settings, store, report, patched, followed)
    return PatchResult(patched, after, settled, why)


def describe_undo(settings: Settings, store: Store, patch: str) -> Iterator[str]:
    """Yield what an undo of a patch would write back, a line for each row, from its journal. No database is asked.

    Raises UnknownPatch and PatchRefused.
    """
    original = patches.get_patch(store, patch)
    patching.check_undo(store, original, settings.keep.journal_key or "")
    written = [row for row in list_rows(store, original) if row.outcome == "written"]
    yield f"undo of patch {original.patch}: {plural(len(written), 'row')} of {original.audit}; those that were changed since are left"
    for row in written:
        key = ", ".join(f"{name} {text}" for name, text in row.key.items())
        if row.kind == "missing":
            yield f"  {key}: deleted again"
        elif row.kind == "extra":
            yield f"  {key}: inserted again"
        else:
            changes = (f"{name} from {_text(row.new, name)} to {_text(row.old, name)}" for name in row.columns)
            yield f"  {key}: {', '.join(changes)}"


def _text(texts: Texts | None, name: str) -> str:
    text = (texts or {}).get(name)
    return "NULL" if text is None else text


def apply_claimed(settings: Settings, store: Store, claimed: Patch, followed: Followed) -> PatchResult:
    """Apply or undo a patch that was requested, and that this process has claimed; audit its rows again.

    Raises what `apply_patch` raises.
    """
    if claimed.undoes:
        original = patches.get_patch(store, claimed.undoes)
        audit, report = _load_run(settings, store, claimed.run)
        patched = patching.undo_patch(_job(settings, store, audit, report, followed, claimed.patch), original)
    else:
        plan = patches.get_plan(store, claimed.patch)
        if plan is None:
            raise PatchRefused(f"the rows of patch {claimed.patch} were dropped from the store; propose it again")
        audit, report = find_run(settings, store, claimed.run)
        selection, accepted = from_asked(claimed.detail["asked"])
        job = _job(settings, store, audit, report, replace(followed, accepted=accepted), claimed.patch)
        patched = patching.apply_approved(job, selection, plan["rows"])
    if followed.stopped.is_set():  # the service is shutting down
        why = "the patched rows were not audited again, as the service was stopped"
        patches.save_after(store, patched.patch, None, why)
        return PatchResult(patched, None, (), why)
    after, why = _audit_again(settings, store, report, patched, followed)
    return PatchResult(patched, after, (), why)


class AskedSelection(TypedDict):
    """A `Selection` as the store has it."""

    only: DifferenceKind | None
    first: int | None
    last: int | None
    columns: list[str]
    limit: int | None
    delete_extra: bool
    column: NotRequired[str]
    key: NotRequired[str]


class Asked(TypedDict):
    """What was asked of a proposal, as the store has it."""

    selection: AskedSelection
    accepted: list[Accepted]


def to_asked(selection: Selection, accepted: Sequence[Accepted]) -> Asked:
    """Return what was asked of a proposal, as the store has it."""
    chosen: AskedSelection = {
        "only": selection.only,
        "first": selection.first,
        "last": selection.last,
        "columns": list(selection.columns),
        "limit": selection.limit,
        "delete_extra": selection.delete_extra,
        "column": selection.column,
        "key": selection.key,
    }
    return {"selection": chosen, "accepted": list(accepted)}


def from_asked(asked: Asked) -> tuple[Selection, Sequence[Accepted]]:
    """Return what was asked of a proposal in the store."""
    chosen: dict[str, Any] = {**asked["selection"], "columns": tuple(asked["selection"]["columns"])}
    return Selection(**chosen), tuple(asked["accepted"])


def plan_patch(
    settings: Settings, store: Store, run: str, selection: Selection, accepted: Sequence[Accepted], made: dt.datetime
) -> ApprovablePlan:
    """Return what a patch of a run would change, row by row. Raises what `print_patch` raises."""
    audit, report = find_run(settings, store, run)
    job = _job(settings, store, audit, report, Followed(accepted=accepted))
    return patching.plan_patch(job, selection, f"{made:%Y-%m-%d %H:%M:%S} UTC")


def most_rows(settings: Settings, store: Store, report: Report) -> int | None:
    """Return how many rows one patch of a run may change; None if its audit is no longer configured. Raises StoreError."""
    audit = audits.with_defined_audits(settings, store).audits.get(report.audit)
    return patching.most_rows(report, settings.connections[audit.target.connection].write or patching.NO_WRITE) if audit else None


def settle_dead(settings: Settings, store: Store, followed: Followed = NOBODY) -> tuple[str, ...]:
    """Find out what became of patches whose process died; return a sentence of each. Raises StoreError.

    One that cannot be settled now stays at work in the store, so that its table is not patched before it is.
    """
    sentences = []
    for dead in patches.list_dead(store):
        try:
            audit, report = _load_run(settings, store, dead.run)
            counts = patching.settle_patch(_job(settings, store, audit, report, replace(followed, accepted=ACCEPTABLE)), dead)
        except StoreUnavailable:
            raise
        except AuditorError as error:
            sentences.append(f"patch {dead.patch} of {dead.audit} was killed, and what became of it cannot be found out now: {error}")
        else:
            sentences.append(f"patch {dead.patch} of {dead.audit} was killed: {describe_counts(counts)}; audit it again")
    return tuple(sentences)


def list_patches(store: Store, run: str) -> list[Patch]:
    """Return the patches of a run, oldest first."""
    return patches.list_patches(store, run)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return numbers of rows for a person: ``3 updated, 1 left``."""
    names = ("updated", "inserted", "deleted", "left", "taken back", "equal")
    return ", ".join(f"{counts[name]:,} {name}" for name in names if counts.get(name)) or "nothing was written"


def find_run(settings: Settings, store: Store, what: str) -> tuple[Audit, Report]:
    """Return the run with this id, or the last one of the audit of this name, and its audit.

    Raises UnknownRun, PatchRefused for one that found nothing to patch, and RunOutdated.
    """
    stored = _stored_run(settings, store, what)
    audit, report = _load_run(settings, store, stored.run)
    settings = definitions.settings_for_run(audits.with_defined_audits(settings, store), stored)
    if definition_of_run(settings, audit) != stored.definition:
        raise RunOutdated(
            f"the settings of {stored.audit}, or the databases of its connections, changed since run {stored.run}; run it again"
        )
    audit.one_source("a patch")
    audit.check_plain("a patch")
    write = settings.connections[audit.target.connection].write
    age = (dt.datetime.now(dt.UTC) - (stored.ended or stored.started)).total_seconds()
    most = write.max_age if write else DEFAULT_MAX_AGE
    if age > most:
        raise RunOutdated(
            f"run {stored.run} is {age / 3600:.0f} hours old, and patches are made of runs of the last {most / 3600:g} hours;"
            f" run {stored.audit} again"
        )
    return audit, report


DEFAULT_MAX_AGE = 86400.0
"""Seconds beyond which a run is too old to print a patch from, where the target's connection has no ``write``."""


def _load_run(settings: Settings, store: Store, run: str) -> tuple[Audit, Report]:
    stored = runs.get_run(store, run)
    settings = definitions.settings_for_run(audits.with_defined_audits(settings, store), stored)
    audit = definitions.audit(settings, stored.audit)
    if audit.via or stored.audit not in settings.audits:
        raise PatchRefused(f"{stored.audit} compares a dump, which is older than its source; audit the source itself, and patch from that")
    report = records.load_report(store, stored.run)
    if report is None or stored.ended is None:
        raise PatchRefused(f"run {stored.run} has not ended; wait for it, or start another one")
    return audit, report


def _stored_run(settings: Settings, store: Store, what: str) -> StoredRun:
    latest = runs.list_runs(store, audit=what, state="done", limit=1)
    if latest:
        return latest[0]
    return audits.find_run(settings, store, what)


def _job(settings: Settings, store: Store, audit: Audit, report: Report, followed: Followed, claimed: str = "") -> Job:
    return Job(
        store,
        report,
        audit,
        settings.connections,
        followed.who,
        followed.accepted,
        followed.stopped,
        followed.on_progress,
        claimed,
        settings.keep.journal_key or "",
    )


def audit_keys_again(
    settings: Settings, store: Store, report: Report, keys: tuple[int, int] | None, followed: Followed, reason: str
) -> Report:
    """Run the audit of a report over the touched keys, from the first to the last, or over the whole table where keys have no order (None).

    Raises what a run raises before it begins, a class of AuditorError.
    """
    return running.run_audit(
        audits.with_defined_audits(settings, store),
        report.audit,
        followed.on_progress,
        store,
        reason=reason,
        requested_by=followed.who,
        overrides={"keys": {"from": keys[0], "to": keys[1]}} if keys else {},
    )


def _audit_again(settings: Settings, store: Store, report: Report, patched: Patched, followed: Followed) -> tuple[Report | None, str]:
    """Audit the touched keys again, or the whole table where keys have no order; let run, patch and result point at each other."""
    if not patched.counts.total() - patched.counts["equal"]:
        return None, ""
    try:
        reason = f"check after patch {patched.patch[:12]} of run {report.run[:12]}"
        after = audit_keys_again(settings, store, report, patched.keys, followed, reason)
    except AuditorError as error:
        why = f"the patched rows were not audited again: {error}"
        patches.save_after(store, patched.patch, None, why)
        return None, why
    patches.save_after(store, patched.patch, after.run)
    note = f"patch {patched.patch[:12]}: {describe_counts(patched.counts)}; run {after.run[:12]} checked them again: {after.verdict.value}"
    rows = patched.counts.total() - patched.counts["equal"] - patched.counts["left"]
    repairs.record_repair(store, run=report.run, audit=report.audit, kind="patch", note=note, who=followed.who, rows=rows)
    return after, ""


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
    asked, patch = to_asked(selection, accepted), patches.proposal_id(who, idempotency)
    if earlier := patches.find_proposal(store, patch, audited.run, asked):
        return earlier
    plan = plan_patch(settings, store, audited.run, selection, accepted, dt.datetime.now(dt.UTC))
    detail = {"planned": plan.counts.total(), "kinds": dict(plan.counts), "asked": asked, "cannot_apply": plan.cannot_apply}
    values = {"patch": patch, "run": audited.run, "audit": audited.audit, "target": plan.target, "who": who}
    return patches.save_proposal(store, **values, detail=detail, plan=plan.body)


def request_apply(settings: Settings, store: Store, patch: str, *, rows: int, who: str, idempotency: str) -> Patch:
    """Ask for a proposed patch of so many ``rows`` to be applied. Raises UnknownPatch, PatchRefused, RunOutdated and ConfigError."""
    requested = patches.get_patch(store, patch)
    if requested.state == "proposed":
        find_run(settings, store, requested.run)  # refuses one that is too old by now
    return patches.request_apply(store, requested.patch, rows=rows, who=who, idempotency_key=idempotency)


def request_undo(store: Store, patch: str, *, rows: int, who: str, idempotency: str) -> Patch:
    """Ask for the rows that a patch wrote to be written back; return the undo. Raises UnknownPatch, PatchRefused and ConfigError."""
    return patches.request_undo(store, patch, rows=rows, who=who, idempotency_key=idempotency)


def run_next(settings: Settings, store: Store, stopped: threading.Event) -> bool:
    """Claim the next requested patch and execute it, until ``stopped`` is set; return whether there was one. Raises StoreError."""
    from auditor.service import notify  # which loads what only workers need

    claimed = patches.claim_patch(store)
    if claimed is None:
        return False
    log.info("a patch begins", extra={"action": "patch_begun", "patch": claimed.patch, "run": claimed.run})
    try:
        result = apply_claimed(settings, store, claimed, Followed(who=claimed.requested_by, stopped=stopped))
    except AuditorError as error:
        if isinstance(error, StoreError) and not isinstance(error, UnknownRun | UnknownPatch):
            patches.release_patch(store, claimed.patch)  # it is settled once the store is there again
            raise
        _fail(store, claimed, _describe(store, claimed, error))
    except Exception as error:  # a failure of one patch must not stop the others
        log.exception("internal error", extra={"action": "patch_failed", "patch": claimed.patch})
        _fail(store, claimed, f"internal error ({type(error).__name__}); see the log of the auditor")
    else:
        if result.after:
            notify.notify_of_run(settings, store, result.after)
    ended = patches.get_patch(store, claimed.patch)
    if ended.state == "running":  # it is settled later
        return True
    notify.notify_patch(settings, store, ended, describe_counts(ended.detail))
    return True


def log_settled(settings: Settings, store: Store) -> None:
    """Find out what became of patches whose process died, and log it. Raises StoreError."""
    for sentence in settle_dead(settings, store) if patches.list_dead(store) else ():
        log.warning("%s", sentence, extra={"action": "patch_settled"})


def _fail(store: Store, claimed: Patch, why: str) -> None:
    """Store why a patch failed, unless that is known already, or it is not known whether its last batch was committed."""
    log.warning("a patch failed: %s", why, extra={"action": "patch_failed", "patch": claimed.patch})
    if patches.get_patch(store, claimed.patch).state != "running":
        return
    if any(batch.state in ("prepared", "committed") for batch in patches.list_batches(store, claimed.patch)):
        patches.release_patch(store, claimed.patch)  # it is settled as if its process had died
        return
    patches.end_patch(store, claimed.patch, "failed", {"why": why})


def _describe(store: Store, claimed: Patch, error: AuditorError) -> str:
    """Return an error's message, unless it is a server's, which may show values, and the audit masks columns."""
    report = records.load_report(store, claimed.run, max_differences=0)
    masks = report is None or report.plan is None or any(column.masked for column in report.plan.columns)
    return type(error).__name__ if masks and isinstance(error, EngineError) else str(error)


def describe(store: Store, patch: Patch) -> ShownPatch:
    """Return the status of a patch. Raises StoreError."""
    from auditor.report.listing import WRITTEN

    detail, undo = patch.detail, patches.find_undo(store, patch.patch)
    total = detail.get("planned", 0)
    done = total if patch.state in ("done", "undone") else count_done(store, patch)
    return ShownPatch(
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


def list_rows(store: Store, patch: Patch) -> list[PatchRow]:
    """Return the rows of a patch. Raises PatchRefused if they were dropped."""
    plan = patches.get_plan(store, patch.patch)
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


def get_script(store: Store, patch: Patch) -> str:
    """Return the SQL of a proposed patch. Raises PatchRefused where a masked column would be shown, or it was not proposed."""
    plan = patches.get_plan(store, patch.patch)
    if plan is None:
        raise PatchRefused(f"patch {patch.patch} has no script: it was not proposed over HTTP, or its rows were dropped")
    if plan["script"] is None:
        name = plan["columns"]["masked"][0]
        raise PatchRefused(f"the column {name!r} is masked, and a masked column is never shown; the patch can only be applied")
    return plan["script"]


def count_done(store: Store, patch: Patch) -> int:
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
    return {name: as_shown(canonical.readable(Kind(kind[0], scale=kind[1]), text), name in masked) for name, kind, text in columns}
