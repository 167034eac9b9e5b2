"""Carry out the refreshes that a pipeline's store asks for, one after the other, in one process at a time."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import dialects
from auditor.api_models.pipeline import RefreshState
from auditor.background import Backoff, Service
from auditor.config import Settings
from auditor.connections.throttle import get_throttle
from auditor.durations import durations
from auditor.errors import AccessDenied, AuditorError, LeaseTaken, RefreshRefused, SerializationConflict, StatementCancelled, StoreError
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.events import Place, TableSchema
from auditor.pipeline.refresh.chunk_writer import ChunkWriter, Sending, Written
from auditor.pipeline.refresh.keys import KeyColumns
from auditor.pipeline.refresh.plan import make_plan
from auditor.pipeline.refresh.source_tables import SourceTables, open_writer, writer_of
from auditor.pipeline.source_tables import read_some
from auditor.quantities import plural
from auditor.store import Store, leases, pipelines, refreshes
from auditor.store.refreshes import UNFINISHED, Refresh
from dialects import Session

log = logging.getLogger(__name__)

OnProgress = Callable[[Refresh], None]
"""Receives a refresh whenever its progress was stored."""


def ignore_progress(_: Refresh) -> None:
    """Do not follow refreshes."""


TABLES_AT_ONCE = 50
"""Refreshes that one connection has at work at a time: what they need is asked for together."""

CONNECTIONS = 3
"""Connections that send rows side by side, where there are more refreshes than one has at work."""

MOST_DENIED = 3
"""Tables that may not be read, one after the other and none before them, after which no other is tried."""


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
    _ended: threading.Event = field(default_factory=threading.Event)
    """Set when a connection's work ended with an error, so that those beside it end too."""
    _denied: int = 0
    """Tables that were not readable before any was sent."""
    _has_sent: bool = False

    def service(self, paused: threading.Event) -> Service:
        """Return what carries out what is asked for until ``stopped`` is set, but not while ``paused`` is. Nothing else ends it."""

        def carry() -> None:
            if not paused.is_set():
                with suppress(LeaseTaken):
                    self.carry_out()

        options: dict[str, Any] = {"failure": f"{self.pipeline}: a refresh waits", "action": "refresh_delayed", "waits_first": True}
        backoff = Backoff(2 * durations().pipeline_first_retry, durations().pipeline_longest_retry)
        return Service("refreshes", carry, durations().staged_poll, **options, backoff=backoff, stopping=self.stopped)

    def carry_out(self) -> int:
        """Carry out what is asked for now, and return how many refreshes ended; a refused one ends as failed.

        What concerns every table ends all of them at the first. Raises LeaseTaken if another process does it, and errors that may pass:
        what is left goes on with the next call.
        """
        if not refreshes.has_unfinished(self.store, self.pipeline):
            return 0
        ended = 0
        self._lost.clear()
        self._denied, self._has_sent = 0, False
        with leases.keep(self.store, "refreshes", self.pipeline, durations().pipeline_lease, self._lost.append):
            while not self.stopped.is_set() and (unfinished := refreshes.list_unfinished(self.store, self.pipeline)):
                ended += self._carry_all([unfinished[at : at + TABLES_AT_ONCE] for at in range(0, len(unfinished), TABLES_AT_ONCE)])
        return ended

    def _carry_all(self, rounds: Sequence[Sequence[Refresh]]) -> int:
        """Send the rows of refreshes over a few connections, and return how many ended. Raises the first error that may pass."""
        left, lock, ended, errors = deque(rounds), threading.Lock(), [0], list[BaseException]()
        self._ended.clear()

        def carry(begin: Callable[[], None] = lambda: None) -> None:
            try:
                with closing(_OpenSource(self.settings, self.pipeline)) as source:
                    while not self._is_ending():
                        with lock:
                            if not left:
                                return
                            taken = left.popleft()
                        count = self._carry(taken, source, begin)
                        with lock:
                            ended[0] += count
            except BaseException as error:
                errors.append(error)
                self._ended.set()

        def begin_others() -> None:
            while len(threads) < min(CONNECTIONS, len(rounds)) - 1:
                threads.append(threading.Thread(target=carry, name=f"refreshes {len(threads) + 1}"))
                threads[-1].start()

        threads: list[threading.Thread] = []
        carry(begin_others)
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return ended[0]

    def _is_ending(self) -> bool:
        return self.stopped.is_set() or self._ended.is_set()

    def _carry(self, taken: Sequence[Refresh], source: _OpenSource, begin: Callable[[], None]) -> int:
        """Send the rows of some refreshes, and return how many ended. Raises errors that may pass.

        ``begin`` is called once it is known that the source takes what is written, so that one connection alone finds that it does not.
        """
        members = [_Member(refresh) for refresh in taken]
        try:
            self._send(members, source, begin)
        except (LeaseTaken, StatementCancelled, StoreError):
            raise
        except AuditorError as error:
            if error.retryable:
                self._save([member.set("running", str(error)) for member in members if not member.has_ended])
                raise
            self._ended.set()
            if count := refreshes.fail_all(self.store, self.pipeline, str(error)):
                extra = {"action": "refresh_failed", "refreshes": count}
                log.warning("%s: refreshes of %s end: %s", self.pipeline, plural(count, "table"), error, extra=extra)
            return count + sum(member.has_ended for member in members)
        return sum(member.has_ended for member in members)

    def _send(self, members: Sequence[_Member], source: _OpenSource, begin: Callable[[], None]) -> None:
        """Send the rows of refreshes until all have ended. Raises errors that concern every table, and those that may pass."""
        schemas = source.read_schemas([member.refresh.table for member in members])
        for member in members:
            try:
                if (schema := schemas.get(member.refresh.table)) is None:
                    raise RefreshRefused(f"the source has no table {member.refresh.table} that the pipeline {self.pipeline} replicates")
                member.sending = Sending(member.refresh.refresh, make_plan(KeyColumns(schema), member.refresh.scope))
            except AuditorError as error:
                self._fail(member, error)
        if all(member.has_ended for member in members):
            return
        writer = ChunkWriter(source.tables(), writer_of(self.settings, self.pipeline), secrets.token_hex(16))
        begin()
        has_begun, failures, order, alone = False, 0, list(members), list[Sending]()
        while (unfinished := [member for member in order if not member.has_ended]) and not self._is_ending():
            sendings = [member.sending for member in unfinished if member.sending]
            try:
                if not has_begun:
                    writer.begin(sendings)
                    if len(sendings) > 1:
                        writer.count([sending for sending in sendings if not any(sending is one for one in alone)])
                    has_begun = True
                    self._note_begin(unfinished, source)
                    self._note(unfinished, [], source, writer)
                    continue
                if self._lost:
                    raise self._lost[0]
                with self._throttle().statement(self._note_wait(unfinished), self.stopped):
                    written = writer.write(sendings)
                failures, self._has_sent = 0, True
                self._note(unfinished, written, source, writer)
            except AuditorError as error:
                failed = next((member for member in unfinished if member.sending is writer.at_work), None)
                may_pass = error.retryable and (has_begun or isinstance(error, SerializationConflict))  # of connections that begin at once
                if isinstance(error, LeaseTaken | StoreError) or (error.retryable and not (may_pass and failures < MOST_FAILURES)):
                    raise
                if not error.retryable and failed is None:
                    raise
                if not error.retryable and failed:
                    self._fail(failed, error)
                else:
                    failures += 1
                    if failed:  # the others do not wait for what its rows wait for
                        order = [*(member for member in order if member is not failed), failed]
                        alone += [failed.sending] if failed.sending else []
                    self.stopped.wait(durations().pipeline_first_retry * failures)
                has_begun = False

    def _note_begin(self, unfinished: Sequence[_Member], source: _OpenSource) -> None:
        """Note where the log ends before the first chunk of refreshes; it is stored before that is written."""
        if new := [member for member in unfinished if not member.progress["chunks"] and "begin" not in member.progress]:
            begin = self._log_end(source)
            for member in new:
                member.begin(begin)

    def _note(self, unfinished: Sequence[_Member], written: Sequence[Written], source: _OpenSource, writer: ChunkWriter) -> None:
        """Store how refreshes stand after a transaction, or at their beginning, and end those of which no chunk is left."""
        by_sending = {id(one.sending): one for one in written}
        changed = [member for member in unfinished if not written or id(member.sending) in by_sending]
        now = time.monotonic()
        for member in changed:
            if one := by_sending.get(id(member.sending)):
                member.add(one.rows, one.seconds)
        for member in unfinished:
            member.noted = now
        done = [member for member in changed if member.sending and member.sending.is_done]
        end = self._log_end(source) if done else []
        self._save([member.set("done", end=end) if member in done else member.set("running") for member in changed])
        if done:
            writer.finish([member.sending for member in done if member.sending])
        for member in done:
            progress = member.progress
            extra = {"action": "refreshed", "table": member.refresh.table, "rows": progress["rows"], "chunks": progress["chunks"]}
            line = (
                f"{member.refresh.table}: {plural(progress['rows'], 'row was', 'rows were')} sent in {plural(progress['chunks'], 'chunk')}"
            )
            log.info("%s: %s", self.pipeline, line, extra=extra)

    def _fail(self, member: _Member, error: AuditorError) -> None:
        """End the refresh of one table. Raises RefreshRefused where none seems to be readable."""
        self._denied += isinstance(error, AccessDenied)
        if self._denied >= MOST_DENIED and not self._has_sent:
            raise RefreshRefused(f"{error}; so were the tables before it, and no other was tried")
        self._save([member.set("failed", str(error))])
        log.warning("%s: refresh of %s: %s", self.pipeline, member.refresh.table, error, extra={"action": "refresh_failed"})

    def _throttle(self) -> Any:
        name = self.settings.pipeline(self.pipeline).of_log("a refresh").connection
        return get_throttle(name, self.settings.connections[name])

    def _note_wait(self, unfinished: Sequence[_Member]) -> Callable[[str], None]:
        def note(reason: str) -> None:
            self._save([member.set("running", reason) for member in unfinished])

        return note

    def _save(self, changed: Sequence[Refresh]) -> None:
        """Store how refreshes stand, in one transaction."""
        refreshes.save_standings(self.store, changed)
        for refresh in changed:
            self.on_progress(refresh)

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

    def read_schemas(self, tables: Sequence[str]) -> dict[str, TableSchema]:
        """Return the columns of tables as the source has them now, without those that are not the pipeline's."""
        pipeline = self._settings.pipeline(self._name)
        if self._session is None:
            connection = self._settings.connections[pipeline.of_log("a refresh").connection]
            self._session = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)
        return read_some(self._session, pipeline, tables)

    def tables(self) -> SourceTables:
        """Return the schema of refreshes, made ready for writing. Raises RefreshRefused."""
        if self._tables is None:
            tables = SourceTables(open_writer(self._settings, self._name), refreshes_of(self._settings, self._name))
            try:
                tables.prepare()
            except BaseException:
                tables.connection.close()
                raise
            self._tables = tables
        return self._tables

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
"""Transactions in a row that fail for reasons that may pass, each with fewer rows, before refreshes wait longer."""


