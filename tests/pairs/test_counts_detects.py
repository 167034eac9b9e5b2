"""The counts method on every engine: measures, classes and histograms detect changes, and ``allow`` tolerates them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from auditor.compare import deviations
from auditor.compare.comparator import Aligned, align, compare
from auditor.config import Audit
from auditor.model import SIDES, Measure, Plan, Side, Verdict
from auditor.run import distributions
from dialects import Kind, Session
from tests import tables
from tests.engines.test_counts_sql import open_plan, read_summaries
from tests.live import LiveEngine, LivePair, each_once, quick_on

pytestmark = pytest.mark.engines_in_turn

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
SPREAD: dict[str, Any] = {"classes": ["status"], "histogram": [{"column": "price", "buckets": 4}, {"column": "weight", "buckets": 5},
          {"column": "at", "buckets": 6}, {"column": "day", "buckets": 7}, {"column": "id", "buckets": 3}]}  # fmt: skip


def spread_of(columns: set[str]) -> dict[str, Any]:
    """Return the part of SPREAD that concerns these columns."""
    histograms = [one for one in SPREAD["histogram"] if one["column"] in columns]
    return {"classes": [name for name in SPREAD["classes"] if name in columns], "histogram": histograms}


def audit(source: str, target: str, counts: Any = None, **more: Any) -> Audit:
    ends = {side: {"connection": side, "table": table} for side, table in (("source", source), ("target", target))}
    return Audit.model_validate({**ends, "key": ["id"], "method": "counts", "counts": counts or {}, **more})


def make_reader(sides: dict[Side, Session]) -> Callable[[Callable[[Side, Session], Any]], dict[Side, Any]]:
    return lambda work: {side: work(side, sides[side]) for side in SIDES}


def evaluate(plan: Plan, audit: Audit, sides: dict[Side, Session], aligned: Aligned) -> Found:
    comparison = compare(aligned, allow_empty=audit.allow_empty, threshold=audit.threshold.score)
    found = (
        *deviations.deviations(plan, aligned, audit.counts),
        *distributions.compare_distributions(plan, audit.counts, make_reader(sides)),
    )
    return (*deviations.verdict(comparison, found), found)


def compare_tables(pair: LivePair, audit: Audit) -> Found:
    with open_plan(pair, audit) as (plan, sides):
        return evaluate(plan, audit, sides, align(*(read_summaries(plan, side, sides[side]) for side in SIDES)))


def names_not_allowed(found: Found) -> set[str]:
    return {one.name for one in found[2] if not one.allowed}


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_equal_tables_match_between_all_engines(pair: LivePair) -> None:
    for engine in {pair.source, pair.target}:
        ensure_table(engine, "spread_same", ROWS)
    assert compare_tables(pair, audit("spread_same", "spread_same", SPREAD)) == (Verdict.MATCH, ("every measure is equal",), ())
    by_day = audit("spread_same", "spread_same", partition={"strategy": "time", "column": "at"})
    assert compare_tables(pair, by_day) == (Verdict.MATCH, ("every measure is equal in all 3 partitions",), ())


_CREATED: set[tuple[str, str]] = set()


def ensure_table(engine: LiveEngine, table: str, rows: list[Row]) -> None:
    if (engine.name, table) not in _CREATED:
        tables.make(engine, table, COLUMNS, rows)
        _CREATED.add((engine.name, table))


@pytest.mark.slow_on("spark")
def test_each_change_is_reported_by_the_measures_it_affects(engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    """One change of a column at a time; changes of several columns are made together, since each is reported under its column's name.

    Without --slow only the classes and histograms of the changed columns are compared: each takes a second on Spark.
    """
    both = LivePair(engine, engine)
    ensure_table(engine, "spread_same", ROWS)
    rounds: list[tuple[dict[int, dict[str, Any]], set[str]]] = [
        ({
            5: {"weight": None, "price": Decimal("8.76"), "status": "x"},
            0: {"at": dt.datetime(1969, 12, 30, 11, 59, 59)}, 59: {"day": dt.date(1970, 4, 30)},
        }, {"weight nulls", "weight histogram", "price sum", "status characters", "status bytes", "status class ''",
            "status class 'x'", "at min", "day max", "day histogram"}),
        ({6: {"status": "Paid"}}, {"status class 'paid'", "status class 'Paid'"}),
        ({7: {"status": "paid "}}, {"status characters", "status bytes", "status class 'Paid'", "status class 'paid '"}),
        ({0: {"status": "раіd"}}, {"status bytes", "status class 'paid'", "status class 'раіd'"}),  # as many characters, three Cyrillic
    ]  # fmt: skip
    for changes, wanted in rounds:
        tables.make(engine, "spread_changed", COLUMNS, [row(n, **changes.get(n, {})) for n in range(60)])
        changed = {name for one in changes.values() for name in one}
        spread = SPREAD if request.config.getoption("--slow") else spread_of(changed)
        verdict, reasons, found = compare_tables(both, audit("spread_same", "spread_changed", spread))
        reported = {one.name.split(" histogram")[0] + (" histogram" if " histogram" in one.name else "") for one in found}
        assert (verdict, reported, reasons[0].split()[-1][:6]) == (Verdict.MISMATCH, wanted, "differ"), changes
        assert not any(one.allowed for one in found), "each of them alone is a mismatch"


@pytest.mark.slow_on("spark")
def test_histogram_detects_a_shift_that_measures_miss(engine: LiveEngine) -> None:
    """Two prices move towards each other; the count, sum, minimum and maximum stay the same."""
    ensure_table(engine, "spread_same", ROWS)
    prices = sorted(range(60), key=lambda n: ROWS[n][2])
    low, high = prices[8], prices[-8]
    moved = [*ROWS]
    moved[low], moved[high] = row(low, price=ROWS[low][2] + 4), row(high, price=ROWS[high][2] - 4)
    tables.make(engine, "spread_changed", COLUMNS, moved)
    both = LivePair(engine, engine)
    assert compare_tables(both, audit("spread_same", "spread_changed"))[0] is Verdict.MATCH
    found = compare_tables(both, audit("spread_same", "spread_changed", {"histogram": {"column": "price", "buckets": 5}}))
    assert found[0] is Verdict.MISMATCH
    assert all(name.startswith("price histogram ") for name in names_not_allowed(found))
    assert sum(int(one.target or 0) - int(one.source or 0) for one in found[2]) == 0


@pytest.mark.parametrize("engine", quick_on("mysql", "duckdb"), indirect=True)
def test_allow_tolerates_deviations_up_to_their_limits(engine: LiveEngine) -> None:
    """The same measures, read once, with several limits, which are decided after each engine's measures were read."""
    both = make_deviating_tables(engine)
    with open_plan(both, audit("spread_same", "spread_deviating")) as (plan, sides):
        aligned = align(*(read_summaries(plan, side, sides[side]) for side in SIDES))

        def found_with(**allow: Any) -> Found:
            return evaluate(plan, audit("spread_same", "spread_deviating", {"allow": allow}), sides, aligned)

        verdict, reasons, found = found_with()
        assert verdict is Verdict.MISMATCH
        (rows,) = (one for one in found if one.name == "rows")
        assert (rows.label, rows.source, rows.target, rows.deviation) == ("the whole table", "60", "59", 1 / 60)
        assert "rows: 60 in the source, 59 in the target" in reasons
        allowed = found_with(**ALLOW)
        assert allowed[0] is Verdict.MATCH, allowed
        assert allowed[1][0].startswith("what differs is within what the audit allows: rows, ")
        assert all(one.allowed for one in allowed[2])
        assert names_not_allowed(found_with(**ALLOW, **{"at max": 2.9})) == {"at max"}
        assert names_not_allowed(found_with(**{**ALLOW, "rows": "1%"})) == {"rows"}


