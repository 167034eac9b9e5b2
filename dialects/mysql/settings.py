"""What a session of MySQL or MariaDB sets when it begins: all variables that could change, cut or end what it reads.

The table in docs/sessions.md says of the others why they do not matter.
https://dev.mysql.com/doc/refman/9.4/en/server-system-variables.html, https://mariadb.com/kb/en/server-system-variables/
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dialects import errors
from dialects.base import Session
from dialects.durations import durations
from dialects.mysql.expressions import GROUP_CONCAT_BYTES

RESULTS: Mapping[str, str] = {
    "sql_mode": "'STRICT_ALL_TABLES'",
    "time_zone": "'+00:00'",
    "group_concat_max_len": str(GROUP_CONCAT_BYTES),
    "sql_select_limit": str(2**64 - 1),
    "max_join_size": str(2**64 - 1),
    "sql_big_selects": "1",  # after max_join_size, which changes it
    "sql_safe_updates": "0",
    "sql_auto_is_null": "0",
    "max_sort_length": "1024",
    "div_precision_increment": "4",
    "default_week_format": "0",
    "lc_time_names": "'en_US'",
    "completion_type": "'NO_CHAIN'",  # else COMMIT begins another transaction, or ends the session
    "sql_quote_show_create": "1",
    "default_tmp_storage_engine": "'InnoDB'",
}
"""What both servers have; values are the defaults, but for the first four, as SQL text."""

MYSQL_RESULTS: Mapping[str, str] = {
    "transaction_isolation": "'REPEATABLE-READ'",
    "use_secondary_engine": "'OFF'",  # a secondary engine is behind the table
    "windowing_use_high_precision": "1",
}

MARIADB_RESULTS: Mapping[str, str] = {
    "tx_isolation": "'REPEATABLE-READ'",
    "system_versioning_asof": "DEFAULT",  # else rows are read as of another time
    "max_recursive_iterations": str(2**32 - 1),  # beyond, rows are left out with a warning
    "default_regex_flags": "''",
    "standard_compliant_cte": "1",
    "old_mode": "'UTF8_IS_UTF8MB3'",
    "sql_if_exists": "0",
    "wsrep_dirty_reads": "0",  # else a node that has lost its cluster answers with what it last had
}

MARK = "@auditor_session"
"""What holds a session's mark. https://dev.mysql.com/doc/refman/9.4/en/user-variables.html"""

PLACE = "CONCAT(@@hostname, ':', @@port)"
"""SQL of where the server says that it is."""

COLLATIONS = {False: "utf8mb4_0900_ai_ci", True: "utf8mb4_general_ci"}
"""The collation of literals, by whether the server is MariaDB; NAMES alone would take it from default_collation_for_utf8mb4 or
character_set_collations."""


def results(mariadb: bool) -> dict[str, str]:
    """Return the variables on which results depend, with the values that they must have."""
    return {**RESULTS, **(MARIADB_RESULTS if mariadb else MYSQL_RESULTS)}


def names(mariadb: bool) -> dict[str, str]:
    """Return the variables that SET NAMES sets, with the values that they must have."""
    return {"character_set_client": "utf8mb4", "character_set_results": "utf8mb4", "collation_connection": COLLATIONS[mariadb]}


def assignments(mariadb: bool, statement_timeout: float, lock_timeout: float) -> dict[str, str]:
    """Return all variables that a session sets; timeouts in seconds."""
    # lock_wait_timeout is for metadata and table locks, innodb_lock_wait_timeout for row locks; both in whole seconds, at least 1.
    # https://dev.mysql.com/doc/refman/9.4/en/server-system-variables.html#sysvar_lock_wait_timeout
    lock = str(max(1, math.ceil(lock_timeout)))
    milliseconds = max(1, round(statement_timeout * 1000))
    limit = {"max_statement_time": str(milliseconds / 1000)} if mariadb else {"max_execution_time": str(milliseconds)}
    # https://mariadb.com/kb/en/transaction-timeouts/
    idle = ("idle_transaction_timeout", "idle_readonly_transaction_timeout", "idle_write_transaction_timeout") if mariadb else ()
    return {
        **results(mariadb),
        "timestamp": "DEFAULT",
        **limit,
        "lock_wait_timeout": lock,
        "innodb_lock_wait_timeout": lock,
        "wait_timeout": str(durations().idle_session),
        "net_read_timeout": str(durations().transfer),
        "net_write_timeout": str(durations().transfer),
        **dict.fromkeys(idle, "0"),
    }


