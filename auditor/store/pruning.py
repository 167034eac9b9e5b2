"""Delete runs, events, claims and tokens that are no longer needed."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, or_, select

from auditor.errors import StoreFull
from auditor.model import State
from auditor.store import patches
from auditor.store.audit_state import audit_states
from auditor.store.bootstraps import delete_ended
from auditor.store.costs import delete_costs
from auditor.store.database import Store
from auditor.store.events import events
from auditor.store.evidence import forget_payloads
from auditor.store.file_sums import KEEP, delete_unused
from auditor.store.queue import tick_claims
from auditor.store.rolling_parts import rolling_parts
from auditor.store.runs import OWN_SETTINGS, ad_hoc_audit
from auditor.store.schema import audit_versions, runs
from auditor.store.tokens import SESSION_PREFIX, tokens

KEEP_RESUMABLE = dt.timedelta(days=7)
"""How long a resumable run is stored after its end, regardless of the limits."""

KEEP_CLAIMS = dt.timedelta(days=7)
"""How long a claim is stored that is not its audit's newest."""

KEEP_COSTS = dt.timedelta(days=2)
"""How long costs are stored at least: what was spent today counts for the budgets of the day."""

ACTIVE_STATES = (State.PENDING, State.RUNNING)

RUNS_PER_TRANSACTION = (50, 1)
"""Runs deleted in one transaction, which keeps its locks short; and while the disk is full, which keeps SQLite's log short."""

EVENTS_PER_TRANSACTION = 1000
"""Events examined in one transaction, for the same reason."""

PAGES_PER_VACUUM = (2000, 20)
"""Pages by which SQLite's file shrinks in one step, for the same reasons."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many runs, events and tokens were deleted, and by how many ``bytes`` SQLite's file shrank (None on a server)."""

    runs: int
    events: int
    tokens: int
    bytes: int | None


def prune(store: Store, *, runs: int | None, days: float | None, now: dt.datetime, journal: float | None = None) -> Pruned:
    """Delete each run that is not among the newest ``runs`` of its audit, or is older than ``days``. None is no limit.

    Exceptions: the newest done run of each audit's whole table, pending, running and resumable runs, and those that a rolling audit
    refers to. All ad-hoc runs count as runs of one audit, without a newest run to preserve; their definitions are deleted with them.
    Repairs outlive their runs, and so do the links of their evidence, without what these attest, and what runs cost. Events and costs
    older than ``days`` are deleted, bootstraps that left nothing in their target, and tokens that ended longer ago; sessions are deleted as
    soon as they have ended. The rows of patches
    are dropped after ``journal`` seconds, and the sums of files that no run has used for long. Raises StoreError.
    """
    oldest = None if days is None else now - dt.timedelta(days=days)
    with store.share_connection(), store.reading() as connection:
        rows = list(_list_prunable(connection, runs, oldest, now))
        before = _file_size(store)
    deleted = _delete_in_steps(store, rows)

    def work(connection: Connection) -> tuple[int, int]:
        """Delete what is little, or nothing: after most runs there is nothing else to prune."""
        _delete_claims(connection, now)
        delete_unused(connection, now - KEEP)
        if journal is not None:
            patches.drop_rows(store, before=now - dt.timedelta(seconds=journal))
        if oldest:
            delete_costs(connection, min(oldest, now - KEEP_COSTS).date())
            delete_ended(connection, oldest)
        return _delete_events(connection, oldest) if oldest else 0, _delete_tokens(connection, oldest, now)

    events_deleted, tokens_deleted = store.write(work)
    if oldest and events_deleted:
        while more := store.write(lambda connection: _delete_events(connection, oldest)):
            events_deleted += more
    if before is not None:
        _shrink(store, PAGES_PER_VACUUM)
    after = _file_size(store)
    return Pruned(deleted, events_deleted, tokens_deleted, None if before is None or after is None else max(0, before - after))


def _delete_in_steps(store: Store, rows: Sequence[Row[Any]]) -> int:
    """Delete these runs and return how many there still were; while the disk is full, in the smallest steps."""
    deleted, at_once = 0, RUNS_PER_TRANSACTION[0]
    rest = list(rows)
    while rest:
        try:
            deleted += _delete_runs(store, rest[:at_once])
        except StoreFull:
            if at_once == RUNS_PER_TRANSACTION[1]:
                raise
            at_once = RUNS_PER_TRANSACTION[1]
            continue
        rest = rest[at_once:]
        if at_once == RUNS_PER_TRANSACTION[1]:
            _shrink(store, PAGES_PER_VACUUM[1:])  # what this run leaves is room for the next step
    return deleted


