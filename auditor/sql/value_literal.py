"""SQL literals of Python values, as a column of a kind stores them."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from auditor import canonical
from dialects import Dialect, Kind


def value_literal(dialect: Dialect, kind: Kind, value: Any, *, plain: bool = False) -> str:
    """Return the SQL literal that stores a value in a column of the dialect's native type of that kind.

    Values are those of ``auditor.canonical.text``. A ``plain`` one has no cast, for ``Dialect.typed_value``.
    """
    if value is None:
        return "NULL"
    if kind.name == "boolean":
        return "TRUE" if value else "FALSE"
    if kind.name in ("integer", "year", "decimal"):
        return f"{value:f}" if isinstance(value, Decimal) else str(int(value))
    if kind.name in canonical.FLOATS:
        return dialect.double_literal(repr(value).replace("nan", "NaN").replace("inf", "Infinity"))
    if kind.name == "binary":
        return dialect.binary_literal(value)
    text = _text(kind, value, dialect.LITERALS_NEED_CAST)
    if kind.name == "bit" and not dialect.LITERALS_NEED_CAST:
        return f"b'{text}'"
    written = dialect.string_literal(text)
    if plain or (kind.is_free_text and kind.name != "json") or not dialect.LITERALS_NEED_CAST:
        return written
    return dialect.typed_value(written, kind)


def _text(kind: Kind, value: Any, zoned: bool) -> str:
    if kind.name == "interval":
        months, days, micros = value
        return f"{months} months {days} days {micros // 1_000_000}.{micros % 1_000_000:06} seconds"
    if kind.name == "timestamptz":
        return str(canonical.text(kind, value)) + ("+00:00" if zoned else "")
    if kind.name == "uuid":
        return str(uuid.UUID(str(value)))
    text = canonical.text(kind, value)
    assert text is not None
    return text
