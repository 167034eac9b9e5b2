"""Changes of the columns of Delta tables: by the table's metadata, or by one commit of all rows, which carries the position."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge.loader import Loader
from auditor.points import armed
from auditor.service.pipeline_status import status
from auditor.store import pipelines
from dialects.delta import commits
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_schema_changes import add, change, comes, rename
from tests.pipeline_events import batch, table, update

ORDERS = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null")
PRICED = table(id="bigint", item="varchar(40) null", price="decimal(12,4) null", state="varchar(9)")

pytestmark = pytest.mark.parametrize("engine", engine_params("delta"), indirect=True)


class Killed(BaseException):
    """Ends a loader as a signal that cannot be caught does."""


@pytest.fixture
def begun(road: Road) -> Road:
    """A target that holds two orders."""
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen", "1.50"], ["2", None, "2.00"])))
    road.loader().merge_all()
    return road


def lake_table(road: Road) -> DeltaTable:
    return DeltaTable(road.folder / "lake" / road.schema / "orders")


def columns(road: Road, schema: TableSchema) -> list[tuple[Any, ...]]:
    names = ", ".join(f'"{column.name}"' for column in schema.columns)
    return road.query(f'SELECT {names} FROM "{road.schema}"."orders" ORDER BY 1')


def reason(road: Road) -> str:
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    return report.reason if report.state == "stopped" else ""


def later(loader: Loader) -> None:
    """Merge all once a table that failed is tried again."""
    earlier = loader.clock
    loader.clock = lambda: earlier() + 3600
    while loader.merge_all():
        pass


def stage_change(road: Road) -> None:
    """A column is renamed and widened, and one with a default is added; rows before and after."""
    ops = (rename("amount", "price"), {"op": "modify", "column": "price"}, add("state", text="it's"))
    rows = [
        *comes(PRICED, 30, ["3", "ink", "3.2500", "new"]),
        *update(PRICED, 31, (["1", "pen", "1.5000", "it's"], ["1", "cap", "9.0000", "b"])),
    ]
    road.stage_task(batch(change("orders", 20, *ops), rows))


CHANGED = [(1, "cap", Decimal("9.0000"), "b"), (2, None, Decimal("2.0000"), "it's"), (3, "ink", Decimal("3.2500"), "new")]


def test_columns_that_may_be_null_are_added_by_the_tables_metadata(begun: Road) -> None:
    files = set(lake_table(begun).file_uris())
    wider = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null", note="text null", n="int null")
    begun.stage_task(
        batch(change("orders", 20, add("note", text=None), add("n", text=None)), comes(wider, 30, ["3", "ink", "3.00", "x", "7"]))
    )
    begun.loader().merge_all()
    assert columns(begun, wider) == [
        (1, "pen", Decimal("1.50"), None, None), (2, None, Decimal("2.00"), None, None), (3, "ink", Decimal("3.00"), "x", 7),
    ]  # fmt: skip
    assert files <= set(lake_table(begun).file_uris()), "no row is written again"


def test_columns_are_renamed_widened_dropped_and_filled_by_one_commit(begun: Road) -> None:
    stage_change(begun)
    before = lake_table(begun).version()
    begun.loader().merge_all()
    assert columns(begun, PRICED) == CHANGED and reason(begun) == ""
    assert lake_table(begun).version() == before + 2, "the rows in their new form with the position, then the merge"
    [made] = status(begun.settings, begun.store, PIPELINE, look=False).migrations
    assert made.state == "applied" and "2 rows are written again" in made.said and made.statements[0].startswith("SELECT ")
    narrow = table(id="bigint", item="varchar(40) null")
    begun.stage_task(
        batch(change("orders", 40, {"op": "drop", "column": "price"}, {"op": "drop", "column": "state"}), comes(narrow, 50, ["4", "nib"]))
    )
    begun.loader().merge_all()
    assert begun.rows() == [(1, "cap"), (2, None), (3, "ink"), (4, "nib")]


def test_columns_exchange_their_names_and_one_comes_back_as_another(begun: Road) -> None:
    pair = table(id="bigint", amount="varchar(40) null", item="decimal(10,2) null")
    swap = [rename("item", "amount"), rename("amount", "item")]
    begun.stage_task(batch(change("orders", 20, *swap), comes(pair, 30, ["3", "ink", "3.00"])))
    begun.loader().merge_all()
    assert columns(begun, pair) == [(1, "pen", Decimal("1.50")), (2, None, Decimal("2.00")), (3, "ink", Decimal("3.00"))]
    again = table(id="bigint", amount="varchar(40) null", item="varchar(9) null")
    ops = change("orders", 40, {"op": "drop", "column": "item"}), change("orders", 41, add("item", text=None))
    begun.stage_task(batch(*ops, comes(again, 50, ["4", "nib", "x"])))
    begun.loader().merge_all()
    assert columns(begun, again) == [(1, "pen", None), (2, None, None), (3, "ink", None), (4, "nib", "x")]


def test_another_key_and_another_order_change_nothing(begun: Road) -> None:
    other = table(amount="decimal(10,2) null", id="bigint", item="varchar(40) null")
    keyed = TableSchema(other.database, other.table, other.columns, ("id", "item"))
    begun.stage_task(batch(change("orders", 20, {"op": "modify", "column": "amount"}), comes(keyed, 30, ["3.00", "3", "ink"])))
    begun.loader().merge_all()
    assert columns(begun, ORDERS) == [(1, "pen", Decimal("1.50")), (2, None, Decimal("2.00")), (3, "ink", Decimal("3.00"))]


@pytest.mark.quick_for("added-merge.altered", "rewritten-merge.migrate", "rewritten-merge.changed")
@pytest.mark.parametrize("point", ["merge.migrate", "merge.altered", "merge.changed"])
@pytest.mark.parametrize("is_rewritten", [True, False], ids=["rewritten", "added"])
def test_a_loader_that_is_killed_inside_goes_on(begun: Road, point: str, is_rewritten: bool) -> None:
    wider = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null", note="text null")
    if is_rewritten:
        stage_change(begun)
    else:
        begun.stage_task(batch(change("orders", 20, add("note", text=None)), comes(wider, 30, ["3", "ink", "3.00", "x"])))

    def kill() -> None:
        raise Killed

    with pytest.raises(Killed), armed(point, kill):
        begun.loader().merge_all()
    loader = begun.loader()
    while loader.merge_all():
        pass
    if is_rewritten:
        assert columns(begun, PRICED) == CHANGED
    else:
        assert [row[3] for row in columns(begun, wider)] == [None, None, "x"]


def test_what_another_writer_commits_meanwhile_is_not_lost(begun: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    stage_change(begun)
    rewrite, uri = commits.rewrite, str(begun.folder / "lake" / begun.schema / "orders")

    def overtaken(*about: Any) -> None:
        monkeypatch.setattr(commits, "rewrite", rewrite)
        row = {"id": pa.array([9], pa.int64()), "item": ["other"], "amount": pa.array([Decimal("1.00")], pa.decimal128(10, 2))}
        write_deltalake(uri, pa.table(row), mode="append")
        rewrite(*about)

    monkeypatch.setattr(commits, "rewrite", overtaken)
    loader = begun.loader()
    loader.merge_all()
    later(loader)
    assert columns(begun, PRICED) == [*CHANGED, (9, "other", Decimal("1.0000"), "it's")]


def test_more_rows_than_a_pipeline_may_write_again_wait_for_a_person(begun: Road) -> None:
    stage_change(begun)
    begun.loader(auto_rows=1).merge_all()
    assert "its 2 rows in " in reason(begun) and "migrate: auto_rows of target wh is 1; raise that" in reason(begun)
    loader = begun.loader(auto_rows=2)
    while loader.merge_all():
        pass
    assert columns(begun, PRICED) == CHANGED


def test_exact_numbers_get_a_narrower_type_that_has_all_that_are_there(begun: Road) -> None:
    for scale, rows in ((1, 3), (0, 3)):
        narrow = table(id="bigint", item="varchar(40) null", amount=f"decimal(10,{scale}) null")
        row = [str(3 + 9 * (1 - scale)), "ink", "3.0" if scale else "3"]
        begun.stage_task(
            batch(change("orders", 20 * (3 - scale), {"op": "modify", "column": "amount"}), comes(narrow, 20 * (3 - scale) + 5, row))
        )
        begun.loader().merge_all()
        assert len(begun.rows()) == rows
    assert "amount is decimal(10,0) and was decimal(10,1), which may have changed values" in reason(begun), "1.50 is none of them"


def test_a_column_by_which_files_are_kept_apart_stays(road: Road) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), "item": ["pen"], "amount": pa.array([Decimal("1.50")], pa.decimal128(10, 2))})
    write_deltalake(road.folder / "lake" / road.schema / "orders", rows, partition_by=["item"])
    loader = road.loader()
    road.stage_task(batch(comes(ORDERS, 10, ["2", "ink", "2.00"])))
    loader.merge_all()
    named = table(id="bigint", label="varchar(40) null", amount="decimal(10,2) null")
    road.stage_task(batch(change("orders", 20, rename("item", "label")), comes(named, 30, ["3", "nib", "3.00"])))
    loader.merge_all()
    assert "is partitioned by item: write it anew without that" in reason(road)


def ids(road: Road, name: str) -> list[int]:
    return [int(row[0]) for row in road.query(f'SELECT id FROM "{road.schema}"."{name}" ORDER BY 1')]


LATER = TableSchema("shop", "later", ORDERS.columns, ORDERS.key)


def test_a_table_that_was_renamed_keeps_its_rows(begun: Road) -> None:
    begun.stage_task(
        batch(comes(ORDERS, 15, ["3", "last", None]), change("orders", 20, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"}), comes(LATER, 30, ["4", "x", None])),
    )
    later(begun.loader())
    assert ids(begun, "later") == [1, 2, 3, 4] and ids(begun, "orders") == []
    new = table(id="bigint", other="int null")
    begun.stage_task(batch(change("orders", 40, {"op": "create", "sure": True}), comes(new, 50, ["9", "5"])))
    later(begun.loader())
    assert begun.query(f'SELECT id, other FROM "{begun.schema}"."orders"') == [(9, 5)] and ids(begun, "later") == [1, 2, 3, 4]
    states = {name: one.state for name, one in pipelines.list_merges(begun.store, PIPELINE)["wh"].items()}
    assert states == {"shop.orders": "merged", "shop.later": "merged"}


def test_a_table_of_more_rows_than_may_be_written_again_stops(begun: Road) -> None:
    begun.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.later"})), batch(change("later", 20, {"op": "moved", "from": "shop.orders"}))
    )
    later(begun.loader(auto_rows=1))
    assert "orders was renamed in the source, its 2 rows in" in reason(begun) and ids(begun, "orders") == [1, 2]
    later(begun.loader(auto_rows=2))
    assert reason(begun) == "" and ids(begun, "later") == [1, 2] and ids(begun, "orders") == []


def test_a_kill_before_the_new_table_has_rows_does_not_stop_it(begun: Road) -> None:
    begun.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.later"})), batch(change("later", 20, {"op": "moved", "from": "shop.orders"}))
    )

    def kill() -> None:
        raise Killed

    with pytest.raises(Killed), armed("merge.made", kill):
        later(begun.loader())
    assert ids(begun, "later") == [] and ids(begun, "orders") == [1, 2]
    later(begun.loader())
    assert ids(begun, "later") == [1, 2] and ids(begun, "orders") == []


def test_a_table_of_somebody_else_keeps_its_rows_and_stops_the_rename(begun: Road) -> None:
    write_deltalake(begun.folder / "lake" / begun.schema / "later", pa.table({"id": pa.array([77], pa.int64())}))
    begun.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.later"})), batch(change("later", 20, {"op": "moved", "from": "shop.orders"}))
    )
    later(begun.loader())
    assert "which this pipeline did not fill" in reason(begun) and ids(begun, "later") == [77] and ids(begun, "orders") == [1, 2]


def test_a_kill_at_each_step_exchanges_no_tables_twice(begun: Road) -> None:
    begun.stage_task(batch(comes(LATER, 30, ["9", "new", None])))
    later(begun.loader())
    begun.stage_task(
        batch(change("orders", 60, {"op": "moved", "from": "shop.later"})),
        batch(change("later", 60, {"op": "moved", "from": "shop.orders"})),
    )

    def kill() -> None:
        raise Killed

    for point in ("merge.move", "merge.copied", "merge.moved", "merge.changed"):
        with pytest.raises(Killed), armed(point, kill):
            later(begun.loader())
    later(begun.loader())
    assert ids(begun, "orders") == [9] and ids(begun, "later") == [1, 2]
    folders = {one.name for one in (begun.folder / "lake" / begun.schema).iterdir()}
    assert folders == {"orders", "later"}, "no copy is left"
    begun.stage_task(batch(comes(ORDERS, 70, ["10", "a", None])), batch(comes(LATER, 71, ["11", "b", None])))
    later(begun.loader())
    assert ids(begun, "orders") == [9, 10] and ids(begun, "later") == [1, 2, 11]


def test_a_column_that_was_renamed_right_before_its_table_keeps_its_values(begun: Road) -> None:
    renamed = [replace(one, name="remark") if one.name == ORDERS.columns[1].name else one for one in ORDERS.columns]
    now = TableSchema("shop", "later", tuple(renamed), ORDERS.key)
    before = begun.query(f'SELECT * FROM "{begun.schema}"."orders" ORDER BY 1')
    begun.stage_task(
        batch(
            change("orders", 15, {"op": "rename", "from": ORDERS.columns[1].name, "to": "remark"}),
            change("orders", 20, {"op": "gone", "to": "shop.later"}),
        ),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"})),
    )
    later(begun.loader())
    begun.stage_task(batch(comes(now, 30, ["4", "x", None])))
    later(begun.loader())
    rows = begun.query(f'SELECT id, remark FROM "{begun.schema}"."later" ORDER BY 1')
    assert rows[:2] == [row[:2] for row in before] and len(rows) == 3
