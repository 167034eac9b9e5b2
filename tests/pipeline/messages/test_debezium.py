"""Messages are those of the real Debezium, field by field, but for the differences that docs/kafka-messages.md names.

Debezium runs embedded, from the folder of jars that AUDITOR_TEST_DEBEZIUM names, and reads the log of the same MySQL as our own source.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from auditor.config import MessageSettings
from auditor.pipeline.events import ARROW_SCHEMA, Place, TableSchema
from auditor.pipeline.messages.reading import MessageReader
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import Encoder, number_in_transactions
from auditor.service.certify.log_columns import Sample, samples_of
from tests.binlog import LiveLog
from tests.pipeline.messages.debezium import LOG_OPTIONS, NEEDS, SERVER_ID, Debezium, Message
from tests.servers import mysql
from tests.servers.process import Server, Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.mysql, *NEEDS]

#: The settings of both: ours, and Debezium's options.
MODES: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    (
        {"times": "connect", "decimals": "string", "binary": "base64", "unsigned_bigints": "precise"},
        {
            "time.precision.mode": "connect", "decimal.handling.mode": "string", "binary.handling.mode": "base64",
            "bigint.unsigned.handling.mode": "precise",
        },
    ),
    (
        {"times": "isostring", "decimals": "double", "binary": "hex", "source_types": True},
        {
            "time.precision.mode": "isostring", "decimal.handling.mode": "double", "binary.handling.mode": "hex",
            "column.propagate.source.type": ".*",
        },
    ),
    (
        {"times": "nanoseconds", "binary": "base64-url-safe"},
        {"time.precision.mode": "nanoseconds", "binary.handling.mode": "base64-url-safe"},
    ),
    ({"times": "microseconds"}, {"time.precision.mode": "microseconds"}),
]  # fmt: skip

OUT_OF_DAY = ("'838", "'-")
"""Times that Connect's type and ISO 8601 do not hold, which Debezium writes as null, and we refuse."""

OUT_OF_NANOSECONDS = ("'1000", "'9999")

MISPRINTED = (
    '"-12:34:56.700000"',
    '["base64:type15:AP8=", "base64:type15:BQ=="]',
    '["\\t\\b\\f\\r\\\\", "u2028"]',
)
"""Documents that Debezium prints as other ones: a negative TIME, bytes without their type, and some characters with wrong escapes."""

