"""The change source in Spark: the example of its docstring, batches, admission, replay after a crash, and what it refuses."""

from __future__ import annotations

import os
import pickle
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

import auditor.pipeline.source as source
from auditor.errors import ConfigError, OffsetWentBack, PositionLost
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.alone  # places in the log are compared, and the log is the whole server's
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
on_mariadb = pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
SECRET = "a-Long1Password"


@pytest.fixture
def log(engine: LiveEngine) -> LiveLog:
    """The log of the server, with an empty table ``orders``."""
    found = LiveLog(engine.url)
    found.run("DROP TABLE IF EXISTS orders", "CREATE TABLE orders (id int PRIMARY KEY, t varchar(300))")
    return found


@pytest.fixture
def config(log: LiveLog, tmp_path: Path) -> Path:
    """A configuration with the connection ``shop``, whose URL is in the environment."""
    path = tmp_path / "auditor.yaml"
    path.write_text(f"connections:\n  shop: {{url: '{log.url}'}}\n  lake: {{url: 'duckdb:///x.duckdb'}}\naudits: {{}}\n")
    return path


@pytest.fixture
def spark(engines: Engines) -> Iterator[SparkSession]:
    """The session of this process; its Python workers find the project and this configuration."""
    from pyspark.sql import SparkSession

    engines.live("spark")
    session = SparkSession.builder.master("local[2]").getOrCreate()
    session.dataSource.register(MySQLBinlog)
    yield session


def test_spark_writes_the_schema_of_events() -> None:
    assert to_arrow_schema(EVENT_TYPE, timezone="UTC").equals(ARROW_SCHEMA)


