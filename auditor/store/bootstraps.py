"""Bootstraps and their journal: what is copied, how far it came, and what it leaves in its target."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from sqlalchemy import Column, Connection, ForeignKey, Index, Integer, Row, Select, Table, delete, func, insert, select, update

from auditor.durations import durations
from auditor.errors import BootstrapRefused, UnknownBootstrap
from auditor.store import events, leases
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, metadata, short_text

if TYPE_CHECKING:
    from auditor.api_models.bootstrap import BootstrapStage, BootstrapState

bootstraps = Table(
    "auditor_bootstraps",
    metadata,
    Column("bootstrap", short_text(64), primary_key=True),
    Column("audit", short_text(), nullable=False),
    Column("target", short_text(64), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("stage", short_text(16), nullable=False),
    Column("detail", Json(), nullable=False),
    Index("auditor_bootstraps_target_at", "target", "at"),
)
"""Bootstraps that were begun. ``target`` is a hash of the table that is copied anew."""

bootstrap_ranges = Table(
    "auditor_bootstrap_ranges",
    metadata,
    Column("bootstrap", short_text(64), ForeignKey("auditor_bootstraps.bootstrap", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("detail", Json(), nullable=False),
)
"""The ranges of keys of a bootstrap that were copied, each with its rows, bytes and digest."""


SWAPPED_AT = "%Y-%m-%d %H:%M:%S UTC"
"""How the moment is stored at which a copy was in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """A bootstrap that was begun; ``target`` identifies its table, ``detail`` has its plan and the names of the tables that it made."""

    bootstrap: str
    audit: str
    target: str
    requested_by: str
    at: dt.datetime
    state: BootstrapState
    stage: BootstrapStage
    detail: dict[str, Any]


def begin_bootstrap(store: Store, *, bootstrap: str, audit: str, target: str, who: str, detail: Mapping[str, Any]) -> None:
    """Store that a bootstrap begins, and its event. Raises BootstrapRefused while another of the table has not ended, and StoreError."""

    def work(connection: Connection) -> None:
        open_ones = select(bootstraps).where(bootstraps.c.target == target, bootstraps.c.state.in_(("running", "stopped", "failed")))
        if (busy := connection.execute(open_ones).first()) is not None:
            where = leases.describe_owner(connection, "bootstrap", busy.bootstrap) if busy.state == "running" else busy.state
            raise BootstrapRefused(f"bootstrap {busy.bootstrap} of this table has not ended ({where}); continue it, or drop its copy")
        subject = {"bootstrap": bootstrap, "audit": audit, "target": target, "requested_by": who, "at": database_time(connection)}
        connection.execute(insert(bootstraps).values(**subject, state="running", stage="copying", detail=dict(detail)))
        leases.assign(connection, "bootstrap", bootstrap, durations().patch_lease)
        events.insert_event(connection, actor=who, action="bootstrap begun", subject=bootstrap, detail={"audit": audit})

    store.write(work)


def continue_bootstrap(store: Store, bootstrap: str) -> None:
    """Give a bootstrap that was stopped, failed or killed to this process. Raises BootstrapRefused while it is at work, and StoreError."""

    def work(connection: Connection) -> None:
        row = connection.execute(_with_lease(bootstrap)).one()
        if _is_at_work(connection, row):
            where = leases.describe_owner(connection, "bootstrap", bootstrap)
            raise BootstrapRefused(f"bootstrap {bootstrap} of this table is at work ({where}); wait for its end")
        connection.execute(update(bootstraps).where(bootstraps.c.bootstrap == bootstrap).values(state="running"))
        leases.assign(connection, "bootstrap", bootstrap, durations().patch_lease)

    store.write(work)


def save_stage(store: Store, bootstrap: str, stage: BootstrapStage, detail: Mapping[str, Any] | None = None) -> None:
    """Store how far a bootstrap came, durably, and add to its detail. Raises StoreError."""

    def work(connection: Connection) -> None:
        same = bootstraps.c.bootstrap == bootstrap
        row = connection.execute(select(bootstraps).where(same)).one()
        connection.execute(update(bootstraps).where(same).values(stage=stage, detail={**row.detail, **(detail or {})}))
        leases.renew(connection, "bootstrap", bootstrap, durations().patch_lease)

    store.write(work)


class StoredRange(TypedDict):
    """A range of keys that was copied, as the store has it."""

    rows: int
    bytes: int
    sha256: str
    file: str
    snapshot: str
    loaded: NotRequired[bool]


