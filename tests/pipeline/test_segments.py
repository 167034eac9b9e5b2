"""Two writers of one stream make the same segments, whatever their batches, formats and deaths; files hold what was hashed."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from auditor.config import Pipeline
from auditor.errors import SegmentFailed
from auditor.model import Segment
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.joining import Joining
from auditor.pipeline.part_deletion import PartDeleter
from auditor.pipeline.part_writer import EventFile, write_parts
from auditor.pipeline.segments import folders as segment_folders
from auditor.pipeline.segments import writer as writers
from auditor.pipeline.segments.files import Archive
from auditor.pipeline.segments.verifying import check_segment, digest_of
from auditor.pipeline.segments.writer import open_writer
from auditor.store import Store, open_store, parts, pipelines, segments
from tests.many_tables import counted
from tests.pipeline_events import announce, batch, delete, event, insert, table, update

ORDERS, WIDER = table(id="bigint", item="varchar(40) null"), table(id="bigint", item="varchar(40) null", more="int null")
ITEMS = table("items", id="bigint", item="varchar(40) null")
T0 = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)

Events = list[dict[str, object]]


def stream(seed: int, count: int) -> list[Events]:
    """Transactions of two tables with hard texts, one change of a schema, and a quiet stretch."""
    chance = random.Random(seed)
    found: list[Events] = []
    seconds = 0.0
    for number in range(count):
        seconds += chance.random() + (200 if number == count // 2 else 0)
        schema = ITEMS if chance.random() < 0.2 else WIDER if number > count * 0.7 else ORDERS
        rows: list[Any] = []
        for key in range(chance.randint(1, 4)):
            text = chance.choice(["|", "a|1b", 'it\'s "x",\n\\N', "é", "", None, "x" * 50, "null", "|2"])
            rows.append([str(key), text, *([None] if schema is WIDER else [])])
        kind = chance.choice([insert, delete, lambda *some: update(some[0], some[1], *((row, row) for row in some[2:]))])
        events: Events = kind(schema, 10 * number + 10, *rows)
        found.append([{**one, "time": T0 + dt.timedelta(seconds=seconds)} for one in events])
    return found


def stage(store: Store, root: Path, name: str, transactions: Sequence[Events], chance: random.Random) -> Iterator[None]:
    """Stage transactions in batches of any size, each by several tasks, and stop after every batch."""
    rest = list(transactions)
    while rest:
        size = chance.randint(1, 30)
        chosen, rest = rest[:size], rest[size:]
        middle = chance.randint(0, len(chosen))
        written = []
        for some in (chosen[:middle], chosen[middle:]):
            for schema in (ORDERS, ITEMS):
                mine = [one for events in some for one in events if one["table"] == schema.table]
                if mine:
                    announced = [*announce(ORDERS, 1), *announce(WIDER, 1)] if schema is ORDERS else announce(ITEMS, 1)
                    written += write_parts(LocalFolder(root), [batch(announced, mine)])
        listed = [one.part for one in written if one.part.rows]
        parts.record_batch(store, name, listed, {}, None)
        yield


def pipeline_in(root: Path, **segment: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "source": {"connection": "source", "tables": ["*"]},
            "staging": {"path": str(root)},
            "segment": segment,
            "targets": {"t": {"connection": "t", "schema": "s"}},
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


def listed(store: Store, name: str) -> dict[str, list[Segment]]:
    return {one: segments.list_segments(store, name, one) for one in ("shop.orders", "shop.items")}


def identity(found: dict[str, list[Segment]]) -> Any:
    """What two writers agree on: everything but the files."""
    return {
        name: [(one.first, one.first_row, one.last, one.last_row, one.rows, one.bytes, one.schema_id, one.sha256, one.gtid) for one in some]
        for name, some in found.items()
    }


def test_writers_agree_however_they_are_killed(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them has an archive of CSV, and other batches and parts, and dies before, between and after its files and its manifest."""
    transactions = stream(7, 240)
    rule = {"rows": 17, "bytes": "600", "age": "60s"}
    calm = pipeline_in(tmp_path / "calm", **rule)
    for _ in stage(store, tmp_path / "calm", "calm", transactions, random.Random(1)):
        pass
    writer = open_writer(store, "calm", calm)
    assert writer.step() and not writer.step()
    monkeypatch.setattr(writers, "STEP_EVENTS", 60)
    troubled = pipeline_in(tmp_path / "troubled", format="csv", path=str(tmp_path / "files"), **rule)
    chance, deaths = random.Random(2), 0
    writer = open_writer(store, "troubled", troubled)
    record, write = segments.record_cut, Archive._write

    def die(work: Any) -> Any:
        def dying(*arguments: Any) -> Any:
            moment = chance.random()
            if moment < 0.1:
                raise KeyboardInterrupt
            done = work(*arguments)
            if moment > 0.95:
                raise KeyboardInterrupt
            return done

        return dying

    monkeypatch.setattr(segments, "record_cut", die(record))
    monkeypatch.setattr(Archive, "_write", die(write))
    for _ in stage(store, tmp_path / "troubled", "troubled", transactions, random.Random(3)):
        for _ in range(1000):
            try:
                if not writer.step():
                    break
            except KeyboardInterrupt:
                deaths += 1
                writer = open_writer(store, "troubled", troubled)
        PartDeleter(store, "troubled", LocalFolder(tmp_path / "troubled")).prune(troubled, 0)
    assert deaths > 5
    one, other = listed(store, "calm"), listed(store, "troubled")
    assert identity(one) == identity(other)
    assert len(one["shop.orders"]) > 15 and {found.rows for found in one["shop.orders"]} >= {17}, "by rows"
    assert any(found.bytes >= 600 and found.rows < 17 for found in one["shop.orders"]), "by bytes"
    assert {found.schema_id for found in one["shop.orders"]} == {ORDERS.id, WIDER.id}, "by schema"
    assert any(found.rows < 17 and found.bytes < 600 for found in one["shop.items"]), "by age"
    for name, some in (("calm", one), ("troubled", other)):
        folder = open_writer(store, name, calm if name == "calm" else troubled).folder
        for segment in (each for found in some.values() for each in found):
            events = folder.read(segment)
            assert (events.num_rows, digest_of(events, segment.encoding)) == (segment.rows, segment.sha256)
    assert events.to_pylist() == folder.read(segment).to_pylist()


