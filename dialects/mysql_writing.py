"""How MySQL and MariaDB are written to by patches and bootstraps."""

from __future__ import annotations

from dialects.writing import Writing


class MySQLWriting(Writing):
    """The part of the dialect that is about writing rows."""

    PATCHES = True
    WRITE_SETTINGS = (
        "SET NAMES utf8mb4",
        "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    """Without NO_AUTO_VALUE_ON_ZERO a key of 0 becomes the next number. https://dev.mysql.com/doc/refman/9.4/en/sql-mode.html"""

    SWAPS_BY_RENAME = True
    BEGIN_EXCHANGE = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN")
    """Below REPEATABLE READ the gaps between rows are not locked, so that others could insert rows between those that are exchanged.
    https://dev.mysql.com/doc/refman/9.4/en/innodb-locking.html#innodb-gap-locks"""

    LOCK_WRITERS = "SELECT COUNT(*) FROM {table} {by_key} WHERE {where} FOR UPDATE"
    """Readers go on, as they read a snapshot. https://dev.mysql.com/doc/refman/9.4/en/innodb-locking-reads.html"""

    LOCK_BY_KEY = "FORCE INDEX (PRIMARY)"
    """By another index an insert that waits would hold its new row already, on which the DELETE would wait in turn: a deadlock."""
