"""Say when a target was parted from its source, and by whom, from the ledger that merges keep in it.

The ledger and what runs found are read; neither table is. What is not known is said: there is no answer from a ledger that is not whole.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import dialects
from auditor.api_models.bisection import Bisection, FirstEvent, LedgerBatch, Parting
from auditor.config import Settings
from auditor.errors import AuditorError, LiveSummariesWrong, NoSuchObject, StagingFailed
from auditor.escaping import shell_word
from auditor.masking import partition_label
from auditor.model import LiveEpoch, Part, Plan, Verdict
from auditor.pipeline import live
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.live.staged_sums import read_sums
from auditor.pipeline.live.stream_sums import StreamSums
from auditor.pipeline.staged_parts import read_part
from auditor.quantities import plural
from auditor.report.formatting import moment
from auditor.run.live import bisection as bisections
from auditor.run.live import plans, running_sums
from auditor.run.live.bisection import Checked
from auditor.run.live.ledger import LEDGER, Entry, LedgerStatements, check_chain, read_entries
from auditor.service import audits, definitions
from auditor.store import Store, live_epochs, parts
from auditor.store.live_epochs import Check
from auditor.summary.key_number import POSITIONS

MOST_LISTED = 100
"""What parted target and source that is listed."""

EXIT_CODES = {"equal": Verdict.MATCH.exit_code, "different": Verdict.MISMATCH.exit_code, "unknown": Verdict.UNKNOWN.exit_code}

NOT_ASKED = "the audit keeps no ledger; add summaries: live and ledger: true to it, and run it"


class _CannotTell(Exception):
    """Why nothing can be said."""


def bisect(settings: Settings, store: Store, name: str) -> Bisection:
    """Return what the ledger of an audit says. Raises UnknownAudit, StoreError, and EngineError if the target cannot be reached."""
    settings = audits.with_defined_audits(settings, store)
    audit = definitions.audit(settings, name)
    sums = live.find_sums(settings, store, name, audit) if audit.ledger else NOT_ASKED
    known: dict[str, str] = {}
    try:
        if isinstance(sums, str):
            raise _CannotTell(sums)
        known = {"pipeline": sums.pipeline, "table": sums.subject.table}
        return _Answer(settings, store, name, sums).give()
    except (_CannotTell, LiveSummariesWrong) as error:
        why = str(error)
        nothing = dict.fromkeys(("pipeline", "table", "begins", "through", "checked", "checked_time"))
        return Bisection(
            audit=name, answer="unknown", sentence=f"it cannot be told, because {why}", why=why, batches=0, partings=[], more=0,
            exit_code=EXIT_CODES["unknown"], **{**nothing, **known},
        )  # fmt: skip


@dataclass(slots=True)
class _Answer:
    """The ledger of an audit, and what is said of it."""

    settings: Settings
    store: Store
    name: str
    sums: StreamSums
    epoch: LiveEpoch = field(init=False)
    plan: Plan = field(init=False)
    checks: Sequence[Check] = ()
    entries: Sequence[Entry] = ()
    numbers: Sequence[int] = ()
    """The number of the last merge of each entry."""

    def give(self) -> Bisection:
        """Read the ledger, and say what it holds."""
        self._choose_epoch()
        self.checks = live_epochs.list_checks(self.store, self.epoch.id)  # before the ledger, which then reaches as far
        if not self.checks:
            raise _CannotTell(f"no run has compared the whole target since the ledger began; run the audit: auditor run {self._word}")
        self.entries = self._read_ledger()
        total, numbers = 0, list[int]()
        for entry in self.entries:
            total += entry.batches
            numbers.append(total)
        self.numbers = numbers
        words, powers = plans.widths(self.plan)
        width = self.plan.partitioning.size if self.plan.partitioning.strategy == "range" else POSITIONS
        checked = [
            Checked(
                check.position,
                running_sums.unpack(check.apart.decode(), words, 0),
                running_sums.unpack(check.missing.decode(), words, 0),
                check.scanned,
            )
            for check in self.checks
        ]
        t = self.plan.t if self.plan.method == "exact" else 0
        return self._tell(bisections.bisect(self.entries, checked, words=words, powers=powers, t=t, width=width))

    @property
    def _word(self) -> str:
        return shell_word(self.name)

    def _choose_epoch(self) -> None:
        epoch = self.sums.current()
        if epoch is None:
            reason = self.sums.last_reason()
            ended = f"the live summaries ended, and the ledger with them: {reason}" if reason else "no ledger has begun yet"
            raise _CannotTell(f"{ended}; run the audit: auditor run {self._word}")
        if not epoch.ledger:
            raise _CannotTell(f"these live summaries began without a ledger; run the audit: auditor run {self._word}")
        if epoch.ledger_ended:
            raise _CannotTell(f"the ledger ended: {epoch.ledger_ended}; begin another one: auditor run {self._word} --rescan")
        plan = self.sums.plan_of(epoch)
        if epoch.state != "kept" or plan is None:
            state = "were begun by another version of the auditor" if plan is None else "are just being begun"
            raise _CannotTell(f"the live summaries {state}; run the audit: auditor run {self._word}")
        self.epoch, self.plan = epoch, plan

    def _read_ledger(self) -> list[Entry]:
        """Return the ledger, which is whole up to where the target is."""
        connection = self.settings.connections[definitions.audit(self.settings, self.name).target.connection]
        with closing(dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)) as session:
            try:
                position = self.sums.open(session, self.epoch)
            except AuditorError as error:
                raise _CannotTell(str(error)) from error
            if position == self.epoch.position:
                return []
            try:
                rows = session.query(LedgerStatements(session.dialect, self.sums.place_in_target[0]).list(self.epoch.id))
            except NoSuchObject as error:
                where = f"{self.sums.place_in_target[0]}.{LEDGER}"
                raise _CannotTell(f"the target has no table {where}, which holds the ledger") from error
        entries = read_entries(self.epoch.id, rows)
        check_chain(entries, self.epoch.id, self.epoch.position)
        if not entries or entries[-1].place != position:
            end = self.sums.place_of(entries[-1].place if entries else self.epoch.position)
            raise _CannotTell(f"the ledger ends at {end}, and the target is at {self.sums.place_of(position)}")
        return entries

    def _tell(self, found: bisections.Bisection) -> Bisection:
        partings = sorted(found.partings, key=lambda one: one.ended is not None)
        last = self.checks[-1]
        lasting = [one for one in found.partings if one.ended is None]
        unclear = next((one.why for one in lasting if one.cause == "unknown"), "")
        answer = "unknown" if unclear else "different" if lasting else "equal"
        listed = [self._parting(one) for one in partings[:MOST_LISTED]]
        if lasting:
            sentence = listed[0].sentence + (f"; {plural(len(lasting) - 1, 'further partition')} beside" if len(lasting) > 1 else "")
        else:
            merges = "no merge has done otherwise since" if found.partings else f"none of {plural(found.batches, 'merge')} did otherwise"
            sentence = (
                f"the target equals the source's log{' again' if found.partings else ''}: the last run found no difference as of"
                f" {self.sums.place_of(last.position)}, and {merges}; the source itself was last read as of {self.epoch.proved_log_place},"
                " and what others changed in the target since the run is not known"
            )
        return Bisection(
            audit=self.name,
            answer=answer,
            sentence=sentence,
            why=unclear,
            pipeline=self.sums.pipeline,
            table=self.sums.subject.table,
            batches=found.batches,
            begins=self.epoch.log_place,
            through=self.sums.place_of(found.through),
            checked=self.sums.place_of(last.position),
            checked_time=last.noted_at,
            partings=listed,
            more=max(0, len(partings) - MOST_LISTED),
            exit_code=EXIT_CODES[answer],
        )

    def _parting(self, one: bisections.Parting) -> Parting:
        after, through = self.sums.place_of(one.after), self.sums.place_of(one.through)
        batch = self._batch(one)
        event, unknown = self._first_event(one) if one.cause == "merge" else (None, "")
        keys = self._keys(one)
        label = partition_label(self.plan, one.partition)
        after_time = self._merge_time(one.after) if one.after_check is None else self.checks[one.after_check].at
        through_time = self._merge_time(one.through) if one.through_check is None else self.checks[one.through_check].noted_at
        return Parting(
            cause=one.cause,
            sentence=_sentence(one, batch, event, f"{label}{': key ' + ', '.join(keys) if keys else ''}", after_time, through_time),
            why=one.why,
            partition=label,
            keys=keys,
            after=after,
            through=through,
            after_time=after_time,
            through_time=through_time,
            batch=batch,
            first_event=event,
            first_event_unknown=unknown,
            lasts=one.ended is None,
            ended=None if one.ended is None else self.sums.place_of(one.ended),
        )

    def _batch(self, one: bisections.Parting) -> LedgerBatch | None:
        if one.entry is None or one.batch is None:
            return None
        return LedgerBatch(
            first=one.batch - one.entry.batches + 1,
            last=one.batch,
            after=self.sums.place_of(one.entry.previous),
            through=self.sums.place_of(one.entry.place),
            merged_at=dt.datetime.fromisoformat(one.entry.merged_at),
            version=one.entry.version,
        )

    def _merge_time(self, position: int) -> dt.datetime | None:
        """Return when the merge was that ended at a position; None if none is known there."""
        index = bisect_left(self.entries, position, key=lambda entry: entry.place)
        if index < len(self.entries) and self.entries[index].place == position:
            return dt.datetime.fromisoformat(self.entries[index].merged_at)
        return self.epoch.begun_at if position == self.epoch.position else None

    def _keys(self, one: bisections.Parting) -> list[str]:
        """Return the keys of rows whose places are known; only places in ranges of keys are keys that are not masked."""
        how = self.plan.partitioning
        if how.strategy != "range" or self.plan.hides_ranges or self.plan.key != 1:
            return []
        return [str(one.partition * how.size + place - 1) for place in one.places]

    def _first_event(self, one: bisections.Parting) -> tuple[FirstEvent | None, str]:
        """Return the first event that touches the rows which a merge got wrong, or why it is not known."""
        assert one.entry is not None
        entry, root, subject = one.entry, folder_at(self.settings.pipeline(self.sums.pipeline).staging.path), self.sums.subject
        if parts.get_table(self.store, subject.pipeline, subject.table).pruned_through > entry.previous:
            return None, "the parts with the events of this merge were deleted"
        found: list[tuple[int, int, Part]] = []
        try:
            for part in parts.list_parts(self.store, subject.pipeline, subject.table, entry.previous):
                if part.first > entry.place or found:
                    break
                images = read_sums(root, part, self.epoch.id).images
                which = (images.position > entry.previous) & (images.position <= entry.place) & (images.partition == one.partition)
                of_rows = images.chosen(which)
                placed = zip(of_rows.position.tolist(), of_rows.row.tolist(), of_rows.x.tolist(), strict=True)
                found = sorted((position, row, part) for position, row, x in placed if not one.places or x in one.places)[:1]
            if not found:
                return None, "no event of this merge touches them"
            [(position, row, part)] = found
            return self._event(root, part, position, row), ""
        except (LiveSummariesWrong, StagingFailed) as error:
            return None, str(error)

    def _event(self, root: Folder, part: Part, position: int, row: int) -> FirstEvent:
        for batch in read_part(root, part, position - 1):
            for event in batch.select(["position", "row", "gtid", "time", "kind"]).to_pylist():
                if (event["position"], event["row"]) == (position, row):
                    return FirstEvent(place=self.sums.place_of(position), gtid=event["gtid"], time=event["time"], kind=event["kind"])
        raise StagingFailed(f"the part of {part.table} has no event at {self.sums.place_of(position)}, of which it has the sums")


def _sentence(
    one: bisections.Parting,
    batch: LedgerBatch | None,
    event: FirstEvent | None,
    rows: str,
    after: dt.datetime | None,
    through: dt.datetime | None,
) -> str:
    """Return what happened to rows in words."""
    between = f"between {moment(after) if after else 'the run before'} and {moment(through) if through else 'the run that found it'}"
    match one.cause:
        case "merge":
            assert batch is not None
            text = f"equal until batch {batch.first - 1:,}, unequal from batch {batch.last:,}: its merge at {moment(batch.merged_at)},"
            text += f" by auditor {batch.version}, did otherwise than the source's log says, in {rows}"
            if event:
                text += f"; their first event, of kind {event.kind}, is in the transaction {event.gtid or f'that ends at {event.place}'}"
        case "target":
            text = f"others changed rows in the target {between}, in {rows}"
        case "log":
            text = f"rows of the source were changed {between}, in {rows}"
            if batch:
                text = f"rows of the source were changed before batch {batch.last:,}, in {rows}"
            text += ", and no staged event says so: its log did not hold it, or it was lost before it was staged"
        case "before":
            text = f"rows differed already when a run first compared them, in {rows}"
        case _:
            where = f"in batch {batch.last:,}" if batch else between
            text = f"it cannot be told what happened {where}, in {rows}, because {one.why}"
    if one.ended is not None:
        text += f"; batch {one.ended_batch:,} put them right" if one.ended_batch else "; they are right again"
    return text
