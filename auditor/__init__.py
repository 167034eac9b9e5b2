"""auditor: proves from the outside whether a target table still holds what its source table holds.

``auditor.audit(("mysql://...", "orders"), ("redshift://...", "public.orders"), key=["id"])`` runs one audit without a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.model import Report

__all__ = ["__version__", "audit"]
__version__ = "0.1.0"


def audit(source: tuple[str, str], target: tuple[str, str], *, key: Sequence[str] = (), name: str = "audit", **options: Any) -> Report:
    """Compare two tables, each given as (connection URL, table name or path), and report.

    ``key`` is the source's primary key by default. ``options`` are the settings of an audit in ``auditor.yaml``: ``method``,
    ``k``, ``columns``, ``where``, ``partition``, ``threshold``, and so on; ``renamed`` maps source names to target names.
    Raises ConfigError for settings that are wrong; whatever goes wrong after that is in the report.
    """
    from auditor.config import checked
    from auditor.service import run_audit

    renamed = options.pop("renamed", {})
    values = {
        "connections": {"source": {"url": source[0]}, "target": {"url": target[0]}},
        "audits": {
            name: {
                "source": {"connection": "source", "table": source[1]},
                "target": {"connection": "target", "table": target[1], "columns": renamed},
                "key": tuple(key),
                **options,
            }
        },
    }
    return run_audit(checked(values), name)
