"""Say what a statement of the source's log becomes on a schema tracker: which statements it runs, and which tables these change.

Names decide alone: of a statement that names several tables, as DROP and RENAME do, only the part is replayed that is about databases which
are carried; the rest is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from auditor.pipeline.binlog.log_connection import query
from auditor.pipeline.binlog.sql_tokens import Token, TokenReader, split, tokens
from auditor.pipeline.binlog.table_statements import TableStatement
from auditor.pipeline.binlog.tracked_columns import TrackedColumn, TrackedTable
from dialects.kinds import without_comments
from dialects.mysql.expressions import MySQLNames

Name = tuple[str, str]
"""Database and table; '' as table stands for all tables of the database."""

Carries = Callable[[str], bool]
"""Whether a database is carried."""

_START_TRANSACTION = (b"START", b"TRANSACTION")
"""What MySQL writes after the definition of a table that was made by CREATE TABLE ... SELECT, to log its rows in the same transaction."""

_OPTIONS = ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ", "COMMENT")
"""What an ALTER DATABASE continues with that names no database."""

_KINDS_OF_INDEX = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE")


@dataclass(slots=True)
class Replay:
    """What a statement becomes."""

    statements: list[bytes | str] = field(default_factory=list)
    """What is run on the tracker, in order; bytes are the statement's own text, in the character set of its client."""
    tables: list[Name] = field(default_factory=list)
    """The tables that they change."""
    lost: dict[Name, str] = field(default_factory=dict)
    """Tables whose columns nobody knows from here on, and why."""
    keeps_existing: bool = False
    """Whether it does nothing to a table that is there (IF NOT EXISTS)."""


class _Words(TokenReader):
    """Takes keywords and names of tables."""

    def take_any(self, *words: str) -> bool:
        """Take all that is next of these keywords; return whether there was any."""
        has_any = False
        while self.left and self.left[0].is_word(*words):
            del self.left[0]
            has_any = True
        return has_any

    def skip_to(self, *words: str) -> bool:
        """Take everything up to this keyword, and it; return whether it was there."""
        while self.left:
            if self.take(*words):
                return True
            del self.left[0]
        return False

    def table(self) -> Name | None:
        """Take the name of a table if it is next."""
        if not self.left or not self.left[0].is_name:
            return None
        first = self.left.pop(0).text
        if len(self.left) > 1 and self.left[0].text == "." and self.left[1].is_name:
            del self.left[0]
            return first, self.left.pop(0).text
        return self.database, first


def plan_replay(statement: TableStatement, carries: Carries) -> Replay | None:
    """Return what a statement becomes on the tracker; None if it changes nothing that is carried."""
    text = statement.text
    words = _Words(tokens(statement.characters, statement.sql_mode), statement.database)
    if words.take("SET", "STATEMENT"):
        words.skip_to("FOR")
    if words.take("ALTER"):
        return _alter(words, text, carries)
    if words.take("CREATE"):
        return _create(words, text, carries)
    if words.take("DROP"):
        return _drop(words, text, carries)
    if words.take("RENAME", "TABLE") or words.take("RENAME", "TABLES"):
        return _rename(words, carries)
    return None


def _alter(words: _Words, text: bytes, carries: Carries) -> Replay | None:
    words.take_any("ONLINE", "OFFLINE", "IGNORE")
    if words.take("DATABASE") or words.take("SCHEMA"):
        database = words.left[0].text if words.left and not words.left[0].is_word(*_OPTIONS) else words.database
        return Replay([text], [(database, "")]) if carries(database) else None
    if not (words.take("TABLE") or words.take("SEQUENCE")):
        return None
    words.take("IF", "EXISTS")
    table = words.table()
    if table is None:
        return None
    new = _new_name(words)
    if new and carries(table[0]) != carries(new[0]):
        return _moved(table, new, carries)
    if not carries(table[0]) or _moves_rows_only(words.left):
        return None
    return Replay([text], [*dict.fromkeys([table, *([new] if new else []), *_other_tables(words)])])


