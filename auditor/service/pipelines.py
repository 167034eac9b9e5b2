"""Check, run, show, pause and reset pipelines, and propose the audits that match them."""

from __future__ import annotations

import datetime as dt
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from auditor.config import Settings
from auditor.errors import ConfigError
from auditor.pipeline import check as checks
from auditor.store import leases, parts, pipelines, runs, salt

if TYPE_CHECKING:
    from auditor.pipeline.check import Finding
    from auditor.store import Store


def check(settings: Settings, store: Store, name: str) -> list[Finding]:
    """Return everything that keeps a pipeline from running. Raises UnknownPipeline and StoreError."""
    return checks.check(settings, name, salt.get_salt(store))


def run(settings: Settings, config_file: Path, store: Store, name: str, target: str | None, stop: Event) -> None:
    """Run a pipeline, or the loader of one of its targets alone, until ``stop`` is set. Raises AuditorError."""
    from auditor.pipeline.run import Run

    pipeline = settings.pipeline(name)
    if target is not None and target not in pipeline.targets:
        raise ConfigError(f"pipeline {name!r} has no target {target!r}; its targets are {', '.join(sorted(pipeline.targets))}")
    targets = [target] if target else list(pipeline.targets)
    Run(settings, config_file.resolve(), store, name, targets, stages=target is None, stop=stop).run()


def status(settings: Settings, store: Store, name: str) -> dict[str, Any]:
    """Return how a pipeline stands, as plain values: what was staged, and of each target what it holds and lacks. Raises StoreError."""
    pipeline = settings.pipeline(name)
    state, merges, tables = pipelines.get_pipeline(store, name), pipelines.list_merges(store, name), parts.list_tables(store, name)
    targets = {}
    for target in pipeline.targets:
        reports = merges.get(target, {})
        positions = {table: report.position for table, report in reports.items()}
        rows, size = parts.count_pending(store, name, positions)
        behind = [table for table, staged in tables.items() if positions.get(table, 0) < staged.staged_through]
        times = [report.through_time for table, report in reports.items() if table in behind and report.through_time]
        lag = (dt.datetime.now(dt.UTC) - min(times)).total_seconds() if times else None if behind else 0.0
        targets[target] = {
            "pending_events": rows,
            "pending_bytes": size,
            "lag_seconds": lag,
            "tables": {
                table: {
                    "position": report.position,
                    "through": report.through_time.isoformat() if report.through_time else None,
                    "events": report.events,
                    "state": report.state,
                    "reason": report.reason,
                }
                for table, report in sorted(reports.items())
            },
        }
    return {
        "pipeline": name,
        "paused": state.paused,
        "reason": state.reason,
        "staged_through": state.staged_through,
        "staged_time": state.staged_time.isoformat() if state.staged_time else None,
        "staged_at": state.staged_at.isoformat() if state.staged_at else None,
        "tables": len(tables),
        "targets": targets,
    }


def set_paused(settings: Settings, store: Store, name: str, paused: bool) -> None:
    """Pause a pipeline, or let it go on. Raises UnknownPipeline and StoreError."""
    settings.pipeline(name)
    pipelines.set_paused(store, name, paused)


def describe_reset(settings: Settings, store: Store, name: str) -> list[str]:
    """Return what a reset will forget, a line each. Raises UnknownPipeline and StoreError."""
    pipeline = settings.pipeline(name)
    tables = parts.list_tables(store, name)
    rows, size = parts.count_pending(store, name, {})
    return [
        f"the staged parts below {pipeline.staging.path}: {rows:,} events, {size:,} bytes",
        f"the position in the change stream of {pipeline.source.connection}, and the checkpoint",
        *(f"the positions of {len(tables)} tables in target {target}, whose rows stay as they are" for target in pipeline.targets),
    ]


def reset(settings: Settings, store: Store, name: str) -> None:
    """Forget what `describe_reset` lists. Raises SourceTaken while the pipeline runs, and AuditorError of a target that is not reached."""
    from auditor.pipeline.reset import forget_positions
    from auditor.pipeline.run import lease_of_source

    pipeline = settings.pipeline(name)
    holder, about = secrets.token_hex(16), str(runs.this_process())
    names = [lease_of_source(settings, name), *(f"{name}/{target}" for target in pipeline.targets)]
    held = []
    try:
        for lease in names:
            leases.take_lease(store, lease, holder, f"a reset by {about}", 600)
            held.append(lease)
        for target in pipeline.targets:
            forget_positions(settings, name, target)
        parts.forget(store, name)
        pipelines.forget(store, name)
        with suppress(FileNotFoundError):
            _empty(Path(pipeline.staging.path))
    finally:
        for lease in held:
            leases.release_lease(store, lease, holder)


def propose_audits(settings: Settings, name: str, tables: Sequence[str] | None = None) -> dict[str, Any]:
    """Return definitions of audits that compare each table of a pipeline with each of its targets, by name, as plain values.

    They leave out excluded and masked columns, rename the others, and have the pipeline's filter. Raises EngineError.
    """
    import dialects

    pipeline = settings.pipeline(name)
    if tables is None:
        connection = settings.connections[pipeline.source.connection]
        session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
        try:
            tables = [table for table, schema in checks.read_schemas(session, pipeline).items() if schema.key]
        finally:
            session.close()
    audits: dict[str, Any] = {}
    for table in tables:
        rules = pipeline.columns_of(table)
        left_out = [*rules.exclude, *rules.mask]
        for target, chosen in pipeline.targets.items():
            into: dict[str, Any] = {"connection": chosen.connection, "table": f"{chosen.schema_}.{table}"}
            if rules.rename:
                into["columns"] = dict(rules.rename)
            audit: dict[str, Any] = {"source": {"connection": pipeline.source.connection, "table": table}, "target": into}
            if left_out:
                audit["columns"] = {"exclude": left_out}
            if rules.where is not None:
                audit["where"] = rules.where
            audits[f"{name}_{table}" if len(pipeline.targets) == 1 else f"{name}_{table}_{target}"] = audit
    return audits


def _empty(root: Path) -> None:
    """Delete what a pipeline keeps in its staging's folder, and nothing else."""
    for path in root.iterdir():
        if path.is_dir() and (path.name == "checkpoint" or any(path.glob("*.parquet")) or not any(path.iterdir())):
            shutil.rmtree(path)
