"""What rows that were there have in a column that is added: its default, as far as the statement says it.

That is a literal of the column's own type, written as its value is stored. What the server converts by rules of its own (`YEAR DEFAULT 99`,
a label of ENUM in other capitals, `DOUBLE(7,2) DEFAULT 1.239`) is not known here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TypedDict

from auditor.pipeline.binlog.sql_tokens import Token


class Value(TypedDict, total=False):
    """What rows have: one of these."""

    text: str | None
    """None for NULL."""
    hex: str
    """Of bytes."""
    unknown: str
    """Why it is not known."""


INTEGERS = frozenset(
    ("TINYINT", "SMALLINT", "MEDIUMINT", "MIDDLEINT", "INT", "INTEGER", "BIGINT", "BOOL", "BOOLEAN", "INT1", "INT2", "INT3", "INT4", "INT8")
)
DECIMALS = frozenset(("DECIMAL", "DEC", "NUMERIC", "FIXED"))
FLOATS = frozenset(("FLOAT", "DOUBLE", "REAL", "FLOAT4", "FLOAT8"))
NUMBERS = INTEGERS | DECIMALS | FLOATS
TEXTS = frozenset(
    ("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "NCHAR", "NVARCHAR", "CHARACTER", "SET", "NATIONAL", "VARCHARACTER")
)  # fmt: skip
BYTES = frozenset(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"))
PADDED = frozenset(("CHAR", "NCHAR", "CHARACTER"))
OPERATORS = frozenset("+-*/%|&^<>=!(.")
MOMENTS = {"YEAR": r"\d{4}", "DATE": r"\d{4}-\d\d-\d\d", "DATETIME": r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?"}
"""The forms of values that are stored as they are written."""
CONVERTED = "its default is written in a form that the source's server converts"


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
        return _default(kind, _arguments(definition), top[words.index("DEFAULT") + 1 :])
    if not _is_required(words):
        return {"text": None}
    if kind in NUMBERS:
        return {"text": "0"}
    if kind in TEXTS:
        return {"text": ""}
    if kind in BYTES:
        return _bytes(kind, _arguments(definition), b"")
    if kind == "ENUM" and len(definition) > 2 and definition[2].kind == "string":
        return {"text": definition[2].text}
    return {"unknown": "it has no default, and its type's own depends on the server's settings"}


def _default(kind: str, arguments: Sequence[str], left: Sequence[Token]) -> Value:
    negative = bool(left) and left[0].text == "-" and left[0].kind == "sign"
    literal = left[negative : negative + 1]
    while literal and literal[-1].kind == "string" and [part.kind for part in left[negative + len(literal) :][:1]] == ["string"]:
        literal = left[negative : negative + len(literal) + 1]  # strings that follow one another are one
    rest = left[negative + len(literal) :]
    if not literal or (rest and rest[0].kind == "sign" and rest[0].text in OPERATORS):
        return {"unknown": "its default is an expression"}
    token = literal[0]
    if token.is_word("NULL"):
        return {"text": None}
    if kind in BYTES:
        return _binary_default(kind, arguments, literal)
    if kind == "TIMESTAMP":
        return {"unknown": "its default depends on the time, or on the time zone of the session that added it"}
    if token.is_word("TRUE", "FALSE"):
        token = Token("number", str(int(token.is_word("TRUE"))))
    if token.kind == "string":
        if any(part.prefix not in ("", "n") and (len(literal) > 1 or not token.text.isascii()) for part in literal):
            return {"unknown": CONVERTED}
        token = Token("string", "".join(part.text for part in literal), token.prefix)
    elif token.kind != "number":
        return {"unknown": "its default is an expression"}
    text = _plain(kind, arguments, token, "-" * negative + token.text)
    return {"unknown": CONVERTED} if text is None else {"text": text}


def _plain(kind: str, arguments: Sequence[str], token: Token, text: str) -> str | None:
    """Return the value that a literal stands for in a column of a type; None if the server converts it by rules that are its own."""
    if token.prefix == "b":
        return str(int(text or "0", 2)) if kind in INTEGERS or kind == "BIT" else None
    if token.prefix == "x":
        return None
    if kind in INTEGERS or kind == "BIT":
        return str(int(text)) if re.fullmatch(r"-?\d+", text) else None
    if kind in NUMBERS:
        scale = int(arguments[1]) if len(arguments) > 1 else 0 if kind in DECIMALS else None
        match = re.fullmatch(r"-?\d+(?:\.(\d+))?", text)
        return text if match and (scale is None or len(match[1] or "") <= scale) else None
    if kind in MOMENTS:
        return text if re.fullmatch(MOMENTS[kind], text) else None
    if kind == "ENUM":
        return text if token.kind == "string" and text in arguments else None
    if kind == "SET":
        return text if token.kind == "string" and text == ",".join(label for label in arguments if label in text.split(",")) else None
    if token.kind == "number":
        return text if re.fullmatch(r"-?(0|[1-9]\d*)", text) else None
    return text.rstrip(" ") if kind in PADDED else text


def _binary_default(kind: str, arguments: Sequence[str], literal: Sequence[Token]) -> Value:
    """Return the bytes that a literal stands for: hexadecimal digits, or text of ASCII, which is the same in every character set."""
    [token, *more] = literal
    digits = token.text if token.prefix == "x" else token.text[2:] if token.kind == "word" and token.text[:2] == "0x" else None
    if digits is not None and not more and re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits):
        return _bytes(kind, arguments, bytes.fromhex(digits))
    text = "".join(part.text for part in literal)
    if all(part.kind == "string" and part.prefix in ("", "n") for part in literal) and text.isascii():
        return _bytes(kind, arguments, text.encode())
    return {"unknown": CONVERTED}


def _bytes(kind: str, arguments: Sequence[str], value: bytes) -> Value:
    """Return bytes as a column of a type stores them: one of a fixed length fills them up with zeros."""
    length = int(arguments[0]) if kind == "BINARY" and arguments else 1 if kind == "BINARY" else 0
    return {"hex": value.ljust(length, b"\0").hex()}


def _arguments(definition: Sequence[Token]) -> list[str]:
    """Return what is in parentheses right after a type: its length, or digits and scale, or labels."""
    if len(definition) < 2 or definition[1].text != "(":
        return []
    texts = [token.text for token in definition[2:]]
    return [text for text in texts[: texts.index(")")] if text != ","] if ")" in texts else []


def _is_required(words: Sequence[str]) -> bool:
    return any(word == "NOT" and following == "NULL" for word, following in itertools.pairwise(words)) or "PRIMARY" in words


def _outside_parentheses(definition: Sequence[Token]) -> list[Token]:
    """Return the tokens outside of parentheses, with the opening ones."""
    outside: list[Token] = []
    depth = 0
    for token in definition:
        if token.kind == "sign" and token.text == ")":
            depth -= 1
        elif depth == 0:
            outside.append(token)
        if token.kind == "sign" and token.text == "(":
            depth += 1
    return outside
