"""Copy a target's table, or a range of it, anew: plan it, do it or go on with it, audit it again, and drop what it left."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.config import Audit, Settings, SparkCopy, TableRef
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.errors import AuditorError, BootstrapRefused
from auditor.escaping import shell_word
from auditor.history import records
from auditor.model import Report, Verdict
from auditor.repair.bootstrap import bootstrap
from auditor.repair.bootstrap.job import BootstrapJob, Executors, RunTasks
from auditor.repair.bootstrap.plan import BootstrapPlan, Road
from auditor.repair.bootstrap.verifying import differing_ranges
from auditor.repair.facts import ACCEPTABLE
from auditor.repair.keys import Selection
from auditor.service import audits, bootstrap_status, definitions, patches, running
from auditor.service.bootstrap_spans import choose_spans
from auditor.shapes.bootstrap import BootstrapPlan as ShownPlan
from auditor.store import bootstraps, repairs, runs

if TYPE_CHECKING:
    from auditor.store import Store

DEFAULT_MAX_AGE = 86400.0
"""Seconds after which a replica's match is too old to copy from it, where the target's connection has no ``write``."""


def ignore_plan(_: str) -> None:
    """Ignore the plan of a bootstrap."""


@dataclass(frozen=True, slots=True)
class Followed:
    """How a bootstrap is asked for, followed and stopped."""

    who: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)
    on_progress: OnProgress = ignore_progress
    on_plan: Callable[[str], None] = ignore_plan
    """Receives the plan before anything is written."""


@dataclass(frozen=True, slots=True)
class Spreading:
    """Whether a copy may be made by executors of Spark, as the target's connection says how (``write: {spark: ...}``)."""

    config_file: Path
    """The configuration, which the executors read themselves."""
    is_asked: bool = False
    """Whether they are to make it, however few its rows are."""


ROADS: Mapping[Road, str] = {
    "direct": "over the connection, without files",
    "files": "by files that the target reads",
    "executors": "by Spark: its executors read ranges into files, and load them",
}

PLANNED = Spreading(Path("auditor.yaml"))
"""By executors where the target's connection says so (``above``), for a plan that is not carried out here: nobody reads the file."""

NOBODY = Followed()
"""A bootstrap that nobody follows or stops."""


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """What a bootstrap did, and the run that looked at its rows afterwards."""

    bootstrap: str
    rows: int
    old: str
    """The table in which the replaced rows are."""
    after: Report | None
    patched: Mapping[str, int]
    """Rows that changed while it was copied and were patched afterwards, by what became of them."""
    not_settled: str = ""
    """Why the rows were not audited again, or what still differs not patched."""


def plan_bootstrap(
    settings: Settings,
    store: Store,
    name: str,
    keys: Mapping[str, int] | None = None,
    source: str = "",
    partitions: str = "",
    followed: Followed = NOBODY,
    spreading: Spreading | None = None,
) -> str:
    """Return the plan of a bootstrap for a person; nothing is written. Raises BootstrapRefused, ConfigError, PlanError and EngineError."""
    return describe_plan(prepare(settings, store, name, keys, source, partitions, followed, spreading))


def prepare(
    settings: Settings,
    store: Store,
    name: str,
    keys: Mapping[str, int] | None,
    source: str,
    partitions: str,
    followed: Followed = NOBODY,
    spreading: Spreading | None = None,
) -> bootstrap.Prepared:
    """Return the plan of a bootstrap, and the one that it would go on with. Raises what `plan_bootstrap` raises."""
    return bootstrap.prepare(_job(settings, store, name, keys, source, partitions, followed, spreading))


def command(name: str, keys: Mapping[str, int], source: str, partitions: str) -> str:
    """Return the command that carries a bootstrap out."""
    options = [f"--keys {keys.get('from', '')}..{keys.get('to', '')}"] if keys else []
    options += [f"--partitions {shell_word(partitions)}"] if partitions else []
    options += [f"--from {shell_word(source)}"] if source else []
    return " ".join(["auditor bootstrap", shell_word(name), *options])


