"""Make a bootstrap, or continue one that was stopped, failed or killed: copy, verify, swap, each stage journalled before the next."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import dialects
from auditor.bootstrap import range_files, swapping, verifying
from auditor.bootstrap.copying import Copying, copy_by_executors, load_from_here, remove_files
from auditor.bootstrap.job import BootstrapJob
from auditor.bootstrap.plan import BootstrapPlan, is_there, plan_bootstrap, table_parts
from auditor.connections.connection import Connection
from auditor.connections.reader import Reader
from auditor.errors import BootstrapFailed, BootstrapRefused, LockTimeout, StatementCancelled
from auditor.escaping import shell_word
from auditor.model import Chunk, Side, Verdict
from auditor.planning import watermark
from auditor.planning.introspect import describe_table
from auditor.points import reach
from auditor.repair.target_writer import target_writer
from auditor.store import bootstraps
from auditor.store.bootstraps import Bootstrap
from dialects import Session, Table

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often ranges are copied again that others changed between two snapshots."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A bootstrap that is planned: its plan, and the one that it continues (None for a new one)."""

    plan: BootstrapPlan
    resumed: Bootstrap | None


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """What a bootstrap did: its id, the rows that were swapped in, and the table of the replaced ones."""

    bootstrap: str
    rows: int
    old: str
    stopped: bool = False


def prepare(job: BootstrapJob) -> Prepared:
    """Plan a bootstrap, and find the one that it continues. Nothing is written. Raises BootstrapRefused and errors of the tree."""
    with job.open_reader() as reader:
        return _prepare(job, reader)


def run(job: BootstrapJob, on_plan: Callable[[Prepared], None]) -> Bootstrapped:
    """Copy the rows and bring them into the table; ``on_plan`` receives the plan before anything is written.

    Raises BootstrapRefused with nothing written, and errors of the tree after which it can be continued: the table is as it was then,
    unless the exchange was already done.
    """
    with job.open_reader() as reader:
        prepared = _prepare(job, reader)
        on_plan(prepared)
        plan, open_one = prepared.plan, prepared.resumed
        bootstrap = open_one.bootstrap if open_one else _begin(job, plan)
        if open_one:
            bootstraps.continue_bootstrap(job.store, bootstrap)
        with _ending(job, bootstrap):
            stage = open_one.stage if open_one else "copying"
            if stage == "swapping" and not swapping.was_swapped(job, plan, bootstrap):
                stage = "copying"
            if stage == "copying":
                _copy_and_verify(job, plan, bootstrap, reader)
                reader.end_snapshots()
                reader.sides["target"].wait_until_calm()
                bootstraps.save_stage(job.store, bootstrap, "swapping")
                reach("bootstrap.swapping")
    if stage == "copying":
        with _ending(job, bootstrap):
            swapping.swap(job, plan, bootstrap)
    with _ending(job, bootstrap):
        if stage in ("copying", "swapping"):
            bootstraps.save_stage(job.store, bootstrap, "swapped", {"swapped_at": dt.datetime.now(dt.UTC).strftime(bootstraps.SWAPPED_AT)})
        reach("bootstrap.noted")
        swapping.clean_up(job, plan, bootstrap)
        remove_files(job, bootstrap)
    rows = sum(int(stored["rows"]) for stored in bootstraps.list_ranges(job.store, bootstrap).values())
    return Bootstrapped(bootstrap, rows, plan.old)


def find_left(job: BootstrapJob) -> list[str]:
    """Return the tables that `drop_left` would drop. Nothing is written. Raises what that raises."""
    return [name for _, names in _find_left(job)[1] for name in names]


def drop_left(job: BootstrapJob) -> list[str]:
    """Drop the tables that bootstraps of this target left: replaced rows, and copies that were never swapped in. Return their names.

    Raises BootstrapRefused while one is at work, and errors of the tree.
    """
    dropped: list[str] = []
    table, left = _find_left(job)
    for bootstrap, names in left:
        with job.open_writer() as session:
            target = target_writer(session)
            for name in names:
                target.drop_table(session.dialect.names.table(*table_parts(table), name))
                dropped.append(name)
        remove_files(job, bootstrap.bootstrap)
        bootstraps.end_bootstrap(job.store, bootstrap.bootstrap, "done" if bootstrap.state == "done" else "dropped", {"old_dropped": True})
    return dropped


