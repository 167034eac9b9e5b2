"""Read both sides at one position of the source's change stream, so that nothing is in flight between them.

The order is what makes it right: the target's table stands still first, because the pipeline may otherwise have passed the position; then
the source's snapshot is opened at a known place of its log; the pipeline brings the target's table exactly there; and the target's snapshot
has to say so itself. The shards of a source have a log and a pipeline each: all of that is done for every one of them, and the target's
one snapshot has to show all of their positions.

**The place of the source's snapshot.** MariaDB says it in the snapshot itself. MySQL does not: a transaction is in the log before a
snapshot sees it, and seen before it is counted as executed. But what is executed is seen, and what is seen is in the log. So, with the
executed transactions E read before the snapshot and the end of the log P read after it: if no transaction of the log up to P that is not in
E has a row of the table, then the snapshot shows the table exactly as of P, whatever other tables do. Which transactions have such rows the
pipeline knows. Transactions before the first place that was read here are executed once those are that were owned then.

Where the table is written too often for that, writers are kept off it for a moment, by a lock that never lets them wait for others.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Protocol

import dialects
from auditor.config import Audit
from auditor.connections.connection import Connection
from auditor.connections.reader import Reader, on_both_sides
from auditor.errors import AccessDenied, AuditorError, LockTimeout, StatementCancelled
from auditor.model import Alignment, Plan, Side, is_shard
from auditor.planning import watermark
from auditor.run.target_position import name_positions, read_position
from dialects import Session
from dialects.log_places import PlacedSession

log = logging.getLogger(__name__)

ATTEMPTS, SECONDS = 20, 2.0
"""How often a snapshot is tried whose place the transactions' ids prove, and for how long at most."""

LOCKS = 3
"""How often the lock is tried."""

BY_SERVER = "the server says in its snapshot where that stands"
BY_IDS = "no transaction on the table was between the snapshot and the end of the log"
BY_LOCK = "writers were kept off the table for a moment while the snapshot was opened"


class NotAligned(Exception):
    """Why a run is not aligned, as a clause. No command fails with it: the run continues without."""


class LogReader(Protocol):
    """What a pipeline knows of the source's log."""

    def read_server(self) -> str:
        """Return what identifies the server whose log it reads, as `PlacedSession.identify` does."""

    def log_end(self) -> str:
        """Return where the log ends now: ``FILE:POS``."""

    def ids_between(self, after: str, until: str) -> Sequence[str] | None:
        """Return the global ids of the transactions after a place, up to another, that have rows of the table.

        Waits until the stream has reached the second place. None if ids cannot show it. Raises NotAligned.
        """


class TableHold(LogReader, Protocol):
    """How an audit lets a pipeline bring one table of a target to a position, and no further, for a moment."""

    pipeline: str
    """The pipeline's name."""
    table: str
    """The table as the pipeline's stream calls it, ``database.table``."""
    place: tuple[str, str]
    """The schema and the name that it has in the target."""

    stopped: threading.Event
    """Set to end its waits; they raise NotAligned then."""

    def freeze(self) -> None:
        """Let the target's table stand still. Raises NotAligned."""

    def merge_through(self, place: str) -> int:
        """Bring the target's table exactly to a place of the source's log; return it as the target says it. Raises NotAligned."""

    def release(self) -> None:
        """Let the target's table continue; no error if it does so already."""


OnHeld = Callable[[int, Alignment], None]
"""Receives the position of the stream at which both snapshots are open, and where that is in the source's log."""

NOT_STORED = "this run is not stored, so it cannot ask the pipeline"
"""Why a run is not aligned to which nobody gave a hold."""

Holds = Mapping[Side, TableHold]
"""How the pipeline of the source's table, or those of all its shards, are asked."""


