"""Prove that the alarms of an audit work: damage a row of a canary table in its target, find it, tell the channels, and mend it.

The canary is a table of the drill's own beside the audit's tables. Its source is made by the drill, or by a person where the source's
connection may only read; its target is made by the drill, or by the pipeline that carries it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

import dialects
from auditor.api_models.repair import Drill, DrillStep
from auditor.config import Audit, Settings, TableRef, find_carriers, table_name, validate_audit
from auditor.connections.reader import ignore_progress
from auditor.connections.writer import open_writer, patching_dialect, writing_dialect
from auditor.errors import AuditorError, ConfigError, DrillFailed, MayOnlyRead, NoSuchObject
from auditor.model import Report, Side, Verdict
from auditor.repair.keys import Selection
from auditor.service import audits, definitions, notify, patches, stored_runs
from auditor.service.patches import Followed
from auditor.sql.literals import value_literal
from auditor.sql.table_definition import keyed_table
from auditor.store import Store, runs
from auditor.timeouts import timeouts
from dialects import Dialect, Kind, Session

TABLE = "auditor_drill"
"""The name of the canary table on both sides."""

COLUMNS = (("id", Kind("integer")), ("note", Kind("text")))
"""The columns of the canary, of which the first is the key."""

ROWS = tuple((number, f"canary {number} of auditor drill") for number in range(1, 17))
"""The rows of the canary."""

DAMAGED = 7
"""The key of the row that is damaged."""

DAMAGE = "damaged by auditor drill"
"""What the damaged row says instead of its note."""

OnStep = Callable[[DrillStep], None]
"""Called with each step as it ends."""


def drill(settings: Settings, store: Store, name: str, on_step: OnStep = lambda _: None, *, who: str = "") -> Drill:
    """Hold a drill beside the tables of an audit.

    Raises UnknownAudit, ConfigError for an audit beside whose tables no drill can be held, and MayOnlyRead if its target cannot be
    written; whatever fails after that is in the result.
    """
    settings = audits.with_defined_audits(settings, store)
    held = _Drill(settings, store, name, definitions.audit(settings, name), who, on_step)
    held.check()
    held.hold()
    failed = next((step for step in held.steps if not step.passed), None)
    return Drill(audit=name, passed=failed is None, failed_at=failed.name if failed else None, steps=held.steps)


class _Failed(Exception):
    """A step failed, and the steps that need it are not tried."""


@dataclass
class _Drill:
    settings: Settings
    store: Store
    name: str
    audit: Audit
    who: str
    on_step: OnStep
    steps: list[DrillStep] = field(default_factory=list)
    made: list[Side] = field(default_factory=list)
    """The sides on which the canary is to be dropped at the end."""

    def check(self) -> None:
        """Raise why no drill can be held beside the audit's tables."""
        source = self.audit.one_source("a drill")
        for ref in (source, self.audit.target):
            if ref.place.path:
                raise ConfigError(f"a drill damages one row of a table, and {ref.label} is files, of which no row is changed by itself")
        patching_dialect(self.audit.target.connection, self.settings.connections[self.audit.target.connection])

    def hold(self) -> None:
        """Take one step after the other until one fails; drop what was made in any case."""
        with suppress(_Failed):
            try:
                with self._step("canary") as told:
                    told += [self._prepare("source"), self._arrive() if self._carriers else self._prepare("target")]
                with self._step("damaged") as told:
                    told.append(self._damage())
                found = self._find()
                with suppress(_Failed):  # a damage that nobody hears of is mended as any other
                    self._tell(found)
                with self._step("mended") as told:
                    told.append(self._mend(found))
            finally:
                if self.made:
                    with self._step("dropped") as told:
                        told += [self._drop(side) for side in self.made]

    @contextmanager
    def _step(self, name: str) -> Iterator[list[str]]:
        """Time a step; yield the list for what is told of it. Raises _Failed if the step raises an AuditorError."""
        began, told = time.monotonic(), list[str]()
        try:
            yield told
        except AuditorError as error:
            self._end(name, began, str(error), passed=False)
            raise _Failed from error
        self._end(name, began, "; ".join(told), passed=True)

    def _end(self, name: str, began: float, detail: str, *, passed: bool) -> None:
        step = DrillStep(name=name, passed=passed, seconds=round(time.monotonic() - began, 3), detail=detail)
        self.steps.append(step)
        self.on_step(step)

    # the canary

    def _ref(self, side: Side) -> TableRef:
        ref = self.audit.one_source("a drill") if side == "source" else self.audit.target
        return TableRef(connection=ref.connection, table=table_name(*ref.place.parts[:-1], TABLE))

    @cached_property
    def _carriers(self) -> Sequence[str]:
        """The pipelines that carry the canary to its target, because they carry every table beside the audit's."""
        carriers = find_carriers(self._ref("source"), self._ref("target"), self.settings.pipelines, self.settings.connections)
        return [carrier.pipeline for carrier in carriers]

    def _prepare(self, side: Side) -> str:
        """Make the canary on one side if the connection may write; else it must be there."""
        ref = self._ref(side)
        where = f"{ref.table} of {ref.connection}"
        try:
            writing_dialect(ref.connection, self.settings.connections[ref.connection])
        except (MayOnlyRead, ConfigError) as error:
            return self._look(ref, where, str(error))
        with open_writer(ref.connection, self.settings.connections[ref.connection]) as session:
            there = _read(session, ref)
            if there is not None:
                _check_ours(there, where)
                session.execute(f"DROP TABLE {_sql(session.dialect, ref)}")
            for statement in _statements(session.dialect, ref):
                session.execute(statement)
                if side not in self.made:
                    self.made.append(side)
        return f"{where} was made"

    def _look(self, ref: TableRef, where: str, why: str) -> str:
        there = self._read(ref)
        if there is None:
            dialect = dialects.by_scheme(dialects.parse_url(self.settings.connections[ref.connection].url).scheme)
            script = "".join(f"\n{statement};" for statement in _statements(dialect, ref))
            raise NoSuchObject(f"there is no {where}, and {why}; or make the table once:{script}")
        _check_ours(there, where)
        if sorted(there) != list(ROWS):
            raise DrillFailed(f"{where} has other rows than a drill's; drop it, and make it again")
        return f"{where} was there"

    def _arrive(self) -> str:
        """Wait until the pipeline has carried the canary to its target."""
        ref, until = self._ref("target"), time.monotonic() + timeouts().drill_arrival
        while (there := self._read(ref)) is None or sorted(there) != list(ROWS):
            if time.monotonic() >= until:
                pipeline = self._carriers[0]
                lacks = "is not there" if there is None else "has other rows than its source"
                after = f"{lacks} after {timeouts().drill_arrival:g} s"
                raise NoSuchObject(f"{ref.table} of {ref.connection} {after}; look at: auditor pipeline status {pipeline}")
            time.sleep(timeouts().drill_poll)
        return f"{ref.table} of {ref.connection} was carried there by the pipeline {self._carriers[0]}"

    def _read(self, ref: TableRef) -> list[tuple[object, ...]] | None:
        connection = self.settings.connections[ref.connection]
        limits = connection.limits
        with closing(dialects.connect(connection.url, limits.statement_timeout, limits.lock_timeout)) as session:
            return _read(session, ref)

    def _damage(self) -> str:
        ref = self._ref("target")
        with open_writer(ref.connection, self.settings.connections[ref.connection]) as session:
            quote = session.dialect.names.quote
            note = value_literal(session.dialect, COLUMNS[1][1], DAMAGE)
            session.execute(f"UPDATE {_sql(session.dialect, ref)} SET {quote('note')} = {note} WHERE {quote('id')} = {DAMAGED}")
            there = _read(session, ref) or []
        if sorted(there) != sorted((key, DAMAGE if key == DAMAGED else note) for key, note in ROWS):
            raise DrillFailed(f"{ref.table} of {ref.connection} has other rows than those of this drill, which ends without an audit of it")
        return f"the row with the key {DAMAGED} in {ref.table} of {ref.connection}"

    def _drop(self, side: Side) -> str:
        ref = self._ref(side)
        with open_writer(ref.connection, self.settings.connections[ref.connection]) as session:
            session.execute(f"DROP TABLE {_sql(session.dialect, ref)}")
        return f"{ref.table} of {ref.connection}"

    # the alarm

    def _find(self) -> Report:
        """Return the report of the audit that found the damage, and it alone."""
        with self._step("found") as told:
            run = uuid.uuid4().hex
            canary = {"source": self._ref("source").model_dump(), "target": self._ref("target").model_dump(), "key": ("id",)}
            name = runs.ad_hoc_audit(run)
            self.settings = self.settings.model_copy(update={"audits": {**self.settings.audits, name: validate_audit(canary)}})
            reason = f"drill of {self.name}"
            report = stored_runs.start(self.settings, self.store, name, {}, ignore_progress, reason=reason, requested_by=self.who, run=run)
            told.append(self._check_found(report))
        return report

    def _check_found(self, report: Report) -> str:
        differences = report.differences
        rows = [] if differences is None else [(one.kind, one.key) for one in differences.named]
        if report.verdict is not Verdict.MISMATCH or rows != [("changed", {"id": str(DAMAGED)})]:
            why = "; ".join(report.reasons) or f"it names {len(rows)} rows"
            raise DrillFailed(f"run {report.run[:12]} of the canary ended as {report.verdict.value}, and not with its damaged row: {why}")
        return f"run {report.run[:12]} names the row with the key {DAMAGED}"

    def _tell(self, report: Report) -> None:
        with self._step("reported") as told:
            told.append(notify.notify_drill(self.settings.notify, self.name, report))

    def _mend(self, found: Report) -> str:
        result = patches.apply_patch(self.settings, self.store, found.run, Selection(), Followed(self.who))
        after = result.after
        if after is None:
            raise DrillFailed(f"the canary was not audited after its patch: {result.not_audited or 'nothing was written'}")
        if after.verdict is not Verdict.MATCH:
            raise DrillFailed(f"run {after.run[:12]} of the canary after its patch ended as {after.verdict.value}")
        return f"by patch {result.patched.patch[:12]}; run {after.run[:12]} is a match"


