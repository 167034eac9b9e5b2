"""The same faults where the real Debezium, embedded, reads the log, and a plain sink applies its messages in batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live import Engines, LiveEngine
from tests.pipeline.batch_sink import DELETED, FAULTS, BatchSink, Row
from tests.pipeline.history_load import LONGEST, TABLE, Series, Source, audit_under_load, make
from tests.pipeline.history_road import HistoryRoad
from tests.pipeline.messages.debezium import LOG_OPTIONS, NEEDS, Debezium
from tests.servers import mysql
from tests.servers.process import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.mysql, pytest.mark.postgres, *NEEDS]

SECONDS = 100.0

OPTIONS = {"decimal.handling.mode": "string", "time.precision.mode": "isostring", "table.include.list": f"audit.{TABLE}"}


class Followed:
    """Hands Debezium's messages on to a sink; those of a row that is to go wrong as soon as its last change has come."""

    def __init__(self, debezium: Debezium, sink: BatchSink) -> None:
        self.debezium, self.sink = debezium, sink
        self.lives: dict[str, list[Row | None]] = {}
        self.messages = 0
        self.failures: list[BaseException] = []

    def send(self, key: str, rows: list[Row]) -> None:
        """Do nothing: Debezium says it."""

    def spoil(self, key: str, fault: str, life: list[Row | None]) -> None:
        """Do nothing: the key says how it goes wrong, and Debezium its states."""

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow Debezium in a thread for the block."""
        done = threading.Event()
        thread = threading.Thread(target=self._guarded, args=(done,))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert not self.failures

    def _guarded(self, done: threading.Event) -> None:
        try:
            while not done.is_set():
                message = self.debezium.next_message(0.5)
                if message and message.topic == f"shop.audit.{TABLE}" and message.value is not None:
                    self._take(message.value["payload"])
        except BaseException as error:
            self.failures.append(error)
            raise

    def _take(self, payload: dict[str, Any]) -> None:
        self.messages += 1
        before, after = payload["before"], payload["after"]
        key = str((after or before)["id"])
        row = None if after is None else (key, after["item"], after["price"], after["day"] and after["day"].rstrip("Z"), after["note"])
        fault = announced(key)
        if fault is None or self.lives.get(key) == []:
            self.sink.send(key, [] if row is None else [row])
            return
        life = self.lives.setdefault(key, [None])
        life += [row] if row else []
        if len(life) == 4 and (row is None or fault not in DELETED):
            self.sink.send(key, FAULTS[fault](life))
            self.lives[key] = []  # what comes later mends it


def announced(key: str) -> str | None:
    """Return the fault of a key; None if it is to arrive as it is."""
    return list(FAULTS)[int(key) % 1000 % len(FAULTS)] if int(key) >= 1_000_000 else None


@pytest.fixture
def road(engines: Engines, tmp_path: Path) -> Iterator[HistoryRoad]:
    try:
        server = mysql.start_private(tmp_path, LOG_OPTIONS)
    except Unavailable as error:
        pytest.skip(str(error))
    made = HistoryRoad(tmp_path, LiveEngine("mysql", "mysql", server.url), engines.live("postgres"), TABLE)
    make(made)
    yield made
    made.close()
    server.stop()


def test_each_fault_is_found_and_nothing_else_is(road: HistoryRoad, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = BatchSink(road.settings.connections["warehouse"].url, f"sink.{TABLE}", LONGEST)
    debezium = Debezium(tmp_path, road.log.url, OPTIONS)
    try:
        followed = Followed(debezium, sink)
        with sink.running(), followed.following():
            told = audit_under_load(road, Source(road, followed), sink, Series(seconds=SECONDS, sets=10))
    finally:
        debezium.stop()
    with capsys.disabled():
        print(f"\n{followed.messages:,} messages of Debezium; {told}")
