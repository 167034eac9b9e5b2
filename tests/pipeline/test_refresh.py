"""Existing rows of a live server enter its log in chunks, between the changes of writers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymysql.constants import ER
from pymysql.err import OperationalError

from auditor.cli._pipeline import refresh_lines
from auditor.config import WriteSettings
from auditor.errors import AccessDenied, ConfigError, ConnectionLost, LeaseTaken, RefreshRefused
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.events import ColumnSchema, Place, TableSchema
from auditor.pipeline.refresh import carrier, chunk_writer, source_tables
from auditor.pipeline.refresh import use_cases as service
from auditor.pipeline.refresh.carrier import Carrier
from auditor.pipeline.refresh.chunk_writer import ChunkWriter, Sending
from auditor.pipeline.refresh.keys import KeyColumns
from auditor.pipeline.refresh.plan import make_plan
from auditor.pipeline.refresh.source_tables import SourceTables, find_obstacles, open_writer, writer_of
from auditor.pipeline.segments.verifying import check_segment
from auditor.pipeline.segments.writer import folder_of
from auditor.pipeline.segments.writer import open_writer as open_segments
from auditor.points import armed, followed
from auditor.service.certify.log_columns import KINDS
from auditor.store import Store, open_store, refreshes, segments
from auditor.store.refreshes import Refresh, RefreshScope
from tests import tables
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.one_table import allow_one_table
from tests.pipeline.road import PIPELINE
from tests.pipeline.test_types import every_sample
from tests.servers import mysql

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]  # places in the log are compared, and the log is the whole server's
ROWS = 3000


WITH_TABLES, WITH_ONE_TABLE = "with tables", "with one table"
"""Whether refreshes may make their own tables on the source, or have one table alone."""

MADE = [
    pytest.param(*one.values, made, id=f"{one.id}-{made}", marks=[*one.marks, *([] if is_quick else [pytest.mark.slow])])
    for made, quick in ((WITH_TABLES, "mysql"), (WITH_ONE_TABLE, "mariadb"))
    for one in engine_params("mysql", "mariadb")
    for is_quick in (one.id == quick,)
]
"""Either way on each engine; a normal run has each way on one of them, for what a way writes is the same on both."""


@pytest.fixture(params=engine_params("mysql", "mariadb"))
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path) -> Iterator[LiveRoad]:
    made = LiveRoad(tmp_path, engine, "refreshed_*", "{}")
    yield made
    made.close()


def fill(engine: LiveEngine, rows: int = ROWS) -> LiveLog:
    """Make the table of the tests."""
    log = LiveLog(engine.url)
    values = ", ".join(f"({n}, 'item {n}', {n}.25)" for n in range(1, rows + 1))
    log.run(
        "DROP TABLE IF EXISTS refreshed_orders",
        "CREATE TABLE refreshed_orders (id bigint unsigned PRIMARY KEY, item varchar(40), price decimal(10,2), half int AS (id DIV 2))",
        f"INSERT INTO refreshed_orders (id, item, price) VALUES {values}",
    )
    return log


ALL = RefreshScope()


def refresh(road: LiveRoad, asked: RefreshScope = ALL, table: str = "refreshed_orders") -> Refresh:
    found = refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.{table}", asked, "ops")
    Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
    return refreshes.get_refresh(road.store, found.refresh)


def both(road: LiveRoad, engine: LiveEngine, table: str = "refreshed_orders") -> tuple[list[Any], list[Any]]:
    """The rows of the source and of the target."""
    return tables.query(engine, f"SELECT * FROM {table} ORDER BY 1"), road.query(f"SELECT * FROM shop.{table} ORDER BY 1")


@pytest.mark.quick_for("mariadb")
@pytest.mark.parametrize(("engine", "made"), MADE, indirect=["engine"])
def test_a_table_is_copied_while_it_is_written_to(road: LiveRoad, engine: LiveEngine, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_writer, "MOST_CHARACTERS", 20_000)  # so that a chunk is written in several pieces
    if made == WITH_ONE_TABLE:
        allow_one_table(road, engine)
        assert "has auditor_refresh.chunks alone, so rows travel" in dict(find_obstacles(road.settings, PIPELINE, []))["refreshes"]
    log, done = fill(engine), threading.Event()

    def write() -> None:
        random_ = random.Random(5)
        while not done.is_set():
            key, other = random_.randrange(1, ROWS + 500), random_.randrange(1, ROWS + 500)
            try:
                log.run(
                    f"UPDATE refreshed_orders SET item = 'changed {random_.random()}' WHERE id = {key}",
                    f"DELETE FROM refreshed_orders WHERE id = {other}",
                    f"INSERT IGNORE INTO refreshed_orders (id, item) VALUES ({random_.randrange(1, ROWS + 500)}, 'new')",
                    f"UPDATE IGNORE refreshed_orders SET id = {other} WHERE id = {key + 1}",
                )
            except OperationalError as error:
                assert error.args[0] == ER.LOCK_DEADLOCK, error  # with a chunk, whose rows are locked: an application tries again

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = refresh(road)
    finally:
        done.set()
        writer.join()
    assert (found.state, found.reason) == ("done", "") and found.progress["chunks"] > 2
    begin, end = (found.progress[name] for name in ("begin", "end"))
    assert Place(*begin[:2]).order < Place(*end[:2]).order and begin[2:] == end[2:]
    road.merge()
    source, target = both(road, engine)
    assert target == source
    if made == WITH_ONE_TABLE:
        assert log.run("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'auditor_refresh'") == [(1,)]
    # What the target has wrong is mended, and what the source lacks goes.
    road.execute("UPDATE shop.refreshed_orders SET item = 'damaged' WHERE id % 7 = 0", "DELETE FROM shop.refreshed_orders WHERE id % 5 = 0")
    road.execute("INSERT INTO shop.refreshed_orders (id, item) VALUES (1000000, 'ghost')")
    refresh(road)
    road.merge()
    assert both(road, engine)[1] == source


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", slow=["mysql"]), indirect=True)
def test_a_range_and_a_list_of_keys(road: LiveRoad, engine: LiveEngine) -> None:
    log = fill(engine, 50)
    refresh(road)
    road.merge()
    log.run(
        "SET sql_log_bin = 0",
        "DELETE FROM refreshed_orders WHERE id IN (5, 6, 40)",
        "UPDATE refreshed_orders SET item = 'unseen' WHERE id IN (7, 41, 42)",
    )
    refresh(road, RefreshScope(ranges=((("4",), ("10",)),), keys=(("40",), ("41",), ("999",))))
    road.merge()
    source, target = both(road, engine)
    assert [one for one in target if one not in source] == [(42, "item 42", source[0][2].__class__("42.25"), 21)]
    assert len(target) == len(source)


@pytest.mark.parametrize(("engine", "made"), MADE, indirect=["engine"])
@pytest.mark.parametrize("kinds", sorted(KINDS))
def test_rows_of_every_type_are_read_as_they_were_inserted(engine: LiveEngine, road: LiveRoad, kinds: str, made: str) -> None:
    if made == WITH_ONE_TABLE:
        allow_one_table(road, engine)
    log, samples = LiveLog(engine.url), every_sample(engine.name, kinds)
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    depth = max(len(sample.values) for sample in samples)
    rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
    start = log.end()
    log.run(
        "DROP TABLE IF EXISTS refreshed_types",
        f"CREATE TABLE refreshed_types (id int PRIMARY KEY, {columns})",
        *(f"INSERT INTO refreshed_types VALUES ({row}, {values})" for row, values in enumerate(rows)),
    )
    assert refresh(road, table="refreshed_types").state == "done"
    selection = Selection(["refreshed_types"], log.database, refreshes_of(road.settings, PIPELINE))
    reading = Reading(log.source, selection, 0, 20)
    events = [event for one in log.scan(start) for batch in reading.batches(one) for event in batch.to_pylist()]
    inserted, refreshed = ([(one["schema_id"], one["after"]) for one in events if one["kind"] == kind] for kind in ("insert", "refresh"))
    assert len(inserted) == depth and refreshed == inserted


def test_tables_by_other_keys(road: LiveRoad, engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    words = ["Straße", "strasse", "a'b", "z\\\\", "Zebra", "ähre", "ahre 2", "", " x", "𝄞"]
    values = ", ".join(f"('{one.replace(chr(39), chr(39) * 2)}', {n % 3}, x'{n:02x}00')" for n, one in enumerate(words))
    log.run(
        "DROP TABLE IF EXISTS refreshed_words, refreshed_pairs, refreshed_bytes",
        "CREATE TABLE refreshed_words (word varchar(40) COLLATE utf8mb4_bin PRIMARY KEY, region int, data varbinary(8))",
        f"INSERT INTO refreshed_words VALUES {values}",
        "CREATE TABLE refreshed_pairs (word varchar(40), region int, data varbinary(8), PRIMARY KEY (region, data, word))",
        "INSERT INTO refreshed_pairs SELECT * FROM refreshed_words",
        "CREATE TABLE refreshed_bytes (data varbinary(8), at datetime(3), PRIMARY KEY (data, at))",
        "INSERT INTO refreshed_bytes SELECT data, '2026-11-23 01:02:03.004' + INTERVAL region HOUR FROM refreshed_words",
    )
    road.execute("CREATE SCHEMA shop", "CREATE TABLE shop.refreshed_words (word VARCHAR PRIMARY KEY, region INTEGER, data BLOB)")
    road.execute("INSERT INTO shop.refreshed_words VALUES ('ghost', 1, NULL), ('Zebra', 7, NULL)")
    schemas = [one.schema for one in service.choose_tables(road.settings, PIPELINE, "refreshed_[wpb][oay]*")]
    told = dict(find_obstacles(road.settings, PIPELINE, schemas))
    assert (
        told.keys() - {"refreshes"} == {"refreshes of refreshed_words"}
        and "empties the table in targets" in told["refreshes of refreshed_words"]
    )
    for table, order in (("refreshed_words", "word"), ("refreshed_pairs", "region, data"), ("refreshed_bytes", "data")):
        found = refresh_by(road, table, rows=3)
        assert found.state == "done", found.reason
        road.merge()
        source = [tuple(row) for row in tables.query(engine, f"SELECT * FROM {table}")]
        assert sorted(road.query(f"SELECT * FROM shop.{table} ORDER BY {order}")) == sorted(source)


def refresh_by(road: LiveRoad, table: str, rows: int) -> Refresh:
    """Refresh in chunks of at most so many rows."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FIRST_ROWS", "MOST_ROWS"):
            patch.setattr(chunk_writer, name, rows)
        return refresh(road, table=table)


