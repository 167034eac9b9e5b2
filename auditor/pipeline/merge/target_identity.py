"""What a target itself says of the pipeline that fills it: its incarnation, and a place in the stream up to which it holds every table.

It is a row of each table of positions, one for each schema of the target, under a name that no table has. A target that is written by
commits carries the incarnation with each table's position.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from auditor.connections.writer import transaction
from auditor.errors import IncarnationsDiffer, NoSuchObject
from auditor.pipeline.binlog.ranges import SourceOffset
from auditor.pipeline.incarnation import packed, show, ways_out
from auditor.pipeline.merge import merge_by_commits
from auditor.pipeline.merge.positions import Held, Where, describe, read, read_positions
from auditor.sql.merge import Positions
from auditor.store import parts, pipelines
from dialects import Session
from dialects.committing import Committing

WHOLE = ""
"""Stands for the pipeline as a whole in the table of positions, where tables have their names."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a schema of a target says of its pipeline as a whole."""

    incarnation: str
    offset: SourceOffset | None
    """The stream's offset up to which the target holds all tables; None if it held none yet."""
    ahead: int = 0
    """The position up to which it may be ahead of the store, because the log is read again from an earlier place."""


def check_target(session: Session, where: Where) -> str:
    """Check that a target was filled by this life of its pipeline, and not beyond what the store knows; return the incarnation.

    A schema of it that is new to the pipeline is given its incarnation. Raises IncarnationsDiffer, EngineError and StoreError.
    """
    incarnation = pipelines.begin(where.store, where.pipeline)
    held = read_positions(session, where)
    reported = {
        table: report.position
        for table, report in pipelines.list_merges(where.store, where.pipeline).get(where.target, {}).items()
        if report.position
    }
    if isinstance(session, Committing):
        _check_commits(session, where, held, reported, incarnation)
        return incarnation
    found = read_identities(session, where, parts.list_tables(where.store, where.pipeline))
    for schema, identity in found.items():
        if identity is None:
            _check_unsigned(where, schema, held, reported)
        elif identity.incarnation != incarnation:
            raise _other_life(where, held, f"incarnation {identity.incarnation}", incarnation)
    signed = [one for one in found.values() if one]
    through = max((one.offset for one in signed), key=packed, default=None)
    _check_not_ahead(where, held, through, max((one.ahead for one in signed), default=0))
    for schema, identity in found.items():
        if identity is None:
            _write_identity(session, where, schema, Identity(incarnation, None))
    return incarnation


def read_identities(session: Session, where: Where, tables: Iterable[str]) -> dict[str, Identity | None]:
    """Return what each schema of a target that has, or may have, these tables of the source says of the pipeline; None if nothing."""
    return {schema: _read_identity(session, where, schema) for schema in where.schemas(tables)}


def note_whole(session: Session, where: Where, offset: SourceOffset) -> None:
    """Let a target say that it holds every table up to an offset."""
    for schema, found in read_identities(session, where, parts.list_tables(where.store, where.pipeline)).items():
        if found:
            _write_identity(session, where, schema, replace(found, offset=offset))


def adopt(session: Session, where: Where, tables: Iterable[str], incarnation: str) -> None:
    """Let a target belong to a new life of its pipeline, which reads the log again from where the target holds all these tables."""
    signed = {schema: found for schema, found in read_identities(session, where, tables).items() if found}
    known = [packed(one.offset) for one in signed.values()]
    for schema in signed:
        known += [one.position for one in read(session, Positions(session.dialect, schema, where.pipeline)).values()]
    for schema, found in signed.items():
        _write_identity(session, where, schema, replace(found, incarnation=incarnation, ahead=max(known)))


def _read_identity(session: Session, where: Where, schema: str) -> Identity | None:
    try:
        rows = session.query(Positions(session.dialect, schema, where.pipeline).list())
    except NoSuchObject:  # nothing was ever merged there
        return None
    text = next((str(schema_id) for table, _, schema_id in rows if str(table) == WHOLE), None)
    return Identity(**json.loads(text)) if text else None


def _write_identity(session: Session, where: Where, schema: str, identity: Identity) -> None:
    positions = Positions(session.dialect, schema, where.pipeline)
    text = json.dumps(asdict(identity))
    with transaction(session):
        for statement in (*positions.lock(), *positions.write({WHOLE: (packed(identity.offset), text)})):
            session.execute(statement)


def _check_unsigned(where: Where, schema: str, held: Mapping[str, Held], reported: Mapping[str, int]) -> None:
    """Check a schema of a target without an incarnation, which is a new one, or one of a version that knew none."""
    theirs = {table: one for table, one in held.items() if where.place(table)[0] == schema}
    told = {table: position for table, position in reported.items() if where.place(table)[0] == schema}
    if told and not theirs:
        raise _emptied(where, sorted(told.items()))
    if theirs and not told:
        raise _other_life(where, theirs, "an earlier life", "")


def _check_commits(session: Committing, where: Where, held: Mapping[str, Held], reported: Mapping[str, int], incarnation: str) -> None:
    for table, one in sorted(held.items()):
        found = merge_by_commits.read_incarnation(session, where.place(table), where.pipeline, table)
        if (found and found != incarnation) or (not found and table not in reported):
            raise _other_life(where, {table: one}, f"incarnation {found}" if found else "an earlier life", incarnation)
    if reported and not held:  # of single tables that are gone, their merges say so
        raise _emptied(where, sorted(reported.items()))
    _check_not_ahead(where, held, None)


def _check_not_ahead(where: Where, held: Mapping[str, Held], through: Any, accepted: int = 0) -> None:
    """Raise IncarnationsDiffer if the target holds what the store does not know."""
    tables = parts.list_tables(where.store, where.pipeline)
    offset = pipelines.get_pipeline(where.store, where.pipeline).source_offset
    known = max([accepted, packed(offset), *(staged.staged_through for staged in tables.values())])
    there = max([(packed(through), "every table"), *((one.position, table) for table, one in held.items())])
    if there[0] > known:
        raise IncarnationsDiffer(
            f"target {where.target} holds {there[1]} up to {describe(there[0])}, and the store of pipeline {where.pipeline} knows the"
            f" stream up to {describe(known)}: the store is older, and what was staged in between is missing in it;"
            f" {ways_out(where.pipeline)}"
        )


def _other_life(where: Where, held: Mapping[str, Held], theirs: str, ours: str) -> IncarnationsDiffer:
    table, one = max(held.items(), key=lambda item: item[1].position, default=("nothing", Held()))
    stands = show(pipelines.get_pipeline(where.store, where.pipeline).source_offset)
    return IncarnationsDiffer(
        f"target {where.target} was filled by {theirs} of pipeline {where.pipeline}, up to {describe(one.position)} ({table}), and the"
        f" store{f' has incarnation {ours}, and' if ours else ''} stands at {stands}: one of them was lost or restored, and rows may be"
        f" missing in between; {ways_out(where.pipeline)}"
    )


def _emptied(where: Where, gone: list[tuple[str, int]]) -> IncarnationsDiffer:
    table, position = gone[0]
    return IncarnationsDiffer(
        f"target {where.target} says nothing of {table}, and held it up to {describe(position)}: the target was emptied, or restored from"
        f" an earlier time; {ways_out(where.pipeline)}"
    )
