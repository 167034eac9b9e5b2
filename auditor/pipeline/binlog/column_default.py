"""What rows that were there have in a column that is added: its default, as far as the statement says it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from auditor.pipeline.binlog.sql_tokens import Token

Value = dict[str, Any]
"""``{"text": ...}``, ``{"text": None}`` for NULL, or ``{"unknown": why}``."""

NUMBERS = frozenset(
    ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "DECIMAL", "DEC", "NUMERIC", "FIXED", "FLOAT", "DOUBLE", "REAL",
     "BOOL", "BOOLEAN", "INT1", "INT2", "INT3", "INT4", "INT8")
)  # fmt: skip
TEXTS = frozenset(
    ("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "NCHAR", "NVARCHAR", "CHARACTER", "SET", "NATIONAL", "VARCHARACTER")
)  # fmt: skip


def added_value(definition: Sequence[Token]) -> Value:
    """Return the value of a new column in the rows that were there; ``definition`` is what follows its name."""
    top = _outside_parentheses(definition)
    words = [token.text.upper() if token.kind == "word" else "" for token in top]
    kind = words[0] if words else ""
    if "AUTO_INCREMENT" in words or kind == "SERIAL":
        return {"unknown": "the server numbered its rows"}
    if "AS" in words or "GENERATED" in words:
        return {"unknown": "it is computed from other columns"}
    if "DEFAULT" in words:
        return _default(kind, top[words.index("DEFAULT") + 1 :])
    if not _is_required(words):
        return {"text": None}
    if kind in NUMBERS:
        return {"text": "0"}
    if kind in TEXTS:
        return {"text": ""}
    if kind == "ENUM" and len(definition) > 2 and definition[2].kind == "string":
        return {"text": definition[2].text}
    return {"unknown": "it has no default, and its type's own depends on the server's settings"}


def _default(kind: str, left: Sequence[Token]) -> Value:
    negative = bool(left) and left[0].text == "-"
    if not left[negative:]:
        return {"unknown": "its default is an expression"}
    token = left[negative]
    if token.is_word("NULL"):
        return {"text": None}
    if token.is_word("TRUE", "FALSE"):
        return {"text": str(int(token.is_word("TRUE")))}
    if kind == "TIMESTAMP":
        return {"unknown": "its default depends on the time, or on the time zone of the session that added it"}
    if token.kind == "string" and token.prefix == "b":
        return {"text": str(int(token.text or "0", 2))}
    if token.kind == "string" and token.prefix != "x":
        return {"text": token.text.rstrip(" ") if kind in ("CHAR", "NCHAR", "CHARACTER") else token.text}
    if token.kind == "number":
        return {"text": "-" * negative + token.text}
    return {"unknown": "its default is an expression"}


def _is_required(words: Sequence[str]) -> bool:
    return any(one == "NOT" and other == "NULL" for one, other in itertools.pairwise(words)) or "PRIMARY" in words


def _outside_parentheses(definition: Sequence[Token]) -> list[Token]:
    """Return the tokens outside of parentheses, with the opening ones."""
    found: list[Token] = []
    depth = 0
    for token in definition:
        if token.kind == "sign" and token.text == ")":
            depth -= 1
        elif depth == 0:
            found.append(token)
        if token.kind == "sign" and token.text == "(":
            depth += 1
    return found
