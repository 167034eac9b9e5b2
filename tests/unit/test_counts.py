"""The counts method without an engine: settings, merging chunks, deviations, verdict, and histogram borders."""

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

from auditor import canonical
from auditor.compare import deviations
from auditor.compare.comparator import align, compare
from auditor.config import Counts
from auditor.errors import ColumnRefused
from auditor.model import ColumnPlan, Measure, Partitioning, Plan, SidePlan, Verdict
from auditor.planning.partitioning import Bounds
from auditor.sql import distributions, render
from auditor.summary import arrays, measures
from auditor.summary.arrays import Summaries
from dialects import Kind
from tests.unit.test_planner import draft, end, finish_plan

MONEY, TIME, TEXT = Kind("decimal", 10, 2), Kind("timestamp", scale=0), Kind("text")


def column(name: str, kind: Kind, native: Kind | None = None, **more: Any) -> ColumnPlan:
    native_kinds = {"source": native or kind, "target": kind}
    sides: Any = {"source": f'"{name}"', "target": f'"{name}"'}
    return ColumnPlan(name=name, kind=kind, native=native_kinds, expression=sides, types=sides, why="", **more)  # type: ignore[arg-type]


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
    return Plan(audit="a", method="counts", sides={"source": side, "target": side}, columns=COLUMNS, key=1, partitioning=how, prefix="a_")


def summaries(*rows: tuple[int, int, dict[str, str | None]]) -> Summaries:
    """Build summaries from (partition id, row count, measures) triples; measures left out are 0 or NULL."""
    names = render.result_columns(plan())
    measured = measures.measure_names(plan())
    cells = [[p, n, None, None, *(found.get(m, "0" if m.split()[1] == "nulls" else None) for m in measured)] for p, n, found in rows]
    return arrays.read([list(zip(*cells, strict=True))] if cells else [], names)


def verdict_of(
    source: Summaries, target: Summaries, allow: dict[str, Any], **more: Any
) -> tuple[Verdict, tuple[str, ...], tuple[Measure, ...]]:
    aligned = align(source, target)
    found = deviations.deviations(plan(), aligned, Counts(allow=allow))
    return (*deviations.verdict(compare(aligned, **more), found), found)


DAY: dict[str, str | None] = {
    "price sum": "100.00",
    "at min": "2024-02-28 00:00:00",
    "at max": "2024-02-29 23:59:59",
    "note characters": "40",
    "pin max": "7.00",
}


@pytest.mark.parametrize(
    ("changed", "allow", "accepted"),
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
def test_allow_settings_decide_the_verdict(changed: dict[str, str | None], allow: dict[str, Any], accepted: bool) -> None:
    verdict, reasons, (found,) = verdict_of(summaries((1, 9, DAY)), summaries((1, 9, {**DAY, **changed})), allow)
    assert (verdict, found.allowed) == ((Verdict.MATCH, True) if accepted else (Verdict.MISMATCH, False))
    assert any(found.name in reason for reason in reasons)
    assert (found.partition, found.label) == (1, "1970-01-02")


def test_partition_missing_on_one_side_is_a_mismatch() -> None:
    verdict, reasons, found = verdict_of(summaries((1, 9, DAY), (2, 5, DAY)), summaries((1, 9, DAY)), {})
    assert (verdict, [(one.name, one.label, one.source, one.target, one.deviation) for one in found]) == (
        Verdict.MISMATCH, [("rows", "1970-01-03", "5", "0", 1.0)],
    )  # fmt: skip
    assert reasons == ("1 of 2 partitions differ", "one measure differs", "rows (1970-01-03): 5 in the source, 0 in the target")
    found = verdict_of(summaries((1, 9, DAY), (2, 5, DAY)), summaries((1, 9, DAY)), {"rows": 5})[2]
    assert {one.name for one in found if not one.allowed} == {"price sum", "at min", "at max", "note characters", "pin max"}


def test_partition_that_a_side_lacks_has_no_rows_there() -> None:
    for source, target in ((5, 0), (0, 5)):
        sides = [summaries((1, 9, DAY), *([(2, rows, DAY)] if rows else [])) for rows in (source, target)]
        (divergent,) = compare(align(*sides)).divergent
        assert (divergent.partition, divergent.rows) == (2, {"source": source, "target": target})


def test_masked_values_are_not_shown() -> None:
    ((found,), (allowed,)) = (
        verdict_of(summaries((1, 9, DAY)), summaries((1, 9, {**DAY, "pin max": "8.00"})), allow)[2] for allow in ({}, {"* max": 1})
    )
    assert (found.source, found.target, found.deviation, found.allowed, allowed.allowed) == ("***", "***", None, False, True)


def test_empty_tables_match_only_if_allowed() -> None:
    assert verdict_of(summaries(), summaries(), {"rows": "100%"})[0] is Verdict.UNKNOWN
    assert verdict_of(summaries(), summaries(), {}, allow_empty=True)[0] is Verdict.MATCH
    assert verdict_of(summaries(), summaries((1, 9, DAY)), {})[0] is Verdict.MISMATCH


def test_score_threshold_allows_partitions_but_not_classes() -> None:
    source, target = summaries((1, 9, DAY), (2, 9, DAY)), summaries((1, 9, DAY), (2, 8, DAY))
    verdict, _, found = verdict_of(source, target, {}, threshold=0.5)
    assert verdict is Verdict.MATCH
    one_class = Measure(partition=None, label=deviations.WHOLE, name="note class 'x'", source="1", target="2", deviation=1.0, allowed=False)
    assert deviations.verdict(compare(align(source, target), threshold=0.5), (*found, one_class))[0] is Verdict.MISMATCH


# settings


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"classes": ["absent"]}, "the column 'absent' of classes is not compared"),
        ({"histogram": {"column": "absent"}}, "the column 'absent' of a histogram is not compared"),
        ({"histogram": {"column": "v"}}, "a histogram needs numbers, dates or timestamps, and 'v' is compared as text"),
        ({"allow": {"price": 1}}, "allow names 'price': write rows, 'column measure' or '* measure'"),
        ({"allow": {"absent sum": 1}}, "allow names 'absent sum': the column 'absent' is not compared"),
        ({"allow": {"v sum": 1}}, "allow names 'v sum': the measures of 'v' are nulls, characters"),
        ({"allow": {"v class": 1}}, "the measures of 'v' are nulls, characters"),
        ({"allow": {"* total": 1}}, "write rows, 'column measure' or '* measure'"),
        ({"allow": {"at max": "1%"}}, "times deviate by seconds, not by a percentage"),
    ],
)
def test_invalid_counts_settings_are_rejected(counts: dict[str, Any], words: str) -> None:
    table = end("mysql", {"id": "bigint", "v": "text", "price": "decimal(9,2)", "at": "datetime"}, key=["id"])
    with pytest.raises(ColumnRefused, match="counts: ") as caught:
        draft(table, table, method="counts", counts=counts)
    assert words in str(caught.value)