class Aligner:
    """Whether a run is aligned, from its audit's settings until its end. Once it was given up, the run continues as any other."""

    def __init__(self, audit: Audit, holds: Holds | str) -> None:
        """``holds`` is how the pipelines are asked, or why they cannot be."""
        self.alignment: Alignment | None = None
        self.of_sides: Mapping[Side, Alignment] = {}
        """The same of the source's table, or of each of its shards."""
        self.why_not = holds if audit.align and isinstance(holds, str) else ""
        self._given = audit
        self._holds = holds if audit.align and not isinstance(holds, str) else None
        self._broken = 0
        """Snapshots that had been lost before the run was aligned."""

    @property
    def is_wanted(self) -> bool:
        """Whether the run is to be aligned, and nothing stood against it so far."""
        return self._holds is not None and not self.why_not

    @property
    def audit(self) -> Audit:
        """The audit as the run carries it out: what is for rows in flight is left out while it is aligned."""
        if not self.is_wanted:
            return self._given
        return self._given.model_copy(update={"settle": None, "recheck": None, "snapshot": "whole"})

    def prepare(self, reader: Reader) -> None:
        """Let the table stand still before the run connects, where the target is a file that its loader has open most of the time."""
        settings = reader.sides["target"].settings
        if self._holds is None or self.why_not or not dialects.by_scheme(dialects.parse_url(settings.url).scheme).OPENS_FILES:
            return
        try:
            _freeze(reader, self._holds)
        except (NotAligned, AuditorError) as error:
            _release(self._holds)
            self._give_up(str(error))

    def begin(self, reader: Reader, plan: Plan, names: Mapping[Side, Sequence[str]], on_held: OnHeld | None = None) -> bool:
        """Open all snapshots, each of the source's at a known place and the target's at all of them; False if that cannot be.

        ``names`` are the source's tables, the name of each in parts; ``on_held`` is called while the target is held at the place of a
        source that has no shards. None of the snapshots is open if it cannot be. Raises
        StatementCancelled if the run was stopped.
        """
        assert self._holds is not None
        self._broken, self.alignment, self.of_sides = reader.snapshots_broken, None, {}
        try:
            self.of_sides = _align(reader, plan, names, self._holds, on_held)
            self.alignment = _join(plan, self.of_sides)
            if reader.snapshots_broken == self._broken:
                return True
            self._give_up("a snapshot was lost before the other was open")
        except (NotAligned, AuditorError) as error:
            if reader.stopped.is_set():
                raise StatementCancelled from error
            self._give_up(str(error))
        reader.end_snapshots()
        return False

    def let_go(self) -> None:
        """Let the target's table continue, which `prepare` may have let stand still: the run has opened what it reads."""
        if self._holds is not None:
            _release(self._holds)

    def was_lost(self, reader: Reader) -> bool:
        """Return whether a snapshot of the aligned run did not last to its end; then what was read in both is no longer of one position."""
        if self.alignment is None or (reader.snapshots_broken == self._broken and not reader.unshared):
            return False
        self._give_up("a snapshot was lost while the table was read, so the table was read again")
        return True

    def _give_up(self, why: str) -> None:
        self.alignment, self.of_sides, self.why_not = None, {}, why
        log.info("the run is not aligned: %s", why, extra={"action": "not_aligned"})


def _align(reader: Reader, plan: Plan, names: Mapping[Side, Sequence[str]], holds: Holds, on_held: OnHeld | None) -> dict[Side, Alignment]:
    target = reader.sides["target"]
    reader.report_both("waiting for the pipeline to hold the target still")
    try:
        frozen = _freeze(reader, holds)
        reader.report_both("reading both sides at one position")
        with target.released() if target.session.dialect.OPENS_FILES else nullcontext():
            opened = on_both_sides(lambda side: _open_source(reader, plan, side, names[side], holds[side]), sides=tuple(holds))
            # One after the other: after the first has waited for the stream, the others have come as far, and may share a file.
            places = {side: (hold.merge_through(opened[side][0]), opened[side][0]) for side, hold in holds.items()}
        target.begin_snapshot_by(lambda session: _begin_at(session, plan, holds, places))
        alignments = {
            side: Alignment(position=place, time=at, way=way, pipeline=holds[side].pipeline, held_seconds=0.0)
            for side, (place, at, way) in opened.items()
        }
        if on_held:
            on_held(places["source"][0], alignments["source"])
    finally:
        _release(holds)
    ended = time.monotonic()
    return {side: replace(alignment, held_seconds=ended - frozen[side]) for side, alignment in alignments.items()}


def _freeze(reader: Reader, holds: Holds) -> dict[Side, float]:
    """Let the target's table stand still for every pipeline; return since when (monotonic seconds). Raises NotAligned."""
    frozen: dict[Side, float] = {}
    for side, hold in sorted(holds.items(), key=lambda item: item[1].pipeline):  # in one order, so that two runs do not wait for each other
        hold.stopped = reader.stopped
        hold.freeze()
        frozen[side] = time.monotonic()
    return frozen


def _release(holds: Holds) -> None:
    for hold in holds.values():
        hold.release()


def _open_source(reader: Reader, plan: Plan, side: Side, names: Sequence[str], hold: TableHold) -> tuple[str, dt.datetime, str]:
    with _naming(plan, side):
        return open_source(reader.sides[side], plan.sides[side].table, names, hold)


def _begin_at(session: Session, plan: Plan, holds: Holds, places: Mapping[Side, tuple[int, str]]) -> None:
    """Open a snapshot whose first statements read what the target says that it holds. Raises NotAligned if that is another position."""
    session.begin()
    for side, hold in holds.items():
        with _naming(plan, side):
            _check_position(session, hold, *places[side])


