"""`auditor forget` looks into parts and segments of a live pipeline, and into dumps, for the rows of a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from auditor.api_models.forgetting import KeyPlace
from auditor.cli import main
from auditor.config import Settings, load
from auditor.model import Verdict
from auditor.pipeline.segments.writer import open_writer
from auditor.service import forgetting, running
from auditor.store import parts, segments, table_notes
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.live_road import LiveRoad

pytestmark = [pytest.mark.alone, pytest.mark.mysql]

TABLE, OTHER = "forgotten", "item 2 and more"


@pytest.fixture
def road(engines: Engines, tmp_path: Path) -> Iterator[LiveRoad]:
    engine = engines.live("mysql")
    target = f"{{connection: warehouse, table: shop.{TABLE}, columns: {{id: number}}}}"
    sides = f"source: {{connection: source, table: {TABLE}}}, target: {target}, key: [id]"
    made = LiveRoad(tmp_path, engine, TABLE, columns=f"{{{TABLE}: {{rename: {{id: number}}}}}}", audits=f"{{orders: {{{sides}}}}}")
    yield made
    made.close()


def places(road: LiveRoad, settings: Settings, key: str, *, apply: bool = False) -> dict[str, KeyPlace]:
    found = forgetting.forget(settings, road.store, "orders", key, apply=apply, by="me").places
    return {place.place: place for place in found}


def test_parts_segments_and_dumps_are_searched(
    road: LiveRoad, engines: Engines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LiveLog(engines.live("mysql").url)
    log.run(f"DROP TABLE IF EXISTS {TABLE}, {TABLE}_gone, {TABLE}_other", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40))")
    many = ", ".join(f"({number}, '2')" for number in range(1000, 1250))
    for rows in ("(1, 'item 1'), (2, 'item 2')", f"(3, 'item 2'), {many}", "(4, '2')"):
        log.run(f"INSERT INTO {TABLE} VALUES {rows}")
        road.merge()
    log.run(f"UPDATE {TABLE} SET item = '{OTHER}' WHERE id = 2")
    road.merge()
    while open_writer(road.store, road.name, road.pipeline).step():
        pass
    assert running.run_audit(road.settings, "orders", store=road.store).verdict is Verdict.MATCH
    assert len(parts.list_parts(road.store, road.name, f"{road.database}.{TABLE}", 0)) == 4
    assert len(segments.list_segments(road.store, road.name, f"{road.database}.{TABLE}", (0, -1))) == 2
    assert [count(road, key) for key in ("1", "2", "1150", "9")] == [(1, 1), (2, 1), (1, 1), (0, 0)]

    road.notes = True
    log.run(f"CREATE TABLE {TABLE}_other LIKE {TABLE}", f"RENAME TABLE {TABLE} TO {TABLE}_gone, {TABLE}_other TO {TABLE}")
    road.stage()
    assert table_notes.list_notes(road.store, road.name, [f"{road.database}.{TABLE}"], kind="change")
    log.run(f"DROP TABLE {TABLE}", f"RENAME TABLE {TABLE}_gone TO {TABLE}")
    left = places(road, road.settings, "2")[f"staged parts of {road.name}"]
    assert left.found == 2, "its parts have the row still, although another table has the name now"

    dumps = tmp_path / "dumps"
    settings = with_dumps(road, dumps)
    for moment, keys in (("20260101T000000.000001Z", "1, 2"), ("20260102T000000.000001Z", "2, 3"), ("20260103T000000.000001Z", "1, 2")):
        write_dump(dumps / moment, keys)
    (dumps / "current").symlink_to("20260103T000000.000001Z")
    found = places(road, settings, "1")["dumps"]
    assert (found.searched, found.found, found.removed) == (True, 2, 0)
    assert places(road, settings, "4")["dumps"].found == 0
    removed = places(road, settings, "1", apply=True)["dumps"]
    assert (removed.found, removed.removed) == (2, 1)
    assert sorted(path.name[:8] for path in dumps.glob("2026*")) == ["20260102", "20260103"]
    assert "the newest stays until another one is written: auditor dump orders" in removed.what
    assert main(["forget", "orders", "--key", "1", "--json", "--config", str(road.config_file)]) == 0
    shown = {place["place"]: place for place in json.loads(capsys.readouterr().out)["places"]}
    assert (shown[f"staged parts of {road.name}"]["found"], shown["dumps"]["found"]) == (1, 1)


def count(road: LiveRoad, key: str) -> tuple[int, int]:
    """In how many parts and segments a key is found, all of which are searched."""
    found = [places(road, road.settings, key)[f"{what} of {road.name}"] for what in ("staged parts", "segments")]
    assert all(place.searched and not place.removed for place in found)
    return found[0].found, found[1].found


def with_dumps(road: LiveRoad, dumps: Path) -> Settings:
    """Let the audit compare dumps, too."""
    via = f"key: [id], via: {{connection: lake, table: {dumps}/current/*.parquet}}"
    text = road.config_file.read_text().replace("key: [id]", via)
    road.config_file.write_text(text.replace("connections:\n", 'connections:\n  lake: {url: "duckdb:///:memory:"}\n', 1))
    return load(road.config_file)


def write_dump(folder: Path, keys: str) -> None:
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        rows = f"SELECT unnest([{keys}])::INTEGER AS id, 'an item' AS item"
        connection.execute(f"COPY ({rows}) TO '{folder}/part-0.parquet' (FORMAT parquet)")


def test_what_cannot_be_read_is_said(road: LiveRoad, engines: Engines) -> None:
    log = LiveLog(engines.live("mysql").url)
    log.run(
        f"DROP TABLE IF EXISTS {TABLE}",
        f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40))",
        f"INSERT INTO {TABLE} VALUES (1, 'a')",
    )
    road.merge()
    assert running.run_audit(road.settings, "orders", store=road.store).verdict is Verdict.MATCH
    for path in road.root.glob("batches/*"):
        path.unlink()
    place = places(road, road.settings, "1")[f"staged parts of {road.name}"]
    assert not place.searched
    assert "not all of it could be searched: the part of " in place.what and "is missing" in place.what
    gone = places(road, with_dumps(road, Path(road.config_file.parent / "none")), "1")["dumps"]
    assert (gone.searched, gone.found) == (True, 0)
