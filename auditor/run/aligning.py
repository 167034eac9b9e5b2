"""Read both sides at one position of the source's change stream, so that nothing is in flight between them.

The order is what makes it right: the target's table stands still first, because the pipeline may otherwise have passed the position; then
the source's snapshot is opened at a known place of its log; the pipeline brings the target's table exactly there; and the target's snapshot
has to say so itself. The shards of a source have a log and a pipeline each: all of that is done for every one of them, and the target's
one snapshot has to show all of their positions.
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
from auditor.connections.reader import Reader, on_both_sides
from auditor.errors import AuditorError, StatementCancelled
from auditor.model import Alignment, Plan, Side, is_shard
from auditor.run.placed_snapshot import LogReader, NotAligned, open_source
from auditor.sql.merge import POSITIONS, Positions
from dialects import Session

log = logging.getLogger(__name__)


class TableHold(LogReader, Protocol):
    """How an audit lets a pipeline bring one table of a target to a position, and no further, for a moment."""

    pipeline: str
    """The pipeline's name."""
    schema: str
    """The schema of the target in which the pipeline says what it holds."""
    table: str
    """The name of the table there."""

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


class Aligning:
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
    positions = Positions(session.dialect, hold.schema, hold.pipeline)
    try:
        rows = session.query(positions.list())
    except AuditorError as error:
        raise NotAligned(
            f"the target does not say what it holds ({error}); let the audit's user read {hold.schema}.{POSITIONS} there"
        ) from error
    if not any(str(table) == hold.table and int(row_position) == position for table, row_position, _ in rows):
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
