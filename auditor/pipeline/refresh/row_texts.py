"""Read rows of the source as texts of events, and its columns as its log would describe them."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from typing import Any

from auditor.pipeline.binlog import column_types
from auditor.pipeline.binlog.row_decoder import HIDDEN_TEXTS
from auditor.pipeline.binlog.value_text import double_text, float_text
from auditor.pipeline.events import ColumnSchema
from auditor.pipeline.kinds import source_kind
from auditor.pipeline.refresh.keys import quote

_WIDTH = re.compile(rf"^({'|'.join(sorted(column_types.INTEGER_NAMES.values()))}|year(?=\(4)|float|double)\(\d+(,\d+)?\)")


def logged_columns(described: Sequence[tuple[Any, ...]]) -> tuple[ColumnSchema, ...]:
    """Return columns, of which the catalogue gave name, type, character set, collation and nullability, as the log describes them."""
    return tuple(ColumnSchema(name, _logged_type(native), null, charset) for name, native, charset, _, null in described)


def _logged_type(native: str) -> str:
    """Return a type without what the log does not hold: how wide a number is shown."""
    text = _WIDTH.sub(r"\1", native)
    return text if "(" in text and text.startswith(("enum", "set")) else text.replace(" zerofill", "")


def event_text(column: ColumnSchema) -> str:
    """Return SQL for the text of a column; of floating-point ones SQL for the number, which servers print in several ways."""
    kind, quoted = source_kind(column), quote(column.name)
    if _type_name(column) in ("float", "double"):
        return f"{quoted} + 0e0"
    if kind is None or kind.name == "binary":
        return f"LOWER(HEX({quoted}))"
    if kind.name in ("integer", "bit") or "unsigned" in column.type:
        return f"CAST({quoted} + 0 AS CHAR)"  # without the zeros of ZEROFILL
    return quoted if kind.is_free_text else f"CAST({quoted} AS CHAR)"


def event_rows(columns: Sequence[ColumnSchema], rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Return rows of ``event_text`` as texts of events."""
    texts = [_text_function(column) for column in columns]
    return [[None if value is None else text(value) for text, value in zip(texts, row, strict=True)] for row in rows]


def _text_function(column: ColumnSchema) -> Callable[[Any], str]:
    if _type_name(column) in ("float", "double"):
        return float_text if _type_name(column) == "float" else double_text
    if column.type == "inet6":
        return lambda text: HIDDEN_TEXTS["inet6"](socket.inet_pton(socket.AF_INET6, text))  # MariaDB shortens a single zero as well
    return str


def pieces(rows: list[list[str | None]], characters: int) -> list[list[list[str | None]]]:
    """Return the rows in pieces of about so many characters, each with a row at least; one empty piece for no rows."""
    batches: list[list[list[str | None]]] = [[]]
    left = characters
    for row in rows:
        size = sum(len(text or "") + 4 for text in row)
        if batches[-1] and size > left:
            batches.append([])
            left = characters
        batches[-1].append(row)
        left -= size
    return batches


def _type_name(column: ColumnSchema) -> str:
    return column.type.split(" ")[0]
