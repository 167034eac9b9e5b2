"""Render the statements that make a table as it should be, and that change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sql_templates
from auditor.errors import ConfigError
from auditor.model import DefinedColumn, DefinedTable
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind
from dialects.table_form import ColumnForm, TableKey


def create_table(dialect: Dialect, table: str, defined: DefinedTable, keys: Mapping[TableKey, Sequence[str]]) -> Iterator[str]:
    """Yield the statements that make a table; ``keys`` are the columns of its distribution and sort keys.

    Raises ConfigError for a key that the engine does not have, or of a column that the table does not have.
    """
    form = dialect.TABLE_FORM
    lines = [_definition(dialect, column) for column in defined.columns]
    if defined.key and form.primary_key:
        lines.append(form.primary_key.format(columns=_names(dialect, defined.key)))
    clauses = table_keys(dialect, table, [column.name for column in defined.columns], keys)
    if defined.comment and form.inline_comments:
        clauses.append(f"COMMENT {_text(dialect, defined.comment)}")
    yield f"CREATE TABLE {table} (\n  " + ",\n  ".join(lines) + "\n)" + "".join(f"\n{clause}" for clause in clauses)
    yield from _comments(dialect, table, defined)


def keyed_table(dialect: Dialect, table: str, columns: Sequence[tuple[str, Kind]]) -> str:
    """Return the statement that makes a table of the engine's types for these kinds, with the first column as its key."""
    types = [f"{dialect.names.quote(name)} {dialect.types.native_type(kind)}" for name, kind in columns]
    if dialect.TABLE_FORM.enforces_keys and dialect.TABLE_FORM.primary_key:
        types[0] += " NOT NULL"
        types.append(dialect.TABLE_FORM.primary_key.format(columns=dialect.names.quote(columns[0][0])))
    return f"CREATE TABLE {table} ({', '.join(types)})"


def add_column(dialect: Dialect, table: str, column: DefinedColumn) -> Iterator[str]:
    """Yield the statements that add a column, which may be NULL, as the rows that are there have no value of it."""
    comment = f" COMMENT {_text(dialect, column.comment)}" if column.comment and dialect.TABLE_FORM.inline_comments else ""
    yield f"ALTER TABLE {table} ADD COLUMN {dialect.names.quote(column.name)} {column.type}{_null(dialect, True)}{comment}"
    if column.comment and not comment:
        yield _comment_on(dialect, table, column)


def change_type(dialect: Dialect, table: str, name: str, column: DefinedColumn, form: ColumnForm | None) -> list[str]:
    """Return the statements that give a column its type; none where the engine changes no types, or not this column's.

    ``form`` is how the column is defined: its default and comment stay.
    """
    typed = column.type
    if _changes_whole(dialect):
        if form is None:
            return []
        typed += _null(dialect, column.nullable) + form.rest
    return [statement.format(table=table, column=dialect.names.quote(name), type=typed) for statement in dialect.TABLE_FORM.change]


def change_null(dialect: Dialect, table: str, name: str, column: DefinedColumn, form: ColumnForm | None) -> list[str]:
    """Return the statements that let a column, defined as ``form`` says, be NULL, or not; none where the engine has none."""
    if _changes_whole(dialect):
        return change_type(dialect, table, name, replace(column, type=form.type), form) if form else []
    change = dialect.TABLE_FORM.change_null
    return [change.format(table=table, column=dialect.names.quote(name), change="DROP" if column.nullable else "SET")] if change else []


def add_key(dialect: Dialect, table: str, key: Sequence[str]) -> list[str]:
    """Return the statement that adds a primary key; none where there are none."""
    form = dialect.TABLE_FORM.primary_key
    return [f"ALTER TABLE {table} ADD {form.format(columns=_names(dialect, key))}"] if form else []


def table_keys(dialect: Dialect, table: str, names: Sequence[str], keys: Mapping[TableKey, Sequence[str]]) -> list[str]:
    """Return the clauses of a table's distribution and sort keys; ``names`` are its columns, ``keys`` those of each key.

    Raises ConfigError for a key that the engine does not have, or of a column that the table does not have.
    """
    return [_table_key(dialect, table, names, key, columns) for key, columns in keys.items() if columns]


