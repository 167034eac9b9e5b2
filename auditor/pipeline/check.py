"""Check what a pipeline needs of its source, its tables and its targets, and say all that is missing at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Literal

import dialects
import sql_templates
from auditor.config import Pipeline, Settings
from auditor.connections.writer import open_writer
from auditor.durations import durations
from auditor.errors import AuditorError, NoSuchObject
from auditor.pipeline.binlog.cascades import Cascades, read_references
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Request, Source, log_status, other_server_id, source_of
from auditor.pipeline.binlog.log_scope import find_gaps
from auditor.pipeline.binlog.ranges import LogRange, LogScan, Mark
from auditor.pipeline.binlog.selection import DOTTED, Selection
from auditor.pipeline.binlog.table_map import is_old_time, refuse_old_time
from auditor.pipeline.events import TableSchema
from auditor.pipeline.heartbeat import open_heartbeat
from auditor.pipeline.kafka.source_check import check_source_topics, sample_schemas
from auditor.pipeline.kafka.target_check import check_topics
from auditor.pipeline.merge.name_collisions import describe_shared, find_alike
from auditor.pipeline.merge.positions import is_at_one_moment
from auditor.pipeline.merge.table_statistics import check_analyze
from auditor.pipeline.merge.target_table import TargetTable, examine, find_table, folding
from auditor.pipeline.segments.buckets import refuse_missing_column
from auditor.pipeline.source_tables import home_of, list_source_tables, list_tables, list_versioned, read_schemas
from auditor.pipeline.stage_task import TableRules, refuse_name
from auditor.sql.merge import is_own_table
from dialects import Session, versions

LEAST_EXPIRY = 86400
"""Seconds for which the source should keep its binary log, so that a pipeline that stood still for a night can continue."""

PROVING_BYTES = 4 << 20
"""Bytes of the log that are decoded at once."""

METADATA = "binlog_row_metadata"
"""The setting that a tracker makes good for."""

WANTED = {
    "log_bin": ("ON", "start the server with --log-bin"),
    "binlog_format": ("ROW", "run SET GLOBAL binlog_format = 'ROW'"),
    "binlog_row_image": ("FULL", "run SET GLOBAL binlog_row_image = 'FULL'"),
    METADATA: ("FULL", "run SET GLOBAL binlog_row_metadata = 'FULL'"),
    "binlog_row_value_options": ("", "run SET GLOBAL binlog_row_value_options = ''"),
}
"""Settings of the source, their value, and what sets it. https://dev.mysql.com/doc/refman/9.4/en/replication-options-binary-log.html"""

PRIVILEGES = (
    (r"REPLICATION SLAVE", "REPLICATION SLAVE"),
    (r"REPLICATION CLIENT|BINLOG MONITOR", "REPLICATION CLIENT"),
    (r"SELECT", "SELECT"),
)
"""What a grant must contain, and the privilege that gives it. MariaDB calls the second BINLOG MONITOR."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a pipeline needs and that is not so."""

    severity: Literal["error", "warning", "note"]
    subject: str
    """The source, a table, or a target."""
    sentence: str


def check(settings: Settings, name: str, salt: bytes) -> list[Finding]:
    """Return everything that keeps a pipeline from running, or may do so later. Raises UnknownPipeline."""
    pipeline = settings.pipeline(name)
    findings: list[Finding] = []
    schemas: list[TableSchema] = []
    if pipeline.topic_source:
        return _check_topics(settings, name, salt)
    source = pipeline.of_log("a log")
    connection = settings.connections[source.connection]
    try:
        session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
    except AuditorError as error:
        return [Finding("error", f"source {source.connection}", str(error))]
    try:
        findings += [Finding(severity, "source", sentence) for severity, sentence in check_source(session, pipeline.tracker is not None)]
        for result in _read_tables(session, pipeline, salt):
            if isinstance(result, Finding):
                findings.append(result)
            else:
                schemas.append(result)
        said = {one.sentence for one in findings}
        found = find_shared(settings, name, [".".join(table) for table in list_tables(session, pipeline)])
        findings += [one for one in found if one.sentence not in said]
        if session.dialect.CHANGE_STREAM == "binlog":
            findings += _check_cascades(session, pipeline, connection.url)
            findings += _check_scope(settings, name)
    except AuditorError as error:
        findings.append(Finding("error", f"source {source.connection}", str(error)))
    finally:
        session.close()
    findings += _find_routed(pipeline)
    for target in pipeline.table_targets:
        findings += check_target(settings, name, target, schemas)
    for target in pipeline.topic_targets:
        findings += [
            Finding(severity, f"target {target}", sentence) for severity, sentence in check_topics(settings, name, target, schemas)
        ]
    return findings