ALLOW: dict[str, Any] = {
    "rows": "2%",
    "* sum": "20%",
    "Weight nulls": 0,
    "status characters": 5,
    "status bytes": 12,
    "* max": 3,
    "day max": 0,
}


def make_deviating_tables(engine: LiveEngine) -> LivePair:
    ensure_table(engine, "spread_same", ROWS)
    ensure_table(engine, "spread_deviating", [*ROWS[:20], *ROWS[21:59], row(59, at=ROWS[59][4] + dt.timedelta(seconds=3))])
    return LivePair(engine, engine)


@pytest.mark.parametrize("engine", quick_on("duckdb"), indirect=True)
def test_allow_tolerates_other_classes_and_histograms(engine: LiveEngine) -> None:
    """Without --slow on one engine: what is allowed is decided after classes and histograms were read, as the tests beside it read them."""
    both = make_deviating_tables(engine)
    lost = {**SPREAD, "allow": {**ALLOW, "* class": 1, "* histogram": "100%"}}
    assert compare_tables(both, audit("spread_same", "spread_deviating", lost))[0] is Verdict.MATCH
    found = compare_tables(both, audit("spread_same", "spread_deviating", {**lost, "allow": ALLOW}))
    assert any(" class " in name for name in names_not_allowed(found))


@pytest.mark.slow_on("spark")
def test_time_partitions_report_the_day_of_a_change(engine: LiveEngine) -> None:
    ensure_table(engine, "spread_same", ROWS)
    tables.make(engine, "spread_changed", COLUMNS, [*ROWS[:13], row(13, price=Decimal("-0.01")), *ROWS[14:36]])
    by_day = audit("spread_same", "spread_changed", partition={"strategy": "time", "column": "at"})
    verdict, reasons, found = compare_tables(LivePair(engine, engine), by_day)
    assert verdict is Verdict.MISMATCH
    assert reasons[0] == "2 of 3 partitions differ"
    assert {(one.label, one.name) for one in found} == {("1969-12-31", "price sum"), ("1969-12-31", "price min"), ("1970-01-01", "rows")}


