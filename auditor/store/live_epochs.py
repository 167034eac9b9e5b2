"""Epochs of live summaries: under which plan a stream keeps an audit's summaries of its source, since where, and why no longer.

======== ============================================================================ ===========================
state    meaning                                                                      set by
======== ============================================================================ ===========================
wanted   the pipeline's tasks shall sum up what they stage of the table               `begin_epoch`
scanning a snapshot of the source is open at the epoch's place, behind which nothing  `place_epoch`
         was staged without its sums
kept     the scan is done, and its summaries are the base                             `keep_epoch`
ended    for a reason that is a sentence                                              `end_epoch`
======== ============================================================================ ===========================

An audit has one epoch at most that has not ended.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Index, Row, Table, and_, delete, func, insert, select, update

from auditor.errors import LiveSummariesWrong
from auditor.model import LiveEpoch
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, long_binary, metadata, short_text

live_epochs = Table(
    "auditor_live_epochs",
    metadata,
    Column("epoch", short_text(16), primary_key=True),
    Column("audit", short_text(), nullable=False),
    Column("pipeline", short_text(), nullable=False),
    Column("target", short_text(), nullable=False),
    Column("table_name", short_text(), nullable=False),
    Column("fingerprint", short_text(16), nullable=False),
    Column("layout", short_text(64), nullable=False),
    Column("plan", Json(), nullable=False),
    Column("condition", Words(), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("requested_at", Moment(), nullable=False),
    Column("position", big_integer(), nullable=False),
    Column("log_place", Words(), nullable=False),
    Column("begun_at", Moment()),
    Column("proved_position", big_integer(), nullable=False),
    Column("proved_log_place", Words(), nullable=False),
    Column("proved_at", Moment()),
    Column("ended", Moment()),
    Column("reason", Words(), nullable=False),
    Column("base", long_binary()),
    Column("base_check", short_text(64), nullable=False),
    Column("ledger", Boolean(), nullable=False),
    Column("ledger_ended", Words(), nullable=False),
    Index("auditor_live_epochs_audit", "audit", "requested_at"),
    Index("auditor_live_epochs_pipeline", "pipeline", "state"),
)
"""The epochs of audits' live summaries: under which plan, since where, and the summaries of the scan with which each began."""

live_checks = Table(
    "auditor_live_checks",
    metadata,
    Column("epoch", short_text(16), primary_key=True),
    Column("number", big_integer(), primary_key=True, autoincrement=False),
    Column("position", big_integer(), nullable=False),
    Column("at", Moment()),
    Column("noted_at", Moment(), nullable=False),
    Column("scanned", Boolean(), nullable=False),
    Column("apart", long_binary(), nullable=False),
    Column("missing", long_binary(), nullable=False),
)
"""What runs found of the target as of a position, of epochs whose merges keep a ledger."""

live_links = Table(
    "auditor_live_links",
    metadata,
    Column("epoch", short_text(16), primary_key=True),
    Column("place", big_integer(), primary_key=True, autoincrement=False),
    Column("previous", big_integer(), nullable=False),
    Column("layout", short_text(64), nullable=False),
    Column("shape", short_text(64), nullable=False),
    Column("digest", short_text(64), nullable=False),
    Column("body", long_binary(), nullable=False),
)
"""What events change in the sums of epochs whose targets are written by commits, which have no room for it. A link is of the stream, not of
the target: it is stored before the commit that reaches its place, and does no harm if that is never made."""

MOST_CHECKS = 1000
"""The newest checks of an epoch that are kept, beside the first one, before which nothing is looked at, and those that changed its sums."""

COLUMNS = [column for column in live_epochs.c if column.name not in ("base", "base_check", "requested_at")]
"""What is read of an epoch; its base may have megabytes."""


@dataclass(frozen=True, slots=True)
class EpochSubject:
    """Of what an epoch holds the summaries."""

    audit: str
    pipeline: str
    target: str
    table: str
    """The table as the stream calls it, ``database.table``."""


