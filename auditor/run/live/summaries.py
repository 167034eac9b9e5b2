"""Whether a run compares with live summaries: the sums that the audit's pipeline keeps of the source, as of each position of its stream.

Such a run reads only the target. It scans the source, with both sides at one position, where there are no sums yet, or no longer, and
where the last such scan is older than the audit allows: then the sums begin, or are compared with the scan and set right.

The sums are read from the target of the pipeline that keeps them, without the source.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from auditor.config import Audit
from auditor.errors import AuditorError, LiveSummariesUnusable, LiveSummariesWrong, NoSuchObject
from auditor.model import Alignment, LiveCheck, LiveEpoch, Partitioning, Plan
from auditor.run.live import plans, statements
from auditor.run.live.running_sums import Link, apply
from auditor.run.locate import Lost
from auditor.summary import codec
from auditor.summary.arrays import Summaries
from dialects import Session

log = logging.getLogger(__name__)

UNFINISHED = "the run that scanned the source for them failed"
"""Why an epoch ended with whose scan nothing began."""


class LiveSums(Protocol):
    """The sums that a pipeline keeps for one audit."""

    stopped: threading.Event
    """Set to end its waits."""

    def current(self) -> LiveEpoch | None:
        """Return the epoch of the audit that has not ended, whatever its state. Raises StoreError."""

    def last_reason(self) -> str:
        """Return why the audit's last epoch ended, as a clause; '' if it never had one. Raises StoreError."""

    def plan_of(self, epoch: LiveEpoch) -> Plan | None:
        """Return the plan under which an epoch began; None if it is one of another version of the auditor."""

    def begin(self, plan: Plan) -> LiveEpoch:
        """Begin an epoch under a plan. Raises StoreError."""

    def place(self, epoch: LiveEpoch, position: int, alignment: Alignment) -> None:
        """Say where the scan of an epoch stands, while the target is held there. Raises NotAligned and StoreError."""

    def keep(self, epoch: LiveEpoch, scanned: Summaries) -> bool:
        """Store what the scan of an epoch found; False if it has ended meanwhile. Raises StoreError."""

    def prove(self, epoch: LiveEpoch, position: int, alignment: Alignment, missing: Summaries | None) -> bool:
        """Say that an epoch's sums equal a scan, once ``missing`` is added; False if it has ended meanwhile. Raises StoreError."""

    def end(self, epoch: LiveEpoch, reason: str) -> None:
        """End an epoch. Raises StoreError."""

    def end_ledger(self, epoch: LiveEpoch, reason: str) -> None:
        """End the ledger of an epoch, which lasts itself. Raises StoreError."""

    def note_check(self, epoch: LiveEpoch, position: int, apart: Summaries, missing: Summaries | None, *, scanned: bool) -> None:
        """Store, for the ledger of an epoch that has one, what a run found of the whole target as of a position. Raises StoreError.

        ``apart`` is target minus source, and ``missing`` what a scan of the source had and the sums lacked.
        """

    def open(self, session: Session, epoch: LiveEpoch) -> int:
        """Open a snapshot of the target whose first statement reads where it stands; return that position. Raises NotAligned."""

    def read(self, session: Session, epoch: LiveEpoch, position: int) -> Summaries:
        """Return the source's summaries as of the position of the target's snapshot. Raises LiveSummariesWrong."""

    def place_of(self, position: int) -> str:
        """Return a position as a place of the source's log, ``FILE:POS``. Raises StoreError."""

    def time_of(self, position: int) -> dt.datetime | None:
        """Return when the source committed the last event of the table up to a position; None if unknown. Raises StoreError."""

    def pass_end(self) -> str:
        """Wait until the target holds what the source's log has now; return why it does not, as a clause, '' if it does."""


def _wants_others(audit: Audit, how: Partitioning) -> bool:
    """Return whether an audit names other partitions than these; where it names none, those of an epoch stay as they are."""
    asked = audit.partition
    asks_hash = asked.strategy == "hash" or asked.buckets is not None
    if how.strategy == "range":
        return asks_hash or asked.size not in (None, how.size)
    return asked.buckets not in (None, how.buckets) or (not asks_hash and (asked.strategy == "range" or asked.size is not None))


