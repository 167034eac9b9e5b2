"""The status of a pipeline: what was staged, how far that lags behind the source, and what each target holds.

Its fields are in `auditor/api_models/pipeline.py`; they are shown by `auditor/cli/_pipeline.py` and `auditor/api/pages/_pipelines.py`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

from auditor.api_models.pipeline import (
    Heartbeat,
    LagHistory,
    LagPoint,
    LagSeries,
    LiveSummaries,
    Migration,
    PipelineProgress,
    PipelineStatus,
    StagedTable,
    StoppedTable,
    TableStatus,
    TargetStatus,
    TopicsStatus,
)
from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import ConfigError
from auditor.model import LiveEpoch, TableNote
from auditor.pipeline import watch
from auditor.pipeline.events import place_text
from auditor.pipeline.poison import place_of
from auditor.pipeline.watch import table_lag, target_lag
from auditor.store import Store, lags, live_epochs, parts, pipelines, schema_changes, table_notes, topic_states
from auditor.store.lags import Point
from auditor.store.parts import Pile
from auditor.store.pipelines import MergeReport, PipelineState
from auditor.store.schema_changes import TargetMigration

SHOWN_MIGRATIONS = 20
"""Migrations of targets that are shown, the newest."""


def status(settings: Settings, store: Store, name: str, look: bool = True, tables: Collection[str] | None = None) -> PipelineStatus:
    """Return the status of a pipeline; with ``tables`` what it says of tables is of these alone, and so are the sums of targets.

    A few statements of the store, whatever the number of tables. With ``look`` the source is checked if no process runs that does. Raises
    UnknownPipeline and StoreError.
    """
    pipeline, now = settings.pipeline(name), dt.datetime.now(dt.UTC)
    state = pipelines.get_pipeline(store, name)
    is_running = _is_fresh(state, now)
    progress = watch.check_once(settings, name, state) if look and not is_running else state.progress
    with store.share_connection():
        notes = [note for note in table_notes.list_notes(store, name, tables) if note.reason]
        reports = pipelines.list_merges(store, name, tables=tables)
        missing = parts.sum_missing(store, name, pipeline.targets, tables)
        staged = parts.sum_parts(store, name, tables)
        migrations = schema_changes.list_migrations(store, name, SHOWN_MIGRATIONS, tables)
        epochs = [epoch for epoch in _newest_epochs(store, name) if tables is None or epoch.table in tables]
        published = topic_states.list_states(store, name) if pipeline.topic_targets else {}
    source_lag, file = _source_lag(progress, state, is_running or look, now), log_file(state)
    targets = _Targets(reports, missing, staged.keys(), notes, source_lag, now, published)
    return PipelineStatus(
        pipeline=name,
        running=is_running,
        paused=state.paused,
        paused_by=state.paused_by,
        paused_at=state.paused_at,
        reason=state.reason,
        staged_through=state.staged_through,
        staged_time=state.staged_time,
        staged_at=state.staged_at,
        events=state.events,
        heartbeat=_heartbeat(state, now),
        lag_seconds=source_lag,
        lag_bytes=progress.lag_bytes,
        lag_messages=progress.lag_messages,
        partitions=progress.partitions,
        log_end=progress.log_end,
        log_expires=progress.log_expires,
        max_lag=pipeline.max_lag,
        seen_at=state.progress.at,
        began=state.progress.began,
        free_bytes=progress.free_bytes,
        batch=progress.batch,
        warnings=progress.warnings,
        notes=progress.notes,
        tables={table: _staged(pile) for table, pile in sorted(staged.items())},
        stopped=[describe_stop(note, file) for note in notes if note.stops],
        skipped=[describe_stop(note, file) for note in notes if note.skip],
        migrations=[_migration(migration, file) for migration in migrations],
        live_summaries=[_live_summaries(epoch) for epoch in epochs],
        targets={target: targets.status(target, pipeline.max_lag + chosen.every) for target, chosen in pipeline.targets.items()},
    )


def _staged(pile: Pile) -> StagedTable:
    return StagedTable(parts=pile.parts, events=pile.rows, bytes=pile.bytes)


def _migration(migration: TargetMigration, file: str) -> Migration:
    return Migration(
        target=migration.target,
        table=migration.table,
        place=place_text(migration.position, file),
        state=migration.state,
        statements=list(migration.statements),
        said=list(migration.said),
        reason=migration.reason,
        at=migration.at,
        ended=migration.ended,
    )


def _newest_epochs(store: Store, name: str) -> list[LiveEpoch]:
    """Return the newest epoch of each audit whose live summaries the pipeline keeps, or kept, by the audits' names."""
    newest = {epoch.audit: epoch for epoch in reversed(live_epochs.list_epochs(store, pipeline=name))}
    return [newest[audit] for audit in sorted(newest)]


