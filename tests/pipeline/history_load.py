"""A table that is written to, rows of which go wrong on their way to a target, and audits that have to tell these from all others."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Protocol

from auditor.connections.prefetch import keeping
from tests.pipeline.batch_sink import DELETED, FAULTS, BatchSink, Row
from tests.pipeline.history_road import HistoryRoad
from tests.servers import mysql

TABLE, KEYS, VICTIMS = "history_load", 2000, 1_000_000
COLUMNS = "id int PRIMARY KEY, item varchar(40), price decimal(10,2), day date, note varchar(20)"
LONGEST = 1.0
WRITERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """How many audits follow each other, and what goes wrong before each of them."""

    runs: int = 0
    """How many there are at least."""
    seconds: float = 0.0
    """For how long they follow each other at least."""
    faults: int = len(FAULTS)
    """Ways of going wrong before each run, one after the other from run to run."""
    sets: int = 1
    """Rows that go wrong in each of these ways."""
    at_most: float = 20.0
    """Seconds that changes may take, which the sink has to keep to."""
    capture_every: float = 0.05
    """Seconds between two looks at the log."""
    pause: float = 0.01
    """Seconds between two changes of a writer."""


class Receiver(Protocol):
    """Gets each change of the source right after it was committed."""

    def send(self, key: str, rows: list[Row]) -> None:
        """Take the rows that a key has from now on."""

    def spoil(self, key: str, fault: str, life: list[Row | None]) -> None:
        """Let a key go wrong, all of whose states these are."""


class Direct:
    """Hands changes on to a sink by itself."""

    def __init__(self, sink: BatchSink) -> None:
        self.sink = sink

    def send(self, key: str, rows: list[Row]) -> None:
        """Hand a change on."""
        self.sink.send(key, rows)

    def spoil(self, key: str, fault: str, life: list[Row | None]) -> None:
        """Let a key go wrong."""
        self.sink.send(key, FAULTS[fault](life))


class Source:
    """Writes to the source, and says what it committed."""

    def __init__(self, road: HistoryRoad, receiver: Receiver) -> None:
        self.road, self.receiver = road, receiver
        self.written = 0
        self.failures: list[BaseException] = []

    @contextmanager
    def written_to(self, pause: float) -> Iterator[None]:
        """Let writers change rows of their own keys for the block."""
        done = threading.Event()
        threads = [threading.Thread(target=self._guarded, args=(number, pause, done)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert not self.failures

    def _guarded(self, number: int, pause: float, done: threading.Event) -> None:
        try:
            self._write(random.Random(number), number, pause, done)
        except BaseException as error:
            self.failures.append(error)
            raise

    def _write(self, chance: random.Random, number: int, pause: float, done: threading.Event) -> None:
        rows: dict[int, Row | None] = {
            n: (str(n), f"Item {n} ", f"{n}.25", f"2026-02-{n % 28 + 1:02}", None) for n in range(number, KEYS, WRITERS)
        }
        with closing(mysql.connect(self.road.log.url)) as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            while not done.wait(pause):
                key = chance.choice(list(rows))
                before = rows[key]
                if before is None or chance.random() < 0.7:
                    days, price = chance.randint(1, 28), f"{chance.randint(0, 99)}.{chance.randint(10, 99)}"
                    rows[key] = (str(key), f"Item {chance.randint(0, 2)} ", price, f"2026-02-{days:02}", chance.choice((None, "a", "b")))
                    if before is not None and chance.random() < 0.1:  # its key changes, to one of the same writer
                        other = key + KEYS * 2
                        row: Row = (str(other), *before[1:])
                        cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (other,))
                        cursor.execute(f"UPDATE {TABLE} SET id = %s WHERE id = %s", (other, key))
                        self.receiver.send(str(key), [])
                        self.receiver.send(str(other), [row])
                        rows[key] = None
                    else:
                        cursor.execute(f"REPLACE INTO {TABLE} VALUES (%s, %s, %s, %s, %s)", rows[key])
                        self.receiver.send(str(key), [rows[key] or ()])
                else:
                    cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
                    rows[key] = None
                    self.receiver.send(str(key), [])
                self.written += 1

    def spoil(self, first: int, faults: Sequence[str]) -> dict[str, str]:
        """Write a row for each fault, from a key on, and let it go wrong; return the faults by key."""
        spoiled = dict(enumerate(faults, first))
        with closing(mysql.connect(self.road.log.url)) as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            for number, name in spoiled.items():
                key = str(number)
                life: list[Row | None] = [None]
                for step in range(3):
                    life.append((key, f"Item of {key}, {step} ", f"{step + 1}.{number % 90 + 10}", f"2026-02-{step + 10}", None))
                    cursor.execute(f"REPLACE INTO {TABLE} VALUES (%s, %s, %s, %s, %s)", life[-1])
                if name in DELETED:
                    cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
                self.receiver.spoil(key, name, life)
        return {str(number): name for number, name in spoiled.items()}

    def mend(self, keys: list[str]) -> None:
        """Delete rows on both sides; those that are gone in the source are made once more, so that its log says it."""
        made = ", ".join(f"({key})" for key in keys)
        self.road.log.run(f"INSERT IGNORE INTO {TABLE} (id) VALUES {made}", f"DELETE FROM {TABLE} WHERE id IN ({', '.join(keys)})")
        for key in keys:
            self.receiver.send(key, [])


def make(road: HistoryRoad) -> None:
    """Make both tables alike; the target's has no primary key."""
    rows = ", ".join(f"({n}, 'Item {n} ', {n}.25, '2026-02-{n % 28 + 1:02}', NULL)" for n in range(KEYS))
    road.create(COLUMNS, rows, COLUMNS.replace(" PRIMARY KEY", ""))
    road.sink(f"CREATE INDEX ON sink.{TABLE} (id)")
    road.begin_stream()


