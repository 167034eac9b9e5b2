"""How a run that is to be aligned asks a running pipeline: for a place in the source's log, and for the target's table to stand there.

It shares nothing with the pipeline's processes but the store, the staging's folder and the source.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow.compute as pc

from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import StagingFailed, StoreError
from auditor.escaping import shell_word
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.events import Place
from auditor.pipeline.folders import folder_at
from auditor.pipeline.staged_parts import read_part
from auditor.pipeline.topic_side.fixed_topic import read_said
from auditor.run.alignment import NotAligned
from auditor.run.topics import TopicReader
from auditor.store import Store, holds, leases, parts, pipelines, table_notes
from auditor.store.holds import Hold, HoldKey, HoldState

T = TypeVar("T")


@dataclass(slots=True)
class StreamHold:
    """The hold of one table of one target of a pipeline."""

    settings: Settings
    store: Store
    pipeline: str
    target: str
    table: str
    """The table as the stream calls it, ``database.table``."""
    place: tuple[str, str]
    """The schema and the name that it has in the target."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set to end its waits."""
    _holder: str = field(default_factory=lambda: secrets.token_hex(16))
    _connection: Any = None

    def freeze(self) -> None:
        """Let the target's table stand still. Raises NotAligned and StoreError."""
        self._check_running()
        busy = f"another run holds {self.table} in the target {self.target}; run the audit again later"
        self._await(lambda: holds.take_hold(self.store, self.key, durations().hold_limit) or None, durations().hold_answer, busy)
        silent = (
            f"the loader of the target {self.target} did not answer within {durations().hold_answer:g} s; see whether the pipeline runs"
            f" with: auditor pipeline status {self.pipeline}"
        )
        self._await(lambda: self.has("frozen"), durations().hold_answer, silent)

    def _check_running(self) -> None:
        """Raise NotAligned unless the pipeline brings the table to the target now."""
        if pipelines.get_pipeline(self.store, self.pipeline).paused:
            raise NotAligned(
                f"the pipeline {self.pipeline} is paused; let it continue with: auditor pipeline unpause {shell_word(self.pipeline)}"
            )
        if self.table not in parts.list_tables(self.store, self.pipeline):
            raise NotAligned(f"the pipeline {self.pipeline} has staged nothing of {self.table} yet")
        if not leases.is_held(self.store, "target", f"{self.pipeline}/{self.target}"):
            raise NotAligned(f"no process loads the target {self.target}; start one with: auditor pipeline run {shell_word(self.pipeline)}")

    def read_server(self) -> str:
        """Return what identifies the server whose log the pipeline reads. Raises ChangeStreamError and EngineError."""
        return identify_server(self._source())

    def log_end(self) -> str:
        """Return where the source's log ends now. Raises ChangeStreamError and EngineError."""
        return str(log_status(self._source()).end)

    def ids_between(self, after: str, until: str) -> Sequence[str] | None:
        """Return the global ids of the transactions after a place, up to another, that have rows of the table.

        None if one has no id, a statement changed the table there, or this host does not reach the staging's folder. Raises NotAligned if
        the stream does not get so far, and StoreError.
        """
        epoch = self._reach(Place.parse(until))
        first, last = (Place.parse(place).position(epoch).pack() for place in (after, until))
        if any(note.position <= last for note in table_notes.list_notes(self.store, self.pipeline, [self.table], after=first)):
            return None
        root, ids = folder_at(self.settings.pipeline(self.pipeline).staging.path), set[str | None]()
        try:
            for part in parts.list_parts(self.store, self.pipeline, self.table, first):
                for batch in read_part(root, part, first) if part.first <= last else ():
                    ids.update(batch.filter(pc.less_equal(batch["position"], last))["gtid"].to_pylist())
        except StagingFailed:
            return None
        return None if None in ids else sorted(gtid for gtid in ids if gtid)

    def merge_through(self, place: str) -> int:
        """Bring the target's table exactly to a place of the source's log; return the position that the target then states.

        Raises NotAligned if it does not get there in time, or cannot, and StoreError.
        """
        epoch = self._reach(Place.parse(place))
        position = Place.parse(place).position(epoch).pack()
        if not holds.set_state(self.store, self.key, "wanted", position=position):
            raise NotAligned(f"the hold of the target's table ended after {durations().hold_limit:g} s")
        late = f"the loader of the target {self.target} did not merge {self.table} up to {place} within {durations().hold_reach:g} s"
        self._await(lambda: self.has("held"), durations().hold_reach, late)
        return position

    def release(self) -> None:
        """Let the target's table continue."""
        with suppress(StoreError):  # then the hold ends when its time is up
            holds.end_hold(self.store, self.key)
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    @property
    def key(self) -> HoldKey:
        """What names this hold in the store."""
        return HoldKey(self.pipeline, self.target, self.table, self._holder)

    def _source(self) -> Any:
        self._connection = self._connection or source_of(self.settings, self.pipeline).connect()
        return self._connection

    def has(self, state: HoldState) -> Hold | None:
        """Return the hold if it has this state, None if not yet. Raises NotAligned if it failed or ended."""
        hold = holds.get_hold(self.store, self.key)
        if hold is None:
            raise NotAligned(f"the hold of the target's table ended after {durations().hold_limit:g} s")
        if hold.state == "failed":
            raise NotAligned(f"the target cannot stand there: {hold.reason}")
        return hold if hold.state == state else None

    def _reach(self, place: Place) -> int:
        """Wait until everything up to a place was staged; return the stream's epoch. Raises NotAligned."""

        def epoch() -> int | None:
            offset = pipelines.get_pipeline(self.store, self.pipeline).source_offset
            is_there = offset and Place(offset["file"], int(offset["position"])).order >= place.order
            return int(offset["epoch"]) if is_there else None

        return self._await(
            epoch, durations().hold_reach, f"the pipeline {self.pipeline} did not reach {place} within {durations().hold_reach:g} s"
        )

    def _await(self, check: Callable[[], T | None], seconds: float, late: str) -> T:
        """Check until something is there, and return it. Raises NotAligned with the sentence ``late`` after so many seconds."""
        until = time.monotonic() + seconds
        while (answer := check()) is None:
            if time.monotonic() > until:
                raise NotAligned(late)
            if self.stopped.wait(durations().hold_poll):
                raise NotAligned("the run was stopped")
        return answer


@dataclass(slots=True, kw_only=True)
class TopicHold(StreamHold):
    """The same of a topic, which nobody has to hold: its messages say their positions, so that it is read up to one of them."""

    topics: TopicReader

    def freeze(self) -> None:
        """Check that the pipeline publishes. Raises NotAligned and StoreError."""
        self._check_running()

    def merge_through(self, place: str) -> int:
        """Read the topic up to a place of the source's log, once it is published so far; return its position.

        Raises NotAligned if that takes too long, StoreError, and what reading a topic raises.
        """
        epoch = self._reach(Place.parse(place))
        position = Place.parse(place).position(epoch).pack()
        chosen = self.settings.pipeline(self.pipeline).topic_targets[self.target]
        broker, positions = self.settings.brokers[chosen.broker], chosen.own_topic("positions", self.pipeline, self.target)
        assert positions

        def is_published() -> bool | None:
            return read_said(broker, positions).through(self.table) >= position or None

        late = f"the target {self.target} did not publish {self.table} up to {place} within {durations().hold_reach:g} s"
        self._await(is_published, durations().hold_reach, late)
        self.topics.read_through(position, self.pipeline, self.table, self.stopped)
        return position
