"""Heartbeats: two writers disturb nobody, audits read them, and a binary log is followed by them, compressed or not."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.config import ConnectionSettings, Settings, WriteSettings
from auditor.errors import AccessDenied, ConfigError, NoSuchObject
from auditor.model import HEARTBEAT_TABLE, State, Verdict, parse_time
from auditor.pipeline import heartbeat
from auditor.pipeline.binlog.ranges import Mark, as_offset, from_offset
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.failover import search_trail
from auditor.planning.watermark import LastBeat
from tests.binlog import LiveLog
from tests.engines.test_watermark import ROWS, run_audit
from tests.live import LiveEngine, engine_params
from tests.tables import open_writable

pytestmark = pytest.mark.engines_in_turn

on_sources = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres"), indirect=True)
on_logs = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)


def settings_of(url: str) -> Settings:
    return Settings(connections={"here": ConnectionSettings(url=url, write=WriteSettings(url=url))}, audits={})


def drop(engine: LiveEngine) -> None:
    with open_writable(engine) as session:
        session.execute(f"DROP TABLE IF EXISTS {HEARTBEAT_TABLE}")


@on_sources
def test_writers_that_make_the_table_at_once_all_find_it(engine: LiveEngine) -> None:
    def beat() -> int:
        with heartbeat.open_heartbeat(settings_of(engine.url), "here") as writer:
            together.wait()
            writer.prepare()
            return writer.write().serial

    drop(engine)
    together = threading.Barrier(4, action=lambda: drop(engine))
    with ThreadPoolExecutor(4) as pool:
        serials = [future.result() for future in [pool.submit(beat) for _ in range(4)]]
    assert sorted(serials) == [1, 2, 3, 4]


@on_sources
def test_two_writers_give_each_heartbeat_a_number_of_its_own_and_audits_read_the_last(engine: LiveEngine) -> None:
    drop(engine)
    stop, counts = threading.Event(), list[int]()
    threads = [threading.Thread(target=lambda: counts.append(heartbeat.run(settings_of(engine.url), "here", 0.01, stop))) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.4)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(counts) == 2 and min(counts) >= 1
    with heartbeat.open_heartbeat(settings_of(engine.url), "here") as writer:
        last = writer.write()
    assert last.serial == sum(counts) + 1, "no number was given twice"
    report = run_audit(engine, {"source": ROWS, "target": ROWS}, settle={"column": "moved", "heartbeat": {}})
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.plan and report.plan.watermark == f"{last.at:%Y-%m-%d %H:%M:%S.%f}"


BARRIER: dict[str, Any] = {"column": "moved", "heartbeat": {}, "barrier": "60s"}


@on_sources
@pytest.mark.slow_on("mariadb")  # whose heartbeat other tests read, and whose snapshot is MySQL's
def test_a_run_waits_for_a_heartbeat_that_the_snapshot_of_the_source_does_not_show(engine: LiveEngine) -> None:
    drop(engine)
    with heartbeat.open_heartbeat(settings_of(engine.url), "here") as writer:
        writer.write()
    sides = {"source": ROWS, "target": ROWS | {7: ("damaged", ROWS[7][1])}}
    silent = run_audit(engine, sides, settle=BARRIER | {"barrier": "0.1s"})
    assert (silent.state, silent.verdict, silent.exit_code) == (State.FAILED, Verdict.UNKNOWN, 3), silent.reasons
    assert "no heartbeat that was written after the source was read reached the target within 0.1 s" in silent.reasons[0]
    stop, began = threading.Event(), dt.datetime.now(dt.UTC)
    thread = threading.Thread(target=heartbeat.run, args=(settings_of(engine.url), "here", 0.1, stop))
    thread.start()
    try:
        report = run_audit(engine, sides, settle=BARRIER | {"lag": "0s"})
    finally:
        stop.set()
        thread.join()
    assert report.verdict is Verdict.MISMATCH and report.differences is not None, report.reasons
    assert [one.key for one in report.differences.named] == [{"id": "7"}]
    assert report.plan and parse_time(report.plan.watermark) > began - dt.timedelta(seconds=5)
    [note] = [one for one in report.notes if "heartbeat" in one]
    assert note.startswith("a heartbeat that was written after the source's snapshot was opened reached the target after")


def test_times_of_coarser_columns_count_once_they_are_a_step_apart() -> None:
    at = dt.datetime(2026, 11, 1, 12, 0, 0, 700_000)
    fine, coarse = dt.timedelta(microseconds=1), dt.timedelta(seconds=1)
    shown = LastBeat(at, fine)
    assert LastBeat(at + fine, fine).is_behind(shown) and not LastBeat(at, fine).is_behind(shown)
    assert not LastBeat(dt.datetime(2026, 11, 1, 12, 0, 1), coarse).is_behind(shown), "it may have been rounded"
    assert LastBeat(dt.datetime(2026, 11, 1, 12, 0, 2), coarse).is_behind(shown)


def test_connections_that_take_no_heartbeats_are_refused() -> None:
    for settings, connection, sentence in (
        (settings_of("duckdb:///d.duckdb"), "her", "there is no connection 'her'; did you mean 'here'\\? \\(connections here: here\\)"),
        (Settings(connections={"here": ConnectionSettings(url="mysql://h/shop")}, audits={}), "here", "may only read; add write"),
        (settings_of("duckdb:///d.duckdb"), "here", "into MySQL, MariaDB and PostgreSQL, and 'here' leads to duckdb"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            heartbeat.run(settings, connection, 1, threading.Event())


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_the_command_writes_until_it_is_interrupted(engine: LiveEngine, tmp_path: Path) -> None:
    drop(engine)
    path = tmp_path / "auditor.yaml"
    path.write_text(f'connections: {{shop: {{url: "{engine.url}", write: {{url: "{engine.url}"}}}}}}\naudits: {{}}\n')
    command = [sys.executable, "-m", "auditor", "heartbeat", "run", "shop", "--every", "0.05s", "--config", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not written(engine):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert (
        f"{written(engine):,} heartbeats were written into shop" in said and "heartbeat 1 was written, and one follows every 0.05 s" in said
    )


def written(engine: LiveEngine) -> int:
    """Return the number of the last heartbeat, 0 before the first one."""
    with open_writable(engine) as session:
        try:
            return int(session.query(f"SELECT MAX(serial) FROM {HEARTBEAT_TABLE}")[0][0] or 0)
        except NoSuchObject:
            return 0


@on_logs
def test_a_user_without_rights_is_told_what_to_grant(engine: LiveEngine) -> None:
    log = LiveLog(engine.url)
    log.run(
        "DROP USER IF EXISTS beats_reader",
        "CREATE USER beats_reader IDENTIFIED BY 'a-beat'",
        f"GRANT SELECT ON {log.database}.* TO beats_reader",
    )
    server = engine.url.partition("@")[2]
    url = f"{engine.url.partition(':')[0]}://beats_reader:a-beat@{server}"
    drop(engine)
    with pytest.raises(AccessDenied, match=r"run: GRANT CREATE, SELECT, INSERT, UPDATE ON `\w+`.`auditor_heartbeat` TO the user"):
        heartbeat.run(settings_of(url), "here", 1, threading.Event())
    with heartbeat.open_heartbeat(settings_of(engine.url), "here"):
        log.run(f"GRANT CREATE ON {log.database}.* TO beats_reader")
    with pytest.raises(AccessDenied, match=r"run: GRANT SELECT, INSERT, UPDATE ON `\w+`.`auditor_heartbeat` TO the user"):
        heartbeat.run(settings_of(url), "here", 1, threading.Event())
    log.run("DROP USER beats_reader")


def compress(log: LiveLog, on: bool) -> None:
    """Let the server compress all of its log from the next session on."""
    if log.url.startswith("mysql:"):
        log.run(f"SET GLOBAL binlog_transaction_compression = {int(on)}")
    else:
        log.run(f"SET GLOBAL log_bin_compress = {int(on)}, log_bin_compress_min_len = {10 if on else 256}")


@on_logs
@pytest.mark.alone
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_a_scan_keeps_the_last_heartbeat_and_the_transactions_behind_it(engine: LiveEngine, compressed: bool) -> None:
    log = LiveLog(engine.url)
    log.run("DROP TABLE IF EXISTS followed", "CREATE TABLE followed (id int PRIMARY KEY)")
    drop(engine)
    compress(log, compressed)
    try:
        start = log.end()
        with heartbeat.open_heartbeat(settings_of(log.url), "here") as writer:
            writer.write()
            log.run("INSERT INTO followed VALUES (1)")
            half = log.end()
            last = writer.write()
            log.run(
                "INSERT INTO followed VALUES (2)", "BEGIN", "INSERT INTO followed VALUES (3)", "INSERT INTO followed VALUES (4)", "COMMIT"
            )
            at_beat = log.end()
            log.run("INSERT INTO followed VALUES (5)")
    finally:
        compress(log, False)
    first = log.marked(Mark(start), half)[1]
    assert first.trail and (first.trail.beat.serial, first.trail.transactions) == (1, 1)
    whole = log.marked(Mark(start))[1]
    assert whole.trail and (whole.trail.beat.serial, whole.trail.beat.at, whole.trail.transactions) == (2, last.at, 3)
    assert whole.trail.beat.database == log.database
    again = from_offset(as_offset(log.marked(from_offset(as_offset(first, 0)), at_beat)[1], 0))
    assert log.marked(again)[1] == whole, "wherever a scan is interrupted"
    with closing(log.source.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.server_id")
        [(own,)] = cursor.fetchall()
    assert whole.trail.beat.server == own
    chosen = Selection(["followed"], log.database)
    found = search_trail(log.source, whole.trail, own + 1, chosen, None)
    assert (found.place, found.transactions, found.own) == (whole.place, 3, [])
    mine: Any = search_trail(log.source, whole.trail, own, chosen, None)
    assert mine.place is None and mine.transactions == 0 and mine.own[-1].end == whole.place
    assert search_trail(log.source, whole.trail, own, chosen, log.end()).own == [], "what was read before"


def test_the_default_table_is_that_of_the_writer() -> None:
    assert config.Heartbeat().model_dump() == {"table": HEARTBEAT_TABLE, "column": "beat_at", "ahead": 60.0, "rows": {}}
