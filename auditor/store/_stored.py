"""A run as it is kept, and reading it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, Text, and_, select, type_coerce

from auditor.errors import UnknownRun
from auditor.model import SECTIONS, SIDES, Side, State, Verdict
from auditor.store._process import Owner
from auditor.store._schema import audits, runs, schemas

AD_HOC = "ad-hoc"

WHOLE = and_(*(type_coerce(runs.c.overrides, Text).not_like(f'%"{name}": {{%') for name in SECTIONS))
"""That a run was to look at the whole table. No other override holds such a name."""


def ad_hoc(run: str) -> str:
    """The audit of a run that was requested with its definition, which is kept with the run alone: named after the run."""
    return f"{AD_HOC}-{run[:12]}"


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

    @property
    def is_whole(self) -> bool:
        """Whether it was to look at the whole table, and not at a section that its overrides name."""
        return not any(self.overrides.get(name) for name in SECTIONS)

    @property
    def is_ad_hoc(self) -> bool:
        """Whether its audit is its own, and stands nowhere else."""
        return self.audit == ad_hoc(self.run)


AS_THEY_ARE = (
    "run", "audit", "exit_code", "method", "reason", "requested_by", "overrides", "started", "ended", "seconds", "score", "lower",
    "upper", "published", "coverage", "partitions", "unequal", "missing", "extra", "changed", "unsettled", "progress", "resumable",
    "cancel_asked", "verified_through",
)  # fmt: skip


def stored(connection: Connection, wanted: Select[Any], values: Mapping[str, Any] = {}) -> list[StoredRun]:
    """The runs that a statement over the table of runs finds, in its order; ``values`` are for its parameters."""
    found = connection.execute(wanted, values).all()
    definitions = _contents(connection, audits.c.definition, {row.version for row in found})
    columns = _contents(connection, schemas.c.columns, {row.schema_version for row in found} - {None})
    return [_stored(row, definitions[row.version], columns.get(row.schema_version)) for row in found]


REMEMBERED = 1000
"""Definitions and schemas that are not read again. A few serve most runs; and they are named by their content's hash, in any store."""

_remembered: dict[str, dict[str, Any]] = {}


def _contents(connection: Connection, column: Column[Any], versions: set[str]) -> dict[str, dict[str, Any]]:
    found = {version: content for version in versions if (content := _remembered.get(version)) is not None}
    if new := versions - found.keys():
        version = column.table.c.version
        read = {row.version: row.content for row in connection.execute(select(version, column.label("content")).where(version.in_(new)))}
        if len(_remembered) + len(read) > REMEMBERED:
            _remembered.clear()
        _remembered.update(read)
        found |= read
    return found


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
