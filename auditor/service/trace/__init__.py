"""Say at which hop of an audit's chain a row was lost: in pipelines of ours, or on its way through a topic of somebody else.

`rows` reads the rows of both sides and holds them against events. `pipelines` asks the log, the staged files and the merges of our own
pipelines, `through` the messages of the topic that the audit names. The first hop whose row is not what the hop before has of it is where
the row was lost.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auditor.api_models.trace import Hop, Outcome, Trace
from auditor.compare.accounting import Key
from auditor.config import Audit, Chain, Settings, TopicRef, find_chains
from auditor.connections.reader import OnProgress, Reader, ignore_progress
from auditor.errors import ConfigError, NoReport, RunOutdated, TraceRefused, UnknownRun
from auditor.escaping import visible
from auditor.history import records
from auditor.model import Plan, Report, Side
from auditor.planning import introspect, planner
from auditor.repair.keys import Selection, collect_keys
from auditor.service import audits, definitions
from auditor.service.trace.hops import HopAudits
from auditor.service.trace.pipelines import PipelineTrace
from auditor.service.trace.rows import KeyRows
from auditor.service.trace.through import TopicTrace
from auditor.store import Store, runs

HOP_NAMES: Mapping[Hop, str] = {
    "log": "lost between the source and its log",
    "staging": "lost between the log and the staged files",
    "publishing": "lost between the staged files and the topic",
    "reading": "lost between the topic and the files that were staged of it",
    "merge": "lost between the staged files and the target",
    "capture": "lost between the source and the topic",
    "sink": "lost between the topic and the target",
}

OUTCOMES: Mapping[Outcome, str] = {
    "equal": "equal by now",
    "in_flight": "in flight",
    "lost": "lost",
    "unknown": "cannot be told",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows are to be traced: those of ``keys``, or else the differences of the audit's last run."""

    keys: Sequence[str] = ()
    """As `parse_key` reads them."""
    limit: int = 20
    """Differences that are traced at most."""
    hops: bool = False
    """Whether each hop is audited as a whole, too; not with ``keys``."""
    stopped: threading.Event = field(default_factory=threading.Event)
    on_progress: OnProgress = ignore_progress


def trace(settings: Settings, store: Store, what: str, asked: Asked) -> Trace:
    """Trace rows of an audit, or of a run of one.

    Raises UnknownAudit, UnknownRun, NoReport, ConfigError for a key that is none, TraceRefused, and errors of both sides, the staging and
    the store.
    """
    settings = audits.with_defined_audits(settings, store)
    report = None if asked.keys and what in settings.audits else _find_report(settings, store, what)
    name = report.audit if report else what
    audit = definitions.audit(settings, name).model_copy(update={"settle": None})
    audit.check_plain("a trace")
    chain = None if audit.through else _find_chain(settings, audit)
    names: dict[Side, str] = {"source": audit.one_source("a trace").connection, "target": audit.target.connection}
    with Reader(name, names, settings.connections, asked.on_progress).open() as reader:
        plan = planner.draft(name, audit, introspect.describe_tables(reader, audit), "exact")
        further = 0
        if asked.keys:
            keys = [parse_key(plan, text) for text in asked.keys]
        else:
            assert report
            keys, further = _differing(store, report, plan, reader, asked.limit)
        rows, run = KeyRows(reader, plan, keys), None if asked.keys or not report else report.run
        if chain is None:
            found = TopicTrace(settings, audit, rows, asked.stopped).run(name, run, further)
        else:
            found = PipelineTrace(settings, store, audit, chain, rows, asked.stopped).run(name, run, further)
    if not asked.hops or asked.keys or not report:
        return found
    audited = HopAudits(settings, store, name, definitions.audit(settings, name), chain, report, asked.on_progress).run()
    return found.model_copy(update={"hops": audited})


