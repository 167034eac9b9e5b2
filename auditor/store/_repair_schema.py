"""The current tables of repairs: patches and bootstraps; the others are in ``_schema``."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, Table

from auditor.store._schema import MYSQL, metadata
from auditor.store._types import Json, Moment, Words, blob, name

repairs = Table(
    "auditor_repairs",
    metadata,
    Column("id", name(64), primary_key=True),
    Column("run", name(64), nullable=False),
    Column("audit", name(), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("kind", name(16), nullable=False),
    Column("state", name(16), nullable=False),
    Column("detail", Json(), nullable=False),
    Index("auditor_repairs_run_at", "run", "at"),
    **MYSQL,
)
"""Recorded repairs. ``run`` is the run's id, not a foreign key, because a repair outlives its run."""

patches = Table(
    "auditor_patches",
    metadata,
    Column("patch", name(64), primary_key=True),
    Column("run", name(64), nullable=False),
    Column("audit", name(), nullable=False),
    Column("undoes", name(64)),
    Column("target", name(64), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("undoable", Boolean(), nullable=False),
    Column("detail", Json(), nullable=False),
    Column("request_key", name(64)),
    Column("after_run", name(64)),
    Index("auditor_patches_run_at", "run", "at"),
    Index("auditor_patches_request_key", "request_key", unique=True),
    Index("auditor_patches_after_run", "after_run"),
    **MYSQL,
)
"""Patches that were proposed or applied. ``target`` is a hash of the patched table; ``run`` no foreign key, as a patch outlives its run.

``request_key`` is a hash of the idempotency key of the request to apply it, or of the request for an undo; ``after_run`` the run that
looked at its rows afterwards.
"""

patch_plans = Table(
    "auditor_patch_plans",
    metadata,
    Column("patch", name(64), ForeignKey("auditor_patches.patch", ondelete="CASCADE"), primary_key=True),
    Column("body", blob(), nullable=False),
    **MYSQL,
)
"""What a patch was proposed to change, packed: its rows, and its script unless a column is masked. Deleted with its journal's rows."""

patch_batches = Table(
    "auditor_patch_batches",
    metadata,
    Column("patch", name(64), ForeignKey("auditor_patches.patch", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("state", name(16), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("body", blob()),
    **MYSQL,
)
"""The journal: for each batch of a patch its rows as they were and as they should be, packed; null once that was dropped."""

bootstraps = Table(
    "auditor_bootstraps",
    metadata,
    Column("bootstrap", name(64), primary_key=True),
    Column("audit", name(), nullable=False),
    Column("target", name(64), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("stage", name(16), nullable=False),
    Column("detail", Json(), nullable=False),
    Index("auditor_bootstraps_target_at", "target", "at"),
    **MYSQL,
)
"""Bootstraps that were begun. ``target`` is a hash of the table that is copied anew."""

bootstrap_ranges = Table(
    "auditor_bootstrap_ranges",
    metadata,
    Column("bootstrap", name(64), ForeignKey("auditor_bootstraps.bootstrap", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("detail", Json(), nullable=False),
    **MYSQL,
)
"""The ranges of keys of a bootstrap that were copied, each with its rows, bytes and digest."""
