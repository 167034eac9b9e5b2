"""Sources whose log names no columns, read through a schema tracker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.errors import ConfigError
from auditor.pipeline.tracker.follower import check_tracker
from auditor.service.certify.log_columns import KINDS, samples_of
from tests.binlog import LiveLog, in_short
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.schema_statements import CHANGES, DEFINITION, ONLY
from tests.pipeline.tracked import METADATA, ROWS, Killed, TrackedLog, as_rows, empty_server
from tests.servers import mysql, tracker

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]  # the setting under test is the whole server's
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
quick_on_mysql = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", slow=["mariadb"]), indirect=True)
quick_on_mariadb = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", slow=["mysql"]), indirect=True)
"""What both servers state in their own ways is tested on both in every run; what the tracker makes of it, on one of them."""
ANYHOW = "SET foreign_key_checks = 0"
ALONE = ANYHOW, *(f"DROP TABLE IF EXISTS {name}" for name in ("t", "u", "v", "_t_gho", "_t_del"))
"""Leaves none of the tests' tables."""


@pytest.fixture
def tracker_url(engine: LiveEngine, engines: Engines) -> Iterator[str]:
    """A server of the engine's kind, which is left without tables."""
    url = engines.companion(f"{engine.name} tracker", tracker.START[engine.name]).url.removesuffix("audit")
    empty_server(url)
    yield url


@pytest.fixture
def log(engine: LiveEngine) -> Iterator[LiveLog]:
    """The log of the server, which names no columns."""
    found = LiveLog(engine.url)
    found.run(
        "SET foreign_key_checks = 0",
        "DROP DATABASE IF EXISTS beside",
        "CREATE DATABASE beside",
        *(f"DROP TABLE IF EXISTS {name}" for name in ("t", "u", "v")),
    )
    with found.globally(binlog_row_metadata=METADATA[engine.name]):
        yield found
    found.run(*ALONE, "DROP DATABASE IF EXISTS beside")


@pytest.fixture
def tracked(log: LiveLog, tracker_url: str, tmp_path: Path) -> Iterator[TrackedLog]:
    made = TrackedLog(tmp_path, log, tracker_url, "t, u, v")
    yield made
    made.close()


@on_both
def test_each_type_is_the_same_as_in_a_log_with_names(engine: LiveEngine, log: LiveLog, tracked: TrackedLog) -> None:
    samples = [sample for kinds in KINDS for sample in samples_of(engine.name, kinds)]
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    labels = "l enum('a', 'it''s', 'back\\\\slash', 'comma,', 'ä€'), m set('ä', 'ö') CHARACTER SET latin1"
    more = "g int AS (k + 1) VIRTUAL, s int AS (k + 2) STORED, z int(5) zerofill, i int INVISIBLE DEFAULT 7"
    log.run("SET NAMES utf8mb4", f"CREATE TABLE t (k int, id int, {columns}, {labels}, {more}, PRIMARY KEY (id, k)) DEFAULT CHARSET latin2")
    log.run("CREATE TABLE u (a int NOT NULL, b varchar(9) NOT NULL, c int, UNIQUE (c), UNIQUE (a, b), KEY (b))")
    depth = max(len(sample.values) for sample in samples)
    names = ", ".join(["k", "id", *(f"c{number}" for number in range(len(samples))), "l", "m"])
    insert = [
        f"INSERT IGNORE INTO t ({names}) VALUES ({row}, 1, {', '.join(one.values[row % len(one.values)] for one in samples)}, {row % 6}, 3)"
        for row in range(depth)
    ]
    insert += ["INSERT INTO u VALUES (1, 'x', NULL)", "UPDATE u SET c = 5", "DELETE FROM u"]
    log.run("SET NAMES utf8mb4", *insert)
    found = tracked.read()
    log.run("DELETE FROM t")
    with log.globally(binlog_row_metadata="FULL"):
        start = log.end()
        log.run("SET NAMES utf8mb4", *insert)
    ranges = log.scan(start)
    wanted = sorted(log.decode(ranges, ["t", "u"]), key=lambda event: (event["position"], event["row"]))
    assert [event for event in found if event["kind"] == "poison"] == []
    schemas, others = ([event["after"][0] for event in some if event["kind"] == "schema"] for some in (found, wanted))
    assert list(dict.fromkeys(schemas)) == list(dict.fromkeys(others))
    assert in_short(one for one in found if one["kind"] in ROWS) == in_short(one for one in wanted if one["kind"] in ROWS)


