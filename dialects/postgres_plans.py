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
