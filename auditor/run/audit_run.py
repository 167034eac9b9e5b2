"""One run of one audit: introspect, plan, settle, read, compare, locate, recheck, conclude.

A run always ends in a report. A side that fails makes the verdict unknown, never match.
"""

from __future__ import annotations

import logging
import secrets
import time
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from auditor.compare import deviations, partition_map, patterns, verdict
from auditor.compare.comparator import Aligned, compare
from auditor.compare.readable import with_readable_keys
from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.errors import AuditorError, ColumnsChanged, NotResumable, SchemaChanged, allows_resume
from auditor.history import masking
from auditor.history.handover import Checkpoint, EarlierRuns, NoCheckpoint, Outcome, Schemas
from auditor.history.left_out import LeftOut
from auditor.model import (
    SIDES,
    Comparison,
    Differences,
    Jaccard,
    Measure,
    Method,
    Partitioning,
    Plan,
    Progress,
    Report,
    Side,
    Slice,
    State,
    Step,
    Verdict,
)
from auditor.planning import build, index_check, introspect, planner, schema_drift, watermark
from auditor.planning.columns import Endpoint
from auditor.planning.prescan import decide as decide_prescan
from auditor.run import distributions, in_flight, ladder, overdue, prescan
from auditor.run.chunk_queue import ChunkQueue
from auditor.run.locate import Located, clear_equal_by_now, estimate_similarity, locate_differences
from auditor.run.notes import notes_of
from auditor.run.recheck import look_again
from auditor.run.recheck_ranges import first_suspects
from auditor.sql import render
from dialects import Session

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Findings:
    """What a run found by one method."""

    aligned: Aligned
    comparison: Comparison
    differences: Differences | None = None
    jaccard: Jaccard | None = None
    states: Mapping[int, str] = field(default_factory=dict)
    """How each unequal partition, by id, was settled."""
    measures: tuple[Measure, ...] = ()
    verdict: Verdict = Verdict.UNKNOWN
    reasons: tuple[str, ...] = ()


def run(
    name: str,
    audit: Audit,
    connections: Mapping[str, ConnectionSettings],
    on_progress: OnProgress = ignore_progress,
    slice: Slice | None = None,
) -> Report:
    """Run an audit once and store nothing. Never raises an error of the tree: the report says why nothing could be compared."""
    return perform(name, audit, connections, on_progress, slice=slice).report


def perform(
    name: str,
    audit: Audit,
    connections: Mapping[str, ConnectionSettings],
    on_progress: OnProgress = ignore_progress,
    *,
    run_id: str | None = None,
    checkpoint: Checkpoint | None = None,
    earlier: EarlierRuns | None = None,
    slice: Slice | None = None,
    reader: Reader | None = None,
) -> Outcome:
    """Run an audit once, or resume a run if ``earlier`` holds its plan; of a ``slice`` of its tables if there is one.

    With a ``reader``, which is open, the run reads through it, and in the snapshots that are open there; the caller closes it. Never raises
    an error of the tree: the report says why nothing could be compared.
    """
    given = checkpoint or NoCheckpoint(), earlier or EarlierRuns()
    return AuditRun(name, audit, connections, on_progress, run_id, *given, slice, reader).perform()


