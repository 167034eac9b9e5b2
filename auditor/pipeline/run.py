"""Run a pipeline until it is stopped: one query that stages, a loader for each target, the lease of the source, and retention."""

from __future__ import annotations

import logging
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.config import Settings
from auditor.errors import AuditorError, SourceTaken, StoreError
from auditor.pipeline import retention, spark
from auditor.pipeline.merge.loader import FIRST_WAIT, LONGEST_WAIT, Loader
from auditor.pipeline.merge.table_merge import Where
from auditor.pipeline.staged_parts import make_folder, sweep
from auditor.pipeline.staging import Staging, TableRules
from auditor.store import Store, leases, parts, pipelines, runs, salt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

LEASE = 30.0
"""Seconds after which another process may read the source, if this one no longer extends its lease."""

TRIGGER = 0.2
"""Seconds between two batches of the stream at least."""

LOOK = 0.5
"""Seconds between two looks at the query and the store."""

RETENTION = 60.0
"""Seconds between two looks for parts that may be deleted."""

SERVER_IDS = range(1 << 23, 1 << 24)
"""The server ids of pipelines: other readers of a log take larger ones, and people smaller ones."""

COMMIT_WAIT = 5.0
"""Seconds that Spark has, after a batch was staged, to commit it before the query is stopped."""


