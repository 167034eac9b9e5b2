"""Metrics of pipelines, from the store: the same whichever process reports them. docs/pipelines.md lists them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from auditor.api.dependencies import AppState
from auditor.service.pipeline_status import status
from auditor.shapes.pipeline import PipelineStatus, TableState, TableStatus

Samples = Sequence[tuple[tuple[str, ...], float | None]]


def collect(app: AppState) -> Iterator[Metric]:
    """Yield the metrics of all configured pipelines. Raises StoreError."""
    statuses = [status(app.configured, app.store, name, look=False) for name in sorted(app.configured.pipelines)]
    yield from _pipelines(statuses)
    yield from _tables(statuses)


def _pipelines(statuses: list[PipelineStatus]) -> Iterator[Metric]:
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
        "skipped_events", "Events that somebody let tables go on without.", lambda pipeline: sum(skip.events for skip in pipeline.skipped)
    )
    yield each("source_lag_seconds", "Seconds since the source's log ended where staging stands.", lambda pipeline: pipeline.lag_seconds)
    yield each("source_lag_bytes", "Bytes of the source's log that are not staged, at the last look.", lambda pipeline: pipeline.lag_bytes)
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
    yield each("batch_events", "Events of the last batch that had any.", lambda pipeline: pipeline.batch.events if pipeline.batch else None)
    yield each(
        "batch_duration_seconds",
        "Seconds that the last batch with events took.",
        lambda pipeline: pipeline.batch.seconds if pipeline.batch else None,
    )


def _tables(statuses: list[PipelineStatus]) -> Iterator[Metric]:
    staged = [((pipeline.pipeline, table), values) for pipeline in statuses for table, values in pipeline.tables.items()]
    sizes = [(labels, values.parts) for labels, values in staged], [(labels, values.bytes) for labels, values in staged]
    yield _family("auditor_pipeline_parts", "Parts of a table in the staging's folder.", ["pipeline", "table"], sizes[0])
    yield _family("auditor_pipeline_parts_bytes", "Bytes of the parts of a table.", ["pipeline", "table"], sizes[1])
    merged = [
        ((pipeline.pipeline, target, table), values)
        for pipeline in statuses
        for target, state in pipeline.targets.items()
        for table, values in state.tables.items()
    ]

    def each(name: str, help: str, value: Callable[[TableStatus], float | None], kind: Any = GaugeMetricFamily) -> Metric:
        samples = [(labels, value(values)) for labels, values in merged]
        return _family(f"auditor_pipeline_{name}", help, ["pipeline", "target", "table"], samples, kind)

    yield each(
        "target_lag_seconds",
        "Age of the oldest part of a table that is missing in the target; 0 if none is.",
        lambda table: table.lag_seconds,
    )
    yield each("target_pending_bytes", "Bytes of staged parts that are missing in the target.", lambda table: table.pending_bytes)
    yield each("target_pending_events", "Staged events that are missing in the target.", lambda table: table.pending_events)
    yield each("merged_events", "Events merged since the pipeline began.", lambda table: table.events, CounterMetricFamily)
    yield each(
        "merged_through_timestamp_seconds",
        "Unix time at which the source committed the last event that the target holds; 0 if it holds none.",
        lambda table: _time(table.through),
    )
    limits = [
        ((pipeline.pipeline, target), target_status.max_lag) for pipeline in statuses for target, target_status in pipeline.targets.items()
    ]
    help = "Seconds by which a target's table may lag behind staging: max_lag of the pipeline, and the target's every."
    yield _family("auditor_pipeline_target_max_lag_seconds", help, ["pipeline", "target"], limits)
    states = [((*labels, state), float(values.state == state)) for labels, values in merged for state in get_args(TableState)]
    help = "1 for the state of a target's table, 0 for the others."
    yield _family("auditor_pipeline_target_state", help, ["pipeline", "target", "table", "state"], states)


def _time(moment: dt.datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _family(name: str, help: str, labels: list[str], samples: Samples, kind: Any = GaugeMetricFamily) -> Metric:
    """Return a family of the samples that are known."""
    family: Metric = kind(name, help, labels=labels)
    for label, value in samples:
        if value is not None:
            family.add_metric(list(label), value)  # type: ignore[attr-defined]
    return family
