"""What cannot be replicated rightly is refused by one sentence that names the place and the way out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from auditor.errors import AccessDenied, AuditorError, LogRefused, PositionLost
from auditor.pipeline.binlog.log_connection import Dump
from auditor.pipeline.events import Place
from tests.binlog import LiveLog, in_short
from tests.live import LiveEngine, engine_params

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
on_mysql = pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
on_mariadb = pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
pytestmark = pytest.mark.alone  # what is refused here would be refused in the other workers' stretches of the log, too

ENTRY = "DROP TABLE IF EXISTS entry", "CREATE TABLE entry (id int PRIMARY KEY, t varchar(300), j longtext)"


@pytest.fixture
def log(engine: LiveEngine) -> LiveLog:
    """The log of the server, with an empty table ``entry``."""
    found = LiveLog(engine.url)
    found.run(*ENTRY)
    return found


def _refused(log: LiveLog, start: Place, *, error: type[AuditorError] = LogRefused) -> str:
    """Return the sentence by which what was logged since the place is refused."""
    with pytest.raises(error) as caught:
        log.events(start, ["entry"])
    sentence = str(caught.value)
    assert re.search(rf"{re.escape(start.file)}:\d+", sentence), "it names the place"
    assert "\n" not in sentence
    assert "refresh the tables" in sentence
    return sentence


@on_both
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_row_images_without_all_columns(log: LiveLog, image: str) -> None:
    log.run("INSERT INTO entry VALUES (1, 'a', 'b')")
    start = log.end()
    log.run(f"SET SESSION binlog_row_image = {image}", "UPDATE entry SET t = 'x'")
    sentence = _refused(log, start)
    assert f"a row of {log.database}.entry does not have all columns; SET GLOBAL binlog_row_image = 'FULL' and for all sessions" in sentence
    assert log.events(start, ["another"]) == []


@on_both
def test_row_metadata_without_names(log: LiveLog) -> None:
    with log.globally(binlog_row_metadata="MINIMAL"):
        start = log.end()
        log.run("INSERT INTO entry VALUES (1, 'a', 'b')")
    sentence = _refused(log, start)
    assert "is logged without the names of its columns; SET GLOBAL binlog_row_metadata = 'FULL', or give the pipeline a tracker" in sentence


@on_both
@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (["UPDATE entry SET t = 'x' WHERE id = 1"], "UPDATE"),
        (["START TRANSACTION", "SAVEPOINT s", "/* a comment */ DELETE FROM entry WHERE id = 1", "COMMIT"], "DELETE"),
        (["INSERT INTO entry VALUES (FLOOR(RAND() * 1000) + 10, @v, NULL)"], "INSERT"),
    ],
)
def test_statements_instead_of_rows(log: LiveLog, statements: list[str], named: str) -> None:
    log.run("INSERT INTO entry VALUES (1, 'a', 'b')")
    start = log.end()
    log.run("SET SESSION binlog_format = 'STATEMENT'", "SET @v = 'w'", *statements)
    sentence = _refused(log, start)
    assert "instead of rows; SET GLOBAL binlog_format = 'ROW' and for all sessions" in sentence
    assert f"a statement ({named})" in sentence


@on_mysql
def test_partial_documents(log: LiveLog) -> None:
    log.run("DROP TABLE entry", "CREATE TABLE entry (id int PRIMARY KEY, j json)", 'INSERT INTO entry VALUES (1, \'{"a": "bcdefghij"}\')')
    start = log.end()
    log.run("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'", "UPDATE entry SET j = JSON_SET(j, '$.a', 'x')")
    sentence = _refused(log, start)
    assert "holds a part of a JSON document only; SET GLOBAL binlog_row_value_options = '' and for all sessions" in sentence
    assert log.events(start, ["another"]) == [], "tables that are not read are no reason to refuse"


@on_mariadb
def test_rollback_to_a_savepoint_after_rows_that_it_did_not_undo(log: LiveLog) -> None:
    log.run("CREATE OR REPLACE TABLE plain (id int) ENGINE = MyISAM")
    start = log.end()
    log.run("START TRANSACTION", "INSERT INTO entry VALUES (1, 'a', NULL)", "SAVEPOINT s", "INSERT INTO entry VALUES (2, 'undone', NULL)",
            "INSERT INTO plain VALUES (1)", "ROLLBACK TO s", "COMMIT")  # fmt: skip
    assert in_short(log.events(start, ["entry"])) == [("insert", None, ["1", "a", None])]
    log.run("ALTER TABLE entry ENGINE = MyISAM")
    sentence = _refused(log, start)
    assert f"a ROLLBACK after rows that it may not have undone, of {log.database}.entry" in sentence


@on_both
def test_purged_positions(log: LiveLog) -> None:
    start = log.end()
    log.run("INSERT INTO entry VALUES (1, 'a', 'b')")
    log.purge()
    sentence = _refused(replace(log, patience=0), start, error=PositionLost)
    assert f"position {start} is gone from the source's binary log" in sentence


@on_both
def test_places_within_an_event_or_beyond_the_log(log: LiveLog) -> None:
    start = log.end()
    log.run("INSERT INTO entry VALUES (1, REPEAT('a', 300), REPEAT('b', 300))", "INSERT INTO entry VALUES (2, 'a', 'b')")
    end = log.end()
    for offset in (start.offset + 1, start.offset + 25, (start.offset + end.offset) // 2, end.offset - 3):
        assert "is no event boundary" in _refused(log, Place(start.file, offset), error=PositionLost)
    with pytest.raises(PositionLost, match=rf"{start.file}:4000000000 is no event boundary"):
        log.scan(Place(start.file, 4_000_000_000), Place(start.file, 4_100_000_000))
    missing = f"{start.file.rpartition('.')[0]}.999999"
    with pytest.raises(PositionLost, match=f"position {missing}:4 is gone"):
        log.scan(Place(missing, 4), Place(missing, 5))


@on_both
def test_missing_privileges(log: LiveLog) -> None:
    start = log.end()
    log.run("DROP USER IF EXISTS nobody_much@'%'", "CREATE USER nobody_much@'%' IDENTIFIED BY 'a-Long1Password'")
    parts = urlsplit(log.url)
    url = parts._replace(netloc=f"nobody_much:a-Long1Password@{parts.hostname}:{parts.port}", path="/").geturl()
    poor = LiveLog(url)
    try:
        with pytest.raises(AccessDenied, match="GRANT REPLICATION SLAVE, REPLICATION CLIENT ON") as of_status:
            poor.end()
        with pytest.raises(AccessDenied, match="GRANT REPLICATION SLAVE ON") as of_dump:
            poor.scan(start, log.end())
        assert "a-Long1Password" not in f"{of_status.value}{of_dump.value}"
    finally:
        log.run("DROP USER nobody_much@'%'")


@on_both
def test_log_that_is_damaged(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    start = log.end()
    log.run("INSERT INTO entry VALUES (1, 'unharmed', 'b')")
    ranges = log.scan(start)
    receive = Dump.receive
    monkeypatch.setattr(Dump, "receive", lambda self: receive(self).replace(b"unharmed", b"unharmee"))
    with pytest.raises(PositionLost, match=rf"{start.file}:\d+ is damaged: its checksum is wrong; check the source's disk"):
        log.decode(ranges, ["entry"])


def _noted(log: LiveLog, start: Place) -> tuple[list[dict[str, object]], list[str]]:
    """Return what was logged since the place of tables that stop, and the ids of the other rows."""
    reading = replace(log.reading(["entry", "other"]), notes=True)
    found = [event for log_range in log.scan(start) for batch in reading.batches(log_range) for event in batch.to_pylist()]
    notes = [json.loads(event["after"][0]) | {"table": event["table"]} for event in found if event["kind"] == "poison"]
    rows = sorted((event["position"], event["after"][0]) for event in found if event["kind"] == "insert")
    return notes, [row[1] for row in rows]


@on_both
def test_where_it_is_noted_the_rows_around_are_decoded(log: LiveLog) -> None:
    log.run("DROP TABLE IF EXISTS other", "CREATE TABLE other (id int PRIMARY KEY)")
    start = log.end()
    log.run("INSERT INTO entry VALUES (1, 'a', 'b')", "INSERT INTO other VALUES (10)", "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE entry SET t = 'x'", "UPDATE entry SET t = 'y'", "INSERT INTO other VALUES (20)",
            "SET SESSION binlog_row_image = FULL", "INSERT INTO entry VALUES (2, 'c', 'd')")  # fmt: skip
    with log.globally(binlog_row_metadata="MINIMAL"):
        log.run("INSERT INTO other VALUES (30)", "INSERT INTO other VALUES (40)")
    log.run("INSERT INTO other VALUES (50)")
    notes, rows = _noted(log, start)
    assert rows == ["1", "10", "20", "2", "50"]
    assert [(one["table"], one["events"]) for one in notes] == [("entry", 2), ("other", 2)]
    lacks, nameless = (str(one["body"]["reason"]) for one in notes)  # type: ignore[index]
    assert lacks.startswith(f"a row of {log.database}.entry does not have all columns; SET GLOBAL binlog_row_image = 'FULL'")
    assert nameless.startswith(f"{log.database}.other is logged without the names of its columns")
