"""SQL literals: of canonical texts, so that a column holds exactly the value of the text, and of Python values."""

from __future__ import annotations

import math
import re
import uuid
from decimal import Decimal, InvalidOperation
from typing import Any

from auditor import canonical
from auditor.errors import ValueRefused
from dialects import Dialect, Kind
from dialects.kinds import FREE_TEXT_KINDS

WHOLE = {False: (-(2**63), 2**63 - 1), True: (0, 2**64 - 1)}
"""The least and greatest integer of 64 bits, by whether it is unsigned."""

DAY = 24 * 3600
"""Seconds of a day."""

_LABELS = re.compile(r"(?:enum|set)\((.*)\)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_INTERVAL = re.compile(r"(-?\d+)m(-?\d+)d(-?\d+)us")
_CLOCK = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.\d+)?")


def canonical_literal(dialect: Dialect, kind: Kind, text: str | None, native: Kind, native_type: str) -> str:
    """Return the literal that stores the value of a canonical text of ``kind`` in a column.

    ``native`` is the kind of the column's own type, which the catalogue writes ``native_type``. Raises ValueRefused, with a clause that
    says why and shows no value, for a value that cannot be written exactly.
    """
    if text is None:
        return "NULL"
    match native.name:
        case "boolean":
            return "TRUE" if _number(kind, text) else "FALSE"
        case "integer" | "year":
            return _whole(kind, text, native)
        case "decimal":
            return _decimal(kind, text, native, dialect)
        case "float32" | "float64":
            return _float(kind, text, native, dialect)
        case "binary":
            return dialect.names.binary_literal(uuid.UUID(text).bytes if kind.name == "uuid" else bytes.fromhex(text))
        case "bit":
            digits = text if kind.name == "bit" else f"{int(_number(kind, text)):0{native.digits or 1}b}"
            return dialect.names.string_literal(digits) if dialect.types.LITERALS_NEED_CAST else f"b'{digits}'"
        case "date" | "timestamp" | "timestamptz":
            return dialect.names.string_literal(_time(text, native, dialect))
        case "time":
            return dialect.names.string_literal(_clock(text, dialect))
        case "interval":
            return dialect.names.string_literal(_interval(text))
        case "json":
            return dialect.types.document(dialect.names.string_literal(_characters(text, dialect)))
        case "uuid" | "network":
            return dialect.names.string_literal(text)
        case name if name in FREE_TEXT_KINDS:
            return dialect.names.string_literal(
                _characters(_labelled(_without_hyphens(text, kind, native, native_type), native_type), dialect)
            )
    raise ValueRefused(f"a value of {native_type} cannot be written as a literal")


def _number(kind: Kind, text: str) -> Decimal:
    """Return the number that a text of a numeric kind means."""
    if kind.name == "bit":
        return Decimal(int(text, 2))
    try:
        return Decimal(str(canonical.readable(kind, text)))
    except InvalidOperation:
        raise ValueRefused("a text that is no number") from None


def _whole(kind: Kind, text: str, native: Kind) -> str:
    number = _number(kind, text)
    least, greatest = WHOLE[native.unsigned]
    if not number.is_finite() or number != number.to_integral_value(context=canonical.EXACT):
        raise ValueRefused("a number with a fraction, in a column of whole numbers")
    if not least <= number <= greatest:
        raise ValueRefused("a whole number beyond the range of its column")
    return str(int(number))


def _decimal(kind: Kind, text: str, native: Kind, dialect: Dialect) -> str:
    number = _number(kind, text)
    if not number.is_finite():
        raise ValueRefused("a number that is not finite, in a column of decimals")
    written = f"{number:f}"
    whole, _, fraction = written.lstrip("-").partition(".")
    if native.scale is not None and len(fraction.rstrip("0")) > native.scale:
        raise ValueRefused(f"more digits after the point than the {native.scale} of its column, which would be rounded in silence")
    digits = dialect.types.MAX_DECIMAL_DIGITS if native.digits is None else native.digits - (native.scale or 0)
    if len(whole.lstrip("0")) > digits:
        raise ValueRefused(f"more digits before the point than the {digits} of its column")
    return written


def _float(kind: Kind, text: str, native: Kind, dialect: Dialect) -> str:
    value = float(str(canonical.readable(kind, text)))
    if math.isfinite(value):
        if native.name == "float32" and float(canonical.readable(native, canonical.text(native, value)) or 0) != value:
            raise ValueRefused("a number of double precision, in a column of single precision")
        return dialect.numbers.double_literal(repr(value))
    if why := {**dialect.types.UNSUPPORTED_VALUES, **dialect.types.UNTRIED_VALUES}.get("nan"):
        raise ValueRefused(f"NaN or an infinity: {why}")
    return dialect.numbers.double_literal(repr(value).replace("nan", "NaN").replace("inf", "Infinity"))


def _time(text: str, native: Kind, dialect: Dialect) -> str:
    try:
        written = dialect.names.written_time(text)
    except LookupError as why:
        raise ValueRefused(str(why.args[0])) from None
    is_moment = native.name == "timestamptz" and dialect.types.LITERALS_NEED_CAST and "infinity" not in text
    if is_moment and " " not in text.removesuffix(" BC"):
        written = f"{written} 00:00:00"
    era = " BC" if written.endswith(" BC") else ""
    return f"{written.removesuffix(' BC')}+00:00{era}" if is_moment else written


def _clock(text: str, dialect: Dialect) -> str:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueRefused("a text that is no time of day")
    hours, minutes, seconds = (int(part) for part in match.groups()[1:])
    total = hours * 3600 + minutes * 60 + seconds
    if not dialect.types.LONG_CLOCKS and (match[1] or total > DAY or (total == DAY and text.strip("0:24.") != "")):
        raise ValueRefused("a time beyond the 24 hours of a day")
    return text


def _interval(text: str) -> str:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueRefused("a text that is no interval")
    months, days, micros = map(int, match.groups())
    sign = "-" if micros < 0 else ""
    return f"{months} months {days} days {sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06} seconds"


def _characters(text: str, dialect: Dialect) -> str:
    if "\0" in text and (why := dialect.types.UNSUPPORTED_VALUES.get("NUL in text")):
        raise ValueRefused(f"a text with the character U+0000: {why}")
    return text


def _labelled(text: str, native_type: str) -> str:
    """Return the text, unless it is no label of its enum or set: MySQL reads such a text as a number."""
    listed = _LABELS.match(native_type)
    if listed is None:
        return text
    labels = {label.replace("''", "'") for label in _LABEL.findall(listed[1])}
    wanted = {text} if native_type[:4].lower() == "enum" else set(text.split(",")) - {""}
    if wanted - labels:
        raise ValueRefused(f"a label that its {native_type.partition('(')[0]} does not list")
    return text


def _without_hyphens(text: str, kind: Kind, native: Kind, native_type: str) -> str:
    is_short = kind.name == "uuid" and (native.digits == 32 or "(32)" in native_type)
    return text.replace("-", "") if is_short else text


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
        return dialect.numbers.double_literal(repr(value).replace("nan", "NaN").replace("inf", "Infinity"))
    if kind.name == "binary":
        return dialect.names.binary_literal(value)
    text = _text(kind, value, dialect.types.LITERALS_NEED_CAST)
    if kind.name == "bit" and not dialect.types.LITERALS_NEED_CAST:
        return f"b'{text}'"
    written = dialect.names.string_literal(text)
    if plain or (kind.is_free_text and kind.name != "json") or not dialect.types.LITERALS_NEED_CAST:
        return written
    return dialect.types.typed_value(written, kind)


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
