"""What MySQL and MariaDB state of being written to, and of the definition of a table. How rows are inserted: `loading.py`.

https://dev.mysql.com/doc/refman/9.4/en/sql-mode.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from dialects.catalogue import Table
from dialects.mysql.altering import MySQLAltering
from dialects.mysql.expressions import CHARACTER_SET
from dialects.table_form import ColumnForm, TableForm
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