def _new_name(words: _Words) -> Name | None:
    for part in split(words.left):
        spec = _Words(part, words.database)
        if spec.take("RENAME") and spec.left and not spec.left[0].is_word("COLUMN", "INDEX", "KEY"):
            if spec.left[0].text == "=" or spec.left[0].is_word("TO", "AS"):
                del spec.left[0]
            return spec.table()
    return None


def _moves_rows_only(left: Sequence[Token]) -> bool:
    """Return whether an ALTER TABLE moves rows without changing columns, and could not be replayed without them."""
    return any(
        token.is_word("IMPORT", "DISCARD", "EXCHANGE") and following.is_word("TABLESPACE", "PARTITION")
        for token, following in pairwise(left)
    )


def _other_tables(words: _Words) -> list[Name]:
    """Return the other tables that an ALTER TABLE makes or takes, as CONVERT PARTITION does in MariaDB."""
    tables = []
    for part in split(words.left):
        spec = _Words(part, words.database)
        if spec.take("CONVERT") and spec.skip_to("TABLE") and (name := spec.table()):
            tables.append(name)
    return tables


def _create(words: _Words, text: bytes, carries: Carries) -> Replay | None:
    replaces = words.take("OR", "REPLACE")
    words.take_any(*_KINDS_OF_INDEX)
    if words.take("INDEX"):
        table = words.table() if words.skip_to("ON") else None
        return Replay([text], [table]) if table and carries(table[0]) else None
    is_database = words.take("DATABASE") or words.take("SCHEMA")
    if not is_database and not (words.take("TABLE") or words.take("SEQUENCE")):
        return None
    keeps = words.take("IF", "NOT", "EXISTS")
    name = words.table()
    if name is None or not carries(name[1] if is_database else name[0]):
        return None
    if is_database:
        first = [] if keeps or replaces else [f"DROP DATABASE IF EXISTS {quote(name[1])}"]
        return Replay([*first, text], [(name[1], "")])
    first = [] if keeps or replaces else [f"DROP TABLE IF EXISTS {_quoted(name)}"]
    return Replay([*first, _without_start(text)], [name], keeps_existing=keeps)


def _without_start(text: bytes) -> bytes:
    words = text.rstrip().removesuffix(b";").rsplit(None, 2)
    return words[0] if len(words) == 3 and (words[1].upper(), words[2].upper()) == _START_TRANSACTION else text


def _drop(words: _Words, text: bytes, carries: Carries) -> Replay | None:
    if words.take("DATABASE") or words.take("SCHEMA"):
        words.take("IF", "EXISTS")
        database = words.left[0].text if words.left else ""
        return Replay([f"DROP DATABASE IF EXISTS {quote(database)}"], [(database, "")]) if carries(database) else None
    if words.take("INDEX"):
        table = words.table() if words.skip_to("ON") else None
        return Replay([text], [table]) if table and carries(table[0]) else None
    kind = "SEQUENCE" if words.take("SEQUENCE") else "TABLE"
    if kind == "TABLE" and not (words.take("TABLE") or words.take("TABLES")):
        return None
    words.take("IF", "EXISTS")
    names = [name for part in split(words.left) if (name := _Words(part, words.database).table()) and carries(name[0])]
    return Replay([f"DROP {kind} IF EXISTS {_quoted(name)}" for name in names], names) if names else None


def _rename(words: _Words, carries: Carries) -> Replay | None:
    words.take("IF", "EXISTS")
    whole = Replay()
    for part in split(words.left):
        pair = _Words(part, words.database)
        old = pair.table()
        new = pair.table() if pair.skip_to("TO") else None
        if old and new and (moved := _moved(old, new, carries)):
            whole.statements += moved.statements
            whole.tables += [name for name in moved.tables if name not in whole.tables]
            whole.lost = {name: why for name, why in whole.lost.items() if name not in moved.tables} | moved.lost
    return whole if whole.statements or whole.lost else None