@pytest.mark.slow
@quick_on_mariadb
def test_old_events_have_the_columns_of_their_time_after_a_crash_at_each_step(log: LiveLog, tracked: TrackedLog) -> None:
    killed = Killed(tracked)
    log.run("CREATE TABLE t (id int PRIMARY KEY, a varchar(9), b varchar(9))")
    tracked.at = tracked.here()
    for step in ("owned", "created", "dumped", "begun"):
        assert killed.plan_until(tracked.at, tracked.plan(), step) == "killed", step
    assert tracked.rows() == []
    log.run("INSERT INTO t VALUES (1, 'a', 'b')")
    log.run("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "INSERT INTO t VALUES (2, 'b', 'a')")
    log.run("ALTER TABLE t ADD COLUMN d varchar(9) FIRST", "INSERT INTO t VALUES ('d', 3, 'b', 'a')")
    log.run("ALTER TABLE t DROP COLUMN d", "DELETE FROM t WHERE id = 1")
    start, end = tracked.at, tracked.plan()
    for time in (1, 2, 3):
        for step in ("noted", "applied", "emptied", "restored", "recorded"):
            assert killed.plan_until(start, end, step) == "killed", (step, time)
    assert killed.plan_until(start, end, "noted").startswith("ended"), "all three are recorded"
    killed.close()
    wanted = [{"id": "1", "a": "a", "b": "b"}, {"id": "2", "b": "b", "a": "a"}, {"d": "d", "id": "3", "b": "b", "a": "a"}]
    wanted += [{"id": "1", "b": "a", "a": "b"}]
    for _ in range(2):  # a batch that is decoded again has the same columns
        tracked.restart()
        tracked.at = start
        assert as_rows(tracked.read_batch(end)) == wanted


@pytest.mark.slow_on("mysql")
@on_both
@pytest.mark.few
def test_each_kind_of_statement_is_followed(engine: LiveEngine, log: LiveLog, tracked: TrackedLog, request: pytest.FixtureRequest) -> None:
    """Without --slow each engine runs its own statements, and every second one of those that both have."""
    common = list(CHANGES.items())
    if not request.config.getoption("--slow"):
        common = common[1::2] if engine.name == "mariadb" else common[::2]
    log.run(f"CREATE TABLE t ({DEFINITION})")
    tracked.at = tracked.here()
    assert tracked.read() == []
    for what, statements in (*common, *ONLY[engine.name].items()):
        log.run(
            "SET foreign_key_checks = 0",
            *(f"DROP TABLE IF EXISTS {name}" for name in "tuv"),
            f"CREATE TABLE t ({DEFINITION})",
            "CREATE TABLE u LIKE t",
        )
        log.run("INSERT INTO u VALUES (1, 'u', 'x', 4000000000), (2, NULL, NULL, 0)")
        assert [row["id"] for row in tracked.rows()] == ["1", "2"], what
        log.run(
            "SET foreign_key_checks = 0", *(one.replace("{database}", log.database) if isinstance(one, str) else one for one in statements)
        )
        tracked.restart()
        tracked.read()
        described = log.run("SET NAMES utf8mb4", "SELECT column_name, column_type, character_set_name FROM information_schema.columns"
                            f" WHERE table_schema = '{log.database}' AND table_name = 't' ORDER BY ordinal_position")  # fmt: skip
        log.run(ANYHOW, "INSERT INTO t () VALUES ()")
        found = tracked.read()
        schemas = [json.loads(event["after"][0]) for event in found if event["kind"] == "schema"]
        assert [one["after"][0] for one in found if one["kind"] == "poison"] == [], what
        assert [one["name"] for one in schemas[0]["columns"]] == [str(name) for name, _, _ in described], what
        for column, (_, native, charset) in zip(schemas[0]["columns"], described, strict=True):
            kind = re.sub(r" /\*.*?\*/| unsigned zerofill", "", _text(native))
            assert (column["type"], column["charset"]) == (re.sub(r"((?:big|small|tiny|medium)?int)\(\d+\)", r"\1", kind), charset), what


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@quick_on_mysql
def test_a_statement_that_cannot_be_followed_stops_its_table_alone(log: LiveLog, tracked: TrackedLog) -> None:
    log.run(f"CREATE TABLE t ({DEFINITION})", f"CREATE TABLE u ({DEFINITION})", "CREATE TABLE beside.other (id int PRIMARY KEY)")
    tracked.at = tracked.here()
    assert tracked.read() == []
    log.run("CREATE TABLE v LIKE beside.other", "INSERT INTO v VALUES (1)", "INSERT INTO u (id) VALUES (2)", "RENAME TABLE t TO beside.t",
            "ALTER TABLE beside.t DROP COLUMN a", "RENAME TABLE beside.t TO t", "INSERT INTO t (id) VALUES (3)",
            "CREATE TABLE IF NOT EXISTS t (id int, a int, b int)", "INSERT INTO t (id) VALUES (4)")  # fmt: skip
    found = tracked.read()
    assert [row["id"] for row in as_rows(found)] == ["2"]
    notes = {event["table"]: json.loads(event["after"][0]) for event in found if event["kind"] == "poison"}
    assert set(notes) == {"t", "v"} and notes["t"]["events"] == 2
    assert "cannot be replayed: " in notes["v"]["body"]["reason"] and "CREATE TABLE v LIKE beside.other at " in notes["v"]["body"]["reason"]
    assert "it was beside.t, of a database that the pipeline does not carry" in notes["t"]["body"]["reason"]
    assert "SET GLOBAL binlog_row_metadata = 'FULL', then refresh the table" in notes["t"]["body"]["reason"]
    told = [sentence for severity, sentence in check_tracker(tracked.settings, tracked.store, "shop") if severity == "warning"]
    assert [one.partition(":")[0] for one in told] == [f"{log.database}.t", f"{log.database}.v"]
    log.run("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, z int)", "INSERT INTO t VALUES (5, 6)")
    with log.globally(binlog_row_metadata="FULL"):
        log.run("INSERT INTO v VALUES (7)")
    assert tracked.rows() == [{"id": "5", "z": "6"}, {"id": "7"}]


@quick_on_mariadb
def test_a_tracker_that_begins_late_or_that_somebody_changed(log: LiveLog, tracked: TrackedLog, tracker_url: str) -> None:
    log.run(f"CREATE TABLE t ({DEFINITION})", "INSERT INTO t (id) VALUES (1)", "ALTER TABLE t RENAME COLUMN a TO b",
            "INSERT INTO t (id, b) VALUES (2, 'b')")  # fmt: skip
    found = tracked.read()
    assert as_rows(found) == [{"id": "2", "b": "b", "e": None, "n": None}]
    [note] = [json.loads(event["after"][0]) for event in found if event["kind"] == "poison"]
    assert "the tracker began later" in note["body"]["reason"]
    empty_server(tracker_url)
    tracked.restart()
    log.run("ALTER TABLE t RENAME COLUMN b TO c", "INSERT INTO t (id, c) VALUES (3, 'c')")
    assert tracked.rows() == [{"id": "3", "c": "c", "e": None, "n": None}], "its schema was restored from the dump"
    with mysql.connect(tracker_url) as connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {log.database}.t DROP COLUMN c, ADD COLUMN wrong int")
        mysql.end_sessions(cursor, "user = 'root'")  # so that the connection is made again, and what differs is found
    log.run("ALTER TABLE t RENAME COLUMN c TO d", "INSERT INTO t (id, d) VALUES (4, 'd')")
    assert tracked.rows() == [{"id": "4", "d": "d", "e": None, "n": None}]
    tracked.at["epoch"] += 1  # after a failover
    tracked.restart()
    log.run("INSERT INTO t (id, d) VALUES (5, 'd')", "ALTER TABLE t RENAME COLUMN d TO e2", "INSERT INTO t (id, e2) VALUES (6, 'e')")
    assert [[*row] for row in tracked.rows()] == [["id", "d", "e", "n"], ["id", "e2", "e", "n"]]


@quick_on_mysql
def test_a_server_that_cannot_be_the_tracker(
    engine: LiveEngine, log: LiveLog, tracked: TrackedLog, tracker_url: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    same = TrackedLog(tmp_path / "other", log, log.url.replace("127.0.0.1", "localhost"), "t")
    with pytest.raises(ConfigError, match="is the source itself, where replayed statements would come back in its log"):
        same.read()
    assert [severity for severity, _ in check_tracker(same.settings, same.store, "shop")] == ["error"]
    same.close()
    with mysql.connect(tracker_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE foreign_one")
        assert list(check_tracker(tracked.settings, tracked.store, "shop")) == [], "a database without tables is nobody's"
        cursor.execute("CREATE TABLE foreign_one.t (id int)")
    with pytest.raises(ConfigError, match="holds tables that are not the tracker's, in foreign_one; give it a server of its own"):
        tracked.read()
    empty_server(tracker_url)
    assert tracked.read() == []
    (tmp_path / "third").mkdir()
    third = TrackedLog(tmp_path / "third", log, tracker_url, "t")
    with pytest.raises(ConfigError, match="is that of pipeline 'shop' of another store; give it an empty server, or drop the databases of"):
        third.read()
    third.close()
    with mysql.connect(tracker_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE foreign_one")
        cursor.execute("CREATE TABLE foreign_one.t (id int)")
    tracked.restart()
    with pytest.raises(ConfigError, match="holds tables that are not the tracker's, in foreign_one"):
        tracked.read()