def run_bootstrap(
    settings: Settings,
    store: Store,
    name: str,
    keys: Mapping[str, int] | None = None,
    source: str = "",
    partitions: str = "",
    followed: Followed = NOBODY,
    spreading: Spreading | None = None,
) -> BootstrapResult:
    """Copy the rows anew, bring them into the target, audit them again, and patch what changed meanwhile.

    Goes on with a bootstrap of the same table and keys that did not end. ``keys`` has the least and greatest key (``from``, ``to``), both
    inclusive; ``source`` is a connection to a replica to read; ``partitions`` are partitions of the last run by their numbers (``3,7..9``),
    or ``differing``. Raises what `plan_bootstrap` raises with nothing written; BootstrapFailed,
    StatementCancelled and EngineError with the table as it was.
    """
    patches.settle_dead(settings, store)
    job = _job(settings, store, name, keys, source, partitions, followed, spreading)
    done = bootstrap.run(job, lambda prepared: followed.on_plan(describe_plan(prepared)))
    after, patched, why = _settle(settings, store, job, done.bootstrap, followed)
    detail = {"rows": done.rows, **({"after": after.run} if after else {})}
    bootstraps.save_stage(store, done.bootstrap, "settled", detail)
    bootstraps.end_bootstrap(store, done.bootstrap, "done")
    return BootstrapResult(done.bootstrap, done.rows, done.old, after, patched, why)


def drop_left(settings: Settings, store: Store, name: str, followed: Followed = NOBODY) -> list[str]:
    """Drop the tables that bootstraps of an audit's target left, and return their names. Raises BootstrapRefused and EngineError."""
    return bootstrap.drop_left(_job(settings, store, name, None, "", "", followed))


def show_plan(prepared: bootstrap.Prepared, command: str) -> ShownPlan:
    """Return what a bootstrap would do; ``command`` does it."""
    plan = prepared.plan
    return ShownPlan(
        audit=plan.audit,
        text=describe_plan(prepared),
        source=plan.labels["source"],
        target=plan.labels["target"],
        rows=plan.rows,
        ranges=len(plan.ranges),
        bytes=plan.rows * plan.line_bytes,
        swap=plan.swap,
        why=plan.why,
        effects=list(plan.effects),
        command=command,
    )


def describe_plan(prepared: bootstrap.Prepared) -> str:
    """Return a plan for a person."""
    plan = prepared.plan
    size = plan.rows * plan.line_bytes
    ranges = "1 range" if len(plan.ranges) == 1 else f"{len(plan.ranges):,} ranges"
    kept = "" if plan.swap == "by commit" else f"; {plan.old} stays until --drop-old"
    lines = [
        f"bootstrap of {plan.audit}: {_keys(plan)} from {plan.labels['source']} to {plan.labels['target']}",
        f"  rows     about {plan.rows:,} in {ranges}, about {size / 1e6:,.1f} MB as text",
        f"  road     {ROADS[plan.road]}",
        f"  copy     into {plan.stage}, compared row by row with the snapshot that it is read in"
        if plan.is_one_moment
        else f"  copy     into {plan.stage}, each range read at a moment of its own, then compared row by row with one snapshot",
        f"  swap     {plan.swap}: {plan.why}",
        *(f"           {effect}" for effect in plan.effects),
        f"  after    the rows are audited again, and what changed meanwhile is patched{kept}",
    ]
    if prepared.resumed:
        resumed = prepared.resumed
        lines.append(
            f"  goes on  with bootstrap {resumed.bootstrap[:12]}, begun on {resumed.at:%Y-%m-%d %H:%M:%S} UTC, "
            f"{resumed.state} while {resumed.stage}"
        )
    return "\n".join(lines)


def _keys(plan: BootstrapPlan) -> str:
    if plan.is_whole:
        return "the whole table" if not plan.plan.sides["target"].where else "the rows of its filter"
    return f"keys {bootstrap_status.describe_keys([(span.first, span.end) for span in plan.spans])}"


def _job(
    settings: Settings,
    store: Store,
    name: str,
    keys: Mapping[str, int] | None,
    source: str,
    partitions: str,
    followed: Followed,
    spreading: Spreading | None = None,
) -> BootstrapJob:
    settings = audits.with_defined_audits(settings, store)
    audit = definitions.audit(settings, name)
    if audit.via or name not in settings.audits:
        raise BootstrapRefused(f"{name} compares a dump, which is older than its source; audit the source itself, and copy from that")
    audit.one_source("a bootstrap")
    spans = choose_spans(store, name, audit, keys, partitions)
    copied = _from_replica(settings, store, name, audit, source) if source else audit
    written = settings.connections[audit.target.connection].write
    spark = written.spark if written else SparkCopy()
    return BootstrapJob(
        store,
        name,
        copied,
        settings.connections,
        spans,
        followed.who,
        Path(spark.path or tempfile.gettempdir()),
        followed.stopped,
        followed.on_progress,
        _executors(spark, spreading, followed.stopped),
    )


