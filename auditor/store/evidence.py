"""The chains of evidence: a link for each run of an audit that ended, added in the transaction that stores the run.

A link stays for ever. Its payload, and the key of its keyed digests, stay as long as what they attest is stored: when a run is deleted,
resumed or scrubbed, they are removed, and the link alone goes on to hold the chain together.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Index, Table, Text, func, insert, select, type_coerce, update

from auditor.model import State
from auditor.store.audit_state import lock_state
from auditor.store.database import Store
from auditor.store.runs import StoredDifference, StoredRun, fetch_runs
from auditor.store.schema import (
    Json,
    audit_versions,
    big_integer,
    chunks,
    differences,
    long_binary,
    metadata,
    run_documents,
    runs,
    schemas,
    short_text,
)

evidence = Table(
    "auditor_evidence",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("number", big_integer(), primary_key=True, autoincrement=False),
    # No foreign key, because a link outlives its run.
    Column("run", short_text(64), nullable=False),
    Column("run_number", big_integer(), nullable=False),
    Column("link", long_binary(), nullable=False),
    Column("signature", short_text(128), nullable=False),
    # Null once the run was deleted, resumed or scrubbed.
    Column("payload", long_binary()),
    # Null as soon as the payload is, or when it was erased.
    Column("row_key", long_binary()),
    Index("auditor_evidence_run", "run"),
)
"""The links of each audit's chain, as they were signed; ``payload`` is what a run found, ``row_key`` makes its keyed digests."""

SEALED_COLUMNS = (
    "run", "audit", "version", "schema_version", "state", "verdict", "exit_code", "method", "reason", "requested_by", "overrides",
    "started", "ended", "seconds", "score", "lower", "upper", "published", "coverage", "source_rows", "target_rows", "partitions",
    "unequal", "missing", "extra", "changed", "unsettled", "reasons", "verified_through", "within_threshold", "within_threshold_through",
)  # fmt: skip
"""The columns of a run that do not change once it has ended."""

MAX_DIFFERENCES = 100_000
"""Differences that a payload lists at most; it counts all."""

