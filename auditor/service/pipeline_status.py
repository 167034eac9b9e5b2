"""How a pipeline stands: what was staged, how far that lies behind the source, and what each target holds and lacks."""

from __future__ import annotations

import datetime as dt
from typing import Any

from auditor.config import Settings
from auditor.model import LiveEpoch, TableNote
from auditor.pipeline import watch
from auditor.pipeline.lag import table_lag, target_lag
from auditor.pipeline.poison import place_of, place_text
from auditor.store import Store, live_epochs, parts, pipelines, table_notes, target_migrations
from auditor.store.parts import Pile
from auditor.store.pipelines import MergeReport, PipelineState
from auditor.store.target_migrations import TargetMigration

SHOWN_MIGRATIONS = 20
"""Migrations of targets that are shown, the newest."""

FRESH = 30.0
"""Seconds for which a look of the pipeline's own process counts as present; without one, no process runs."""


def status(settings: Settings, store: Store, name: str, look: bool = True) -> dict[str, Any]:
    """Return how a pipeline stands, as plain values that docs/pipelines.md explains.

    With ``look`` the source is looked at if no process runs that does. Raises UnknownPipeline and StoreError.
    """
    pipeline, now = settings.pipeline(name), dt.datetime.now(dt.UTC)
    state, merges = pipelines.get_pipeline(store, name), pipelines.list_merges(store, name)
    is_running = _is_fresh(state, now)
    seen = watch.look_once(settings, name, state) if look and not is_running else state.progress or {}
    piles = parts.sum_parts(store, name, {})
    notes = [note for note in table_notes.list_notes(store, name) if note.reason]
    source_lag = _source_lag(seen, state, is_running or look, now)
    found: dict[str, Any] = {
        "pipeline": name,
        "running": is_running,
        "paused": state.paused,
        "paused_by": state.paused_by,
        "paused_at": state.paused_at.isoformat() if state.paused_at else None,
        "reason": state.reason,
        "staged_through": state.staged_through,
        "staged_time": state.staged_time.isoformat() if state.staged_time else None,
        "staged_at": state.staged_at.isoformat() if state.staged_at else None,
        "events": state.events,
        "heartbeat": _heartbeat(state, now),
        "lag_seconds": source_lag,
        "lag_bytes": seen.get("lag_bytes"),
        "log_end": seen.get("log_end"),
        "log_expires": seen.get("log_expires"),
        "max_lag": pipeline.max_lag,
        "seen_at": (state.progress or {}).get("at"),
        "began": (state.progress or {}).get("began"),
        "free_bytes": seen.get("free_bytes"),
        "batch": seen.get("batch") or {},
        "warnings": seen.get("warnings", []),
        "notes": seen.get("notes", []),
        "tables": {table: {"parts": pile.parts, "events": pile.rows, "bytes": pile.bytes} for table, pile in sorted(piles.items())},
        "stopped": [describe_stop(note, _log_file(state)) for note in notes if note.stops],
        "skipped": [describe_stop(note, _log_file(state)) for note in notes if note.skip],
        "migrations": [_migration(one, _log_file(state)) for one in target_migrations.list_migrations(store, name)[-SHOWN_MIGRATIONS:]],
        "live_summaries": [_live_summaries(one) for one in _newest_epochs(store, name)],
        "targets": {
            target: _target(store, name, merges.get(target, {}), source_lag, now, _stopped(notes, target)) for target in pipeline.targets
        },
    }
    for target, held in found["targets"].items():
        held["max_lag"] = pipeline.max_lag + pipeline.targets[target].every
    return found


def _migration(found: TargetMigration, file: str) -> dict[str, Any]:
    return {
        "target": found.target, "table": found.table, "place": place_text(found.position, file), "state": found.state,
        "statements": list(found.statements), "said": list(found.said), "reason": found.reason,
        "at": found.at.isoformat() if found.at else None, "ended": found.ended.isoformat() if found.ended else None,
    }  # fmt: skip


def _newest_epochs(store: Store, name: str) -> list[LiveEpoch]:
    """Return the newest epoch of each audit whose live summaries the pipeline keeps, or kept, by the audits' names."""
    found = {epoch.audit: epoch for epoch in reversed(live_epochs.list_epochs(store, pipeline=name))}
    return [found[audit] for audit in sorted(found)]