class LiveSummaries:
    """What a run does with live summaries, and what it found of them."""

    def __init__(self, audit: Audit, sums: LiveSums | str, rescan: bool = False) -> None:
        """``sums`` are those that a pipeline keeps, or why there are none; ``rescan`` asks for a scan of the source."""
        self.check: LiveCheck | None = None
        self.label: Callable[[int | None], str] = str
        """Describes a partition for a person."""
        self.epoch: LiveEpoch | None = None
        self.why_scan = ""
        """Why the run scans the source, as a clause; empty if it does not."""
        self._audit = audit
        self._sums = sums
        self._rescan = rescan
        self._scanned: tuple[int, Summaries, Summaries | None, Summaries | None] | None = None
        self.position = 0
        """Where a scan of the source stands, as a position of the stream."""
        self.lost = Lost()
        """What the scan found that the stream lost."""
        self.as_in_target: frozenset[int] = frozenset()
        """The partitions in which more was lost than the sums name, and the target holds what the stream had."""
        self.note = ""
        """Why the live summaries did not begin, or were not proved, although the source was scanned; empty if they were."""

    @property
    def is_wanted(self) -> bool:
        """Whether the audit is compared with live summaries."""
        return self._audit.summaries is not None

    @property
    def sums(self) -> LiveSums:
        """The sums. Raises LiveSummariesUnusable if there are none."""
        if isinstance(self._sums, str):
            raise LiveSummariesUnusable(f"summaries: live needs the pipeline that keeps them: {self._sums}")
        return self._sums

    def choose(self, draft: Plan, stopped: threading.Event) -> Plan | None:
        """Return the plan under which the target is compared with the sums; None if the source is to be scanned: see ``why_scan``.

        ``draft`` is the plan as the tables and settings are now, ``stopped`` ends waits. Raises LiveSummariesUnusable and StoreError.
        """
        self.sums.stopped = stopped
        if why := plans.why_not_live(replace(draft, partitioning=Partitioning(strategy="range", size=2))):
            raise LiveSummariesUnusable(why)
        if self._audit.ledger and draft.is_tolerant:
            raise LiveSummariesUnusable("a ledger is of exact rows, and the audit tolerates deviations; remove ledger, or the tolerances")
        epoch = self.epoch = self.sums.current()
        begun = self.sums.plan_of(epoch) if epoch and epoch.state == "kept" else None
        if epoch is None or begun is None:
            ended = self.sums.last_reason() if epoch is None else ""
            self.why_scan = f"the live summaries ended: {ended}" if ended else "the stream keeps no summaries of this table yet"
            return None
        plan = plans.under_epoch(draft, begun)
        if plans.fingerprint(plan) != epoch.fingerprint:
            self._start_again(epoch, "the columns that are compared, their types, the filter or the method changed")
            return None
        if _wants_others(self._audit, begun.partitioning):
            self._start_again(epoch, f"the audit asks for other partitions than {begun.partitioning}")
            return None
        if self._audit.ledger and not epoch.ledger:
            self._start_again(epoch, "the audit asks for a ledger, which begins with a scan of both sides")
            return None
        if epoch.ledger and not (self._audit.ledger or epoch.ledger_ended):
            self.sums.end_ledger(epoch, "the audit asked for it no longer")
        if why := self._why_not_this(epoch):
            self.why_scan = why
            if self._audit.ledger and epoch.ledger_ended:  # the scan that is due begins another one
                self._start_again(epoch, f"their ledger had ended: {epoch.ledger_ended}")
            return None
        return plan

    def _start_again(self, epoch: LiveEpoch, reason: str) -> None:
        self.sums.end(epoch, reason)
        self.epoch, self.why_scan = None, f"the live summaries ended: {reason}"

    def _why_not_this(self, epoch: LiveEpoch) -> str:
        if self._rescan:
            return "a rescan was asked for"
        age = (dt.datetime.now(dt.UTC) - epoch.proved_at).total_seconds() if epoch.proved_at else 0.0
        if self._audit.rescan is not None and age >= self._audit.rescan:
            return f"the source was last scanned at {epoch.proved_at:%Y-%m-%d %H:%M:%S} UTC, longer ago than the audit's rescan allows"
        return ""

    def give_up(self, error: LiveSummariesWrong) -> None:
        """End the epoch whose sums are wrong; the source is scanned then."""
        assert self.epoch is not None
        log.warning("live summaries end: %s", error, extra={"action": "live_ended", "epoch": self.epoch.id})
        self._start_again(self.epoch, str(error))

    # what compares with the sums

    def note_compared(self, position: int, moved: int, apart: Summaries | None) -> None:
        """Note that the target was compared as of a position, with so many rows that had moved on; ``apart`` is as in `note_scanned`."""
        assert self.epoch is not None
        if apart is not None:
            self.sums.note_check(self.epoch, position, apart, None, scanned=False)
        time = self.sums.time_of(position)
        proved = self.epoch.proved_at if self.epoch and self.epoch.proved_position <= position else None
        known = [moment for moment in (time, proved) if moment]  # the table may have had no event since the scan
        self.check = self._check_at(self.sums.place_of(position), max(known, default=None), moved=moved)

    # what scans the source

    def prepare_scan(self, plan: Plan) -> Plan:
        """Return the plan of the scan: under the epoch that is kept, or one that begins here. Raises LiveSummariesUnusable."""
        begun = self.sums.plan_of(self.epoch) if self.epoch and self.epoch.state == "kept" else None
        if begun is not None:
            return plans.under_epoch(plan, begun)
        if why := plans.why_not_live(plan):
            raise LiveSummariesUnusable(why)
        self.epoch = self.sums.begin(plan)
        return plan

    @contextmanager
    def scanning(self) -> Iterator[None]:
        """End an epoch that did not come to be, if the block fails: nobody would ask for its sums."""
        try:
            yield
        except BaseException:
            if self.epoch is not None and not self.proves:
                with suppress(AuditorError):  # then the next run ends it
                    self.sums.end(self.epoch, UNFINISHED)
            raise

    def place(self, position: int, alignment: Alignment) -> None:
        """Say where the scan stands, while the target is held there."""
        assert self.epoch is not None
        self.position = position
        if self.epoch.state != "kept":
            self.sums.place(self.epoch, position, alignment)

    @property
    def proves(self) -> bool:
        """Whether this run's scan is compared with sums that the stream kept."""
        return self.epoch is not None and self.epoch.state == "kept"

    def note_scanned(self, position: int, scanned: Summaries, apart: Summaries | None, missing: Summaries | None = None) -> None:
        """Note what the scan found of the source, the target minus that, if it is known, and what is missing of it from the sums."""
        self._scanned = position, scanned, apart, missing

    def note_lost(self, lost: Lost, as_in_target: frozenset[int] = frozenset()) -> None:
        """Note the rows that the stream lost, and in which of the partitions left the target holds what the stream had."""
        self.lost, self.as_in_target = lost, as_in_target

    def save(self, alignment: Alignment | None) -> None:
        """Begin the epoch with the scan, or prove it by that. Raises LiveSummariesUnusable and StoreError."""
        if self._scanned is None or self.epoch is None or alignment is None:
            return
        position, scanned, apart, missing = self._scanned
        kept = self.sums.prove(self.epoch, position, alignment, missing) if self.proves else self.sums.keep(self.epoch, scanned)
        now = self.sums.current()
        if not kept or now is None:
            raise LiveSummariesUnusable(f"the live summaries ended while the source was scanned: {self.sums.last_reason()}")
        self.epoch = now
        if apart is not None:
            self.sums.note_check(now, position, apart, missing, scanned=True)
        self.check = self._check_at(alignment.position, alignment.time)

    def _check_at(self, place: str, time: dt.datetime | None, moved: int = 0) -> LiveCheck:
        epoch = self.epoch
        assert epoch is not None and epoch.begun_at is not None and epoch.proved_at is not None
        return LiveCheck(
            pipeline=epoch.pipeline,
            place=place,
            time=time,
            began=epoch.begun_at,
            began_place=epoch.log_place,
            proved=epoch.proved_at,
            proved_place=epoch.proved_log_place,
            scanned=self.why_scan,
            moved=moved,
            lost=self.lost.rows,
            lost_partitions=tuple(self.label(number) for number in self.lost.partitions),
        )


