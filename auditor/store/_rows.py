"""Stored runs, and how rows of the table of runs become them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, Text, select, type_coerce

from auditor.errors import UnknownRun
from auditor.model import PERMISSIONS, SIDES, Side, State, Verdict, describe_other_settings
from auditor.store._process import Owner
from auditor.store._schema import audit_versions, runs, schemas
from auditor.store._types import to_json
from auditor.store.leases import Lease, find_leases

AD_HOC_PREFIX = "ad-hoc"

_GIVEN = [some for count in (1, 2) for some in combinations(PERMISSIONS, count)]
OWN_SETTINGS = type_coerce(runs.c.overrides, Text).in_([to_json({}), *(to_json(dict.fromkeys(some, True)) for some in _GIVEN)])
"""The condition that a run is its audit's own, not a one-off run with other settings (`StoredRun.is_one_off`)."""


def ad_hoc_audit(run: str) -> str:
    """Return the audit name of a run that was requested with its own definition, which is stored for this run only."""
    return f"{AD_HOC_PREFIX}-{run[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A stored run.

    Times are in UTC; ``seconds`` is the duration; ``score``, ``lower``, ``upper``, ``published`` and ``coverage`` are in [0, 1].
    Results are None if the run did not get so far. ``owner`` is the process that runs it, None unless it is running.
    ``overrides`` are the settings that differ from ``definition``, the audit's settings; ``schema`` has both sides' columns.
    ``within_threshold`` is whether it is a match although something differs, which the audit allows.
    """

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
    cancel_requested: bool
    verified_through: dt.datetime | None
    within_threshold: bool
    within_threshold_through: dt.datetime | None
    schema: dict[str, Any] | None
    definition: dict[str, Any]

    @property
    def other_settings(self) -> str:
        """The settings that differ from the audit's, e.g. ``threshold 0, keys 1000..2000``; empty for the audit's own run."""
        return describe_other_settings(self.overrides)

    @property
    def is_one_off(self) -> bool:
        """Whether the run has other settings than its audit, so that it says nothing of the audit's standing."""
        return bool(self.other_settings)

    @property
    def is_ad_hoc(self) -> bool:
        """Whether the run was requested with its own definition, so that its audit has no other runs."""
        return self.audit == ad_hoc_audit(self.run)


COPIED_COLUMNS = (  # columns that become fields of `StoredRun` unchanged
    "run", "audit", "exit_code", "method", "reason", "requested_by", "overrides", "started", "ended", "seconds", "score", "lower",
    "upper", "published", "coverage", "partitions", "unequal", "missing", "extra", "changed", "unsettled", "progress", "resumable",
    "cancel_requested", "verified_through", "within_threshold_through",
)  # fmt: skip


def fetch_runs(connection: Connection, statement: Select[Any], values: Mapping[str, Any] = {}) -> list[StoredRun]:
    """Return the runs that a statement over the table of runs selects, in its order. ``values`` are its bound parameters."""
    rows = connection.execute(statement, values).all()
    definitions = _fetch_contents(connection, audit_versions.c.definition, {row.version for row in rows})
    columns = _fetch_contents(connection, schemas.c.columns, {row.schema_version for row in rows} - {None})
    owned = find_leases(connection, "run", [row.run for row in rows if row.running_audit is not None])
    return [_to_run(row, definitions[row.version], columns.get(row.schema_version), owned.get(row.run)) for row in rows]


CACHE_LIMIT = 1000
"""Definitions and schemas to cache: most runs share a few. They are keyed by the hash of their content, so all stores share the cache."""

_cache: dict[str, dict[str, Any]] = {}


def _fetch_contents(connection: Connection, column: Column[Any], versions: set[str]) -> dict[str, dict[str, Any]]:
    contents = {version: content for version in versions if (content := _cache.get(version)) is not None}
    if new := versions - contents.keys():
        version = column.table.c.version
        read = {row.version: row.content for row in connection.execute(select(version, column.label("content")).where(version.in_(new)))}
        if len(_cache) + len(read) > CACHE_LIMIT:
            _cache.clear()
        _cache.update(read)
        contents |= read
    return contents


def _to_run(row: Row[Any], definition: dict[str, Any], schema: dict[str, Any] | None, lease: Lease | None) -> StoredRun:
    counts = dict(zip(SIDES, (row.source_rows, row.target_rows), strict=True))
    return StoredRun(
        **{column: getattr(row, column) for column in COPIED_COLUMNS},
        state=State(row.state),
        verdict=Verdict(row.verdict),
        within_threshold=bool(row.within_threshold),
        rows=None if None in counts.values() else counts,
        reasons=tuple(row.reasons),
        owner=lease.owner if lease else None,
        schema=schema,
        definition=definition,
    )


def get_run_number(connection: Connection, run: str) -> int:
    """Return the number of the run with this complete id. Raises UnknownRun."""
    number: int | None = connection.execute(select(runs.c.number).where(runs.c.run == run)).scalar()
    if number is None:
        raise unknown_run(run)
    return number


def unknown_run(run: str) -> UnknownRun:
    """Return the error for a run id that does not exist."""
    return UnknownRun(f"there is no run {run!r}; list the runs with: auditor runs")
