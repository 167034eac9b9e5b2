"""Patches, as they are proposed, requested and claimed, and their journal: what a batch was to write, and what became of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from sqlalchemy import Boolean, Column, Connection, ForeignKey, Index, Integer, Row, Table, and_, delete, func, insert, or_, select, update

from auditor.durations import durations
from auditor.errors import ConfigError, PatchRefused, UnknownPatch
from auditor.model import DifferenceKind
from auditor.store import events, leases
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, long_binary, metadata, short_text

if TYPE_CHECKING:
    from auditor.api_models.repair import PatchState

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
        leases.assign(connection, "patch", patch, durations().patch_lease)
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
        leases.renew(connection, "patch", patch, durations().patch_lease)

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


def count_with_rows(store: Store, audit: str) -> int:
    """Return how many patches of an audit have rows in the store."""
    joined = patches.outerjoin(patch_batches, patch_batches.c.patch == patches.c.patch)
    joined = joined.outerjoin(patch_plans, patch_plans.c.patch == patches.c.patch)
    has_rows = or_(patch_batches.c.body.is_not(None), patch_plans.c.patch.is_not(None))
    with store.reading() as connection:
        chosen = select(patches.c.patch).select_from(joined).where(patches.c.audit == audit, has_rows).distinct()
        return len(connection.execute(chosen).all())


def forget_asked(store: Store, audit: str, key: str, *, apply: bool) -> int:
    """Return how many patches of an audit were asked for by a range of keys that ends with a key; with ``apply``, they lose the range.

    One that waits or runs keeps it until it has ended. Raises StoreError.
    """

    def work(connection: Connection) -> int:
        found = 0
        ended = patches.c.state.not_in(("waiting", "running"))
        for row in connection.execute(select(patches).where(patches.c.audit == audit, ended)).all():
            asked = row.detail.get("asked") or {}
            if key in {str(asked[end]) for end in ("first", "last") if asked.get(end) is not None}:
                found += 1
                if apply:
                    detail = {**row.detail, "asked": {**asked, "first": None, "last": None}}
                    connection.execute(update(patches).where(patches.c.patch == row.patch).values(detail=detail))
        return found

    return store.write(work)


def drop_rows(store: Store, *, before: dt.datetime | None = None, run: str | None = None, audit: str | None = None) -> int:
    """Drop the rows of patches that are not at work, begun ``before``, of this ``run`` or ``audit``, and return of how many.

    They cannot be undone then, nor applied if they were only proposed.
    """
    chosen = [patches.c.state.not_in(("waiting", "running")), or_(patch_batches.c.body.is_not(None), patch_plans.c.patch.is_not(None))]
    chosen += [patches.c.at < before] if before is not None else []
    chosen += [patches.c.run == run] if run is not None else []
    chosen += [patches.c.audit == audit] if audit is not None else []

    def work(connection: Connection) -> int:
        joined = patches.outerjoin(patch_batches, patch_batches.c.patch == patches.c.patch)
        joined = joined.outerjoin(patch_plans, patch_plans.c.patch == patches.c.patch)
        stored_patches = list(connection.execute(select(patches.c.patch).select_from(joined).where(*chosen).distinct()).scalars())
        if not stored_patches:
            return 0
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


WRITTEN = ("updated", "inserted", "deleted")
"""The numbers, in a patch's details, of the rows that it wrote."""


def proposal_id(who: str, idempotency_key: str | None) -> str:
    """Return the id of a new proposal: the same one for the same caller and key."""
    return uuid.uuid4().hex if idempotency_key is None else _hash([who, "propose", idempotency_key])[:32]


class PatchPlan(TypedDict):
    """What a patch was proposed to change."""

    rows: list[JournalRow]
    columns: JournalColumns
    script: str | None
    """None where a column is masked."""


def find_proposal(store: Store, patch: str, run: str, asked: Mapping[str, Any]) -> Patch | None:
    """Return an earlier proposal of this id; None if there is none. Raises ConfigError if it was asked for otherwise."""
    with store.reading() as connection:
        row = connection.execute(select(patches).where(patches.c.patch == patch)).first()
    if row is not None and (row.run != run or row.detail.get("asked") != dict(asked)):
        raise ConfigError("the idempotency key was used for another patch; use a new key")
    return to_patch(row) if row else None


