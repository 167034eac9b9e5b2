"""Test values of every canonical kind, edge cases and random ones.

A family is one logical value stored in several columns of different kinds, so that every comparable pair of kinds is tested on values
that are equal by construction.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st

from auditor import canonical
from dialects import Kind

TRICKY_TEXT = [
    "", " ", "  two ", "NULL", "~N", "~", "|", "~0", "~1|~", "|0", "|1", "|2",
    "||", "a|b", "'", '"', "\\", "\\'", "''", "--", "/*", "%", "%s", ":x",
    "${x}", "\n", "\t", "\r\n", "é", "e\u0301", "ß", "İ", "😀", "👩\u200d👩\u200d👧", "\uffff", "\U0010ffff", "\x01", "\x7f",
    "a" * 3000, "0", "true",
]  # fmt: skip
TRICKY_DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1.1, 2e23, 1e300, -1e300, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e-270,
    9.99e-271, 2.0**52, 2.0**53, 2.0**53 + 2, 0.1 + 0.2, 1e15, 1e16, 123456.789, math.pi, 1e-7, 4503599627370495.5,
]  # fmt: skip
TRICKY_DATES = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 10), dt.date(1582, 10, 15), dt.date(1969, 12, 31),
                dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(9999, 12, 31)]  # fmt: skip
TRICKY_TIMES = [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1, 2, 3, 4), dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
                dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 11, 3, 6, 30), dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
                dt.datetime(2024, 2, 29, 13, 4, 5, 7)]  # fmt: skip

TRICKY_CLOCKS = [dt.time(), dt.time(0, 0, 0, 1), dt.time(9, 59, 59, 500000), dt.time(12, 0, 59), dt.time(23, 59, 59, 999999)]


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _text() -> st.SearchStrategy[str]:
    letters = st.characters(categories=None, exclude_categories=["Cs"], exclude_characters="\x00")
    return st.sampled_from(TRICKY_TEXT) | st.text(letters, max_size=30) | st.text(alphabet="~|01N ab", max_size=8)


def _doubles() -> st.SearchStrategy[float]:
    return st.sampled_from(TRICKY_DOUBLES) | st.floats(allow_nan=False, allow_infinity=False)


def _timestamps() -> st.SearchStrategy[dt.datetime]:
    return st.sampled_from(TRICKY_TIMES) | st.datetimes()


def _documents() -> st.SearchStrategy[Any]:
    # Only whole numbers: engines format fractions in JSON differently, which the negotiation of JSON columns documents.
    leaves = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text("ab c{}[]:,é", max_size=8)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner))


def _document_text(value: Any) -> str:
    """Serialise a document as MySQL and PostgreSQL store it: keys ordered by length, then bytes."""

    def ordered(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: ordered(node[key]) for key in sorted(node, key=lambda k: (len(k.encode()), k.encode()))}
        return [ordered(item) for item in node] if isinstance(node, list) else node

    return json.dumps(ordered(value), ensure_ascii=False, separators=(",", ":"))


def _whole(low: int, high: int) -> st.SearchStrategy[int]:
    return st.sampled_from([low, high, 0]) | st.integers(low, high)


def _addresses() -> st.SearchStrategy[str]:
    # Not those below ::1:0:0:0, of which some are written with four decimal numbers at their end, by engines and not by Python.
    networks = st.sampled_from(["10.0.0.0/8", "2001:db8::/32", "::/0", "::1"])
    return networks | (st.ip_addresses(v=4) | st.ip_addresses(v=6).filter(lambda address: int(address) >> 48 > 0)).map(str)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return _whole(-most, most).map(lambda units: Decimal(units).scaleb(-scale, Context(prec=60)))


@dataclass(frozen=True)
class Family:
    """One logical value and the kinds of the columns that store it; ``adapt`` converts it to what a coarser column stores."""

    name: str
    values: st.SearchStrategy[Any]
    kinds: tuple[Kind, ...]
    adapt: Callable[[Any, Kind], Any] = lambda value, _: value

    def column(self, kind: Kind) -> str:
        """Return the name of the column of that kind."""
        return f"{self.name}_{kind}".replace("(", "_").replace(")", "").replace(",", "_").replace(" ", "_")


def _truncate_timestamp(value: dt.datetime, kind: Kind) -> Any:
    if kind.name == "date":
        return value.date()
    scale = 6 if kind.scale is None else kind.scale
    return value.replace(microsecond=value.microsecond // 10 ** (6 - scale) * 10 ** (6 - scale))


FAMILIES = (
    Family("truth", st.booleans(), (Kind("boolean"), Kind("integer"), Kind("bit", 1), Kind("float64"))),
    Family("small", _whole(-(10**8) + 1, 10**8 - 1), (Kind("integer"), Kind("decimal", 12, 4), Kind("decimal", 20, 0), Kind("text"),
                                                        Kind("float32"))),
    Family("big", _whole(-(2**63), 2**63 - 1), (Kind("integer"), Kind("decimal", 20, 0), Kind("float64"))),
    Family("unsigned", _whole(0, 2**64 - 1), (Kind("integer", unsigned=True), Kind("decimal", 20, 0), Kind("float64"))),
    Family("money", _decimals(10, 2), (Kind("decimal", 10, 2), Kind("decimal", 12, 4), Kind("float64"))),
    Family("exact", _decimals(38, 10), (Kind("decimal", 38, 10), Kind("float64"))),
    Family("dense", _decimals(17, 9), (Kind("decimal", 17, 9), Kind("float64"))),
    Family("tiny", _decimals(6, 6), (Kind("decimal", 6, 6), Kind("decimal", 18, 9), Kind("float32"))),
    Family("double", _doubles(), (Kind("float64"),)),
    Family("single", (st.sampled_from([0.0, -0.0, 1.5, 0.1, 3e38, 1.2e-38]) | st.floats(width=32, allow_nan=False, allow_infinity=False))
           .map(_single).filter(lambda x: not 0 < abs(x) < 1.2e-38), (Kind("float32"), Kind("float64"))),
    Family("free", _text(), (Kind("text"),)),
    Family("label", st.text("abc |~é😀", max_size=12).map(lambda s: s.rstrip(" ")), (Kind("text"), Kind("char", 12))),
    Family("bytes", st.binary(max_size=20) | st.sampled_from([b"", b"\x00", b"\x00\xff\x10", b"|~'\\"]), (Kind("binary"),)),
    Family("day", st.sampled_from(TRICKY_DATES) | st.dates(), (Kind("date"), Kind("text"))),
    Family("moment", _timestamps(), (Kind("timestamp", scale=6), Kind("timestamp", scale=3), Kind("date"))),
    Family("instant", st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 18)) | st.sampled_from(
        [dt.datetime(2024, 3, 10, 7, 30), dt.datetime(2024, 11, 3, 5, 30), dt.datetime(2024, 11, 3, 6, 30)]),
        (Kind("timestamptz", scale=6), Kind("timestamp", scale=6))),
    Family("clock", st.sampled_from(TRICKY_CLOCKS) | st.times(), (Kind("time", scale=6), Kind("time", scale=3), Kind("time", scale=0))),
    Family("id", st.uuids().filter(lambda u: u.version is None) | st.uuids(version=4),
           (Kind("uuid"), Kind("text"), Kind("char", 32), Kind("binary", 16))),
    Family("address", _addresses(), (Kind("network"), Kind("text"))),
    Family("flags", st.integers(0, 2**12 - 1), (Kind("bit", 12),)),
    Family("year", st.integers(1901, 2155), (Kind("year"), Kind("integer"), Kind("float64"))),
    Family("document", _documents().map(_document_text), (Kind("json"), Kind("text"))),
    Family("span", st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 86_399_999_999)), (Kind("interval"),)),
)  # fmt: skip

EXTREMES = {
    "double": [math.nan, math.inf, -math.inf],
}
"""Values that only some engines can store, by family; the other engines list them as unsupported."""


def adapt(family: Family, value: Any, kind: Kind) -> Any:
    """Return the family's value as a column of that kind stores it."""
    if value is None:
        return None
    if family.name in ("moment", "instant", "clock"):
        return _truncate_timestamp(value, kind)
    if kind.name in canonical.FLOATS:
        return _single(float(value)) if kind.name == "float32" else float(value)
    if family.name == "id" and kind.name in ("char", "binary"):
        return value.hex if kind.name == "char" else value.bytes
    if kind.name == "text":
        native = family.kinds[0]
        return canonical.text(native, value)
    return value
