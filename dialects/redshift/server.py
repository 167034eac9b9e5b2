"""What Redshift says of its load, and of the statements that it ran."""

from __future__ import annotations

import math
from collections.abc import Collection

from dialects.base import Session
from dialects.catalogue import ScanEstimate, ServerTimes
from dialects.postgres.server import PostgresServer

POSTGRES_ONLY = "jsonb_build_object"
"""A function of PostgreSQL 9.5 and later. https://www.postgresql.org/docs/9.5/functions-json.html"""


class RedshiftServer(PostgresServer):
    """A cluster or workgroup of Redshift."""

    LOAD_MEASURES = ("queued",)

    # "with a 60-second minimum charge": https://docs.aws.amazon.com/redshift/latest/mgmt/serverless-billing.html
    PRICED_BY = {"rpu_hour": 60.0}

    def _load_measure(self, session: Session, name: str, own: int) -> float:
        # Queued statements of the auditor itself are counted: they too show that the queues are full. A user without
        # SYSLOG ACCESS UNRESTRICTED sees only its own statements, and the view does not show that any are hidden.
        # On Serverless and Multi-AZ too: https://docs.aws.amazon.com/redshift/latest/dg/SYS_QUERY_HISTORY.html
        # https://docs.aws.amazon.com/redshift/latest/dg/cm_chap_system-tables.html#c_visibility-of-data
        if name != "queued":
            raise LookupError(f"{session.dialect.name} does not report {name}")
        return float(session.query(session.dialect.catalogue_query("queued", {}))[0][0])

    def stand_in(self, session: Session) -> str:
        if not int(session.query(f"SELECT COUNT(*) FROM pg_proc WHERE proname = '{POSTGRES_ONLY}'")[0][0]):
            return ""
        version = " ".join(str(session.query("SELECT VERSION()")[0][0]).split())
        return (
            f"no Redshift: its catalogue has the function {POSTGRES_ONLY}, which PostgreSQL has had since 9.5 and Redshift, of"
            f" PostgreSQL 8.0.2, has not; VERSION() says {version}"
        )

    def server_times(self, session: Session, process_ids: Collection[int], seconds: float) -> ServerTimes | None:
        holes = {"sessions": ", ".join(map(str, sorted(process_ids))), "seconds": str(math.ceil(seconds))}
        statements, *micros = session.query(session.dialect.catalogue_query("query_history", holes))[0]
        return ServerTimes(int(statements), *(float(number) / 1e6 for number in micros))

    def busy_spans(self, session: Session, process_ids: Collection[int], seconds: float) -> list[tuple[float, float]] | None:
        holes = {"sessions": ", ".join(map(str, sorted(process_ids))), "seconds": str(math.ceil(seconds))}
        # Whole seconds: EXTRACT of a TIMESTAMP is an integer. https://docs.aws.amazon.com/redshift/latest/dg/r_EXTRACT_function.html
        rows = session.query(session.dialect.catalogue_query("busy_spans", holes))
        return [(float(began), float(began) + float(elapsed) / 1e6) for began, elapsed in rows]

    def capacity(self, session: Session, seconds: float) -> float | None:
        # Of Serverless alone, and visible to superusers alone; a minute's row is written some minutes later.
        # https://docs.aws.amazon.com/redshift/latest/dg/SYS_SERVERLESS_USAGE.html
        units = session.query(session.dialect.catalogue_query("serverless_capacity", {"seconds": str(math.ceil(seconds))}))[0][0]
        return None if units is None else float(units)

    def leading_index_columns(self, session: Session, table: str) -> set[str] | None:
        # Redshift has no indexes; it skips blocks by their minimum and maximum values.
        # https://docs.aws.amazon.com/redshift/latest/dg/t_Sorting_data.html
        return None

    def estimate_scan(self, session: Session, sql: str) -> ScanEstimate | None:
        return None
