"""Read the plans that PostgreSQL's EXPLAIN prints. https://www.postgresql.org/docs/current/using-explain.html"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


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
