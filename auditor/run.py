"""One run of one audit: connect, describe, plan, summarise both sides at once inside snapshots, compare, conclude.

A run always ends in a Report. A side that fails makes the verdict unknown, never match.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import dialects
from auditor import evenness, naming, render, summary
from auditor import plan as planning
from auditor.compare.comparator import Aligned, align, compare
from auditor.config import Audit, Connection
from auditor.errors import AuditorError, NoSuchObject, PlanError, StatementCancelled
from auditor.model import SIDES, Chunk, Comparison, Differences, Jaccard, Plan, Report, Side, SideCost, State, Verdict
from auditor.plan import Bounds, Endpoint
from auditor.summary import Summaries
from dialects import Place, Session

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one side is: ``done`` of ``total`` chunks, and what it does now."""

    audit: str
    side: Side
    doing: str
    done: int = 0
    total: int = 0


CANCEL_AGAIN = 0.5
"""Seconds after which a statement that still runs is cancelled again."""

Watcher = Callable[[Progress], None]


def unwatched(_: Progress) -> None:
    """The watcher of a run that nobody watches."""


def run(name: str, audit: Audit, connections: Mapping[str, Connection], watch: Watcher = unwatched) -> Report:
    """Run an audit once. Never raises an error of the tree: a run that could not compare says why in its report."""
    identity = uuid.uuid4().hex
    began = time.monotonic()
    sides: dict[Side, Session] = {}
    plan: Plan | None = None
    state, verdict, exit_code = State.DONE, Verdict.UNKNOWN, Verdict.UNKNOWN.exit_code
    reasons: tuple[str, ...] = ()
    found: _Found | None = None
    scan = _Scan(sides, {side: connections[getattr(audit, side).connection].connections for side in SIDES}, watch)
    try:
        with opened(audit, connections, sides, name, watch):
            plan = _salted(planned(name, audit, sides, snapshot=True), audit)
            found = _found(plan, audit, scan)
        verdict, reasons = conclude(found.comparison, found.differences, found.jaccard, audit.threshold)
        exit_code = verdict.exit_code
    except AuditorError as error:
        state, reasons, exit_code = State.FAILED, (str(error),), error.exit_code
        log.info("the run failed", extra={"action": "run_failed", "audit": name, "run": identity})
    except KeyboardInterrupt:
        state, reasons = State.CANCELLED, ("the run was cancelled",)
    return Report(
        audit=name,
        run=identity,
        state=state,
        verdict=verdict,
        reasons=reasons,
        seconds=time.monotonic() - began,
        exit_code=exit_code,
        method=plan.method if plan else None if audit.method == "auto" else audit.method,
        plan=plan,
        comparison=found.comparison if found else None,
        differences=found.differences if found else None,
        jaccard=found.jaccard if found else None,
        cost={side: _cost(side, session, scan) for side, session in sides.items()},
        servers={side: session.server for side, session in sides.items()},
    )