@pytest.mark.quick_for("mysql")
@pytest.mark.parametrize(("engine", "made"), MADE, indirect=["engine"])
def test_one_that_was_stopped_goes_on_and_an_older_process_is_fenced_off(road: LiveRoad, engine: LiveEngine, made: str) -> None:
    if made == WITH_ONE_TABLE:
        allow_one_table(road, engine)
    log = fill(engine)
    asked = refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.refreshed_orders", ALL, "ops")
    stopped, chunks = threading.Event(), list[str]()
    with followed("chunk", chunks.append), armed("chunk.committed", stopped.set, nth=2):
        Carrier(road.settings, road.store, PIPELINE, stopped).carry_out()
    assert refreshes.get_refresh(road.store, asked.refresh).state == "running" and chunks.count("committed") == 2
    # One that was killed between its commit and the store, and one that is still at work when another takes over.
    with closing(open_writer(road.settings, PIPELINE)) as connection:
        tables_ = SourceTables(connection, refreshes_of(road.settings, PIPELINE))
        tables_.prepare()
        schema = TableSchema(road.database, "refreshed_orders", (ColumnSchema("id", "bigint unsigned", False),), ("id",))
        sending = Sending(asked.refresh, make_plan(KeyColumns(schema), ALL), rows=10)
        writer = ChunkWriter(tables_, writer_of(road.settings, PIPELINE), "older")
        writer.begin([sending])
        assert sending.place.number == 3
        assert [one.rows for one in writer.write([sending])] == [10]
        log.run("UPDATE refreshed_orders SET item = 'changed since'")  # what takes over must not send the last chunk as it was
        Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
        with pytest.raises(LeaseTaken, match="another process went on"):
            writer.write([sending])
    found = refreshes.get_refresh(road.store, asked.refresh)
    assert found.state == "done" and found.progress["rows"] <= ROWS - 10
    road.merge()
    source, target = both(road, engine)
    assert target == source


