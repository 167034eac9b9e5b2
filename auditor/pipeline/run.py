"""Run a pipeline until it is stopped: the driver of its batches, a loader for each target, the lease of the source, and retention."""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.background import Backoff, Service
from auditor.config import Settings, TopicSource, TopicTarget
from auditor.connections.writer import open_writer, writing_dialect
from auditor.durations import durations
from auditor.errors import (
    AuditorError,
    BrokerUnreachable,
    ConfigError,
    EngineError,
    IncarnationsDiffer,
    LeaseTaken,
    PipelineFailed,
    StoreError,
)
from auditor.pipeline import spark
from auditor.pipeline.batch_driver import BatchDriver, read_plan
from auditor.pipeline.binlog.ddl import Value, added_value
from auditor.pipeline.binlog.log_connection import query, source_of
from auditor.pipeline.binlog.log_scope import check_scope
from auditor.pipeline.binlog.ranges import SourceOffset
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.binlog.sql_tokens import tokens
from auditor.pipeline.check import find_shared
from auditor.pipeline.events import TableSchema
from auditor.pipeline.executors import require
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.incarnation import check_staging, packed
from auditor.pipeline.joining import Joining
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.merge.target_identity import check_target
from auditor.pipeline.part_deletion import PartDeleter
from auditor.pipeline.refresh.carrier import Carrier
from auditor.pipeline.segments.process import segment_process
from auditor.pipeline.source_tables import list_source_tables
from auditor.pipeline.stage_task import TableRules
from auditor.pipeline.staged_parts import sweep
from auditor.pipeline.staging import Staging
from auditor.pipeline.target_process import TargetProcess
from auditor.pipeline.tracker.follower import Follower
from auditor.pipeline.versions.writer import version_process
from auditor.pipeline.watch import Watch
from auditor.store import Store, leases, parts, pipelines, salt
from dialects.mysql.session import server_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

log = logging.getLogger(__name__)

COLUMNS = """\
SELECT column_name, column_type, is_nullable, column_default, extra, generation_expression, column_comment
FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = '{table}'
ORDER BY ordinal_position"""


def read_values(settings: Settings, name: str, schemas: Mapping[str, TableSchema]) -> dict[str, dict[str, Value]]:
    """Return by schema what `added_value` says of each column of pipelines' tables, by the target's names, and the ``comment`` on it.

    A table that has other columns by now is left out, and so are all that the source cannot be asked for: nothing waits for it.
    """
    values: dict[str, dict[str, Value]] = {}
    try:
        with closing(source_of(settings, name).connect()) as connection:
            is_bare = "mariadb" not in server_version(connection).lower()  # MariaDB writes defaults as a statement does
            for key, schema in schemas.items():
                if (
                    of_table := _projected(settings, name, schema, _read(connection, _origin(settings, name, schema), is_bare))
                ) is not None:
                    values[key] = of_table
    except AuditorError as error:
        named = ", ".join(sorted(f"{schema.database}.{schema.table}" for key, schema in schemas.items() if key not in values)[:10])
        extra = {"action": "catalogue_unread", "pipeline": name, "tables": len(schemas) - len(values)}
        log.warning("%s: the catalogue's columns of %s cannot be read: %s", name, named, error, extra=extra)
    return values


