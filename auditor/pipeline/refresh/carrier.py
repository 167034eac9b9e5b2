"""Carry out the refreshes that a pipeline's store asks for, one after the other, in one process at a time."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import dialects
from auditor.api_models.pipeline import RefreshState
from auditor.background import Backoff, Service
from auditor.config import Settings
from auditor.connections.throttle import get_throttle
from auditor.durations import durations
from auditor.errors import AuditorError, LeaseTaken, RefreshRefused, StatementCancelled, StoreError
from auditor.pipeline.binlog.dump import log_status, source_of
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.check import read_schema
from auditor.pipeline.events import Place, TableSchema
from auditor.pipeline.refresh.chunk_writer import ChunkWriter
from auditor.pipeline.refresh.keys import KeyColumns
from auditor.pipeline.refresh.plan import make_plan
from auditor.pipeline.refresh.source_tables import SourceTables, open_writer, writer_of
from auditor.store import Store, leases, pipelines, refreshes
from auditor.store.refreshes import Refresh
from dialects import Session

log = logging.getLogger(__name__)

OnProgress = Callable[[Refresh], None]
"""Receives a refresh whenever its progress was stored."""


def ignore_progress(_: Refresh) -> None:
    """Do not follow refreshes."""


@dataclass(slots=True)
class Carrier:
    """Carries out the refreshes of one pipeline."""

    settings: Settings
    store: Store
    pipeline: str
    stopped: threading.Event
    on_progress: OnProgress = ignore_progress
    _lost: list[AuditorError] = field(default_factory=list)
    """Why another process may carry out refreshes meanwhile."""

    def service(self, paused: threading.Event) -> Service:
        """Return what carries out what is asked for until ``stopped`` is set, but not while ``paused`` is. Nothing else ends it."""

        def carry() -> None:
            if not paused.is_set():
                with suppress(LeaseTaken):
                    self.carry_out()

        options: dict[str, Any] = {"failure": f"{self.pipeline}: a refresh waits", "action": "refresh_delayed", "waits_first": True}
        backoff = Backoff(2 * durations().first_retry, durations().longest_retry)
        return Service("refreshes", carry, durations().staged_poll, **options, backoff=backoff, stopping=self.stopped)

    def carry_out(self) -> int:
        """Carry out what is asked for now, and return how many refreshes ended; a refused one ends as failed.

        Raises LeaseTaken if another process does it, and errors that may pass: what is left goes on with the next call.
        """
        if not refreshes.list_unfinished(self.store, self.pipeline):
            return 0
        ended = 0
        self._lost.clear()
        lease = leases.keep(self.store, "refreshes", self.pipeline, durations().pipeline_lease, self._lost.append)
        with lease, closing(_OpenSource(self.settings, self.pipeline)) as source:
            while not self.stopped.is_set() and (unfinished := refreshes.list_unfinished(self.store, self.pipeline)):
                ended += self._carry(unfinished[0], source)
        return ended

    def _carry(self, refresh: Refresh, source: _OpenSource) -> bool:
        """Write the rows of a refresh, and return whether it ended. Raises errors that may pass."""
        try:
            self._write_chunks(refresh, source)
        except (LeaseTaken, StatementCancelled, StoreError):
            raise
        except AuditorError as error:
            if error.retryable:
                self._save(refresh, "running", dict(refresh.progress), str(error))
                raise
            source.close()  # in whatever state its sessions are now
            self._save(refresh, "failed", dict(refresh.progress), str(error))
            log.warning("%s: refresh of %s: %s", self.pipeline, refresh.table, error, extra={"action": "refresh_failed"})
        return not self.stopped.is_set()

    def _write_chunks(self, refresh: Refresh, source: _OpenSource) -> None:
        plan = make_plan(KeyColumns(source.read_schema(refresh.table)), refresh.scope)
        writer = ChunkWriter(source.tables(), writer_of(self.settings, self.pipeline), refresh.refresh, plan, secrets.token_hex(16))
        progress = _Progress.of(refresh)
        place, failures = writer.begin(), 0
        while not plan.is_done(place) and not self.stopped.is_set():
            self._report(refresh, progress, writer)
            try:
                with self._throttle().statement(self._note_wait(refresh, progress), self.stopped):
                    place, rows = writer.write(place)
                failures = 0
                progress.add(rows)
            except AuditorError as error:
                failures += 1
                if not error.retryable or failures > MOST_FAILURES or isinstance(error, LeaseTaken):
                    raise
                self.stopped.wait(durations().first_retry * failures)
                place = writer.begin()
        if plan.is_done(place):
            progress.end = self._log_end(source)
            self._save(refresh, "done", progress.plain(writer))
            writer.finish()
            extra = {"action": "refreshed", "table": refresh.table, "rows": progress.rows, "chunks": progress.chunks}
            line = f"{refresh.table}: {progress.rows:,} rows were sent in {progress.chunks:,} chunks"
            log.info("%s: %s", self.pipeline, line, extra=extra)
        else:
            self._save(refresh, "running", progress.plain(writer))

    def _throttle(self) -> Any:
        name = self.settings.pipeline(self.pipeline).source.connection
        return get_throttle(name, self.settings.connections[name])

    def _note_wait(self, refresh: Refresh, progress: _Progress) -> Callable[[str], None]:
        def note(reason: str) -> None:
            self._save(refresh, "running", progress.plain(None), reason)

        return note

    def _report(self, refresh: Refresh, progress: _Progress, writer: ChunkWriter) -> None:
        if self._lost:
            raise self._lost[0]
        self._save(refresh, "running", progress.plain(writer))

    def _save(self, refresh: Refresh, state: RefreshState, progress: dict[str, Any], reason: str = "") -> None:
        refreshes.save_progress(self.store, refresh.refresh, state, progress, reason)
        self.on_progress(refreshes.get_refresh(self.store, refresh.refresh))

    def _log_end(self, source: _OpenSource) -> list[Any]:
        """Return where the source's log ends, which server's it is, and in which epoch of the stream."""
        epoch = (pipelines.get_pipeline(self.store, self.pipeline).source_offset or {}).get("epoch", 0)
        end, server = source.log_end()
        return [end.file, end.offset, server, epoch]


class _OpenSource:
    """The connections to a source by which any number of tables are sent; each is opened when it is needed first."""

    def __init__(self, settings: Settings, pipeline: str) -> None:
        self._settings, self._name = settings, pipeline
        self._session: Session | None = None
        self._reader: Any = None
        self._tables: SourceTables | None = None
        self._refusal: RefreshRefused | None = None
        """Why nothing can be written there: that concerns every table alike, and is asked once."""

    def read_schema(self, table: str) -> TableSchema:
        """Return the columns of a table as the source has them now. Raises RefreshRefused."""
        pipeline = self._settings.pipeline(self._name)
        if self._session is None:
            connection = self._settings.connections[pipeline.source.connection]
            self._session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
        schema = read_schema(self._session, pipeline, table)
        if schema is None:
            raise RefreshRefused(f"the source has no table {table} that the pipeline {self._name} replicates")
        return schema

    def tables(self) -> SourceTables:
        """Return the schema of refreshes, made ready for writing. Raises RefreshRefused."""
        if self._refusal:
            raise self._refusal
        if self._tables is None:
            try:
                self._tables = self._prepared_tables()
            except RefreshRefused as error:
                self._refusal = error
                raise
        return self._tables

    def _prepared_tables(self) -> SourceTables:
        tables = SourceTables(open_writer(self._settings, self._name), refreshes_of(self._settings, self._name))
        try:
            tables.prepare()
        except BaseException:
            tables.connection.close()
            raise
        return tables

    def log_end(self) -> tuple[Place, str]:
        """Return where the source's log ends now, and what identifies the server."""
        if self._reader is None:
            self._reader = source_of(self._settings, self._name).connect()
        return log_status(self._reader).end, identify_server(self._reader)

    def close(self) -> None:
        """Close what is open; it is opened again when it is needed."""
        opened = [self._session, self._reader, self._tables and self._tables.connection]
        self._session = self._reader = self._tables = None
        for connection in opened:
            if connection is not None:
                with suppress(Exception):  # it may be lost
                    connection.close()


