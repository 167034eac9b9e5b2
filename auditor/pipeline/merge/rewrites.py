"""Find statements that may have changed values of rows without an event, where the columns before and after them do not show it.

`ALTER TABLE t MODIFY price DECIMAL(10,1)`, and back to DECIMAL(10,2) before the next event, leaves the same columns and other values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auditor.model import TableNote
from auditor.pipeline.binlog.sql_tokens import tokens
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.pipeline.schema_differences import keeps_values
from auditor.pipeline.table_ops import ops_of

_NAMES = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint", "int4": "int", "int8": "bigint",
    "bool": "tinyint", "boolean": "tinyint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "real": "double",
    "float8": "double", "float4": "float", "character": "char", "nchar": "char", "nvarchar": "varchar", "varcharacter": "varchar",
}  # fmt: skip
_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SIZES = {
    **dict(zip(("tinytext", "text", "mediumtext", "longtext"), (1, 2, 3, 4), strict=True)),
    **dict(zip(("tinyblob", "blob", "mediumblob", "longblob"), (1, 2, 3, 4), strict=True)),
}
_ALL_CHARACTERS = ("utf8mb4", "utf16", "utf16le", "utf32", "gb18030")
"""Character sets that have each character of every other one."""


FILLED = "became part of the key in a session that is not strict, which made other values of NULLs"


TIMED = "has no NULL since, of which a server, whether or not its session is strict, may have made the time of the statement"
"""Of a TIMESTAMP: https://mariadb.com/kb/en/timestamp/, https://dev.mysql.com/doc/refman/9.4/en/timestamp-initialization.html"""


@dataclass(frozen=True, slots=True)
class _Type:
    """A type as a statement or the catalogue writes it."""

    name: str
    arguments: tuple[str, ...]
    unsigned: bool


def find_hidden(old: TableSchema, new: TableSchema, changes: Sequence[TableNote]) -> dict[int, str]:
    """Return by position why a statement may have changed values of rows, of those whose effect the schemas do not show.

    ``old`` is the schema of the rows that are there, ``new`` that of the next event, ``changes`` are the statements between them.
    """
    found: dict[int, str] = {}
    before = {column.name.lower(): column for column in old.columns}
    origins = dict(before)
    after = {column.name.lower(): column for column in new.columns}
    doubts: list[tuple[int, str, str]] = []
    for note in changes:
        for op in ops_of(note.body):
            name = str(op.get("column", op.get("from", ""))).lower()
            if op["op"] == "convert":
                doubts += [(note.position, one, why) for one, column in before.items() if (why := _converted(column, op))]
            if op["op"] == "key":
                filled = [one for name in op["columns"] if (one := str(name).lower()) in before and before[one].nullable]
                doubts += [(note.position, one, FILLED) for one in filled if not op["strict"]]
                before |= {one: replace(before[one], nullable=False) for one in filled}
            if op["op"] in ("drop", "add"):
                before.pop(name, None)
                origins.pop(name, None)
            if name not in before or op["op"] not in ("modify", "rename"):
                continue
            now = str(op.get("to", name)).lower()
            if why := _rewritten(before[name], op, is_required=now in after and not after[now].nullable):
                doubts.append((note.position, name, why))
            column, origin = before.pop(name), origins.pop(name)
            before[now], origins[now] = _changed(column, op), origin
            doubts = [(position, now if one == name else one, why) for position, one, why in doubts]
    for position, name, why in doubts:
        if name in origins and name in after and not _is_shown(origins[name], after[name]):
            found.setdefault(position, f"{old.database}.{old.table}.{after[name].name} {why}")
    return found


def _is_shown(old: ColumnSchema, new: ColumnSchema) -> bool:
    """Return whether the types alone say that values may have changed, so that the table stops without this."""
    kinds = source_kind(old), source_kind(new)
    return kinds[0] is None or kinds[1] is None or not keeps_values(kinds[0], kinds[1])


def _changed(column: ColumnSchema, op: Mapping[str, Any]) -> ColumnSchema:
    if "type" not in op:
        return column
    return replace(column, type=op["type"], nullable=op["nullable"], charset=op["charset"] or column.charset)


