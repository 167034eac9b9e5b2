"""A run as it is kept, and reading it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from auditor.errors import UnknownRun
from auditor.model import SIDES, Side, State, Verdict
from auditor.store._process import Owner
from auditor.store._schema import audits, runs, schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as it is kept. Numbers are None where the run did not come so far; ``owner`` is None once it has ended."""

    run: str
    audit: str
    state: State
    verdict: Verdict
    exit_code: int | None
    method: str | None
    reason: str
    requested_by: str
    overrides: dict[str, Any]
    started: dt.datetime
    ended: dt.datetime | None
    seconds: float | None
    score: float | None
    lower: float | None
    upper: float | None
    published: float | None
    coverage: float | None
    rows: dict[Side, int] | None
    partitions: int | None
    unequal: int | None
    missing: int | None
    extra: int | None
    changed: int | None
    unsettled: int | None
    reasons: tuple[str, ...]
    progress: dict[str, Any]
    owner: Owner | None
    resumable: bool
    cancel_asked: bool
    verified_through: dt.datetime | None
    schema: dict[str, Any] | None
    definition: dict[str, Any]


AS_THEY_ARE = (
    "run", "audit", "exit_code", "method", "reason", "requested_by", "overrides", "started", "ended", "seconds", "score", "lower",
    "upper", "published", "coverage", "partitions", "unequal", "missing", "extra", "changed", "unsettled", "progress", "resumable",
    "cancel_asked", "verified_through",
)  # fmt: skip


def stored(connection: Connection, wanted: Select[Any]) -> list[StoredRun]:
    """The runs that a statement over the table of runs finds, in its order."""
    found = connection.execute(wanted).all()
    # The same definition and columns serve most runs: each is read once.
    definitions = _definitions(connection, found)
    columns = _schemas(connection, found)
    return [_stored(row, definitions[row.audit, row.version], columns.get(row.schema_version)) for row in found]


def _definitions(connection: Connection, found: Sequence[Row[Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    names, versions = {row.audit for row in found}, {row.version for row in found}
    wanted = select(audits).where(audits.c.audit.in_(names), audits.c.version.in_(versions))
    return {(row.audit, row.version): row.definition for row in connection.execute(wanted)}


def _schemas(connection: Connection, found: Sequence[Row[Any]]) -> dict[str, dict[str, Any]]:
    versions = {row.schema_version for row in found} - {None}
    return {row.version: row.columns for row in connection.execute(select(schemas).where(schemas.c.version.in_(versions)))}


def _stored(row: Row[Any], definition: dict[str, Any], schema: dict[str, Any] | None) -> StoredRun:
    counts = dict(zip(SIDES, (row.source_rows, row.target_rows), strict=True))
    return StoredRun(
        **{column: getattr(row, column) for column in AS_THEY_ARE},
        state=State(row.state),
        verdict=Verdict(row.verdict),
        rows=None if None in counts.values() else counts,
        reasons=tuple(row.reasons),
        owner=None if row.running is None else owner(row),
        schema=schema,
        definition=definition,
    )


def owner(row: Row[Any]) -> Owner:
    """The process that last had the run."""
    return Owner(row.host, row.pid, row.process)


def number_of(connection: Connection, run: str) -> int:
    """The run's number, by its whole id. Raises UnknownRun."""
    number: int | None = connection.execute(select(runs.c.number).where(runs.c.run == run)).scalar()
    if number is None:
        raise unknown(run)
    return number


def unknown(run: str) -> UnknownRun:
    """There is no run of that id."""
    return UnknownRun(f"there is no run {run!r}; see: auditor runs")
