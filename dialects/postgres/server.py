"""What PostgreSQL says of its load, and of how it runs statements.

https://www.postgresql.org/docs/current/using-explain.html
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from dialects import errors
from dialects.base import Server, Session
from dialects.catalogue import ScanEstimate


class PostgresServer(Server):
    """A server of PostgreSQL."""

    LOAD_MEASURES: ClassVar[tuple[str, ...]] = ("active_sessions", "lag")

    def _load_measure(self, session: Session, name: str, own: int) -> float:
        if name == "active_sessions":
            # Sessions of all auditor processes are excluded by application_name.
            count, may_see_others = session.query(session.dialect.catalogue_query("active_sessions", {}))[0]
            if not may_see_others:  # the count would then omit the sessions of other users
                raise errors.AccessDenied("the user may not see the activity of other users' sessions; GRANT pg_read_all_stats to it")
            return float(count)
        if name == "lag":
            is_aurora = session.query(session.dialect.catalogue_query("aurora", {}))[0][
                0
            ]  # whose readers refuse PostgreSQL's own functions
            lag = session.query(session.dialect.catalogue_query("aurora_lag" if is_aurora else "lag", {}))[0][0]
            return math.inf if lag is None else float(lag)
        return super()._load_measure(session, name, own)

    def leading_index_columns(self, session: Session, table: str) -> set[str] | None:
        return {
            str(row[0])
            for row in session.query(session.dialect.catalogue_query("indexes", {"table": session.dialect.names.literal(table)}))
        }

    def estimate_scan(self, session: Session, sql: str) -> ScanEstimate | None:
        # https://www.postgresql.org/docs/current/using-explain.html
        output = session.query(f"EXPLAIN (FORMAT JSON) {sql}")[0][0]
        scans = list(table_scans((json.loads(output) if isinstance(output, str) else output)[0]["Plan"]))
        return ScanEstimate(sum(int(scan["Plan Rows"]) for scan in scans), any(is_full_scan(scan) for scan in scans))

    def estimate_each(self, session: Session, statements: Sequence[str]) -> list[int]:
        output = session.query("EXPLAIN (FORMAT JSON) " + "\nUNION ALL\n".join(statements))[0][0]
        estimates = rows_of_branches((json.loads(output) if isinstance(output, str) else output)[0]["Plan"])
        return estimates if len(estimates) == len(statements) else []


def table_scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of a plan that read a stored table, at any depth."""
    if "Relation Name" in node:
        yield node
    for child in node.get("Plans", ()):
        yield from table_scans(child)


def is_full_scan(scan: Mapping[str, Any]) -> bool:
    """Return whether a node reads all of its table (or of a partition of it) or all of an index."""
    return scan["Node Type"] == "Seq Scan" or (scan["Node Type"] in ("Index Scan", "Index Only Scan") and "Index Cond" not in scan)


def rows_of_branches(node: Mapping[str, Any]) -> list[int]:
    """Return how many rows are expected of each branch of UNION ALL, or of a statement without one; at most so many where several
    workers share a branch, of which the plan says what one of them is expected to read."""
    readers = 1
    while str(node["Node Type"]).startswith("Gather"):
        readers, node = int(node["Workers Planned"]) + 1, node["Plans"][0]
    branches = node["Plans"] if node["Node Type"] == "Append" else [node]
    return [
        int(branch["Plan Rows"]) * (readers if any(scan["Parallel Aware"] for scan in table_scans(branch)) else 1) for branch in branches
    ]
