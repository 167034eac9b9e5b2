"""Pipelines as the store has them after a while: one at work with tables in every state, one paused, one that died, and a new one."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from auditor.api_models.pipeline import MergeState, PipelineProgress, StagedBatch
from auditor.config import Settings
from auditor.model import Part, Segment, TableNote
from auditor.pipeline.binlog.heartbeats import Beat, Trail
from auditor.service.pipeline_problems import look_at_pipelines
from auditor.store import Store, lags, live_epochs, parts, pipelines, refreshes, schema_changes, segments, table_notes
from auditor.store.lags import Lag
from auditor.store.schema_changes import TargetMigration

LONG = "shop.order_lines_of_the_second_warehouse_with_a_name_that_is_wider_than_any_phone_is"
TABLES = ("shop.orders", "shop.customers", "shop.items", "shop.payments", LONG, "shop.log")
STOPPED = (
    "the table has a column 'note' of the type json since 000041:7781, which the target's column of the type varchar(20) cannot hold;"
    " widen it there: ALTER TABLE shop.payments ALTER COLUMN note TYPE text"
)
DELAYED = "the connection to warehouse was lost: server closed the connection unexpectedly"


def configured(folder: str, source: str, target: str) -> dict[str, Any]:
    """Return the pipelines' configuration, from one connection into another."""

    def pipeline(**more: Any) -> dict[str, Any]:
        staging = {"path": f"{folder}/staging"}
        return {"source": {"connection": source, "tables": ["*"]}, "staging": staging, "targets": _targets(target), **more}

    return {
        "shop": pipeline(segment={"rows": 5000}, max_lag="5m"),
        "crm": pipeline(),
        "erp": pipeline(),
        "new": pipeline(segment={"rows": 5000}),
    }


def _targets(connection: str) -> dict[str, Any]:
    return {"warehouse": {"connection": connection, "schema": "shop"}, "lake": {"connection": connection, "schema": "lake", "every": "5m"}}


def create(settings: Settings, store: Store, now: dt.datetime) -> None:
    """Store what the pipelines' processes reported."""
    _stage(store, now)
    _merge(store, now)
    _notes(store, now)
    _refreshes(store)
    _live_summaries(store, now)
    _history(store, now)
    pipelines.set_progress(store, "crm", _progress(now, 90_000_000, 7200))
    pipelines.set_paused(store, "crm", True, by="ada")
    pipelines.set_progress(store, "erp", _progress(now - dt.timedelta(minutes=14), 5_200_000, 90))
    pipelines.set_reason(store, "erp", "the source cannot be reached: connection refused")
    heartbeat(store, now)
    for later in (0, 200):  # once to see the problems, once more after those last that have to
        look_at_pipelines(settings, store, now + dt.timedelta(seconds=later))


def heartbeat(store: Store, now: dt.datetime) -> None:
    """Store a new look of the pipeline at work."""
    warning = (
        "the disk of the staging's folder has 212 MiB left, and fewer than 256 MiB may not do for the next batches; free some space there:"
        " staging waits while it is full"
    )
    pipelines.set_progress(store, "shop", _progress(now, 18_400, 3).model_copy(update={"warnings": [warning]}))


def _progress(at: dt.datetime, size: int, seconds: float) -> PipelineProgress:
    return PipelineProgress(
        at=at,
        current_at=at - dt.timedelta(seconds=seconds),
        lag_bytes=size,
        log_end="binlog.000041:99120",
        log_expires=259200,
        free_bytes=212 << 20,
        batch=StagedBatch(events=812, bytes=65_000, seconds=0.21),
    )


def _stage(store: Store, now: dt.datetime) -> None:
    def staged(number: int, table: str, ago: float) -> Part:
        return Part(table, number * 100 + 1, number * 100 + 99, 812, 65_000, "5c", f"{table}/{number}", now - dt.timedelta(seconds=ago))

    batch = [staged(number, table, 900.0 - number * 60) for number in range(1, 13) for table in TABLES]
    beat = Trail(Beat("shop", 41_207, now - dt.timedelta(seconds=9), server=1)).to_json()
    parts.record_batch(store, "shop", batch, {}, {"file": "binlog.000041", "position": 80_720, "heartbeat": beat})
    ended = [
        Segment("shop.orders", n * 50, 0, n * 50 + 49, 3, 5000, 410_233, "5c", f"{n:02x}" * 32, 1, f"orders/{n}.parquet",
                now - dt.timedelta(minutes=100 - n), now - dt.timedelta(minutes=99 - n), f"0-1-{n}")
        for n in range(1, 46)
    ]  # fmt: skip
    segments.record_cut(store, "shop", ended, segments.Cut(2400, 0, {}), 0)


