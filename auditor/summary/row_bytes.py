"""How the canonical texts of a row become bytes that need no escapes, which a pre-scan hashes in place of row texts.

`auditor.sql.prescan` renders them, and `auditor.compare.witness` computes them from texts.
"""

from __future__ import annotations

from auditor.model import ColumnPlan

NEXT_COLUMN, NEXT_ROW, NULL_VALUE, NO_TEXT = b"\xff", b"\xfd", b"\xfe", b"\xfc"
"""Where rows are hashed as one, texts are joined by bytes that UTF-8 never contains: those of a row, and rows; and such bytes stand for
NULL, and begin what stands for a row without a text. So no text is searched for characters to escape."""

CLOSED_KINDS = frozenset(
    {"boolean", "integer", "decimal", "float32", "float64", "year", "date", "time", "timestamp", "timestamptz", "uuid"}
)
"""Kinds whose canonical texts are never empty and never hold a bar."""


def is_closed(column: ColumnPlan) -> bool:
    """Return whether the text of a column is never empty and never holds a bar, on either side: by the types of the columns themselves."""
    is_computed = any(sql.startswith("(") for sql in column.expression.values())
    kinds = {column.kind.name, *(native.name for native in column.native.values())}
    return kinds <= CLOSED_KINDS and column.null_as is None and not column.digest and not is_computed
