"""The canonical kind that two columns share, and the plain-Python reference of every canonical text and of the row hash.

Negotiation never loses what both sides hold. The target's scale is the shared one: a target with more digits than its source
must hold zeros there, so comparing at the finer scale costs nothing and sees more; a target with fewer cannot hold the
source's last digits, so the comparison is coarser, and says so.

The reference is the oracle that every engine's SQL is tested against.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from dialects import Algorithm, Kind
from dialects._kinds import FREE_TEXT, NAMES

BAR = "|"
"""The character that the row encoding keeps for itself: what follows it says what it is."""

ESCAPED = "|0"
"""A bar in a column's own text."""

SEPARATOR = "|1"
"""What is between two columns of a row's text; escaped text never holds it."""

NULL = "|2"
"""What stands for NULL in a row's text; escaped text never holds it."""

FINE_SCALE = 18
"""Digits behind the point at which a decimal without a scale of its own is compared."""

NUMBERS = frozenset({"integer", "decimal", "year", "boolean", "bit"})
FLOATS = frozenset({"float32", "float64"})
TIMESTAMPS = frozenset({"timestamp", "timestamptz"})
PLAIN = frozenset({"integer", "decimal", "year", "date", "uuid", "bit"})
"""Kinds whose canonical text is also how a careful pipeline would have written them into a text column."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The kind that two columns are compared as, why, and what is lost by it (None: nothing)."""

    kind: Kind
    why: str
    lossy: str | None = None


def parse_kind(text: str) -> Kind:
    """The kind that a configuration's ``kind: decimal(10,2)`` means. Raises ValueError."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text)
    if not match or match.group(1) not in NAMES:
        raise ValueError(f"{text!r} is no kind; write one of {', '.join(sorted(NAMES))}")
    name, first, second = match.group(1), *(int(n) if n else None for n in match.groups()[1:])
    if name == "decimal":
        return Kind(name, first, second or 0)
    if name in ("time", "timestamp", "timestamptz", "rounded"):
        return Kind(name, scale=first)
    return Kind(name, digits=first)


def share(source: Kind, target: Kind) -> Shared | None:
    """The kind that both columns' values are compared as; None where there is none and a person has to say."""
    names = {source.name, target.name}
    if source.name == target.name:
        return _same(source, target)
    if "boolean" in names and names & {"integer", "bit"}:
        return Shared(Kind("boolean"), "a number that is not 0 is true")
    if names <= {"integer", "year", "bit"}:
        return Shared(Kind("integer", unsigned=source.unsigned or target.unsigned), "whole numbers")
    if names <= {"integer", "decimal", "year"}:
        return _numbers(_as_decimal(source), _as_decimal(target))
    if names == FLOATS:
        return Shared(Kind("float32"), "the narrower float", "the double is rounded to single precision")
    if names <= TIMESTAMPS:
        scaled = _scaled(Kind("timestamp", scale=source.scale), Kind("timestamp", scale=target.scale))
        return Shared(scaled.kind, "the side without a zone is read as UTC", scaled.lossy)
    if names <= TIMESTAMPS | {"date"}:
        if target.name == "date":
            return Shared(Kind("date"), "the target holds dates", "the time of day is left out")
        return Shared(Kind("timestamp", scale=target.scale), "a date is its midnight")
    return _with_text(source, target)


def _as_decimal(kind: Kind) -> Kind:
    """An integer as the decimal that holds it; a decimal as it is."""
    if kind.name == "decimal":
        return kind
    return Kind("decimal", 20 if kind.unsigned else 19, 0)


