"""What ClickHouse says of its load."""

from __future__ import annotations

from dialects.base import Server, Session


class ClickHouseServer(Server):
    """A server of ClickHouse."""

    LOAD_MEASURES = ("threads_running", "lag")

    def _load_measure(self, session: Session, name: str, own: int) -> float:
        if name == "threads_running":
            # https://clickhouse.com/docs/operations/system-tables/processes
            running = session.query(session.dialect.catalogue_query("threads_running", {}))[0][0]
            return float(max(0, int(running) - 1 - own))
        if name == "lag":
            # https://clickhouse.com/docs/operations/system-tables/replicas
            return float(session.query(session.dialect.catalogue_query("lag", {}))[0][0])
        return super()._load_measure(session, name, own)
