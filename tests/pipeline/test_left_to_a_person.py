"""What a pipeline does not do to tables of some engines stops the table, with what a person is to do, after which it goes on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from auditor.pipeline.events import TableSchema
from tests.pipeline.conftest import EVERY, QUICK
from tests.pipeline.road import Road
from tests.pipeline.test_schema_changes import ORDERS, add, begin, change, comes, rename, report
from tests.pipeline_events import announce, batch, refresh, table

HERE = [
    pytest.param(*one.values, id=one.id, marks=[*one.marks, *([] if one.id == "mysql" else [pytest.mark.slow])])
    for one in EVERY
    if one.id not in QUICK
]
pytestmark = pytest.mark.parametrize("engine", HERE, indirect=True)


def stop(road: Road, loader: Any) -> str:
    """Merge, and return why the table of orders stopped."""
    rows = len(road.rows())
    loader.merge_all()
    assert report(road).state == "stopped" and len(road.rows()) == rows
    return report(road).reason


def test_columns_are_changed_by_hand(road: Road) -> None:
    loader, own = begin(road), road.dialect.names.table(road.schema, "orders")
    new = table(id="bigint", price="decimal(12,4) null", state="varchar(9) null")
    ops = [{"op": "drop", "column": "item"}, rename("amount", "price"), {"op": "modify", "column": "price"}, add("state", text="it's")]
    road.stage_task(batch(change("orders", 20, *ops), comes(new, 30, ["3", "3.2500", "new"])))
    reason = stop(road, loader)
    assert reason.startswith("shop.orders.state (varchar(9)) is new, and its default cannot be written there; run there: ALTER TABLE ")
    road.execute(reason.partition("run there: ")[2].partition(", and give")[0], f"UPDATE {own} SET state = 'it''s'")
    reason = stop(road, loader)
    assert reason.startswith(f"shop.orders has changed, and a pipeline changes no tables of {road.dialect.name}; run there: ALTER TABLE ")
    road.execute(*reason.partition("run there: ")[2].split("; "))
    assert loader.merge_all() == 1 and report(road).state == "merged"
    rows = road.query(f"SELECT id, price, state FROM {own} ORDER BY id")
    assert rows == [(1, Decimal("1.5000"), "it's"), (2, Decimal("2.0000"), "it's"), (3, Decimal("3.2500"), "new")]


def test_a_name_that_belongs_to_another_column_is_not_told_from_the_old_one(road: Road) -> None:
    loader = begin(road)
    road.stage_task(
        batch(
            change("orders", 20, {"op": "drop", "column": "item"}),
            change("orders", 21, add("item", text=None)),
            comes(ORDERS, 30, ["3", "x", None]),
        )
    )
    assert stop(road, loader).startswith("shop.orders: item is now the name of another column, and a pipeline changes no tables of ")


def test_a_table_is_emptied_and_not_renamed(road: Road) -> None:
    loader = begin(road)
    later = TableSchema("shop", "later", ORDERS.columns, ORDERS.key)
    road.stage_task(batch(change("orders", 20, {"op": "clear"}), comes(ORDERS, 30, ["4", "x", None])))
    loader.merge_all()
    assert [row[0] for row in road.rows()] == [4]
    road.stage_task(
        batch(change("orders", 40, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 40, {"op": "moved", "from": "shop.orders"}), comes(later, 50, ["5", "y", None])),
    )
    assert stop(road, loader).startswith("shop.orders was renamed in the source, and a pipeline renames no tables of ")


def test_rows_that_come_anew_by_ranges_stop_a_table(road: Road) -> None:
    loader = begin(road)
    road.stage_task(batch(announce(ORDERS, 20) + refresh(ORDERS, 20, ["1", "anew", None], bounds=([None] * 3, [None] * 3))))
    assert "its rows come anew through the stream, range by range, and " in stop(road, loader)
    assert [row[1] for row in road.rows()] == ["pen", None]


def test_an_empty_table_that_has_another_key_is_made_anew_by_the_printed_statements(road: Road) -> None:
    loader = begin(road)
    new = table("orders", ("k", "id"), k="bigint", item="int", id="varchar(20)")
    road.stage_task(batch(change("orders", 20, {"op": "gone"}, {"op": "create", "sure": True}), comes(new, 30, ["3", "7", "x"])))
    loader.merge_all()
    reason = report(road).reason
    assert reason.startswith(f"shop.orders has changed, and a pipeline changes no tables of {road.dialect.name}; run there: DROP TABLE ")
    road.execute(*reason.partition("run there: ")[2].split("; "))
    loader.merge_all()
    assert report(road).state == "merged" and road.rows() == [(3, 7, "x")]
