"""Stored runs and what is stored with them, as they are read; `run_lifecycle` writes them."""

from __future__ import annotations

import datetime as dt
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, Text, bindparam, or_, select, type_coerce, union

from auditor.errors import UnknownRun
from auditor.model import PERMISSIONS, SIDES, Side, State, Verdict, describe_other_settings
from auditor.store.database import Store
from auditor.store.leases import Lease, Owner, find_leases
from auditor.store.schema import audit_versions, differences, queue, run_documents, runs, schemas, to_json

AD_HOC_PREFIX = "ad-hoc"

_GIVEN = [some for count in (1, 2) for some in combinations(PERMISSIONS, count)]
OWN_OVERRIDES = (to_json({}), *(to_json(dict.fromkeys(some, True)) for some in _GIVEN))
"""The stored overrides of a run that is its audit's own."""

OWN_SETTINGS = type_coerce(runs.c.overrides, Text).in_(OWN_OVERRIDES)
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
        return bool(self.overrides) and bool(self.other_settings)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDifference:
    """A stored difference: of one ``key`` (column to text, None for NULL), or of a ``range`` of keys (a `RangeDifference` as a mapping).

    ``kind`` is missing, extra or changed; ``state`` is confirmed or unsettled. ``rows`` is the number of rows of each side, ``columns``
    the columns that differ. ``looks`` are the rechecks: ``at`` (ISO 8601) and the ``outcome``; ``shards``
    those of the source that hold the key; ``cause`` is what a history says of the target's row.
    """

    kind: str
    key: dict[str, str | None] | None = None
    rows: dict[Side, int] = field(default_factory=dict)
    columns: list[Any] = field(default_factory=list)
    state: str = "confirmed"
    range: dict[str, Any] | None = None
    looks: list[dict[str, Any]] = field(default_factory=list)
    shards: list[str] = field(default_factory=list)
    cause: str = ""


_BY_ID = select(runs).where(runs.c.run == bindparam("id"))


def get_run(store: Store, run: str) -> StoredRun:
    """Return the run with this id, or with an id that begins so. Raises UnknownRun if there is none, or more than one."""
    found = find_run(store, run)
    if found is None:
        raise unknown_run(run)
    return found


def find_run(store: Store, run: str) -> StoredRun | None:
    """Return the run with this id, or with an id that begins so; None if there is none. Raises UnknownRun if there are more than one."""
    if not run or not run.isprintable():
        return None
    with store.reading() as connection:
        exact = fetch_runs(connection, _BY_ID, {"id": run})
        if exact:
            return exact[0]
        begins = select(runs.c.run).where(runs.c.run >= run, runs.c.run < f"{run}\U0010ffff").order_by(runs.c.run).limit(6)
        ids = list(connection.execute(begins).scalars())
        if not ids:
            return None
        if len(ids) > 1:
            raise UnknownRun(
                f"more than one run id begins with {run!r}: {', '.join(ids[:5])}{', ...' if len(ids) > 5 else ''}; use a longer prefix"
            )
        return fetch_runs(connection, select(runs).where(runs.c.run == ids[0]))[0]


ACTIVE = "active"
"""In place of a state: runs that wait or run."""


def list_runs(
    store: Store,
    *,
    audit: str | None = None,
    state: str | None = None,
    limit: int = 50,
    before: str | None = None,
    own_only: bool = False,
    verdict: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    among: Collection[str] | None = None,
) -> list[StoredRun]:
    """Return up to ``limit`` runs, newest first; with ``among`` of these audits alone.

    ``before`` is the id of the last run of the previous page; raises UnknownRun if it does not exist. ``own_only`` leaves out
    one-off runs, which have other settings than their audit. ``state`` may be ACTIVE, of those that wait or run. With ``verdict`` they
    are done; ``since`` and ``until``, which is not included, are about when they started.
    """
    with store.reading() as connection:
        below = get_run_number(connection, before) if before else None
        if state == ACTIVE:
            numbers = union(*_select_active_numbers()).subquery()
            conditions = [runs.c.audit == audit] if audit is not None else []
            conditions += [runs.c.audit.in_(list(among))] if among is not None else []
            statement = select(runs).join(numbers, numbers.c.number == runs.c.number).where(*conditions)
            return fetch_runs(connection, statement.order_by(runs.c.number.desc()).limit(limit))
        values = {"audit": audit, "state": State.DONE if verdict else state, "below": below, "verdict": verdict, "since": since}
        values["before"] = until
        known = {name: value for name, value in values.items() if value is not None}
        statement = select_runs(tuple(known), own_only).limit(limit)
        return fetch_runs(connection, statement if among is None else statement.where(runs.c.audit.in_(list(among))), known)


