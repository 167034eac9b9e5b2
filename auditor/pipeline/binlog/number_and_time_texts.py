"""Texts of values: decimal numbers, dates and times, as the server prints them in UTC.

Layouts: https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html and the functions that write them in
sql-common/my_time.cc and strings/decimal.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that so many decimal digits take."""

MOST_DIGITS = 65
"""Digits of a DECIMAL at most. https://dev.mysql.com/doc/refman/9.4/en/fixed-point-types.html"""

_EPOCH = date(1970, 1, 1)


def decimal_size(precision: int, scale: int) -> int:
    """Return the bytes of a DECIMAL. Raises ValueError if there is none of so many digits."""
    if not scale <= precision <= MOST_DIGITS:
        raise ValueError(f"there is no DECIMAL({precision}, {scale})")
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def decimal_expression(precision: int, scale: int, number: str) -> str:
    """Return Python code for the text of a DECIMAL without its sign, of ``number``, its bytes as one integer without the sign's bit."""
    shift = 8 * decimal_size(precision, scale)
    pieces: dict[str, list[tuple[int, int, int]]] = {"whole": [], "fraction": []}
    for part, digits in (("whole", precision - scale), ("fraction", scale)):
        groups = [digits % 9] * bool(digits % 9) + [9] * (digits // 9)
        for group in groups if part == "whole" else groups[::-1] if digits % 9 else groups:
            shift -= 8 * _DIGIT_BYTES[group]
            pieces[part].append((shift, (1 << 8 * _DIGIT_BYTES[group]) - 1, group))

    def total(part: list[tuple[int, int, int]]) -> str:
        terms, power = [], 0
        for low, mask, group in reversed(part):
            terms.append(f"({number} >> {low} & {mask})" + (f" * {10**power}" if power else ""))
            power += group
        return " + ".join(terms) or "0"

    whole = f"{{{total(pieces['whole'])}}}"
    return f'f"{whole}.{{{total(pieces["fraction"])}:0{scale}d}}"' if scale else f'f"{whole}"'


def decimal_function(precision: int, scale: int) -> tuple[int, Callable[[bytes], str]]:
    """Return the bytes of a DECIMAL, and a function that makes their text."""
    size = decimal_size(precision, scale)
    top = 1 << 8 * size - 1
    scope: dict[str, Callable[[int], str]] = {}
    exec(f"def text(v): return {decimal_expression(precision, scale, 'v')}", scope)
    text = scope["text"]

    def decode(data: bytes) -> str:
        number = int.from_bytes(data[:size], "big")
        # The sign's bit is inverted, and all bits of a negative number are.
        return text(number ^ top) if number & top else "-" + text(number ^ (top - 1))

    return size, decode


def date_text(packed: int) -> str:
    """Return a DATE, of its three bytes as an integer."""
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}"


def day_text(days: int) -> str:
    """Return the date so many days after 1970-01-01, followed by a blank."""
    return f"{_EPOCH + timedelta(days)} "


def month_day_text(packed: int) -> str:
    """Return the date of a DATETIME, followed by a blank, of its 22 bits."""
    months = packed >> 5
    return f"{months // 13:04d}-{months % 13:02d}-{packed & 31:02d} "


def clock_text(packed: int) -> str:
    """Return hours, minutes and seconds of their 5, 6 and 6 bits."""
    return f"{packed >> 12:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


def second_text(second: int) -> str:
    """Return hours, minutes and seconds of a second of a day."""
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def time_text(packed: int, digits: int) -> str:
    """Return a TIME of its bytes as an integer that is offset to be positive; ``digits`` of its fraction are shown."""
    bits = 8 * ((digits + 1) // 2)
    value = packed - (1 << 23 + bits)
    sign, value = ("-", -value) if value < 0 else ("", value)
    whole, fraction = value >> bits, value & ((1 << bits) - 1)
    text = f"{sign}{whole >> 12 & 0x3FF:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
    return f"{text}.{_cut(fraction, digits)}" if digits else text


def _cut(value: int, digits: int) -> str:
    """Return digits of a fraction, which is stored with an even number of them."""
    return f"{value:0{(digits + 1) // 2 * 2}d}"[:digits]


def packed_datetime_text(packed: int) -> str:
    """Return a DATETIME with six digits of its fraction, of the 64-bit integer that JSON holds."""
    whole, fraction = packed >> 24, packed & 0xFFFFFF
    return f"{month_day_text(whole >> 17)}{clock_text(whole & 0x1FFFF)}.{fraction:06d}"


def packed_time_text(packed: int) -> str:
    """Return a TIME with six digits of its fraction, of the 64-bit integer that JSON holds."""
    sign, value = ("-", -packed) if packed < 0 else ("", packed)
    return f"{sign}{value >> 36 & 0x3FF:02d}:{value >> 30 & 63:02d}:{value >> 24 & 63:02d}.{value & 0xFFFFFF:06d}"
