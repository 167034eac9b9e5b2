"""What the method counts finds, and what it allows, on every engine: measures, classes and histograms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from auditor import distribution, measures
from auditor.compare.comparator import align, compare
from auditor.config import Audit
from auditor.model import SIDES, Measure, Plan, Side, Verdict
from dialects import Kind, Session
from tests import tables
from tests.engines import LiveEngine, LivePair, ring_params
from tests.test_counts_live import planned, read

COLUMNS = [("id", Kind("integer")), ("status", Kind("text")), ("price", Kind("decimal", 10, 2)), ("weight", Kind("float64")),
           ("at", Kind("timestamp", scale=6)), ("day", Kind("date"))]  # fmt: skip
STATUS = ("paid", "Paid", "paid ", "öpen😀", None, "")
Row = tuple[Any, ...]
Found = tuple[Verdict, tuple[str, ...], tuple[Measure, ...]]


def row(n: int, **changed: Any) -> Row:
    start = dt.datetime(1969, 12, 30, 12)
    values: dict[str, Any] = {
        "id": n, "status": STATUS[n % 6], "price": Decimal(n * 7 % 50) / 4, "weight": None if n == 3 else n * 0.1 - 1,
        "at": start + dt.timedelta(hours=n, microseconds=n), "day": (start + dt.timedelta(days=n)).date(), **changed,
    }  # fmt: skip
    return tuple(values[name] for name, _ in COLUMNS)


ROWS = [row(n) for n in range(60)]
SPREAD = {"classes": ["status"], "histogram": [{"column": "price", "buckets": 4}, {"column": "weight", "buckets": 5},
          {"column": "at", "buckets": 6}, {"column": "day", "buckets": 7}, {"column": "id", "buckets": 3}]}  # fmt: skip


def audit(source: str, target: str, counts: Any = None, **more: Any) -> Audit:
    ends = {side: {"connection": side, "table": table} for side, table in (("source", source), ("target", target))}
    return Audit.model_validate({**ends, "key": ["id"], "method": "counts", "counts": counts or {}, **more})


def asker(sides: dict[Side, Session]) -> Callable[[Callable[[Side, Session], Any]], dict[Side, Any]]:
    return lambda work: {side: work(side, sides[side]) for side in SIDES}


def judged(plan: Plan, asked: Audit, sides: dict[Side, Session]) -> Found:
    aligned = align(*(read(plan, side, sides[side]) for side in SIDES))
    comparison = compare(aligned, allow_empty=asked.allow_empty, threshold=asked.threshold.score)
    found = (*measures.deviations(plan, aligned, asked.counts), *measures.extra(plan, asked.counts, asker(sides)))
    return (*measures.verdict(comparison, found), found)


def found_by(pair: LivePair, asked: Audit) -> Found:
    with planned(pair, asked) as (plan, sides):
        return judged(plan, asked, sides)


def names(found: Found) -> set[str]:
    return {one.name for one in found[2] if not one.allowed}


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
def test_equal_tables_are_equal_between_all_engines(pair: LivePair) -> None:
    for engine in {pair.source, pair.target}:
        made(engine, "spread_same", ROWS)
    assert found_by(pair, audit("spread_same", "spread_same", SPREAD)) == (Verdict.MATCH, ("every measure is equal",), ())
    by_day = audit("spread_same", "spread_same", partition={"strategy": "time", "column": "at"})
    assert found_by(pair, by_day) == (Verdict.MATCH, ("every measure is equal in all 3 partitions",), ())


_MADE: set[tuple[str, str]] = set()


def made(engine: LiveEngine, table: str, rows: list[Row]) -> None:
    if (engine.name, table) not in _MADE:
        tables.make(engine, table, COLUMNS, rows)
        _MADE.add((engine.name, table))


def test_what_each_change_is_told_as(engine: LiveEngine) -> None:
    both = LivePair(engine, engine)
    made(engine, "spread_same", ROWS)
    changes: dict[str, tuple[list[Row], set[str]]] = {
        "a NULL more": ([*ROWS[:5], row(5, weight=None), *ROWS[6:]], {"weight nulls", "weight histogram"}),
        "a number": ([*ROWS[:5], row(5, price=Decimal("8.76")), *ROWS[6:]], {"price sum"}),
        "a longer text": ([*ROWS[:5], row(5, status="x"), *ROWS[6:]], {"status characters", "status class ''", "status class 'x'"}),
        "a class moved": ([*ROWS[:6], row(6, status="Paid"), *ROWS[7:]], {"status class 'paid'", "status class 'Paid'"}),
        "a blank at the end": ([*ROWS[:7], row(7, status="paid "), *ROWS[8:]],
                               {"status characters", "status class 'Paid'", "status class 'paid '"}),
        "the least moment": ([row(0, at=dt.datetime(1969, 12, 30, 11, 59, 59)), *ROWS[1:]], {"at min"}),
        "the greatest day": ([*ROWS[:59], row(59, day=dt.date(1970, 4, 30))], {"day max", "day histogram"}),
    }  # fmt: skip
    for number, (what, (rows, wanted)) in enumerate(changes.items()):
        tables.make(engine, "spread_changed", COLUMNS, rows)
        verdict, reasons, found = found_by(both, audit("spread_same", "spread_changed", SPREAD))
        told = {one.name.split(" histogram")[0] + (" histogram" if " histogram" in one.name else "") for one in found}
        assert (verdict, told, reasons[0].split()[-1][:6]) == (Verdict.MISMATCH, wanted, "differ"), (number, what)


def test_a_spread_that_shifts_under_equal_sums(engine: LiveEngine) -> None:
    """Two prices move towards each other: their count, sum, least and greatest value stay."""
    made(engine, "spread_same", ROWS)
    prices = sorted(range(60), key=lambda n: ROWS[n][2])
    low, high = prices[8], prices[-8]
    moved = [*ROWS]
    moved[low], moved[high] = row(low, price=ROWS[low][2] + 4), row(high, price=ROWS[high][2] - 4)
    tables.make(engine, "spread_changed", COLUMNS, moved)
    both = LivePair(engine, engine)
    assert found_by(both, audit("spread_same", "spread_changed"))[0] is Verdict.MATCH
    found = found_by(both, audit("spread_same", "spread_changed", {"histogram": {"column": "price", "buckets": 5}}))
    assert found[0] is Verdict.MISMATCH
    assert all(name.startswith("price histogram ") for name in names(found))
    assert sum(int(one.target or 0) - int(one.source or 0) for one in found[2]) == 0


def test_a_lost_row_and_what_is_allowed(engine: LiveEngine) -> None:
    made(engine, "spread_same", ROWS)
    tables.make(engine, "spread_changed", COLUMNS, [*ROWS[:20], *ROWS[21:59], row(59, at=ROWS[59][4] + dt.timedelta(seconds=3))])
    both = LivePair(engine, engine)
    verdict, reasons, found = found_by(both, audit("spread_same", "spread_changed"))
    assert verdict is Verdict.MISMATCH
    (rows,) = (one for one in found if one.name == "rows")
    assert (rows.label, rows.source, rows.target, rows.deviation) == ("the whole table", "60", "59", 1 / 60)
    assert "rows: 60 in the source, 59 in the target" in reasons
    allow: dict[str, Any] = {"rows": "2%", "* sum": "20%", "Weight nulls": 0, "status characters": 5, "* max": 3, "day max": 0}
    allowed = found_by(both, audit("spread_same", "spread_changed", {"allow": allow}))
    assert allowed[0] is Verdict.MATCH, allowed
    assert allowed[1][0].startswith("what differs is within what the audit allows: rows, ")
    assert all(one.allowed for one in allowed[2])
    assert names(found_by(both, audit("spread_same", "spread_changed", {"allow": {**allow, "at max": 2.9}}))) == {"at max"}
    assert names(found_by(both, audit("spread_same", "spread_changed", {"allow": {**allow, "rows": "1%"}}))) == {"rows"}
    lost = {**SPREAD, "allow": {**allow, "* class": 1, "* histogram": "100%"}}
    assert found_by(both, audit("spread_same", "spread_changed", lost))[0] is Verdict.MATCH
    assert any(" class " in name for name in names(found_by(both, audit("spread_same", "spread_changed", {**lost, "allow": allow}))))


def test_partitions_by_time_tell_the_day(engine: LiveEngine) -> None:
    made(engine, "spread_same", ROWS)
    tables.make(engine, "spread_changed", COLUMNS, [*ROWS[:13], row(13, price=Decimal("-0.01")), *ROWS[14:36]])
    asked = audit("spread_same", "spread_changed", partition={"strategy": "time", "column": "at"})
    verdict, reasons, found = found_by(LivePair(engine, engine), asked)
    assert verdict is Verdict.MISMATCH
    assert reasons[0] == "2 of 3 partitions differ"
    assert {(one.label, one.name) for one in found} == {("1969-12-31", "price sum"), ("1969-12-31", "price min"), ("1970-01-01", "rows")}


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
def test_many_classes_do_not_cross_the_network(pair: LivePair) -> None:
    """Of the source's most frequent classes the rows are counted on both sides, wherever they stand in the target's order."""
    columns = COLUMNS[:2]
    frequent = [f"often {n}|'\\%" for n in range(3)]
    source = [frequent[n % 3] if n < 30 else None if n < 45 else f"rare {n}" for n in range(90)]
    target = [frequent[0] if text in frequent[:2] else text for text in source]
    target[46], target[47], target[48] = "rare 45", "rare 45", "rare 45"
    for engine, table, texts in ((pair.source, "classes_many", source), (pair.target, "classes_few", target)):
        if (engine.name, table) not in _MADE:
            tables.make(engine, table, columns, list(enumerate(texts)))
            _MADE.add((engine.name, table))
    _, reasons, found = found_by(pair, audit("classes_many", "classes_few", {"classes": ["status"], "most_classes": 4}))
    told = {one.name: (one.source, one.target) for one in found if " class" in one.name}
    assert told == {
        f"status class {frequent[0]!r}": ("10", "20"),
        f"status class {frequent[1]!r}": ("10", "0"),
        "status classes": ("49", "45"),
    }
    assert reasons[-1] == "status: only the 4 most frequent classes of the source were compared"
    again = audit("classes_many", "classes_many", {"classes": ["status"], "most_classes": 4})
    same = found_by(LivePair(pair.source, pair.source), again)
    assert (same[0], same[2][0].allowed, same[1][-1]) == (Verdict.MATCH, True, reasons[-1])


def test_long_classes_are_told_by_their_beginning(engine: LiveEngine) -> None:
    texts = ["é" * 300 + "a", "é" * 300 + "b", "é" * 300 + "b", "é" * 200]
    tables.make(engine, "classes_long", COLUMNS[:2], list(enumerate(texts)))
    tables.make(engine, "classes_changed", COLUMNS[:2], list(enumerate([texts[0], *texts[:3]])))
    found = found_by(LivePair(engine, engine), audit("classes_long", "classes_changed", {"classes": ["status"]}))[2]
    told = sorted((one.source, one.target, len(one.name) < 260) for one in found if " class " in one.name)
    assert told == [("1", "0", True), ("1", "2", True)]


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
def test_extremes_of_histograms(pair: LivePair) -> None:
    """The greatest integers, doubles apart by everything there is, one value alone, no values at all."""
    kinds = [("id", Kind("integer")), ("u", Kind("integer", unsigned=True)), ("b", Kind("integer")), ("w", Kind("float64")),
             ("n", Kind("float32")), ("d", Kind("decimal", 28, 10)), ("one", Kind("date")), ("none_", Kind("decimal", 9, 3))]  # fmt: skip
    big = Decimal("999999999999999999.9999999999")
    rows = [
        (n, [0, 2**64 - 1, 2**63][n % 3], [-(2**63), 2**63 - 1, 0][n % 3], [-1.7e308, 1.7976931348623157e308, -0.0, 0.1][n % 4],
         [1.5, -2.5, 0.0][n % 3], [big, -big, Decimal(0)][n % 3], dt.date(1582, 10, 10), None)
        for n in range(24)
    ]  # fmt: skip
    for engine in {pair.source, pair.target}:
        if (engine.name, "spread_ends") not in _MADE:
            tables.make(engine, "spread_ends", kinds, rows)
            _MADE.add((engine.name, "spread_ends"))
    counts = {"histogram": [{"column": name, "buckets": 9} for name, _ in kinds]}
    with planned(pair, audit("spread_ends", "spread_ends", counts)) as (plan, sides):
        for column in plan.columns:
            shares = distribution.histogram(plan, column, 9, asker(sides))
            assert all(share.rows["source"] == share.rows["target"] for share in shares), (column.name, shares)
            assert sum(share.rows["source"] for share in shares) == (0 if column.name == "none_" else 24), (column.name, shares)
            assert len(shares) == {"one": 1, "none_": 0}.get(column.name, 9), (column.name, shares)


@pytest.mark.parametrize("allow_empty", [True, False])
def test_empty_tables(engine: LiveEngine, allow_empty: bool) -> None:
    tables.make(engine, "spread_empty", COLUMNS, [])
    asked = audit("spread_empty", "spread_empty", SPREAD, allow_empty=allow_empty)
    verdict, reasons, found = found_by(LivePair(engine, engine), asked)
    assert (verdict, found) == (Verdict.MATCH if allow_empty else Verdict.UNKNOWN, ())
    assert "empty" in reasons[0]
