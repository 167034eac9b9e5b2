"""What a run with live summaries asks of its pipeline: the epoch, its sums as of where the target is, and to merge past the log's end.

It shares nothing with the pipeline's processes but the store, the target and the source.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field

from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import AuditorError, LiveSummariesUnusable
from auditor.escaping import shell_word
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.model import Alignment, LiveEpoch, Plan
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.events import Place, Position
from auditor.run.alignment import NotAligned
from auditor.run.live import plans, statements
from auditor.run.live import running_sums as sums_of
from auditor.run.live.running_sums import Link
from auditor.run.live.summaries import read_links, sum_up
from auditor.run.target_position import name_positions, read_position
from auditor.store import Store, live_epochs, parts, pipelines
from auditor.store.live_epochs import EpochSubject
from auditor.summary import codec
from auditor.summary.arrays import Summaries
from dialects import Session
from dialects.committing import Committing

UNKNOWN = "it was forgotten"


def list_links(store: Store, epoch: str) -> list[Link]:
    """Return the links of an epoch that the store keeps. Raises LiveSummariesWrong for one that is not what was written, and StoreError."""
    rows = ((one.place, 0, one.previous, one.layout, one.shape, one.digest, one.body) for one in live_epochs.list_links(store, epoch))
    return statements.read_links(epoch, rows)


@dataclass(slots=True)
class StreamSums:
    """The sums that a pipeline keeps for one audit."""

    settings: Settings
    store: Store
    subject: EpochSubject
    place_in_target: tuple[str, str]
    """The schema and the name that the table has in the target."""
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    ledger: bool = False
    """Whether merges keep a ledger."""
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.subject.pipeline

    def current(self) -> LiveEpoch | None:
        """Return the epoch of the audit that has not ended; one of another table or target is not it."""
        epoch = live_epochs.current_epoch(self.store, self.subject.audit)
        if epoch is None:
            return None
        return epoch if EpochSubject(epoch.audit, epoch.pipeline, epoch.target, epoch.table) == self.subject else None

    def last_reason(self) -> str:
        """Return why the audit's last epoch ended; '' if it never had one."""
        epochs = live_epochs.list_epochs(self.store, audit=self.subject.audit)
        return (epochs[0].reason or UNKNOWN) if epochs else ""

    def plan_of(self, epoch: LiveEpoch) -> Plan | None:
        """Return the plan under which an epoch began."""
        return load_plan(json.dumps(epoch.plan).encode())

    def begin(self, plan: Plan) -> LiveEpoch:
        """Begin an epoch under a plan."""
        plan_facts = {"fingerprint": plans.fingerprint(plan), "layout": plans.layout(plan), "where": self.where}
        return live_epochs.begin_epoch(self.store, self.subject, plan=json.loads(dump_plan(plan)), ledger=self.ledger, **plan_facts)

    def place(self, epoch: LiveEpoch, position: int, alignment: Alignment) -> None:
        """Say where the scan of an epoch is."""
        if not live_epochs.place_epoch(self.store, epoch.id, position=position, log_place=alignment.position, at=alignment.time):
            raise NotAligned(f"the live summaries ended before the source was read: {self.last_reason()}")

    def keep(self, epoch: LiveEpoch, scanned: Summaries) -> bool:
        """Store what the scan of an epoch found."""
        return live_epochs.keep_epoch(self.store, epoch.id, codec.pack_summaries(scanned))

    def prove(self, epoch: LiveEpoch, position: int, alignment: Alignment, missing: Summaries | None) -> bool:
        """Say that an epoch's sums equal a scan, once ``missing`` is added to what it began with."""
        base = None
        if missing is not None:
            begun = codec.unpack_summaries(live_epochs.get_base(self.store, epoch.id))[1]
            base = codec.pack_summaries(sums_of.add([begun, missing]))
        return live_epochs.prove_epoch(self.store, epoch.id, position=position, log_place=alignment.position, at=alignment.time, base=base)

    def note_check(self, epoch: LiveEpoch, position: int, apart: Summaries, missing: Summaries | None, *, scanned: bool) -> None:
        """Store what a run found as of a position, for the ledger; nothing for an epoch without one."""
        if epoch.ledger:
            signatures = [None if sums is None else sums_of.changed(sums_of.unite(sums, sums.partition)) for sums in (apart, missing)]
            packed_apart, packed_missing = (b"" if sums is None else sums_of.pack(sums).encode() for sums in signatures)
            check = live_epochs.Check(position, self.time_of(position), scanned, packed_apart, packed_missing)
            live_epochs.add_check(self.store, epoch.id, check)

    def end_ledger(self, epoch: LiveEpoch, reason: str) -> None:
        """End the ledger of an epoch."""
        live_epochs.end_ledger(self.store, epoch.id, reason)

    def end(self, epoch: LiveEpoch, reason: str) -> None:
        """End an epoch."""
        live_epochs.end_epoch(self.store, epoch.id, reason)

    def open(self, session: Session, epoch: LiveEpoch) -> int:
        """Open a snapshot of the target whose first statement reads where it is. Raises LiveSummariesUnusable."""
        session.begin()
        try:
            position = read_position(session, self.place_in_target, epoch.pipeline, epoch.table)
        except AuditorError as error:
            raise LiveSummariesUnusable(
                f"the target does not say what it holds ({error}); {name_positions(session, self.place_in_target[0])}"
            ) from error
        if not position:
            raise LiveSummariesUnusable(
                f"the target holds nothing of {epoch.table}; copy its rows, and let the pipeline merge what follows"
            )
        return position

    def read(self, session: Session, epoch: LiveEpoch, position: int) -> Summaries:
        """Return the source's summaries as of the position of the target's snapshot."""
        if isinstance(session, Committing):
            links = sums_of.path(list_links(self.store, epoch.id), epoch.position, position)
        else:
            links = read_links(session, self.place_in_target[0], epoch, position)
        return sum_up(epoch, live_epochs.get_base(self.store, epoch.id), links, position)

    def place_of(self, position: int) -> str:
        """Return a position as a place of the source's log."""
        log_position = Position.unpack(position)
        offset = pipelines.get_pipeline(self.store, self.pipeline).source_offset
        name = str(offset["file"]).rpartition(".")[0] if offset else "binlog"
        return f"{name}.{log_position.file:06d}:{log_position.offset}"

    def time_of(self, position: int) -> dt.datetime | None:
        """Return when the source committed the last event of the table up to a position."""
        report = pipelines.get_merge(self.store, self.pipeline, self.subject.target, self.subject.table)
        if report and report.position <= position:
            return report.through_time
        ended = [part for part in parts.list_parts(self.store, self.pipeline, self.subject.table, 0) if part.last <= position]
        return ended[-1].time if ended else None

    def pass_end(self) -> str:
        """Wait until the target holds what the source's log has now; return why it does not."""
        try:
            with closing(source_of(self.settings, self.pipeline).connect()) as source:
                end = log_status(source).end
        except AuditorError as error:
            return f"the end of the source's log is not known ({error})"
        until = time.monotonic() + durations().hold_reach
        while not self._has_passed(end):
            if pipelines.get_pipeline(self.store, self.pipeline).paused:
                return f"the pipeline {self.pipeline} is paused; let it continue with: auditor pipeline unpause {shell_word(self.pipeline)}"
            if time.monotonic() > until:
                return f"the pipeline {self.pipeline} did not merge {self.subject.table} up to {end} within {durations().hold_reach:g} s"
            if self.stopped.wait(durations().hold_poll):
                return "the run was stopped"
        return ""

    def _has_passed(self, end: Place) -> bool:
        """Whether everything up to a place was staged, and all that was staged of the table is merged."""
        offset = pipelines.get_pipeline(self.store, self.pipeline).source_offset
        if not offset or Place(offset["file"], int(offset["position"])).order < end.order:
            return False
        staged = parts.get_table(self.store, self.pipeline, self.subject.table)
        report = pipelines.get_merge(self.store, self.pipeline, self.subject.target, self.subject.table)
        return (report.position if report else 0) >= staged.staged_through