def _live_summaries(epoch: LiveEpoch) -> LiveSummaries:
    return LiveSummaries(
        audit=epoch.audit,
        table=epoch.table,
        target=epoch.target,
        state=epoch.state,
        since=epoch.begun_at,
        since_place=epoch.log_place,
        proved=epoch.proved_at,
        proved_place=epoch.proved_log_place,
        ended=epoch.ended,
        reason=epoch.reason,
    )


def _heartbeat(state: PipelineState, now: dt.datetime) -> Heartbeat | None:
    """Return the last heartbeat that was staged; None if there was none."""
    beat = state.source_offset.get("heartbeat") if isinstance(state.source_offset, dict) else None
    if beat is None:
        return None
    at = dt.datetime.fromisoformat(beat["at"])
    return Heartbeat(database=beat["database"], serial=beat["serial"], at=at, age_seconds=(now - at).total_seconds())


def log_file(state: PipelineState) -> str:
    """Return the name of a file of the source's log, by which others are called; '' if none is known."""
    return str(state.source_offset.get("file", "")) if isinstance(state.source_offset, dict) else ""


def describe_stop(note: TableNote, file: str) -> StoppedTable:
    """Return what stops a table, or did so until it was skipped; ``file`` is any file of the source's log."""
    return StoppedTable(
        table=note.table,
        place=place_of(note, file),
        through=place_text(note.last, file),
        events=note.events,
        time=note.time,
        stage=note.body.get("stage", "statement"),
        target=note.target or None,
        reason=note.reason,
        skipped_by=note.skip.by if note.skip else None,
        skipped_at=note.skip.at if note.skip else None,
        skip_reason=note.skip.reason if note.skip else None,
    )


def _is_fresh(state: PipelineState, now: dt.datetime) -> bool:
    at = state.progress.at
    return at is not None and (now - at).total_seconds() < durations().pipeline_fresh


def _source_lag(progress: PipelineProgress, state: PipelineState, is_present: bool, now: dt.datetime) -> float | None:
    """Return the seconds since the source's log ended where staging is; None if nothing is known of it."""
    if is_present and progress.is_at_end:
        return 0.0
    current_at = progress.current_at or watch.known_current_at(state)
    return (now - current_at).total_seconds() if current_at else None


_NOTHING = Pile()


@dataclass(frozen=True, slots=True)
class _Targets:
    """What the status of each target of a pipeline is worked out from."""

    reports: Mapping[str, Mapping[str, MergeReport]]
    missing: Mapping[str, Mapping[str, Pile]]
    staged: Collection[str]
    """The tables of which something was staged."""
    notes: Sequence[TableNote]
    source_lag: float | None
    now: dt.datetime
    published: Mapping[str, TopicsStatus]
    """By the targets that are topics."""

    def status(self, target: str, max_lag: float) -> TargetStatus:
        """Return the status of a target."""
        reports, missing, stopped = self.reports.get(target, {}), self.missing[target], self._stopped(target)
        listed = sorted({*reports, *self.staged, *stopped})
        tables = {table: self._table(reports.get(table), missing.get(table, _NOTHING), stopped.get(table)) for table in listed}
        return TargetStatus(
            pending_events=sum(table.pending_events for table in tables.values()),
            pending_bytes=sum(table.pending_bytes for table in tables.values()),
            lag_seconds=target_lag([table.lag_seconds for table in tables.values() if table.pending_events], self.source_lag),
            max_lag=max_lag,
            tables=tables,
            topics=self.published.get(target),
        )

    def _stopped(self, target: str) -> dict[str, TableNote]:
        """Return what stops each table of a target first."""
        first: dict[str, TableNote] = {}
        for note in self.notes:
            if note.stops and note.target in ("", target):
                first.setdefault(note.table, note)
        return first

    def _table(self, report: MergeReport | None, pile: Pile, stop: TableNote | None) -> TableStatus:
        return TableStatus(
            position=report.position if report else 0,
            through=report.through_time if report else None,
            events=report.events if report else 0,
            state="stopped" if stop else report.state if report else "waiting",
            reason=stop.reason if stop else report.reason if report else "",
            pending_events=pile.rows,
            pending_bytes=pile.bytes,
            lag_seconds=table_lag(pile, self.now),
        )


