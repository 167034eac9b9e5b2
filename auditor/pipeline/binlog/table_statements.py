"""Find statements that may change tables, read them with what decides what they mean, and say which tables one writes instead of rows.

What a statement does by views, triggers and functions, its text does not say: views and triggers are looked up, those that the reader's
user may see; functions are not known.

https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Query__event.html
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from auditor.errors import LogRefused, PositionLost
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.charsets import charset_of, decoder
from auditor.pipeline.binlog.compression import each_transaction_event, transaction_begin, uncompressed_event
from auditor.pipeline.binlog.ddl import ALL_TABLES
from auditor.pipeline.binlog.event_types import MALFORMED, refused
from auditor.pipeline.binlog.log_connection import Dump, Request, Source, other_server_id
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.sql_tokens import Token, TokenReader, tokens
from auditor.pipeline.binlog.transactions import SMALL_PAYLOAD, statement_span
from auditor.pipeline.events import Place
from dialects.mysql.expressions import MySQLNames

_COMMENTS = re.compile(rb"(?>\s|/\*(?!!).*?(?:\*/|\Z)|--[^\n]*\n|#[^\n]*\n|/\*M?!\d*)*+", re.DOTALL)
_HARMLESS = re.compile(
    rb"(BEGIN|COMMIT|SAVEPOINT|RELEASE|XA|CREATE|DROP\s++(/\*!\d++\s*+)?TEMPORARY|ROLLBACK|FLUSH|START)\b",
    re.IGNORECASE,
)
_SAVEPOINT = re.compile(
    rb"(?:(SAVEPOINT)|(RELEASE)\s++SAVEPOINT|(ROLLBACK)(?:\s++WORK)?+(?:\s++TO(?:\s++SAVEPOINT\b)?+)?+)(?:\s++(.+)|\s*+\Z)",
    re.IGNORECASE | re.DOTALL,
)
SHOWN = 40

TABLE_STATEMENT = re.compile(
    rb"(?>\s|/\*(?!M?!).*?(?:\*/|\Z)|--[^\n]*\n|\#[^\n]*\n|/\*M?!\d*)*+(?:ALTER|CREATE|DROP|TRUNCATE|RENAME|SET\s++STATEMENT)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of a statement that may change a table itself."""


def refusal(statement: bytes) -> str | None:
    """Return what is wrong with a statement within a transaction; None if it writes no rows."""
    text = _without_comments(statement)
    if _HARMLESS.match(text):
        return None
    first = text.split(None, 1)[0].decode(errors="replace").upper() if text.split() else ""
    return f"a statement ({first[:SHOWN]})"


def savepoint(statement: bytes) -> tuple[str, str] | None:
    """Return what a statement does to a savepoint (SAVEPOINT, RELEASE or ROLLBACK) and its name, '' for the whole transaction."""
    match = _SAVEPOINT.match(_without_comments(statement))
    if not match:
        return None
    verb = next(word for word in match.groups()[:3] if word).decode().upper()
    name = (match[4] or b"").strip().decode(errors="replace")
    return verb, name[1:-1].replace("``", "`") if name.startswith("`") else name.lower()


def _without_comments(statement: bytes) -> bytes:
    comments = _COMMENTS.match(statement)
    return statement[comments.end() if comments else 0 :]


_QUERIES = (types.QUERY, types.MARIADB_QUERY_COMPRESSED)
_FIRST_BYTES = frozenset(b"ACDRSacdrs/-# \t\r\n")
"""What a statement that changes tables may begin with, comments among it."""

_REFERENCES = re.compile(rb"REFERENCES", re.IGNORECASE)

FLAGS, SQL_MODE, AUTO_INCREMENT, CHARSET, TIME_ZONE, CATALOG = 0, 1, 3, 4, 5, 6
"""Variables of a statement that are read, or stand before those."""
LOAD_BYTES = 13
"""Bytes about the file that stand before the variables of a LOAD DATA."""
_SIZES = {FLAGS: 4, SQL_MODE: 8, AUTO_INCREMENT: 4, CHARSET: 6}


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A statement of a log, and the variables of its session that decide what it means."""

    text: bytes
    """In the character set of its client."""
    database: str
    """The default database."""
    sql_mode: int = 0
    charsets: tuple[int, int, int] | None = None
    """Numbers of collations: of the client, of the connection, and the server's default. None if the log does not say."""
    error: int = 0
    """The number of the error that it ended with on the source; 0 for none."""

    @property
    def characters(self) -> str:
        """The text."""
        charset = charset_of(self.charsets[0]) if self.charsets else None
        decode = decoder(charset) if charset else None
        with suppress(UnicodeDecodeError):
            return decode(self.text) if decode else self.text.decode()
        return self.text.decode(errors="replace")


