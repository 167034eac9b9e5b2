"""What SQLite's SQL lacks, as functions of each connection. They run in this process, for each value: this is no fast engine."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import sqlite3
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

EXACT = Context(prec=400)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
CLOCK = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,6})?")


def register(connection: sqlite3.Connection) -> None:
    """Add the functions to a connection. All yield NULL for NULL."""
    for function, parameters in FUNCTIONS.items():
        connection.create_function(f"auditor_{function.__name__}", parameters, _of_values(function), deterministic=True)
    connection.create_aggregate("auditor_sum", 1, ExactSum)  # type: ignore[arg-type]


def _of_values(function: Any) -> Any:
    return lambda value, *more: None if value is None else function(value, *more)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def md5(text: str) -> str:
    """Return the MD5 of a text's UTF-8 bytes, in hexadecimal digits."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def word(digits: str, first: int, count: int) -> int:
    """Return the number that some hexadecimal digits denote, from the 1-based ``first``."""
    return int(digits[first - 1 : first - 1 + count], 16)


def double(value: Any) -> float:
    """Return the nearest double; SQLite's own conversion of text promises 15 digits. Raises ValueError for NaN, which would be NULL."""
    number = float(value)
    if math.isnan(number):
        raise ValueError("SQLite stores no NaN")
    return number


def single(value: float) -> float:
    """Return the nearest number of single precision."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def decimal(value: Any, scale: int, held: int) -> str:
    """Return a number with ``scale`` digits after the point, rounded half away from zero.

    SQLite enforces no scale: a value with more digits than the ``held`` ones of its column's type keeps them all, so that it differs from
    what the type allows. ``held`` is -1 where any number is rounded. What is no number stays as it is.
    """
    try:
        number = _exact(value)
    except InvalidOperation:
        return str(value)
    exponent = number.normalize(EXACT).as_tuple().exponent
    if held >= 0 and isinstance(exponent, int) and -exponent > max(held, scale):
        return f"{number:f}"
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    return f"{rounded if rounded else abs(rounded):f}"


def units(value: Any, scale: int) -> str:
    """Return an exact number in units of 10^-scale, rounded half away from zero."""
    return decimal(f"{_exact(value).scaleb(scale, EXACT):f}", 0, -1)


def _exact(value: Any) -> Decimal:
    return Decimal(f"{value:.15g}" if isinstance(value, float) else value)  # 15 digits: what SQLite promises of a decimal that it stores


def moment(value: Any, digits: int | None) -> str:
    """Return a time as ``2001-02-03 04:05:06.07``, cut to so many digits; a date as its midnight. Other texts stay as they are."""
    text = f"{value} 00:00:00" if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)) else str(value)
    found = MOMENT.fullmatch(text)
    if found is None:
        return text
    fraction = (found[1] or "")[: 7 if digits is None else digits + 1].rstrip("0").rstrip(".")
    return text[:19] + fraction


def clock(value: Any) -> str:
    """Return a time of day with six digits after the point. Other texts stay as they are."""
    found = CLOCK.fullmatch(str(value))
    return f"{str(value)[:8]}{(found[1] or '.'):0<7}" if found else str(value)


def later(value: str, microseconds: int) -> str:
    """Return a time, or a time of day, so much later."""
    more = dt.timedelta(microseconds=microseconds)
    if CLOCK.fullmatch(value):
        return (dt.datetime.fromisoformat(f"2000-01-01 {value}") + more).time().isoformat()
    return moment((dt.datetime.fromisoformat(value) + more).isoformat(" "), None) if MOMENT.fullmatch(value) else value


def wall(value: str, zone: str) -> str:
    """Return what clocks of a zone show at a time of UTC."""
    at = dt.datetime.fromisoformat(moment(value, None)).replace(tzinfo=dt.UTC)
    return moment(at.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(" "), None)


def json(text: Any) -> str:
    """Return a document without whitespace between its tokens."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda token: token[1] or "", str(text))


class ExactSum:
    """The exact sum of numbers, as text; NULL of none."""

    def __init__(self) -> None:
        self.total: Decimal | None = None

    def step(self, value: Any) -> None:
        """Add a value."""
        if value is not None:
            self.total = EXACT.add(self.total or Decimal(0), _exact(value))

    def finalize(self) -> str | None:
        """Return the sum."""
        return None if self.total is None else f"{self.total:f}"


FUNCTIONS = {
    sha256: 1, md5: 1, word: 3, double: 1, single: 1, decimal: 3, units: 2, moment: 2, clock: 1, later: 2, wall: 2, json: 1,
}  # fmt: skip
"""The functions with their numbers of parameters."""
