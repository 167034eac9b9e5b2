"""One run of one audit: introspect, plan, settle, read, compare, locate, recheck, conclude.

A run always ends in a report. A side that fails makes the verdict unknown, never match.
"""

from __future__ import annotations

import logging
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from auditor.background import Interruption
from auditor.compare import comparator, deviations, patterns, verdict
from auditor.compare.text_forms import MOST_CHARACTERS, as_shown
from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.errors import AuditorError, HistoryUnusable, LiveSummariesUnusable, LiveSummariesWrong, NotResumable, SessionSwitched
from auditor.history.handover import Checkpoint, EarlierRuns, NoCheckpoint, Outcome, Schemas, allows_resume
from auditor.history.left_out import LeftOut
from auditor.masking import error_text
from auditor.model import Method, Partitioning, Plan, Progress, Report, Side, Slice, State, Step, TopicSide, Verdict
from auditor.planning import build, introspect, planner, shards, watermark
from auditor.planning.columns import Endpoint
from auditor.planning.cost import choose_methods, escalates, is_step
from auditor.planning.prescan import cut_by_key
from auditor.planning.prescan import decide as decide_prescan
from auditor.planning.schema_drift import check_columns, compare_schemas
from auditor.planning.writes import choose_by_writes
from auditor.run import in_flight, prescan
from auditor.run.alignment import NOT_STORED, Aligner, Holds
from auditor.run.conventions import describe_conventions
from auditor.run.cross_checks import CrossChecks
from auditor.run.findings import Findings, compare_summaries, name_shards_of_ranges, notes_of, reasons_of, shard_results
from auditor.run.locate import Located, clear_equal_by_now, estimate_similarity, locate_differences
from auditor.run.scan import check_chunks, check_scan
from auditor.run.topics import TopicReader, check_keys, judge, notes_of_topics
from dialects import Session

if TYPE_CHECKING:
    from auditor.run.file_summaries import FileSummaries, KeptSums
    from auditor.run.live.summaries import LiveSummaries, LiveSums
    from auditor.run.row_history import RowLookup, VersionHistory

# What only some audits ask for is imported where one does, as it takes long to load: sums of the stream and of files, versions of rows,
# distributions, and the recheck of rows that differ.

log = logging.getLogger(__name__)

FILES_NOT_STORED = "files: kept needs the store, which keeps their sums, so all files were read"
"""The note of a run that is not stored."""


