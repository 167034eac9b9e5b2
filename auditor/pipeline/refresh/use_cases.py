"""Ask for refreshes, carry them out, and wait until their rows have arrived in every target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from threading import Event

import dialects
from auditor.api_models.pipeline import Refresh as ShownRefresh
from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import ConfigError, LeaseTaken, RefreshRefused
from auditor.pipeline.refresh.carrier import Carrier, OnProgress, ignore_progress, is_ready
from auditor.pipeline.refresh.keys import KeyColumns
from auditor.pipeline.refresh.plan import make_plan
from auditor.pipeline.refresh.source_tables import writer_of
from auditor.pipeline.source_tables import home_of, read_schemas
from auditor.pipeline.staged_refreshes import is_staged
from auditor.quantities import plural
from auditor.store import Store, parts, pipelines, refreshes
from auditor.store.parts import StagedTable
from auditor.store.refreshes import UNFINISHED, Refresh, RefreshScope


@dataclass(slots=True)
class Arrival:
    """Whether the rows of refreshes that are done are in the targets; looked at again and again."""

    store: Store
    pipeline: str
    targets: Sequence[str]
    outputs_of: Callable[[str], Sequence[str]] = lambda table: (table,)
    """Returns what the stream calls the tables into which rows of a source's table go."""
    _needed: dict[str, dict[str, int]] = field(default_factory=dict)
    """Up to which positions a target must hold the tables of a refresh."""

    def lacking(self, requests: Sequence[Refresh]) -> dict[str, list[str]]:
        """Return the tables that each target still lacks, and under '' those that are not staged yet. Raises StoreError."""
        offset, merges = pipelines.get_pipeline(self.store, self.pipeline).source_offset, pipelines.list_merges(self.store, self.pipeline)
        lacking: dict[str, list[str]] = {}
        staged: dict[str, StagedTable] | None = None
        for refresh in requests:
            if refresh.refresh not in self._needed:
                if not is_staged(refresh.progress, offset):
                    lacking.setdefault("", []).append(refresh.table)
                    continue
                staged = parts.list_tables(self.store, self.pipeline) if staged is None else staged
                there = [table for table in self.outputs_of(refresh.table) if table in staged]
                self._needed[refresh.refresh] = {table: staged[table].staged_through for table in there}
            for target in self.targets:
                for table, position in self._needed[refresh.refresh].items():
                    merged = merges.get(target, {}).get(table)
                    if (merged.position if merged else 0) < position:
                        lacking.setdefault(target, []).append(table)
        return lacking


MOST_KEYS = 100_000
"""Keys that one request may list."""


def request(
    settings: Settings,
    store: Store,
    name: str,
    table: str | None = None,
    *,
    first: int | None = None,
    last: int | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    keys: Sequence[Sequence[str]] = (),
    by: str = "",
) -> list[Refresh]:
    """Ask for all rows of a pipeline's tables, or of one of them, ranges of its keys or these keys; return a request for each table.

    Both ends of a range are inclusive. A request that has not ended is returned instead of an equal one. Raises UnknownPipeline,
    ConfigError, NoKey, ColumnRefused, RefreshRefused and EngineError.
    """
    return refreshes.request_refreshes(
        store, name, plan(settings, store, name, table, first=first, last=last, ranges=ranges, keys=keys), by
    )


def plan(
    settings: Settings,
    store: Store,
    name: str,
    table: str | None = None,
    *,
    first: int | None = None,
    last: int | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    keys: Sequence[Sequence[str]] = (),
) -> list[tuple[str, RefreshScope]]:
    """Return what `request` would ask for: the tables with their rows. Nothing is written. Raises what that raises."""
    writer_of(settings, name)
    if not is_ready(store, name):
        raise RefreshRefused(f"the pipeline {name} has never run, so nothing would read the rows; run it first")
    if len(keys) > MOST_KEYS:
        raise ConfigError(f"{len(keys):,} keys are listed, and one request may list {MOST_KEYS:,}; use a range, or the whole table")
    chosen = choose_tables(settings, name, table)
    wanted: list[tuple[int | None, int | None]] = [*ranges, *([(first, last)] if first is not None or last is not None else [])]
    named = bool(keys) or bool(wanted)
    if named and len(chosen) > 1:
        raise ConfigError("keys are those of one table; name it with --table")
    requests = []
    for key_columns in chosen:
        scope = RefreshScope(tuple(key_columns.parse_range(*ends) for ends in wanted), tuple(key_columns.parse(key) for key in keys))
        make_plan(key_columns, scope)
        requests.append((key_columns.name, scope))
    return requests


