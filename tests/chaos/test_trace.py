"""Faults at every hop of a pipeline, each at a random one of many batches: trace names the hop, and bisect who it was, and the batch.

Or they say why it cannot be told: no wrong name. It runs with ``--chaos`` alone: ``make chaos``, or
``pytest --chaos tests/chaos/test_trace.py --chaos-batches 400`` for fewer batches.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pymysql
import pytest

from auditor.api_models.bisection import Parting
from auditor.api_models.trace import Hop, Outcome
from auditor.model import Part, Verdict
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.merge import loader
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.merge_together import Outlook, look
from auditor.pipeline.merge.positions import Held, StreamReader
from auditor.pipeline.staged_parts import read_part
from auditor.service import bisection, running
from auditor.service.trace import Asked, trace
from auditor.sql.merge import MergeStatements
from auditor.store import parts, pipelines
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.pipeline.test_trace import LossyRoad
from tests.servers import mysql

pytestmark = [pytest.mark.chaos, pytest.mark.alone, pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)]

TABLE = "traced"

FAULTS_EVERY = 25
"""Batches for each fault, of which the moments are drawn."""

RUNS_EVERY = 100
"""Batches for each run of the audit, likewise; every tenth run scans the source again."""

RESCANS_EVERY = 10

SIZE = 16
"""Keys of a partition. Each fault has one of its own, in which other rows change, too."""

ROWS_OF_BATCH = 3

KEYS_AT_ONCE = 50

Found: TypeAlias = tuple[Outcome, Hop | None]
LOG: Found = ("lost", "log")
STAGING: Found = ("lost", "staging")
MERGE: Found = ("lost", "merge")
EQUAL: Found = ("equal", None)


@dataclass(frozen=True)
class Truth:
    """What is to be found of a row."""

    hop: Found
    """What trace says at the end."""
    cause: str = ""
    """What bisect says; '' for nothing, as nothing went wrong."""
    after: tuple[str, int] = ("", 0)
    """Where the log ended before it happened."""
    through: tuple[str, int] = ("", 0)
    """Where it ended when it had happened: where the merge ends, of one that did it."""


class BookedRoad(LossyRoad, AlignedRoad):
    """A pipeline that can lose events, whose audit keeps a ledger, and whose transactions are merged one by one."""

    cursor: pymysql.cursors.Cursor

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.ends: list[int] = []
        """The positions at which staged transactions end."""

    def written(self, found: Sequence[Part]) -> None:
        for part in found:
            for events in read_part(LocalFolder(self.root), part, 0):
                self.ends += sorted({*events["position"].to_pylist()})

    def look(self, where: StreamReader, tables: Mapping[str, Held], after: int, *more: Any) -> Outlook:
        """What is before the target's tables, of which the first transaction is merged."""
        outlook = look(where, tables, after, *more)
        place = bisect_right(self.ends, after)
        return replace(outlook, through=min(outlook.through, *self.ends[place : place + 1]))

    def change(self, *statements: str) -> None:
        """Change the source."""
        for statement in statements:
            self.cursor.execute(statement)

    def batch(self, *statements: str) -> None:
        """Change the source, and merge what that changed."""
        self.change(*statements)
        self.merge()

    def edit(self, statement: str) -> None:
        """Change the target as somebody else does."""
        self.execute(statement.replace(TABLE, f"{self.schema}.{TABLE}"))

    def check(self, *, rescan: bool = False) -> Verdict:
        """Run the audit."""
        with self.delivering():
            report = running.run_audit(self.settings, AUDIT, store=self.store, overrides={"rescan": True} if rescan else {})
        self.begin_again()
        return report.verdict

    def begin_again(self) -> None:
        """Let another loader merge."""
        self.loader.close()
        self.loader = Loader(self.loader.where, "wh", self.settings.connections["warehouse"])

    def place(self) -> tuple[str, int]:
        """Where the log ends."""
        return placed(str(self.log.end()))


def placed(place: str) -> tuple[str, int]:
    """A place of the log, which can be compared with others."""
    file, _, offset = place.rpartition(":")
    return file, int(offset)


