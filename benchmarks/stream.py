"""Part stream: how fast the binary log is scanned and decoded, per second of this process's CPU, beside mysql-replication.

The log has inserts, updates and deletes of a table of ten columns in events of 100 rows, and updates of one row in a transaction each.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Request, Source, log_status
from auditor.pipeline.binlog.ranges import LogRange, LogScan, Mark
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.events import Place
from benchmarks.servers import Servers
from tests.servers import mysql
from tests.servers.process import Unavailable

ENGINES = ("mysql", "mariadb")
TABLE_NAME = "streamed"
TABLE = f"""CREATE TABLE {TABLE_NAME} (id BIGINT PRIMARY KEY, customer INT NOT NULL, status ENUM('new', 'paid', 'sent'),
 price DECIMAL(12,2), quantity SMALLINT, title VARCHAR(80) CHARACTER SET utf8mb4, note VARCHAR(200) CHARACTER SET utf8mb4,
 created DATETIME(6), updated TIMESTAMP(3) NULL, weight DOUBLE)"""
ROWS_PER_EVENT = 100
MAX_ROWS = 100_000
RANGE_BYTES = 4 << 20
HEADERS, TRANSACTIONS = "headers, events of 100 rows, MB", "headers, transactions of one row"
DECODED, SINGLE, OTHER = "events to Arrow batches", "the same, transactions of one row", "events, mysql-replication"


@dataclass
class Stream:
    """Rates per CPU second by label on one engine; ``why`` has the reason if it did not run."""

    engine: str
    server: str = ""
    events: int = 0
    rates: dict[str, float] = field(default_factory=dict)
    why: str = ""


def measure(servers: Servers, engine: str, rows: int, repeat: int) -> Stream:
    """Measure one engine with ``rows`` rows; each rate is the median of ``repeat`` runs after one that warms up."""
    try:
        server = servers[engine]
    except Unavailable as reason:
        return Stream(engine, why=str(reason))
    print(f"stream: {engine}", file=sys.stderr)
    start, middle, end = _fill(server.url, rows)
    source = Source(server.url, engine)
    reading = Reading(source, Selection([TABLE_NAME], urlsplit(server.url).path.strip("/")), 0, 10.0)
    many, single = _scan(source, start, middle), _scan(source, middle, end)
    stream = Stream(engine, server.version, _decode(reading, many))
    singles = _decode(reading, single)
    cases: list[tuple[str, float, Callable[[], object]]] = [
        (HEADERS, (middle.offset - start.offset) / 1e6, lambda: _scan(source, start, middle)),
        (TRANSACTIONS, singles, lambda: _scan(source, middle, end)),
        (DECODED, stream.events, lambda: _decode(reading, many)),
        (SINGLE, singles, lambda: _decode(reading, single)),
        (OTHER, stream.events, lambda: _decode_by_another(server.url, engine, start, stream.events)),
    ]
    for label, amount, work in cases:
        stream.rates[label] = amount / median(_cpu_seconds(work) for _ in range(repeat))
    return stream


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def make_table(cursor: Any) -> None:
    """Make the empty table, and let its log begin a new file."""
    for statement in ("SET time_zone = '+00:00'", "FLUSH BINARY LOGS", f"DROP TABLE IF EXISTS {TABLE_NAME}", TABLE):
        cursor.execute(statement)


def write_rows(cursor: Any, rows: int) -> int:
    """Insert rows in transactions of one event each, update a fifth of them, delete a tenth; return the number of events."""
    for first in range(0, rows, ROWS_PER_EVENT):
        cursor.execute(f"INSERT INTO {TABLE_NAME} VALUES " + ", ".join(_row(row) for row in range(first, first + ROWS_PER_EVENT)))
    updated = cursor.execute(f"UPDATE {TABLE_NAME} SET quantity = quantity + 1 WHERE id < {rows // 5}")
    return rows + int(updated) + int(cursor.execute(f"DELETE FROM {TABLE_NAME} WHERE id < {rows // 10}"))


def _fill(url: str, rows: int) -> tuple[Place, Place, Place]:
    """Write the log; return where it begins, where the transactions of one row begin, and where these end."""
    with closing(mysql.connect(url)) as connection, connection.cursor() as cursor:
        make_table(cursor)
        start = log_status(connection).end
        write_rows(cursor, rows)
        middle = log_status(connection).end
        for row in range(rows // 10, rows // 10 + rows // 5):
            cursor.execute(f"UPDATE {TABLE_NAME} SET quantity = -1 WHERE id = {row}")
        return start, middle, log_status(connection).end


def _row(row: int) -> str:
    created = f"2024-01-{1 + row % 28:02d} 12:{row % 60:02d}:{row % 59:02d}.{row % 1000000:06d}"
    return (
        f"({row}, {row * 7 % 5000}, {1 + row % 3}, {row * 13 % 100000 / 100}, {row % 50}, 'title of order {row}',"
        f" 'a note that is somewhat longer, of order {row}', '{created}',"
        f" '2024-02-{1 + row % 28:02d} 10:{row % 60:02d}:{row % 59:02d}.123', {row * 0.37})"
    )


def _scan(source: Source, start: Place, end: Place) -> list[LogRange]:
    with closing(LogScan(Request(source, start, 50_001), Mark(start), RANGE_BYTES, 10.0)) as scan:
        return scan.advance(end)


def _decode(reading: Reading, ranges: list[LogRange]) -> int:
    """Return the number of events without those of schemas: one per range and table."""
    events: int = sum(batch.num_rows for log_range in ranges for batch in reading.batches(log_range))
    return events - len(ranges)


def _decode_by_another(url: str, engine: str, start: Place, events: int) -> None:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    parts, decoded = urlsplit(url), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it uses old names of the driver
        stream = BinLogStreamReader(
            connection_settings={"host": parts.hostname, "port": parts.port, "user": parts.username, "charset": "utf8mb4"},
            server_id=50_002, log_file=start.file, log_pos=start.offset, resume_stream=True, is_mariadb=engine == "mariadb",
            only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        )  # fmt: skip
        with closing(stream):
            for event in stream:
                decoded += len(event.rows)
                if decoded >= events:
                    return
    raise RuntimeError(f"mysql-replication found {decoded} of {events} events")
