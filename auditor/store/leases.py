"""Leases: who owns what until when, all in one table.

=========== ======================================= ================================ ==========================================
kind        what is owned, by its name              renewed                          free again
=========== ======================================= ================================ ==========================================
source      the change stream of a source           by `keep`                        after its time, or when its process ended
target      the loading of ``pipeline/target``      by `keep`                        likewise
refreshes   the sending of a pipeline's rows        by `keep`                        likewise
run         a running run                           with its heartbeats and chunks   when its process ended; after its time, where
                                                                                     this host cannot tell
patch       a patch at work                         with its batches                 likewise
bootstrap   a bootstrap at work                     with its ranges                  likewise
slot        a statement slot of a database, or a    by `throttle`                    after its time
            place in the queue for one (`take_slot`)
=========== ======================================= ================================ ==========================================

Who changes what is owned renews the lease first, in the same transaction (`renew`): that locks its row, so that a process that takes it
over waits for this transaction, or this one finds that it lost the lease.

A statement slot limits the concurrent statements on a connection's database over all processes that share the store, first come first
served. A database has several of these leases: each slot in use is a row with the slot's number, from 0, which is part of the primary key,
so that the database guarantees the limit. Each waiting holder has a row too, with a negative number: the lower, the later it arrived.

How long each lease lasts is in `auditor/durations.py`: `pipeline_lease` (source, target, refreshes), `command_lease` (the same, of a
command that keeps a pipeline from running), `run_lease`, `patch_lease` (patches and bootstraps), `slot_lease`.

A hold of a target's table is no lease: see `holds`.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypedDict

from sqlalchemy import Column, ColumnElement, Connection, Integer, Row, Select, Table, and_, delete, exc, insert, select, update

from auditor.background import Service
from auditor.durations import durations
from auditor.errors import AuditorError, LeaseTaken, RunLost, StoreError, UnknownRun
from auditor.store.database import Store, database_time
from auditor.store.schema import Moment, big_integer, metadata, short_text

leases = Table(
    "auditor_leases",
    metadata,
    Column("kind", short_text(16), primary_key=True),
    Column("name", short_text(), primary_key=True),
    Column("slot", Integer(), primary_key=True, autoincrement=False),
    Column("holder", short_text(64), nullable=False),
    Column("host", short_text(), nullable=False),
    Column("pid", big_integer(), nullable=False),
    Column("process", short_text(64), nullable=False),
    Column("heartbeat", Moment(), nullable=False),
    Column("until", Moment(), nullable=False),
)
"""Who owns what until when (`auditor.store.leases`). ``slot`` is 0 but for statement slots, of which a database has several: those in
use from 0 on, and a negative number for each waiting holder."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its host name, process id, and when it started.

    ``started`` distinguishes it from a later process with the same id: boot id, PID namespace and start time in clock ticks since the boot,
    as Linux's /proc has them; '' on other systems.
    """

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """Return the calling process."""
    return Owner(socket.gethostname(), os.getpid(), _start_marker(os.getpid()))


def has_ended(owner: Owner) -> bool | None:
    """Return whether the process has ended; None if this cannot be determined from this host."""
    if owner.host != socket.gethostname():
        return None
    if not owner.started or not _pid_namespace():
        return True if not _pid_exists(owner.pid) else None  # a living process may be another one that got the same id
    # Containers can share a host name but not their PID namespace, and a reboot makes earlier process ids meaningless.
    return _start_marker(owner.pid) != owner.started if owner.started.startswith(_pid_namespace()) else None


def _pid_exists(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_marker(pid: int) -> str:
    """Return the process's PID namespace and its start time in clock ticks since boot; '' if it has ended or /proc is missing."""
    try:
        # The program's name, in parentheses, may contain any character: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" or not _pid_namespace() else f"{_pid_namespace()}{fields[18]}"


