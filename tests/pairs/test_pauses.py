"""While one side's database is too busy to be asked, neither side's snapshot stays open for long."""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.connections.connection import Connection
from auditor.durations import durations
from auditor.model import Progress, Report, Side, State, Verdict
from auditor.planning import chunks
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.durations import SetDurations
from tests.live import LiveEngine, LivePair, chosen_pairs
from tests.unit.test_throttle import wait_until

ROWS = 6000

POLL = 0.3
"""Seconds between two looks at the open snapshots: MySQL refreshes INNODB_TRX only if nobody has read it for 0.1 s, so a
faster poll sees the first copy for ever."""

OPEN_SNAPSHOTS = {
    "mysql": "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
    " WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()",
    "postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'",
}

pytestmark = pytest.mark.clock


def beat(engine: LiveEngine, age: float) -> None:
    """Let the heartbeat look as old as this."""
    moment = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(seconds=age)
    tables.execute(engine, f"UPDATE pauses_beats SET at = '{moment:%Y-%m-%d %H:%M:%S}'")


def make_beats(engine: LiveEngine) -> None:
    tables.make(engine, "pauses_beats", [("at", Kind("timestamp", scale=6))], [(dt.datetime(2000, 1, 1),)])
    beat(engine, age=0)


def has_no_open_snapshot(engine: LiveEngine) -> bool:
    return not tables.query(engine, OPEN_SNAPSHOTS[engine.dialect])[0][0]


def start_audit(pair: LivePair, paused: Side, on_progress: Any) -> Report:
    pause = {"pause_when": {"lag": "30s", "heartbeat": {"table": "pauses_beats", "column": "at"}}}
    connections: dict[Side, Any] = {side: {"url": getattr(pair, side).url, "connections": 2} for side in ("source", "target")}
    connections[paused]["limits"] = pause
    settings = {str(side): ConnectionSettings.model_validate(one) for side, one in connections.items()}
    ends = {side: {"connection": side, "table": f"pauses_{side}"} for side in connections}
    audit = Audit.model_validate({**ends, "key": ["id"], "partition": {"rows": 100}})
    return audit_run.run("pauses", audit, settings, on_progress)


def watch_snapshots(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the dialects of which a snapshot was given up, as they come.

    The servers' own lists do not say it: a snapshot in which a statement runs is not idle, and MySQL's list may be old.
    """
    names: set[str] = set()
    give_up = Connection.give_up_idle_snapshot

    def watched(connection: Connection, seconds: float) -> None:
        give_up(connection, seconds)
        if connection.snapshots_given_up:
            names.add(connection.session.dialect.name)

    monkeypatch.setattr(Connection, "give_up_idle_snapshot", watched)
    return names


@pytest.mark.quick_for("mysql-postgres-source")
@pytest.mark.parametrize("paused", ["target", "source"])
@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_snapshot_is_given_up_in_a_long_pause(
    pair: LivePair, paused: Side, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 200)
    set_durations(load_probe=0.01)  # so many chunks are not read before it is seen that the database is too busy
    set_durations(snapshot_in_pause=0.5)
    for side in ("source", "target"):
        columns = [("id", Kind("integer")), ("v", Kind("text"))]
        tables.make(getattr(pair, side), f"pauses_{side}", columns, [(i, f"row {i}") for i in range(ROWS)], key=["id"])
    busy: LiveEngine = getattr(pair, paused)
    make_beats(busy)
    has_paused = threading.Event()
    given_up = watch_snapshots(monkeypatch)

    def pause_in_the_scan(progress: Progress) -> None:
        if progress.side == paused and progress.doing == "summarising" and progress.done and not has_paused.is_set():
            beat(busy, age=3600)
            has_paused.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(start_audit, pair, paused, pause_in_the_scan)
        wait_until(lambda: has_paused.is_set() or running.done(), "the scan is under way", 60)
        try:
            wait_until(lambda: len(given_up) >= 2 or running.done(), "both sides' snapshots are given up")
            for engine in (pair.source, pair.target):
                are_closed = partial(has_no_open_snapshot, engine)
                wait_until(are_closed, f"{engine.name}'s snapshots are closed", every=POLL)
            assert not running.done(), running.result().reasons
        finally:
            beat(busy, age=0)
        report = running.result()
    assert (report.state, report.verdict) == (State.DONE, Verdict.MATCH), report.reasons
    for side in ("source", "target"):
        words = f"{side}: (a snapshot was|2 snapshots were) given up in a pause of more than {0.5 / 60:g} minutes, so what was read later"
        assert [note for note in report.notes if re.match(words, note)], report.notes


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_snapshot_outlives_a_short_pause(pair: LivePair, set_durations: SetDurations) -> None:
    set_durations(load_probe=0.05)
    for side in ("source", "target"):
        tables.make(getattr(pair, side), f"pauses_{side}", [("id", Kind("integer"))], [(i,) for i in range(20)], key=["id"])
    make_beats(pair.target)
    waited = threading.Event()

    def end_the_pause(progress: Progress) -> None:
        if progress.side == "target" and progress.doing == "summarising":
            beat(pair.target, age=3600)
            time.sleep(
                2 * durations().load_probe
            )  # so that no probe before the beat still holds, and the scan's statement waits for a new one
        if progress.doing.startswith("waits"):
            waited.set()
            beat(pair.target, age=0)

    report = start_audit(pair, "target", end_the_pause)
    assert waited.is_set() and report.verdict is Verdict.MATCH, report.reasons
    assert [note for note in report.notes if "not tried" not in note] == []
