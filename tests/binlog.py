"""A live server's binary log, for tests: statements on one side, decoded events on the other."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Request, Source, log_status
from auditor.pipeline.binlog.ranges import LogRange, LogScan, Mark
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.events import Place, TableSchema
from tests.servers import mysql

Event = dict[str, Any]

SERVER_ID = 1_000_000_000 + os.getpid()
"""Every process of the tests reads the servers' logs under a number of its own."""


@dataclass(frozen=True)
class LiveLog:
    """The log of the server behind a URL; what is read is of the URL's database."""

    url: str
    range_bytes: int = 1 << 20
    patience: float = 20

    @property
    def database(self) -> str:
        return urlsplit(self.url).path.strip("/")

    @property
    def source(self) -> Source:
        return Source(self.url, "shop")

    def run(self, *statements: str | bytes) -> list[tuple[Any, ...]]:
        """Run statements in one session in UTC that takes any value; return the rows of the last one."""
        with closing(mysql.connect(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            for statement in statements:
                cursor.execute(statement)  # type: ignore[arg-type]  # bytes pass as they are
            return list(cursor.fetchall())

    def end(self) -> Place:
        with closing(mysql.connect(self.url)) as connection:
            return log_status(connection).end

    def purge(self) -> None:
        """Begin a file of the log, and delete all before it. Readers are ended: a server keeps the files that it believes to be read."""
        self.run("FLUSH BINARY LOGS")
        file = self.end().file
        deadline = time.monotonic() + 20
        while self.run("SHOW BINARY LOGS")[0][0] != file:
            assert time.monotonic() < deadline, "the server keeps the files"
            with closing(mysql.connect(self.url)) as connection, connection.cursor() as cursor:
                mysql.end_sessions(cursor, "command LIKE 'Binlog Dump%'")
            self.run(f"PURGE BINARY LOGS TO '{file}'")
            time.sleep(0.05)

    def scan(self, start: Place, until: Place | None = None) -> list[LogRange]:
        return self.marked(Mark(start), until)[0]

    def marked(self, mark: Mark, until: Place | None = None, max_bytes: int | None = None) -> tuple[list[LogRange], Mark]:
        log = LogScan(Request(self.source, mark.place, SERVER_ID), mark, self.range_bytes, self.patience)
        try:
            return log.advance(until or self.end(), max_bytes), log.mark
        finally:
            log.close()

    def reading(self, tables: Sequence[str] = ("*",), skip_pipelines: Sequence[str] = ()) -> Reading:
        return Reading(self.source, Selection(tables, self.database, skip_pipelines=skip_pipelines), 0, self.patience)

    def decode(self, ranges: Iterable[LogRange], tables: Sequence[str] = ("*",)) -> list[Event]:
        reading = self.reading(tables)
        return [event for log_range in ranges for batch in reading.batches(log_range) for event in batch.to_pylist()]

    def events(self, start: Place, tables: Sequence[str] = ("*",)) -> list[Event]:
        """Return the events since a place, in the order of the log, without those of schemas."""
        found = [event for event in self.decode(self.scan(start), tables) if event["kind"] != "schema"]
        return sorted(found, key=lambda event: (event["position"], event["row"]))

    def schema(self, start: Place, table: str) -> TableSchema:
        """Return the last schema of a table that was announced since a place."""
        announced = [event for event in self.decode(self.scan(start), [table]) if event["kind"] == "schema"]
        return TableSchema.from_json(announced[-1]["after"][0])

    def cut_to(self, range_bytes: int) -> LiveLog:
        return replace(self, range_bytes=range_bytes)

    @contextmanager
    def globally(self, **settings: str) -> Iterator[None]:
        """Set global variables for the block."""
        before = {name: self.run(f"SELECT @@GLOBAL.{name}")[0][0] for name in settings}
        try:
            for name, value in settings.items():
                self.run(f"SET GLOBAL {name} = {value}")
            yield
        finally:
            for name, old in before.items():
                self.run(f"SET GLOBAL {name} = {json.dumps(old) if isinstance(old, str) else old}")


def in_short(events: Iterable[Event]) -> list[tuple[str, list[str | None] | None, list[str | None] | None]]:
    """Return kind, before and after of each event."""
    return [(event["kind"], event["before"], event["after"]) for event in events]