def test_rows_are_locked_for_less_than_a_second(road: LiveRoad, engine: LiveEngine) -> None:
    """A chunk that waits for somebody else's lock is given up, and tried again with fewer rows."""
    log = fill(engine, 200)
    with closing(mysql.connect(engine.url)) as holder, holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE refreshed_orders SET item = 'held' WHERE id = 150")
        told: list[str] = []

        asked = refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.refreshed_orders", ALL, "ops")
        with followed("chunk", told.append), armed("chunk.copy", lambda: cursor.execute("COMMIT"), nth=3):
            Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
    found = refreshes.get_refresh(road.store, asked.refresh)
    assert found.state == "done" and told.count("copy") > told.count("committed")
    road.merge()
    source, target = both(road, engine)
    assert target == source
    assert log.run("SELECT item FROM refreshed_orders WHERE id = 150") == [("held",)]


def test_what_is_refused(road: LiveRoad, engine: LiveEngine) -> None:
    log = fill(engine, 10)
    with log.globally(read_only="ON"):
        found = refresh(road)
    assert found.state == "failed" and found.reason.startswith("the source is read_only, so that nothing may be written into its log")
    assert "no table" in refresh(road, table="refreshed_missing").reason
    log.run("DROP TABLE IF EXISTS refreshed_keyless", "CREATE TABLE refreshed_keyless (id int)")
    assert "has no primary key" in refresh(road, table="refreshed_keyless").reason
    log.run(
        "DROP TABLE refreshed_keyless",
        "DROP USER IF EXISTS reader_only",
        "CREATE USER reader_only IDENTIFIED BY 'a-Long1Password'",
    )
    log.run("GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO reader_only")
    source = road.settings.connections["source"]
    parts = urlsplit(source.url)
    reader = parts._replace(netloc=f"reader_only:a-Long1Password@{parts.hostname}:{parts.port}").geturl()
    road.settings.connections["source"] = source.model_copy(update={"write": WriteSettings(url=reader)})
    lacking = dict(find_obstacles(road.settings, PIPELINE, []))["refreshes"]
    assert lacking.startswith("the user that writes needs CREATE, DROP, INSERT, UPDATE, DELETE on auditor_refresh.*; run: GRANT")
    refused = refresh(road)
    assert refused.state == "failed" and "run: GRANT CREATE, DROP, SELECT, INSERT, UPDATE, DELETE ON auditor_refresh.*" in refused.reason
    assert "make the table auditor_refresh.chunks for it as docs/refreshes.md shows" in refused.reason
    road.settings.connections["source"] = source.model_copy(update={"write": None})
    with pytest.raises(RefreshRefused, match="may only read; add write"):
        service.request(road.settings, road.store, PIPELINE)


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", slow=["mariadb"]), indirect=True)
def test_requests_say_what_is_wrong_with_them(road: LiveRoad, engine: LiveEngine, tmp_path: Path) -> None:
    log = LiveLog(engine.url)
    log.run("DROP TABLE IF EXISTS refreshed_words, refreshed_types, refreshed_pairs, refreshed_bytes, refreshed_keyless")
    fill(engine, 10)

    def refusal(**asked: Any) -> str:
        with pytest.raises(ConfigError) as raised:
            service.request(road.settings, road.store, PIPELINE, **asked)
        return str(raised.value)

    assert "has no table 'ordres'; it has refreshed_orders" in refusal(table="ordres")
    assert "'7x' is no value of" in refusal(table="refreshed_orders", keys=[["7x"]])
    assert "has 1 columns (id), and 2 values were given" in refusal(table="refreshed_orders", keys=[["7", "8"]])
    assert "no key of" in refusal(table="refreshed_orders", first=-9, last=-1)
    many = [["7"]] * (service.MOST_KEYS + 1)
    assert "keys are listed, and one request may list 100,000; use a range, or the whole table" in refusal(
        table="refreshed_orders", keys=many
    )
    log.run("CREATE TABLE refreshed_pairs (id int PRIMARY KEY)")
    assert "keys are those of one table; name it with --table" in refusal(first=1, last=2)
    log.run("DROP TABLE refreshed_pairs")
    with pytest.raises(RefreshRefused, match=f"the pipeline {PIPELINE} has never run, so nothing would read the rows; run it first"):
        service.request(road.settings, open_store(f"sqlite:///{tmp_path}/other.db"), PIPELINE)
    [one] = service.request(road.settings, road.store, PIPELINE, "refreshed_orders", first=3, last=5)
    [again] = service.request(road.settings, road.store, PIPELINE, "refreshed_orders", first=3, last=5)
    assert one.refresh == again.refresh and one.scope.ranges == ((("2",), ("5",)),)
    [done] = service.carry_out(road.settings, road.store, PIPELINE, [one], threading.Event())
    assert (done.state, done.progress["rows"]) == ("done", 3)
    lacking = service.wait_until_arrived(road.settings, road.store, PIPELINE, [done], threading.Event(), most=0)
    assert lacking.startswith("the staging lacks")
    road.merge()
    assert service.wait_until_arrived(road.settings, road.store, PIPELINE, [done], threading.Event(), most=0) == ""


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", slow=["mysql"]), indirect=True)
def test_two_writers_of_segments_agree_on_chunks(road: LiveRoad, engine: LiveEngine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    second = LiveRoad(other, engine, "refreshed_*")
    try:
        fill(engine, 700)
        refresh(road)
        digests = []
        for one, range_bytes in ((road, 1 << 20), (second, 4096)):
            one.stage(range_bytes)
            one.stage(range_bytes)  # a replay of nothing
            writer = open_segments(one.store, PIPELINE, one.pipeline)
            while writer.step():
                pass
            listed = segments.list_segments(one.store, PIPELINE, f"{one.database}.refreshed_orders")
            digests.append([(found.rows, found.sha256) for found in listed])
            assert {check_segment(folder_of(one.pipeline), found) for found in listed} == {""}
        assert digests[0] == digests[1] and len(digests[0]) >= 7
    finally:
        second.close()


def fill_many(engine: LiveEngine, count: int, rows: int) -> LiveLog:
    """Make many small tables."""
    log = LiveLog(engine.url)
    values = ", ".join(f"({number}, 'item {number}')" for number in range(rows))
    for number in range(count):
        name = f"refreshed_many_{number:02d}"
        log.run(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} (id int PRIMARY KEY, item varchar(40))",
            f"INSERT INTO {name} VALUES {values}",
        )
    return log