@pytest.mark.spark
@pytest.mark.slow  # tests/pipeline/test_whole_road.py streams from a live log in every run of the tests
@on_mariadb
def test_the_example_of_the_docstring_runs(
    log: LiveLog, config: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = log.end()
    log.run(*(f"INSERT INTO orders VALUES ({number}, 'a')" for number in range(20)), "UPDATE orders SET t = 'b'", "DELETE FROM orders")
    example = re.search(r"::\n\n((?:    .*\n|\n)+)", source.__doc__ or "")
    assert example
    code = textwrap.dedent(example[1]).replace('"earliest"', f'"{start}"')
    for name in ("auditor.yaml", "events", "checkpoint"):
        assert f'"{name}"' in code
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert scope["query"].exception() is None
    rows = scope["spark"].read.parquet(str(tmp_path / "events")).orderBy("position", "row").collect()
    ours = [row.asDict() for row in rows if row["kind"] != "schema"]
    expected = log.events(start, ["orders"])
    assert [(row["kind"], row["position"], row["row"], row["gtid"], row["before"], row["after"]) for row in ours] == [
        (event["kind"], event["position"], event["row"], event["gtid"], event["before"], event["after"]) for event in expected
    ]
    assert len(ours) == 60
    for stored in (tmp_path / "checkpoint").rglob("*"):
        assert not stored.is_file() or log.url.encode() not in stored.read_bytes(), "no URL enters Spark"
    options = {"config": str(config), "connection": "shop", "tables": "orders", "start": str(start)}
    frame = spark.read.format("mysql_binlog").options(**options).load()
    assert frame.where("kind != 'schema'").count() == 60
    assert log.url not in frame._jdf.queryExecution().toString()


@on_both
def test_batches_end_at_transactions_and_are_planned_alike_after_a_crash(log: LiveLog, config: Path) -> None:
    start = log.end()
    log.run(*(f"INSERT INTO orders VALUES ({number}, REPEAT('x', 200))" for number in range(40)))
    options = {"config": str(config), "connection": "shop", "tables": "orders", "start": str(start), "range_bytes": "1500"}
    reader = MySQLBinlog(options).streamReader(EVENT_TYPE)
    offsets = [reader.initialOffset()]
    assert reader.initialOffset() == offsets[0], "Spark asks twice"
    batches: list[list[Any]] = []
    while True:
        end = reader.latestOffset(offsets[-1], ReadMaxBytes(4000))
        if end == offsets[-1]:
            break
        batches.append(reader.partitions(offsets[-1], end))
        offsets.append(end)
    assert len(batches) > 3 and all(len(partitions) >= 2 for partitions in batches[:-1])
    assert reader.reportLatestOffset()["position"] == offsets[-1]["position"]
    rows = [row for partitions in batches for part in partitions for row in _rows(reader, part)]
    assert [row["after"][0] for row in rows if row["kind"] == "insert"] == [str(number) for number in range(40)]
    # After a crash the batch that was open is planned again, first of all, by a reader that planned nothing before.
    again = pickle.loads(pickle.dumps(reader))
    for begin, end, partitions in zip(offsets[2:], offsets[3:], batches[2:], strict=False):
        assert again.partitions(begin, end) == partitions
    assert again.latestOffset(offsets[-1], ReadAllAvailable()) == offsets[-1]
    with pytest.raises(OffsetWentBack, match=r"a batch would begin at .*, but an earlier one began at .*; restart the query"):
        reader.latestOffset(offsets[0], ReadMaxBytes(4000))
    with pytest.raises(OffsetWentBack, match=r"a batch ends at .*, before it begins at"):
        reader.partitions(offsets[2], offsets[1])
    with pytest.raises(PositionLost, match=r"no transaction ends at .*; refresh the tables"):
        again.partitions(offsets[1], {**offsets[2], "position": offsets[2]["position"] - 1})
    reader.stop()
    with pytest.raises(PositionLost, match="lies beyond the end of the source's binary log"):
        again.latestOffset({**offsets[-1], "position": offsets[-1]["position"] + 10_000_000}, ReadMaxBytes(4000))
    again.stop()


def _rows(reader: Any, part: Any) -> list[dict[str, Any]]:
    return [row for batch in pickle.loads(pickle.dumps(reader)).read(part) for row in batch.to_pylist()]


@on_mariadb
def test_available_now_ends_where_the_log_ended_when_it_began(log: LiveLog, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDITOR_CONFIG", str(config))
    reader = MySQLBinlog({"connection": "shop", "tables": "orders"}).streamReader(EVENT_TYPE)
    start = reader.initialOffset()
    log.run("INSERT INTO orders VALUES (1, 'a')")
    reader.prepareForTriggerAvailableNow()
    log.run("INSERT INTO orders VALUES (2, 'too late')")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    rows = [row for part in reader.partitions(start, end) for row in _rows(reader, part) if row["kind"] != "schema"]
    assert [row["after"][0] for row in rows] == ["1"]
    reader.stop()


@on_both
def test_a_batch_reads_a_range(log: LiveLog, config: Path) -> None:
    start = log.end()
    log.run(*(f"INSERT INTO orders VALUES ({number}, REPEAT('x', 200))" for number in range(40)))
    options = {"config": str(config), "connection": "shop", "tables": "orders", "range_bytes": "1500"}
    for begin, end, expected in ((str(start), str(log.end()), 40), ("latest", "latest", 0)):
        reader = MySQLBinlog({**options, "start": begin, "end": end}).reader(EVENT_TYPE)
        partitions = reader.partitions()
        assert len(partitions) > 4 or not expected
        assert sum(row["kind"] == "insert" for part in partitions for row in _rows(reader, part)) == expected


@on_mariadb
def test_wrong_options_are_refused(log: LiveLog, config: Path) -> None:
    good = {"config": str(config), "connection": "shop", "tables": "orders"}

    def stream(**changed: str) -> Any:
        return MySQLBinlog({name: text for name, text in {**good, **changed}.items() if text}).streamReader(EVENT_TYPE)

    with pytest.raises(ConfigError, match="mysql_binlog needs the option tables"):
        stream(tables="")
    with pytest.raises(ConfigError, match="has no option 'url'; its options are connection, tables, config"):
        stream(url=log.url)
    with pytest.raises(ConfigError, match="has no option 'end'"):
        stream(end="latest")
    with pytest.raises(ConfigError, match="option max_bytes of mysql_binlog must be a whole number from 1 on, not '0'"):
        stream(max_bytes="0")
    with pytest.raises(
        ConfigError, match=r"'yesterday' is no place in a binary log; write its file and position as in binlog\.000012:4567"
    ):
        stream(start="yesterday")
    with pytest.raises(ConfigError, match=r"has no connection 'shup'; connections: lake, shop"):
        stream(connection="shup").initialOffset()
    with pytest.raises(ConfigError, match="connection 'lake' leads to duckdb, which has no binary log"):
        stream(connection="lake").initialOffset()
    first = LiveLog(log.url).run("SHOW BINARY LOGS")[0][0]
    assert stream(start="earliest").initialOffset()["file"] == first
    with pytest.raises(ConfigError, match=r"before it begins at .*; exchange start and end"):
        MySQLBinlog({**good, "start": "latest", "end": f"{first}:4"}).reader(EVENT_TYPE).partitions()


@on_mariadb
def test_no_password_is_in_a_reader_that_travels(engine: LiveEngine, tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(f"connections: {{shop: {{url: '{engine.url.replace('root@', f'root:{SECRET}@')}'}}}}\naudits: {{}}\n")
    reader = MySQLBinlog({"config": str(path), "connection": "shop", "tables": "orders"}).streamReader(EVENT_TYPE)
    with pytest.raises(Exception, match="Access denied") as caught:
        reader.initialOffset()
    assert SECRET not in str(caught.value)
    assert SECRET.encode() not in pickle.dumps(reader)
    assert SECRET not in repr(reader.options.source())
    assert os.fspath(path) in str(pickle.loads(pickle.dumps(reader)).options)