NOT_OURS = {"pos", "row", "thread", "version"}
"""Fields of source that differ: see docs/kafka-messages.md."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        found = mysql.start_private(tmp_path_factory.mktemp("log"), LOG_OPTIONS)
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    found.stop()


def written(kinds: str, mode: dict[str, Any]) -> list[Sample]:
    """Return the types of a kind with the values that both write."""
    found = []
    for sample in samples_of("mysql", kinds):
        values = [value for value in sample.values if "REPEAT" not in value]
        if mode.get("times") in ("connect", "isostring") and sample.type.startswith("time") and "stamp" not in sample.type:
            values = [value for value in values if not value.startswith(OUT_OF_DAY)]
        if mode.get("times") == "nanoseconds" and sample.type.startswith("datetime"):
            values = [value for value in values if not value.startswith(OUT_OF_NANOSECONDS)]
        is_told = not mode.get("source_types") or "zerofill" not in sample.type  # which the log does not tell
        if values and is_told:
            found.append(Sample(sample.type, sample.printed, values))
    return found


@pytest.mark.parametrize(("ours", "options"), MODES, ids=lambda mode: "-".join(str(one) for one in mode.values()) or "default")
def test_messages_are_those_of_debezium(server: Server, ours: dict[str, Any], options: dict[str, str], tmp_path: Path) -> None:
    log = LiveLog(server.url)
    tables = {f"t_{kinds}": written(kinds, ours) for kinds in ("numbers", "moments", "texts", "own")}
    log.run(*(f"DROP TABLE IF EXISTS {name}" for name in (*tables, "moved", "keyless", "required", "done")))
    for name, samples in tables.items():
        log.run(f"CREATE TABLE {name} (id int PRIMARY KEY, {', '.join(f'c{n} {one.type}' for n, one in enumerate(samples))})")
    log.run(
        "CREATE TABLE moved (id bigint NOT NULL, k varchar(20) NOT NULL, v int, g point, e enum('a','b,c','d''e'), PRIMARY KEY (k, id))",
        "CREATE TABLE keyless (a int, b varchar(10))",
        "CREATE TABLE required (id int PRIMARY KEY, d date NOT NULL, dt datetime(3) NOT NULL, ts timestamp NOT NULL, y year NOT NULL)",
        "CREATE TABLE done (id int PRIMARY KEY)",
    )
    start = log.end()
    debezium = Debezium(tmp_path, server.url, options)
    try:
        for name, samples in tables.items():
            depth = max(len(sample.values) for sample in samples)
            rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
            log.run(*(f"INSERT INTO {name} VALUES ({row}, {values})" for row, values in enumerate(rows)))
        log.run(
            "INSERT INTO moved VALUES (1, 'a', 1, ST_GeomFromText('POINT(1 2)', 4326), 'b,c'), (2, 'a', NULL, NULL, NULL)",
            "UPDATE moved SET v = 2 WHERE id = 1",
            "UPDATE moved SET k = 'b' WHERE id = 1",
            "DELETE FROM moved",
            "INSERT INTO keyless VALUES (1, 'a'), (1, 'a')",
            "DELETE FROM keyless LIMIT 1",
            "INSERT INTO required VALUES (1, '0000-00-00', '2024-00-10', '0000-00-00', 0)",
            "INSERT INTO required VALUES (2, '2024-02-29', '2024-02-29', '2024-02-29', 1)",
            "INSERT INTO done VALUES (1)",
        )
        theirs = debezium.until("shop.audit.done")
    finally:
        debezium.stop()
    compared = 0
    for name in (*tables, "moved", "keyless", "required"):
        expected = [one for one in theirs if one.topic == f"shop.audit.{name}"]
        schema, events = logged(log, start, name)
        settings = MessageSettings(**ours, schemas=True)
        compared += compare(name, encoded(schema, events, settings), expected)
        if name in ("t_numbers", "t_moments", "t_texts") and settings.decimals != "double" and settings.times != "connect":
            check_read(schema, events, settings, expected)
    assert compared > 500


def logged(log: LiveLog, start: Place, table: str) -> tuple[TableSchema, list[pa.RecordBatch]]:
    """Return a table's columns, and its events since a place, as our source reads them."""
    runs = [run for one in log.scan(start) for batch in log.reading([table]).batches(one) for run in _runs(batch)]
    announced = {events["after"][0].as_py()[0] for kind, events in runs if kind == "schema"}
    return TableSchema.from_json(announced.pop()), [events for kind, events in runs if kind == "row"]


def encoded(schema: TableSchema, events: list[pa.RecordBatch], settings: MessageSettings) -> list[Message]:
    """Return the messages of a table's events."""
    encoder = Encoder(schema, settings, Names("shop", "3.6.3.Final", server_id=SERVER_ID))
    found = [one for some in events for one in encoder.encode(some, time.time_ns(), number_in_transactions(some)).to_pylist()]
    headers = {"__debezium.newkey": "new_key", "__debezium.oldkey": "old_key"}
    return [
        Message(
            f"shop.audit.{schema.table}",
            _json(one["key"]),
            _json(one["value"]),
            {name: _json(one[field]) for name, field in headers.items() if one[field]},
        )
        for one in found
    ]


ZERO = re.compile(r"0000-\d\d|\d{4}-00|\d{4}-\d\d-00")
"""Dates that Debezium writes as null."""