def _sql(dialect: Dialect, ref: TableRef) -> str:
    return dialect.names.table(*ref.place.parts)


def _statements(dialect: Dialect, ref: TableRef) -> list[str]:
    """Return the statements that make the canary with its rows."""
    values = (", ".join(value_literal(dialect, kind, value) for (_, kind), value in zip(COLUMNS, row, strict=True)) for row in ROWS)
    insert = f"INSERT INTO {_sql(dialect, ref)} VALUES {', '.join(f'({row})' for row in values)}"
    return [keyed_table(dialect, _sql(dialect, ref), COLUMNS), insert]


def _read(session: Session, ref: TableRef) -> list[tuple[object, ...]] | None:
    """Return the rows of a canary; None if there is no such table."""
    try:
        return [tuple(row) for row in session.query(f"SELECT * FROM {_sql(session.dialect, ref)}")]
    except NoSuchObject:
        return None


def _check_ours(rows: Sequence[tuple[object, ...]], where: str) -> None:
    """Raise DrillFailed unless rows are a canary's, be it a damaged one."""
    ours = dict(ROWS)
    if not rows or not all(len(row) == len(COLUMNS) and row[1] in (ours.get(row[0]), DAMAGE) for row in rows):  # type: ignore[call-overload]
        raise DrillFailed(f"{where} is not a drill's: it has other rows. A drill touches no table but its own; drop it, or rename it")
