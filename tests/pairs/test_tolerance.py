"""Tolerances on live engines: rows within them are tolerated, and every row beyond one is named."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs, pair_params
from tests.unit.test_tolerance import CENT, DOUBLE, INTEGER, MOMENT, MONEY, digits

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("id", INTEGER), ("note", Kind("text")), ("price", MONEY), ("weight", DOUBLE), ("ratio", DOUBLE), ("seen", MOMENT)]
TOLERANCES = {
    "price": {"tolerance": {"absolute": 0.01}},
    "weight": {"tolerance": {"absolute": 0.01}},
    "ratio": {"tolerance": {"relative": 1e-6}},
    "seen": {"tolerance": {"time": "1s"}},
}
BORDERS = ["0.005", "0.00499", "0.0149", "0.015", "-0.005", "-0.0049", "0", "1.005", "-1.005", "99999.995"]
QUICK_NAMES = ("duckdb-duckdb", "mysql-postgres")
QUICK = chosen_pairs(*QUICK_NAMES)
SLOW = [pytest.param(*one.values, id=one.id, marks=[*one.marks, pytest.mark.slow]) for one in pair_params() if one.id not in QUICK_NAMES]


def random_values(generator: random.Random) -> list[Any]:
    price = Decimal(generator.choice([*BORDERS, str(generator.randrange(-(10**8), 10**8) / 10**4)])).quantize(Decimal("0.0001"))
    weight = float(generator.choice([*BORDERS, repr(generator.uniform(-1e6, 1e6))]))
    ratio = generator.choice([0.0, 1.0, 1e-50, 1e30, -1e-30, generator.uniform(-1, 1)])
    seen = dt.datetime(2024, 1, 1, 12) + dt.timedelta(microseconds=generator.choice([0, -1, 999_999, generator.randrange(10**12)]))
    return [price, weight, ratio, seen]


def deviate(generator: random.Random, row: list[Any]) -> tuple[list[Any], bool]:
    """Return a randomly deviating row, possibly with a NULL, and whether plain arithmetic finds it within the tolerances."""
    price, weight, ratio, seen = row
    new: list[Any] = [
        price + Decimal(generator.choice([0, 1, 99, 100, -100, 100, -3] * 5 + [101, -101, 5000])).scaleb(-4),
        weight + generator.choice([0.0, 1e-12, -0.0099, 0.005] * 5 + [0.0101, -3.0]),
        ratio * (1 + generator.choice([0.0, 1e-9, -9e-7] * 8 + [2e-6])),
        seen + dt.timedelta(microseconds=generator.choice([0, 1, -1, 1_000_000, -1_000_000] * 5 + [1_000_001, 10**8])),
    ]
    if generator.random() < 0.03:
        new[generator.randrange(4)] = None
    if None in new:
        return new, False
    a, b = digits(ratio), digits(new[2])
    return new, (
        abs(new[0] - price) <= Decimal("0.01")
        and abs(digits(new[1]) - digits(weight)) <= Fraction("0.01")
        and abs(a - b) <= Fraction("1e-6") * max(abs(a), abs(b))
        and abs(new[3] - seen) <= dt.timedelta(seconds=1)
    )


def run_audit(pair: LivePair, override: dict[str, Any], **more: Any) -> Report:
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": "tolerant_source"},
            "target": {"connection": "target", "table": "tolerant_target"},
            "key": ("id",),
            "columns": {"override": override},
            **more,
        }
    )
    return audit_run.run(
        "tolerant", audit, {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    )


@pytest.mark.quick_for("duckdb-duckdb-{'size': 8}", "mysql-postgres")
@pytest.mark.parametrize("partition", [{"size": 8}, {"size": 64}, {"buckets": 5}], ids=str)
@pytest.mark.parametrize("pair", [*QUICK, *SLOW], indirect=True)
@pytest.mark.few
def test_exactly_the_rows_beyond_a_tolerance_are_named(pair: LivePair, partition: dict[str, int]) -> None:
    generator = random.Random(repr(partition))
    source, target, beyond = [], [], set()
    for number in range(300):
        row = random_values(generator)
        other, within = deviate(generator, row) if generator.random() < 0.5 else (row, True)
        note = "other" if generator.random() < 0.02 else "same"
        source.append((number, "same", *row))
        target.append((number, note, *other))
        if not within or note != "same":
            beyond.add(str(number))
    missing = generator.sample(range(300), 3)
    target = [row for row in target if row[0] not in missing]
    beyond -= {str(number) for number in missing}
    tables.make(pair.source, "tolerant_source", COLUMNS, source)
    tables.make(pair.target, "tolerant_target", COLUMNS, target)
    report = run_audit(pair, TOLERANCES, partition=partition)
    found = report.differences
    assert found and report.jaccard, report.reasons
    assert {one.key["id"] for one in found.named if one.kind == "changed"} == beyond
    assert sorted(one.key["id"] or "" for one in found.named if one.kind == "missing") == sorted(str(n) for n in missing)
    assert (found.changed, found.missing, found.extra) == (len(beyond), 3, 0)
    assert found.tolerated > 20
    assert found.exact
    rows = len(source) + len(target)
    differing = 2 * len(beyond) + 3
    assert report.jaccard.score.value == report.jaccard.least == (rows - differing) / (rows + differing)
    for one in found.named:
        assert one.kind == "missing" or one.columns


@pytest.mark.parametrize("pair", [*QUICK, *SLOW], indirect=True)
def test_tolerance_between_a_decimal_and_a_double(pair: LivePair) -> None:
    prices = [Decimal(text).quantize(Decimal("0.0001")) for text in BORDERS]
    columns = [("id", INTEGER), ("price", MONEY), ("factor", MONEY)]
    doubles = [("id", INTEGER), ("price", DOUBLE), ("factor", DOUBLE)]
    source = [(n, price, abs(price) + 1) for n, price in enumerate(prices)]
    target: list[Any] = [(n, float(price) + 0.004, float(abs(price) + 1) * (1 + 3e-7)) for n, price in enumerate(prices)]
    target[3] = (3, float(prices[3]) + 0.02, 1.0)
    target[5] = (5, None, float(abs(prices[5]) + 1))
    tables.make(pair.source, "tolerant_source", columns, source)
    tables.make(pair.target, "tolerant_target", doubles, target)
    report = run_audit(pair, {"price": {"tolerance": CENT}, "factor": {"tolerance": {"relative": 1e-6}}})
    assert report.differences is not None, report.reasons
    named = [(one.key["id"], [(c.name, c.source, c.target) for c in one.columns]) for one in report.differences.named]
    assert named == [
        ("3", [("price", "0.0150", "0.035"), ("factor", "1.0150", "1.0")]),
        ("5", [("price", "-0.0049", None)]),
    ]
    assert report.differences.tolerated == 8


@pytest.mark.parametrize("pair", QUICK, indirect=True)
def test_deviations_within_the_tolerance_are_a_match(pair: LivePair) -> None:
    columns = [("id", INTEGER), ("weight", DOUBLE)]
    generator = random.Random(1)
    source = [(n, generator.uniform(0, 1)) for n in range(500)]
    target = [(n, weight + generator.uniform(-0.01, 0.01)) for n, weight in source]
    tables.make(pair.source, "tolerant_source", columns, source)
    tables.make(pair.target, "tolerant_target", columns, target)
    report = run_audit(pair, {"weight": {"tolerance": CENT}})
    assert report.differences is not None and report.jaccard, report.reasons
    assert report.differences.named == ()
    assert report.differences.tolerated > 100
    assert report.differences.partitions["estimated"] == 0
    assert report.jaccard.score.value == 1
    assert report.verdict is Verdict.MATCH, report.reasons


@pytest.mark.parametrize("pair", QUICK[:1], indirect=True)
def test_rows_beyond_the_listing_limit_are_estimated_with_a_note(pair: LivePair) -> None:
    columns = [("id", INTEGER), ("weight", DOUBLE)]
    source = [(n, n / 7) for n in range(500)]
    tables.make(pair.source, "tolerant_source", columns, source)
    tables.make(pair.target, "tolerant_target", columns, [(n, weight + 0.004) for n, weight in source])
    report = run_audit(pair, {"weight": {"tolerance": CENT}}, limits={"max_rows_listed": 10})
    assert report.differences is not None and report.plan, report.reasons
    assert report.differences.partitions["estimated"] > 0
    assert report.verdict is Verdict.MISMATCH
    assert any("estimated from rounded values" in note for note in report.plan.notes)


@pytest.mark.parametrize("pair", QUICK[:1], indirect=True)
@pytest.mark.parametrize(
    ("override", "more", "why"),
    [
        ({"id": {"tolerance": CENT}}, {}, "of the key"),
        ({"seen": {"tolerance": {"time": "1s"}}}, {"partition": {"strategy": "time", "column": "seen"}}, "determines the partitions"),
        ({"price": {"tolerance": CENT, "mask": True}}, {}, "masked"),
    ],
)
def test_tolerance_is_rejected_for_some_columns(pair: LivePair, override: dict[str, Any], more: dict[str, Any], why: str) -> None:
    rows = [(1, "n", *random_values(random.Random(1)))]
    for engine, name in ((pair.source, "tolerant_source"), (pair.target, "tolerant_target")):
        tables.make(engine, name, COLUMNS, rows)
    report = run_audit(pair, override, **more)
    assert report.verdict is Verdict.UNKNOWN
    assert why in report.reasons[0]


@pytest.mark.parametrize("pair", QUICK[:1], indirect=True)
def test_counts_method_ignores_tolerances(pair: LivePair) -> None:
    rows = [(1, "n", *random_values(random.Random(1)))]
    for engine, name in ((pair.source, "tolerant_source"), (pair.target, "tolerant_target")):
        tables.make(engine, name, COLUMNS, rows)
    report = run_audit(pair, TOLERANCES, method="counts")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.plan and not report.plan.is_tolerant


@pytest.mark.parametrize("pair", QUICK[:1], indirect=True)
def test_ladder_applies_tolerances_in_its_last_method(pair: LivePair) -> None:
    columns = [("id", INTEGER), ("price", MONEY)]
    tables.make(pair.source, "tolerant_source", columns, [(n, Decimal("1.0049")) for n in range(50)])
    tables.make(pair.target, "tolerant_target", columns, [(n, Decimal("1.0051")) for n in range(50)])
    report = run_audit(pair, {"price": {"tolerance": CENT}}, ladder=["counts", "exact"])
    assert [(one.method, one.verdict) for one in report.steps] == [("counts", Verdict.MISMATCH)]
    assert (report.method, report.verdict) == ("exact", Verdict.MATCH)
    assert report.differences is not None and report.differences.tolerated == 50