def _check_topics(settings: Settings, name: str, salt: bytes) -> list[Finding]:
    """Return what keeps a pipeline from reading its topics, and their tables from being loaded."""
    pipeline, findings, schemas = settings.pipeline(name), list[Finding](), list[TableSchema]()
    subject = f"source {pipeline.source_name}"
    try:
        findings += [Finding(severity, about, sentence) for severity, about, sentence in check_source_topics(settings, name)]
        if not any(found.severity == "error" and found.subject == subject for found in findings):
            findings += find_shared(settings, name, list_source_tables(settings, name))
            for about, schema in sample_schemas(settings, name):
                if isinstance(schema, str):
                    findings.append(Finding("warning", about, schema))
                    continue
                findings += _check_columns(pipeline, f"table {schema.database}.{schema.table}", schema)
                findings += _check_buckets(pipeline, f"table {schema.database}.{schema.table}", schema)
                try:
                    schemas += [projection.schema for projection in TableRules(pipeline, salt).project(schema)]
                except AuditorError as error:
                    findings.append(Finding("error", about, str(error)))
    except AuditorError as error:
        findings.append(Finding("error", subject, str(error)))
    findings += _find_routed(pipeline)
    for target in pipeline.table_targets:
        findings += check_target(settings, name, target, schemas)
    return findings


def find_shared(settings: Settings, name: str, tables: Sequence[str]) -> Iterator[Finding]:
    """Yield which of the source's tables, ``database.table``, or of those into which their rows go, would be one table of a target.

    A target is asked only where names differ in the case of their letters alone; one that cannot be reached says so elsewhere.
    """
    pipeline = settings.pipeline(name)
    for table in tables:
        if other := pipeline.routed_from(table.partition(".")[2]):
            yield Finding("error", f"table {table}", refuse_name(table, other))
    tables = sorted({output for table in tables for output in pipeline.outputs_of(table)})
    for target, chosen in pipeline.table_targets.items():
        shared: dict[str, list[str]] = {table: [] for table in tables if is_own_table(chosen.place_of(table)[1])}
        shared |= find_alike(lambda text: text, chosen.place_of, tables)
        if find_alike(str.lower, chosen.place_of, tables).keys() - shared.keys():
            with suppress(AuditorError), open_writer(chosen.connection, settings.connections[chosen.connection]) as session:
                shared |= find_alike(folding(session), chosen.place_of, tables)
        reported: set[str] = set()
        for table, others in shared.items():
            if table not in reported:
                reported |= {table, *others}
                yield Finding("error", f"target {target}", describe_shared(target, chosen.place_of, table, others))


def _find_routed(pipeline: Pipeline) -> Iterator[Finding]:
    """Yield which settings of targets are about tables whose rows all go into others."""
    for target, chosen in pipeline.targets.items():
        for table in chosen.tables:
            name = table.rpartition(".")[2]
            if name not in (outputs := pipeline.columns_of(name).outputs(name)):
                sentence = f"tables: {table} is no table there: its rows go into {', '.join(outputs)}; name these"
                yield Finding("warning", f"target {target}", sentence)


def check_source(session: Session, has_tracker: bool) -> Iterator[tuple[Literal["error", "warning"], str]]:
    """Yield what of a server's settings and of the user's rights keeps its log from being read, or may do so later. Raises EngineError."""
    if session.dialect.CHANGE_STREAM != "binlog":
        yield "error", f"it is {session.server}, which has no binary log; a pipeline reads MySQL or MariaDB"
        return
    values = {str(name): str(value) for name, value in session.query(_statement(session, "pipeline_settings"))}
    if engine := values.get("binlog_storage_engine"):
        reason = "a log that an engine keeps has no positions in files to read it from; start the server without this option"
        yield "error", f"binlog_storage_engine is {engine!r}, and {reason}"
    for note in versions.note_log(session.server, session.variants):
        yield "warning", note
    values.setdefault(METADATA, "not there")  # before MySQL 8.0 and MariaDB 10.5
    for setting, (wanted, way_out) in WANTED.items():
        if values.get(setting, wanted).upper() != wanted and not (setting == METADATA and has_tracker):
            other_way = "; or give the pipeline a tracker: {url: ...}" if setting == METADATA else ""
            option_file = f"and write it into the server's option file{other_way}"
            yield "error", f"{setting} is {values[setting]!r} and must be {wanted!r}; {way_out}, {option_file}"
    if values.get("server_id", "1") == "0":
        yield "error", "server_id is 0, so that the server sends its binary log to nobody; run: SET GLOBAL server_id = 1"
    expiry = int(values.get("binlog_expire_logs_seconds", "0") or 0)
    if 0 < expiry < LEAST_EXPIRY:
        way_out = f"SET GLOBAL binlog_expire_logs_seconds = {7 * LEAST_EXPIRY}"
        yield "warning", f"binary logs are deleted after {expiry} s; a pipeline that is stopped for longer must begin again; run: {way_out}"
    if "ALLOW_INVALID_DATES" in values.get("sql_mode", "").upper():
        yield "warning", "sql_mode has ALLOW_INVALID_DATES: a date that does not exist, as 2024-02-31, would stop its table; take it out"
    grants = " ".join(str(row[0]).upper() for row in session.query(_statement(session, "grants")))
    missing = [privilege for pattern, privilege in PRIVILEGES if not re.search(rf"ALL PRIVILEGES|{pattern}", grants)]
    if missing:
        yield "error", f"the user needs {' and '.join(missing)}; run: GRANT {', '.join(missing)} ON *.* TO the user of the connection's URL"