def _find_left(job: BootstrapJob) -> tuple[Table, list[tuple[Bootstrap, list[str]]]]:
    """Return the target's table, and each bootstrap that left something, with those of its tables that are still there."""
    left: list[tuple[Bootstrap, list[str]]] = []
    with job.open_reader() as reader:
        table = reader.ask_side("target", lambda side, session: describe_table(job.audit, side, session)).table
        for bootstrap in bootstraps.list_bootstraps(job.store, target=target_id(job, table)):
            if bootstrap.state == "dropped" or (bootstrap.state == "done" and bootstrap.detail.get("old_dropped")):
                continue
            if bootstraps.is_at_work(job.store, bootstrap.bootstrap):
                raise BootstrapRefused(f"bootstrap {bootstrap.bootstrap} of this table is at work; wait for its end")
            made = [str(bootstrap.detail["stage"]), str(bootstrap.detail["old"])]
            left.append((bootstrap, reader.ask_side("target", partial(_find_there, table, made))))
    return table, left


def _find_there(table: Table, names: Sequence[str], _: Side, session: Session) -> list[str]:
    """Return those of these tables that are beside ``table``."""
    return [name for name in names if is_there(session, table, name)]


def target_id(job: BootstrapJob, table: Table) -> str:
    """Return what identifies a target's table: its database and its name, hashed."""
    database = dialects.database_id(job.target.url)
    return hashlib.sha256(f"{database}\n{table.sql}".encode()).hexdigest()


def _prepare(job: BootstrapJob, reader: Reader) -> Prepared:
    plan = plan_bootstrap(
        reader,
        job.name,
        job.audit,
        job.spans,
        dt.datetime.now(dt.UTC),
        job.rename_above,
        job.spread_above,
    )
    open_one = bootstraps.find_open(job.store, target_id(job, plan.table))
    if open_one is None:
        if reader.ask_side("target", lambda _, session: is_there(session, plan.table, plan.stage)):
            raise BootstrapRefused(
                f"there is a table {plan.stage} beside {plan.table.sql}, which is of no bootstrap of this store; find out whose it is, then"
                " drop it"
            )
    else:
        if open_one.audit != job.name or open_one.detail["spans"] != [asdict(span) for span in plan.spans]:
            raise BootstrapRefused(
                f"bootstrap {open_one.bootstrap} of {open_one.audit}, of other keys, has not ended: continue that, or drop its copy with"
                f" auditor bootstrap {shell_word(open_one.audit)} --drop-old --apply"
            )
        if open_one.state == "running" and bootstraps.is_at_work(job.store, open_one.bootstrap):
            raise BootstrapRefused(f"bootstrap {open_one.bootstrap} of this table is at work; wait for its end")
        plan = _with_names(plan, open_one)
    if plan.road != "direct":
        range_files.check_room(job.folder, plan.rows * plan.line_bytes)
    return Prepared(plan, open_one)


def _with_names(plan: BootstrapPlan, bootstrap: Bootstrap) -> BootstrapPlan:
    """Return the plan with the names and ranges of a bootstrap that was begun."""
    old, stage = str(bootstrap.detail["old"]), str(bootstrap.detail["stage"])
    table = partial(plan.target.names.table, *table_parts(plan.table))
    statements = replace(plan.statements, old=table(old), stage=table(stage))
    ranges = [Chunk(**chunk) for chunk in bootstrap.detail["ranges"]]
    return replace(plan, old=old, stage=stage, statements=statements, ranges=ranges, swap=bootstrap.detail["swap"])


def _begin(job: BootstrapJob, plan: BootstrapPlan) -> str:
    bootstrap = uuid.uuid4().hex
    detail: Mapping[str, Any] = {
        "spans": [asdict(span) for span in plan.spans],
        "ranges": [asdict(chunk) for chunk in plan.ranges],
        "digest": plan.digest,
        "old": plan.old,
        "stage": plan.stage,
        "swap": plan.swap,
        "rows": plan.rows,
        "source": plan.labels["source"],
    }
    bootstraps.begin_bootstrap(
        job.store, bootstrap=bootstrap, audit=job.name, target=target_id(job, plan.table), who=job.who, detail=detail
    )
    reach("bootstrap.begun")
    return bootstrap


@contextmanager
def _ending(job: BootstrapJob, bootstrap: str) -> Iterator[None]:
    """Store that a bootstrap stopped or failed where the block does."""
    try:
        yield
    except BaseException as error:
        is_stopped = job.stopped.is_set() or not isinstance(error, Exception)
        bootstraps.end_bootstrap(job.store, bootstrap, "stopped" if is_stopped else "failed", {"why": type(error).__name__})
        raise


