"""What a pipeline refuses, or ends with, and the sentence that says what to do next."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import delete

from auditor.background import Service
from auditor.config import Pipeline, PipelineColumns
from auditor.errors import ColumnRefused, LogRefused, PipelineFailed
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog import ranges
from auditor.pipeline.binlog.log_connection import Request, Source
from auditor.pipeline.binlog.ranges import LogScan, Mark
from auditor.pipeline.columns import Projection, Rules
from auditor.pipeline.events import Place
from auditor.pipeline.run import Run
from auditor.pipeline.spark import check_alive
from auditor.pipeline.stage_task import TableRules, stage_task
from auditor.store import parts, pipelines
from auditor.store.parts import table_schemas
from tests.pipeline.conftest import TARGETS
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")
SETTINGS = {
    "source": {"connection": "source", "tables": ["*"]},
    "staging": {"path": "/nowhere"},
    "targets": {"wh": {"connection": "warehouse", "schema": "shop"}},
}


def test_a_mask_without_a_salt() -> None:
    with pytest.raises(ColumnRefused, match=r"^shop\.orders: columns are masked, and there is no salt; open the store first$"):
        Projection(ORDERS, Rules(PipelineColumns.model_validate({"mask": ["item"]}), b""))


def test_events_of_a_schema_that_the_source_did_not_announce(tmp_path: Path) -> None:
    rules = TableRules(Pipeline.model_validate(SETTINGS), b"salt")
    other = table("items", id="bigint")
    [told] = stage_task(str(tmp_path), rules, [batch(announce(other, 1), insert(other, 2, ["1"])), batch(insert(ORDERS, 3, ["1", "a"]))])
    sentence = f"StagingFailed: the source announced no schema {ORDERS.id} before its events; report this as a bug of the source"
    assert told["error"].to_pylist() == [sentence] and not list(tmp_path.iterdir()), "nothing of the task was written"


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id == "duckdb"], indirect=True)
def test_a_part_whose_schema_the_store_lost(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    with road.store.engine.begin() as connection:
        connection.execute(delete(table_schemas))
    assert parts.get_schema(road.store, PIPELINE, ORDERS.id) is None
    assert road.loader().merge_all() == 0
    found = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    sentence = f"the schema {ORDERS.id} of a part is not in the store; reset the pipeline, and copy its tables again"
    assert (found.state, found.reason) == ("stopped", sentence)


def _event(kind: int, body: bytes, end: int) -> bytes:
    return types.HEADER.pack(1_700_000_000, kind, 1, types.HEADER.size + len(body), end & 0xFFFFFFFF, 0) + body


def test_a_file_of_the_log_of_more_than_4_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    last = (1 << 32) - 500
    text = bytes(13) + b"\0BEGIN"  # no variables, no name of a database
    begin = _event(types.QUERY, text, last + types.HEADER.size + len(text))
    events = [begin, _event(types.XID, bytes(8), last + 100), begin, _event(types.XID, bytes(8), last + 900)]
    dump = SimpleNamespace(mariadb=False, events=lambda head: ((one, 0, len(one)) for one in events), close=lambda: None)
    monkeypatch.setattr(ranges, "Dump", lambda request: dump)
    scan = LogScan(
        Request(Source("mysql://h/d", "shop"), Place("binlog.000001", last), 7), Mark(Place("binlog.000001", last)), 1 << 20, 0.0
    )
    sentence = f"binlog.000001 grows beyond 4 GiB after binlog.000001:{last + 100}, where no position reaches; refresh the tables"
    with pytest.raises(LogRefused, match=sentence):
        scan.advance(Place("binlog.000002", 4))


def test_java_that_ended() -> None:
    class Ended:
        def __getattr__(self, name: str) -> Any:
            raise ConnectionRefusedError(name)

    spark: Any = SimpleNamespace(sparkContext=Ended())
    with pytest.raises(PipelineFailed, match=r"^Spark's Java process ended; start the pipeline again, which continues where it stopped$"):
        check_alive(spark)


def test_temporary_files_of_spark_that_were_removed(tmp_path: Path) -> None:
    context = SimpleNamespace(_temp_dir=str(tmp_path), _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
    spark: Any = SimpleNamespace(sparkContext=context)
    check_alive(spark)
    tmp_path.rmdir()
    with pytest.raises(PipelineFailed, match=rf"^Spark's temporary files, {tmp_path}, were removed; start the pipeline again, which"):
        check_alive(spark)


def test_a_thread_that_ends_by_a_bug_ends_the_run() -> None:
    nothing: Any = None
    run = Run(nothing, Path(), nothing, "shop", [])
    with ExitStack() as held:
        run.start_service(Service("loader wh", nothing, stopping=run.stop), held)
        assert run.stop.wait(10)
    assert [str(one) for one in run.lost] == ["loader wh ended by an unexpected TypeError; the log has its traceback"]
