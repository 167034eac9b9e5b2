"""Statements that may stand in a transaction beside rows, and those that must be refused."""

from __future__ import annotations

import re

_COMMENTS = re.compile(rb"(?>\s|/\*(?!!).*?(?:\*/|\Z)|--[^\n]*\n|#[^\n]*\n|/\*M?!\d*)*+", re.DOTALL)
_HARMLESS = re.compile(
    rb"(BEGIN|COMMIT|SAVEPOINT|RELEASE|XA|CREATE|DROP\s++(/\*!\d++\s*+)?TEMPORARY|ROLLBACK|FLUSH|START)\b",
    re.IGNORECASE,
)
_SAVEPOINT = re.compile(
    rb"(?:(SAVEPOINT)|(RELEASE)\s++SAVEPOINT|(ROLLBACK)(?:\s++WORK)?+(?:\s++TO(?:\s++SAVEPOINT\b)?+)?+)(?:\s++(.+)|\s*+\Z)",
    re.IGNORECASE | re.DOTALL,
)
SHOWN = 40

TABLE_STATEMENT = re.compile(
    rb"(?>\s|/\*(?!M?!).*?(?:\*/|\Z)|--[^\n]*\n|\#[^\n]*\n|/\*M?!\d*)*+(?:ALTER|CREATE|DROP|TRUNCATE|RENAME|SET\s++STATEMENT)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of a statement that may change a table itself."""


def refusal(statement: bytes) -> str | None:
    """Return what is wrong with a statement within a transaction; None if it writes no rows."""
    text = _without_comments(statement)
    if _HARMLESS.match(text):
        return None
    first = text.split(None, 1)[0].decode(errors="replace").upper() if text.split() else ""
    return f"a statement ({first[:SHOWN]})"


def savepoint(statement: bytes) -> tuple[str, str] | None:
    """Return what a statement does to a savepoint (SAVEPOINT, RELEASE or ROLLBACK) and its name, '' for the whole transaction."""
    match = _SAVEPOINT.match(_without_comments(statement))
    if not match:
        return None
    verb = next(word for word in match.groups()[:3] if word).decode().upper()
    name = (match[4] or b"").strip().decode(errors="replace")
    return verb, name[1:-1].replace("``", "`") if name.startswith("`") else name.lower()


def _without_comments(statement: bytes) -> bytes:
    comments = _COMMENTS.match(statement)
    return statement[comments.end() if comments else 0 :]