def save_range(store: Store, bootstrap: str, number: int, detail: StoredRange) -> None:
    """Store that a range of keys was copied, in place of what was stored of it. Raises StoreError."""

    def work(connection: Connection) -> None:
        same = (bootstrap_ranges.c.bootstrap == bootstrap) & (bootstrap_ranges.c.number == number)
        connection.execute(delete(bootstrap_ranges).where(same))
        connection.execute(insert(bootstrap_ranges).values(bootstrap=bootstrap, number=number, detail=dict(detail)))
        leases.renew(connection, "bootstrap", bootstrap, durations().patch_lease)

    store.write(work)


def forget_ranges(store: Store, bootstrap: str, numbers: list[int]) -> None:
    """Store that ranges have to be copied again. Raises StoreError."""
    chosen = (bootstrap_ranges.c.bootstrap == bootstrap) & bootstrap_ranges.c.number.in_(numbers)
    store.write(lambda connection: connection.execute(delete(bootstrap_ranges).where(chosen)) and None)


def list_ranges(store: Store, bootstrap: str) -> dict[int, StoredRange]:
    """Return what is stored of a bootstrap's copied ranges, by their numbers."""
    with store.reading() as connection:
        rows = connection.execute(select(bootstrap_ranges).where(bootstrap_ranges.c.bootstrap == bootstrap))
        return {row.number: row.detail for row in rows}


def end_bootstrap(store: Store, bootstrap: str, state: BootstrapState, detail: Mapping[str, Any] | None = None) -> None:
    """Store how a bootstrap ended, and its event. Raises StoreError."""

    def work(connection: Connection) -> None:
        same = bootstraps.c.bootstrap == bootstrap
        row = connection.execute(select(bootstraps).where(same)).one()
        connection.execute(update(bootstraps).where(same).values(state=state, detail={**row.detail, **(detail or {})}))
        leases.drop(connection, "bootstrap", bootstrap)
        what = "bootstrap dropped" if state == "dropped" else "bootstrap ended"
        events.insert_event(connection, actor=row.requested_by, action=what, subject=bootstrap, detail={"audit": row.audit, "state": state})

    store.write(work)


BOUNDS = ("first", "end")
"""The keys of a range of keys, the latter exclusive, as a bootstrap's detail has them."""


def forget_key(store: Store, audit: str, key: str, *, apply: bool) -> tuple[int, int]:
    """Return how many bootstraps of an audit have a range of keys that begins or ends with a key, and how many of these have ended.

    With ``apply``, remove all bounds and digests of the ranges of those that have ended: the digest of one row is that of its values.
    One that did not end goes on from them. Raises StoreError.
    """

    def work(connection: Connection) -> tuple[int, int]:
        found, ended = 0, 0
        for row in connection.execute(select(bootstraps).where(bootstraps.c.audit == audit)).all():
            listed = [*row.detail["spans"], *row.detail["ranges"]]
            ends = {end for span in listed for end in (span["first"], span["end"], span["end"] and span["end"] - 1)}
            if key not in {str(end) for end in ends if end is not None}:
                continue
            found += 1
            if row.state not in ("done", "dropped"):
                continue
            ended += 1
            if apply:
                detail = {name: value for name, value in row.detail.items() if name != "why"}
                for name in ("spans", "ranges"):
                    detail[name] = [{**span, **dict.fromkeys(BOUNDS)} for span in row.detail[name]]
                same = bootstraps.c.bootstrap == row.bootstrap
                connection.execute(update(bootstraps).where(same).values(detail={**detail, "forgotten": True}))
                _forget_digests(connection, row.bootstrap)
        return found, ended

    return store.write(work)


def _forget_digests(connection: Connection, bootstrap: str) -> None:
    for row in connection.execute(select(bootstrap_ranges).where(bootstrap_ranges.c.bootstrap == bootstrap)).all():
        same = (bootstrap_ranges.c.bootstrap == bootstrap) & (bootstrap_ranges.c.number == row.number)
        connection.execute(update(bootstrap_ranges).where(same).values(detail={**row.detail, "sha256": ""}))