def list_audits(store: Store) -> list[str]:
    """Return the names of all audits that have runs, or whose runs were deleted and whose definitions are kept."""
    with store.reading() as connection:
        return list(connection.execute(select(audit_versions.c.audit).distinct().order_by(audit_versions.c.audit)).scalars())


@cache
def select_runs(by: tuple[str, ...], own_only: bool) -> Select[Any]:
    """Return the statement for runs, newest first, with the named conditions, whose values are bound parameters."""
    conditions = {
        "audit": runs.c.audit == bindparam("audit"),
        "state": runs.c.state == bindparam("state"),
        "below": runs.c.number < bindparam("below"),
        "before": runs.c.started < bindparam("before"),
        "since": runs.c.started >= bindparam("since"),
        "verdict": runs.c.verdict == bindparam("verdict"),
    }
    statement = select(runs).where(*(conditions[name] for name in by)).order_by(runs.c.number.desc())
    return statement.where(OWN_SETTINGS) if own_only else statement


def get_latest_run(store: Store, audit: str, *, done_only: bool = True, before: dt.datetime | None = None) -> StoredRun | None:
    """Return the newest run with the audit's own settings that is done (or in any state), and started before ``before``."""
    values = {"audit": audit, "state": State.DONE if done_only else None, "before": before}
    known = {name: value for name, value in values.items() if value is not None}
    with store.reading() as connection:
        latest = fetch_runs(connection, select_runs(tuple(known), True).limit(1), known)
    return latest[0] if latest else None


@dataclass(frozen=True, slots=True)
class Ending:
    """Whether and when a run ended. ``is_open``: it has not ended, or can be resumed. ``number`` orders runs by their start."""

    number: int
    run: str
    ended: dt.datetime | None
    is_open: bool


def list_endings(store: Store, after: int | None = None, numbers: Collection[int] = ()) -> list[Ending]:
    """Return the endings of all runs, or of those whose number is greater than ``after`` or one of ``numbers``, by number."""
    statement = select(runs.c.number, runs.c.run, runs.c.ended, runs.c.resumable).order_by(runs.c.number)
    if after is not None:
        statement = statement.where(or_(runs.c.number > after, runs.c.number.in_(list(numbers))))
    with store.reading() as connection:
        return [Ending(row.number, row.run, row.ended, row.ended is None or row.resumable) for row in connection.execute(statement)]


def get_report(store: Store, run: str) -> bytes | None:
    """Return the report that `finish_run` stored (JSON), None if there is none. Raises UnknownRun."""
    body = _get_document(store, run, "report")
    return None if body is None else zlib.decompress(body)


def get_partition_map(store: Store, run: str) -> bytes | None:
    """Return the packed partition map that `finish_run` stored, None if there is none. Raises UnknownRun."""
    return _get_document(store, run, "partition_map")


def get_plan(store: Store, run: str) -> bytes | None:
    """Return the packed plan of a run that is running or can be resumed, else None. Raises UnknownRun."""
    return _get_document(store, run, "plan")


def list_latest_runs(store: Store, audit: str | None = None) -> dict[str, list[StoredRun]]:
    """Return by audit the runs that decide its standing, newest first; with ``audit``, of this audit only.

    These are, of the runs with the audit's own settings, the newest one that has ended and the newest one that is done; and the running
    and pending runs of any settings.
    """
    with store.reading() as connection:
        latest = _fetch_latest(connection) if audit is None else fetch_runs(connection, _LATEST_OF_AUDIT, {"named": audit})
    return _by_audit(latest)


def list_latest_runs_before(store: Store, before: dt.datetime) -> dict[str, list[StoredRun]]:
    """Return the same of the runs that started before a moment, as they are now."""
    with store.reading() as connection:
        return _by_audit(fetch_runs(connection, _LATEST_BEFORE, {"before": before}))