def list_lags(settings: Settings, store: Store, name: str, table: str | None = None, since: dt.datetime | None = None) -> LagHistory:
    """Return the lags of a pipeline and of each of its targets, or of a table in each target, since a day ago by default.

    Raises UnknownPipeline, ConfigError and StoreError.
    """
    targets, now = settings.pipeline(name).targets, dt.datetime.now(dt.UTC)
    since = min(max(since or now - lags.FINE, now - lags.KEPT), now)
    if table is not None:
        check_table(store, name, table)
    places = [(target, table or "") for target in sorted(targets)]
    whole = [_series(None, None, lags.list_lags(store, name, since))] if table is None else []
    tables = lags.list_table_lags(store, name, places, since)
    return LagHistory(pipeline=name, series=[*whole, *(_series(target, table, points) for (target, _), points in tables.items())])


def _series(target: str | None, table: str | None, points: Sequence[Point]) -> LagSeries:
    listed = [LagPoint(at=point.at, span=point.span, **point.lag._asdict()) for point in points]
    return LagSeries(target=target, table=table, points=listed)


def check_table(store: Store, name: str, table: str) -> None:
    """Raise ConfigError unless something of a table was staged, or a target holds it."""
    known = _known_tables(store, name)
    if table not in known:
        raise ConfigError(f"pipeline {name!r} has staged nothing of a table {table!r}; it has of {_examples(known)}")


def match_tables(settings: Settings, store: Store, name: str, patterns: Sequence[str]) -> list[str]:
    """Return the tables of a pipeline that are called so, or match a pattern; without a point in it, by their names in any database.

    Raises UnknownPipeline, ConfigError if there is none, and StoreError.
    """
    settings.pipeline(name)
    known = _known_tables(store, name)
    found = {
        table
        for pattern in patterns
        for table in known
        if pattern == table or fnmatchcase(table if "." in pattern else table.partition(".")[2], pattern)
    }
    if not found:
        named = " or ".join(map(repr, patterns))
        raise ConfigError(f"pipeline {name!r} has staged nothing of a table {named}; it has of {_examples(known)}")
    return sorted(found)


def _known_tables(store: Store, name: str) -> set[str]:
    """Return the tables of which something was staged, or that a target holds."""
    return {*parts.list_tables(store, name), *(table for _, table in pipelines.count_merged(store, name))}


def _examples(tables: Collection[str]) -> str:
    return (", ".join(sorted(tables)[:5]) + (f" and {len(tables) - 5:,} more" if len(tables) > 5 else "")) or "no table yet"


def condense(points: Sequence[LagPoint], since: dt.datetime, until: dt.datetime, most: int) -> list[LagPoint]:
    """Return at most some ``most`` points of a stretch of time, each the maxima of those that are closer together."""
    width = max(1.0, (until - since).total_seconds() / most)
    groups = groupby(points, key=lambda point: int((point.at - since).total_seconds() // width))
    return [_join(list(group), round(width)) for _, group in groups]


def _join(points: Sequence[LagPoint], width: int) -> LagPoint:
    return LagPoint(
        at=points[0].at,
        span=max(width, *(point.span for point in points)),
        seconds=max((point.seconds for point in points if point.seconds is not None), default=None),
        bytes=max((point.bytes for point in points if point.bytes is not None), default=None),
        rate=max(point.rate for point in points),
    )
