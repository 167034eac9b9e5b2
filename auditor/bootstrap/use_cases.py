"""Copy a target's table, or a range of it, again: choose the rows, plan, copy or continue, audit again, show, claim by schedule, drop."""

from __future__ import annotations

import datetime as dt
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from auditor.api_models.bootstrap import Bootstrap, CopiedRange, CopyProgress
from auditor.api_models.bootstrap import BootstrapPlan as ShownPlan
from auditor.bootstrap import stages
from auditor.bootstrap.job import BootstrapJob, Executors, RunTasks
from auditor.bootstrap.plan import EVERYTHING, BootstrapPlan, Road
from auditor.bootstrap.verifying import differing_ranges
from auditor.config import Audit, Schedule, Settings, SparkCopy, TableRef, describe_unknown
from auditor.connections.reader import OnProgress, ignore_progress
from auditor.errors import AuditorError, BootstrapRefused, ConfigError
from auditor.escaping import shell_word
from auditor.history import records
from auditor.masking import MASK
from auditor.model import Chunk, Report, Verdict, consecutive_ranges
from auditor.repair.keys import Selection
from auditor.repair.target_facts import ACCEPTABLE
from auditor.service import audits, cron, definitions, patches, running
from auditor.service.definitions import apply_overrides
from auditor.store import Store, audit_state, bootstraps, queue, repairs, runs
from auditor.store.bootstraps import Bootstrap as StoredBootstrap

DIFFERING = "differing"
"""What stands for the partitions that differed."""

MOST_SPANS = 200
"""Ranges of keys in one bootstrap: their conditions stand in each of its statements."""


def choose_spans(store: Store, name: str, audit: Audit, keys: Mapping[str, int] | None, partitions: str) -> tuple[Chunk, ...]:
    """Return the ranges of keys to copy, ascending. Raises ConfigError, and BootstrapRefused for what has no such ranges."""
    if keys and partitions:
        raise ConfigError("--keys and --partitions both choose rows; leave one out")
    if partitions:
        return _partitions(store, name, partitions)
    _, slice = apply_overrides(audit, {"keys": dict(keys)} if keys else {})
    if slice is None:
        return EVERYTHING
    return (Chunk(slice.first, None if slice.last is None else slice.last + 1),)


def _partitions(store: Store, name: str, written: str) -> tuple[Chunk, ...]:
    """Return the ranges of keys of partitions of the last run, given by their numbers or by ``differing``."""
    last_runs = runs.list_runs(store, audit=name, state="done", limit=1)
    report = records.load_report(store, last_runs[0].run) if last_runs else None
    if report is None or report.plan is None:
        raise BootstrapRefused(f"{name} has no run whose partitions could be copied anew; run it first: auditor run {shell_word(name)}")
    how = report.plan.partitioning
    if how.strategy != "range" or report.plan.hides_ranges:
        what = "masked" if report.plan.hides_ranges else {"whole": "the whole table"}.get(how.strategy, f"by {how.strategy}")
        raise BootstrapRefused(
            f"the partitions of run {report.run} are {what}, not ranges of keys that could be shown; copy a range with --keys, or the table"
        )
    numbers = _differing(report) if written == DIFFERING else _parse(written)
    spans = consecutive_ranges(numbers)
    if len(spans) > MOST_SPANS:
        raise BootstrapRefused(
            f"these partitions are {len(spans):,} ranges of keys, and one bootstrap copies at most {MOST_SPANS}; copy the range around them"
            " with --keys, or the table"
        )
    return tuple(Chunk(first * how.size, (last + 1) * how.size) for first, last in spans)


def _differing(report: Report) -> list[int]:
    divergent = report.comparison.divergent if report.comparison else ()
    if not divergent:
        raise BootstrapRefused(f"no partition differed in run {report.run} of {report.audit}; name partitions, or use --keys")
    if any(partition.partition is None for partition in divergent):
        raise BootstrapRefused(f"rows without a key differed in run {report.run} of {report.audit}, which have no range; copy the table")
    return [partition.partition for partition in divergent if partition.partition is not None]