def _merge(store: Store, now: dt.datetime) -> None:
    def report(target: str, table: str, position: int, state: MergeState = "merged", reason: str = "") -> None:
        at = now - dt.timedelta(seconds=20)
        pipelines.report_merges(
            store, "shop", target, {table: pipelines.MergeNews(position, state, reason=reason, events=941_222, time=at)}
        )

    for target in ("warehouse", "lake"):
        for table in TABLES[:2]:
            report(target, table, 1299)
        report(target, TABLES[4], 1099 if target == "lake" else 299)
    report("warehouse", "shop.items", 1199, "delayed", DELAYED)
    report("warehouse", "shop.payments", 799, "stopped", STOPPED)
    report("lake", "shop.items", 1299)
    report("lake", "shop.payments", 1299)


def _refreshes(store: Store) -> None:
    """One refresh that is done, one that waits for the server, and one of single keys."""
    done = refreshes.request_refresh(store, "shop", "shop.orders", refreshes.RefreshScope(), "ada")
    counts = {"rows": 1_941_222, "chunks": 388, "seconds": 412.0, "longest": 0.46}
    refreshes.save_progress(store, done.refresh, "done", counts)
    ranges = refreshes.RefreshScope(ranges=((("99999",), ("200000",)),))
    waiting = refreshes.request_refresh(store, "shop", "shop.orders", ranges, "a pipeline token")
    reason = "it waits: replica db2 lags 41 s behind, and pause_when allows 30 s"
    refreshes.save_progress(store, waiting.refresh, "running", {"rows": 20_000, "chunks": 4, "longest": 0.21}, reason)
    refreshes.request_refresh(store, "shop", "shop.orders", refreshes.RefreshScope(keys=(("17",), ("18",))), "grace")


def _notes(store: Store, now: dt.datetime) -> None:
    """What stops a table, what somebody skipped, and how a table was altered."""

    def poison(position: int, events: int) -> TableNote:
        body = {"stage": "merge", "reason": STOPPED}
        return TableNote("shop.payments", "poison", position, position + 10, events, now - dt.timedelta(hours=1), body, "warehouse")

    place = (41 << 32) + 700
    table_notes.record_poison(store, "shop", poison(place, 1))
    table_notes.skip(store, "shop", [poison(place, 1)], by="ada", reason="test rows of a migration")
    table_notes.record_poison(store, "shop", poison(place + 100, 2))
    added = ["ALTER TABLE shop.payments ADD COLUMN note varchar(20)"]
    said = ["rows from before have NULL in note"]
    schema_changes.record_migration(
        store, "shop", TargetMigration("warehouse", "shop.payments", place - 100, "5b", "5c", added, said, state="applied")
    )


def _live_summaries(store: Store, now: dt.datetime) -> None:
    """Summaries that are kept and were proved since, those that a statement ended, and those that await their scan."""

    def begun(audit: str, table: str) -> str:
        subject = live_epochs.EpochSubject(audit, "shop", "warehouse", table)
        return live_epochs.begin_epoch(store, subject, fingerprint="f", layout="1", plan={}).id

    for audit, table, ago in (("orders", "shop.orders", 5), ("customers", "shop.customers", 3)):
        epoch = begun(audit, table)
        live_epochs.place_epoch(store, epoch, position=4100, log_place="binlog.000041:4100", at=now - dt.timedelta(days=ago))
        live_epochs.keep_epoch(store, epoch, b"base")
        live_epochs.prove_epoch(store, epoch, position=61_000, log_place="binlog.000041:61000", at=now - dt.timedelta(hours=ago))
    live_epochs.end_epoch(store, epoch, "shop.customers was emptied at binlog.000041:70120, which sends no event for each row")
    begun("payments by the hour", TABLES[4])


def _history(store: Store, now: dt.datetime) -> None:
    """A history of a day and of the weeks before, with a peak each night and one gap."""
    hours = [now - dt.timedelta(hours=ago) for ago in range(29 * 24, 24, -4)]
    minutes = [now - dt.timedelta(minutes=ago) for ago in range(24 * 60, 0, -10) if not 500 < ago < 590]
    for at in hours + minutes:
        wave = 1 + math.sin(at.timestamp() / 5000)
        behind = 2.0 + 3 * wave + (190 if at.hour == 3 else 0)
        tables = {
            ("warehouse", ""): Lag(behind + 30, 190_000, 700.0),
            ("warehouse", "shop.orders"): Lag(behind + 20, int(9000 * wave), 410.0),
            ("warehouse", "shop.payments"): Lag(max(0.0, 900 - (now - at).total_seconds() / 10), 65_000, 0.0),
        }
        lags.record_lag(store, "shop", at, Lag(behind, int(20_000 * wave), 720.0), tables)
    lags.thin(store, "shop", now)
