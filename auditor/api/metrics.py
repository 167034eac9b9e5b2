"""What Prometheus is told: how each audit stands by the store, and what this process has counted.

Everything about audits is read from the store when it is asked for, so that every process tells the same of them: take ``max``, not
``sum``, over instances. Runs are told of from the moment that a process began.
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

from auditor import keep, telemetry
from auditor.api.behind import Behind
from auditor.api.endings import Endings
from auditor.errors import StoreError, UnknownRun
from auditor.model import SIDES, Report, State, Verdict
from auditor.service import audits
from auditor.service.audits import Overview
from auditor.store import queue, runs
from auditor.store.runs import StoredRun

TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


class Metrics(Collector):
    """Reads the store whenever it is asked."""

    def __init__(self, behind: Behind) -> None:
        self._behind = behind
        self._lock = threading.Lock()
        self._endings = Endings(behind.store, dt.datetime.now(dt.UTC))
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._buckets: dict[tuple[str, str], Counter[float]] = {}
        self._bytes: Counter[tuple[str, ...]] = Counter()
        self._rows: Counter[tuple[str, ...]] = Counter()
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        with self._lock:
            return generate_latest(self._registry)

    def describe(self) -> Sequence[Metric]:
        """Nothing: it would have to read the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families; those about audits are absent where the store cannot be read, and ``auditor_up`` says so."""
        try:
            families = [*self._audits(), *self._queue(), *self._ended()]
            up = 1
        except StoreError:
            families, up = [], 0
        yield _gauge("auditor_up", "Whether the store can be read.", [], [((), up)])
        yield from families
        yield from _counted()

    def _audits(self) -> Iterator[Metric]:
        found = audits.overview(self._behind.configured, self._behind.store, trends=False)
        latest = {one.name: (_last_done(self._behind, one), one) for one in found}

        def each(name: str, help: str, value: str) -> Metric:
            values = [((audit,), getattr(last, value)) for audit, (last, _) in latest.items() if last and getattr(last, value) is not None]
            return _gauge(name, help, ["audit"], values)

        yield each("auditor_score", "Similarity that the last finished run found, between 0 and 1.", "score")
        yield each("auditor_score_lower", "The score's lower bound.", "lower")
        yield each("auditor_score_upper", "The score's upper bound.", "upper")
        yield each("auditor_coverage", "Share of rows that the last finished run speaks for.", "coverage")
        yield each("auditor_run_duration_last_seconds", "Seconds that the last finished run took.", "seconds")
        verdicts = [
            ((audit, verdict.value), float(last.verdict is verdict)) for audit, (last, _) in latest.items() if last for verdict in Verdict
        ]
        yield _gauge("auditor_verdict", "1 for the verdict of the last finished run.", ["audit", "verdict"], verdicts)
        classes = [
            ((audit, kind), getattr(last, kind))
            for audit, (last, _) in latest.items()
            if last
            for kind in ("missing", "extra", "changed", "unsettled")
            if getattr(last, kind) is not None
        ]
        yield _gauge("auditor_differing_rows", "Differing rows of the last finished run, by class.", ["audit", "class"], classes)
        # A moment and not an age, and 0 and not nothing: an audit that was never verified is one that an alert can see.
        yield _gauge(
            "auditor_verified_timestamp_seconds",
            "Moment up to which the target is verified, in seconds since 1970; 0 of one that never was. Its age is time() less this.",
            ["audit"],
            [((one.name,), _seconds(one.verified_through)) for one in found],
        )
        yield _gauge(
            "auditor_last_run_timestamp_seconds",
            "Moment at which the last finished run ended, in seconds since 1970; 0 where there is none.",
            ["audit"],
            [((audit,), _seconds(last.ended if last else None)) for audit, (last, _) in latest.items()],
        )
        yield _gauge(
            "auditor_threshold", "The score below which a run is a mismatch.", ["audit"], [((one.name,), one.threshold) for one in found]
        )
        yield _gauge(
            "auditor_paused", "Whether the schedule passes the audit by.", ["audit"], [((one.name,), float(one.paused)) for one in found]
        )

    def _queue(self) -> Iterator[Metric]:
        living = runs.living(self._behind.store)
        running = [one for one in living.values() if one.state is State.RUNNING]
        yield _gauge("auditor_queue_depth", "Runs that wait for a worker.", [], [((), queue.waiting(self._behind.store))])
        yield _gauge("auditor_queue_limit", "Runs that may wait.", [], [((), self._behind.configured.service.queue)])
        yield _gauge("auditor_running", "Runs that are being carried out, over all processes.", [], [((), len(running))])
        waits: dict[tuple[str, ...], float] = {}
        for one in running:
            for side in SIDES:
                waits[_audit(one), side] = max(float(_waits(one, side)), waits.get((_audit(one), side), 0.0))
        yield _gauge("auditor_waiting", "1 while a side of a run waits for its database.", ["audit", "side"], [*waits.items()])
        busy = [((), float(len(self._behind.workers.running())))] if self._behind.workers else []
        yield _gauge("auditor_workers_busy", "Runs that this process carries out.", [], busy)

    def _ended(self) -> Iterator[Metric]:
        for one in self._endings.new():
            report = _report(self._behind, one)  # before anything is counted: if this fails, the run is told again
            audit = _audit(one)
            self._runs[audit, one.state.value, one.verdict.value] += 1
            if one.seconds is not None:
                self._observe(audit, one.method or "", one.seconds)
            if report:
                self._add_cost(audit, report)
        yield _counter("auditor_runs", "Runs that ended.", ["audit", "state", "verdict"], self._runs)
        yield _counter("auditor_scanned_bytes", "Bytes that came over a connection.", ["audit", "connection", "side"], self._bytes)
        yield _counter("auditor_scanned_rows", "Rows that were summarised where they are.", ["audit", "connection", "side"], self._rows)
        durations = HistogramMetricFamily("auditor_run_duration_seconds", "How long runs took.", labels=["audit", "method"])
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


def _last_done(behind: Behind, one: Overview) -> StoredRun | None:
    if one.latest is None or one.latest.state is State.DONE:
        return one.latest
    return runs.latest(behind.store, one.name)


def _audit(one: StoredRun) -> str:
    """The audit under which a run is counted: one for all ad-hoc ones, each of which would be a time series for ever."""
    return runs.AD_HOC if one.is_ad_hoc else one.audit


def _report(behind: Behind, one: StoredRun) -> Report | None:
    try:
        return keep.report(behind.store, one.run, most=0)
    except UnknownRun:  # it was deleted meanwhile
        return None


def _seconds(at: dt.datetime | None) -> float:
    return at.timestamp() if at else 0.0


def _waits(one: StoredRun, side: str) -> bool:
    return str(one.progress.get(side, {}).get("doing", "")).startswith("waits")


def _counted() -> Iterator[Metric]:
    errors = {(dict(labels)["error"],): number for labels, number in telemetry.counts("errors").items()}
    yield _counter("auditor_errors", "Errors that were logged or answered by this process, by class.", ["class"], errors)
    waited = {(dict(labels)["audit"], dict(labels)["side"]): number for labels, number in telemetry.counts("waited").items()}
    about = "Seconds that the sides of runs waited for their databases, of the runs that this process carries out."
    yield _counter("auditor_waited_seconds", about, ["audit", "side"], waited)
    requests = {(dict(labels)["method"], dict(labels)["status"]): number for labels, number in telemetry.counts("requests").items()}
    yield _counter("auditor_http_requests", "Requests that this process answered.", ["method", "status"], requests)


def _gauge(name: str, help: str, labels: list[str], values: Sequence[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    made = GaugeMetricFamily(name, help, labels=labels)
    for label, value in values:
        made.add_metric(list(label), value)
    return made


def _counter(name: str, help: str, labels: list[str], values: Mapping[Any, float]) -> CounterMetricFamily:
    made = CounterMetricFamily(name, help, labels=labels)
    for label, value in values.items():
        made.add_metric(list(label), value)
    return made