def save_proposal(
    store: Store, *, patch: str, run: str, audit: str, target: str, who: str, detail: Mapping[str, Any], plan: PatchPlan
) -> Patch:
    """Store a proposed patch, what it would change, and its event; return it, or the earlier one of this id."""
    body = zlib.compress(json.dumps(plan).encode())

    def work(connection: Connection) -> Patch:
        if (row := connection.execute(select(patches).where(patches.c.patch == patch)).first()) is not None:
            return to_patch(row)
        subject = {"patch": patch, "run": run, "audit": audit, "target": target, "detail": {**detail, "proposed_by": who}}
        _insert(connection, {**subject, "undoes": None, "state": "proposed", "undoable": False, "requested_by": who})
        connection.execute(insert(patch_plans).values(patch=patch, body=body))
        rows = {"rows": detail["planned"]}
        events.insert_event(connection, actor=who, action="patch proposed", subject=patch, detail={"run": run, "audit": audit, **rows})
        return to_patch(fetch_patch(connection, patch))

    return store.write(work)


def get_plan(store: Store, patch: str) -> PatchPlan | None:
    """Return what a patch was proposed to change; None if it was not proposed, or its rows were dropped."""
    with store.reading() as connection:
        body = connection.execute(select(patch_plans.c.body).where(patch_plans.c.patch == patch)).scalar()
    return None if body is None else json.loads(zlib.decompress(body))


def request_apply(store: Store, patch: str, *, rows: int, who: str, idempotency_key: str) -> Patch:
    """Ask for a proposed patch to be applied, and record the event; return it. A repeated request changes nothing.

    Raises UnknownPatch, ConfigError for a key of another request, and PatchRefused for a patch that was applied already, cannot be
    applied, or is of another number of ``rows``.
    """
    key = _hash([who, "apply", idempotency_key])

    def work(connection: Connection) -> Patch:
        row = fetch_patch(connection, patch)
        earlier = _find_request(connection, key)
        if earlier is not None:
            if earlier.patch != row.patch or row.detail["planned"] != rows:
                raise ConfigError("the idempotency key was used for another request; use a new key")
            return to_patch(row)
        _check_applicable(connection, row, rows)
        changed = {"state": "waiting", "request_key": key, "requested_by": who, "detail": {**row.detail, "applied_by": who}}
        still = patches.c.state == "proposed"
        if not connection.execute(update(patches).where(patches.c.patch == row.patch, still).values(**changed)).rowcount:
            raise PatchRefused(f"patch {row.patch} is being applied already; follow it")
        detail = {"run": row.run, "audit": row.audit, "rows": rows}
        events.insert_event(connection, actor=who, action="patch requested", subject=row.patch, detail=detail)
        return to_patch(fetch_patch(connection, row.patch))

    return store.write(work)


def _check_applicable(connection: Connection, row: Row[Any], rows: int) -> None:
    if row.state != "proposed":
        what = "is an undo" if row.undoes else "is being applied" if row.state in ("waiting", "running") else "was applied already"
        raise PatchRefused(f"patch {row.patch} {what} ({row.state}); propose a new one from the audit's last run")
    if why := row.detail.get("cannot_apply"):
        raise PatchRefused(f"patch {row.patch} cannot be applied: {why}")
    if connection.execute(select(patch_plans.c.patch).where(patch_plans.c.patch == row.patch)).first() is None:
        raise PatchRefused(f"the rows of patch {row.patch} were dropped from the store; propose it again")
    if rows != row.detail["planned"]:
        raise PatchRefused(
            f"patch {row.patch} changes {row.detail['planned']:,} rows, not {rows:,}; look at its rows, and send their number"
        )


def request_undo(store: Store, patch: str, *, rows: int, who: str, idempotency_key: str) -> Patch:
    """Ask for an applied patch to be undone, and record the event; return the undo, which is a patch of its own.

    Raises UnknownPatch, ConfigError for a key of another request, and PatchRefused for a patch that cannot be undone, or that wrote
    another number of ``rows``.
    """
    key = _hash([who, "undo", idempotency_key])

    def work(connection: Connection) -> Patch:
        original = fetch_patch(connection, patch)
        if (earlier := _find_request(connection, key)) is not None:
            if earlier.undoes != original.patch or earlier.detail["planned"] != rows:
                raise ConfigError("the idempotency key was used for another request; use a new key")
            return to_patch(earlier)
        _check_undoable(connection, original, rows)
        undo = uuid.uuid4().hex
        detail = {"planned": rows, "applied_by": who}
        subject = {name: getattr(original, name) for name in ("run", "audit", "target")}
        values = {**subject, "patch": undo, "undoes": original.patch, "state": "waiting", "undoable": True, "requested_by": who}
        _insert(connection, {**values, "detail": detail, "request_key": key})
        told = {"run": original.run, "audit": original.audit, "patch": original.patch, "rows": rows}
        events.insert_event(connection, actor=who, action="undo requested", subject=undo, detail=told)
        return to_patch(fetch_patch(connection, undo))

    return store.write(work)


