"""auditor: proves from the outside whether a target table still holds what its source table holds.

``auditor.audit(("mysql://...", "orders"), ("redshift://...", "public.orders"), key=["id"])`` runs one audit without a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

if TYPE_CHECKING:
    from auditor import errors
    from auditor.client import Client
    from auditor.model import Verdict
    from auditor.result import Report

__all__ = ["AuditOptions", "Client", "Report", "Verdict", "__version__", "audit", "errors"]
__version__ = "0.1.0"


class AuditOptions(TypedDict, total=False):
    """The optional settings of ``audit``: those of an audit in ``auditor.yaml``, under the same names and with the same values.

    Durations are seconds or texts such as ``"15m"``, shares are numbers from 0 to 1 or texts such as ``"5%"``.
    """

    renamed: Mapping[str, str]
    """The target's names of columns that are called differently there, by the source's name."""
    convention: str | Mapping[str, Any]
    """Whose convention says which rows and columns of the target count: a tool's name, or its parts. By default all of them do."""
    columns: Mapping[str, Any]
    """Which columns are compared and how: ``include``, ``exclude``, ``override``. By default all columns of the source."""
    where: str | Mapping[str, str]
    """Compare only the rows that fulfil this condition: portable, or ``{"source": ..., "target": ...}`` in each side's SQL."""
    where_on: Literal["both", "source"]
    """Whether ``where`` selects rows on both sides, which is the default, or of the source, whose target's table is to hold no others."""
    json: Literal["value", "text"]
    """How JSON documents are compared: by their values, which is the default, or as text."""
    budget: Mapping[str, Any]
    """The most that the run may cost on both sides together: ``seconds``, ``statements``, ``bytes``."""
    method: Literal["counts", "signature", "minhash", "exact", "auto"]
    """How much each summary carries; ``exact`` by default."""
    k: int
    """Minhashes of each partition, 1 to 256: 16 by default under ``minhash``, none under ``exact``."""
    t: int
    """Differences that ``exact`` can decode in each partition, 1 to 16; 3 by default."""
    bits: Literal[60, 120]
    """Bits of the row hash that enter the signature of ``exact``; 60 by default."""
    hash: Literal["sha256", "md5"]
    """The hash of a row; SHA-256 by default."""
    encoding: Literal["injective", "published"]
    """How a row becomes text; the published encoding implies MD5 and cannot distinguish NULL from the text NULL."""
    salt: str
    """What row texts begin with: letters and digits, or ``random`` (the default) for a new one in every run."""
    partition: Mapping[str, Any]
    """How rows are assigned to partitions: ``strategy``, ``size``, ``buckets``, ``column``, ``unit``, ``rows``, ``limit``."""
    limits: Mapping[str, Any]
    """How much is spent on finding the rows that differ: ``max_rows_listed``, ``max_differences``, ``max_seconds``, ``value_length``."""
    threshold: float | Mapping[str, Any]
    """What still counts as a match: a similarity, or ``{"rows": n}`` or ``{"share": s}`` of differing rows."""
    allow_empty: bool
    """Whether two empty tables match; otherwise the verdict is unknown, since nothing was compared."""
    snapshot: Literal["whole", "per_chunk"]
    """One snapshot for a whole side, or a short one for each chunk; by default chosen by the table's size."""
    prescan: bool
    """Whether one signature for each of a few stretches of the table is read first; by default decided by what the last runs found."""
    settle: Mapping[str, Any]
    """Leave out rows that may still be in flight: ``column`` with ``lag`` or ``heartbeat``, and ``nulls``."""
    recheck: Mapping[str, Any]
    """Recheck differences before they are believed: ``times``, ``wait``, ``backoff``."""
    overdue_after: int
    """Runs in a row after which rows that none of them compared are reported."""
    ladder: Sequence[str] | Mapping[str, Any]
    """Methods to escalate through, from the cheapest to the most expensive."""
    rolling: Mapping[str, Any]
    """Read only a part of the table; it needs a store to know which part was read last, so it fits ``auditor.yaml``."""
    counts: Mapping[str, Any]
    """What the method ``counts`` compares besides counts and sums, and which deviations it allows."""
    schema: Literal["note", "strict"]
    """Whether a changed column is noted or fails the run; it needs a store to know the columns of the last run."""


def audit(
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    key: Sequence[str] = (),
    name: str = "audit",
    **options: Unpack[AuditOptions],
) -> Report:
    """Compare two tables, each given as (connection URL, table name, path, or a SELECT), and return the report.

    ``key`` are the columns that identify a row, by default the source's primary key; ``name`` is what the report calls the audit.
    ``options`` are documented at ``AuditOptions``. Raises ConfigError and BadUrl for settings and URLs that are
    wrong; whatever goes wrong after that is in the report.
    """
    from auditor.result import as_result
    from auditor.service.running import audit_tables

    return as_result(audit_tables(source, target, key=key, name=name, options=options))


def __getattr__(name: str) -> Any:
    """Load what the package exports when it is first used, so that ``import auditor`` is quick."""
    from importlib import import_module

    match name:
        case "Report":
            return import_module("auditor.result").Report
        case "Verdict":
            return import_module("auditor.model").Verdict
        case "Client":
            return getattr(import_module("auditor.client"), name)
        case "errors":
            return import_module("auditor.errors")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