def delete_ended(connection: Connection, oldest: dt.datetime) -> int:
    """Delete bootstraps begun before a moment that have ended and left nothing in their target, and return how many.

    The last one of each audit that was done stays: it says when its table was last copied.
    """
    newest: dict[str, str] = {}
    old: list[str] = []
    ended = bootstraps.c.state.in_(("done", "dropped"))
    for row in connection.execute(select(bootstraps).where(ended).order_by(bootstraps.c.at.desc(), bootstraps.c.bootstrap.desc())):
        if row.state == "done":
            newest.setdefault(row.audit, row.bootstrap)
        is_gone = row.state == "dropped" or row.detail["swap"] == "by commit" or row.detail.get("old_dropped")
        if row.at < oldest and is_gone and newest.get(row.audit) != row.bootstrap:
            old.append(row.bootstrap)
    for bootstrap in old:
        connection.execute(delete(bootstrap_ranges).where(bootstrap_ranges.c.bootstrap == bootstrap))
        connection.execute(delete(bootstraps).where(bootstraps.c.bootstrap == bootstrap))
    return len(old)


def find_open(store: Store, target: str) -> Bootstrap | None:
    """Return the bootstrap of a table that has not ended; None if there is none."""
    with store.reading() as connection:
        chosen = (bootstraps.c.target == target) & bootstraps.c.state.in_(("running", "stopped", "failed"))
        row = connection.execute(select(bootstraps).where(chosen)).first()
        return _to_bootstrap(row) if row else None


def get_bootstrap(store: Store, bootstrap: str) -> Bootstrap:
    """Return the bootstrap whose id is, or begins with, ``bootstrap``. Raises UnknownBootstrap."""
    begins = select(bootstraps).where(bootstraps.c.bootstrap >= bootstrap, bootstraps.c.bootstrap < f"{bootstrap}\U0010ffff").limit(2)
    with store.reading() as connection:
        rows = connection.execute(begins).all()
        if len(rows) != 1:
            what = f"more than one bootstrap begins with {bootstrap!r}" if rows else f"there is no bootstrap {bootstrap!r}"
            raise UnknownBootstrap(f"{what}; the page of its audit lists them")
        return _to_bootstrap(rows[0])


def list_bootstraps(store: Store, *, audit: str | None = None, target: str | None = None) -> list[Bootstrap]:
    """Return the bootstraps of an audit, or of a table, oldest first."""
    chosen = [bootstraps.c.audit == audit] if audit is not None else []
    chosen += [bootstraps.c.target == target] if target is not None else []
    with store.reading() as connection:
        rows = connection.execute(select(bootstraps).where(*chosen).order_by(bootstraps.c.at, bootstraps.c.bootstrap))
        return [_to_bootstrap(row) for row in rows]


@dataclass(frozen=True, slots=True)
class DoneBootstrap:
    """The last bootstrap of an audit's target that was done."""

    swapped_at: dt.datetime
    """When its copy was in the table."""
    rows: int
    seconds: float
    """From when it was begun until then, with the time in which it was stopped."""


def list_last_done(store: Store) -> dict[str, DoneBootstrap]:
    """Return the last bootstrap that was done, by audit; audits without one are left out."""
    is_done = bootstraps.c.state == "done"
    newest = select(bootstraps.c.audit, func.max(bootstraps.c.at).label("at")).where(is_done).group_by(bootstraps.c.audit).subquery()
    same = (bootstraps.c.audit == newest.c.audit) & (bootstraps.c.at == newest.c.at)
    with store.reading() as connection:
        rows = connection.execute(select(bootstraps).join(newest, same).where(is_done).order_by(bootstraps.c.bootstrap)).all()
    done = {}
    for row in rows:
        swapped_at = dt.datetime.strptime(row.detail["swapped_at"], SWAPPED_AT).replace(tzinfo=dt.UTC)
        done[row.audit] = DoneBootstrap(swapped_at, int(row.detail["rows"]), (swapped_at - row.at).total_seconds())
    return done


def is_at_work(store: Store, bootstrap: str) -> bool:
    """Return whether a process works on a bootstrap."""
    with store.reading() as connection:
        return _is_at_work(connection, connection.execute(_with_lease(bootstrap)).one())


def _with_lease(bootstrap: str) -> Select[Any]:
    return leases.select_with_leases(bootstraps, bootstraps.c.bootstrap, "bootstrap").where(bootstraps.c.bootstrap == bootstrap)


def _is_at_work(connection: Connection, row: Row[Any]) -> bool:
    lease = leases.lease_of(row)
    return row.state == "running" and lease is not None and lease.judge(database_time(connection)) != "dead"


def _to_bootstrap(row: Row[Any]) -> Bootstrap:
    names = ("bootstrap", "audit", "target", "requested_by", "at", "state", "stage", "detail")
    return Bootstrap(**{name: getattr(row, name) for name in names})
