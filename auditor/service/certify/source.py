"""A server's binary log, decoded: each type as the server prints it, and what each statement does as SELECT shows it afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict

from auditor.durations import durations
from auditor.errors import AuditorError, LogRefused
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Request, Source, log_status, other_server_id, query
from auditor.pipeline.binlog.ranges import LogScan, Mark
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.check import check_source as check_settings
from auditor.pipeline.events import Place
from auditor.service.certify.book import Book, listed
from auditor.service.certify.log_columns import KINDS, Sample, samples_of
from auditor.service.certify.scratch import Scratch
from auditor.service.selftest import Differs

RANGE_BYTES = 1 << 20
"""Bytes of the log that are decoded at once."""

LONGEST_NAME = 60
"""Characters of a type that a check's name shows."""

SETTINGS = ("SET NAMES utf8mb4", "SET time_zone = '+00:00', sql_mode = ''")
"""Of the session that writes: dates of zeros, and other values that a server takes only then, may be in a source."""

STATEMENTS: Mapping[str, Sequence[str]] = {
    "INSERT of several rows": ("INSERT INTO rows_ VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL), (4, '', 0), (5, 'é😀', -5)",),
    "INSERT ... SELECT": ("INSERT INTO rows_ SELECT id + 10, v, n FROM rows_",),
    "REPLACE": ("REPLACE INTO rows_ VALUES (1, 'replaced', 1), (20, 'new', 2)",),
    "INSERT ... ON DUPLICATE KEY UPDATE": (
        "INSERT INTO rows_ VALUES (2, 'x', 2), (21, 'y', 3) ON DUPLICATE KEY UPDATE v = 'twice', n = n + 1",
    ),
    "INSERT IGNORE": ("INSERT IGNORE INTO rows_ VALUES (3, 'ignored', 0), (22, 'z', 4)",),
    "UPDATE": ("UPDATE rows_ SET n = n + 100, v = NULL WHERE id BETWEEN 2 AND 12",),
    "UPDATE of keys": ("UPDATE rows_ SET id = id + 1000 WHERE id < 3 ORDER BY id DESC",),
    "UPDATE of two tables": (
        "INSERT INTO other_ VALUES (4, 'four'), (5, 'five')",
        "UPDATE rows_ JOIN other_ ON rows_.id = other_.id SET rows_.v = other_.v, other_.v = 'taken'",
    ),
    "DELETE": ("DELETE FROM rows_ WHERE id IN (3, 13)",),
    "DELETE of two tables": ("DELETE rows_, other_ FROM rows_ JOIN other_ ON rows_.id = other_.id WHERE rows_.id = 4",),
    "a transaction that is committed": ("BEGIN", "INSERT INTO rows_ VALUES (30, 'c', 1)", "UPDATE rows_ SET n = 2 WHERE id = 30", "COMMIT"),
    "a transaction that is rolled back": ("BEGIN", "INSERT INTO rows_ VALUES (31, 'r', 1)", "DELETE FROM rows_ WHERE id = 30", "ROLLBACK"),
    "a savepoint that is rolled back": (
        "BEGIN", "INSERT INTO rows_ VALUES (32, 's', 1)", "SAVEPOINT here", "INSERT INTO rows_ VALUES (33, 's', 1)", "ROLLBACK TO here",
        "INSERT INTO rows_ VALUES (34, 's', 1)", "COMMIT",
    ),
    "an XA transaction": (
        "XA START 'auditor_certify'", "INSERT INTO rows_ VALUES (35, 'xa', 1)", "XA END 'auditor_certify'", "XA PREPARE 'auditor_certify'",
        "XA COMMIT 'auditor_certify'",
    ),
    "TRUNCATE": ("TRUNCATE TABLE rows_", "INSERT INTO rows_ VALUES (40, 'after', 1)"),
}  # fmt: skip
"""Statements that write rows, by what they are; the names of tables end with an underscore, in place of which stands their schema."""

