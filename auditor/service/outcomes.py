"""How runs that are stored end: with their evidence, if there is a key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from auditor.config import Settings
from auditor.errors import ConfigError, StoreError
from auditor.history import records
from auditor.history.handover import Outcome
from auditor.model import Report
from auditor.service import incidents
from auditor.store import Store

log = logging.getLogger(__name__)

SaveOutcome = Callable[[Store, Outcome, Settings], None]
"""Stores how a run ended. Raises StoreError."""


def save_outcome(store: Store, outcome: Outcome, settings: Settings) -> None:
    """Store how a run ended, with its evidence, up to when its audit is verified, and its incident; then publish the head.

    Raises StoreError.
    """
    seal = None
    if settings.evidence:
        from auditor.service import evidence  # which loads a library of ciphers

        try:
            seal = evidence.get_seal(settings)
        except ConfigError as error:  # its key was there when the run began
            outcome.report = _with_notes(outcome.report, [f"this run has no evidence: {error}"])
            log.warning("the run has no evidence: %s", error, extra={"action": "no_evidence", "run": outcome.report.run})
    ended = outcome.report

    def save(_: object) -> None:
        outcome.save_costs()
        outcome.report = records.with_verified_through(store, ended)
        records.save_result(store, outcome, seal)

    store.write(save)
    records.prune_at_times(store, settings.keep)
    try:
        incidents.follow_run(store, outcome.report)
    except StoreError as error:  # the run is stored, and a second attempt would find that it no longer belongs to this process
        outcome.report = _with_notes(outcome.report, [f"its incident was not updated, which the next run does: {error}"])
        log.warning("the incident was not updated: %s", error, extra={"action": "incident_failed", "run": outcome.report.run})
    if seal:
        outcome.report = _with_notes(outcome.report, evidence.publish_head(settings, store, outcome.report.audit))


def _with_notes(report: Report, notes: Sequence[str]) -> Report:
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def check_evidence(settings: Settings) -> None:
    """Check, before a run begins, that its evidence can be signed. Raises ConfigError."""
    if settings.evidence:
        from auditor.service import evidence

        evidence.get_key(settings)
