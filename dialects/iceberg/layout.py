"""How the columns of a Parquet file become those of an Iceberg table: found by their ids, and read in the table's types.

A file's names mean nothing, as columns may have been renamed since: a column is found by the id that the file gives it. In a file without
any ids, as of tables taken over from Hive, the table's name mapping says which name has which id.

https://iceberg.apache.org/spec/#column-projection
https://iceberg.apache.org/spec/#parquet
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dialects import errors

NATIVE = {
    "boolean": "BOOLEAN", "int": "INTEGER", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE", "time": "TIME",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "timestamp_ns": "TIMESTAMP_NS", "string": "VARCHAR",
    "uuid": "UUID", "binary": "BLOB",
}  # fmt: skip
"""DuckDB's types by those of the format that are read."""

EXACT = {
    "INTEGER": ("TINYINT", "SMALLINT"), "BIGINT": ("TINYINT", "SMALLINT", "INTEGER"), "DOUBLE": ("FLOAT",),
    "TIMESTAMP": ("DATE", "TIMESTAMP_MS", "TIMESTAMP_S"),
}  # fmt: skip
"""Types of files whose every value is one of the table's type: those from which a column may have been promoted, or that readers take.
https://iceberg.apache.org/spec/#schema-evolution"""


class Unreadable(Exception):
    """A column is not read, for the reason that the message is, as a clause."""


@dataclass(frozen=True, slots=True)
class Node:
    """A column of a file, or a part of one."""

    name: str
    id: int | None
    native: str
    """DuckDB's type."""
    physical: str
    """Parquet's type, with its length if it has one: ``INT96``, ``FIXED_LEN_BYTE_ARRAY(16)``."""
    children: tuple[Node, ...] = ()
    """Fields of a struct; the element of a list, nameless; key and value of a map."""


def read_layouts(rows: Sequence[Sequence[Any]]) -> Mapping[str, tuple[Node, ...]]:
    """Return the columns of files by their paths, of the rows of `LAYOUT_COLUMNS` of DuckDB's parquet_schema."""
    by_file: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        by_file.setdefault(str(row[0]), []).append(row)
    return {path: _tree(iter(lines)).children for path, lines in by_file.items()}


LAYOUT_COLUMNS = "file_name, name, type, type_length, num_children, repetition_type, field_id, duckdb_type"


def _tree(lines: Iterator[Sequence[Any]]) -> Node:
    _, name, physical, length, children, repetition, number, native = next(lines)
    inner = tuple(_tree(lines) for _ in range(int(children or 0)))
    kind = re.sub(r"\bTIMESTAMPTZ\b", "TIMESTAMP WITH TIME ZONE", str(native or ""))
    if repetition == "REPEATED":
        pass
    elif kind.endswith("[]"):  # https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists
        inner = inner[0].children if len(inner) == 1 and len(inner[0].children) == 1 else ()
    elif kind.startswith("MAP("):
        inner = inner[0].children if len(inner) == 1 and len(inner[0].children) == 2 else ()
    text = f"{physical or ''}{f'({length})' if length else ''}"
    return Node(str(name), None if number is None else int(number), kind, text, inner)


def with_ids(columns: tuple[Node, ...], mapping: Any) -> tuple[Node, ...]:
    """Return a file's columns with ids: its own, or those of a name mapping of pyiceberg. Raises Unreadable where there are neither."""
    if any(_has_ids(node) for node in columns):
        return columns
    if mapping is None:
        raise Unreadable("its files have no ids of columns, and the table has no schema.name-mapping.default")
    return _mapped(columns, list(mapping))


def _has_ids(node: Node) -> bool:
    return node.id is not None or any(_has_ids(child) for child in node.children)


def _mapped(columns: tuple[Node, ...], fields: Sequence[Any], names: Sequence[str] = ()) -> tuple[Node, ...]:
    found = []
    for place, node in enumerate(columns):
        name = names[place] if names else node.name
        field = next((one for one in fields if name in one.names), None)
        inner = ("element",) if node.native.endswith("[]") else ("key", "value") if node.native.startswith("MAP(") else ()
        if field is None:
            found.append(replace(node, id=None, children=()))
        else:
            found.append(replace(node, id=field.field_id, children=_mapped(node.children, list(field.fields), inner)))
    return tuple(found)


def native_type(kind: Any, quote: Any) -> str:
    """Return DuckDB's type of a type of the format; '' where it has none."""
    if kind.is_struct:
        parts = [(field.name, native_type(field.field_type, quote)) for field in kind.fields]
        known = bool(parts) and all(native for _, native in parts)
        return f"STRUCT({', '.join(f'{quote(name)} {native}' for name, native in parts)})" if known else ""
    text = str(kind)
    if text.startswith("list<"):
        inner = native_type(kind.element_type, quote)
        return f"{inner}[]" if inner else ""
    if text.startswith("map<"):
        key, value = native_type(kind.key_type, quote), native_type(kind.value_type, quote)
        return f"MAP({key}, {value})" if key and value else ""
    if decimal := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", text):
        return f"DECIMAL({decimal[1]},{decimal[2]})"
    return "BLOB" if text.startswith("fixed[") else NATIVE.get(text, "")