def audit_under_load(road: HistoryRoad, source: Source, sink: BatchSink, series: Series) -> str:
    """Run audits one after the other, and fail if one misses a wrong row or names another; return what was seen."""
    spoiled: dict[str, tuple[str, float]] = {}
    mended: dict[str, float] = {}
    runs, found, flights, verdicts, times = 0, Counter[str](), 0, Counter[str](), list[float]()
    names, late = cycle(FAULTS), series.at_most
    road.allow(f"{late:g}s")
    with road.capturing(series.capture_every), source.written_to(series.pause), keeping():
        road.run()
        time.sleep(late + 1)  # from here on the history reaches back far enough
        began = time.monotonic()
        while time.monotonic() - began < series.seconds or runs < series.runs:
            faults = source.spoil(VICTIMS + runs * 1000, list(islice(names, series.faults)) * series.sets)
            started = time.monotonic()
            spoiled |= {key: (name, started) for key, name in faults.items()}
            report = road.run()
            times.append(time.monotonic() - started)
            runs += 1
            assert report.differences is not None, report.reasons
            assert report.differences.history is not None, report.reasons
            wrong = {row.key["id"] or "": row.cause for row in report.differences.named if row.state == "confirmed"}
            mended = {key: since for key, since in mended.items() if since > started - late}
            assert sink.lag < late - 1, "the sink itself was too slow, so that nothing can be said"
            assert not (false := {key: cause for key, cause in wrong.items() if key not in spoiled and key not in mended}), false
            due = {key for key, (_, since) in spoiled.items() if since < started - late - sink.lag - 1}
            assert not (missed := {key: spoiled[key] for key in due - wrong.keys()}), missed
            assert not report.differences.history.untold, report.reasons
            found.update(spoiled[key][0] for key in due)
            flights += report.differences.history.in_flight
            verdicts[report.verdict] += 1
            if due:
                source.mend(sorted(due))
            mended |= dict.fromkeys(due, time.monotonic())
            for key in due:
                del spoiled[key]
    assert len(found) == len(FAULTS) == 22
    assert flights
    told = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
    return (
        f"{runs:,} runs while {source.written:,} changes were committed, {sink.applied:,} applied, each at most {sink.lag:.1f} s later:"
        f" {sum(found.values()):,} faults of {len(found)} kinds found, 0 missed, 0 false; {flights:,} rows in flight; verdicts: {told};"
        f" a run took {sorted(times)[len(times) // 2]:.2f} s (median), {max(times):.2f} s at most"
    )
