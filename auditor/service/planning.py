"""Check and plan audits, render their SQL for consoles, and compare saved results."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import dialects
import sql_templates
from auditor import canonical
from auditor.config import Audit, PerSide, Settings
from auditor.connections.prefetch import KeptSessions
from auditor.connections.reader import Reader
from auditor.errors import AuditorError
from auditor.escaping import command, sentence, sql_comment
from auditor.model import SIDES, Chunk, Divergent, Method, Plan, Report, Side, Slice, State, Verdict
from auditor.pipeline.topic_side import open_topics
from auditor.planning import build, filters, introspect, requested_slice, shards
from auditor.planning.columns import Endpoint
from auditor.service import definitions
from auditor.sql import render

if TYPE_CHECKING:
    from auditor.service.console_results import ComparedResults
    from auditor.store import Store


LIVE_SUMMARIES_COST = (
    "with summaries: live the source is scanned by the first run, by a rescan, and while the sums cannot be used; else it costs nothing"
)
"""The note of a plan whose cost of the source is that of such a scan."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The plan of an audit, or the error that prevents it from running."""

    audit: str
    plan: Plan | None
    error: AuditorError | None


def check(settings: Settings, names: Sequence[str] = (), store: Store | None = None) -> Iterator[CheckResult]:
    """Connect and plan each audit (default: all) and yield its plan or error; an error does not stop the check.

    The earlier runs in the ``store`` decide whether a run begins with a pre-scan; without one the plans leave it open.
    """
    wanted = definitions.expand_legs(settings, names)
    together = introspect.DescribedTogether(settings.audits[name] for name in wanted if name in settings.audits)
    with closing(KeptSessions()) as kept:
        for name in wanted:
            try:
                yield CheckResult(name, make_plan(settings, name, definitions.audit(settings, name), store, kept, together), None)
            except AuditorError as error:
                yield CheckResult(name, None, error)


def make_plan(
    settings: Settings,
    name: str,
    audit: Audit,
    store: Store | None = None,
    kept: KeptSessions | None = None,
    together: introspect.DescribedTogether | None = None,
) -> Plan:
    """Connect to both databases and return the plan of an audit; ``store`` as for ``check``. Raises AuditorError.

    With ``kept`` sessions none is opened that the audit before has left, and ``together`` has the tables of the other audits.
    """
    earlier, files = None, None
    if store:
        from auditor.history import records  # which load the store's library
        from auditor.pipeline.staged_writes import find_events

        with store.share_connection():
            earlier = records.load_earlier_runs(store, name, audit, settings.connections)
        earlier = dataclasses.replace(earlier, events=find_events(settings, store, audit))
        if audit.files:
            from auditor.run.file_summaries import FileSummaries
            from auditor.store.file_sums import KeptFileSums

            files = FileSummaries(audit, KeptFileSums(store, name))
    with _open_reader(name, audit, settings, kept) as reader:
        if files:
            files.recall(reader)
        plan = build.build_plan(name, audit, reader, earlier, partial(files.expect, reader) if files else None, together)
    return dataclasses.replace(plan, notes=(*plan.notes, LIVE_SUMMARIES_COST)) if audit.summaries else plan


def describe_tables(settings: Settings, name: str, audit: Audit) -> dict[Side, Endpoint]:
    """Connect to the databases of an audit and return its tables as they have them, by side. Raises AuditorError."""
    with _open_reader(name, audit, settings) as reader:
        return introspect.describe_tables(reader, audit)


def check_slice(settings: Settings, name: str, audit: Audit, slice: Slice) -> None:
    """Raise PlanError if the tables of an audit allow no such slice: before a run is stored that can only fail.

    Whatever else is wrong, such as a database that cannot be reached, is left to the run, which reports it.
    """
    try:
        with _open_reader(name, audit, settings) as reader:
            tables = introspect.describe_tables(reader, audit)
        plan = shards.draft(name, audit, tables)
    except AuditorError:
        return
    requested_slice.restrict(plan, slice, audit, tables)


@contextmanager
def _open_reader(name: str, audit: Audit, settings: Settings, kept: KeptSessions | None = None) -> Iterator[Reader]:
    """Connect to both sides of an audit for planning, without retries because a person waits for the result.

    A topic is read, as its messages alone say which columns it has.
    """
    sides = {side: place.connection for side, place in audit.places.items()}
    with open_topics(settings, audit) as topics:
        connections = {**settings.connections, **topics.connections} if topics else settings.connections
        if topics:
            topics.read(lambda *_: None, threading.Event())
        planned = Reader(name, sides, connections, patient=False)
        for connection in planned.sides.values() if kept else ():
            connection.kept = kept
        with planned.open() as reader:
            yield reader


def sql(settings: Settings, name: str, requested_sides: Sequence[Side] = SIDES, method: Method | None = None) -> dict[Side, str]:
    """Return the script to paste into the console of each requested side; ``method`` replaces the audit's. Raises AuditorError."""
    audit = definitions.audit(settings, name)
    audit.check_single("SQL for consoles")
    if method:
        audit = audit.model_copy(update={"method": method})
    with _open_reader(name, audit, settings) as reader:
        plan = build.build_plan(name, audit, reader)
        limits = {side: settings.connections[plan.sides[side].connection].limits for side in SIDES}
        timeouts = {side: (limits[side].statement_timeout, limits[side].lock_timeout) for side in SIDES}
        return {side: console_script(plan, side, reader.session(side).dialect, *timeouts[side]) for side in requested_sides}


