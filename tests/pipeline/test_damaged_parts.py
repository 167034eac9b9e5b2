"""Staged parts whose bytes flip, or that are gone: none is accepted, and each is staged again from the log, or its table stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.errors import PartDamaged
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.incarnation import check_staging
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.restaging import repair_all
from auditor.pipeline.segments.writer import open_writer as open_segment_writer
from auditor.pipeline.staged_parts import check_part, read_part
from auditor.store import parts, pipelines, salt, segments
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE
from tests.pipeline_events import announce, batch, delete, insert, table

pytestmark = pytest.mark.engines_in_turn

ORDERS = table(id="bigint", item="varchar(40) null")
on_all = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new", slow=["mariadb_new"]), indirect=True)


def test_no_bit_that_flips_is_accepted(tmp_path: Path) -> None:
    events = [insert(ORDERS, 10, *([str(n), f"item {n}"] for n in range(300))), delete(ORDERS, 20, ["3", "item 3"])]
    [part] = [one.part for one in write_parts(LocalFolder(tmp_path), [batch(announce(ORDERS, 1), *events)])]
    path = tmp_path / part.path
    whole = path.read_bytes()
    assert len(part.checksum) == 64 and sum(one.num_rows for one in read_part(LocalFolder(tmp_path), part, 0)) == 301
    [(offset, size)] = part.blocks
    for bit in range(8 * offset, 8 * (offset + size), 8 * size // 900 | 1):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(PartDamaged):
            list(read_part(LocalFolder(tmp_path), part, 0))
    path.write_bytes(whole[: offset + size - 1])
    assert "the part of shop.orders in " in check_part(LocalFolder(tmp_path), part)
    assert check_part(LocalFolder(tmp_path), part).endswith(f"{part.path} has other bytes than were written")
    path.unlink()
    assert check_part(LocalFolder(tmp_path), part) == f"the part of shop.orders in {part.path} is missing"
    other = replace(part, path=part.path.replace(".1.arrows", ".0.arrows"))
    assert check_part(LocalFolder(tmp_path), other).endswith("has a format that this version does not read")


@pytest.fixture
def road(engine: LiveEngine, into: str, tmp_path: Path) -> Iterator[LiveRoad]:
    LiveLog(engine.url).run("DROP TABLE IF EXISTS damaged", "CREATE TABLE damaged (id INT PRIMARY KEY, name VARCHAR(20))")
    made = LiveRoad(tmp_path, engine, "damaged", into=into, schema="damaged_parts", columns="{damaged: {mask: [name]}}")
    made.drop()
    made.salt = salt.get_salt(made.store)
    check_staging(made.store, PIPELINE, LocalFolder(made.root))
    yield made
    made.drop()
    made.close()
    LiveLog(engine.url).run("DROP TABLE damaged")


def fill(road: LiveRoad, source: LiveLog) -> Path:
    """Stage three transactions, of which the second one's part is returned."""
    for first in (0, 100, 200):
        source.run("INSERT INTO damaged VALUES " + ", ".join(f"({n}, 'name {n}')" for n in range(first, first + 50)))
        road.stage()
    return sorted(road.root.glob("batches/*.arrows"))[1]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 4  # in its last block, before the end of the stream
    path.write_bytes(content)


@pytest.mark.parametrize("fault", ["flipped", "missing"])
@on_all
@pytest.mark.few
def test_a_damaged_part_is_staged_again_from_the_log(road: LiveRoad, engine: LiveEngine, fault: str) -> None:
    path = fill(road, LiveLog(engine.url))
    before = parts.list_parts(road.store, PIPELINE, f"{road.database}.damaged", 0)
    flip(path) if fault == "flipped" else path.unlink()
    for _ in range(2):
        road.loader.merge_all()
    rows = road.rows("damaged")
    assert (len(rows), len({name for _, name in rows})) == (150, 150)
    after = parts.list_parts(road.store, PIPELINE, f"{road.database}.damaged", 0)
    assert [one.checksum for one in after] == [one.checksum for one in before], "rows are masked as they were"
    assert [one.path == other.path for one, other in zip(after, before, strict=True)] == [True, False, True]
    report = pipelines.list_merges(road.store, PIPELINE)["wh"][f"{road.database}.damaged"]
    assert (report.state, report.reason) == ("merged", "")


@on_all
@pytest.mark.alone  # it deletes files of the whole server's log
def test_a_damaged_part_that_the_log_no_longer_has_stops_its_table(road: LiveRoad, engine: LiveEngine) -> None:
    source = LiveLog(engine.url)
    path = fill(road, source)
    flip(path)
    source.run("FLUSH BINARY LOGS")
    source.run("INSERT INTO damaged VALUES (999, 'later')")
    road.stage()
    source.purge()
    road.loader.merge_all()
    report = pipelines.list_merges(road.store, PIPELINE)["wh"][f"{road.database}.damaged"]
    assert (
        report.state == "stopped" and "has other bytes than were written, and cannot be staged again from the source's log" in report.reason
    )
    assert "copy the table from the source again" in report.reason


@on_all
def test_segments_take_no_damaged_part(road: LiveRoad, engine: LiveEngine) -> None:
    path = fill(road, LiveLog(engine.url))
    flip(path)
    writer = open_segment_writer(road.store, PIPELINE, road.pipeline)
    with pytest.raises(PartDamaged):
        while writer.step():
            pass
    repair_all(road.settings, road.store, PIPELINE, LocalFolder(road.root))
    while writer.step():
        pass
    listed = segments.list_segments(road.store, PIPELINE, f"{road.database}.damaged", (0, -1))
    assert sum(one.rows for one in listed) == 100 and parts.list_parts(road.store, PIPELINE, f"{road.database}.damaged", 0)[1].checksum