CHANGES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "ALTER TABLE ADD COLUMN": (("ALTER TABLE shaped_ ADD COLUMN b int DEFAULT 5",), ("add b",)),
    "ALTER TABLE CHANGE": (("ALTER TABLE shaped_ CHANGE a c bigint",), ("rename a c",)),
    "ALTER TABLE MODIFY": (("ALTER TABLE shaped_ MODIFY c decimal(20,0)",), ("modify c",)),
    "ALTER TABLE DROP COLUMN": (("ALTER TABLE shaped_ DROP COLUMN b",), ("drop b",)),
    "TRUNCATE TABLE": (("TRUNCATE TABLE shaped_",), ("clear",)),
    "DROP TABLE": (("DROP TABLE shaped_",), ("gone",)),
    "CREATE TABLE": (("CREATE TABLE shaped_ (id int PRIMARY KEY)",), ("create",)),
}
"""Statements that change a table, and what each must be read as."""


class LogEvent(TypedDict):
    """What is used of an event, which has the fields of `auditor.pipeline.events.ARROW_SCHEMA`."""

    kind: str
    position: int
    row: int
    before: list[Any] | None
    """Texts, None for NULL; None if there is no such row."""
    after: list[Any] | None


@dataclass(slots=True)
class Log:
    """The log of a server, with a session that writes into it."""

    source: Source
    connection: Any
    scratch: Scratch
    mariadb: bool
    rows: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    """What the log says that the table of STATEMENTS holds, by key."""

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            rows = query(self.connection, statement)
        return rows

    def end(self) -> Place:
        """Return where the log ends now."""
        return log_status(self.connection).end

    def events(self, start: Place, table: str) -> list[LogEvent]:
        """Return the events of a table since a place, in the order of the log, with notes and without schemas."""
        request = Request(self.source, start, other_server_id())
        scan = LogScan(request, Mark(start), RANGE_BYTES, durations().source_absence, notes_statements=True)
        try:
            ranges = scan.advance(self.end())
        finally:
            scan.close()
        reading = Reading(self.source, Selection([f"{self.scratch.name}.{table}"], ""), 0, durations().source_absence, notes=True)
        changes = [event for log_range in ranges for batch in reading.batches(log_range) for event in batch.to_pylist()]
        if poison := next((event for event in changes if event["kind"] == "poison"), None):
            raise LogRefused(f"rows cannot be had: {_read_body(poison).get('reason', '')}")
        return sorted((event for event in changes if event["kind"] != "schema"), key=lambda event: (event["position"], event["row"]))


def check_log(book: Book, here: Scratch, url: str) -> None:
    """Decode what the server logs of each type and statement, and compare it with what SELECT shows."""
    source = Source(url, "certify")
    try:
        with here.writing() as session:
            reasons = [sentence for severity, sentence in check_settings(session, has_tracker=False) if severity == "error"]
        connection = source.connect()
    except AuditorError as error:
        book.skip("source", "the binary log", str(error))
        return
    if reasons:
        connection.close()
        book.skip("source", "the binary log", "; ".join(reasons))
        return
    with closing(connection):
        log = Log(source, connection, here, log_status(connection).mariadb)
        log.run(*SETTINGS)
        for kinds in KINDS:
            _check_types(book, log, kinds)
        _check_statements(book, log)
        _check_changes(book, log)


def _check_types(book: Book, log: Log, kinds: str) -> None:
    samples = samples_of("mariadb" if log.mariadb else "mysql", kinds)
    read: list[tuple[list[str | None], tuple[Any, ...]]] = []
    if not book.attempt("source", f"the log of {kinds}", lambda: read.extend(_read_types(log, f"typed_{kinds}", samples))):
        return
    for place, sample in enumerate(samples):
        name = sample.type if len(sample.type) <= LONGEST_NAME else f"{sample.type[:LONGEST_NAME]}..."
        book.attempt(
            "source", f"type {name}", partial(_check_type, sample, [(decoded[place + 1], printed[place]) for decoded, printed in read])
        )