def begin_epoch(
    store: Store, subject: EpochSubject, *, fingerprint: str, layout: str, plan: Mapping[str, Any], where: str = "", ledger: bool = False
) -> LiveEpoch:
    """Begin an epoch in the state wanted, and end the one that the audit has; return it.

    ``where`` is the audit's filter in the portable language; with ``ledger``, merges keep what they did. Raises StoreError.
    """
    id_ = secrets.token_hex(8)
    subject_values = {"audit": subject.audit, "pipeline": subject.pipeline, "target": subject.target, "table_name": subject.table}
    settings: dict[str, object] = {"ledger": ledger, "ledger_ended": ""}
    settings |= {"fingerprint": fingerprint, "layout": layout, "plan": dict(plan), "condition": where, "state": "wanted", "base_check": ""}
    unplaced = {"position": 0, "log_place": "", "proved_position": 0, "proved_log_place": "", "reason": ""}

    def work(connection: Connection) -> None:
        now = database_time(connection)
        over = {"state": "ended", "ended": now, "reason": "the audit began its live summaries anew", "base": None}
        connection.execute(update(live_epochs).where(live_epochs.c.audit == subject.audit, live_epochs.c.state != "ended").values(**over))
        of_audit = select(live_epochs.c.epoch).where(live_epochs.c.audit == subject.audit)
        for kept in (live_checks, live_links):
            connection.execute(delete(kept).where(kept.c.epoch.in_(of_audit)))
        connection.execute(insert(live_epochs).values(epoch=id_, requested_at=now, **subject_values, **settings, **unplaced))

    store.write(work)
    epoch = get_epoch(store, id_)
    assert epoch is not None
    return epoch


def get_epoch(store: Store, epoch: str) -> LiveEpoch | None:
    """Return an epoch; None if there is none of this id. Raises StoreError."""
    with store.reading() as connection:
        row = connection.execute(select(*COLUMNS).where(live_epochs.c.epoch == epoch)).one_or_none()
    return None if row is None else _epoch(row)


def current_epoch(store: Store, audit: str) -> LiveEpoch | None:
    """Return the epoch of an audit that has not ended, whatever its state; None if there is none. Raises StoreError."""
    epochs = list_epochs(store, audit=audit, lasting=True)
    return epochs[0] if epochs else None


def list_epochs(store: Store, *, audit: str | None = None, pipeline: str | None = None, lasting: bool = False) -> list[LiveEpoch]:
    """Return the epochs of an audit, a pipeline or all, the newest first; ``lasting``: those that have not ended. Raises StoreError."""
    wanted = [live_epochs.c.audit == audit] if audit is not None else []
    wanted += [live_epochs.c.pipeline == pipeline] if pipeline is not None else []
    wanted += [live_epochs.c.state != "ended"] if lasting else []
    with store.reading() as connection:
        rows = connection.execute(select(*COLUMNS).where(*wanted).order_by(live_epochs.c.requested_at.desc(), live_epochs.c.epoch)).all()
    return [_epoch(row) for row in rows]


def place_epoch(store: Store, epoch: str, *, position: int, log_place: str, at: dt.datetime) -> bool:
    """Say at which place a snapshot of the source is open; the epoch is scanning then. False if it is no longer wanted.

    It must be called before a target may merge beyond the place. ``at`` is the source's clock there. Raises StoreError.
    """
    values = {"state": "scanning", "position": position, "log_place": log_place, "begun_at": at}
    return _change(store, epoch, "wanted", values)


def keep_epoch(store: Store, epoch: str, base: bytes) -> bool:
    """Store the summaries of the scan at the epoch's place, and say that it is kept; False if it has ended meanwhile.

    ``base`` is what `auditor.summary.codec.pack_summaries` makes of them. Raises StoreError.
    """
    live_epoch = get_epoch(store, epoch)
    if live_epoch is None or live_epoch.state != "scanning":
        return False
    proved = {"proved_position": live_epoch.position, "proved_log_place": live_epoch.log_place, "proved_at": live_epoch.begun_at}
    return _change(store, epoch, "scanning", {"state": "kept", "base": base, "base_check": _check(live_epoch, base), **proved})


