"""Bootstraps by schedule: which are due, each claimed by one process."""

from __future__ import annotations

import datetime as dt

from auditor.config import Schedule, Settings
from auditor.service import audits, cron
from auditor.service.scheduler import MISSED_AFTER
from auditor.store import Store, audit_state, schedule_claims


def claim_due(settings: Settings, store: Store, now: dt.datetime, by: str) -> list[str]:
    """Claim the due bootstraps of ``schedule: {bootstrap: ...}``, and return their audits. Raises StoreError.

    As for runs, only the last of several missed ticks counts, and an audit without any claim has missed nothing. Paused audits are skipped.
    """
    due, states = [], audit_state.get_states(store)
    for name, audit in audits.with_defined_audits(settings, store).audits.items():
        if audit.schedule is None or not audit.schedule.bootstrap or audit_state.is_paused(states, name):
            continue
        schedule, claimed_as = _ticks(audit.schedule), f"bootstrap of {name}"
        tick = cron.last_tick(schedule, now, claimed_as)
        if tick is None or schedule_claims.list_claimed_audits(store, {claimed_as: tick}, now):
            continue
        is_on_time = now - tick - cron.jitter_offset(schedule, claimed_as) <= MISSED_AFTER
        was_known = bool(schedule_claims.list_audits_with_claims(store, [claimed_as]))
        is_due = is_on_time or (was_known and schedule.catch_up == "last")
        if schedule_claims.claim_tick(store, claimed_as, tick, by if is_due else f"{by}: first seen") and is_due:
            due.append(name)
    return due


def _ticks(schedule: Schedule) -> Schedule:
    """Return the schedule of an audit's bootstraps."""
    assert schedule.bootstrap
    return schedule.model_copy(update={"cron": schedule.bootstrap, "bootstrap": None})
