"""Check, run, pause and reset pipelines, and propose the audits that match them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import dialects
from auditor.api_models.segment import CheckedSegment
from auditor.config import Settings, computed_kind, table_name
from auditor.durations import durations
from auditor.errors import AuditorError, ConfigError, StagingFailed
from auditor.escaping import shell_word
from auditor.pipeline import check as checks
from auditor.pipeline.batch_driver import PLANNED
from auditor.pipeline.check import Finding
from auditor.pipeline.events import is_of_table
from auditor.pipeline.executors import check_executors
from auditor.pipeline.folders import folder_at
from auditor.pipeline.incarnation import NOTE, show
from auditor.pipeline.kafka.table_columns import NOTE as COLUMNS
from auditor.pipeline.live.published_epochs import publish
from auditor.pipeline.live.staged_sums import SUMS
from auditor.pipeline.poison import find_stopped, log_file
from auditor.pipeline.refresh.source_tables import find_obstacles
from auditor.pipeline.reset import adopt_target, find_common_place, find_tables, forget_positions
from auditor.pipeline.segments.verifying import check_segment
from auditor.pipeline.segments.writer import folder_of
from auditor.pipeline.source_tables import read_schemas
from auditor.pipeline.staged_parts import ENDING
from auditor.pipeline.tracker.follower import check_tracker
from auditor.pipeline.versions.files import VERSIONS
from auditor.service.audits import with_defined_audits
from auditor.sql.filter import column_names, parse
from auditor.store import (
    events,
    leases,
    live_epochs,
    parts,
    pipelines,
    refreshes,
    row_versions,
    salt,
    schema_changes,
    segments,
    table_notes,
    topic_states,
    trackers,
)

if TYPE_CHECKING:
    from auditor.api_models.audit import ProposedAudit, ProposedTable
    from auditor.api_models.pipeline import StoppedTable
    from auditor.config import Pipeline
    from auditor.pipeline.check import Finding
    from auditor.service.pipeline_processes import PipelineProcesses
    from auditor.store import Store


def check(settings: Settings, config_file: Path, store: Store, name: str, proves: bool = False) -> list[Finding]:
    """Return everything that keeps a pipeline from running; starts Spark to look at its executors.

    With ``proves``, also whether a row that is written on the source comes through its log. Raises UnknownPipeline and StoreError.
    """
    findings = checks.check(settings, name, salt.get_salt(store))
    findings += [checks.prove(settings, name)] if proves else []
    findings += [Finding("warning", subject, sentence) for subject, sentence in _check_refreshes(settings, name)]
    findings += [Finding(severity, "tracker", sentence) for severity, sentence in check_tracker(settings, store, name)]
    subject = f"Spark at {settings.pipeline(name).master.partition('?')[0]}"
    try:
        return findings + [Finding("error", subject, sentence) for sentence in check_executors(settings, config_file.resolve(), name)]
    except AuditorError as error:
        return [*findings, Finding("error", subject, str(error))]


def _check_refreshes(settings: Settings, name: str) -> Iterator[tuple[str, str]]:
    """Yield what refreshes of a pipeline lack and cost; nothing of a source that is not reached, which is said already."""
    source = settings.pipeline(name).log_source
    if source is None:
        return
    connection = settings.connections[source.connection]
    try:
        session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
    except AuditorError:
        return
    try:
        if session.dialect.name == "mysql":
            yield from find_obstacles(settings, name, list(read_schemas(session, settings.pipeline(name)).values()))
    finally:
        session.close()


def run(settings: Settings, config_file: Path, store: Store, name: str, target: str | None, stop: Event) -> None:
    """Run a pipeline, or the loader of one of its targets alone, until ``stop`` is set. Raises AuditorError."""
    from auditor.pipeline.run import Run

    pipeline = settings.pipeline(name)
    if target is not None:
        _check_target(pipeline, name, target)
    targets = [target] if target else list(pipeline.targets)
    end_unwanted_sums(settings, store, name)
    Run(settings, config_file.resolve(), store, name, targets, stages=target is None, stop=stop).run()


def _check_target(pipeline: Pipeline, name: str, target: str) -> None:
    if target not in pipeline.targets:
        raise ConfigError(f"pipeline {name!r} has no target {target!r}; its targets are {', '.join(sorted(pipeline.targets))}")


def end_unwanted_sums(settings: Settings, store: Store, name: str) -> None:
    """End the sums that a stream keeps for audits that no longer ask for them. Raises StoreError and StagingFailed."""
    audits = with_defined_audits(settings, store).audits
    lasting = live_epochs.list_epochs(store, pipeline=name, lasting=True)
    unwanted = [epoch for epoch in lasting if epoch.audit not in audits or not audits[epoch.audit].summaries]
    for epoch in unwanted:
        live_epochs.end_epoch(store, epoch.id, "no audit of this name asks for live summaries any more")
    if unwanted:
        publish(store, name, folder_at(settings.pipeline(name).staging.path))


def set_paused(settings: Settings, store: Store, name: str, paused: bool, *, by: str = "") -> None:
    """Pause a pipeline, or let it go on, and record the event. Raises UnknownPipeline and StoreError."""
    settings.pipeline(name)
    pipelines.set_paused(store, name, paused, by)
    events.record_event(store, actor=by, action=f"pipeline {'paused' if paused else 'unpaused'}", subject=name)


def skip(settings: Settings, store: Store, name: str, table: str, place: str, reason: str, *, by: str) -> list[StoppedTable]:
    """Let a table go on without the event that stops it, written as ``FILE:POS:NUMBER``, or without all of the transaction at ``FILE:POS``.

    Returns what these are.

    Who skipped them, when and why is stored, and shown by status and by audits of the table. Raises UnknownPipeline, ConfigError for a
    reason that says nothing and a place where nothing stops the table, and StoreError.
    """
    from auditor.service.pipeline_status import describe_stop

    settings.pipeline(name)
    if not reason.strip():
        raise ConfigError("a reason is needed to skip events; write why they may be left out")
    stopped = find_stopped(store, name, table, place)
    stopped = table_notes.skip(store, name, stopped, by=by, reason=reason.strip(), whole=place.count(":") == 1)
    subject = {"table": stopped[0].table, "place": place, "events": sum(note.events for note in stopped), "reason": reason}
    events.record_event(store, actor=by, action="pipeline skipped", subject=name, detail=subject)
    skipped = {(note.position, note.row, note.kind, note.target) for note in stopped}
    listed, file = table_notes.list_notes(store, name, [stopped[0].table]), log_file(store, name)
    return [describe_stop(note, file) for note in listed if (note.position, note.row, note.kind, note.target) in skipped]


def start(settings: Settings, store: Store, processes: PipelineProcesses | None, name: str, *, by: str) -> None:
    """Let a pipeline go on that may be paused, and start its process again at once; record the event.

    ``processes`` are those of this service. Raises UnknownPipeline, ConfigError for one that this service does not run, and StoreError.
    """
    settings.pipeline(name)
    if processes is None or not processes.restart(name):
        raise ConfigError(
            f"this service does not run pipeline {name!r}; start it where it runs, with auditor pipeline run {shell_word(name)}, or list it"
            " under service: pipelines in auditor.yaml"
        )
    pipelines.set_paused(store, name, False)
    events.record_event(store, actor=by, action="pipeline started", subject=name)


def describe_reset(settings: Settings, store: Store, name: str, *, from_targets: bool = False, target: str | None = None) -> list[str]:
    """Return what a reset will forget, a line each. Raises UnknownPipeline, ConfigError for an unknown target, and StoreError."""
    pipeline = settings.pipeline(name)
    tables = parts.list_tables(store, name)
    if target is not None:
        _check_target(pipeline, name, target)
        return [
            f"the positions of {len(tables)} tables in target {target}, whose rows stay as they are; drop what is to be made anew",
            "what stopped its tables, and which of their changes it followed",
        ]
    piles = parts.sum_parts(store, name).values()
    rows, size = sum(pile.rows for pile in piles), sum(pile.bytes for pile in piles)
    return [
        f"the staged parts below {pipeline.staging.path}: {rows:,} events, {size:,} bytes",
        f"the position in the change stream of {pipeline.source_name}",
        *(["what its tracker knows of tables; that server's own stay until it begins anew"] if pipeline.tracker else []),
        *([_of_segments(pipeline)] if segments.last_places(store, name) else []),
        *(
            f"nothing of the register of segment audit {audit}; then run: auditor segments reset {shell_word(audit)}"
            for audit, segment_audit in settings.segments.items()
            if name in segment_audit.pipelines
        ),
        *(
            f"the positions of {len(tables)} tables in target {target}, whose rows stay as they are"
            for target in (() if from_targets else pipeline.targets)
        ),
    ]


def _of_segments(pipeline: Pipeline) -> str:
    in_archive = pipeline.segment and pipeline.segment.path
    return "which segments there are; their files stay" if in_archive else "the segments of its stream, with their files"


def reset(settings: Settings, store: Store, name: str, *, from_targets: bool = False) -> str:
    """Forget what `describe_reset` lists; ``from_targets``, let the stream begin again where all targets hold every table.

    Returns that place; '' without it. Raises LeaseTaken while the pipeline runs, AuditorError of a target that is not reached, and what
    `find_common_place` raises.
    """
    from auditor.pipeline.run import lease_of_source

    pipeline = settings.pipeline(name)
    with ExitStack() as leases_held:
        leases_held.enter_context(leases.keep(store, "source", lease_of_source(settings, name), durations().command_lease))
        for target in pipeline.targets:
            leases_held.enter_context(leases.keep(store, "target", f"{name}/{target}", durations().command_lease))
        tables = find_tables(settings, store, name) if from_targets else []
        offset = find_common_place(settings, store, name, tables) if from_targets else None
        for target in () if from_targets else pipeline.targets:
            forget_positions(settings, store, name, target)
        parts.forget(store, name, schemas=not from_targets)
        pipelines.forget(store, name)
        segments.forget(store, name)
        row_versions.forget(store, name)
        table_notes.forget(store, name)
        schema_changes.forget(store, name, history=not from_targets)
        refreshes.forget(store, name)
        trackers.forget(store, name)
        topic_states.forget(store, name)
        try:
            folder_at(pipeline.staging.path).clear((NOTE, PLANNED, COLUMNS), (ENDING, SUMS, VERSIONS))
        except OSError as error:
            raise StagingFailed(f"the staging's folder {pipeline.staging.path} cannot be swept: {error}") from error
        if offset is None:
            return ""
        incarnation = pipelines.begin(store, name, offset)
        for target in pipeline.targets:
            adopt_target(settings, store, name, target, tables, incarnation)
        return show(offset)


def reset_target(settings: Settings, store: Store, name: str, target: str) -> None:
    """Forget how far one target is, so that it begins as one that was just added; its rows, and all other targets, stay as they are.

    Raises LeaseTaken while a process loads it, ConfigError for an unknown target, and AuditorError if it is not reached.
    """
    _check_target(settings.pipeline(name), name, target)
    with leases.keep(store, "target", f"{name}/{target}", durations().command_lease):
        forget_positions(settings, store, name, target)
        pipelines.forget_target(store, name, target)
        table_notes.forget(store, name, target)
        schema_changes.forget_target(store, name, target)
        topic_states.forget(store, name, target)


def propose_audits(settings: Settings, name: str, tables: Sequence[str] | None = None) -> dict[str, ProposedAudit]:
    """Return definitions of audits that compare each table of a pipeline with each of its targets, by name, as plain values.

    They leave out excluded and masked columns, rename the others, compute at the source what the pipeline computes, and have its filter.
    What a function in Python computes is only in the target, as their reports say. A table that is split over several has an audit for
    each, with the filter of its rows on the source alone: so a row that is in a table which it left, or never was to be in, is found. So
    has a filter by columns that the target does not have as they are. Raises EngineError.
    """
    pipeline = settings.pipeline(name)
    source = pipeline.of_log("an audit")
    connection = settings.connections[source.connection]
    home = dialects.parse_url(connection.url).database
    places = [(home, table) for table in tables or ()]
    if tables is None:
        session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
        try:
            places = [(schema.database, schema.table) for schema in read_schemas(session, pipeline).values() if schema.key]
        finally:
            session.close()
    audits: dict[str, ProposedAudit] = {}
    for database, table in places:
        read = table_name(table) if database == home else table_name(database, table)
        rules = pipeline.columns_of(table)
        left_out = [*rules.exclude, *rules.mask]
        for (output, where), (target, chosen) in itertools.product(rules.outputs(table).items(), pipeline.table_targets.items()):
            audit_name = f"{name}_{output}" if database == home else f"{name}_{database}_{output}"
            into: ProposedTable = {"connection": chosen.connection, "table": table_name(*chosen.place_of(f"{database}.{output}"))}
            if rules.rename:
                into["columns"] = dict(rules.rename)
            audit: ProposedAudit = {"source": {"connection": source.connection, "table": read}, "target": into}
            if left_out:
                audit["columns"] = {"exclude": left_out}
            if rules.compute:
                computed = {name: {"expr": {"compute": one.expr}, "kind": _compared_kind(one.kind)} for name, one in rules.compute.items()}
                audit["columns"] = {**audit.get("columns", {}), "override": computed}
            if where is not None:
                audit["where"] = where
                if rules.table or _reads(where, left_out):
                    audit["where_on"] = "source"
            audits[audit_name if len(pipeline.table_targets) == 1 else f"{audit_name}_{target}"] = audit
    return audits


def _compared_kind(text: str) -> str:
    kind = computed_kind(text)
    return "text" if kind.name == "text" else str(kind)


def _reads(where: str, columns: Sequence[str]) -> bool:
    """Return whether a filter reads one of these columns. Raises BadExpression."""
    return bool({name.lower() for name in column_names(parse(where))} & {column.lower() for column in columns})


def list_segments(settings: Settings, store: Store, name: str, table: str | None, verify: bool) -> list[CheckedSegment]:
    """Return a pipeline's segments in order, each with what is wrong with its file; without ``verify`` none is read.

    Raises UnknownPipeline, ConfigError for a table that has no segment, and StoreError.
    """
    pipeline = settings.pipeline(name)
    known = sorted(segments.last_places(store, name))
    chosen = [full_name for full_name in known if is_of_table(full_name, table)]
    if table and not chosen:
        raise ConfigError(f"pipeline {name!r} has no segments of {table!r}; it has of {', '.join(known) or 'no table yet'}")
    checked: list[CheckedSegment] = []
    for full_name in chosen:
        after = (0, -1)
        while page := segments.list_segments(store, name, full_name, after):
            wrong = [check_segment(folder_of(pipeline), segment) if verify else "" for segment in page]
            checked += [CheckedSegment(**asdict(segment), wrong=why or None) for segment, why in zip(page, wrong, strict=True)]
            after = (page[-1].last, page[-1].last_row)
    return checked