MAX_PAYLOAD = 64 * 1024 * 1024
"""Bytes of a payload beyond which it is cut, as it was not written here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """What is stored of a run that has ended, for its link.

    ``contents`` has the bytes of each stored part by name. ``report`` is JSON, empty if there is none. ``differences`` are the first
    MAX_DIFFERENCES of ``difference_count``. ``summaries`` has a SHA-256 of all
    stored chunks in order, None without any, and ``chunks`` their number. ``previous`` is the SHA-256 of the chain's last link, None
    before the first; ``number`` is the place of the new one.
    """

    run: StoredRun
    contents: Mapping[str, bytes]
    report: bytes
    differences: tuple[StoredDifference, ...]
    difference_count: int
    chunks: int
    summaries: bytes | None
    previous: str | None
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedLink:
    """A link as it is stored: canonical JSON of link and payload, the signature in hexadecimal, and the key of the keyed digests."""

    link: bytes
    signature: str
    payload: bytes
    row_key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLink:
    """A link of a chain. ``payload`` and ``row_key`` are None once they were removed."""

    audit: str
    number: int
    run: str
    link: bytes
    signature: str
    payload: bytes | None
    row_key: bytes | None

    @property
    def digest(self) -> str:
        """Return the SHA-256 by which the next link names this one."""
        return hashlib.sha256(self.link).hexdigest()


Seal = Callable[[EndedRun], SignedLink]
"""Makes the link of a run. It is called within a transaction, which may be repeated."""


def add_link(connection: Connection, number: int, seal: Seal) -> None:
    """Add a run that has just ended to its audit's chain, after those that ended since the last link without finding anything.

    These are runs whose process died, or that were cancelled while they were pending: none of them has a verdict.
    """
    audit = connection.execute(select(runs.c.audit).where(runs.c.number == number)).scalar_one()
    lock_state(connection, audit)  # so that two links do not get one place
    for ended_number in (*_list_unlinked(connection, audit, number), number):
        _insert(connection, audit, ended_number, seal)


def _list_unlinked(connection: Connection, audit: str, besides: int) -> list[int]:
    began = select(func.min(evidence.c.run_number)).where(evidence.c.audit == audit).scalar_subquery()
    linked = select(evidence.c.run).where(evidence.c.run == runs.c.run, evidence.c.payload.is_not(None)).exists()
    ended = runs.c.ended.is_not(None), runs.c.state.in_((State.FAILED, State.CANCELLED))
    unlinked = select(runs.c.number).where(runs.c.audit == audit, runs.c.number > began, runs.c.number != besides, *ended, ~linked)
    return list(connection.execute(unlinked.order_by(runs.c.number)).scalars())


def _insert(connection: Connection, audit: str, number: int, seal: Seal) -> None:
    last = connection.execute(_select(evidence.c.audit == audit).order_by(evidence.c.number.desc()).limit(1)).first()
    place = last.number + 1 if last else 1
    (run,) = fetch_runs(connection, select(runs).where(runs.c.number == number))
    contents = _read_contents(connection, number)
    signed = seal(
        EndedRun(
            run=run,
            contents=contents,
            report=zlib.decompress(contents["report"]) if contents["report"] else b"",
            **_read_differences(connection, number),
            previous=hashlib.sha256(_as_bytes(last.link)).hexdigest() if last else None,
            number=place,
            **_hash_chunks(connection, number),
        )
    )
    values = {"link": signed.link, "signature": signed.signature, "payload": zlib.compress(signed.payload), "row_key": signed.row_key}
    connection.execute(insert(evidence).values(audit=audit, number=place, run=run.run, run_number=number, **values))


def _read_contents(connection: Connection, number: int) -> dict[str, bytes]:
    """Return the bytes of each part that is stored of a run, by name: of its columns, and of what belongs to it in other tables."""
    columns = [
        type_coerce(runs.c[name], Text).label(name) if isinstance(runs.c[name].type, Json) else runs.c[name] for name in SEALED_COLUMNS
    ]
    row = connection.execute(select(*columns).where(runs.c.number == number)).one()
    contents = {name: _to_bytes(getattr(row, name)) for name in SEALED_COLUMNS}
    for name, table, version in (("definition", audit_versions, row.version), ("schema", schemas, row.schema_version)):
        content = table.c.definition if table is audit_versions else table.c.columns
        of_audit = [audit_versions.c.audit == row.audit] if table is audit_versions else []
        text = connection.execute(select(type_coerce(content, Text)).where(table.c.version == version, *of_audit)).scalar()
        contents[name] = _to_bytes(text)
    kept = connection.execute(select(run_documents.c.kind, run_documents.c.body).where(run_documents.c.run == number))
    bodies = {row.kind: row.body for row in kept}
    contents |= {kind: _as_bytes(bodies.get(kind, b"")) for kind in ("report", "partition_map")}
    details = select(differences.c.number, differences.c.kind, differences.c.state, type_coerce(differences.c.detail, Text))
    hashed = hashlib.sha256()
    for detail in connection.execute(details.where(differences.c.run == number).order_by(differences.c.number)):
        hashed.update(json.dumps(list(detail)).encode() + b"\n")
    return {**contents, "differences": hashed.digest()}


def _to_bytes(value: Any) -> bytes:
    """Return a column's value as bytes that are equal on every database."""
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds").encode()
    return (json.dumps(value) if not isinstance(value, bool) else json.dumps(int(value))).encode()


def _read_differences(connection: Connection, number: int) -> dict[str, Any]:
    mine = differences.c.run == number
    rows = connection.execute(select(differences).where(mine).order_by(differences.c.number).limit(MAX_DIFFERENCES))
    count = connection.execute(select(func.count()).select_from(differences).where(mine)).scalar_one()
    listed = tuple(StoredDifference(kind=row.kind, state=row.state, **row.detail) for row in rows)
    return {"differences": listed, "difference_count": count}


def _hash_chunks(connection: Connection, number: int) -> dict[str, Any]:
    order = (chunks.c.side, chunks.c.null_key, chunks.c.first, chunks.c.end_before)
    hashed, count = hashlib.sha256(), 0
    for row in connection.execute(select(*order, chunks.c.row_count, chunks.c.payload).where(chunks.c.run == number).order_by(*order)):
        bounds = [row.side, bool(row.null_key), row.first, row.end_before, row.row_count, hashlib.sha256(row.payload).hexdigest()]
        hashed.update(json.dumps(bounds).encode() + b"\n")
        count += 1
    return {"chunks": count, "summaries": hashed.digest() if count else None}


