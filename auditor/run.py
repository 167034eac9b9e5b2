"""One run of one audit: connect, describe, plan, settle, summarise both sides, compare, name, look again, conclude.

A run always ends in a Report. A side that fails makes the verdict unknown, never match.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np

from auditor import chunks, drawing, drift, flight, guest, ladder, measures, naming, recheck, render, survey
from auditor import plan as plans
from auditor.columns import Endpoint
from auditor.compare.comparator import Aligned, compare
from auditor.config import Audit, Connection
from auditor.errors import AuditorError, NotResumable, SchemaChanged
from auditor.keeping import Keeper, Nothing
from auditor.link import Link, Watcher, unwatched
from auditor.model import (
    SIDES,
    Comparison,
    Differences,
    Jaccard,
    Measure,
    Method,
    Plan,
    Progress,
    Report,
    Section,
    Side,
    State,
    Step,
    Verdict,
)
from auditor.packed import Picture
from auditor.scan import Reading
from auditor.verdict import conclude, in_doubt
from dialects import Session

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What earlier runs of an audit left for this one.

    ``runs`` counts those that ended; ``shares`` are the shares of rows that differed, the latest last; ``schema`` both sides'
    columns then; ``plan`` that of a run that is resumed; ``part`` chooses the partitions of a rolling audit, and ``size`` is how
    many keys each of them has.
    """

    runs: int = 0
    shares: tuple[float, ...] = ()
    schema: Mapping[str, Any] | None = None
    plan: Plan | None = None
    part: Callable[[Plan], tuple[tuple[int, int], ...]] | None = None
    size: int | None = None


@dataclass(slots=True)
class Outcome:
    """What a run found, as far as it got: its report, the picture of the whole table, both sides' columns."""

    report: Report
    picture: Picture | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    comparison: Comparison
    aligned: Aligned
    differences: Differences | None = None
    jaccard: Jaccard | None = None
    states: Mapping[int, str] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    verdict: Verdict = Verdict.UNKNOWN
    reasons: tuple[str, ...] = ()


def run(
    name: str, audit: Audit, connections: Mapping[str, Connection], watch: Watcher = unwatched, section: Section | None = None
) -> Report:
    """Run an audit once and keep nothing of it. Never raises an error of the tree: its report says why it could not compare."""
    return perform(name, audit, connections, watch, section=section).report


def perform(
    name: str,
    audit: Audit,
    connections: Mapping[str, Connection],
    watch: Watcher = unwatched,
    *,
    identity: str | None = None,
    keeper: Keeper | None = None,
    before: Before | None = None,
    section: Section | None = None,
) -> Outcome:
    """Run an audit once, of a ``section`` of its tables alone if there is one, or go on with a run.

    Never raises an error of the tree: its report says why it could not compare.
    """
    before = before or Before()
    if before.size and not audit.partition.size:
        audit = audit.model_copy(update={"partition": audit.partition.model_copy(update={"size": before.size})})
    work = _Work(name, audit, _reading(name, audit, connections, watch, keeper or Nothing()), before, before.plan, section)
    began, started = time.monotonic(), datetime.now(UTC)
    state, verdict, exit_code = State.DONE, Verdict.UNKNOWN, Verdict.UNKNOWN.exit_code
    reasons: tuple[str, ...] = ()
    try:
        with work.reading.keeper.alive(work.reading.stop, work.reading.statements), work.reading.opened():
            work.carry_out()
        if work.found:
            verdict, reasons, exit_code = work.found.verdict, (*work.alone(), *work.found.reasons), work.found.verdict.exit_code
    except AuditorError as error:
        state, reasons, exit_code = State.FAILED, (str(error),), error.exit_code
        log.info("the run failed", extra={"action": "run_failed", "audit": name, "run": identity, "error": type(error).__name__})
    except KeyboardInterrupt:
        work.reading.asked = True
    if work.reading.asked and verdict is Verdict.UNKNOWN:
        state, reasons, exit_code = State.CANCELLED, ("the run was cancelled",), Verdict.UNKNOWN.exit_code
    ended: dict[str, Any] = {"state": state, "verdict": verdict, "reasons": reasons, "exit_code": exit_code}
    report = Report(**ended, run=identity or uuid.uuid4().hex, began=started, seconds=time.monotonic() - began, **work.told())
    picture = drawing.draw(work.found.aligned, work.found.states) if work.found else None
    return Outcome(report, picture, work.schema)


