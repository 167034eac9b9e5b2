"""Attacks on a running pipeline: by names and values, by the source server, by who changes parts, and full disks."""

from __future__ import annotations

import datetime as dt
import errno
import json
import logging
import os
import random
import resource
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pytest
from sqlalchemy import event as connections

from auditor.api import create_app
from auditor.cli import main
from auditor.errors import AuditorError, ChangeStreamError, StagingFailed, StagingFull, StoreFull
from auditor.pipeline.binlog import compression, decode, json_texts, log_connection, ranges
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.event_types import MALFORMED
from auditor.pipeline.binlog.log_connection import Dump, Request, Source, first_place, log_status
from auditor.pipeline.binlog.ranges import LogRange
from auditor.pipeline.events import Place
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.part_writer import write_parts
from auditor.service import pipeline_problems
from auditor.service.certify.log_columns import KINDS, samples_of
from auditor.service.pipeline_problems import find_problems
from auditor.service.pipeline_status import status
from auditor.store import parts, pipelines, tokens
from auditor.telemetry import configure_logging
from tests.api.conftest import make_client
from tests.binlog import LiveLog
from tests.durations import SetDurations
from tests.hostile_texts import ATTACKS, PIECES, TEXTS
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.conftest import TARGETS
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table
from tests.servers.proxy import proxied
from tests.staged_files import change_rows
from tests.unit.test_hostile_server import hostile, packet

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
ORDERS = table(id="bigint", item="varchar(40) null")
OTHERS = table("others", id="bigint", item="varchar(40) null")
DUCKDB = pytest.mark.parametrize("engine", [one for one in TARGETS if one.id == "duckdb"], indirect=True)

# names and values

NAME_BYTES = 55
"""Bytes of a name that each source and target takes, with what stands before it."""


def packed_names() -> list[str]:
    """Names that together hold every piece that a name can hold, none at an end; and the attacks."""
    names, name = [], ""
    for piece in (one for one in PIECES if "\0" not in one):
        if len((name + piece).encode()) > NAME_BYTES:
            names.append(name)
            name = ""
        name += piece
    return [f"n{number}{one}x" for number, one in enumerate([*names, name, *ATTACKS])]


NAMES = packed_names()
COLUMNS = [f"c{number}{piece}x" for number, piece in enumerate((*(one for one in PIECES if "\0" not in one), *ATTACKS))]
LABELS = [text for text in TEXTS if not text.endswith(" ") and len(text) < 250]


def tick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return f"CONVERT(X'{text.encode().hex()}' USING utf8mb4)" if text else "''"


class NotedRoad(LiveRoad):
    notes = True


ROADS = [
    pytest.param("mysql", "postgres", marks=[pytest.mark.mysql, pytest.mark.postgres], id="mysql-postgres"),
    pytest.param("mariadb", "duckdb", marks=[pytest.mark.mariadb, pytest.mark.duckdb], id="mariadb-duckdb"),
]


def carried(target: str) -> tuple[list[str], list[str]]:
    """The texts that a target's columns hold, and those that are labels of an ENUM too."""
    texts = [text for text in TEXTS if target == "duckdb" or "\0" not in text]  # which no text of PostgreSQL can hold
    return texts, [text for text in LABELS if text in texts]


VALUES = sum(5 * len(texts) + len(labels) for texts, labels in map(carried, ("postgres", "duckdb")))
"""A hostile text in a column of each type: TEXT, VARCHAR, JSON, BLOB, VARBINARY, and ENUM."""