def _projected(settings: Settings, name: str, schema: TableSchema, rows: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return the values of columns by the target's names, without those of masked ones; None if they are not those of the schema."""
    rules = settings.pipeline(name).columns_of(_origin(settings, name, schema).table)
    excluded, renamed = {column.lower() for column in rules.exclude}, {old.lower(): new for old, new in rules.rename.items()}
    values = {renamed.get(column.lower(), column): value for column, value in rows.items() if column.lower() not in excluded}
    masked = {renamed.get(column.lower(), column).lower() for column in rules.mask}
    if {column.lower() for column in values} != {column.name.lower() for column in schema.columns if not column.computed}:
        return None
    return {column: value for column, value in values.items() if column.lower() not in masked}


def _origin(settings: Settings, name: str, schema: TableSchema) -> TableSchema:
    """Return a schema with the name that its table has in the source."""
    table = settings.pipeline(name).origin_of(f"{schema.database}.{schema.table}").partition(".")[2]
    return replace(schema, table=table)


def _read(connection: Any, schema: TableSchema, is_bare: bool) -> dict[str, Value]:
    names = {"database": _quoted(schema.database), "table": _quoted(schema.table)}
    rows = [[None if value is None else _text(value) for value in row] for row in query(connection, COLUMNS.format(**names))]
    values = {str(name): _value(row, is_bare) for name, *row, _ in rows}
    for name, *_, comment in rows:
        if comment:
            values[str(name)]["comment"] = comment
    return values


def _value(row: list[str | None], is_bare: bool) -> Value:
    kind, nullable, default, extra, computed = row
    extra = (extra or "").lower()
    if computed:
        return {"unknown": "it is computed from other columns"}
    if "auto_increment" in extra:
        return {"unknown": "the server numbered its rows"}
    if "default_generated" in extra:
        return {"unknown": "its default is an expression"}
    definition = f"{kind}{' NOT NULL' if nullable == 'NO' else ''}"
    if default is not None and is_bare and "binary" in str(kind) and default.startswith("0x"):
        definition += f" DEFAULT {default}"  # MySQL shows bytes by their digits
    elif default is not None:
        definition += f" DEFAULT '{_quoted(default)}'" if is_bare and not default.startswith("b'") else f" DEFAULT {default}"
    return added_value(tokens(definition))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


SERVER_IDS = range(1 << 23, 1 << 24)
"""The server ids of pipelines: other readers of a log take larger ones, and people smaller ones."""


@dataclass(slots=True)
class Run:
    """One process's run of a pipeline."""

    settings: Settings
    config_file: Path
    store: Store
    name: str
    targets: Sequence[str]
    """The targets that this process loads; where it stages, but for those that another process loads already."""
    stages: bool = True
    """Whether this process reads the source."""
    events: type[DataSource] | None = None
    """The source of the events; by default the binary log."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to end the run after the batch."""
    _staged: list[threading.Event] = field(default_factory=list)
    _paused: threading.Event = field(default_factory=threading.Event)
    lost: list[AuditorError] = field(default_factory=list)
    """Errors that ended what the run needs, and the run with it."""

    def run(self) -> None:
        """Run until ``stop`` is set. Raises LeaseTaken, ConfigError, and errors of the source that are not retryable."""
        pipeline = self.settings.pipeline(self.name)
        root = folder_at(pipeline.staging.path)
        root.make()
        with ExitStack() as resources:
            if self.stages:
                resources.enter_context(self._keep("source", lease_of_source(self.settings, self.name)))
            self.targets = [target for target in self.targets if self._is_ours(target, resources)]
            log.info("%s: %sloads %s", self.name, "stages and " * self.stages, ", ".join(self.targets) or "none", extra={"action": "began"})
            if self.stages:
                check_staging(self.store, self.name, root, read_plan(root).get("start"))
                self.check_targets()
                parts.recount(self.store, self.name)
                orphans = sweep(root, parts.list_paths(self.store, self.name))
                log.info("%s: %d files of unfinished batches were removed", self.name, len(orphans), extra={"action": "swept"})
            if self.stages and self.events is None:
                self._refuse_shared()
            watch = Watch(self.store, self.settings, self.name) if self.stages else None
            if watch:
                watching = watch.service(self.stop)
                resources.callback(watching.stop, durations().watch_end)
                watching.start()
            session = self._start_spark(resources) if self._needs_spark() else None
            self._loaders(session, root, resources)
            self.start_service(self._housekeeping(root), resources)
            try:
                self._keep_running(session, root, watch)
            except Exception as error:  # of Python or of Java
                raise spark.translate(error) from error
        if self.lost:
            raise self.lost[0]
        log.info("%s: stopped after the batch", self.name, extra={"action": "stopped"})

    def _refuse_shared(self) -> None:
        """Raise ConfigError if tables of the source would be one table of a target; a source that is not reached is waited for later."""
        with suppress(EngineError, BrokerUnreachable):
            tables = list_source_tables(self.settings, self.name)
            if sentences := [finding.sentence for finding in find_shared(self.settings, self.name, tables)]:
                raise ConfigError("; ".join(sentences))

    def check_targets(self) -> None:
        """Check the targets that are loaded here before anything is staged; one that is not reached is checked by its loader later.

        Raises IncarnationsDiffer.
        """
        targets = self.settings.pipeline(self.name).table_targets
        for target, chosen in ((target, targets[target]) for target in self.targets if target in targets):
            target_place = Where(
                self.store, self.name, str(self.config_file), chosen.connection, chosen.schema_, "", lambda *_: [], target, chosen
            )
            try:
                with open_writer(chosen.connection, self.settings.connections[chosen.connection]) as session:
                    check_target(session, target_place)
            except IncarnationsDiffer:
                raise
            except AuditorError as error:
                log.warning("%s: target %s is not checked yet: %s", self.name, target, error, extra={"action": "target_unchecked"})

    def _is_ours(self, target: str, resources: ExitStack) -> bool:
        """Hold the lease of a target; return False if another process loads it. Raises LeaseTaken if this one was to do nothing else."""
        try:
            resources.enter_context(self._keep("target", f"{self.name}/{target}"))
        except LeaseTaken as error:
            if not self.stages:
                raise
            log.info("%s: target %s is not loaded here: %s", self.name, target, error, extra={"action": "loaded_elsewhere"})
            return False
        return True

    def _start_spark(self, resources: ExitStack) -> SparkSession:
        """Start Spark, and check executors on other hosts before anything runs there. Raises AuditorError."""
        master = self.settings.pipeline(self.name).master
        session = spark.start_session(master)
        resources.callback(spark.close_session, session)
        if not spark.is_local(master):
            require(session, self.settings, self.config_file, self.name)
        return session

    def _needs_spark(self) -> bool:
        """Return whether anything here runs on executors: a target that one session loads needs none."""
        pipeline = self.settings.pipeline(self.name)
        connections = [pipeline.table_targets[target].connection for target in self.targets if target in pipeline.table_targets]
        return self.stages or any(
            writing_dialect(connection, self.settings.connections[connection]).writing.LOADS != "alone" for connection in connections
        )

    def _loaders(self, session: SparkSession | None, root: Folder, resources: ExitStack) -> None:
        """Start what works beside the driver of batches: loaders of targets, the process that cuts segments, what sends existing rows."""
        pipeline = self.settings.pipeline(self.name)
        for target in self.targets:
            staged = self._new_event()
            loader = self._loader(session, root, target)
            self.start_service(loader.service(pipeline.targets[target].every, self.stop, staged, self._paused), resources)
        if pipeline.segment and self.stages:
            child = segment_process(str(self.config_file), self.name)
            self.start_service(child.service("segments", self.stop, self._new_event(), self._paused), resources)
        if pipeline.history and self.stages:
            child = version_process(str(self.config_file), self.name)
            self.start_service(child.service("history", self.stop, self._new_event(), self._paused), resources)
        if self.stages and self.events is None and pipeline.log_source:
            carrier = Carrier(self.settings, self.store, self.name, self.stop).service(self._paused)
            resources.callback(carrier.stop)
            carrier.start()

    def _new_event(self) -> threading.Event:
        """Return an event that is set when something was staged."""
        self._staged.append(threading.Event())
        return self._staged[-1]

    def start_service(self, service: Service, resources: ExitStack) -> None:
        """Start a service that the run needs: it ends with the run, and the run with it, if that is by a bug."""

        def end(error: Exception) -> None:
            log.error("%s: %s ended by an unexpected error", self.name, service.name, exc_info=error, extra={"action": "thread_ended"})
            self.lost.append(PipelineFailed(f"{service.name} ended by an unexpected {type(error).__name__}; the log has its traceback"))
            self.stop.set()

        service.on_bug = end
        resources.callback(service.stop)
        service.start()

    def _loader(self, session: SparkSession | None, root: Folder, target: str) -> Loader | TargetProcess:
        chosen = self.settings.pipeline(self.name).targets[target]
        if isinstance(chosen, TopicTarget):
            return TargetProcess("publisher", str(self.config_file), self.name, target)
        connection = self.settings.connections[chosen.connection]
        if writing_dialect(chosen.connection, connection).writing.LOADS == "alone":
            return TargetProcess("loader", str(self.config_file), self.name, target)
        config_file, run_tasks = str(self.config_file), spark.on_executors(session)
        target_place = Where(self.store, self.name, config_file, chosen.connection, chosen.schema_, str(root), run_tasks, target, chosen)
        return Loader(target_place, target, connection)

    def _keep_running(self, session: SparkSession | None, root: Folder, watch: Watch | None) -> None:
        """Keep batches coming, and begin again with growing waits when that failed for a reason that may pass."""
        rules = TableRules(self.settings.pipeline(self.name), salt.get_salt(self.store))
        staging = Staging(self.store, self.name, root, rules, self._wake, self.stop.is_set, watch=watch)
        if self.events is None and rules.pipeline.log_source:
            staging.complete = partial(read_values, self.settings, self.name)
        driver: BatchDriver | None = None
        backoff, next_start = Backoff(durations().pipeline_first_retry, durations().pipeline_longest_retry), 0.0
        try:
            while not self.stop.is_set():
                now = time.monotonic()
                self._look_for_pause()
                if session:
                    spark.check_alive(session)
                if driver is not None and not driver.is_running():
                    error = spark.translate(driver.error or RuntimeError("without an error"))
                    driver, next_start = None, now + backoff.fail()
                    self._report(error)
                elif driver is not None and self._paused.is_set():
                    driver.stop()
                    driver = None
                elif session and driver is None and self.stages and not self._paused.is_set() and now >= next_start:
                    try:
                        events, run_tasks = self.events or self._change_source(), spark.on_executors(session)
                        driver = BatchDriver(events, self.stream_options(), staging, run_tasks, durations().batch_poll).start()
                    except AuditorError as error:
                        next_start = now + backoff.fail()
                        self._report(error)
                elif driver is not None and driver.batches:
                    backoff.succeed()
                self.stop.wait(durations().run_poll)
        finally:
            self.stop.set()
            if driver is not None:
                driver.stop()

    def stream_options(self) -> dict[str, str]:
        """Return the options of the source: names, never URLs; and the offset to begin at. Raises AuditorError.

        LogRefused where rows of its tables never come into the source's log.
        """
        source = self.settings.pipeline(self.name).source
        if isinstance(source, TopicSource):
            return {"config": str(self.config_file), "pipeline": self.name, "start": json.dumps(self.start_offset())}
        if self.events is None:
            check_scope(source_of(self.settings, self.name), source.tables)
        options = {"connection": source.connection, "config": str(self.config_file), "tables": ",".join(source.tables)}
        options["notes"] = "true"
        refreshes = refreshes_of(self.settings, self.name)
        options["refreshes"] = f"{refreshes.schema}/{refreshes.pipeline}"
        if self.settings.pipeline(self.name).tracker:
            options["pipeline"] = self.name
        if source.skip_pipelines:
            options["skip_pipelines"] = ",".join(source.skip_pipelines)
        options["server_id"] = str(server_id(self.settings, self.name))
        if offset := self.start_offset():
            options["start"] = json.dumps(offset)
        return options

    def start_offset(self) -> Any:
        """Return the offset at the end of the last batch in the store; of a new pipeline where it begins, which is stored first.

        That is where the log ends now, or where the topics are said to begin.

        So nothing is lost of what is committed from now on, even if this process ends before its first batch.
        """
        offset = pipelines.get_pipeline(self.store, self.name).source_offset
        if offset is None and self.events is None:
            extra = {"action": "begun", "pipeline": self.name}
            if self.settings.pipeline(self.name).topic_source:
                from auditor.pipeline.kafka.topic_sources import source_and_begin

                offset = source_and_begin(self.settings, self.name)[1]().to_json()
                parts.record_batch(self.store, self.name, [], {}, offset, topics_through=packed(offset))
                log.info("%s: it begins with %d topics", self.name, len(offset["topics"]), extra=extra)
                return offset
            offset = self._end_of_log()
            parts.record_batch(self.store, self.name, [], {}, offset)
            log.info("%s: it begins at %s, where the log ends now", self.name, f"{offset['file']}:{offset['position']}", extra=extra)
        return offset

    def _change_source(self) -> type[DataSource]:
        """Return what reads the pipeline's source."""
        if self.settings.pipeline(self.name).topic_source:
            from auditor.pipeline.kafka.topic_sources import source_and_begin

            return source_and_begin(self.settings, self.name)[0]
        from auditor.pipeline.source import MySQLBinlog

        return MySQLBinlog

    def _end_of_log(self) -> SourceOffset:
        """Return where the source's log ends now, and begin the tracker there, if there is one."""
        if self.settings.pipeline(self.name).tracker is None:
            return end_of_log(source_of(self.settings, self.name))
        with closing(Follower(self.settings, self.store, self.name)) as tracker:
            return tracker.begin()

    def _wake(self) -> None:
        for staged in self._staged:
            staged.set()

    def _look_for_pause(self) -> None:
        with suppress(StoreError):  # then it stays as it is
            paused = pipelines.get_pipeline(self.store, self.name).paused
            (self._paused.set if paused else self._paused.clear)()

    def _report(self, error: AuditorError) -> None:
        """Report why staging failed; raise the error if it is not retryable."""
        goes_on = "it is tried again, and nothing is lost" if error.retryable else "the pipeline ends"
        log.warning("%s: staging failed; %s: %s", self.name, goes_on, error, extra={"action": "staging_failed", "again": error.retryable})
        with suppress(StoreError):  # it is logged
            pipelines.set_reason(self.store, self.name, str(error))
        if not error.retryable:
            raise error

    def _housekeeping(self, root: Folder) -> Service:
        """Return what deletes the parts that nobody needs, and, where they are staged, joins the files of batches."""
        deleter, joining = PartDeleter(self.store, self.name, root), Joining(self.store, self.name, root, self.stop.is_set)

        def keep_house() -> None:
            deleter.prune(self.settings.pipeline(self.name), self.settings.keep.parts)
            if self.stages:
                joining.join()

        failure, fields = f"{self.name}: parts could not be deleted, or joined", {"pipeline": self.name}
        every = durations().retention_poll
        return Service("retention", keep_house, every, failure=failure, action="retention_failed", fields=fields, stopping=self.stop)

    def _keep(self, kind: leases.Kind, name: str) -> AbstractContextManager[None]:
        """Have a lease for a block, and stop the run if another process takes it over. Raises LeaseTaken."""

        def end(error: AuditorError) -> None:
            self.lost.append(error)
            self.stop.set()

        return leases.keep(self.store, kind, name, durations().pipeline_lease, end)


def lease_of_source(settings: Settings, name: str) -> str:
    """Return the name under which a pipeline's source is leased: that of its database, or of its consumer group, whatever it is called."""
    source = settings.pipeline(name).source
    if isinstance(source, TopicSource):
        return f"{settings.brokers[source.broker].identity}/{source.group_of(name)}"
    return settings.connections[source.connection].database


def server_id(settings: Settings, name: str) -> int:
    """Return the number by which a pipeline reads its source's log: always the same, so that the server ends an older reader of it."""
    identity = f"{lease_of_source(settings, name)}/{name}"
    return SERVER_IDS.start + zlib.crc32(identity.encode()) % len(SERVER_IDS)
