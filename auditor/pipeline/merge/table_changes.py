"""Do to a target's table what statements did to the source's: empty it, rename it, change its columns.

Each is one transaction with the position that the target then holds: after a crash it was done once, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from auditor.api_models.pipeline import MigrationState
from auditor.connections.writer import transaction
from auditor.errors import MergeFailed, SchemaChanged, StatementRefused, TableStopped
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge import live_sums, merge_by_commits
from auditor.pipeline.merge.column_origins import find_origins
from auditor.pipeline.merge.migration import Migration, Plan
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import Held, StreamReader, Where, check_unchanged, get_schema, read_positions, see, write_positions
from auditor.pipeline.merge.shared_tables import check_alone
from auditor.pipeline.merge.staged_rows import plain_message
from auditor.pipeline.merge.target_table import find_table, make_statement, native_types
from auditor.pipeline.schema_differences import SchemaDifference, find_differences
from auditor.pipeline.table_ops import Op, ops_of
from auditor.points import reach
from auditor.sql.merge import STAGE
from auditor.sql.table_definition import TableStatements
from auditor.store import schema_changes, table_notes
from auditor.store.schema_changes import TargetMigration
from dialects import Column, Kind, Session, Table
from dialects.committing import Committing
from sql_templates import fill

log = logging.getLogger(__name__)

EMPTIED = "the source emptied the table, or made it anew"
"""Why live summaries end with a statement."""


def empty(session: Session, where: Where, table: str, held: Held, note: TableNote, clears: bool) -> dict[str, Held]:
    """Pass by a statement that emptied the source's table or made it anew, with ``clears`` by deleting all rows of the target's.

    Returns what the target holds then.
    """
    found = find_table(session, *where.place(table))
    reach("merge.clear")
    now = Held(note.position, held.schema_id if found or not clears else "")  # without rows it may be made anew
    sums = live_sums.prepare(session, where, table, held, note.position)
    if loses_rows(where, table, held, note):
        sums = live_sums.ended(sums, EMPTIED)
    with transaction(session):
        check_unchanged(session, where, {table: held})
        # Before the rows, so that who reads the target's binary log knows whose they are before it reads them.
        write_positions(session, where, {table: now})
        if found and clears:
            session.execute(TableStatements(session.dialect, found.sql).clear())
            _say(where, table, note, "its rows are gone, as in the source")
        ended = live_sums.add(session, where, table, sums)
        reach("merge.cleared")
    live_sums.end(where, ended)
    reach("merge.changed")
    return {table: now}


def loses_rows(where: StreamReader, table: str, held: Held, note: TableNote) -> bool:
    """Return whether the rows that the target holds are gone from the source.

    Where a table is made, it had no rows. With IF NOT EXISTS it may have been there, unless it was dropped before. A table of the target
    into which nothing was merged yet is somebody else's.
    """
    ops = ops_of(note.body)
    if any(op["op"] == "clear" for op in ops):
        return True
    if not held.position:
        return False
    if any(op["op"] == "create" and op["sure"] for op in ops):
        return True
    earlier = [one for one in table_notes.list_notes(where.store, where.pipeline, [table], kind="change") if one.position < note.position]
    last = [op["op"] for one in earlier for op in ops_of(one.body) if op["op"] in ("gone", "create", "clear", "moved")]
    return last[-1:] == ["gone"]


def is_move(note: TableNote) -> bool:
    """Return whether a note says that a table of the pipeline got the name of another one."""
    return "ops" in note.body and any(op["op"] == "moved" or (op["op"] == "gone" and "to" in op) for op in ops_of(note.body))


def move_tables(session: Session, where: Where, note: TableNote) -> dict[str, Held] | None:
    """Rename the target's tables as one statement renamed the source's; return what the target holds of each then.

    None while the target does not hold all of them up to that statement.
    """
    origins = origins_of(where, note.position)
    held = read_positions(session, where)
    names = {*origins, *origins.values()}
    pending: dict[str, PendingParts] = {}
    for name in names:
        ahead = pending[name] = see(where, name, held.get(name, Held()))
        if ahead.note is None or ahead.note.position != note.position:
            return None
    for name in names:
        check_alone(session, where, name, "the source renamed it", "rename it there, then reset the pipelines and fill their tables anew")
    check_schemas(where, origins)
    there = {name: find_table(session, *where.place(name)) for name in names}
    by_itself = session.dialect.writing.altering.COMMITS_BY_ITSELF
    if not (by_itself and find_table(session, *_place_of_mark(where, note, "moved"))):
        check_names_free(where, origins, held, there)
    carry_changes(where, note, origins, pending)
    reach("merge.move")
    now = {name: Held(note.position, held[origin].schema_id if origin in held else "") for name, origin in origins.items()}
    now |= {name: Held(note.position) for name in names if name not in origins}
    before = {name: held.get(name, Held()) for name in names}
    if by_itself:
        check_unchanged(session, where, before)
        _rename_at_once(session, where, note, origins)
    with transaction(session):
        check_unchanged(session, where, before)
        for statement in _renames(session, where, origins, there) if not by_itself else ():
            session.execute(statement)
        reach("merge.moved")
        write_positions(session, where, now)
    if by_itself:
        session.execute(TableStatements(session.dialect, _marks_of(session, where, note)[1]).drop_table())
    live_sums.end(where, {one: reason for name in names for one, reason in live_sums.moved(where, name).items()})
    reach("merge.changed")
    _say(where, note.table, note, f"tables were renamed as in the source: {', '.join(f'{old} to {new}' for new, old in origins.items())}")
    return now


def carry_changes(where: Where, note: TableNote, origins: Mapping[str, str], pending: Mapping[str, PendingParts]) -> None:
    """Note for the new names of tables what statements did to their columns since their last events; the next event is under a new name.

    These notes end one position behind the statement that renames the tables, so that they still lie ahead of it, until an event comes.
    """
    carried: list[TableNote] = []
    for new, old in origins.items():
        changes = [one for one in pending[old].changes if one.position < note.position] if old in pending else []
        statements = [ops for one in changes for ops in _statements(where, old, one) if ops]
        about = note.position, note.position + 1, 0, note.time
        carried += [
            TableNote(new, "change", *about, {"ops": list(ops)}, where.target, row - len(statements) - 1)
            for row, ops in enumerate(statements)
        ]
    if carried:
        where.store.write(lambda connection: table_notes.write_notes(connection, where.pipeline, carried))


def check_schemas(where: Where, origins: Mapping[str, str]) -> None:
    """Raise TableStopped if a table would move into another schema of the target."""
    if far := next((f"{old} to {new}" for new, old in origins.items() if where.place(new)[0] != where.place(old)[0]), ""):
        raise TableStopped(
            f"the source renamed {far}, which is in another schema of the target, and a pipeline moves no table there; move it there, then"
            " reset the pipeline and fill its tables anew"
        )


def check_names_free(where: Where, origins: Mapping[str, str], held: Mapping[str, Held], there: Mapping[str, Table | None]) -> None:
    """Raise TableStopped if a table would get the name of one that the pipeline did not fill."""
    moving = {found.sql for old in origins.values() if (found := there[old])}
    for new, old in origins.items():
        stale = there[new]
        if stale and stale.sql not in moving and not held.get(new, Held()).position:
            raise TableStopped(
                f"the source renamed {old} to {new}, and the target has a table {stale.sql}, which this pipeline did not fill; rename it"
                " or drop it there"
            )


def origins_of(where: Where, position: int) -> dict[str, str]:
    """Return by name of a table the name that it had before the statement at a position."""
    notes = table_notes.list_notes(where.store, where.pipeline, kind="change", after=position - 1)
    return {note.table: op["from"] for note in notes if note.position == position for op in ops_of(note.body) if op["op"] == "moved"}


def _renames(session: Session, where: Where, origins: Mapping[str, str], there: Mapping[str, Table | None]) -> list[str]:
    dialect, first, second = session.dialect, [], []
    moving = {found.sql for old in origins.values() if (found := there[old])}
    for name in origins:
        stale = there[name]
        if stale and stale.sql not in moving:
            first.append(TableStatements(dialect, stale.sql).drop_table())
    for number, (new, old) in enumerate(origins.items()):
        (schema, name), between = where.place(new), f"auditor_moved_{number}"
        if found := there[old]:
            first.append(TableStatements(dialect, found.sql).rename_table(between))
            second.append(TableStatements(dialect, dialect.names.table(schema, between)).rename_table(name))
    return first + second


def _rename_at_once(session: Session, where: Where, note: TableNote, origins: Mapping[str, str]) -> None:
    """Rename the target's tables by one statement that commits by itself, unless it was run before: it renames an empty table, too.

    Without that mark, one could not tell whether two tables that exchange their names have done so.
    """
    dialect, (begun, done) = session.dialect, _marks_of(session, where, note)
    if find_table(session, *_place_of_mark(where, note, "moved")) is None:
        there = {name: find_table(session, *where.place(name)) for name in {*origins, *origins.values()}}
        moving = {found.sql for old in origins.values() if (found := there[old])}
        first, second = list[tuple[str, str]](), list[tuple[str, str]]()
        for number, (new, old) in enumerate(origins.items()):
            (schema, name), stale = where.place(new), there[new]
            if stale and stale.sql not in moving:
                first.append((stale.sql, dialect.names.table(schema, f"{STAGE}stale_{note.position}_{number}")))
            if found := there[old]:
                between = dialect.names.table(schema, f"{STAGE}between_{note.position}_{number}")
                first.append((found.sql, between))
                second.append((between, dialect.names.table(schema, name)))
        session.execute(f"CREATE TABLE IF NOT EXISTS {begun} (moved INTEGER)")
        session.execute(dialect.writing.altering.rename_at_once([*first, (begun, done), *second]))
    reach("merge.renamed")
    for number, new in enumerate(origins):
        stale_name = dialect.names.table(where.place(new)[0], f"{STAGE}stale_{note.position}_{number}")
        session.execute(f"DROP TABLE IF EXISTS {stale_name}")


def _marks_of(session: Session, where: Where, note: TableNote) -> tuple[str, str]:
    """Return the names of an empty table, as SQL text, before tables are renamed and afterwards."""
    begun, done = (session.dialect.names.table(*_place_of_mark(where, note, word)) for word in ("moving", "moved"))
    return begun, done


def _place_of_mark(where: Where, note: TableNote, word: str) -> tuple[str, str]:
    return where.place(note.table)[0], f"{STAGE}{word}_{note.position}"


def migrate(
    session: Session, where: Where, table: str, held: Held, schema_id: str, changes: Sequence[TableNote], first: int
) -> Held | None:
    """Bring the target's table to the schema of the event at ``first``; None if nothing has to be done.

    Raises SchemaChanged, before anything is changed, where that cannot be done without a person.
    """
    if not held.schema_id or (held.schema_id == schema_id and not any(changes_columns(note) for note in changes)):
        return None
    old, new = (get_schema(where, one) for one in (held.schema_id, schema_id))
    found = find_table(session, *where.place(table))
    if found is None or not new.key:
        return None
    about = TargetMigration(where.target, table, held.position, held.schema_id, schema_id, [], [])
    by_itself, form = session.dialect.writing.altering.COMMITS_BY_ITSELF, _form_of(found)
    now = Held(max(first - 1, *(note.position for note in changes), held.position), schema_id)
    begun = _find_begun(where, about) if by_itself else None
    try:
        if begun and begun.form != form:  # its statement was run, and the process ended before it wrote the position
            _check_done(begun, form, old, new)
            made = Migration(said=list(begun.said))
        else:
            made = _plan(session, where, found, old, new, changes)
            if by_itself:
                begun = replace(about, form=form, statements=made.statements, said=made.said)
            _record(where, begun or about, made, "planned")
        if isinstance(session, Committing):
            _apply_by_commit(session, where, table, found.sql, held, now, made)
        else:
            _apply(session, where, table, held, now, made)
    except SchemaChanged as error:
        if where.records:
            refused = replace(begun or about, state="refused", reason=str(error))
            schema_changes.record_migration(where.store, where.pipeline, refused)
        raise
    _record(where, about, made, "applied")
    for sentence in [*made.said, *made.before, *made.statements, *([made.rows] if made.rows else [])]:
        extra = {"action": "migrated", "pipeline": where.pipeline, "target": where.target, "table": table}
        log.info("%s: %s: %s", where.target, table, sentence, extra=extra)
    return now


def check_names(where: Where, table: str, held: Held, schema_id: str, changes: Sequence[TableNote]) -> None:
    """Check that a target that finds columns by their names alone may take rows of another schema.

    Raises SchemaChanged if a column was renamed, or its name given to another one: rows that are there would keep the wrong values.
    """
    if not held.schema_id:
        return
    old, new = (get_schema(where, one) for one in (held.schema_id, schema_id))
    origins = find_origins(old, new, [ops for note in changes for ops in _statements(where, table, note)])
    known = {column.name.lower() for column in old.columns}
    moved = [name for name, origin in origins.old.items() if name.lower() != origin.lower()]
    if moved := [*moved, *(name for name in origins.values if name.lower() in known)]:
        raise SchemaChanged(
            f"{table}: {', '.join(sorted(moved))} is another column than before, or has another name, and a pipeline changes no columns of"
            " this target; reset the pipeline, drop the table there, and copy the table again"
        )


def _plan(session: Session, where: Where, found: Table, old: TableSchema, new: TableSchema, changes: Sequence[TableNote]) -> Migration:
    table = f"{new.database}.{new.table}"
    origins = find_origins(old, new, [ops for note in changes for ops in _statements(where, table, note)])
    if where.chosen.on_breaking == "stop":
        _check_readers(where, table, find_differences(old, new, origins.old))
    is_empty = not session.query(TableStatements(session.dialect, found.sql).any_row())
    natives = native_types(session.dialect, new)

    def create(name: str) -> str:
        return make_statement(session.dialect, (where.place(table)[0], name), where.pipeline, new, where.keys(table))[1]

    alter = partial(session.dialect.writing.altering.alter, session, found)
    fits = partial(_fits, session, found)
    made = Plan(session.dialect, found, old, new, natives, origins, _catalogue(where, table, new), is_empty, create, alter, fits).make()
    if made.moves_rows and not is_empty:
        rows = int(session.query(TableStatements(session.dialect, found.sql).count_rows())[0][0])
        if rows > (most := where.chosen.migrate.auto_rows):
            statements = "; ".join([*made.before, *made.statements]) or f"write its rows anew as {made.rows}"
            raise SchemaChanged(
                f"{table}: its {rows:,} rows in {found.sql} would be written again, and migrate: auto_rows of target {where.target} is"
                f" {most:,}; raise that, or do it by hand: {statements}"
            )
        made.said.append(f"{rows:,} rows are written again")
    return made


def _check_readers(where: Where, table: str, differences: Sequence[SchemaDifference]) -> None:
    """Raise SchemaChanged if a difference breaks those who read a table."""
    if breaking := [one.sentence for one in differences if one.breaks_readers]:
        raise SchemaChanged(
            f"{table}: in the source {'; '.join(breaking)}, and target {where.target} has on_breaking: stop; once its readers know, set"
            " on_breaking: follow, and start the pipeline again"
        )


def _fits(session: Session, found: Table, column: Column, kind: Kind) -> bool:
    """Return whether a kind has each value of a column exactly."""
    try:
        return not session.query(TableStatements(session.dialect, found.sql).any_unlike(column.name, kind))
    except StatementRefused:  # a value that the type does not hold at all
        return False


def _form_of(found: Table) -> Any:
    """Return what a table is like, as a JSON value: its columns with their types, and its key."""
    return [[[column.name, column.native] for column in found.columns], list(found.primary_key)]


def _find_begun(where: Where, about: TargetMigration) -> TargetMigration | None:
    """Return a migration that was begun by a statement that commits by itself, and is not known to be done; None if there is none.

    One that was refused afterwards counts as well: it is tried again without anybody having looked at it.
    """
    for one in schema_changes.list_migrations(where.store, where.pipeline, tables=[about.table]):
        found = replace(one, statements=[], said=[], at=None, ended=None, form=None, state="planned", reason="")
        if found == about and one.form is not None and one.state != "applied":
            return one
    return None


def _check_done(begun: TargetMigration, form: Any, old: TableSchema, new: TableSchema) -> None:
    """Check that a table, which has another form than before a migration, has that of afterwards. Raises SchemaChanged."""
    known, wanted = ({column.name.lower() for column in schema.columns} for schema in (old, new))
    if _names_of(form) != (_names_of(begun.form) - known) | wanted:
        raise SchemaChanged(
            f"{begun.table}: somebody changed its columns while a pipeline did, so that it is not known what was done;"
            f" see to it that this was: {'; '.join(begun.statements)}"
        )


def _names_of(form: Any) -> set[str]:
    return {str(name).lower() for name, _ in form[0]}


def _apply(session: Session, where: Where, table: str, held: Held, now: Held, made: Migration) -> None:
    reach("merge.migrate")
    sums = live_sums.prepare(session, where, table, held, now.position)
    by_itself = session.dialect.writing.altering.COMMITS_BY_ITSELF
    if alone := [*made.before, *(made.statements if by_itself else ())]:
        check_unchanged(session, where, {table: held})
        if by_itself:
            _wait_for_others(session, where, table)
        _execute(session, table, alone)
        reach("merge.altered")
    with transaction(session):
        check_unchanged(session, where, {table: held})
        _execute(session, table, () if by_itself else made.statements)
        reach("merge.migrated")
        write_positions(session, where, {table: now})
        ended = live_sums.add(session, where, table, sums)
    live_sums.end(where, ended)
    reach("merge.changed")


def _apply_by_commit(session: Session, where: Where, table: str, target: str, held: Held, now: Held, made: Migration) -> None:
    """Do a migration by commits, of which the last one carries the position: that with the rows, if they are written again."""
    assert isinstance(session, Committing)
    reach("merge.migrate")
    _execute(session, table, [*made.before, *made.statements])
    reach("merge.altered")
    about = (where.pipeline, table, (held.position, held.schema_id), (now.position, now.schema_id))
    live_sums.keep(where, live_sums.prepare(session, where, table, held, now.position))
    try:
        if made.rows:
            done = merge_by_commits.rewrite(session, target, *about, rows=made.rows, incarnation=where.incarnation)
        else:
            done = merge_by_commits.pass_by(session, where.place(table), *about, clear=False, incarnation=where.incarnation)
    except StatementRefused as error:
        raise SchemaChanged(f"{table}: the target refuses to write its rows again: {plain_message(str(error))}; do it by hand") from error
    if not done:
        raise MergeFailed(f"{table}: another process has merged meanwhile; it is checked again")
    reach("merge.changed")


def _wait_for_others(session: Session, where: Where, table: str) -> None:
    """Raise MergeFailed while the server still alters the table for a connection that was lost: it is looked at again."""
    name = session.dialect.names.table(*where.place(table))
    sql = fill(session.dialect.template("statements_like"), {"table": session.dialect.names.literal(f"ALTER TABLE {name} %")})
    if session.query(sql):
        raise MergeFailed(f"{table}: the server still alters {name} for an earlier connection; it is checked again")


def _execute(session: Session, table: str, statements: Sequence[str]) -> None:
    """Run the statements of a migration. Raises SchemaChanged for one that the target refuses."""
    for statement in statements:
        try:
            session.execute(statement)
        except StatementRefused as error:
            why = plain_message(str(error))
            raise SchemaChanged(f"{table}: the target refuses {statement}: {why}; correct that, or run it there") from error


def _record(where: Where, about: TargetMigration, made: Migration, state: MigrationState) -> None:
    statements = [*made.before, *made.statements, *([made.rows] if made.rows else [])]
    if where.records and (statements or made.said):
        found = replace(about, statements=statements, said=made.said, state=state)
        schema_changes.record_migration(where.store, where.pipeline, found)


def _statements(where: Where, table: str, note: TableNote) -> list[Sequence[Op]]:
    """Return the changes of columns that a note stands for, by statement: of a copy that was made this table, those of the copy."""
    found: list[Sequence[Op]] = []
    for op in ops_of(note.body):
        if op["op"] == "swapped":
            found += _changes_of_copy(where, op["from"], note.position) or [
                [{"op": "unread", "text": f"RENAME TABLE {op['from']} TO {table}"}]
            ]
    return [*found, [op for op in ops_of(note.body) if _is_of_columns(op) and op["op"] != "swapped"]]


def _changes_of_copy(where: Where, copy: str, position: int) -> list[Sequence[Op]] | None:
    """Return what was done to a copy since it was made; None if that is not known."""
    notes = [note for note in table_notes.list_notes(where.store, where.pipeline, [copy], kind="change") if note.position < position]
    made = [number for number, note in enumerate(notes) if any(op["op"] == "create" for op in ops_of(note.body))]
    return [ops_of(note.body) for note in notes[made[-1] :]] if made else None


def changes_columns(note: TableNote) -> bool:
    """Return whether a statement changed columns, so that the target's table has to be brought to the schema of the next event."""
    return any(_is_of_columns(op) for op in ops_of(note.body))


def _is_of_columns(op: Op) -> bool:
    return op["op"] in ("add", "drop", "rename", "swapped", "unread")


def _catalogue(where: Where, table: str, new: TableSchema) -> Mapping[str, Mapping[str, Any]]:
    history = schema_changes.list_history(where.store, where.pipeline, table)
    return next((one.catalogue for one in reversed(history) if one.schema_id == new.id and one.catalogue), {})


def _say(where: Where, table: str, note: TableNote, what: str) -> None:
    extra = {"action": "table_changed", "pipeline": where.pipeline, "target": where.target, "table": table, "position": note.position}
    log.info("%s: %s: %s", where.target, table, what, extra=extra)
