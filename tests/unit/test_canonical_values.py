"""The reference by itself: which column holds which, what can be compared as what, and texts at the edges of each kind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from auditor import canonical
from dialects import Kind
from dialects.hashes import PIECE_BYTES

INTEGER, UNSIGNED = Kind("integer"), Kind("integer", unsigned=True)


@pytest.mark.parametrize(
    ("target", "source", "holds"),
    [
        (Kind("decimal", 19, 0), INTEGER, True),
        (Kind("decimal", 18, 0), INTEGER, False),
        (Kind("decimal", 21, 2), INTEGER, True),
        (Kind("decimal", 20, 2), INTEGER, False),
        (Kind("decimal", 20, 0), UNSIGNED, True),
        (Kind("decimal", 19, 0), UNSIGNED, False),
        (Kind("decimal"), UNSIGNED, True),
        (INTEGER, UNSIGNED, False),
        (UNSIGNED, INTEGER, True),
        (INTEGER, INTEGER, True),
        (Kind("decimal", 12, 4), Kind("decimal", 10, 2), True),
        (Kind("decimal", 11, 4), Kind("decimal", 10, 2), False),
        (Kind("decimal", 12, 1), Kind("decimal", 10, 2), False),
        (Kind("decimal"), Kind("decimal", 65, 30), True),
        (Kind("timestamp", scale=3), Kind("timestamp", scale=3), True),
        (Kind("timestamp", scale=0), Kind("timestamp", scale=3), False),
        (Kind("timestamp"), Kind("timestamp", scale=6), True),
        (Kind("time", scale=6), Kind("time"), True),
        (Kind("char", 8), Kind("char", 8), True),
        (Kind("char", 7), Kind("char", 8), False),
        (Kind("char", 8), Kind("text"), False),
        (Kind("text"), Kind("char", 8), True),
        (Kind("enum"), Kind("set"), True),
        (Kind("bit", 8), Kind("bit", 8), True),
        (Kind("bit", 9), Kind("bit", 8), False),
        (Kind("bit"), Kind("bit", 8), True),
        (Kind("bit", 1), Kind("bit"), True),
        (INTEGER, Kind("year"), True),
        (Kind("year"), INTEGER, False),
        (Kind("float64"), Kind("float32"), True),
        (Kind("float32"), Kind("float64"), False),
        (Kind("text"), Kind("json"), True),
        (Kind("json"), Kind("text"), False),
        (INTEGER, Kind("boolean"), True),
        (Kind("boolean"), INTEGER, False),
        (Kind("binary"), Kind("binary", 16), True),
    ],
    ids=str,
)
def test_a_column_holds_every_value_of_another_or_not(target: Kind, source: Kind, holds: bool) -> None:
    assert canonical.holds(target, source) is holds


@pytest.mark.parametrize(
    ("kind", "native", "can"),
    [
        ("integer", "decimal", True), ("integer", "bit", True), ("integer", "float64", False), ("rounded", "float32", True),
        ("rounded", "text", False), ("float64", "integer", True), ("float64", "bit", False), ("float32", "text", False),
        ("date", "timestamp", True), ("date", "time", False), ("timestamp", "date", True), ("timestamptz", "timestamp", True),
        ("uuid", "binary", True), ("uuid", "text", True), ("binary", "text", False), ("binary", "binary", True), ("json", "nested", True),
        ("text", "interval", True), ("text", "integer", False), ("interval", "interval", True), ("interval", "text", False),
        ("boolean", "year", True),
    ],
)  # fmt: skip
def test_a_column_can_be_compared_as_a_requested_kind_or_not(kind: str, native: str, can: bool) -> None:
    assert canonical.can_render(Kind(kind), Kind(native)) is can


TIMES = [
    (Kind("time", scale=6), dt.time(23, 59, 59, 999999), "23:59:59.999999"),
    (Kind("time", scale=6), dt.time(0, 0, 1, 500000), "00:00:01.5"),
    (Kind("time", scale=0), dt.time(12, 59, 7, 999999), "12:59:07"),
    (Kind("time", scale=0, rounding="half up"), dt.time(12, 59, 59, 500000), "13:00:00"),
    (Kind("time", scale=0), dt.timedelta(hours=-838, minutes=-59, seconds=-59), "-838:59:59"),
    (Kind("time", scale=0), dt.timedelta(microseconds=-1), "00:00:00"),
    (Kind("time"), dt.timedelta(microseconds=-1), "-00:00:00.000001"),
    (Kind("timestamp", scale=6), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "1969-12-31 23:59:59.999999"),
    (Kind("timestamp", scale=3), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "1969-12-31 23:59:59.999"),
    (Kind("timestamp", scale=0), dt.datetime(2024, 2, 29, 13, 59, 0, 1), "2024-02-29 13:59:00"),
    (Kind("timestamp", scale=0, rounding="half up"), dt.datetime(1969, 12, 31, 23, 59, 58, 500000), "1969-12-31 23:59:59"),
    (Kind("timestamp", scale=0, rounding="half from 1970"), dt.datetime(1969, 12, 31, 23, 59, 58, 500000), "1969-12-31 23:59:58"),
    (Kind("timestamp", scale=0, rounding="half from 1970"), dt.datetime(1970, 1, 1, 0, 0, 0, 500000), "1970-01-01 00:00:01"),
    (Kind("timestamp", scale=0, rounding="half from 2000"), dt.datetime(1999, 12, 31, 23, 59, 58, 500000), "1999-12-31 23:59:58"),
    (Kind("timestamp", scale=0, rounding="half from 2000"), dt.datetime(2000, 1, 1, 0, 0, 0, 500000), "2000-01-01 00:00:01"),
    (Kind("timestamp", scale=0, rounding="half up"), dt.datetime(9999, 12, 31, 23, 59, 59, 500000), "10000-01-01 00:00:00"),
    (Kind("timestamptz", scale=6), dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2023-12-31 23:00:00"),
    (Kind("date"), dt.datetime(2024, 1, 1, 23, 59, 59, 999999), "2024-01-01"),
    (Kind("date", rounding="half up"), dt.datetime(2024, 1, 1, 23, 59, 59, 500000), "2024-01-02"),
    (Kind("date"), dt.date(1, 1, 1), "0001-01-01"),
]
OTHERS: list[tuple[Kind, Any, str]] = [
    (Kind("boolean"), 2, "1"),
    (Kind("boolean"), 0, "0"),
    (Kind("decimal", 10, 2), Decimal("-0.005"), "-0.01"),
    (Kind("decimal", 10, 2), Decimal("-0.004"), "0.00"),
    (Kind("decimal", 10, 0), Decimal("2.5"), "3"),
    (Kind("decimal"), Decimal("-0.0"), "0"),
    (Kind("decimal"), Decimal("1200.3400"), "1200.34"),
    (Kind("decimal"), Decimal(1200), "1200"),
    (Kind("rounded", scale=2), Decimal("1.005"), "101"),
    (Kind("rounded", scale=2), -1.5, "-150"),
    (Kind("rounded", scale=2), 1e17, "12500000000000000p56"),
    (Kind("float64"), 1.0, "9007199254740992p0"),
    (Kind("float64"), -0.0, "0"),
    (Kind("float64"), 5e-324, "9007199254740992p-1074"),
    (Kind("float64"), float("-inf"), "-Infinity"),
    (Kind("float32"), 0.1, "7205759511166976p-3"),
    (Kind("binary"), b"\x00\xff", "00ff"),
    (Kind("uuid"), UUID(int=1).bytes, "00000000-0000-0000-0000-000000000001"),
    (Kind("uuid"), "0188D6A27C3E7ABC8DEF0123456789AB", "0188d6a2-7c3e-7abc-8def-0123456789ab"),
    (Kind("bit", 4), 2, "0010"),
    (Kind("bit"), 0, "0"),
    (Kind("interval"), (13, -5, 7), "13m-5d7us"),
    (Kind("json"), '{"a b" : [1, "x  y"]}', '{"a b":[1,"x  y"]}'),
    (Kind("char", 4), "a  ", "a"),
    (Kind("text"), "a  ", "a  "),
    (Kind("network"), "FE80::1", "fe80::1"),
]


@pytest.mark.parametrize(("kind", "value", "text"), [*TIMES, *OTHERS], ids=str)
def test_text_of_a_value(kind: Kind, value: Any, text: str) -> None:
    assert canonical.text(kind, value) == text
    assert canonical.text(kind, None) is None


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (Kind("float64"), "9007199254740992p0", "1.0"),
        (Kind("float64"), "-9007199254740992p1", "-2.0"),
        (Kind("float64"), "0", "0.0"),
        (Kind("float64"), "NaN", "NaN"),
        (Kind("rounded", scale=2), "-150", "-1.50"),
        (Kind("rounded", scale=2), "12500000000000000p56", "1e+17"),
        (Kind("integer"), "7", "7"),
        (Kind("float64"), None, None),
    ],
)
def test_readable_form(kind: Kind, text: str | None, shown: str | None) -> None:
    assert canonical.readable(kind, text) == shown


def test_digests_of_long_texts_cut_them_into_pieces() -> None:
    size = PIECE_BYTES
    short, exact, long = "a" * (size - 1), "a" * size, "a" * (size + 1)
    assert canonical.digest(Kind("text"), short, 2) == canonical.row_hash(f"0{short}")
    assert canonical.digest(Kind("text"), exact, 2) == canonical.row_hash(f"0{exact}")
    pieces = [canonical.row_hash(("a" * size).encode().hex()), canonical.row_hash(b"a".hex())]
    assert canonical.digest(Kind("text"), long, 2) == canonical.row_hash("1" + "".join(pieces))
    assert canonical.digest(Kind("binary"), "00ff", 2) == canonical.row_hash("000ff")
    assert canonical.digest(Kind("text"), "x", 0) == canonical.row_hash("x")
    assert canonical.digest(Kind("text"), None, 2) is None


def test_words_and_row_texts() -> None:
    assert canonical.word("0123456789abcdef", 3, 4) == 0x2345
    assert canonical.row_text(["a|b", None, ""]) == "a|0b|1|2|1"
    assert canonical.published_row_text(["a", None]) == "aNULL"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("decimal(10,2)", Kind("decimal", 10, 2)), ("decimal(10)", Kind("decimal", 10, 0)), ("decimal", Kind("decimal")),
        (" rounded ( 3 ) ", Kind("rounded", scale=3)), ("timestamp(6)", Kind("timestamp", scale=6)), ("bit(8)", Kind("bit", 8)),
        ("text", Kind("text")),
    ],
)  # fmt: skip
def test_kinds_of_a_configuration(text: str, kind: Kind) -> None:
    assert canonical.parse_kind(text) == kind
    with pytest.raises(ValueError, match="is no kind"):
        canonical.parse_kind(f"{text}!")


@pytest.mark.parametrize(
    ("source", "target", "shared"),
    [
        (Kind("decimal", 20, 0), Kind("decimal", 19, 0), UNSIGNED),
        (Kind("decimal", 19, 0), Kind("decimal", 18, 0), INTEGER),
        (Kind("decimal", 21, 0), Kind("decimal", 19, 0), Kind("decimal", 19, 0)),
        (INTEGER, Kind("decimal", 10, 2), Kind("decimal", 10, 2)),
        (Kind("decimal"), Kind("decimal", 10, 2), canonical.FULL_DECIMAL),
        (UNSIGNED, INTEGER, UNSIGNED),
        (Kind("bit", 4), INTEGER, INTEGER),
        (Kind("bit", 4), Kind("bit", 8), Kind("bit", 8)),
        (Kind("timestamp", scale=6), Kind("timestamp", scale=3), Kind("timestamp", scale=3)),
        (Kind("timestamp", scale=3), Kind("timestamptz", scale=6), Kind("timestamp", scale=6)),
        (Kind("timestamp", scale=3), Kind("timestamp"), Kind("timestamp", scale=3)),
        (Kind("date"), Kind("timestamp", scale=3), Kind("timestamp", scale=3)),
        (Kind("timestamp", scale=3), Kind("date"), Kind("date")),
        (Kind("uuid"), Kind("binary", 16), Kind("uuid")),
        (Kind("uuid"), Kind("binary", 8), None),
        (Kind("float32"), Kind("float64"), Kind("float32")),
        (Kind("float64"), INTEGER, Kind("float64")),
        (Kind("enum"), Kind("char", 3), Kind("char")),
        (Kind("json"), Kind("text"), Kind("json")),
        (Kind("text"), Kind("date"), Kind("date")),
        (Kind("json"), Kind("date"), None),
        (Kind("text"), Kind("decimal"), Kind("text")),
        (Kind("interval"), Kind("text"), Kind("text")),
        (Kind("time"), Kind("date"), None),
    ],
    ids=str,
)
def test_the_kind_that_two_columns_share(source: Kind, target: Kind, shared: Kind | None) -> None:
    found = canonical.shared_kind(source, target)
    assert (found.kind if found else None) == shared