class Columns:
    """How values are read from files of one layout, as SQL of DuckDB."""

    def __init__(self, quote: Any, literal: Any) -> None:
        self.quote = quote
        self.literal = literal

    def value(self, field: Any, columns: tuple[Node, ...], row: str) -> str:
        """Return the value of a table's column in the rows ``row`` of a file that has it. Raises Unreadable."""
        node = find(field.field_id, columns)
        assert node is not None
        return self._read(field.field_type, node, f"{row}.{self.quote(node.name)}", 0)

    def missing(self, field: Any) -> str:
        """Return what rows have in a column that is younger than their file. Raises Unreadable."""
        native = native_type(field.field_type, self.quote)
        if field.initial_default is not None:
            return self.constant(field.field_type, field.initial_default)
        return f"CAST(NULL AS {native})"

    def constant(self, kind: Any, value: Any) -> str:
        """Return a value of the metadata, as pyiceberg has it, as a value of the table's type. Raises Unreadable."""
        from pyiceberg.conversions import to_json

        native = native_type(kind, self.quote)
        if value is None:
            return f"CAST(NULL AS {native})"
        try:
            text: Any = to_json(kind, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"the metadata have a value of {kind} that is not read") from error
        written = self.literal(str(text).lower() if isinstance(text, bool) else str(text))
        return f"UNHEX({written})" if native == "BLOB" else f"CAST({written} AS {native})"

    def _read(self, kind: Any, node: Node, value: str, depth: int) -> str:
        native = native_type(kind, self.quote)
        if not native:
            raise Unreadable(f"a {kind} is read by Spark only")
        if kind.is_struct:
            return self._read_struct(kind, node, value, depth)
        if str(kind).startswith("list<"):
            if len(node.children) != 1 or node.native != f"{node.children[0].native}[]":
                raise Unreadable(f"its files hold {node.native}")
            inner = self._read(kind.element_type, node.children[0], f"v{depth}", depth + 1)
            return value if inner == f"v{depth}" else f"LIST_TRANSFORM({value}, lambda v{depth}: {inner})"
        if str(kind).startswith("map<"):
            if len(node.children) != 2 or node.native != f"MAP({', '.join(child.native for child in node.children)})":
                raise Unreadable(f"its files hold {node.native}")
            pairs = zip((kind.key_type, kind.value_type), node.children, strict=True)
            if [self._read(one, child, "v", depth + 1) for one, child in pairs] != ["v", "v"]:
                raise Unreadable(f"its files hold {node.native}")
            return value
        return self._read_leaf(str(kind), native, node, value)

    def _read_leaf(self, kind: str, native: str, node: Node, value: str) -> str:
        if kind == "uuid" and node.native == "BLOB" and node.physical == "FIXED_LEN_BYTE_ARRAY(16)":
            return f"CAST(HEX({value}) AS UUID)"
        if kind == "timestamptz" and node.physical == "INT96":  # which says nothing of a zone, and is in UTC
            return f"CAST({value} AS {native})"
        if node.native == native and node.physical != "INT96":
            return value
        if node.physical != "INT96" and (node.native in EXACT.get(native, ()) or _widens(node.native, native)):
            return f"CAST({value} AS {native})"
        raise Unreadable(f"its files hold {node.native}{' as INT96' if node.physical == 'INT96' else ''}")

    def _read_struct(self, kind: Any, node: Node, value: str, depth: int) -> str:
        if not node.native.startswith("STRUCT(") or not kind.fields:
            raise Unreadable(f"its files hold {node.native}")
        refuse_equal_names([child.name for child in node.children])
        parts, is_same = [], [field.name for field in kind.fields] == [child.name for child in node.children]
        for field in kind.fields:
            child = find(field.field_id, node.children)
            if child is None:
                inner, is_same = self.missing(field), False
            else:
                plain = f"STRUCT_EXTRACT({value}, {self.literal(child.name)})"
                inner = self._read(field.field_type, child, plain, depth)
                is_same = is_same and inner == plain and child.name == field.name
            parts.append(f"{self.quote(field.name)} := {inner}")
        return value if is_same else f"CASE WHEN {value} IS NULL THEN NULL ELSE STRUCT_PACK({', '.join(parts)}) END"


def find(number: int, columns: Sequence[Node]) -> Node | None:
    """Return the column with an id; None if there is none. Raises Unreadable for several."""
    found = [node for node in columns if node.id == number]
    if len(found) > 1:
        raise Unreadable(f"its files have the id {number} twice")
    return found[0] if found else None


def refuse_equal_names(names: Sequence[str]) -> None:
    """Raise Unreadable for names that differ by the case of their letters alone, which DuckDB takes for one."""
    folded = [name.lower() for name in names]
    if twice := next((name for name in names if folded.count(name.lower()) > 1), None):
        raise Unreadable(f"its files have several columns {twice}, in small letters and capitals")


def _widens(held: str, wanted: str) -> bool:
    """Return whether a decimal type has all values of another."""
    pattern = r"DECIMAL\((\d+),(\d+)\)"
    narrow, wide = re.fullmatch(pattern, held), re.fullmatch(pattern, wanted)
    return bool(narrow and wide and narrow[2] == wide[2] and int(narrow[1]) <= int(wide[1]))


def check_columns(name: str, columns: Sequence[Any]) -> None:
    """Raise StatementRefused for a table of which two columns differ by the case of their letters alone."""
    try:
        refuse_equal_names([column.name for column in columns])
    except Unreadable as error:
        raise errors.StatementRefused(f"{name}: {str(error).replace('its files have', 'it has')}, which DuckDB takes for one") from error