def prove_epoch(store: Store, epoch: str, *, position: int, log_place: str, at: dt.datetime, base: bytes | None = None) -> bool:
    """Say that the sums equalled a scan of the source at a place; False if the epoch is not kept.

    ``base`` is the new base where they did not, by which they do: the old one plus what the scan has and the sums lack. Raises StoreError.
    """
    live_epoch = get_epoch(store, epoch)
    if live_epoch is None or live_epoch.state != "kept":
        return False
    corrected = {} if base is None else {"base": base, "base_check": _check(live_epoch, base)}
    return _change(store, epoch, "kept", {"proved_position": position, "proved_log_place": log_place, "proved_at": at, **corrected})


def end_epoch(store: Store, epoch: str, reason: str) -> bool:
    """End an epoch for a reason, a sentence; False if it had ended, for the reason that it keeps. Raises StoreError."""

    def work(connection: Connection) -> bool:
        same = and_(live_epochs.c.epoch == epoch, live_epochs.c.state != "ended")
        over = {"state": "ended", "ended": database_time(connection), "reason": reason, "base": None, "base_check": ""}
        connection.execute(delete(live_links).where(live_links.c.epoch == epoch))
        return bool(connection.execute(update(live_epochs).where(same).values(**over)).rowcount)

    return store.write(work)


def end_ledger(store: Store, epoch: str, reason: str) -> bool:
    """End the ledger of an epoch, which lasts itself; False if it had ended, for the reason that it keeps. Raises StoreError."""

    def work(connection: Connection) -> bool:
        same = and_(live_epochs.c.epoch == epoch, live_epochs.c.ledger_ended == "")
        return bool(connection.execute(update(live_epochs).where(same).values(ledger_ended=reason)).rowcount)

    return store.write(work)


@dataclass(frozen=True, slots=True)
class Check:
    """What a run found of the whole target as of a position, against the sums of an epoch."""

    position: int
    at: dt.datetime | None
    """When the source committed the last event before it: the target was read later. None if unknown."""
    scanned: bool
    """Whether the run scanned the source, too."""
    apart: bytes
    """Target minus source, of the partitions that differ, as `auditor.run.live.running_sums.pack` writes them."""
    missing: bytes = b""
    """What the scan of the source had and the sums had not, likewise: they have it from here on."""
    noted_at: dt.datetime | None = None
    """When it was stored, by the store's clock: the target was read before."""


def add_check(store: Store, epoch: str, check: Check) -> None:
    """Store what a run found. Raises StoreError."""
    values = {name: getattr(check, name) for name in Check.__slots__ if name != "noted_at"}
    of_epoch = live_checks.c.epoch == epoch

    def work(connection: Connection) -> None:
        last = connection.execute(select(func.max(live_checks.c.number)).where(of_epoch)).scalar() or 0
        connection.execute(insert(live_checks).values(epoch=epoch, number=last + 1, noted_at=database_time(connection), **values))
        old = live_checks.c.number.between(2, last + 1 - MOST_CHECKS)
        connection.execute(delete(live_checks).where(of_epoch, old, live_checks.c.missing == b""))

    store.write(work)


def list_checks(store: Store, epoch: str) -> list[Check]:
    """Return what runs found against the sums of an epoch, in the order in which they did. Raises StoreError."""
    columns = [live_checks.c[name] for name in Check.__slots__]
    with store.reading() as connection:
        rows = connection.execute(select(*columns).where(live_checks.c.epoch == epoch).order_by(live_checks.c.number)).all()
    return [Check(row.position, row.at, row.scanned, bytes(row.apart), bytes(row.missing), row.noted_at) for row in rows]