@cache
def _pid_namespace() -> str:
    """Return the boot id and PID namespace, in which process ids are unique; '' if /proc is missing."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot[:13]}/{Path('/proc/self/ns/pid').readlink().name.strip('pid:[]')}/"
    except OSError:
        return ""


Kind = Literal["source", "target", "refreshes", "run", "patch", "bootstrap", "slot"]

Liveness = Literal["alive", "dead", "ahead"]
"""Of the process that owns something; ``ahead``: unknown, because its last heartbeat lies in the future."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it was read."""

    kind: Kind
    name: str
    holder: str
    """Distinguishes holders within one process; '' where the process itself is the holder."""
    owner: Owner
    heartbeat: dt.datetime
    """When it was taken or renewed last, by the store's clock."""
    until: dt.datetime

    def is_free(self, at: dt.datetime) -> bool:
        """Return whether another holder may take it: after its time, or when its process has ended, if this host can tell."""
        return self.until <= at or bool(has_ended(self.owner))

    def judge(self, at: dt.datetime) -> Liveness:
        """Return whether its process is alive, by its time only if this host cannot tell."""
        ended = has_ended(self.owner)
        if ended is not None:
            return "dead" if ended else "alive"
        if self.heartbeat > at:
            return "ahead"
        return "dead" if self.until < at else "alive"


def select_with_leases(table: Table, name: Column[Any], kind: Kind) -> Select[Any]:
    """Return the statement for a table's rows, each with the columns of its lease, which are NULL for a row without one.

    It is one statement, so that it does not see a row before its lease ends and the lease afterwards.
    """
    return select(table, leases).select_from(table.outerjoin(leases, _is(kind, name)))


def lease_of(row: Row[Any]) -> Lease | None:
    """Return the lease of a row that `select_with_leases` found; None for a row without one."""
    if row.holder is None:
        return None
    return Lease(row.kind, row.name, row.holder, Owner(row.host, row.pid, row.process), row.heartbeat, row.until)


def find_leases(connection: Connection, kind: Kind, names: Collection[str]) -> dict[str, Lease]:
    """Return those of the leases of a kind that exist, by name."""
    wanted = select(leases).where(leases.c.kind == kind, leases.c.name.in_(names), leases.c.slot == 0)
    taken = [lease_of(row) for row in connection.execute(wanted)] if names else []
    return {lease.name: lease for lease in taken if lease}


def describe_owner(connection: Connection, kind: Kind, name: str) -> str:
    """Return the process that has a lease, for an error message."""
    lease = find_leases(connection, kind, [name]).get(name)
    return str(lease.owner) if lease else "another process"


def assign(connection: Connection, kind: Kind, name: str, seconds: float) -> None:
    """Give a lease to this process, which found within the transaction that no other has it."""
    drop(connection, kind, name)
    times = lease_times(connection, seconds)
    connection.execute(insert(leases).values(kind=kind, name=name, slot=0, holder="", **owner_columns(this_process()), **times))


def renew(connection: Connection, kind: Kind, name: str, seconds: float) -> bool:
    """Renew a lease of this process, which locks it until the transaction ends; False if this process does not have it."""
    mine = and_(_is(kind, name), _is_owned_by("", this_process()))
    return bool(connection.execute(update(leases).where(mine).values(**lease_times(connection, seconds))).rowcount)


def give_back(connection: Connection, kind: Kind, name: str) -> bool:
    """Delete a lease of this process; False if this process does not have it."""
    mine = and_(_is(kind, name), _is_owned_by("", this_process()))
    return bool(connection.execute(delete(leases).where(mine)).rowcount)


def drop(connection: Connection, kind: Kind, name: str) -> None:
    """Delete a lease, whichever process owns it: what was owned has ended."""
    connection.execute(delete(leases).where(_is(kind, name)))


def take_away(connection: Connection, lease: Lease) -> bool:
    """Delete the lease of a dead process; False if it was renewed or taken since it was read."""
    return bool(connection.execute(delete(leases).where(_is_unchanged(lease))).rowcount)


def let_age(connection: Connection, lease: Lease, seconds: float) -> None:
    """Date a lease whose heartbeat lies in the future to now, unless it was renewed since it was read: it ages from there."""
    connection.execute(update(leases).where(_is_unchanged(lease)).values(**lease_times(connection, seconds)))


