"""Prove that the alarms of an audit work: damage a row of a canary table in its target, find it, tell the channels, and repair it.

The canary lies beside the audit's tables. Its source is made by the drill, or by a person where the source's connection may only read; its
target is made by the drill, or by the pipeline that carries it.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from auditor.api_models.repair import Drill, DrillPlan, DrillStep, DrillStepName
from auditor.config import Audit, Settings, SideRef, TableRef, find_carriers, table_name, validate_audit
from auditor.connections.reader import ignore_progress
from auditor.durations import durations
from auditor.errors import AuditorError, ConfigError, DrillFailed, NoSuchObject
from auditor.model import Report, Verdict
from auditor.repair.canary import DAMAGED, NUMBER, TABLE, Canary, damaged_rows, drill_of, rows_of
from auditor.repair.keys import Selection
from auditor.service import audits, definitions, notify, patches, stored_runs
from auditor.service.patches import Followed
from auditor.store import runs

if TYPE_CHECKING:
    from auditor.store import Store


def plan_drill(settings: Settings, store: Store, name: str) -> DrillPlan:
    """Return what a drill beside the tables of an audit would do; no database is asked. Raises what `drill` raises."""
    return DrillPlan(audit=name, steps=list(_prepare(settings, store, name, "").plan()))


def drill(settings: Settings, store: Store, name: str, *, who: str = "") -> Drill:
    """Hold a drill beside the tables of an audit.

    Raises UnknownAudit, and ConfigError for an audit beside whose tables no drill can be held, as where its target cannot be written;
    whatever fails after that is in the result.
    """
    held = _prepare(settings, store, name, who)
    held.hold()
    failed = next((step for step in held.steps if not step.passed), None)
    return Drill(audit=name, passed=failed is None, failed_at=failed.name if failed else None, steps=held.steps)


def _prepare(settings: Settings, store: Store, name: str, who: str) -> _Drill:
    """Return a drill that has not begun. Raises UnknownAudit and ConfigError."""
    settings = audits.with_defined_audits(settings, store)
    audit = definitions.audit(settings, name)
    source = _canary(settings, audit.one_source("a drill"))
    target = _canary(settings, audit.target)
    if why := target.why_not_written():
        raise ConfigError(why)
    carriers = find_carriers(source.ref, target.ref, settings.pipelines, settings.connections)
    return _Drill(settings, store, name, audit, who, source, target, carriers[0].pipeline if carriers else "")


def _canary(settings: Settings, ref: SideRef) -> Canary:
    """Return the canary beside a table. Raises ConfigError where tables are files."""
    if ref.place.path:
        raise ConfigError(f"a drill damages one row of a table, and {ref.label} is files, of which no row is changed by itself")
    beside = TableRef(connection=ref.connection, table=table_name(*ref.place.parts[:-1], TABLE))
    return Canary(beside, settings.connections[ref.connection])


class _Failed(Exception):
    """A step failed, and the steps that need it are not tried."""


@dataclass
class _Drill:
    settings: Settings
    store: Store
    name: str
    audit: Audit
    who: str
    source: Canary
    target: Canary
    pipeline: str
    """The pipeline that carries the canary to its target, because it carries every table beside the audit's; '' if none does."""
    steps: list[DrillStep] = field(default_factory=list)
    made: list[Canary] = field(default_factory=list)
    """What is to be dropped at the end."""
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    """What the rows of this drill say; that of the rows which a person made, where the source may only be read."""
    is_damaged: bool = False

    def plan(self) -> Iterator[str]:
        """Yield what each step would do."""
        made = [canary for canary in (self.source, *([] if self.pipeline else [self.target])) if not canary.why_not_written()]
        for canary in (self.source, self.target):
            if canary in made:
                yield f"make {canary} with {NUMBER} rows; one that somebody else made is left alone, and the drill fails"
            elif canary is self.source:
                yield f"read {canary}, which has to be there: {canary.why_not_written()}"
            else:
                yield f"wait until the pipeline {self.pipeline} has carried {canary} there"
        yield f"damage the row with the key {DAMAGED} in {self.target}, and audit both"
        channels = notify.drill_channels(self.settings.notify, self.name, self.settings.audits)
        yield f"report the damage to {', '.join(channels) or 'no channel, as none hears of a mismatch of this audit: the drill would fail'}"
        yield "repair the row by a patch, and audit both again"
        yield f"drop {' and '.join(map(str, made))}" if made else "drop nothing"

    def hold(self) -> None:
        """Take one step after the other until one fails; leave nothing damaged, and drop what was made."""
        with suppress(_Failed):
            try:
                self._take_steps()
            finally:
                if self.made or self.is_damaged:
                    with self._step("dropped") as told:
                        told.extend(self._clean_up())

    def _take_steps(self) -> None:
        with self._step("canary") as told:
            told += [self._prepare(self.source), self._arrive() if self.pipeline else self._prepare(self.target)]
        with self._step("damaged") as told:
            self.is_damaged = True
            self.target.damage(self.id)
            told.append(f"the row with the key {DAMAGED} in {self.target}")
        with self._step("found") as told:
            found = self._audit()
            told.append(_check_found(found))
        with suppress(_Failed), self._step("reported") as told:  # a damage that nobody hears of is repaired as any other
            told.append(notify.notify_drill(self.settings.notify, self.name, found, self.settings.audits))
        with self._step("repaired") as told:
            told.append(self._mend(found))
            self.is_damaged = False

    @contextmanager
    def _step(self, name: DrillStepName) -> Iterator[list[str]]:
        """Time a step; yield a list for the sentences about it. Raises _Failed if the step raises an AuditorError."""
        began, told = time.monotonic(), list[str]()
        try:
            yield told
        except AuditorError as error:
            self._end(name, began, str(error), passed=False)
            raise _Failed from error
        self._end(name, began, "; ".join(told), passed=True)

    def _end(self, name: DrillStepName, began: float, detail: str, *, passed: bool) -> None:
        self.steps.append(DrillStep(name=name, passed=passed, seconds=round(time.monotonic() - began, 3), detail=detail))

    def _prepare(self, canary: Canary) -> str:
        """Make a canary if the connection may write; else it must be there."""
        if not (why := canary.why_not_written()):
            canary.make(self.id)
            self.made.append(canary)
            return f"{canary} was made"
        there = canary.read()
        if there is None:
            raise NoSuchObject(f"there is no {canary}, and {why}; or make the table once:{canary.script(self.id)}")
        canary.check_own(there)
        self.id = drill_of(there)
        if there != rows_of(self.id):
            raise DrillFailed(f"{canary} has other rows than a drill's; drop it, and make it again")
        return f"{canary} was there"

    def _arrive(self) -> str:
        """Wait until the pipeline has carried the canary to its target."""
        until = time.monotonic() + durations().drill_arrival
        while (there := self.target.read()) != rows_of(self.id):
            if there == damaged_rows(self.id):  # by a drill that was killed
                self.target.mend(self.id)
            if time.monotonic() >= until:
                lacks = "is not there" if there is None else "has other rows than its source"
                after = f"{lacks} after {durations().drill_arrival:g} s"
                raise DrillFailed(f"{self.target} {after}; look at: auditor pipeline status {self.pipeline}")
            time.sleep(durations().drill_poll)
        return f"{self.target} was carried there by the pipeline {self.pipeline}"

    def _audit(self) -> Report:
        """Return the report of an audit of the canary, by a run of its own."""
        run = uuid.uuid4().hex
        name = runs.ad_hoc_audit(run)
        audit = validate_audit({"source": self.source.ref.model_dump(), "target": self.target.ref.model_dump(), "key": ("id",)})
        self.settings = self.settings.model_copy(update={"audits": {**self.settings.audits, name: audit}})
        reason = f"drill of {self.name}"
        return stored_runs.start(self.settings, self.store, name, {}, ignore_progress, reason=reason, requested_by=self.who, run=run)

    def _mend(self, found: Report) -> str:
        result = patches.apply_patch(self.settings, self.store, found.run, Selection(), Followed(self.who))
        after = result.after
        if after is None:
            raise DrillFailed(f"the canary was not audited after its patch: {result.not_audited or 'nothing was written'}")
        if after.verdict is not Verdict.MATCH:
            raise DrillFailed(f"run {after.run[:12]} of the canary after its patch ended as {after.verdict.value}")
        return f"by patch {result.patched.patch[:12]}; run {after.run[:12]} is a match"

    def _clean_up(self) -> Iterator[str]:
        if self.is_damaged and self.target not in self.made:
            self.target.mend(self.id)
            yield f"{self.target} was repaired without a patch"
        left = []
        for canary in self.made:
            try:
                canary.drop()
                yield str(canary)
            except AuditorError as error:  # the other one is dropped all the same
                left.append(f"{canary} is still there: {error}")
        if left:
            raise DrillFailed("; ".join(left))


def _check_found(report: Report) -> str:
    """Return what an audit found, if that is the damaged row alone. Raises DrillFailed if not."""
    rows = [] if report.differences is None else [(one.kind, one.key) for one in report.differences.named]
    if report.verdict is not Verdict.MISMATCH or rows != [("changed", {"id": str(DAMAGED)})]:
        why = "; ".join(report.reasons) or f"it names {len(rows)} rows"
        raise DrillFailed(f"run {report.run[:12]} of the canary ended as {report.verdict.value}, and not with its damaged row: {why}")
    return f"run {report.run[:12]} names the row with the key {DAMAGED}"
