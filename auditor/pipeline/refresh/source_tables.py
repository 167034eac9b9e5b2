"""What a refresh needs on the source: a connection that may write there, and the tables of a schema of its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import dialects
import sql_templates
from auditor.config import Settings
from auditor.errors import AccessDenied, AuditorError, ConnectionLost, EngineError, NoSuchObject, RefreshRefused
from auditor.pipeline.binlog.log_connection import Source, log_ignores, source_of
from auditor.pipeline.binlog.refreshes import CHUNKS, REFRESH, Refreshes, refreshes_of
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.binlog.table_map import is_old_time
from auditor.pipeline.events import TableSchema
from auditor.pipeline.refresh.keys import KeyColumns, quote
from dialects.kinds import without_comments
from dialects.mysql.errors import driver_errors, translate_error

SETTINGS = (
    "SET NAMES utf8mb4",
    "SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 2",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
"""Under READ COMMITTED the rows would not be locked, and newer values be overwritten by older ones."""

BLACKHOLE, INNODB, NO_TABLES = "BLACKHOLE", "InnoDB", ""
"""Engines of refresh tables; without one, the table of chunks holds the rows."""

RIGHTS = "GRANT CREATE, DROP, SELECT, INSERT, UPDATE, DELETE ON {schema}.* TO the user, and GRANT SELECT on the tables of the pipeline"
ONE_TABLE = (
    "; or, where it may make no tables, make the table {chunks} for it as docs/refreshes.md shows, and GRANT SELECT, INSERT, UPDATE, DELETE"
    " ON {chunks} TO the user"
)
"""How a refresh runs with one table only."""


def writer_of(settings: Settings, name: str) -> Source:
    """Return the server that refreshes of a pipeline write to. Raises RefreshRefused if no connection may."""
    source = settings.pipeline(name).of_log("a refresh")
    connection = source.refresh or source.connection
    write = settings.connections[connection].write
    if write is None and not source.refresh:
        raise RefreshRefused(
            f"refreshes of {name} write into a schema of their own on the source, and the connection {connection!r} may only read; add"
            " write: {url: ...} to it, or name another connection by source: {refresh: ...}"
        )
    return Source(write.url if write else settings.connections[connection].url, connection)


@dataclass(frozen=True, slots=True)
class RefreshTable:
    """A table of the source, and the table into which its rows are copied."""

    name: str
    """As SQL text, with its schema; '' where the table of chunks holds the rows."""
    columns: Sequence[str]
    nullable: Sequence[str]
    described: Sequence[tuple[Any, ...]]
    """The columns of the source's table, as the catalogue had them."""
    holds_rows: bool
    """Whether the refresh table has to be emptied after each chunk."""


