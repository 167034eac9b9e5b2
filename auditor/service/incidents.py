"""Incidents: opened by an audit's mismatch, closed by its recovery, and acknowledged or muted by people in between.

The verdict of an audit is not changed by an acknowledgement. What follows it is who is told: notifications, metrics and the overview.
"""

from __future__ import annotations

import datetime as dt
import logging
from typing import TYPE_CHECKING

from auditor.compare.verdict import compute_bounds, exceeds_warning
from auditor.config import Settings
from auditor.errors import ConfigError, UnknownRun
from auditor.model import Report, State, Verdict
from auditor.service import definitions
from auditor.store import Store, audit_state, incidents, runs
from auditor.store.runs import ad_hoc_audit

if TYPE_CHECKING:
    from auditor.api_models.incident import Acknowledgement, Covered, Incident, Severity

log = logging.getLogger(__name__)

OWN_ACTOR = "auditor"
"""The actor of events that no person caused."""


def acknowledge(
    settings: Settings,
    store: Store,
    audit: str,
    *,
    by: str,
    why: str,
    muted: bool = False,
    until: dt.datetime | None = None,
    differences: Covered = "all",
) -> Incident:
    """Acknowledge an audit's open incident, or mute it, and record the event; an earlier acknowledgement is replaced.

    ``until`` is when it ends, by default with the incident. With ``differences="known"`` it ends with the first run that finds a
    differing row that is not known now. Raises UnknownAudit, NoIncident, and ConfigError without a reason or with a time in the past.
    """
    check_name(settings, store, audit)
    if not why.strip():
        raise ConfigError("say why, so that others know")
    if until is not None and until <= dt.datetime.now(dt.UTC):
        raise ConfigError(f"{until:%Y-%m-%d %H:%M:%S} UTC is in the past; choose a later time")
    return incidents.acknowledge(store, audit, by=by, why=why, muted=muted, until=until, differences=differences)


def withdraw(settings: Settings, store: Store, audit: str, *, by: str) -> Incident:
    """End the acknowledgement of an audit's open incident, and record the event. Raises UnknownAudit and NoIncident."""
    check_name(settings, store, audit)
    return incidents.end_acknowledgement(store, audit, by=by, why="withdrawn")


def check_name(settings: Settings, store: Store, audit: str) -> None:
    """Raise UnknownAudit for a name that no audit of tables or of segments has."""
    from auditor.service.audits import with_defined_audits  # which loads what lists of audits need

    if audit not in settings.segments:
        definitions.audit(with_defined_audits(settings, store), audit)


def follow_run(store: Store, report: Report) -> None:
    """Open, update or close the incident of a stored run's audit, as the audit stands after it. Raises StoreError.

    Runs that failed or were cancelled, one-off and ad-hoc runs change nothing. A verdict unknown neither opens nor closes an incident.
    """
    if report.state is not State.DONE or report.other_settings or report.audit == ad_hoc_audit(report.run):
        return
    before = incidents.get_open(store, report.audit)
    read_all_equal = report.verdict is Verdict.MATCH and not report.within_threshold and not (report.plan and report.plan.partition_ranges)
    if before is None and read_all_equal:
        return  # as nearly always: then the audit stands at this match, or at what a later run will follow itself
    severity = _find_severity(store, report)
    if severity is not None:
        incidents.record_found(store, report.audit, report.run, severity)
        if before and before.acknowledgement and (why := _why_over(store, before.acknowledgement, report)):
            incidents.end_acknowledgement(store, report.audit, by=OWN_ACTOR, why=why)
            audit_state.update_state(store, report.audit, notified_at=None)  # so that the channels are notified again at once
            log.info("an acknowledgement ended: %s", why, extra={"action": "acknowledgement_ended", "audit": report.audit})
    elif before and report.verdict is Verdict.MATCH and _is_over(store, before, report):
        incidents.close(store, report.audit, report.run)


def _find_severity(store: Store, report: Report) -> Severity | None:
    """Return how grave it is what the audit stands at after a run; None if that is a match, or unknown."""
    from auditor.history.audit_status import load_standing  # which a run that found no difference does not need

    standing = load_standing(store, report.audit, None, {}, dt.datetime.now(dt.UTC))
    is_stored = standing.run is not None and standing.run.run == report.run
    if (standing.verdict if is_stored else report.verdict) is Verdict.MISMATCH:
        return "mismatch"
    if not is_stored or standing.threshold is None or not report.within_threshold or report.comparison is None or report.jaccard is None:
        return None
    bounds = compute_bounds(report.comparison, report.jaccard, report.differences)
    return "warning" if exceeds_warning(standing.threshold, bounds) else None


def _is_over(store: Store, incident: Incident, report: Report) -> bool:
    """Return whether all that differed was seen equal again: counts alone do not show changed values that another method named."""
    from auditor.history.audit_status import has_recovered  # which a run needs only while an incident is open

    if not has_recovered(store, report):
        return False
    return report.method != "counts" or _method_of(store, incident.last_run) in (None, "counts")


def _method_of(store: Store, run: str) -> str | None:
    try:
        return runs.get_run(store, run).method
    except UnknownRun:  # pruned
        return None


def _why_over(store: Store, acknowledgement: Acknowledgement, report: Report) -> str:
    """Return why an acknowledgement of known differences ends with a run; '' if it holds. What cannot be told counts as new."""
    if acknowledgement.differences == "all":
        return ""
    from auditor.service.difference_changes import compare_runs  # which loads how differences are shown

    try:
        changes = compare_runs(store, acknowledgement.run, report.run, shown=0)
    except UnknownRun:  # pruned
        return f"what differed in run {acknowledgement.run[:12]} is no longer stored"
    if changes.new:
        return f"run {report.run[:12]} found {changes.new:,} {'difference' if changes.new == 1 else 'differences'} more than were known"
    return "" if changes.certain else f"whether differences are new is not known: {'; '.join(changes.reasons)}"