def _copy_and_verify(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str, reader: Reader) -> None:
    """Copy what is not copied yet, until the copy equals one snapshot of the source. Raises BootstrapFailed if it does not."""
    made = _make_stage(job, plan, bootstrap)
    began = reader.ask_side("source", lambda _, session: watermark.read_clock(session))
    for attempt in range(ATTEMPTS):
        copying = _copy_pending(job, plan, bootstrap, reader, loaded_before=not made or attempt > 0)
        reach("bootstrap.verify")
        snapshot = copying.snapshot
        report = verifying.verify(job, plan, reader, began)
        if report.verdict is Verdict.MATCH:
            return
        copied = bootstraps.list_ranges(job.store, bootstrap)
        older = {number for number, stored in copied.items() if stored["snapshot"] != snapshot}
        differing = verifying.differing_ranges(report, plan.ranges)
        again = sorted(older if differing is None else older.intersection(differing))
        if not again or snapshot != copying.snapshot:
            raise BootstrapFailed(
                f"the copy differs from the snapshot that it was read in: {verifying.describe(report)}; it was not swapped in, and"
                f" {plan.table.sql} is as it was"
            )
        log.info("ranges are copied again", extra={"action": "copied_again", "ranges": len(again)})
        bootstraps.forget_ranges(job.store, bootstrap, again)
    how = "" if plan.is_one_moment else ", without --spark, which reads all ranges in one snapshot, or with settle: in the audit"
    raise BootstrapFailed(f"the source changed faster than it was copied; {plan.table.sql} is as it was: run it again to continue{how}")


def _copy_pending(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str, reader: Reader, *, loaded_before: bool) -> Copying:
    """Copy the ranges that are not copied yet, and leave a snapshot of the source open to compare them with.

    ``loaded_before`` says that rows of them may be in the copy.
    """
    reader.end_snapshots()
    copying = _copying(job, plan, bootstrap, reader)
    copied = bootstraps.list_ranges(job.store, bootstrap)
    lost = range_files.damaged(job.files_of(bootstrap), copied) if plan.road != "direct" else []
    pending = [number for number in range(len(plan.ranges)) if number not in copied or number in lost]
    if plan.road == "executors":
        copy_by_executors(copying, pending, loaded_before=loaded_before)
        return copying
    copying.main.begin_snapshot()
    siblings = _share_snapshot(job, plan, reader)
    try:
        copying.run(pending, siblings, loaded_before=loaded_before)
        reader.end_siblings(siblings)
    finally:
        reader.close_siblings("source", siblings)
    if plan.road == "files":
        copying.target.wait_until_calm()
        load_from_here(job, plan, bootstrap)
    return copying


def _make_stage(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> bool:
    """Make the table to copy into, unless it is there with these columns; return whether it was made."""
    stored = next(stored for stored in bootstraps.list_bootstraps(job.store, audit=job.name) if stored.bootstrap == bootstrap)
    with job.open_writer() as session:
        target = target_writer(session)
        if is_there(session, plan.table, plan.stage):
            if stored.detail["digest"] == plan.digest:
                return False
            target.drop_table(plan.statements.stage)
        bootstraps.forget_ranges(job.store, bootstrap, list(range(len(plan.ranges))))
        create = partial(plan.statements.create, plan.statements.stage, whole=plan.swap == "by rename")
        target.make_like(plan.statements.stage, plan.statements.target, create)
    bootstraps.save_stage(job.store, bootstrap, "copying", {"digest": plan.digest})
    reach("bootstrap.made")
    return True


def _share_snapshot(job: BootstrapJob, plan: BootstrapPlan, reader: Reader) -> list[Connection]:
    """Return further connections inside the source's snapshot; none where the engine or the user cannot share it."""
    main = reader.sides["source"]
    wanted = min(main.settings.connections, len(plan.ranges)) - 1
    if wanted < 1:
        return []
    siblings = reader.add_siblings("source", wanted)
    try:
        if main.share_snapshot(siblings, plan.plan.sides["source"].table):
            return siblings
    except (LockTimeout, StatementCancelled):
        pass  # then one connection reads alone, in the snapshot that it has
    reader.close_siblings("source", siblings)
    return []


def _copying(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str, reader: Reader) -> Copying:
    def report(rows: int) -> None:
        reader.report("source", "copying", rows, plan.rows)

    return Copying(job, plan, bootstrap, reader.sides["source"], reader.sides["target"], uuid.uuid4().hex[:12], report)
