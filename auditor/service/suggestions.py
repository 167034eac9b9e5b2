"""Add to a run's report what would repair its target, by what earlier patches of the audit took."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from auditor.config import Audit, Settings
from auditor.errors import StoreError
from auditor.history.handover import Outcome
from auditor.model import Report
from auditor.repair.suggestions import Rates, suggest
from auditor.store import patches

if TYPE_CHECKING:
    from auditor.store import Store

log = logging.getLogger(__name__)


def with_suggestions(settings: Settings, store: Store, audit: Audit, outcome: Outcome) -> Report:
    """Return a run's report with suggestions where rows differ; unchanged for an audit not configured, of a dump, or of shards."""
    report, target = outcome.report, outcome.schema.get("target")
    if report.audit not in settings.audits or audit.via or audit.shards or audit.target.connection not in settings.connections:
        return report
    try:
        measured = patches.measure_rate(store, report.audit)
    except StoreError as error:
        log.info("the rate of earlier patches is not known: %s", error, extra={"action": "suggestions"})
        measured = None
    rates = Rates(patched=measured) if measured else Rates()
    has_key = target is None or bool(target["primary_key"])
    suggestions = suggest(report, audit, settings.connections[audit.target.connection], rates, has_key)
    return dataclasses.replace(report, suggestions=suggestions)
