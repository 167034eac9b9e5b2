"""Scan both sides by a plan: chunks, read by as many connections as the audit allows, in the snapshots that the plan asks for.

A chunk that fails with a transient error is retried; each chunk that was read goes to the checkpoint while the next one is read.

Before, each side's key ranges are checked for an index, and scans of large tables that none serves are refused. Afterwards the rows
of a table are counted by a statement in whose scope is nothing else, and compared with what was summarised.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType, TracebackType

import sql_templates
from auditor import telemetry
from auditor.compare.comparator import Aligned, align
from auditor.config import ConnectionSettings
from auditor.connections.connection import Connection, prefix_errors
from auditor.connections.reader import Reader
from auditor.errors import (
    AuditorError,
    EngineError,
    LockTimeout,
    ReadingContradicted,
    ScanRefused,
    SessionSwitched,
    StatementCancelled,
    StatementTimeout,
)
from auditor.model import Chunk, Plan, Side, is_shard
from auditor.run.chunk_queue import ChunkQueue
from auditor.sql import render
from auditor.sql.relation import relation
from auditor.sql.user_sql import checked
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from dialects import Session

ALIGNED = "the run is aligned, and a snapshot that is shared would be of another position"
"""Why an aligned run reads a side by one connection."""

Summarise = Callable[[Plan], Aligned]
"""Scans both sides by a plan, as ``scan`` does."""

SaveChunk = Callable[[Side, Chunk, Summaries, float, int], None]
"""Saves the summaries of a chunk, with the seconds and attempts that reading it took."""


def save_nothing(_: Side, __: Chunk, ___: Summaries, ____: float, _____: int) -> None:
    """Ignore a chunk."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How a scan is a part of a run: what is known already, what is saved of it, and what progress calls it."""

    doing: str = "summarising"
    saved: Mapping[Side, Sequence[tuple[Chunk, Summaries]]] = field(default_factory=dict)
    """Chunks that an earlier attempt at the scan read; they are not read again."""
    skip: Sequence[Chunk] = ()
    """Chunks that neither side reads."""
    rows: Mapping[Side, int] = field(default_factory=dict)
    """About how many rows of each side are read; by default as many as the table is estimated to have."""
    save: SaveChunk = save_nothing
    cut: int = 0
    """Keys of which a chunk holds a whole number; 0 for those of a partition."""
    count_chunks: bool = False
    """Whether the rows of each chunk are held against a bare count, where each has a snapshot of its own; else those of a random one."""
    siblings: dict[Side, list[Connection]] | None = None
    """Further connections that stay open for the next scan; None if the scan closes its own."""


def scan(reader: Reader, plan: Plan, stage: Stage | None = None, known: Mapping[Side, Summaries] = MappingProxyType({})) -> Aligned:
    """Return both sides' summaries by a plan, aligned by partition; those of a source's shards add up.

    Sides whose summaries are ``known`` are not read. Raises errors of the tree, with the side in front.
    """
    summaries = reader.on_sides(lambda side: known[side] if side in known else _SideScan(reader, plan, side, stage or Stage()).run())
    rows = {side: int(summaries[side].rows.sum()) for side in reader.shards}
    parts = [summaries[side] for side in reader.shards or ("source",)]
    source, target = arrays.concatenate(parts, render.result_columns(plan)), summaries["target"]
    if plan.joins_words:
        source, target = arrays.join_words(source), arrays.join_words(target)
    return replace(align(source, target), shard_rows=rows)


def scan_side(reader: Reader, plan: Plan, side: Side) -> Summaries:
    """Return one side's summaries by a plan; the other is not read. Raises errors of the tree, with the side in front."""
    return _SideScan(reader, plan, side, Stage()).run()


@contextmanager
def kept_siblings(reader: Reader) -> Iterator[dict[Side, list[Connection]]]:
    """Yield what keeps further connections open between the scans of the block."""
    kept: dict[Side, list[Connection]] = {}
    try:
        yield kept
        for siblings in kept.values():
            reader.end_siblings(siblings)
    finally:
        for side in reader.sides:
            reader.scan_bytes[side] += reader.close_siblings(side, kept.pop(side, []))


