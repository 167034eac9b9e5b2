"""Canonical kinds, canonical texts and the row hash: the kind that two columns share, and a reference in plain Python.

The shared kind preserves everything that both sides store. Its scale is the target's: a target with more digits than its source
must hold zeros there, so comparing at the finer scale is free and more exact; a target with fewer digits cannot hold the source's
last ones, so the comparison is coarser, and the plan's list of what is not compared says so.

Row texts are encoded in one of two ways. ``injective``: in each canonical text ``|`` becomes ``|0``, NULL is ``|2``, and ``|1``
separates columns, so that different rows have different texts. ``published``: texts are concatenated, and NULL is the word NULL.

The SQL of every engine is tested against the reference.
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
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal

from dialects import HashAlgorithm, Kind
from dialects.hashes import PIECE_BYTES
from dialects.kinds import FREE_TEXT_KINDS, KIND_NAMES, Rounding

VERSION = 3
"""Version of canonical texts, of their encoding as row texts, and of the numbers of keys: what was computed under another version is
never compared with what is computed now. Raise it when any of them changes."""

BAR = "|"
"""Escape character of the row encoding: the character after it gives its meaning."""

ESCAPED = "|0"
"""A bar in a column's text."""

SEPARATOR = "|1"
"""Separator of columns in a row text; escaped text never contains it."""

NULL = "|2"
"""NULL in a row text; escaped text never contains it."""

MICROSECOND = dt.timedelta(microseconds=1)

EXACT = Context(prec=2000)
"""Arithmetic of decimals without rounding."""

FULL_DECIMAL = Kind("decimal")
"""Decimals with all their digits, whatever their scale."""

TEXT_KINDS = frozenset({"text", "char", "enum", "set"})
NUMBERS = frozenset({"integer", "decimal", "year", "boolean", "bit"})
FLOATS = frozenset({"float32", "float64"})
EXACT_NUMBERS = frozenset({"integer", "decimal", "year", "boolean"})
"""Numbers that can be compared with floats."""
TIMESTAMPS = frozenset({"timestamp", "timestamptz"})
PLAIN = frozenset({"integer", "decimal", "year", "date", "uuid", "bit", "network"})
"""Kinds whose canonical text is what a careful pipeline would write into a text column."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The kind in which two columns are compared."""

    kind: Kind
    """The kind."""
    why: str
    """Why this kind, for a person."""


def parse_kind(text: str) -> Kind:
    """Return the kind of a configuration's ``kind: decimal(10,2)``. Raises ValueError."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text)
    if not match or match.group(1) not in KIND_NAMES:
        raise ValueError(f"{text!r} is no kind; write one of {', '.join(sorted(KIND_NAMES))}")
    name, first, second = match.group(1), *(int(n) if n else None for n in match.groups()[1:])
    if name == "decimal":
        return Kind(name) if first is None else Kind(name, first, second or 0)
    if name in ("time", "timestamp", "timestamptz", "rounded"):
        return Kind(name, scale=first)
    return Kind(name, digits=first)


def shared_kind(source: Kind, target: Kind) -> Shared | None:
    """Return the kind in which both columns can be compared; None if there is none, so that the audit must name one."""
    names = {source.name, target.name}
    if "nested" in names and names <= {"nested", "json", "text"}:
        return Shared(Kind("json"), "arrays and structs as JSON documents, their keys in the order of MySQL's and PostgreSQL's")
    if source.name == target.name:
        return _share_same_kind(source, target)
    if "boolean" in names and names & {"integer", "bit"}:
        return Shared(Kind("boolean"), "a number that is not 0 is true")
    if names <= {"integer", "year", "bit"}:
        unsigned = any(kind.unsigned or (kind.name == "bit" and (kind.digits or 64) > 63) for kind in (source, target))
        return Shared(Kind("integer", unsigned=unsigned), "whole numbers")
    if names <= {"integer", "decimal", "year"}:
        return _share_numbers(_as_decimal(source), _as_decimal(target))
    if names == FLOATS:
        return Shared(Kind("float32"), "the narrower float")
    if names & FLOATS and names <= FLOATS | EXACT_NUMBERS:
        return Shared(Kind((names & FLOATS).pop()), "the number as the nearest floating-point number")
    if names == {"uuid", "binary"} and {source.digits, target.digits} <= {16, None}:
        return Shared(Kind("uuid"), "the binary column is taken to hold a UUID's 16 bytes in their order")
    if names <= TIMESTAMPS:
        scaled = _share_scaled(Kind("timestamp", scale=source.scale), Kind("timestamp", scale=target.scale))
        return Shared(scaled.kind, "the side without a zone is read as UTC")
    if names <= TIMESTAMPS | {"date"}:
        if target.name == "date":
            return Shared(Kind("date"), "the target holds dates")
        return Shared(Kind("timestamp", scale=target.scale), "a date is its midnight")
    return _share_with_text(source, target)


def _as_decimal(kind: Kind) -> Kind:
    """Return the decimal kind of an integer's range; a decimal as it is."""
    if kind.name == "decimal":
        return kind
    return Kind("decimal", 20 if kind.unsigned else 19, 0)


