"""A table that is rebuilt at any position of a live server's log equals a copy of the source that was taken there."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from auditor.pipeline.events import Place
from auditor.pipeline.refresh.carrier import Carrier
from auditor.service.event_lines import open_lines
from auditor.service.rebuilds import rebuild
from auditor.store import refreshes
from auditor.store.refreshes import RefreshScope
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]

Row = tuple[Any, ...]


@pytest.fixture(params=engine_params("mysql", "mariadb"))
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


class NotedRoad(LiveRoad):
    notes = True


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path) -> Iterator[LiveRoad]:
    made = NotedRoad(tmp_path, engine, "rebuilt_*")
    yield made
    made.close()


@dataclass(frozen=True)
class Copy:
    """What the source held behind a transaction."""

    place: str
    table: str
    columns: tuple[str, ...]
    rows: list[Row]


@dataclass
class Writer:
    """The one writer of a table, who copies it after each transaction."""

    log: LiveLog
    draw: random.Random
    table: str = "rebuilt_a"
    columns: list[str] = field(default_factory=lambda: ["id", "item", "price", "at", "blob"])
    copies: list[Copy] = field(default_factory=list)
    added: int = 0
    moves: int = 0
    must_insert: bool = False
    """Whether the columns changed: only the next row tells the stream of them."""

    def make(self) -> None:
        self.log.run("DROP TABLE IF EXISTS rebuilt_a, rebuilt_b")
        self.run(
            f"CREATE TABLE {self.table} (id bigint unsigned, item varchar(40), price decimal(12,3), at datetime(6),"
            " `blob` varbinary(20), PRIMARY KEY (id))",
            *self.insert(),
        )

    def run(self, *statements: str) -> None:
        """Run one transaction, or a statement that is one, and copy the table."""
        self.log.run("BEGIN", *statements, "COMMIT")
        names = [
            str(row[0]) for row in self.log.run(
                f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{self.log.database}'"
                f" AND table_name = '{self.table}' ORDER BY ordinal_position"
            )
        ]  # fmt: skip
        rows = self.log.run(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM {self.table}")
        self.copies.append(Copy(str(self.log.end()), self.table, tuple(names), sorted(map(plain, rows))))

    def value(self, column: str) -> str:
        draw = self.draw
        if draw.random() < 0.1 and not column.startswith("more"):
            return "NULL"
        kind = column.rstrip("0123456789")
        return {
            "item": lambda: f"'{draw.choice(['pen', 'ink', 'Füller 🖋', '', 'a b'])}'",
            "price": lambda: f"{draw.randint(-(10**6), 10**6) / 1000}",
            "at": lambda: f"'2026-0{draw.randint(1, 9)}-11 10:11:12.{draw.randint(0, 999_999):06}'",
            "blob": lambda: f"x'{draw.randbytes(draw.randint(0, 5)).hex()}'",
            "more": lambda: str(draw.randint(-(2**31), 2**31 - 1)),
        }[kind]()

    def insert(self) -> list[str]:
        keys = self.draw.sample(range(1, 60), self.draw.randint(1, 6))
        names = ", ".join(f"`{name}`" for name in self.columns)
        rows = ", ".join(f"({', '.join([str(key), *map(self.value, self.columns[1:])])})" for key in keys)
        return [f"REPLACE INTO {self.table} ({names}) VALUES {rows}"]

    def update(self) -> list[str]:
        column = self.draw.choice(self.columns[1:])
        return [f"UPDATE {self.table} SET `{column}` = {self.value(column)} WHERE id % {self.draw.randint(1, 4)} = 0"]

    def move_keys(self) -> list[str]:
        self.moves += 1
        return [f"UPDATE {self.table} SET id = id + {1000 * self.moves} WHERE id < 1000 AND id % 3 = {self.draw.randint(0, 2)}"]

    def delete(self) -> list[str]:
        return [f"DELETE FROM {self.table} WHERE id % {self.draw.randint(3, 6)} = 1"]

    def several(self) -> list[str]:
        return [*self.insert(), *self.update(), *self.delete(), *self.insert()]

    def truncate(self) -> list[str]:
        return [f"TRUNCATE TABLE {self.table}"]

    def add_column(self) -> list[str]:
        self.added += 1
        name = f"more{self.added}"
        place = self.draw.choice(["", f" AFTER `{self.columns[-1]}`"])
        self.columns.append(name)
        self.must_insert = True
        return [f"ALTER TABLE {self.table} ADD COLUMN `{name}` int{self.draw.choice(['', ' NOT NULL DEFAULT 7'])}{place}"]

    def drop_column(self) -> list[str]:
        if len(self.columns) < 4:
            return self.insert()
        name = self.columns.pop(self.draw.randint(1, len(self.columns) - 1))
        self.must_insert = True
        return [f"ALTER TABLE {self.table} DROP COLUMN `{name}`"]

    def rename_column(self) -> list[str]:
        place = self.draw.randint(1, len(self.columns) - 1)
        old = self.columns[place]
        self.added += 1
        self.columns[place] = new = f"{old.rstrip('0123456789')}{self.added}"
        self.must_insert = True
        return [f"ALTER TABLE {self.table} RENAME COLUMN `{old}` TO `{new}`"]

    def rename_table(self) -> list[str]:
        old, self.table = self.table, "rebuilt_b" if self.table == "rebuilt_a" else "rebuilt_a"
        return [f"RENAME TABLE {old} TO {self.table}"]

    def go_on(self) -> None:
        """Do something by chance."""
        often: list[Callable[[], list[str]]] = [self.insert, self.update, self.move_keys, self.delete, self.several]
        rare: list[Callable[[], list[str]]] = [self.truncate, self.add_column, self.drop_column, self.rename_column, self.rename_table]
        if self.must_insert:
            self.must_insert = False
            key = self.draw.randint(10**7, 10**8)
            self.run(f"REPLACE INTO {self.table} (id) VALUES ({key})")
        else:
            self.run(*self.draw.choice([*often * 4, *rare])())


def plain(row: Sequence[Any]) -> Row:
    """A row whose values sort: an unsigned integer is a decimal in a lake."""
    return tuple(
        ("", "") if value is None else ("Decimal", value) if isinstance(value, int) else (type(value).__name__, value) for value in row
    )


def read(path: Path) -> tuple[tuple[str, ...], list[Row]]:
    found = pq.read_table(path)
    columns = [found[name].to_pylist() for name in found.column_names]
    return tuple(found.column_names), sorted(plain(row) for row in zip(*columns, strict=True))


def check(road: LiveRoad, copy: Copy, folder: Path, at: str = "") -> None:
    """Hold a rebuilt table against a copy."""
    path = folder / f"{len(list(folder.glob('*.parquet')))}.parquet"
    done = rebuild(road.settings, road.config_file, road.store, PIPELINE, f"{road.database}.{copy.table}", at or copy.place, output=path)
    names, rows = read(path)
    assert set(names) == set(copy.columns), (copy.place, names, copy.columns)
    places = [names.index(name) for name in copy.columns]
    assert sorted(tuple(row[place] for place in places) for row in rows) == copy.rows, copy.place
    assert (done.rows, done.place, done.warnings) == (len(copy.rows), copy.place, [])


def send_all(road: LiveRoad, table: str) -> None:
    """Send all rows of a table again."""
    asked = refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.{table}", RefreshScope(), "ops")
    Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()
    assert refreshes.get_refresh(road.store, asked.refresh).state == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "positions"), [(1, 10), *(pytest.param(seed, 100, marks=pytest.mark.slow) for seed in (2, 3))], ids=["1", "2", "3"]
)
def test_random_positions_equal_copies_of_the_source(road: LiveRoad, engine: LiveEngine, tmp_path: Path, seed: int, positions: int) -> None:
    draw = random.Random(seed)
    writer = Writer(LiveLog(engine.url), draw)
    writer.make()
    for number in range(max(40, positions * 2)):
        writer.go_on()
        if number % 15 == 14 and not writer.must_insert:
            road.stage()
            send_all(road, writer.table)
            writer.run(*writer.insert())
        if draw.random() < 0.2:
            road.stage()
    writer.run(*writer.insert())
    road.stage()
    for copy in [writer.copies[0], *draw.sample(writer.copies[1:-1], positions - 2), writer.copies[-1]]:
        check(road, copy, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
def test_times_between_transactions_equal_copies_of_the_source(road: LiveRoad, engine: LiveEngine, tmp_path: Path) -> None:
    """MariaDB logs only the second in which a statement began."""
    writer, times = Writer(LiveLog(engine.url), random.Random(4)), list[str]()
    writer.make()
    for _ in range(20):
        times.append(str(writer.log.run("SELECT UTC_TIMESTAMP(6)")[0][0]))
        writer.go_on()
    writer.run(*writer.insert())
    road.stage()
    for copy, moment in zip(writer.copies, times, strict=False):
        path = tmp_path / f"{moment}.parquet"
        done = rebuild(road.settings, road.config_file, road.store, PIPELINE, f"{road.database}.{copy.table}", moment, output=path)
        names, rows = read(path)
        assert set(names) == set(copy.columns)
        assert (done.rows, sorted(tuple(row[names.index(name)] for name in copy.columns) for row in rows)) == (len(copy.rows), copy.rows)


RULES = """{rebuilt_a: {exclude: [price], mask: [item], rename: {at: moment}, where: "id < 30 OR id > 40",
  compute: {tens: {expr: "id * 10", kind: integer}}}}"""


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", slow=["mariadb"]), indirect=True)
def test_rows_and_columns_are_those_of_the_stream(engine: LiveEngine, tmp_path: Path) -> None:
    """What is excluded, masked, renamed, filtered and computed is as a target has it that is merged to the same position."""
    road = NotedRoad(tmp_path, engine, "rebuilt_*", RULES)
    writer, copies = Writer(LiveLog(engine.url), random.Random(5)), list[tuple[str, list[Row]]]()
    writer.make()
    for _ in range(12):
        writer.run(*writer.draw.choice([writer.insert, writer.update, writer.move_keys, writer.delete, writer.several])())
        road.merge()
        copies.append((str(writer.log.end()), sorted(map(plain, road.rows("rebuilt_a")))))
    for place, held in copies:
        path = tmp_path / f"{place}.parquet"
        rebuild(road.settings, road.config_file, road.store, PIPELINE, "rebuilt_a", place, output=path)
        names, rows = read(path)
        assert rows == held and names == ("id", "item", "moment", "blob", "tens"), place
    road.close()


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_the_table_is_the_sum_of_its_events(road: LiveRoad, engine: LiveEngine, tmp_path: Path) -> None:
    """Lines of events, applied one after the other, yield what the source held, and what is rebuilt, at each place between."""
    writer = Writer(LiveLog(engine.url), random.Random(6))
    writer.make()
    for number in range(25):
        often = [writer.insert, writer.update, writer.move_keys, writer.delete, writer.several, writer.truncate]
        writer.run(*writer.draw.choice(often)())
        if number == 12:
            writer.run(*writer.insert())
            road.stage()
            send_all(road, writer.table)
    road.stage()
    opened = open_lines(road.settings, road.store, PIPELINE, writer.table, "earliest")
    lines = [json.loads(line) for piece in opened.read() for line in piece]
    assert {"c", "u", "d", "r", "t"} == {one["value"]["op"] for one in lines}
    assert {one["value"]["source"]["connector"] for one in lines} == {engine.name}
    held, left = dict[int, Any](), list(lines)
    for copy in writer.copies:
        offset = Place.parse(copy.place).offset
        while left and left[0]["value"]["source"]["pos"] <= offset:
            value, key = left[0]["value"], left.pop(0)["key"]
            if value["op"] == "t":
                held.clear()
            elif value["op"] == "d":
                held.pop(key["id"], None)
            else:
                held[key["id"]] = value["after"]
        wanted = {row[0][1]: row[1][1] if row[1][0] else None for row in copy.rows}
        assert {key: row["item"] for key, row in held.items()} == wanted, copy.place
    assert not left
    check(road, writer.copies[-1], tmp_path)