@dataclass(slots=True)
class _Member:
    """One of the refreshes that are sent together."""

    refresh: Refresh
    """As it was stored last."""
    sending: Sending | None = None
    noted: float = field(default_factory=time.monotonic)
    """When (monotonic seconds) a transaction before its own ended."""

    @property
    def has_ended(self) -> bool:
        """Return whether it is done, or failed."""
        return self.refresh.state not in UNFINISHED

    @property
    def progress(self) -> dict[str, Any]:
        """Return how far it is, as the store keeps it."""
        return {"chunks": 0, "rows": 0, "seconds": 0.0, "longest": 0.0} | dict(self.refresh.progress)

    def begin(self, place: list[Any]) -> None:
        """Note the end of the log before its first chunk."""
        self.refresh = replace(self.refresh, progress={**self.progress, "begin": place})

    def add(self, rows: int, locked: float) -> None:
        """Count a chunk."""
        known = self.progress
        seconds, longest = known["seconds"] + time.monotonic() - self.noted, max(known["longest"], locked)
        counted = {"chunks": known["chunks"] + 1, "rows": known["rows"] + rows}
        self.refresh = replace(self.refresh, progress={**known, **counted, "seconds": round(seconds, 3), "longest": round(longest, 3)})

    def set(self, state: RefreshState, reason: str = "", end: list[Any] | None = None) -> Refresh:
        """Return the refresh as it stands now."""
        progress = self.progress | ({"end": end} if end else {})
        self.refresh = replace(self.refresh, state=state, reason=reason, progress=progress)
        return self.refresh


def is_ready(store: Store, pipeline: str) -> bool:
    """Return whether a pipeline's stream has begun, so that what is written into the log now is read. Raises StoreError."""
    return pipelines.get_pipeline(store, pipeline).source_offset is not None
