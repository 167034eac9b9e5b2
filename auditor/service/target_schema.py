"""Print the statements that make an audit's target hold its source's rows: its CREATE TABLE, or what brings a drifted one in line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.config import Audit, Settings
from auditor.connections.reader import Reader
from auditor.errors import ConfigError, NoSuchObject
from auditor.escaping import sql_comment, yaml_scalar
from auditor.model import DefinedTable, Side
from auditor.planning import introspect, target_schema
from auditor.planning.target_schema import Drift
from auditor.service import definitions
from auditor.sql import table_definition as ddl
from dialects import Dialect, Session, Table
from dialects.table_form import ColumnForm, TableKey


def print_schema(settings: Settings, name: str, *, create: bool = False, keys: Mapping[TableKey, Sequence[str]] = {}) -> Iterator[str]:
    """Yield the lines of a script for the target's engine; nothing is run.

    A target that is missing is created; one that is there is altered, unless ``create``. ``keys`` are the columns of its distribution and
    sort keys. Raises UnknownAudit, ConfigError, NoSuchObject for a missing source, PlanError and EngineError.
    """
    audit = definitions.audit(settings, name)
    read = audit.one_source("the definition of a target")
    if audit.target.place.path:
        raise ConfigError(f"the target of {name} is files, which have no CREATE TABLE; name a table")
    audit.check_plain("the definition of a target")
    connections: dict[Side, str] = {"source": read.connection, "target": audit.target.connection}
    with Reader(name, connections, settings.connections).open() as reader:
        source = reader.ask_side("source", lambda side, session: introspect.describe_table(audit, side, session).table)
        comments = reader.ask_side("source", lambda _, session: target_schema.read_comments(session, source))
        dialect = reader.session("target").dialect
        defined = target_schema.plan_target(audit, source, dialect, comments)
        target = None if create else reader.ask_side("target", lambda side, session: _find(audit, side, session))
        forms = reader.ask_side("target", lambda _, session: session.dialect.catalogue.column_forms(session, target)) if target else {}
    if not defined.columns:
        raise ConfigError(f"no column of {source.sql} has a type on {dialect.name}: {'; '.join(defined.left_out.values())}")
    yield sql_comment(f"The target of {name}, on {dialect.name}, for the rows of {read.label}.")
    for column, why in defined.left_out.items():
        yield sql_comment(f"Left out: {column}: {why}. To audit without it: columns: {{exclude: [{yaml_scalar(column)}]}}.")
    if not defined.key:
        yield sql_comment("Its rows have no key: the source has no primary key, and the audit names none.")
    if target is None:
        table = dialect.names.table(*audit.target.place.parts)
        lines = [f"{statement};\n" for statement in ddl.create_table(dialect, table, defined, keys)]
    else:
        lines = list(alter(dialect, target, target_schema.find_drift(defined, target), defined, forms))
    texts = (defined.comment, *(column.comment for column in defined.columns))
    if any("'" in text or "\\" in text for text in texts) and not all(line.startswith("--") for line in lines):
        yield from (
            f"{statement};\n" for statement in (dialect.writing.WRITE_SETTINGS if dialect.is_written else ())
        )  # by which literals end where they are meant to
    yield from lines or [sql_comment("The target's table is as it should be.")]


def _find(audit: Audit, side: Side, session: Session) -> Table | None:
    try:
        return introspect.describe_table(audit, side, session).table
    except NoSuchObject:
        return None


def alter(dialect: Dialect, target: Table, drift: Drift, defined: DefinedTable, forms: Mapping[str, ColumnForm]) -> Iterator[str]:
    """Yield the lines of a script that brings a target's table in line; none if nothing is to be done.

    ``forms`` are the definitions of its columns, where these are changed as a whole.
    """
    table, anew = target.sql, "which this engine does not change in place; make the table anew"
    for column in drift.missing:
        yield from (f"{statement};\n" for statement in ddl.add_column(dialect, table, column))
        if not column.nullable:
            yield from _note(f"{column.name} must not be NULL: fill it, then SET NOT NULL")
    for column, actual in drift.changed:
        statements = ddl.change_type(dialect, table, actual.name, column, forms.get(actual.name))
        yield from _note(f"{actual.name} is {actual.native}, and should be {column.type}{'' if statements else f', {anew}'}")
        yield from (f"{statement};\n" for statement in statements)
    for column, actual in drift.nullability:
        statements = ddl.change_null(dialect, table, actual.name, column, forms.get(actual.name))
        if not statements and not column.nullable:
            continue  # it takes the source's rows as it is
        should = "may be NULL in the source" if column.nullable else "is never NULL in the source"
        yield from _note(f"{actual.name} {should}{'' if statements else f', {anew}'}")
        yield from (f"{statement};\n" for statement in statements)
    if drift.key:
        yield from (f"{statement};\n" for statement in ddl.add_key(dialect, table, drift.key))
    if drift.other_key:
        yield from _note(f"its primary key is ({', '.join(drift.other_key)}), and should be ({', '.join(defined.key)})")
    for name in drift.extra:
        yield from _note(f"only the target has {name}; to drop it: ALTER TABLE {table} DROP COLUMN {dialect.names.quote(name)}")


def _note(sentence: str) -> Iterator[str]:
    yield sql_comment(f"{sentence}.")
