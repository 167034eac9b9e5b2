"""Runs that are stored: start, resume, execute and cancel them, and store how they ended. Loads the store's library."""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from auditor import telemetry
from auditor.background import Interruption
from auditor.config import Audit, Pipeline, Settings, TopicRef, find_carriers, find_chains
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.errors import NotResumable, StoreError
from auditor.escaping import command, shell_word
from auditor.history import records
from auditor.history.checkpoint import StoreCheckpoint
from auditor.history.handover import EarlierRuns, Outcome
from auditor.history.stored_plan import load_plan
from auditor.model import Plan, Report, Slice, State, Verdict, describe_other_settings
from auditor.pipeline import aligned, live, topic_side, versions
from auditor.pipeline.staged_writes import find_events
from auditor.run import audit_run
from auditor.service import definitions, planning
from auditor.service.definitions import apply_overrides, connections_of_run, definition_of_run, without_own_settings
from auditor.service.outcomes import SaveOutcome, check_evidence, save_outcome
from auditor.store import Store, events, patches, queue, run_lifecycle, runs
from auditor.store.runs import StoredRun

if TYPE_CHECKING:
    from auditor.history.rolling_table import RollingTable
    from auditor.run.file_summaries import KeptSums

log = logging.getLogger(__name__)


def start(
    settings: Settings,
    store: Store,
    name: str,
    overrides: Mapping[str, Any],
    on_progress: OnProgress,
    *,
    reason: str,
    requested_by: str,
    run: str = "",
    interruption: Interruption | None = None,
) -> Report:
    """Run an audit, store the run and record the event, as ``running.run_audit`` says; ``run`` is its id, if it has one already."""
    configured = definitions.audit(settings, name)
    overrides = without_own_settings(configured, overrides)
    audit, slice = apply_overrides(configured, overrides)
    if slice:
        planning.check_slice(settings, name, audit, slice)
    check_evidence(settings)
    run_id = run or uuid.uuid4().hex
    run_lifecycle.start_run(
        store,
        run=run_id,
        audit=name,
        definition=definition_of_run(settings, configured),
        method=None if audit.ladder or audit.method == "auto" else audit.method,
        reason=reason,
        requested_by=requested_by,
        overrides=overrides,
        event={"audit": name, "overrides": dict(overrides), "reason": reason},
    )
    checkpoint = StoreCheckpoint(store, run_id)
    return Execution(settings, name, audit, slice, overrides, checkpoint, None, on_progress, reason, interruption=interruption).execute()


def resume(
    settings: Settings,
    store: Store,
    run: str,
    on_progress: OnProgress = ignore_progress,
    *,
    requested_by: str = "",
    interruption: Interruption | None = None,
) -> Report:
    """Resume a run that ended early, from the chunks that were stored, and record the event.

    Raises UnknownRun, AlreadyRunning, NotResumable, and ConfigError if a connection of an ad-hoc run is no longer configured;
    everything else that goes wrong is in the report.
    """
    from auditor.service import audits  # which loads what lists of audits need

    stored = runs.get_run(store, run)
    if stored.audit in settings.segments:
        raise NotResumable(
            f"run {stored.run} compared segments, by a register that is kept; start a new one: auditor run {shell_word(stored.audit)}"
        )
    settings = definitions.settings_for_run(audits.with_defined_audits(settings, store), stored)
    if _but_budget(definition_of_run(settings, definitions.audit(settings, stored.audit))) != _but_budget(stored.definition):
        raise NotResumable(
            f"the settings of {stored.audit}, or of its connections, changed since run {stored.run} began; start a new one:"
            f" auditor run {shell_word(stored.audit)}"
        )
    if (saved := runs.get_plan(store, stored.run)) and load_plan(saved) is None:
        raise NotResumable(
            f"run {stored.run} was begun by another version of the auditor, whose statements are others; start a new one: auditor run"
            f" {stored.audit}"
        )
    if saved and (plan := load_plan(saved)) and plan.aligned:
        raise NotResumable(
            f"run {stored.run} was aligned, and its snapshots ended with it; start a new one: auditor run {shell_word(stored.audit)}"
        )
    if definitions.audit(settings, stored.audit).topics:
        raise NotResumable(
            f"run {stored.run} read a topic into a table that is gone; start a new one: auditor run {shell_word(stored.audit)}"
        )
    check_evidence(settings)
    resumed = run_lifecycle.resume_run(store, stored.run)
    checkpoint = StoreCheckpoint(store, stored.run)
    checkpoint.load()
    try:
        events.record_event(store, actor=requested_by, action="run resumed", subject=stored.run, detail={"audit": resumed.audit})
    except StoreError as error:  # which does not end the run that has begun
        checkpoint.failure = str(error)
    audit, slice = apply_overrides(definitions.audit(settings, resumed.audit), resumed.overrides)
    plan = load_plan(resumed.plan)
    about = (settings, resumed.audit, audit, slice, resumed.overrides)
    return Execution(*about, checkpoint, plan, on_progress, stored.reason, interruption=interruption).execute()


