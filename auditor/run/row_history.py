"""Look up each row that differs in a history: whether it is in flight, or wrong, by the versions that the source's log says it had.

Both sides are read again, at any two moments, and the source's clock before them; only then the history is asked, up to where the log ends
by then, so that it has every state that was read. What is wrong is read and looked up once more before it is believed: a row may have been
read in the midst of what the pipeline wrote. `auditor.compare.row_versions` has the rule.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import statistics
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auditor.compare import tolerance
from auditor.compare.accounting import Key
from auditor.compare.row_versions import NO_ROW, WRONG, Coverage, Judgement, Version, judge
from auditor.connections.reader import Reader
from auditor.errors import HistoryUnusable
from auditor.model import Difference, Differences, HistoryCheck, Look, Plan, Side
from auditor.planning import watermark
from auditor.run.recheck import MAX_LISTED_ROWS, Looker, RangeSuspect, Rechecked, Suspect, conclude, key_of

DIGITS = 15
"""Hexadecimal digits of a row's hash that a history has."""

LOOKS = 2


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """The versions of some keys."""

    versions: Mapping[Key, Sequence[Version]]
    begins: dt.datetime
    """Every change that was committed later is among them."""
    begins_place: str
    why_there: str
    through: str
    """The place of the log up to which they are known."""
    place: Callable[[int], str]
    """Returns a position as a place of the log."""


class VersionHistory(Protocol):
    """The history that a pipeline keeps for the audit of a run."""

    stopped: threading.Event
    """Set to end its waits."""

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""

    def begin(self, plan: Plan) -> Plan:
        """Let the pipeline keep the versions of a plan's rows, and return the plan by which their hashes are those of the history.

        Raises HistoryUnusable if it cannot keep them, and StoreError.
        """

    def read(self, keys: Collection[Key], plan: Plan) -> KeyVersions:
        """Return the versions of keys, once the history has all that is in the source's log now.

        Raises HistoryUnusable if it does not come so far, StatementCancelled if the run is stopped, and AuditorError.
        """


@dataclass(slots=True)
class _Found:
    """What the last look found of a key."""

    difference: Difference | None = None
    """None if its rows are equal."""
    judgement: Judgement = field(default_factory=lambda: Judgement("current"))


