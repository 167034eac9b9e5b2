"""Faults at every hop of a pipeline, each at a random one of many batches: trace names the hop of each, or says why it cannot be told.

It runs with ``--chaos`` alone: ``make chaos``, or ``pytest --chaos tests/chaos/test_trace.py --chaos-events 20000`` for fewer batches.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest

from auditor.api_models.trace import Hop, Outcome
from auditor.service.trace import Asked, trace
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.test_trace import TABLE, LossyRoad, configure
from tests.servers import mysql

pytestmark = [pytest.mark.chaos, pytest.mark.alone, pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)]

EVENTS_OF_BATCH = 50
"""About how many changes a batch stands for: each has some rows, and is staged and merged by itself."""

FAULTS_EVERY = 20
"""Batches between two faults."""

KEYS_AT_ONCE = 50

Expected = tuple[Outcome, Hop | None]
LOG: Expected = ("lost", "log")
STAGING: Expected = ("lost", "staging")
MERGE: Expected = ("lost", "merge")


@pytest.fixture
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path) -> Iterator[LossyRoad]:
    made = LossyRoad(tmp_path, engine, TABLE)
    configure(made, f"orders: {{source: {{connection: source, table: {TABLE}}}, target: {{connection: warehouse, table: shop.{TABLE}}}}}")
    yield made
    made.close()


class Faults:
    """Changes of one row each, of which some go wrong at a hop. Each returns what is to be found of it."""

    def __init__(self, road: LossyRoad, cursor: pymysql.cursors.Cursor) -> None:
        self.road, self.cursor = road, cursor

    @property
    def all(self) -> dict[str, Callable[[int], Expected]]:
        """Every fault by its name, and changes without one."""
        return {name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")}

    def change(self, sql: str) -> None:
        self.cursor.execute(sql)

    def unlogged(self, sql: str) -> Expected:
        self.change("SET sql_log_bin = 0")
        self.change(sql)
        self.change("SET sql_log_bin = 1")
        return LOG

    def do_update_without_the_log(self, key: int) -> Expected:
        return self.unlogged(f"UPDATE {TABLE} SET item = 'unlogged' WHERE id = {key}")

    def do_delete_without_the_log(self, key: int) -> Expected:
        return self.unlogged(f"DELETE FROM {TABLE} WHERE id = {key}")

    def do_insert_without_the_log(self, key: int) -> Expected:
        self.change(f"DELETE FROM {TABLE} WHERE id = {key}")
        self.road.merge()
        return self.unlogged(f"INSERT INTO {TABLE} VALUES ({key}, 'unlogged', 1)")

    def do_update_lost_in_staging(self, key: int) -> Expected:
        self.road.lost = key
        self.change(f"UPDATE {TABLE} SET item = 'not staged' WHERE id = {key}")
        self.road.merge()
        self.road.lost = None
        return STAGING

    def do_insert_lost_in_staging(self, key: int) -> Expected:
        self.change(f"DELETE FROM {TABLE} WHERE id = {key}")
        self.road.merge()
        self.road.lost = key
        self.change(f"INSERT INTO {TABLE} VALUES ({key}, 'not staged', 1)")
        self.road.merge()
        self.road.lost = None
        return STAGING

    def do_update_not_applied(self, key: int) -> Expected:
        self.change(f"UPDATE {TABLE} SET item = 'new' WHERE id = {key}")
        self.road.merge()
        self.road.execute(f"UPDATE shop.{TABLE} SET item = 'item {key}' WHERE id = {key}")
        return MERGE

    def do_delete_not_applied(self, key: int) -> Expected:
        self.change(f"DELETE FROM {TABLE} WHERE id = {key}")
        self.road.merge()
        self.road.execute(f"INSERT INTO shop.{TABLE} VALUES ({key}, 'item {key}', 1)")
        return MERGE

    def do_row_lost_in_the_target(self, key: int) -> Expected:
        self.road.execute(f"DELETE FROM shop.{TABLE} WHERE id = {key}")
        return MERGE

    def do_row_changed_in_the_target(self, key: int) -> Expected:
        self.road.execute(f"UPDATE shop.{TABLE} SET price = 7 WHERE id = {key}")
        return MERGE

    def do_no_fault(self, key: int) -> Expected:
        self.change(f"UPDATE {TABLE} SET item = 'right' WHERE id = {key}")
        return "equal", None

    def do_moved(self, key: int) -> Expected:
        self.change(f"UPDATE {TABLE} SET id = -{key} WHERE id = {key}")
        return "equal", None


def test_the_hop_of_every_fault_is_named(road: LossyRoad, engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    batches = request.config.getoption("--chaos-events") // EVENTS_OF_BATCH
    choice, expected, names = random.Random(request.config.getoption("--chaos-seed")), dict[int, Expected](), dict[int, str]()
    LiveLog(engine.url).run(
        f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, item varchar(40), price decimal(8,2))"
    )
    with mysql.connect(engine.url) as connection, connection.cursor() as cursor:
        faults = Faults(road, cursor)
        every = list(faults.all)
        for batch in range(batches):
            key = 1_000_000 + batch
            rows = ", ".join(f"({one}, 'item {one}', {one % 90})" for one in choice.sample(range(2000), 3))
            cursor.execute(f"REPLACE INTO {TABLE} VALUES {rows}, ({key}, 'item {key}', 1)")
            road.merge()
            if batch % FAULTS_EVERY == 0:
                name = every[batch // FAULTS_EVERY % len(every)]
                victim = choice.choice([one for one in range(1_000_000, key + 1) if one not in expected])
                expected[victim], names[victim] = faults.all[name](victim), name
        road.merge()
    found: dict[int, Expected] = {}
    keys = list(expected)
    for first in range(0, len(keys), KEYS_AT_ONCE):
        for row in trace(road.settings, road.store, "orders", Asked([str(key) for key in keys[first : first + KEYS_AT_ONCE]])).rows:
            found[int(row.key["id"] or 0)] = row.outcome, row.hop
    wrong = Counter((names[key], found[key]) for key in keys if found[key] != expected[key])
    assert not wrong and len(found) == len(range(0, batches, FAULTS_EVERY))
