"""Replace what a run left, and give the place that it took back to the file system."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from sqlalchemy import Connection, delete, select, update

from auditor.model import Side
from auditor.store.audit_state import left_out_rows
from auditor.store.database import PRIVATE, Store
from auditor.store.evidence import Seal, add_link, forget_payloads
from auditor.store.repairs import repairs
from auditor.store.rolling_parts import rolling_parts
from auditor.store.runs import get_run_number
from auditor.store.schema import chunks, differences, run_documents, runs


class DifferenceDetail(TypedDict):
    """The fields of a `StoredDifference` that have no column of their own."""

    key: dict[str, str | None] | None
    rows: dict[Side, int]
    columns: list[Any]
    range: dict[str, Any] | None
    looks: list[dict[str, Any]]
    shards: list[str]


def list_details(store: Store, run: str) -> dict[int, DifferenceDetail]:
    """Return the stored details of a run's differences by their number. Raises UnknownRun."""
    with store.reading() as connection:
        number = get_run_number(connection, run)
        rows = connection.execute(select(differences.c.number, differences.c.detail).where(differences.c.run == number))
        return {row.number: row.detail for row in rows}


def replace_run(
    store: Store,
    run: str,
    *,
    report: bytes,
    reasons: Sequence[str],
    details: Mapping[int, DifferenceDetail],
    keep_map: bool,
    seal: Seal | None = None,
) -> None:
    """Replace a run's report (JSON), reasons and details of differences; delete its plan and chunks, so that it cannot be resumed.

    Unless ``keep_map``, its partition map is deleted too. What its evidence said of it before is removed; with a ``seal`` it gets another
    link. Raises UnknownRun.
    """
    kinds = ("plan",) if keep_map else ("plan", "partition_map")

    def work(connection: Connection) -> None:
        number = get_run_number(connection, run)
        connection.execute(update(runs).where(runs.c.number == number).values(reasons=list(reasons), resumable=False))
        mine = run_documents.c.run == number
        connection.execute(update(run_documents).where(mine, run_documents.c.kind == "report").values(body=zlib.compress(report)))
        connection.execute(delete(run_documents).where(mine, run_documents.c.kind.in_(kinds)))
        connection.execute(delete(chunks).where(chunks.c.run == number))
        for position, detail in details.items():
            changed = update(differences).where(differences.c.run == number, differences.c.number == position)
            connection.execute(changed.values(detail=detail))
        if forget_payloads(connection, [run]) and seal:
            add_link(connection, number, seal)

    store.write(work)


def replace_repaired_keys(store: Store, run: str, names: frozenset[str], mask: str) -> None:
    """Replace the values of these columns in the keys of a run's recorded repairs."""

    def work(connection: Connection) -> None:
        for row in connection.execute(select(repairs).where(repairs.c.run == run)).all():
            keys = [
                {name: mask if name in names and text is not None else text for name, text in key.items()} for key in row.detail["keys"]
            ]
            connection.execute(update(repairs).where(repairs.c.id == row.id).values(detail={**row.detail, "keys": keys}))

    store.write(work)


def forget_audit(store: Store, audit: str) -> None:
    """Delete the rows that an audit left out, and which ranges of its table a rolling audit has read."""

    def work(connection: Connection) -> None:
        connection.execute(delete(left_out_rows).where(left_out_rows.c.audit == audit))
        connection.execute(delete(rolling_parts).where(rolling_parts.c.audit == audit))

    store.write(work)


def rewrite_file(store: Store) -> None:
    """Write SQLite's file again without what was deleted, readable by its owner alone. A store on a server is left to its own vacuum.

    Raises StoreError, as where the disk has no room for a second copy of the file.
    """
    with store.sqlite_driver() as driver:
        if driver is None:
            return
        driver.execute("VACUUM")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    Path(str(store.engine.url.database)).chmod(PRIVATE)
