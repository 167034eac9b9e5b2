"""Parts are written completely, equal when they are replayed, and private; a failure is reported and loses nothing."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auditor.config import Pipeline
from auditor.errors import PartDamaged, StagingFailed, StagingFull, StoreUnavailable
from auditor.model import Part
from auditor.pipeline import part_writer
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.part_deletion import PartDeleter
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.stage_task import TableRules, stage_task
from auditor.pipeline.staged_parts import read_part, sweep
from auditor.store import parts, pipelines
from tests.durations import SetDurations
from tests.pipeline.conftest import TARGETS
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")
OTHERS = table("others", id="bigint", item="varchar(40) null")
DUCKDB = [one for one in TARGETS if one.id == "duckdb"]


def write(root: Path, *events: list[dict[str, object]]) -> list[Part]:
    return [one.part for one in write_parts(LocalFolder(root), [batch(*events)])]


def test_a_replay_writes_the_same_bytes_in_whatever_order_rows_come(tmp_path: Path) -> None:
    events = [announce(ORDERS, 1), insert(ORDERS, 10, *([str(n), "a"] for n in range(500))), delete(ORDERS, 20, ["3", "a"])]
    [part] = write(tmp_path, *events)
    path = tmp_path / part.path
    before = path.read_bytes()
    assert write(tmp_path, *reversed(events)) == [part] and path.read_bytes() == before
    assert (part.table, part.first, part.last, part.rows) == ("shop.orders", 10, 20, 501)
    assert part.bytes == sum(size for _, size in part.blocks) < len(before) and re.fullmatch(
        r"batches/0000000000000000010-\w{12}\.1\.arrows", part.path
    )
    assert pa.ipc.open_stream(path).read_all().num_rows == 501, "any reader of Arrow streams reads it"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [path.name for path in path.parent.iterdir()] == [path.name], "nothing unfinished is left"


def test_each_stretch_of_one_schema_is_a_part_of_its_own(tmp_path: Path) -> None:
    other = table(id="bigint", item="varchar(40) null", more="int null")
    events = [announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]), announce(other, 2), insert(other, 20, ["2", "b", None])]
    found = write(tmp_path, *events, insert(ORDERS, 30, ["3", "c"]))
    assert [(part.first, part.schema_id) for part in found] == [(10, ORDERS.id), (20, other.id), (30, ORDERS.id)]


def large(*parts: tuple[TableSchema, int], position: int = 10) -> Iterator[pa.RecordBatch]:
    """One transaction in batches, each of so many rows of a table; each row has a text of its own."""
    first = 0
    for schema, count in parts:
        rows = insert(schema, position, *([str(n), hashlib.sha256(b"%d" % n).hexdigest()] for n in range(first, first + count)))
        yield batch(announce(schema, position), [{**row, "row": first + number} for number, row in enumerate(rows)])
        first += count


def test_a_transaction_of_any_size_is_one_part_that_is_written_while_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "ROWS_PER_GROUP", 500)
    sizes: list[int] = []

    def watched() -> Iterator[pa.RecordBatch]:
        for one in large((OTHERS, 1), *[(ORDERS, 200)] * 20):
            yield one
            sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*/*")))

    orders, others = (one.part for one in write_parts(LocalFolder(tmp_path), watched()))
    found = sizes[3::3]  # every third batch fills a row group, and is asked for more only when that is on the disk
    assert found[0] > 8_000 and all(later - earlier > 8_000 for earlier, later in pairwise(found))
    found_parts = [(one.table, one.first, one.last, one.rows) for one in (orders, others)]
    assert found_parts == [("shop.orders", 10, 10, 4000), ("shop.others", 10, 10, 1)]
    assert orders.path == others.path
    assert [one.num_rows for one in pa.ipc.open_stream(tmp_path / orders.path)] == [600] * 6 + [400, 1]
    assert (len(orders.blocks), len(others.blocks)) == (7, 1)
    assert [row for one in read_part(LocalFolder(tmp_path), orders, 0) for row in one["row"].to_pylist()] == list(range(1, 4001))
    kept = (tmp_path / orders.path).read_bytes()
    assert [one.part for one in write_parts(LocalFolder(tmp_path), watched())] == [orders, others]
    assert (tmp_path / orders.path).read_bytes() == kept


def test_tables_that_share_a_task_share_its_memory_and_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "HELD_BYTES", 40_000)
    monkeypatch.setattr(part_writer, "LEAST_BYTES", 1_000)
    schemas = [table(f"t{number}", id="bigint", item="varchar(40) null") for number in range(4)]
    unfinished: list[int] = []

    def watched() -> Iterator[pa.RecordBatch]:
        for one in large(*[(schema, 100) for _ in range(5) for schema in schemas]):
            yield one
            unfinished.append(len(list(tmp_path.glob("*/*.unfinished"))))

    found = write_parts(LocalFolder(tmp_path), watched())
    assert [(one.part.table, one.part.rows, one.schema_json) for one in found] == [(f"shop.{s.table}", 500, s.to_json()) for s in schemas]
    assert max(unfinished) == 1 and unfinished[0] == 0 and len({one.part.path for one in found}) == 1
    for number, one in enumerate(found):
        rows = [row for some in read_part(LocalFolder(tmp_path), one.part, 0) for row in some["row"].to_pylist()]
        assert rows == [400 * turn + 100 * number + row for turn in range(5) for row in range(100)]


def test_a_task_that_counts_as_lost_does_not_disturb_the_one_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "ROWS_PER_GROUP", 100)
    first: list[Part] = []

    def overtaken() -> Iterator[pa.RecordBatch]:
        batches = large((ORDERS, 200), (ORDERS, 200))
        yield next(batches)
        first.extend(one.part for one in write_parts(LocalFolder(tmp_path), large((ORDERS, 200), (ORDERS, 200))))
        yield from batches

    assert [one.part for one in write_parts(LocalFolder(tmp_path), overtaken())] == first
    assert [row for one in read_part(LocalFolder(tmp_path), first[0], 0) for row in one["row"].to_pylist()] == list(range(400))
    assert [path.name for path in tmp_path.glob("*/*")] == [Path(first[0].path).name]


def test_a_task_that_fails_leaves_no_part_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "ROWS_PER_GROUP", 100)
    other = table(id="bigint", item="varchar(40) null", more="int null")
    later = batch(announce(other, 20), insert(other, 20, ["2", "b", None]))

    def broken() -> Iterator[pa.RecordBatch]:
        yield from large((OTHERS, 200), (ORDERS, 200))
        yield later
        assert len(list(tmp_path.glob("*/*.unfinished"))) == 1
        yield batch(insert(ORDERS, 5, ["1", "earlier"]))

    with pytest.raises(StagingFailed, match=r"events of shop.orders that lie before earlier ones; report this as a bug of the source"):
        write_parts(LocalFolder(tmp_path), broken())
    assert not list(tmp_path.glob("*/*"))
    [orders, others] = (one.part for one in write_parts(LocalFolder(tmp_path), large((OTHERS, 200), (ORDERS, 200))))
    assert sweep(LocalFolder(tmp_path), [orders.path, others.path]) == [] and (orders.rows, others.rows) == (200, 200)


def test_a_part_that_is_not_what_the_manifest_says_is_not_read(tmp_path: Path) -> None:
    [part] = write(tmp_path, announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]), insert(ORDERS, 20, ["2", "b"]))
    assert [pc.max(one["position"]).as_py() for one in read_part(LocalFolder(tmp_path), part, 10)] == [20]
    for wrong in (replace(part, rows=3), replace(part, last=30)):
        with pytest.raises(PartDamaged, match="in the manifest"):
            list(read_part(LocalFolder(tmp_path), wrong, 0))
    (tmp_path / part.path).write_bytes(b"no stream of Arrow's")
    known = replace(part, blocks=((0, 20),), checksum=hashlib.sha256(b"no stream of Arrow's").hexdigest())
    for wrong, why in ((part, "has other bytes"), (known, "cannot be read")):
        with pytest.raises(PartDamaged, match=why):
            list(read_part(LocalFolder(tmp_path), wrong, 0))


def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [part] = write(tmp_path, announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]))
    kept = (tmp_path / part.path).read_bytes()
    full, plain = tmp_path / "batches" / "full.unfinished", tempfile.mkstemp
    full.symlink_to("/dev/full")
    opened = ((os.open(full, os.O_WRONLY), str(full)) if full.is_symlink() else None for _ in range(9))
    monkeypatch.setattr(tempfile, "mkstemp", lambda *named, **where: next(opened) or plain(*named, **where))
    with pytest.raises(StagingFull, match=r"the disk of the staging's folder .* is full; free some space there"):
        write(tmp_path, announce(ORDERS, 1), insert(ORDERS, 10, ["1", "other"]))
    assert (tmp_path / part.path).read_bytes() == kept and not full.exists()
    full.symlink_to("/dev/full")
    rules = TableRules(Pipeline.model_validate(_PIPELINE), b"salt")
    [told] = stage_task(str(tmp_path), rules, [batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]))])
    assert told["error"][0].as_py().startswith("StagingFull: the disk of the staging's folder")
    [told] = stage_task(str(tmp_path), rules, [batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]))])
    assert told["error"][0].as_py() == "" and (tmp_path / part.path).read_bytes() == kept


_PIPELINE = {
    "source": {"connection": "source", "tables": ["*"]},
    "staging": {"path": "/nowhere"},
    "targets": {"wh": {"connection": "warehouse", "schema": "shop"}},
}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StagingFailed, match=r"cannot be created: .*; create it, or correct staging: path"):
        write(tmp_path / "file" / "staging", announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]))


def test_sweeping_leaves_what_is_listed(tmp_path: Path) -> None:
    one, other = (write(tmp_path, announce(ORDERS, 1), insert(ORDERS, first, ["1", "a"]))[0] for first in (10, 20))
    (tmp_path / "batches" / "77.unfinished").write_text("half")
    (tmp_path / "planned.json").write_text("{}")
    assert sweep(LocalFolder(tmp_path), [one.path]) == [other.path, "batches/77.unfinished"]
    assert (tmp_path / one.path).exists() and (tmp_path / "planned.json").exists()


@pytest.mark.parametrize("engine", DUCKDB, indirect=True)
def test_parts_go_once_every_target_has_passed_them(road: Road) -> None:
    first = road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    pipeline = Pipeline.model_validate({**_PIPELINE, "staging": {"path": str(road.root)}})
    assert PartDeleter(road.store, PIPELINE, LocalFolder(road.root)).prune(pipeline, 0) == 0, "the target has passed nothing yet"
    road.loader().merge_all()
    second = road.stage(batch(insert(ORDERS, 20, ["2", "b"])))
    slower = Pipeline.model_validate({**_PIPELINE, "targets": {**_PIPELINE["targets"], "new": _PIPELINE["targets"]["wh"]}})  # type: ignore[dict-item,index]
    assert PartDeleter(road.store, PIPELINE, LocalFolder(road.root)).prune(slower, 0) == 0, (
        "a target that never reported has passed nothing"
    )
    assert PartDeleter(road.store, PIPELINE, LocalFolder(road.root)).prune(pipeline, 0) == 1
    assert not (road.root / first[0].path).exists() and (road.root / second[0].path).exists()
    assert road.loader().merge_all() == 1 and road.rows() == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("engine", DUCKDB, indirect=True)
def test_what_a_table_that_stands_still_needs_of_many_files_is_copied_into_one(road: Road, set_durations: SetDurations) -> None:
    set_durations(part_reader=0.0)
    pipeline = Pipeline.model_validate({**_PIPELINE, "staging": {"path": str(road.root)}})
    for number in (10, 20, 30):
        many = insert(ORDERS, number, *([str(1000 * number + n), hashlib.sha256(b"%d" % (number * n)).hexdigest()] for n in range(200)))
        road.stage_task(batch(announce(ORDERS, number), many), batch(announce(OTHERS, number), insert(OTHERS, number, [str(number), "a"])))
    before = {part.path for part in parts.list_parts(road.store, PIPELINE, "shop.others", 0)}
    on_disk = sum(path.stat().st_size for path in road.root.glob("batches/*"))
    assert len(before) == 3 == len(list(road.root.glob("batches/*")))
    pipelines.report_merges(road.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(30, "merged")})
    deleter = PartDeleter(road.store, PIPELINE, LocalFolder(road.root))
    assert deleter.prune(pipeline, 0) == 3
    [kept] = {part.path for part in parts.list_parts(road.store, PIPELINE, "shop.others", 0)}
    assert before | {kept} == {f"batches/{path.name}" for path in road.root.glob("batches/*")}, "who reads in the old files may end"
    assert deleter.prune(pipeline, 0) == 0
    assert [f"batches/{path.name}" for path in road.root.glob("batches/*")] == [kept]
    assert sum(path.stat().st_size for path in road.root.glob("batches/*")) < on_disk / 5
    assert sweep(LocalFolder(road.root), parts.list_paths(road.store, PIPELINE)) == []
    listed = parts.list_parts(road.store, PIPELINE, "shop.others", 0)
    read = [row for part in listed for some in read_part(LocalFolder(road.root), part, 0) for row in some["after"].to_pylist()]
    assert read == [["10", "a"], ["20", "a"], ["30", "a"]]


@pytest.mark.parametrize("engine", DUCKDB, indirect=True)
def test_a_file_stays_while_a_part_in_it_is_needed(road: Road) -> None:
    pipeline = Pipeline.model_validate({**_PIPELINE, "staging": {"path": str(road.root)}})
    rows = [[str(n), hashlib.sha256(b"%d" % n).hexdigest()] for n in range(200)]
    road.stage_task(batch(announce(ORDERS, 10), insert(ORDERS, 10, ["1", "a"])), batch(announce(OTHERS, 10), insert(OTHERS, 10, *rows)))
    [others] = parts.list_parts(road.store, PIPELINE, "shop.others", 0)
    pipelines.report_merges(road.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(10, "merged")})
    deleter = PartDeleter(road.store, PIPELINE, LocalFolder(road.root))
    assert [deleter.prune(pipeline, 0) for _ in range(3)] == [1, 0, 0], "one part goes, and more than half of its file is needed"
    assert parts.list_parts(road.store, PIPELINE, "shop.others", 0) == [others] and (road.root / others.path).exists()
    pipelines.report_merges(road.store, PIPELINE, "wh", {"shop.others": pipelines.MergeNews(10, "merged")})
    assert deleter.prune(pipeline, 0) == 1 and not list(road.root.glob("batches/*"))


@pytest.mark.parametrize("engine", DUCKDB, indirect=True)
def test_a_file_that_somebody_deleted_keeps_no_other_part_from_going(road: Road) -> None:
    pipeline = Pipeline.model_validate({**_PIPELINE, "staging": {"path": str(road.root)}})
    for number in (10, 20):
        rows = (batch(announce(one, number), insert(one, number, [str(number), "a"])) for one in (ORDERS, OTHERS))
        road.stage_task(*rows)
    missing, other = sorted(road.root.glob("batches/*"))
    missing.unlink()
    pipelines.report_merges(road.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(20, "merged")})
    assert PartDeleter(road.store, PIPELINE, LocalFolder(road.root)).prune(pipeline, 0) == 2
    assert [part.first for part in parts.list_parts(road.store, PIPELINE, "shop.others", 0)] == [10, 20] and other.exists()


@pytest.mark.parametrize("engine", DUCKDB, indirect=True)
def test_a_part_that_is_missing_for_a_while_delays_its_table(road: Road) -> None:
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    [part] = road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    aside = (road.root / part.path).rename(road.root / "aside")
    assert loader.merge_all() == 0
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "delayed" and "is missing; check that this process reaches the staging's folder" in report.reason
    aside.rename(road.root / part.path)
    now[0] += 1
    assert loader.merge_all() == 1 and road.rows() == [(1, "a")]


@pytest.mark.parametrize("engine", DUCKDB, indirect=True)
def test_a_store_that_is_away_for_a_while_loses_nothing(road: Road) -> None:
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    stored = road.folder / "auditor.db"
    aside = stored.rename(road.folder / "aside.db")
    assert loader.merge_all() == 0, "the target could not be reported"
    with pytest.raises(StoreUnavailable):
        parts.record_batch(road.store, PIPELINE, [], {})
    aside.rename(stored)
    now[0] += 1
    loader.merge_all()
    assert road.rows() == [(1, "a")]
    assert pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].position == 10