def forget_payloads(connection: Connection, ended: Collection[str]) -> int:
    """Remove the payloads of runs, given by id, whose results are no longer stored; return how many links have lost theirs."""
    stored = evidence.c.run.in_(ended), evidence.c.payload.is_not(None)
    return connection.execute(update(evidence).where(*stored).values(payload=None, row_key=None)).rowcount


def erase_row_keys(store: Store, audit: str, run: str | None = None) -> int:
    """Erase the keys of the keyed digests of a run, or of all runs of an audit; return of how many runs there was one."""
    which = [evidence.c.audit == audit, evidence.c.row_key.is_not(None), *([evidence.c.run == run] if run else [])]
    return store.write(lambda connection: connection.execute(update(evidence).where(*which).values(row_key=None)).rowcount)


def _select(*conditions: Any) -> Any:
    return select(evidence).where(*conditions)


def list_links(store: Store, audit: str) -> list[StoredLink]:
    """Return the links of an audit's chain, in the order of their numbers."""
    with store.reading() as connection:
        return [_to_link(row) for row in connection.execute(_select(evidence.c.audit == audit).order_by(evidence.c.number))]


def find_link(store: Store, run: str) -> StoredLink | None:
    """Return the last link of the run whose id is or starts with ``run``, whether it is still stored or not; None if there is none.

    None also if several runs' ids start so.
    """
    with store.reading() as connection:
        # "g" follows all hexadecimal digits. Not LIKE, which ignores case in SQLite.
        begins = evidence.c.run >= run, evidence.c.run < f"{run}g"
        rows = connection.execute(_select(*begins).order_by(evidence.c.number.desc()).limit(100)).all()
    return _to_link(rows[0]) if rows and len({row.run for row in rows}) == 1 else None


def get_head(store: Store, audit: str) -> StoredLink | None:
    """Return the last link of an audit's chain; None if it has none."""
    with store.reading() as connection:
        row = connection.execute(_select(evidence.c.audit == audit).order_by(evidence.c.number.desc()).limit(1)).first()
    return _to_link(row) if row else None


def list_chains(store: Store) -> list[str]:
    """Return the names of the audits that have a chain."""
    with store.reading() as connection:
        return list(connection.execute(select(evidence.c.audit).distinct().order_by(evidence.c.audit)).scalars())


def list_unattested(store: Store, audit: str) -> list[str]:
    """Return the runs of an audit that are done, ended after its chain began, and have no link with a payload."""
    began = select(func.min(evidence.c.run_number)).where(evidence.c.audit == audit).scalar_subquery()
    linked = select(evidence.c.run).where(evidence.c.run == runs.c.run, evidence.c.payload.is_not(None)).exists()
    unattested = select(runs.c.run).where(runs.c.audit == audit, runs.c.number > began, runs.c.state == State.DONE, ~linked)
    with store.reading() as connection:
        return list(connection.execute(unattested.order_by(runs.c.number)).scalars())


def read_contents(store: Store, run: str) -> Mapping[str, bytes] | None:
    """Return the bytes of each part that is stored of a run; None if it is not stored, or has not ended."""
    with store.reading() as connection:
        number = connection.execute(select(runs.c.number).where(runs.c.run == run, runs.c.ended.is_not(None))).scalar()
        return None if number is None else _read_contents(connection, number)


def _to_link(row: Any) -> StoredLink:
    return StoredLink(
        audit=row.audit,
        number=row.number,
        run=row.run,
        link=_as_bytes(row.link),
        signature=str(row.signature),
        payload=None if row.payload is None else _unpack(row.payload),
        row_key=None if row.row_key is None else _as_bytes(row.row_key),
    )


def _as_bytes(value: Any) -> bytes:
    """Return what stands in a column of bytes; in SQLite somebody may have written text there."""
    return value if isinstance(value, bytes) else str(value).encode()


def _unpack(packed: Any) -> bytes:
    """Return a payload; of one that somebody damaged nothing, which has another digest than its link says."""
    try:
        return zlib.decompressobj().decompress(_as_bytes(packed), MAX_PAYLOAD)
    except zlib.error:
        return b""