@dataclass(slots=True)
class SourceTables:
    """The schema of refreshes on a source, over one connection of PyMySQL that may write."""

    connection: Any
    refreshes: Refreshes
    engine: str = BLACKHOLE

    @property
    def chunks(self) -> str:
        """The table of chunks as SQL text."""
        return f"{quote(self.refreshes.schema)}.{quote(CHUNKS)}"

    def prepare(self) -> None:
        """Make the session and the schema ready.

        Raises RefreshRefused if the server takes no writes or logs none, or a right is missing.
        """
        for statement in SETTINGS:
            ask(self.connection, statement)
        self.engine = check_server(self.connection)
        try:
            ask(self.connection, fill("refresh_schema", schema=quote(self.refreshes.schema)))
            ask(self.connection, fill("refresh_chunks_create", chunks=self.chunks))
        except AccessDenied as error:
            if not has_chunks(self.connection, self.refreshes.schema):
                raise RefreshRefused(f"{error}; run: {rights_needed(self.refreshes.schema)}") from error
            self.engine = NO_TABLES

    def make_tables(self, tables: Sequence[tuple[str, str]]) -> list[RefreshTable]:
        """Return the refresh table of each table (database and name), made again if its columns are not the table's.

        Without columns where the source has no such table. Raises RefreshRefused.
        """
        schema, names = self.refreshes.schema, [self._name_of(*table) for table in tables]
        described = self.describe(tables)
        there = self._columns([(schema, name) for name in names]) if self.engine != NO_TABLES else [()] * len(tables)
        made = dict[tuple[str, str], RefreshTable]()
        for table, name, columns, known in zip(tables, names, described, there, strict=True):
            if table not in made:
                made[table] = self._make_table(name, columns, known) if columns and self.engine != NO_TABLES else _no_table(columns)
        return [made[table] for table in tables]

    def _name_of(self, database: str, table: str) -> str:
        return f"{REFRESH}{hashlib.sha256(f'{self.refreshes.pipeline}/{database}.{table}'.encode()).hexdigest()[:16]}"

    def _make_table(self, name: str, described: Sequence[tuple[Any, ...]], there: Sequence[tuple[Any, ...]]) -> RefreshTable:
        refresh_table = f"{quote(self.refreshes.schema)}.{quote(name)}"
        holds_rows = self.engine != BLACKHOLE
        is_old = any(is_old_time(str(native)) for _, native, *_ in there)  # the server may make times of the new format by now
        if is_old or [column[:4] for column in _without_comments(there)] != [column[:4] for column in described]:
            try:
                if there:
                    ask(self.connection, fill("refresh_drop", refresh_table=refresh_table))
                columns = ",\n  ".join(_definition(*column) for column in described)
                ask(self.connection, fill("refresh_table_create", refresh_table=refresh_table, columns=columns, engine=self.engine))
            except AccessDenied as error:
                raise RefreshRefused(f"{error}; run: {rights_needed(self.refreshes.schema)}") from error
        elif holds_rows:
            ask(self.connection, fill("refresh_clear", refresh_table=refresh_table))
        names = [str(column[0]) for column in described]
        return RefreshTable(refresh_table, names, [str(column[0]) for column in described if column[4]], described, holds_rows)

    def describe(self, tables: Sequence[tuple[str, str]]) -> list[list[tuple[Any, ...]]]:
        """Return name, type, character set, collation and nullability of the columns of each table; none of one that is not there."""
        return [_without_comments(columns) for columns in self._columns(tables)]

    def _columns(self, tables: Sequence[tuple[str, str]]) -> Sequence[Sequence[tuple[Any, ...]]]:
        literal = dialects.get("mysql").names.literal
        found: list[list[tuple[Any, ...]]] = [[] for _ in tables]
        asked = [{"schema": literal(database), "table": literal(table)} for database, table in tables]
        for number, *column in ask_joined(self.connection, "refresh_columns", asked):
            found[int(number)].append(tuple(column))
        return [[tuple(column) for _, *column in sorted(columns, key=lambda column: int(column[0]))] for columns in found]


def _no_table(described: Sequence[tuple[Any, ...]]) -> RefreshTable:
    return RefreshTable("", [], [], described, holds_rows=False)


def _without_comments(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(str(name), without_comments(str(native)), charset, collation, bool(null)) for name, native, charset, collation, null in rows]


