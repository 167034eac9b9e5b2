"""The parts of the binary log's reader that need no server."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from auditor.errors import ConfigError, ConnectionLost, EventsMissed, LogRefused, PositionLost, ReaderReplaced, Unreachable
from auditor.pipeline.binlog import column_types
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.batches import RowBuffer, announcements_of, batch_of
from auditor.pipeline.binlog.charsets import charset_of, decoder
from auditor.pipeline.binlog.log_connection import MAX_PACKET, Dump, Patience, Request, Source
from auditor.pipeline.binlog.number_and_time_texts import decimal_function, decimal_size
from auditor.pipeline.binlog.row_events import LogCount
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.sql_tokens import tokens
from auditor.pipeline.binlog.table_map import Column, TableMap
from auditor.pipeline.binlog.table_statements import refusal, savepoint, written_tables
from auditor.pipeline.binlog.type_decoders import make_decoder
from auditor.pipeline.events import Place
from auditor.pipeline.float_texts import double_text, float_text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
def test_text_of_a_double_reads_back(value: float) -> None:
    text = double_text(value)
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)
    digits = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert len(digits) <= len(Decimal(repr(value)).normalize().as_tuple().digits)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_text_of_a_float_reads_back(value: float) -> None:
    assert struct.pack("<f", float(float_text(value))) == struct.pack("<f", value)


@given(st.integers(1, 65), st.integers(0, 30), st.data())
def test_decimals_of_any_size(precision: int, scale: int, data: st.DataObject) -> None:
    scale = min(scale, precision)
    value = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    size, decode = decimal_function(precision, scale)
    assert size == decimal_size(precision, scale)
    sign = "-" if value < 0 else ""
    digits = str(abs(value)).zfill(scale + 1)
    wanted = f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"
    assert decode(_stored_decimal(value, precision, scale)) == wanted


def _stored_decimal(value: int, precision: int, scale: int) -> bytes:
    """Store a decimal as MySQL does: groups of nine digits from the point outwards, the sign's bit inverted, all bits if negative."""
    digits = str(abs(value)).zfill(precision)
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    groups = [whole[: len(whole) % 9]] + [whole[at : at + 9] for at in range(len(whole) % 9, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    data = bytearray(b"".join(int(group).to_bytes(sizes[len(group)], "big") for group in groups if group))
    data[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in data) if value < 0 else bytes(data)


class FakeSocket:
    """Says its bytes in pieces of one size, and then nothing more."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size

    def recv(self, _: int) -> bytes:
        piece, self.data = self.data[: self.size], self.data[self.size :]
        return piece


def _dump(data: bytes, size: int) -> Dump:
    dump = Dump.__new__(Dump)
    dump.request = Request(Source("mysql://h/d", "shop"), Place("binlog.000001", 4), 7)
    dump.connection = SimpleNamespace(_sock=FakeSocket(data, size))
    return dump


def _packets(*events: bytes) -> bytes:
    """Return events as a server sends them, and that none follows: each after a zero byte, in packets of at most 2^24 - 1 bytes."""
    pieces = []
    for event in events:
        body = b"\0" + event
        pieces += [body[at : at + MAX_PACKET] for at in range(0, len(body) + (len(body) % MAX_PACKET == 0), MAX_PACKET)]
    numbered = enumerate([*pieces, b"\xfe\0\0\2\0"], 1)
    return b"".join(len(piece).to_bytes(3, "little") + bytes([number % 256]) + piece for number, piece in numbered)


def _event(content: bytes) -> bytes:
    return types.HEADER.pack(0, types.ROWS_QUERY, 1, types.HEADER.size + len(content), 0, 0) + content


@given(sizes=st.lists(st.integers(20, 400), max_size=12), piece=st.integers(1, 300), head=st.none() | st.integers(30, 90))
def test_events_survive_any_pieces(sizes: list[int], piece: int, head: int | None) -> None:
    events = [_event(bytes([number + 1]) * size) for number, size in enumerate(sizes)]
    found = list(_heads(_dump(_packets(*events), piece), head))
    assert len(found) == len(events)
    for event, got in zip(events, found, strict=True):
        assert event.startswith(got)
        assert got == event or (head is not None and len(got) >= head - 1)


@pytest.mark.parametrize("head", [None, 64])
@pytest.mark.parametrize("size", [MAX_PACKET - 2, MAX_PACKET - 1, MAX_PACKET, 2 * MAX_PACKET - 1, 2 * MAX_PACKET + 9])
@pytest.mark.few
def test_events_of_several_packets(size: int, head: int | None) -> None:
    events = [_event(b"before" * 9), _event(b"L" * (size - types.HEADER.size)), _event(b"after" * 9)]
    found = list(_heads(_dump(_packets(*events), 1 << 20), head))
    assert [found[0], found[2]] == [events[0], events[2]]
    assert found[1] == events[1] if head is None else events[1].startswith(found[1]) and len(found[1]) >= 63


def _heads(dump: Dump, head: int | None) -> Iterator[bytes]:
    for buffer, start, end in dump.events(head):
        yield buffer[start:end]


@pytest.mark.parametrize(
    ("code", "text", "error", "sentence"),
    [
        (
            1236,
            "Could not find first log file name in binary log index file",
            PositionLost,
            "position binlog.000001:4 is gone from the source",
        ),
        (1236, "Client requested source to start replication from impossible position", PositionLost, "is no event boundary"),
        (1236, "log event entry exceeded max_allowed_packet; Increase max_allowed_packet", PositionLost, "is no event boundary"),
        (1236, "A replica with the same server_uuid/server_id as this replica has connected", ReaderReplaced, "server id 7 took over"),
        (4052, "A slave with the same server_id", ReaderReplaced, "run one reader per source"),
        (1053, "Server shutdown in progress", ConnectionLost, "shutdown"),
    ],
)
def test_what_a_server_says_becomes_an_error(code: int, text: str, error: type[Exception], sentence: str) -> None:
    packet = b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode()
    with pytest.raises(error, match=sentence):
        list(_dump(len(packet).to_bytes(3, "little") + b"\1" + packet, 50).events())


def test_patience_ends_and_is_not_for_every_error(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now + 1)
    patience = Patience(10)
    with pytest.raises(PositionLost):
        patience.wait(PositionLost())
    with pytest.raises(Unreachable):
        while True:
            patience.wait(Unreachable())
    assert waits == sorted(waits) and 5 < sum(waits) <= 10
    patience.reset()
    patience.wait(ConnectionLost())
    assert waits[-1] == waits[0]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (b"BEGIN", None), (b"SAVEPOINT `s`", None), (b"CREATE TABLE t (id int) START TRANSACTION", None),
        (b"DROP TEMPORARY TABLE IF EXISTS t", None), (b"DROP /*!40005 TEMPORARY */ TABLE t", None), (b"XA END X'61'", None),
        (b"ROLLBACK TO s", None), (b"rollback", None),
        (b"insert into t values (1)", "INSERT"), (b"/* app:x */ -- y\n  UPDATE t SET a = 1", "UPDATE"),
        (b"/*!50000 DELETE FROM t */", "DELETE"), (b"DROP TABLE t", "DROP"), (b"", "statement"), (b"COMMITMENT", "COMMITMENT"),
    ],
)  # fmt: skip
def test_statements_within_transactions(statement: bytes, named: str | None) -> None:
    found = refusal(statement)
    assert found is None if named is None else named in str(found)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (b"SAVEPOINT `a``b`", ("SAVEPOINT", "a`b")), (b"savepoint S", ("SAVEPOINT", "s")), (b"RELEASE SAVEPOINT `s`", ("RELEASE", "s")),
        (b"ROLLBACK TO `s`", ("ROLLBACK", "s")), (b"/* x */ rollback work to savepoint s", ("ROLLBACK", "s")),
        (b"ROLLBACK", ("ROLLBACK", "")),
        (b"ROLLBACK TO SAVEPOINT `TO`", ("ROLLBACK", "TO")), (b"COMMIT", None), (b"BEGIN", None),
    ],
)  # fmt: skip
def test_savepoints(statement: bytes, expected: tuple[str, str] | None) -> None:
    assert savepoint(statement) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO t SELECT * FROM orders", {("d", "t")}), ("/* x */ insert ignore `o`.`t` values (1)", {("o", "t")}),
        ("REPLACE DELAYED INTO t SET a = 1", {("d", "t")}), ("LOAD DATA LOCAL INFILE 'x' IGNORE INTO TABLE o.t (a)", {("o", "t")}),
        ("UPDATE LOW_PRIORITY t SET a = (SELECT 1 FROM orders)", {("d", "t")}),
        ("DELETE FROM t WHERE a IN (SELECT a FROM orders)", {("d", "t")}),
        ("DELETE FROM t", {("d", "t")}),
        ("CALL f()", None), ("SELECT f(1)", None), ("WITH x AS (SELECT 1) DELETE FROM t", None), ("", None), ("TRUNCATE t", None),
    ],
)  # fmt: skip
def test_tables_that_statements_write(statement: str, expected: set[tuple[str, str]] | None) -> None:
    found = written_tables(tokens(statement), "d")
    assert (found if found is None else set(found)) == expected


@pytest.mark.parametrize(
    "statement", ["UPDATE a x JOIN o.t y ON x.i = y.i SET y.v = 1", "DELETE x FROM a x JOIN o.t y", "DELETE FROM x USING a AS x JOIN o.t"]
)
def test_statements_on_several_tables_may_write_each(statement: str) -> None:
    assert {("d", "a"), ("o", "t")} <= set(written_tables(tokens(statement), "d") or ())


def test_tables_are_chosen_by_database_and_pattern() -> None:
    chosen = Selection(["orders", "crm_*", "billing.*"], "shop")
    assert chosen.has("shop", "orders") and chosen.has("shop", "crm_x") and chosen.has("billing", "x")
    assert not chosen.has("other", "orders") and not chosen.has("shop", "Orders") and not chosen.has("shop", "billing")
    with pytest.raises(ConfigError, match=r"table 'orders' has no database, nor has the connection's URL; write database\.orders"):
        Selection(["orders"], "")
    with pytest.raises(ConfigError, match="no tables are named"):
        Selection([], "shop")


def test_places_are_parsed_and_sorted() -> None:
    assert Place.parse("mysql-bin.000012:4567") == Place("mysql-bin.000012", 4567)
    assert Place("b.999999", 4).order < Place("b.1000000", 4).order
    for wrong in ("binlog.000012", "binlog:4", ":4", "binlog.000001:x"):
        with pytest.raises(ConfigError, match="is no place in a binary log"):
            Place.parse(wrong)


def test_collations_lead_to_their_character_sets() -> None:
    assert {number: charset_of(number) for number in (255, 45, 8, 33, 63, 2304, 2560, 1069, 900, 736)} == {
        255: "utf8mb4", 45: "utf8mb4", 8: "latin1", 33: "utf8mb3", 63: "binary", 2304: "utf8mb4", 2560: "ucs2", 1069: "utf8mb4", 900: None,
        736: "utf32",
    }  # fmt: skip
    assert decoder("eucjpms") is None
    big5 = decoder("big5")
    assert big5 and big5(b"a\xf9\xd6\xa4\xa4") == "a碁中"


def test_rows_that_do_not_fit_their_table_are_no_rows() -> None:
    table = TableMap("shop", "t", (Column("id", column_types.LONG, 0, nullable=False),), (0,), is_full=True)
    decode, rows = make_decoder(table), list[str | None]()
    assert decode(b"\xfe\1\0\0\0\xff", 0, 6, rows.extend, rows.extend) == 2
    assert rows == ["1", None]
    with pytest.raises(struct.error):
        decode(b"\xfe\1\0\0", 0, 4, rows.extend, rows.extend)
    with pytest.raises(ValueError, match="do not end where their event does"):
        decode(b"\xfe\1\0\0\0", 0, 3, rows.extend, rows.extend)
    unknown = TableMap("shop", "t", (Column("x", 99, 0, nullable=False),), (), is_full=True)
    with pytest.raises(LogRefused, match="column x has the type 99, which is not known; leave the table out"):
        make_decoder(unknown)


def test_rows_of_several_tables_are_one_batch() -> None:
    names = TableMap("shop", "names", (Column("id", column_types.LONG, 0, False), Column("name", column_types.LONG, 0, True)), (0,), True)
    empty = TableMap("shop", "ids", (Column("id", column_types.LONG, 0, nullable=False),), (0,), is_full=True)
    first, second = (RowBuffer(table, make_decoder(table)) for table in (names, empty))
    first.after.extend(["1", "a", "2", None])
    first.add("insert", "0-1-1", 100, 7, 0, 2, 50)
    second.before.extend(["5", "6"])
    second.add("delete", None, 100, 7, 2, 1, 20)
    second.after.extend(["7"])
    second.add("update", None, 110, 8, 0, 1, 20)
    events = batch_of([first, second]).to_pylist()
    assert [(event["table"], event["kind"], event["position"], event["row"]) for event in events] == [
        ("names", "insert", 100, 0),
        ("names", "insert", 100, 1),
        ("ids", "delete", 100, 2),
        ("ids", "update", 110, 0),
    ]
    assert [(event["before"], event["after"], event["gtid"]) for event in events] == [
        (None, ["1", "a"], "0-1-1"),
        (None, ["2", None], "0-1-1"),
        (["5"], None, None),
        (["6"], ["7"], None),
    ]
    announced = announcements_of([first, second], 3).to_pylist()
    assert [(event["table"], event["row"], event["after"]) for event in announced] == [
        ("names", -4, [names.schema.to_json()]),
        ("ids", -5, [empty.schema.to_json()]),
    ]


@pytest.mark.parametrize(
    "count, handed_on, said",
    [
        (LogCount(sent=3, taken=2, passed=1, rows=5), 5, ""),
        (LogCount(sent=3, taken=2, passed=1, rows=5, refused=2), 3, ""),
        (LogCount(sent=4, taken=2, passed=1, rows=5), 5, "the log sent 4 events of the tables that are read, and 3 were taken"),
        (LogCount(sent=3, taken=2, passed=1, rows=5), 4, "5 rows were decoded, and 4 handed on"),
    ],
)
def test_events_that_the_log_sent_and_that_were_not_taken_are_an_error(count: LogCount, handed_on: int, said: str) -> None:
    with pytest.raises(EventsMissed, match=said) if said else nullcontext():
        count.check(handed_on)
