"""Metrics for Prometheus: the status of audits, pipelines and segment audits, from the store, and counters of this process.

Gauges are read from the store at each scrape, so every process reports the same: aggregate over instances with ``max``,
not ``sum``. Counters of ended runs also cover the runs of all processes, from the start of the reporting process.
Those of pipelines and segment audits are in docs/pipeline-monitoring.md and docs/segments.md.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from auditor import telemetry
from auditor.api.dependencies import AppState
from auditor.api_models.pipeline import PipelineStatus, TableStatus, TargetStatus
from auditor.config import Threshold
from auditor.errors import StoreError, UnknownRun
from auditor.history import records
from auditor.history.audit_status import STATUSES
from auditor.model import SIDES, FindingKind, HistoryCheck, Report, State, Verdict
from auditor.service import audits, costs, segment_audits
from auditor.service.audits import Overview
from auditor.service.pipeline_status import status
from auditor.service.table_states import NEEDS_ATTENTION, STANDINGS, TableRow, list_rows
from auditor.store import Store, bootstraps, holds, patches, queue, runs
from auditor.store.runs import Ending, StoredRun

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
        self._flights: dict[str, HistoryCheck] = {}
        self._buckets: dict[tuple[str, str], Counter[float]] = {}
        self._bytes: Counter[tuple[str, ...]] = Counter()
        self._rows: Counter[tuple[str, ...]] = Counter()
        self._statement_seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._usd: dict[tuple[str, str], float] = defaultdict(float)
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
            families = [*self._audits(), *self._queue(), *self._ended(), *self._budgets(), *collect_pipelines(self._app)]
            families += collect_segments(self._app)
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
        yield from _bootstraps(self._app.store, [overview.name for overview in overviews])
        yield _gauge("auditor_differing_rows", "Differing rows of the last verdict's run, by kind.", ["audit", "kind"], kinds)
        yield from _standings(overviews)

    def _queue(self) -> Iterator[Metric]:
        active = runs.get_active_runs(self._app.store)
        running = [run for run in active.values() if run.state is State.RUNNING]
        yield _gauge("auditor_queue_depth", "Runs waiting for a worker.", [], [((), queue.count_waiting(self._app.store))])
        yield _gauge("auditor_patches_waiting", "Patches waiting for a worker.", [], [((), patches.count_waiting(self._app.store))])
        yield _gauge("auditor_queue_limit", "Largest number of runs that may wait.", [], [((), self._app.configured.service.queue)])
        yield _gauge("auditor_running_runs", "Running runs, over all processes.", [], [((), len(running))])
        waits: dict[tuple[str, ...], float] = {}
        for run in running:
            for side in SIDES:
                waits[_audit_label(run), side] = max(float(_is_waiting(run, side)), waits.get((_audit_label(run), side), 0.0))
        yield _gauge("auditor_database_waiting", "1 while a side of a run waits for its database.", ["audit", "side"], [*waits.items()])
        busy = [((), float(len(self._app.workers.running())))] if self._app.workers else []
        yield _gauge("auditor_workers_busy", "Runs that workers of this process are executing.", [], busy)

    def _budgets(self) -> Iterator[Metric]:
        budgets = costs.list_day_budgets(self._app.configured, self._app.store)
        used = [((budget.whose, budget.name, budget.what), budget.used / budget.limit) for budget in budgets if budget.limit]
        help = "Share of a budget of the day that is used; 1 and more: its runs are unknown until midnight UTC."
        yield _gauge("auditor_day_budget_used", help, ["of", "name", "what"], used)

    def _ended(self) -> Iterator[Metric]:
        for run in self._finished.new():
            report = _load_report(self._app, run)  # before counting: if this fails, the next scrape yields the run again
            audit = _audit_label(run)
            self._runs[audit, run.state.value, run.verdict.value, "other" if run.is_one_off else "own"] += 1
            if run.seconds is not None:
                self._observe(audit, run.method or "", run.seconds)
            if report:
                self._add_cost(audit, report)
                if report.differences is not None and (looked_up := report.differences.history) and not run.is_one_off:
                    self._flights[audit] = looked_up
        yield from _flights(self._flights)
        names = ["audit", "state", "verdict", "settings"]
        yield _counter("auditor_runs", "Runs that ended, with their audit's own settings or with other ones.", names, self._runs)
        yield _counter("auditor_received_bytes", "Bytes that ended runs received.", ["audit", "connection", "side"], self._bytes)
        yield _counter(
            "auditor_scanned_rows", "Rows that databases summarised for ended runs.", ["audit", "connection", "side"], self._rows
        )
        labels = ["audit", "connection"]
        yield _counter("auditor_statement_seconds", "Seconds of statements of ended runs.", labels, self._statement_seconds)
        yield _counter(
            "auditor_cost_usd", "US dollars that ended runs cost by the connections' prices; none where that is unknown.", labels, self._usd
        )
        durations = HistogramMetricFamily("auditor_run_duration_seconds", "Duration of ended runs.", labels=["audit", "method"])
        for of_run, (total, number) in self._seconds.items():
            buckets = [(f"{edge:g}", float(self._buckets[of_run][edge])) for edge in BUCKETS]
            durations.add_metric(list(of_run), [*buckets, ("+Inf", number)], total)
        yield durations

    def _observe(self, audit: str, method: str, seconds: float) -> None:
        sums = self._seconds.setdefault((audit, method), [0.0, 0.0])
        sums[0] += seconds
        sums[1] += 1
        counted = self._buckets.setdefault((audit, method), Counter())
        counted.update(edge for edge in BUCKETS if seconds <= edge)

    def _add_cost(self, audit: str, report: Report) -> None:
        for spent in report.spent:
            self._statement_seconds[audit, spent.connection] += spent.spent.seconds
            if spent.spent.usd is not None:
                self._usd[audit, spent.connection] += spent.spent.usd
        for side in SIDES:
            cost = report.cost.get(side)
            if report.plan and cost:
                labels = (audit, report.plan.sides[side].connection, side)
                self._bytes[labels] += cost.bytes
                self._rows[labels] += report.comparison.rows[side] if report.comparison else 0


def _flights(looked_up: Mapping[str, HistoryCheck]) -> Iterator[Metric]:
    """Yield what the last run of each audit with a history found in flight."""
    rows = [((audit,), float(check.in_flight)) for audit, check in looked_up.items()]
    yield _gauge("auditor_in_flight_rows", "Rows that the last run of an audit with a history found on their way.", ["audit"], rows)
    bounds = ("least", "median", "greatest")
    ages = [((audit, bound), age) for audit, check in looked_up.items() for bound, age in zip(bounds, check.ages or (), strict=False)]
    help_ = "For how long the changes of these rows had not arrived: the target's true lag, row by row."
    yield _gauge("auditor_in_flight_age_seconds", help_, ["audit", "bound"], ages)


def _bootstraps(store: Store, names: Sequence[str]) -> Iterator[Metric]:
    """Yield when the target of each audit was last copied again, and how fast. The time is 0 rather than absent where it never was."""
    done = bootstraps.list_last_done(store)
    yield _gauge(
        "auditor_last_bootstrap_timestamp_seconds",
        "Unix time at which the audit's target was last copied again; 0 if it never was. The age is time() minus this.",
        ["audit"],
        [((name,), done[name].swapped_at.timestamp() if name in done else 0.0) for name in names],
    )
    rates = [((name,), done[name].rows / max(done[name].seconds, 1.0)) for name in names if name in done]
    yield _gauge("auditor_last_bootstrap_rows_per_second", "Rows that this copied by second, from its begin to its swap.", ["audit"], rates)


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
    incident_states = {overview.name: overview.incident.state if overview.incident else "" for overview in overviews}
    help_ = "1 for the state of the audit's open incident, 0 for the others; all 0 without one."
    yield one_of("auditor_incident", help_, "state", ["open", "acknowledged", "muted"], dict(incident_states))
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


LATE_COMMITS = 100
"""Numbers below the newest that each poll reads again: a transaction with a lower number may be committed after one with a higher."""

MAX_OPEN = 1000
"""Open runs that are remembered between polls; beyond that the oldest are forgotten."""


class FinishedRuns:
    """Poll the store for runs that have ended. Each poll reads only new runs and those that had not ended finally.

    Times decide only where the first poll starts. Later they cannot be relied on: two runs may end at the same time, and a run whose
    process died is recorded as ended at its last heartbeat, long before another process detects it.
    """

    def __init__(self, store: Store, since: dt.datetime) -> None:
        self._store = store
        self._last_poll = since
        self._newest: int | None = None
        self._seen: dict[int, Ending] = {}

    def new(self) -> Generator[StoredRun]:
        """Yield the runs that ended since the last call. A run whose processing by the caller fails is yielded again. Raises StoreError."""
        now = dt.datetime.now(dt.UTC)
        since, endings = self._poll()
        for ending in endings:
            before = self._seen.get(ending.number)
            is_new = ending.ended and (before is None or before.ended != ending.ended) and (since is None or ending.ended >= since)
            if is_new and (run := self._load(ending)):
                yield run
            self._seen[ending.number] = ending
        self._last_poll = now
        self._newest = max((ending.number for ending in endings), default=0)
        open_ = [ending for ending in endings if ending.is_open or ending.number > self._newest - LATE_COMMITS]
        self._seen = {ending.number: ending for ending in open_[-MAX_OPEN:]}

    def _poll(self) -> tuple[dt.datetime | None, list[Ending]]:
        """Return the runs that may have ended since, and for the first poll the time after which they must have ended."""
        if self._newest is not None:
            floor = self._newest - LATE_COMMITS
            endings = runs.list_endings(self._store, floor, self._seen)
            # SQLite reuses numbers after all runs above them were deleted; then read all runs.
            if not self._newest or any(ending.number > floor for ending in endings):
                return None, endings
        return self._last_poll, runs.list_endings(self._store)

    def _load(self, ending: Ending) -> StoredRun | None:
        try:
            return runs.get_run(self._store, ending.run)
        except UnknownRun:  # deleted since the poll
            return None


Samples = Sequence[tuple[tuple[str, ...], float | None]]


def collect_pipelines(app: AppState) -> Iterator[Metric]:
    """Yield the metrics of all configured pipelines. Raises StoreError."""
    statuses = [status(app.configured, app.store, name, look=False) for name in sorted(app.configured.pipelines)]
    yield from _pipeline_families(statuses)
    rows = {pipeline.pipeline: list_rows(pipeline) for pipeline in statuses}
    yield from _target_families(statuses, rows)
    yield from _hold_families(statuses, {name: holds.list_held_seconds(app.store, name) for name in rows})
    yield from _table_families(rows)


def _pipeline_families(statuses: list[PipelineStatus]) -> Iterator[Metric]:
    def each(name: str, help: str, value: Callable[[PipelineStatus], float | None], kind: Any = GaugeMetricFamily) -> Metric:
        return _family(
            f"auditor_pipeline_{name}", help, ["pipeline"], [((pipeline.pipeline,), value(pipeline)) for pipeline in statuses], kind
        )

    yield each("running", "1 if a process reported on the pipeline within the last 30 s, else 0.", lambda pipeline: float(pipeline.running))
    yield each("paused", "1 if the pipeline is paused, else 0.", lambda pipeline: float(pipeline.paused))
    yield each(
        "staging_failed", "1 while staging is stopped or retried after an error, else 0.", lambda pipeline: float(bool(pipeline.reason))
    )
    yield each("warnings", "Warnings of the last look at source and staging.", lambda pipeline: float(len(pipeline.warnings)))
    yield each(
        "stopped_tables", "Tables that an event or a statement stops.", lambda pipeline: len({stop.table for stop in pipeline.stopped})
    )
    yield each(
        "skipped_events",
        "Events that somebody let tables continue without.",
        lambda pipeline: sum(skip.events for skip in pipeline.skipped),
    )
    yield each("source_lag_seconds", "Seconds since the source's log ended where staging stands.", lambda pipeline: pipeline.lag_seconds)
    yield each("source_lag_bytes", "Bytes of the source's log that are not staged, at the last look.", lambda pipeline: pipeline.lag_bytes)
    yield each("source_lag_messages", "Offsets of topics that are not staged, at the last look.", lambda pipeline: pipeline.lag_messages)
    yield each("max_lag_seconds", "Seconds by which staging may lag behind the source.", lambda pipeline: pipeline.max_lag)
    yield each("log_expires_seconds", "Seconds after which the source deletes its log.", lambda pipeline: pipeline.log_expires)
    yield each(
        "staging_free_bytes", "Free bytes on the disk of the staging's folder, at the last look.", lambda pipeline: pipeline.free_bytes
    )
    yield each(
        "staged_timestamp_seconds",
        "Unix time of the last batch that had events; 0 if none had.",
        lambda pipeline: _time(pipeline.staged_at),
    )
    yield each("staged_events", "Events staged since the pipeline began.", lambda pipeline: pipeline.events, CounterMetricFamily)
    yield each("parts", "Parts in the staging's folder.", lambda pipeline: sum(table.parts for table in pipeline.tables.values()))
    yield each("parts_bytes", "Bytes of these parts.", lambda pipeline: sum(table.bytes for table in pipeline.tables.values()))
    yield each("batch_events", "Events of the last batch that had any.", lambda pipeline: pipeline.batch.events if pipeline.batch else None)
    yield each(
        "batch_duration_seconds",
        "Seconds that the last batch with events took.",
        lambda pipeline: pipeline.batch.seconds if pipeline.batch else None,
    )


def _target_families(statuses: list[PipelineStatus], rows: Mapping[str, Sequence[TableRow]]) -> Iterator[Metric]:
    """Yield what targets hold and lack as a whole, whatever the number of their tables."""
    targets = [((pipeline.pipeline, target), values) for pipeline in statuses for target, values in pipeline.targets.items()]

    def each(name: str, help: str, value: Callable[[TargetStatus], float | None], kind: Any = GaugeMetricFamily) -> Metric:
        samples = [(labels, value(values)) for labels, values in targets]
        return _family(f"auditor_pipeline_{name}", help, ["pipeline", "target"], samples, kind)

    yield each(
        "target_lag_seconds",
        "Age of the oldest part that is missing in the target; 0 if none is.",
        lambda target: max((table.lag_seconds for table in target.tables.values()), default=0.0),
    )
    help = "Seconds by which a target's table may lag behind staging: max_lag of the pipeline, and the target's every."
    yield each("target_max_lag_seconds", help, lambda target: target.max_lag)
    yield each("target_pending_events", "Staged events that are missing in the target.", lambda target: target.pending_events)
    yield each("target_pending_bytes", "Bytes of staged parts that are missing in the target.", lambda target: target.pending_bytes)
    yield each(
        "merged_events",
        "Events merged since the pipeline began.",
        lambda target: sum(table.events for table in target.tables.values()),
        CounterMetricFamily,
    )
    yield each(
        "merged_through_timestamp_seconds",
        "Unix time at which the source committed the last event that the target holds; 0 if it holds none.",
        lambda target: max((_time(table.through) for table in target.tables.values()), default=0.0),
    )
    published = [((pipeline.pipeline, target), values.topics) for pipeline in statuses for target, values in pipeline.targets.items()]
    outcomes = [
        ((*labels, outcome), count)
        for labels, topics in published
        if topics
        for outcome, count in (("committed", topics.committed), ("aborted", topics.aborted))
    ]
    help = "Transactions that a pipeline's publisher has made in a target that is topics; an aborted one was published again."
    yield _family("auditor_pipeline_topic_transactions", help, ["pipeline", "target", "outcome"], outcomes, CounterMetricFamily)
    ends = [
        ((*labels, one.topic), sum(one.ends))
        for labels, topics in published
        for one in (() if topics is None or len(topics.topics) > LABELLED_TABLES else topics.topics.values())
    ]
    help = "Offsets behind the last messages of a topic's partitions, together; of a target with many topics none is named."
    yield _family("auditor_pipeline_topic_offsets", help, ["pipeline", "target", "topic"], ends, CounterMetricFamily)
    counts = {name: Counter((row.target, row.state) for row in listed) for name, listed in rows.items()}
    states = [((*labels, state), counts[labels[0]][labels[1], state]) for labels, _ in targets for state in STANDINGS]
    help = "Tables of a target by how they stand; lagging are those behind by more than they may that are not stopped."
    yield _family("auditor_pipeline_target_tables", help, ["pipeline", "target", "state"], states)


def _hold_families(statuses: list[PipelineStatus], held: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Metric]:
    """Yield what audits hold of targets now; ``held`` are the seconds by pipeline, target and table."""
    longest: list[tuple[tuple[str, ...], float]] = []
    put_off: list[tuple[tuple[str, ...], float]] = []
    for pipeline in statuses:
        for target, values in pipeline.targets.items():
            seconds, labels = held[pipeline.pipeline].get(target, {}), (pipeline.pipeline, target)
            lags = {table: values.tables[table].lag_seconds or 0.0 for table in seconds if table in values.tables}
            longest.append((labels, max(seconds.values(), default=0.0)))
            put_off.append((labels, max((min(lag, seconds[table]) for table, lag in lags.items()), default=0.0)))
    help = "Seconds for which an audit has held a table of the target, the longest of them; 0 if none is held."
    yield _family("auditor_pipeline_target_held_seconds", help, ["pipeline", "target"], longest)
    help = "Seconds for which holds have put off the merge of what a held table lacks, the longest of them; 0 if none lacks anything."
    yield _family("auditor_pipeline_target_held_lag_seconds", help, ["pipeline", "target"], put_off)


LABELLED_TABLES = 100
"""Tables of a pipeline up to which each is a label; of more, those of each target that need attention are, and at most so many."""


def _labelled(rows: Sequence[TableRow]) -> Iterator[TableRow]:
    """Yield the rows of those tables that are labels."""
    are_few = len({row.table for row in rows}) <= LABELLED_TABLES
    yielded: Counter[str] = Counter()
    for row in rows:
        if are_few or (row.state in NEEDS_ATTENTION and yielded[row.target] < LABELLED_TABLES):
            yielded[row.target] += 1
            yield row


def _table_families(rows: Mapping[str, Sequence[TableRow]]) -> Iterator[Metric]:
    labelled = [((name, row.target, row.table), row) for name, listed in rows.items() for row in _labelled(listed)]

    def each(name: str, help: str, value: Callable[[TableStatus], float | None], kind: Any = GaugeMetricFamily) -> Metric:
        samples = [(labels, value(row.values)) for labels, row in labelled]
        return _family(f"auditor_pipeline_table_{name}", help, ["pipeline", "target", "table"], samples, kind)

    yield each(
        "lag_seconds", "Age of the oldest part of a table that is missing in the target; 0 if none is.", lambda table: table.lag_seconds
    )
    yield each("pending_events", "Staged events of a table that are missing in the target.", lambda table: table.pending_events)
    yield each("pending_bytes", "Bytes of staged parts of a table that are missing in the target.", lambda table: table.pending_bytes)
    yield each("merged_events", "Events of a table merged since the pipeline began.", lambda table: table.events, CounterMetricFamily)
    yield each(
        "merged_through_timestamp_seconds",
        "Unix time at which the source committed the last event of a table that the target holds; 0 if it holds none.",
        lambda table: _time(table.through),
    )
    states = [((*labels, state), float(row.state == state)) for labels, row in labelled for state in STANDINGS]
    help = "1 for how a target's table stands, 0 for the others."
    yield _family("auditor_pipeline_table_state", help, ["pipeline", "target", "table", "state"], states)


def _time(moment: dt.datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _family(name: str, help: str, labels: list[str], samples: Samples, kind: Any = GaugeMetricFamily) -> Metric:
    """Return a family of the samples that are known."""
    family: Metric = kind(name, help, labels=labels)
    for label, value in samples:
        if value is not None:
            family.add_metric(list(label), value)  # type: ignore[attr-defined]
    return family


def collect_segments(app: AppState) -> Iterator[Metric]:
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
