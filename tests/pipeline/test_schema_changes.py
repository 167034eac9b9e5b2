"""What statements do to the source's tables is done to the target's, in order and once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from auditor.errors import EngineError
from auditor.pipeline.events import TableSchema
from auditor.points import armed
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.store import pipelines, schema_changes
from tests.pipeline.conftest import EVERY
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

pytestmark = [pytest.mark.parametrize("engine", EVERY, indirect=True), pytest.mark.engines_in_turn]

STATEMENTS = {"postgres": 8, "duckdb": 7, "redshift": 9, "mysql": 1, "mariadb": 1}
"""How many statements change four columns, by engine."""

ORDERS = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null")


def change(name: str, position: int, *ops: dict[str, Any], **more: Any) -> list[dict[str, object]]:
    """A note on what a statement did."""
    whole = "beside" not in more and any(op["op"] in ("clear", "create", "moved") or ("to" in op and op["op"] == "gone") for op in ops)
    advances = {"advances": True} if whole else {}
    return note("change", name, position, {"ops": list(ops), **advances, **more})


def comes(schema: TableSchema, position: int, *values: Any) -> list[dict[str, object]]:
    """Inserts at a position, with the schema before them."""
    return announce(schema, position) + insert(schema, position, *values)


def add(column: str, **value: Any) -> dict[str, Any]:
    return {"op": "add", "column": column, "value": value}


def rename(old: str, new: str) -> dict[str, Any]:
    return {"op": "rename", "from": old, "to": new}


def begin(road: Road) -> Any:
    """Two orders at position 10, merged; the loader, whose clock goes on by 100 s at each look."""
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen", "1.50"], ["2", None, "2.00"])))
    now = [0.0]

    def clock() -> float:
        now[0] += 100
        return now[0]

    loader = road.loader(clock=clock)
    loader.merge_all()
    return loader


def report(road: Road, name: str = "orders") -> pipelines.MergeReport:
    return pipelines.list_merges(road.store, PIPELINE)["wh"][f"shop.{name}"]


def columns(road: Road, schema: TableSchema) -> list[tuple[Any, ...]]:
    names = ", ".join(road.dialect.names.quote(column.name) for column in schema.columns)
    return road.query(f"SELECT {names} FROM {road.dialect.names.table(road.schema, schema.table)} ORDER BY 1")


@pytest.mark.few
def test_columns_are_added_dropped_renamed_and_widened(road: Road) -> None:
    loader = begin(road)
    new = table(id="bigint", price="decimal(12,4) null", state="varchar(9)", n="int null", note="text null")
    ops = [add("state", text="it's"), add("n", text="-7"), add("note", text=None), {"op": "drop", "column": "item"}]
    road.stage_task(
        batch(change("orders", 20, *ops), change("orders", 21, rename("amount", "price"), {"op": "modify", "column": "price"}),
              comes(new, 30, ["3", "3.2500", "new", "1", "x"]),
              update(new, 31, (["1", "1.5000", "it's", "-7", None], ["1", "9.0000", "b", None, None])))
    )  # fmt: skip
    assert loader.merge_all() == 2
    assert columns(road, new) == [
        (1, Decimal("9.0000"), "b", None, None), (2, Decimal("2.0000"), "it's", -7, None), (3, Decimal("3.2500"), "new", 1, "x"),
    ]  # fmt: skip
    [found] = schema_changes.list_migrations(road.store, PIPELINE)
    assert (found.state, found.from_schema, found.to_schema, found.said) == ("applied", ORDERS.id, new.id, ["2 rows are written again"])
    assert len(found.statements) == STATEMENTS[road.dialect.name] and loader.merge_all() == 0
    history = schema_changes.list_history(road.store, PIPELINE, "shop.orders")
    assert [(one.position, one.schema_id) for one in history] == [(10, ORDERS.id), (30, new.id)]


@pytest.mark.few
def test_columns_of_the_key_get_wider_types(road: Road) -> None:
    two = table("two", ("id", "part"), item="varchar(9) null", id="int", gone="int null", part="varchar(5)", note="text null")
    road.stage_task(batch(comes(two, 10, ["a", "1", "5", "x", None], [None, "2", None, "y", "b"])))
    loader = road.loader()
    loader.merge_all()
    new = table("two", ("number", "part"), item="varchar(9) null", number="bigint", part="varchar(50)", note="text null")
    ops = {"op": "drop", "column": "gone"}, rename("id", "number"), {"op": "modify", "column": "part"}
    long = "x" * 50
    road.stage_task(batch(change("two", 20, *ops), comes(new, 30, ["c", "9000000000", long, "d"])))
    loader.merge_all()
    assert report(road, "two").reason == ""
    assert sorted(columns(road, new), key=str) == sorted([("a", 1, "x", None), (None, 2, "y", "b"), ("c", 9000000000, long, "d")], key=str)


def test_names_that_are_exchanged(road: Road) -> None:
    two = table("two", id="bigint", a="int null", b="int null")
    road.stage_task(batch(comes(two, 10, ["1", "10", "20"])))
    loader = road.loader()
    loader.merge_all()
    road.stage_task(batch(change("two", 20, rename("a", "b"), rename("b", "a")), comes(two, 30, ["2", "1", "2"])))
    loader.merge_all()
    assert columns(road, two) == [(1, 20, 10), (2, 1, 2)]


def test_a_column_that_was_dropped_and_added_again_loses_its_values(road: Road) -> None:
    loader = begin(road)
    ops = [{"op": "drop", "column": "item"}], [add("item", text="new")]
    road.stage_task(
        batch(
            comes(ORDERS, 15, ["3", "old", None]),
            change("orders", 20, *ops[0]),
            change("orders", 21, *ops[1]),
            comes(ORDERS, 30, ["4", "x", None]),
        )
    )
    loader.merge_all()
    assert [row[:2] for row in columns(road, ORDERS)] == [(1, "new"), (2, "new"), (3, "new"), (4, "x")]


def test_without_a_statement_columns_are_told_by_name_and_it_is_said(road: Road) -> None:
    loader = begin(road)
    new = table(id="bigint", thing="varchar(40) null", amount="decimal(10,2) null")
    road.stage_task(batch(change("orders", 20, {"op": "unread", "text": "ALTER TABLE orders ..."}), comes(new, 30, ["3", "x", None])))
    loader.merge_all()
    assert [row[:2] for row in columns(road, new)] == [(1, None), (2, None), (3, "x")]
    [found] = schema_changes.list_migrations(road.store, PIPELINE)
    assert [sentence.partition(": ")[2] for sentence in found.said] == [
        "'ALTER TABLE orders ...' was not understood, so columns are told by their names",
        "thing came and item went, and no statement says that one was renamed: the old column is dropped and the new one added",
    ] + [sentence.partition(": ")[2] for sentence in found.said[2:]]
    assert "shop.orders.thing is new, and nothing says what older rows have in it: they have NULL in the target" in found.said


def test_tables_are_emptied_and_made_anew_in_order(road: Road) -> None:
    loader = begin(road)
    road.stage_task(
        batch(comes(ORDERS, 15, ["3", "old", None]), change("orders", 20, {"op": "clear"}), comes(ORDERS, 30, ["4", "x", None]))
    )
    loader.merge_all()
    assert [row[0] for row in road.rows()] == [4]
    other = table(id="bigint", code="int")
    road.stage_task(
        batch(
            change("orders", 40, {"op": "gone"}),
            change("orders", 50, {"op": "create", "sure": False}),
            comes(other, 60, ["5", "7"]),
        )
    )
    loader.merge_all()
    assert columns(road, other) == [(5, 7)]
    road.stage_task(batch(change("orders", 70, {"op": "create", "sure": False})))
    loader.merge_all()
    assert columns(road, other) == [(5, 7)], "IF NOT EXISTS, and it was there"
    road.stage_task(batch(change("orders", 80, {"op": "clear"})))
    loader.merge_all()
    assert columns(road, other) == [] and report(road).position == 80


def test_a_table_made_unless_it_is_there_hides_no_change_of_its_columns(road: Road) -> None:
    loader = begin(road)
    new = table(id="bigint", thing="varchar(40) null", amount="decimal(10,2) null")
    statements = [change("orders", 20, rename("item", "thing")), change("orders", 21, {"op": "create", "sure": False})]
    road.stage_task(batch(*statements))
    loader.merge_all()
    road.stage_task(batch(comes(new, 30, ["3", "ink", None])))
    loader.merge_all()
    assert columns(road, new) == [(1, "pen", Decimal("1.50")), (2, None, Decimal("2.00")), (3, "ink", None)]


def test_a_table_that_was_renamed_keeps_its_rows(road: Road) -> None:
    loader = begin(road)
    later = TableSchema("shop", "later", ORDERS.columns, ORDERS.key)
    road.stage_task(
        batch(comes(ORDERS, 15, ["3", "last", None]), change("orders", 20, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"}), comes(later, 30, ["4", "x", None])),
    )
    for _ in range(3):
        loader.merge_all()
    assert [row[0] for row in columns(road, later)] == [1, 2, 3, 4]
    road.stage_task(batch(change("orders", 40, {"op": "create", "sure": True}), comes(ORDERS, 50, ["9", "new", None])))
    for _ in range(2):
        loader.merge_all()
    assert [row[0] for row in columns(road, ORDERS)] == [9] and len(columns(road, later)) == 4
    swap = [{"op": "moved", "from": "shop.later"}], [{"op": "moved", "from": "shop.orders"}]
    road.stage_task(batch(change("orders", 60, *swap[0])), batch(change("later", 60, *swap[1])))
    for _ in range(2):
        loader.merge_all()
    assert [row[0] for row in columns(road, ORDERS)] == [1, 2, 3, 4] and [row[0] for row in columns(road, later)] == [9]


def test_a_copy_that_took_the_tables_place(road: Road) -> None:
    loader = begin(road)
    new = table(id="bigint", thing="varchar(40) null", amount="decimal(10,2) null", n="int")
    copied = [{"op": "create", "sure": True}], [rename("item", "thing"), add("n", text="5")]
    road.stage_task(
        batch(change("_orders_gho", 12, *copied[0], beside="orders"),
              change("_orders_gho", 13, *copied[1], beside="orders")),
        batch(comes(ORDERS, 15, ["3", "last", None]), change("orders", 20, {"op": "swapped", "from": "shop._orders_gho"}),
              comes(new, 30, ["4", "x", None, "6"])),
    )  # fmt: skip
    loader.merge_all()
    assert [(row[0], row[1], row[3]) for row in columns(road, new)] == [(1, "pen", 5), (2, None, 5), (3, "last", 5), (4, "x", 6)]
    assert set(pipelines.list_merges(road.store, PIPELINE)["wh"]) == {"shop.orders"}


NARROW = table(id="bigint", item="varchar(40) null", amount="decimal(10,0) null")
COMPUTED = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null", at="datetime null")
OTHER_KIND = table(id="bigint", item="int null", amount="decimal(10,2) null")


@pytest.mark.parametrize(
    ("new", "row", "op", "sentence"),
    [
        (NARROW, ["3", "x", "1"], {"op": "modify", "column": "amount"},
         "shop.orders.amount is decimal(10,0) and was decimal(10,2), which may have changed"),
        (COMPUTED, ["3", "x", "1.50", "2026-01-01 00:00:00"], add("at", unknown="its default is an expression"),
         "shop.orders.at (datetime) is new, and its default is an expression; run there: ALTER TABLE "),
        (OTHER_KIND, ["3", "4", "1.50"], {"op": "modify", "column": "item"},
         "shop.orders.item is int and was varchar(40), which may have changed"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_alone_is_refused_until_it_was_done_by_hand(
    road: Road, new: TableSchema, row: list[str], op: dict[str, Any], sentence: str
) -> None:
    loader = begin(road)
    road.execute(f"UPDATE {road.schema}.orders SET item = '5'")
    road.stage_task(batch(change("orders", 20, op), comes(new, 30, row)))
    loader.merge_all()
    assert report(road).state == "stopped" and report(road).reason.startswith(sentence), report(road).reason
    assert len(road.rows()) == 2 and schema_changes.list_migrations(road.store, PIPELINE)[0].state == "refused"
    statement = report(road).reason.partition("run there: ")[2].partition(", and give")[0]
    if "ADD COLUMN" not in statement and new is OTHER_KIND and road.dialect.name == "postgres":
        statement += " USING item::bigint"
    road.execute(*statement.split("; "))
    loader.merge_all()
    assert len(road.rows()) == 3 and report(road).state == "merged"
    assert {one.state for one in schema_changes.list_migrations(road.store, PIPELINE)} == {"applied"}


@pytest.mark.parametrize(
    ("native", "values"),
    [("decimal(10,1)", ["1.5", "2.0", None, "-3.5"]), ("decimal(5,2)", ["999.99", "2.00", None, "0.01"]), ("int", ["1", "-2", None, "3"])],
    ids=["fewer decimals", "fewer digits", "no decimals"],
)
def test_exact_numbers_get_a_narrower_type_that_has_all_that_are_there(road: Road, native: str, values: list[str | None]) -> None:
    wide, narrow = table(id="bigint", n="decimal(10,3) null"), table(id="bigint", n=f"{native} null")
    old = [None if value is None else f"{Decimal(value):.3f}" for value in values]
    road.stage_task(batch(comes(wide, 10, *([str(number), value] for number, value in enumerate(old)))))
    loader = road.loader()
    loader.merge_all()
    road.stage_task(batch(change("orders", 20, {"op": "modify", "column": "n"}), comes(narrow, 30, ["9", values[0]])))
    loader.merge_all()
    assert report(road).reason == "" and report(road).position == 30
    assert columns(road, narrow) == [(number, value and Decimal(value)) for number, value in [*enumerate(values), (9, values[0])]]


@pytest.mark.parametrize(("native", "value"), [("decimal(10,1)", "1.250"), ("decimal(4,2)", "123.000"), ("int", "0.500")])
def test_a_narrower_type_that_lacks_one_of_them_is_refused(road: Road, native: str, value: str) -> None:
    wide, narrow = table(id="bigint", n="decimal(10,3) null"), table(id="bigint", n=f"{native} null")
    road.stage_task(batch(comes(wide, 10, ["1", "2.000"], ["2", value])))
    loader = road.loader()
    loader.merge_all()
    road.stage_task(batch(change("orders", 20, {"op": "modify", "column": "n"}), comes(narrow, 30, ["9", "1"])))
    loader.merge_all()
    assert report(road).state == "stopped" and f"n is {native} and was decimal(10,3), which may have changed" in report(road).reason


def test_another_key_is_followed_where_rows_have_it(road: Road) -> None:
    parts = table("parts", ("id",), id="bigint", n="int", item="varchar(40) null")
    road.stage_task(batch(comes(parts, 10, ["1", "7", "pen"], ["2", "7", None])))
    loader = road.loader()
    loader.merge_all()
    new = TableSchema("shop", "parts", parts.columns, ("n", "id"))
    road.stage_task(batch(change("parts", 20), comes(new, 30, ["1", "8", "ink"]), update(new, 31, (["2", "7", None], ["2", "7", "cap"]))))
    loader.merge_all()
    assert (report(road, "parts").state, report(road, "parts").reason) == ("merged", "")
    assert sorted(road.rows("parts")) == [(1, 7, "pen"), (1, 8, "ink"), (2, 7, "cap")]
    [found] = schema_changes.list_migrations(road.store, PIPELINE)
    assert found.state == "applied" and "shop.parts has the key (n, id) and had (id)" in found.said
    road.stage_task(batch(announce(new, 40), delete(new, 40, ["1", "7", "pen"])))
    road.loader().merge_all()  # by a session that looks at the table anew
    assert sorted(road.rows("parts")) == [(1, 8, "ink"), (2, 7, "cap")]


def test_a_column_of_the_key_that_is_dropped(road: Road) -> None:
    """MySQL then has the key of the others."""
    parts = table("parts", ("n", "id"), n="int", id="bigint", item="varchar(40) null")
    road.stage_task(batch(comes(parts, 10, ["7", "1", "pen"], ["7", "2", None])))
    loader = road.loader()
    loader.merge_all()
    new = table("parts", ("id",), id="bigint", item="varchar(40) null")
    road.stage_task(batch(change("parts", 20, {"op": "drop", "column": "n"}), comes(new, 30, ["3", "ink"]), delete(new, 31, ["1", "pen"])))
    loader.merge_all()
    assert report(road, "parts").reason == "" and sorted(road.rows("parts"), key=str) == [(2, None), (3, "ink")]


def test_another_key_with_another_column(road: Road) -> None:
    loader = begin(road)
    new = table("orders", ("id", "part"), id="bigint", item="varchar(40) null", amount="decimal(10,2) null", part="int")
    ops = [add("part", text="0")]
    road.stage_task(batch(change("orders", 20, *ops), comes(new, 30, ["1", "cap", "3.00", "1"])))
    loader.merge_all()
    if road.dialect.name == "duckdb":
        assert "gets another key and other columns at once: make it again by hand" in report(road).reason
        return
    assert report(road).reason == ""
    assert [row[:2] + row[3:] for row in road.rows("orders", "id, part")] == [(1, "pen", 0), (1, "cap", 1), (2, None, 0)]


def test_another_key_that_rows_do_not_have_is_refused(road: Road) -> None:
    loader = begin(road)
    new = TableSchema("shop", "orders", ORDERS.columns, ("item", "id"))
    road.stage_task(batch(change("orders", 20), comes(new, 30, ["3", "x", None])))
    loader.merge_all()
    if road.dialect.name == "redshift":  # where a key is no more than a hint
        assert report(road).reason == "" and len(road.rows()) == 3
        return
    assert report(road).state == "stopped" and "the target refuses " in report(road).reason, report(road)
    assert len(road.rows()) == 2
    road.execute("UPDATE {} SET item = 'none' WHERE item IS NULL".format(road.dialect.names.table(road.schema, "orders")))
    loader.merge_all()
    assert report(road).state == "merged" and len(road.rows()) == 3


@pytest.mark.parametrize("ops", [("gone", "create"), ("clear",)])
def test_a_table_that_the_source_made_again_with_another_key_is_made_anew(road: Road, ops: tuple[str, ...]) -> None:
    loader = begin(road)
    new = table("orders", ("k", "id"), k="bigint", item="int", id="varchar(20)")
    road.stage_task(batch(change("orders", 20, *({"op": op, "sure": True} for op in ops)), comes(new, 30, ["3", "7", "x"])))
    loader.merge_all()
    assert report(road).state == "merged" and road.rows() == [(3, 7, "x")]
    road.stage_task(batch(announce(new, 40), update(new, 40, (["3", "7", "x"], ["3", "8", "x"]))))
    loader.merge_all()
    assert road.rows() == [(3, 8, "x")]


@pytest.mark.quick_for("mysql", "postgres", "redshift")
@pytest.mark.few
def test_an_error_at_each_step_leaves_all_or_nothing(road: Road) -> None:
    new = table(id="bigint", thing="varchar(40) null", amount="decimal(10,2) null")
    begin(road).close()
    road.stage_task(
        batch(change("orders", 20, {"op": "clear"}), comes(ORDERS, 25, ["7", "x", None]), change("orders", 30, rename("item", "thing")),
              comes(new, 40, ["8", "y", None]))
    )  # fmt: skip

    fail_at_each(road, "clear", "cleared", "migrate", "altered", "migrated", "merged", "report")
    road.loader().merge_all()
    assert columns(road, new) == [(7, "x", None), (8, "y", None)]
    assert [one.state for one in schema_changes.list_migrations(road.store, PIPELINE)] == ["applied"]


def fail_at_each(road: Road, *steps: str) -> None:
    """Let one loader after the other fail at a step; in a transaction there are none between a table's change and its position."""

    def fail() -> None:
        raise EngineError("the test's own")

    between = () if road.dialect.writing.altering.COMMITS_BY_ITSELF else ("altered", "renamed")
    for fatal in (step for step in steps if step not in between):
        with armed(f"merge.{fatal}", fail):
            road.loader().merge_all()


