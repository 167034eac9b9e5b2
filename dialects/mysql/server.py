"""What MySQL and MariaDB say of their load, and of how they run statements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dialects.base import Server, Session
from dialects.catalogue import ScanEstimate
from dialects.session import DriverSession


class MySQLServer(Server):
    """A server of MySQL or MariaDB."""

    LOAD_MEASURES = ("threads_running", "lag")

    def __init__(self, *, mariadb: bool) -> None:
        self.mariadb = mariadb
        """Whether the server is MariaDB."""

    def _load_measure(self, session: Session, name: str, own: int) -> float:
        assert isinstance(session, DriverSession)
        if name == "threads_running":
            # Threads that are not sleeping, including this session's own; on MySQL also one of the server's own.
            # https://dev.mysql.com/doc/refman/9.4/en/server-status-variables.html#statvar_Threads_running
            return float(max(0, int(session.query(session.dialect.catalogue_query("threads_running", {}))[0][1]) - 1 - own))
        if name == "lag":
            lag = _replica_lag(session.query_dicts(session.dialect.catalogue_query("replicas_mariadb" if self.mariadb else "replicas", {})))
            return max(lag, 0.0 if self.mariadb else self._aurora_lag(session))
        return super()._load_measure(session, name, own)

    def _aurora_lag(self, session: Session) -> float:
        """Return how many seconds a reader of Amazon Aurora is behind its writer; 0 elsewhere, infinite for a reader that is not listed."""
        if not session.query(session.dialect.catalogue_query("aurora", {})):
            return 0.0
        lag = session.query(session.dialect.catalogue_query("aurora_lag", {}))[0][0]
        return math.inf if lag is None else float(lag)

    def leading_index_columns(self, session: Session, table: str) -> set[str] | None:
        # https://dev.mysql.com/doc/refman/9.4/en/show-index.html; what MySQL calls invisible, MariaDB calls ignored.
        assert isinstance(session, DriverSession)
        return {
            str(column["Column_name"])
            for column in session.query_dicts(session.dialect.catalogue_query("indexes", {"table": table}))
            if int(column["Seq_in_index"]) == 1
            and column["Column_name"] is not None  # NULL for an index on an expression
            and column["Index_type"] == "BTREE"
            and column.get("Visible", "YES") == "YES"
            and column.get("Ignored", "NO") == "NO"
        }

    def estimate_scan(self, session: Session, sql: str) -> ScanEstimate | None:
        # Each line is a table that is read; names in angle brackets are derived tables.
        # https://dev.mysql.com/doc/refman/9.4/en/explain-output.html
        assert isinstance(session, DriverSession)
        lines = session.query_dicts(f"EXPLAIN FORMAT=TRADITIONAL {sql}")
        stored = [line for line in lines if line["table"] and not str(line["table"]).startswith("<")]
        return ScanEstimate(sum(int(line["rows"] or 0) for line in stored), any(line["type"] in ("ALL", "index") for line in stored))

    def estimate_each(self, session: Session, statements: Sequence[str]) -> list[int]:
        # One line for each, but for the one of the union itself; it names no table where the server knows that no row can meet a condition.
        assert isinstance(session, DriverSession)
        lines = session.query_dicts("EXPLAIN FORMAT=TRADITIONAL " + "\nUNION ALL\n".join(statements))
        estimates = [int(line["rows"] or 0) for line in lines if not str(line["table"] or "").startswith("<")]
        return estimates if len(estimates) == len(statements) else []


def _replica_lag(channels: Sequence[Mapping[str, Any]]) -> float:
    """Return the replication delay of the slowest channel in seconds; infinite if a channel has none (NULL: replication is stopped).

    The server compares what it has applied with what it has received, so a slow network does not show; a heartbeat shows that too.
    https://dev.mysql.com/doc/refman/9.4/en/show-replica-status.html, https://mariadb.com/kb/en/show-replica-status/
    """
    lags = [channel.get("Seconds_Behind_Source", channel.get("Seconds_Behind_Master")) for channel in channels]
    return max((math.inf if lag is None else float(lag) for lag in lags), default=0.0)
