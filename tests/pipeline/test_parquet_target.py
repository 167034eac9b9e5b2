"""Tables of Parquet as targets: files beside those of older versions, and a pointer that lists the newest ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dialects
from auditor.config import Audit
from auditor.model import Verdict
from auditor.pipeline.reset import forget_positions
from auditor.run import audit_run
from auditor.store import pipelines
from dialects import errors
from dialects.delta import pointed_files as rows
from dialects.delta import pointed_session as session
from dialects.delta.pointer import LocalPointer, Overtaken, Pointer, S3Pointer
from tests.durations import SetDurations
from tests.live import Engines
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_schema_changes import change
from tests.pipeline_events import announce, batch, delete, insert, table, update
from tests.servers import s3

ORDERS = table(id="bigint", item="varchar(40) null", price="decimal(10,2) null", at="timestamp(6) null")
MARK = f"auditor/{PIPELINE}/shop.orders"


@pytest.fixture
def road(tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    (tmp_path / "lake").mkdir()
    made = Road(tmp_path, f"parquet://{tmp_path}/lake", empty_store)
    yield made
    made.close()


def order(number: int, item: str = "pen") -> list[str | None]:
    return [str(number), item, "1.50", "2026-03-01 12:00:00.000001"]


def folder(road: Road) -> Path:
    return road.folder / "lake" / "shop" / "orders"


def files(road: Road) -> list[str]:
    """The files of the newest version, as a reader finds them."""
    found = json.loads((folder(road) / "current.json").read_text())["files"]
    return [f"{folder(road)}/{one['path']}" for one in found]


def numbers(road: Road) -> list[int]:
    return sorted(ds.dataset(files(road)).to_table(columns=["id"])["id"].to_pylist()) if files(road) else []


def test_readers_find_the_rows_by_the_pointer_and_never_by_the_folder(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1), order(2))))
    road.loader().merge_all()
    road.stage(batch(update(ORDERS, 20, (order(1), order(1, "ink"))), delete(ORDERS, 21, order(2)), insert(ORDERS, 22, order(3))))
    assert road.loader().merge_all() == 3
    assert numbers(road) == [1, 3] and len(list((folder(road) / "_files").iterdir())) == 2
    found = duckdb.sql(f"SELECT id, item FROM read_parquet({files(road)}) ORDER BY id")
    assert found and found.fetchall() == [(1, "ink"), (3, "pen")]
    with pytest.raises(duckdb.IOException, match="No files found"):
        duckdb.sql(f"SELECT * FROM read_parquet('{folder(road)}/*.parquet')")
    with pytest.raises(Exception, match=r"current\.json"):
        ds.dataset(folder(road), format="parquet")


def test_rows_and_position_change_by_one_replacement_of_the_pointer(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1))))
    road.loader().merge_all()
    found = json.loads((folder(road) / "current.json").read_text())
    assert (found["marks"][MARK], found["version"]) == (10, 1)
    assert f"{found['marks'][f'{MARK}/schema']:012x}" == ORDERS.id
    pipelines.forget(road.store, PIPELINE)
    assert road.loader().merge_all() == 0
    forget_positions(road.settings, road.store, PIPELINE, "wh")
    assert road.loader().merge_all() == 1 and numbers(road) == [1]


def killed_at(config: Path, moment: str) -> None:
    """Merge in this process, which is killed before or after the pointer is replaced."""
    replace = LocalPointer.replace

    def kill(self: LocalPointer, pointer: Pointer, known: str | None) -> None:
        if known is not None and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(self, pointer, known)
        if known is not None and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    LocalPointer.replace = kill  # type: ignore[method-assign]
    from tests.pipeline.killed import merge

    merge(config, "shop")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_replacement(road: Road, moment: str, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1), order(2))))
    road.loader().merge_all()
    held = {1, 2}
    for round_ in range(3, 8):
        road.stage(batch(insert(ORDERS, 10 * round_, order(round_)), delete(ORDERS, 10 * round_ + 1, order(round_ - 2))))
        process = multiprocessing.get_context("spawn").Process(target=killed_at, args=(road.config_file, moment))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        wanted = (held | {round_}) - {round_ - 2}
        assert set(numbers(road)) == (held if moment == "before" else wanted)
        assert road.loader().merge_all() == (2 if moment == "before" else 0)
        held = wanted
        assert set(numbers(road)) == held
    left = {f"{folder(road)}/_files/{one.name}" for one in (folder(road) / "_files").iterdir()}
    gone = {f"{folder(road)}/{one['path']}" for one in json.loads((folder(road) / "current.json").read_text())["gone"]}
    assert len(left - gone - set(files(road))) == (5 if moment == "before" else 0)
    set_durations(unfinished_file=0.0)
    monkeypatch.setattr(session, "DAY", 0)
    road.stage(batch(insert(ORDERS, 200, order(100))))
    road.loader().merge_all()
    road.stage(batch(insert(ORDERS, 210, order(101))))
    road.loader().merge_all()
    assert len(list((folder(road) / "_files").iterdir())) == 2  # the newest, and the one that it replaced just now


def test_only_files_with_changed_rows_and_small_ones_are_written_again(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FILE_ROWS", 4)
    monkeypatch.setattr(session, "SMALL", 2)
    monkeypatch.setattr(session, "ARROW_ROWS", 2)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *(order(n) for n in range(12)))))
    road.loader().merge_all()
    before = files(road)
    assert len(before) == 3
    road.stage(batch(update(ORDERS, 20, (order(5), order(5, "ink"))), delete(ORDERS, 21, order(99))))
    road.loader().merge_all()
    assert files(road)[:2] == [before[0], before[2]] and len(files(road)) == 3
    road.stage(batch(insert(ORDERS, 30, order(50))))
    road.loader().merge_all()
    road.stage(batch(insert(ORDERS, 40, order(51))))
    road.loader().merge_all()
    assert len(files(road)) == 4 and set(files(road)) >= {before[0], before[2]}  # the file of one row was written again with the other
    road.stage(batch(delete(ORDERS, 50, *(order(n) for n in (*range(12), 50, 51)))))
    road.loader().merge_all()
    assert files(road) == [] and road.rows() == []


def test_files_of_older_versions_go_when_their_time_is_over(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake").mkdir()
    road, now = Road(tmp_path, f"parquet://{tmp_path}/lake?keep=100", empty_store), [2e9]
    monkeypatch.setattr("dialects.delta.pointed_session.time.time", lambda: now[0])
    monkeypatch.setattr(session, "list_files", lambda *_: {f"_files/{one.name}": now[0] for one in (folder(road) / "_files").iterdir()})
    counts = []
    for number in range(1, 5):
        road.stage(batch(announce(ORDERS, 10 * number), insert(ORDERS, 10 * number + 1, order(number))))
        road.loader().merge_all()
        counts.append(len(list((folder(road) / "_files").iterdir())))
        now[0] += 60
    assert counts == [1, 2, 3, 3] and numbers(road) == [1, 2, 3, 4]
    road.close()


def test_of_two_writers_one_begins_anew(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1))))
    road.loader().merge_all()
    replace, quicker = LocalPointer.replace, [True]

    def overtaken(self: LocalPointer, new: Any, known: str | None) -> None:
        if quicker and quicker.pop():
            found = self.read()
            assert found
            replace(self, Pointer(found[0].version + 1, found[0].columns, found[0].files, {**found[0].marks, "other": 7}), found[1])
        replace(self, new, known)

    monkeypatch.setattr(LocalPointer, "replace", overtaken)
    road.stage(batch(insert(ORDERS, 20, order(2))))
    assert road.loader().merge_all() == 1 and numbers(road) == [1, 2]
    found = json.loads((folder(road) / "current.json").read_text())
    assert (found["version"], found["marks"]["other"], found["marks"][MARK]) == (3, 7, 20)
    assert len(list((folder(road) / "_files").iterdir())) == 2  # what was written for the version that was taken is gone


def test_an_exact_audit_resolves_the_pointer(road: Road, tmp_path: Path) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *(order(n) for n in range(500)))))
    road.loader().merge_all()
    with duckdb.connect(str(tmp_path / "source.duckdb")) as connection:
        connection.execute(f"CREATE TABLE orders AS SELECT * FROM read_parquet({files(road)})")
        connection.execute("UPDATE orders SET price = 2 WHERE id = 77")
    source = road.settings.connections["warehouse"].model_copy(update={"url": f"duckdb:///{tmp_path}/source.duckdb", "write": None})
    ends = {"source": {"connection": "source", "table": "orders"}, "target": {"connection": "lake", "table": "shop.orders"}}
    connections = {"source": source, "lake": road.settings.connections["warehouse"]}
    report = audit_run.run("orders", Audit.model_validate({**ends, "key": ["id"], "method": "exact"}), connections)
    assert report.verdict is Verdict.MISMATCH and report.differences, report.reasons
    assert [(one.kind, one.key) for one in report.differences.named] == [("changed", {"id": "77"})]
    road.stage(batch(update(ORDERS, 20, (order(77), ["77", "pen", "2.00", order(77)[3]]))))
    road.loader().merge_all()
    assert audit_run.run("orders", Audit.model_validate({**ends, "key": ["id"]}), connections).verdict is Verdict.MATCH
    older = {**ends["target"], "version": 1}
    report = audit_run.run("orders", Audit.model_validate({**ends, "target": older, "key": ["id"]}), connections)
    assert report.verdict is Verdict.UNKNOWN and "keeps its newest version alone; leave version (1) out" in " ".join(report.reasons)


def test_a_column_that_the_table_lacks_is_added_by_the_printed_statement(road: Road) -> None:
    now = [0.0]
    loader, wider = road.loader(clock=lambda: now[0]), table(id="bigint", item="varchar(40) null", tax="decimal(10,2) null")
    first = table(id="bigint", item="varchar(40) null")
    road.stage(batch(announce(first, 1), insert(first, 10, ["1", "a"]), announce(wider, 15), insert(wider, 20, ["2", "b", "1.50"])))
    loader.merge_all()
    reason = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].reason
    assert reason.startswith("shop.orders has a column 'tax' (decimal(10,2)), which the target lacks; run there: ALTER TABLE ")
    road.execute(reason.partition("run there: ")[2])
    now[0] += 100
    loader.merge_all()
    assert [(row[0], str(row[2])) for row in road.rows()] == [(1, "None"), (2, "1.50")]


def test_a_table_that_was_renamed_stops(road: Road) -> None:
    two = table(id="bigint", item="varchar(40) null")
    road.stage_task(batch(announce(two, 1), insert(two, 10, ["1", "a"])))
    road.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.sold"})), batch(change("sold", 20, {"op": "moved", "from": "shop.orders"}))
    )
    road.loader().merge_all()
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "stopped" and "a pipeline renames no tables of this target; rename the table there" in report.reason
    assert road.rows() == [(1, "a")]


def test_a_table_that_was_made_anew_is_another(tmp_path: Path) -> None:
    """Its pointer has a version of the same number; a session that stays open reads what it lists now, except within a snapshot."""
    uri = f"{tmp_path}/orders"

    def make(number: int) -> None:
        shutil.rmtree(uri, ignore_errors=True)
        files = rows.write_files(uri, {}, 0, pa.table({"id": pa.array([number], pa.int64())}).to_batches())
        LocalPointer(uri).replace(Pointer(0, {"id": "BIGINT"}, files), None)

    with closing(dialects.connect(f"parquet://{tmp_path}")) as reader:
        for number in range(3):
            make(number)
            assert reader.query('SELECT "id" FROM "orders"') == [(number,)]
        reader.begin()
        assert reader.query('SELECT "id" FROM "orders"') == [(2,)]
        make(3)
        with pytest.raises(errors.EngineError):
            reader.query('SELECT "id" FROM "orders"')
        reader.end()
        assert reader.query('SELECT "id" FROM "orders"') == [(3,)]


def test_a_document_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "current.json").write_text('{"format": 2}')
    with pytest.raises(errors.StatementRefused, match="is no pointer of format 1; a newer version of the auditor may have written it"):
        LocalPointer(str(tmp_path)).read()


@pytest.fixture
def endpoint(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> str:
    """An S3 with the bucket ``pointed``."""
    found = engines.companion("s3", s3.start).url
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "tests")
    boto3.client("s3", region_name="us-east-1", endpoint_url=found).create_bucket(Bucket="pointed")
    return found


@pytest.mark.slow
def test_tables_in_s3(endpoint: str, tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer is put on condition that it is still the one that was read."""
    options = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
    road = Road(tmp_path, "parquet+s3://pointed/lake?keep=0&" + "&".join(f"{name}={one}" for name, one in options.items()), empty_store)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1))))
    assert road.loader().merge_all() == 1
    place = S3Pointer("s3://pointed/lake/shop/orders", options)
    known = place.read()
    assert known
    with pytest.raises(Overtaken):
        place.replace(Pointer(9, {}), "of another")
    with pytest.raises(Overtaken):
        place.replace(Pointer(9, {}), None)
    place.replace(known[0], "of another")  # a PUT whose answer was lost, and which was repeated: it overtook itself
    for number in (2, 3):
        road.stage(batch(insert(ORDERS, 10 * number, order(number)), delete(ORDERS, 10 * number + 1, order(1))))
        assert road.loader().merge_all() == 2
    assert [row[0] for row in road.rows()] == [2, 3]
    found = boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).list_objects_v2(Bucket="pointed")["Contents"]
    assert len(found) == 1 + 2  # the pointer, the newest file, and the one that it replaced just now
    road.close()


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_it_while_it_is_merged(engines: Engines, road: Road) -> None:
    import dialects

    opened: Any = dialects.connect(engines.live("spark").url)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *(order(n) for n in range(50)))))
    road.loader().merge_all()
    listed = opened.spark.read.parquet(*files(road))
    road.stage(batch(delete(ORDERS, 20, *(order(n) for n in range(20))), insert(ORDERS, 21, order(100))))
    road.loader().merge_all()
    assert listed.count() == 50
    found = opened.spark.read.parquet(*files(road))
    assert found.count() == 31 and dict(found.dtypes) == {"id": "bigint", "item": "string", "price": "decimal(10,2)", "at": "timestamp"}
    with pytest.raises(Exception, match=r"current\.json|UNABLE_TO_INFER_SCHEMA"):
        opened.spark.read.parquet(str(folder(road))).count()
