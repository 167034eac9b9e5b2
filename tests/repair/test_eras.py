"""Times before Christ, infinities and days that are none are written exactly, where an engine has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.model import Verdict
from tests.live import LiveEngine, quick_on
from tests.repair import small

COLUMNS = {"day": "DATE", "moment": "TIMESTAMP", "instant": "TIMESTAMP WITH TIME ZONE"}
TIMES = {
    "postgres": ["0044-03-15 BC", "infinity", "-infinity", "9999-12-31"],
    "redshift": ["0044-03-15 BC", "9999-12-31"],
    "duckdb": ["0044-03-15 (BC)", "infinity", "-infinity", "9999-12-31"],
}
ENGINES = [param for param in quick_on("duckdb") if param.id in TIMES]


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_times_at_the_ends_of_a_calendar_are_written_exactly(engine: LiveEngine, tmp_path: Path) -> None:
    types = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    table = f"CREATE TABLE {{}} (id INTEGER PRIMARY KEY, {types})"
    rows = ", ".join(f"({number}, {', '.join([repr(time)] * 3)})" for number, time in enumerate(TIMES[engine.name]))
    source = (table.format("s"), f"INSERT INTO s VALUES {rows}")
    both = small.make(tmp_path, engine, source, ("DROP TABLE IF EXISTS t", table.format("t")), source=engine)
    result = both.apply()
    assert result.patched.counts == {"inserted": len(TIMES[engine.name])}
    assert result.after and result.after.verdict is Verdict.MATCH


@pytest.mark.parametrize("engine", [param for param in quick_on() if param.id in ("mysql", "mariadb")], indirect=True)
def test_days_that_are_none_are_written_where_they_can_be(engine: LiveEngine, tmp_path: Path) -> None:
    table = "CREATE TABLE {} (id INTEGER PRIMARY KEY, day DATE, moment DATETIME(6), at TIMESTAMP(6) NULL, took TIME(6))"
    loose = "SET SESSION sql_mode = ''"
    rows = "(0, '0000-00-00', '0000-00-00', '2038-01-19 03:14:07.999999', '-838:59:59'), (7, '2024-02-00', '2024-00-00', NULL, '838:59:59')"
    source = (loose, table.format("s"), f"INSERT INTO s VALUES {rows}")
    both = small.make(tmp_path, engine, source, (loose, "DROP TABLE IF EXISTS t", table.format("t")), source=engine)
    result = both.apply()
    assert result.patched.counts == {"inserted": 2}
    assert result.after and result.after.verdict is Verdict.MATCH
