"""JSON documents compared as values, of any depth: objects without order, numbers as numbers, escapes as what they stand for.

Of a key that an object repeats the last one counts, as in MySQL, PostgreSQL's jsonb and Python. A text that is no JSON document by RFC 8259
has no value, and equals only itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

INLINE = 8000
"""Characters of a document that is fetched with its row; a longer one is fetched alone, and only where it must be read."""

SHORTENED = re.compile(r"\.\.\. sha256 [0-9a-f]{16}\Z")
"""The end of a fetched text that was shortened; no document ends so."""

_MARKED = re.compile(r"\.\.\. sha256 [0-9a-f]{64}\Z")

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:(?P<mark>[{}\[\],:])"
    r'|(?P<text>"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(?P<word>true|false|null))"
)
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_BLANKS = re.compile(r"[ \t\n\r]*\Z")
_SHORT = 64
"""Bytes of a value that stands for itself; a longer one's hash stands for it."""


def are_equal(source: str | None, target: str | None) -> bool | None:
    """Return whether two fetched texts are equal documents; None if one of them was shortened, so that it is not known."""
    if source == target:
        return True
    if source is None or target is None:
        return False
    if SHORTENED.search(source) or SHORTENED.search(target):
        return None
    try:
        return bool(_read(source) == _read(target))
    except ValueError:  # one of them is no document
        return False
    except RecursionError:  # nested more deeply than Python's own reader goes, which is some ten times as fast
        value = digest(source)
        return value is not None and value == digest(target)


def shortened(text: str | None, length: int) -> str | None:
    """Return a document as it is shown: its beginning and its hash if it is longer than ``length`` characters."""
    if text is None or len(text) <= length:
        return text
    end = SHORTENED.search(text) or _MARKED.search(text)
    return text[:length] + (end.group() if end else f"... sha256 {_hash_of_text(text)}")[: len("... sha256 ") + 16]


def marked(text: str, length: int) -> str:
    """Return the stand-in of a document that was read and equals no other: its beginning and its whole hash."""
    return f"{text[:length]}... sha256 {_hash_of_text(text)}"


def _hash_of_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read(document: str) -> Any:
    """Return a document as values of Python, with the bytes of `_number` for numbers. Raises ValueError, and RecursionError."""
    return json.loads(document, parse_int=_number, parse_float=_number, parse_constant=_refuse)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value of JSON")


@dataclass(slots=True)
class _Open:
    """An array or object whose end has not been read."""

    members: dict[bytes, bytes] | None
    """The members of an object; None for an array."""
    items: list[bytes] = field(default_factory=list)
    key: bytes = b""

    def add(self, value: bytes) -> None:
        if self.members is None:
            self.items.append(value)
        else:
            self.members[self.key] = value

    def close(self) -> bytes:
        if self.members is None:
            return _hash(b"[", self.items)
        return _hash(b"{", (part for key in sorted(self.members) for part in (key, self.members[key])))


def digest(document: str) -> bytes | None:
    """Return bytes that are equal for equal values, and for no others that occur; None for what is no JSON document.

    It takes time in proportion to the document's length.
    """
    stack: list[_Open] = []
    state, root, at = "value", b"", 0
    while token := _TOKEN.match(document, at):
        at = token.end()
        match token.lastgroup, token[token.lastgroup or 0], state:
            case "mark", "{" | "[" as mark, "value" | "first item":
                stack.append(_Open({} if mark == "{" else None))
                state = "first key" if mark == "{" else "first item"
                continue
            case "mark", "}", "first key" | "after" if stack and stack[-1].members is not None:
                value = stack.pop().close()
            case "mark", "]", "first item" | "after" if stack and stack[-1].members is None:
                value = stack.pop().close()
            case "mark", ",", "after" if stack:
                state = "value" if stack[-1].members is None else "key"
                continue
            case "mark", ":", "colon":
                state = "value"
                continue
            case "text", text, "first key" | "key":
                stack[-1].key, state = _text(text), "colon"
                continue
            case "text", text, "value" | "first item":
                value = _text(text)
            case "number", number, "value" | "first item":
                value = _number(number)
            case "word", word, "value" | "first item":
                value = word.encode()
            case _:
                return None
        if stack:
            stack[-1].add(value)
        else:
            root = value
        state = "after"
    return root if state == "after" and not stack and _BLANKS.match(document, at) else None


def _hash(kind: bytes, parts: Iterable[bytes]) -> bytes:
    hashed = hashlib.sha256(kind)
    for part in parts:
        hashed.update(b"%d:" % len(part))
        hashed.update(part)
    return kind + hashed.digest()


def _text(token: str) -> bytes:
    """Return the bytes of a text; half a surrogate pair, which UTF-8 does not have, as three of them."""
    plain = json.loads(token) if "\\" in token else token[1:-1]
    return _within(b'"', plain.encode("utf-8", "surrogatepass"))


def _number(token: str) -> bytes:
    """Return a number as its digits without zeros at either end, and the power of ten of the last one, exactly."""
    if token.isdigit() and token[-1] != "0" and len(token) < _SHORT:  # as most are
        return b"#%se0" % token.encode()
    match = _NUMBER.fullmatch(token)
    assert match is not None
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4] or "0"
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return b"0"
    if len(exponent) > _SHORT:  # beyond what Python reads as an integer at once; no engine stores such a number as one
        return _within(b"#", f"{sign}{whole}.{fraction}e{exponent}".encode())
    power = int(exponent) - len(fraction) + len(digits) - len(kept)
    return _within(b"#", f"{sign}{kept}e{power}".encode())


def _within(kind: bytes, value: bytes) -> bytes:
    return kind + value if len(value) <= _SHORT else kind * 2 + hashlib.sha256(value).digest()
