"""Find out which rows of tables never come into a server's binary log, whichever session writes them.

Filters of the log, replicas that log nothing of what they replicate, and sessions that begin without a log. What single sessions do, by
``sql_log_bin = 0``, no setting tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from auditor.errors import AccessDenied, LogRefused
from auditor.pipeline.binlog.log_connection import Source, log_filters, log_ignores, query, query_named
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.table_statements import DATABASES, TABLES
from dialects.mysql.expressions import MySQLNames
from dialects.mysql.session import server_version
from dialects.url import parse_url

SETTINGS = """\
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_slave_updates', 'log_replica_updates', 'init_connect', 'wsrep_on')
OR Variable_name LIKE 'replicate\\_%'"""

OPTION_FILE = "in the server's option file, and restart it"


def check_scope(source: Source, tables: Sequence[str]) -> None:
    """Check that the log can have all rows of tables, given by names and patterns. Raises LogRefused with all that is missing."""
    missing = [sentence for is_error, sentence in find_gaps(source, tables) if is_error]
    if missing:
        raise LogRefused(f"connection {source.name}: rows never come into its binary log: {'; '.join(missing)}")


def find_gaps(source: Source, tables: Sequence[str]) -> list[tuple[bool, str]]:
    """Return whether rows of tables are missing from the log, or may be, and why. Raises ConfigError and errors of the connection."""
    with closing(source.connect()) as connection:
        return list(_find_gaps(connection, Selection(tables, parse_url(source.url).database)))


def _find_gaps(connection: Any, selection: Selection) -> Iterator[tuple[bool, str]]:
    databases = [database for row in query(connection, DATABASES) if selection.has_database(database := _text(row[0]))]
    for database in databases:
        if log_ignores(connection, database):
            yield True, f"binlog-do-db or binlog-ignore-db leaves out the database {database}; correct that {OPTION_FILE}"
    if any(log_filters(connection)):
        yield (
            False,
            "binlog-do-db or binlog-ignore-db is set, and leaves out statements that change a table of another database than the session's:"
            f" remove it {OPTION_FILE}",
        )
    settings = {_text(name).lower(): _text(value) for name, value in query(connection, SETTINGS)}
    if re.search(r"sql_log_bin\s*=\s*(0|off|false)", settings.get("init_connect", ""), re.IGNORECASE):
        yield True, "init_connect lets sessions begin with sql_log_bin = 0, which logs nothing; run SET GLOBAL init_connect = ''"
    yield from _of_a_replica(connection, selection, databases, settings)


def _of_a_replica(
    connection: Any, selection: Selection, databases: Sequence[str], settings: Mapping[str, str]
) -> Iterator[tuple[bool, str]]:
    logs = settings.get("log_replica_updates", settings.get("log_slave_updates", "ON")).upper() == "ON"
    option = "log_replica_updates" if "log_replica_updates" in settings else "log_slave_updates"
    way_out = f"set {option} = ON {OPTION_FILE}, or read the source that it replicates from"
    if settings.get("wsrep_on", "OFF").upper() == "ON" and not logs:
        yield True, f"it is a node of a Galera cluster with {option} = OFF, and logs nothing that other nodes write; {way_out}"
    try:
        status = _replica_status(connection)
    except AccessDenied:
        [(_, running)] = query(connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'") or [("", "0")]
        status = [dict(settings)] if _text(running) not in ("0", "") else []
        if not status and not logs:
            yield (
                False,
                f"{option} is OFF, so that it logs nothing if it is a replica, and the user may not ask whether it is one; run: GRANT SLAVE"
                " MONITOR ON *.* TO the user",
            )
    if status and not logs:
        yield True, f"it is a replica with {option} = OFF, and logs nothing of what it replicates; {way_out}"
    for replica in status:
        filters = {name.lower(): _text(value) for name, value in replica.items() if name.lower().startswith("replicate_") and value}
        for name in _filtered(connection, selection, databases, filters):
            yield True, f"it is a replica whose filters ({', '.join(sorted(filters))}) leave out {name}; correct them {OPTION_FILE}"


def _replica_status(connection: Any) -> list[dict[str, object]]:
    """Return what a server says of each source that it replicates from."""
    version = server_version(connection).lower()
    if "mariadb" in version:
        return query_named(connection, "SHOW ALL SLAVES STATUS")
    old = tuple(int(digits) for digits in re.findall(r"\d+", version)[:3]) < (8, 0, 22)
    return query_named(connection, "SHOW SLAVE STATUS" if old else "SHOW REPLICA STATUS")


def _filtered(connection: Any, selection: Selection, databases: Sequence[str], filters: Mapping[str, str]) -> list[str]:
    """Return the tables that are read and that a replica leaves out.

    https://dev.mysql.com/doc/refman/9.4/en/replication-rules.html
    """

    def named(option: str) -> list[str]:
        return [text.strip() for text in filters.get(f"replicate_{option}", "").split(",") if text.strip()]

    if not databases or not any(named(option) for option in _OPTIONS):
        return []
    listed = query(connection, TABLES.format(databases=", ".join(MySQLNames().string_literal(database) for database in databases)))
    filtered = []
    for database, table in ((_text(database), _text(table)) for database, table in listed):
        if not selection.has(database, table):
            continue
        name = f"{database}.{table}"
        of_database = (named("do_db") and database not in named("do_db")) or database in named("ignore_db")
        chosen = [*(re.escape(pattern) for pattern in named("do_table")), *map(_wild, named("wild_do_table"))]
        left_out = [*(re.escape(pattern) for pattern in named("ignore_table")), *map(_wild, named("wild_ignore_table"))]
        is_chosen = any(re.fullmatch(pattern, name) for pattern in chosen)
        if of_database or (chosen and not is_chosen) or (not is_chosen and any(re.fullmatch(pattern, name) for pattern in left_out)):
            filtered.append(name)
    return filtered


_OPTIONS = ("do_db", "ignore_db", "do_table", "ignore_table", "wild_do_table", "wild_ignore_table")


def _wild(pattern: str) -> str:
    """Return the regular expression of a pattern with % and _, before each of which a backslash takes its meaning."""
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join(".*" if piece == "%" else "." if piece == "_" else re.escape(piece.removeprefix("\\")) for piece in pieces)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
