"""What a target itself says of the pipeline that fills it: its incarnation, and how far it holds the stream as a whole.

It is a row of each table of positions, one for each schema of the target, under a name that no table has. A target that is written by
commits carries the incarnation with each table's position.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from auditor.connections.writer import transaction
from auditor.errors import IncarnationsDiffer, NoSuchObject
from auditor.escaping import shell_word
from auditor.pipeline.binlog.ranges import SourceOffset
from auditor.pipeline.incarnation import packed, show, ways_out
from auditor.pipeline.merge import merge_by_commits
from auditor.pipeline.merge.positions import WHOLE, Held, Row, Where, describe, held_of, read_positions, read_schemas
from auditor.sql.merge import Positions
from auditor.store import parts, pipelines
from dialects import Session
from dialects.committing import Committing

FORMAT = 1
"""The number of the form in which targets say this; another one is refused."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a schema of a target says of its pipeline as a whole."""

    incarnation: str
    offset: SourceOffset | None
    """The stream's offset up to which the target holds all tables; None if it held none yet."""
    ahead: int = 0
    """The position up to which it may be ahead of the store, because the log is read again from an earlier place."""
    through: int = 0
    """The position up to which the target was merged as a whole: it holds every event until there of its tables."""
    apart: Sequence[str] = ()
    """The tables of which it does not: they stopped, were held, or catch up; of each its own position says how far it is."""
    format: int = FORMAT


def check_target(session: Session, where: Where) -> str:
    """Check that a target was filled by this life of its pipeline, and not beyond what the store knows; return the incarnation.

    A schema of it that is new to the pipeline is given its incarnation. Raises IncarnationsDiffer, EngineError and StoreError.
    """
    incarnation = pipelines.begin(where.store, where.pipeline)
    held = read_positions(session, where)
    reported = {
        table: report.position
        for table, report in pipelines.list_merges(where.store, where.pipeline, where.target).get(where.target, {}).items()
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
    merged = max((one.through for one in signed), default=0)
    _check_not_ahead(where, held, max(packed(through), merged), max((one.ahead for one in signed), default=0))
    for schema, identity in found.items():
        if identity is None:
            _write_identity(session, where, schema, Identity(incarnation, None))
    return incarnation


def read_identities(session: Session, where: Where, tables: Iterable[str]) -> dict[str, Identity | None]:
    """Return what each schema of a target that has, or may have, these tables of the source says of the pipeline; None if nothing."""
    return {schema: _read_identity(session, where, schema) for schema in where.schemas(tables)}


def read_target(session: Session, where: Where) -> tuple[dict[str, Held], dict[str, Identity]]:
    """Return what the target says that it holds of each table, and what its schemas say of the pipeline as a whole, where they do."""
    if isinstance(session, Committing):  # which says nothing but of each table
        return read_positions(session, where), {}
    by_schema = read_schemas(session, where, parts.list_tables(where.store, where.pipeline))
    said = {schema: identity for schema, rows in by_schema.items() if (identity := _identity_in(where, rows))}
    return held_of(row for rows in by_schema.values() for row in rows), said


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
        rows = session.query(Positions(session.dialect, schema, where.pipeline).list())
        known += [one.position for one in held_of(rows).values()]
    for schema, found in signed.items():
        renewed = replace(found, incarnation=incarnation, ahead=max(known), through=0, apart=())
        _write_identity(session, where, schema, renewed)


def _read_identity(session: Session, where: Where, schema: str) -> Identity | None:
    try:
        rows = session.query(Positions(session.dialect, schema, where.pipeline).list())
    except NoSuchObject:  # nothing was ever merged there
        return None
    return _identity_in(where, rows)


def _identity_in(where: Where, rows: Iterable[Row]) -> Identity | None:
    """Return what a schema of a target says; None if nothing. Raises IncarnationsDiffer if another version wrote it."""
    text = next((str(schema_id) for table, _, schema_id in rows if str(table) == WHOLE), "")
    if not text:
        return None
    said = json.loads(text)
    if said.get("format") != FORMAT:
        raise IncarnationsDiffer(
            f"target {where.target} was filled by a version of auditor that writes positions in format {said.get('format')}, and this one"
            f" reads format {FORMAT}; use that version, or forget all positions (auditor pipeline reset {shell_word(where.pipeline)}) and"
            " copy the tables again"
        )
    return Identity(**said)


def whole_of(identity: Identity, through: int, apart: Iterable[str]) -> tuple[int, str]:
    """Return what the table of positions has of a pipeline as a whole, once a target was merged up to ``through`` but for some tables."""
    return packed(identity.offset), json.dumps(asdict(replace(identity, through=through, apart=sorted(apart))))


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
    _check_not_ahead(where, held, 0)


def _check_not_ahead(where: Where, held: Mapping[str, Held], through: int, accepted: int = 0) -> None:
    """Raise IncarnationsDiffer if the target holds what the store does not know."""
    tables = parts.list_tables(where.store, where.pipeline)
    offset = pipelines.get_pipeline(where.store, where.pipeline).source_offset
    known = max([accepted, packed(offset), *(staged.staged_through for staged in tables.values())])
    there = max([(through, "every table"), *((one.position, table) for table, one in held.items())])
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
    (table, position), name = gone[0], shell_word(where.pipeline)
    return IncarnationsDiffer(
        f"target {where.target} says nothing of {table}, and held it up to {describe(position)}: the target was emptied, or restored from"
        f" an earlier time; restore it as of a later one, or let it begin anew (auditor pipeline reset {name} --target"
        f" {shell_word(where.target)}) and send it all rows again (auditor pipeline refresh {name} --apply)"
    )