def _check_position(session: Session, hold: TableHold, position: int, place: str) -> None:
    try:
        stands_at = read_position(session, hold.place, hold.pipeline, hold.table)
    except AuditorError as error:
        raise NotAligned(f"the target does not say what it holds ({error}); {name_positions(session, hold.place[0])}") from error
    if stands_at != position:
        raise NotAligned(f"the target's snapshot is not at {place}")


@contextmanager
def _naming(plan: Plan, side: Side) -> Iterator[None]:
    """Put the shard in front of the reason why the block cannot align it."""
    try:
        yield
    except NotAligned as why:
        raise NotAligned(f"{plan.sides[side].label}: {why}" if is_shard(side) else str(why)) from why


def _join(plan: Plan, alignments: Mapping[Side, Alignment]) -> Alignment:
    """Return where the source as a whole was read: of shards all places, and the earliest of their times."""
    if "source" in alignments:
        return alignments["source"]
    every = alignments.values()
    return Alignment(
        position=" and ".join(f"{alignment.position} of {plan.sides[side].label}" for side, alignment in alignments.items()),
        time=min(alignment.time for alignment in every),
        way="; ".join(dict.fromkeys(alignment.way for alignment in every)),
        pipeline=" and ".join(alignment.pipeline for alignment in every),
        held_seconds=max(alignment.held_seconds for alignment in every),
    )


def open_source(source: Connection, table: str, names: Sequence[str], log: LogReader) -> tuple[str, dt.datetime, str]:
    """Open a snapshot of a table (its name as SQL text, and in parts); return its place, the source's clock before it, and the way.

    Raises NotAligned, and errors of the tree; the snapshot may be open then.
    """
    source.run(lambda session: _check(_placed(session), names, log))
    at = source.run(watermark.read_clock)
    if place := source.begin_snapshot_by(lambda session: _placed(session).begin_placed()):
        return place, at, BY_SERVER
    source.end_snapshot()
    return _open_by_ids(source, log) or _open_by_lock(source, table, log)


def _check(session: PlacedSession, names: Sequence[str], log: LogReader) -> None:
    if session.identify() != log.read_server():
        raise NotAligned("the audit's connection leads to another server than the one whose log the pipeline reads")
    if engine := session.storage_engine(names):
        raise NotAligned(f"the storage engine of the source's table is {engine}, which has no snapshots; only InnoDB's are known")


def _open_by_ids(source: Connection, log: LogReader) -> tuple[str, dt.datetime, str] | None:
    """Try snapshots until ids prove where one stands; None, and no snapshot is open, if they do not."""
    first = log.log_end()
    owned = source.run(lambda session: _placed(session).owned_ids())
    until = time.monotonic() + SECONDS
    for _ in range(ATTEMPTS):
        at = source.run(watermark.read_clock)
        executed = source.run(lambda session: _placed(session).executed_ids())
        if not executed:
            return None
        source.begin_snapshot()
        place = log.log_end()
        if _are_executed(source, owned, executed):
            ids = log.ids_between(first, place)
            if ids is None:
                break
            if _are_executed(source, ",".join(ids), executed):
                return place, at, BY_IDS
        source.end_snapshot()
        if time.monotonic() > until:
            break
    source.end_snapshot()
    return None


def _are_executed(source: Connection, ids: str, executed: str) -> bool:
    return source.run(lambda session: _placed(session).are_executed(ids, executed))


def _open_by_lock(source: Connection, table: str, log: LogReader) -> tuple[str, dt.datetime, str]:
    """Open a snapshot while writers are kept off the table. Raises NotAligned."""
    why = ""
    for _ in range(LOCKS):
        at = source.run(watermark.read_clock)
        try:
            return _lock_once(source, table, log), at, BY_LOCK
        except LockTimeout as error:
            why = str(error)
        except AccessDenied as error:
            raise NotAligned(
                "the table is written too often for a snapshot at a known place of the log, and the audit's user may not keep writers off"
                f" it for a moment ({error}); grant LOCK TABLES and SELECT on it"
            ) from error
    raise NotAligned(f"the table is written too often for a snapshot at a known place of the log: {why}")


def _lock_once(source: Connection, table: str, log: LogReader) -> str:
    [helper] = source.open_siblings(1)
    try:
        return source.begin_snapshot_by(lambda session: _placed(session).begin_locked(table, helper.session, log.log_end))
    finally:
        helper.close()


def _placed(session: Session) -> PlacedSession:
    if not isinstance(session, PlacedSession):
        raise NotAligned(f"{session.dialect.name} does not say at which place of a log a snapshot stands")
    return session