def _executors(spark: SparkCopy, spreading: Spreading | None, stopped: threading.Event) -> Executors | None:
    """Return the executors that may make a copy; Spark is started when they are first needed."""
    above = -1 if spreading and spreading.is_asked else spark.above
    if spreading is None or above is None:
        return None
    from auditor.pipeline.copy import run_on_executors

    run: RunTasks = partial(run_on_executors, spark.master, stopped)
    return Executors(f"Spark at {spark.master}", str(spreading.config_file.resolve()), above, run)


def _from_replica(settings: Settings, store: Store, name: str, audit: Audit, source: str) -> Audit:
    """Return the audit with a replica as its source. Raises BootstrapRefused unless the replica matched the source lately."""
    if source not in settings.connections:
        raise BootstrapRefused(f"there is no connection {source!r}; write one under connections:")
    copied = audit.one_source("a bootstrap")
    write = settings.connections[audit.target.connection].write
    most = write.max_age if write else DEFAULT_MAX_AGE
    for other, replica_audit in settings.audits.items():
        if replica_audit.source != audit.source or replica_audit.target.connection != source:
            continue
        for run in runs.list_runs(store, audit=other, state="done", limit=1):
            age = (datetime.now(UTC) - (run.ended or run.started)).total_seconds()
            report = records.load_report(store, run.run)
            is_whole = report is not None and report.verdict is Verdict.MATCH and not report.slice and report.covered == 1
            levels = replica_audit.target.columns or replica_audit.where or replica_audit.columns.override or replica_audit.columns.include
            if is_whole and age <= most and not levels and set(replica_audit.columns.exclude) <= set(audit.columns.exclude):
                return audit.model_copy(update={"source": TableRef(connection=source, table=replica_audit.target.table)})
    raise BootstrapRefused(
        f"{source} is not known to hold what the source of {name} holds: no audit of the two matched within {most / 3600:g} hours, with all"
        f" rows and columns; run one that compares {copied.label} with {source}, or leave --from out"
    )


def _settle(settings: Settings, store: Store, job: BootstrapJob, done: str, followed: Followed) -> tuple[Report | None, Counter[str], str]:
    """Audit the copied rows again, and patch what changed while they were copied; return the last run, what was patched, and what went
    wrong."""
    try:
        report = _audit_again(settings, store, job, done, followed)
    except AuditorError as error:
        return None, Counter(), f"the copied rows were not audited again: {error}; run: auditor run {shell_word(job.name)}"
    patched, why = Counter[str](), ""
    if report.verdict is Verdict.MISMATCH:
        report, patched, why = _patch(settings, store, job, report, done, followed)
    note = f"bootstrap {done[:12]}; run {report.run[:12]} looked again: {report.verdict.value}"
    repairs.record_repair(store, run=report.run, audit=job.name, kind="bootstrap", note=note, who=followed.who, rows=None)
    return report, patched, why


def _audit_again(settings: Settings, store: Store, job: BootstrapJob, done: str, followed: Followed) -> Report:
    """Audit the copied keys, and those between them."""
    name, first, end = job.name, job.spans[0].first, job.spans[-1].end
    keys = {**({} if first is None else {"from": first}), **({} if end is None else {"to": end - 1})}
    overrides: dict[str, Any] = {"keys": keys} if keys else {}
    settings = audits.with_defined_audits(settings, store)
    if definitions.audit(settings, name).method not in ("exact", "auto"):
        overrides["method"] = "exact"
    reason = f"after bootstrap {done}"
    return running.run_audit(settings, name, followed.on_progress, store, reason=reason, requested_by=followed.who, overrides=overrides)


def _patch(
    settings: Settings, store: Store, job: BootstrapJob, report: Report, done: str, followed: Followed
) -> tuple[Report, Counter[str], str]:
    """Patch what differs in the copied ranges, and in no others; return the last run, what was patched, and what went wrong."""
    asked = patches.Followed(followed.who, ACCEPTABLE, followed.stopped, followed.on_progress)
    changed = differing_ranges(report, job.spans) if len(job.spans) > 1 else [0]
    counts, last = Counter[str](), report
    try:
        for span in [span for number, span in enumerate(job.spans) if changed is None or number in changed]:
            selection = Selection(first=span.first, last=None if span.end is None else span.end - 1, delete_extra=True)
            result = patches.apply_patch(settings, store, report.run, selection, asked)
            counts += result.patched.counts
            last = result.after or last
        if len(job.spans) > 1 and counts:
            last = _audit_again(settings, store, job, done, followed)
    except AuditorError as error:
        return last, counts, f"what changed while the rows were copied was not patched: {error}"
    return last, counts, ""
