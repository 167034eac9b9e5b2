"""The table in docs/limits.md: what each method says of each fault, measured on DuckDB, and read from the page.

`pytest --update-golden tests/unit/test_limits_page.py` writes the table anew; read what changed before you commit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Verdict
from auditor.run import audit_run

pytestmark = pytest.mark.duckdb

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"

ORIGINAL = """
    SELECT i AS id, 'name ' || i AS name, 'city ' || i AS city, CAST(i % 97 AS DECIMAL(12, 2)) AS amount, i / 7.0 AS weight,
        TIMESTAMP '2026-01-01' + INTERVAL (i) MINUTE AS moved
    FROM range(1, 2001) r(i)
    UNION ALL SELECT 5001, '', 'NULL', 0, 0, NULL
    UNION ALL SELECT 5002, 'caf\u00e9', 'here', 10, 1, NULL"""

FAULTS: dict[str, str] = {
    "a row is missing": "DELETE FROM t WHERE id = 700",
    "a row is extra": "INSERT INTO t SELECT * REPLACE (3000 AS id) FROM t WHERE id = 700",
    "a row is there twice": "INSERT INTO t SELECT * FROM t WHERE id = 700",
    "a row has another key": "UPDATE t SET id = 3000 WHERE id = 700",
    "a hundred rows in succession are missing": "DELETE FROM t WHERE id BETWEEN 701 AND 800",
    "every tenth row has another value": "UPDATE t SET city = 'elsewhere' WHERE id % 10 = 0",
    "one value is another": "UPDATE t SET amount = amount + 1 WHERE id = 700",
    "two changes that cancel in the sum": "UPDATE t SET amount = amount + CASE id WHEN 701 THEN 1 ELSE -1 END WHERE id IN (701, 702)",
    "two rows have each other's values": "UPDATE t SET city = CASE id WHEN 701 THEN 'city 702' ELSE 'city 701' END WHERE id IN (701, 702)",
    "two columns have each other's values": "UPDATE t SET name = city, city = name WHERE id = 700",
    "a character is in the column before": "UPDATE t SET name = name || 'c', city = substr(city, 2) WHERE id = 700",
    "NULL in place of an empty text": "UPDATE t SET name = NULL WHERE id = 5001",
    "NULL in place of the text NULL": "UPDATE t SET city = NULL WHERE id = 5001",
    "NULL in place of 0": "UPDATE t SET amount = NULL WHERE id = 5001",
    "other capitals": "UPDATE t SET name = upper(name) WHERE id = 700",
    "a trailing blank": "UPDATE t SET name = name || ' ' WHERE id = 700",
    "another Unicode form": "UPDATE t SET name = 'cafe\u0301' WHERE id = 5002",
    "a time is a microsecond later": "UPDATE t SET moved = moved + INTERVAL 1 MICROSECOND WHERE id = 700",
    "the last digit of a floating-point number": "UPDATE t SET weight = weight + 1e-13 WHERE id = 700",
    "a zero is a negative zero": "UPDATE t SET weight = -0.0 WHERE id = 5001",
    "the target has one column more": "ALTER TABLE t ADD COLUMN more INTEGER",
}
"""For each fault, what makes it in the target."""

METHODS: dict[str, dict[str, Any]] = {
    "`counts`": {"method": "counts"},
    "`signature`": {"method": "signature"},
    "`minhash`": {"method": "minhash"},
    "`minhash`, published encoding": {"method": "minhash", "encoding": "published"},
    "`exact`": {"method": "exact"},
}


def make_databases(folder: Path) -> None:
    """Create the source's table, and in the target one table for each fault."""
    with duckdb.connect(str(folder / "source.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS {ORIGINAL}")
    with duckdb.connect(str(folder / "target.duckdb")) as connection:
        for number, damage in enumerate(FAULTS.values()):
            connection.execute(f"CREATE TABLE t AS {ORIGINAL}")
            connection.execute(damage)
            connection.execute(f"ALTER TABLE t RENAME TO fault_{number}")


def run_audit(folder: Path, number: int, **audit: Any) -> Report:
    tables = {"source": "t", "target": f"fault_{number}"}
    ends = {side: {"connection": side, "table": tables[side]} for side in SIDES}
    connections = {str(side): ConnectionSettings(url=f"duckdb:///{folder}/{side}.duckdb") for side in SIDES}
    return audit_run.run("t", Audit.model_validate({**ends, "key": ["id"], **audit}), connections)


def describe(report: Report) -> str:
    """Return a cell of the table."""
    assert report.plan
    if report.verdict is Verdict.MATCH:
        return "match, noted" if report.plan.not_compared else "**match**"
    assert report.verdict is Verdict.MISMATCH, report.reasons
    found = report.differences
    if found and found.named:
        return "names the rows"
    return "names the range" if found and found.ranges else "mismatch"


def measure(folder: Path, methods: Sequence[str]) -> dict[str, list[str]]:
    """Audit each fault by these methods; return the cells of each method's column."""
    make_databases(folder)
    return {method: [describe(run_audit(folder, number, **METHODS[method])) for number in range(len(FAULTS))] for method in methods}


def render(cells: dict[str, list[str]]) -> str:
    """Return the table in Markdown; faults of which every method says the same share a row, and methods that always agree a column."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for fault, *row in zip(FAULTS, *cells.values(), strict=True):
        rows.setdefault(tuple(row), []).append(fault)
    columns: dict[tuple[str, ...], list[str]] = {}
    for place, method in enumerate(cells):
        columns.setdefault(tuple(row[place] for row in rows), []).append(method)
    head = ["fault", *("; ".join(methods) for methods in columns.values())]
    table = [head, ["---"] * len(head), *zip(("; ".join(faults) for faults in rows.values()), *columns, strict=True)]
    return "".join(f"| {' | '.join(row)} |\n" for row in table)


def parse(table: str) -> dict[str, dict[str, str]]:
    """Return, by method and fault, the cells of a table that `render` returned."""
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines())
    single = [(fault, row) for row in rows for fault in row[0].split("; ")]
    assert head[0] == "fault" and sorted(fault for fault, _ in single) == sorted(FAULTS)
    places = {method: place for place, methods in enumerate(head) if place for method in methods.split("; ")}
    return {method: {fault: row[place] for fault, row in single} for method, place in places.items()}


@pytest.mark.slow
def test_table_of_faults_and_methods_is_as_measured(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Without --slow, the default method alone."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    if request.config.getoption("--update-golden"):
        table = render(measure(tmp_path, list(METHODS)))
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
        return
    shown = parse(table)
    assert set(shown) == set(METHODS)
    measured = measure(tmp_path, list(METHODS) if request.config.getoption("--slow") else ["`exact`"])
    assert {method: dict(zip(FAULTS, cells, strict=True)) for method, cells in measured.items()} == {
        method: shown[method] for method in measured
    }