def take_lease(store: Store, kind: Kind, name: str, holder: str, seconds: float, owner: Owner | None = None) -> None:
    """Take or renew a lease for ``holder``, for ``seconds`` by the store's clock; ``owner`` is the holder's process, by default this one.

    A lease whose process has ended is free: what takes the place of a crashed process does not wait. Raises LeaseTaken while another
    holder has it, and StoreError.
    """
    process = owner or this_process()

    def work(connection: Connection) -> str:
        at = database_time(connection)
        lease = find_leases(connection, kind, [name]).get(name)
        values = {"holder": holder, **owner_columns(process), **lease_times(connection, seconds, at)}
        if lease is None:
            connection.execute(insert(leases).values(kind=kind, name=name, slot=0, **values))
            return ""
        if lease.holder == holder or lease.is_free(at):
            return "" if connection.execute(update(leases).where(_is_unchanged(lease)).values(**values)).rowcount else str(lease.owner)
        return f"{lease.owner} until {lease.until:%H:%M:%S} UTC"

    if taken := store.write(work):
        raise LeaseTaken(f"it is taken by {taken}; stop that process, or wait until its lease is over")


def is_held(store: Store, kind: Kind, name: str) -> bool:
    """Return whether a process has a lease: one that died has it until it runs out. Raises StoreError."""
    with store.reading() as connection:
        lease = find_leases(connection, kind, [name]).get(name)
        return lease is not None and lease.until > database_time(connection)


def release_lease(store: Store, kind: Kind, name: str, holder: str) -> None:
    """Give a lease back; does nothing if another holder has it. Raises StoreError."""
    mine = and_(_is(kind, name), leases.c.holder == holder)
    store.write(lambda connection: connection.execute(delete(leases).where(mine)) and None)


OnLost = Callable[[AuditorError], None]
"""Receives why something is no longer owned: LeaseTaken or RunLost if another process has it, UnknownRun if the run was deleted,
StoreError if it ran out."""


class Renewal(Service):
    """Renews what this process owns, again and again, and says when it is lost."""

    def __init__(
        self, name: str, renew: Callable[[], object], every: float, on_lost: OnLost = lambda _: None, lasts: float = math.inf
    ) -> None:
        """``lasts`` are the seconds without a renewal, because the store fails, after which it is lost."""
        super().__init__(name, self._renew_once, every, failure="the lease cannot be extended", action="lease_failed", waits_first=True)
        self._renew, self._on_lost, self._lasts, self._renewed = renew, on_lost, lasts, time.monotonic()

    def _renew_once(self) -> None:
        try:
            self._renew()
            self._renewed = time.monotonic()
        except (LeaseTaken, RunLost, UnknownRun) as error:
            self._on_lost(error)
        except StoreError as error:
            if time.monotonic() - self._renewed > self._lasts:
                self._on_lost(error)
            raise


@contextmanager
def keep(store: Store, kind: Kind, name: str, seconds: float, on_lost: OnLost = lambda _: None) -> Iterator[None]:
    """Have a lease for the block, and call ``on_lost``, in another thread, if it is lost. Raises LeaseTaken and StoreError."""
    holder = secrets.token_hex(16)
    take = partial(take_lease, store, kind, name, holder, seconds)
    take()
    try:
        with Renewal("lease", take, seconds / 6, on_lost, seconds):
            yield
    finally:
        with suppress(StoreError):  # then it runs out
            release_lease(store, kind, name, holder)


class OwnerColumns(TypedDict):
    """The columns that name a process as owner."""

    host: str
    pid: int
    process: str


class LeaseTimes(TypedDict):
    """The columns of a lease that say until when it is held."""

    heartbeat: dt.datetime
    until: dt.datetime


def owner_columns(owner: Owner) -> OwnerColumns:
    """Return the column values that name a process as owner."""
    return {"host": owner.host, "pid": owner.pid, "process": owner.started}


def lease_times(connection: Connection, seconds: float, at: dt.datetime | None = None) -> LeaseTimes:
    """Return the column values of a lease that is taken or renewed now, for so many seconds."""
    at = at or database_time(connection)
    return {"heartbeat": at, "until": at + dt.timedelta(seconds=seconds)}


