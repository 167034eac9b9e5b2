"""A loader brings a table exactly to a position that an audit wants, and an audit says why it could not have that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from auditor.pipeline.aligned.stream_hold import StreamHold
from auditor.points import armed
from auditor.run.alignment import NotAligned
from auditor.store import holds, parts, pipelines
from auditor.store.holds import HoldKey
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.conftest import quick_on_target
from tests.pipeline.road import PIPELINE, Road, leased
from tests.pipeline_events import announce, batch, insert, note, table

pytestmark = pytest.mark.engines_in_turn

ORDERS, ITEMS = table(id="bigint", item="varchar(40) null"), table("items", id="bigint")
FILE = "binlog.000000"


def hold_of(road: Road, name: str = "shop.orders") -> StreamHold:
    return StreamHold(road.settings, road.store, PIPELINE, "wh", name, road.settings.pipeline(PIPELINE).table_targets["wh"].place_of(name))


def stage_orders(road: Road, *positions: int, first: bool = False) -> None:
    """Stage an order at each position, as one part, and what the stream reads up to 1000."""
    events = [announce(ORDERS, 1)] if first else []
    road.stage(batch(*events, *(insert(ORDERS, position, [str(position), "x"]) for position in positions)))
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 1000})


@contextmanager
def loading(road: Road) -> Iterator[None]:
    """Run the loader in a thread for the block."""
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    with leased(road.store), road.loader().service(0.0, stopped, staged, paused):
        yield


def until(reached: Callable[[], bool]) -> None:
    while not reached():
        threading.Event().wait(0.02)


def merged_through(road: Road, name: str = "shop.orders") -> int:
    found = pipelines.list_merges(road.store, PIPELINE).get("wh", {})
    return found[name].position if name in found else 0


def stands_at(road: Road) -> int:
    """Where the target itself says that it stands."""
    [(position,)] = road.query(f"SELECT position FROM {road.schema}.auditor_positions WHERE table_name = 'shop.orders'")
    return int(position)


def test_a_table_is_held_within_a_part_and_goes_on_afterwards(road: Road) -> None:
    stage_orders(road, 10, 20, first=True)
    road.stage(batch(announce(ITEMS, 2), insert(ITEMS, 12, ["1"])))
    with loading(road):
        until(lambda: merged_through(road) == 20 and merged_through(road, "shop.items") == 12)
        hold = hold_of(road)
        hold.freeze()
        stage_orders(road, 30, 40, 50)
        assert hold.merge_through(f"{FILE}:45") == 45
        assert [row[0] for row in road.rows()] == [10, 20, 30, 40] and stands_at(road) == 45
        road.stage(batch(insert(ITEMS, 60, ["2"])))
        if not road.dialect.OPENS_FILES:  # whose other tables wait, too: the audit opens the file
            until(lambda: merged_through(road, "shop.items") == 60)
        hold.release()
        until(lambda: merged_through(road) == 50 and merged_through(road, "shop.items") == 60)
    assert [row[0] for row in road.rows()] == [10, 20, 30, 40, 50]


@quick_on_target("postgres")
def test_a_position_at_which_no_row_came_is_stated_too(road: Road) -> None:
    stage_orders(road, 10, first=True)
    with loading(road):
        until(lambda: merged_through(road) == 10)
        hold = hold_of(road)
        hold.freeze()
        assert hold.merge_through(f"{FILE}:500") == 500 and stands_at(road) == 500
        hold.release()
        stage_orders(road, 600)
        until(lambda: merged_through(road) == 600)
    assert [row[0] for row in road.rows()] == [10, 600]


@quick_on_target("postgres")
def test_what_emptied_the_table_later_waits_for_the_end_of_the_hold(road: Road) -> None:
    stage_orders(road, 10, first=True)
    with loading(road):
        until(lambda: merged_through(road) == 10)
        hold = hold_of(road)
        hold.freeze()
        road.stage_task(batch(note("change", "orders", 30, {"ops": [{"op": "clear"}], "advances": True})))
        parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 1000})
        assert hold.merge_through(f"{FILE}:20") == 20 and road.rows() != []
        hold.release()
        until(lambda: merged_through(road) == 30)
    assert road.rows() == []


@quick_on_target("duckdb")
def test_a_hold_does_not_pass_a_column_that_got_another_name(road: Road) -> None:
    if road.dialect.writing.WRITES_COMMITS:
        pytest.skip("a pipeline renames no columns there")
    stage_orders(road, 10, first=True)
    with loading(road):
        until(lambda: merged_through(road) == 10)
        renamed = table(id="bigint", thing="varchar(40) null")
        road.stage_task(batch(note("change", "orders", 20, {"ops": [{"op": "rename", "from": "item", "to": "thing"}]})))
        parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 1000})
        hold = hold_of(road)
        hold.freeze()
        said = refuse(lambda: hold.merge_through(f"{FILE}:25"))
        assert said.endswith("at 000000:20, and the target gets them with the next event; try again once a row was written")
        hold.release()
        road.stage(batch(announce(renamed, 29), insert(renamed, 30, ["30", "y"])))
        until(lambda: merged_through(road) == 30)
    assert road.rows() == [(10, "x"), (30, "y")], "the values of older rows are kept under the new name"


@pytest.mark.slow
@quick_on_target("postgres")
def test_a_hold_whose_audit_died_ends_by_itself(road: Road) -> None:
    stage_orders(road, 10, first=True)
    with loading(road):
        until(lambda: merged_through(road) == 10)
        assert holds.take_hold(road.store, HoldKey(PIPELINE, "wh", "shop.orders", "died"), 1.0)
        until(lambda: any(one.state == "frozen" for one in holds.list_holds(road.store, PIPELINE, "wh").values()))
        stage_orders(road, 20)
        until(lambda: merged_through(road) == 20)


@quick_on_target("duckdb")
def test_a_loader_that_always_has_more_to_merge_answers(road: Road) -> None:
    stage_orders(road, 10, first=True)
    for position in range(11, 15):
        stage_orders(road, position)
    hold, taken = hold_of(road), list[bool]()
    loader = road.loader(max_transaction=1)
    with armed("merge.committed", lambda: taken.append(holds.take_hold(road.store, hold.key, 60)), nth=2):
        loader.merge_all()
    assert taken == [True]
    assert stands_at(road) == 11
    loader.serve_holds()
    assert hold.has("frozen") and loader.merge_all() == 0 and stands_at(road) == 11


def refuse(work: Callable[[], object]) -> str:
    with pytest.raises(NotAligned) as refused:
        work()
    return str(refused.value)


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_why_a_table_is_not_held(road: Road, set_durations: SetDurations) -> None:
    set_durations(hold_answer=0.1, hold_reach=0.1)
    hold = hold_of(road)
    assert refuse(hold.freeze) == "the pipeline shop has staged nothing of shop.orders yet"
    stage_orders(road, 10, first=True)
    nobody = "no process loads the target wh; start one with: auditor pipeline run shop"
    assert refuse(hold.freeze) == nobody and not holds.list_holds(road.store, PIPELINE, "wh")
    silent = "the loader of the target wh did not answer within 0.1 s; see whether the pipeline runs with: auditor pipeline status shop"
    with leased(road.store):
        assert refuse(hold.freeze) == silent
        assert refuse(hold_of(road).freeze) == "another run holds shop.orders in the target wh; run the audit again later"
    hold.release()
    pipelines.set_paused(road.store, PIPELINE, True)
    assert refuse(hold.freeze) == "the pipeline shop is paused; let it continue with: auditor pipeline unpause shop"
    assert refuse(lambda: hold.merge_through(f"{FILE}:2000")) == f"the pipeline shop did not reach {FILE}:2000 within 0.1 s"
    assert refuse(lambda: hold.merge_through(f"{FILE}:20")) == "the hold of the target's table ended after 60 s"
    assert holds.take_hold(road.store, hold.key, 60)
    late = f"the loader of the target wh did not merge shop.orders up to {FILE}:20 within 0.1 s"
    assert refuse(lambda: hold.merge_through(f"{FILE}:20")) == late
    set_durations(hold_reach=600)
    hold.stopped.set()
    assert refuse(lambda: hold.merge_through(f"{FILE}:2000")) == "the run was stopped"


@pytest.mark.parametrize("engine", engine_params("duckdb", "delta"), indirect=True)
def test_why_a_target_cannot_stand_where_it_is_wanted(road: Road) -> None:
    stage_orders(road, 10, 20, first=True)
    loader, hold = road.loader(), hold_of(road)

    def merge_to(offset: int) -> str:
        assert holds.take_hold(road.store, hold.key, 60) and holds.set_state(road.store, hold.key, "wanted", position=offset)
        loader.serve_holds()
        found = holds.get_hold(road.store, hold.key)
        assert found and found.state == "failed"
        return refuse(lambda: hold.has("held"))

    assert merge_to(15) == "the target cannot stand there: the target wh holds nothing of shop.orders yet; copy its rows first"
    hold.release()
    loader.serve_holds()
    loader.merge_all()
    already = "the target wh holds shop.orders up to 000000:20 already, and 000000:15 is earlier"
    assert merge_to(15) == f"the target cannot stand there: {already}"
    hold.release()
    road.stage_task(batch(note("poison", "orders", 25, {"reason": "its rows cannot be read"})))
    assert "its rows cannot be read" in merge_to(40)


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_which_transactions_have_rows_of_the_table(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    stage_orders(road, 10, 20, 30, first=True)
    hold = hold_of(road)
    assert hold.ids_between(f"{FILE}:10", f"{FILE}:30") == ["0-1-20", "0-1-30"]
    assert hold.ids_between(f"{FILE}:20", f"{FILE}:29") == [] and hold.ids_between(f"{FILE}:30", f"{FILE}:40") == []
    road.stage_task(batch(note("change", "orders", 35, {"ops": [{"op": "clear"}], "advances": True})))
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 1000})
    assert hold.ids_between(f"{FILE}:30", f"{FILE}:40") is None and hold.ids_between(f"{FILE}:30", f"{FILE}:34") == []
    for path in road.root.rglob("*.arrows"):
        path.unlink()
    assert hold.ids_between(f"{FILE}:10", f"{FILE}:30") is None, "this host does not reach the staging's folder"
