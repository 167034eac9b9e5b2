"""A source whose log was reset, or that was restored to an earlier time, is not read on from a position of before."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from auditor.errors import ChangeStreamError, PositionLost, SourceReplaced
from auditor.pipeline.binlog.log_connection import log_status
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from tests.binlog import LiveLog
from tests.servers import mariadb, mysql, replicas
from tests.servers.process import Server, find_program

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.engines_in_turn]
KINDS = [pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("mariadb", marks=pytest.mark.mariadb)]
FIRST = ("CREATE TABLE orders (id INT PRIMARY KEY, value INT)", "INSERT INTO orders VALUES (1, 1)")


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Server]]:
    server = replicas.start(request.param, 1, tmp_path)
    yield request.param, server
    server.stop()


def open_stream(server: Server, folder: Path, offset: dict[str, Any]) -> Any:
    path = folder / "auditor.yaml"
    path.write_text(f'connections: {{shop: {{url: "{server.url}"}}}}\naudits: {{}}\n')
    options = {"config": str(path), "connection": "shop", "tables": "orders", "start": json.dumps(offset), "patience": "5"}
    return MySQLBinlog(options).streamReader(EVENT_TYPE)


def begin_anew(log: LiveLog) -> None:
    """Let the log begin anew in another second than it did, with the same first transactions."""
    [(then,)] = log.run("SELECT UNIX_TIMESTAMP()")
    while log.run("SELECT UNIX_TIMESTAMP()") == [(then,)]:
        time.sleep(0.02)
    log.run("RESET BINARY LOGS AND GTIDS" if replicas.is_mysql(log) else "RESET MASTER")


def follow(server: Server, folder: Path, begin: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    stream = open_stream(server, folder, begin)
    end = stream.latestOffset(begin, ReadAllAvailable())
    rows = [row for part in stream.partitions(begin, end) for batch in stream.read(part) for row in batch.to_pylist()]
    stream.stop()
    return end, [row["after"][0] for row in rows if row["kind"] == "insert"]


@pytest.mark.slow_on("mysql")
def test_a_log_that_was_reset_and_looks_the_same_is_another_one(own: tuple[str, Server], tmp_path: Path) -> None:
    engine, server = own
    log = LiveLog(server.url)
    begin_anew(log)
    begin: dict[str, Any] = {**end_of_log(log.source)}
    assert begin["born"] > 0
    log.run(*FIRST)
    end, rows = follow(server, tmp_path, begin)
    assert rows == ["1"] and end["born"] == begin["born"]
    running = open_stream(server, tmp_path, end)
    assert running.latestOffset(end, ReadAllAvailable()) == end
    log.run("DROP TABLE orders")
    begin_anew(log)
    log.run(*FIRST)
    assert (log.end().file, log.end().offset) == (end["file"], end["position"]), "the log looks as it did"
    log.run("INSERT INTO orders VALUES (2, 2)")
    with pytest.raises(
        SourceReplaced, match=r"was begun at .+ UTC, and the file of that name now at .+ UTC: the log was reset, or the source"
    ):
        follow(server, tmp_path, end)
    with pytest.raises(ChangeStreamError):  # of a pipeline that ran meanwhile
        there = running.latestOffset(end, ReadAllAvailable())
        [row for part in running.partitions(end, there) for batch in running.read(part) for row in batch.to_pylist()]
    running.stop()
    del engine


@pytest.mark.slow_on("mysql")
def test_a_source_that_was_restored_to_an_earlier_time_is_not_read_on(own: tuple[str, Server], tmp_path: Path) -> None:
    engine, server = own
    log = LiveLog(server.url)
    log.run("DROP TABLE IF EXISTS orders", *FIRST)
    begin: dict[str, Any] = {**end_of_log(log.source)}
    log.run("INSERT INTO orders VALUES (2, 2)")
    replicas.kill(log)
    data = next(tmp_path.rglob("data"))
    shutil.copytree(data, tmp_path / "backup" / "data", ignore=shutil.ignore_patterns("*.sock*", "*.pid"))
    later = restarted(engine, data.parent)
    log = LiveLog(later.url)
    for number in range(3, 9):
        log.run(f"INSERT INTO orders VALUES ({number}, 0)")
    end, rows = follow(later, tmp_path, begin)
    assert rows == [str(number) for number in range(2, 9)]
    with mysql.connect(later.url) as connection:
        assert log_status(connection).end.order > (1, 0)
    replicas.kill(log)
    while time.time() < end["born"] + 1:  # two files of a log differ by the second in which they were begun
        time.sleep(0.02)
    restored = restarted(engine, tmp_path / "backup")
    log = LiveLog(restored.url)
    for number in range(3, 20):
        log.run(f"INSERT INTO orders VALUES ({number}, 1)")
    assert log.end().order > (int(end["file"].rpartition(".")[2]), end["position"])
    with pytest.raises((SourceReplaced, PositionLost), match="restored to an earlier time"):
        follow(restored, tmp_path, end)
    for one in (later, restored):
        one.stop()


def restarted(engine: str, home: Path) -> Server:
    """Start a server on the data of one that was killed."""
    (home / "data" / "server.sock.lock").unlink(missing_ok=True)
    if engine == "mysql":
        program, how = mysql.find_server()
        assert program
        own = ["--server-id=1", "--log-replica-updates=ON", *replicas.GLOBAL_IDS]
        return mysql.start_local("mysql", home, [program, "--no-defaults", *mysql.OWN_OPTIONS, *own], how)
    program = find_program("mariadbd")
    assert program
    options = [one for one in mariadb.OWN_OPTIONS if not one.startswith("--server-id")]
    return mysql.start_local(
        "mariadb", home, [program, "--no-defaults", *options, "--server-id=1", "--log-slave-updates=ON"], "local binary"
    )
