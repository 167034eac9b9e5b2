"""Staged parts keep to their budget: what is dropped first, who is notified, and what a target that was away needs then."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from auditor.config import Pipeline
from auditor.errors import StagingFull
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.part_deletion import make_room, warn_of_budget
from auditor.store import parts, pipelines
from tests.pipeline.conftest import CHANGED
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")
pytestmark = pytest.mark.parametrize("engine", CHANGED, indirect=True)


def pipeline_of(road: Road, budget: int, **staging: Any) -> Pipeline:
    """The road's pipeline, with a second target that is away."""
    pipeline = road.settings.pipeline(PIPELINE)
    kept = pipeline.staging.model_copy(update={"budget": budget, **staging})
    return pipeline.model_copy(update={"staging": kept, "targets": {**pipeline.targets, "away": pipeline.targets["wh"]}})


def fill(road: Road, *positions: int) -> int:
    """Stage a part at each of these positions, and return the bytes of all parts."""
    for position in positions:
        road.stage(batch(announce(ORDERS, position - 1), insert(ORDERS, position, [str(position), "a text that is not so short"])))
    return parts.count_bytes(road.store, PIPELINE)


def is_back(road: Road, position: int) -> None:
    pipelines.report_merges(road.store, PIPELINE, "away", {"shop.orders": pipelines.MergeNews(position, "merged")})


def firsts(road: Road) -> list[int]:
    return [one.first for one in parts.list_parts(road.store, PIPELINE, "shop.orders", 0)]


def test_what_every_target_has_goes_first_and_the_oldest_of_it(road: Road) -> None:
    size = fill(road, 10, 20, 30, 40)
    road.loader().merge_all()
    is_back(road, 30)
    assert make_room(road.store, PIPELINE, pipeline_of(road, size), LocalFolder(road.root)) == 0
    assert make_room(road.store, PIPELINE, pipeline_of(road, size - 1), LocalFolder(road.root)) == 1 and firsts(road) == [20, 30, 40]
    assert sorted(int(path.name.partition("-")[0]) for path in road.root.glob("batches/*.arrows")) == [20, 30, 40]


def test_staging_waits_for_a_target_that_is_away_and_loses_nothing(road: Road) -> None:
    size = fill(road, 10, 20, 30)
    road.loader().merge_all()
    tight = pipeline_of(road, size // 2)
    with pytest.raises(StagingFull, match=r"parts fill the budget of .+: 3 events in .+ \(committed since .+\) are missing in target away"):
        make_room(road.store, PIPELINE, tight, LocalFolder(road.root))
    assert StagingFull.retryable and firsts(road) == [10, 20, 30]
    [warning] = warn_of_budget(road.store, PIPELINE, pipeline_of(road, size + 1))
    assert "are missing in target away" in warning and "staging will wait for it then, and the source's log must keep" in warning
    assert warn_of_budget(road.store, PIPELINE, pipeline_of(road, 2 * size)) == []
    is_back(road, 30)
    assert make_room(road.store, PIPELINE, tight, LocalFolder(road.root)) == 2 and firsts(road) == [30]


def test_what_a_target_that_is_away_lacks_is_dropped_if_that_is_chosen(road: Road, caplog: pytest.LogCaptureFixture) -> None:
    size = fill(road, 10, 20, 30)
    loader = road.loader()
    loader.merge_all()
    dropping = pipeline_of(road, size // 2, when_full="drop")
    [warning] = warn_of_budget(road.store, PIPELINE, pipeline_of(road, size + 1, when_full="drop"))
    assert "what is missing there will be dropped then, and its tables must be copied again" in warning
    with caplog.at_level(logging.ERROR):
        assert make_room(road.store, PIPELINE, dropping, LocalFolder(road.root)) == 2
    assert "2 events that are missing in target away were dropped" in caplog.text and firsts(road) == [30]
    fill(road, 40)
    assert loader.merge_all() == 1, "the target that was there goes on"
    away = road.loader()
    assert away.where.chosen
    chosen = away.where.chosen.model_copy(update={"schema_": f"{road.schema}_away"})
    away.target, away.where = "away", replace(away.where, target="away", schema=chosen.schema_, chosen=chosen)
    away._reports.target = "away"
    away.merge_all()
    report = pipelines.list_merges(road.store, PIPELINE)["away"]["shop.orders"]
    assert (
        report.state == "stopped"
        and "the target holds nothing, and the parts up to 000000:20 were deleted; send all its rows again" in report.reason
    )
    away.close()
    road.execute(f"DROP SCHEMA IF EXISTS {road.schema}_away CASCADE")
