"""Metrics for Prometheus: the status of each audit, from the store, and counters of this process.

Gauges about audits are read from the store at each scrape, so every process reports the same: aggregate over instances with ``max``,
not ``sum``. Counters of ended runs also cover the runs of all processes, from the start of the reporting process.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from auditor import telemetry
from auditor.api import pipeline_metrics, segment_metrics
from auditor.api.dependencies import AppState
from auditor.api.finished_runs import FinishedRuns
from auditor.config import Threshold
from auditor.errors import StoreError, UnknownRun
from auditor.history import records
from auditor.history.status import STATUSES
from auditor.model import SIDES, Report, State, Verdict
from auditor.service import audits
from auditor.service.audits import Overview
from auditor.store import patch_requests, queue, runs
from auditor.store.runs import StoredRun

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Upper bounds of the run duration's buckets, in seconds."""


class Metrics(Collector):
    """A collector that reads the store at each scrape."""

    def __init__(self, app: AppState) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._finished = FinishedRuns(app.store, dt.datetime.now(dt.UTC))
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._buckets: dict[tuple[str, str], Counter[float]] = {}
        self._bytes: Counter[tuple[str, ...]] = Counter()
        self._rows: Counter[tuple[str, ...]] = Counter()
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        with self._lock:
            return generate_latest(self._registry)

    def describe(self) -> Sequence[Metric]:
        """Return no descriptions, because that would require reading the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families; if the store cannot be read, only ``auditor_store_up`` (0) and the counters of this process."""
        try:
            families = [*self._audits(), *self._queue(), *self._ended(), *pipeline_metrics.collect(self._app)]
            families += segment_metrics.collect(self._app)
            store_up = 1
        except StoreError:
            families, store_up = [], 0
        yield _gauge("auditor_store_up", "1 if the store can be read, else 0.", [], [((), store_up)])
        yield from families
        yield from _process_counters()

    def _audits(self) -> Iterator[Metric]:
        overviews = audits.overview(self._app.configured, self._app.store, trends=False)
        judged = [(overview.name, overview.standing.run) for overview in overviews if overview.standing.run]

        def each(name: str, help: str, field: str) -> Metric:
            return _gauge(name, help, ["audit"], [((audit,), value) for audit, run in judged if (value := getattr(run, field)) is not None])

        yield each(
            "auditor_score",
            "Score of the last verdict, 0 to 1, as compared with the threshold: the similarity; of the method counts the published score.",
            "score",
        )
        yield each("auditor_score_lower", "Lower bound of the score.", "lower")
        yield each("auditor_score_upper", "Upper bound of the score.", "upper")
        yield each("auditor_published_score", "The published score of the last verdict's run, an average over partitions.", "published")
        yield each("auditor_coverage", "Share of rows, between 0 and 1, that the run of the last verdict compared.", "coverage")
        yield each("auditor_last_run_duration_seconds", "Duration of the run of the last verdict.", "seconds")
        kinds = [
            ((audit, kind), getattr(run, kind))
            for audit, run in judged
            for kind in ("missing", "extra", "changed", "unsettled")
            if getattr(run, kind) is not None
        ]
        yield _gauge("auditor_differing_rows", "Differing rows of the last verdict's run, by kind.", ["audit", "kind"], kinds)
        yield from _standings(overviews)

    def _queue(self) -> Iterator[Metric]:
        active = runs.get_active_runs(self._app.store)
        running = [run for run in active.values() if run.state is State.RUNNING]
        yield _gauge("auditor_queue_depth", "Runs waiting for a worker.", [], [((), queue.count_waiting(self._app.store))])
        yield _gauge("auditor_patches_waiting", "Patches waiting for a worker.", [], [((), patch_requests.count_waiting(self._app.store))])
        yield _gauge("auditor_queue_limit", "Largest number of runs that may wait.", [], [((), self._app.configured.service.queue)])
        yield _gauge("auditor_running_runs", "Running runs, over all processes.", [], [((), len(running))])
        waits: dict[tuple[str, ...], float] = {}
        for run in running:
            for side in SIDES:
                waits[_audit_label(run), side] = max(float(_is_waiting(run, side)), waits.get((_audit_label(run), side), 0.0))
        yield _gauge("auditor_database_waiting", "1 while a side of a run waits for its database.", ["audit", "side"], [*waits.items()])
        busy = [((), float(len(self._app.workers.running())))] if self._app.workers else []
        yield _gauge("auditor_workers_busy", "Runs that workers of this process are executing.", [], busy)

    def _ended(self) -> Iterator[Metric]:
        for run in self._finished.new():
            report = _load_report(self._app, run)  # before counting: if this fails, the next scrape yields the run again
            audit = _audit_label(run)
            self._runs[audit, run.state.value, run.verdict.value, "other" if run.is_one_off else "own"] += 1
            if run.seconds is not None:
                self._observe(audit, run.method or "", run.seconds)
            if report:
                self._add_cost(audit, report)
        names = ["audit", "state", "verdict", "settings"]
        yield _counter("auditor_runs", "Runs that ended, with their audit's own settings or with other ones.", names, self._runs)
        yield _counter("auditor_received_bytes", "Bytes that ended runs received.", ["audit", "connection", "side"], self._bytes)
        yield _counter(
            "auditor_scanned_rows", "Rows that databases summarised for ended runs.", ["audit", "connection", "side"], self._rows
        )
        durations = HistogramMetricFamily("auditor_run_duration_seconds", "Duration of ended runs.", labels=["audit", "method"])
        for labels, (total, number) in self._seconds.items():
            buckets = [(f"{edge:g}", float(self._buckets[labels][edge])) for edge in BUCKETS]
            durations.add_metric(list(labels), [*buckets, ("+Inf", number)], total)
        yield durations

    def _observe(self, audit: str, method: str, seconds: float) -> None:
        sums = self._seconds.setdefault((audit, method), [0.0, 0.0])
        sums[0] += seconds
        sums[1] += 1
        counted = self._buckets.setdefault((audit, method), Counter())
        counted.update(edge for edge in BUCKETS if seconds <= edge)

    def _add_cost(self, audit: str, report: Report) -> None:
        for side in SIDES:
            cost = report.cost.get(side)
            if report.plan and cost:
                labels = (audit, report.plan.sides[side].connection, side)
                self._bytes[labels] += cost.bytes
                self._rows[labels] += report.comparison.rows[side] if report.comparison else 0


