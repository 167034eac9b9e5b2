"""The loop of one target: merge what it lacks, report how it stands, and retry with growing waits what failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from auditor.background import Backoff, Service
from auditor.config import ConnectionSettings
from auditor.connections.writer import open_session, writing_dialect
from auditor.errors import AuditorError, ConnectionLost, EngineError, MergeFailed, PartDamaged, StoreError
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge.files import folder_of, remove_files
from auditor.pipeline.merge.holding import Holding, merge_through
from auditor.pipeline.merge.identity import check_target, note_whole
from auditor.pipeline.merge.isolate import POISONING, describe_poison, describe_statement, find_poison
from auditor.pipeline.merge.load import settings_of
from auditor.pipeline.merge.positions import Held, Where, describe, get_schema, read_positions, see
from auditor.pipeline.merge.staged_rows import plain_message
from auditor.pipeline.merge.table_changes import is_move
from auditor.pipeline.merge.table_merge import Merged, merge_next
from auditor.pipeline.merge.target_table import TargetTable
from auditor.pipeline.poison import report_poison
from auditor.pipeline.restaging import restage
from auditor.points import reach
from auditor.shapes.pipeline import MergeState
from auditor.store import parts, pipelines, schema_changes, table_notes
from auditor.store.holds import Hold
from auditor.store.parts import StagedTable
from auditor.waits import waits
from dialects import Session
from dialects.committing import Committing

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failure:
    """Why a table does not go on, and when (monotonic seconds) it is tried again."""

    backoff: Backoff = field(default_factory=lambda: Backoff(waits().first_retry, waits().longest_retry))
    until: float = 0.0


@dataclass(slots=True)
class Loader:
    """Merges the parts of a pipeline into one target."""

    where: Where
    target: str
    settings: ConnectionSettings
    clock: Callable[[], float] = time.monotonic
    closing: Callable[[Session], None] = lambda _: None
    """Called with each session before it is closed, for those who count what it cost."""
    _failures: dict[str, _Failure] = field(default_factory=dict)
    _held: dict[str, int] = field(default_factory=dict)
    """Where the target stood when it was last looked at: while nothing more is staged, it is not opened."""
    _moved: bool = False
    """Whether tables were renamed since the positions were read."""
    _session: Session | None = None
    """The session that is kept between merges; none where an open one keeps others off the target."""
    _ready: dict[str, TargetTable] = field(default_factory=dict)
    """The tables whose staging tables this session made."""
    _noted: float = float("-inf")
    """When (seconds of the clock) the target was last given the place up to which it holds every table."""
    _checked: set[str] = field(default_factory=set)
    """The tables with which `check_target` was called: others may be in other schemas."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the loader is to end after the transaction under way."""
    _holding: Holding = field(init=False)
    """What audits hold."""

    def __post_init__(self) -> None:
        self.where = replace(self.where, target=self.target)
        self._holding = Holding(self.where)

    def service(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what merges every so many seconds until ``stopped`` is set, but not while ``paused`` is; with 0, whenever ``staged`` is.

        Nothing ends it but ``stopped``, after the transaction under way.
        """
        self._stopped = stopped

        def merge() -> None:
            staged.clear()
            self._serve_holds()
            merged = 0 if paused.is_set() else self.merge_all()
            self._wait(every, stopped, staged, at_once=bool(merged))

        backoff = Backoff(waits().first_retry, waits().longest_retry)
        return Service(f"loader {self.target}", merge, backoff=backoff, at_end=self.close, stopping=stopped)

    def _serve_holds(self) -> None:
        """Serve the audits that hold tables of this target; store the reason of each hold that fails."""
        try:
            for hold in self._holding.look():
                self._holding.answer(hold, self._hold_at(hold))
        except StoreError as error:  # holds end by themselves
            log.warning("%s: the store cannot be asked for holds: %s", self.target, error, extra={"action": "holds_unknown"})

    def _hold_at(self, hold: Hold) -> str:
        """Merge a table exactly as far as an audit wants it; return why that fails, and '' if it does not."""
        assert hold.position is not None
        began = self.clock()
        try:
            with self._opened() as session:
                self._ready.pop(hold.table, None)
                for merged in merge_through(session, self.where, hold.table, hold.position, self._ready):
                    self._take(hold.table, merged, began)
        except AuditorError as error:
            self._ready.pop(hold.table, None)
            return _reason(error)
        except Exception as error:  # a bug, or an error that nobody knows: it must not end the loader
            log.error("%s: an unexpected error", self.target, exc_info=True, extra={"action": "hold_unexpected"})
            return f"an unexpected {type(error).__name__}; the log of the pipeline has its traceback"
        self._held[hold.table] = hold.position
        return ""

    def merge_all(self) -> int:
        """Merge everything that the target lacks and return the number of events; a table that fails stops no other.

        What fails is reported and waits; so does the whole target if it, or the store, cannot be reached.
        """
        waiting = {name for name, failure in self._failures.items() if failure.until > self.clock()}
        if "" in waiting:
            return 0
        try:
            return self._merge_tables(waiting)
        except AuditorError as error:
            self._fail("", error)
        except Exception as error:  # a bug, or an error that nobody knows: it must not end the loader in silence
            log.error("%s: an unexpected error", self.target, exc_info=True, extra={"action": "merge_unexpected"})
            self._fail("", MergeFailed(f"an unexpected {type(error).__name__}; the log has its traceback"))
        return 0

    def _merge_tables(self, waiting: set[str]) -> int:
        if self._holding.seen and writing_dialect(self.where.connection, self.settings).OPENS_FILES:
            return 0  # the audit is about to read the file, which nobody may have open then
        waiting = waiting | set(self._holding.seen)
        offset = pipelines.get_pipeline(self.where.store, self.where.pipeline).source_offset  # before the tables that were staged till then
        tables = parts.list_tables(self.where.store, self.where.pipeline)
        if "" not in self._failures and all(self._held.get(table, -1) >= staged.staged_through for table, staged in tables.items()):
            return 0
        total = 0
        with self._opened() as session:
            positions = read_positions(session, self.where)
            self._held = {table: held.position for table, held in positions.items()}
            self._failures.pop("", None)
            self._report_positions(positions, tables)
            for table, staged in sorted(tables.items()):
                if self._moved:
                    self._moved, positions = False, read_positions(session, self.where)
                held = positions.get(table, Held())
                if table in waiting or held.position >= staged.staged_through:
                    continue
                if self._is_asked_away():
                    break
                try:
                    total += self._merge_table(session, table, held)
                except (StoreError, ConnectionLost):
                    raise
                except PartDamaged as error:
                    self._ready.pop(table, None)
                    self._restage(table, held.position, error)
                except AuditorError as error:
                    self._ready.pop(table, None)
                    self._fail(table, error, held.position)
            if total and not isinstance(session, Committing):
                self._note_whole(session, tables, offset)
        return total

    def _note_whole(self, session: Session, tables: Mapping[str, StagedTable], offset: Any) -> None:
        """Let the target say that it holds every table up to an offset, if it does, so that the stream can be read again from there."""
        is_due = self.clock() >= self._noted + waits().target_note and offset is not None
        if is_due and all(self._held.get(table, -1) >= staged.staged_through for table, staged in tables.items()):
            note_whole(session, self.where, offset)
            self._noted = self.clock()

    def _restage(self, table: str, position: int, damage: PartDamaged) -> None:
        """Stage the damaged parts of a table again from the source's log, so that it goes on; where that fails, report why it does not."""
        try:
            where = self.where
            if not restage(settings_of(where.config_file), where.store, where.pipeline, folder_at(where.root), table, position):
                self._fail(table, damage, position)
        except AuditorError as error:
            self._fail(table, error, position)

    @contextmanager
    def _opened(self) -> Iterator[Session]:
        """Yield a session on the target; one that failed, or keeps others off it, is closed afterwards."""
        if self._session is None:
            self._session = open_session(self.where.connection, self.settings)
            if self._session.dialect.writing.LOADS == "by files":  # of a process that was killed: none but this one loads the target
                remove_files(self._session, folder_of(self.where.pipeline, self.where.schema))
        try:
            tables = set(parts.list_tables(self.where.store, self.where.pipeline))
            if not self.where.incarnation or tables - self._checked:
                self.where = replace(self.where, incarnation=check_target(self._session, self.where))
                self._checked |= tables
            yield self._session
        except BaseException:
            self.close()
            raise
        if self._session.dialect.OPENS_FILES:
            self.close()

    def close(self) -> None:
        """Close the session that is kept between merges."""
        session, self._session = self._session, None
        self._ready.clear()
        if session:
            self.closing(session)
            session.close()

    def _merge_table(self, session: Session, table: str, held: Held) -> int:
        total = 0
        while True:
            staged = parts.get_table(self.where.store, self.where.pipeline, table)
            began = self.clock()
            try:
                merged = merge_next(session, self.where, table, held, staged, self._ready)
            except POISONING as error:
                self._isolate(session, table, held, staged, error)
                return total
            if merged is None:
                return total
            total += merged.events
            held = self._take(table, merged, began)
            if self._is_asked_away():  # there may always be more to merge
                return total

    def _is_asked_away(self) -> bool:
        """Return whether an audit, or the end of the process, waits for the transaction under way."""
        return self._stopped.is_set() or self._holding.is_asked()

    def _take(self, table: str, merged: Merged, began: float) -> Held:
        self._failures.pop(table, None)
        self._report(table, merged, self.clock() - began)
        self._held[table] = merged.held.position
        self._moved = self._moved or merged.moved
        return merged.held

    def _isolate(self, session: Session, table: str, held: Held, staged: StagedTable, error: AuditorError) -> None:
        """Merge what stands before the event or statement that this target cannot take, and record where that is."""
        ahead, root, now = see(self.where, table, held), folder_at(self.where.root), [held]

        def merge(position: int, rows: int | None) -> None:
            while now[0].position < position:
                began = self.clock()
                self._ready.pop(table, None)
                merged = merge_next(session, self.where, table, now[0], staged, self._ready, position, rows)
                if merged is None:
                    return
                now[0] = self._take(table, merged, began)

        note: TableNote | None = None
        if ahead.note is None:
            found = find_poison(merge, root, ahead.parts, held.position, ahead.through, ahead.skipped)
            if found is None:
                return
            error = found.error
            schema = get_schema(self.where, ahead.parts[0].schema_id)
            note = describe_poison(root, ahead.parts, found, self.target, _reason(error, _names(schema, self.where)), schema)
        elif ahead.why or not is_move(ahead.note):  # which concerns several tables: one cannot go on without it
            note = describe_statement(ahead.note, self.target, _reason(error))
        if note:
            table_notes.record_poison(self.where.store, self.where.pipeline, note)
            report_poison(self.where.pipeline, [note])
        self._ready.pop(table, None)
        self._fail(table, error, now[0].position)

    def _report_positions(self, positions: Mapping[str, Held], tables: Mapping[str, StagedTable]) -> None:
        """Report where the target itself says that it stands: an earlier process may have ended before it could, or the target was away.

        Of a table that lacks nothing, no reason of before holds any more.
        """
        reports = pipelines.list_merges(self.where.store, self.where.pipeline).get(self.target, {})
        for table, held in positions.items():
            is_past = table in reports and reports[table].state != "merged" and table not in self._failures
            lacks = table in tables and held.position < tables[table].staged_through
            if table not in reports or reports[table].position != held.position or (is_past and not lacks):
                pipelines.report_merge(self.where.store, self.where.pipeline, self.target, table, position=held.position, state="merged")

    def _report(self, table: str, merged: Merged, seconds: float) -> None:
        reach("merge.report")
        about = (self.where.store, self.where.pipeline, self.target, table)
        pipelines.report_merge(*about, position=merged.position, state="merged", events=merged.events, time=merged.time)
        table_notes.drop_passed(self.where.store, self.where.pipeline, self.target, table, merged.position)
        schema_changes.settle(*about, merged.position, merged.held.schema_id)
        line = f"{self.target}: {table} holds {describe(merged.position)}: {merged.events:,} events in {seconds:.2f} s"
        log.info(line, extra={"action": "merged", "target": self.target, "table": table, "events": merged.events, "seconds": seconds})

    def _fail(self, table: str, error: AuditorError, position: int | None = None) -> None:
        """Let a table (or with '' the whole target) wait, longer each time, and report why."""
        failure = self._failures.setdefault(table, _Failure())
        wait = failure.backoff.fail()
        failure.until = self.clock() + wait
        reason = _reason(error)
        state: MergeState = "delayed" if error.retryable else "stopped"
        extra = {"action": f"merge_{state}", "target": self.target, "table": table, "again_in": wait}
        log.warning("%s: %s: %s", self.target, table or "every table", reason, extra=extra)
        try:
            reports = pipelines.list_merges(self.where.store, self.where.pipeline).get(self.target, {})
            named = [table] if table else list(parts.list_tables(self.where.store, self.where.pipeline))
            for name in named:
                known = reports[name].position if name in reports else 0
                there = known if position is None else position
                pipelines.report_merge(self.where.store, self.where.pipeline, self.target, name, position=there, state=state, reason=reason)
        except StoreError as unreported:
            log.warning("%s: the store cannot be told: %s", self.target, unreported, extra={"action": "report_failed"})

    def _wait(self, every: float, stopped: threading.Event, staged: threading.Event, at_once: bool) -> None:
        """Wait until the next merge is due; ``at_once``, if it is due whenever something was staged, without waiting.

        Holds are served meanwhile.
        """
        if not every:
            if not at_once:
                staged.wait(self._poll())  # another process may stage
            return
        least, now = waits().first_retry, self.clock()
        until = now + min([every, *(max(least, failure.until - now) for failure in self._failures.values())])
        while (left := until - self.clock()) > 0 and not stopped.wait(min(left, self._poll())):
            self._serve_holds()

    def _poll(self) -> float:
        return waits().hold_poll if self._holding.seen else waits().staged_poll


def _names(schema: TableSchema, where: Where) -> tuple[str, ...]:
    """Return names that a target's message may quote."""
    place = where.place(f"{schema.database}.{schema.table}")
    return (schema.table, *place, ".".join(place), *(column.name for column in schema.columns))


def _reason(error: AuditorError, names: Sequence[str] = ()) -> str:
    """Return why a table does not go on, with the names that the message quotes, and without a value of a row."""
    return plain_message(str(error), {*names, *error.names}) if isinstance(error, EngineError) and not error.retryable else str(error)