def _check_cascades(session: Session, pipeline: Pipeline, url: str) -> Iterator[Finding]:
    """Yield the tables that change with events of others without events of their own."""
    references = read_references(session.query, session.server)
    selection = Selection(pipeline.source.tables, dialects.parse_url(url).database)
    for child, reference in Cascades(references, selection).silent():
        yield Finding(
            "warning",
            f"table {'.'.join(child)}",
            f"its rows change by the foreign key {reference}, and this server does not log that; the table stops at the first such event of"
            f" {'.'.join(reference.parent)}; let the application change its rows itself, or leave the table out",
        )


def _check_scope(settings: Settings, name: str) -> Iterator[Finding]:
    """Yield why rows of the pipeline's tables never come into the source's log."""
    for is_error, sentence in find_gaps(source_of(settings, name), settings.pipeline(name).source.tables):
        yield Finding(
            "error" if is_error else "warning", "source", f"rows are missing in its binary log: {sentence}" if is_error else sentence
        )


def prove(settings: Settings, name: str) -> Finding:
    """Write a row into a table of the auditor's own on a pipeline's source, and see whether it comes through the log, as rows of others do.

    Raises UnknownPipeline.
    """
    pipeline = settings.pipeline(name)
    read, began = pipeline.of_log("--prove"), time.monotonic()
    subject = f"source {read.connection}"
    try:
        source = source_of(settings, name)
        with closing(source.connect()) as connection:
            start = log_status(connection).end
        with open_heartbeat(settings, read.refresh or read.connection) as writer:
            written = writer.write()
            with closing(LogScan(Request(source, start, other_server_id()), Mark(start), PROVING_BYTES, durations().log_proof)) as scan:
                while time.monotonic() < began + durations().log_proof:
                    with closing(source.connect()) as connection:
                        ranges = scan.advance(log_status(connection).end)
                    if _has_come(pipeline, source, writer.table, scan, ranges, written.serial):
                        seconds = time.monotonic() - began
                        return Finding("note", subject, f"proved: a row of {writer.table} came through the log within {seconds:.1f} s")
                    time.sleep(durations().log_proof_poll)
        limit = f"{durations().log_proof:g} s"
        sentence = f"a row that was written into {writer.table} did not come through the log within {limit}; check what the log leaves out"
        return Finding("error", subject, f"{sentence}, and whether both connections lead to one server")
    except AuditorError as error:
        return Finding("error", subject, f"not proved: {error}")


def _has_come(pipeline: Pipeline, source: Source, table: str, scan: LogScan, ranges: list[LogRange], serial: int) -> bool:
    """Return whether a heartbeat is in these ranges of the log; without a tracker it is decoded as rows of others are."""
    if pipeline.tracker is not None:
        return scan.mark.trail is not None and scan.mark.trail.beat.serial == serial
    named = table.replace("`", "")
    reading = Reading(source, Selection([named], ""), 0, durations().log_proof)
    values = (row for log_range in ranges for batch in reading.batches(log_range) for row in batch["after"].to_pylist())
    return any(row and str(serial) in row for row in values)