MOST_FAILURES = 8
"""Attempts of one chunk that fail for reasons that may pass, each with fewer rows, before the refresh waits longer."""


@dataclass(slots=True)
class _Progress:
    """How far a refresh is."""

    chunks: int
    rows: int
    seconds: float
    """Before this process went on with it."""
    longest: float
    began: float
    end: list[Any] | None = None

    @classmethod
    def of(cls, refresh: Refresh) -> _Progress:
        known = refresh.progress
        return cls(known.get("chunks", 0), known.get("rows", 0), known.get("seconds", 0.0), known.get("longest", 0.0), time.monotonic())

    def add(self, rows: int) -> None:
        """Count a chunk."""
        self.chunks += 1
        self.rows += rows

    def plain(self, writer: ChunkWriter | None) -> dict[str, Any]:
        """Return it as the store keeps it."""
        self.longest = max(self.longest, writer.longest if writer else 0.0)
        seconds = round(self.seconds + time.monotonic() - self.began, 3)
        values = {"chunks": self.chunks, "rows": self.rows, "seconds": seconds, "longest": round(self.longest, 3)}
        return values | ({"end": self.end} if self.end else {})


def is_ready(store: Store, pipeline: str) -> bool:
    """Return whether a pipeline's stream has begun, so that what is written into the log now is read. Raises StoreError."""
    return pipelines.get_pipeline(store, pipeline).source_offset is not None