def _check_undoable(connection: Connection, original: Row[Any], rows: int) -> None:
    name = original.patch
    if original.state == "undone":
        raise PatchRefused(f"patch {name} was undone already")
    if original.state not in ("done", "failed"):
        raise PatchRefused(f"patch {name} is {original.state}: it has written nothing that could be undone yet")
    if not original.undoable:
        raise PatchRefused(f"patch {name} cannot be undone: {NOT_UNDOABLE}")
    written = sum(original.detail.get(count, 0) for count in WRITTEN)
    if rows != written:
        raise PatchRefused(f"patch {name} wrote {written:,} rows, not {rows:,}; look at its rows, and send their number")
    at_work = select(patches.c.patch).where(patches.c.undoes == name, patches.c.state.in_(("waiting", "running")))
    if (other := connection.execute(at_work).scalar()) is not None:
        raise PatchRefused(f"patch {name} is being undone by patch {other}; follow that one")


def claim_patch(store: Store) -> Patch | None:
    """Assign the patch that waits longest, and whose table no other patch is writing, to this process; None if there is none."""
    with store.reading() as connection:
        if connection.execute(select(patches.c.patch).where(patches.c.state == "waiting").limit(1)).first() is None:
            return None

    def work(connection: Connection) -> Patch | None:
        for row in connection.execute(select(patches).where(patches.c.state == "waiting").order_by(patches.c.at, patches.c.patch)).all():
            busy = select(patches.c.patch).where(patches.c.target == row.target, patches.c.state == "running")
            if connection.execute(busy).first() is not None:
                continue
            begun = {"state": "running", "detail": {**row.detail, "begun": database_time(connection).isoformat()}}
            still = patches.c.state == "waiting"
            if connection.execute(update(patches).where(patches.c.patch == row.patch, still).values(**begun)).rowcount:
                leases.assign(connection, "patch", row.patch, durations().patch_lease)
                what = "undo begun" if row.undoes else "patch begun"
                detail = {"run": row.run, "audit": row.audit}
                events.insert_event(connection, actor=row.requested_by, action=what, subject=row.patch, detail=detail)
                return to_patch(fetch_patch(connection, row.patch))
        return None

    return store.write(work)


def count_waiting(store: Store) -> int:
    """Return the number of patches that wait for a worker."""
    with store.reading() as connection:
        waiting: int = connection.execute(select(func.count()).select_from(patches).where(patches.c.state == "waiting")).scalar_one()
        return waiting


def begin_claimed(store: Store, patch: str, *, undoable: bool, detail: Mapping[str, Any]) -> None:
    """Store, before the first row is written, whether a claimed patch can be undone. Raises PatchRefused if it is no longer at work."""

    def work(connection: Connection) -> None:
        row = fetch_patch(connection, patch)
        if row.state != "running":
            raise PatchRefused(f"patch {patch} is no longer at work ({row.state}); look at it again")
        values = {"undoable": undoable, "detail": {**row.detail, **detail}}
        connection.execute(update(patches).where(patches.c.patch == patch).values(**values))
        leases.renew(connection, "patch", patch, durations().patch_lease)

    store.write(work)


def release_patch(store: Store, patch: str) -> None:
    """Leave a patch at work without a process, so that it is settled as that of a dead one."""
    store.write(lambda connection: leases.drop(connection, "patch", patch))


def find_undo(store: Store, patch: str) -> Patch | None:
    """Return the last patch that undoes a patch, or is to; None if there is none."""
    with store.reading() as connection:
        undos = select(patches).where(patches.c.undoes == patch).order_by(patches.c.at.desc(), patches.c.patch)
        row = connection.execute(undos).first()
        return to_patch(row) if row else None


def _insert(connection: Connection, values: Mapping[str, Any]) -> None:
    connection.execute(insert(patches).values(**values, at=database_time(connection)))


def _find_request(connection: Connection, key: str) -> Row[Any] | None:
    return connection.execute(select(patches).where(patches.c.request_key == key)).first()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