def run(
    name: str,
    audit: Audit,
    connections: Mapping[str, ConnectionSettings],
    on_progress: OnProgress = ignore_progress,
    slice: Slice | None = None,
    topics: TopicReader | None = None,
    interruption: Interruption | None = None,
) -> Report:
    """Run an audit once and store nothing. Never raises an error of the tree: the report says why nothing could be compared."""
    return perform(name, audit, connections, on_progress, slice=slice, topics=topics, interruption=interruption).report


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
    holds: Holds | str = NOT_STORED,
    sums: LiveSums | str = NOT_STORED,
    rescan: bool = False,
    topics: TopicReader | None = None,
    history: VersionHistory | None = None,
    files: KeptSums | None = None,
    interruption: Interruption | None = None,
) -> Outcome:
    """Run an audit once, or resume a run if ``earlier`` holds its plan; of a ``slice`` of its tables if there is one.

    With a ``reader``, which is open, the run reads through it, and in the snapshots that are open there; the caller closes it. ``holds``
    is how the pipelines of an audit with ``align`` are asked, ``sums`` what one keeps of an audit with ``summaries: live``, or why they
    cannot be; ``rescan`` asks for a scan of the source in spite of them. ``topics`` reads the sides that are topics, and ``history`` has
    the versions of an audit with ``history``. ``files`` are the sums that are kept of files for an audit with ``files``, all of which
    ``rescan`` reads again. An ``interruption`` cancels the run. Never raises an error
    of the tree: the report says why nothing could be compared.
    """
    given = checkpoint or NoCheckpoint(), earlier or EarlierRuns()
    live_summaries, kept = None, None
    if audit.summaries and slice is None:
        from auditor.run.live.summaries import LiveSummaries

        live_summaries = LiveSummaries(audit, sums, rescan)
    if audit.files and files is not None and slice is None:
        from auditor.run.file_summaries import FileSummaries

        kept = FileSummaries(audit, files, rescan)
    run = AuditRun(name, audit, connections, on_progress, run_id, *given, slice, reader, holds, live_summaries, topics, history, kept)
    with interruption.calling(run.reader.stop) if interruption else nullcontext():
        return run.perform()


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
        holds: Holds | str = NOT_STORED,
        live_summaries: LiveSummaries | None = None,
        topics: TopicReader | None = None,
        history: VersionHistory | None = None,
        files: FileSummaries | None = None,
    ) -> None:
        self.files = files
        """What the run does with sums that are kept of files; None for an audit that keeps none, for a slice, and for a run that is not
        stored."""
        self.topic_reader = topics
        self.history = history
        self.topics: Mapping[Side, TopicSide] = {}
        """What was found of the sides that are topics."""
        connections = {**connections, **topics.connections} if topics else connections
        self.live_summaries = live_summaries
        """What the run does with live summaries; None for an audit without them, and for a slice."""
        self.name = name
        self.run_id = run_id or uuid.uuid4().hex
        self.aligner = Aligner(_with_partition_size(audit, earlier.partition_size), holds)
        self.audit = self.aligner.audit
        """The audit as it is carried out, which depends on whether the run is aligned."""
        self.checkpoint = checkpoint
        self.earlier = earlier
        self.slice = slice
        self.has_own_reader = reader is None
        names = {side: table.connection for side, table in audit.places.items()}
        progress = _both(checkpoint.save_progress, on_progress)
        self.reader = reader or Reader(name, names, connections, progress, budget=audit.budget)
        self.plan: Plan | None = earlier.plan
        self.findings: Findings | None = None
        self.steps: list[Step] = []
        self.schema: Schemas = {}
        self.tables: Mapping[Side, Endpoint] = {}
        self.schema_changes: tuple[str, ...] = ()
        self.young = in_flight.YoungRows()
        """The source's rows that this run left out."""
        self.changing = in_flight.Changing()
        """The differences that were not confirmed."""
        self.share_read = 1.0
        """The share of the table's partitions that this run reads."""
        self.prescan_note = ""
        """What the pre-scan found."""
        self.checks = CrossChecks(self.reader, earlier.proved)

    def perform(self) -> Outcome:
        """Carry out the run and return its outcome, however it ended."""
        started, began = datetime.now(UTC), time.monotonic()
        state, verdict, exit_code = State.DONE, Verdict.UNKNOWN, Verdict.UNKNOWN.exit_code
        reasons: tuple[str, ...] = ()
        may_resume = True
        try:
            with self._shared_costs():
                self.aligner.prepare(self.reader)
                with self.checkpoint.keep_alive(self.reader.stop, self.reader.statements):
                    self._read_topics()
                    with self.reader.open() if self.has_own_reader else nullcontext():
                        self._try_methods()
                        self.reader.end_snapshots()  # holds what was read in one that is open still
                        self.reader.read_server_times()
            if self.findings:
                reasons = reasons_of(self.findings, self.plan)
                verdict, reasons = judge(self.findings.verdict, reasons, self.findings.differences, self.topics)
                exit_code = verdict.exit_code
        except AuditorError as error:
            state, reasons, exit_code = State.FAILED, (error_text(error, self.plan),), error.exit_code
            may_resume = allows_resume(error)
            if isinstance(error, SessionSwitched):
                self.findings = None
                self.checks.counted.clear()
            log.info("the run failed", extra={"action": "run_failed", "audit": self.name, "error": type(error).__name__})
        except KeyboardInterrupt:
            self.reader.stop_requested = True
        if self.reader.stop_requested and verdict is Verdict.UNKNOWN:
            state, reasons, exit_code = State.CANCELLED, ("the run was cancelled",), Verdict.UNKNOWN.exit_code
        may_resume = may_resume and not (self.plan and self.plan.aligned) and not self.topics  # whose snapshots, and tables, are gone
        may_resume = may_resume and self.files is None  # a new run begins with the sums that this one kept
        left_out = self._follow_left_out(started) if state is State.DONE else None
        report = self._report(state, verdict, reasons, exit_code, started, time.monotonic() - began)
        report = in_flight.with_left_out(report, left_out, self.young, self.audit.overdue_after)
        map_ = comparator.build_partition_map(self.findings.aligned, self.findings.states) if self.findings else None
        return Outcome(report, map_, self.schema, left_out, may_resume, tuple(self.checks.counted))

    def _shared_costs(self) -> AbstractContextManager[None]:
        """Store what the run costs while it lasts, and hold it to the budgets of the day; who gave a reader does both for it."""
        return self.reader.budgets.shared(self.checkpoint.share_costs) if self.has_own_reader else nullcontext()

    def _read_topics(self) -> None:
        """Read the sides that are topics into the tables that the run reads. Raises AuditorError."""
        if self.topic_reader is None:
            return

        def report(side: Side, done: int, total: int) -> None:
            self.reader.report(side, "reading the topic", done, total)

        self.reader.ends_fixed = time.monotonic()
        self.topics = self.topic_reader.read(report, self.reader.stopped)

    def _follow_left_out(self, began: datetime) -> LeftOut | None:
        """Return what this run and those before it did not compare; None for a slice, which takes no turn."""
        if self.plan is None or self.plan.slice:
            return None
        return in_flight.follow(self.earlier.left_out, self.plan, self.young, self.changing, began, self.earlier.digest)

    def _try_methods(self) -> None:
        """Run the audit's method, or the levels of its ladder until one is the last that is needed."""
        if self.files:
            self.files.recall(self.reader)
        tables = self.tables = introspect.describe_tables(self.reader, self.audit)
        self._compare_schemas(tables)
        check_keys(self.audit, self.topics, tables)
        if self.live_summaries:
            self._compare_live(self.live_summaries, tables)
            return
        if self.files:
            self._compare_files(self.files, tables)
            return
        methods = choose_methods(self.audit, self.earlier.differing_shares, ended_runs=self.earlier.ended_runs)
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
            self.findings = self._examine(plan)
            if self.aligner.was_lost(self.reader):
                plan = self._make_plan(method, tables)
                self.checkpoint.save_plan(plan, self.schema)
                self.findings = self._examine(plan)
            findings = self.findings
            if not escalates(self.audit, method, findings.verdict, findings.comparison, self.earlier.ended_runs):
                return
            self.steps.append(Step(method=method, verdict=findings.verdict, seconds=time.monotonic() - began, reasons=findings.reasons))
            self.findings = None  # the step reports it; beside the next level's plan it would pass for what that level found

    def _compare_live(self, live_summaries: LiveSummaries, tables: Mapping[Side, Endpoint]) -> None:
        """Compare the target with the stream's sums of the source, or scan the source for these."""
        from auditor.run.live import comparison

        self.audit = self.aligner.audit
        method: Method = "signature" if self.audit.method == "signature" else "exact"
        draft = replace(build.draft_plan(self.name, self.audit, self.reader, tables, method, None), snapshot="whole")
        if chosen := live_summaries.choose(draft, self.reader.stopped):
            try:
                about = (self.audit, self.reader, tables, chosen, self.checks, self.files, self.earlier.unequal_shares)
                self.plan = plan = comparison.plan_target(*about)
                self.checkpoint.save_plan(plan, self.schema)
                given = (self.audit, self.reader, plan, live_summaries, self.aligner, self.checks, self.files)
                self.findings = comparison.compare_live(*given)
                self.prescan_note = self.findings.prescan
                self._end_files()
                self.reader.ask_each(self._check_columns)
                return
            except LiveSummariesWrong as error:
                live_summaries.give_up(error)
                self.reader.end_snapshots()
        with live_summaries.scanning():
            self.plan = comparison.begin_scan(self.audit, self.reader, tables, draft, live_summaries, self.aligner)
            if self.files:
                self.files.follow(self.reader, tables, self.plan, self.checks)
            self.checkpoint.save_plan(self.plan, self.schema)
            findings = self._examine(self.plan)
            if self.aligner.was_lost(self.reader):
                raise LiveSummariesUnusable(f"the source was scanned for live summaries, and {self.aligner.why_not}; run the audit again")
            comparison.save_scan(self.plan, findings, live_summaries, self.aligner)
            self.findings = findings
            self._end_files()

    def _compare_files(self, files: FileSummaries, tables: Mapping[Side, Endpoint]) -> None:
        """Compare by the sums that are kept of files, and read those of which there are none."""
        method: Method = "signature" if self.audit.method == "signature" else "exact"
        draft = self._draft_and_begin(method, tables)
        plan = files.make_plan(self.reader, tables, draft, self.checks)
        others = tuple(side for side in plan.read_sides if side not in files.read)
        self.plan = check_chunks(self.reader, plan, others) if others else plan
        self.checkpoint.save_plan(self.plan, self.schema)
        self.findings = self._examine(self.plan)
        self._end_files()

    def _end_files(self) -> None:
        """Note which files hold other rows than when their sums were kept, and that all were read, if they were."""
        if self.files and self.findings:
            self.findings.reasons += self.files.reasons
            self.files.prove()

    def _compare_schemas(self, tables: Mapping[Side, Endpoint]) -> None:
        """Compare both tables' columns with those of the last run. Raises SchemaChanged if the audit is strict about them."""
        self.schema, self.schema_changes = compare_schemas(self.audit, self.earlier.schema, tables)
        for connection in self.reader.sides.values():
            connection.check_recovered = self._check_columns

    def _check_columns(self, side: Side, session: Session) -> None:
        """Raise ColumnsChanged if a table's columns are no longer those that the run found when it began."""
        check_columns(self.audit, self.schema, side, session)

    # plan and settle

    def _make_plan(self, method: Method, tables: Mapping[Side, Endpoint]) -> Plan:
        """Return the plan by which this run reads by a method; from here on a whole-table plan reads inside snapshots."""
        draft = self._draft_and_begin(method, tables)
        plan = build.finish_plan(draft, self.audit, self.reader, tables)
        if self.audit.salt == planner.RANDOM_SALT and plan.method in planner.SALTED_METHODS and plan.encoding != "published":
            plan = replace(plan, salt=secrets.token_hex(8))
        if self.earlier.choose_partitions and not self.slice:
            plan = build.restrict_to_partitions(plan, self.earlier.choose_partitions(plan))
        self.share_read = build.share_of_partitions(plan)
        found_by = self.steps[-1].method if self.steps and self.steps[-1].verdict is Verdict.MISMATCH else None
        wanted = decide_prescan(plan, self.audit, self.earlier.unequal_shares, found_by, tables)
        plan = replace(plan, prescan=cut_by_key(self.reader, plan, wanted, tables))
        plan = choose_by_writes(self.reader, plan, self.audit, tables, self.earlier, found_by)
        self.plan = check_chunks(self.reader, plan)
        return self.plan

    def _draft_and_begin(self, method: Method, tables: Mapping[Side, Endpoint]) -> Plan:
        """Return the draft of a plan, with the snapshots open in which a whole-table plan reads: at one position if it is asked for."""
        bound = self.plan.now if self.plan else ""  # by an earlier method of this run
        self.audit = self.aligner.audit
        draft = build.draft_plan(self.name, self.audit, self.reader, tables, method, self.slice, bound)
        if draft.has_integer_key:
            by_range = replace(draft, partitioning=Partitioning(strategy="range", size=self.audit.partition.rows))
            self.reader.ask_each(lambda side, session: check_scan(by_range, side, session, self.reader.sides[side].settings))
        if self.aligner.is_wanted:
            names: dict[Side, Sequence[str]] = {side: end.table.names for side, end in tables.items() if side != "target"}
            is_aligned, alignment = self.aligner.begin(self.reader, draft, names), self.aligner.alignment
            return replace(draft, aligned=alignment.position) if is_aligned and alignment else self._draft_and_begin(method, tables)
        if draft.snapshot == "whole":
            self.reader.begin_snapshots()
        return draft

    def _resume_plan(self, plan: Plan, method: Method, tables: Mapping[Side, Endpoint]) -> Plan:
        """Return the plan of the run that is resumed. Raises NotResumable if the tables' columns changed since."""
        now = shards.draft(self.name, self.audit, tables, method)
        places = [[(each.sides[side].label, each.sides[side].query) for side in each.read_sides] for each in (now, plan)]
        if plan.hides_ranges or places[0] != places[1] or (now.columns, now.key) != (plan.columns, plan.key):
            self.plan = None
            raise NotResumable("the tables' columns, or how they are compared, changed since this run began: start a new one")
        if plan.snapshot == "whole":
            self.reader.begin_snapshots()
        if plan.prescan and plan.prescan.digest_rows:  # of which each is of a range that ends, where others read all that follows
            plan = introspect.widen_bounds(self.reader, plan)
        self.share_read = build.share_of_partitions(plan)
        self.plan = watermark.renew(plan, self.audit, self.reader, tables)
        return self.plan

    # read, compare, locate, recheck, conclude

    def _examine(self, plan: Plan) -> Findings:
        """Return what differs between both sides, by a plan."""
        if self.files:
            result = self.files.read_all(self.reader, plan, self.checkpoint, self.checks)
        else:
            result = prescan.read(self.reader, plan, self.checkpoint, count_chunks=self.checks.counts_chunks(plan))
        aligned, self.prescan_note = result.aligned, result.note
        if self.live_summaries:
            from auditor.run.live import comparison

            comparison.compare_scan(self.audit, self.reader, plan, self.live_summaries, aligned)
        if plan.watermark and not self.young.rows and not plan.slice:
            self.young = in_flight.find_young_rows(self.reader, plan, aligned, result.assumed)
        if not self.files:
            self.checks.hold(plan, result)
        self.reader.begin_snapshots()
        if self.earlier.plan and plan.method in ("signature", "minhash"):
            aligned = clear_equal_by_now(self.reader, plan, aligned)
        findings = Findings(aligned, compare_summaries(self.audit, self.reader, plan, aligned))
        if plan.method == "exact":
            self._locate_and_recheck(plan, findings, result.differing or plan)
        elif plan.method == "counts":
            findings.measures = deviations.deviations(plan, aligned, self.audit.counts)
            if self.audit.counts.classes or self.audit.counts.histogram:
                from auditor.run import distributions

                findings.measures += distributions.compare_distributions(plan, self.audit.counts, self.reader.ask)
        else:
            findings.jaccard = estimate_similarity(plan, aligned)
        if plan.method == "counts":
            findings.verdict, findings.reasons = deviations.verdict(findings.comparison, findings.measures)
        else:
            known = findings.comparison, findings.differences, findings.jaccard
            findings.verdict, findings.reasons = verdict.conclude(*known, self.audit.threshold, plan.undecided_documents)
        findings.verdict, findings.reasons = result.doubt(findings.verdict, findings.reasons)
        if findings.verdict is Verdict.MISMATCH and not is_step(self.audit, plan.method):
            if plan.watermark:
                self._doubt_in_flight(plan, findings)
            elif (why := self._why_not_aligned()) and not (self.audit.recheck or self.audit.history):
                findings.verdict, findings.reasons = verdict.unknown_unaligned(findings.reasons, why)
        compares_all = not (plan.slice or plan.partition_ranges or plan.watermark or self.audit.where or findings.comparison.skipped)
        findings.reasons += describe_conventions(self.reader, plan, findings, compares_all=compares_all)
        self.reader.end_snapshots()
        self.reader.ask_each(self._check_columns)
        return findings

    def _locate_and_recheck(self, plan: Plan, findings: Findings, differing: Plan) -> None:
        """Find which rows differ, among those of the plan ``differing``, and recheck them if the audit asks for it or rows may be in
        flight."""
        in_history = self._begin_history(plan)
        for side, rows in findings.comparison.rows.items():
            self.reader.report(side, "finding the rows that differ", rows, rows)
        limits = self.audit.limits
        located: Located = locate_differences(self.reader, differing, findings.aligned, limits, resumed=self.earlier.plan is not None)
        differences, findings.jaccard, findings.states = located.differences, located.similarity(), located.states
        if in_history and not differences:
            differences = replace(differences, history=in_history.of_nothing())
        elif in_history:
            self.reader.end_snapshots()
            self.reader.ask_each(self._check_columns)
            rechecked = in_history.look_up(differences)
            differences = rechecked.differences
            self.changing = in_flight.Changing(rechecked.left_out, rechecked.unsettled_ranges)
            findings.jaccard = located.similarity(rechecked.cleared, rechecked.unsettled)
        elif (self.audit.recheck or plan.watermark) and (differences.missing or differences.extra or differences.changed):
            from auditor.run.recheck import first_suspects, recheck_differences

            spans = first_suspects(self.reader, plan, differences.ranges, one_snapshot=located.saw_one_snapshot)
            self.reader.end_snapshots()
            self.reader.ask_each(self._check_columns)
            now = watermark.renew(plan, self.audit, self.reader, self.tables)
            rechecked = recheck_differences(
                self.reader, now, differences, spans, self.audit.recheck, max(limits.value_length, MOST_CHARACTERS)
            )
            differences = rechecked.differences
            self.changing = in_flight.Changing(rechecked.left_out, rechecked.unsettled_ranges)
            findings.jaccard = located.similarity(rechecked.cleared, rechecked.unsettled)
        differences = name_shards_of_ranges(self.reader, plan, differences)
        described = patterns.describe(plan, differences, min(findings.comparison.rows.values()))
        findings.differences = as_shown(described, plan, limits.value_length)

    def _begin_history(self, plan: Plan) -> RowLookup | None:
        """Let a pipeline keep the versions of the rows, and return what looks them up; None without history. Raises HistoryUnusable."""
        if self.audit.history is None:
            return None
        if self.history is None:
            raise HistoryUnusable("history: this run is not stored, so it cannot ask the pipeline; run it with a store")
        if {name.lower() for name in self.tables["source"].table.primary_key} != {column.name.lower() for column in plan.key_columns}:
            raise HistoryUnusable("history: versions are known by the source's primary key, and the audit compares by another key")
        from auditor.run.row_history import RowLookup

        by_history = self.history.begin(plan)
        return RowLookup(
            self.reader, by_history, self.history, self.audit.history.at_most, max(self.audit.limits.value_length, MOST_CHARACTERS)
        )

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

    def _why_not_aligned(self) -> str:
        """Return why a run that should be aligned is not, as a clause; empty if it is, or was not to be."""
        return "" if self.live_summaries and self.live_summaries.check else self.aligner.why_not

    def _report(self, state: State, verdict: Verdict, reasons: tuple[str, ...], exit_code: int, began: datetime, seconds: float) -> Report:
        """Return the report of the run as far as it got."""
        findings, plan = self.findings, self.plan
        return Report(
            audit=self.name,
            run=self.run_id,
            state=state,
            verdict=verdict,
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
            spent=self.reader.budgets.costs() if self.has_own_reader else (),
            servers=self.reader.servers(),
            steps=tuple(self.steps),
            statements=self.checks.statements,
            schema_changes=self.schema_changes,
            covered=self.share_read,
            slice=plan.slice if plan else self.slice,
            aligned=self.aligner.alignment if findings else None,
            not_aligned=self._why_not_aligned(),
            live=self.live_summaries.check if self.live_summaries and findings else None,
            files=dict(self.files.read) if self.files else {},
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
                live=self.live_summaries.note if self.live_summaries else "",
                files=self.files.note if self.files else FILES_NOT_STORED if self.audit.files and not self.slice else "",
                uncounted=self.checks.note,
            )
            + notes_of_topics(self.topics),
            shards=shard_results(self.reader, plan, findings, self.aligner.of_sides) if plan else (),
            topics=dict(self.topics),
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