def test_valid_counts_settings_are_accepted() -> None:
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
def test_partitioning_of_counts(partition: dict[str, Any], how: str) -> None:
    audit_plan = finish_plan("bigint", Bounds(10**7, 1, 10**7), method="counts", partition=partition)
    assert str(audit_plan.partitioning) == how
    assert audit_plan.partitioning.label(0) == "the whole table" if not {"size", "strategy", "buckets"} & set(partition) else True


# the values of measures

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20)


@given(st.lists(st.none() | NUMBERS, min_size=1, max_size=6))
def test_fold_sums_and_compares_numbers_exactly(values: list[Decimal | None]) -> None:
    texts = [None if value is None else f"{value:f}" for value in values]
    numbers = [Fraction(value) for value in values if value is not None]
    for name, fold in (("sum_3", sum), ("min_3", min), ("max_3", max)):
        found = measures.fold(name, texts)
        assert found is None if not numbers else Fraction(str(found)) == fold(numbers)


@given(st.lists(st.floats(), min_size=1, max_size=6))
def test_fold_orders_floats_with_nan_last(values: list[float]) -> None:
    texts = [canonical.text(Kind("float64"), value) for value in values]
    ordered = sorted(values, key=lambda value: (value != value, value))  # NaN sorts last
    assert measures.fold("min_0", texts) == canonical.text(Kind("float64"), ordered[0])
    assert measures.fold("max_0", texts) == canonical.text(Kind("float64"), ordered[-1])


@given(st.datetimes())
def test_numeric_value_of_a_timestamp_is_its_unix_seconds(moment: Any) -> None:
    expected = Fraction((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1), 10**6)
    assert measures.numeric_value(canonical.text(Kind("timestamp"), moment)) == expected


def test_sort_key_orders_dates_and_times_outside_pythons_range() -> None:
    moments = ["-infinity", "0044-03-15 BC", "0000-00-00", "0001-01-01", "2024-00-00", "2024-01-01 00:00:00.5", "10000-01-01", "infinity"]
    assert [measures.sort_key(one) < measures.sort_key(other) for one, other in pairwise(moments)] == [True] * 7
    clocks = ["-838:59:59", "-00:00:01.5", "00:00:00", "99:59:59", "100:00:00"]
    assert [measures.sort_key(one) < measures.sort_key(other) for one, other in pairwise(clocks)] == [True] * 4


def test_chunks_of_one_partition_are_merged() -> None:
    names = render.result_columns(plan())
    first, second = summaries((1, 2, DAY), (2, 1, DAY)), summaries((1, 3, {**DAY, "at max": None, "price sum": "-0.50"}))
    found = arrays.concatenate([first, second], names)
    (merged, _) = (dict(zip(measures.measure_names(plan()), cells, strict=True)) for cells in found.measures)
    assert (found.rows.tolist(), merged["price sum"], merged["at max"], merged["note characters"]) == ([5, 1], "99.50", DAY["at max"], "80")
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
def test_histogram_borders(kind: Kind, least: str, greatest: str, texts: tuple[str, ...]) -> None:
    found = distributions.borders(column("v", kind), least, greatest, 4)
    assert found.texts == texts
    assert len(found.names) == len(texts) + 1