def check_read(schema: TableSchema, events: list[pa.RecordBatch], settings: MessageSettings, theirs: list[Message]) -> None:
    """Read Debezium's messages, and hold the rows against those of our events."""
    reader = MessageReader(schema.database, schema.table, settings, None if settings.source_types else schema)
    keys, values = ([_bytes(getattr(one, part)) for one in theirs] for part in ("key", "value"))
    count = len(theirs)
    read = reader.read(keys, values, np.arange(count), np.zeros(count, int), pa.array([0] * count, ARROW_SCHEMA.field("time").type))
    assert read.refused == []
    rows = [one for some in read.events for one in some.to_pylist()]
    assert [column.name for column in TableSchema.from_json(rows[0]["after"][0]).columns] == [column.name for column in schema.columns]
    expected = [[None if text and ZERO.match(text) else text for text in one["after"]] for some in events for one in some.to_pylist()]
    assert [one["after"] for one in rows if one["kind"] == "insert"] == expected


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    kinds = ["schema" if kind == "schema" else "row" for kind in batch["kind"].to_pylist()]
    start = 0
    for end in range(1, len(kinds) + 1):
        if end == len(kinds) or kinds[end] != kinds[start] or kinds[start] == "schema":
            yield kinds[start], batch.slice(start, end - start)
            start = end


def _bytes(content: Any) -> bytes | None:
    return None if content is None else json.dumps(content).encode()


def _json(content: bytes | None) -> Any:
    return None if content is None else json.loads(content)


def compare(table: str, ours: list[Message], theirs: list[Message]) -> int:
    """Hold messages against each other; return the number of values of columns that were compared."""
    if table == "keyless":  # a tombstone without a key forgets nothing
        theirs = [one for one in theirs if one.value is not None]
    assert [one.value and one.value["payload"]["op"] for one in ours] == [one.value and one.value["payload"]["op"] for one in theirs]
    count = 0
    for our, their in zip(ours, theirs, strict=True):
        assert our.key == their.key
        moves = {name: value for name, value in their.headers.items() if "key" in name}
        assert {name: value["payload"] for name, value in our.headers.items()} == {name: _payload(value) for name, value in moves.items()}
        if their.value is None:
            assert our.value is None
            continue
        assert our.value["schema"] == their.value["schema"], differing(our.value["schema"], their.value["schema"])
        mine, other = our.value["payload"], their.value["payload"]
        assert list(mine) == list(other) and list(mine["source"]) == list(other["source"])
        uncounted = {"total_order", "data_collection_order"} if table == "moved" else {"total_order"}
        transactions = [{name: value for name, value in one["transaction"].items() if name not in uncounted} for one in (mine, other)]
        assert transactions[0] == transactions[1]
        assert {k: v for k, v in mine["source"].items() if k not in NOT_OURS} == {
            k: v for k, v in other["source"].items() if k not in NOT_OURS
        }
        for side in ("before", "after"):
            assert (mine[side] is None) == (other[side] is None)
            for name, value in (mine[side] or {}).items():
                assert same(table, value, other[side][name]), (table, name, value, other[side][name])
                count += 1
    return count


def differing(ours: Any, theirs: Any) -> list[Any]:
    """Return the fields of rows that differ, for the message of a failed test."""
    rows = ours["fields"][1]["fields"], theirs["fields"][1]["fields"]
    return [(one, other) for one, other in zip(*rows, strict=True) if one != other]


def _payload(header: Any) -> Any:
    return header["payload"] if isinstance(header, dict) and "payload" in header else header


def same(table: str, ours: Any, theirs: Any) -> bool:
    """Return whether values are equal, but for the differences that are Debezium's: see docs/kafka-messages.md."""
    if table == "t_own" and isinstance(ours, str):
        return ours in MISPRINTED or bool(json.loads(ours) == json.loads(theirs))
    if table == "moved" and isinstance(theirs, str):
        return bool(ours == theirs.replace("\\,", ","))
    return bool(ours == theirs)