@dataclass(slots=True)
class RowLookup:
    """Looks up the rows of one run that differ."""

    reader: Reader
    plan: Plan
    """That by which rows have the hashes of the history."""
    history: VersionHistory
    at_most: float
    value_length: int
    known: KeyVersions | None = None
    """The versions of the last look."""

    def of_nothing(self) -> HistoryCheck:
        """Return what is said where nothing differs."""
        return HistoryCheck(pipeline=self.history.pipeline, at_most=self.at_most)

    def look_up(self, differences: Differences) -> Rechecked:
        """Return what is left of the differences. Raises StatementCancelled, and errors of the tree."""
        self.history.stopped = self.reader.stopped
        looker = Looker(self.reader, self.plan, self.value_length)
        suspects = {key_of(difference): Suspect(difference, difference) for difference in differences.named}
        spans = [self._span(looker, suspects, RangeSuspect(span, span.rows)) for span in differences.ranges]
        found: dict[Key, _Found] = {}
        why_untold, looks = "", 0
        wanted: Sequence[Key] = list(suspects)
        while wanted and looks < LOOKS:
            self.reader.report_both(f"looking up {len(wanted):,} rows among the versions that {self.history.pipeline} keeps")
            try:
                found |= self._look(looker, wanted)
            except HistoryUnusable as error:
                why_untold = str(error)
                found |= {key: _Found(suspects[key].latest, Judgement("untold")) for key in wanted}
            looks += 1
            wanted = [key for key, one in found.items() if one.judgement.kind in WRONG]
        for key, suspect in suspects.items():
            self._conclude(suspect, found[key])
        rechecked = conclude(differences, list(suspects.values()), spans, looks, must_stand_still=True)
        check = self._check(list(found.values()), why_untold)
        return dataclasses.replace(rechecked, differences=dataclasses.replace(rechecked.differences, history=check))

    def _span(self, looker: Looker, suspects: dict[Key, Suspect], span: RangeSuspect) -> RangeSuspect:
        """Add the rows of a range to the suspects; one with too many of them is left unsettled."""
        if span.rows > MAX_LISTED_ROWS:
            span.state = "unsettled"
            return span
        span.state = "split"
        for difference in tolerance.named_differences(self.plan, looker.rows_of_range(span.range), self.value_length)[0]:
            suspects.setdefault(key_of(difference), Suspect(difference, difference, of_range=span))
        return span

    def _look(self, looker: Looker, keys: Sequence[Key]) -> dict[Key, _Found]:
        """Read the rows of keys, and judge those that differ."""
        now = self.reader.ask_side("source", lambda _, session: watermark.read_clock(session), fresh=True)
        read = looker.rows_by_key(keys)
        rows = {side: [row for row, _ in read[side]] for side in read}
        differing, _ = tolerance.named_differences(self.plan, rows, self.value_length, known=True)
        by_key = {key_of(difference): difference for difference in differing}
        states: dict[Side, dict[Key, list[int]]] = {side: defaultdict(list) for side in rows}
        for side, of_side in rows.items():
            for row in of_side:
                states[side][row.key].append(int(row.digits[:DIGITS], 16))
        known = self.known = self.history.read(keys, self.plan)
        coverage = Coverage(known.begins, now, self.at_most)
        return {
            key: _Found(difference, judge(known.versions[key], states["source"][key], states["target"][key], coverage))
            if (difference := by_key.get(key))
            else _Found()
            for key in keys
        }

    def _conclude(self, suspect: Suspect, found: _Found) -> None:
        """Say of a suspect what its last look found."""
        kind = found.judgement.kind
        outcome = "equal" if kind == "current" else "in flight" if kind == "in_flight" else "same" if kind in WRONG else "moved"
        suspect.in_flight, suspect.is_still = kind == "in_flight", kind in WRONG
        looks = (Look(dt.datetime.now(dt.UTC), outcome),)
        suspect.latest = None
        if found.difference and kind != "current":
            suspect.latest = dataclasses.replace(found.difference, looks=looks, cause=self._cause(found.judgement))

    def _cause(self, judgement: Judgement) -> str:
        """Return what is said of a row that is not equal, as a clause about the target's row."""
        known = self.known
        if judgement.kind == "doubled":
            return "the target has several rows of this key"
        if known is None:
            return ""
        since = f"{known.begins:%Y-%m-%d %H:%M:%S} UTC ({known.begins_place}), where its history begins"
        if judgement.kind == "unlogged":
            return "the source's log does not say how its row became what it is"
        if judgement.kind == "foreign":
            return f"the source did not hold it since {since}"
        missed = judgement.next
        if missed is None:
            return ""
        change = "insert" if missed.before == NO_ROW else "delete" if missed.after == NO_ROW else "update"
        version = f"the version of {judgement.since:%Y-%m-%d %H:%M:%S} UTC" if judgement.since else f"a version from before {since}"
        ending = f"is on its way for {judgement.age:.1f} s" if judgement.kind == "in_flight" else "never came"
        return f"it is {version}; the {change} at {known.place(missed.position)} ({missed.time:%Y-%m-%d %H:%M:%S} UTC) {ending}"

    def _check(self, found: Sequence[_Found], why_untold: str) -> HistoryCheck:
        kinds, known = Counter(one.judgement.kind for one in found), self.known
        flying = [one.judgement for one in found if one.judgement.kind == "in_flight"]
        ages = sorted(judgement.age for judgement in flying)
        if kinds["untold"] and not why_untold and known:
            why_untold = (
                f"the history begins at {known.begins_place} ({known.begins:%Y-%m-%d %H:%M:%S} UTC), less than {self.at_most:g} s ago"
                f"{f', because {known.why_there}' if known.why_there else ''}; run the audit again later"
            )
        return HistoryCheck(
            pipeline=self.history.pipeline,
            at_most=self.at_most,
            through=known.through if known else "",
            begins=known.begins if known else None,
            begins_place=known.begins_place if known else "",
            why_there=known.why_there if known else "",
            looked_up=len(found),
            **{kind: kinds[kind] for kind in ("current", "in_flight", "late", "foreign", "doubled", "unlogged", "untold")},
            oldest=min((judgement.next.time for judgement in flying if judgement.next), default=None),
            ages=(ages[0], statistics.median(ages), ages[-1]) if ages else None,
            why_untold=why_untold,
        )
