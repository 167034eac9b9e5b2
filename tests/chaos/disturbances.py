"""What happens to a pipeline beside kills, in the same run: a poison table that is let go, audits that hold targets, a late target, DDL.

Each disturbance works as a person does, by the commands of ``auditor``, and asserts what it may expect of the pipeline meanwhile.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pymysql

from auditor.api_models.pipeline import StoppedTable
from auditor.errors import AuditorError
from auditor.pipeline.events import Position
from auditor.service.pipeline_status import status
from tests.chaos.application import PATIENCE, Command
from tests.chaos.chaos import PIPELINE, Chaos, full_name
from tests.chaos.targets import Target
from tests.chaos.transfers import UNCOUNTED
from tests.servers import mysql

HELD = ("ledger", UNCOUNTED)
"""The tables that audits hold: one that is held may lie behind the others, so that sums must not have it."""

KILLED_EVERY = 6
"""Every how many audits one is killed."""

BETWEEN_AUDITS = 2.0
"""Seconds between two audits."""

ALTERED = 20
"""How many tables are altered, if there are so many."""


def alterations(tables: Sequence[str]) -> list[str]:
    """Return statements that alter tables and write into the new columns; two that follow each other are of two tables.

    None of them lets PostgreSQL write a table again, which readers whose snapshot is older would see empty.
    """
    steps = (
        "ALTER TABLE {table} ADD COLUMN remark VARCHAR(20) CHARACTER SET utf8mb4",
        "ALTER TABLE {table} ADD COLUMN fee DECIMAL(8,2) NOT NULL DEFAULT 1.50",
        "UPDATE {table} SET remark = CONCAT('remark ', id), fee = id * 1.25 WHERE id < 10",
        "ALTER TABLE {table} MODIFY COLUMN fee DECIMAL(14,2) NOT NULL DEFAULT 1.50",
        "ALTER TABLE {table} RENAME COLUMN remark TO note",
        "UPDATE {table} SET fee = fee + 1000000, note = 'another note' WHERE id >= 10",
        "ALTER TABLE {table} DROP COLUMN fee",
    )
    return [step.format(table=table) for step in steps for table in tables[:ALTERED]]


def follow_alterations(chaos: Chaos) -> bool:
    """Return whether all targets follow statements that alter tables."""
    return not any(target.dialect.writing.WRITES_COMMITS for target in chaos.targets.values())


class Poison:
    """A row that some targets cannot hold: its table stops there, and is let go by a person."""

    def __init__(self, chaos: Chaos) -> None:
        self._chaos = chaos
        self._places: dict[str, str] = {}
        """The place at which each target stopped."""

    def stop_table(self) -> None:
        """Write the row, and wait until its table is stopped in each target that cannot hold it, and there alone."""
        with mysql.connect(self._chaos.source.url) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
            cursor.execute(f"INSERT INTO {UNCOUNTED} VALUES (2, '2024-02-31')")
            cursor.execute(f"INSERT INTO {UNCOUNTED} VALUES (3, '2024-03-01')")
        self._places = self._until_stopped()
        others = [name for name in self._chaos.targets if name not in self._refusing()]
        self._chaos.application.until(self._chaos.arrival(others, [UNCOUNTED]), "the row where it can be held")

    def let_table_go(self) -> None:
        """Correct the row in the source, and skip what stops the table, by the command; until then the table has stood still.

        In this order, no audit sees the table without the row.
        """
        places = self._until_stopped()
        assert places.items() >= self._places.items()
        for target, place in places.items():
            assert self._chaos.held(target)[UNCOUNTED] < _position_of(place), target
        with mysql.connect(self._chaos.source.url) as connection, connection.cursor() as cursor:
            cursor.execute(f"UPDATE {UNCOUNTED} SET day = '2024-02-28' WHERE id = 2")
        has_arrived, skips = self._chaos.arrival(list(self._chaos.targets), [UNCOUNTED]), list[str]()

        def look() -> bool:
            for place in {stop.place for stop in self._stops()}:
                about = ("--table", full_name(UNCOUNTED), "--position", place, "--reason", "a date that no calendar has")
                skip = Command(self._chaos.folder, "pipeline", "skip", PIPELINE, *about)
                assert skip.wait() == 0, skip.errors
                skips.append(place)
            return has_arrived()

        self._chaos.application.until(look, "the table that was let go", every=1.0)
        print(f"{UNCOUNTED}: let go by {len(skips)} skips in {', '.join(self._refusing()) or 'no target'}", flush=True)

    def _refusing(self) -> list[str]:
        return [name for name, target in self._chaos.targets.items() if not target.dialect.types.ZERO_DATES]

    def _until_stopped(self) -> dict[str, str]:
        """Wait until the table is stopped in each target that cannot hold the row, and return the place in each."""
        places: dict[str, str] = {}

        def is_stopped() -> bool:
            stops = self._stops()
            assert all(stop.table == full_name(UNCOUNTED) for stop in stops), stops
            places.update({stop.target: stop.place for stop in stops if stop.target})
            return {stop.target for stop in stops} == set(self._refusing())

        self._chaos.application.until(is_stopped, "the stop of the poison table", every=1.0)
        return places

    def _stops(self) -> list[StoppedTable]:
        return status(self._chaos.settings, self._chaos.store, PIPELINE, look=False).stopped


def _position_of(place: str) -> int:
    """Return the position of the place of a stop, as targets report theirs."""
    file, position, _ = place.split(":")
    return Position(0, int(file.rpartition(".")[2]), int(position)).pack()


class Background(threading.Thread):
    """A disturbance that goes on beside the kills; what it raises is raised again at its end."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        """Wait for its end, and raise what it raised."""
        self.join()
        if self._error:
            raise self._error


class Holds:
    """Aligned audits, one after the other, each of which lets a target hold a table still for a moment."""

    def __init__(self, chaos: Chaos) -> None:
        self._chaos, self._random = chaos, random.Random(chaos.random.random())
        self._stopped = threading.Event()
        self._thread = Background("holds", self._run)
        self.matches: Counter[str] = Counter()
        """How many audits were aligned, by target; all of them matched."""
        self._others: Counter[str] = Counter()
        """Why the other ones did not conclude."""

    def start(self) -> None:
        """Begin with the audits."""
        self._thread.start()

    def stop(self) -> None:
        """End after the audit under way."""
        self._stopped.set()
        self._thread.join()

    def finish(self) -> None:
        """End once an audit of each target that can be held has concluded."""
        wanted = {target for target, _ in self._chaos.aligned_audits()}

        def has_all() -> bool:
            return not self._thread.is_alive() or self.matches.keys() >= wanted

        self._chaos.application.until(has_all, "an aligned audit of each target", every=1.0)
        self._stopped.set()
        self._thread.finish()
        print(f"aligned audits that matched: {dict(self.matches)}; others: {dict(self._others)}", flush=True)

    def _run(self) -> None:
        for number in itertools.count(1):
            audits = sorted(self._chaos.aligned_audits().items())
            (target, _), name = audits[number % len(audits)]
            kill_after = self._random.uniform(0.5, 6.0) if number % KILLED_EVERY == 0 else None
            self._audit(target, name, kill_after)
            if self._stopped.wait(BETWEEN_AUDITS):
                return

    def _audit(self, target: str, name: str, kill_after: float | None) -> None:
        command = Command(self._chaos.folder, "run", name, "--quiet", "--json")
        code = command.wait(kill_after)
        try:
            report = json.loads(command.output)
        except ValueError:
            self._others[f"exit code {code}"] += 1
            return
        report = report[0] if isinstance(report, list) else report
        if report.get("aligned") and report["state"] == "done" and report["verdict"] != "unknown":
            assert report["verdict"] == "match", report
            self.matches[target] += 1
        else:
            self._others[str(report.get("not_aligned") or report["reasons"])[:120]] += 1


class LateTarget:
    """One more target, added while the pipeline runs: filled by the parts that were kept, and by a refresh where all targets take one."""

    name = "late"

    def __init__(self, chaos: Chaos, when_filled: Callable[[str], None]) -> None:
        """``when_filled`` is called with its name as soon as it has all rows."""
        self._chaos, self._random, self._when_filled = chaos, random.Random(chaos.random.random()), when_filled
        self._thread = Background("late target", self._fill)

    def add(self) -> None:
        """Add it to the configuration, start the pipeline's process again, and fill it while other things go on."""
        folder = self._chaos.folder / self.name
        folder.mkdir()
        self._chaos.add_target(self.name, Target(f"duckdb:///{folder}/warehouse.duckdb"))
        self._thread.start()

    def wait_until_filled(self) -> None:
        """Wait until it has all rows."""
        self._chaos.application.until(lambda: not self._thread.is_alive(), "the rows of the late target")
        self._thread.finish()

    def _fill(self) -> None:
        self._refresh()
        counted = [table for table in self._chaos.writer.tables if table != UNCOUNTED]
        has_arrived = _try(lambda: self._chaos.arrival([self.name], counted))
        while not has_arrived():
            time.sleep(0.5)
        self._when_filled(self.name)

    def _refresh(self) -> None:
        """Send all rows by the command, which is killed at first, and run again until it succeeds."""
        for number in itertools.count():
            command = Command(self._chaos.folder, "pipeline", "refresh", PIPELINE, "--apply")
            self._chaos.refreshes += 1
            code = command.wait(self._random.uniform(0.5, 2.5) if number == 0 else None)
            if code == 0:
                print(f"refreshed by {number + 1} commands: {command.output.strip().splitlines()[-1]}", flush=True)
                return
            print(f"refresh: exit code {code}: {(command.errors or command.output).strip()[-300:]}", flush=True)
            time.sleep(1.0)


def _try(work: Callable[[], Callable[[], bool]]) -> Callable[[], bool]:
    """Return what work returns, which is tried again while the source is killed."""
    for began in _seconds():
        try:
            return work()
        except (AuditorError, pymysql.MySQLError):
            assert began < PATIENCE, "the source does not come again"
            time.sleep(0.5)
    raise AssertionError


def _seconds() -> Iterator[float]:
    began = time.monotonic()
    while True:
        yield time.monotonic() - began
