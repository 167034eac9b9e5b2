"""Columns that a pipeline computes reach each target, and the audits that it proposes compute the same from the source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auditor import config
from auditor.config import Audit
from auditor.model import Report, Verdict
from auditor.run import audit_run
from auditor.service import pipelines as service
from auditor.store import pipelines, schema_changes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.conftest import EVERY
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_types import stage
from tests.pipeline_events import announce, batch, insert, refresh, table, update

COMPUTE = {
    "net": {"kind": "decimal(12,2)", "expr": "price - COALESCE(discount, 0)"},
    "gross": {"kind": "decimal(12,2)", "expr": "ROUND((price - COALESCE(discount, 0)) * 1.19, 2)"},
    "domain": {"kind": "text(60)", "expr": "LOWER(REPLACE(SUBSTRING(email, 3), '@', '')) || '/' || country"},
    "day": {"kind": "date", "expr": "DATE(made)"},
    "big": {"kind": "integer", "expr": "CASE WHEN price > 100 AND country = 'DE' THEN 2 WHEN price > 100 THEN 1 ELSE 0 END"},
    "seen": {"kind": "timestamp(3)", "expr": "COALESCE(changed, made)"},
}
TABLE = """CREATE TABLE computed (id bigint PRIMARY KEY, price decimal(10,2) NOT NULL, discount decimal(10,2), email varchar(40),
    country char(2), made datetime(3) NOT NULL, changed timestamp(3) NULL)"""

QUICK = {("mysql", "postgres"), ("mariadb", "duckdb"), ("mysql", "redshift"), ("mariadb", "mysql"), ("mysql", "delta")}
ROADS = [
    pytest.param(
        source, target, id=f"{source}-{target}",
        marks=[getattr(pytest.mark, source), getattr(pytest.mark, target), *([] if (source, target) in QUICK else [pytest.mark.slow])],
    )
    for source in ("mysql", "mariadb") for target in ("postgres", "duckdb", "redshift", "mysql", "mariadb", "delta")
]  # fmt: skip


def give(road: Road, columns: Mapping[str, Any], source: str = "mysql://nobody@localhost/shop") -> None:
    """Give the road's pipeline rules for columns, and a source."""
    lines = road.config_file.read_text().splitlines()
    lines = [f"    columns: {json.dumps(columns)}" if line.lstrip().startswith("columns:") else line for line in lines]
    lines = [f'  source: {{url: "{source}"}}' if line.startswith("  source:") else line for line in lines]
    road.config_file.write_text("\n".join(lines) + "\n")
    road.settings = config.load(road.config_file)


def audited(road: Road, name: str) -> Report:
    [(audit, proposed)] = service.propose_audits(road.settings, PIPELINE, [name]).items()
    return audit_run.run(audit, Audit.model_validate(proposed), road.settings.connections)


@pytest.mark.quick_for("mysql-postgres", "mariadb-mysql", "mysql-delta")
@pytest.mark.alone
@pytest.mark.parametrize(("source", "engine"), ROADS, indirect=["engine"])
def test_the_proposed_audits_compute_what_the_pipeline_does(source: str, engine: LiveEngine, road: Road, engines: Engines) -> None:
    log = LiveLog(engines.live(source).url)
    give(road, {"computed": {"compute": COMPUTE, "exclude": ["email"]}}, log.url)
    start = log.end()
    log.run(
        "DROP TABLE IF EXISTS computed",
        TABLE,
        """INSERT INTO computed VALUES (1, 150.005, 10, 'a@Example.org', 'DE', '2024-02-29 23:59:59.999', NULL),
            (2, 99.99, NULL, 'bé@😀.fr', 'FR', '1999-12-31 00:00:00', '2024-01-01 12:30:00.5'),
            (3, -0.05, 0.01, NULL, NULL, '2000-01-01', NULL),
            (4, 100.01, 0, 'x@y', 'de', '2026-11-29 10:00:00', NULL), (5, 1, 1, 'gone', 'DE', '2026-01-01', NULL)""",
        "UPDATE computed SET price = 250, country = 'FR' WHERE id = 1",
        "UPDATE computed SET id = 20 WHERE id = 2",
        "DELETE FROM computed WHERE id = 5",
    )
    stage(road, log, start, "computed")
    road.loader().merge_all()
    report = pipelines.list_merges(road.store, PIPELINE)["wh"][f"{log.database}.computed"]
    assert (report.state, report.reason) == ("merged", "")
    found = audited(road, "computed")
    assert found.verdict == Verdict.MATCH, (found.reasons, found.differences)
    assert found.plan and {column.name for column in found.plan.columns} >= COMPUTE.keys()
    quoted = road.dialect.names.table(road.schema, "computed")
    assert road.query(f"SELECT id, net, big FROM {quoted} WHERE id < 3") == [(1, 240, 1)]
    if engine.name != "delta":
        road.execute(f"UPDATE {quoted} SET net = net + 1 WHERE id = 20")
        damaged = audited(road, "computed").differences
        assert damaged and [(one.key["id"], [column.name for column in one.columns]) for one in damaged.named] == [("20", ["net"])]


ORDERS = table(id="bigint", price="decimal(10,2)", discount="decimal(10,2) null")
NET = {"net": {"kind": "decimal(12,2)", "expr": "price - discount"}}