def test_an_error_between_statements_exchanges_no_names_twice(road: Road) -> None:
    two = table("two", id="bigint", a="int null", b="int null")
    road.stage_task(batch(comes(two, 10, ["1", "10", "20"])))
    road.loader().merge_all()
    road.stage_task(batch(change("two", 20, rename("a", "b"), rename("b", "a")), comes(two, 30, ["2", "1", "2"])))
    fail_at_each(road, "migrate", "altered", "migrated", "changed")
    road.loader().merge_all()
    assert columns(road, two) == [(1, 20, 10), (2, 1, 2)]


@pytest.mark.quick_for("mysql", "postgres", "duckdb")
@pytest.mark.few
def test_an_error_between_statements_exchanges_no_tables_twice(road: Road) -> None:
    begin(road)
    later = TableSchema("shop", "later", ORDERS.columns, ORDERS.key)
    road.stage_task(batch(comes(later, 30, ["9", "new", None])))
    road.loader().merge_all()
    road.stage_task(
        batch(change("orders", 60, {"op": "moved", "from": "shop.later"})),
        batch(change("later", 60, {"op": "moved", "from": "shop.orders"})),
    )
    for fatal in ("move", "renamed", "moved", "changed"):
        fail_at_each(road, fatal)
    for _ in range(2):
        road.loader().merge_all()
    assert [row[0] for row in columns(road, ORDERS)] == [9] and [row[0] for row in columns(road, later)] == [1, 2]
    listed = road.query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = {road.dialect.names.literal(road.schema)}")
    assert not [name for (name,) in listed if "moved" in name or "stale" in name or "between" in name]


