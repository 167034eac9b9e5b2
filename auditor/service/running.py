"""Run audits; what touches a store is in ``stored_runs``, so that a run that is not stored loads no store's library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from auditor.config import Settings
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.model import Report, describe_other_settings
from auditor.service import definitions
from auditor.service.definitions import apply_overrides, connections_of_run, without_own_settings

if TYPE_CHECKING:
    from auditor.store import Store


def run_audit(
    settings: Settings,
    name: str,
    on_progress: OnProgress = ignore_progress,
    store: Store | None = None,
    *,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
) -> Report:
    """Run one audit; with a ``store``, store the run and record the event.

    ``overrides`` are settings for this run alone; with ``keys`` or ``times`` (each with ``from``, ``to`` or both) the run compares that
    slice of the tables. A run with other settings than its audit's is a one-off run, which changes nothing of the audit's standing.

    Raises UnknownAudit, ConfigError for settings that may not be overridden, PlanError for a slice that the tables do not allow,
    AlreadyRunning, and StoreError if the run cannot be stored from its start; everything else that goes wrong is in the report.
    """
    if store is not None:
        from auditor.service import stored_runs

        return stored_runs.start(settings, store, name, overrides, on_progress, reason=reason, requested_by=requested_by)
    from auditor.run import audit_run  # which loads numpy

    configured = definitions.audit(settings, name)
    overrides = without_own_settings(configured, overrides)
    audit, slice = apply_overrides(configured, overrides)
    report = audit_run.run(name, audit, connections_of_run(settings, overrides), on_progress, slice)
    return replace(report, other_settings=describe_other_settings(overrides))