def _standings(overviews: Sequence[Overview]) -> Iterator[Metric]:
    """Yield the status of each audit. Times are 0 rather than absent, so that an alert can match audits that have none."""
    each = [(overview.name, overview.standing) for overview in overviews]

    def one_of(name: str, help: str, label: str, values: Sequence[str], chosen: Mapping[str, str | None]) -> Metric:
        samples = [((audit, value), float(value == now)) for audit, now in chosen.items() if now is not None for value in values]
        return _gauge(name, help, ["audit", label], samples)

    def times(name: str, help: str, values: Mapping[str, dt.datetime | None]) -> Metric:
        return _gauge(name, help, ["audit"], [((audit,), at.timestamp() if at else 0.0) for audit, at in values.items()])

    verdicts = {name: standing.verdict.value if standing.verdict else None for name, standing in each}
    yield one_of("auditor_verdict", "1 for the last verdict, 0 for the others; none before the first.", "verdict", [*Verdict], verdicts)
    statuses: dict[str, str | None] = {name: standing.status for name, standing in each}
    yield one_of("auditor_status", "1 for the audit's status, as on its page, 0 for the others.", "status", STATUSES, statuses)
    states = {name: standing.last.state.value if standing.last else None for name, standing in each}
    ended = [State.DONE, State.FAILED, State.CANCELLED]
    yield one_of("auditor_last_run_state", "1 for the state of the run that ended last, 0 for the others.", "state", ended, states)
    yield times(
        "auditor_verified_through_timestamp_seconds",
        "Unix time up to which everything was seen equal; 0 if it never was. The age is time() minus this.",
        {name: standing.verified_through for name, standing in each},
    )
    yield times(
        "auditor_stream_through_timestamp_seconds",
        "Unix time up to which the target was seen equal to the stream of its source, by live summaries; 0 without them.",
        {name: standing.stream_through for name, standing in each},
    )
    yield times(
        "auditor_within_threshold_through_timestamp_seconds",
        "Unix time up to which everything was equal or within the threshold; 0 if that is not later than it was seen equal.",
        {name: standing.within_threshold_through for name, standing in each},
    )
    yield times(
        "auditor_last_verdict_timestamp_seconds",
        "Unix time at which the run of the last verdict ended; 0 if there is none.",
        {name: standing.run.ended if standing.run else None for name, standing in each},
    )
    yield times(
        "auditor_last_run_timestamp_seconds",
        "Unix time at which the run that ended last ended, with or without a verdict; 0 if there is none.",
        {name: standing.last.ended if standing.last else None for name, standing in each},
    )
    scores = [
        ((overview.name,), overview.threshold.score)
        for overview in overviews
        if overview.threshold.score < 1 or overview.threshold == Threshold()
    ]
    yield _gauge("auditor_threshold", "The score below which a run is a mismatch; absent if only rows are compared.", ["audit"], scores)
    yield _gauge(
        "auditor_paused",
        "1 if the schedule skips the audit, else 0.",
        ["audit"],
        [((overview.name,), float(overview.paused)) for overview in overviews],
    )


def _audit_label(run: StoredRun) -> str:
    """Return the audit label of a run. All ad-hoc runs share one, since each would add time series permanently."""
    return runs.AD_HOC_PREFIX if run.is_ad_hoc else run.audit


def _load_report(app: AppState, run: StoredRun) -> Report | None:
    try:
        return records.load_report(app.store, run.run, max_differences=0)
    except UnknownRun:  # deleted in the meantime
        return None


def _is_waiting(run: StoredRun, side: str) -> bool:
    return str(run.progress.get(side, {}).get("doing", "")).startswith("waits")


def _process_counters() -> Iterator[Metric]:
    errors = {(dict(labels)["error"],): number for labels, number in telemetry.get_counter("errors").items()}
    yield _counter("auditor_errors", "Errors that this process logged or returned, by class.", ["class"], errors)
    waited = {(dict(labels)["audit"], dict(labels)["side"]): number for labels, number in telemetry.get_counter("waited").items()}
    description = "Seconds that sides of runs waited for their databases, for runs of this process."
    yield _counter("auditor_database_wait_seconds", description, ["audit", "side"], waited)
    requests = {(dict(labels)["method"], dict(labels)["status"]): number for labels, number in telemetry.get_counter("requests").items()}
    yield _counter("auditor_http_requests", "HTTP requests that this process answered.", ["method", "status"], requests)


def _gauge(name: str, help: str, labels: list[str], values: Sequence[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help, labels=labels)
    for label, value in values:
        family.add_metric(list(label), value)
    return family


def _counter(name: str, help: str, labels: list[str], values: Mapping[Any, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help, labels=labels)
    for label, value in values.items():
        family.add_metric(list(label), value)
    return family
