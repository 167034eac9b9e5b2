"""Parts become tables of targets, exactly once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from auditor.config import WriteSettings
from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge import load_tasks
from auditor.points import armed
from auditor.store import pipelines
from tests.live import engine_params
from tests.pipeline.conftest import AND_LAKES, EVERY
from tests.pipeline.road import PIPELINE, Road, run_here
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

pytestmark = pytest.mark.engines_in_turn

ORDERS = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null")


def reports(road: Road) -> dict[str, pipelines.MergeReport]:
    return pipelines.list_merges(road.store, PIPELINE)["wh"]


@pytest.mark.parametrize("engine", EVERY, indirect=True)
@pytest.mark.few
def test_changes_reach_the_target_once(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen", "1.50"], ["2", None, None], ["3", "", "-0.01"])))
    loader = road.loader()
    assert loader.merge_all() == 3
    assert road.rows() == [(1, "pen", Decimal("1.50")), (2, None, None), (3, "", Decimal("-0.01"))]
    moved = update(ORDERS, 20, (["1", "pen", "1.50"], ["4", "pen", "1.50"]), (["2", None, None], ["2", "ink", "2.00"]))
    road.stage(batch(moved, delete(ORDERS, 30, ["3", "", "-0.01"]), insert(ORDERS, 31, ["3", "cap", "9.00"])))
    assert loader.merge_all() == 4 and loader.merge_all() == 0
    wanted = [(2, "ink", Decimal("2.00")), (3, "cap", Decimal("9.00")), (4, "pen", Decimal("1.50"))]
    assert road.rows() == wanted
    assert (reports(road)["shop.orders"].position, reports(road)["shop.orders"].events) == (31, 7)
    assert road.query(f"SELECT table_name, position FROM {road.schema}.auditor_positions WHERE table_name <> ''") == [("shop.orders", 31)]


def test_tables_in_which_nothing_changes_go_on_when_a_target_is_back(road: Road) -> None:
    items = table("items", ("id",), id="bigint")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen", "1.50"])), batch(announce(items, 1), insert(items, 11, ["1"])))
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    there = loader.settings
    assert loader.merge_all() == 2
    away = "postgresql://nobody@127.0.0.1:1/nowhere"
    for new in (True, False):
        if new:
            road.stage(batch(insert(ORDERS, 20, ["2", "ink", "2.50"])))
        loader = road.loader(clock=lambda: now[0])  # which has not seen what the target holds
        loader.settings = there.model_copy(update={"url": away, "write": WriteSettings(url=away)})
        assert loader.merge_all() == 0 and {one.state for one in reports(road).values()} == {"delayed"}
        loader.settings = there
        now[0] += 1000
        assert loader.merge_all() == int(new)
        assert {(one.state, one.reason) for one in reports(road).values()} == {("merged", "")}


@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
def test_a_table_that_is_made_while_the_pipeline_runs_arrives(road: Road) -> None:
    loader = road.loader()
    made = note("change", "orders", 5, {"ops": [{"op": "create", "sure": True}], "advances": True})
    road.stage_task(batch(made, announce(ORDERS, 10), insert(ORDERS, 10, ["1", "a", None])))
    assert loader.merge_all() == 1
    road.stage_task(batch(announce(ORDERS, 20), insert(ORDERS, 20, ["2", "b", None])))
    assert loader.merge_all() == 1 and len(road.rows()) == 2


@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
def test_two_keys_change_places(road: Road) -> None:
    one, other = ["1", "a", "1.00"], ["2", "b", "2.00"]
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, one, other)))
    swapped = [(one, ["9", *one[1:]]), (other, ["1", *other[1:]]), (["9", *one[1:]], ["2", *one[1:]])]
    road.stage(batch(update(ORDERS, 20, *swapped)))
    road.loader().merge_all()
    assert [row[:2] for row in road.rows()] == [(1, "b"), (2, "a")]


@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
def test_parts_that_are_cut_otherwise_or_replayed_change_nothing(road: Road) -> None:
    rows = [[str(n), f"item {n}", "1.00"] for n in range(6)]
    first = [insert(ORDERS, 10 * n, row) for n, row in enumerate(rows[:4], 1)]
    road.stage(batch(announce(ORDERS, 1), *first[:2]))
    road.stage(batch(*first[2:]))
    road.loader().merge_all()
    wanted = road.rows()
    again = [*first, delete(ORDERS, 45, rows[0]), insert(ORDERS, 46, rows[4])]
    road.stage(batch(*again[1:4]))
    road.stage(batch(*again[2:]))
    assert road.loader().merge_all() > 0
    assert road.rows() == [*wanted[1:], (4, "item 4", Decimal("1.00"))]


@pytest.mark.slow_on("delta")
@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
def test_random_changes_equal_a_plain_table(road: Road) -> None:
    random_ = random.Random(7)
    rows: dict[str, list[str]] = {}
    road.stage(batch(announce(ORDERS, 1)))
    position, loader = 10, road.loader()
    for _ in range(12):
        changes: list[Any] = []
        for _ in range(40):
            position += 1
            key = str(random_.randrange(30))
            new = [str(random_.randrange(30)), random_.choice("abc"), f"{random_.randrange(999)}.00"]
            if key not in rows:
                rows[key] = [key, *new[1:]]
                changes.append(insert(ORDERS, position, rows[key]))
            elif random_.random() < 0.3:
                changes.append(delete(ORDERS, position, rows.pop(key)))
            elif new[0] == key or new[0] not in rows:
                old = rows.pop(key)
                rows[new[0]] = new
                changes.append(update(ORDERS, position, (old, new)))
        road.stage(batch(*changes))
        if random_.random() < 0.5:
            loader.merge_all()
    loader.merge_all()
    assert road.rows() == sorted((int(k), v[1], Decimal(v[2])) for k, v in rows.items())


@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
def test_many_tables_go_on_where_one_stops(road: Road) -> None:
    keyless = TableSchema("shop", "log", ORDERS.columns, ())
    items = table("items", ("order", "no"), order="int unsigned", no="smallint", note="text null")
    road.stage(
        batch(announce(keyless, 1), insert(keyless, 5, ["1", "x", "1.00"])),
        batch(announce(items, 1), insert(items, 6, ["4294967295", "-1", "it's\ta \\. test\n\\.\n\\N"], ["1", "2", None])),
    )
    loader = road.loader()
    assert loader.merge_all() == 2
    assert road.rows("items") == [(1, 2, None), (4294967295, -1, "it's\ta \\. test\n\\.\n\\N")]
    found = reports(road)
    assert found["shop.log"].state == "stopped" and found["shop.log"].position == 0
    assert found["shop.log"].reason.startswith("shop.log has no primary key, so its rows cannot be merged; add one in the source")
    assert found["shop.items"].state == "merged"


def test_a_table_of_the_target_with_another_key_is_left_alone(road: Road) -> None:
    road.execute(
        f"CREATE SCHEMA {road.schema}",
        f"CREATE TABLE {road.schema}.orders (id BIGINT, item VARCHAR(40), amount DECIMAL(10,2), PRIMARY KEY (item))",
        f"INSERT INTO {road.schema}.orders VALUES (7, 'mine', 1)",
    )
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a", "1.00"])))
    assert road.loader().merge_all() == 0
    reason = reports(road)["shop.orders"].reason
    assert reason.startswith("shop.orders has the key (id) in the source and (item) in ") and "change the target's" in reason
    assert road.rows() == [(7, "mine", Decimal(1))]


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        ("date", "0000-00-00", "shop.t.v holds no date of this target (0000-00-00); exclude the column"),
        ("datetime(6)", "2024-00-10 00:00:00.000000", "shop.t.v holds no date of this target (2024-00-10 00:00:00.000000)"),
        ("time", "-00:00:01", "shop.t.v holds no time of day, as every target's TIME is (-00:00:01)"),
        ("time(3)", "24:00:00.001", "shop.t.v holds no time of day"),
        ("geometry", "00", "shop.t.v is of type geometry, which no target holds; exclude it: columns: {t: {exclude: [v]}}"),
    ],
)
def test_values_that_no_target_holds_are_refused(road: Road, kind: str, value: str, sentence: str) -> None:
    schema = table("t", id="int", v=f"{kind} null")
    road.stage(batch(announce(schema, 1), insert(schema, 10, ["1", value])))
    if road.dialect.types.ZERO_DATES and kind != "geometry":
        assert road.loader().merge_all() == 1
        assert road.query(f"SELECT CAST(v AS CHAR) FROM {road.schema}.t") == [(value,)]
        return
    assert road.loader().merge_all() == 0
    found = reports(road)["shop.t"]
    assert found.state == "stopped" and found.reason.startswith(sentence), found.reason


def test_what_one_target_alone_cannot_hold(road: Road) -> None:
    now = [0.0]
    loader, wide, text = road.loader(clock=lambda: now[0]), table("w", id="int", v="decimal(65,30)"), table("x", id="int", v="text")
    number = "1" * 35 + "." + "2" * 30
    road.stage(batch(announce(wide, 1), insert(wide, 10, ["1", number])), batch(announce(text, 1), insert(text, 10, ["1", "a\0b"])))
    loader.merge_all()
    name = road.dialect.name
    if name in ("duckdb", "redshift"):
        assert reports(road)["shop.w"].reason.startswith(f"shop.w.v is decimal(65,30), and {name} holds 38 digits at most; exclude it")
    else:
        assert road.rows("w") == [(1, Decimal(number))]
    if name in ("postgres", "redshift"):
        assert reports(road)["shop.x"].reason.startswith(f"shop.x.v holds a text with the character U+0000, and {name}: text ")
    else:
        assert road.rows("x") == [(1, "a\0b")]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize("most", [0, 1 << 20], ids=["by tasks", "by the loader"])
def test_parts_are_loaded_by_tasks_where_they_are_large(road: Road, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_tasks, "BYTES_WITHOUT_TASKS", most)
    monkeypatch.setattr(load_tasks, "LEAST_WITHOUT_TASKS", most)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen", "1.50"])))
    road.stage(batch(update(ORDERS, 20, (["1", "pen", "1.50"], ["1", "pen", "2.50"]))))
    loader, given = road.loader(), list[int]()

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        given.append(len(tasks))
        return run_here(function, tasks)

    loader.where = replace(loader.where, run_tasks=run)
    assert loader.merge_all() == 2 and road.rows() == [(1, "pen", Decimal("2.50"))]
    assert given == ([] if most else [2])


def test_a_loader_ends_after_the_transaction_under_way(road: Road) -> None:
    others = [table(f"many_{number}", ("id",), id="bigint") for number in range(5)]
    road.stage(*(batch(announce(one, 1), insert(one, 10 + number, ["1"])) for number, one in enumerate(others)))
    loader, stopped = road.loader(max_transaction=1), threading.Event()
    service = loader.service(0, stopped, threading.Event(), threading.Event())
    with armed("merge.report", stopped.set, nth=1):
        service.start()
        service.join()
    assert sorted(reports(road)) == ["shop.many_0"]