def may_change_tables(kind: int, buffer: bytes, body: int, end: int) -> bool:
    """Return whether an event, whose body lies in ``buffer[body:end]``, perhaps cut off, has a statement that may change tables."""
    if kind == types.TRANSACTION_PAYLOAD:
        return _is_in_payload(buffer[body:end])
    if kind == types.MARIADB_QUERY_COMPRESSED:
        return True  # it is long, and there are few
    if kind != types.QUERY:
        return False
    text = statement_span(buffer, body)
    return buffer[text] in _FIRST_BYTES and TABLE_STATEMENT.match(buffer, text, end) is not None


def may_make_references(kind: int, buffer: bytes, body: int, end: int, is_whole: bool) -> bool:
    """Return whether a statement that may change tables, in ``buffer[body:end]``, may make a foreign key."""
    return kind != types.QUERY or not is_whole or _REFERENCES.search(buffer, body, end) is not None


def read_statements(source: Source, begin: Place, end: int) -> list[TableStatement]:
    """Return the statements that may change tables of the transactions between two offsets of a file of the source's log.

    Raises PositionLost, LogRefused, AccessDenied, ConnectionLost and Unreachable.
    """
    statements: list[TableStatement] = []
    checksum = 0
    with closing(Dump(Request(source, begin, other_server_id(), blocking=False))) as dump, refused(lambda: begin):
        for event, at, stop in dump.events():
            _, kind, _, _, offset, _ = types.HEADER.unpack_from(event, at)
            body, last = at + types.HEADER.size, stop - checksum
            if kind == types.FORMAT:
                checksum = types.checksum_bytes(event, stop)
            elif kind == types.TRANSACTION_PAYLOAD:
                statements += _payload_statements(event[body:last], begin)
            elif kind in _QUERIES:
                statements += table_statements(kind, event, body, last)
            if offset >= end and kind not in (types.FORMAT, types.ROTATE):
                return statements
    raise PositionLost(f"the source's binary log ends before {Place(begin.file, end)}; refresh the tables")


def table_statements(kind: int, event: bytes, body: int, stop: int) -> Iterator[TableStatement]:
    """Yield the statement of a QUERY event, whose body lies in ``event[body:stop]``, if it may change tables."""
    statement = statement_of(kind, event, body, stop)
    if TABLE_STATEMENT.match(statement.text):
        yield statement


def statement_of(kind: int, event: bytes, body: int, stop: int) -> TableStatement:
    """Return the statement of an event, whose body lies in ``event[body:stop]``: a QUERY, or a LOAD DATA with its file."""
    more = LOAD_BYTES if kind == types.EXECUTE_LOAD_QUERY else 0
    text = statement_span(event, body) + more
    sql = uncompressed_event(event[text:stop]) if kind == types.MARIADB_QUERY_COMPRESSED else event[text:stop]
    size, error = event[body + 8], int.from_bytes(event[body + 9 : body + 11], "little")
    variables = _variables(event[body + 13 + more : text - 1 - size])
    mode = struct.unpack("<Q", variables[SQL_MODE])[0] if SQL_MODE in variables else 0
    charsets = struct.unpack("<HHH", variables[CHARSET]) if CHARSET in variables else None
    return TableStatement(sql, event[text - 1 - size : text - 1].decode(errors="replace"), mode, charsets, error)


def _variables(data: bytes) -> dict[int, bytes]:
    """Return the values of the variables up to the first one that is not known here."""
    at, values = 0, {}
    while at < len(data):
        code = data[at]
        size = _SIZES.get(code) or (1 + data[at + 1] if code in (TIME_ZONE, CATALOG) else 0)
        if not size:
            break
        values[code] = data[at + 1 : at + 1 + size]
        at += 1 + size
    return values