@pytest.fixture
def road(engine: LiveEngine, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BookedRoad]:
    more = f"summaries: live, ledger: true, partition: {{size: {SIZE}}}"
    made = BookedRoad(tmp_path, engine, TABLE, engines.live("postgres").url, f"chaos_{engine.name}", more)
    monkeypatch.setattr(loader, "look", made.look)
    with mysql.connect(engine.url) as connection, connection.cursor() as made.cursor:
        yield made
    made.close()


@pytest.fixture
def engine(request: pytest.FixtureRequest, engines: Engines) -> LiveEngine:
    return engines.live(request.param)


@contextmanager
def in_merges(name: str, more: Callable[[MergeStatements], str]) -> Iterator[None]:
    """Let merges run a statement that they should not."""
    with pytest.MonkeyPatch.context() as patched:
        right = getattr(MergeStatements, name)
        patched.setattr(MergeStatements, name, lambda self, *given: [*right(self, *given), more(self)])
        yield


@dataclass
class Faults:
    """Changes of one row each, of which some go wrong at a hop. Each returns what is to be found of it."""

    road: BookedRoad
    drawn: random.Random
    count: int
    """How many there are to be: each has a partition, in whose middle its row is."""

    @property
    def all(self) -> dict[str, Callable[[int], Truth]]:
        """Every fault by its name, and changes without one."""
        return {name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")}

    def fill(self) -> None:
        """Make the table: two rows in each partition, and a place between them."""
        keys = [SIZE * number + place for number in range(self.count) for place in (2, 5, 9)]
        rows = [f"({key}, 'item {key}', 1)" for key in keys]
        columns = "id int PRIMARY KEY, item varchar(40), price decimal(8,2)"
        self.road.change(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} ({columns})")
        for first in range(0, len(rows), 500):
            self.road.change(f"INSERT INTO {TABLE} VALUES {', '.join(rows[first : first + 500])}")
        self.road.merge()

    def go_right(self, batches: int) -> None:
        """Merge so many batches that do as they should, to rows beside those of the faults."""
        for first in range(0, batches, 100):
            for number in range(first, min(batches, first + 100)):
                keys = [str(SIZE * one + self.drawn.choice((2, 9))) for one in self.drawn.sample(range(self.count), ROWS_OF_BATCH)]
                self.road.change(f"UPDATE {TABLE} SET price = price + 1, item = 'right {number}' WHERE id IN ({', '.join(keys)})")
            self.road.merge()

    def _around(self, work: Callable[[], None], hop: Found, cause: str) -> Truth:
        after = self.road.place()
        work()
        return Truth(hop, cause, after, self.road.place())

    def unlogged(self, sql: str) -> Truth:
        """Change the source without its log, and then something else, so that it lies between two places of the log."""
        return self._around(lambda: self._unlogged(sql), LOG, "log")

    def _unlogged(self, sql: str) -> None:
        self.road.change("SET sql_log_bin = 0", sql, "SET sql_log_bin = 1")
        self.go_right(1)

    def do_update_without_the_log(self, key: int) -> Truth:
        return self.unlogged(f"UPDATE {TABLE} SET item = 'unlogged' WHERE id = {key}")

    def do_delete_without_the_log(self, key: int) -> Truth:
        return self.unlogged(f"DELETE FROM {TABLE} WHERE id = {key}")

    def do_insert_without_the_log(self, key: int) -> Truth:
        self.road.batch(f"DELETE FROM {TABLE} WHERE id = {key}")
        return self.unlogged(f"INSERT INTO {TABLE} VALUES ({key}, 'unlogged', 1)")

    def do_update_without_the_log_before_one_with_it(self, key: int) -> Truth:
        truth = self.do_update_without_the_log(key)
        self.go_right(self.drawn.randrange(3))
        self.road.batch(f"UPDATE {TABLE} SET item = 'logged' WHERE id = {key}")
        return Truth(EQUAL, "log", truth.after, truth.through)

    def do_update_lost_before_it_is_staged(self, key: int) -> Truth:
        self.road.lost = key
        truth = self._around(lambda: self.road.batch(f"UPDATE {TABLE} SET item = 'not staged' WHERE id = {key}"), STAGING, "log")
        self.road.lost = None
        return truth

    def do_insert_lost_before_it_is_staged(self, key: int) -> Truth:
        self.road.batch(f"DELETE FROM {TABLE} WHERE id = {key}")
        self.road.lost = key
        truth = self._around(lambda: self.road.batch(f"INSERT INTO {TABLE} VALUES ({key}, 'not staged', 1)"), STAGING, "log")
        self.road.lost = None
        return truth

    def do_damage_a_staged_file(self, key: int) -> Truth:
        """It is staged again from the log."""
        file = self._staged(key)
        file.write_bytes(b"x" + file.read_bytes()[1:-1])
        self.road.merge()
        return Truth(EQUAL)

    def do_drop_a_staged_file(self, key: int) -> Truth:
        """No merge goes on without it; it comes back."""
        file = self._staged(key)
        content = file.read_bytes()
        file.unlink()
        self.road.loader.merge_all()
        [report] = pipelines.list_merges(self.road.store, self.road.name)["wh"].values()
        assert "is missing; check that this process reaches the staging's folder" in report.reason
        file.write_bytes(content)
        self.road.begin_again()
        self.road.merge()
        return Truth(EQUAL)

    def _staged(self, key: int) -> Path:
        """Stage a change, and return its file."""
        self.road.change(f"UPDATE {TABLE} SET item = 'staged twice' WHERE id = {key}")
        self.road.stage()
        of_table = parts.list_parts(self.road.store, self.road.name, f"{self.road.database}.{TABLE}", 0)
        return self.road.root / max(of_table, key=lambda part: part.last).path

    def _in_merge(self, name: str, damage: Callable[[MergeStatements], str], statement: str) -> Truth:
        with in_merges(name, damage):
            return self._around(lambda: self.road.batch(statement), MERGE, "merge")

    def do_update_not_merged(self, key: int) -> Truth:
        sql = f"UPDATE {TABLE} SET item = 'not merged' WHERE id IN ({key}, {key + 4})"
        return self._in_merge("prepare", lambda one: f"DELETE FROM {one.last} WHERE id = {key}", sql)

    def do_insert_not_merged(self, key: int) -> Truth:
        self.road.batch(f"DELETE FROM {TABLE} WHERE id = {key}")
        sql = f"INSERT INTO {TABLE} VALUES ({key}, 'not merged', 1), ({key + 1}, 'merged', 1)"
        return self._in_merge("prepare", lambda one: f"DELETE FROM {one.last} WHERE id = {key}", sql)

    def do_delete_not_merged(self, key: int) -> Truth:
        sql = f"DELETE FROM {TABLE} WHERE id IN ({key}, {key - 3})"
        return self._in_merge("prepare", lambda one: f"DELETE FROM {one.last} WHERE id = {key}", sql)

    def do_merge_of_another_value(self, key: int) -> Truth:
        sql = f"UPDATE {TABLE} SET item = 'right value' WHERE id IN ({key}, {key + 4})"
        return self._in_merge("change", lambda one: f"UPDATE {one.target} SET item = 'wrong value' WHERE id = {key}", sql)

    def _by_others(self, statement: str) -> Truth:
        def edit() -> None:
            self.road.edit(statement)
            self.go_right(1)

        return self._around(edit, MERGE, "target")

    def do_row_changed_in_the_target(self, key: int) -> Truth:
        return self._by_others(f"UPDATE {TABLE} SET price = 777 WHERE id = {key}")

    def do_row_lost_in_the_target(self, key: int) -> Truth:
        return self._by_others(f"DELETE FROM {TABLE} WHERE id = {key}")

    def do_row_made_in_the_target(self, key: int) -> Truth:
        self.road.batch(f"DELETE FROM {TABLE} WHERE id = {key}")
        return self._by_others(f"INSERT INTO {TABLE} VALUES ({key}, 'made by others', 1)")

    def do_row_changed_in_the_target_and_put_right(self, key: int) -> Truth:
        truth = self.do_row_changed_in_the_target(key)
        self.go_right(self.drawn.randrange(3))
        self.road.batch(f"UPDATE {TABLE} SET item = 'put right' WHERE id = {key}")
        return Truth(EQUAL, "target", truth.after, truth.through)

    def do_no_fault(self, key: int) -> Truth:
        self.road.batch(f"UPDATE {TABLE} SET item = 'right' WHERE id = {key}")
        return Truth(EQUAL)

    def do_move(self, key: int) -> Truth:
        self.road.batch(f"UPDATE {TABLE} SET id = -{key} WHERE id = {key}")
        return Truth(EQUAL)


def test_the_hop_and_the_batch_of_every_fault_are_named(
    road: BookedRoad, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = request.config.getoption("--chaos-batches")
    drawn = random.Random(request.config.getoption("--chaos-seed"))
    faults = Faults(road, drawn, max(ROWS_OF_BATCH, batches // FAULTS_EVERY))
    faults.fill()
    assert road.check() is Verdict.MATCH
    every, truths, names = list(faults.all), dict[int, Truth](), dict[int, str]()
    moments = sorted(drawn.sample(range(batches), faults.count))
    runs = drawn.sample(range(batches), batches // RUNS_EVERY)
    rescans = {*runs[::RESCANS_EVERY]}
    done = 0
    for moment, number in sorted([*((moment, number) for number, moment in enumerate(moments)), *((moment, -1) for moment in runs)]):
        faults.go_right(moment - done)
        done = max(done, moment)
        if number < 0:
            road.check(rescan=moment in rescans)
            continue
        key = SIZE * number + 5
        name = every[number % len(every)]
        truths[key], names[key] = faults.all[name](key), name
    faults.go_right(batches - done)
    road.check()
    road.check(rescan=True)
    monkeypatch.setattr(bisection, "MOST_LISTED", batches)
    found = bisection.bisect(road.settings, road.store, AUDIT)
    assert found.partings and found.batches >= batches, found.why
    hops: dict[int, tuple[str, str | None]] = {}
    keys = list(truths)
    for first in range(0, len(keys), KEYS_AT_ONCE):
        for row in trace(road.settings, road.store, AUDIT, Asked([str(key) for key in keys[first : first + KEYS_AT_ONCE]])).rows:
            hops[int(row.key["id"] or 0)] = row.outcome, row.hop
    told, wrong = compare(truths, names, hops, found.partings)
    print(f"\n{found.batches:,} batches, {len(truths)} faults and changes without one, {len(runs) + 3} runs:")
    for (name, what), count in sorted(told.items()):
        print(f"  {name.replace('_', ' ')}: {what}: {count}")
    assert not wrong, "\n".join(wrong)


def compare(
    truths: Mapping[int, Truth], names: Mapping[int, str], hops: Mapping[int, tuple[str, str | None]], partings: list[Parting]
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return what was told of faults, by name, and what of it is wrong."""
    told, wrong, of_key = Counter[tuple[str, str]](), list[str](), defaultdict[int, list[Parting]](list)
    for parting in partings:
        [first, *_] = parting.partition.removeprefix("keys ").split(" to ")
        of_key[int(first.replace(",", "")) + 5].append(parting)
    for key in of_key.keys() - truths.keys():
        wrong += [f"in keys of which none was damaged: {one.sentence}" for one in of_key[key] if one.cause != "unknown"]
    for key, truth in truths.items():
        told[names[key], f"trace says {' '.join(filter(None, hops[key]))}"] += 1
        if hops[key] != truth.hop and hops[key][0] != "unknown":
            wrong.append(f"{names[key]} of {key}: trace says {hops[key]}")
        if not of_key[key]:
            told[names[key], "bisect says nothing"] += 1
            if truth.cause:
                wrong.append(f"{names[key]} of {key}: bisect says nothing of it")
        for one in of_key[key]:
            what = f"{one.cause} and the batch" if one.cause == "merge" else one.cause
            told[names[key], f"bisect says {what}{f', because {one.why}' * bool(one.why)}"] += 1
            if one.cause != "unknown" and not (one.cause == truth.cause and _holds(one, truth)):
                wrong.append(f"{names[key]} of {key}, between {truth.after} and {truth.through}: {one.model_dump_json()}")
    return told, wrong


def _holds(one: Parting, truth: Truth) -> bool:
    """Whether what is said of the moment is true: the very batch, of a merge, and else an interval in which it happened."""
    if one.cause == "merge":
        assert one.batch
        return (one.batch.first, placed(one.batch.through)) == (one.batch.last, truth.through)
    return placed(one.after) <= truth.through and truth.after <= placed(one.through)
