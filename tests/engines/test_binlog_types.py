"""Every type of column in the binary log has the text that the server itself prints for it, with the edges of its values."""

from __future__ import annotations

import struct
from contextlib import closing
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.errors import LogRefused
from auditor.pipeline.binlog.charsets import BYTES_PER_CHARACTER
from auditor.pipeline.binlog.row_events import known_decoders
from auditor.service.certify.log_columns import KINDS, samples_of
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.servers import mysql

pytestmark = pytest.mark.alone  # the log that they read is the whole server's

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)


@on_both
@pytest.mark.parametrize("kinds", KINDS)
def test_each_type_has_the_text_that_the_server_prints(engine: LiveEngine, kinds: str) -> None:
    samples = samples_of(engine.name, kinds)
    log, table = LiveLog(engine.url), f"typed_{kinds}"
    columns = ", ".join(f"c{number} {sample.type}" for number, sample in enumerate(samples))
    depth = max(len(sample.values) for sample in samples)
    rows = [", ".join(sample.values[row % len(sample.values)] for sample in samples) for row in range(depth)]
    start = log.end()
    log.run(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})",
        *(f"INSERT IGNORE INTO {table} VALUES ({row}, {values})" for row, values in enumerate(rows)),
        f"DELETE FROM {table} WHERE id = 0",
    )
    events = log.events(start, [table])
    assert [event["kind"] for event in events] == ["insert"] * depth + ["delete"]
    assert events[-1]["before"] == events[0]["after"]
    selected = ", ".join(sample.printed.format(c=f"c{number}") for number, sample in enumerate(samples))
    printed = log.run(f"SELECT {selected} FROM {table} ORDER BY id")
    for event, expected in zip(events[1:-1], printed, strict=True):
        for sample, found, wanted in zip(samples, event["after"][1:], expected, strict=True):
            assert sample.is_text_of(found, wanted), f"{sample.type}: {found!r} instead of {wanted!r}"
    schema = log.schema(start, table)
    assert [column.type for column in schema.columns] == ["int", *(sample.logged or sample.type for sample in samples)]
    assert schema.key == ("id",)
    assert {event["schema_id"] for event in events} == {schema.id}
    described = log.run(
        "SELECT column_name, is_nullable, character_set_name FROM information_schema.columns"
        f" WHERE table_schema = DATABASE() AND table_name = '{table}' ORDER BY ordinal_position"
    )
    assert [(column.name, "YES" if column.nullable else "NO", column.charset) for column in schema.columns] == described


@pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
def test_uuids_and_addresses_of_mariadb_are_told_from_bytes(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    start = log.end()
    uuids = ["123e4567-e89b-12d3-a456-426655440000", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffff00"]
    addresses = ["2001:db8::ff00:42:8300", "::", "::1", "::ffff:1.2.3.4", "::1.2.3.4", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:0", "1:0:0:2::"]
    quads = ["1.2.3.0", "0.0.0.0", "255.255.255.255"]
    rows = [[uuids[n % 3], one, quads[n % 3], "01".ljust(32, "0"), "02000000"] for n, one in enumerate(addresses)]
    log.run(
        "CREATE OR REPLACE TABLE addressed (u uuid, i inet6, v inet4, b binary(16), c binary(4))",
        *(f"INSERT INTO addressed VALUES ('{row[0]}', '{row[1]}', '{row[2]}', x'01', x'02')" for row in rows),
    )
    assert [event["after"] for event in log.events(start, ["addressed"])] == rows
    assert [column.type for column in log.schema(start, "addressed").columns] == ["uuid", "inet6", "inet4", "binary(16)", "binary(4)"]
    log.run("DROP TABLE addressed")
    known_decoders.clear()
    as_logged = log.events(start, ["addressed"])[0]["after"]
    assert as_logged[0] == uuids[0].replace("-", ""), "a table that is gone has the types that the log tells"


@pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
def test_times_of_the_format_before_mysql_5_6(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    with log.globally(mysql56_temporal_format="OFF"):
        log.run("CREATE OR REPLACE TABLE old_times (a datetime, b timestamp NULL, c time, d date)")
    start = log.end()
    log.run("INSERT INTO old_times VALUES ('2024-02-29 23:59:59', '2024-02-29 23:59:59', '-838:59:58', '2024-02-29'), (0, 0, 0, 0)")
    assert [event["after"] for event in log.events(start, ["old_times"])] == [
        ["2024-02-29 23:59:59", "2024-02-29 23:59:59", "-838:59:58", "2024-02-29"],
        ["0000-00-00 00:00:00", "0000-00-00 00:00:00", "00:00:00", "0000-00-00"],
    ]


@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
def test_vectors_are_refused_by_name(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    start = log.end()
    log.run("DROP TABLE IF EXISTS embedded", "CREATE TABLE embedded (id int, v vector(2))", "INSERT INTO embedded VALUES (1, NULL)")
    with pytest.raises(LogRefused, match=r"\.\d+:\d+: \w+\.embedded: column v is a VECTOR, which is not replicated; leave the table out"):
        log.events(start)
    assert log.events(start, ["others"]) == [], "a table that is not read is no reason to refuse"


@on_both
def test_generated_and_hidden_columns(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    start = log.end()
    log.run(
        "DROP TABLE IF EXISTS computed",
        "CREATE TABLE computed (id int, v int AS (id * 2) VIRTUAL, s int AS (id * 3) STORED, n int)",
        *(["CREATE INDEX by_expression ON computed ((id + n))"] if engine.name == "mysql" else []),
        "INSERT INTO computed (id, n) VALUES (1, 5)",
    )
    assert [event["after"] for event in log.events(start, ["computed"])] == [["1", "2", "3", "5"]]


SINGLE_BYTES = (
    "armscii8", "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8", "geostd8", "greek", "hebrew", "hp8",
    "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "swe7", "tis620",
)  # fmt: skip
WIDE = {
    "utf16": "a€😀", "utf16le": "a€😀", "utf32": "a€😀", "ucs2": "a€", "big5": "中文碁", "gb2312": "中文", "gbk": "中文",
    "cp932": "日本①ｱ", "sjis": "日本ｱ", "ujis": "日本ｱ", "euckr": "한국", "utf8mb3": "a€", "utf8mb4": "a€😀",
}  # fmt: skip


@on_both
def test_each_character_set_is_decoded_as_the_server_does(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    wide = {**WIDE, **({"gb18030": "中文😀"} if engine.name == "mysql" else {})}
    sets = (*SINGLE_BYTES, *wide)
    log.run(
        "DROP TABLE IF EXISTS lettered",
        f"CREATE TABLE lettered (id int, {', '.join(f'{name} text CHARACTER SET {name}' for name in sets)})",
    )
    start = log.end()
    letters = ", ".join(f"'{text}'" for text in wide.values())
    single = ", ".join("CONVERT(x'{byte:02x}' USING %s)" % name for name in SINGLE_BYTES)  # noqa: UP031
    # Texts of each single byte that the character set has: the server itself drops the others.
    rows = (f"INSERT IGNORE INTO lettered VALUES ({byte}, {single.format(byte=byte)}, {letters})" for byte in range(0x20, 256))
    log.run("SET NAMES utf8mb4", *rows)
    events = {event["after"][0]: event["after"][1:] for event in log.events(start, ["lettered"])}
    printed = log.run(f"SELECT id, {', '.join(f'CONVERT({name} USING utf8mb4)' for name in sets)} FROM lettered")
    for identity, *wanted in printed:
        for name, found, text in zip(sets, events[str(identity)], wanted, strict=True):
            assert found == text or text in "?\ufffd", f"{name} {identity:#x}: {found!r} instead of {text!r}"
    assert set(BYTES_PER_CHARACTER) <= {*wide, "gb18030", "eucjpms"}


@on_both
def test_a_character_set_without_decoder_is_refused_by_name(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    start = log.end()
    log.run(
        "DROP TABLE IF EXISTS japanese", "CREATE TABLE japanese (t varchar(5) CHARACTER SET eucjpms)", "INSERT INTO japanese VALUES ('a')"
    )
    with pytest.raises(LogRefused, match="column t has the character set eucjpms, which is not known; convert it to utf8mb4"):
        log.events(start)


ROW = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "m": st.none() | st.integers(0, 2**24 - 1),
        "n": st.none() | st.decimals(-(10**11), 10**11, places=4).filter(Decimal.is_finite),
        "f": st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "t": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
        "b": st.none() | st.binary(max_size=300),
        "k": st.none() | st.binary(max_size=8),
        "s": st.none() | st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)),
        "c": st.none() | st.dates(date(1000, 1, 1)),
        "h": st.none() | st.timedeltas(timedelta(hours=-838), timedelta(hours=838)),
        "e": st.none() | st.sampled_from(["x", "ÿ", "zz"]),
    }
)
RANDOM = (
    "i bigint, m mediumint unsigned, n decimal(17,4), f float, d double, t text CHARACTER SET utf8mb4, b blob, k binary(8), s datetime(6),"
    " c date, h time(6), e enum('x','ÿ','zz') CHARACTER SET utf8mb4"
)
RANDOM_TEXTS = (
    "CAST(i AS CHAR), CAST(m AS CHAR), CAST(n AS CHAR), f + 0e0, CAST(d AS CHAR), t, LOWER(HEX(b)), LOWER(HEX(k)), CAST(s AS CHAR),"
    " CAST(c AS CHAR), CAST(h AS CHAR), e"
)


@on_both
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, min_size=1, max_size=20))
def test_random_rows(engine: LiveEngine, rows: list[dict[str, Any]]) -> None:
    log = LiveLog(engine.url)
    log.run("DROP TABLE IF EXISTS random_rows", f"CREATE TABLE random_rows (id int PRIMARY KEY, {RANDOM})")
    start = log.end()
    with closing(mysql.connect(engine.url)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        values = [(number, *row.values()) for number, row in enumerate(rows)]
        cursor.executemany(f"INSERT INTO random_rows VALUES ({', '.join(['%s'] * 13)})", values)
        cursor.execute("UPDATE random_rows SET i = NULL")
    inserts, updates = _halves(log.events(start, ["random_rows"]))
    assert [event["before"] for event in updates] == [event["after"] for event in inserts if event["after"][1] is not None]
    final = {event["after"][0]: event["after"] for event in inserts} | {event["after"][0]: event["after"] for event in updates}
    for identity, *wanted in log.run(f"SELECT id, {RANDOM_TEXTS} FROM random_rows"):
        found = final[str(identity)][1:]
        assert (found[3] is None) == (wanted[3] is None)
        assert found[3] is None or struct.pack("<f", float(found[3])) == struct.pack("<f", wanted[3])
        assert (found[4] is None) == (wanted[4] is None)
        assert found[4] is None or struct.pack("<d", float(found[4])) == struct.pack("<d", float(wanted[4]))
        assert found[:3] + found[5:] == wanted[:3] + wanted[5:]


def _halves(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return [event for event in events if event["kind"] == "insert"], [event for event in events if event["kind"] == "update"]


@on_both
@pytest.mark.alone
@pytest.mark.slow  # where a long log precedes the connection's end, the other decoder begins again without end; our own is proved above
@pytest.mark.filterwarnings("ignore:'(db|passwd)' is deprecated:DeprecationWarning")
def test_another_decoder_finds_the_same_rows(engine: LiveEngine) -> None:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    log = LiveLog(engine.url)
    log.run(
        "DROP TABLE IF EXISTS compared",
        "CREATE TABLE compared (id int PRIMARY KEY, n decimal(10,2), t varchar(20), d datetime(3), j bigint unsigned)",
    )
    start = log.end()
    log.run(
        "INSERT INTO compared VALUES (1, -1.5, 'ä', '2024-02-29 01:02:03.456', 18446744073709551615), (2, NULL, NULL, NULL, NULL)",
        "UPDATE compared SET id = id + 10",
        "DELETE FROM compared WHERE id = 11",
    )
    parts = urlsplit(engine.url)
    stream = BinLogStreamReader(
        connection_settings={"host": parts.hostname, "port": parts.port, "user": parts.username, "charset": "utf8mb4"},
        server_id=76_543, log_file=start.file, log_pos=start.offset, resume_stream=True, is_mariadb=engine.name != "mysql",
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent], only_tables=["compared"],
    )  # fmt: skip
    with closing(stream):
        theirs = [row for event in islice(stream, 3) for row in event.rows]
    ours = log.events(start, ["compared"])
    assert [(event["before"], event["after"]) for event in ours] == [
        (
            _texts(row.get("before_values") or (row["values"] if number == 4 else None)),
            _texts(row.get("after_values") or (row["values"] if number < 2 else None)),
        )
        for number, row in enumerate(theirs)
    ]


def _texts(row: dict[str, Any] | None) -> list[str | None] | None:
    if row is None:
        return None
    return [
        None if value is None else value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else str(value)
        for value in row.values()
    ]