def _live_summaries(epoch: LiveEpoch) -> dict[str, Any]:
    return {
        "audit": epoch.audit, "table": epoch.table, "target": epoch.target, "state": epoch.state,
        "since": epoch.begun_at.isoformat() if epoch.begun_at else None, "since_place": epoch.log_place,
        "proved": epoch.proved_at.isoformat() if epoch.proved_at else None, "proved_place": epoch.proved_log_place,
        "ended": epoch.ended.isoformat() if epoch.ended else None, "reason": epoch.reason,
    }  # fmt: skip


def _heartbeat(state: PipelineState, now: dt.datetime) -> dict[str, Any] | None:
    """Return the last heartbeat that was staged; None if there was none."""
    found = state.source_offset.get("heartbeat") if isinstance(state.source_offset, dict) else None
    if found is None:
        return None
    age = (now - dt.datetime.fromisoformat(found["at"])).total_seconds()
    return {"database": found["database"], "serial": found["serial"], "at": found["at"], "age_seconds": age}


def _log_file(state: PipelineState) -> str:
    return str(state.source_offset.get("file", "")) if isinstance(state.source_offset, dict) else ""


def describe_stop(note: TableNote, file: str) -> dict[str, Any]:
    """Return what stops a table, or did so until it was skipped; ``file`` is any file of the source's log."""
    found = {
        "table": note.table, "place": place_of(note, file), "through": place_text(note.last, file), "events": note.events,
        "time": note.time.isoformat(), "stage": note.body.get("stage", "statement"), "target": note.target or None, "reason": note.reason,
    }  # fmt: skip
    skipped = {"skipped_by": note.skip.by, "skipped_at": note.skip.at.isoformat(), "skip_reason": note.skip.reason} if note.skip else {}
    return found | skipped


def _stopped(notes: list[TableNote], target: str) -> dict[str, TableNote]:
    """Return what stops each table of a target first."""
    found: dict[str, TableNote] = {}
    for note in notes:
        if note.stops and note.target in ("", target):
            found.setdefault(note.table, note)
    return found


def _is_fresh(state: PipelineState, now: dt.datetime) -> bool:
    at = (state.progress or {}).get("at")
    return at is not None and (now - dt.datetime.fromisoformat(at)).total_seconds() < FRESH


def _source_lag(seen: dict[str, Any], state: PipelineState, is_present: bool, now: dt.datetime) -> float | None:
    """Return the seconds since the source's log ended where staging stands; None if nothing is known of it."""
    if is_present and seen.get("lag_bytes") == 0:
        return 0.0
    current_at = dt.datetime.fromisoformat(seen["current_at"]) if seen.get("current_at") else watch.known_current_at(state)
    return (now - current_at).total_seconds() if current_at else None


def _target(
    store: Store, name: str, reports: dict[str, MergeReport], source_lag: float | None, now: dt.datetime, stopped: dict[str, TableNote]
) -> dict[str, Any]:
    pending = parts.sum_parts(store, name, {table: report.position for table, report in reports.items()})
    listed = sorted({*reports, *pending, *stopped})
    tables = {table: _table(reports.get(table), pending.get(table, Pile()), now, stopped.get(table)) for table in listed}
    lags = [table["lag_seconds"] for table in tables.values() if table["pending_events"]]
    return {
        "pending_events": sum(table["pending_events"] for table in tables.values()),
        "pending_bytes": sum(table["pending_bytes"] for table in tables.values()),
        "lag_seconds": target_lag(lags, source_lag),
        "tables": tables,
    }


def _table(report: MergeReport | None, pile: Pile, now: dt.datetime, stop: TableNote | None) -> dict[str, Any]:
    state = "stopped" if stop else report.state if report else "waiting"
    return {
        "position": report.position if report else 0,
        "through": report.through_time.isoformat() if report and report.through_time else None,
        "events": report.events if report else 0,
        "state": state,
        "reason": stop.reason if stop else report.reason if report else "",
        "pending_events": pile.rows,
        "pending_bytes": pile.bytes,
        "lag_seconds": table_lag(pile, now),
    }
