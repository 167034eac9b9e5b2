"""A pipeline of many tables and two targets, as its processes left it in the store, and the statements that a store runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event

from auditor.api_models.pipeline import PipelineProgress, StagedBatch
from auditor.config import Settings, validate_settings
from auditor.model import Part, Segment, TableNote
from auditor.store import Store, parts, pipelines, refreshes, schema_changes, segments, table_notes
from auditor.store.pipelines import MergeNews
from auditor.store.schema_changes import TargetMigration

PIPELINE = "many"
TARGETS = ("lake", "warehouse")
BATCHES = 10
STOPPED = "a value is longer than the target's column; widen it there"
DELAYED = "the connection to warehouse was lost"


def definition(folder: Path | str, source: str, target: str, **more: object) -> dict[str, Any]:
    """Return the definition of a pipeline of many tables, from one connection into another."""
    into = {"connection": target, "schema": "shop"}
    return {
        "source": {"connection": source, "tables": ["*"]},
        "staging": {"path": f"{folder}/staging"},
        "targets": {"warehouse": into, "lake": {**into, "schema": "lake", "every": "5m"}},
        "segment": {"rows": 5000},
        **more,
    }


def configure(folder: Path, **more: object) -> Settings:
    """Return the settings of a pipeline of many tables."""
    duckdb = f"duckdb:///{folder}/warehouse.duckdb"
    connections = {"source": {"url": "mysql://nobody@localhost/shop"}, "warehouse": {"url": duckdb, "write": {"url": duckdb}}}
    pipelines = {PIPELINE: definition(folder, "source", "warehouse", **more)}
    return validate_settings({"connections": connections, "audits": {}, "pipelines": pipelines})


def names(tables: int) -> list[str]:
    """Return the names of tables of two databases, sorted."""
    return sorted(f"{'shop' if number % 4 else 'crm'}.table_{number:04d}" for number in range(tables))


def create(store: Store, tables: int, now: dt.datetime | None = None, batches: int = BATCHES, pipeline: str = PIPELINE) -> list[str]:
    """Store what the processes of a pipeline reported, and return its tables' names.

    Target ``lake`` holds everything; in ``warehouse`` the first table is stopped, the second is delayed, the third has got nothing yet, the
    fourth lags, and the others are merged, every tenth of them without the last batch.
    """
    at, listed = now or dt.datetime.now(dt.UTC), names(tables)
    stopped, delayed, waiting, lagging, *others = listed
    old = at - dt.timedelta(hours=1)
    parts.record_batch(store, pipeline, [_part(lagging, 3, 0, old)], {})
    for batch in range(1, batches + 1):
        time = at - dt.timedelta(seconds=3 * (batches - batch))
        held = [_part(table, number, batch, time) for number, table in enumerate(listed)]
        parts.record_batch(
            store,
            pipeline,
            held,
            {table: {"database": "shop", "table": table, "columns": [], "key": []} for table in listed},
            {"file": "binlog.000041", "position": 80},
        )
    last, before = _position(batches) + 9, _position(batches - 1) + 9
    for target in TARGETS:
        pipelines.report_merges(store, pipeline, target, {table: MergeNews(last, "merged", "", 900, at) for table in listed})
    behind = {table: MergeNews(before, "merged", "", 0, at) for table in others[::10]}
    news = {
        stopped: MergeNews(before, "stopped", STOPPED),
        delayed: MergeNews(before, "delayed", DELAYED),
        lagging: MergeNews(0, "merged"),
        **behind,
    }
    pipelines.report_merges(store, pipeline, "warehouse", news)
    store.write(
        lambda connection: connection.execute(
            pipelines.merges.delete().where(pipelines.merges.c.target == "warehouse", pipelines.merges.c.table_name == waiting)
        )
    )
    body = {"stage": "merge", "reason": STOPPED}
    table_notes.record_poison(store, pipeline, TableNote(stopped, "poison", last - 5, last - 5, 2, at, body, "warehouse"))
    changes = [TableNote(table, "change", 1, 1, 0, at, {"ops": []}) for table in listed[::20]]
    store.write(lambda connection: table_notes.write_notes(connection, pipeline, changes))
    for table in listed[::50]:
        migration = TargetMigration("warehouse", table, 1, "a", "b", ["ALTER TABLE x ADD y int"], ["rows from before have NULL"], "applied")
        schema_changes.record_migration(store, pipeline, migration)
        refreshes.request_refresh(store, pipeline, table, refreshes.RefreshScope(), "ada")
    ended = [Segment(table, 1, 0, 9, 3, 5, 500, table, "00" * 32, 1, f"{table}/1", old, at, None) for table in listed]
    segments.record_cut(store, pipeline, ended, segments.Cut(last, 0, dict.fromkeys(listed, before)), 0)
    pipelines.set_progress(store, pipeline, progress(at))
    return listed


def progress(at: dt.datetime) -> PipelineProgress:
    """Return what a process saw of its source."""
    return PipelineProgress(
        at=at,
        current_at=at,
        lag_bytes=0,
        log_end="binlog.000041:80",
        log_expires=259200,
        free_bytes=1 << 40,
        batch=StagedBatch(events=812, bytes=65_000, seconds=0.21),
    )


def _position(batch: int) -> int:
    return (41 << 32) + 100 * batch


def _part(table: str, number: int, batch: int, time: dt.datetime) -> Part:
    first = _position(batch)
    return Part(table, first, first + 9, 10, 1000 + number, table, f"batch_{batch}/{number % 8}", time, "c" * 64, ((0, 1000),))


@contextmanager
def counted(*stores: Store) -> Iterator[list[str]]:
    """Collect the statements that stores run in the block."""
    found: list[str] = []

    def take(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        found.append(statement)

    engines = {id(engine): engine for store in stores for engine in (store.engine, store.read_engine)}
    for engine in engines.values():
        event.listen(engine, "before_cursor_execute", take)
    try:
        yield found
    finally:
        for engine in engines.values():
            event.remove(engine, "before_cursor_execute", take)