def _moved(old: Name, new: Name, carries: Carries) -> Replay | None:
    """Return what giving a table another name becomes."""
    if carries(old[0]) and carries(new[0]):
        return Replay([f"RENAME TABLE {_quoted(old)} TO {_quoted(new)}"], [old, new])
    if carries(old[0]):
        return Replay([f"DROP TABLE IF EXISTS {_quoted(old)}"], [old])
    if carries(new[0]):
        why = f"it was {'.'.join(old)}, of a database that the pipeline does not carry"
        return Replay([f"DROP TABLE IF EXISTS {_quoted(new)}"], [new], {new: why})
    return None


def quote(name: str) -> str:
    """Return a name as SQL text."""
    return MySQLNames().quote(name)


def _quoted(name: Name) -> str:
    return f"{quote(name[0])}.{quote(name[1])}"


COLUMNS = """\
SELECT table_name, column_name, data_type, column_type, character_set_name, is_nullable
FROM information_schema.columns WHERE table_schema = {database}{tables} ORDER BY table_name, ordinal_position"""

KEYS = """\
SELECT table_name, column_name
FROM information_schema.statistics WHERE table_schema = {database}{tables} AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index"""

FEW = 20
"""Tables up to which these alone are asked for, and not all of their database."""


def describe_tables(connection: Any, tables: Collection[Name]) -> dict[Name, TrackedTable]:
    """Return the columns of these tables, of those that are there. Raises AuditorError."""
    described: dict[Name, TrackedTable] = {}
    for database in {name[0] for name in tables}:
        names = [table for other, table in tables if other == database]
        described |= {name: table for name, table in _describe(connection, database, names).items() if name[1] in names}
    return described


def _describe(connection: Any, database: str, names: list[str]) -> dict[Name, TrackedTable]:
    literal = MySQLNames().string_literal
    some = f" AND table_name IN ({', '.join(literal(name) for name in names)})" if len(names) <= FEW else ""
    fragments = {"database": literal(database), "tables": some}
    columns: dict[str, list[TrackedColumn]] = {}
    nullable: dict[str, set[str]] = {}
    for table, name, kind, native, charset, null in query(connection, COLUMNS.format(**fragments)):
        columns.setdefault(str(table), []).append(_column(str(name), _text(kind).lower(), _text(native), charset and _text(charset)))
        if null == "YES":
            nullable.setdefault(str(table), set()).add(str(name))
    keys: dict[str, list[str]] = {}
    for table, name in query(connection, KEYS.format(**fragments)):
        keys.setdefault(str(table), []).append(str(name))
    for table in columns:
        if table not in keys and (not some or table in names):
            keys[table] = _unique_key(connection, (database, table), nullable.get(table, set()))
    return {(database, table): TrackedTable(tuple(of_table), tuple(keys.get(table, ()))) for table, of_table in columns.items()}


def _column(name: str, kind: str, native: str, charset: str | None) -> TrackedColumn:
    labels = [token.text for token in tokens(without_comments(native)) if token.kind == "string"] if kind in ("enum", "set") else []
    return TrackedColumn(name, kind, " unsigned" in native.lower() and not labels, charset, tuple(labels))


def _unique_key(connection: Any, name: Name, nullable: set[str]) -> list[str]:
    """Return the columns of the key that the log names as the primary one where there is none: the first unique one without NULL."""
    indexes: dict[str, list[str]] = {}
    left_out: set[str] = set()
    for row in query(connection, f"SHOW KEYS FROM {quote(name[0])}.{quote(name[1])}"):
        non_unique, index, column, part = int(row[1]), str(row[2]), row[4], row[7]
        indexes.setdefault(index, []).append(str(column))
        if non_unique or column is None or part is not None or column in nullable:
            left_out.add(index)
    return next((columns for index, columns in indexes.items() if index not in left_out), [])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