def statements(mariadb: bool, values: Mapping[str, str]) -> list[str]:
    """Return the statements that make a session's assignments."""
    return [
        f"SET NAMES utf8mb4 COLLATE {COLLATIONS[mariadb]}",
        f"SET SESSION {', '.join(f'{name} = {value}' for name, value in values.items())}",
    ]


def assign(session: Session, mariadb: bool, values: Mapping[str, str], mark: str) -> list[str]:
    """Make a session's assignments, without those of variables that the server does not know, and return the names of these.

    The session is given its ``mark``, too. A variable that the server lets nobody set keeps its value, without an error.
    """
    session.execute(statements(mariadb, values)[0])
    left, unknown, marking = dict(values), list[str](), f"{MARK} = '{mark}'"
    while True:
        try:
            session.execute(f"{statements(mariadb, left)[1]}, {marking}")
            return unknown
        except errors.StatementRefused as error:
            missing = [name for name in left if f"'{name}'" in str(error) and "1193" in str(error)]
            if not missing:
                break
            unknown += missing
            left.pop(missing[0])
        except errors.AccessDenied:
            break
    session.execute(f"SET {marking}")
    for name, value in left.items():
        with suppress(errors.StatementRefused, errors.AccessDenied):  # what results depend on is read back
            session.execute(f"SET SESSION {name} = {value}")
    return unknown


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of a session that has made its settings, and of itself."""

    mode: str
    """The mode of sessions that set none, as loaders may."""
    packet: int
    """Bytes of the longest statement."""
    process: int
    place: str
    """Where the server says that it is."""
    comment: str
    """What the server calls itself."""
    folder: str
    """Where its programs are."""
    has_md5: bool
    values: Mapping[str, Any]
    """The session's own values of variables."""


def read(session: Session, names: Sequence[str], has_md5: bool) -> Answer:
    """Return what the server says, with the session's own values of these variables.

    The server is asked whether MD5() exists unless it ``has_md5`` for certain.
    """
    facts = ["@@GLOBAL.sql_mode", "@@max_allowed_packet", "CONNECTION_ID()", PLACE, "@@version_comment", "@@basedir"]
    own = [*facts, *(f"@@SESSION.{name}" for name in names)]
    values_read: Sequence[Any] = ()
    if not has_md5:
        with suppress(errors.StatementRefused):  # by a server without the function
            *values_read, _ = session.query(f"SELECT {', '.join(own)}, MD5('')")[0]
            has_md5 = True
    mode, packet, process, place, comment, folder, *values = values_read or session.query(f"SELECT {', '.join(own)}")[0]
    stated = (str(mode), int(packet), int(process), _text(place), _text(comment), _text(folder))
    return Answer(*stated, has_md5, dict(zip(names, values, strict=True)))


def read_back(session: Session, names: Sequence[str]) -> tuple[int, str, str, dict[str, Any]]:
    """Return which session answers: its number, its mark, where its server says that it is, and its own values of these variables."""
    own = ["CONNECTION_ID()", MARK, PLACE, *(f"@@SESSION.{name}" for name in names)]
    process, mark, place, *values = session.query(f"SELECT {', '.join(own)}")[0]
    return int(process), _text(mark), _text(place), dict(zip(names, values, strict=True))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