def _list_prunable(connection: Connection, newest: int | None, oldest: dt.datetime | None, now: dt.datetime) -> Iterator[Row[Any]]:
    columns = (
        runs.c.audit,
        runs.c.run,
        runs.c.number,
        runs.c.state,
        runs.c.started,
        runs.c.ended,
        runs.c.resumable,
        OWN_SETTINGS.label("own"),
    )
    ad_hoc = []
    for _, rows in groupby(connection.execute(select(*columns).order_by(runs.c.audit, runs.c.number.desc())), key=lambda row: row.audit):
        of_audit = list(rows)
        ad_hoc += [row for row in of_audit if _is_ad_hoc(row)]
        named = [row for row in of_audit if not _is_ad_hoc(row)]
        last_done = next((row.number for row in named if row.state == State.DONE and row.own), None)
        yield from _list_prunable_of_audit(named, newest, oldest, now, last_done)
    yield from _list_prunable_of_audit(sorted(ad_hoc, key=lambda row: -row.number), newest, oldest, now)


def _is_ad_hoc(row: Row[Any]) -> bool:
    return bool(row.audit == ad_hoc_audit(row.run))


def _list_prunable_of_audit(
    rows: Sequence[Row[Any]], newest: int | None, oldest: dt.datetime | None, now: dt.datetime, last_done: int | None = None
) -> Iterator[Row[Any]]:
    for position, row in enumerate(rows):
        too_many = newest is not None and position >= newest
        too_old = oldest is not None and row.started < oldest
        resumable = row.resumable and now - (row.ended or row.started) < KEEP_RESUMABLE
        if (too_many or too_old) and not resumable and row.number != last_done and row.state not in ACTIVE_STATES:
            yield row


def _delete_runs(store: Store, rows: Sequence[Row[Any]]) -> int:
    numbers, ad_hoc = [row.number for row in rows], [row.audit for row in rows if _is_ad_hoc(row)]

    def work(connection: Connection) -> int:
        # Since it was selected, a run may have been resumed, or recorded as a part of a rolling audit.
        unused = runs.c.number.not_in(select(rolling_parts.c.run))
        deleted = connection.execute(delete(runs).where(runs.c.number.in_(numbers), runs.c.state.not_in(ACTIVE_STATES), unused)).rowcount
        stored = set(connection.execute(select(runs.c.number).where(runs.c.number.in_(numbers))).scalars())
        forget_payloads(connection, [row.run for row in rows if row.number not in stored])
        for table in (audit_versions, audit_states) if ad_hoc else ():
            left = select(runs.c.audit).where(runs.c.audit.in_(ad_hoc))
            connection.execute(delete(table).where(table.c.audit.in_(ad_hoc), table.c.audit.not_in(left)))
        return deleted

    return store.write(work)


def _delete_claims(connection: Connection, now: dt.datetime) -> None:
    newest = select(tick_claims.c.audit, func.max(tick_claims.c.tick).label("tick")).group_by(tick_claims.c.audit)
    for row in connection.execute(newest).all():
        old = tick_claims.c.tick < min(row.tick, now - KEEP_CLAIMS)
        connection.execute(delete(tick_claims).where(tick_claims.c.audit == row.audit, old))


def _delete_events(connection: Connection, oldest: dt.datetime) -> int:
    # Numbers follow the age of events, so only the first ones have to be read, not the whole log.
    first = select(events.c.number, events.c.at).order_by(events.c.number).limit(EVENTS_PER_TRANSACTION)
    old = [row.number for row in connection.execute(first) if row.at < oldest]
    return connection.execute(delete(events).where(events.c.number.in_(old))).rowcount if old else 0


def _delete_tokens(connection: Connection, oldest: dt.datetime | None, now: dt.datetime) -> int:
    def ended(at: dt.datetime) -> ColumnElement[bool]:
        return or_(tokens.c.revoked < at, tokens.c.expires < at)

    # "!" is the character after the space. Not LIKE, which ignores case in SQLite.
    session = and_(tokens.c.name > SESSION_PREFIX, tokens.c.name < SESSION_PREFIX[:-1] + "!")
    old = [and_(session, ended(now)), *([ended(oldest)] if oldest else [])]
    return connection.execute(delete(tokens).where(or_(*old))).rowcount


def _file_size(store: Store) -> int | None:
    """Return the size of SQLite's file in bytes; None if the store is on a server."""
    if store.engine.dialect.name != "sqlite":
        return None
    with store.reading() as connection:
        return int(connection.exec_driver_sql("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").scalar_one())


def _shrink(store: Store, steps: Sequence[int]) -> None:
    """Return SQLite's free pages to the file system, so many at once; fewer, where the disk is too full for that many.

    The log of each step is written back before the next one, so that it takes no more room than that of one step.
    """
    with store.sqlite_driver() as driver:
        for pages in steps if driver and driver.execute("PRAGMA freelist_count").fetchall()[0][0] else ():
            while _vacuum_step(driver, pages):
                pass


def _vacuum_step(driver: Any, pages: int) -> bool:
    """Free so many pages at the end of the file; False if none was freed."""
    free = driver.execute("PRAGMA freelist_count").fetchall()[0][0]
    try:
        driver.executescript(f"PRAGMA incremental_vacuum({pages})")  # which runs it to its end; execute() frees one page and stops
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    # A file that another program created may not have incremental vacuum enabled.
    return bool(driver.execute("PRAGMA freelist_count").fetchall()[0][0] < free)
