"""The method counts without any engine: what its settings may say, how chunks fold, what deviates, what the verdict is."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor import canonical, distribution, measures, measuring, render, summary
from auditor.compare.comparator import align, compare
from auditor.config import Counts
from auditor.errors import ColumnRefused
from auditor.model import ColumnPlan, Measure, Partitioning, Plan, SidePlan, Verdict
from auditor.plan import Bounds
from auditor.summary import Summaries
from dialects import Kind
from tests.test_plan import draft, end, finished

MONEY, TIME, TEXT = Kind("decimal", 10, 2), Kind("timestamp", scale=0), Kind("text")


def column(name: str, kind: Kind, native: Kind | None = None, **more: Any) -> ColumnPlan:
    held = {"source": native or kind, "target": kind}
    sides: Any = {"source": f'"{name}"', "target": f'"{name}"'}
    return ColumnPlan(name=name, kind=kind, native=held, expression=sides, types=sides, why="", **more)  # type: ignore[arg-type]


COLUMNS = (
    column("id", Kind("integer")),
    column("price", MONEY),
    column("at", TIME),
    column("note", TEXT),
    column("pin", MONEY, masked=True),
)
HOW = Partitioning(strategy="time", column=2)


def plan(how: Partitioning = HOW) -> Plan:
    side = SidePlan(dialect="duckdb", connection="c", label="c: t", table="t", where="")
    return Plan(audit="a", method="counts", sides={"source": side, "target": side}, columns=COLUMNS, key=1, partitioning=how)


def summaries(*rows: tuple[int, int, dict[str, str | None]]) -> Summaries:
    """Partitions: each its id, its rows, and the measures that are not 0 or NULL."""
    names = render.result_columns(plan())
    told = measuring.measure_names(plan())
    cells = [[p, n, None, None, *(found.get(name, "0" if name.split()[1] == "nulls" else None) for name in told)] for p, n, found in rows]
    return summary.read([list(zip(*cells, strict=True))] if cells else [], names)


def judged(
    source: Summaries, target: Summaries, allow: dict[str, Any], **more: Any
) -> tuple[Verdict, tuple[str, ...], tuple[Measure, ...]]:
    aligned = align(source, target)
    found = measures.deviations(plan(), aligned, Counts(allow=allow))
    return (*measures.verdict(compare(aligned, **more), found), found)


DAY: dict[str, str | None] = {
    "price sum": "100.00",
    "at min": "2024-02-28 00:00:00",
    "at max": "2024-02-29 23:59:59",
    "note characters": "40",
    "pin max": "7.00",
}


@pytest.mark.parametrize(
    ("changed", "allow", "fits"),
    [
        ({"price sum": "100.01"}, {}, False),
        ({"price sum": "100.01"}, {"price sum": "0.01"}, True),
        ({"price sum": "100.01"}, {"price sum": 0.01}, True),
        ({"price sum": "100.01"}, {"price sum": "0.01%"}, True),
        ({"price sum": "100.01"}, {"price sum": "0.0099%"}, False),
        ({"price sum": "99.99"}, {"* sum": "0.01%", "Price  sum": 0}, False),
        ({"price sum": None}, {"* sum": "99%"}, False),
        ({"price sum": None}, {"* sum": "100%"}, True),
        ({"price nulls": "1"}, {"* nulls": "100%"}, False),
        ({"price nulls": "1"}, {"* nulls": "1"}, True),
        ({"at max": "2024-03-01 00:00:01"}, {"at max": 2}, True),
        ({"at max": "2024-03-01 00:00:01"}, {"* max": 1.9}, False),
        ({"at max": "2024-03-01 00:00:01"}, {"* max": "50%"}, False),
        ({"at min": None}, {"* min": 10**12}, False),
        ({"note characters": "44"}, {"note characters": "10%"}, True),
    ],
)
def test_what_is_allowed(changed: dict[str, str | None], allow: dict[str, Any], fits: bool) -> None:
    verdict, reasons, (found,) = judged(summaries((1, 9, DAY)), summaries((1, 9, {**DAY, **changed})), allow)
    assert (verdict, found.allowed) == ((Verdict.MATCH, True) if fits else (Verdict.MISMATCH, False))
    assert any(found.name in reason for reason in reasons)
    assert (found.partition, found.label) == (1, "1970-01-02")


def test_a_partition_that_one_side_lacks() -> None:
    verdict, reasons, found = judged(summaries((1, 9, DAY), (2, 5, DAY)), summaries((1, 9, DAY)), {})
    assert (verdict, [(one.name, one.label, one.source, one.target, one.deviation) for one in found]) == (
        Verdict.MISMATCH, [("rows", "1970-01-03", "5", "0", 1.0)],
    )  # fmt: skip
    assert reasons == ("1 of 2 partitions differ", "one measure differs", "rows (1970-01-03): 5 in the source, 0 in the target")
    found = judged(summaries((1, 9, DAY), (2, 5, DAY)), summaries((1, 9, DAY)), {"rows": 5})[2]
    assert {one.name for one in found if not one.allowed} == {"price sum", "at min", "at max", "note characters", "pin max"}


def test_a_masked_value_is_not_shown() -> None:
    ((found,), (allowed,)) = (
        judged(summaries((1, 9, DAY)), summaries((1, 9, {**DAY, "pin max": "8.00"})), allow)[2] for allow in ({}, {"* max": 1})
    )
    assert (found.source, found.target, found.deviation, found.allowed, allowed.allowed) == ("***", "***", None, False, True)


def test_nothing_is_equal_because_nothing_was_compared() -> None:
    assert judged(summaries(), summaries(), {"rows": "100%"})[0] is Verdict.UNKNOWN
    assert judged(summaries(), summaries(), {}, allow_empty=True)[0] is Verdict.MATCH
    assert judged(summaries(), summaries((1, 9, DAY)), {})[0] is Verdict.MISMATCH


def test_a_threshold_forgives_partitions_and_no_classes() -> None:
    source, target = summaries((1, 9, DAY), (2, 9, DAY)), summaries((1, 9, DAY), (2, 8, DAY))
    verdict, _, found = judged(source, target, {}, threshold=0.5)
    assert verdict is Verdict.MATCH
    told = Measure(partition=None, label=measures.WHOLE, name="note class 'x'", source="1", target="2", deviation=1.0, allowed=False)
    assert measures.verdict(compare(align(source, target), threshold=0.5), (*found, told))[0] is Verdict.MISMATCH


# settings


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"classes": ["absent"]}, "the column 'absent' of classes is not compared"),
        ({"histogram": {"column": "absent"}}, "the column 'absent' of a histogram is not compared"),
        ({"histogram": {"column": "v"}}, "a histogram needs numbers, dates or timestamps, and 'v' is compared as text"),
        ({"allow": {"price": 1}}, "allow names 'price': write rows, 'column measure' or '* measure'"),
        ({"allow": {"absent sum": 1}}, "allow names 'absent sum': the column 'absent' is not compared"),
        ({"allow": {"v sum": 1}}, "allow names 'v sum': what is measured of 'v' is nulls, characters"),
        ({"allow": {"v class": 1}}, "what is measured of 'v' is nulls, characters"),
        ({"allow": {"* total": 1}}, "write rows, 'column measure' or '* measure'"),
        ({"allow": {"at max": "1%"}}, "a moment deviates by seconds, not by a percentage"),
    ],
)
def test_settings_that_do_not_fit(counts: dict[str, Any], words: str) -> None:
    table = end("mysql", {"id": "bigint", "v": "text", "price": "decimal(9,2)", "at": "datetime"}, key=["id"])
    with pytest.raises(ColumnRefused, match="counts: ") as caught:
        draft(table, table, method="counts", counts=counts)
    assert words in str(caught.value)


def test_settings_that_fit() -> None:
    table = end("mysql", {"id": "bigint", "V": "text", "price": "decimal(9,2)", "at": "datetime"}, key=["id"])
    allow = {"rows": "1%", "v class": 1, "* nulls": 2, "Price histogram": "5%", "at max": 60, "* class": 1}
    draft(table, table, method="counts", counts={"classes": ["v"], "histogram": {"column": "PRICE"}, "allow": allow})


@pytest.mark.parametrize(
    ("partition", "how"),
    [
        ({}, "the whole table"),
        ({"rows": 10, "limit": 5}, "the whole table"),
        ({"size": 8}, "range of 8 keys"),
        ({"strategy": "range"}, "range of 1,048,576 keys"),
        ({"buckets": 3}, "hash in 3 buckets"),
    ],
)
def test_the_partitions_of_counts(partition: dict[str, Any], how: str) -> None:
    made = finished("bigint", Bounds(10**7, 1, 10**7), method="counts", partition=partition)
    assert str(made.partitioning) == how
    assert made.partitioning.label(0) == "the whole table" if not {"size", "strategy", "buckets"} & set(partition) else True


# what texts mean

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20)


@given(st.lists(st.none() | NUMBERS, min_size=1, max_size=6))
def test_folding_numbers(values: list[Decimal | None]) -> None:
    texts = [None if value is None else f"{value:f}" for value in values]
    held = [Fraction(value) for value in values if value is not None]
    for name, fold in (("sum_3", sum), ("min_3", min), ("max_3", max)):
        found = measuring.fold(name, texts)
        assert found is None if not held else Fraction(str(found)) == fold(held)


@given(st.lists(st.floats(), min_size=1, max_size=6))
def test_folding_floats(values: list[float]) -> None:
    texts = [canonical.text(Kind("float64"), value) for value in values]
    placed = sorted(values, key=lambda value: (value != value, value))  # NaN is the last
    assert measuring.fold("min_0", texts) == canonical.text(Kind("float64"), placed[0])
    assert measuring.fold("max_0", texts) == canonical.text(Kind("float64"), placed[-1])


@given(st.datetimes())
def test_seconds_of_moments(moment: Any) -> None:
    wanted = Fraction((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1), 10**6)
    assert measuring.amount(canonical.text(Kind("timestamp"), moment)) == wanted


def test_the_order_of_what_python_has_no_value_of() -> None:
    moments = ["-infinity", "0044-03-15 BC", "0000-00-00", "0001-01-01", "2024-00-00", "2024-01-01 00:00:00.5", "10000-01-01", "infinity"]
    assert [measuring.order(one) < measuring.order(other) for one, other in pairwise(moments)] == [True] * 7
    clocks = ["-838:59:59", "-00:00:01.5", "00:00:00", "99:59:59", "100:00:00"]
    assert [measuring.order(one) < measuring.order(other) for one, other in pairwise(clocks)] == [True] * 4


def test_chunks_of_one_partition_become_one() -> None:
    names = render.result_columns(plan())
    first, second = summaries((1, 2, DAY), (2, 1, DAY)), summaries((1, 3, {**DAY, "at max": None, "price sum": "-0.50"}))
    found = summary.together([first, second], names)
    (told, _) = (dict(zip(measuring.measure_names(plan()), cells, strict=True)) for cells in found.measures)
    assert (found.rows.tolist(), told["price sum"], told["at max"], told["note characters"]) == ([5, 1], "99.50", DAY["at max"], "80")
    assert np.array_equal(found.partition, [1, 2])


# histograms


@pytest.mark.parametrize(
    ("kind", "least", "greatest", "texts"),
    [
        (MONEY, "0.00", "0.99", ("0.25", "0.50", "0.75")),
        (MONEY, "-0.01", "0.01", ("0.00", "0.01")),
        (MONEY, "5.00", "5.00", ()),
        (Kind("integer"), "-10", "9", ("-5", "0", "5")),
        (Kind("integer", unsigned=True), "0", str(2**64 - 1), (str(2**62), str(2**63), str(3 * 2**62))),
        (Kind("date"), "1969-12-31", "1970-01-03", ("1970-01-01", "1970-01-02", "1970-01-03")),
        (TIME, "2024-02-28 00:00:00", "2024-03-02 23:59:59", tuple(f"2024-0{d} 00:00:00.000000" for d in ("2-29", "3-01", "3-02"))),
        (Kind("float64"), "0", str(canonical.text(Kind("float64"), 1.0)), ("0.25", "0.5", "0.75")),
    ],
)
def test_borders(kind: Kind, least: str, greatest: str, texts: tuple[str, ...]) -> None:
    found = distribution.borders(column("v", kind), least, greatest, 4)
    assert found.texts == texts
    assert len(found.names) == len(texts) + 1