def test_text_of_events(store: Store, tmp_path: Path) -> None:
    """The digest is that of the documented text, made here by hand; no two different events have the same."""
    events = [
        *insert(ORDERS, 10, ["1", "a|b"]),
        event(ORDERS, "update", 20, 0, ["1", "a|b"], ["1", None]),
        {**event(ORDERS, "delete", 30, 2, ["1", ""], None), "gtid": None},
    ]
    written = write_parts(LocalFolder(tmp_path), [batch(announce(ORDERS, 1), events)])
    parts.record_batch(store, "p", [one.part for one in written], {}, None)
    assert open_writer(store, "p", pipeline_in(tmp_path, rows=3)).step()
    [segment] = segments.list_segments(store, "p", "shop.orders")
    texts = ["insert|10-1-10|10|11|1a|0b|1", "update|10-1-20|10|11|1a|0b|11|1|2|1", "delete|1|2|12|11|1|1"]
    assert segment.bytes == sum(map(len, texts)) and segment.sha256 == hashlib.sha256("".join(texts).encode()).hexdigest()
    assert (segment.first, segment.first_row, segment.last, segment.last_row, segment.gtid) == (10, 0, 30, 2, None)


def test_a_table_that_is_named_as_a_partition_of_a_topic_is_refused(store: Store, tmp_path: Path) -> None:
    alike = table("orders partition 3", ["id"], id="int", item="varchar(20) null")
    events = batch(announce(alike, 1), insert(alike, 10, ["1", "a"]))
    written = write_parts(LocalFolder(tmp_path), [events])
    parts.record_batch(store, "p", [one.part for one in written if one.part.rows], {}, None)
    with pytest.raises(SegmentFailed, match=r"^the name of the table shop\.orders partition 3 ends as that of a topic's partition does"):
        open_writer(store, "p", pipeline_in(tmp_path, rows=3)).step()


def test_parts_of_an_open_segment_are_kept(store: Store, tmp_path: Path) -> None:
    def commit(position: int) -> None:
        """Stage and merge a transaction of two rows."""
        events = batch(announce(ORDERS, 1), insert(ORDERS, position, ["1", "a"], ["2", "b"]))
        written = write_parts(LocalFolder(tmp_path), [events])
        parts.record_batch(store, "p", [one.part for one in written if one.part.rows], {}, None)
        pipelines.report_merges(store, "p", "t", {"shop.orders": pipelines.MergeNews(position, "merged")})

    for position in (10, 20, 30):
        commit(position)
    pipeline = pipeline_in(tmp_path, rows=3)
    assert PartDeleter(store, "p", LocalFolder(tmp_path)).prune(pipeline, 0) == 0, "nothing was cut yet"
    assert open_writer(store, "p", pipeline).step()
    assert PartDeleter(store, "p", LocalFolder(tmp_path)).prune(pipeline, 0) == 3, "the fourth to sixth event are in a segment as well"
    commit(40)
    assert open_writer(store, "p", pipeline).step()
    assert PartDeleter(store, "p", LocalFolder(tmp_path)).prune(pipeline, 0) == 0