def _parse(written: str) -> Sequence[int]:
    numbers: set[int] = set()
    for part in written.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,19})(?:\.\.(-?\d{1,19}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > 1_000_000:
            raise ConfigError(f"--partitions {written}: write numbers of partitions such as 3,7..9, or {DIFFERING}")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


SHOWN = 3
"""Ranges of keys that are named."""


def show(store: Store, stored: StoredBootstrap) -> Bootstrap:
    """Return the status of a bootstrap."""
    detail, copied = stored.detail, bootstraps.list_ranges(store, stored.bootstrap).values()
    progress = CopyProgress(
        ranges=len(copied),
        of_ranges=len(detail["ranges"]),
        rows=sum(int(copied_range["rows"]) for copied_range in copied),
        of_rows=int(detail["rows"]),
        bytes=sum(int(copied_range["bytes"]) for copied_range in copied),
    )
    return Bootstrap(
        bootstrap=stored.bootstrap,
        audit=stored.audit,
        state=stored.state,
        stage=stored.stage,
        requested_by=stored.requested_by,
        at=stored.at,
        is_at_work=stored.state == "running" and bootstraps.is_at_work(store, stored.bootstrap),
        source=str(detail["source"]),
        keys=MASK if detail.get("forgotten") else describe_keys([(span["first"], span["end"]) for span in detail["spans"]]),
        swap=detail["swap"],
        old=str(detail["old"]),
        old_dropped=bool(detail.get("old_dropped")),
        why="" if stored.state in ("done", "dropped") else str(detail.get("why", "")),
        progress=progress,
        after_run=detail.get("after"),
    )


def describe_keys(spans: Sequence[tuple[int | None, int | None]]) -> str:
    """Return ranges of keys (first, end) for a person; empty if there is one without bounds."""
    if list(spans) == [(None, None)]:
        return ""
    shown = [f"{'' if first is None else f'{first:,}'}..{'' if end is None else f'{end - 1:,}'}" for first, end in spans[:SHOWN]]
    more = f" and {len(spans) - SHOWN:,} further ranges" if len(spans) > SHOWN else ""
    return f"{', '.join(shown)}{more}"


def list_copied(store: Store, stored: StoredBootstrap) -> list[CopiedRange]:
    """Return the ranges that were copied, in order, with their bounds; none of a bootstrap that had to forget a key."""
    if stored.detail.get("forgotten"):
        return []
    ranges, copied = stored.detail["ranges"], bootstraps.list_ranges(store, stored.bootstrap)
    return [_copied(number, ranges[number], copied[number]) for number in sorted(copied)]


def _copied(number: int, bounds: Mapping[str, Any], entry: Mapping[str, Any]) -> CopiedRange:
    return CopiedRange(
        number=number,
        first=bounds["first"],
        end=bounds["end"],
        rows=entry["rows"],
        bytes=entry["bytes"],
        sha256=entry["sha256"],
        snapshot=entry["snapshot"],
    )


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
) -> stages.Prepared:
    """Return the plan of a bootstrap, and the one that it would go on with. Raises what `plan_bootstrap` raises."""
    return stages.prepare(_job(settings, store, name, keys, source, partitions, followed, spreading))


def command(name: str, keys: Mapping[str, int], source: str, partitions: str) -> str:
    """Return the command that carries a bootstrap out."""
    options = [f"--keys {keys.get('from', '')}..{keys.get('to', '')}"] if keys else []
    options += [f"--partitions {shell_word(partitions)}"] if partitions else []
    options += [f"--from {shell_word(source)}"] if source else []
    return " ".join(["auditor bootstrap", shell_word(name), *options, "--apply"])


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
    done = stages.run(job, lambda prepared: followed.on_plan(describe_plan(prepared)))
    after, patched, why = _settle(settings, store, job, done.bootstrap, followed)
    detail = {"rows": done.rows, **({"after": after.run} if after else {})}
    bootstraps.save_stage(store, done.bootstrap, "settled", detail)
    bootstraps.end_bootstrap(store, done.bootstrap, "done")
    return BootstrapResult(done.bootstrap, done.rows, done.old, after, patched, why)


def drop_left(settings: Settings, store: Store, name: str, followed: Followed = NOBODY) -> list[str]:
    """Drop the tables that bootstraps of an audit's target left, and return their names. Raises BootstrapRefused and EngineError."""
    return stages.drop_left(_job(settings, store, name, None, "", "", followed))


def find_left(settings: Settings, store: Store, name: str, followed: Followed = NOBODY) -> list[str]:
    """Return the tables that `drop_left` would drop; nothing is written. Raises BootstrapRefused and EngineError."""
    return stages.find_left(_job(settings, store, name, None, "", "", followed))


def show_plan(prepared: stages.Prepared, command: str) -> ShownPlan:
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


def describe_plan(prepared: stages.Prepared) -> str:
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
    return f"keys {describe_keys([(span.first, span.end) for span in plan.spans])}"


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
    audit.check_plain("a bootstrap")
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
    from auditor.pipeline.executors import run_on_executors

    run: RunTasks = partial(run_on_executors, spark.master, stopped)
    return Executors(f"Spark at {spark.master}", str(spreading.config_file.resolve()), above, run)


def _from_replica(settings: Settings, store: Store, name: str, audit: Audit, source: str) -> Audit:
    """Return the audit with a replica as its source. Raises BootstrapRefused unless the replica matched the source lately."""
    if source not in settings.connections:
        raise BootstrapRefused(describe_unknown("connection", source, settings.connections))
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
            levels = replica_audit.target.renamed or replica_audit.where or replica_audit.columns.override or replica_audit.columns.include
            if is_whole and age <= most and not levels and set(replica_audit.columns.exclude) <= set(audit.columns.exclude):
                return audit.model_copy(update={"source": TableRef(connection=source, table=replica_audit.target.table)})
    raise BootstrapRefused(
        f"{source} is not known to hold what the source of {name} holds: no audit of the two matched within {most / 3600:g} hours, with all"
        f" rows and columns; run one that compares {copied.label} with {source}, or read the source itself"
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
    note = f"bootstrap {done[:12]}; run {report.run[:12]} checked it again: {report.verdict.value}"
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


def claim_due(settings: Settings, store: Store, now: dt.datetime, by: str) -> list[str]:
    """Claim the due bootstraps of ``schedule: {bootstrap: ...}``, and return their audits. Raises StoreError.

    As for runs, only the last of several missed ticks counts, and an audit without any claim has missed nothing. Paused audits are skipped.
    """
    claimed = []
    for name, tick, is_due in _open_ticks(settings, store, now):
        if queue.claim_tick(store, _claimed_as(name), tick, by if is_due else f"{by}: first seen") and is_due:
            claimed.append(name)
    return claimed


def find_due(settings: Settings, store: Store, now: dt.datetime) -> list[str]:
    """Return the audits whose bootstraps `claim_due` would claim; nothing is claimed. Raises StoreError."""
    return [name for name, _, is_due in _open_ticks(settings, store, now) if is_due]


def _open_ticks(settings: Settings, store: Store, now: dt.datetime) -> Iterator[tuple[str, dt.datetime, bool]]:
    """Yield each audit whose bootstrap has a tick that nobody claimed, the tick, and whether it is due."""
    from auditor.service.scheduler import MISSED_AFTER  # which loads what only the service needs

    states = audit_state.get_states(store)
    for name, audit in audits.with_defined_audits(settings, store).audits.items():
        if audit.schedule is None or not audit.schedule.bootstrap or audit_state.is_paused(states, name):
            continue
        schedule, claimed_as = _ticks(audit.schedule), _claimed_as(name)
        tick = cron.last_tick(schedule, now, claimed_as)
        if tick is None or queue.list_claimed_audits(store, {claimed_as: tick}, now):
            continue
        is_on_time = now - tick - cron.jitter_offset(schedule, claimed_as) <= MISSED_AFTER
        was_known = bool(queue.list_audits_with_claims(store, [claimed_as]))
        yield name, tick, is_on_time or (was_known and schedule.catch_up == "last")


def _claimed_as(name: str) -> str:
    """Return the name under which the ticks of an audit's bootstraps are claimed."""
    return f"bootstrap of {name}"


def _ticks(schedule: Schedule) -> Schedule:
    """Return the schedule of an audit's bootstraps."""
    assert schedule.bootstrap
    return schedule.model_copy(update={"cron": schedule.bootstrap, "bootstrap": None})
