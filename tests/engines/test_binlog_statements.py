"""What statements do to tables is noted where it stands in the log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from auditor.pipeline.binlog.place import Place
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
