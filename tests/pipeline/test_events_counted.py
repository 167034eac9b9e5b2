"""What is decoded and does not come into a part is noticed before the batch is listed: nothing of it reaches a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.errors import StagingFailed
from auditor.pipeline import stage_task
from auditor.pipeline.columns import Projection
from auditor.pipeline.folders import Folder
from auditor.pipeline.part_writer import WrittenPart, write_parts
from auditor.store import parts
from tests.live import Engines
from tests.pipeline.live_summing import LAYOUTS, SummingRoad
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, refresh, table, update

ORDERS = table(id="bigint", item="varchar(40) null")

Rows = list[dict[str, object]]


@pytest.fixture
def road(tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    yield made
    made.close()


def write_others(change: Callable[[Rows], Rows]) -> Callable[[Folder, Iterable[pa.RecordBatch]], list[WrittenPart]]:
    """Return what writes other events than it is given: those that ``change`` makes of the rows of each batch."""

    def write(root: Folder, batches: Iterable[pa.RecordBatch]) -> list[WrittenPart]:
        def changed() -> Iterator[pa.RecordBatch]:
            for one in batches:
                events = one.to_pylist()
                kept = [event for event in events if event["kind"] == "schema"]
                rows = change([event for event in events if event["kind"] != "schema"])
                yield pa.RecordBatch.from_pylist([*kept, *rows], schema=one.schema)

        return write_parts(root, changed())

    return write


def stage_some(road: Road) -> None:
    road.stage_task(
        batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"]), update(ORDERS, 11, (["1", "a"], ["1", "c"]))),
        batch(announce(ORDERS, 12), delete(ORDERS, 20, ["2", "b"]), refresh(ORDERS, 21, ["1", "c"])),
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: [], "5 events of shop.orders were decoded, and 0 came into parts"),
        (lambda rows: [row for row in rows if row["kind"] != "delete"], "5 events of shop.orders were decoded, and 4 came into parts"),
        (lambda rows: rows + rows, "5 events of shop.orders were decoded, and 10 came into parts"),
        (lambda rows: [*rows[:-1], *rows[:1]], "the 5 events of shop.orders that came into parts are not those that were decoded"),
    ],
    ids=["all are lost", "one is lost", "all are doubled", "one is lost and one doubled"],
)
def test_events_that_do_not_come_into_parts_fail_the_batch(
    road: Road, monkeypatch: pytest.MonkeyPatch, change: Callable[[Rows], Rows], reason: str
) -> None:
    with monkeypatch.context() as patch, pytest.raises(StagingFailed, match=f"^{reason}; nothing of this batch was staged; report"):
        patch.setattr(stage_task, "write_parts", write_others(change))
        stage_some(road)
    assert parts.list_parts(road.store, PIPELINE, "shop.orders", 0) == []
    stage_some(road)
    assert road.loader().merge_all() == 5 and road.rows() == [(1, "c")]


def test_events_that_a_projection_loses_fail_the_batch(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Projection.apply
    monkeypatch.setattr(Projection, "apply", lambda self, events: apply(self, events).slice(0, events.num_rows - 1))
    with pytest.raises(StagingFailed, match=r"^3 events of shop\.orders were decoded, and 2 projected; nothing of this batch was staged"):
        stage_some(road)


def test_events_outside_a_filter_are_not_missed(road: Road) -> None:
    guests = table("guests", id="bigint", born="date")
    rows = insert(guests, 10, ["1", "2019-01-01"], ["2", "2021-01-01"], ["3", "2001-01-01"])
    road.stage_task(batch(announce(guests, 1), rows))
    assert road.loader().merge_all() == 2


@pytest.mark.alone
@pytest.mark.mysql
@pytest.mark.duckdb
def test_a_batch_lost_between_decoding_and_staging_leaves_live_summaries_right(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SummingRoad(tmp_path, engines.live("mysql"), "counted")
    made.create(100)
    made.begin(LAYOUTS[:1])
    made.log.run("UPDATE counted SET price = 7 WHERE id < 10", "DELETE FROM counted WHERE id = 50")
    lost = r"10 events of \w+\.counted were decoded, and 0 came into parts"
    with monkeypatch.context() as patch, pytest.raises(StagingFailed, match=lost):
        patch.setattr(stage_task, "write_parts", write_others(lambda _: []))
        made.stage()
    assert made.loader.merge_all() == 0, "nothing of the batch reaches the target or its sums"
    made.merge()
    assert made.check() > 4 and made.reasons() == set()
    made.close()
