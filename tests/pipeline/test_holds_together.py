"""Audits that hold several tables of a target at once are answered by one transaction, and the other tables continue meanwhile."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from auditor.errors import AuditorError
from auditor.model import Report, Verdict
from auditor.pipeline.aligned.stream_hold import StreamHold
from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge import loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.merge.table_holds import merge_wanted
from auditor.points import armed
from auditor.service import running
from auditor.store import holds, parts
from dialects import Session
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.aligned_road import AlignedRoad
from tests.pipeline.conftest import quick_on_target
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, Road, leased
from tests.pipeline_events import announce, batch, insert, table

TABLES = [table(f"held_{number}", ("id",), id="bigint", item="varchar(40) null") for number in range(10)]
FREE = table("free", ("id",), id="bigint")
FILE = "binlog.000000"


def name_of(schema: TableSchema) -> str:
    return f"shop.{schema.table}"


def hold_of(road: Road, name: str) -> StreamHold:
    return StreamHold(road.settings, road.store, PIPELINE, "wh", name, road.settings.pipeline(PIPELINE).table_targets["wh"].place_of(name))


def begin(road: Road, tables: Sequence[TableSchema]) -> None:
    road.stage(*(batch(announce(one, 1), insert(one, 10, ["10", *[None] * (len(one.columns) - 1)])) for one in tables))


def stage(road: Road, tables: Sequence[TableSchema], *positions: int) -> None:
    """Stage a row of each table at each position, and what the stream reads up to 1000."""
    road.stage(*(batch(*(insert(one, at, [str(at), *[None] * (len(one.columns) - 1)]) for at in positions)) for one in tables))
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": 1000})


def take(road: Road, tables: Sequence[TableSchema]) -> dict[str, StreamHold]:
    """Let an audit of each table ask that it stands still."""
    found = {one.table: hold_of(road, name_of(one)) for one in tables}
    assert all(holds.take_hold(road.store, one.key, 60) for one in found.values())
    return found


def want(road: Road, held: Mapping[str, StreamHold], positions: Mapping[str, int]) -> None:
    assert all(holds.set_state(road.store, held[name].key, "wanted", position=at) for name, at in positions.items())


@contextmanager
def merges(of: list[int]) -> Iterator[None]:
    """Count the transactions that merge events in the block, as an element for each."""
    with armed("merge.committed", lambda: of.append(1)):
        yield


def positions_in(road: Road) -> dict[str, int]:
    """Where the target itself says that it holds each table."""
    found = road.query(f"SELECT table_name, position FROM {road.dialect.names.table(road.schema, 'auditor_positions')}")
    return {str(name).removeprefix("shop."): int(position) for name, position in found if name}


@quick_on_target("postgres")
def test_tables_held_together_are_brought_to_their_positions_by_one_transaction(road: Road) -> None:
    begin(road, [*TABLES, FREE])
    loads = road.loader()
    loads.merge_all()
    held = take(road, TABLES)
    loads.serve_holds()
    assert all(one.has("frozen") for one in held.values())
    stage(road, [*TABLES[:8], FREE], 20, 30)
    wanted = {one.table: 20 + number for number, one in enumerate(TABLES)}
    want(road, held, wanted)
    with merges(together := list[int]()):
        loads.serve_holds()
    assert len(together) == 1 and all(one.has("held") for one in held.values())
    assert positions_in(road) == {**wanted, "free": 10}
    assert [len(road.rows(one.table)) for one in TABLES] == [2] * 8 + [1, 1]
    loads.merge_all()
    assert positions_in(road) == ({**wanted, "free": 10} if road.dialect.OPENS_FILES else {**wanted, "free": 30})
    for one in held.values():
        one.release()
    loads.serve_holds()
    with merges(caught_up := list[int]()):
        assert loads.merge_all() == 8 + 2 * road.dialect.OPENS_FILES
    assert len(caught_up) == 1, "all that were held catch up by one transaction"
    assert [len(road.rows(one.table)) for one in TABLES] == [3] * 8 + [1, 1] and len(road.rows("free")) == 3


@quick_on_target("postgres")
def test_hold_that_cannot_be_leaves_the_others_theirs(road: Road) -> None:
    begin(road, TABLES[:4])
    loads = road.loader()
    loads.merge_all()
    held = take(road, TABLES[:4])
    loads.serve_holds()
    stage(road, TABLES[:3], 20)
    changed = table("held_3", ("id",), id="bigint", item="varchar(90) null")
    road.stage(batch(announce(changed, 24), insert(changed, 25, ["25", "x"])))
    want(road, held, {"held_0": 5, "held_1": 20, "held_2": 500, "held_3": 25})
    loads.serve_holds()
    states = {one.table: one.state for one in holds.list_holds(road.store, PIPELINE, "wh").values()}
    assert states == {"shop.held_0": "failed", "shop.held_1": "held", "shop.held_2": "held", "shop.held_3": "held"}
    assert positions_in(road) == {"held_0": 10, "held_1": 20, "held_2": 500, "held_3": 25}


@pytest.mark.parametrize("consistency", ["target", "table"])
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_table_that_is_asked_for_is_held_while_the_others_go_on(road: Road, consistency: Literal["target", "table"]) -> None:
    begin(road, TABLES[:2])
    loads = road.loader(max_transaction=1, consistency=consistency)
    loads.merge_all()
    for position in range(20, 30):
        stage(road, TABLES[:2], position)
    asked = list[StreamHold]()
    with armed("merge.committed", lambda: asked.extend(take(road, TABLES[1:2]).values()), nth=3):
        loads.merge_all()
    assert asked[0].has("frozen") and len(road.rows("held_0")) == 11
    assert len(road.rows("held_1")) < 11
    want(road, {"held_1": asked[0]}, {"held_1": 500})
    loads.serve_holds()
    assert asked[0].has("held") and len(road.rows("held_1")) == 11


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_row_that_the_target_refuses_fails_the_hold_of_its_table_alone(road: Road) -> None:
    begin(road, TABLES[:3])
    loads = road.loader()
    loads.merge_all()
    road.execute(f"ALTER TABLE {road.schema}.held_1 ADD CHECK (id <> 20)")
    held = take(road, TABLES[:3])
    loads.serve_holds()
    stage(road, TABLES[:3], 20)
    want(road, held, dict.fromkeys(held, 20))
    loads.serve_holds()
    found = holds.list_holds(road.store, PIPELINE, "wh")
    assert [found[name_of(one)].state for one in TABLES[:3]] == ["held", "failed", "held"]
    assert "violates check constraint" in found["shop.held_1"].reason and "20)" not in found["shop.held_1"].reason


def run_all(work: Sequence[Callable[[], None]]) -> None:
    """Run functions in threads that begin at once."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(work))

    def guarded(one: Callable[[], None]) -> None:
        try:
            barrier.wait()
            one()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.clock  # a hold has a time limit
