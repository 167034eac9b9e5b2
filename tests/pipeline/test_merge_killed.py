"""A loader that is killed at any step leaves a target that is whole, and the next one goes on from there."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.connections.writer import open_writer
from auditor.errors import EngineError
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.staged_parts import sweep
from auditor.points import armed
from auditor.store import parts, pipelines
from tests.live import engine_params
from tests.pipeline.conftest import AND_LAKES, COMMITTED, EVERY, TARGETS
from tests.pipeline.killed import Killed
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, table, update

pytestmark = pytest.mark.engines_in_turn

ORDERS = table(id="bigint", item="varchar(40) null", amount="decimal(10,2) null")

BEFORE_COMMIT = ("stage", "load", "merge", "merged", "commit")
AFTER_COMMIT = ("committed", "report")


def order(number: int, amount: int) -> list[str | None]:
    return [str(number), "pen", f"{amount}.00"]


@pytest.mark.quick_for("two-delta", "two-duckdb", "two-postgres", "two-mysql")
@pytest.mark.parametrize("engine", [*EVERY, *COMMITTED], indirect=True)
@pytest.mark.parametrize(
    "steps", [("merged", "committed"), pytest.param((*BEFORE_COMMIT, *AFTER_COMMIT), marks=pytest.mark.slow)], ids=["two", "all"]
)
@pytest.mark.few
def test_killed_at_each_step(road: Road, steps: tuple[str, ...]) -> None:
    killed = Killed(road.config_file, road.schema)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *(order(n, 0) for n in range(100)))))
    assert road.loader().merge_all() == 100
    held = dict.fromkeys(range(100), 0)
    for round_, step in enumerate(steps, 1):
        position, before = 100 * round_, dict(held)
        road.stage(
            batch(
                update(ORDERS, position, *((order(n, held[n]), order(n, held[n] + 1)) for n in range(50) if n in held)),
                delete(ORDERS, position + 1, order(100 - round_, held[100 - round_])),
                insert(ORDERS, position + 2, order(1000 + round_, 7)),
            )
        )
        held = {n: amount + (n < 50) for n, amount in held.items() if n != 100 - round_} | {1000 + round_: 7}
        assert killed.merge_until(step) == "killed", step
        assert amounts(road) == (before if step in BEFORE_COMMIT else held), step
        road.loader().merge_all()
        assert amounts(road) == held, step
    killed.close()
    assert pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].position == position + 2


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_killed_while_it_stages(road: Road) -> None:
    killed, events, held = Killed(road.config_file, road.schema), road.folder / "events.parquet", dict[int, int]()
    for round_, step in enumerate(("part unfinished", "parts written", "parts listed")):
        changes = batch(announce(ORDERS, 10 * round_ + 1), insert(ORDERS, 10 * round_ + 2, order(round_, 7)))
        pq.write_table(pa.Table.from_batches([changes]), events)
        assert killed.stage_until(step, events) == "killed", step
        assert len(parts.list_paths(road.store, PIPELINE)) == round_ + (step == "parts listed"), step
        left = sweep(LocalFolder(road.root), parts.list_paths(road.store, PIPELINE))
        assert len(left) == (step != "parts listed"), step
        road.loader().merge_all()
        assert amounts_if_any(road) == (held | {round_: 7} if step == "parts listed" else held), step
        road.stage(changes)  # as Spark replays a batch that it has not committed
        road.loader().merge_all()
        held[round_] = 7
        assert amounts(road) == held, step
    killed.close()


def amounts_if_any(road: Road) -> dict[int, int]:
    return amounts(road) if parts.list_tables(road.store, PIPELINE) else {}


def amounts(road: Road) -> dict[int, int]:
    return {int(row[0]): int(row[2]) for row in road.rows()}


@pytest.mark.slow_on("delta")
@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
@pytest.mark.parametrize("step", [*BEFORE_COMMIT, *AFTER_COMMIT])
def test_an_error_at_each_step_is_retried(road: Road, step: str) -> None:
    now = [0.0]

    def fail() -> None:
        raise EngineError("the test's own")

    loader = road.loader(lambda: now[0])
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1, 1))))
    with armed(f"merge.{step}", fail):
        loader.merge_all()
    assert loader.merge_all() == 0, "it waits first"
    now[0] += 1
    loader.merge_all()
    assert road.rows() == [(1, "pen", Decimal("1.00"))]


def test_the_target_alone_decides_where_it_stands(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1, 1), order(2, 2))))
    road.loader().merge_all()
    pipelines.forget(road.store, PIPELINE)
    assert road.loader().merge_all() == 0, "what the store forgot of the target changes nothing"
    positions = f"{road.schema}.auditor_positions"
    road.execute(f"DELETE FROM {road.schema}.orders WHERE id = 1", f"DELETE FROM {positions}")
    assert road.loader().merge_all() == 2, "a target that forgot where it stood begins anew"
    assert amounts(road) == {1: 1, 2: 2}


@pytest.mark.parametrize("engine", [param for param in TARGETS if param.id != "redshift"], indirect=True)
def test_rows_that_were_lost_on_the_way_stop_the_merge(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1, 1), order(2, 2))))
    with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
        loading = type(session.loading)
    complete = loading.load
    monkeypatch.setattr(loading, "load", lambda self, table, columns, rows: complete(self, table, columns, rows.slice(1)))
    assert road.loader().merge_all() == 0
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert report.reason == "shop.orders: 2 changes were loaded, and 1 are in the staging table; they are loaded again"
    assert report.state == "delayed" and road.rows() == []


@pytest.mark.parametrize("engine", [*engine_params("postgres"), *COMMITTED], indirect=True)
def test_another_loader_that_was_quicker_is_noticed(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1, 1))))
    other, merged = road.loader(), list[int]()
    with armed("merge.merge", lambda: merged.append(other.merge_all()), nth=1):
        assert road.loader().merge_all() == 0
    assert merged == [1]
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert "another process has merged" in report.reason and "checked again" in report.reason and amounts(road) == {1: 1}


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_file_that_another_process_holds_delays_the_merge(road: Road) -> None:
    now = [0.0]
    loader = road.loader(clock=lambda: now[0])
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, order(1, 1))))
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(road.folder / "warehouse.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        assert loader.merge_all() == 0 and not pipelines.list_merges(road.store, PIPELINE), "a short wait is not reported"
        now[0] += 10
        assert loader.merge_all() == 0
        report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
        assert report.state == "delayed" and f"PID {holder.pid}" in report.reason
        holder.communicate("")
    assert loader.merge_all() == 1 and amounts(road) == {1: 1}
