"""Patches that are requested before they are written: what was proposed, who asked to apply or undo it, and which process takes it up."""

from __future__ import annotations

import hashlib
import json
import uuid
import zlib
from collections.abc import Mapping
from typing import Any, TypedDict

from sqlalchemy import Connection, Row, func, insert, select, update

from auditor.errors import ConfigError, PatchRefused
from auditor.store import events, leases
from auditor.store._store import Store, database_time
from auditor.store.patches import NOT_UNDOABLE, JournalColumns, JournalRow, Patch, fetch_patch, patch_plans, patches, to_patch
from auditor.waits import waits

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
                leases.assign(connection, "patch", row.patch, waits().patch_silent)
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
        leases.renew(connection, "patch", patch, waits().patch_silent)

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
