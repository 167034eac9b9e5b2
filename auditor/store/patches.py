"""Patches and their journal: what was meant before a batch was written, and what became of it."""

from __future__ import annotations

import datetime as dt
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from sqlalchemy import Boolean, Column, Connection, ForeignKey, Index, Integer, Row, Table, and_, delete, insert, or_, select, update

from auditor.errors import PatchRefused, UnknownPatch
from auditor.model import DifferenceKind
from auditor.shapes.repair import PatchState
from auditor.store import events, leases
from auditor.store._schema import MYSQL, Json, Moment, Words, long_binary, metadata, short_text
from auditor.store._store import Store, database_time
from auditor.waits import waits

patches = Table(
    "auditor_patches",
    metadata,
    Column("patch", short_text(64), primary_key=True),
    Column("run", short_text(64), nullable=False),
    Column("audit", short_text(), nullable=False),
    Column("undoes", short_text(64)),
    Column("target", short_text(64), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("undoable", Boolean(), nullable=False),
    Column("detail", Json(), nullable=False),
    Column("request_key", short_text(64)),
    Column("after_run", short_text(64)),
    Index("auditor_patches_run_at", "run", "at"),
    Index("auditor_patches_request_key", "request_key", unique=True),
    Index("auditor_patches_after_run", "after_run"),
    **MYSQL,
)
"""Patches that were proposed or applied. ``target`` is a hash of the patched table; ``run`` no foreign key, as a patch outlives its run.

``request_key`` is a hash of the idempotency key of the request to apply it, or of the request for an undo; ``after_run`` the run that
looked at its rows afterwards.
"""

patch_plans = Table(
    "auditor_patch_plans",
    metadata,
    Column("patch", short_text(64), ForeignKey("auditor_patches.patch", ondelete="CASCADE"), primary_key=True),
    Column("body", long_binary(), nullable=False),
    **MYSQL,
)
"""What a patch was proposed to change, packed: its rows, and its script unless a column is masked. Deleted with its journal's rows."""

patch_batches = Table(
    "auditor_patch_batches",
    metadata,
    Column("patch", short_text(64), ForeignKey("auditor_patches.patch", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("state", short_text(16), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("body", long_binary()),
    **MYSQL,
)
"""The journal: for each batch of a patch its rows as they were and as they should be, packed; null once that was dropped."""

BatchState = Literal["prepared", "committed", "applied", "void"]
"""``prepared``: about to be written. ``committed``: the target has it. ``applied``: and the source was read again. ``void``: it was not
written, and will not be."""

MEASURED = 5
"""Patches of an audit by which its rate is measured."""

MEASURED_ROWS = 100
"""The least rows of a patch by which it is measured."""

NOT_UNDOABLE = (
    "its journal has not all rows (a masked column without keep: journal_key, a deleted row's column that is not compared, or they were"
    " dropped)"
)
"""Why a patch cannot be undone that is not marked as undoable."""

QUICK = 1
"""How much zlib compresses a batch's rows: little, because a person waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch that was proposed or applied. ``undoes`` is the patch that it takes back; ``target`` identifies the patched table.

    ``requested_by`` proposed it or, once that was asked for, had it applied; ``after_run`` is the run that looked at its rows afterwards.
    """

    patch: str
    run: str
    audit: str
    undoes: str | None
    target: str
    requested_by: str
    at: dt.datetime
    state: PatchState
    undoable: bool
    """Whether its journal has all rows as they were."""
    after_run: str | None
    detail: dict[str, Any]
    """The numbers of rows by what became of them, what was proposed, and why it failed or was not audited again."""


class JournalTexts(TypedDict):
    """A row of the target as the journal has it."""

    texts: list[str | None]
    """None also for those of masked columns."""
    digest: str | None
    sealed: NotRequired[str]
    """The encrypted texts of masked columns."""


class JournalRow(TypedDict):
    """A change of a row as the journal has it."""

    kind: DifferenceKind
    key: list[str | None]
    old: JournalTexts | None
    new: JournalTexts | None
    columns: list[str]
    outcome: Literal["", "written", "left", "taken back"]
    """What became of it: not known yet, written, left as it had changed on the target, or deleted again as the source's had changed."""
    sql: NotRequired[str | None]
    """Only of a proposed patch; None where a column is masked."""


class JournalColumns(TypedDict):
    """What is needed to show the rows of a journal."""

    names: list[str]
    kinds: list[list[Any]]
    """The name and the scale of each."""
    key: int
    """How many are the key."""
    masked: list[str]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a patch's journal. ``rows`` is None once they were dropped."""

    number: int
    state: BatchState
    rows: list[JournalRow] | None


def begin_patch(
    store: Store, *, patch: str, run: str, audit: str, undoes: str | None, target: str, who: str, undoable: bool, detail: Mapping[str, Any]
) -> None:
    """Store that a patch begins, and its event. Raises PatchRefused while another process patches the same table, and StoreError.

    An earlier patch of the table whose process died must have been settled before: see ``list_dead``.
    """

    def work(connection: Connection) -> None:
        busy = connection.execute(select(patches).where(patches.c.target == target, patches.c.state == "running")).first()
        if busy is not None:
            where = leases.describe_owner(connection, "patch", busy.patch)
            raise PatchRefused(f"patch {busy.patch} of this table is at work ({where}); wait for its end")
        now = database_time(connection)
        subject = {"patch": patch, "run": run, "audit": audit, "undoes": undoes, "target": target, "requested_by": who, "at": now}
        begun = {**detail, "begun": now.isoformat()}
        connection.execute(insert(patches).values(**subject, state="running", undoable=undoable, detail=begun))
        leases.assign(connection, "patch", patch, waits().patch_silent)
        what = "undo begun" if undoes else "patch begun"
        events.insert_event(connection, actor=who, action=what, subject=patch, detail={"run": run, "audit": audit})

    store.write(work)


def write_batch(store: Store, patch: str, number: int, state: BatchState, rows: Sequence[JournalRow]) -> None:
    """Store a batch and its state, durably, in place of what was stored of it. Raises StoreError."""
    body = zlib.compress(json.dumps(list(rows)).encode(), QUICK)

    def work(connection: Connection) -> None:
        now = database_time(connection)
        same = and_(patch_batches.c.patch == patch, patch_batches.c.number == number)
        if not connection.execute(update(patch_batches).where(same).values(state=state, at=now, body=body)).rowcount:
            connection.execute(insert(patch_batches).values(patch=patch, number=number, state=state, at=now, body=body))
        leases.renew(connection, "patch", patch, waits().patch_silent)

    store.write(work)


def end_patch(store: Store, patch: str, state: PatchState, detail: Mapping[str, Any]) -> None:
    """Store how a patch ended, and its event; one that undoes another marks that as undone. Raises UnknownPatch and StoreError."""

    def work(connection: Connection) -> None:
        row = fetch_patch(connection, patch)
        ended = {**row.detail, **detail, "ended": database_time(connection).isoformat()}
        connection.execute(update(patches).where(patches.c.patch == patch).values(state=state, detail=ended))
        leases.drop(connection, "patch", patch)
        if row.undoes and state == "done":
            connection.execute(update(patches).where(patches.c.patch == row.undoes).values(state="undone"))
        counts = {name: value for name, value in detail.items() if isinstance(value, int)}
        what = "undo ended" if row.undoes else "patch ended"
        events.insert_event(connection, actor=row.requested_by, action=what, subject=patch, detail={"state": state, **counts})

    store.write(work)


def save_after(store: Store, patch: str, run: str | None, not_audited: str = "") -> None:
    """Store which run looked at a patch's rows afterwards, or why none did. Raises UnknownPatch and StoreError."""

    def work(connection: Connection) -> None:
        row = fetch_patch(connection, patch)
        detail = {**row.detail, **({"not_audited": not_audited} if not_audited else {})}
        connection.execute(update(patches).where(patches.c.patch == row.patch).values(after_run=run, detail=detail))

    store.write(work)


def get_patch(store: Store, patch: str) -> Patch:
    """Return the patch whose id is, or begins with, ``patch``. Raises UnknownPatch."""
    with store.reading() as connection:
        return to_patch(fetch_patch(connection, patch))


def list_patches(store: Store, run: str) -> list[Patch]:
    """Return the patches of a run, oldest first."""
    with store.reading() as connection:
        rows = connection.execute(select(patches).where(patches.c.run == run).order_by(patches.c.at, patches.c.patch))
        return [to_patch(row) for row in rows]


def measure_rate(store: Store, audit: str) -> float | None:
    """Return how many rows in a second the last patches of an audit wrote, from their begin to their end; None if there are none.

    Patches of fewer rows than MEASURED_ROWS say more of how they begin than of rows.
    """
    recent = select(patches.c.detail).where(patches.c.audit == audit, patches.c.state.in_(("done", "undone")))
    with store.reading() as connection:
        details = list(connection.execute(recent.order_by(patches.c.at.desc()).limit(10 * MEASURED)).scalars())
    written = [(sum(detail.get(name, 0) for name in ("updated", "inserted", "deleted")), detail) for detail in details if "ended" in detail]
    measured = [(rows, detail) for rows, detail in written if rows >= MEASURED_ROWS][:MEASURED]
    rows = sum(count for count, _ in measured)
    seconds = sum(
        (dt.datetime.fromisoformat(detail["ended"]) - dt.datetime.fromisoformat(detail["begun"])).total_seconds() for _, detail in measured
    )
    return rows / seconds if rows and seconds > 0 else None


def find_patch_before(store: Store, run: str) -> Patch | None:
    """Return the patch after which a run looked at its rows; None for any other run."""
    with store.reading() as connection:
        row = connection.execute(select(patches).where(patches.c.after_run == run)).first()
        return to_patch(row) if row else None


def list_dead(store: Store) -> list[Patch]:
    """Return the patches that are at work by the store, and whose process has ended."""
    with store.reading() as connection:
        at_work = leases.select_with_leases(patches, patches.c.patch, "patch").where(patches.c.state == "running")
        rows, now = connection.execute(at_work).all(), database_time(connection)
        return [to_patch(row) for row in rows if (lease := leases.lease_of(row)) is None or lease.judge(now) == "dead"]


def list_batches(store: Store, patch: str) -> list[Batch]:
    """Return the batches of a patch in their order."""
    with store.reading() as connection:
        rows = connection.execute(select(patch_batches).where(patch_batches.c.patch == patch).order_by(patch_batches.c.number)).all()
    return [Batch(row.number, row.state, None if row.body is None else json.loads(zlib.decompress(row.body))) for row in rows]


def drop_rows(store: Store, *, before: dt.datetime | None = None, run: str | None = None) -> int:
    """Drop the rows of patches that are not at work, begun ``before`` or of this ``run``, and return of how many.

    They cannot be undone then, nor applied if they were only proposed.
    """
    chosen = [patches.c.state.not_in(("waiting", "running")), or_(patch_batches.c.body.is_not(None), patch_plans.c.patch.is_not(None))]
    chosen += [patches.c.at < before] if before is not None else []
    chosen += [patches.c.run == run] if run is not None else []

    def work(connection: Connection) -> int:
        joined = patches.outerjoin(patch_batches, patch_batches.c.patch == patches.c.patch)
        joined = joined.outerjoin(patch_plans, patch_plans.c.patch == patches.c.patch)
        stored_patches = list(connection.execute(select(patches.c.patch).select_from(joined).where(*chosen).distinct()).scalars())
        connection.execute(delete(patch_plans).where(patch_plans.c.patch.in_(stored_patches)))
        connection.execute(update(patch_batches).where(patch_batches.c.patch.in_(stored_patches)).values(body=None))
        connection.execute(update(patches).where(patches.c.patch.in_(stored_patches)).values(undoable=False))
        return len(stored_patches)

    return store.write(work)


def fetch_patch(connection: Connection, patch: str) -> Row[Any]:
    """Return the row of the patch whose id is, or begins with, ``patch``. Raises UnknownPatch."""
    begins = select(patches).where(patches.c.patch >= patch, patches.c.patch < f"{patch}\U0010ffff").limit(2)
    rows = connection.execute(begins).all() if patch else []
    if len(rows) != 1:
        what = f"more than one patch begins with {patch!r}" if rows else f"there is no patch {patch!r}"
        raise UnknownPatch(f"{what}; list the patches of a run with: auditor show RUN")
    return rows[0]


def to_patch(row: Row[Any]) -> Patch:
    """Return the patch of a row."""
    names = ("patch", "run", "audit", "undoes", "target", "requested_by", "at", "state", "undoable", "after_run", "detail")
    return Patch(**{name: getattr(row, name) for name in names})