def _converted(column: ColumnSchema, op: Mapping[str, Any]) -> str:
    if column.charset is None or "charset" not in op or op["strict"] or _has_all(column.charset, op["charset"]):
        return ""
    return f"was converted from {column.charset} to {op['charset'] or 'the default character set'}, which may have lost characters"


def _rewritten(column: ColumnSchema, op: Mapping[str, Any], *, is_required: bool) -> str:
    """Return why values of a column may be others behind a statement; '' if they are not. ``is_required``: in the end it has no NULL."""
    if "type" not in op:
        return ""  # it was noted before this was looked at, or gives the column another name alone
    if op.get("computed"):
        return "is computed from other columns by that statement, which may have changed values"
    if column.nullable and (is_required or not op["nullable"]) and "timestamp" in (_type(column.type).name, _type(op["type"]).name):
        return TIMED
    if op["type"] and (op["strict"] or not column.nullable or op["nullable"]):
        old, new = _type(column.type), _type(op["type"])
        charset_stays = op["strict"] or not op["charset"] or column.charset is None or _has_all(column.charset, op["charset"])
        if old == new and charset_stays:
            return ""
        if charset_stays and _keeps(old, new, op["strict"]):
            return ""
    was = f"{column.type}{'' if column.nullable else ' NOT NULL'}"
    return f"became {op['type'] or 'another type'}{'' if op['nullable'] else ' NOT NULL'} and was {was}, which may have changed values"


def _has_all(old: str, new: str) -> bool:
    """Return whether a character set has all characters of another one."""
    return old == new or new in _ALL_CHARACTERS or old == "ascii"


def _type(text: str) -> _Type:
    left = tokens(text)
    words = [one.text.lower() for one in left if one.kind == "word"]
    name = _NAMES.get(words[0], words[0]) if words else ""
    if words[1:2] == ["varying"]:
        name = f"var{name}"
    if words[:1] == ["national"]:
        name = "varchar" if "varying" in words[1:3] or words[1:2] == ["varchar"] else "char"
    texts = [one.text for one in left]
    arguments = texts[texts.index("(") + 1 : texts.index(")")] if "(" in texts and ")" in texts else []
    found = tuple(one for one in arguments if one != ",")
    if name in _INTEGERS or name == "year":
        found = ()  # how wide it is shown
    defaults = {
        "decimal": ("10", "0"),
        "char": ("1",),
        "binary": ("1",),
        "bit": ("1",),
        "datetime": ("0",),
        "timestamp": ("0",),
        "time": ("0",),
    }
    return _Type(name, (*found, *defaults.get(name, ())[len(found) :]), "unsigned" in words or "zerofill" in words)


def _keeps(old: _Type, new: _Type, strict: bool) -> bool:
    """Return whether every value stays what it is, or a strict session would have refused the statement."""
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return strict or _spans(_range(old), _range(new))
    if old.name in _SIZES and new.name in _SIZES:
        return old.name.endswith("text") == new.name.endswith("text") and (strict or _SIZES[old.name] <= _SIZES[new.name])
    if old.name == "varchar" and new.name in ("text", "mediumtext", "longtext"):
        return True
    if (old.name, new.name) == ("char", "varchar"):
        return strict or int(new.arguments[0]) >= int(old.arguments[0])
    if old.name != new.name:
        return False
    if old.name == "decimal":
        digits, scales = zip(*((int(one.arguments[0]) - int(one.arguments[1]), int(one.arguments[1])) for one in (old, new)), strict=True)
        return scales[1] >= scales[0] and (strict or (digits[1] >= digits[0] and old.unsigned >= new.unsigned))
    if old.name in ("datetime", "timestamp", "time"):
        return int(new.arguments[0]) >= int(old.arguments[0])
    if old.name in ("char", "varchar", "varbinary", "bit"):
        return strict or int(new.arguments[0]) >= int(old.arguments[0])
    if old.name == "enum":
        return strict or set(old.arguments) <= set(new.arguments)
    if old.name == "set":
        return tuple(one for one in new.arguments if one in old.arguments) == old.arguments
    return old == new


def _range(one: _Type) -> tuple[int, int]:
    bits = _INTEGERS[one.name]
    return (0, 2**bits - 1) if one.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _spans(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