def open_writer(settings: Settings, name: str) -> Any:
    """Return a connection by which refreshes write, which the caller closes.

    Raises RefreshRefused if it leads to another server, or what is written would not be logged, and ChangeStreamError without a log.
    """
    writer, schema = writer_of(settings, name), refreshes_of(settings, name).schema
    connection = writer.connect()
    try:
        with closing(source_of(settings, name).connect()) as reader:
            there, here = identify_server(connection), identify_server(reader)
            is_ignored = log_ignores(reader, schema)
        if there != here:
            raise RefreshRefused(
                f"the connection {writer.name!r}, by which refreshes write, leads to another server ({there}) than the one whose log is"
                f" read ({here}); let both lead to the same one"
            )
        if is_ignored:
            raise RefreshRefused(
                f"the source does not log what is written into {schema}; correct its settings binlog_do_db and binlog_ignore_db"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def check_server(connection: Any) -> str:
    """Return the engine for refresh tables. Raises RefreshRefused if the server takes no writes, or logs none of this user."""
    [(read_only, logs, engine)] = ask(connection, fill("refresh_server"))
    if str(read_only).upper() not in ("0", "OFF", "NO"):
        raise RefreshRefused(
            "the source is read_only, so that nothing may be written into its log; refresh from the server that replicates to it, or"
            " copy the table with: auditor bootstrap"
        )
    if not int(logs):
        raise RefreshRefused("the source does not log what this user writes (sql_log_bin is 0); set it to 1 for the user's sessions")
    return BLACKHOLE if engine else INNODB


def has_chunks(connection: Any, schema: str) -> bool:
    """Return whether the table of chunks is there, and the user may change and delete its rows; none is."""
    chunks, none = f"{quote(schema)}.{quote(CHUNKS)}", "''"
    try:
        execute(connection, fill("refresh_chunk", chunks=chunks, number="0", body=none, refresh=none, attempt=none, known="0"))
        execute(connection, fill("refresh_end", chunks=chunks, refreshes=none))
    except (AccessDenied, NoSuchObject):
        return False
    return True


def rights_needed(schema: str) -> str:
    """Return what somebody has to run before refreshes can write."""
    return (RIGHTS + ONE_TABLE).format(schema=schema, chunks=f"{schema}.{CHUNKS}")


def ask(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement. Raises errors of ``auditor.errors``."""
    return _run(connection, statement)[1]


AT_ONCE = 100
"""Tables about which one statement asks."""


def ask_joined(connection: Any, template: str, asked: Sequence[Mapping[str, str]]) -> list[tuple[Any, ...]]:
    """Return the rows of a template filled for each of several tables, numbered from 0, in few statements.

    Raises errors of ``auditor.errors``.
    """
    rows: list[tuple[Any, ...]] = []
    for first in range(0, len(asked), AT_ONCE):
        numbered = enumerate(asked[first : first + AT_ONCE], first)
        rows += ask(connection, "\nUNION ALL\n".join(fill(template, number=str(number), **fragments) for number, fragments in numbered))
    return rows


def execute(connection: Any, statement: str) -> int:
    """Run a statement and return how many rows it changed. Raises errors of ``auditor.errors``."""
    return _run(connection, statement)[0]


def _run(connection: Any, statement: str) -> tuple[int, list[tuple[Any, ...]]]:
    try:
        with connection.cursor() as cursor:
            return int(cursor.execute(statement)), list(cursor.fetchall())
    except driver_errors() as error:
        raise translate_error(error) or ConnectionLost(str(error)) from error


def rollback(connection: Any) -> None:
    """Roll the open transaction back; a connection that is lost has none."""
    with suppress(EngineError):
        ask(connection, "ROLLBACK")


def fill(template: str, **fragments: str) -> str:
    """Return a statement of refreshes for the source."""
    return sql_templates.fill(dialects.get("mysql").template(template), fragments)


def _definition(name: str, native: str, charset: str | None, collation: str | None, _: bool) -> str:
    """Return the definition of a refresh table's column: it may be NULL, and holds what the source's column holds."""
    text = f" CHARACTER SET {charset} COLLATE {collation}" if charset else ""
    return f"{quote(name)} {native}{text} NULL"


RIGHTS_NEEDED = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")


def find_obstacles(settings: Settings, name: str, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    """Yield what refreshes lack and cost: what it is about, and a sentence. Nothing is written. ``schemas`` are the source's tables."""
    try:
        with closing(open_writer(settings, name)) as connection:
            for sentence in _check_source(connection, refreshes_of(settings, name).schema):
                yield "refreshes", sentence
    except (EngineError, RefreshRefused) as error:
        yield "refreshes", str(error)
    for schema in schemas:
        if schema.key and (sentence := _cost(settings, name, schema)):
            yield f"refreshes of {schema.table}", sentence


def _check_source(connection: Any, schema: str) -> Iterator[str]:
    if check_server(connection) != "BLACKHOLE":
        yield (
            "the source has no engine BLACKHOLE, so refresh tables hold a chunk's rows until it is written; on MariaDB run: INSTALL SONAME"
            " 'ha_blackhole', there and on its replicas"
        )
    granted_rights = _rights(connection, schema)
    lacking = [right for right in RIGHTS_NEEDED if not granted_rights & {right, "ALL PRIVILEGES"}]
    if lacking and has_chunks(connection, schema):
        yield (
            f"the user that writes has {schema}.{CHUNKS} alone, so rows travel through the auditor, twice into the source's log, and stay"
            f" locked until they are back: chunks are smaller; for less, run: {RIGHTS.format(schema=schema)}"
        )
    elif lacking:
        yield f"the user that writes needs {', '.join(lacking)} on {schema}.*; run: {rights_needed(schema)}"


def _rights(connection: Any, schema: str) -> set[str]:
    """Return the rights that the user was granted on all tables of a schema."""
    rights: set[str] = set()
    for (line,) in ask(connection, fill("grants")):
        granted = re.match(r"GRANT (.+) ON (\S+) TO", str(line))
        if granted and granted[2].replace("`", "").replace("\\", "") in ("*.*", f"{schema}.*"):
            rights |= {right.strip().upper() for right in granted[1].split(",")}
    return rights


def _cost(settings: Settings, name: str, schema: TableSchema) -> str:
    """Return what a refresh of a table costs beyond reading it; '' for nothing."""
    key = KeyColumns(schema)
    try:
        assert key.chunked
    except AuditorError as error:
        return f"only keys that are listed can be sent again: {error}"
    rules = settings.pipeline(name).columns_of(schema.table)
    if any(column.lower() in {masked.lower() for masked in rules.mask} for column in schema.key):
        return "its key is masked, and digests have no order: rows that only a target has stay there"
    if not key.is_ordered:
        return (
            f"engines order {key.columns[0].type} differently: its first chunk empties the table in targets, which fills up again after it"
        )
    return ""