def _table_key(dialect: Dialect, table: str, names: Sequence[str], key: TableKey, columns: Sequence[str]) -> str:
    form = dialect.TABLE_FORM.table_keys.get(key)
    if form is None:
        raise ConfigError(f"{dialect.name} has no {key} keys; leave out the {key} key of {table}")
    by_name = {name.lower(): name for name in names}
    unknown = [name for name in columns if name.lower() not in by_name]
    if unknown:
        raise ConfigError(f"{table} has no column {unknown[0]!r} for its {key} key; it has {', '.join(by_name.values())}")
    return form.format(columns=_names(dialect, [by_name[name.lower()] for name in columns]))


def _changes_whole(dialect: Dialect) -> bool:
    """Return whether a column is changed by its whole definition, in which NOT NULL stands too."""
    return bool(dialect.TABLE_FORM.change) and not dialect.TABLE_FORM.change_null


def _definition(dialect: Dialect, column: DefinedColumn) -> str:
    comment = f" COMMENT {_text(dialect, column.comment)}" if column.comment and dialect.TABLE_FORM.inline_comments else ""
    return f"{dialect.names.quote(column.name)} {column.type}{_null(dialect, column.nullable)}{comment}"


def _null(dialect: Dialect, nullable: bool) -> str:
    written = dialect.TABLE_FORM.null if nullable else "NOT NULL"
    return f" {written}" if written else ""


def _comments(dialect: Dialect, table: str, defined: DefinedTable) -> Iterator[str]:
    if dialect.TABLE_FORM.inline_comments:
        return
    if defined.comment:
        yield f"COMMENT ON TABLE {table} IS {_text(dialect, defined.comment)}"
    yield from (_comment_on(dialect, table, column) for column in defined.columns if column.comment)


def _comment_on(dialect: Dialect, table: str, column: DefinedColumn) -> str:
    return f"COMMENT ON COLUMN {table}.{dialect.names.quote(column.name)} IS {_text(dialect, column.comment)}"


def _names(dialect: Dialect, names: Sequence[str]) -> str:
    return ", ".join(dialect.names.quote(name) for name in names)


def _text(dialect: Dialect, comment: str) -> str:
    """Return the literal of a comment, which must be one plain literal."""
    if dialect.TABLE_FORM.backslash_escapes:
        return "'" + comment.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + comment.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class TableStatements:
    """Statements about one table of a target, whose name is SQL text."""

    dialect: Dialect
    table: str

    def add(self, column: str, native: str) -> str:
        """Return the statement that adds a column."""
        return f"ALTER TABLE {self.table} ADD COLUMN {self._q(column)} {native}{self._null}"

    def retype_by_hand(self, column: str, native: str) -> str:
        """Return what gives a column another type, as a person runs it; where the engine changes none, by another column."""
        names = {"table": self.table, "column": self._q(column), "type": native, "other": self._q(f"{column}_auditor")}
        remake = (
            "ALTER TABLE {table} ADD COLUMN {other} {type}",
            "UPDATE {table} SET {other} = CAST({column} AS {type})",
            "ALTER TABLE {table} DROP COLUMN {column}",
            "ALTER TABLE {table} RENAME COLUMN {other} TO {column}",
        )
        return "; ".join(statement.format(**names) for statement in self.dialect.TABLE_FORM.change or remake)

    def rename_table(self, name: str) -> str:
        """Return the statement that renames the table within its schema; on MySQL it would move it into the session's database."""
        return f"ALTER TABLE {self.table} RENAME TO {self._q(name)}"

    def drop_table(self) -> str:
        """Return the statement that drops the table."""
        return f"DROP TABLE {self.table}"

    def clear(self) -> str:
        """Return the statement that deletes all rows."""
        return checked(sql_templates.fill(self.dialect.template("merge_target_clear"), {"target": self.table}), self.dialect)

    def any_row(self) -> str:
        """Return the statement that finds out whether there is a row."""
        return checked(sql_templates.fill(self.dialect.template("merge_target_any"), {"target": self.table}), self.dialect)

    def any_unlike(self, name: str, kind: Kind) -> str:
        """Return the statement that finds a row of which a column's value is another one, or none, as one of a kind."""
        column = self.dialect.names.quote(name)
        typed = self.dialect.types.typed_value(column, kind)
        return checked(f"SELECT 1 FROM {self.table} WHERE {column} <> {typed} LIMIT 1", self.dialect)

    def count_rows(self) -> str:
        """Return the statement that counts the rows."""
        return checked(f"SELECT COUNT(*) FROM {self.table}", self.dialect)

    @property
    def _null(self) -> str:
        return f" {self.dialect.TABLE_FORM.null}" if self.dialect.TABLE_FORM.null else ""

    def _q(self, name: str) -> str:
        return self.dialect.names.quote(name)