def _by_audit(listed: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    by_audit: dict[str, list[StoredRun]] = {}
    for run in listed:
        by_audit.setdefault(run.audit, []).append(run)
    return by_audit


STAMP = (runs.c.run, runs.c.state, runs.c.ended, runs.c.resumable, type_coerce(runs.c.reasons, Text))
"""What of a run that has ended can still change: it may be resumed, and what it says of values may be scrubbed."""

REMEMBERED = 10_000
"""Runs that have ended, the latest of audits, that a process remembers."""

_remembered: dict[str, tuple[tuple[Any, ...], StoredRun]] = {}
"""The latest runs of all audits by id, each with its stamp: their rows are read again only where the stamp differs."""


def _fetch_latest(connection: Connection) -> list[StoredRun]:
    """Return the latest runs of all audits, newest first; those that ended, from memory where nothing of them has changed."""
    stamps = [tuple(row) for row in connection.execute(_LATEST_STAMPS)]
    known = {stamp[0]: kept[1] for stamp in stamps if (kept := _remembered.get(stamp[0])) and kept[0] == stamp}
    wanted = [stamp[0] for stamp in stamps if stamp[0] not in known]
    for first in range(0, len(wanted), BATCH):
        some = select(runs).where(runs.c.run.in_(wanted[first : first + BATCH]))
        known |= {run.run: run for run in fetch_runs(connection, some)}
    if len(_remembered) + len(wanted) > REMEMBERED:
        _remembered.clear()
    _remembered.update({stamp[0]: (stamp, known[stamp[0]]) for stamp in stamps if stamp[2] is not None and stamp[0] in known})
    return [known[stamp[0]] for stamp in stamps if stamp[0] in known]


BATCH = 500
"""Ids in one statement: SQLite takes a bounded number of parameters."""


def get_active_runs(store: Store) -> dict[str, StoredRun]:
    """Return the running (else the pending) run of each audit, by audit."""
    with store.reading() as connection:
        numbers = union(*_select_active_numbers()).subquery()
        active = fetch_runs(connection, select(runs).join(numbers, numbers.c.number == runs.c.number).order_by(runs.c.state))
    return {run.audit: run for run in active}


ACTIVE_STATES = (State.PENDING, State.RUNNING)


def _select_latest(
    audit: ColumnElement[str] | None = None, *, before: ColumnElement[dt.datetime] | None = None, columns: Sequence[Any] = (runs,)
) -> Select[Any]:
    """Return the statement for the newest ended and done runs with their audits' own settings, and all active runs, newest first.

    With ``before`` it considers only those that started before that moment.

    It finds them by indexes, so its cost does not grow with the number of runs of an audit.
    """
    names = select(audit_versions.c.audit).distinct()
    if audit is not None:
        names = names.where(audit_versions.c.audit == audit)
    name = names.subquery()

    def last(condition: ColumnElement[bool]) -> Select[Any]:
        numbers = select(runs.c.number).where(OWN_SETTINGS, condition, runs.c.audit == name.c.audit)
        if before is not None:
            numbers = numbers.where(runs.c.started < before)
        return select(numbers.order_by(runs.c.number.desc()).limit(1).scalar_subquery().label("number")).select_from(name)

    newest = last(runs.c.ended.is_not(None)), last(runs.c.state == State.DONE)
    numbers = union(*newest, *_select_active_numbers()).subquery()
    statement = select(*columns).select_from(runs).join(numbers, numbers.c.number == runs.c.number).order_by(runs.c.number.desc())
    if before is not None:
        statement = statement.where(runs.c.started < before)
    return statement if audit is None else statement.where(runs.c.audit == audit)


def _select_active_numbers() -> tuple[Select[Any], Select[Any]]:
    """Return the statements for the numbers of the running and of the pending runs."""
    # Not IS NOT NULL, for which SQLite uses no index; every name is greater than "".
    return select(runs.c.number).where(runs.c.running_audit >= ""), select(queue.c.run).where(queue.c.pending_audit >= "")


_LATEST_OF_AUDIT, _LATEST_STAMPS = _select_latest(bindparam("named")), _select_latest(columns=STAMP)
_LATEST_BEFORE = _select_latest(before=bindparam("before", type_=runs.c.started.type))
"""Built once: building them takes as long as running them."""


@dataclass(frozen=True, slots=True)
class ScorePoint:
    """The score of a finished run; ``at`` is when it started."""

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


def list_scores(store: Store, since: dt.datetime, audit: str | None = None) -> dict[str, list[ScorePoint]]:
    """Return by audit the scores of finished runs with the audit's own settings that started at ``since`` or later, oldest first."""
    with store.reading() as connection:
        values = {"since": since} if audit is None else {"since": since, "named": audit}
        rows = connection.execute(_SCORES if audit is None else _SCORES_OF_AUDIT, values).all()
    points: dict[str, list[ScorePoint]] = {}
    for name, run, at, verdict, *scores in rows:
        points.setdefault(name, []).append(ScorePoint(run, at, Verdict(verdict), *scores))
    return points


def _select_scores() -> Select[Any]:
    columns = (runs.c.audit, runs.c.run, runs.c.started, runs.c.verdict, runs.c.score, runs.c.lower, runs.c.upper)
    since = runs.c.started >= bindparam("since", type_=runs.c.started.type)
    return select(*columns).where(runs.c.state == State.DONE, since, OWN_SETTINGS).order_by(runs.c.number)


_SCORES = _select_scores()
_SCORES_OF_AUDIT = _SCORES.where(runs.c.audit == bindparam("named"))


def _get_document(store: Store, run: str, kind: str) -> bytes | None:
    with store.reading() as connection:
        number = get_run_number(connection, run)
        statement = select(run_documents.c.body).where(run_documents.c.run == number, run_documents.c.kind == kind)
        body: bytes | None = connection.execute(statement).scalar()
    return body


def list_differences(
    store: Store,
    run: str,
    *,
    kind: str | None = None,
    state: str | None = None,
    after: int = 0,
    limit: int | None = 1000,
    column: str = "",
    key: str = "",
    numbers: Sequence[int] | None = None,
) -> list[tuple[int, StoredDifference]]:
    """Return up to ``limit`` differences of a run, or all, with their numbers, which count from 1 in the order of `Outcome.differences`.

    ``after`` is the number of the last one of the previous page; with ``numbers`` they are of these alone, in ascending order. With
    ``column`` or ``key`` most others are left out, but not all: the caller looks at what is left. Ranges are left in for a key. Raises
    UnknownRun.
    """
    with store.reading() as connection:
        statement = select(differences).where(differences.c.run == get_run_number(connection, run), differences.c.number > after)
        if kind is not None:
            statement = statement.where(differences.c.kind == kind)
        if state is not None:
            statement = statement.where(differences.c.state == state)
        if numbers is not None:
            statement = statement.where(differences.c.number.in_(numbers))
        if column:
            statement = statement.where(_has_text(column))
        if key:
            statement = statement.where(or_(_has_text(key), ~_DETAIL.contains('"range": null')))
        rows = connection.execute(statement.order_by(differences.c.number).limit(limit)).all()
    return [(row.number, StoredDifference(kind=row.kind, state=row.state, **row.detail)) for row in rows]


_DETAIL = type_coerce(differences.c.detail, Text)


def _has_text(text: str) -> ColumnElement[bool]:
    """Return the condition that a text is one of those in a difference's JSON, in either of the spellings of `schema.to_json`."""
    spellings = {to_json(text), json.dumps(text)}
    return or_(*(_DETAIL.contains(spelling, autoescape=True, escape="!") for spelling in spellings))


KEY_FIRST = '{"key": '
"""How the details of a difference begin: its key is read without the rest, which is most of it."""


def list_keys(store: Store, run: str) -> list[tuple[int, tuple[str | None, ...]]]:
    """Return the number and the texts of the key of each difference of a run, by number; of a range its first key. Raises UnknownRun."""
    decode = json.JSONDecoder().raw_decode
    found: list[tuple[int, tuple[str | None, ...]]] = []
    with store.reading() as connection:
        of_run = differences.c.run == get_run_number(connection, run)
        for number, detail in connection.execute(select(differences.c.number, _DETAIL).where(of_run).order_by(differences.c.number)):
            key = decode(detail, len(KEY_FIRST))[0] if detail.startswith(KEY_FIRST) else json.loads(detail).get("key")
            found.append((number, tuple(key.values()) if key is not None else ((json.loads(detail).get("range") or {}).get("first"),)))
    return found