def column(road: Road, name: str) -> list[Any]:
    return [row[0] for row in road.query(f"SELECT {name} FROM {road.dialect.names.table(road.schema, 'orders')} ORDER BY id")]


def texts(values: list[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


@pytest.mark.quick_for("duckdb", "mysql")
@pytest.mark.parametrize("engine", EVERY, indirect=True)
@pytest.mark.engines_in_turn
def test_a_column_that_is_computed_later_is_filled_by_a_refresh(road: Road) -> None:
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "5.00", "1.00"], ["2", "7.00", None])))
    loader = road.loader()
    loader.merge_all()
    give(road, {"orders": {"compute": NET}})
    road.stage_task(batch(announce(ORDERS, 15), insert(ORDERS, 20, ["3", "9.00", "0.50"])))
    loader.merge_all()
    assert texts(column(road, "net")) == [None, None, "8.50"]
    [added] = schema_changes.list_migrations(road.store, PIPELINE)
    assert any("older rows have NULL until they are sent again: auditor pipeline refresh" in said for said in added.said)
    nothing = [None, None, None]
    road.stage_task(
        batch(
            announce(ORDERS, 25),
            refresh(ORDERS, 30, ["1", "5.00", "1.00"], ["2", "7.00", None], ["3", "9.00", "0.50"], bounds=(nothing, nothing)),
        )
    )
    loader.merge_all()
    assert texts(column(road, "net")) == ["4.00", None, "8.50"]


@pytest.mark.parametrize("engine", EVERY, indirect=True)
@pytest.mark.engines_in_turn
def test_values_that_were_computed_otherwise_do_not_stay(road: Road) -> None:
    """By another expression, and from a column whose values another type may have changed."""
    give(road, {"orders": {"compute": NET}})
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "5.25", "1.00"])))
    now = [0.0]

    def clock() -> float:
        now[0] += 100
        return now[0]

    loader = road.loader(clock=clock)
    loader.merge_all()
    give(road, {"orders": {"compute": {"net": {**NET["net"], "expr": "price + discount"}}}})
    road.stage_task(batch(announce(ORDERS, 15), insert(ORDERS, 20, ["2", "9.00", "0.50"])))
    loader.merge_all()
    reason = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].reason
    assert "net is computed by price + discount and was by price - discount" in reason, reason
    quoted = road.dialect.names.table(road.schema, "orders")
    road.execute(f"ALTER TABLE {quoted} DROP COLUMN {road.dialect.names.quote('net')}")
    loader.merge_all()
    assert texts(column(road, "net")) == [None, "9.50"]
    longer = table(id="bigint", price="decimal(12,2)", discount="decimal(10,2) null")
    road.stage_task(batch(announce(longer, 25), insert(longer, 30, ["3", "1.00", "1.00"])))
    loader.merge_all()
    assert texts(column(road, "net")) == [None, "9.50", "2.00"], "a longer decimal keeps all values"


def scored(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Return a column, as a transform; it cannot score the order 13."""
    if "13" in rows["id"].to_pylist():
        raise ValueError("no score for the secret 4711")
    return {"score": pc.multiply(rows["id"].cast(pa.int64()), 10), "label": pc.binary_join_element_wise("n", rows["id"], "-")}


SCORED = {"function": f"{__name__}:scored", "columns": {"score": "integer", "label": "text(20)"}}


@pytest.mark.parametrize("engine", engine_params("postgres", "duckdb", slow=["postgres"]), indirect=True)
@pytest.mark.engines_in_turn
def test_a_function_that_raises_stops_its_table_alone_and_names_the_row(road: Road) -> None:
    items = table("items", id="bigint")
    give(road, {"orders": {"transform": SCORED, "mask": ["discount"]}})
    rows = [[str(number), "1.00", None] for number in (1, 2, 13, 14)]
    notes = road.stage_task(
        batch(announce(ORDERS, 1), *(insert(ORDERS, 10 + place, row) for place, row in enumerate(rows))),
        batch(announce(items, 1), insert(items, 30, ["1"])),
    )
    assert [(one.table, one.position) for one in notes] == [("shop.orders", 12)]
    reason = notes[0].body["reason"]
    assert "scored on a row of shop.orders raised ValueError" in reason and "the row with id = 13" in reason and "4711" not in reason
    loader = road.loader()
    loader.merge_all()
    assert road.rows("items") == [(1,)]
    assert road.query(f"SELECT id, score, label FROM {road.dialect.names.table(road.schema, 'orders')} ORDER BY id") == [
        (1, 10, "n-1"), (2, 20, "n-2"),
    ]  # fmt: skip
    states = {name: one.state for name, one in pipelines.list_merges(road.store, PIPELINE)["wh"].items()}
    assert states == {"shop.orders": "stopped", "shop.items": "merged"}


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_an_update_is_computed_before_and_after(road: Road) -> None:
    give(road, {"orders": {"compute": NET, "where": "price > 1"}})
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "5.00", "1.00"])))
    road.stage_task(batch(announce(ORDERS, 15), update(ORDERS, 20, (["1", "5.00", "1.00"], ["1", "6.00", "1.50"]))))
    road.loader().merge_all()
    assert texts(column(road, "net")) == ["4.50"]