def read_links(session: Session, schema: str, epoch: LiveEpoch, place: int) -> list[Link]:
    """Return the links of an epoch as a target's snapshot holds them, which says that it is at this place.

    ``schema`` is the target's. Raises LiveSummariesWrong, and EngineError.
    """
    if place == epoch.position:  # there may be no table of sums yet, and a statement that fails ends PostgreSQL's snapshot
        return []
    try:
        rows = session.query(statements.LiveSums(session.dialect, schema).list(epoch.id))
    except NoSuchObject as error:
        raise LiveSummariesWrong(f"the target has no table {schema}.{statements.LIVE_SUMS}, which holds them") from error
    return statements.read_links(epoch.id, rows)


def sum_up(epoch: LiveEpoch, base: bytes, links: Sequence[Link], place: int) -> Summaries:
    """Return the summaries of the source as of a position, which is the one that a snapshot of the target states.

    They are what a scan of the source at this place gives under the epoch's plan, ascending by partition and without those that have no
    row, except that the least and greatest keys are unknown (None). ``base`` is that of the epoch, from the store.

    Raises LiveSummariesWrong, with why, if a sum is missing, damaged, or cannot be one of rows: no sum is returned unchecked.
    """
    if epoch.state != "kept":
        raise LiveSummariesWrong(f"the live summaries of {epoch.audit} are {epoch.state}{f': {epoch.reason}' if epoch.reason else ''}")
    if place < epoch.position:
        raise LiveSummariesWrong(f"the target is at position {place}, and the live summaries of {epoch.audit} begin at {epoch.position}")
    begun = codec.unpack_summaries(base)[1]
    return apply(begun, links, epoch=epoch.id, layout=epoch.layout, begin=epoch.position, place=place)