@pytest.mark.parametrize("pair", each_once(), indirect=True)
def test_only_the_most_frequent_classes_are_compared(pair: LivePair) -> None:
    """Rows are counted on both sides for the source's most frequent classes, whatever their rank in the target."""
    columns = COLUMNS[:2]
    frequent = [f"often {n}|'\\%" for n in range(3)]
    source = [frequent[n % 3] if n < 30 else None if n < 45 else f"rare {n}" for n in range(90)]
    target = [frequent[0] if text in frequent[:2] else text for text in source]
    target[46], target[47], target[48] = "rare 45", "rare 45", "rare 45"
    for engine, table, texts in ((pair.source, "classes_many", source), (pair.target, "classes_few", target)):
        if (engine.name, table) not in _CREATED:
            tables.make(engine, table, columns, list(enumerate(texts)))
            _CREATED.add((engine.name, table))
    _, reasons, found = compare_tables(pair, audit("classes_many", "classes_few", {"classes": ["status"], "most_classes": 4}))
    reported = {one.name: (one.source, one.target) for one in found if " class" in one.name}
    assert reported == {
        f"status class {frequent[0]!r}": ("10", "20"),
        f"status class {frequent[1]!r}": ("10", "0"),
        "status classes": ("49", "45"),
    }
    assert reasons[-1] == "status: only the 4 most frequent classes of the source were compared"
    same_tables = audit("classes_many", "classes_many", {"classes": ["status"], "most_classes": 4})
    result = compare_tables(LivePair(pair.source, pair.source), same_tables)
    assert (result[0], result[2][0].allowed, result[1][-1]) == (Verdict.MATCH, True, reasons[-1])


@pytest.mark.slow_on("spark")
def test_long_class_names_are_truncated(engine: LiveEngine) -> None:
    texts = ["é" * 300 + "a", "é" * 300 + "b", "é" * 300 + "b", "é" * 200]
    tables.make(engine, "classes_long", COLUMNS[:2], list(enumerate(texts)))
    tables.make(engine, "classes_changed", COLUMNS[:2], list(enumerate([texts[0], *texts[:3]])))
    found = compare_tables(LivePair(engine, engine), audit("classes_long", "classes_changed", {"classes": ["status"]}))[2]
    counts = sorted((one.source, one.target, len(one.name) < 260) for one in found if " class " in one.name)
    assert counts == [("1", "0", True), ("1", "2", True)]


def test_histograms_of_extreme_values_are_equal(pair: LivePair) -> None:
    """Extreme integers, doubles across their whole range, a single value, and no values at all."""
    kinds = [("id", Kind("integer")), ("u", Kind("integer", unsigned=True)), ("b", Kind("integer")), ("w", Kind("float64")),
             ("n", Kind("float32")), ("d", Kind("decimal", 28, 10)), ("one", Kind("date")), ("none_", Kind("decimal", 9, 3))]  # fmt: skip
    big = Decimal("999999999999999999.9999999999")
    rows = [
        (n, [0, 2**64 - 1, 2**63][n % 3], [-(2**63), 2**63 - 1, 0][n % 3], [-1.7e308, 1.7976931348623157e308, -0.0, 0.1][n % 4],
         [1.5, -2.5, 0.0][n % 3], [big, -big, Decimal(0)][n % 3], dt.date(1582, 10, 10), None)
        for n in range(24)
    ]  # fmt: skip
    for engine in {pair.source, pair.target}:
        if (engine.name, "spread_ends") not in _CREATED:
            tables.make(engine, "spread_ends", kinds, rows)
            _CREATED.add((engine.name, "spread_ends"))
    counts = {"histogram": [{"column": name, "buckets": 9} for name, _ in kinds]}
    with open_plan(pair, audit("spread_ends", "spread_ends", counts)) as (plan, sides):
        for column in plan.columns:
            shares = distributions.count_buckets(plan, column, 9, make_reader(sides))
            assert all(share.rows["source"] == share.rows["target"] for share in shares), (column.name, shares)
            assert sum(share.rows["source"] for share in shares) == (0 if column.name == "none_" else 24), (column.name, shares)
            assert len(shares) == {"one": 1, "none_": 0}.get(column.name, 9), (column.name, shares)


@pytest.mark.parametrize("engine", quick_on("mysql", "duckdb"), indirect=True)
@pytest.mark.parametrize("allow_empty", [True, False])
def test_empty_tables_match_only_if_allowed(engine: LiveEngine, allow_empty: bool) -> None:
    tables.make(engine, "spread_empty", COLUMNS, [])
    settings = audit("spread_empty", "spread_empty", SPREAD, allow_empty=allow_empty)
    verdict, reasons, found = compare_tables(LivePair(engine, engine), settings)
    assert (verdict, found) == (Verdict.MATCH if allow_empty else Verdict.UNKNOWN, ())
    assert "empty" in reasons[0]