class _SideScan:
    """The scan of one side."""

    def __init__(self, reader: Reader, plan: Plan, side: Side, stage: Stage) -> None:
        self.reader, self.plan, self.side, self.stage = reader, plan, side, stage
        self.main = reader.sides[side]
        saved = stage.saved.get(side, ())
        done = [*stage.skip, *(chunk for chunk, _ in saved)]
        self.queue = ChunkQueue.of_plan(plan, side, self.main.settings.connections, done, stage.cut)
        self.queue.rows = sum(int(part.rows.sum()) for _, part in saved)
        self.expected_rows = plan.sides[side].estimate or 0 if is_shard(side) else stage.rows.get(side, plan.sides[side].estimate or 0)
        self.parts: list[Summaries] = [part for _, part in saved]
        has_keys = plan.least is not None and plan.greatest is not None and plan.partitioning.strategy == "range"
        self.counted_key = random.randint(plan.least or 0, plan.greatest or 0) if has_keys else None
        """The key whose chunk is counted, where only one is."""

    def run(self) -> Summaries:
        """Read all chunks and return the side's summaries."""
        began, received = time.monotonic(), self.main.received()
        with prefix_errors(self.side, self.plan.sides[self.side].connection):
            kept, more = self.stage.siblings, 0
            siblings = (kept or {}).pop(self.side, []) or ([] if self.side in self.reader.alone else self._open_siblings())
            try:
                with BackgroundSaver(self.stage.save) as saver:
                    self._read_in_parallel([self.main, *siblings], saver)
                    self._read_chunks(self.main, saver)  # what a sibling gave back after the others had ended
                if kept is None:
                    self.reader.end_siblings(siblings)
            finally:
                if kept is None:
                    more = self.reader.close_siblings(self.side, siblings)
                else:
                    kept[self.side] = siblings
        self.reader.report(self.side, "done", self.queue.rows, self.queue.rows)
        self.reader.scan_bytes[self.side] += self.main.received() - received + more
        self.reader.scan_seconds[self.side] += time.monotonic() - began
        names = render.result_columns(self.plan)
        return arrays.concatenate(self.parts, names) if self.parts else arrays.read([], names)

    def _open_siblings(self) -> list[Connection]:
        """Open further connections if there are several chunks to read; inside the snapshot where the engine can share it."""
        wanted = self.main.settings.connections - 1 if self.queue.chunk_keys and self.queue.pending else 0
        if not wanted:
            return []
        siblings: list[Connection] = []
        try:
            if self.plan.aligned and self.main.session.dialect.SHARES_SNAPSHOT_BY_LOCK:
                return self._alone([], ALIGNED)
            siblings = self.reader.add_siblings(self.side, wanted)
            if self.plan.snapshot == "whole" and not self.main.share_snapshot(siblings, self.plan.sides[self.side].table):
                if self.plan.aligned:
                    return self._alone(siblings, ALIGNED)
                self.reader.unshared.add(self.side)
        except SessionSwitched:
            self.reader.close_siblings(self.side, siblings)
            raise
        except LockTimeout as error:  # then the main connection reads alone, in the snapshot that it has
            return self._alone(siblings, str(error))
        except EngineError as error:  # then it reads alone too, in a snapshot that is certainly open
            self.reader.close_siblings(self.side, siblings)
            siblings = []
            if self.main.may_retry(error):
                self.main.recover(error)
            else:
                self.main.renew_snapshot()
        return siblings

    def _alone(self, siblings: list[Connection], why: str) -> list[Connection]:
        """Let the main connection read all chunks, and note why; return no other."""
        self.reader.alone[self.side] = why
        self.reader.close_siblings(self.side, siblings)
        return []

    def _read_in_parallel(self, connections: list[Connection], saver: BackgroundSaver) -> None:
        """Read chunks by all connections until none is left. Raises the error that is the cause, not a cancellation that followed."""
        if len(connections) == 1:
            self._read_chunks(connections[0], saver)
            return
        with ThreadPoolExecutor(len(connections), thread_name_prefix=self.side) as pool:
            read = telemetry.with_current_context(self._read_chunks)
            tasks = [pool.submit(read, connection, saver) for connection in connections]
        if errors := [error for task in tasks if (error := task.exception())]:
            raise min(errors, key=lambda error: isinstance(error, StatementCancelled))

    def _read_chunks(self, connection: Connection, saver: BackgroundSaver) -> None:
        """Read chunks until none is left, or until a connection that cannot be reopened is lost."""
        try:
            while (chunk := self.queue.take()) is not None:
                if self.reader.stopped.is_set():
                    raise StatementCancelled
                self.reader.report(self.side, self.stage.doing, self.queue.rows, max(self.queue.rows, self.expected_rows))
                if not self._read_chunk(connection, chunk, saver):
                    return
        except AuditorError:
            self.reader.cancel()  # what the other connections read is of no use any more
            raise

    def _read_chunk(self, connection: Connection, chunk: Chunk, saver: BackgroundSaver) -> bool:
        """Read one chunk, or give it back to the queue after a transient error; False if the connection can read no more."""
        began = time.monotonic()
        try:
            part = connection.run_once(partial(self._read_and_count, chunk), fresh=True)
        except StatementTimeout:
            if not self.queue.give_back(chunk, smaller=True):
                raise
            if connection.can_reopen:
                connection.renew_snapshot()
            return connection.can_reopen
        except AuditorError as error:
            self.queue.give_back(chunk)
            if self.reader.stopped.is_set() or not connection.may_retry(error):
                raise
            if connection.can_reopen:
                connection.recover(error)
            else:
                connection.retries += 1  # another connection retries it
            return connection.can_reopen
        seconds = time.monotonic() - began
        self.queue.record_read(chunk, int(part.rows.sum()), seconds)
        if not (self.plan.method == "counts" and any(column.masked for column in self.plan.columns)):  # holds least and greatest values
            saver.save(self.side, chunk, part, seconds, connection.attempts)
        connection.attempts = 0
        self.parts.append(part)
        return True

    def _read_and_count(self, chunk: Chunk, session: Session) -> Summaries:
        part = summarise(self.plan, self.side, chunk, session)
        if self.plan.snapshot == "per_chunk":
            first, end = chunk.bounds
            is_chosen = self.counted_key is not None and not chunk.null_key and first <= self.counted_key < end
            if self.stage.count_chunks or is_chosen:
                hold_count(self.plan, self.side, [[chunk]], int(part.rows.sum()), session)
        return part