def conclude(
    comparison: Comparison, differences: Differences | None, jaccard: Jaccard | None, threshold: float
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and the sentences that give its reasons, once differences were named.

    Under the method exact the threshold is held against the row-weighted similarity, which differences decide.
    """
    if differences is None or jaccard is None or not comparison.unequal:
        return comparison.verdict, comparison.reasons
    told = [f"{getattr(differences, kind):,} {kind}" for kind in ("missing", "extra", "changed") if getattr(differences, kind)]
    reasons = [*comparison.reasons[: 1 + (comparison.skipped > 0)], f"named: {', '.join(told) or 'nothing'}"]
    if differences.partitions["estimated"]:
        reasons.append(f"{differences.partitions['estimated']:,} partitions were estimated: {differences.why}")
    if differences.unsettled:
        reasons.append(f"{differences.unsettled:,} partitions differed in the scan and no longer did when they were looked at again")
    if not told and not differences.partitions["estimated"]:
        return Verdict.UNKNOWN, (*reasons, "nothing is claimed: the tables were changing")
    if threshold < 1 and jaccard.score.lower >= threshold and not comparison.skipped:
        return Verdict.MATCH, (*reasons, f"the similarity {jaccard.score.value:.6g} is not below the threshold {threshold:g}")
    return Verdict.MISMATCH, tuple(reasons)


def _salted(plan: Plan, audit: Audit) -> Plan:
    """The plan with a salt of this run alone, where the audit has its method salted at random."""
    if audit.salt != planning.RANDOM or plan.method not in planning.SALTED or plan.encoding == "published":
        return plan
    return replace(plan, salt=secrets.token_hex(8))


@contextmanager
def opened(
    audit: Audit, connections: Mapping[str, Connection], sides: dict[Side, Session], name: str = "", watch: Watcher = unwatched
) -> Iterator[None]:
    """Both connections, open for the block, in ``sides``. Raises errors of the tree, naming the side."""

    def connect(side: Side) -> Session:
        watch(Progress(name, side, "connecting"))
        reference = getattr(audit, side)
        connection = connections[reference.connection]
        with _named(side, reference.connection):
            sides[side] = dialects.connect(connection.url, connection.statement_timeout)
        return sides[side]

    try:
        both(connect)
        yield
    except (AuditorError, KeyboardInterrupt):
        for session in sides.values():
            with suppress(AuditorError):  # the first error matters more than a cancel that fails
                session.cancel()
        raise
    finally:
        for session in sides.values():
            session.close()


def planned(name: str, audit: Audit, sides: Mapping[Side, Session], *, snapshot: bool) -> Plan:
    """The plan of an audit, as both databases are now; with ``snapshot`` the sessions are left inside their snapshots.

    Raises PlanError and NoSuchObject.
    """

    def described(side: Side) -> Endpoint:
        reference = getattr(audit, side)
        with _named(side, reference.connection):
            table = _chosen(sides[side].dialect.describe(sides[side], reference.place), reference.place, side)
        return Endpoint(reference.connection, f"{reference.connection}: {reference.table}", sides[side].dialect, table)

    ends = both(described)
    draft = planning.draft(name, audit, ends)

    def bounded(side: Side) -> Bounds:
        with _named(side, ends[side].connection):
            if snapshot:
                sides[side].begin()
            return _bounds(draft, side, sides[side], audit.partition.rows)

    return planning.finish(draft, audit, ends, both(bounded))


def _chosen(found: list[dialects.Table], place: Place, side: Side) -> dialects.Table:
    """The one table that the name means: exactly as written, else the only one whatever its letters' case."""
    exact = [table for table in found if table.sql.replace("`", '"').split(".")[-1] == f'"{place.parts[-1]}"'] if place.parts else []
    if len(exact or found) > 1:
        raise PlanError(f"{side}: {place} can mean {', '.join(table.sql for table in exact or found)}; write its schema too")
    if not found:
        raise NoSuchObject(f"{side}: there is no table {place}, or this user may not see it")
    return (exact or found)[0]


def _bounds(plan: Plan, side: Side, session: Session, aim: int) -> Bounds:
    here = plan.sides[side]
    rows = here.estimate
    condition = here.where or "1 = 1"
    if rows is None or rows < planning.CHUNK_ROWS:  # small, or never analysed: counting costs little and is right
        rows = int(session.query(render.count(session.dialect, here.table, condition))[0][0])
    if not render.integer_key(plan):
        return Bounds(rows)
    least, greatest = session.query(render.bounds(plan.columns[0], side, session.dialect, here.table, condition))[0]
    if least is None:
        return Bounds(rows)
    bounds = Bounds(rows, int(least), int(greatest))
    probes = evenness.probes(bounds, aim) if session.dialect.ROW_STORE else []  # an index finds so few rows at once
    if not probes:
        return bounds
    key = plan.columns[0].expression[side]
    counts = []
    for first, end in probes:
        where = f"{condition} AND {key} >= {first} AND {key} < {end}"
        counts.append(int(session.query(render.count(session.dialect, here.table, where))[0][0]))
    return replace(bounds, even=evenness.lie_evenly(counts, aim))


@dataclass(slots=True)
class _Found:
    """What a run found, as far as it got."""

    comparison: Comparison
    differences: Differences | None = None
    jaccard: Jaccard | None = None


def _found(plan: Plan, audit: Audit, scan: _Scan) -> _Found:
    sides, watch = scan.sides, scan.watch

    def summarised(by: Plan) -> Aligned:
        read = both(lambda side: _summaries(by, side, scan), scan.cancel)
        return align(read["source"], read["target"])

    aligned = summarised(plan)
    comparison = compare(
        aligned,
        threshold=audit.threshold,
        allow_empty=audit.allow_empty,
        measures=render.measure_names(plan),
        label=plan.partitioning.label,
    )
    found = _Found(comparison)
    if plan.method == "exact":

        def fetched(work: Callable[[Side], T]) -> dict[Side, T]:
            return both(lambda side: _in(side, plan, lambda: work(side)), scan.cancel)

        watch(Progress(plan.audit, "source", "naming differences"))
        found.differences, found.jaccard = naming.name_differences(plan, aligned, audit.limits, sides, fetched, summarised)
    elif plan.method != "counts":
        found.jaccard = naming.estimate(plan, aligned)
    both(lambda side: _in(side, plan, sides[side].end))
    return found


def _cost(side: Side, session: Session, scan: _Scan) -> SideCost:
    cost = scan.costs.get(side, SideCost())
    return replace(cost, statements=session.statements, bytes=cost.bytes + session.received())


def _in(side: Side, plan: Plan, work: Callable[[], T]) -> T:
    with _named(side, plan.sides[side].connection):
        return work()


@dataclass(slots=True)
class _Scan:
    """The scans of one run: each side's sessions, and what they have cost."""

    sides: Mapping[Side, Session]
    connections: Mapping[Side, int]
    watch: Watcher
    costs: dict[Side, SideCost] = field(default_factory=dict)
    more: list[Session] = field(default_factory=list)
    """Sessions beside the sides' own that read now."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """End what runs on both sides, and begin no further chunk."""
        self.stopped.set()
        for session in (*self.sides.values(), *self.more):
            with suppress(AuditorError):
                session.cancel()


def _summaries(plan: Plan, side: Side, scan: _Scan) -> Summaries:
    """One side's summaries, its chunks read by as many connections as may be."""
    session, chunks = scan.sides[side], plan.sides[side].chunks
    began, before = time.monotonic(), session.received()
    names = render.result_columns(plan)
    with _named(side, plan.sides[side].connection):
        wanted = min(scan.connections[side], len(chunks)) - 1
        readers = [session, *(session.siblings(wanted, plan.sides[side].table) if wanted else [])]
        scan.more += readers[1:]
        done: list[int] = []

        def read(number: int) -> Summaries:
            try:
                return summary.read(_batches(plan, side, readers[number], chunks[number :: len(readers)], done, scan), names)
            except AuditorError:
                scan.stopped.set()
                raise

        try:
            with ThreadPoolExecutor(len(readers), thread_name_prefix=side) as pool:
                found = summary.together(list(pool.map(read, range(len(readers)))))
        finally:
            extra = sum(reader.received() for reader in readers[1:])
            for reader in readers[1:]:
                session.statements += reader.statements
                reader.close()
                scan.more.remove(reader)
    scan.watch(Progress(plan.audit, side, "done", len(chunks), len(chunks)))
    earlier = scan.costs.get(side, SideCost())
    scan.costs[side] = SideCost(
        bytes=earlier.bytes + extra,
        scan_bytes=earlier.scan_bytes + session.received() - before + extra,
        seconds=earlier.seconds + time.monotonic() - began,
    )
    return found


def _batches(plan: Plan, side: Side, session: Session, chunks: Sequence[Chunk], done: list[int], scan: _Scan) -> Iterator[dialects.Columns]:
    total = len(plan.sides[side].chunks)
    for chunk in chunks:
        if scan.stopped.is_set():
            raise StatementCancelled
        scan.watch(Progress(plan.audit, side, "summarising", len(done), total))
        yield from session.stream(render.summary(plan, side, session.dialect, chunk))
        done.append(1)


def both(work: Callable[[Side], T], cancel: Callable[[], None] | None = None) -> dict[Side, T]:
    """``work`` for both sides at once. The first error is raised, after ``cancel`` ended what the other side was doing."""
    with ThreadPoolExecutor(2, thread_name_prefix="side") as pool:
        futures: dict[Side, Future[T]] = {side: pool.submit(work, side) for side in SIDES}
        try:
            done, running = wait(futures.values(), return_when=FIRST_EXCEPTION)
            first = next((error for future in done if (error := future.exception())), None)
        except KeyboardInterrupt as interrupt:
            first, running = interrupt, set(futures.values())
        if first:
            while running and cancel:  # a cancel that comes before the statement began is lost, so it is repeated
                cancel()
                running = wait(running, timeout=CANCEL_AGAIN).not_done
            raise first
        return {side: future.result() for side, future in futures.items()}


@contextmanager
def _named(side: Side, connection: str) -> Iterator[None]:
    """Errors of the tree leave this block with the side and connection in front."""
    try:
        yield
    except AuditorError as error:
        if not str(error).startswith(f"{side}"):
            raise type(error)(f"{side} ({connection}): {error}") from error
        raise
