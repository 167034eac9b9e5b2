"""The loop of one target: merge what it lacks, report how it stands, and retry with growing waits what failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from auditor.background import Backoff, Service
from auditor.config import ConnectionSettings
from auditor.connections.writer import open_session, writing_dialect
from auditor.durations import durations
from auditor.errors import (
    AuditorError,
    ConnectionLost,
    EngineError,
    FileInUse,
    MergeFailed,
    PartDamaged,
    PartsGone,
    StagingFailed,
    StoreError,
)
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge import live_sums
from auditor.pipeline.merge.late_start import begin_late
from auditor.pipeline.merge.load_files import folder_of, remove_files
from auditor.pipeline.merge.load_tasks import bytes_without_tasks, settings_of
from auditor.pipeline.merge.merge_to_positions import merge_to_positions
from auditor.pipeline.merge.merge_together import Pending, look
from auditor.pipeline.merge.name_collisions import check_place, find_alike
from auditor.pipeline.merge.poison_search import POISONING, describe_poison, describe_statement, find_poison
from auditor.pipeline.merge.positions import Held, Where, get_schema, is_at_one_moment, see
from auditor.pipeline.merge.table_changes import is_move
from auditor.pipeline.merge.table_holds import Holding, merge_wanted
from auditor.pipeline.merge.table_merge import (
    Merged,
    Step,
    StepFailed,
    StepsFailed,
    begun_again,
    check_kept,
    follow,
    merge,
    merge_next,
    plan,
)
from auditor.pipeline.merge.table_statistics import TableStatistics, check_analyze
from auditor.pipeline.merge.target_identity import Identity, check_target, note_whole, read_target, whole_of
from auditor.pipeline.merge.target_reports import TargetReports, reason_of
from auditor.pipeline.merge.target_table import CatalogueVersions, TargetTable, folding
from auditor.pipeline.poison import report_poison
from auditor.pipeline.restaging import restage
from auditor.pipeline.staged_parts import Blocks, read_ahead
from auditor.points import reach
from auditor.store import parts, pipelines, table_notes
from auditor.store.holds import Hold
from auditor.store.parts import StagedTable
from auditor.store.pipelines import MergeNews
from dialects import Session
from dialects.committing import Committing

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Loader:
    """Merges the parts of a pipeline into one target."""

    where: Where
    target: str
    settings: ConnectionSettings
    clock: Callable[[], float] = time.monotonic
    closing: Callable[[Session], None] = lambda _: None
    """Called with each session before it is closed, for those who count what it cost."""
    _held: dict[str, Held] = field(default_factory=dict)
    """What the target held when it was last looked at: while nothing more is staged, it is not opened."""
    _said: Mapping[str, Identity] = field(default_factory=dict)
    """What each schema of the target said of all tables when it was last looked at."""
    _together: int = 0
    """The position up to which tables were merged together last; 0 if that is not known."""
    _complete: dict[str, int] = field(default_factory=dict)
    """Up to where the target holds all there is of tables, be it that there is none."""
    _known: set[str] = field(default_factory=set)
    """The tables among which ``_alike`` was looked for."""
    _alike: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Tables that would be one with others in the target."""
    _moved: bool = False
    """Whether tables were renamed since the positions were read."""
    _session: Session | None = None
    """The session that is kept between merges; none where an open one keeps others off the target."""
    _ready: dict[str, TargetTable] = field(default_factory=dict)
    """The target's tables as they were examined, some of them with a staging table of this session."""
    _catalogue: CatalogueVersions = field(default_factory=CatalogueVersions)
    _noted: float = float("-inf")
    """When (seconds of the clock) the target was last given the place up to which it holds every table."""
    _sized: float = float("-inf")
    """When (seconds of the clock) it was last looked at how much is staged."""
    _checked: set[str] = field(default_factory=set)
    """The tables with which `check_target` was called: others may be in other schemas."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the loader is to end after the transaction under way."""
    _reports: TargetReports = field(init=False)
    """What failed and waits, and what is recorded in the store."""
    _holding: Holding = field(init=False)
    """What audits hold."""
    _statistics: TableStatistics = field(init=False)
    """What changed since statistics were renewed."""

    def __post_init__(self) -> None:
        self.where = replace(self.where, target=self.target)
        self._reports = TargetReports(self.where.store, self.where.pipeline, self.target, self._now)
        self._holding = Holding(self.where)
        self._statistics = TableStatistics(self.where, self.target)

    def _now(self) -> float:
        return self.clock()

    def service(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what merges every so many seconds until ``stopped`` is set, but not while ``paused`` is; with 0, whenever ``staged`` is.

        Nothing ends it but ``stopped``, after the transaction under way.
        """
        self._stopped = stopped

        def merge() -> None:
            staged.clear()
            self.serve_holds()
            if not paused.is_set():
                self.merge_all()
            self._wait(every, stopped, staged)

        backoff = Backoff(durations().pipeline_first_retry, durations().pipeline_longest_retry)
        return Service(f"loader {self.target}", merge, backoff=backoff, at_end=self.close, stopping=stopped)

    def serve_holds(self) -> None:
        """Serve the audits that hold tables of this target; store the reason of each hold that fails."""
        try:
            if wanted := self._holding.look():
                failed = self._hold_all(wanted)
                for hold in wanted:
                    self._holding.answer(hold, failed.get(hold.table, ""))
        except StoreError as error:  # holds end by themselves
            log.warning("%s: the store cannot be asked for holds: %s", self.target, error, extra={"action": "holds_unknown"})

    def _hold_all(self, wanted: Sequence[Hold]) -> dict[str, str]:
        """Merge tables exactly as far as audits want them; return by table why that fails."""
        positions, take = {hold.table: hold.position or 0 for hold in wanted}, partial(self._take, began=self.clock())
        try:
            with self._opened(durations().hold_file) as session:
                errors = merge_wanted(session, self.where, positions, self._ready, take)
            failed = {table: reason_of(error) for table, error in errors.items()}
        except AuditorError as error:
            failed = dict.fromkeys(positions, reason_of(error))
        except Exception as error:  # a bug, or an error that nobody knows: it must not end the loader
            log.error("%s: an unexpected error", self.target, exc_info=True, extra={"action": "hold_unexpected"})
            failed = dict.fromkeys(positions, f"an unexpected {type(error).__name__}; the log of the pipeline has its traceback")
        for table, position in positions.items():
            if table in failed:
                self._ready.pop(table, None)
            elif table in self._held:
                self._held[table] = replace(self._held[table], position=position)
        return failed

    def merge_all(self) -> int:
        """Merge everything that the target lacks and return the number of events; a table that fails stops no other.

        What fails is reported and waits; so does the whole target if it, or the store, cannot be reached.
        """
        if not self._reports.begin():
            return 0
        try:
            return self._merge_tables()
        except FileInUse as error:
            self._reports.wait_for_file(error)
        except AuditorError as error:
            self._reports.fail("", error)
        except Exception as error:  # a bug, or an error that nobody knows: it must not end the loader in silence
            log.error("%s: an unexpected error", self.target, exc_info=True, extra={"action": "merge_unexpected"})
            self._reports.fail("", MergeFailed(f"an unexpected {type(error).__name__}; the log has its traceback"))
        finally:
            self._reports.tell_failures()
        return 0

    def _merge_tables(self) -> int:
        if self._holding.seen and writing_dialect(self.where.connection, self.settings).OPENS_FILES:
            return 0  # the audit is about to read the file, which nobody may have open then
        offset = pipelines.get_pipeline(self.where.store, self.where.pipeline).source_offset  # before the tables that were staged till then
        tables = parts.list_tables(self.where.store, self.where.pipeline)
        if "" not in self._reports.failures and not self._lacking(tables, ()):
            return 0
        with self._opened() as session:
            self._take_positions(session, tables)
            self._held = {**self._held, **begin_late(session, self.where, self._held, tables)}
            self._reports.failures.pop("", None)
            check_analyze(session, self.where.chosen)
            self._catalogue.renew(session, ((self.where.place(table)[0], target.examination) for table, target in self._ready.items()))
            if is_at_one_moment(session, self.where.chosen):
                if tables.keys() - self._known:
                    self._known = set(tables)
                    self._alike = find_alike(folding(session), self.where.place, tables)
                total = self._merge_together(session, tables)
            else:
                total = self._merge_one_by_one(session, tables)
            if total and not isinstance(session, Committing):  # which carries the pipeline's incarnation with each position
                self._note_whole(session, tables, offset)
            self._statistics.renew(session, {table: held.position for table, held in self._held.items()}, self._is_asked_away)
        return total

    def _take_positions(self, session: Session, tables: Mapping[str, StagedTable]) -> None:
        """Ask the target what it holds, and report where that is not what was reported."""
        known, self._moved = self._held, False
        self._held, self._said = read_target(session, self.where)
        if any(self._held.get(table, Held()).position < held.position for table, held in known.items()):
            self._together, self._complete = 0, {}  # it was restored, or reset: what it holds of quiet tables is not known any more
        newest = max(self._said.values(), key=lambda said: said.through, default=None)
        if not self._together and newest:
            self._together = newest.through
            self._complete = {table: newest.through for table in self._held if table not in newest.apart}
        self._report_positions(self._held, tables)

    def _lacking(self, tables: Mapping[str, StagedTable], waiting: Collection[str]) -> dict[str, Held]:
        """Return what the target holds of the tables of which it lacks something, but for those that wait."""
        return {
            table: self._held.get(table, Held())
            for table, staged in sorted(tables.items())
            if table not in waiting and staged.staged_through > self._position(table)
        }

    def _position(self, table: str) -> int:
        """Return up to where the target holds a table, as far as this loader knows: an event that there is none is not written down."""
        return max(self._held.get(table, Held()).position, self._complete.get(table, 0))

    def _merge_one_by_one(self, session: Session, tables: Mapping[str, StagedTable]) -> int:
        """Merge what each table lacks by itself, and return the number of events: where commits are of one table, or that is asked for."""
        total = 0
        for table, held in self._lacking(tables, self._reports.waiting | set(self._holding.seen)).items():
            if self._is_asked_away():
                break
            if table not in self._holding.seen:
                total += self._guarded(session, table, held, partial(self._merge_table, session, table, held))
            if self._moved:
                self._take_positions(session, tables)
        return total

    def _merge_together(self, session: Session, tables: Mapping[str, StagedTable]) -> int:
        """Merge what the tables lack, all up to one position after the other, and return the number of events.

        A table that fails, or is held, stays behind. It catches up by itself, and goes on with the others once it has come as far as they.
        """
        total, settled = 0, set[tuple[str, int]]()
        while not self._is_asked_away():
            lacking = self._kept(session, self._lacking(tables, self._reports.waiting | set(self._holding.seen)), tables)
            if not lacking:
                break
            self._together = self._together or min(map(self._position, lacking))
            behind = {table: held for table, held in lacking.items() if not self._joins(table, held)}
            group = {table: held for table, held in lacking.items() if table not in behind}
            if group:
                apart = {*behind, *self._reports.waiting, *self._holding.seen}
                merged, unmerged = self._merge_group(session, group, tables, settled, apart)
                total += merged
                left = {*unmerged, *behind, *self._reports.waiting, *self._holding.seen}
                self._complete = {table: self._together for table in tables if table not in left}
            total += self._catch_up_all(session, behind)
            if self._moved:
                self._take_positions(session, tables)
            if not group:  # the others do not wait until these have caught up
                tables = parts.list_tables(self.where.store, self.where.pipeline)
        return total

    def _kept(self, session: Session, lacking: Mapping[str, Held], tables: Mapping[str, StagedTable]) -> dict[str, Held]:
        """Return the tables of which no part was deleted that the target lacks; the others fail."""
        kept: dict[str, Held] = {}
        for table, held in lacking.items():
            try:
                check_kept(session, self.where, table, replace(held, position=self._position(table)), tables[table])
            except PartsGone as error:
                self._reports.fail(table, error, held.position)
            else:
                kept[table] = held
        return kept

    def _joins(self, table: str, held: Held) -> bool:
        """Return whether the target holds a table as far as those that are merged together."""
        if self._position(table) < self._together:
            try:
                ahead = see(self.where, table, held)
            except (StoreError, StagingFailed):
                raise
            except AuditorError:
                return False  # it is said when the table catches up
            nearest = ahead.note.position if ahead.note else ahead.begins
            if nearest is not None and nearest <= self._together:
                return False
        self._complete[table] = self._together
        return True

    def _catch_up_all(self, session: Session, behind: Mapping[str, Held]) -> int:
        """Merge the next events of tables that are behind the others, and return their number: in one transaction where that can be."""
        began, positions = self.clock(), {table: self._together for table in behind if table not in self._reports.failures}
        merged = merge_to_positions(session, self.where, positions, behind, self._ready) if len(positions) > 1 else {}
        self._take(merged, began)
        total = sum(one.events for one in merged.values())
        for table, held in behind.items():
            if table not in merged:
                total += self._guarded(session, table, held, partial(self._catch_up, session, table, held))
        return total

    def _catch_up(self, session: Session, table: str, held: Held) -> int:
        """Merge the next events of a table that is behind the others, and return their number."""
        began, staged = self.clock(), parts.get_table(self.where.store, self.where.pipeline, table)
        merged = merge_next(session, self.where, table, held, staged, self._ready, self._together)
        if merged is None:
            if not self._joins(table, held):
                self._reports.waiting.add(table)  # another one has to come so far first
            return 0
        self._take({table: merged}, began)
        return merged.events

    def _merge_group(
        self,
        session: Session,
        group: Mapping[str, Held],
        tables: Mapping[str, StagedTable],
        settled: set[tuple[str, int]],
        apart: Collection[str],
    ) -> tuple[int, set[str]]:
        """Merge the next events of tables that are equally far, up to one position; return their number, and the tables that stay behind.

        Where there is none before something that tables have to do by themselves, these do it.
        """
        began, outlook = self.clock(), look(self.where, group, self._together, tables, self.where.chosen.max_transaction, settled)
        for table, error in outlook.failed.items():
            self._guarded(session, table, group[table], partial(_raise, error))
        if outlook.rows > self.where.chosen.max_transaction:
            self._report_large(group, outlook.rows)
        due = [one for one in outlook.pending.values() if one.ahead.begins is not None and one.ahead.begins <= outlook.through]
        own_bytes, steps = bytes_without_tasks(len(due)), list[Step]()
        soon = (part for one in due for part in one.ahead.parts if part.bytes <= own_bytes and part.first <= outlook.through)
        read = read_ahead(folder_at(self.where.root), soon)
        for pending in due:
            self._guarded(
                session, pending.table, pending.held, partial(self._plan, session, pending, outlook.through, own_bytes, read, steps)
            )
        apart = {*apart, *outlook.failed, *(one.table for one in due)}
        merged = self._merge_steps(session, steps, began, outlook.through, apart)
        for pending in outlook.stopping() if not due else ():
            self._guarded(session, pending.table, pending.held, partial(self._follow, session, pending, settled))
        self._together = outlook.through
        return sum(one.events for one in merged.values()), {*outlook.failed, *(one.table for one in due)} - set(merged)

    def _plan(self, session: Session, pending: Pending, through: int, own_bytes: int, root: Blocks, steps: list[Step]) -> int:
        self._check_place(session, pending)
        ahead = pending.ahead
        live_sums.end(self.where, live_sums.ends_by(self.where, pending.table, ahead.changes))
        if step := plan(session, self.where, pending.table, pending.held, ahead, self._ready, through, own_bytes=own_bytes, root=root):
            steps.append(step)
        return 0

    def _follow(self, session: Session, pending: Pending, settled: set[tuple[str, int]]) -> int:
        """Let a table do what it has to do by itself."""
        self._check_place(session, pending)
        began = self.clock()
        if done := follow(session, self.where, pending.table, pending.held, pending.ahead, self._ready):
            self._take({pending.table: done}, began)
        elif pending.ahead.note:
            self._reports.waiting.add(pending.table)  # another one has to come so far first
        else:
            settled.add((pending.table, pending.stop or 0))
        return 0

    def _check_place(self, session: Session, pending: Pending) -> None:
        """Check that a table's place in the target is its own. Raises TableStopped."""
        note = pending.ahead.note
        check_place(session, self.where, pending.table, pending.held, note is not None and is_move(note), self._alike)

    def _merge_steps(self, session: Session, steps: list[Step], began: float, through: int, apart: Collection[str]) -> dict[str, Merged]:
        """Merge the events of steps in one transaction, without those that fail, whose tables are reported; return what was merged.

        The target then says that it holds all tables up to ``through`` but for those ``apart`` that are not in the steps. A step that fails
        is tried once more behind the others: a row may refer to one of another table.
        """
        merged, failed, last = dict[str, Merged](), list[tuple[Step, AuditorError]](), set[str]()
        together = len(steps) > 1
        while steps and not merged:
            try:
                left = {*apart} - {step.table for step in steps}
                whole = {schema: whole_of(said, through, left) for schema, said in self._said.items()}
                merged = merge(session, self.where, steps, self._ready, whole, together)
            except StepsFailed:  # one by one, it is seen which one that is
                together, steps = False, [begun_again(one) for one in steps]
            except StepFailed as failure:
                step = failure.step
                if isinstance(failure.error, (StoreError, ConnectionLost)):
                    raise failure.error from failure
                others = [one for one in steps if one is not step]
                if others and step.table not in last:
                    last.add(step.table)
                    others.append(step)
                else:
                    failed.append((step, failure.error))
                steps = [begun_again(one) for one in others]
            except EngineError as error:  # by the COMMIT, which names no table
                if error.retryable:
                    raise
                for step in steps:
                    self._guarded(session, step.table, step.held, partial(self._merge_step, session, step, began))
                return {}
        self._take(merged, began)
        for step, why in failed:  # once the others are merged: it goes on to where it fails
            self._guarded(session, step.table, step.held, partial(_raise, why))
        return merged

    def _merge_step(self, session: Session, step: Step, began: float) -> int:
        try:
            merged = merge(session, self.where, [begun_again(step)], self._ready)
        except StepFailed as failure:
            raise failure.error from failure
        self._take(merged, began)
        return sum(one.events for one in merged.values())

    def _guarded(self, session: Session, table: str, held: Held, work: Callable[[], int]) -> int:
        """Return what work on one table returns, or 0 and report why it does not go on. Raises StoreError and ConnectionLost."""
        try:
            return work()
        except (StoreError, ConnectionLost):
            raise
        except PartDamaged as error:
            self._ready.pop(table, None)
            self._reports.waiting.add(table)
            self._restage(table, held.position, error)
        except AuditorError as error:
            self._ready.pop(table, None)
            if isinstance(error, POISONING):
                self._guarded(session, table, held, partial(self._isolate, session, table, held, error))
            else:
                self._reports.fail(table, error, held.position)
        return 0

    def _note_whole(self, session: Session, tables: Mapping[str, StagedTable], offset: Any) -> None:
        """Let the target say that it holds every table up to an offset, if it does, so that the stream can be read again from there."""
        is_due = self.clock() >= self._noted + durations().target_note and offset is not None
        if is_due and not self._lacking(tables, ()):
            note_whole(session, self.where, offset)
            self._noted = self.clock()

    def _restage(self, table: str, position: int, damage: PartDamaged) -> None:
        """Stage the damaged parts of a table again from the source's log, so that it goes on; where that fails, report why it does not."""
        try:
            where = self.where
            if not restage(settings_of(where.config_file), where.store, where.pipeline, folder_at(where.root), table, position):
                self._reports.fail(table, damage, position)
        except AuditorError as error:
            self._reports.fail(table, error, position)

    @contextmanager
    def _opened(self, patience: float = 0.0) -> Iterator[Session]:
        """Yield a session on the target; one that failed, or keeps others off it, is closed afterwards.

        Raises FileInUse if another process has its file open for ``patience`` seconds, and ``file_wait``.
        """
        if self._session is None:
            self._session = self._open(patience)
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

    def _open(self, patience: float) -> Session:
        until = self.clock() + patience
        while True:
            try:
                return open_session(self.where.connection, self.settings, durations().file_wait)
            except FileInUse:
                if self._stopped.is_set() or self.clock() >= until:
                    raise

    def close(self) -> None:
        """Close the session that is kept between merges."""
        session, self._session = self._session, None
        self._ready = {table: replace(target, is_staged=False) for table, target in self._ready.items()}
        if session:
            self.closing(session)
            session.close()

    def _merge_table(self, session: Session, table: str, held: Held) -> int:
        """Merge all that the target lacks of a table, and return the number of events."""
        total = 0
        while not self._is_asked_away() and table not in self._holding.seen:  # there may always be more to merge
            staged, began = parts.get_table(self.where.store, self.where.pipeline, table), self.clock()
            merged = merge_next(session, self.where, table, self._held.get(table, held), staged, self._ready)
            if merged is None:
                break
            total += merged.events
            self._take({table: merged}, began)
        return total

    def _is_asked_away(self) -> bool:
        """Return whether an audit, or the end of the process, waits for the transaction under way.

        One that wants a table to stand still is answered here, and the other tables continue; but a target that is a file is closed for it.
        """
        if self._stopped.is_set():
            return True
        is_file = writing_dialect(self.where.connection, self.settings).OPENS_FILES
        return self._holding.is_asked() if is_file else bool(self._holding.look())

    def _take(self, merged: Mapping[str, Merged], began: float) -> None:
        """Remember, and report, what was merged."""
        if not merged:
            return
        for table, one in merged.items():
            self._held[table] = one.held
            self._moved = self._moved or one.moved
        self._statistics.count({table: one.events for table, one in merged.items()})
        reach("merge.report")
        self._reports.tell_merged(merged, self.clock() - began)

    def _isolate(self, session: Session, table: str, held: Held, error: AuditorError) -> int:
        """Merge what stands before the event or statement that this target cannot take, and record where that is."""
        held = self._held.get(table, held)
        staged = parts.get_table(self.where.store, self.where.pipeline, table)
        ahead, root, now = see(self.where, table, held), folder_at(self.where.root), [held]

        def merge(position: int, rows: int | None) -> None:
            while now[0].position < position:
                began = self.clock()
                self._ready.pop(table, None)
                merged = merge_next(session, self.where, table, now[0], staged, self._ready, position, rows)
                if merged is None:
                    return
                self._take({table: merged}, began)
                now[0] = merged.held

        note: TableNote | None = None
        if ahead.note is None:
            found = find_poison(merge, root, ahead.parts, held.position, ahead.through, ahead.skipped)
            if found is None:
                return 0
            error = found.error
            schema = get_schema(self.where, ahead.parts[0].schema_id)
            note = describe_poison(root, ahead.parts, found, self.target, reason_of(error, _names(schema, self.where)), schema)
        elif ahead.why or not is_move(ahead.note):  # which concerns several tables: one cannot go on without it
            note = describe_statement(ahead.note, self.target, reason_of(error))
        if note:
            table_notes.record_poison(self.where.store, self.where.pipeline, note)
            report_poison(self.where.pipeline, [note])
        self._ready.pop(table, None)
        self._reports.fail(table, error, now[0].position)
        return 0

    def _report_positions(self, positions: Mapping[str, Held], tables: Mapping[str, StagedTable]) -> None:
        """Report where the target itself says that it stands: an earlier process may have ended before it could, or the target was away.

        Of a table that lacks nothing, no reason of before holds any more.
        """
        reports = pipelines.list_merges(self.where.store, self.where.pipeline, self.target).get(self.target, {})
        stands: dict[str, MergeNews] = {}
        for table, held in positions.items():
            is_past = table in reports and reports[table].state != "merged" and table not in self._reports.failures
            lacks = table in tables and self._position(table) < tables[table].staged_through
            if table not in reports or reports[table].position != held.position or (is_past and not lacks):
                stands[table] = MergeNews(held.position, "merged")
        pipelines.report_merges(self.where.store, self.where.pipeline, self.target, stands)

    def _report_large(self, waiting: Mapping[str, Held], rows: int) -> None:
        """Report that tables wait for more rows than are merged with others."""
        reason = f"waits for {rows:,} rows that are merged together, more than max_transaction: one transaction of the source, or one part"
        log.info("%s: %d tables: %s", self.target, len(waiting), reason, extra={"action": "merge_large", "events": rows})
        news = {table: MergeNews(held.position, "delayed", reason) for table, held in waiting.items()}
        pipelines.report_merges(self.where.store, self.where.pipeline, self.target, news)

    def _wait(self, every: float, stopped: threading.Event, staged: threading.Event) -> None:
        """Wait until the next merge is due: ``every`` seconds, in which holds are served, or with 0 whenever something was staged."""
        if not every:
            staged.wait(self._poll())  # another process may stage
            return
        least, now = durations().pipeline_first_retry, self.clock()
        until = now + min([every, *(max(least, failure.until - now) for failure in self._reports.failures.values())])
        while (left := until - self.clock()) > 0 and not stopped.wait(min(left, self._poll())) and not self._is_enough_staged():
            self.serve_holds()

    def _is_enough_staged(self) -> bool:
        """Return whether so much is staged that a merge begins before its time; tables that wait after a failure do not count."""
        least, now = self.where.chosen.merge_at, self.clock()
        if (least.rows is None and least.bytes is None) or now < self._sized + durations().size_poll:
            return False
        self._sized = now
        try:
            piles = parts.sum_missing(self.where.store, self.where.pipeline, [self.target])[self.target]
        except StoreError as error:
            log.warning("%s: the store cannot be asked how much is staged: %s", self.target, error, extra={"action": "staged_unknown"})
            return False
        due = [pile for table, pile in piles.items() if table not in self._reports.failures]
        rows, size = sum(pile.rows for pile in due), sum(pile.bytes for pile in due)
        return (least.rows is not None and rows >= least.rows) or (least.bytes is not None and size >= least.bytes)

    def _poll(self) -> float:
        return durations().hold_poll if self._holding.seen else durations().staged_poll


def _names(schema: TableSchema, where: Where) -> tuple[str, ...]:
    """Return names that a target's message may quote."""
    place = where.place(f"{schema.database}.{schema.table}")
    return (schema.table, *place, ".".join(place), *(column.name for column in schema.columns))


def _raise(error: AuditorError) -> int:
    raise error
