"""The table of evidence."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import blob, name, number

evidence = Table(
    "auditor_evidence",
    metadata,
    Column("audit", name(), primary_key=True),
    Column("number", number(), primary_key=True, autoincrement=False),
    # No foreign key, because a link outlives its run.
    Column("run", name(64), nullable=False),
    Column("run_number", number(), nullable=False),
    Column("link", blob(), nullable=False),
    Column("signature", name(128), nullable=False),
    # Null once the run was deleted, resumed or scrubbed.
    Column("payload", blob()),
    # Null as soon as the payload is, or when it was erased.
    Column("row_key", blob()),
    Index("auditor_evidence_run", "run"),
    **MYSQL,
)
"""The links of each audit's chain, as they were signed; ``payload`` is what a run found, ``row_key`` makes its keyed digests."""
