"""Delta tables as targets: what a commit carries, and what it does where others write the same table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from auditor.connections.writer import open_writer
from auditor.errors import ConfigError
from auditor.pipeline.merge.positions import is_at_one_moment
from auditor.pipeline.reset import forget_positions
from auditor.store import pipelines
from dialects.delta import commits
from tests.durations import SetDurations
from tests.live import Engines, engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_schema_changes import change, comes
from tests.pipeline_events import announce, batch, delete, insert, table
from tests.servers import s3

ORDERS = table(id="bigint", item="varchar(40) null")
MARK = f"auditor/{PIPELINE}/shop.orders"

pytestmark = pytest.mark.parametrize("engine", engine_params("delta"), indirect=True)


def lake_table(road: Road, name: str = "orders") -> DeltaTable:
    return DeltaTable(road.folder / "lake" / road.schema / name)


def others(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "item": ["of another writer"] * len(numbers)})


def ids(road: Road) -> list[int]:
    return [row[0] for row in road.rows()]


def test_a_commit_carries_the_position_also_where_no_row_changes(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    road.loader().merge_all()
    road.stage(batch(delete(ORDERS, 20, ["7", "never there"])))
    assert road.loader().merge_all() == 1
    found = lake_table(road)
    assert (found.transaction_version(MARK), found.version()) == (20, 2)
    assert f"{found.transaction_version(f'{MARK}/schema'):012x}" == ORDERS.id
    pipelines.forget(road.store, PIPELINE)
    assert road.loader().merge_all() == 0 and lake_table(road).version() == 2


def test_others_that_write_the_table_lose_nothing(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    road.loader().merge_all()
    merge, quicker = commits.merge_changes, [100, 101]

    def overtaken(found: DeltaTable, *given: Any) -> None:
        if quicker:
            write_deltalake(road.folder / "lake" / road.schema / "orders", others(quicker.pop()), mode="append")
        merge(found, *given)

    monkeypatch.setattr(commits, "merge_changes", overtaken)
    road.stage(batch(insert(ORDERS, 20, ["2", "b"]), delete(ORDERS, 21, ["1", "a"])))
    assert road.loader().merge_all() == 2
    assert ids(road) == [2, 100, 101] and lake_table(road).transaction_version(MARK) == 21


def test_a_merge_gives_way_to_one_that_never_pauses(road: Road, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    road.loader().merge_all()
    merge, numbers = commits.merge_changes, iter(range(100, 200))

    def overtaken(found: DeltaTable, *given: Any) -> None:
        write_deltalake(road.folder / "lake" / road.schema / "orders", others(next(numbers)), mode="append")
        merge(found, *given)

    monkeypatch.setattr(commits, "merge_changes", overtaken)
    set_durations(longest_commit_pause=0.0)
    road.stage(batch(insert(ORDERS, 20, ["2", "b"])))
    assert road.loader().merge_all() == 0
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "delayed" and "others wrote it 8 times while it was written" in report.reason
    monkeypatch.setattr(commits, "merge_changes", merge)
    assert road.loader().merge_all() == 1 and ids(road) == [1, 2, *range(100, 108)]


def test_a_writer_in_another_process_and_the_merges_lose_nothing(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    road.loader().merge_all()
    path = road.folder / "lake" / road.schema / "orders"
    write = (
        "import pyarrow as pa, sys; from deltalake import write_deltalake; print('begun', flush=True)\n"
        "for n in range(100, 110): write_deltalake(sys.argv[1], pa.table({'id': pa.array([n], pa.int64()), 'item': ['x']}), mode='append')"
    )
    with subprocess.Popen([sys.executable, "-c", write, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout and writer.stdout.readline()
        for number in range(2, 8):
            road.stage(batch(insert(ORDERS, 10 * number, [str(number), "b"])))
            road.loader().merge_all()
    assert writer.returncode == 0
    road.loader().merge_all()
    assert ids(road) == [*range(1, 8), *range(100, 110)]


def test_a_reset_lets_the_table_forget_and_keeps_its_rows(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    road.loader().merge_all()
    forget_positions(road.settings, road.store, PIPELINE, "wh")
    pipelines.forget(road.store, PIPELINE)
    assert lake_table(road).transaction_version(MARK) == 0 and ids(road) == [1]
    assert road.loader().merge_all() == 1 and ids(road) == [1]


def test_a_table_is_emptied_as_the_source_was(road: Road) -> None:
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    road.stage_task(batch(comes(ORDERS, 10, ["1", "a"], ["2", "b"])))
    loader.merge_all()
    road.stage_task(batch(comes(ORDERS, 15, ["3", "old"]), change("orders", 20, {"op": "clear"}), comes(ORDERS, 30, ["4", "x"])))
    loader.merge_all()
    assert ids(road) == [4] and lake_table(road).transaction_version(MARK) == 30
    road.stage_task(batch(change("orders", 40, {"op": "clear"})))
    loader.merge_all()
    assert ids(road) == [] and lake_table(road).transaction_version(MARK) == 40


def test_a_compaction_by_its_owner_changes_no_row(road: Road) -> None:
    for number in range(1, 4):
        road.stage(batch(announce(ORDERS, 10 * number), insert(ORDERS, 10 * number + 1, [str(number), "a"])))
        road.loader().merge_all()
    lake_table(road).optimize.compact()
    lake_table(road).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    road.stage(batch(delete(ORDERS, 50, ["2", "a"])))
    assert road.loader().merge_all() == 1 and ids(road) == [1, 3]


@pytest.fixture
def in_s3(engines: Engines, tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Road, dict[str, str]]]:
    endpoint = engines.companion("s3", s3.start).url
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "tests")
    boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).create_bucket(Bucket="delta-target")
    options = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
    road = Road(tmp_path, "delta+s3://delta-target/lake?" + "&".join(f"{name}={one}" for name, one in options.items()), empty_store)
    yield road, options
    road.close()


def test_a_lake_in_s3(engine: object, in_s3: tuple[Road, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A version is written by a conditional PUT, so that of two writers one begins anew."""
    road, options = in_s3
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    assert road.loader().merge_all() == 1
    merge, quicker = commits.merge_changes, [100]

    def overtaken(found: DeltaTable, *given: Any) -> None:
        if quicker:
            write_deltalake("s3://delta-target/lake/shop/orders", others(quicker.pop()), mode="append", storage_options=options)
        merge(found, *given)

    monkeypatch.setattr(commits, "merge_changes", overtaken)
    road.stage(batch(insert(ORDERS, 20, ["2", "b"])))
    assert road.loader().merge_all() == 1 and ids(road) == [1, 2, 100]


def test_all_tables_at_one_moment_are_refused(road: Road) -> None:
    chosen = road.settings.pipelines[PIPELINE].table_targets["wh"].model_copy(update={"consistency": "target"})
    with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
        assert not is_at_one_moment(session, road.settings.pipelines[PIPELINE].table_targets["wh"])
        with pytest.raises(ConfigError, match=r"a commit of delta is of one table; leave it out, or write consistency: table"):
            is_at_one_moment(session, chosen)