def _is(kind: Kind, name: str | Column[Any]) -> ColumnElement[bool]:
    return and_(leases.c.kind == kind, leases.c.name == name, leases.c.slot == 0)


def _is_owned_by(holder: str, owner: Owner) -> ColumnElement[bool]:
    process = and_(leases.c.host == owner.host, leases.c.pid == owner.pid, leases.c.process == owner.started)
    return and_(leases.c.holder == holder, process)


def _is_unchanged(lease: Lease) -> ColumnElement[bool]:
    is_owned = _is_owned_by(lease.holder, lease.owner)
    return and_(_is(lease.kind, lease.name), is_owned, leases.c.heartbeat == lease.heartbeat)


def take_slot(store: Store, connection: str, limit: int, holder: str, seconds: float) -> bool:
    """Take one of a connection's ``limit`` slots for ``holder``, which holds at most one, and return whether one was free.

    If not, the holder is queued and must call this again soon. The slot expires after ``seconds`` unless `renew_slot` extends it.
    """

    def work(database: Connection) -> bool:
        at = database_time(database)
        rows = database.execute(select(leases).where(_slots_of(connection))).all()
        last_place = min((row.slot for row in rows if row.slot < 0), default=0) - 1
        own_place = next((row.slot for row in rows if row.slot < 0 and row.holder == holder), last_place)
        ahead = sum(own_place < row.slot < 0 and row.until > at for row in rows)
        taken = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until > at}
        expired = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until <= at}
        free = [slot for slot in range(limit) if slot not in taken]
        # A random one, so that concurrent holders seldom try the same slot.
        slot = random.choice(free) if len(free) > ahead else None
        taking = {"holder": holder, **lease_times(database, seconds, at)}
        if slot is not None and _write_slot(database, connection, slot, expired.get(slot), taking):
            database.execute(delete(leases).where(_slots_held_by(connection, holder), leases.c.slot < 0))
            return True
        waiting, times = and_(_slots_held_by(connection, holder), leases.c.slot < 0), lease_times(database, durations().slot_waiter, at)
        if not database.execute(update(leases).where(waiting).values(**times)).rowcount:
            database.execute(delete(leases).where(_slots_of(connection), leases.c.slot < 0, leases.c.until <= at))
            # Where another holder takes this place concurrently, the next call takes the one after it.
            _write_slot(database, connection, last_place, None, {"holder": holder, **times})
        return False

    return store.write(work)


def renew_slot(store: Store, connection: str, holder: str, seconds: float) -> bool:
    """Extend the holder's slot to ``seconds`` from now; returns False if it expired and was taken by another holder."""

    def work(database: Connection) -> bool:
        own_slot = and_(_slots_held_by(connection, holder), leases.c.slot >= 0)
        return bool(database.execute(update(leases).where(own_slot).values(**lease_times(database, seconds))).rowcount)

    return store.write(work)


def release_slot(store: Store, connection: str, holder: str) -> None:
    """Release the holder's slot, or its place among the waiting; does nothing if another holder has taken the slot."""
    store.write(lambda database: database.execute(delete(leases).where(_slots_held_by(connection, holder))) and None)


def _slots_of(connection: str) -> ColumnElement[bool]:
    return and_(leases.c.kind == "slot", leases.c.name == connection)


def _slots_held_by(connection: str, holder: str) -> ColumnElement[bool]:
    return and_(_slots_of(connection), leases.c.holder == holder)


def _write_slot(database: Connection, connection: str, slot: int, before: str | None, values: dict[str, object]) -> bool:
    """Write a free slot or place, or a slot that expired under ``before``; returns False if another process took it concurrently."""
    values = {**values, **owner_columns(this_process())}
    if before is not None:
        same = and_(_slots_held_by(connection, before), leases.c.slot == slot)
        return bool(database.execute(update(leases).where(same).values(**values)).rowcount)
    # A failed statement ends a transaction of PostgreSQL alone; MySQL drops the savepoint after a deadlock, which would hide that.
    guard = database.begin_nested() if database.dialect.name == "postgresql" else nullcontext()
    try:
        with guard:
            database.execute(insert(leases).values(kind="slot", name=connection, slot=slot, **values))
    except exc.IntegrityError:
        return False
    return True
