"""Time partitions: equal times fall into the same partition on both sides, whatever the types of the two columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Verdict
from auditor.run.audit_run import run
from dialects import Kind
from tests import tables
from tests.live import LivePair, chosen_pairs, each_once

TIMESTAMP, ZONED = Kind("timestamp", scale=6), Kind("timestamptz", scale=6)
COLUMNS = [
    ("id", Kind("integer")), ("at", TIMESTAMP), ("zoned", ZONED), ("day", Kind("date")), ("midnight", TIMESTAMP),
    ("midnight_zoned", ZONED), ("v", Kind("text")),
]  # fmt: skip
BEFORE = [dt.datetime(1001, 3, 1, 22), dt.datetime(1582, 10, 10, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
"""Times that columns with a time zone cannot store on every engine."""

TIMES = [
    dt.datetime(1970, 1, 2, 23, 59, 59, 999999), dt.datetime(2000, 2, 29, 12), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 31, 23, 30),
    dt.datetime(2026, 2, 1, 0, 30), dt.datetime(2026, 3, 29, 1, 30), dt.datetime(2026, 3, 29, 2, 30), dt.datetime(2037, 12, 31, 23, 59, 59),
]  # fmt: skip
CASES = [
    ("at", "day", ("day", "month")),
    ("day", "midnight", ("day",)),
    ("zoned", "day", ("day",)),
    ("day", "midnight_zoned", ("day",)),
    ("zoned", "at", ("hour",)),
    ("at", "zoned", ("hour",)),
]
"""The source's column, the target's column, and the units by which they can be partitioned."""


def row(number: int, at: dt.datetime, zone: bool) -> list[object]:
    midnight = dt.datetime.combine(at, dt.time())
    return [number, at, at if zone else None, at.date(), midnight, midnight if zone else None, f"row {number}"]


def run_audit(pair: LivePair, target: str, columns: tuple[str, str], unit: str) -> Report:
    source_column, target_column = columns
    ends = {
        "source": {"connection": "source", "table": "times_source"},
        "target": {"connection": "target", "table": target, "columns": {source_column: target_column}},
    }
    where = f"id >= {len(BEFORE)}" if any("zoned" in name for name in columns) else None
    columns_compared = {"include": [source_column, "v"], "override": {source_column: {"fraction": "cut"}}}
    more = {"columns": columns_compared, "partition": {"column": source_column, "unit": unit}, "where": where}
    audit = Audit.model_validate({**ends, "key": ["id"], **more})
    return run("times", audit, {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES})


@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("pair", each_once(), indirect=True)
@pytest.mark.parametrize(("source_column", "target_column", "units"), CASES, ids=[f"{one}-{other}" for one, other, _ in CASES])
@pytest.mark.few
def test_equal_times_fall_into_the_same_partition(
    pair: LivePair, source_column: str, target_column: str, units: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Equal tables match; in damaged tables exactly the lost row and the changed row differ.

    Without --slow equal tables are compared by those units alone by which damaged ones are not: damaged ones show as well that all other
    rows fall into the same partitions, and each time is in one of these.
    """
    rows = [row(number, at, number >= len(BEFORE)) for number, at in enumerate([*BEFORE, *TIMES, TIMES[0], TIMES[-1]])]
    rows.append([len(rows), *[None] * (len(COLUMNS) - 2), "no time"])
    lost, changed = rows[-3], rows[-2]
    damaged = [[*one[:-1], "changed"] if one is changed else one for one in rows if one is not lost]
    is_slow = request.config.getoption("--slow")
    tables.make(pair.source, "times_source", COLUMNS, rows)
    tables.make(pair.target, "times_target", COLUMNS, rows)
    tables.make(pair.target, "times_damaged", COLUMNS, damaged)
    for unit in units if is_slow else units[1:]:
        report = run_audit(pair, "times_target", (source_column, target_column), unit)
        assert report.verdict is Verdict.MATCH, (unit, report.reasons)
    found = run_audit(pair, "times_damaged", (source_column, target_column), units[0]).differences
    assert found
    assert (found.missing, found.changed, found.extra) == (1, 1, 0)
    assert ("changed", str(changed[0])) in {(one.kind, one.key["id"]) for one in found.named}


@pytest.mark.quick_for("postgres-duckdb")
@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("pair", each_once(), indirect=True)
def test_row_whose_time_changed_is_named_once(pair: LivePair) -> None:
    """Among rows of the same days, alone in its day, in a day that one side lacks, by listing and decoding, with a recheck and without."""
    columns = [("id", Kind("integer")), ("at", TIMESTAMP), ("n", Kind("decimal", 8, 2)), ("v", Kind("text"))]
    rows = [(n, dt.datetime(2026, 1, 1 + n % 4, 12), Decimal(n), "v") for n in range(40)]
    moved: dict[int, dt.datetime | None] = {
        3: dt.datetime(2026, 1, 2),
        8: dt.datetime(2026, 1, 20),
        9: dt.datetime(2026, 1, 20),
        10: dt.datetime(2026, 1, 21),
        14: None,
    }
    damaged = [(n, moved.get(n, at), value + (n == 10) * Decimal("0.01"), v) for n, at, value, v in rows if n != 20]
    damaged.append((77, dt.datetime(2026, 1, 20), Decimal(1), "extra"))
    lone = (90, dt.datetime(2026, 3, 1), Decimal(1), "alone in its day")
    tables.make(pair.source, "moved_source", columns, [*rows, lone])
    tables.make(pair.target, "moved_target", columns, [*damaged, (90, dt.datetime(2026, 3, 2), *lone[2:])])
    ends = {side: {"connection": side, "table": f"moved_{side}"} for side in SIDES}
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    for more in ({}, {"t": 1, "recheck": {"times": 1, "wait": "1ms"}}, {"columns": {"override": {"n": {"tolerance": {"absolute": 1}}}}}):
        audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"column": "at", "unit": "day"}, **more})
        report = run("moved", audit, connections)
        found = report.differences
        assert found, report.reasons
        named = sorted((int(one.key["id"] or -1), one.kind, tuple(c.name for c in one.columns)) for one in found.named)
        at = ("at",) if "columns" in more else ("at", "n")
        expected = [(n, "changed", at if n == 10 else ("at",)) for n in (3, 8, 9, 10, 14)]
        in_range = sum(span.rows for span in found.ranges)  # a range that holds rows of other days, too, is rechecked row by row
        extra = [] if in_range else [(77, "extra", ())]
        assert named == [*expected, (20, "missing", ()), *extra, (90, "changed", ("at",))], more
        assert (found.missing, found.extra, found.changed) == (1, 1, 6) and in_range in (0, 1), more
        assert report.verdict is Verdict.MISMATCH and not found.unsettled


@pytest.mark.parametrize("pair", chosen_pairs("mysql-mariadb", "postgres-duckdb"), indirect=True)
def test_rows_of_times_before_1970_are_named(pair: LivePair) -> None:
    """Their partitions have negative numbers, by which single rows are fetched."""
    columns = [("id", Kind("integer")), ("at", TIMESTAMP), ("v", Kind("text"))]
    rows = [(number, dt.datetime(1901, 1, 1) + dt.timedelta(days=number * 40), f"row {number}") for number in range(300)]
    tables.make(pair.source, "times_source", columns, rows)
    tables.make(pair.target, "times_target", columns, [(*row[:2], "changed") if row[0] in (7, 200) else row for row in rows])
    found = run_audit(pair, "times_target", ("at", "at"), "day").differences
    assert found and {(one.kind, one.key["id"]) for one in found.named} == {("changed", "7"), ("changed", "200")}
