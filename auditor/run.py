"""One run of one audit: connect, describe, plan, summarise both sides at once inside snapshots, compare, conclude.

A run always ends in a Report. A side that fails makes the verdict unknown, never match.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import dialects
from auditor import plan as planning
from auditor import render, summary
from auditor.compare.comparator import compare
from auditor.config import Audit, Connection
from auditor.errors import AuditorError, NoSuchObject, PlanError
from auditor.model import SIDES, Chunk, Comparison, Plan, Report, Side, SideCost, State, Verdict
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
    comparison: Comparison | None = None
    scans: dict[Side, SideCost] = {}
    try:
        with opened(audit, connections, sides, name, watch):
            plan = planned(name, audit, sides, snapshot=True)
            comparison = _compared(plan, audit, sides, watch, scans)
        verdict, reasons = comparison.verdict, comparison.reasons
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
        method=audit.method,
        plan=plan,
        comparison=comparison,
        cost={s: replace(scans.get(s, SideCost()), statements=o.statements, bytes=o.received()) for s, o in sides.items()},
        servers={side: session.server for side, session in sides.items()},
    )


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
            return _bounds(draft, side, sides[side])

    return planning.finish(draft, audit, ends, both(bounded))


def _chosen(found: list[dialects.Table], place: Place, side: Side) -> dialects.Table:
    """The one table that the name means: exactly as written, else the only one whatever its letters' case."""
    exact = [table for table in found if table.sql.replace("`", '"').split(".")[-1] == f'"{place.parts[-1]}"'] if place.parts else []
    if len(exact or found) > 1:
        raise PlanError(f"{side}: {place} can mean {', '.join(table.sql for table in exact or found)}; write its schema too")
    if not found:
        raise NoSuchObject(f"{side}: there is no table {place}, or this user may not see it")
    return (exact or found)[0]


def _bounds(plan: Plan, side: Side, session: Session) -> Bounds:
    here = plan.sides[side]
    rows = here.estimate
    condition = here.where or "1 = 1"
    if rows is None or rows < planning.CHUNK_ROWS:  # small, or never analysed: counting costs little and is right
        rows = int(session.query(render.count(session.dialect, here.table, condition))[0][0])
    if not render.integer_key(plan):
        return Bounds(rows)
    least, greatest = session.query(render.bounds(plan.columns[0], side, session.dialect, here.table, condition))[0]
    return Bounds(rows) if least is None else Bounds(rows, int(least), int(greatest))


def _compared(plan: Plan, audit: Audit, sides: Mapping[Side, Session], watch: Watcher, scans: dict[Side, SideCost]) -> Comparison:
    def summarised(side: Side) -> Summaries:
        began, before = time.monotonic(), sides[side].received()
        with _named(side, plan.sides[side].connection):
            found = summary.read(_batches(plan, side, sides[side], watch), render.result_columns(plan))
            sides[side].end()
        scans[side] = SideCost(scan_bytes=sides[side].received() - before, seconds=time.monotonic() - began)
        return found

    found = both(summarised, cancel=sides)
    return compare(
        found["source"],
        found["target"],
        threshold=audit.threshold,
        allow_empty=audit.allow_empty,
        measures=render.measure_names(plan),
        label=plan.partitioning.label,
    )


def _batches(plan: Plan, side: Side, session: Session, watch: Watcher) -> Iterator[dialects.Columns]:
    chunks: tuple[Chunk, ...] = plan.sides[side].chunks
    for index, chunk in enumerate(chunks):
        watch(Progress(plan.audit, side, "summarising", index, len(chunks)))
        yield from session.stream(render.summary(plan, side, session.dialect, chunk))
    watch(Progress(plan.audit, side, "done", len(chunks), len(chunks)))


def both(work: Callable[[Side], T], cancel: Mapping[Side, Session] | None = None) -> dict[Side, T]:
    """``work`` for both sides at once. The first error is raised, after the other side's statement was cancelled."""
    with ThreadPoolExecutor(2, thread_name_prefix="side") as pool:
        futures: dict[Side, Future[T]] = {side: pool.submit(work, side) for side in SIDES}
        try:
            done, running = wait(futures.values(), return_when=FIRST_EXCEPTION)
            first = next((error for future in done if (error := future.exception())), None)
        except KeyboardInterrupt as interrupt:
            first, running = interrupt, set(futures.values())
        if first:
            for session in (cancel or {}).values() if running else ():
                with suppress(AuditorError):
                    session.cancel()
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
