"""A part that the manifest lost is missed: its table stops before it, and the other tables go on."""

from __future__ import annotations

from typing import Literal

import pytest
from sqlalchemy import delete

from auditor.store import parts, pipelines
from auditor.store.pipelines import MergeReport
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, note, table, update

ONE, OTHER = table("one", ("id",), id="bigint", amount="bigint"), table("other", ("id",), id="bigint", amount="bigint")


def stage(road: Road, *places: int) -> None:
    """Stage a part of each table at each position: with an inserted row at 10, and changes of it."""
    for place in places:
        inserted = [(each, announce(each, 1), insert(each, 10, ["1", "10"])) for each in (ONE, OTHER)]
        changed = [(each, update(each, place, (["1", "10"], ["1", str(place)]))) for each in (ONE, OTHER)]
        road.stage(*(batch(*events) for _, *events in (inserted if place == 10 else changed)))


def lose(road: Road, first: int) -> None:
    """Delete a part of one table from the manifest."""
    listed = parts.parts
    lost = (listed.c.table_name == "shop.one", listed.c.first_position == first)
    road.store.write(lambda connection: connection.execute(delete(listed).where(*lost)))


def merged(road: Road) -> MergeReport:
    return pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.one"]


@pytest.mark.parametrize(("lost", "holds", "gap"), [(10, 0, (0, 10)), (20, 10, (10, 20)), (30, 10, (20, 30)), (40, 10, (30, 40))])
@pytest.mark.parametrize("consistency", ["target", "table"])
@pytest.mark.few
def test_part_that_is_not_listed_any_more_is_missed(
    road: Road, consistency: Literal["target", "table"], lost: int, holds: int, gap: tuple[int, int]
) -> None:
    stage(road, 10)
    if lost == 10:
        lose(road, lost)
    loader = road.loader(consistency=consistency)
    loader.merge_all()
    stage(road, 20, 30, 40)
    lose(road, lost)
    for _ in range(3):
        loader.merge_all()
    found = merged(road)
    assert (found.state, found.position) == ("stopped", holds)
    low, high = (f"000000:{place}" for place in gap)
    assert f"shop.one: events between {low} and {high} were staged, and the store lists no part of them any more" in found.reason
    assert "auditor pipeline reset shop --from-targets" in found.reason
    assert road.rows("other") == [(1, 40)]


def test_batch_that_is_recorded_again_stays_in_its_place(road: Road) -> None:
    stage(road, 10, 20, 20, 30)
    listed = parts.list_parts(road.store, PIPELINE, "shop.one", 0)
    assert [(part.previous, part.first) for part in listed] == [(0, 10), (10, 20), (20, 30)]
    assert road.loader().merge_all() == 6


@pytest.mark.parametrize("consistency", ["target", "table"])
def test_statement_that_empties_a_table_is_in_the_chain(road: Road, consistency: Literal["target", "table"]) -> None:
    """The part behind it says that the table had been staged up to the statement, which is no part."""
    stage(road, 10)
    emptied = note("change", "one", 15, {"ops": [{"op": "clear"}], "advances": True})
    road.stage_task(batch(emptied))
    road.stage(batch(insert(ONE, 20, ["2", "20"])))
    assert [part.previous for part in parts.list_parts(road.store, PIPELINE, "shop.one", 0)] == [0, 15]
    loader = road.loader(consistency=consistency)
    while loader.merge_all():
        pass
    assert (merged(road).state, road.rows("one")) == ("merged", [(2, 20)])