@dataclass(slots=True)
class Run:
    """One process's run of a pipeline."""

    settings: Settings
    config_file: Path
    store: Store
    name: str
    targets: Sequence[str]
    """The targets that this process loads."""
    stages: bool = True
    """Whether this process reads the source."""
    source: str = "mysql_binlog"
    register: Callable[[SparkSession], None] | None = None
    """Registers ``source`` with Spark; by default the change source of the binary log."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to end the run after the batch."""
    _staged: dict[str, threading.Event] = field(default_factory=dict)
    _paused: threading.Event = field(default_factory=threading.Event)
    _lost: list[AuditorError] = field(default_factory=list)

    def run(self) -> None:
        """Run until ``stop`` is set. Raises SourceTaken, ConfigError, and whatever error of the source does not pass by itself."""
        pipeline = self.settings.pipeline(self.name)
        root = Path(pipeline.staging.path)
        make_folder(root)
        with ExitStack() as held:
            wanted = [lease_of_source(self.settings, self.name)] if self.stages else []
            for lease in [*wanted, *(f"{self.name}/{target}" for target in self.targets)]:
                held.enter_context(self._lease(lease))
            if self.stages:
                orphans = sweep(root, parts.list_paths(self.store, self.name))
                log.info("%s: %d files of unfinished batches were removed", self.name, len(orphans), extra={"action": "swept"})
            session = spark.start_session(pipeline.master)
            self._loaders(session, root, held)
            self._watch(session, root)
        if self._lost:
            raise self._lost[0]

    def _loaders(self, session: SparkSession, root: Path, held: ExitStack) -> None:
        pipeline = self.settings.pipeline(self.name)
        for target in self.targets:
            chosen = pipeline.targets[target]
            about = (str(self.config_file), chosen.connection, chosen.schema_, str(root))
            loader = Loader(
                Where(self.store, self.name, *about, spark.on_executors(session)), target, self.settings.connections[chosen.connection]
            )
            self._staged[target] = threading.Event()
            arguments = (chosen.every, self.stop, self._staged[target], self._paused)
            thread = threading.Thread(target=loader.run, args=arguments, name=f"loader {target}", daemon=True)
            held.callback(thread.join)
            held.callback(self.stop.set)
            thread.start()

    def _watch(self, session: SparkSession, root: Path) -> None:
        """Keep the query running, and start it again with growing waits when it failed for a reason that may pass."""
        rules = TableRules(self.settings.pipeline(self.name), salt.get_salt(self.store))
        staging = Staging(self.store, self.name, root, rules, root / spark.CHECKPOINT, self._wake, self.stop.is_set)
        query: StreamingQuery | None = None
        wait, next_start, next_retention = FIRST_WAIT, 0.0, 0.0
        if self.stages:
            (self.register or _register)(session)
        try:
            while not self.stop.is_set():
                now = time.monotonic()
                self._look_for_pause()
                if query is not None and not query.isActive:
                    error = staging.failure or spark.translate(query.exception() or RuntimeError("without an error"))
                    query, next_start, wait = None, now + wait, min(LONGEST_WAIT, 2 * wait)
                    self._report(error)
                    if not error.retryable:
                        raise error
                elif query is not None and self._paused.is_set():
                    _stop(query, staging)
                    query = None
                elif query is None and self.stages and not self._paused.is_set() and now >= next_start:
                    query = spark.start_query(session, self._options(root), root, staging, TRIGGER, self.source)
                elif query is not None and query.lastProgress:
                    wait = FIRST_WAIT
                if now >= next_retention:
                    next_retention = now + RETENTION
                    self._prune(root)
                self.stop.wait(LOOK)
        finally:
            self.stop.set()
            if query is not None:
                _stop(query, staging)

    def _options(self, root: Path) -> dict[str, str]:
        """Return the options of the source: names, never URLs; and after a lost checkpoint the offset to go on from."""
        source = self.settings.pipeline(self.name).source
        options = {"connection": source.connection, "config": str(self.config_file), "tables": ",".join(source.tables)}
        options["server_id"] = str(server_id(self.settings, self.name))
        offset = pipelines.get_pipeline(self.store, self.name).source_offset
        if offset is not None and not (root / spark.CHECKPOINT / "offsets").exists():
            options["start"] = f"{offset['file']}:{offset['position']}"
            log.warning("%s: the checkpoint is gone; it goes on from the last batch in the store", self.name, extra={"action": "resumed"})
        return options

    def _wake(self) -> None:
        for staged in self._staged.values():
            staged.set()

    def _look_for_pause(self) -> None:
        with suppress(StoreError):  # then it stays as it is
            paused = pipelines.get_pipeline(self.store, self.name).paused
            (self._paused.set if paused else self._paused.clear)()

    def _report(self, error: AuditorError) -> None:
        log.warning("%s: staging failed: %s", self.name, error, extra={"action": "staging_failed", "again": error.retryable})
        with suppress(StoreError):  # it is logged
            pipelines.set_reason(self.store, self.name, str(error))

    def _prune(self, root: Path) -> None:
        try:
            retention.prune(self.store, self.name, self.settings.pipeline(self.name), root)
        except AuditorError as error:
            log.warning("%s: parts could not be deleted: %s", self.name, error, extra={"action": "retention_failed"})

    @contextmanager
    def _lease(self, name: str) -> Iterator[None]:
        """Hold a lease for the block, and stop the run if another process takes it over. Raises SourceTaken."""
        holder, about, done = secrets.token_hex(16), str(runs.this_process()), threading.Event()
        leases.take_lease(self.store, name, holder, about, LEASE)
        renewed = [time.monotonic()]

        def renew() -> None:
            while not done.wait(LEASE / 6):
                try:
                    leases.take_lease(self.store, name, holder, about, LEASE)
                    renewed[0] = time.monotonic()
                except SourceTaken as error:
                    self._lost.append(error)
                    self.stop.set()
                except StoreError as error:
                    log.warning("the lease cannot be extended: %s", error, extra={"action": "lease_failed"})
                    if time.monotonic() - renewed[0] > LEASE:
                        self._lost.append(error)
                        self.stop.set()

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            with suppress(StoreError):  # then it lapses
                leases.release_lease(self.store, name, holder)


def lease_of_source(settings: Settings, name: str) -> str:
    """Return the name under which a pipeline's source is leased: that of its database, whatever its connection is called."""
    return settings.connections[settings.pipeline(name).source.connection].database


def server_id(settings: Settings, name: str) -> int:
    """Return the number by which a pipeline reads its source's log: always the same, so that the server ends an older reader of it."""
    about = f"{lease_of_source(settings, name)}/{name}"
    return SERVER_IDS.start + zlib.crc32(about.encode()) % len(SERVER_IDS)


def _stop(query: StreamingQuery, staging: Staging) -> None:
    """Stop a query after the batch that it stages."""
    with staging.working:
        pass
    deadline = time.monotonic() + COMMIT_WAIT
    while query.isActive and _is_committing(query) and time.monotonic() < deadline:
        time.sleep(0.02)
    with suppress(Exception):  # it ends by itself
        query.stop()


def _is_committing(query: Any) -> bool:
    return bool(query.status.get("isTriggerActive"))


def _register(session: SparkSession) -> None:
    from auditor.pipeline.source import MySQLBinlog

    session.dataSource.register(MySQLBinlog)
