"""Connections to the binary log: lost, killed, replaced, silent and encrypted ones."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from auditor.errors import ConnectionLost, ReaderReplaced
from auditor.pipeline.binlog import event_types, log_connection
from auditor.pipeline.binlog.log_connection import Dump, Request
from auditor.pipeline.binlog.ranges import LogScan, Mark
from tests.binlog import LiveLog
from tests.durations import SetDurations
from tests.engines.test_binlog_transactions import MIXED, on_both, on_mysql
from tests.servers import mysql

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]  # the log that they read is the whole server's


@on_both
def test_lost_connections_change_nothing(log: LiveLog, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations) -> None:
    start = log.end()
    log.run("START TRANSACTION", *MIXED[:1], *MIXED[6:], "COMMIT", "DELETE FROM entry", *MIXED)
    end, whole = log.end(), log.events(start, ["entry"])
    receive: Callable[[Dump], bytes] = Dump.receive
    monkeypatch.setattr(log_connection, "CHUNK", 509)
    set_durations(log_first_reconnect=0.001)
    for chunks in range(1, 24, 2):
        left = [chunks, chunks + 5, chunks + 9]

        def lose(self: Dump, left: list[int] = left) -> bytes:
            if left:
                left[0] -= 1
                if left[0] == 0:
                    left.pop(0)
                    with suppress(OSError):  # the server was quicker
                        socket.socket.shutdown(self.connection._sock, socket.SHUT_RDWR)
            return receive(self)

        monkeypatch.setattr(Dump, "receive", lose)
        ranges = log.scan(start, end)
        scanned = len(left)
        left[:] = [chunks, chunks + 5, chunks + 9]
        found = [event for event in log.decode(ranges, ["entry"]) if event["kind"] != "schema"]
        assert found == whole
        assert scanned < 3 and len(left) < 3, "a connection was lost"


@on_both
def test_killed_dump_is_opened_again(log: LiveLog) -> None:
    mark = Mark(log.end())
    scan = LogScan(Request(log.source, mark.place, 77_779), mark, 1 << 20, log.patience)
    with closing(scan):
        log.run("INSERT INTO entry VALUES (1, 'a')")
        first = scan.advance(log.end())
        assert scan.dump is not None
        log.run(f"KILL {scan.dump.connection.thread_id()}", "INSERT INTO entry VALUES (2, 'b')")
        second = scan.advance(log.end())
    assert [event["after"][0] for event in log.decode([*first, *second], ["entry"]) if event["kind"] == "insert"] == ["1", "2"]


@on_both
def test_the_older_of_two_readers_with_one_number_ends(log: LiveLog) -> None:
    place = log.end()
    older = Dump(Request(log.source, place, 77_780))
    with closing(older):
        stream = older.events()
        next(stream)
        with closing(Dump(Request(log.source, place, 77_780))) as newer:
            next(newer.events())
            with pytest.raises(
                ReaderReplaced, match="another reader with server id 77780 took over the binary log; run one reader per source"
            ):
                list(stream)


@on_both
def test_silence_is_told_from_idleness(log: LiveLog, set_durations: SetDurations) -> None:
    set_durations(log_heartbeat=0.1)
    with closing(Dump(Request(log.source, log.end(), 77_781))) as idle:
        kinds = (event_types.HEADER.unpack_from(event, at)[1] for event, at, _ in idle.events())
        assert event_types.HEARTBEAT in (next(kinds) for _ in range(4)), "an idle source says that it is there"
    set_durations(log_heartbeat=3600, log_silence=0.3)
    with closing(Dump(Request(log.source, log.end(), 77_782))) as silent:
        with pytest.raises(ConnectionLost, match=r"no event and no heartbeat for 0\.3 s"):
            list(silent.events())


@on_mysql
def test_dumps_are_encrypted_where_the_server_can(log: LiveLog) -> None:
    import ssl

    with closing(Dump(Request(log.source, log.end(), 77_783))) as stream:
        assert isinstance(stream.connection._sock, ssl.SSLSocket)
        with closing(mysql.connect(log.url)) as other, other.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == ((1,),)