def _reading(name: str, audit: Audit, connections: Mapping[str, Connection], watch: Watcher, keeper: Keeper) -> Reading:
    stopped = threading.Event()

    def told(progress: Progress) -> None:
        done, running = reading.statements(progress.side)
        counted = replace(progress, statements=done, running=running)
        keeper.told(counted)
        watch(counted)

    references = {side: getattr(audit, side).connection for side in SIDES}
    links = {side: Link(side, references[side], connections[references[side]], name, told, stopped) for side in SIDES}
    reading = Reading(links, keeper, told, stopped)
    return reading


@dataclass(slots=True)
class _Work:
    """What a run does, step by step, and what came of it so far."""

    name: str
    audit: Audit
    reading: Reading
    before: Before
    plan: Plan | None = None
    section: Section | None = None
    found: _Found | None = None
    steps: list[Step] = field(default_factory=list)
    schema: Mapping[str, Any] = field(default_factory=dict)
    schema_changes: tuple[str, ...] = ()
    covered: float = 1.0

    def carry_out(self) -> None:
        """Run the audit's method, or its ladder of methods. Raises errors of the tree."""
        resumed = self.plan
        ends = self.reading.anew(lambda sessions: survey.described(self.audit, sessions, self.reading.passed, self.reading.interrupt))
        self._compare_schemas(ends)
        methods = ladder.levels(self.audit, self.before.shares, ended_runs=self.before.runs)
        if resumed and resumed.method in methods:
            methods = methods[methods.index(resumed.method) :]
        for method in methods:
            began = time.monotonic()
            self.plan = self._planned(method, ends, resumed)
            if not resumed:
                self.reading.keeper.pin(self.plan, self.schema)
            resumed = None
            self.found = self._compared(self.plan)
            if not ladder.goes_up(self.audit, method, self.found.verdict, self.before.runs):
                break
            self.steps.append(Step(method=method, verdict=self.found.verdict, seconds=time.monotonic() - began, reasons=self.found.reasons))
            self.found = None  # the step tells it; beside the next level's plan it would be taken for what that level found

    def _compare_schemas(self, ends: Mapping[Side, Endpoint]) -> None:
        self.schema = {side: drift.schema_of(end.table) for side, end in ends.items()}
        self.schema_changes = drift.changes(self.before.schema, self.schema)
        if self.schema_changes and self.audit.schema_ == "strict":
            raise SchemaChanged(
                f"the tables' columns are not what they were at the last run that was done: {'; '.join(self.schema_changes)}; to accept"
                " them, write schema: note in this audit, run it once, and write schema: strict again"
            )

    def _planned(self, method: Method, ends: Mapping[Side, Endpoint], resumed: Plan | None) -> Plan:
        """The plan of now, or that of the run which is resumed. Raises NotResumable where the tables' columns changed since."""
        if resumed:
            now = plans.draft(self.name, self.audit, ends, method)
            if (now.columns, now.key) != (resumed.columns, resumed.key):
                self.plan = None
                raise NotResumable("the tables' columns, or how they are compared, changed since this run began: start a new one")
            if resumed.snapshot == "whole":
                self.reading.begin()
            self.covered = survey.share(resumed)
            return resumed
        made = _salted(self.reading.anew(lambda sessions: self._surveyed(method, ends, sessions)), self.audit)
        if self.before.part:
            made, self.covered = survey.only(made, self.before.part(made))
        notes = self.reading.ask(lambda side: self._index_note(made, side))
        return replace(made, notes=(*made.notes, *(note for note in notes.values() if note)))

    def _surveyed(self, method: Method, ends: Mapping[Side, Endpoint], sessions: Mapping[Side, Session]) -> Plan:
        return survey.planned(
            self.name,
            self.audit,
            sessions,
            ends=ends,
            method=method,
            section=self.section,
            begin=lambda side: self.reading.links[side].begin(),
            passed=self.reading.passed,
            refuse=lambda plan, side: guest.check_scan(plan, side, sessions[side], self.reading.links[side].connection),
            cancel=self.reading.interrupt,
        )

    def _index_note(self, plan: Plan, side: Side) -> str | None:
        """How a side's key ranges are read. Raises ScanRefused where no index serves those of a large table."""
        session, link = self.reading.session(side), self.reading.links[side]
        first = chunks.queue(plan, side).take() if plan.sides[side].chunk_keys else None
        statement = render.summary(plan, side, session.dialect, first) if first else ""
        return guest.check_scan(plan, side, session, link.connection, statement)

    def _compared(self, plan: Plan) -> _Found:
        aligned = self.reading.summarised(plan, keep=True)
        comparison = compare(aligned, threshold=self.audit.threshold.score, allow_empty=self.audit.allow_empty, label=plan.label)
        if (
            not comparison.total
            and plan.watermark
            and any(self._ask_with_session(lambda side, session: _rows(plan, side, session)).values())
        ):
            sentence = f"every row is from the watermark {plan.watermark} UTC on, so nothing was compared yet; run it again later"
            comparison = replace(comparison, verdict=Verdict.UNKNOWN, reasons=(sentence,))
        found = _Found(comparison, aligned)
        self.reading.begin()
        if plan.method == "exact":
            self._name(plan, found)
        elif plan.method == "counts":
            found.measures = measures.deviations(plan, aligned, self.audit.counts)
            found.measures += measures.extra(plan, self.audit.counts, self._ask_with_session)
        else:
            found.jaccard = naming.estimate(plan, aligned)
        if plan.method == "counts":
            found.verdict, found.reasons = measures.verdict(comparison, found.measures)
        else:
            found.verdict, found.reasons = conclude(comparison, found.differences, found.jaccard, self.audit.threshold)
        if found.verdict is Verdict.MISMATCH and plan.watermark and not ladder.is_step(self.audit, plan.method):
            self._doubt(plan, found)
        self.reading.end()
        return found

    def _doubt(self, plan: Plan, found: _Found) -> None:
        """Claim nothing where no row is known to differ, and rows in flight can be all that does."""
        aligned, confirmed = found.aligned, found.differences
        if confirmed and (confirmed.missing or confirmed.extra or confirmed.changed):
            return
        unequal = [int(index) for index in np.flatnonzero(aligned.unequal)]
        if confirmed:
            unequal = [index for index in unequal if found.states.get(int(aligned.partition[index])) == "estimated"]
        elif plan.method == "counts":
            differing = {one.partition for one in found.measures if not one.allowed and not measures.is_of_whole(one)}
            unequal = [index for index in unequal if aligned.id(index) in differing]
        self._waits("counts the rows that are in flight")
        self.reading.end()
        self.reading.begin()  # as the tables are now
        young = self.reading.summarised(flight.counting(plan)).sides["source"]
        if flight.explains(plan, aligned, unequal, young):
            found.verdict, found.reasons = in_doubt(found.reasons, int(young.rows.sum()), named=plan.method == "exact")

    def _ask_with_session(self, work: Callable[[Side, Session], T]) -> dict[Side, T]:
        return self.reading.ask(lambda side: work(side, self.reading.session(side)))

    def _name(self, plan: Plan, found: _Found) -> None:
        """Name the differences, and look at them again where the audit asks for it."""
        reading, limits = self.reading, self.audit.limits
        reading.watch(Progress(self.name, "source", "naming differences"))
        named = naming.name_differences(plan, found.aligned, limits, reading.session, reading.ask, reading.summarised, self._is_still)
        found.differences, found.jaccard, found.states = named.differences, named.similarity(), named.states
        here = named.differences
        if (self.audit.recheck or plan.watermark) and (here.missing or here.extra or here.changed):
            again = recheck.Again(plan, reading.session, reading.ask_now, limits.value_length)
            sure = recheck.finds_ranges(again, named.differences.ranges)
            reading.end()
            looked = recheck.look_again(again, named.differences, self.audit.recheck, reading.stopped, self._waits, sure=sure)
            found.differences, found.jaccard = looked.differences, named.similarity(looked.cleared, looked.unsettled)

    def _is_still(self) -> bool:
        """Whether all that was read so far is of one snapshot on each side, so that nothing can have changed in between."""
        plan, links = self.plan, self.reading.links
        if plan is None or plan.snapshot != "whole" or self.before.plan or self.reading.apart:
            return False
        return all(not links[side].snapshots_lost and bool(links[side].session.dialect.BEGIN) for side in SIDES)

    def _waits(self, sentence: str) -> None:
        for side in SIDES:
            self.reading.watch(Progress(self.name, side, sentence))

    def told(self) -> dict[str, Any]:
        """What a report says of how the run went and what it found, whatever it ended by."""
        found, plan, links = self.found, self.plan, self.reading.links
        return {
            "audit": self.name,
            "method": plan.method if plan else None if self.audit.method == "auto" else self.audit.method,
            "plan": plan,
            "comparison": found.comparison if found else None,
            "differences": found.differences if found else None,
            "jaccard": found.jaccard if found else None,
            "measures": found.measures if found else (),
            "cost": {side: self.reading.cost(side) for side in SIDES if links[side].server},
            "servers": {side: link.server for side, link in links.items() if link.server},
            "steps": tuple(self.steps),
            "schema_changes": self.schema_changes,
            "covered": self.covered,
            "section": plan.section if plan else self.section,
            "retries": sum(link.retries for link in links.values()),
            "notes": self.notes(),
        }

    def alone(self) -> tuple[str, ...]:
        """That all that was found is about a section, where it is."""
        return (f"only {self.plan.section} were compared; nothing is said of others",) if self.plan and self.plan.section else ()

    def notes(self) -> tuple[str, ...]:
        """What a person should know of how the run went."""
        told = [f"schema: {change}" for change in self.schema_changes]
        if self.before.plan:
            told.append("the run was resumed: chunks that were read before were not read again")
        for side, link in self.reading.links.items():
            if link.retries:
                told.append(f"{side}: something failed and was tried again {link.retries} times")
            if link.snapshots_lost and self.plan and self.plan.snapshot == "whole":
                told.append(f"{side}: its snapshot was lost {link.snapshots_lost} times, so what was read later is younger")
        for side in sorted(self.reading.apart):
            told.append(f"{side}: this engine or user cannot share a snapshot, so further connections read each chunk in one of its own")
        if self.audit.recheck and self.plan and self.plan.method != "exact" and self.found and self.found.comparison.unequal:
            told.append(f"nothing was looked at again: the method {self.plan.method} names no rows")
        if self.covered < 1:
            told.append(f"{self.covered:.2%} of the table's partitions were read in this run")
        return tuple(told)


def _salted(plan: Plan, audit: Audit) -> Plan:
    """The plan with a salt of this run alone, where the audit has its method salted at random."""
    if audit.salt != plans.RANDOM or plan.method not in plans.SALTED or plan.encoding == "published":
        return plan
    return replace(plan, salt=secrets.token_hex(8))


def _rows(plan: Plan, side: Side, session: Session) -> int:
    """The rows of a side, those in flight among them."""
    end = plan.sides[side]
    return int(session.query(render.count(session.dialect, end.table, end.where or "1 = 1"))[0][0])
