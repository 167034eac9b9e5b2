"""The canonical kinds of a source's columns, and whether a target's column can hold them."""

from __future__ import annotations

import dialects
from auditor.pipeline.events import ColumnSchema
from dialects import Kind

TEXTS = frozenset({"text", "char", "enum", "set"})
INTEGER_TYPES = {"smallint": 2, "integer": 4, "int": 4, "bigint": 8, "tinyint": 1}


def source_kind(column: ColumnSchema) -> Kind | None:
    """Return the canonical kind of a source's column; None for a type that no target takes, as geometries and vectors."""
    return dialects.get("mysql").kind(column.type)


def holds(target: Kind, source: Kind) -> bool:
    """Return whether a target's column of one kind holds every value of the source's kind unchanged, as far as engines have it at all."""
    if source.name in TEXTS:
        if target.name == "char":
            return source.name == "char" and (target.digits or 1) >= (source.digits or 1)
        return target.name in TEXTS
    if source.name == "integer" and target.name == "decimal":
        return (target.digits or 1000) - (target.scale or 0) >= (20 if source.unsigned else 19)
    if source.name != target.name:
        return (source.name, target.name) in {
            ("year", "integer"),
            ("timestamp", "timestamptz"),
            ("timestamptz", "timestamp"),
            ("float32", "float64"),
            ("json", "text"),
            ("network", "text"),
            ("uuid", "text"),
        }
    if source.name == "integer":
        return target.unsigned or not source.unsigned
    if source.name == "decimal":
        if target.digits is None or target.scale is None:
            return True
        scale = source.scale or 0
        return target.scale >= scale and target.digits - target.scale >= (source.digits or 10) - scale
    if source.name in ("time", "timestamp", "timestamptz"):
        return (6 if target.scale is None else target.scale) >= (source.scale or 0)
    if source.name == "bit":
        return target.digits is None or target.digits == (source.digits or 1)
    return True