def _share_numbers(source: Kind, target: Kind) -> Shared:
    """Return decimals at the target's scale, whole numbers of up to 64 bits as integers; in full if a column has no scale."""
    digits = max(source.digits or 38, target.digits or 38)
    if source.scale == target.scale == 0 and digits <= 20:
        return Shared(Kind("integer", unsigned=digits > 19), "whole numbers")
    if source.scale is None or target.scale is None:
        return Shared(FULL_DECIMAL, "a side has no scale of its own, so numbers are compared with all their digits")
    return _share_scaled(source, target)


def _share_same_kind(source: Kind, target: Kind) -> Shared:
    if source.name == "decimal":
        return _share_numbers(source, target)
    if source.name in ("time", "timestamp", "timestamptz", "rounded"):
        return _share_scaled(source, target)
    if source.name == "integer":
        return Shared(Kind("integer", unsigned=source.unsigned or target.unsigned), "the same kind")
    if source.name == "json":
        if {source.form, target.form} <= {"printed", "ordered"}:
            return Shared(Kind("json", form="printed"), "documents as both engines print them, their keys in one order")
        return Shared(Kind("json"), "documents without blanks")
    return Shared(Kind(source.name, max(source.digits or 0, target.digits or 0) or None), "the same kind")


def _share_scaled(source: Kind, target: Kind) -> Shared:
    """Return the target's kind at its scale, or at the source's if the target has none."""
    scale = source.scale if target.scale is None else target.scale
    kind = Kind(target.name, target.digits, scale)
    if source.scale is not None and scale is not None and source.scale > scale:
        return Shared(kind, "the target's scale, which is coarser")
    return Shared(kind, "the same kind" if source.scale == scale else "the target's scale; the source has zeros there")


def _share_with_text(source: Kind, target: Kind) -> Shared | None:
    names = {source.name, target.name}
    if names <= FREE_TEXT_KINDS:
        if "json" in names:
            return Shared(Kind("json"), "documents without blanks between their tokens")
        if "char" in names:
            return Shared(Kind("char"), "blanks at the end of fixed-width text mean nothing")
        return Shared(Kind("text"), "characters")
    if names & (FREE_TEXT_KINDS - {"json"}) and names & PLAIN:
        typed = source if source.name in PLAIN else target
        if typed.name == "decimal" and typed.scale is None:
            return Shared(Kind("text"), "the text column is taken to hold the number as its engine prints it, with zeros at its end")
        return Shared(typed, f"the text column is taken to hold the {typed.name}'s digits as they are")
    if names == {"interval", "text"}:
        return Shared(Kind("text"), "the text column is taken to hold intervals as the other side prints them")
    return None


def holds(target: Kind, source: Kind) -> bool:
    """Return whether a target's column of one kind holds every value of the source's kind unchanged, as far as engines have it at all."""
    if source.name in TEXT_KINDS:
        if target.name == "char":
            return source.name == "char" and (target.digits or 1) >= (source.digits or 1)
        return target.name in TEXT_KINDS
    if source.name == "integer" and target.name == "decimal":
        return (target.digits or 1000) - (target.scale or 0) >= (20 if source.unsigned else 19)
    if source.name != target.name:
        return (source.name, target.name) in {
            ("year", "integer"),
            ("timestamp", "timestamptz"),
            ("timestamptz", "timestamp"),
            ("float32", "float64"),
            ("json", "text"),
            ("network", "text"),
            ("uuid", "text"),
            ("uuid", "char"),
            ("boolean", "integer"),
        }
    if source.name == "integer":
        return target.unsigned or not source.unsigned
    if source.name == "decimal":
        if target.digits is None or target.scale is None:
            return True
        scale = source.scale or 0
        return target.scale >= scale and target.digits - target.scale >= (source.digits or 10) - scale
    if source.name in ("time", "timestamp", "timestamptz"):
        return (6 if target.scale is None else target.scale) >= (source.scale or 0)
    if source.name == "bit":
        return target.digits is None or target.digits == (source.digits or 1)
    return True


