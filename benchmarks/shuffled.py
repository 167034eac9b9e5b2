"""Part shuffled: what an audit of DuckDB costs where the key is not the order in which rows are stored, beside one scan.

DuckDB has no index of such a key that a range could use, so that each range of keys costs nearly a scan. A table of 10^8 rows is cut into
ranges as it is; of smaller tables the ranges, and the seconds that are aimed at, are smaller in proportion, so that they are as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from auditor.config import Audit, ConnectionSettings
from auditor.durations import durations
from auditor.model import SIDES, Report, Verdict
from auditor.planning import chunks
from auditor.run import audit_run

FULL_ROWS = 10**8
"""Rows of a table that is cut into ranges as it is."""

ORDERS = {"by key": "i", "shuffled": "hash(i)"}
"""What rows are stored in the order of."""


@dataclass
class ShuffledCost:
    """One order of the rows: statements and seconds of both sides' scans, in ranges of keys and as one statement a side."""

    order: str
    rows: int
    statements: int = 0
    seconds: float = 0.0
    one_scan: float = 0.0
    verdict: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the run found that the tables are equal, as they are."""
        return self.verdict == Verdict.MATCH


def measure(rows: int, directory: Path) -> list[ShuffledCost]:
    """Return the cost of each order of the rows."""
    costs = []
    for order, by in ORDERS.items():
        file = directory / "shuffled.duckdb"
        file.unlink(missing_ok=True)
        with duckdb.connect(str(file)) as connection:
            for side in SIDES:
                connection.execute(f"CREATE TABLE {side} AS SELECT i AS id, 'row ' || i AS v FROM range({rows}) AS r(i) ORDER BY {by}")
        with _cut_into(chunks.COLUMN_CHUNK_ROWS * min(1.0, rows / FULL_ROWS), durations().chunk_aim * min(1.0, rows / FULL_ROWS)):
            cut = _run(file)
        with _cut_into(rows, durations().chunk_aim):
            whole = _run(file)
        more = sum(cut.cost[side].statements - whole.cost[side].statements for side in SIDES)
        seconds, one_scan = (max(report.cost[side].seconds for side in SIDES) for report in (cut, whole))
        costs.append(ShuffledCost(order, rows, len(SIDES) + more, seconds, one_scan, cut.verdict))
    return costs


def _run(file: Path) -> Report:
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=f"duckdb:///{file}") for side in SIDES}
    sides = {side: {"connection": side, "table": side} for side in SIDES}
    return audit_run.run("shuffled", Audit.model_validate({**sides, "key": ["id"], "prescan": False}), connections)


@contextmanager
def _cut_into(rows: float, aim: float) -> Iterator[None]:
    before, chunks.COLUMN_CHUNK_ROWS = chunks.COLUMN_CHUNK_ROWS, int(rows)
    try:
        with durations.overridden(chunk_aim=aim):
            yield
    finally:
        chunks.COLUMN_CHUNK_ROWS = before
