"""Tolerances: values within a tolerance are never reported, values beyond it always are (on engines: tests/pairs/test_tolerance.py)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from auditor import canonical
from auditor.compare import tolerance
from auditor.compare.accounting import Row
from auditor.config import Override
from auditor.errors import ColumnRefused
from auditor.model import ColumnPlan, Partitioning, Plan, Side, SidePlan, Tolerance
from auditor.planning import not_compared
from dialects import Kind

INTEGER, DOUBLE, DATE = Kind("integer"), Kind("float64"), Kind("date")
MONEY, SECONDS, MOMENT = Kind("decimal", 12, 4), Kind("timestamp", scale=0), Kind("timestamp", scale=6)
CENT = {"absolute": 0.01}


def column(source: Kind, target: Kind, configured: dict[str, Any], name: str = "x") -> ColumnPlan:
    """Return the plan of a column with this tolerance setting."""
    setting = Override.model_validate({"tolerance": configured}).tolerance
    assert setting
    parsed = tolerance.from_setting(setting)
    native: dict[Side, Kind] = {"source": source, "target": target}
    types: dict[Side, str] = {"source": str(source), "target": str(target)}
    shared, fine = tolerance.resolve_kinds(name, native, types, parsed)
    return ColumnPlan(
        name=name,
        kind=shared.kind,
        native=native,
        expression={"source": name, "target": name},
        types=types,
        why=shared.why,
        tolerance=parsed,
        fine=fine,
    )


def equal_in_scan(by: ColumnPlan, source: Any, target: Any) -> bool:
    return scan_text(by, "source", source) == scan_text(by, "target", target)


def scan_text(by: ColumnPlan, side: Side, value: Any) -> str | None:
    """Return the text that the scan compares; doubles outside the range of single precision keep double precision."""
    fits = value is not None and math.isfinite(value) and 1e-37 < abs(value) < 3e38 if by.kind.name == "float32" else True
    return canonical.text(by.kind if fits or by.native[side].name == "float32" else DOUBLE, value)


def within_tolerance(by: ColumnPlan, source: Any, target: Any) -> bool:
    return tolerance.text_equality(by)(canonical.text(by.fine["source"], source), canonical.text(by.fine["target"], target))


def digits(value: Any) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


@pytest.mark.parametrize(
    ("source", "target", "configured", "scanned"),
    [
        (MONEY, MONEY, {"absolute": 0.01}, "decimal(10,2)"),
        (MONEY, MONEY, {"absolute": 0.5}, "decimal(9,1)"),
        (MONEY, MONEY, {"absolute": 3}, "decimal(8,0)"),
        (MONEY, MONEY, {"absolute": 0.00001}, "decimal(12,4)"),
        (MONEY, Kind("decimal", 12, 2), {"absolute": 0.001}, "decimal(12,2)"),
        (INTEGER, INTEGER, {"absolute": 3}, "integer"),
        (DOUBLE, DOUBLE, {"absolute": 0.01}, "rounded(2)"),
        (DOUBLE, DOUBLE, {"absolute": 0.0099}, "rounded(3)"),
        (DOUBLE, DOUBLE, {"absolute": 7}, "rounded(0)"),
        (DOUBLE, DOUBLE, {"absolute": 1e-30}, "float64"),
        (MONEY, DOUBLE, {"absolute": 0.01}, "rounded(2)"),
        (DOUBLE, DOUBLE, {"relative": 1e-6}, "float32"),
        (DOUBLE, DOUBLE, {"relative": 1.2e-7}, "float32"),
        (DOUBLE, DOUBLE, {"relative": 1.1e-7}, "float64"),  # finer than the spacing of single precision, 2^-23
        (DOUBLE, DOUBLE, {"relative": 1e-9}, "float64"),
        (MONEY, MONEY, {"relative": 1e-6}, "decimal(12,4)"),
        (MONEY, DOUBLE, {"relative": 1e-6}, "float32"),
        (MONEY, DOUBLE, {"relative": 1e-12}, "float64"),
        (MOMENT, MOMENT, {"time": "1s"}, "timestamp(0)"),
        (MOMENT, MOMENT, {"time": "1h"}, "timestamp(0)"),
        (MOMENT, MOMENT, {"time": "100ms"}, "timestamp(1)"),
        (MOMENT, MOMENT, {"time": "99ms"}, "timestamp(2)"),
        (MOMENT, SECONDS, {"time": "1ms"}, "timestamp(0)"),
        (Kind("timestamptz", scale=6), MOMENT, {"time": "1s"}, "timestamp(0)"),
        (Kind("time", scale=6), Kind("time", scale=3), {"time": "20ms"}, "time(2)"),
        (DATE, DATE, {"time": "2d"}, "date"),
    ],
)
def test_scan_kind_is_as_coarse_as_the_tolerance_allows(source: Kind, target: Kind, configured: dict[str, Any], scanned: str) -> None:
    assert str(column(source, target, configured).kind) == scanned


@pytest.mark.parametrize(
    ("source", "target", "configured", "why"),
    [
        (DATE, DATE, {"time": "12h"}, "whole days"),
        (MOMENT, DATE, {"time": "1s"}, "whole days"),
        (Kind("text"), Kind("text"), CENT, "needs numbers"),
        (MONEY, Kind("text"), CENT, "needs numbers"),
        (Kind("boolean"), Kind("boolean"), CENT, "needs numbers"),
        (MONEY, MONEY, {"time": "1s"}, "needs dates"),
        (MOMENT, Kind("text"), {"time": "1s"}, "needs dates"),
        (MOMENT, MOMENT, {"relative": 0.1}, "needs numbers"),
        (MONEY, DOUBLE, {"absolute": 1e-20}, "at least 1e-15"),
        (MONEY, DOUBLE, {"relative": 1e-20}, "at least 1e-15"),
    ],
)
def test_invalid_tolerances_are_rejected(source: Kind, target: Kind, configured: dict[str, Any], why: str) -> None:
    with pytest.raises(ColumnRefused, match=why):
        column(source, target, configured)


numbers = st.integers(-(10**7), 10**7)
borders = st.sampled_from([0, 49, 50, 51, 99, 100, 101, 149, 150, 151, -50, -49, -150])
"""Values in ten-thousandths, on and near the borders of a grid of hundredths."""


@given(numbers | borders, borders | numbers, st.sampled_from(["0.01", "0.015", "0.5", "0.0003", "2"]))
@example(50, 49, "0.01")
@example(-50, 50, "0.01")
def test_tolerance_of_decimals(first: int, apart: int, limit: str) -> None:
    a, b = Decimal(first).scaleb(-4), Decimal(first + apart).scaleb(-4)
    by = column(MONEY, MONEY, {"absolute": float(limit)})
    assert within_tolerance(by, a, b) == (abs(a - b) <= Decimal(limit))
    assert within_tolerance(by, a, b) or not equal_in_scan(by, a, b)


doubles = st.floats(-1e9, 1e9) | borders.map(lambda n: n / 10000) | st.sampled_from([0.005, 0.00499, 1.005, -0.005, 2.675])


@given(doubles, doubles | st.floats(-0.1, 0.1), st.booleans(), st.sampled_from([0.01, 0.02, 0.5, 1e-6, 3.0]))
@example(1.0, 0.01, True, 0.01)
def test_tolerance_of_doubles(first: float, other: float, near: bool, limit: float) -> None:
    second = first + other if near else other
    by = column(DOUBLE, DOUBLE, {"absolute": limit})
    assert within_tolerance(by, first, second) == (abs(digits(first) - digits(second)) <= Fraction(repr(limit)))
    assert abs(Fraction(first) - Fraction(second)) <= Fraction(repr(limit)) or not equal_in_scan(by, first, second)


@given(numbers | borders, st.floats(-0.1, 0.1) | st.sampled_from([0.0, 0.01, -0.01, 0.005]))
def test_tolerance_between_a_decimal_and_a_double(first: int, apart: float) -> None:
    a = Decimal(first).scaleb(-4)
    b = float(a) + apart
    by = column(MONEY, DOUBLE, CENT)
    assert within_tolerance(by, a, b) == (abs(digits(a) - digits(b)) <= Fraction("0.01"))
    assert abs(Fraction(a) - Fraction(b)) <= Fraction("0.01") or not equal_in_scan(by, a, b)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e-5, 1e-5), st.sampled_from([1e-6, 2e-7, 1e-7, 1e-12, 0.5]))
@example(1e-50, 0.0, 1e-6)
@example(3e300, 0.0, 1e-6)
@example(0.0, 0.0, 1e-6)
def test_relative_tolerance_of_doubles(first: float, apart: float, limit: float) -> None:
    second = first * (1 + apart)
    if not math.isfinite(second):
        return
    by = column(DOUBLE, DOUBLE, {"relative": limit})
    a, b = digits(first), digits(second)
    within = abs(a - b) <= Fraction(repr(limit)) * max(abs(a), abs(b))
    assert within_tolerance(by, first, second) == within
    assert within or not equal_in_scan(by, first, second)


@given(st.floats(1e-60, 1e-30), st.floats(1e-60, 1e-30))
def test_tiny_doubles_beyond_the_tolerance_differ_in_the_scan(first: float, second: float) -> None:
    by = column(DOUBLE, DOUBLE, {"relative": 1e-6})
    assert within_tolerance(by, first, second) or not equal_in_scan(by, first, second)


@given(
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)) | st.just(dt.datetime(2024, 1, 1)),
    st.timedeltas(dt.timedelta(seconds=-3), dt.timedelta(seconds=3)) | st.just(dt.timedelta(microseconds=-1)),
    st.sampled_from([0.001, 0.1, 0.25, 1.0, 1.5]),
)
def test_tolerance_of_timestamps(first: dt.datetime, apart: dt.timedelta, limit: float) -> None:
    by = column(MOMENT, MOMENT, {"time": f"{limit}s"})
    within = abs(apart) <= dt.timedelta(seconds=limit)
    assert within_tolerance(by, first, first + apart) == within
    assert within or not equal_in_scan(by, first, first + apart)


@given(st.timedeltas(dt.timedelta(hours=-838), dt.timedelta(hours=838)), st.timedeltas(dt.timedelta(seconds=-3), dt.timedelta(seconds=3)))
def test_tolerance_of_times_longer_than_a_day(first: dt.timedelta, apart: dt.timedelta) -> None:
    by = column(Kind("time", scale=6), Kind("time", scale=6), {"time": "1s"})
    assert within_tolerance(by, first, first + apart) == (abs(apart) <= dt.timedelta(seconds=1))
    assert within_tolerance(by, first, first + apart) or not equal_in_scan(by, first, first + apart)


def test_null_nan_and_infinity_equal_only_themselves() -> None:
    by = column(DOUBLE, DOUBLE, CENT)
    alike = tolerance.text_equality(by)
    for one in (None, "NaN", "Infinity", "-Infinity"):
        for other in (None, "NaN", "Infinity", "-Infinity", "0"):
            assert alike(one, other) == (one == other)
    mixed = tolerance.text_equality(column(MONEY, DOUBLE, CENT))
    assert mixed("NaN", "NaN") and not mixed("NaN", "0") and not mixed(None, "0") and mixed("0.0000", "0")
    days = tolerance.text_equality(column(DATE, DATE, {"time": "1d"}))
    assert days("2024-02-28", "2024-02-29") and not days("2024-02-28", "2024-03-01") and not days("0000-00-00", "0001-01-01")
    assert days("0000-00-00", "0000-00-00") and days("10000-01-01", "9999-12-31")


# rows


def plan_of(*columns: ColumnPlan) -> Plan:
    side = SidePlan(dialect="duckdb", connection="x", label="x", table="x", where="")
    return Plan(
        audit="x",
        method="exact",
        sides={"source": side, "target": side},
        columns=columns,
        key=1,
        partitioning=Partitioning(strategy="range", size=10),
        prefix="a_",
    )


def plain(name: str, kind: Kind = INTEGER) -> ColumnPlan:
    return ColumnPlan(
        name=name,
        kind=kind,
        native={"source": kind, "target": kind},
        expression={"source": name, "target": name},
        types={"source": "", "target": ""},
        why="",
    )


PLAN = plan_of(plain("id"), plain("note", Kind("text")), column(MONEY, MONEY, {"absolute": 1}, "price"))


def rows_of(texts: Sequence[tuple[str | None, str | None, str | None]], side: str) -> list[Row]:
    return [Row(0, f"{side}{number:014x}", (key,), (note, price)) for number, (key, note, price) in enumerate(texts)]


def named_differences(source: list[Any], target: list[Any]) -> tuple[list[Any], int]:
    found, pairs = tolerance.named_differences(PLAN, {"source": rows_of(source, "a"), "target": rows_of(target, "b")}, 200)
    return [(one.kind, one.key["id"], dict(one.rows), [c.name for c in one.columns]) for one in found], pairs.equal


def test_row_within_its_tolerances_is_not_reported() -> None:
    assert named_differences([("1", "n", "2.6000")], [("1", "n", "2.4000")]) == ([], 1)


def test_changed_row_names_only_columns_beyond_their_tolerance() -> None:
    assert named_differences([("1", "n", "2.6")], [("1", "m", "2.4")]) == ([("changed", "1", {"source": 1, "target": 1}, ["note"])], 0)
    assert named_differences([("1", "n", "2.6")], [("1", "n", "4.4")]) == ([("changed", "1", {"source": 1, "target": 1}, ["price"])], 0)


def test_rows_with_duplicate_keys_are_matched_maximally() -> None:
    """2.0 could be paired with 1.5 or 2.9, but only 2.9 leaves a partner for 1.0."""
    source: list[Any] = [("1", "n", "2.0"), ("1", "n", "1.0"), ("1", "n", "9.0")]
    target: list[Any] = [("1", "n", "1.5"), ("1", "n", "2.9")]
    assert named_differences(source, target) == ([("missing", "1", {"source": 1, "target": 0}, [])], 2)


def test_many_rows_with_one_key_are_paired_in_order() -> None:
    source: list[Any] = [(None, "n", f"{n:04}.0") for n in range(400)]
    target: list[Any] = [(None, "n", f"{n:04}.5") for n in range(400)]
    assert named_differences(source, target) == ([], 400)


def test_plan_notes_describe_its_tolerances() -> None:
    assert "are compared one by one" in tolerance.notes(PLAN)[0]
    import dataclasses

    assert "use the method exact to compare rows" in tolerance.notes(dataclasses.replace(PLAN, method="signature"))[0]
    assert tolerance.notes(plan_of(plain("id"))) == []
    assert [str(one) for one in not_compared.of_column(PLAN.columns[2])] == ["price: values up to 1.0 apart count as equal"]
    assert str(Tolerance("time", Decimal("1.0"))) == "1 s"