def ask_for_many(road: LiveRoad, count: int) -> None:
    names = [f"{road.database}.refreshed_many_{number:02d}" for number in range(count)]
    refreshes.request_refreshes(road.store, PIPELINE, [(name, ALL) for name in names], "ops")


def rows_in_log(road: LiveRoad, log: LiveLog, start: Any) -> Counter[str]:
    """How often a row of each table was sent."""
    selection = Selection(["refreshed_many_*"], log.database, refreshes_of(road.settings, PIPELINE))
    reading = Reading(log.source, selection, 0, 20)
    batches = (batch for one in log.scan(start) for batch in reading.batches(one))
    return Counter(event["table"] for batch in batches for event in batch.to_pylist() if event["kind"] == "refresh")


@pytest.mark.quick_for("mariadb-with one table")
@pytest.mark.parametrize(("engine", "made"), MADE, indirect=["engine"])
def test_many_tables_take_few_connections_and_few_statements_each(
    road: LiveRoad, engine: LiveEngine, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made == WITH_ONE_TABLE:
        allow_one_table(road, engine)
    log = fill_many(engine, 44, 3)
    asked, stored = dict[int, int](), dict[int, int]()
    opened = count_calls(monkeypatch, carrier, "open_writer")
    written = count_calls(monkeypatch, Store, "write")
    for tables_count in (4, 44):
        before = asked_statements(log), len(written)
        ask_for_many(road, tables_count)
        assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == tables_count
        asked[tables_count], stored[tables_count] = asked_statements(log) - before[0], len(written) - before[1]
    assert len(opened) == 2
    assert {one.state for one in refreshes.list_refreshes(road.store, PIPELINE)} == {"done"}
    # A refresh table is made and emptied, a chunk is named, an empty row and the rows are written.
    assert asked[44] - asked[4] <= 40 * 6 and stored[44] - stored[4] <= 6
    road.merge()
    assert {len(road.query(f"SELECT * FROM shop.refreshed_many_{number:02d}")) for number in range(44)} == {3}


def test_many_tables_are_sent_over_several_connections(road: LiveRoad, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "TABLES_AT_ONCE", 4)
    log = fill_many(engine, 20, 30)
    start, opened = log.end(), count_calls(monkeypatch, carrier, "open_writer")
    ask_for_many(road, 20)
    assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == 20
    assert 1 < len(opened) <= carrier.CONNECTIONS
    assert set(rows_in_log(road, log, start).values()) == {30}


@pytest.mark.quick_for("mysql-with tables")
@pytest.mark.parametrize(("engine", "made"), MADE, indirect=["engine"])
def test_many_tables_that_were_interrupted_go_on_without_what_was_sent(road: LiveRoad, engine: LiveEngine, made: str) -> None:
    if made == WITH_ONE_TABLE:
        allow_one_table(road, engine)
    log = fill_many(engine, 30, 200)
    start, stopped, sent = log.end(), threading.Event(), list[str]()
    ask_for_many(road, 30)
    with followed("chunk", sent.append), armed("chunk.committed", stopped.set, nth=3):
        Carrier(road.settings, road.store, PIPELINE, stopped).carry_out()
    states = Counter(one.state for one in refreshes.list_refreshes(road.store, PIPELINE))
    assert states["done"] > 2 and states["running"] > 2 and sent.count("committed") == 3

    def die() -> None:
        raise KeyboardInterrupt  # between the commit in the source and what the store knows of it

    with armed("chunk.committed", die, nth=2), pytest.raises(KeyboardInterrupt):
        Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
    Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
    assert {one.state for one in refreshes.list_refreshes(road.store, PIPELINE)} == {"done"}
    assert rows_in_log(road, log, start) == {f"refreshed_many_{number:02d}": 200 for number in range(30)}
    road.merge()
    assert {len(road.query(f"SELECT * FROM shop.refreshed_many_{number:02d}")) for number in range(30)} == {200}


def test_a_table_that_fails_stops_none_beside_it(road: LiveRoad, engine: LiveEngine) -> None:
    log = fill_many(engine, 6, 5)
    ask_for_many(road, 6)
    log.run("DROP TABLE refreshed_many_02", "ALTER TABLE refreshed_many_04 DROP PRIMARY KEY")
    with armed("chunk.copy", lambda: log.run("DROP TABLE refreshed_many_05"), nth=1):
        assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == 6
    states = {one.table[-2:]: (one.state, one.reason) for one in refreshes.list_refreshes(road.store, PIPELINE)}
    assert {name for name, (state, _) in states.items() if state == "done"} == {"00", "01", "03"}
    assert "has no table" in states["02"][1] and "has no primary key" in states["04"][1] and states["05"][1]


@pytest.mark.slow
def test_a_table_whose_rows_somebody_holds_is_sent_behind_the_others(road: LiveRoad, engine: LiveEngine) -> None:
    fill_many(engine, 5, 3)
    ask_for_many(road, 5)
    with closing(mysql.connect(engine.url)) as holder, holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE refreshed_many_01 SET item = 'held' WHERE id = 1")
        with armed("chunk.committed", lambda: cursor.execute("COMMIT"), nth=1):  # of the others
            assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == 5
    assert {one.state for one in refreshes.list_refreshes(road.store, PIPELINE)} == {"done"}
    road.merge()
    assert road.query("SELECT item FROM shop.refreshed_many_01 WHERE id = 1") == [("held",)]


def test_an_error_that_concerns_every_table_ends_all_at_the_first(
    road: LiveRoad, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(carrier, "TABLES_AT_ONCE", 4)
    log = fill_many(engine, 12, 2)
    ask_for_many(road, 12)
    opened = count_calls(monkeypatch, carrier, "open_writer")
    with log.globally(read_only="ON"):
        assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == 12
    assert len(opened) == 1
    failed = refreshes.list_refreshes(road.store, PIPELINE)
    [(state, reason)] = {(one.state, one.reason) for one in failed}
    assert state == "failed" and reason.startswith("the source is read_only") and all(one.ended for one in failed)
    assert len([one for one in caplog.records if "read_only" in one.getMessage()]) == 1
    assert list(refresh_lines([service.show(one) for one in failed])) == [f"12 tables: failed: {reason}"]


def test_a_schema_that_the_source_does_not_log_is_refused(road: LiveRoad, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_many(engine, 2, 2)
    ask_for_many(road, 2)
    monkeypatch.setattr(source_tables, "log_ignores", lambda _, schema: schema == "auditor_refresh")
    assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == 2
    [reason] = {one.reason for one in refreshes.list_refreshes(road.store, PIPELINE) if one.state == "failed"}
    assert reason.startswith("the source does not log what is written into auditor_refresh; correct its settings")
    assert dict(find_obstacles(road.settings, PIPELINE, []))["refreshes"] == reason


def test_a_source_that_is_not_reached_is_said_once(road: LiveRoad, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "TABLES_AT_ONCE", 2)
    fill_many(engine, 4, 2)
    ask_for_many(road, 4)
    asked = list[int]()

    def refuse(*_: object) -> Any:
        asked.append(1)
        raise ConnectionLost("nothing answers there")

    monkeypatch.setattr(carrier, "open_writer", refuse)
    with pytest.raises(ConnectionLost, match="nothing answers there"):
        Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
    found = refreshes.list_refreshes(road.store, PIPELINE)
    assert len(asked) == 1 and {(one.state, one.reason) for one in found} == {("requested", ""), ("running", "nothing answers there")}


def test_tables_that_may_not_be_read_are_not_all_tried(road: LiveRoad, engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_many(engine, 8, 2)
    ask_for_many(road, 8)
    tried = list[int]()

    def deny(writer: ChunkWriter, sendings: Any) -> Any:
        tried.append(1)
        writer.at_work = sendings[0]
        raise AccessDenied("SELECT command denied to user 'writer'")

    monkeypatch.setattr(ChunkWriter, "write", deny)
    assert Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out() == 8
    assert len(tried) == carrier.MOST_DENIED
    reasons = Counter(one.reason for one in refreshes.list_refreshes(road.store, PIPELINE) if one.state == "failed")
    assert reasons.most_common(1)[0][1] == 8 - carrier.MOST_DENIED + 1 and "no other was tried" in reasons.most_common(1)[0][0]


def asked_statements(log: LiveLog) -> int:
    """How many statements the server was asked since it started."""
    [(_, count)] = log.run("SHOW GLOBAL STATUS LIKE 'Questions'")
    return int(count)


def count_calls(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """Note each call of a function, which is still made."""
    calls, whole = list[Any](), getattr(module, name)

    def noted(*given: Any) -> Any:
        calls.append(given)
        return whole(*given)

    monkeypatch.setattr(module, name, noted)
    return calls
