"""Arrays and structs of text, integers and booleans: their kinds, and how engines that keep a struct's order of fields print them as JSON.

The canonical text of such a column is a JSON document as MySQL and PostgreSQL store one: without blanks between its tokens, an object's
keys ordered by their length in bytes, then by their bytes, and control characters escaped by small hexadecimal digits.
https://dev.mysql.com/doc/refman/9.4/en/json.html#json-normalization
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from dialects.kinds import Kind

LEAVES = frozenset({"text", "enum", "integer", "boolean"})
"""Kinds of values that every engine prints alike in JSON: others, such as times, floats and decimals, each in its own way."""

UPPER_CASE_ESCAPES = ("000B", "000E", "000F", "001A", "001B", "001C", "001D", "001E", "001F")
"""Control characters as RFC 8259 lets them be escaped, where the case of the digits shows; five others have escapes of one letter."""

_FIELD = re.compile(r'("(?:[^"]|"")+"|[^\s:"`]+)[\s:]\s*(.+)', re.DOTALL)


def nested_kind(native: str, leaf_kind: Callable[[str], Kind | None]) -> Kind | None:
    """Return the kind of ``text[]``, ``array<string>``, ``struct<a int, "b c" text>``, ``struct<a:int>`` or ``STRUCT(a INTEGER)``.

    ``leaf_kind`` returns the kind of a type that is neither. None for any other type, and for members whose kinds are not in LEAVES.
    """
    native = native.strip()
    if array := re.fullmatch(r"(.+)\[\d*\]|array<(.+)>", native, re.DOTALL | re.IGNORECASE):
        members = [("", array[1] or array[2])]
    elif struct := re.fullmatch(r"struct[<(](.+)[>)]", native, re.DOTALL | re.IGNORECASE):
        fields = [_FIELD.fullmatch(field.strip()) for field in _split(struct[1])]
        members = [(_unquote(field[1]), field[2]) for field in fields if field]
        if len(members) < len(fields):
            return None
    else:
        return None
    kinds: list[tuple[str, Kind]] = []
    for name, type_ in members:
        kind = nested_kind(type_, leaf_kind) or leaf_kind(type_)
        if kind is None or kind.name not in LEAVES | {"nested"}:
            return None
        kinds.append((name, kind))
    return Kind("nested", members=tuple(kinds))


def _split(fields: str) -> Iterator[str]:
    """Yield the parts between commas that stand in no brackets or quotes."""
    depth, start = 0, 0
    for token in re.finditer(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|[<(]|[>)]|,", fields):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token[0], 0)
        if token[0] == "," and depth == 0:
            yield fields[start : token.start()]
            start = token.end()
    yield fields[start:]


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def has_struct(kind: Kind) -> bool:
    """Return whether there is a struct anywhere in a value of a nested kind."""
    return any(name or has_struct(member) for name, member in kind.members)


def in_key_order(kind: Kind) -> list[tuple[str, Kind]]:
    """Return the fields of a struct in the order of a JSON document's keys."""
    return sorted(kind.members, key=lambda member: (len(member[0].encode()), member[0].encode()))


def with_small_digits(json: str, replace: Callable[[str, str, str], str]) -> str:
    r"""Return SQL of a JSON document whose control characters are escaped by small hexadecimal digits: ``\u001f``, not ``\u001F``.

    ``replace`` is ``Dialect.replace``. An escaped backslash is replaced meanwhile by a control character, of which a document has none:
    what follows it is no escape.
    """
    sql = replace(json, "\\\\", "\x01")
    for digits in UPPER_CASE_ESCAPES:
        sql = replace(sql, f"\\u{digits}", f"\\u{digits.lower()}")
    return replace(sql, "\x01", "\\\\")