class AuditRun:
    """A run in progress: what it was given, and what it found so far."""

    def __init__(
        self,
        name: str,
        audit: Audit,
        connections: Mapping[str, ConnectionSettings],
        on_progress: OnProgress,
        run_id: str | None,
        checkpoint: Checkpoint,
        earlier: EarlierRuns,
        slice: Slice | None,
        reader: Reader | None = None,
    ) -> None:
        self.name = name
        self.run_id = run_id or uuid.uuid4().hex
        self.audit = _with_partition_size(audit, earlier.partition_size)
        self.checkpoint = checkpoint
        self.earlier = earlier
        self.slice = slice
        self.has_own_reader = reader is None
        self.reader = reader or Reader(
            name, {side: getattr(audit, side).connection for side in SIDES}, connections, _both(checkpoint.save_progress, on_progress)
        )
        self.plan: Plan | None = earlier.plan
        self.findings: Findings | None = None
        self.steps: list[Step] = []
        self.schema: Schemas = {}
        self.tables: Mapping[Side, Endpoint] = {}
        self.schema_changes: tuple[str, ...] = ()
        self.young = overdue.YoungRows()
        """The source's rows that this run left out."""
        self.changing = overdue.Changing()
        """The differences that were not confirmed."""
        self.share_read = 1.0
        """The share of the table's partitions that this run reads."""
        self.prescan_note = ""
        """What the pre-scan found."""

    def perform(self) -> Outcome:
        """Carry out the run and return its outcome, however it ended."""
        started, began = datetime.now(UTC), time.monotonic()
        state, found, exit_code = State.DONE, Verdict.UNKNOWN, Verdict.UNKNOWN.exit_code
        reasons: tuple[str, ...] = ()
        may_resume = True
        try:
            opened = self.reader.open() if self.has_own_reader else nullcontext()
            with self.checkpoint.keep_alive(self.reader.stop, self.reader.statements), opened:
                self._try_methods()
                self.reader.read_server_times()
            if self.findings:
                found, exit_code, reasons = self.findings.verdict, self.findings.verdict.exit_code, self._reasons(self.findings)
        except AuditorError as error:
            state, reasons, exit_code = State.FAILED, (masking.error_text(error, self.plan),), error.exit_code
            may_resume = allows_resume(error)
            log.info("the run failed", extra={"action": "run_failed", "audit": self.name, "error": type(error).__name__})
        except KeyboardInterrupt:
            self.reader.stop_requested = True
        if self.reader.stop_requested and found is Verdict.UNKNOWN:
            state, reasons, exit_code = State.CANCELLED, ("the run was cancelled",), Verdict.UNKNOWN.exit_code
        left_out = self._follow_left_out(started) if state is State.DONE else None
        report = self._report(state, found, reasons, exit_code, started, time.monotonic() - began)
        report = overdue.with_left_out(report, left_out, self.young, self.audit.overdue_after)
        map_ = partition_map.build(self.findings.aligned, self.findings.states) if self.findings else None
        return Outcome(report, map_, self.schema, left_out, may_resume)

    def _follow_left_out(self, began: datetime) -> LeftOut | None:
        """Return what this run and those before it did not compare; None for a slice, which takes no turn."""
        if self.plan is None or self.plan.slice:
            return None
        return overdue.follow(self.earlier.left_out, self.plan, self.young, self.changing, began, self.earlier.digest)

    def _try_methods(self) -> None:
        """Run the audit's method, or the levels of its ladder until one is the last that is needed."""
        tables = self.tables = introspect.describe_tables(self.reader, self.audit)
        self._compare_schemas(tables)
        methods = ladder.choose_methods(self.audit, self.earlier.differing_shares, ended_runs=self.earlier.ended_runs)
        resumed = self.earlier.plan
        if resumed and resumed.method in methods:
            methods = methods[methods.index(resumed.method) :]
        for method in methods:
            began = time.monotonic()
            if resumed:
                plan, resumed = self._resume_plan(resumed, method, tables), None
            else:
                plan = self._make_plan(method, tables)
                self.checkpoint.save_plan(plan, self.schema)
            findings = self.findings = self._examine(plan)
            if not ladder.escalates(self.audit, method, findings.verdict, findings.comparison, self.earlier.ended_runs):
                return
            self.steps.append(Step(method=method, verdict=findings.verdict, seconds=time.monotonic() - began, reasons=findings.reasons))
            self.findings = None  # the step reports it; beside the next level's plan it would pass for what that level found

    def _compare_schemas(self, tables: Mapping[Side, Endpoint]) -> None:
        """Compare both tables' columns with those of the last run. Raises SchemaChanged if the audit is strict about them."""
        self.schema = {side: schema_drift.describe_schema(end.table) for side, end in tables.items()}
        self.schema_changes = schema_drift.describe_changes(self.earlier.schema, self.schema)
        if self.schema_changes and self.audit.schema_ == "strict":
            raise SchemaChanged(
                f"the tables' columns changed since the last run that was done: {'; '.join(self.schema_changes)}; to accept them, write"
                " schema: note in this audit, run it once, and write schema: strict again"
            )
        for connection in self.reader.sides.values():
            connection.check_recovered = self._check_columns

    def _check_columns(self, side: Side, session: Session) -> None:
        """Raise ColumnsChanged if a table's columns are no longer those that the run found when it began."""
        now = schema_drift.describe_schema(introspect.describe_table(self.audit, side, session).table)
        if changes := schema_drift.describe_breaks(self.schema[side], now):
            raise ColumnsChanged(
                f"{side}: while the run read the table, {'; '.join(changes)}: nothing is claimed about rows read before and after that;"
                " run the audit again"
            )

    # plan and settle

    def _make_plan(self, method: Method, tables: Mapping[Side, Endpoint]) -> Plan:
        """Return the plan by which this run reads by a method; from here on a whole-table plan reads inside snapshots."""
        bound = self.plan.now if self.plan else ""  # by an earlier method of this run
        draft = build.draft_plan(self.name, self.audit, self.reader, tables, method, self.slice, bound)
        if draft.has_integer_key:
            by_range = replace(draft, partitioning=Partitioning(strategy="range", size=self.audit.partition.rows))
            self.reader.ask(lambda side, session: index_check.check_scan(by_range, side, session, self.reader.sides[side].settings))
        if draft.snapshot == "whole":
            self.reader.begin_snapshots()
        plan = build.finish_plan(draft, self.audit, self.reader, tables)
        if self.audit.salt == planner.RANDOM_SALT and plan.method in planner.SALTED_METHODS and plan.encoding != "published":
            plan = replace(plan, salt=secrets.token_hex(8))
        if self.earlier.choose_partitions and not self.slice:
            plan = build.restrict_to_partitions(plan, self.earlier.choose_partitions(plan))
        self.share_read = build.share_of_partitions(plan)
        found_by = self.steps[-1].method if self.steps and self.steps[-1].verdict is Verdict.MISMATCH else None
        plan = replace(plan, prescan=decide_prescan(plan, self.audit, self.earlier.unequal_shares, found_by))
        notes = self.reader.ask(lambda side, session: self._check_chunks(plan, side, session))
        self.plan = replace(plan, notes=(*plan.notes, *(note for note in notes.values() if note)))
        return self.plan

    def _check_chunks(self, plan: Plan, side: Side, session: Session) -> str | None:
        """Return how a side's chunks are read. Raises ScanRefused if no index serves those of a large table."""
        first = ChunkQueue.of_plan(plan, side).take() if plan.sides[side].chunk_keys else None
        statement = render.summary(plan, side, session.dialect, first) if first else ""
        return index_check.check_scan(plan, side, session, self.reader.sides[side].settings, statement)

    def _resume_plan(self, plan: Plan, method: Method, tables: Mapping[Side, Endpoint]) -> Plan:
        """Return the plan of the run that is resumed. Raises NotResumable if the tables' columns changed since."""
        now = planner.draft(self.name, self.audit, tables, method)
        if plan.hides_ranges or (now.columns, now.key) != (plan.columns, plan.key):
            self.plan = None
            raise NotResumable("the tables' columns, or how they are compared, changed since this run began: start a new one")
        if plan.snapshot == "whole":
            self.reader.begin_snapshots()
        self.share_read = build.share_of_partitions(plan)
        self.plan = watermark.renew(plan, self.audit, self.reader, tables)
        return self.plan

    # read, compare, locate, recheck, conclude

    def _examine(self, plan: Plan) -> Findings:
        """Return what differs between both sides, by a plan."""
        found = prescan.read(self.reader, plan, self.checkpoint)
        aligned, self.prescan_note = found.aligned, found.note
        if plan.watermark and not self.young.rows and not plan.slice:
            self.young = overdue.find_young_rows(self.reader, plan, aligned, found.assumed)
        self.reader.begin_snapshots()
        if self.earlier.plan and plan.method in ("signature", "minhash"):
            aligned = clear_equal_by_now(self.reader, plan, aligned)
        findings = Findings(aligned, self._compare(plan, aligned))
        if plan.method == "exact":
            self._locate_and_recheck(plan, findings)
        elif plan.method == "counts":
            findings.measures = deviations.deviations(plan, aligned, self.audit.counts)
            findings.measures += distributions.compare_distributions(plan, self.audit.counts, self.reader.ask)
        else:
            findings.jaccard = estimate_similarity(plan, aligned)
        if plan.method == "counts":
            findings.verdict, findings.reasons = deviations.verdict(findings.comparison, findings.measures)
        else:
            known = findings.comparison, findings.differences, findings.jaccard
            findings.verdict, findings.reasons = verdict.conclude(*known, self.audit.threshold)
        findings.verdict, findings.reasons = found.doubt(findings.verdict, findings.reasons)
        if findings.verdict is Verdict.MISMATCH and plan.watermark and not ladder.is_step(self.audit, plan.method):
            self._doubt_in_flight(plan, findings)
        self.reader.end_snapshots()
        self.reader.ask(self._check_columns)
        return findings

    def _compare(self, plan: Plan, aligned: Aligned) -> Comparison:
        """Return what the summaries say; unknown if all rows are still in flight."""
        score = self.audit.threshold.score if plan.method == "counts" else 1.0  # the other methods know a similarity
        comparison = compare(aligned, threshold=score, allow_empty=self.audit.allow_empty, label=plan.label)
        if comparison.total or not plan.watermark:
            return comparison
        if not any(self.reader.ask(lambda side, session: _count_rows(plan, side, session)).values()):
            return comparison
        sentence = f"every row is from the watermark {plan.watermark} UTC on, so nothing was compared yet; run it again later"
        return replace(comparison, verdict=Verdict.UNKNOWN, reasons=(sentence,))

    def _locate_and_recheck(self, plan: Plan, findings: Findings) -> None:
        """Find which rows differ, and recheck them if the audit asks for it or rows may be in flight."""
        self.reader.report("source", "naming differences")
        limits = self.audit.limits
        located: Located = locate_differences(self.reader, plan, findings.aligned, limits, resumed=self.earlier.plan is not None)
        differences, findings.jaccard, findings.states = located.differences, located.similarity(), located.states
        if (self.audit.recheck or plan.watermark) and (differences.missing or differences.extra or differences.changed):
            spans = first_suspects(self.reader, plan, differences.ranges, one_snapshot=located.saw_one_snapshot)
            self.reader.end_snapshots()
            self.reader.ask(self._check_columns)
            now = watermark.renew(plan, self.audit, self.reader, self.tables)
            rechecked = look_again(self.reader, now, differences, spans, self.audit.recheck, limits.value_length)
            differences = rechecked.differences
            self.changing = overdue.Changing(rechecked.left_out, rechecked.unsettled_ranges)
            findings.jaccard = located.similarity(rechecked.cleared, rechecked.unsettled)
        described = patterns.describe(plan, differences, min(findings.comparison.rows.values()))
        findings.differences = with_readable_keys(described, plan)

    def _doubt_in_flight(self, plan: Plan, findings: Findings) -> None:
        """Claim nothing if no row is known to differ, and rows in flight can be all that does."""
        chosen = in_flight.find_unexplained(plan, findings.aligned, findings.differences, findings.states, findings.measures)
        if chosen is None:
            return
        self.reader.report_both("counting the rows in flight")
        self.reader.end_snapshots()
        self.reader.begin_snapshots()  # as the tables are now
        now = watermark.renew(plan, self.audit, self.reader, self.tables)
        if young := in_flight.count_explaining(self.reader, now, findings.aligned, chosen):
            findings.verdict, findings.reasons = verdict.unknown_in_flight(findings.reasons, young, named=plan.method == "exact")

    def _reasons(self, findings: Findings) -> tuple[str, ...]:
        """Return the reasons of the verdict, with what it does not speak of: the rows outside a slice, and ambiguous row texts."""
        if self.plan is None:
            return findings.reasons
        outside = [f"only {self.plan.slice} were compared; nothing is said of others"] if self.plan.slice else []
        ambiguous = [planner.AMBIGUITY] if self.plan.encoding == "published" and findings.verdict is Verdict.MATCH else []
        return (*outside, *findings.reasons, *ambiguous)

    def _report(self, state: State, found: Verdict, reasons: tuple[str, ...], exit_code: int, began: datetime, seconds: float) -> Report:
        """Return the report of the run as far as it got."""
        findings, plan = self.findings, self.plan
        return Report(
            audit=self.name,
            run=self.run_id,
            state=state,
            verdict=found,
            reasons=reasons,
            exit_code=exit_code,
            began=began,
            seconds=seconds,
            method=plan.method if plan else None if self.audit.method == "auto" else self.audit.method,
            plan=plan,
            comparison=findings.comparison if findings else None,
            differences=findings.differences if findings else None,
            jaccard=findings.jaccard if findings else None,
            measures=findings.measures if findings else (),
            cost=self.reader.costs(),
            servers=self.reader.servers(),
            steps=tuple(self.steps),
            schema_changes=self.schema_changes,
            covered=self.share_read,
            slice=plan.slice if plan else self.slice,
            retries=sum(connection.retries for connection in self.reader.sides.values()),
            notes=notes_of(
                self.reader,
                plan,
                findings.comparison if findings else None,
                findings.differences.named if findings and findings.differences is not None else (),
                schema_changes=self.schema_changes,
                is_resumed=self.earlier.plan is not None,
                asks_recheck=self.audit.recheck is not None,
                share_read=self.share_read,
                prescan=self.prescan_note,
            ),
        )


def _with_partition_size(audit: Audit, size: int | None) -> Audit:
    """Return the audit with partitions of ``size`` keys, unless it sets its own or there is none."""
    if not size or audit.partition.size:
        return audit
    return audit.model_copy(update={"partition": audit.partition.model_copy(update={"size": size})})


def _both(first: OnProgress, second: OnProgress) -> OnProgress:
    def on_progress(progress: Progress) -> None:
        first(progress)
        second(progress)

    return on_progress


def _count_rows(plan: Plan, side: Side, session: Session) -> int:
    """Return how many rows a side has, those in flight among them."""
    here = plan.sides[side]
    return int(session.query(render.count(session.dialect, here.table, here.where or "1 = 1"))[0][0])
