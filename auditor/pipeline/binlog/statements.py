"""Statements that may stand in a transaction beside rows, and those that must be refused."""

from __future__ import annotations

import re

_COMMENTS = re.compile(rb"(?>\s|/\*(?!!).*?(?:\*/|\Z)|--[^\n]*\n|#[^\n]*\n|/\*M?!\d*)*+", re.DOTALL)
_HARMLESS = re.compile(
    rb"(BEGIN|COMMIT|SAVEPOINT|RELEASE|XA|CREATE|DROP\s++(/\*!\d++\s*+)?TEMPORARY|ROLLBACK|FLUSH|START)\b",
    re.IGNORECASE,
)
_ROLLBACK = re.compile(rb"ROLLBACK\b", re.IGNORECASE)
SHOWN = 40

TABLE_STATEMENT = re.compile(
    rb"(?>\s|/\*(?!M?!).*?(?:\*/|\Z)|--[^\n]*\n|\#[^\n]*\n|/\*M?!\d*)*+(?:ALTER|CREATE|DROP|TRUNCATE|RENAME|SET\s++STATEMENT)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of a statement that may change a table itself."""


def refusal(statement: bytes, rows: int) -> str | None:
    """Return what is wrong with a statement within a transaction that has had so many rows; None if nothing is.

    Rows that were logged before a ROLLBACK were undone in part: those of engines without transactions were not.
    """
    comments = _COMMENTS.match(statement)
    text = statement[comments.end() if comments else 0 :]
    if _ROLLBACK.match(text):
        return "a ROLLBACK after rows that it may not have undone" if rows else None
    if _HARMLESS.match(text):
        return None
    first = text.split(None, 1)[0].decode(errors="replace").upper() if text.split() else ""
    return f"a statement ({first[:SHOWN]})"
