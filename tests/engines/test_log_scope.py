"""A source whose log never holds the rows of the tables is refused, before a pipeline says that it is up to date."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from auditor.errors import LogRefused
from auditor.pipeline import check
from auditor.pipeline.binlog.log_connection import Source
from auditor.pipeline.binlog.log_scope import check_scope, find_gaps
from auditor.pipeline.run import Run
from tests.binlog import LiveLog
from tests.durations import SetDurations
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE
from tests.servers import mariadb, mysql
from tests.servers.process import Server

on_both = pytest.mark.parametrize("name", [pytest.param(one, marks=getattr(pytest.mark, one)) for one in ("mysql", "mariadb")])
UPDATES = {"mysql": "log-replica-updates", "mariadb": "log-slave-updates"}
CHANGE = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='root'",
    "mariadb": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='root'",
}


@pytest.fixture
def server(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the test's own, whose log lacks the database hidden, and which would log nothing of what it replicates."""
    kind = mysql if name == "mysql" else mariadb
    options = ["--binlog-ignore-db=hidden", f"--{UPDATES[name]}=OFF", r"--replicate-wild-ignore-table=shop.skip\_%"]
    found = kind.start_private(tmp_path_factory.mktemp("own"), options)
    yield found
    found.stop()


def at(server: Server, database: str, user: str = "root") -> LiveLog:
    parts = urlsplit(server.url)
    login = user if user == "root" else f"{user}:a-Long1Password"
    return LiveLog(parts._replace(netloc=f"{login}@{parts.hostname}:{parts.port}", path=f"/{database}").geturl())


def errors(log: LiveLog, *tables: str) -> list[str]:
    return [sentence for is_error, sentence in find_gaps(Source(log.url, "shop"), tables or ("*",)) if is_error]


@pytest.mark.slow_on("mysql")
@on_both
def test_what_the_log_leaves_out(name: str, server: Server, tmp_path: Path, set_durations: SetDurations) -> None:
    root = at(server, "")
    root.run("CREATE DATABASE shop", "CREATE DATABASE hidden", "CREATE TABLE shop.orders (id int PRIMARY KEY)",
             "CREATE TABLE shop.skip_me (id int PRIMARY KEY)", "CREATE TABLE shop.skipper (id int PRIMARY KEY)")  # fmt: skip
    shop, hidden = at(server, "shop"), at(server, "hidden")
    assert errors(shop) == [] and errors(shop, "other.t") == [], "what concerns other databases is no reason"
    assert errors(hidden) == [
        "binlog-do-db or binlog-ignore-db leaves out the database hidden; correct that in the server's option file, and restart it"
    ]
    assert len(errors(shop, "*", "hid*.t")) == 1

    road = LiveRoad(tmp_path, LiveEngine(name, "mysql", hidden.url), "*")
    try:
        set_durations(log_proof=2.0)
        assert "did not come through the log within 2 s" in check.prove(road.settings, PIPELINE).sentence
        [found] = [one for one in check.check(road.settings, PIPELINE, b"salt") if "rows are missing in" in one.sentence]
        assert (found.severity, found.subject) == ("error", "source")
        run = Run(road.settings, road.config_file, road.store, PIPELINE, [], stop=threading.Event())
        with pytest.raises(
            LogRefused, match="rows never come into its binary log: binlog-do-db or binlog-ignore-db leaves out the database hidden"
        ):
            run.stream_options()
    finally:
        road.close()

    root.run("SET GLOBAL init_connect = 'SET NAMES utf8mb4; SET SESSION sql_log_bin=0'")
    assert errors(shop) == ["init_connect lets sessions begin with sql_log_bin = 0, which logs nothing; run SET GLOBAL init_connect = ''"]
    root.run("SET GLOBAL init_connect = ''", "CREATE USER reader IDENTIFIED BY 'a-Long1Password'",
             "GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO reader")  # fmt: skip
    reader = at(server, "shop", "reader")
    doubts = [sentence for is_error, sentence in find_gaps(Source(reader.url, "shop"), ["*"]) if not is_error]
    assert any("GRANT SLAVE MONITOR" in one for one in doubts) == (name == "mariadb")

    root.run(CHANGE[name])
    option = UPDATES[name].replace("-", "_")
    found_now = errors(shop)
    assert f"it is a replica with {option} = OFF, and logs nothing of what it replicates" in found_now[0]
    assert ["leave out shop.skip_me" in one for one in found_now[1:]] == [True], "and not shop.skipper"
    with pytest.raises(LogRefused, match="it is a replica with"):
        check_scope(Source(shop.url, "shop"), ["orders"])


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
def test_a_row_comes_through_the_log(engine: LiveEngine, tmp_path: Path) -> None:
    road = LiveRoad(tmp_path, engine, "*")
    try:
        found = check.prove(road.settings, PIPELINE)
        assert found.severity == "note" and "proved: a row of" in found.sentence, found
        source = road.settings.connections["source"]
        road.settings.connections["source"] = source.model_copy(update={"write": None})
        assert check.prove(road.settings, PIPELINE).sentence.startswith("not proved: ")
    finally:
        road.close()
