"""Texts of FLOAT and DOUBLE in events: the shortest decimal number that reads back as the same value, in the server's notation."""

from __future__ import annotations

import struct
from decimal import Decimal


def double_text(value: float) -> str:
    """Return the shortest decimal number that reads back as the same 64-bit number, as MariaDB prints it, and MySQL within JSON.

    ``1.5``, ``-0``, ``0.0000001``, and with an exponent above 15 digits before or after the point: ``1e15``, ``1.5e-15``, unless digits
    are left after the point: ``3231814999999999.5``. The rule is that of my_gcvt() in strings/dtoa.cc, where there is room enough; MySQL
    gives the text of a DOUBLE column less, and writes the same number with an exponent if it has more than 22 characters.
    """
    text = repr(value)
    if len(text) < 17 and "e" not in text:
        return text.removesuffix(".0")
    return _notation(text)


def float_text(value: float) -> str:
    """Return the shortest decimal number that reads back as the same 32-bit number, in the same notation."""
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.unpack("<f", struct.pack("<f", float(text)))[0] == value:
            break
    return double_text(float(text))


MAX_PLACES = 15
"""Digits before the point, or places after it before the first digit, from which on a number has an exponent."""


def _notation(text: str) -> str:
    """Return a number that Python printed as the server does."""
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown, minus = "".join(map(str, digits)), "-" if sign else ""
    point = len(shown) + exponent
    if -MAX_PLACES < point <= MAX_PLACES or 0 < point < len(shown):
        if point <= 0:
            return f"{minus}0.{'0' * -point}{shown}"
        whole, rest = shown[:point].ljust(point, "0"), shown[point:]
        return f"{minus}{whole}.{rest}" if rest else minus + whole
    return f"{minus}{shown[0]}{'.' + shown[1:] if len(shown) > 1 else ''}e{point - 1}"