def _numbers(source: Kind, target: Kind) -> Shared:
    """Decimals at the target's scale; whole numbers of 64 bits as integers; at a fine scale where a column has none of its own."""
    digits = max(source.digits or 38, target.digits or 38)
    if source.scale == target.scale == 0 and digits <= 20:
        return Shared(Kind("integer", unsigned=digits > 19), "whole numbers")
    if source.scale is not None and target.scale is not None:
        return _scaled(source, target)
    whole = max((kind.digits or 0) - (kind.scale or 0) for kind in (source, target))
    scale = max(source.scale or 0, target.scale or 0, min(FINE_SCALE, 38 - whole))
    lossy = f"digits beyond {scale} behind the point are rounded"
    return Shared(Kind("decimal", None, scale), "a fine scale, because a side has none of its own", lossy)


def _same(source: Kind, target: Kind) -> Shared:
    if source.name == "decimal":
        return _numbers(source, target)
    if source.name in ("time", "timestamp", "timestamptz", "rounded"):
        return _scaled(source, target)
    if source.name == "integer":
        return Shared(Kind("integer", unsigned=source.unsigned or target.unsigned), "the same kind")
    if source.name == "json":
        return Shared(Kind("json"), "documents without blanks; keys in each engine's order, numbers in its spelling")
    return Shared(Kind(source.name, max(source.digits or 0, target.digits or 0) or None), "the same kind")


def _scaled(source: Kind, target: Kind) -> Shared:
    """Both at the target's scale."""
    scale = source.scale if target.scale is None else target.scale
    kind = Kind(target.name, target.digits, scale)
    if source.scale is not None and scale is not None and source.scale > scale:
        how = "rounded" if target.name == "decimal" else "cut"
        return Shared(kind, "the target's scale", f"the source's {source.scale} digits behind the point are {how} to {scale}")
    return Shared(kind, "the same kind" if source.scale == scale else "the target's scale; the source has zeros there")


def _with_text(source: Kind, target: Kind) -> Shared | None:
    names = {source.name, target.name}
    if names <= FREE_TEXT:
        if "json" in names:
            return Shared(Kind("json"), "documents without blanks between their tokens")
        if "char" in names:
            return Shared(Kind("char"), "blanks at the end of fixed-width text mean nothing")
        return Shared(Kind("text"), "characters")
    if names & (FREE_TEXT - {"json"}) and names & PLAIN:
        typed = source if source.name in PLAIN else target
        return Shared(typed, f"the text column is taken to hold the {typed.name}'s digits as they are")
    return None


def can_render(kind: Kind, native: Kind) -> bool:
    """Whether a column whose own kind is ``native`` can be compared as ``kind`` when a person asks for it."""
    if native.name == kind.name or native.name in FREE_TEXT:
        return kind.name not in ("float32", "float64", "rounded", "interval", "binary") or native.name == kind.name
    allowed: dict[str, frozenset[str]] = {
        "boolean": NUMBERS,
        "integer": NUMBERS,
        "year": NUMBERS,
        "decimal": NUMBERS,
        "rounded": NUMBERS | FLOATS,
        "float32": FLOATS,
        "float64": FLOATS,
        "date": TIMESTAMPS,
        "timestamp": TIMESTAMPS | {"date"},
        "timestamptz": TIMESTAMPS | {"date"},
        "uuid": frozenset({"binary"}),
    }
    return native.name in allowed.get(kind.name, frozenset())


# The reference: canonical text and row hash in plain Python.


def text(kind: Kind, value: Any) -> str | None:
    """Canonical text of a Python value as ``kind``; None for None.

    Values are bool, int, Decimal, float, str, bytes, date, time or timedelta, datetime (naive ones are UTC), UUID, and
    (months, days, microseconds) for an interval.
    """
    if value is None:
        return None
    match kind.name:
        case "boolean":
            return "1" if value else "0"
        case "integer" | "year":
            return str(int(value))
        case "decimal":
            return _decimal(Decimal(value), kind.scale or 0)
        case "rounded":
            return _rounded(value, kind.scale or 0)
        case "float64":
            return _float(float(value))
        case "float32":
            return _float(struct.unpack("f", struct.pack("f", value))[0])
        case "binary":
            return bytes(value).hex()
        case "date":
            return f"{value.year:04}-{value.month:02}-{value.day:02}"
        case "time":
            return _fraction(clock := _clock(value), len(clock) - 7, kind.scale)
        case "timestamp" | "timestamptz":
            return _fraction(_timestamp(value), 19, kind.scale)
        case "uuid":
            return str(uuid.UUID(str(value)))
        case "bit":
            return f"{int(value):0{kind.digits or 1}b}"
        case "interval":
            return "{}m{}d{}us".format(*value)
        case "json":
            return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda token: token.group(1) or "", str(value))
        case "char":
            return str(value).rstrip(" ")
        case _:
            return str(value)