def count_outcomes(found: Trace) -> str:
    """Return how many rows were lost at which hop, and how many were not: as a clause."""
    counts = Counter(HOP_NAMES[row.hop] if row.hop else OUTCOMES[row.outcome] for row in found.rows)
    return ", ".join(f"{count:,} {what}" for what, count in counts.items()) or "none differs"


def parse_key(plan: Plan, text: str) -> Key:
    """Return the key that a text names, as reports print it: of several columns with commas between, or as a JSON list.

    Raises ConfigError.
    """
    columns = [column.name for column in plan.key_columns]
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{visible(text)} is no JSON list: {error}") from error
    else:
        values = [one.strip() for one in ([text] if len(columns) == 1 else text.split(","))]
    if len(values) != len(columns):
        raise ConfigError(
            f"{visible(text)} has {len(values)} values, and the key has {len(columns)}: {', '.join(columns)}; write them in this order with"
            ' commas between, or as a JSON list: ["a,b", 7]'
        )
    return tuple(None if value is None else str(value) for value in values)


def _find_report(settings: Settings, store: Store, what: str) -> Report:
    """Return the report of a run, or of the last run of an audit, without its differences. Raises UnknownRun and NoReport."""
    latest = runs.list_runs(store, audit=what, state="done", limit=1)
    try:
        stored = latest[0] if latest else audits.find_run(settings, store, what)
    except UnknownRun as error:
        if what not in settings.audits:
            raise
        raise UnknownRun(f"{error}, or name keys: --key") from None
    report = records.load_report(store, stored.run, max_differences=0)
    if report is None:
        raise NoReport(f"run {stored.run} has no report yet; wait for its end: auditor show {stored.run[:12]}")
    return report


def _find_chain(settings: Settings, audit: Audit) -> Chain:
    """Return the only chain of an audit. Raises TraceRefused."""
    if audit.via:
        raise TraceRefused("the audit compares a dump, which is older than its source; audit the source itself, and trace that")
    if isinstance(audit.target, TopicRef):
        raise TraceRefused(f"the audit's target is the topic {audit.target.topic}, and rows are followed into tables alone")
    read = audit.one_source("a trace")
    chains = find_chains(read, audit.target, settings.pipelines, settings.connections)
    if not chains:
        raise TraceRefused(
            f"no pipeline of this configuration carries {read.table} of {read.connection} into {audit.target.table}, so that no hop between"
            " them is known; if its rows come by a topic, name that in the audit (through: {broker: ..., topic: ...})"
        )
    if len(chains) > 1:
        found = ", ".join(f"{one.last.target} of {one.last.pipeline}" for one in chains)
        raise TraceRefused(f"several targets of pipelines may hold {read.table} ({found}); write the target's table with its schema")
    [chain] = chains
    for carrier in (chain.first, chain.last):
        if carrier.where is not None and carrier.where != audit.where:
            raise TraceRefused(
                f"the pipeline {carrier.pipeline} carries only rows of {carrier.table} where {carrier.where}, and the audit compares"
                " others, too; write the same where in the audit"
            )
    if audit.where is not None and not isinstance(audit.where, str):
        raise TraceRefused("events are filtered by one text for both sides; write where of the audit as one")
    return chain


def _differing(store: Store, report: Report, plan: Plan, reader: Reader, limit: int) -> tuple[list[Key], int]:
    """Return the keys of a run's differences, at most so many, and how many more rows differ. Raises TraceRefused and RunOutdated."""
    if report.plan is None or report.differences is None:
        raise TraceRefused(f"run {report.run} named no rows; run {report.audit} with the method exact, or name keys: --key")
    then, now = ([(column.name, column.kind) for column in each.key_columns] for each in (report.plan, plan))
    if then != now:
        raise RunOutdated(f"rows are compared by another key since run {report.run}; run {report.audit} again")
    with collect_keys(store, report.run, report.plan, reader, Selection(limit=limit, delete_extra=True)) as file:
        keys = next(file.batches(limit), [])
    found = report.differences
    return keys, max(0, found.missing + found.extra + found.changed - len(keys))
