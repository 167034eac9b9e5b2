"""Parts in S3: written, read, swept and deleted as those in a folder, by a pipeline whose driver plans the batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from auditor import config
from auditor.cli import main
from auditor.errors import PartDamaged, StagingFailed
from auditor.pipeline.folders import S3Folder, folder_at
from auditor.pipeline.joining import Joining
from auditor.pipeline.part_deletion import PartDeleter
from auditor.pipeline.segments.verifying import check_segment
from auditor.pipeline.segments.writer import open_writer
from auditor.pipeline.staged_parts import read_part, sweep
from auditor.pipeline.watch import disk_room
from auditor.store import parts, segments
from tests.durations import SetDurations
from tests.live import Engines
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table
from tests.servers import s3

ORDERS = table(id="bigint", item="varchar(40) null")
BUCKET = "staging"


def environment_of(endpoint: str) -> dict[str, str]:
    """The environment of a process that uses a server's S3."""
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
    return {**keys, "AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def bucket(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket that the environment leads to; yields its endpoint."""
    endpoint = engines.companion("s3", s3.start).url
    for name, value in environment_of(endpoint).items():
        monkeypatch.setenv(name, value)
    _forget_client()
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield endpoint
    folder = S3Folder(f"s3://{BUCKET}")
    folder.delete(list(folder.names()))
    client.delete_bucket(Bucket=BUCKET)
    _forget_client()


def _forget_client() -> None:
    from auditor.pipeline import folders

    folders.s3_client.cache_clear()


@pytest.fixture
def road(bucket: str, tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    text = made.config_file.read_text().replace(f"{tmp_path}/staging", f"s3://{BUCKET}/shop/")
    made.config_file.write_text(text)
    made.settings = config.load(made.config_file)
    made.root = folder_at(made.settings.pipeline(PIPELINE).staging.path)  # type: ignore[assignment]
    yield made
    made.close()


def folder_of(road: Road) -> S3Folder:
    folder: Any = road.root
    assert isinstance(folder, S3Folder)
    return folder


def test_parts_in_s3_are_merged_swept_and_deleted(road: Road) -> None:
    folder = folder_of(road)
    assert str(folder) == f"s3://{BUCKET}/shop" and disk_room(folder, 0) is None
    folder.make()
    [part] = road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.stage_task(batch(announce(ORDERS, 11), insert(ORDERS, 20, ["3", "c"])))
    assert road.loader().merge_all() == 3 and road.rows() == [(1, "a"), (2, "b"), (3, "c")]
    folder.put("batches/0000000000000000005.1.arrows", b"of a batch that was never listed")
    folder.put("segments/shop.orders/1.parquet", b"a segment")
    folder.put("planned.json", b"{}")
    assert sweep(folder, parts.list_paths(road.store, PIPELINE)) == ["batches/0000000000000000005.1.arrows"]
    assert folder.read_note("planned.json") == "{}" and folder.read_note("other") is None
    folder.put(part.path, folder.get("batches/" + part.path.rpartition("/")[2]))
    pipeline = road.settings.pipeline(PIPELINE)
    assert PartDeleter(road.store, PIPELINE, folder).prune(pipeline, 0) == 2
    assert sorted(folder.names()) == ["planned.json", "segments/shop.orders/1.parquet"]
    with pytest.raises(
        StagingFailed, match=rf"the part of shop.orders in s3://{BUCKET}/shop/{part.path} is missing; check that this process reaches"
    ):
        list(read_part(folder, part, 0))


def test_a_part_of_another_batch_is_noticed_and_a_reset_deletes_all(road: Road) -> None:
    [part] = road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    [other] = road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 30, ["1", "a"])))
    folder = folder_of(road)
    folder.put(part.path, folder.get(other.path))
    with pytest.raises(PartDamaged, match="has other bytes than were written"):
        list(read_part(folder, part, 0))
    assert main(["pipeline", "reset", PIPELINE, "--name-again", PIPELINE, "--config", str(road.config_file)]) == 0
    assert list(folder.names()) == []


def test_files_in_s3_are_joined_and_merged(road: Road, set_durations: SetDurations) -> None:
    folder = folder_of(road)
    for position in range(10, 140, 10):
        road.stage_task(batch(announce(ORDERS, position - 1), insert(ORDERS, position, [str(position), "a"])))
    joiner = Joining(road.store, PIPELINE, folder)
    assert joiner.join() == 11 and len(list(folder.names())) == 13 + 2
    set_durations(part_reader=0.0)
    assert joiner.join() == 0 and set(folder.names()) == parts.list_paths(road.store, PIPELINE) and len(list(folder.names())) == 4
    assert road.loader().merge_all() == 13 and road.rows() == [(position, "a") for position in range(10, 140, 10)]
    assert sweep(folder, parts.list_paths(road.store, PIPELINE)) == []


def test_segments_in_s3_are_read_by_range_swept_and_reset(road: Road, tmp_path: Path) -> None:
    folder, others = folder_of(road), table("others", id="bigint", item="varchar(40) null")
    road.config_file.write_text(road.config_file.read_text().replace("    targets:", "    segment: {rows: 2}\n    targets:"))
    pipeline = config.load(road.config_file).pipeline(PIPELINE)
    road.stage_task(*(batch(announce(one, 9), insert(one, 10, ["1", "a"], ["2", "b"], ["3", "c"])) for one in (ORDERS, others)))
    folder.put("segments/0000000000000000010-left.1.arrows", b"of a step that was killed")
    writer = open_writer(road.store, PIPELINE, pipeline)
    assert writer.step()
    listed = [one for name in ("orders", "others") for one in segments.list_segments(road.store, PIPELINE, f"shop.{name}")]
    assert {one.path for one in listed} == {path for path in folder.names() if path.startswith("segments/")} and len(listed) == 2
    assert [check_segment(writer.folder, one) for one in listed] == ["", ""]
    assert [writer.folder.read(one)["after"].to_pylist() for one in listed] == [[["1", "a"], ["2", "b"]]] * 2
    folder.delete([listed[0].path])
    assert "the segment of shop.orders in s3://" in check_segment(writer.folder, listed[0])
    folder.put(listed[0].path, b"shorter")
    assert "the segment of shop.others in s3://" in check_segment(writer.folder, listed[1])
    assert main(["pipeline", "reset", PIPELINE, "--name-again", PIPELINE, "--config", str(road.config_file)]) == 0
    assert list(folder.names()) == []


def test_a_bucket_that_is_not_there_is_named(bucket: str) -> None:
    with pytest.raises(StagingFailed, match=r"the staging's folder s3://nowhere/shop cannot be created: .*404.*; create it, or correct"):
        folder_at("s3://nowhere/shop").make()