def _but_budget(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run without its budget, which may be raised to continue it."""
    return {name: value for name, value in definition.items() if name != "budget"}


def run_claimed(settings: Settings, store: Store, claimed: StoredRun, checkpoint: StoreCheckpoint, save: SaveOutcome) -> Report:
    """Execute a run that was claimed from the queue; resume it where it stands, unless its audit's settings changed since.

    Raises UnknownAudit and ConfigError if the audit no longer exists, and StoreError; everything else is in the report.
    """
    settings = definitions.settings_for_run(settings, claimed)
    check_evidence(settings)
    configured, plan = definitions.audit(settings, claimed.audit), None
    if (now := definition_of_run(settings, configured)) != claimed.definition:
        queue.update_definition(store, claimed.run, now)
    elif claimed.resumable and (stored_plan := runs.get_plan(store, claimed.run)):
        plan = load_plan(stored_plan)
        if plan is None:
            log.info("the stored plan is of another version; starting again", extra={"action": "restarted", "run": claimed.run})
        elif configured.topics:
            plan = None
            log.info("the tables of its topics are gone; starting again", extra={"action": "restarted", "run": claimed.run})
        elif plan.aligned:
            plan = None
            log.info("the snapshots of the aligned run are gone; starting again", extra={"action": "restarted", "run": claimed.run})
        else:
            checkpoint.load()
    audit, slice = apply_overrides(configured, claimed.overrides)
    execution = Execution(settings, claimed.audit, audit, slice, claimed.overrides, checkpoint, plan, ignore_progress, claimed.reason, save)
    return execution.execute()


def cancel(store: Store, run: str, wait: float = 0.0, *, by: str = "") -> StoredRun:
    """Ask a run to end, in whatever process it is, and record the event; return the run after at most ``wait`` seconds.

    A run that has ended stays as it is. Raises UnknownRun.
    """
    before = runs.get_run(store, run)
    stored = run_lifecycle.request_cancel(store, before.run)
    if before.ended is None:
        events.record_event(store, actor=by, action="run cancelled", subject=stored.run, detail={"audit": stored.audit})
    until = time.monotonic() + wait
    while stored.ended is None and time.monotonic() < until:
        time.sleep(0.2)
        stored = runs.get_run(store, stored.run)
    return stored


def rolling_table(store: Store, name: str) -> RollingTable | None:
    """Return the state of a rolling audit's whole table, from the latest run of each partition; None if its last run read all."""
    from auditor.history.rolling_table import load_rolling_table  # which runs of other audits do not need

    return load_rolling_table(store, name)


@dataclass(frozen=True, slots=True)
class Execution:
    """A stored run that is about to be executed."""

    settings: Settings
    name: str
    audit: Audit
    slice: Slice | None
    overrides: Mapping[str, Any]
    """The settings that differ from the audit's, already applied to ``audit``."""
    checkpoint: StoreCheckpoint
    plan: Plan | None
    """The plan of a run that is resumed."""
    on_progress: OnProgress
    reason: str
    """Why the run was asked for."""
    save: SaveOutcome = save_outcome
    interruption: Interruption | None = None
    """Cancels the run, unless it has a verdict already."""

    def execute(self) -> Report:
        """Return the run's report; log lines and spans carry the run and its audit."""
        log_fields = {"run": self.checkpoint.run, "audit": self.name}
        with telemetry.log_context(**log_fields), telemetry.span("run", **log_fields):
            return self._execute()

    def _execute(self) -> Report:
        """Run the audit and store the outcome; a store that fails loses nothing of the report, which then says so."""
        other_settings, audit = describe_other_settings(self.overrides), self.audit
        if other_settings:  # which may not change what the stream keeps for the audit itself
            audit = audit.model_copy(update={"summaries": None, "files": None})
        with topic_side.open_topics(self.settings, audit) as topics:
            outcome = audit_run.perform(
                self.name,
                audit,
                connections_of_run(self.settings, self.overrides),
                self.on_progress,
                run_id=self.checkpoint.run,
                checkpoint=self.checkpoint,
                earlier=self._earlier_runs(),
                slice=self.slice,
                holds=aligned.find_holds(self.settings, self.checkpoint.store, audit, topics),
                sums=live.find_sums(self.settings, self.checkpoint.store, self.name, audit),
                rescan=bool(self.overrides.get("rescan")),
                topics=topics,
                history=versions.find_history(self.settings, self.checkpoint.store, self.name, audit, is_own=not other_settings),
                files=_find_sums(self.checkpoint.store, self.name) if audit.files else None,
                interruption=self.interruption,
            )
        if outcome.report.state is not State.DONE or self.settings.evidence:  # which attests the chunks
            self.checkpoint.save_rest()
        outcome.report = replace(
            outcome.report,
            as_of=definitions.as_of(self.settings, self.name),
            resumable=_is_resumable(outcome, self.checkpoint),
            other_settings=other_settings,
            reason=self.reason,
            notes=(*outcome.report.notes, *self._pipeline_notes()),
        )
        outcome.report = with_suggestions(self.settings, self.checkpoint.store, self.audit, outcome)
        outcome.save_costs = self.checkpoint.save_costs
        try:
            self.save(self.checkpoint.store, outcome, self.settings)
        except StoreError as error:
            log.warning("the run could not be stored", extra={"action": "not_kept", "run": self.checkpoint.run})
            return _not_stored(outcome.report, str(error))
        if self.checkpoint.failure:
            return replace(outcome.report, notes=(*outcome.report.notes, f"the store failed: {self.checkpoint.failure}"))
        return outcome.report

    def _pipeline_notes(self) -> tuple[str, ...]:
        """Return what the pipelines that fill the audit's target left out; nothing if the store fails, which is reported elsewhere."""
        if not self.settings.pipelines:
            return ()
        try:
            return notes_on_pipelines(self.settings, self.checkpoint.store, self.audit)
        except StoreError as error:
            self.checkpoint.failure = self.checkpoint.failure or str(error)
            return ()

    def _earlier_runs(self) -> EarlierRuns:
        """Return what earlier runs left; nothing but the plan if the store fails."""
        try:
            with self.checkpoint.store.share_connection():
                earlier = records.load_earlier_runs(self.checkpoint.store, self.name, self.audit, self.settings.connections)
            earlier = replace(earlier, plan=self.plan, events=find_events(self.settings, self.checkpoint.store, self.audit))
        except StoreError as error:
            self.checkpoint.failure = str(error)
            return EarlierRuns(plan=self.plan)
        if self.slice:  # it takes no turn of a rolling audit
            return replace(earlier, choose_partitions=None, partition_size=None)
        return earlier


def _find_sums(store: Store, name: str) -> KeptSums:
    """Return the sums of files that a store keeps for an audit."""
    from auditor.store.file_sums import KeptFileSums  # which few audits need

    return KeptFileSums(store, name)


def _is_resumable(outcome: Outcome, checkpoint: StoreCheckpoint) -> bool:
    """Return whether a resume would read less than a new run, and need not fail as this one did."""
    ended_early = outcome.report.plan is not None and outcome.report.state in (State.FAILED, State.CANCELLED)
    return ended_early and outcome.may_resume and checkpoint.has_chunks and not checkpoint.failure


def _not_stored(report: Report, why: str) -> Report:
    """Return the report of a run that could not be stored: its findings stand, and the exit code says that something failed."""
    return replace(
        report, reasons=(*report.reasons, f"this run was not stored: {why}"), exit_code=Verdict.UNKNOWN.exit_code, resumable=False
    )


def with_suggestions(settings: Settings, store: Store, audit: Audit, outcome: Outcome) -> Report:
    """Return a run's report with suggestions where rows differ, and how to ask where they were lost.

    It is unchanged for an audit not configured, of a dump, or of shards.
    """
    report, target = outcome.report, outcome.schema.get("target")
    if report.verdict is not Verdict.MISMATCH:
        return report
    if report.audit not in settings.audits or audit.via or audit.shards or audit.target.connection not in settings.connections:
        return report
    from auditor.repair.suggestions import Rates, suggest  # which loads what only repairs need

    try:
        measured = patches.measure_rate(store, report.audit)
    except StoreError as error:
        log.info("the rate of earlier patches is not known: %s", error, extra={"action": "suggestions"})
        measured = None
    rates = Rates(patched=measured) if measured else Rates()
    target_key = target["primary_key"] if target else None
    suggestions = suggest(report, audit, settings.connections[audit.target.connection], rates, target_key)
    notes = report.notes
    if suggestions and is_traceable(settings, report.audit):
        notes = (*notes, f"at which hop rows were lost: {command('auditor', 'trace', report.run[:12])}")
    return dataclasses.replace(report, suggestions=suggestions, notes=notes)


def is_traceable(settings: Settings, name: str) -> bool:
    """Return whether it is known by what rows of an audit come to its target, so that they can be traced: a topic, or pipelines."""
    audit = settings.audits.get(name)
    if audit is None or audit.via or audit.shards or audit.queries or isinstance(audit.target, TopicRef):
        return False
    if audit.through:
        return True
    return len(find_chains(audit.one_source("a trace"), audit.target, settings.pipelines, settings.connections)) == 1


def notes_on_pipelines(settings: Settings, store: Store, audit: Audit) -> tuple[str, ...]:
    """Return sentences on each stretch of events of the audited table that never reached the target, on the pipelines' sources, and on who
    owns the table and what it holds, as its pipelines say. Raises StoreError.
    """
    carried = _carried(settings, audit)
    told = [line for name, _, table in carried for line in _about(name, table, settings.pipeline(name))]
    return tuple(dict.fromkeys([*(line for carrier in carried for line in _lines(store, *carrier)), *told]))


def _about(name: str, table: str, pipeline: Pipeline) -> Iterator[str]:
    """Yield who owns a table, what it holds, and what its columns hold."""
    rules = pipeline.columns_of(table.partition(".")[2])
    if rules.owner:
        yield f"pipeline {name}: {rules.owner} owns {table}"
    if rules.doc:
        yield f"pipeline {name}: {table} holds: {rules.doc}"
    if rules.docs:
        yield f"pipeline {name}: columns of {table}: {'; '.join(f'{column}: {doc}' for column, doc in rules.docs.items())}"


def _carried(settings: Settings, audit: Audit) -> list[tuple[str, str, str]]:
    """Return the pipelines and targets that bring the audit's source, or a shard of it, to its target, with the table of the stream."""
    return [
        (carrier.pipeline, carrier.target, f"{carrier.database}.{carrier.output}")
        for source in audit.sources
        for carrier in find_carriers(source, audit.target, settings.pipelines, settings.connections)
    ]


def _lines(store: Store, name: str, target: str, table: str) -> list[str]:
    from auditor.pipeline.poison import log_file, place_of, skipped_line  # which loads what only pipelines need
    from auditor.store import pipelines, table_notes

    lines = [f"pipeline {name}: {note}" for note in pipelines.get_pipeline(store, name).progress.notes]
    for note in table_notes.list_notes(store, name):
        if note.reason and note.target in ("", target) and note.table == table:
            place = place_of(note, log_file(store, name))
            if note.skip:
                lines.append(f"pipeline {name}: {skipped_line(note.events, place)} by {note.skip.by}: {note.skip.reason}")
            else:
                lines.append(f"pipeline {name}: the target stands still at {place}: {note.reason}")
    return lines