def _decimal(value: Decimal, scale: int) -> str:
    quantum = Decimal(1).scaleb(-scale)
    rounded = value.quantize(quantum, ROUND_HALF_UP, Context(prec=2000))
    return f"{rounded if rounded else abs(rounded):f}"


def _rounded(value: Any, scale: int) -> str:
    if not isinstance(value, float):
        return _decimal(Decimal(value).scaleb(scale, Context(prec=2000)), 0)
    if not abs(value) < float(f"9e{18 - scale}"):
        return _float(value)
    units = math.floor(abs(value) * 10.0**scale + 0.5)
    return str(-units if value < 0 else units)


def _float(value: float) -> str:
    """``<m>p<e>`` with value = m * 2^(e-53); see ``Dialect.float_text``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    size = abs(value)
    shift = 1000 if size < 1e-270 else 0
    size *= 2.0**shift
    exponent = math.floor(math.log2(size) + 0.3721)
    return f"{'-' if value < 0 else ''}{int(size * 2.0 ** (53 - exponent))}p{exponent - shift}"


def _clock(value: dt.time | dt.timedelta) -> str:
    if isinstance(value, dt.time):
        return value.isoformat("microseconds")
    micros = abs(value) // dt.timedelta(microseconds=1)
    seconds, fraction = divmod(micros, 1_000_000)
    sign = "-" if value < dt.timedelta() else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _timestamp(value: dt.datetime | dt.date) -> str:
    if not isinstance(value, dt.datetime):
        return f"{value.year:04}-{value:%m-%d} 00:00:00.000000"
    at = value.astimezone(dt.UTC) if value.tzinfo else value
    return f"{at.year:04}-{at:%m-%d %H:%M:%S}.{at.microsecond:06}"


def _fraction(whole: str, width: int, scale: int | None) -> str:
    if scale is None or scale == 6:
        return whole
    if scale > 6:
        return whole + "0" * (scale - 6)
    return whole[: width + 1 + scale] if scale else whole[:width]


def readable(kind: Kind, canonical: str | None) -> str | None:
    """Canonical text as a person writes the value: floats as the shortest decimal that reads back as them, all else as it is."""
    if kind.name not in FLOATS:
        return canonical
    match = re.fullmatch(r"(-?)(\d+)p(-?\d+)", canonical or "")
    if match is None:
        return "0.0" if canonical == "0" else canonical
    sign, mantissa, exponent = match.groups()
    value = math.ldexp(int(mantissa), int(exponent) - 53)
    return sign + repr(value)


def row_text(texts: Sequence[str | None]) -> str:
    """The injective row text: each canonical text escaped, NULL its own mark, joined by a separator no text can hold."""
    return SEPARATOR.join(NULL if t is None else t.replace(BAR, ESCAPED) for t in texts)


def published_row_text(texts: Sequence[str | None]) -> str:
    """The published row text: NULL is the word NULL, and nothing separates the texts."""
    return "".join("NULL" if t is None else t for t in texts)


def row_hash(row: str, algorithm: Algorithm = "sha256") -> str:
    """The row hash as lower-case hexadecimal digits."""
    return hashlib.new(algorithm, row.encode()).hexdigest()


def word(digits: str, first: int, count: int) -> int:
    """The ``count`` hexadecimal digits from the 1-based ``first`` on, as an integer."""
    return int(digits[first - 1 : first - 1 + count], 16)