def get_base(store: Store, epoch: str) -> bytes:
    """Return the summaries of the scan with which an epoch began, as `auditor.summary.codec.unpack_summaries` reads them.

    Raises LiveSummariesWrong if they are not those that were stored, or the epoch is not kept, and StoreError.
    """
    live_epoch = get_epoch(store, epoch)
    with store.reading() as connection:
        row = connection.execute(select(live_epochs.c.base, live_epochs.c.base_check).where(live_epochs.c.epoch == epoch)).one_or_none()
    if live_epoch is None or row is None or row.base is None:
        raise LiveSummariesWrong(f"the epoch {epoch} of live summaries has no base: {live_epoch.reason if live_epoch else 'it is unknown'}")
    base = bytes(row.base)
    if _check(live_epoch, base) != row.base_check:
        raise LiveSummariesWrong(f"the base of the live summaries of {live_epoch.audit} is not what was stored; they have to start again")
    return base


def base_size(store: Store, epoch: str) -> int:
    """Return how many bytes the base of an epoch has; 0 if it has none yet. Raises StoreError."""
    with store.reading() as connection:
        return int(connection.execute(select(func.length(live_epochs.c.base)).where(live_epochs.c.epoch == epoch)).scalar() or 0)


@dataclass(frozen=True, slots=True)
class StoredLink:
    """What the events after one place, up to another, change in the sums of an epoch, as `auditor.run.live.running_sums` has it."""

    epoch: str
    place: int
    previous: int
    layout: str
    shape: str
    digest: str
    body: str


def add_link(store: Store, link: StoredLink) -> int:
    """Store a link, in the place of one that ends there, and return how many the epoch has.

    Raises LiveSummariesWrong if none ends where this one begins, or one is of other columns, and StoreError.
    """
    of_epoch = live_links.c.epoch == link.epoch

    def work(connection: Connection) -> int:
        begin = connection.execute(select(live_epochs.c.position).where(live_epochs.c.epoch == link.epoch)).scalar()
        before = select(func.count()).select_from(live_links).where(of_epoch, live_links.c.place == link.previous)
        if link.previous != begin and not connection.execute(before).scalar():
            raise LiveSummariesWrong(f"the sums of what lies behind position {link.previous} are missing")
        shapes = set(connection.execute(select(live_links.c.shape).where(of_epoch).distinct()).scalars()) | {link.shape}
        if len(shapes - {""}) > 1:
            raise LiveSummariesWrong("a compared column of the source's table was changed")
        connection.execute(delete(live_links).where(of_epoch, live_links.c.place == link.place))
        connection.execute(insert(live_links).values(**_values(link)))
        return int(connection.execute(select(func.count()).select_from(live_links).where(of_epoch)).scalar() or 0)

    return store.write(work)


def list_links(store: Store, epoch: str) -> list[StoredLink]:
    """Return the links of an epoch by the places where they end, ascending. Raises StoreError."""
    columns = [live_links.c[name] for name in StoredLink.__slots__]
    with store.reading() as connection:
        rows = connection.execute(select(*columns).where(live_links.c.epoch == epoch).order_by(live_links.c.place)).all()
    return [StoredLink(**{**row._mapping, "body": bytes(row.body).decode()}) for row in rows]


def fold_links(store: Store, folded: StoredLink) -> None:
    """Put one link in the place of all that end where it ends, or before. Raises StoreError."""

    def work(connection: Connection) -> None:
        connection.execute(delete(live_links).where(live_links.c.epoch == folded.epoch, live_links.c.place <= folded.place))
        connection.execute(insert(live_links).values(**_values(folded)))

    store.write(work)


def _values(link: StoredLink) -> dict[str, Any]:
    return {**{name: getattr(link, name) for name in StoredLink.__slots__}, "body": link.body.encode()}


def _check(epoch: LiveEpoch, base: bytes) -> str:
    return hashlib.sha256(f"{epoch.id}|{epoch.layout}|{epoch.position}|".encode() + base).hexdigest()


def _change(store: Store, epoch: str, state: str, values: Mapping[str, Any]) -> bool:
    same = and_(live_epochs.c.epoch == epoch, live_epochs.c.state == state)
    return store.write(lambda connection: bool(connection.execute(update(live_epochs).where(same).values(**values)).rowcount))


def _epoch(row: Row[Any]) -> LiveEpoch:
    values = dict(row._mapping)
    return LiveEpoch(id=values.pop("epoch"), table=values.pop("table_name"), where=values.pop("condition"), **values)
