"""The state of pipelines: what was staged, what their targets reported, whether they are paused, and which problems they have."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from sqlalchemy import Boolean, Column, ColumnElement, Connection, Integer, Row, Table, and_, bindparam, delete, insert, select, update

from auditor.api_models.pipeline import MergeState, PipelineProblem, PipelineProgress, ProblemKey, ProblemKind
from auditor.store.database import Store, database_time
from auditor.store.lags import lags
from auditor.store.schema import Json, Moment, Words, big_integer, metadata, short_text

pipelines = Table(
    "auditor_pipelines",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("paused", Boolean(), nullable=False),
    Column("staged_through", big_integer()),
    Column("staged_time", Moment()),
    Column("staged_at", Moment()),
    Column("source_offset", Json()),
    Column("reason", Words(), nullable=False),
    Column("event_count", big_integer()),
    Column("progress", Json()),
    Column("paused_by", Words()),
    Column("paused_at", Moment()),
    Column("incarnation", short_text(64)),
    Column("joined_through", big_integer()),
)
"""What a pipeline staged: up to which position, when its source committed that, when it was staged, the offset of the stream's last batch,
as its source writes it, and how many events; why it is stopped; what its process last saw of source and staging; who paused it when; its
incarnation, which its staging and its targets carry too; and up to which position its files were joined."""

merges = Table(
    "auditor_merges",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("target", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("position", big_integer(), nullable=False),
    Column("through_time", Moment()),
    Column("at", Moment(), nullable=False),
    Column("event_count", big_integer(), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("reason", Words(), nullable=False),
)
"""What targets reported of their tables: up to which position they hold them. The position that counts stands in the target itself."""


@dataclass(frozen=True, slots=True)
class PipelineState:
    """What is known of a pipeline: the position staged last, when the source committed it, and when it was staged."""

    paused: bool = False
    staged_through: int | None = None
    staged_time: dt.datetime | None = None
    staged_at: dt.datetime | None = None
    source_offset: Any = None
    """The offset at the end of the batch staged last, as the source wrote it; None if it is not known."""
    reason: str = ""
    """Why staging is stopped or delayed; empty while it goes on."""
    events: int = 0
    """Events staged since the pipeline began."""
    progress: PipelineProgress = field(default_factory=PipelineProgress)
    """What its process last saw of source and staging."""
    paused_by: str = ""
    """Who paused it; empty if it is not paused, or nobody said."""
    paused_at: dt.datetime | None = None
    incarnation: str = ""
    """Tells this life of the pipeline from others, before a reset or in another store; empty if it never ran."""
    joined_through: int = 0
    """Up to which position the files of its batches were joined; 0 if none was."""


class MergeReport(NamedTuple):
    """What a target reported of one table."""

    position: int
    """Up to which position the target holds the table."""
    through_time: dt.datetime | None
    """When the source committed the last event that the target holds."""
    at: dt.datetime
    """When this was reported."""
    events: int
    """Events merged since the pipeline began."""
    state: MergeState
    reason: str


def get_pipeline(store: Store, pipeline: str) -> PipelineState:
    """Return the state of a pipeline. Raises StoreError."""
    with store.reading() as connection:
        row = connection.execute(select(pipelines).where(pipelines.c.pipeline == pipeline)).one_or_none()
    if row is None:
        return PipelineState()
    staged = (row.staged_through, row.staged_time, row.staged_at, row.source_offset)
    progress = PipelineProgress.model_validate(row.progress or {})
    paused = (row.paused_by or "", row.paused_at)
    return PipelineState(
        row.paused, *staged, row.reason, row.event_count or 0, progress, *paused, row.incarnation or "", row.joined_through or 0
    )


def begin(store: Store, pipeline: str, offset: Any = None) -> str:
    """Return a pipeline's incarnation, 14 hexadecimal digits; it gets one, and stands at ``offset``, if it has none. Raises StoreError."""

    def work(connection: Connection) -> str:
        known = connection.execute(select(pipelines.c.incarnation).where(pipelines.c.pipeline == pipeline)).scalar()
        if known:
            return str(known)
        made = secrets.token_hex(7)
        _write(connection, pipeline, incarnation=made, **({"source_offset": offset} if offset is not None else {}))
        return made

    return store.write(work)


def set_paused(store: Store, pipeline: str, paused: bool, by: str = "") -> None:
    """Pause a pipeline, or let it go on; of one that is paused already, who paused it first stays. Raises StoreError."""

    def work(connection: Connection) -> None:
        before = connection.execute(select(pipelines.c.paused).where(pipelines.c.pipeline == pipeline)).scalar()
        if not paused:
            _write(connection, pipeline, paused=False, paused_by=None, paused_at=None)
        elif not before:
            _write(connection, pipeline, paused=True, paused_by=by, paused_at=database_time(connection))

    store.write(work)


def set_reason(store: Store, pipeline: str, reason: str) -> None:
    """Record why staging is stopped; '' if it is not. Raises StoreError."""
    store.write(lambda connection: _write(connection, pipeline, reason=reason))