def _read_tables(session: Session, pipeline: Pipeline, salt: bytes) -> Iterator[TableSchema | Finding]:
    schemas, home, versioned = read_schemas(session, pipeline), home_of(session), list_versioned(session)
    for pattern in pipeline.source.tables:
        alone = pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"tables": (pattern,)})})
        if not any(alone.replicates(schema.table, schema.database, home) for schema in schemas.values()):
            yield Finding("warning", f"table {pattern}", "the source has no such table; correct source: tables")
    for table, schema in schemas.items():
        subject = f"table {schema.table if schema.database == home else table}"
        if "." in schema.database:
            yield Finding("error", subject, DOTTED)
            continue
        if table in versioned:
            yield Finding("warning", subject, "it is system-versioned: the rows that a SELECT shows are carried, and none of its history")
        for column in schema.columns:
            if is_old_time(column.type):
                yield Finding("error", subject, refuse_old_time(table, column.name, column.type))
        yield from _check_columns(pipeline, subject, schema)
        yield from _check_buckets(pipeline, subject, schema)
        try:
            yield from (projection.schema for projection in TableRules(pipeline, salt).project(schema))
        except AuditorError as error:
            yield Finding("error", subject, str(error))


def _check_buckets(pipeline: Pipeline, subject: str, schema: TableSchema) -> Iterator[Finding]:
    """Yield that a table has not the column by whose values its segments have digests."""
    table = f"{schema.database}.{schema.table}"
    known = {name.lower() for name in (*(column.name for column in schema.columns), *pipeline.columns_of(schema.table).computed_kinds)}
    if pipeline.segment and (by := pipeline.segment.column_of(table)) and by.lower() not in known:
        yield Finding("error", subject, refuse_missing_column(table, by, [column.name for column in schema.columns]))


def _check_columns(pipeline: Pipeline, subject: str, schema: TableSchema) -> Iterator[Finding]:
    """Yield which columns of a table are named that it does not have."""
    rules = pipeline.columns_of(schema.table)
    known = {name.lower() for name in (*(column.name for column in schema.columns), *rules.computed_kinds)}
    if unknown := [name for name in rules.docs if name.lower() not in known]:
        yield Finding("warning", subject, f"docs says what {', '.join(unknown)} holds, which the table does not have; correct the name")


def check_target(settings: Settings, name: str, target: str, schemas: list[TableSchema]) -> list[Finding]:
    """Return what stands against loading these tables into a target, and what is worth a note; an error of the target is a finding too."""
    findings: list[Finding] = []
    chosen = settings.pipeline(name).table_targets[target]
    try:
        with open_writer(chosen.connection, settings.connections[chosen.connection]) as session:
            findings += [Finding("note", f"target {target}", note) for note in session.notes]
            is_at_one_moment(session, chosen)
            check_analyze(session, chosen)
            for schema in schemas:
                try:
                    table = f"{schema.database}.{schema.table}"
                    place = chosen.place_of(table)
                    made, _ = examine(session, place, name, schema, None, chosen.keys_of(table))
                    findings += [
                        Finding("warning", f"target {target}", sentence) for sentence in _values_refused(session, place, schema, made)
                    ]
                except NoSuchObject:  # the schema will be made
                    continue
                except AuditorError as error:
                    findings.append(Finding("error", f"target {target}", str(error)))
    except AuditorError as error:
        findings.append(Finding("error", f"target {target}", str(error)))
    return findings


def _values_refused(session: Session, place: tuple[str, str], schema: TableSchema, made: TargetTable) -> Iterator[str]:
    """Yield which values the source may hold, and the target cannot, as far as both catalogues tell."""
    table, dialect = f"{schema.database}.{schema.table}", session.dialect
    for column in schema.columns:
        if column.type.startswith("time") and not column.type.startswith("timestamp") and not dialect.types.LONG_CLOCKS:
            yield f"{table}.{column.name} is {column.type}: a duration that is negative or beyond 24 hours would stop the table"
    there = find_table(session, *place)
    names = {target: source for source, target in made.names.items()}
    columns = {column.name: column for column in schema.columns}
    for target in there.columns if there else ():
        source = columns.get(names.get(target.name, ""))
        if source and source.nullable and not target.nullable and source.name not in schema.key:
            way_out = f"ALTER TABLE {there.sql if there else ''} ALTER COLUMN {dialect.names.quote(target.name)} DROP NOT NULL"
            yield (
                f"{table}.{source.name} may be NULL in the source, and not in the target: a NULL would stop the table; run there: {way_out}"
            )
        length, longest = (_length(native) for native in (source.type if source else "", target.native))
        if source and length and longest and longest < length and not dialect.writing.REFUSES_LONG_VALUES:
            yield (
                f"{table}.{source.name} is {source.type}, and {target.native} in the target: a longer value would stop the table; widen the"
                " target's column"
            )


def _length(native: str) -> int | None:
    """Return how many characters a type of texts holds; None if it says none."""
    match = re.match(r"(?:var)?char(?:acter)?(?: varying)?\((\d+)\)", native.lower())
    return int(match[1]) if match else None


def _statement(session: Session, template: str) -> str:
    return sql_templates.fill(session.dialect.template(template), {})