def summarise(plan: Plan, side: Side, chunk: Chunk, session: Session) -> Summaries:
    """Return the summaries of a chunk of one side. Raises EngineError."""
    return arrays.read(session.summarise(render.summary(plan, side, session.dialect, chunk)), render.result_columns(plan))


def hold_count(plan: Plan, side: Side, pieces: Sequence[Sequence[Chunk]], rows: int, session: Session) -> bool:
    """Hold the rows that were summarised of a table, or of ranges of its keys, against a count of them: one statement a piece.

    Return False if they cannot be, because the table changes: a second count is another. Raises ReadingContradicted.
    """
    here = plan.sides[side]
    if _is_counted(plan, side, pieces, rows, session):
        return True
    first, second = (_count(plan, side, pieces, session) for _ in range(2))
    if first != second:
        return False
    total, met, unmet, unknown = first
    where = " in the keys that were chosen" if any(pieces) else ""
    if total == met + unmet + unknown and met == rows:
        return False  # it changed once
    filtered = f" ({met:,} meet the filter, {unmet:,} do not, of {unknown:,} it is unknown)" if here.conditions else ""
    raise ReadingContradicted(
        f"{side}: the run read {rows:,} rows{where}, and a bare count finds {total:,}{filtered}, so nothing is claimed about the tables;"
        " look for a setting of the server, or something between, that cuts results, and report a bug if there is none"
    )


def _is_counted(plan: Plan, side: Side, pieces: Sequence[Sequence[Chunk]], rows: int, session: Session) -> bool:
    total, met, unmet, unknown = _count(plan, side, pieces, session)
    return met == rows and total == met + unmet + unknown


def _count(plan: Plan, side: Side, pieces: Sequence[Sequence[Chunk]], session: Session) -> tuple[int, ...]:
    """Return how many rows there are, and how many meet the filter, do not, and leave it unknown."""
    counted = [_count_piece(plan, side, ranges, session) for ranges in pieces]
    return tuple(map(sum, zip(*counted, strict=True)))


def _count_piece(plan: Plan, side: Side, ranges: Sequence[Chunk], session: Session) -> tuple[int, int, int, int]:
    here, dialect = plan.sides[side], session.dialect
    within = " OR ".join(f"({_within(plan, side, key_range)})" for key_range in ranges) or "1 = 1"
    if not here.conditions:
        total = int(session.query_row(render.count(dialect, relation(here, dialect), within))[0])
        return total, total, 0, 0
    condition = " AND ".join(f"({text})" for text in here.conditions)
    holes = {"table": relation(here, dialect), "within": within, "condition": f"({condition})"}
    total, met, unmet, unknown = session.query_row(checked(sql_templates.fill(dialect.template("bare_count"), holes), dialect))
    return int(total), int(met), int(unmet), int(unknown)