class HostileRoad:
    """A pipeline from a database with a hostile name, with canaries on both sides."""

    def __init__(self, folder: Path, source: LiveEngine, into: str, database: str) -> None:
        self.log, self.database = LiveLog(source.url), database
        self.log.run(f"DROP DATABASE IF EXISTS {tick(database)}", f"CREATE DATABASE {tick(database)} CHARACTER SET utf8mb4")
        parts_of = urlsplit(source.url)
        url = parts_of._replace(path="/" + quote(database, safe="")).geturl()
        self.road = NotedRoad(folder, replace(source, url=url), "*", into=into, schema="hostile")
        self.canaries = [f"{schema}.victim" for schema in ("hostile", "main" if into.startswith("duckdb") else "public")]
        self.road.execute("DROP SCHEMA IF EXISTS hostile CASCADE", "CREATE SCHEMA hostile")
        for name in self.canaries:
            self.road.execute(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id integer)", f"INSERT INTO {name} VALUES (7)")
        self.source("CREATE TABLE victim_of_source (id int PRIMARY KEY)", "INSERT INTO victim_of_source VALUES (7)")

    def source(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.log.run(f"USE {tick(self.database)}", *statements)

    def check_canaries(self) -> None:
        for name in self.canaries:
            assert self.road.query(f"SELECT id FROM {name}") == [(7,)]
        assert self.source("SELECT id FROM victim_of_source") == [(7,)]

    def target(self, name: str) -> str:
        return 'hostile."' + name.replace('"', '""') + '"'

    def close(self) -> None:
        for name in self.canaries:
            self.road.execute(f"DROP TABLE IF EXISTS {name}")
        self.road.execute("DROP SCHEMA IF EXISTS hostile CASCADE")
        self.road.close()
        self.log.run(f"DROP DATABASE IF EXISTS {tick(self.database)}")


DATABASE = "d\nDROP TABLE victim; --\r\u2028\u202e\x1b[31m`'\""


@pytest.mark.quick_for("mariadb-duckdb")
@pytest.mark.parametrize(("source", "target"), ROADS)
def test_hostile_names_and_values_arrive_as_they_are(
    source: str, target: str, engines: Engines, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine, into = engines.live(source), f"duckdb:///{tmp_path}/warehouse.duckdb" if target == "duckdb" else engines.live(target).url
    with closing(HostileRoad(tmp_path, engine, into, DATABASE)) as found:
        texts, labels = carried(target)
        for name in NAMES:
            found.source(f"CREATE TABLE {tick(name)} (id int PRIMARY KEY, t text)", f"INSERT INTO {tick(name)} VALUES (1, {literal(name)})")
        shown = ", ".join(f"{tick(name)} varchar(99)" for name in COLUMNS)
        values = ", ".join(literal(name) for name in COLUMNS)
        found.source(f"CREATE TABLE wide (id int PRIMARY KEY, {shown})", f"INSERT INTO wide VALUES (1, {values})")
        listed = ", ".join(f"'{label.replace(chr(92), chr(92) * 2).replace(chr(39), chr(39) * 2)}'" for label in labels)
        columns = f"t text, v varchar(900), j json, e enum({listed}) COLLATE utf8mb4_bin, b blob, vb varbinary(2000)"
        found.source(f"CREATE TABLE valued (id int PRIMARY KEY, {columns}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        rows = []
        for number, text in enumerate(texts):
            as_json, as_bytes = literal(json.dumps({text: text})), f"X'{text.encode().hex()}'"
            label = labels.index(text) + 1 if text in labels else "NULL"
            rows.append(f"({number}, {literal(text)}, {literal(text)}, {as_json}, {label}, {as_bytes}, {as_bytes})")
        found.source(f"INSERT INTO valued VALUES {', '.join(rows)}")
        found.source("CREATE TABLE with_nul (id int PRIMARY KEY, t text)", "INSERT INTO with_nul VALUES (1, X'610062')")
        found.road.stage()
        found.road.loader.merge_all()
        for name in NAMES:
            assert found.road.query(f"SELECT id, t FROM {found.target(name)}") == [(1, name)]
        assert found.road.query(f"SELECT * FROM {found.target('wide')}") == [(1, *COLUMNS)]
        held = found.road.query(f"SELECT id, t, v, CAST(j AS VARCHAR), e, b, vb FROM {found.target('valued')} ORDER BY id")
        assert len(held) == len(texts)
        for text, (_, t, v, j, e, b, vb) in zip(texts, held, strict=True):
            assert (t, v, json.loads(j), bytes(b), bytes(vb)) == (text, text, {text: text}, text.encode(), text.encode())
            assert e == (text if text in labels else None)
        reports = pipelines.list_merges(found.road.store, PIPELINE)["wh"]
        others = {name: (one.state, one.reason) for name, one in reports.items() if not name.endswith(".with_nul")}
        assert set(others.values()) == {("merged", "")}
        assert (reports[f"{DATABASE}.with_nul"].state == "merged") == (target == "duckdb")
        found.check_canaries()
        shows_no_control_character(found.road, capsys, caplog)


def shows_no_control_character(road: Any, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Status, pages, messages and log lines hold printable characters and ends of lines alone, and name what they are about."""
    capsys.readouterr()
    assert main(["pipeline", "status", PIPELINE, "--config", str(road.config_file)]) == 0
    before, level, logged = list(logging.root.handlers), logging.root.level, list(caplog.records)
    configure_logging("console", "info")
    try:
        for record in logged:
            logging.root.handlers[-1].handle(record)
    finally:
        logging.root.handlers[:] = before
        logging.root.setLevel(level)
    found = list(capsys.readouterr())
    assert "holds" in found[1]
    secret = tokens.create_token(road.store, name="ops", scope="pipeline")
    with make_client(create_app(road.settings, road.store), headers={"Authorization": f"Bearer {secret}"}) as client:
        pages = [client.get(f"/pipelines/{PIPELINE}").raise_for_status().text]
        for name in pipelines.list_merges(road.store, PIPELINE)["wh"]:
            answer = client.get(f"/pipelines/{PIPELINE}/table", params={"target": "wh", "table": name})
            pages.append(answer.raise_for_status().text)
        assert "DROP TABLE victim" in pages[0]
        found += pages
    now = dt.datetime.now(dt.UTC)
    keys = find_problems(status(road.settings, road.store, PIPELINE, look=False), {}, now)
    due, _ = pipelines.update_problems(road.store, PIPELINE, keys, now, lambda one: 0)
    found += [pipeline_problems.problem_message(PIPELINE, due).body(form) for form in ("text", "markdown", "html") if due]
    for place, text in enumerate(found):
        hidden = [one for line in text.split("\n") for one in line.replace("\t", "") if not one.isprintable()]
        assert hidden == [], f"{place}: {text[max(text.index(hidden[0]) - 200, 0) :][:400]!r}"


# the source server, and who stands before it


def typed(one: bytes) -> int:
    """The type of the event that a packet holds; 0 if it holds none."""
    return one[9] if len(one) >= 5 + types.HEADER.size and not one[4] else 0


def is_row(one: bytes) -> bool:
    return typed(one) in types.ROWS_TYPES


def is_made_up(one: bytes) -> bool:
    """Whether a packet holds the ROTATE event that a dump begins with."""
    return typed(one) == types.ROTATE


def sealed(one: bytes, event: bytes) -> bytes:
    """A packet with another event, whose size and checksum are right."""
    event = event[:9] + struct.pack("<I", len(event) + 4) + event[13:]
    event += struct.pack("<I", zlib.crc32(event))
    return (len(event) + 1).to_bytes(3, "little") + one[3:4] + b"\0" + event


def bare(one: bytes) -> bytes:
    """The event of a packet without its checksum."""
    return one[5:-4]


class Once:
    """Changes the first packet for which ``chosen`` holds, and passes on the others, numbered without a gap if ``numbered``."""

    def __init__(self, chosen: Callable[[bytes], bool], change: Callable[[bytes], bytes], numbered: bool = False) -> None:
        self.chosen, self.change, self.numbered, self.done, self.number = chosen, change, numbered, False, 0

    def __call__(self, one: bytes) -> bytes:
        sent = one
        if not self.done and self.chosen(one):
            self.done, sent = True, self.change(one)
        if not self.numbered:
            return sent
        found, at = [], 0
        while at < len(sent):
            end = at + 4 + int.from_bytes(sent[at : at + 3], "little")
            self.number = self.number % 256 + 1 if self.number < 255 else 0
            found.append(sent[at : at + 3] + bytes([self.number]) + sent[at + 4 : end])
            at = end
        return b"".join(found)


class Swapped:
    """Sends a packet of rows behind the one that follows it."""

    def __init__(self) -> None:
        self.held = b""

    def __call__(self, one: bytes) -> bytes:
        if is_row(one) and not self.held:
            self.held = one
            return b""
        sent, self.held = one + self.held, b""
        return sent


def renamed(name: bytes) -> Callable[[bytes], bytes]:
    """Let the log go on in another file."""
    return lambda one: sealed(one, one[5 : 5 + types.HEADER.size + 8] + name)


def at(place: int, value: bytes) -> Callable[[bytes], bytes]:
    """Write bytes at a place of an event; its checksum is made to fit."""

    def change(one: bytes) -> bytes:
        event = bare(one)
        return sealed(one, event[:place] + value + event[place + len(value) :])

    return change


def width(value: bytes) -> Callable[[bytes], bytes]:
    """Write how many columns rows have."""
    return lambda one: at(BODY + (10 if typed(one) in types.ROWS_V2 else 8), value)(one)


BODY = types.HEADER.size
TAMPERED: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
    "a byte of a row is another": lambda: Once(is_row, lambda one: one[:-8] + bytes([one[-8] ^ 1]) + one[-7:]),
    "a byte of a checksum is another": lambda: Once(is_row, lambda one: one[:-1] + bytes([one[-1] ^ 1])),
    "a row is cut short": lambda: Once(is_row, lambda one: (len(one) - 10).to_bytes(3, "little") + one[3:-6]),
    "a row is cut short, and sealed": lambda: Once(is_row, lambda one: sealed(one, bare(one)[:-3])),
    "a row is longer, and sealed": lambda: Once(is_row, lambda one: sealed(one, bare(one) + b"\0" * 7)),
    "a packet says that it is longer": lambda: Once(is_row, lambda one: (len(one) + 900).to_bytes(3, "little") + one[3:]),
    "a packet says that others follow it": lambda: Once(is_row, lambda one: b"\xff\xff\xff" + one[3:] + b"\0" * (1 << 24)),
    "an event says that it has 4 GiB": lambda: Once(is_row, lambda one: one[:14] + b"\xf0\xff\xff\xff" + one[18:]),
    "an event says that it has no byte": lambda: Once(is_row, lambda one: one[:14] + b"\0\0\0\0" + one[18:]),
    "an event is shorter than its header": lambda: Once(is_row, lambda one: b"\x05\0\0" + one[3:9]),
    "a packet is empty": lambda: Once(is_row, lambda one: b"\0\0\0" + one[3:4]),
    "a packet is left out": lambda: Once(is_row, lambda one: b""),
    "a packet comes twice": lambda: Once(is_row, lambda one: one + one),
    "two packets are swapped": Swapped,
    "a packet has another number": lambda: Once(is_row, lambda one: one[:3] + bytes([one[3] ^ 5]) + one[4:]),
    "a table is not described": lambda: Once(lambda one: typed(one) == types.TABLE_MAP, lambda one: b"", numbered=True),
    "rows come before their table": lambda: Once(
        lambda one: typed(one) in types.ROWS_TYPES | {types.TABLE_MAP}, lambda one: b"", numbered=True
    ),
    "the end of a transaction is left out": lambda: Once(lambda one: typed(one) == types.XID, lambda one: b"", numbered=True),
    "a transaction ends elsewhere": lambda: Once(lambda one: typed(one) == types.XID, at(13, b"\x09\0\0\0")),
    "rows are of another table": lambda: Once(is_row, at(BODY, b"\x99\x99\x99\x99")),
    "rows have 250 columns": lambda: Once(is_row, width(b"\xfa")),
    "rows have 2^64 columns": lambda: Once(is_row, width(b"\xfe" + b"\xff" * 8)),
    "rows are of an unknown type": lambda: Once(is_row, at(4, b"\xc8")),
    "an event is a partial one": lambda: Once(is_row, at(4, bytes([types.PARTIAL_UPDATE]))),
    "the source lost events": lambda: Once(is_row, at(4, bytes([types.INCIDENT]))),
    "a table has 2^64 columns": lambda: Once(lambda one: typed(one) == types.TABLE_MAP, at(BODY + 8, b"\xfe" + b"\xff" * 30)),
    "rows are a compressed transaction": lambda: Once(is_row, at(4, bytes([types.TRANSACTION_PAYLOAD]))),
    "a file has control characters": lambda: Once(is_made_up, renamed(b"\x1b[31m.000001")),
    "a file is a path": lambda: Once(is_made_up, renamed(b"../../etc/passwd.000001")),
    "a file is no text": lambda: Once(is_made_up, renamed(b"\xff\xfe.000001")),
    "a file has no number": lambda: Once(is_made_up, renamed(b"binlog")),
    "a file has a number beyond all": lambda: Once(is_made_up, renamed(b"binlog.9999999999")),
    "the log goes back": lambda: Once(is_made_up, renamed(b"binlog.000000")),
    "rows without end": lambda: Once(is_row, lambda one: one * 3000, numbered=True),
    "an error with control characters": lambda: Once(is_row, lambda one: packet(one[3], b"\xff\x39\x05#HY000\x1b[31mDROP TABLE victim")),
    "an error that is cut short": lambda: Once(is_row, lambda one: packet(one[3], b"\xff")),
    "the stream ends": lambda: Once(is_row, lambda one: packet(one[3], b"\xfe\0\0\2\0")),
}  # fmt: skip
"""What a server, or who stands before it, sends instead of a log."""

LEAST_WAIT, LONGEST = 2.0, 20.0
"""Seconds of silence that are waited for in these tests, and after which what is read must have ended."""


@pytest.mark.slow_on("mysql")
@on_both
@pytest.mark.alone  # what is changed is the first row of a log, which must not be one of another worker's tables
def test_a_log_that_was_tampered_with_is_refused(
    engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    set_durations(log_silence=LEAST_WAIT)
    monkeypatch.setattr(log_connection.Patience, "wait", _give_up)
    monkeypatch.setattr(ranges, "MOST_BYTES", 300_000)
    monkeypatch.setattr(decode, "BESIDE", 200_000)
    log = LiveLog(engine.url)
    log.run("FLUSH BINARY LOGS")  # what other tests wrote may have filled a file up to the bound that is set here
    log.run("DROP TABLE IF EXISTS orders", "CREATE TABLE orders (id int PRIMARY KEY, item varchar(40))")
    with proxied(engine.url) as proxy, closing(LiveRoad(tmp_path, replace(engine, url=proxy.url), "orders")) as road:
        log.run("BEGIN", "INSERT INTO orders VALUES (1, 'pen'), (2, NULL)", "UPDATE orders SET item = 'ink' WHERE id = 1", "COMMIT")
        log.run("INSERT INTO orders VALUES (3, 'cap')")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unharmed = []
        for name, tamper in TAMPERED.items():
            proxy.tamper, began = tamper, time.monotonic()
            try:
                road.stage()
                unharmed.append(name)
            except AuditorError as error:
                assert "Traceback" not in str(error)
            assert time.monotonic() - began < LONGEST, name
            assert parts.list_parts(road.store, PIPELINE, f"{road.database}.orders", 0) == [], name
        assert unharmed == []
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10, "kilobytes"
        assert road.loader.merge_all() == 0
        proxy.tamper = None
        road.merge()
        assert road.query("SELECT id, item FROM shop.orders ORDER BY id") == [(1, "ink"), (2, None), (3, "cap")]


def _give_up(self: log_connection.Patience, error: AuditorError) -> None:
    raise error


ANSWERS = (
    (), ("",), ("binlog.000001",), ("binlog.000001", ""), ("binlog.000001", "four"), ("binlog.000001", "-4"),
    ("binlog.000001", "9" * 40), ("binlog", "4"), ("\x1b[31m.000001", "4"), ("a\nb.000001", "4"), ("../binlog.000001", "4"),
    ("binlog.99999999", "4"), ("binlog.000001\0", "4"), ("b" * 5000 + ".1", "4"),
)  # fmt: skip
"""What a server may say of where its log ends."""


@pytest.mark.parametrize("row", ANSWERS, ids=range(len(ANSWERS)))
def test_a_place_that_no_log_has_is_refused(row: tuple[str, ...]) -> None:
    def answer(line: Any, number: int) -> None:
        packets = [bytes([max(len(row), 1)])]
        packets += [b"\x03def\0\0\0\x01c\0\x0c\x21\0\xff\0\0\0\xfd\0\0\0\0\0" for _ in row or ("",)]
        packets += [b"\xfe\0\0\2\0"]
        if row:
            packets.append(b"".join(b"\xfd" + len(one).to_bytes(3, "little") + one.encode() for one in row))
        packets += [b"\xfe\0\0\2\0"]
        line.sendall(b"".join(packet(number + place, one) for place, one in enumerate(packets)))

    asked: tuple[Callable[[Any], Place], ...] = (lambda connection: log_status(connection).end, first_place)
    for ask in asked:
        with hostile(answer, b"SHOW") as url, closing(Source(url, "shop").connect()) as connection:
            try:
                found = ask(connection)
            except AuditorError as error:
                assert isinstance(error, ChangeStreamError)
            else:
                assert ask is first_place and str(found) == "binlog.000001:4"


# bytes of events

FUZZED = 600
"""Mutated logs that are decoded, of each server."""
LONGEST_EVENT_TIME = 5.0
"""Seconds for a log of a few events, on a machine with other work."""


class Recorded:
    """A log without checksums that stands in for a connection."""

    def __init__(self, events: list[bytes], mariadb: bool) -> None:
        self.recorded, self.mariadb = events, mariadb

    def events(self, head: int | None = None) -> Iterator[tuple[bytes, int, int]]:
        for event in self.recorded:
            yield event, 0, len(event) if head is None else min(head, len(event))

    def close(self) -> None:
        """Nothing is open."""


def record(log: LiveLog, log_range: LogRange) -> list[bytes]:
    """The events of a range as the server sends them, without their checksums."""
    found: list[bytes] = []
    with closing(Dump(Request(log.source, log_range.start, 88_001, blocking=False))) as opened:
        for buffer, begin, end in opened.events():
            event = buffer[begin:end]
            if event[4] == types.FORMAT:
                event = event[:-5] + b"\0" + event[-4:]
            elif event[4] != types.ROTATE:
                event = resized(event[:-4])
            found.append(event)
            if types.HEADER.unpack_from(event)[4] >= log_range.end and event[4] not in (types.ROTATE, types.FORMAT):
                return found
    return found


def resized(event: bytes) -> bytes:
    return event[:9] + struct.pack("<I", len(event)) + event[13:]


def mutated(events: list[bytes], chance: random.Random) -> list[bytes]:
    """The same events with a few changes, of which each leaves the sizes in the headers right."""
    found = list(events)
    for _ in range(chance.randint(1, 3)):
        number = chance.randrange(len(found))
        event = bytearray(found[number])
        match chance.randrange(8):
            case 0 | 1:
                event[chance.randrange(types.HEADER.size, len(event)) if len(event) > types.HEADER.size else 4] ^= 1 << chance.randrange(8)
            case 2:
                place = chance.randrange(min(types.HEADER.size, len(event) - 1), len(event))
                event[place : place + chance.choice((1, 2, 4, 9))] = bytes([chance.choice((0, 0xFF, 0xFE, 0xFC, 0x80))]) * 9
            case 3:
                del event[chance.randrange(types.HEADER.size, len(event) + 1) :]
            case 4:
                begin = chance.randrange(types.HEADER.size, len(event) + 1)
                event[begin:begin] = event[begin : begin + chance.randrange(1, 40)] * chance.choice((1, 2, 50))
            case 5:
                event[4] = chance.randrange(256)
            case 6:
                other = chance.randrange(len(found))
                found[number], found[other] = found[other], found[number]
                continue
            case _:
                event = bytearray(resized(bytes(event[: types.HEADER.size])) + chance.randbytes(chance.randrange(200)))
        found[number] = resized(bytes(event))
    return found


@pytest.mark.slow_on("mariadb")
@on_both
def test_bytes_of_events_are_decoded_or_refused(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    log, logs = LiveLog(engine.url, range_bytes=1 << 30), []
    for kinds in KINDS:
        samples = samples_of(engine.name, kinds)
        columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
        rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(3)]
        start = log.end()
        log.run(
            f"DROP TABLE IF EXISTS fuzzed_{kinds}",
            f"CREATE TABLE fuzzed_{kinds} (id int PRIMARY KEY, {columns})",
            *(f"INSERT IGNORE INTO fuzzed_{kinds} VALUES ({number}, {row})" for number, row in enumerate(rows)),
            f"UPDATE fuzzed_{kinds} SET id = id + 10",
            f"DELETE FROM fuzzed_{kinds} WHERE id = 11",
        )
        [log_range] = log.scan(start)
        logs.append((log_range, record(log, log_range)))
    chance = random.Random(42)
    chosen: list[bytes] = []
    mariadb = engine.name == "mariadb"
    for module in (decode, ranges):
        monkeypatch.setattr(module, "Dump", lambda request: Recorded(chosen, mariadb))
    reading = replace(log.reading(), patience=0.0)
    before, decoded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for log_range, events in logs:
        chosen[:] = events
        assert len(list(reading.batches(log_range))) > 1, "what is not changed is decoded"
    for number in range(FUZZED):
        log_range, events = chance.choice(logs)
        chosen[:] = mutated(events, chance)
        began = time.monotonic()
        for work in (
            lambda one=log_range, notes=bool(number % 2): list(replace(reading, notes=notes).batches(one)),
            lambda one=log_range: replace(log, patience=0.0).scan(one.start, Place(one.start.file, one.end)),
        ):
            try:
                work()
                decoded += 1
            except AuditorError:
                pass
            except Exception as error:
                raise AssertionError(f"number {number}: {[event.hex() for event in chosen]}") from error
        assert time.monotonic() - began < LONGEST_EVENT_TIME, number
    assert 0 < decoded < 2 * FUZZED
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10, "kilobytes"


def small_array(*offsets: int, kind: int = json_texts.SMALL_ARRAY) -> bytes:
    return struct.pack("<HH", len(offsets), 9) + b"".join(struct.pack("<BH", kind, offset) for offset in offsets)


def laughing(levels: int) -> bytes:
    """Arrays of which each holds the next one ten times."""
    size = len(small_array(*[0] * 10))
    return b"\2" + b"".join(small_array(*[size] * 10) for _ in range(levels))


BOMBS: dict[str, Callable[[], Any]] = {
    "a document that is within itself": lambda: json_texts.json_text(b"\2" + small_array(0)),
    "a document with ten billion values": lambda: json_texts.json_text(laughing(10) + b"\0" * 400),
    "one text that a document shows thousands of times": lambda: json_texts.json_text(
        b"\2" + small_array(*[4 + 3 * 9000] * 9000, kind=json_texts.STRING) + b"\xff\xff\3" + b"x" * 65_535
    ),
    "a document that says it has more values": lambda: json_texts.json_text(b"\3" + b"\xff" * 8),
    "a size that does not end": lambda: json_texts.json_text(b"\x0c" + b"\x80" * 1_000_000),
    "a text behind its document": lambda: json_texts.json_text(b"\x0c\x7fabc"),
    "an event of MariaDB that unpacks to more than it says": lambda: compression.uncompressed_event(
        b"\x81\x09" + zlib.compress(bytes(1 << 25))
    ),
    "an event of MariaDB that says 4 GiB": lambda: compression.uncompressed_event(b"\x84\xff\xff\xff\xff" + zlib.compress(b"")),
    "a column that unpacks to more than it says": lambda: compression.uncompressed_column(b"\x81\x09" + zlib.compress(bytes(1 << 25))),
    "a column that ends early": lambda: compression.uncompressed_column(b"\x81\x09" + zlib.compress(bytes(9))[:-5]),
    "a transaction of one event of 4 GiB": lambda: list(compression.each_transaction_event(_payload(1 << 32, (1 << 32) - 1))),
    "a transaction of events without a size": lambda: list(compression.each_transaction_event(_payload(1 << 40, 0))),
}
"""Few bytes that stand for many, or for work without end."""


def _payload(raw_size: int, size: int) -> bytes:
    packed: bytes = pa.compress(types.HEADER.pack(0, types.QUERY, 1, size, 0, 0) + bytes(1 << 20), codec="zstd", asbytes=True)
    fields = ((1, len(packed)), (2, 0), (3, raw_size))
    return b"".join(bytes([kind, 9, 0xFE]) + value.to_bytes(8, "little") for kind, value in fields) + b"\0" + packed


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_few_bytes_do_not_stand_for_work_without_end(bomb: Callable[[], Any]) -> None:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(MALFORMED):
        bomb()
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "kilobytes"


# parts on the disk


def a_link(path: Path, other: Path) -> None:
    kept = other.rename(other.with_suffix(".kept"))
    path.unlink()
    path.symlink_to(kept)


def linked(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


def exchanged(path: Path, other: Path) -> None:
    path.rename(path.with_suffix(".kept"))
    other.rename(path)
    path.with_suffix(".kept").rename(other)


def another_value(path: Path, other: Path) -> None:
    change_rows(path, lambda rows: [{**row, "after": [row["after"][0], "no pen"[: len(row["after"][1])]]} for row in rows])


def fewer_rows(path: Path, other: Path) -> None:
    change_rows(path, lambda rows: rows[1:])


def a_pipe(path: Path, other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGED_PARTS: dict[str, Callable[[Path, Path], object]] = {
    "a link to another part": a_link,
    "a link to another file": lambda path, other: linked(path, "/etc/passwd"),
    "a link to a device without end": lambda path, other: linked(path, "/dev/zero"),
    "a pipe": a_pipe,
    "a folder": a_folder,
    "missing": lambda path, other: path.unlink(),
    "empty": lambda path, other: path.write_bytes(b""),
    "truncated": lambda path, other: os.truncate(path, path.stat().st_size // 2),
    "without the end of its last block": lambda path, other: os.truncate(path, path.stat().st_size - 9),
    "no stream of Arrow's": lambda path, other: path.write_bytes(bytes(path.stat().st_size)),
    "with a byte more before its blocks": lambda path, other: path.write_bytes(b"A" + path.read_bytes()),
    "of fewer rows": fewer_rows,
}
"""What somebody else may make of a part; all of it is refused for what the part and the manifest say."""

FORGED_PARTS: dict[str, Callable[[Path, Path], object]] = {"of another value": another_value, "another table's": exchanged}
"""What only the checksum of a part tells."""


@DUCKDB
@pytest.mark.parametrize("change", [*CHANGED_PARTS.values(), *FORGED_PARTS.values()], ids=[*CHANGED_PARTS, *FORGED_PARTS])
def test_a_part_that_somebody_changed_is_not_merged(road: Road, change: Callable[[Path, Path], object]) -> None:
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    [part] = road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen"], ["2", "ink"])))
    [other] = road.stage(batch(announce(OTHERS, 11), insert(OTHERS, 20, ["1", "else"], ["2", "other"])))
    path, elsewhere = road.root / part.path, road.root / other.path
    kept = [(one, one.read_bytes()) for one in (path, elsewhere)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    change(path, elsewhere)
    began = time.monotonic()
    loader.merge_all()
    assert time.monotonic() - began < LONGEST
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state in ("delayed", "stopped") and report.reason
    assert road.rows() == []
    for one, content in kept:
        if one.is_dir():
            one.rmdir()
        one.unlink(missing_ok=True)
        one.write_bytes(content)
    now[0] += 1000
    loader.merge_all()
    assert road.rows() == [(1, "pen"), (2, "ink")] and road.rows("others") == [(1, "else"), (2, "other")]


OPEN_FOLDERS = ("a link to another folder", "a folder that others may write into")


@pytest.mark.parametrize("what", OPEN_FOLDERS)
def test_no_part_is_written_where_others_may_write(tmp_path: Path, what: str) -> None:
    root, elsewhere = tmp_path / "staging", tmp_path / "elsewhere"
    root.mkdir(0o777)
    elsewhere.mkdir()
    if what == OPEN_FOLDERS[0]:
        (root / "batches").symlink_to(elsewhere)
    else:
        (root / "batches").mkdir()
        (root / "batches").chmod(0o777)
    with pytest.raises(StagingFailed, match=r"the folder .*/staging/batches is a link, or others may write into it; find out who made it"):
        write_parts(LocalFolder(root), [batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen"]))])
    assert not list(elsewhere.iterdir()) and not list((root / "batches").iterdir())


# full disks

FULL_DISKS = ("staging", "the store")
"""What is full; each has a test."""
BATCHES = 400
"""Batches that are staged at most until a store that may not grow is full."""


def fill_store(road: Road) -> Callable[[], None]:
    """Let the store's file grow no more, as on a full disk; return what makes room."""

    def limit(connection: Any, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # which means: as many as there are

    connections.listen(road.store.engine, "connect", limit)
    road.store.engine.dispose()

    def make_room() -> None:
        connections.remove(road.store.engine, "connect", limit)
        road.store.engine.dispose()

    return make_room


def grow(road: Road, numbers: Iterable[int]) -> None:
    """Stage batches of one row each, each of them one position further."""
    for number in numbers:
        road.stage(batch(announce(ORDERS, number), insert(ORDERS, number, [str(number), "x" * 30])))


@DUCKDB
def test_a_full_disk_of_staging_stops_with_its_name_and_loses_nothing(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen"], ["2", "ink"]))
    written, sync = [], os.fsync

    def full(number: int) -> None:
        written.append(number)
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(3):
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StagingFull, match=rf"the disk of the staging's folder {road.root} is full; free some space there"):
            road.stage_task(changes)
        monkeypatch.setattr(os, "fsync", sync)
        assert parts.list_parts(road.store, PIPELINE, "shop.orders", 0) == []
        assert not [path for path in road.root.glob("*/*") if path.suffix == ".unfinished"]
    assert len(written) == 3
    loader = road.loader()
    road.stage_task(changes)
    road.stage_task(changes)
    loader.merge_all()
    loader.merge_all()
    assert road.rows() == [(1, "pen"), (2, "ink")]


@DUCKDB
def test_a_full_disk_of_the_store_stops_with_its_name_and_loses_nothing(road: Road) -> None:
    grow(road, range(10, 13))
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    loader.merge_all()
    make_room = fill_store(road)
    staged = 12
    with pytest.raises(StoreFull, match=rf"store sqlite:///{road.folder}/auditor.db.*the disk is full; free some space"):
        for number in range(13, 13 + BATCHES):
            grow(road, [number])
            staged = number
    now[0] += 1000
    with suppress(StoreFull):  # it merges what was staged, and may not be able to say so
        loader.merge_all()
    held = [row[0] for row in road.rows()]
    assert held == list(range(10, len(held) + 10)) and held[-1] <= staged
    make_room()
    grow(road, range(staged + 1, staged + 3))
    now[0] += 1000
    loader.merge_all()
    assert [row[0] for row in road.rows()] == list(range(10, staged + 3)), "each once"
    assert pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].position == staged + 2
