"""Whether an audit has verified a target up to a moment: what a gate before the next step of a data pipeline asks."""

from __future__ import annotations

import datetime as dt

from auditor.api_models.audit import Verification
from auditor.config import Settings
from auditor.errors import UnknownAudit
from auditor.history.audit_status import Standing
from auditor.model import Verdict
from auditor.report.formatting import moment
from auditor.service import audits, cron, definitions
from auditor.store import Store, audit_state
from auditor.store.runs import StoredRun


def verification(settings: Settings, store: Store, name: str, through: dt.datetime) -> Verification:
    """Return whether an audit of tables or segments has verified everything up to a moment; one without a zone is in UTC.

    A match within the audit's threshold verifies, as it does for the exit code of a run. While the last verdict is a mismatch nothing is
    verified, whatever was seen equal before: the next step would read the target as it is now. Raises UnknownAudit and StoreError.
    """
    through = through.replace(tzinfo=dt.UTC) if through.tzinfo is None else through.astimezone(dt.UTC)
    merged = audits.with_defined_audits(settings, store)
    if name not in merged.segments and definitions.audit(merged, name).via:
        legs = ", ".join(definitions.expand_legs(merged, [name]))
        raise UnknownAudit(f"{name!r} is audited via a dump and has no runs of its own; use both of its legs: {legs}")
    schedule = merged.segments[name].schedule if name in merged.segments else definitions.audit(merged, name).schedule
    standing = audits.get_standing(merged, store, name)
    is_paused = audit_state.is_paused(audit_state.get_states(store), name)
    due = next(iter(cron.next_times(schedule, dt.datetime.now(dt.UTC), 1, name)), None) if schedule and not is_paused else None
    reached = max((at for at in (standing.verified_through, standing.within_threshold_through) if at), default=None)
    if run := _mismatch_since(standing, through):
        found = f"run {run.run[:12]}, which began at {moment(run.started)}, found source and target different"
        outcome, sentence = "mismatch", f"{found}; see: auditor show {run.run[:12]}"
    elif reached and reached >= through and standing.verdict is not Verdict.MISMATCH:
        how = "" if standing.verified_through and standing.verified_through >= through else ", within the threshold that it allows"
        outcome, sentence = "verified", f"everything up to {moment(reached)} was seen equal{how}"
    else:
        outcome, sentence = "waiting", f"{_reached(reached)}; {_awaited(standing, due, is_paused)}"
    return Verification(
        audit=name,
        through=through,
        outcome=outcome,
        sentence=sentence,
        verified_through=standing.verified_through,
        within_threshold_through=standing.within_threshold_through,
        run=standing.run.run if standing.run else None,
        next_due=due,
    )


def _mismatch_since(standing: Standing, through: dt.datetime) -> StoredRun | None:
    """Return the run of the last verdict if it began at this moment or later and is a mismatch.

    A run that began before may have read rows that were still on their way. Of a rolling audit the run's own part must be different, since
    a difference in another part may have been mended before the moment.
    """
    run = standing.run
    is_mismatch = standing.verdict is Verdict.MISMATCH and run is not None and run.verdict is Verdict.MISMATCH
    return run if run and is_mismatch and run.started >= through else None


def _reached(reached: dt.datetime | None) -> str:
    return f"verified through {moment(reached)}" if reached else "nothing has been verified yet"


def _awaited(standing: Standing, due: dt.datetime | None, is_paused: bool) -> str:
    """Say what became of the last run, and which run may verify more."""
    last = standing.last_run or (f"the last verdict is {standing.verdict_label}" if standing.verdict else "")
    if standing.active:
        coming = f"run {standing.active.run[:12]} is {standing.active.state.value}"
    elif due:
        coming = f"the next run is due at {moment(due)}"
    elif is_paused:
        coming = "no run will come by itself, because the audit is paused"
    else:
        coming = "no run will come by itself, because the audit has no schedule"
    return "; ".join(filter(None, (last, coming)))
