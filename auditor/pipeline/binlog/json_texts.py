"""Texts of JSON documents, which the log holds in a binary form.

https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable

from auditor.pipeline.binlog import column_types as types
from auditor.pipeline.binlog.number_and_time_texts import decimal_function, packed_datetime_text, packed_time_text
from auditor.pipeline.float_texts import double_text

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL, INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING = range(13)
OPAQUE = 15
_INTEGERS = {INT16: "<h", UINT16: "<H", INT32: "<i", UINT32: "<I", INT64: "<q", UINT64: "<Q"}
_LITERALS = {0: "null", 1: "true", 2: "false"}
_INLINE_ALWAYS = frozenset({LITERAL, INT16, UINT16})
_INLINE_LARGE = frozenset({INT32, UINT32})
_escape = json.encoder.encode_basestring


DEEPEST = 100
"""Levels of a document, which servers limit. https://dev.mysql.com/doc/refman/9.4/en/json.html"""


def json_text(data: bytes) -> str:
    """Return the document's text. An empty value, which a server stores where it had to make one up, is the literal null.

    Raises ValueError, LookupError, OverflowError or struct.error if it is none.
    """
    return _Document(data).value(data[0], 1, 0) if data else "null"


class _Document:
    """A document while it is printed. Its parts do not overlap, so that its text is in proportion to its bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)
        """Bytes that are not part of a value yet."""

    def value(self, kind: int, at: int, depth: int) -> str:
        data = self._data
        if kind in (SMALL_OBJECT, LARGE_OBJECT):
            return "{" + ", ".join(self._members(at, kind == LARGE_OBJECT, depth, named=True)) + "}"
        if kind in (SMALL_ARRAY, LARGE_ARRAY):
            return "[" + ", ".join(self._members(at, kind == LARGE_ARRAY, depth, named=False)) + "]"
        if kind == LITERAL:
            return _LITERALS[data[at]]
        if kind in _INTEGERS:
            return str(struct.unpack_from(_INTEGERS[kind], data, at)[0])
        if kind == DOUBLE:
            text = double_text(struct.unpack_from("<d", data, at)[0])
            return text if any(sign in text for sign in ".e") else text + ".0"
        if kind == STRING:
            size, at = _size(data, at)
            return _string(self._taken(at, size).decode())
        if kind == OPAQUE:
            size, start = _size(data, at + 1)
            return _opaque(data[at], self._taken(start, size))
        raise ValueError(f"a JSON value has the unknown type {kind}")

    def _members(self, begin: int, large: bool, depth: int, named: bool) -> list[str]:
        """Return the members of an object or array, whose offsets count from its beginning."""
        if depth >= DEEPEST:
            raise ValueError(f"a JSON document has more than {DEEPEST} levels")
        data = self._data
        width, number = (4, "<I") if large else (2, "<H")
        count = struct.unpack_from(number, data, begin)[0]
        at = begin + 2 * width
        self._spend(count * (width + 1 + (width + 2) * named))
        names = []
        if named:
            for entry in range(count):
                where, size = struct.unpack_from("<IH" if large else "<HH", data, at + entry * (width + 2))
                names.append(_string(self._taken(begin + where, size).decode()) + ": ")
            at += count * (width + 2)
        texts = []
        for entry in range(count):
            place = at + entry * (width + 1)
            kind = data[place]
            inline = kind in _INLINE_ALWAYS or (large and kind in _INLINE_LARGE)
            where = place + 1 if inline else begin + struct.unpack_from(number, data, place + 1)[0]
            texts.append(self.value(kind, where, depth + 1))
        return [name + text for name, text in zip(names, texts, strict=True)] if named else texts

    def _taken(self, at: int, size: int) -> bytes:
        """Return the bytes of a value of variable length."""
        self._spend(size)
        if at + size > len(self._data):
            raise ValueError("a JSON value ends after its document")
        return self._data[at : at + size]

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("the values of a JSON document overlap")


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer of seven bits a byte, of five bytes at most, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise ValueError("a JSON value has a size of more than five bytes")


def _string(text: str) -> str:
    return _escape(text)


def _opaque(kind: int, data: bytes) -> str:
    """Return a value of one of SQL's own types."""
    if kind == types.NEWDECIMAL:
        _, decode = decimal_function(data[0], data[1])
        return decode(data[2:])
    if kind in _TIMES:
        return f'"{_TIMES[kind](int.from_bytes(data[:8], "little", signed=True))}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def _date(packed: int) -> str:
    return packed_datetime_text(packed)[:10]


_TIMES: dict[int, Callable[[int], str]] = {
    types.DATE: _date,
    types.DATETIME: packed_datetime_text,
    types.TIMESTAMP: packed_datetime_text,
    types.TIME: packed_time_text,
}
