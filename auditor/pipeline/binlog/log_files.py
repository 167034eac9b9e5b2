"""The files of a server's binary log, how far a place is from their end, and how long the server keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.errors import ChangeStreamError
from auditor.pipeline.binlog.dump import query
from auditor.pipeline.binlog.place import Place
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