def set_progress(store: Store, pipeline: str, progress: PipelineProgress) -> None:
    """Record what a pipeline's process sees of source and staging. Raises StoreError."""
    values = progress.model_dump(mode="json")
    store.write(lambda connection: _write(connection, pipeline, progress=values))


def note_staged(
    connection: Connection, pipeline: str, newest: tuple[int, dt.datetime] | None, at: dt.datetime, offset: Any, events: int
) -> None:
    """Record within a transaction that a batch was staged: its last event's position and time, if it has one, and its end's offset.

    ``events`` is how many more events are staged than before.
    """
    staged: dict[str, Any] = {"staged_through": newest[0], "staged_time": newest[1], "staged_at": at} if newest else {}
    if events:
        before = connection.execute(select(pipelines.c.event_count).where(pipelines.c.pipeline == pipeline)).scalar() or 0
        staged["event_count"] = before + events
    ended = {"source_offset": offset} if offset is not None else {}
    _write(connection, pipeline, reason="", **staged, **ended)


def lock_offset(connection: Connection, pipeline: str) -> Any:
    """Return within a transaction the offset at the end of a pipeline's last batch, which none other changes until this one ends."""
    locked = select(pipelines.c.source_offset).where(pipelines.c.pipeline == pipeline).with_for_update()
    return connection.execute(locked).scalar_one_or_none()


def note_joined(connection: Connection, pipeline: str, through: int) -> None:
    """Record within a transaction up to which position the files of batches were joined."""
    connection.execute(update(pipelines).where(pipelines.c.pipeline == pipeline).values(joined_through=through))


MOST_NAMED = 500
"""Tables that a query names; of more, all are read."""


@dataclass(frozen=True, slots=True)
class MergeNews:
    """What a target holds of a table, how it stands, and what was merged since the last report."""

    position: int
    state: MergeState
    reason: str = ""
    events: int = 0
    time: dt.datetime | None = None
    """When the source committed the last event merged; None leaves it as it is."""


def report_merges(store: Store, pipeline: str, target: str, news: Mapping[str, MergeNews]) -> None:
    """Record what a target says of tables, by name; a few statements, whatever their number. Raises StoreError."""
    if not news:
        return

    def work(connection: Connection) -> None:
        of_target = and_(merges.c.pipeline == pipeline, merges.c.target == target)
        asked = of_target if len(news) > MOST_NAMED else and_(of_target, merges.c.table_name.in_(list(news)))
        known, at = {row.table_name: row for row in connection.execute(select(merges).where(asked))}, database_time(connection)
        new, changed = list[dict[str, Any]](), list[dict[str, Any]]()
        for table, one in news.items():
            before = known.get(table)
            values = {"position": one.position, "at": at, "state": one.state, "reason": one.reason}
            values |= {"event_count": one.events + (before.event_count if before else 0)}
            values |= {"through_time": one.time or (before.through_time if before else None)}
            if before is None:
                new.append({"pipeline": pipeline, "target": target, "table_name": table, **values})
            else:
                changed.append({"named": table, **values})
        if new:
            connection.execute(insert(merges), new)
        if changed:
            connection.execute(update(merges).where(of_target, merges.c.table_name == bindparam("named")), changed)

    store.write(work)


def list_merges(
    store: Store, pipeline: str, target: str | None = None, tables: Collection[str] | None = None
) -> dict[str, dict[str, MergeReport]]:
    """Return what each target reported, or one of them, by target and table; with ``tables`` of these alone. Raises StoreError."""
    wanted = _REPORTS.where(merges.c.pipeline == pipeline)
    wanted = wanted if target is None else wanted.where(merges.c.target == target)
    wanted = wanted if tables is None else wanted.where(merges.c.table_name.in_(tables))
    reports: dict[str, dict[str, MergeReport]] = {}
    with store.reading() as connection:
        for of_target, table, *values in connection.execute(wanted):
            reports.setdefault(of_target, {})[table] = MergeReport(*values)
    return reports


def get_merge(store: Store, pipeline: str, target: str, table: str) -> MergeReport | None:
    """Return what a target reported of a table; None if it reported nothing of it. Raises StoreError."""
    return list_merges(store, pipeline, target, [table]).get(target, {}).get(table)


_REPORTS = select(
    merges.c.target,
    merges.c.table_name,
    merges.c.position,
    merges.c.through_time,
    merges.c.at,
    merges.c.event_count,
    merges.c.state,
    merges.c.reason,
)


def count_merged(store: Store, pipeline: str) -> dict[tuple[str, str], int]:
    """Return how many events were merged since the pipeline began, by target and table. Raises StoreError."""
    with store.reading() as connection:
        columns = (merges.c.target, merges.c.table_name, merges.c.event_count)
        rows = connection.execute(select(*columns).where(merges.c.pipeline == pipeline))
        return {(target, table): events for target, table, events in rows}