def _payload_statements(data: bytes, begin: Place) -> Iterator[TableStatement]:
    try:
        for event in each_transaction_event(data):
            if event[4] == types.QUERY:
                yield from table_statements(event[4], event, types.HEADER.size, len(event))
    except MALFORMED as error:
        raise LogRefused(f"{begin}: a compressed transaction cannot be unpacked ({error}); report this") from error


def _is_in_payload(data: bytes) -> bool:
    """Return whether a compressed transaction begins with a statement that may change tables; it comes after BEGIN."""
    try:
        events = transaction_begin(data, SMALL_PAYLOAD)
        second = types.HEADER.unpack_from(events)[3]
        _, kind, _, _, _, _ = types.HEADER.unpack_from(events, second)
    except MALFORMED:
        return False  # the scan says what is wrong with it
    text = statement_span(events, second + types.HEADER.size) if kind == types.QUERY else 0
    return bool(text) and TABLE_STATEMENT.match(events, text) is not None


Name = tuple[str, str]
"""Database and table."""

Ask = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement on the source, and returns its rows."""

_MORE = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO", "FROM")
_ENDS = ("SET", "WHERE", "ORDER", "LIMIT", "RETURNING", "FORCE", "PARTITION", "AS")

HIDDEN = """\
SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {table} AND TABLE_TYPE LIKE '%VIEW%'
UNION ALL
SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = {database} AND EVENT_OBJECT_TABLE = {table}"""

TABLES = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE LIKE 'BASE%' AND TABLE_SCHEMA IN ({databases})"

DATABASES = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"


def written_tables(token_list: Sequence[Token], database: str) -> list[Name] | None:
    """Return the tables that a statement with these tokens may write, perhaps more; None if that is not known.

    ``database`` is the session's.
    """
    left = TokenReader(token_list, database)
    if left.take("INSERT") or left.take("REPLACE"):
        _pass(left)
        return [name] if (name := left.take_table()) else None
    if left.take("LOAD", "DATA") or left.take("LOAD", "XML"):
        while left.left and not left.take("INTO", "TABLE"):
            left.left.pop(0)
        return [name] if (name := left.take_table()) else None
    is_update = left.take("UPDATE")
    if is_update or left.take("DELETE"):
        is_from = any(token.is_word("FROM") for token in left.left[: len(_MORE)])
        _pass(left)
        first = left.take_table()
        if first and (is_update or is_from) and (not left.left or left.left[0].is_word(*_ENDS)):
            return [first]
        return list(_names(token_list, database))
    return None


def _pass(left: TokenReader) -> None:
    while left.left and left.left[0].is_word(*_MORE):
        left.left.pop(0)


def _names(token_list: Sequence[Token], database: str) -> Iterator[Name]:
    """Yield everything in a statement that may be the name of a table."""
    yield from ((database, token.text) for token in token_list if token.is_name)
    for qualifier, (dot, name) in zip(token_list, pairwise(token_list[1:]), strict=False):
        if qualifier.is_name and dot.text == "." and name.is_name:
            yield qualifier.text, name.text


def chosen_tables(statement: TableStatement, selection: Selection, ask: Ask) -> list[Name]:
    """Return the tables that are read and that a statement writes, or may write where that is not known.

    For all tables of a database there is one named `ALL_TABLES` as well, which stands for those that were dropped since.
    """
    token_list = tokens(statement.characters, statement.sql_mode)
    names = written_tables(token_list, statement.database)
    if names is not None and not any(ask(_hidden(name)) for name in dict.fromkeys(names)):
        return list(dict.fromkeys(name for written in names for name in _as_written(written) if selection.has(*name)))
    mentioned = {statement.database, *(token.text for token in token_list if token.is_name)}
    known = [str(row[0]) for row in ask(DATABASES)]
    databases = [database for database in known if selection.has_database(database) and (names is not None or database in mentioned)]
    if not databases:
        return []
    listed = ask(TABLES.format(databases=", ".join(MySQLNames().string_literal(database) for database in databases)))
    there = [(_text(database), _text(table)) for database, table in listed]
    return [*(name for name in there if selection.has(*name)), *((database, ALL_TABLES) for database in databases)]


def _as_written(name: Name) -> Iterable[Name]:
    """Return a name, and as it is called on a server that folds names."""
    return dict.fromkeys((name, (name[0].lower(), name[1].lower())))


def _hidden(name: Name) -> str:
    literal = MySQLNames().string_literal
    return HIDDEN.format(database=literal(name[0]), table=literal(name[1]))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