def _within(plan: Plan, side: Side, chunk: Chunk) -> str:
    key = plan.columns[0].expression[side]
    if chunk.null_key:
        return f"{key} IS NULL"
    bounds = [f"{key} {sign} {bound}" for sign, bound in ((">=", chunk.first), ("<", chunk.end)) if bound is not None]
    return " AND ".join([*bounds, *([f"({chunk.within})"] if chunk.within else [])]) or "1 = 1"


class BackgroundSaver:
    """Saves chunks in a thread of its own, one at a time, so that a server does not wait for the store's disk between two statements.

    A chunk is handed over once the one before is saved: so a process that is killed has lost at most one chunk per scan that it had read.
    An error is raised where the next chunk is handed over, or at the end of the block, which waits for what is not saved yet.
    """

    def __init__(self, save: SaveChunk) -> None:
        self._save = telemetry.with_current_context(save)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="save")
        self._lock = threading.Lock()
        self._last: Future[None] | None = None

    def __enter__(self) -> BackgroundSaver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown()
        if self._last and not kind:
            self._last.result()

    def save(self, side: Side, chunk: Chunk, part: Summaries, seconds: float, attempts: int) -> None:
        """Save a chunk in the background. Raises the error of the chunk before."""
        with self._lock:
            if self._last:
                self._last.result()
            self._last = self._pool.submit(self._save, side, chunk, part, seconds, attempts)


SMALL = 4
"""A chunk of at most 1/SMALL of the keys should be read through an index; for a larger one a full scan can be cheaper."""


def check_chunks(reader: Reader, plan: Plan, sides: Sequence[Side] = ()) -> Plan:
    """Return the plan with notes on how its chunks are read, those of ``sides`` or of all.

    Raises ScanRefused if no index serves those of a large table.
    """
    notes = [reader.ask_side(side, lambda shard, session: _check_side(reader, plan, shard, session)) for side in sides]
    if not sides:
        notes = list(reader.ask_each(lambda side, session: _check_side(reader, plan, side, session)).values())
    return replace(plan, notes=(*plan.notes, *(note for note in notes if note)))


def _check_side(reader: Reader, plan: Plan, side: Side, session: Session) -> str | None:
    first = ChunkQueue.of_plan(plan, side).take() if plan.sides[side].chunk_keys else None
    statement = render.summary(plan, side, session.dialect, first) if first else ""
    return check_scan(plan, side, session, reader.sides[side].settings, statement)


def check_scan(plan: Plan, side: Side, session: Session, settings: ConnectionSettings, statement: str = "") -> str | None:
    """Return a note on how a side's key ranges are read; None if it is not read in key ranges, is a query, or its engine has no indexes.

    ``statement`` summarises one chunk, of at most the plan's ``chunk_keys`` keys; the server's plan for it counts more than the list
    of indexes. Raises ScanRefused if each key range would read the whole of a table of more than ``scan_rows`` rows.
    """
    here, key = plan.sides[side], plan.columns[0]
    if here.query:
        return None
    if plan.partitioning.strategy != "range" and not here.chunk_keys and len(here.chunks) == 1:
        return None
    leading = session.dialect.server.leading_index_columns(session, here.table)
    if leading is None:
        return None
    indexed = key.expression[side] in {session.dialect.names.quote(column) for column in leading}
    small = bool(here.chunk_keys) and here.chunk_keys * SMALL <= plan.span
    expected = session.dialect.server.estimate_scan(session, statement) if statement and small else None
    rows = here.estimate or 0
    if not (expected.full_scan if expected else not indexed):
        reads = f"; one of them reads about {expected.rows:,} of {rows:,} rows" if expected else ""
        return f"{side}: an index serves the key ranges of {here.table} by {key.name}{reads}"
    missing = f"no index of {here.table} begins with its key {key.name}"
    why = missing if not indexed else f"the server would not use the index of {here.table} that begins with its key {key.name}"
    limit = settings.limits.scan_rows
    if rows <= limit or settings.limits.force:
        return f"{side}: {why}, so each key range reads the whole table, about {rows:,} rows"
    hint = "analyse the table" if indexed else "add one"
    raise ScanRefused(
        f"{why}, so each key range would read the whole table, about {rows:,} rows, and scan_rows is {limit:,}; {hint},"
        f" or write force: true under the limits of connection {here.connection}"
    )