def console_script(plan: Plan, side: Side, dialect: dialects.Dialect, statement_timeout: float, lock_timeout: float = 10.0) -> str:
    """Return the script for one side's console: session settings that the result depends on, and the statement in a snapshot.

    ``statement_timeout`` and ``lock_timeout`` are in seconds.
    """
    here = plan.sides[side]
    statement = render.summary(plan, side, dialect, Chunk(), console=f"{plan.audit}/{plan_fingerprint(plan)}")
    columns = ", ".join(f"{column.name} ({column.kind})" for column in plan.columns)
    other = "target" if side == "source" else "source"
    comments = [
        f"auditor: audit {plan.audit}, {side} ({here.label}), method {plan.method}, partitions {plan.partitioning}",
        f"Compared: {columns}",
        *(f"Not compared: {reason}" for reason in plan.not_compared),
        f"{sql_templates.comment(dialect.template(render.template_name(plan, dialect)))}",
        "partition_count, total_rows and audit_plan let the comparison see a result that was cut short, edited or mistaken for another.",
        f"Save the last result with its header, run the {other}'s statement that was printed with this one too, then:",
        "  auditor compare --source SOURCE_FILE --target TARGET_FILE",
    ]
    lines = [sql_comment(sentence(comment)).rstrip("\n") for comment in comments]
    statements = [*dialect.pin_statements(statement_timeout, lock_timeout), *dialect.BEGIN_SNAPSHOT, statement, *dialect.END_SNAPSHOT]
    return "\n".join([*lines, "", *(f"{text};" for text in statements), ""])


def plan_fingerprint(plan: Plan) -> str:
    """Return a text that identifies what a plan queries on both sides, so that results of different plans are not compared.

    It is ``v2_0123456789ab``: the version of canonical texts, and 12 hexadecimal digits. ``_ds`` follows if rows that differ may be equal,
    a letter for each reason in `DOUBTS`; for ``exact`` over ranges of keys ``_r3072``, the keys of a partition, by which saved results name
    keys. A masked key has none.

    They include the watermark and the filter's ``now``: every printed script has its own, and leaves out different rows.
    """
    how = plan.partitioning
    queried: list[object] = [plan.method, plan.k, plan.t, plan.bits, plan.salt, plan.hash, plan.encoding, plan.key, str(how), how.column]
    queried += [(plan.sides[side].connection, plan.sides[side].table, *plan.sides[side].conditions) for side in SIDES]
    queried += [
        (c.name, str(c.kind), c.trim, c.case, c.null_as, str(c.tolerance), *(c.expression[side] for side in SIDES)) for c in plan.columns
    ]
    size = f"_r{how.size}" if plan.method == "exact" and how.strategy == "range" and not plan.hides_ranges else ""
    doubtful = {"d": plan.documents, "s": plan.watermark, "t": any(column.tolerance for column in plan.columns)}
    doubts = "".join(letter for letter, applies in doubtful.items() if applies)
    digits = hashlib.sha256(repr(queried).encode()).hexdigest()[:12]
    return f"v{canonical.VERSION}_{digits}{f'_{doubts}' if doubts else ''}{size}"


DOUBTS: Mapping[str, str] = {
    "d": "json: the differences can be in nothing but how JSON documents are written, which are compared by their values",
    "s": "settle: the differences can be old versions of in-flight rows in the target",
    "t": "tolerance: the differences can be values that are within it but round differently",
}
"""Why rows that differ in the sums of a printed statement may be equal, by the letter that says so in the fingerprint of its plan."""


def compare_files(source: Path, target: Path, audit: Audit | None = None) -> Report:
    """Return the report of two saved results; ``audit`` gives threshold and ``allow_empty``.

    The verdict is unknown if something else than the threshold may allow the differences, which a saved result cannot show. Raises
    ResultError.
    """
    began = time.monotonic()
    from auditor.service import console_results  # which loads numpy

    found = console_results.compare_files(
        {"source": source, "target": target}, threshold=audit.threshold if audit else None, allow_empty=bool(audit and audit.allow_empty)
    )
    name, comparison = found.audit, found.comparison
    uncertain = _unverifiable_settings(audit, found) if comparison.verdict is Verdict.MISMATCH else []
    if uncertain:
        reasons = (*comparison.reasons, *uncertain, f"for a verdict, run the audit with connections: {command('auditor', 'run', name)}")
        comparison = dataclasses.replace(comparison, verdict=Verdict.UNKNOWN, reasons=reasons)
    return Report(
        audit=name,
        run=uuid.uuid4().hex,
        state=State.DONE,
        verdict=comparison.verdict,
        reasons=comparison.reasons,
        seconds=time.monotonic() - began,
        exit_code=comparison.verdict.exit_code,
        comparison=comparison,
        notes=(*found.notes, *((filters.ON_TRUST,) if audit and isinstance(audit.where, PerSide) else ())),
    )


def _unverifiable_settings(audit: Audit | None, found: ComparedResults) -> list[str]:
    """Return a sentence for each setting that may allow all differences, but cannot be checked with saved results."""
    comparison = found.comparison
    has_other_rows = any(partition.rows["source"] != partition.rows["target"] for partition in comparison.divergent)
    sentences = [DOUBTS[letter] for letter in found.doubts if letter == "s" or not has_other_rows]
    if audit and found.is_counted and audit.counts.allow:
        allowed = {name.split()[-1] for name in audit.counts.allow}
        if all(_differing_measures(partition) <= allowed for partition in comparison.divergent):
            sentences.append("counts.allow: the differences can be within it; a saved result does not name the columns")
    return sentences


def _differing_measures(partition: Divergent) -> set[str]:
    """Return the kinds of measures in which a partition differs: ``rows``, ``sum``, ``min``, ..."""
    rows = {"rows"} if partition.rows["source"] != partition.rows["target"] else set()
    return rows | {sentence.split("_", 1)[0] for sentence in partition.measures}