def test_a_type_that_was_changed_and_back_stops_the_table_until_it_is_skipped(road: Road) -> None:
    loader = begin(road)
    there, back = (
        {"op": "modify", "column": "amount", "type": f"decimal(10,{scale})", "charset": "", "nullable": True, "strict": True}
        for scale in (1, 2)
    )
    road.stage_task(batch(change("orders", 20, there), change("orders", 30, back), comes(ORDERS, 40, ["3", "cap", "3.25"])))
    assert loader.merge_all() == 0 and report(road).state == "stopped"
    [stop] = status(road.settings, road.store, PIPELINE, look=False).stopped
    assert (stop.place, stop.target) == ("binlog.000000:20", "wh")
    assert stop.reason.startswith("shop.orders.amount became decimal(10,1) and was decimal(10,2), which may have changed values,")
    assert loader.merge_all() == 0, "it is looked at again, and still stops"
    service.skip(road.settings, road.store, PIPELINE, "orders", stop.place, "the table was copied again", by="ann")
    assert loader.merge_all() == 1 and report(road).state == "merged"
    assert len(road.rows("orders")) == 3


def test_columns_that_somebody_changes_between_a_statement_and_its_position_are_asked_about(road: Road) -> None:
    if not road.dialect.writing.altering.COMMITS_BY_ITSELF:
        return  # there is no time in between
    begin(road)
    new = table(id="bigint", thing="varchar(40) null", amount="decimal(10,2) null")
    road.stage_task(batch(change("orders", 20, rename("item", "thing")), comes(new, 30, ["3", "ink", None])))
    fail_at_each(road, "altered")
    orders = road.dialect.names.table(road.schema, "orders")
    road.execute(f"ALTER TABLE {orders} RENAME COLUMN thing TO item, ADD COLUMN thing INT")
    for _ in range(2):  # it is tried again, and still not known
        road.loader().merge_all()
        assert report(road).state == "stopped" and "somebody changed its columns while a pipeline did" in report(road).reason
    road.execute(f"ALTER TABLE {orders} DROP COLUMN thing, RENAME COLUMN item TO thing")
    road.loader().merge_all()
    assert columns(road, new) == [(1, "pen", Decimal("1.50")), (2, None, Decimal("2.00")), (3, "ink", None)]
