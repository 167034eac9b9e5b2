"""How MySQL and MariaDB are written to: how tables change, how rows are inserted, and what they state of it and of a table's definition.

A table changes by one statement, which is done as a whole or not at all, and commits by itself. Rows are loaded by INSERT statements of
many rows, and several statements are sent at once.

https://dev.mysql.com/doc/refman/9.4/en/sql-mode.html, https://dev.mysql.com/doc/refman/9.4/en/atomic-ddl.html,
https://mariadb.com/kb/en/atomic-ddl/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from dialects import errors
from dialects.alteration import Added, Alteration, Altering, Changes, name_of, rewrites
from dialects.catalogue import Table
from dialects.kinds import Kind
from dialects.mysql.driver import run_command
from dialects.mysql.expressions import CHARACTER_SET
from dialects.session import DriverLoading
from dialects.table_form import ColumnForm, TableForm
from dialects.text_lines import text_lines
from dialects.writing import LineFormat, Loads, Writing

TABLE_FORM = TableForm(
    drop_schema="DROP SCHEMA {schema}",
    key_text="VARCHAR({characters}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", key_binary="VARBINARY({bytes})", null="NULL",
    inline_comments=True, backslash_escapes=True, change=("ALTER TABLE {table} MODIFY COLUMN {column} {type}",), change_null="",
)  # fmt: skip

LINES = LineFormat(
    between=",", null="NULL", escapes=(("\\", "\\\\"), ("'", "''"), ("\n", "\\n")), quote="'", begin="(", end=")",
    binary=("X'", "'"), bits=("b'", "'"), bare=frozenset({"year"}),
)  # fmt: skip
"""Rows of an INSERT: unlike LOAD DATA LOCAL, it refuses what does not fit. The string '0' would be the year 2000."""

INSERT_BYTES = 1 << 20
"""Bytes of one statement that inserts rows of a copy: longer ones are no quicker."""

LINES_AT_ONCE = 2048
"""Lines of a table in memory that are texts of Python at one time."""


class MySQLAltering(Altering):
    """How MySQL and MariaDB change the columns of a table."""

    COMMITS_BY_ITSELF = True

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        quote = session.dialect.names.quote
        clauses = [f"DROP COLUMN {quote(name)}" for name in changes.dropped]
        retyped = {one.column.name for one in changes.retyped}
        clauses += [f"RENAME COLUMN {quote(old)} TO {quote(new)}" for old, new in changes.renamed.items() if old not in retyped]
        forms = session.dialect.catalogue.column_forms(session, table) if retyped else {}
        for one in changes.retyped:
            if one.column.name not in forms:
                return Alteration(refused=f"{one.column.name} of {table.sql} is computed there: change it by hand")
            may_be_null = one.column.nullable and name_of(one, changes) not in changes.key
            defined = f"{one.native} {'NULL' if may_be_null else 'NOT NULL'}{forms[one.column.name].rest}"
            clauses.append(f"CHANGE COLUMN {quote(one.column.name)} {quote(name_of(one, changes))} {defined}")
        for added in changes.added:
            null = "NOT NULL" if added.name in changes.key else "NULL"
            clauses.append(f"ADD COLUMN {quote(added.name)} {added.native} {null}{_default(added)}")
        if changes.key:
            clauses += [*(["DROP PRIMARY KEY"] if table.primary_key else []), f"ADD PRIMARY KEY ({', '.join(map(quote, changes.key))})"]
        moves_rows = rewrites(changes) or bool(changes.key)
        return Alteration([f"ALTER TABLE {table.sql} " + ", ".join(clauses)] if clauses else [], moves_rows=moves_rows)

    def rename_at_once(self, pairs: Sequence[tuple[str, str]]) -> str:
        return "RENAME TABLE " + ", ".join(f"{old} TO {new}" for old, new in pairs)


def _default(one: Added) -> str:
    """Return the clause of the default that older rows get, and which stays: a merge gives every column a value."""
    if not one.literal:
        return ""
    is_long = any(name in one.native.upper() for name in ("TEXT", "BLOB", "JSON"))  # which take expressions alone
    return f" DEFAULT ({one.literal})" if is_long else f" DEFAULT {one.literal}"


class MySQLLoading(DriverLoading):
    """How rows are written over PyMySQL."""

    _several: bool | None = None
    """Whether the server takes several statements at once; None until it was asked."""

    def analyze(self, table: str) -> str:
        # An error of a table is a row of the result. https://dev.mysql.com/doc/refman/9.4/en/analyze-table.html
        rows = self.session.query(self.session.dialect.writing.ANALYZE.format(table=table))
        return " ".join(f"{kind}: {text}" for _, _, kind, text in rows if kind.lower() in ("error", "warning"))

    def write_each(self, statements: Sequence[str]) -> list[int]:
        if len(statements) < 2 or not self._takes_several():
            return super().write_each(statements)
        counts: list[int] = []
        try:
            for some in _joined(statements, self.session.dialect.MAX_STATEMENT_BYTES // 2):
                counts += self.write_at_once(some)
        except errors.StatementRefused:
            if counts:
                raise
            counts = super().write_each(statements)  # the first may be refused only because others follow it, by what is between
            self._several = False
            return counts
        if len(counts) != len(statements):
            raise errors.StatementRefused(f"of {len(statements)} statements that were sent at once, {len(counts)} were answered")
        self.session.statements += len(statements)
        return counts

    def write_at_once(self, sql: str) -> Iterator[int]:
        """Run several statements at once, and yield how many rows each changed; each may take as long as a statement may run."""
        cursor = self.session.connection.cursor()
        try:
            with self.session.waiting():
                cursor.execute(sql)
            has_more = True
            while has_more:
                yield int(cursor.rowcount)
                with self.session.waiting():
                    has_more = bool(cursor.nextset())
        finally:
            with suppress(Exception), self.session.waiting():  # an error of a statement must not be replaced by one of closing
                cursor.close()

    def _takes_several(self) -> bool:
        """Let the server take several statements at once, and return whether it does: what is between may not pass that on.

        https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_set_option.html
        """
        if self._several is None:
            from pymysql.constants.COMMAND import COM_SET_OPTION

            with self.session.waiting():
                try:
                    run_command(self.session.connection, COM_SET_OPTION, b"\0\0")
                    self._several = True
                except Exception as error:
                    if not isinstance(self.session.driver.translate_error(error, ""), errors.StatementRefused):
                        raise
                    self._several = False
        return self._several

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> None:
        # Not by LOAD DATA LOCAL, which makes warnings of values that do not fit, and which servers forbid by default.
        # https://dev.mysql.com/doc/refman/9.4/en/load-data.html
        lines = text_lines(columns, rows, LINES)
        pieces = (lines.slice(first, LINES_AT_ONCE).to_pylist() for first in range(0, len(lines), LINES_AT_ONCE))
        self._insert(table, [self.session.dialect.names.quote(name) for name in columns], pieces)

    def load_lines(self, table: str, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        self._insert(table, columns, (block.decode().split("\n")[:-1] for block in blocks))

    def _insert(self, table: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        begin = f"INSERT INTO {table} ({', '.join(columns)}) VALUES\n"
        most = self.session.dialect.MAX_STATEMENT_BYTES
        room = min(INSERT_BYTES, most // 2)
        some: list[str] = []
        used = 0
        for line in (line for batch in lines for line in batch):
            size = len(line) if line.isascii() else len(line.encode())
            if len(begin) + size >= most:
                raise errors.StatementRefused(
                    f"a row takes {size:,} bytes in a statement, and the server takes {most:,} at most; raise max_allowed_packet there"
                )
            if some and used + size > room:
                self.session.execute(begin + ",\n".join(some))
                some, used = [], 0
            some.append(line)
            used += size
        if some:
            self.session.execute(begin + ",\n".join(some))


def _joined(statements: Sequence[str], room: int) -> Iterator[str]:
    """Yield statements joined to texts of at most ``room`` bytes; one that is longer stands alone."""
    some: list[str] = []
    used = 0
    for sql in statements:
        size = len(sql.encode()) + 2
        if some and used + size > room:
            yield ";\n".join(some)
            some, used = [], 0
        some.append(sql)
        used += size
    if some:
        yield ";\n".join(some)


class MySQLWriting(Writing):
    """How MySQL and MariaDB are written to."""

    ANALYZE = "ANALYZE NO_WRITE_TO_BINLOG TABLE {table}"
    """Its replicas have statistics of their own. https://mariadb.com/kb/en/analyze-table/"""

    LOADS: ClassVar[Loads] = "alone"
    LINES: ClassVar[LineFormat] = LINES

    STAGING_TABLE = "TEMPORARY TABLE"
    UNDOES_TABLES = False
    QUALIFIES_TEMPORARY = True
    """Of the session that merges: what is staged by rows is in no binary log, and rights on other tables are not needed."""
    LOCK_POSITIONS = "SELECT position FROM {positions} WHERE pipeline = {pipeline} FOR UPDATE"
    MERGES_BY_UPDATE = True
    KEEPS_EQUAL_ROWS = True
    """https://dev.mysql.com/doc/refman/9.4/en/update.html"""
    SETS_COLUMN = "merged.{column} = changed.{column}"
    EQUAL_TEXTS_DIFFER = True
    NAME_LIMIT = (64, "characters")
    """https://dev.mysql.com/doc/refman/9.4/en/identifier-length.html"""
    OWN_COLUMNS = frozenset({"db_row_id", "db_trx_id", "db_roll_ptr"})
    FOLDS_OWN_COLUMNS = True
    """https://dev.mysql.com/doc/refman/9.4/en/innodb-multi-versioning.html"""
    FOLDS_NAMES = "all"
    FOLDS_NAMES_IF = "SELECT @@lower_case_table_names <> 0"
    """https://dev.mysql.com/doc/refman/9.4/en/identifier-case-sensitivity.html"""
    MIXES_STORAGE = True
    READS_FLOATS_AS_DOUBLES = True
    SWAPS_BY_RENAME = True
    altering = MySQLAltering()
    WRITE_SETTINGS = (
        "SET NAMES utf8mb4",
        "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    """Without NO_AUTO_VALUE_ON_ZERO a key of 0 becomes the next number. https://dev.mysql.com/doc/refman/9.4/en/sql-mode.html"""

    BEGIN_EXCHANGE = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN")
    """Below REPEATABLE READ the gaps between rows are not locked, so that others could insert rows between those that are exchanged.
    https://dev.mysql.com/doc/refman/9.4/en/innodb-locking.html#innodb-gap-locks"""

    LOCK_WRITERS = "SELECT COUNT(*) FROM {table} {by_key} WHERE {where} FOR UPDATE"
    """Readers continue, as they read a snapshot. https://dev.mysql.com/doc/refman/9.4/en/innodb-locking-reads.html"""

    LOCK_BY_KEY = "FORCE INDEX (PRIMARY)"
    """By another index an insert that waits would hold its new row already, on which the DELETE would wait in turn: a deadlock."""

    MERGE_SETTINGS = ("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",)
    """A source may hold 2024-02-31, and a pipeline carries what it holds."""

    def rows_differ(self, pairs: Sequence[tuple[str, str]]) -> str:
        return " OR ".join(f"NOT ({source} <=> {other})" for source, other in pairs)


_FORM = re.compile(
    r"(?P<characters>(?: CHARACTER SET \w+)?(?: COLLATE \w+)?)(?: NOT NULL| NULL)?"
    r"(?P<hidden>(?: INVISIBLE)?)(?: DEFAULT NULL)?(?P<rest>| .*)"
)
"""What follows a column's type. MariaDB writes INVISIBLE before the default, MySQL in a comment after it."""


def column_forms(definition: str, table: Table) -> dict[str, ColumnForm]:
    """Return the form of each column in what SHOW CREATE TABLE says of a described table; of computed columns there is none.

    https://dev.mysql.com/doc/refman/9.4/en/show-create-table.html
    """
    lines = definition.split("\n")
    forms = {}
    for column in table.columns:
        native = column.native.partition(CHARACTER_SET)[0]
        begin = f"  `{column.name.replace('`', '``')}` {native}"
        after = next((line.removesuffix(",")[len(begin) :] for line in lines if line.startswith(begin)), None)
        match = _FORM.fullmatch(after) if after is not None else None
        if match and not match["rest"].startswith(" GENERATED ALWAYS AS"):
            forms[column.name] = ColumnForm(native + match["characters"], match["hidden"] + match["rest"])
    return forms