def forget(store: Store, pipeline: str) -> None:
    """Delete the state of a pipeline, what its targets reported, its history and its problems. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (merges, pipelines, lags, problems):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))

    store.write(work)


def forget_target(store: Store, pipeline: str, target: str) -> None:
    """Delete what one target of a pipeline reported. Raises StoreError."""
    same = (merges.c.pipeline == pipeline) & (merges.c.target == target)
    store.write(lambda connection: connection.execute(delete(merges).where(same)) and None)


def _write(connection: Connection, pipeline: str, **values: Any) -> None:
    same = pipelines.c.pipeline == pipeline
    if connection.execute(select(pipelines.c.pipeline).where(same)).one_or_none() is not None:
        connection.execute(update(pipelines).where(same).values(**values))
    else:
        connection.execute(insert(pipelines).values(**{"pipeline": pipeline, "paused": False, "reason": "", **values}))


problems = Table(
    "auditor_pipeline_problems",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("kind", Integer(), primary_key=True, autoincrement=False),
    Column("target", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("since", Moment(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("notified", Boolean(), nullable=False),
)
"""The problems that pipelines have, since when, and whether the channels were notified; '' where a problem is of no target or table.

A kind is its number in `problems.KINDS`: with one more text InnoDB's key would be too long."""

KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)
"""The kinds, the gravest first; their numbers here are stored, so that new ones go to the end."""


def update_problems(
    store: Store, pipeline: str, reasons: Mapping[ProblemKey, str], now: dt.datetime, patience: Callable[[PipelineProblem], float]
) -> tuple[list[PipelineProblem], list[PipelineProblem]]:
    """Record the problems that a pipeline has now, with their reasons; return those to report now, and those reported that are over.

    A problem is returned once, after ``patience`` seconds, and to one process only. Raises StoreError.
    """

    def work(connection: Connection) -> tuple[list[PipelineProblem], list[PipelineProblem]]:
        known = {problem.key: problem for problem in _read(connection, pipeline, lock=True)}
        due, over = [], [problem for key, problem in known.items() if key not in reasons]
        new, changed = [], []
        for key, reason in reasons.items():
            before = known.get(key)
            since, notified = (before.since, before.notified) if before else (now, False)
            problem = PipelineProblem(**key._asdict(), since=since, reason=reason, notified=notified)
            if not notified and (now - since).total_seconds() >= patience(problem):
                problem = PipelineProblem(**key._asdict(), since=since, reason=reason, notified=True)
                due.append(problem)
            if before is None:
                new.append(problem)
            elif problem != before:
                changed.append(problem)
        _save(connection, pipeline, new, changed, over)
        over = [problem for problem in over if problem.notified]
        return due, over

    return store.write(work)


def set_unnotified(store: Store, pipeline: str, keys: Iterable[ProblemKey]) -> None:
    """Record that no channel received the notification of these problems, so that it is sent later. Raises StoreError."""

    unnotified = update(problems).where(_same(pipeline)).values(notified=False)
    if rows := [_key(key) for key in keys]:
        store.write(lambda connection: connection.execute(unnotified, rows))


def list_problems(store: Store, pipeline: str) -> list[PipelineProblem]:
    """Return the problems that a pipeline had when a service last looked. Raises StoreError."""
    with store.reading() as connection:
        return _read(connection, pipeline)


def _read(connection: Connection, pipeline: str, lock: bool = False) -> list[PipelineProblem]:
    wanted = select(problems).where(problems.c.pipeline == pipeline).order_by(problems.c.since)
    rows = connection.execute(wanted.with_for_update() if lock else wanted)
    return [_problem(row) for row in rows]


def _problem(row: Row[Any]) -> PipelineProblem:
    return PipelineProblem(
        kind=KINDS[row.kind], target=row.target, table=row.table_name, since=row.since, reason=row.reason, notified=row.notified
    )


def _save(
    connection: Connection,
    pipeline: str,
    new: Sequence[PipelineProblem],
    changed: Sequence[PipelineProblem],
    over: Sequence[PipelineProblem],
) -> None:
    """Insert, change and delete problems; a few statements, whatever their number."""
    if new:
        rows = [
            {
                "pipeline": pipeline,
                "kind": KINDS.index(problem.kind),
                "target": problem.target,
                "table_name": problem.table,
                "since": problem.since,
                "reason": problem.reason,
                "notified": problem.notified,
            }
            for problem in new
        ]
        connection.execute(insert(problems), rows)
    if changed:
        values = {"reason": bindparam("new_reason", type_=problems.c.reason.type), "notified": bindparam("now_notified")}
        now = [{**_key(problem.key), "new_reason": problem.reason, "now_notified": problem.notified} for problem in changed]
        connection.execute(update(problems).where(_same(pipeline)).values(values), now)
    if over:
        connection.execute(delete(problems).where(_same(pipeline)), [_key(problem.key) for problem in over])


def _same(pipeline: str) -> ColumnElement[bool]:
    """Return the condition on a problem whose key is bound as `_key` writes it."""
    is_kind = problems.c.kind == bindparam("of_kind")
    place = and_(problems.c.target == bindparam("of_target"), problems.c.table_name == bindparam("of_table"))
    return and_(problems.c.pipeline == pipeline, is_kind, place)


def _key(key: ProblemKey) -> dict[str, Any]:
    return {"of_kind": KINDS.index(key.kind), "of_target": key.target, "of_table": key.table}
