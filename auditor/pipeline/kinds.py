"""The canonical kinds of a source's columns."""

from __future__ import annotations

import dialects
from auditor.pipeline.events import ColumnSchema
from dialects import Kind


def source_kind(column: ColumnSchema) -> Kind | None:
    """Return the canonical kind of a source's column; None for a type that no target takes, as geometries and vectors."""
    return dialects.get("mysql").kind(column.type)
