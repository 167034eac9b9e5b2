"""What statements do to tables is noted where it stands in the log."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from auditor.pipeline.binlog.log_connection import Request
from auditor.pipeline.binlog.ranges import LogScan, Mark
from auditor.pipeline.binlog.table_statements import read_statements
from auditor.pipeline.events import Place
from tests.binlog import LiveLog
from tests.live import engine_params

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)


def story(log: LiveLog, start: Place, *tables: str) -> list[Any]:
    """What the log says since a place, in its order: ids of rows, and operations."""
    reading = replace(log.reading(tables), notes=True)
    found = [event for log_range in log.scan(start) for batch in reading.batches(log_range) for event in batch.to_pylist()]
    told = []
    for event in sorted(found, key=lambda event: (event["position"], event["row"])):
        if event["kind"] == "change":
            body = json.loads(event["after"][0])["body"]
            ops = [" ".join([op["op"], *(str(op[key]) for key in ("column", "from", "to") if key in op)]) for op in body["ops"]]
            told.append((event["table"], *ops, *(["stops"] if "reason" in body else []), *(["advances"] if "advances" in body else [])))
        elif event["kind"] != "schema":
            told.append((event["table"], event["kind"], (event["after"] or event["before"])[0]))
    return told


@on_both
def test_statements_between_rows(log: LiveLog) -> None:
    tables = ("moving", "moved", "_moving_gho", "_moving_del", "stranger")
    log.run(*(f"DROP TABLE IF EXISTS {table}" for table in tables), "CREATE TABLE stranger (id int PRIMARY KEY)")
    start = log.end()
    log.run(
        "CREATE TABLE moving (id int PRIMARY KEY, a int)", "INSERT INTO moving VALUES (1, 1)",
        "ALTER TABLE moving ADD COLUMN b int DEFAULT 5, CHANGE a c bigint", "INSERT INTO moving VALUES (2, 2, 2)",
        "CREATE TABLE _moving_gho LIKE moving", "ALTER TABLE _moving_gho DROP COLUMN b", "INSERT INTO _moving_gho SELECT id, c FROM moving",
        "RENAME TABLE moving TO _moving_del, _moving_gho TO moving", "INSERT INTO moving VALUES (3, 3)",
        "TRUNCATE TABLE moving", "RENAME TABLE moving TO moved", "DROP TABLE moved", "RENAME TABLE stranger TO moved",
        "DROP TABLE IF EXISTS _moving_del", "CREATE TABLE moving (id int PRIMARY KEY) SELECT 4 AS id",
    )  # fmt: skip
    prefix = log.database
    assert story(log, start, "mov*") == [
        ("moving", "create", "advances"), ("moving", "insert", "1"), ("moving", "add b", "rename a c"), ("moving", "insert", "2"),
        ("_moving_gho", "create"), ("_moving_gho", "drop b"), ("moving", f"swapped {prefix}._moving_gho"),
        ("moving", "insert", "3"), ("moving", "clear", "advances"), ("moved", f"moved {prefix}.moving", "advances"),
        ("moving", f"gone {prefix}.moved", "advances"), ("moved", "gone"), ("moved", "rows", "stops"),
        ("moving", "create", "advances"), ("moving", "insert", "4"),
    ]  # fmt: skip
    assert ("_moving_gho", "insert", "1") in story(log, start, "_moving_gho"), "a name without a pattern is read"


def noted(log: LiveLog, start: Place, table: str) -> list[Any]:
    """The operations on a table that are noted since a place."""
    reading = replace(log.reading([table]), notes=True)
    found = [event for log_range in log.scan(start) for batch in reading.batches(log_range) for event in batch.to_pylist()]
    changes = sorted((one["position"], one["after"][0]) for one in found if one["kind"] == "change")
    return [op for _, content in changes for op in json.loads(content)["body"]["ops"]]


@on_both
def test_the_session_says_what_the_text_of_a_statement_means(log: LiveLog) -> None:
    log.run("DROP TABLE IF EXISTS worded", "CREATE TABLE worded (id int PRIMARY KEY, a int) DEFAULT CHARSET utf8mb4")
    start = log.end()
    log.run("SET NAMES latin1", "ALTER TABLE worded ADD COLUMN b varchar(9) DEFAULT 'é'".encode("latin-1"))
    log.run("SET NAMES latin1", "ALTER TABLE worded CHANGE a ä int".encode("latin-1"))
    log.run("SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", "ALTER TABLE worded ADD COLUMN \"c\" varchar(9) DEFAULT 'c:\\temp'")
    assert noted(log, start, "worded") == [
        {"op": "add", "column": "b", "value": {"text": "é"}},
        {"op": "rename", "from": "a", "to": "ä", "type": "int", "nullable": True, "charset": "", "strict": False},
        {"op": "add", "column": "c", "value": {"text": "c:\\temp"}},
    ]


@pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
def test_an_alter_of_two_phases_is_noted_once_and_one_that_fails_never(log: LiveLog) -> None:
    log.run(
        "DROP TABLE IF EXISTS phased, renamed",
        "CREATE TABLE phased (id int PRIMARY KEY, a int)",
        "INSERT INTO phased VALUES (1, 7), (2, 7)",
    )
    start = log.end()
    phases = "SET SESSION binlog_alter_two_phase = 1"
    log.run(phases, "ALTER TABLE phased ADD COLUMN b int DEFAULT 5")
    with pytest.raises(pymysql.MySQLError, match="Duplicate entry"):
        log.run(phases, "ALTER TABLE phased ADD COLUMN c int, ADD UNIQUE (a)")
    log.run(phases, "ALTER TABLE phased RENAME COLUMN a TO d")
    assert noted(log, start, "phased") == [
        {"op": "add", "column": "b", "value": {"text": "5"}},
        {"op": "rename", "from": "a", "to": "d"},
    ]
    scan = LogScan(Request(log.source, start, 77_779), Mark(start), 1 << 20, log.patience, notes_statements=True)
    with closing(scan):
        scan.advance(log.end())
    texts = [one.text.decode() for passed in scan.statements for one in read_statements(log.source, passed.start, passed.end)]
    assert [text.split()[3] for text in texts] == ["ADD", "RENAME"], "a tracker carries out the same ones"