def describe_planned(table: str, scope: RefreshScope) -> str:
    """Return which rows of a table a request would send, for a person."""
    if scope.is_all:
        return f"{table}: all rows"
    rows = [plural(len(scope.keys), "key")] if scope.keys else []
    for low, last in scope.ranges:
        ends = [f"{word} {', '.join(map(str, end))}" for word, end in (("after", low), ("up to", last)) if end]
        rows.append(f"keys {' '.join(ends)}")
    return f"{table}: {' and '.join(rows)}"


def show(refresh: Refresh) -> ShownRefresh:
    """Return a request and how far it is, for people and programs."""
    progress = refresh.progress
    end = progress.get("end")
    return ShownRefresh(
        refresh=refresh.refresh,
        pipeline=refresh.pipeline,
        table=refresh.table,
        ranges=len(refresh.scope.ranges),
        keys=len(refresh.scope.keys),
        state=refresh.state,
        requested_by=refresh.requested_by,
        at=refresh.at,
        ended=refresh.ended,
        rows=progress.get("rows", 0),
        chunks=progress.get("chunks", 0),
        seconds=progress.get("seconds", 0.0),
        longest=progress.get("longest", 0.0),
        log_place=f"{end[0]}:{end[1]}" if end else None,
        reason=refresh.reason,
    )


def choose_tables(settings: Settings, name: str, table: str | None) -> list[KeyColumns]:
    """Return the keys of a pipeline's tables, or of one of them, also by the name of a route. Raises ConfigError, NoKey and EngineError."""
    pipeline = settings.pipeline(name)
    connection = settings.connections[pipeline.of_log("a refresh").connection]
    session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
    try:
        schemas, home = read_schemas(session, pipeline), home_of(session)
    finally:
        session.close()
    wanted = (pipeline.origin_of(table) if "." in table else pipeline.routed_from(table) or table) if table else "*"
    chosen = [schema for full_name, schema in schemas.items() if fnmatchcase(full_name if "." in wanted else schema.table, wanted)]
    if not chosen:
        there = [schema.table if schema.database == home else full_name for full_name, schema in schemas.items()]
        raise ConfigError(f"pipeline {name!r} has no table {table!r}; it has {', '.join(sorted(there)) or 'none'}")
    return [KeyColumns(schema) for schema in chosen]


def carry_out(
    settings: Settings, store: Store, name: str, asked: Iterable[Refresh], stop: Event, on_progress: OnProgress = ignore_progress
) -> list[Refresh]:
    """Carry requests out, or follow the process that does, until all have ended or ``stop`` is set; return how they stand then.

    Raises StoreError, and errors of the source that may pass: the same call goes on later.
    """
    wanted = {refresh.refresh for refresh in asked}
    carrier = Carrier(settings, store, name, stop, on_progress)
    while True:
        try:
            carrier.carry_out()
        except LeaseTaken:
            stop.wait(durations().staged_poll)
        current = refreshes.get_refreshes(store, wanted)
        for refresh in current:
            on_progress(refresh)
        if stop.is_set() or all(refresh.state not in UNFINISHED for refresh in current):
            return current


def wait_until_arrived(
    settings: Settings,
    store: Store,
    name: str,
    requested: Sequence[Refresh],
    stop: Event,
    targets: Sequence[str] = (),
    on_wait: Callable[[str], None] = lambda _: None,
    most: float = 600.0,
) -> str:
    """Wait until targets (by default all) hold what these refreshes sent; return what is lacking after ``most`` seconds, '' for nothing.

    Raises UnknownPipeline and StoreError.
    """
    pipeline = settings.pipeline(name)
    arrival = Arrival(store, name, targets or list(pipeline.targets), pipeline.outputs_of)
    deadline, told = time.monotonic() + most, ""
    while lacking := arrival.lacking([refresh for refresh in requested if refresh.state == "done"]):
        sentence = "; ".join(f"{target or 'the staging'} lacks {', '.join(tables)}" for target, tables in lacking.items())
        if sentence != told:
            told = sentence
            on_wait(sentence)
        if stop.is_set() or time.monotonic() > deadline:
            return sentence
        stop.wait(durations().staged_poll)
    return ""