def can_render(kind: Kind, native: Kind) -> bool:
    """Return whether a column whose own kind is ``native`` can be compared as ``kind`` when the audit requests it."""
    if native.name == kind.name or native.name in FREE_TEXT_KINDS:
        return kind.name not in ("float32", "float64", "rounded", "interval", "binary") or native.name == kind.name
    allowed: dict[str, frozenset[str]] = {
        "boolean": NUMBERS,
        "integer": NUMBERS,
        "year": NUMBERS,
        "decimal": NUMBERS,
        "rounded": NUMBERS | FLOATS,
        "float32": FLOATS | EXACT_NUMBERS,
        "float64": FLOATS | EXACT_NUMBERS,
        "json": frozenset({"nested"}),
        "text": frozenset({"interval"}),
        "date": TIMESTAMPS,
        "timestamp": TIMESTAMPS | {"date"},
        "timestamptz": TIMESTAMPS | {"date"},
        "uuid": frozenset({"binary"}),
    }
    return native.name in allowed.get(kind.name, frozenset())


# The reference: canonical text and row hash in plain Python.


def text(kind: Kind, value: Any) -> str | None:
    """Return the canonical text of a Python value as ``kind``; None for None.

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
            return _full_decimal_text(Decimal(value)) if kind.scale is None else _decimal_text(Decimal(value), kind.scale)
        case "rounded":
            return _rounded_text(value, kind.scale or 0)
        case "float64":
            return _float_text(float(value))
        case "float32":
            return _float_text(struct.unpack("f", struct.pack("f", float(value)))[0])
        case "binary":
            return bytes(value).hex()
        case "date":
            return _timestamp_text(value, kind.rounding, 0)[:-9]
        case "time":
            return _time_text(value, kind.rounding, kind.scale)
        case "timestamp" | "timestamptz":
            return _timestamp_text(value, kind.rounding, kind.scale)
        case "uuid":
            return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(str(value)))
        case "bit":
            return f"{int(value):0{kind.digits or 1}b}"
        case "interval":
            return "{}m{}d{}us".format(*value)
        case "json":
            bare = re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda token: token.group(1) or "", str(value))
            if kind.form != "printed":
                return bare
            return re.sub(r'("(?:[^"\\]|\\.)*")|[,:]', lambda token: token.group(1) or f"{token.group()} ", bare)
        case "char":
            return str(value).rstrip(" ")
        case "network":
            return str(value).lower()
        case _:
            return str(value)


def fold_case(text: str, case: Literal["lower", "upper"]) -> str:
    """Return text with its letters A to Z in one case; other letters are unchanged, because engines fold them differently."""
    return text.translate(_FOLDED[case])


_FOLDED = {"lower": str.maketrans(ascii_uppercase, ascii_lowercase), "upper": str.maketrans(ascii_lowercase, ascii_uppercase)}


def _decimal_text(value: Decimal, scale: int) -> str:
    quantum = Decimal(1).scaleb(-scale)
    rounded = value.quantize(quantum, ROUND_HALF_UP, EXACT)
    return f"{rounded if rounded else abs(rounded):f}"


def _full_decimal_text(value: Decimal) -> str:
    text = f"{abs(value) if value == 0 else value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded_text(value: Any, scale: int) -> str:
    if not isinstance(value, float):
        return _decimal_text(Decimal(value).scaleb(scale, EXACT), 0)
    if not abs(value) < float(f"9e{18 - scale}"):
        return _float_text(value)
    units = math.floor(abs(value) * 10.0**scale + 0.5)
    return str(-units if value < 0 else units)


def _float_text(value: float) -> str:
    """Return ``<m>p<e>`` with value = m * 2^(e-53); see ``Dialect.float_text``."""
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


def _time_text(value: dt.time | dt.timedelta, rounding: Rounding, scale: int | None) -> str:
    if isinstance(value, dt.time):
        value = dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    micros = _shorten(abs(value) // MICROSECOND, "half up" if rounding else "", scale)
    seconds, fraction = divmod(micros, 1_000_000)
    sign = "-" if value < dt.timedelta() and micros else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction_text(fraction, scale)}"


def _timestamp_text(value: dt.datetime | dt.date, rounding: Rounding, scale: int | None) -> str:
    at = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
    at = at.astimezone(dt.UTC).replace(tzinfo=None) if at.tzinfo else at
    epoch = dt.datetime(2000 if rounding == "half from 2000" else 1970, 1, 1)
    days, micros = divmod(_shorten((at - epoch) // MICROSECOND, rounding, scale), 86_400_000_000)
    seconds, fraction = divmod(micros, 1_000_000)
    try:
        day = str(epoch.date() + dt.timedelta(days))
    except OverflowError:  # rounding the last moment of 9999
        day = "10000-01-01"
    return f"{day} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction_text(fraction, scale)}"


def _shorten(micros: int, rounding: Rounding, scale: int | None) -> int:
    """Return microseconds as a multiple of 10^(6 - scale), rounded or cut; ``half from`` a year rounds a half away from 0."""
    unit = 10 ** max(0, 6 - (6 if scale is None else scale))
    whole, rest = divmod(micros, unit)
    up = rounding and (2 * rest > unit or (2 * rest == unit and (micros >= 0 or rounding == "half up")))
    return int((whole + bool(up)) * unit)


def _fraction_text(micros: int, scale: int | None) -> str:
    """Return the fraction of a second as an engine prints it on its own: cut to ``scale`` digits, without zeros at its end."""
    return f".{micros:06}"[: 7 if scale is None else scale + 1].rstrip("0").rstrip(".")


def readable(kind: Kind, canonical: str | None) -> str | None:
    """Return canonical text in readable form: floats as the shortest decimal that reads back as the same value, rounded numbers with
    their decimal point, others unchanged."""
    if kind.name not in FLOATS | {"rounded"}:
        return canonical
    if kind.name == "rounded" and re.fullmatch(r"-?\d+", canonical or ""):
        return f"{Decimal(canonical or 0).scaleb(-(kind.scale or 0), EXACT):f}"
    match = re.fullmatch(r"(-?)(\d+)p(-?\d+)", canonical or "")
    if match is None:
        return "0.0" if canonical == "0" else canonical
    sign, mantissa, exponent = match.groups()
    value = math.ldexp(int(mantissa), int(exponent) - 53)
    return sign + repr(value)


def digest(kind: Kind, canonical: str | None, pieces: int = 0) -> str | None:
    """Return the 64 digits that stand for a canonical text in a row text; see ``Dialect.digest_of_pieces``. None for None."""
    if canonical is None or not pieces:
        return None if canonical is None else row_hash(canonical)
    digits, size = (canonical if kind.name == "binary" else canonical.encode().hex()), 2 * PIECE_BYTES
    if len(digits) <= size:
        return row_hash(f"0{canonical}")
    cut = [digits[number * size : (number + 1) * size] for number in range(pieces - 1)] + [digits[(pieces - 1) * size :]]
    return row_hash("1" + "".join(map(row_hash, cut)))


def row_text(texts: Sequence[str | None]) -> str:
    """Return the injective row text: canonical texts escaped, NULL as ``|2``, joined by ``|1``."""
    return SEPARATOR.join(NULL if t is None else t.replace(BAR, ESCAPED) for t in texts)


def published_row_text(texts: Sequence[str | None]) -> str:
    """Return the published row text: canonical texts without a separator, NULL as the word NULL. It is ambiguous."""
    return "".join("NULL" if t is None else t for t in texts)


def row_hash(row: str, algorithm: HashAlgorithm = "sha256") -> str:
    """Return the row hash of a row text (UTF-8) as lower-case hexadecimal digits: 64 for sha256, 32 for md5."""
    return hashlib.new(algorithm, row.encode()).hexdigest()


def word(digits: str, first: int, count: int) -> int:
    """Return ``count`` hexadecimal digits as an integer, beginning with the 1-based digit ``first``; below 16^count."""
    return int(digits[first - 1 : first - 1 + count], 16)
