"""Partitions by time: equal moments lie in one partition on both sides, whatever the two columns' types are."""

from __future__ import annotations

import datetime as dt

import pytest

from auditor.config import Audit, Connection
from auditor.model import SIDES, Report, Verdict
from auditor.run import run
from dialects import Kind
from tests import tables
from tests.engines import LivePair, ring_params

TIMESTAMP, ZONED = Kind("timestamp", scale=6), Kind("timestamptz", scale=6)
COLUMNS = [
    ("id", Kind("integer")), ("at", TIMESTAMP), ("zoned", ZONED), ("day", Kind("date")), ("midnight", TIMESTAMP),
    ("midnight_zoned", ZONED), ("v", Kind("text")),
]  # fmt: skip
BEFORE = [dt.datetime(1001, 3, 1, 22), dt.datetime(1582, 10, 10, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
"""Moments that a column with a time zone cannot hold on every engine."""

MOMENTS = [
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
"""The source's column, the target's, and the units by which they can be cut."""


def row(number: int, at: dt.datetime, zone: bool) -> list[object]:
    midnight = dt.datetime.combine(at, dt.time())
    return [number, at, at if zone else None, at.date(), midnight, midnight if zone else None, f"row {number}"]


def audited(pair: LivePair, target: str, columns: tuple[str, str], unit: str) -> Report:
    here, there = columns
    ends = {
        "source": {"connection": "source", "table": "times_source"},
        "target": {"connection": "target", "table": target, "columns": {here: there}},
    }
    held = f"id >= {len(BEFORE)}" if any("zoned" in name for name in columns) else None
    more = {"columns": {"include": [here, "v"]}, "partition": {"column": here, "unit": unit}, "where": held}
    audit = Audit.model_validate({**ends, "key": ["id"], **more})
    return run("times", audit, {side: Connection(url=getattr(pair, side).url) for side in SIDES})


@pytest.mark.parametrize("pair", ring_params(), indirect=True)
def test_equal_moments_lie_in_one_partition(pair: LivePair) -> None:
    """And of unequal tables exactly those rows differ that were damaged: one is lost, one has another text."""
    rows = [row(number, at, number >= len(BEFORE)) for number, at in enumerate([*BEFORE, *MOMENTS])]
    rows.append([len(rows), *[None] * (len(COLUMNS) - 2), "no time"])
    lost, changed = rows[len(BEFORE)], rows[-2]
    damaged = [[*one[:-1], "changed"] if one is changed else one for one in rows if one is not lost]
    tables.make(pair.source, "times_source", COLUMNS, rows)
    tables.make(pair.target, "times_target", COLUMNS, rows)
    tables.make(pair.target, "times_damaged", COLUMNS, damaged)
    for here, there, units in CASES:
        for unit in units:
            report = audited(pair, "times_target", (here, there), unit)
            assert report.verdict is Verdict.MATCH, (here, there, unit, report.reasons)
        found = audited(pair, "times_damaged", (here, there), units[0]).differences
        assert found, (here, there)
        assert (found.missing, found.changed, found.extra) == (1, 1, 0), (here, there)
        assert ("changed", str(changed[0])) in {(one.kind, one.key["id"]) for one in found.named}
