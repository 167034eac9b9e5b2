"""Columns that bear the names that statements give to tables and columns of their own are compared as any other."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Verdict
from auditor.run import audit_run
from tests import tables
from tests.live import LiveEngine, engine_params

TOPICS = "id BIGINT PRIMARY KEY, topic VARCHAR(40), partition_id INT NOT NULL, msg_offset BIGINT, payload VARCHAR(200)"
ENDS = "first_key BIGINT, end_key BIGINT, name VARCHAR(40), PRIMARY KEY (first_key, end_key)"


def perform(engine: LiveEngine, source: str, target: str, **more: Any) -> Report:
    """Return the report of an audit of two tables of one server."""
    ends = {side: {"connection": side, "table": name} for side, name in zip(SIDES, (source, target), strict=True)}
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=engine.url) for side in SIDES}
    return audit_run.run("named", Audit.model_validate({**ends, **more}), connections)


def make_two(engine: LiveEngine, name: str, columns: str, rows: str, damage: str) -> tuple[str, str]:
    """Make a table of these rows, which are a SELECT, and a copy that is damaged; return their names."""
    names = (f"{name}_source", f"{name}_target")
    made = [(f"DROP TABLE IF EXISTS {one}", f"CREATE TABLE {one} ({columns})", f"INSERT INTO {one} {rows}") for one in names]
    tables.execute(engine, *(sql for each in made for sql in each), damage.format(table=names[1]), *(f"ANALYZE {one}" for one in names))
    return names


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_column_is_not_taken_for_the_number_of_a_stretch(engine: LiveEngine) -> None:
    rows = "SELECT n, 'topic ' || n % 7, n % 8, n * 10, 'payload ' || n FROM GENERATE_SERIES(1, 20000) AS s(n)"
    names = make_two(engine, "ev", TOPICS, rows, "UPDATE {table} SET payload = 'damaged' WHERE partition_id = 5")
    report = perform(engine, *names)
    assert report.verdict is Verdict.MISMATCH and report.differences
    assert (report.differences.changed, report.differences.missing, report.differences.extra) == (2500, 0, 0)
    assert report.plan and report.plan.prescan and report.plan.prescan.digest_rows, "else no row was joined with others"


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_columns_are_not_taken_for_the_ends_of_a_stretch(engine: LiveEngine) -> None:
    rows = "SELECT n / 3, n % 3, 'name ' || n FROM GENERATE_SERIES(1, 30000) AS s(n)"
    names = make_two(engine, "ends", ENDS, rows, "UPDATE {table} SET name = 'damaged' WHERE first_key % 50 = 7")
    report = perform(engine, *names)
    assert report.verdict is Verdict.MISMATCH and report.differences
    assert (report.differences.changed, report.differences.missing, report.differences.extra) == (600, 0, 0)
    assert report.comparison and report.plan and report.plan.prescan and report.plan.prescan.cuts, "else the key was not cut"