def test_no_segment_spans_parts_that_were_deleted(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Segments were not kept for a while, in which parts of the open one were deleted."""
    pipeline = pipeline_in(tmp_path, rows=3)
    for position in (10, 20, 30, 40):
        events = batch(announce(ORDERS, 1), insert(ORDERS, position, ["1", "a"], ["2", "b"]))
        written = write_parts(LocalFolder(tmp_path), [events])
        parts.record_batch(store, "p", [one.part for one in written if one.part.rows], {}, None)
        pipelines.report_merges(store, "p", "t", {"shop.orders": pipelines.MergeNews(position, "merged")})
        if position == 20:
            assert open_writer(store, "p", pipeline).step()
        if position == 30:
            assert PartDeleter(store, "p", LocalFolder(tmp_path)).prune(pipeline.model_copy(update={"segment": None}), 0) == 3
    written = write_parts(LocalFolder(tmp_path), [batch(announce(ORDERS, 1), insert(ORDERS, 50, ["1", "a"]))])
    parts.record_batch(store, "p", [one.part for one in written if one.part.rows], {}, None)
    assert open_writer(store, "p", pipeline).step()
    assert "segments of shop.orders begin anew" in caplog.text
    found = [(one.first, one.last, one.rows) for one in segments.list_segments(store, "p", "shop.orders")]
    assert found == [(10, 20, 3), (40, 50, 3)]


def test_a_step_asks_the_store_as_often_for_many_tables_as_for_few(tmp_path: Path) -> None:
    """Of those that change parts are read, and where their open segments begin is written; the others are passed by together."""
    counts = []
    for number in (4, 40):
        many = [table(f"many_{one:02d}", id="bigint") for one in range(number)]
        root, pipeline = LocalFolder(tmp_path / str(number)), pipeline_in(tmp_path / str(number), rows=3)
        with closing(open_store(f"sqlite:///{tmp_path}/{number}.db")) as store:
            writer = open_writer(store, "p", pipeline)
            for position, changed in ((10, many), (20, many[:2]), (30, many)):
                events = [batch(announce(one, 1), insert(one, position, ["1"])) for one in changed]
                written = [part for one in events for part in write_parts(root, [one])]
                parts.record_batch(store, "p", [one.part for one in written if one.part.rows], {}, None)
                if position == 30:
                    break
                with counted(store) as statements:
                    assert writer.step()
            counts.append(len(statements))
            assert writer.step()
            ended = {one.table: segments.list_segments(store, "p", f"shop.{one.table}") for one in many}
            assert [(len(found), found and found[0].last) for found in ended.values()] == [(1, 30)] * 2 + [(0, [])] * (number - 2)
            assert segments.last_places(store, "p") == {f"shop.{one.table}": (30, 0) for one in many[:2]}
            free = segments.get_cut(store, "p").free
            assert free == {f"shop.{one.table}": 30 if one in many[:2] else 9 for one in many}
    assert counts[0] == counts[1] < 20


def test_a_missing_file_is_named(store: Store, tmp_path: Path) -> None:
    for number, pipeline in enumerate((pipeline_in(tmp_path, rows=3), pipeline_in(tmp_path, rows=3, path=str(tmp_path / "archive")))):
        for _ in stage(store, tmp_path, f"p{number}", [insert(ORDERS, 10, *[["1", "a"]] * 4)], random.Random(1)):
            pass
        assert open_writer(store, f"p{number}", pipeline).step()
        [segment] = segments.list_segments(store, f"p{number}", "shop.orders")
        for path in [*tmp_path.glob("segments/*"), *tmp_path.glob("archive/*/*")]:
            path.unlink()
        with pytest.raises(SegmentFailed, match=r"(segment .*/.*arrows|/archive/shop.orders/0.*parquet) is missing; check that"):
            writers.folder_of(pipeline).read(segment)
        other = pipeline_in(tmp_path, rows=3, **({} if number else {"path": str(tmp_path / "archive")}))
        with pytest.raises(
            SegmentFailed, match=r"(was written into an archive; give its path|is in the staging's folder; remove segment: path)"
        ):
            writers.folder_of(other).read(segment)


def minutes(count: int, tables: int) -> Iterator[list[tuple[TableSchema, Events]]]:
    """Batches of ten seconds, each with a transaction over all tables."""
    schemas = [table(f"t{number}", id="bigint", item="varchar(40) null") for number in range(tables)]
    for second in range(0, 60 * count + 10, 10):
        at = {"time": T0 + dt.timedelta(seconds=second)}
        yield [(one, [{**event, **at} for event in insert(one, 10 * second + 10, [str(second), "a"], ["b", None])]) for one in schemas]


def stage_minutes(store: Store, root: Path, name: str, count: int, tables: int, pipeline: Pipeline) -> None:
    """Stage minutes of a stream, and cut them after each batch."""
    writer = open_writer(store, name, pipeline)
    for found in minutes(count, tables):
        written = write_parts(LocalFolder(root), [batch(announce(schema, 1), events) for schema, events in found])
        schemas = {schema.id: {"columns": [{"name": "id"}, {"name": "item"}]} for schema, _ in found}
        parts.record_batch(store, name, [one.part for one in written if one.part.rows], schemas, None)
        assert writer.step()


@pytest.mark.quick_for("3")
@pytest.mark.parametrize("tables", [3, 20])
def test_a_tick_is_one_file_whatever_the_number_of_tables(store: Store, tmp_path: Path, tables: int) -> None:
    """It holds the same segments as an archive, which has a file for each."""
    plain, archiving = pipeline_in(tmp_path / "a", age="60s"), pipeline_in(tmp_path / "b", age="60s", path=str(tmp_path / "archive"))
    for name, pipeline in (("a", plain), ("b", archiving)):
        stage_minutes(store, tmp_path / name, name, 3, tables, pipeline)
    names = [f"shop.t{number}" for number in range(tables)]
    found, other = ({one: segments.list_segments(store, name, one) for one in names} for name in ("a", "b"))
    assert identity(found) == identity(other) and {len(some) for some in found.values()} == {3}
    assert len(list((tmp_path / "a/segments").iterdir())) == 3
    assert len(list((tmp_path / "archive").glob("*/*.parquet"))) == 3 * tables
    folders = writers.folder_of(plain), writers.folder_of(archiving)
    for full_name in names[:3]:
        for pair in zip(found[full_name], other[full_name], strict=True):
            assert [check_segment(folder, segment) for folder, segment in zip(folders, pair, strict=True)] == ["", ""]
            assert len(pair[0].blocks) == 1 and folders[0].read(pair[0]).equals(folders[1].read(pair[1]))
    listed = segments.list_segments_of(store, "a", {found["shop.t0"][1].path})
    assert sorted(segment.table for segment in listed) == sorted(names) and {segment.path for segment in listed} == {listed[0].path}


def test_segments_of_joined_parts_are_the_same(store: Store, tmp_path: Path) -> None:
    """Parts are joined while the process cuts, and deleted."""
    pipeline = pipeline_in(tmp_path / "a", age="60s", rows=7, by="item")
    stage_minutes(store, tmp_path / "a", "a", 4, 3, pipeline)
    for some in minutes(4, 3):
        written = write_parts(LocalFolder(tmp_path / "b"), [batch(announce(schema, 1), events) for schema, events in some])
        schemas = {schema.id: {"columns": [{"name": "id"}, {"name": "item"}]} for schema, _ in some}
        parts.record_batch(store, "b", [one.part for one in written if one.part.rows], schemas, None)
    assert Joining(store, "b", LocalFolder(tmp_path / "b")).join() == 24
    other = pipeline_in(tmp_path / "b", age="60s", rows=7, by="item")
    assert open_writer(store, "b", other).step()
    names = [f"shop.t{number}" for number in range(3)]
    calm, two = ({one: segments.list_segments(store, name, one) for one in names} for name in ("a", "b"))
    assert identity(calm) == identity(two)
    for name in names:  # segments that are blocks of one file, too, and parts that were joined
        assert [one.buckets for one in calm[name]] == [one.buckets for one in two[name]] and all(one.buckets for one in calm[name])
    assert not any(check_segment(writers.folder_of(other), segment) for some in two.values() for segment in some)
    news = {one: pipelines.MergeNews(100_000, "merged") for one in names}
    pipelines.report_merges(store, "b", "t", news)
    assert PartDeleter(store, "b", LocalFolder(tmp_path / "b")).prune(other, 0) == 3 * 24 and not list((tmp_path / "b/batches").glob("*_*"))
    assert not any(check_segment(writers.folder_of(other), segment) for some in two.values() for segment in some)


class Killed(BaseException):
    """Ends a step as a kill does."""


@pytest.mark.quick_for("record", "block")
@pytest.mark.parametrize("step", ["block", "finish", "record", "recorded"])
def test_a_killed_step_leaves_a_file_that_is_swept(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    pipeline = pipeline_in(tmp_path, age="60s")
    stage_minutes(store, tmp_path, "p", 2, 3, pipeline)
    before = sorted((tmp_path / "segments").iterdir())
    for schema, events in next(iter(minutes(0, 3))):
        later = [{**one, "position": 100_000, "time": T0 + dt.timedelta(seconds=300)} for one in events]
        written = write_parts(LocalFolder(tmp_path), [batch(announce(schema, 1), later)])
        parts.record_batch(store, "p", [one.part for one in written if one.part.rows], {}, None)

    def killed(*_: Any) -> None:
        raise Killed

    def recorded(*given: Any) -> None:
        plain(*given)
        raise Killed

    def left_unfinished(file: EventFile) -> None:
        assert file._new_file
        file._new_file.file.close()

    plain = segments.record_cut
    with monkeypatch.context() as patch:
        if step == "block":
            found, write = iter(range(2)), EventFile.write
            patch.setattr(EventFile, "write", lambda *given: killed() if next(found, None) is None else write(*given))
            patch.setattr(EventFile, "abandon", left_unfinished)
        elif step == "finish":
            patch.setattr(EventFile, "finish", killed)
            patch.setattr(EventFile, "abandon", left_unfinished)
        else:
            patch.setattr(segments, "record_cut", killed if step == "record" else recorded)
        with pytest.raises(Killed):
            open_writer(store, "p", pipeline).step()
    left = sorted((tmp_path / "segments").iterdir())
    assert len(left) == len(before) + 1 and set(before) < set(left)
    (tmp_path / "segments-copied").mkdir()
    (tmp_path / "segments-copied" / "9.1.arrows").write_text("what another process copies")
    writer = open_writer(store, "p", pipeline)
    writer._begin()
    assert sorted((tmp_path / "segments").iterdir()) == (left if step == "recorded" else before)
    while writer.step():
        pass
    listed = [segment for number in range(3) for segment in segments.list_segments(store, "p", f"shop.t{number}")]
    assert len(listed) == 9 and not any(check_segment(writer.folder, segment) for segment in listed)
    assert {f"segments/{path.name}" for path in (tmp_path / "segments").iterdir()} == {segment.path for segment in listed}
    assert (tmp_path / "segments-copied" / "9.1.arrows").exists()


def test_a_large_step_is_several_files(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_folders, "FILE_BYTES", 3_000)
    pipeline = pipeline_in(tmp_path, age="60s")
    stage_minutes(store, tmp_path, "p", 1, 6, pipeline)
    listed = [segment for number in range(6) for segment in segments.list_segments(store, "p", f"shop.t{number}")]
    paths = {segment.path for segment in listed}
    assert 1 < len(paths) < 6 and paths == {f"segments/{path.name}" for path in (tmp_path / "segments").iterdir()}
    assert not any(check_segment(folder, segment) for folder in [writers.folder_of(pipeline)] for segment in listed)


def test_a_block_that_rots_is_found_and_never_read_as_another(store: Store, tmp_path: Path) -> None:
    """Whichever byte of a file changes, and to what: what is read is refused, or what was hashed."""
    pipeline = pipeline_in(tmp_path, age="60s")
    stage_minutes(store, tmp_path, "p", 1, 2, pipeline)
    folder = writers.folder_of(pipeline)
    [segment] = segments.list_segments(store, "p", "shop.t0")
    [(offset, size)] = segment.blocks
    path, chance = tmp_path / segment.path, random.Random(5)
    whole, events = path.read_bytes(), folder.read(segment)
    for _ in range(1500):
        content, place = bytearray(whole), offset + chance.randrange(size)
        content[place] = chance.randrange(256)
        path.write_bytes(content)
        if not check_segment(folder, segment):
            hashed = ["kind", "gtid", "row", "before", "after"]
            assert folder.read(segment).select(hashed).equals(events.select(hashed))


def test_a_format_is_that_of_an_archive(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="format is that of an archive's files; give the archive's path, or remove it"):
        pipeline_in(tmp_path, format="csv")
