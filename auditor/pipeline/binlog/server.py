"""The server of a log: which one it is, and which files of the log it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from auditor.errors import ChangeStreamError, SourceReplaced
from auditor.pipeline.binlog.log_connection import Source, log_status, query
from auditor.pipeline.binlog.ranges import REPLACED, Mark, SourceOffset, as_offset, read_born
from auditor.pipeline.events import Place
from dialects import versions
from dialects.mysql.session import server_label, server_version


@dataclass(frozen=True, slots=True)
class LogFiles:
    """What a server has of its binary log."""

    sizes: Mapping[str, int]
    """Bytes of each file, the oldest first."""
    expiry: int | None
    """Seconds after which the server deletes a file that it no longer writes; None if it never does."""
    notes: Sequence[str] = ()
    """What a person should know of the server, a sentence each."""

    @property
    def end(self) -> Place:
        """Where the log ends."""
        return Place(*list(self.sizes.items())[-1])

    def bytes_behind(self, place: Place) -> int | None:
        """Return how many bytes of the log come after a place; None if its file is gone."""
        if place.file not in self.sizes:
            return None
        later = [size for file, size in self.sizes.items() if Place(file, 0).file_number > place.file_number]
        return max(0, self.sizes[place.file] - place.offset) + sum(later)


def read_log_files(connection: Any) -> LogFiles:
    """Return the files that the server of a connection has. Raises ChangeStreamError if it keeps no log, and AccessDenied."""
    rows = query(connection, "SHOW BINARY LOGS")
    if not rows:
        raise ChangeStreamError("the source keeps no binary log; start it with log_bin")
    # MariaDB before 10.6 and old settings count days. https://mariadb.com/kb/en/replication-and-binary-log-system-variables/
    names = "'binlog_expire_logs_seconds', 'expire_logs_days', 'version_comment', 'basedir'"
    variables = {
        str(name): str(value or "") for name, value in query(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    }
    expiry = float(variables.get("binlog_expire_logs_seconds") or 0) or float(variables.get("expire_logs_days") or 0) * 86400
    version = server_version(connection)
    facts = {"version": version, "comment": variables.get("version_comment", ""), "folder": variables.get("basedir", "")}
    notes = versions.note_log(server_label(version), versions.recognise("mysql", facts))
    return LogFiles({str(row[0]): int(row[1]) for row in rows}, int(expiry) or None, notes)


def end_of_log(source: Source) -> SourceOffset:
    """Return where a source's log ends now, as an offset of a stream. Raises ChangeStreamError and EngineError."""
    with closing(source.connect()) as connection:
        end = log_status(connection).end
        return as_offset(Mark(end, born=read_born(source, end.file)), epoch=0) | {"server": identify_server(connection)}


def identify_server(connection: Any) -> str:
    """Return what identifies a server: MySQL's server_uuid; of MariaDB, which has none, its server id and its domain of global ids.

    https://dev.mysql.com/doc/refman/9.4/en/replication-options.html#sysvar_server_uuid
    """
    if _is_mariadb(connection):
        [(number, domain)] = query(connection, "SELECT @@GLOBAL.server_id, @@GLOBAL.gtid_domain_id")
        return f"server id {number}, domain {domain}"
    return str(query(connection, "SELECT @@GLOBAL.server_uuid")[0][0])


def check_server(connection: Any, name: str, known: str, mark: Mark) -> str:
    """Return what identifies the server of connection ``name``, which must be ``known`` ('' for any) and have written what is at the mark.

    A restored copy of a server has its identity, but not the global id of the last transaction before the mark. Raises SourceReplaced.
    """
    identity = identify_server(connection)
    if known and identity != known:
        raise SourceReplaced(f"connection {name} leads to another server ({identity}) than the one that was read ({known}); {REPLACED}")
    if mark.gtid and not _has_written(connection, mark):
        raise SourceReplaced(
            f"connection {name} leads to a server whose log has no transaction {mark.gtid} before {mark.place}: it was reset, or restored"
            f" from a copy; {REPLACED}"
        )
    sizes = read_log_files(connection).sizes
    if sizes.get(mark.place.file, mark.place.offset) < mark.place.offset:
        raise SourceReplaced(
            f"connection {name} leads to a server whose {mark.place.file} ends at {sizes[mark.place.file]}, and it was read up to"
            f" {mark.place}: the source was restored to an earlier time, and targets may be ahead of it; {REPLACED}"
        )
    return identity


def _has_written(connection: Any, mark: Mark) -> bool:
    """Return whether the server wrote the transaction before the mark; True if it does not say, because the file of its log is gone."""
    if _is_mariadb(connection):
        # https://mariadb.com/kb/en/binlog_gtid_pos/
        [(state,)] = query(connection, f"SELECT BINLOG_GTID_POS('{mark.place.file}', {mark.place.offset})")
        return not state or mark.gtid in _text(state).split(",")
    # https://dev.mysql.com/doc/refman/9.4/en/gtid-functions.html
    [(is_executed,)] = query(connection, f"SELECT GTID_SUBSET('{mark.gtid}', @@GLOBAL.gtid_executed)")
    return bool(is_executed)


def _is_mariadb(connection: Any) -> bool:
    return "mariadb" in server_version(connection).lower()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