def _read_types(log: Log, table: str, samples: Sequence[Sample]) -> list[tuple[list[str | None], tuple[Any, ...]]]:
    """Return of each row its decoded texts, with the key before them, and what the server prints."""
    name = log.scratch.table(table)
    depth = max(len(sample.values) for sample in samples)
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    start = log.end()
    log.run(f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})")
    for row in range(depth + 1):  # the last one for the DELETE
        values = ", ".join(sample.values[row % len(sample.values)] for sample in samples)
        log.run(f"INSERT IGNORE INTO {name} VALUES ({row}, {values})")
    log.run(f"DELETE FROM {name} WHERE id = {depth}")
    events = [event for event in log.events(start, table) if event["kind"] != "change"]
    if [event["kind"] for event in events] != ["insert"] * (depth + 1) + ["delete"]:
        raise Differs(f"{depth + 1} inserts and a delete were written, and the log has {listed([event['kind'] for event in events], 40)}")
    if events[-1]["before"] != events[-2]["after"]:
        raise Differs("the row of a DELETE is not the one that was inserted")
    selected = ", ".join(sample.printed.format(c=f"c{number}") for number, sample in enumerate(samples))
    printed = log.run(f"SELECT {selected} FROM {name} ORDER BY id")
    return list(zip([event["after"] or [] for event in events[:-2]], printed, strict=True))


def _check_type(sample: Sample, values: Sequence[tuple[str | None, Any]]) -> None:
    for decoded, printed in values:
        if not sample.is_text_of(decoded, printed):
            raise Differs(f"the log is decoded to {decoded!r:.200}, and the server prints {printed!r:.200}")


def _check_statements(book: Book, log: Log) -> None:
    table, other = log.scratch.table("rows"), log.scratch.table("other")
    log.run(
        f"CREATE TABLE {table} (id int PRIMARY KEY, v varchar(40) CHARACTER SET utf8mb4, n int)",
        f"CREATE TABLE {other} (id int PRIMARY KEY, v varchar(40) CHARACTER SET utf8mb4)",
    )
    for name, statements in STATEMENTS.items():
        book.attempt("source", name, partial(_check_statement, log, [_in_scratch(log, statement) for statement in statements]))


def _check_statement(log: Log, statements: Sequence[str]) -> None:
    """Run statements, apply what the log says of them to what it said before, and compare that with SELECT."""
    start = log.end()
    log.run(*statements)
    for event in log.events(start, "rows"):
        if event["kind"] == "change":
            if any(op["op"] == "clear" for op in _read_body(event)["ops"]):
                log.rows.clear()
            continue
        if event["before"] is not None and log.rows.pop(event["before"][0], None) != tuple(event["before"]):
            raise Differs(f"the log changes the row {event['before']}, which it never wrote")
        if event["after"] is not None:
            log.rows[event["after"][0]] = tuple(event["after"])
    texts = log.run(f"SELECT CAST(id AS CHAR), v, CAST(n AS CHAR) FROM {log.scratch.table('rows')}")
    logged = {row[0]: tuple(row) for row in texts}
    if logged != log.rows:
        differ = sorted(key for key in logged.keys() | log.rows.keys() if logged.get(key) != log.rows.get(key))
        raise Differs(
            f"by the log the rows {listed([(key, log.rows.get(key)) for key in differ])} are {listed([logged.get(key) for key in differ])}"
        )


def _check_changes(book: Book, log: Log) -> None:
    log.run(f"CREATE TABLE {log.scratch.table('shaped')} (id int PRIMARY KEY, a int)")
    for name, (statements, wanted) in CHANGES.items():
        book.attempt("source", name, partial(_check_change, log, [_in_scratch(log, statement) for statement in statements], list(wanted)))


def _check_change(log: Log, statements: Sequence[str], wanted: Sequence[str]) -> None:
    start = log.end()
    log.run(*statements)
    notes = [_read_body(event) for event in log.events(start, "shaped") if event["kind"] == "change"]
    operations = [
        " ".join([op["op"], *(str(op[key]) for key in ("column", "from", "to") if key in op)]) for note in notes for op in note["ops"]
    ]
    if operations != wanted:
        raise Differs(f"the statement is read as {listed(operations)}, and must be {listed(wanted)}")


def _read_body(note: LogEvent) -> Any:
    """Return the body of a note, which an event carries as JSON."""
    assert note["after"]
    return json.loads(note["after"][0])["body"]


def _in_scratch(log: Log, statement: str) -> str:
    for name in ("rows", "other", "shaped"):
        statement = statement.replace(f"{name}_", log.scratch.table(name))
    return statement
