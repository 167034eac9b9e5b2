"""Every type of column in the binary log has the text that the server itself prints for it, with the edges of its values."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.errors import LogRefused
from auditor.pipeline.binlog.charsets import BYTES_PER_CHARACTER
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.servers import mysql

pytestmark = pytest.mark.alone  # the log that they read is the whole server's

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)

PRINTED = "CAST({c} AS CHAR)"
CHARACTERS = "CONVERT({c} USING utf8mb4)"
DIGITS = "LOWER(HEX({c}))"
NUMBER = "CAST({c} + 0 AS CHAR)"
SINGLE = "CAST({c} + 0e0 AS DOUBLE)"
"""What the server prints of a FLOAT has six digits only."""

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
DECIMALS = [(1, 0), (1, 1), (5, 2), (9, 9), (10, 0), (12, 2), (18, 9), (19, 10), (20, 1), (38, 10), (65, 0), (65, 30), (30, 30), (65, 7)]
TIMES = ["838:59:59", "-838:59:59", "00:00:00", "-00:00:01", "-00:00:00.5", "12:34:56.123456", "-12:34:56.123456", "-00:00:00.000001"]
DATETIMES = ["2024-02-29 23:59:59.999999", "0000-00-00 00:00:00", "2024-00-10 01:02:03", "1000-01-01 00:00:00", "9999-12-31 23:59:58.4",
             "1969-07-20 20:17:40.123456"]  # fmt: skip
TIMESTAMPS = ["2024-02-29 23:59:59.999999", "1970-01-01 00:00:01", "2038-01-19 03:14:07", "0000-00-00 00:00:00", "2000-01-01 00:00:00.05"]


@dataclass(frozen=True)
class Sample:
    """A column: its type, how the server prints its values, and SQL of some of them."""

    type: str
    printed: str
    values: Sequence[str]
    #: The type as a schema has it, where it is not the one above.
    logged: str | None = None


def _quoted(values: Sequence[str]) -> list[str]:
    return ["NULL", *(f"'{value}'" for value in values)]


def _decimals(digits: int, scale: int) -> list[str]:
    largest = ("9" * (digits - scale) or "0") + ("." + "9" * scale if scale else "")
    return ["0", largest, f"-{largest}", "NULL", f"0.{'0' * (scale - 1)}1" if scale else "-7"]


NUMBERS = [
    *(Sample(name, PRINTED, [str(-(1 << bits - 1)), str((1 << bits - 1) - 1), "0", "-1", "NULL"]) for name, bits in INTEGERS.items()),
    Sample("year", PRINTED, ["2024", "0", "1901", "2155"]),  # has a bit among the signs: what follows it proves that
    *(Sample(f"{name} unsigned", PRINTED, [str((1 << bits) - 1), "0", "NULL"]) for name, bits in INTEGERS.items()),
    Sample("int(5) zerofill", NUMBER, ["42"], "int unsigned"),
    *(Sample(f"decimal({digits},{scale})", PRINTED, _decimals(digits, scale)) for digits, scale in DECIMALS),
    Sample("decimal(10,2) unsigned", PRINTED, ["99999999.99"]),
    Sample("float", SINGLE, ["0", "1.5", "-1.1", "3.4028234e38", "1.17549e-38", "16777217", "0.1", "1e20", "1e-7", "123456.7", "NULL"]),
    Sample("double", PRINTED, ["0", "1.5", "0.1", "-1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "1e22", "1e14", "1e15",
                               "123456789012345678", "1e-14", "1e-15", "1.5e-5", "123456.789e3", "9007199254740993", "1e16", "NULL"]),
    Sample("float unsigned", SINGLE, ["2.5"]),
    *(Sample(f"bit({size})", NUMBER, [f"b'{'1' * size}'", "b'1'", "b'0'", "NULL"]) for size in (1, 7, 8, 9, 64)),
]  # fmt: skip
MOMENTS = [
    Sample("date", PRINTED, _quoted(["2024-02-29", "0000-00-00", "2024-00-10", "1000-01-01", "9999-12-31", "2024-05-00"])),
    *(Sample(f"datetime({digits})" if digits else "datetime", PRINTED, _quoted(DATETIMES)) for digits in range(7)),
    *(Sample(f"timestamp({digits}) null", PRINTED, _quoted(TIMESTAMPS), f"timestamp({digits})") for digits in range(1, 7)),
    Sample("timestamp null", PRINTED, _quoted(TIMESTAMPS), "timestamp"),
    *(Sample(f"time({digits})" if digits else "time", PRINTED, _quoted(TIMES)) for digits in range(7)),
]
TEXTS = [
    Sample("char(10) character set utf8mb4", CHARACTERS, ["'a b '", "''", "'äöü😀'", "NULL"], "char(10)"),
    Sample("char(255) character set utf8mb4", CHARACTERS, ["repeat('😀', 255)"], "char(255)"),
    Sample("varchar(300) character set latin1", CHARACTERS, ["'äöü€'", "repeat('ß', 300)"], "varchar(300)"),
    Sample("varchar(5000) character set utf8mb4", CHARACTERS, ["repeat('x', 5000)", "'a b '", "NULL"], "varchar(5000)"),
    Sample("tinytext", CHARACTERS, ["'abc'"]),
    Sample("text", CHARACTERS, ["repeat('ab', 30000)", "''", "NULL"]),
    Sample("mediumtext", CHARACTERS, ["repeat('ab', 100000)"]),
    Sample("longtext character set utf8mb4", CHARACTERS, ["repeat('€', 100000)", "concat('a', char(0), 'b')"], "longtext"),
    Sample("binary(4)", DIGITS, ["x'00'", "x'01020300'", "x'0000ff00'", "x''", "NULL"]),
    Sample("binary(255)", DIGITS, ["x'01'", "x''"]),
    Sample("varbinary(10)", DIGITS, ["x'0100'", "x''"]),
    Sample("varbinary(1000)", DIGITS, ["x'ff'"]),
    Sample("tinyblob", DIGITS, ["x'00'"]),
    Sample("blob", DIGITS, ["x'fffe00'", "x''", "NULL"]),
    Sample("mediumblob", DIGITS, ["repeat(x'ff', 70000)"]),
    Sample("longblob", DIGITS, ["repeat(x'00', 70000)"]),
    Sample("geometry", DIGITS, ["ST_GeomFromText('POINT(1 2)')", "NULL"]),
    Sample("varchar(7) character set ucs2", CHARACTERS, ["'aä'"], "varchar(7)"),  # in MySQL a geometry before it has no character set
    Sample("polygon", DIGITS, ["ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"]),
    Sample("enum('a','b''c','ü') character set utf8mb4", CHARACTERS, ["'a'", "'ü'", "'b''c'", "NULL", "'none'"], "enum('a','b''c','ü')"),
    Sample("enum('x','ä') character set latin1", CHARACTERS, ["'ä'"], "enum('x','ä')"),
    Sample("set('a','b','c')", CHARACTERS, ["'a,c'", "''", "'a,b,c'", "NULL"]),
    Sample("set('ä','b') character set latin1", CHARACTERS, ["'ä,b'"], "set('ä','b')"),
    Sample("enum(" + ",".join(f"'v{number}'" for number in range(300)) + ")", CHARACTERS, ["'v299'"]),
    Sample("set(" + ",".join(f"'s{number}'" for number in range(64)) + ")", CHARACTERS, ["'s63'", "'s0,s33'"]),
]  # fmt: skip
DOCUMENTS = [
    "'null'", "'{}'", "'[]'", "NULL", "'1.0'", "'1e20'", "'1e300'", "'-1e-7'", "'18446744073709551615'", "'-9223372036854775808'",
    "'70000'", "'-70000'", "'5000000000'", "'\"\"'", "CAST(CAST(12.340 AS DECIMAL(65,30)) AS JSON)",
    """'{"a": 1, "bb": [1, 2.5, -3, true, false, null, "x\\\\u0001\\\\n\\\\"é😀/"], "": {"c": {}}}'""",
    "CAST(CAST('2024-02-29' AS DATE) AS JSON)", "CAST(CAST('-12:34:56.7' AS TIME(6)) AS JSON)",
    "CAST(TIMESTAMP'2024-02-29 01:02:03.000004' AS JSON)", "JSON_ARRAY(x'00ff', b'101')",
    "CONCAT('[', REPEAT('\"abcdefghij\",', 8000), '1]')", "CONCAT('{\"k\":\"', REPEAT('y', 70000), '\"}')",
    "JSON_OBJECT('a', 5, 'b', 70000, 'c', JSON_ARRAY(REPEAT('z', 70000), -100000, 3000000000, 1.5, 's'))",
    "JSON_ARRAY(0.00001, 1e-5, 123456789012345680000, 1e16, 1e15, 1.5e14, 0.1, 100.0, -0.0e0)",
    "JSON_ARRAY('\\t\\b\\f\\r\\\\', '\\u2028')",
]  # fmt: skip
OWN = {
    "mysql": [Sample("json", PRINTED, DOCUMENTS)],
    "mariadb": [
        Sample("json", CHARACTERS, ["'{\"a\":  1}'"], "longtext"),
        Sample("text compressed character set utf8mb4", CHARACTERS, ["repeat('äb', 1000)", "'short'", "''", "NULL"], "text"),
        Sample("blob compressed", DIGITS, ["repeat(x'ff', 1000)", "x''", "x'00'"], "blob"),
        Sample("varchar(1000) compressed character set utf8mb4", CHARACTERS, ["repeat('äb', 300)", "'s'", "''"], "varchar(1000)"),
        Sample("varbinary(200) compressed", DIGITS, ["repeat(x'ff', 200)", "x'00'"], "varbinary(200)"),
        Sample("longtext compressed", CHARACTERS, ["repeat('ab', 100000)"], "longtext"),
    ],
}


@on_both
@pytest.mark.parametrize("kinds", ["numbers", "moments", "texts", "own"])
def test_each_type_has_the_text_that_the_server_prints(engine: LiveEngine, kinds: str) -> None:
    samples = {"numbers": NUMBERS, "moments": MOMENTS, "texts": TEXTS, "own": OWN[engine.name]}[kinds]
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
            assert _is_right(sample, found, wanted), f"{sample.type}: {found!r} instead of {wanted!r}"
    schema = log.schema(start, table)
    assert [column.type for column in schema.columns] == ["int", *(sample.logged or sample.type for sample in samples)]
    assert schema.key == ("id",)
    assert {event["schema_id"] for event in events} == {schema.id}
    described = log.run(
        "SELECT column_name, is_nullable, character_set_name FROM information_schema.columns"
        f" WHERE table_schema = DATABASE() AND table_name = '{table}' ORDER BY ordinal_position"
    )
    assert [(column.name, "YES" if column.nullable else "NO", column.charset) for column in schema.columns] == described


def _is_right(sample: Sample, found: str | None, wanted: Any) -> bool:
    if sample.printed is SINGLE and found is not None and wanted is not None:
        return struct.pack("<f", float(found)) == struct.pack("<f", wanted)
    return found == (wanted.decode() if isinstance(wanted, bytes) else wanted)


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_uuids_and_addresses_of_mariadb_are_their_bytes(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    start = log.end()
    value = uuid.UUID("123e4567-e89b-12d3-a456-426655440000")
    log.run(
        "CREATE OR REPLACE TABLE addressed (u uuid, i inet6, v inet4)",
        f"INSERT INTO addressed VALUES ('{value}', '2001:db8::ff00:42:8300', '1.2.3.0')",
    )
    assert [event["after"] for event in log.events(start, ["addressed"])] == [[value.hex, "20010db8000000000000ff0000428300", "01020300"]]


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
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
        assert found[:3] + found[4:] == wanted[:3] + wanted[4:]


def _halves(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return [event for event in events if event["kind"] == "insert"], [event for event in events if event["kind"] == "update"]


@on_both
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
        server_id=76_543, log_file=start.file, log_pos=start.offset, resume_stream=True, is_mariadb=engine.name == "mariadb",
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent], only_tables=["compared"],
    )  # fmt: skip
    with closing(stream):
        theirs = [row for event in stream for row in event.rows]
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
