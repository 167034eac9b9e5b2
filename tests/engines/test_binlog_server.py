"""Which server a stream reads: another one behind the same connection is refused, and an offset goes on where it was logged."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from auditor import config
from auditor.errors import ConfigError, SourceReplaced
from auditor.pipeline.run import Run
from auditor.pipeline.source import EVENT_TYPE, BinlogStream, MySQLBinlog
from auditor.store import open_store
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.alone  # places in the log are compared, and the log is the whole server's
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
OTHERS = {"mysql": "11111111-2222-3333-4444-555555555555", "mariadb": "server id 77, domain 0"}


@pytest.fixture
def log(engine: LiveEngine) -> LiveLog:
    """The log of the server, with an empty table ``served``."""
    found = LiveLog(engine.url)
    found.run("DROP TABLE IF EXISTS served", "CREATE TABLE served (id int PRIMARY KEY)")
    return found


def open_stream(log: LiveLog, folder: Path, start: str) -> BinlogStream:
    path = folder / "auditor.yaml"
    path.write_text(f"connections:\n  shop: {{url: '{log.url}'}}\naudits: {{}}\n")
    return MySQLBinlog({"config": str(path), "connection": "shop", "tables": "served", "start": start}).streamReader(EVENT_TYPE)


def read(stream: BinlogStream, start: dict[str, Any]) -> list[str]:
    """The first columns of the rows from an offset to the log's end."""
    partitions = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    rows = [row for part in partitions for batch in stream.read(part) for row in batch.to_pylist()]  # type: ignore[arg-type]
    return [row["after"][0] for row in rows if row["kind"] == "insert"]


@on_both
def test_another_server_behind_the_connection_is_refused(log: LiveLog, engine: LiveEngine, tmp_path: Path) -> None:
    log.run("INSERT INTO served VALUES (1)")
    first = open_stream(log, tmp_path, str(log.end()))
    begin = first.initialOffset()
    log.run("INSERT INTO served VALUES (2)")
    end = first.latestOffset(begin, ReadAllAvailable())
    assert end["server"] == begin["server"] and end["gtid"]
    first.stop()
    for wrong, sentence in (
        (
            {"server": OTHERS["mysql" if engine.name == "mysql" else "mariadb"]},
            r"connection shop leads to another server \(.+\) than the one that was read \(.+\); let the",
        ),
        ({"gtid": _unknown(end["gtid"])}, r"leads to a server whose log has no transaction .+ before .+: it was reset, or restored from"),
    ):
        stream = open_stream(log, tmp_path, "latest")
        with pytest.raises(SourceReplaced, match=sentence):
            stream.latestOffset({**end, **wrong}, ReadAllAvailable())
        with pytest.raises(SourceReplaced, match=sentence):  # a batch that was open when the driver was killed
            stream.partitions({**begin, **wrong}, end)
        stream.stop()


@on_both
def test_an_offset_goes_on_where_it_was_logged_with_what_was_prepared(log: LiveLog, tmp_path: Path) -> None:
    stream = open_stream(log, tmp_path, str(log.end()))
    begin = stream.initialOffset()
    log.run("XA START 'held'", "INSERT INTO served VALUES (3)", "XA END 'held'", "XA PREPARE 'held'")
    end = stream.latestOffset(begin, ReadAllAvailable())
    stream.stop()
    log.run("XA COMMIT 'held'", "INSERT INTO served VALUES (4)")
    again = open_stream(log, tmp_path, json.dumps(end))
    assert again.initialOffset() == end
    assert read(again, again.initialOffset()) == ["3", "4"]
    again.stop()
    with pytest.raises(ConfigError, match=r'start of mysql_binlog is no offset: \{"file": 1\}; give one as Spark logs it, or FILE:POS'):
        open_stream(log, tmp_path, '{"file": 1}')


def _unknown(gtid: str) -> str:
    """A global id that the server has not given."""
    separator = ":" if ":" in gtid else "-"
    return f"{gtid.rpartition(separator)[0]}{separator}999999999"


@on_both
def test_a_new_pipeline_begins_where_its_log_ended_however_often_it_is_started(log: LiveLog, tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    duckdb = f"duckdb:///{tmp_path}/warehouse.duckdb"
    path.write_text(
        f"connections:\n  shop: {{url: '{log.url}'}}\n  duck: {{url: '{duckdb}', write: {{url: '{duckdb}'}}}}\naudits: {{}}\npipelines:\n"
        f"  served:\n    source: {{connection: shop, tables: [served]}}\n    staging: {{path: '{tmp_path}/staging'}}\n"
        "    targets: {duck: {connection: duck, schema: main}}\n"
    )
    settings = config.load(path)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        begin = log.end()
        run = Run(settings, path, store, "served", ["duck"])
        first = run.stream_options()["start"]
        log.run("INSERT INTO served VALUES (5)")
        again = run.stream_options()["start"]
    assert json.loads(first) == json.loads(again) and json.loads(first)["position"] == begin.offset
    stream = open_stream(log, tmp_path, again)
    assert read(stream, stream.initialOffset()) == ["5"]
    stream.stop()
