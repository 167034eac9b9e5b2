"""Metrics of segment audits, from the store: the same whichever process reports them. docs/segments.md lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric

from auditor.api.dependencies import AppState
from auditor.history.status import STATUSES
from auditor.model import FindingKind
from auditor.service import segment_audits


def collect(app: AppState) -> Iterator[Metric]:
    """Yield the metrics of all segment audits. Raises StoreError."""
    overviews = [segment_audits.overview(app.configured, app.store, name) for name in sorted(app.configured.segments)]
    help = "1 for the segment audit's status, 0 for the others."
    status = GaugeMetricFamily("auditor_segments_status", help, labels=["audit", "status"])
    help = "Seconds since a side is awaited that lacks a segment of the other; 0 if none."
    lag = GaugeMetricFamily("auditor_segments_lag_seconds", help, labels=["audit", "side"])
    limit = GaugeMetricFamily("auditor_segments_max_lag_seconds", "Seconds for which a side may be awaited: max_lag.", labels=["audit"])
    wrong = GaugeMetricFamily("auditor_segments_findings", "Stretches that two sides do not have alike.", labels=["audit", "kind"])
    equal = GaugeMetricFamily("auditor_segments_matches", "Pairs of equal segments in the register.", labels=["audit"])
    for overview in overviews:
        for name in STATUSES:
            status.add_metric([overview.name, name], float(overview.standing.status == name))
        for number, side in enumerate(overview.sides):
            lag.add_metric([overview.name, side], max((table.lags[number] for table in overview.tables), default=0.0))
        limit.add_metric([overview.name], overview.audit.max_lag)
        kinds = [finding.kind for table in overview.tables for finding in table.findings]
        for kind in get_args(FindingKind):
            wrong.add_metric([overview.name, kind], kinds.count(kind))
        equal.add_metric([overview.name], sum(table.state.matches for table in overview.tables))
    yield from (status, lag, limit, wrong, equal)
