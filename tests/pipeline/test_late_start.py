"""A target that is added once parts were deleted begins with a table whose rows were all sent again behind them, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from auditor import config
from auditor.store import parts, pipelines, refreshes
from auditor.store.refreshes import RefreshScope
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road, pass_time
from tests.pipeline_events import announce, batch, insert, refresh, table, update

ORDERS, ITEMS = table(id="bigint", item="varchar(40) null"), table("items", id="bigint")
FILE, ALL = "binlog.000000", RefreshScope()

pytestmark = pytest.mark.parametrize("engine", engine_params("duckdb", "postgres", slow=["postgres"]), indirect=True)


@pytest.fixture
def late(road: Road) -> Road:
    """A target that is empty, of a pipeline whose other target holds two orders, of which the part up to 20 was deleted."""
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.stage(batch(update(ORDERS, 20, (["1", "a"], ["1", "A"]))), batch(announce(ITEMS, 11), insert(ITEMS, 21, ["7"])))
    pipelines.report_merges(road.store, PIPELINE, "other", {"shop.orders": pipelines.MergeNews(20, "merged")})
    assert len(parts.delete_passed(road.store, PIPELINE, -1, targets=["other"])) == 2
    return road


def send(road: Road, begin: int, end: int, scope: RefreshScope = ALL, state: Any = "done") -> None:
    """Store a refresh of the orders that wrote between two places of the log."""
    asked = refreshes.request_refresh(road.store, PIPELINE, "shop.orders", scope, "ada")
    progress = {"begin": [FILE, begin, "server", 0], "end": [FILE, end, "server", 0]}
    refreshes.save_progress(road.store, asked.refresh, state, progress)


def read_through(road: Road, place: int) -> None:
    """Let the stream have been read up to a place."""
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": place, "server": "server"})


def stage_rows(road: Road) -> None:
    """Stage all orders again, in two chunks, between changes."""
    nothing = [None, None]
    road.stage(batch(insert(ORDERS, 25, ["3", "c"])))
    road.stage(batch(refresh(ORDERS, 30, ["1", "A"], bounds=(nothing, ["1", None]))))
    road.stage(batch(update(ORDERS, 35, (["1", "A"], ["1", "AA"]))))
    road.stage(batch(refresh(ORDERS, 40, ["2", "b"], ["3", "c"], bounds=(["1", None], nothing))))


def stops(road: Road) -> str:
    """Merge what can be, and return why the orders do not go on."""
    loader = road.loader()
    loader.merge_all()
    assert road.rows("items") == [(7,)], "the other table goes on"
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "stopped" and not road.query(
        f"SELECT 1 FROM information_schema.tables WHERE table_schema = '{road.schema}' AND table_name = 'orders'"
    )
    return report.reason


def test_a_table_begins_once_all_its_rows_were_sent_again(late: Road) -> None:
    why = stops(late)
    assert "auditor pipeline refresh shop --table shop.orders" in why
    stage_rows(late)
    send(late, 22, 40)
    read_through(late, 41)
    loader = late.loader()
    while loader.merge_all():
        pass
    assert late.rows() == [(1, "AA"), (2, "b"), (3, "c")]
    report = pipelines.list_merges(late.store, PIPELINE)["wh"]["shop.orders"]
    assert (report.state, report.position, report.reason) == ("merged", 40, "")


def test_a_loader_that_stands_before_deleted_parts_goes_on_by_itself(late: Road) -> None:
    loader = late.loader()
    loader.merge_all()
    stage_rows(late)
    send(late, 22, 40)
    read_through(late, 41)
    pass_time(loader, 120)
    while loader.merge_all():
        pass
    assert late.rows() == [(1, "AA"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("begin", "end", "scope", "state", "read"),
    [
        pytest.param(19, 40, ALL, "done", 41, id="some of it was deleted"),
        pytest.param(22, 40, ALL, "running", 41, id="it has not ended"),
        pytest.param(22, 40, ALL, "failed", 41, id="it failed"),
        pytest.param(22, 40, ALL, "done", 39, id="its end is not staged"),
        pytest.param(22, 40, RefreshScope((((), ("2",)),)), "done", 41, id="it was of a range"),
        pytest.param(22, 40, RefreshScope(keys=(("1",),)), "done", 41, id="it was of single keys"),
    ],
)
def test_a_table_does_not_begin_without_all_rows(late: Road, begin: int, end: int, scope: RefreshScope, state: Any, read: int) -> None:
    stage_rows(late)
    send(late, begin, end, scope, state)
    read_through(late, read)
    assert "send all its rows again" in stops(late)


def test_a_table_that_holds_rows_does_not_begin_again(late: Road) -> None:
    """What happened to its columns between is not known."""
    stage_rows(late)
    send(late, 22, 40)
    read_through(late, 41)
    loader = late.loader()
    while loader.merge_all():
        pass
    late.stage(batch(update(ORDERS, 50, (["1", "AA"], ["1", "B"]))))
    late.stage(batch(update(ORDERS, 60, (["1", "B"], ["1", "C"]))))
    pipelines.report_merges(late.store, PIPELINE, "other", {"shop.orders": pipelines.MergeNews(50, "merged")})
    parts.delete_passed(late.store, PIPELINE, -1, targets=["other"])
    send(late, 61, 70)
    read_through(late, 80)
    late.loader().merge_all()
    report = pipelines.list_merges(late.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "stopped" and "reset the pipeline, and copy its tables again" in report.reason
    assert late.rows()[0] == (1, "AA")


def test_a_table_of_a_route_begins_once_the_rows_of_its_source_were_sent_again(road: Road) -> None:
    text = road.config_file.read_text()
    road.config_file.write_text(text.replace("columns: {", "columns: {orders: {table: {name: ones, when: id = 1}}, "))
    road.settings = config.load(road.config_file)
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    news = pipelines.MergeNews(20, "merged")
    pipelines.report_merges(road.store, PIPELINE, "other", {"shop.ones": news, "shop.orders": news})
    assert len(parts.delete_passed(road.store, PIPELINE, -1, targets=["other"])) == 2
    road.loader().merge_all()
    reasons = {table: report.reason for table, report in pipelines.list_merges(road.store, PIPELINE)["wh"].items()}
    assert "auditor pipeline refresh shop --table shop.ones" in reasons["shop.ones"]
    nothing = [None, None]
    road.stage_task(batch(announce(ORDERS, 29), refresh(ORDERS, 30, ["1", "A"], ["2", "B"], bounds=(nothing, nothing))))
    send(road, 22, 40)
    read_through(road, 41)
    loader = road.loader()
    while loader.merge_all():
        pass
    assert (road.rows("ones"), road.rows()) == ([(1, "A")], [(2, "B")])
