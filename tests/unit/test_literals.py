"""Literals of Python values and of canonical texts: what is written, and what is refused, on engines that differ."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import dialects
from auditor.errors import ValueRefused
from auditor.sql.literals import canonical_literal, value_literal
from dialects import Kind

MYSQL, DUCKDB = dialects.get("mysql"), dialects.get("duckdb")


@pytest.mark.parametrize(
    ("kind", "value", "mysql", "duckdb"),
    [
        (Kind("text"), None, "NULL", "NULL"),
        (Kind("boolean"), True, "TRUE", "TRUE"),
        (Kind("boolean"), False, "FALSE", "FALSE"),
        (Kind("integer"), -7, "-7", "-7"),
        (Kind("decimal", 10, 2), Decimal("1E+3"), "1000", "1000"),
        (Kind("text"), "it's", "'it''s'", "'it''s'"),
        (Kind("json"), "{}", "'{}'", "CAST('{}' AS VARCHAR)"),
        (Kind("binary"), b"\x00\xff", MYSQL.names.binary_literal(b"\x00\xff"), "UNHEX('00ff')"),
        (Kind("bit", 4), 5, "b'0101'", "CAST('0101' AS BIT)"),
        (Kind("date"), dt.date(2024, 2, 29), "'2024-02-29'", "CAST('2024-02-29' AS DATE)"),
        (Kind("timestamptz", scale=6), dt.datetime(2024, 1, 1, 12), "'2024-01-01 12:00:00'",
         "CAST('2024-01-01 12:00:00+00:00' AS TIMESTAMP WITH TIME ZONE)"),
        (Kind("uuid"), "0188D6A27C3E7ABC8DEF0123456789AB", "'0188d6a2-7c3e-7abc-8def-0123456789ab'",
         "CAST('0188d6a2-7c3e-7abc-8def-0123456789ab' AS UUID)"),
        (Kind("interval"), (1, 2, 3_000_004), "'1 months 2 days 3.000004 seconds'", "CAST('1 months 2 days 3.000004 seconds' AS INTERVAL)"),
    ],
)  # fmt: skip
def test_value_as_a_literal(kind: Kind, value: Any, mysql: str, duckdb: str) -> None:
    assert value_literal(MYSQL, kind, value) == mysql
    assert value_literal(DUCKDB, kind, value) == duckdb


def test_plain_value_has_no_cast() -> None:
    assert value_literal(DUCKDB, Kind("date"), dt.date(2024, 2, 29), plain=True) == "'2024-02-29'"


WRITTEN = [
    (Kind("integer"), "0", Kind("boolean"), "boolean", "FALSE"),
    (Kind("bit", 2), "10", Kind("boolean"), "boolean", "TRUE"),
    (Kind("decimal", 10, 2), "7.00", Kind("integer"), "bigint", "7"),
    (Kind("integer"), str(2**63 - 1), Kind("integer"), "bigint", str(2**63 - 1)),
    (Kind("integer"), str(-(2**63)), Kind("integer"), "bigint", str(-(2**63))),
    (Kind("integer", unsigned=True), str(2**64 - 1), Kind("integer", unsigned=True), "bigint unsigned", str(2**64 - 1)),
    (Kind("decimal", 10, 4), "99999999.9900", Kind("decimal", 10, 2), "decimal(10,2)", "99999999.9900"),
    (Kind("integer"), "5", Kind("bit", 4), "bit(4)", "b'0101'"),
    (Kind("uuid"), "0188d6a2-7c3e-7abc-8def-0123456789ab", Kind("char", 32), "char(32)", "'0188d6a27c3e7abc8def0123456789ab'"),
    (Kind("uuid"), "0188d6a2-7c3e-7abc-8def-0123456789ab", Kind("text"), "varchar(36)", "'0188d6a2-7c3e-7abc-8def-0123456789ab'"),
    (Kind("text"), "b", Kind("enum"), "enum('a','b')", "'b'"),
    (Kind("text"), "b,a", Kind("set"), "set('a','b')", "'b,a'"),
    (Kind("text"), "", Kind("set"), "set('a','b')", "''"),
    (Kind("text"), "it's", Kind("enum"), "enum('it''s')", "'it''s'"),
    (Kind("time", scale=0), "-838:59:59", Kind("time", scale=0), "time", "'-838:59:59'"),
    (Kind("interval"), "1m-2d-3000004us", Kind("interval"), "interval", "'1 months -2 days -3.000004 seconds'"),
]


@pytest.mark.parametrize(("kind", "text", "native", "native_type", "sql"), WRITTEN, ids=str)
def test_canonical_text_as_a_literal(kind: Kind, text: str, native: Kind, native_type: str, sql: str) -> None:
    assert canonical_literal(MYSQL, kind, text, native, native_type) == sql
    assert canonical_literal(MYSQL, kind, None, native, native_type) == "NULL"


REFUSED = [
    (Kind("decimal", 10, 2), "7.50", Kind("integer"), "bigint", "a fraction"),
    (Kind("integer"), str(2**63), Kind("integer"), "bigint", "beyond the range"),
    (Kind("integer"), str(-(2**63) - 1), Kind("integer"), "bigint", "beyond the range"),
    (Kind("integer"), "-1", Kind("integer", unsigned=True), "bigint unsigned", "beyond the range"),
    (Kind("decimal", 10, 4), "1.0050", Kind("decimal", 10, 2), "decimal(10,2)", "rounded in silence"),
    (Kind("decimal", 10, 2), "100000000.00", Kind("decimal", 10, 2), "decimal(10,2)", "more digits before the point than the 8"),
    (Kind("float64"), "NaN", Kind("decimal", 10, 2), "decimal(10,2)", "not finite"),
    (Kind("float64"), "7205759403792794p-3", Kind("float32"), "float", "double precision"),
    (Kind("text"), "c", Kind("enum"), "enum('a','b')", "does not list"),
    (Kind("text"), "a,b", Kind("enum"), "enum('a','b')", "does not list"),
    (Kind("text"), "a,c", Kind("set"), "set('a','b')", "does not list"),
    (Kind("text"), "noon", Kind("time"), "time", "no time of day"),
    (Kind("text"), "a month", Kind("interval"), "interval", "no interval"),
]


@pytest.mark.parametrize(("kind", "text", "native", "native_type", "why"), REFUSED, ids=str)
def test_what_a_column_would_change_is_refused(kind: Kind, text: str, native: Kind, native_type: str, why: str) -> None:
    with pytest.raises(ValueRefused, match=why):
        canonical_literal(MYSQL, kind, text, native, native_type)


@pytest.mark.parametrize(("text", "is_written"), [("24:00:00", True), ("23:59:59.9", True), ("24:00:00.5", False), ("24:00:01", False)])
def test_a_time_of_day_ends_with_its_day(text: str, is_written: bool) -> None:
    if is_written:
        assert canonical_literal(DUCKDB, Kind("time"), text, Kind("time"), "time") == f"'{text}'"
        return
    with pytest.raises(ValueRefused, match="24 hours"):
        canonical_literal(DUCKDB, Kind("time"), text, Kind("time"), "time")


def test_moments_say_that_they_are_of_utc() -> None:
    moment = Kind("timestamptz", scale=6)
    assert canonical_literal(DUCKDB, moment, "2024-01-01 12:00:00", moment, "timestamptz") == "'2024-01-01 12:00:00+00:00'"
    assert canonical_literal(DUCKDB, Kind("date"), "2024-01-01", moment, "timestamptz") == "'2024-01-01 00:00:00+00:00'"
    assert canonical_literal(DUCKDB, moment, "infinity", moment, "timestamptz") == "'infinity'"
    assert canonical_literal(MYSQL, moment, "2024-01-01 12:00:00", moment, "timestamp") == "'2024-01-01 12:00:00'"