@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_ten_audits_at_once_are_answered_by_a_running_loader(road: Road) -> None:
    begin(road, [*TABLES, FREE])
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    held = {one.table: hold_of(road, name_of(one)) for one in TABLES}
    with leased(road.store), road.loader().service(0.0, stopped, staged, paused):
        while len(positions_of_all(road)) < len(TABLES) + 1:
            staged.set()
        run_all([one.freeze for one in held.values()])
        stage(road, [*TABLES, FREE], 20, 30)
        run_all([lambda hold=hold, at=20 + number: hold.merge_through(f"{FILE}:{at}") for number, hold in enumerate(held.values())])  # type: ignore[misc]
        found = positions_in(road)
        assert [found[one.table] for one in TABLES] == [20 + number for number in range(len(TABLES))]
        run_all([one.release for one in held.values()])
        while {len(road.rows(one.table)) for one in [*TABLES, FREE]} != {3}:
            staged.set()


def positions_of_all(road: Road) -> dict[str, int]:
    """Where the target says that it holds each table; nothing before it has said so of any."""
    there = road.query(f"SELECT 1 FROM information_schema.tables WHERE table_schema = '{road.schema}' AND table_name = 'auditor_positions'")
    return positions_in(road) if there else {}


class AlignedTables(AlignedRoad):
    """A pipeline of several tables, and an audit of each that is to be aligned."""

    def __init__(self, folder: Path, source: LiveEngine, names: Sequence[str], into: str, schema: str) -> None:
        sides = "source: {{connection: source, table: {0}}}, target: {{connection: warehouse, table: {1}.{0}}}"
        audits = ", ".join(f"{name}: {{{sides.format(name, schema)}, align: pipeline}}" for name in names)
        LiveRoad.__init__(self, folder, source, "together_*", into=into, schema=schema, audits=f"{{{audits}}}")
        self.schema, self.log = schema, LiveLog(source.url)
        for name in names:
            values = ", ".join(f"({number}, 'item')" for number in range(100))
            create = f"CREATE TABLE {name} (id int PRIMARY KEY, item varchar(60))"
            self.log.run(f"DROP TABLE IF EXISTS {name}", create, f"INSERT INTO {name} VALUES {values}")
        self.merge()


@pytest.mark.clock  # the loader and the runs are threads of one process, and a hold has a time limit
@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.mariadb
@pytest.mark.postgres
def test_ten_aligned_audits_at_once_stop_the_loader_for_few_transactions(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"together_{number}" for number in range(10)]
    road = AlignedTables(tmp_path, engines.live("mariadb"), names, engines.live("postgres").url, "aligned_together")
    answered, reports = list[int](), dict[str, Report]()

    def counted(session: Session, where: Where, positions: Mapping[str, int], *rest: Any) -> dict[str, AuditorError]:
        answered.append(len(positions))
        return merge_wanted(session, where, positions, *rest)

    def write() -> None:
        for number in itertools.count(1000):
            if written.wait(0.02):
                return
            road.log.run(*(f"INSERT INTO {name} VALUES ({number}, 'more')" for name in names))

    def audit(name: str) -> None:
        reports[name] = running.run_audit(road.settings, name, store=road.store)

    monkeypatch.setattr(loader, "merge_wanted", counted)
    written, writer = threading.Event(), threading.Thread(target=write)
    try:
        with road.delivering():
            writer.start()
            with merges(merged := list[int]()):
                run_all([partial(audit, name) for name in names])
            written.set()
            writer.join()
    finally:
        written.set()
        road.close()
    assert {(report.verdict, report.not_aligned) for report in reports.values()} == {(Verdict.MATCH, "")}
    held = max(report.aligned.held_seconds for report in reports.values() if report.aligned)
    with capsys.disabled():
        print(f"\ntables answered together: {answered}; {len(merged)} transactions; held for {held:.2f} s at most")
    assert len(reports) == sum(answered) == len(names) and len(answered) < len(names)
