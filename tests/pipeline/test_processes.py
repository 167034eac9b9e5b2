"""The command ``auditor pipeline run`` as a process: what a signal ends, and targets that have processes of their own."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.config import load
from auditor.connections.writer import open_writer
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.staged_parts import sweep
from auditor.store import open_store, parts, pipelines
from dialects import Kind
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table
from tests.programs import processes
from tests.programs.processes import Process

ORDERS = table(id="bigint", item="varchar(40) null")
SCHEMA = "two_processes"
COUNTED = "SELECT COUNT(*), MIN(id), MAX(id) FROM {} WHERE item <> 'a beat'"
"""Beats from before the stream began, at the end of the log, belong to the source alone."""


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Kill what a failed test left running."""
    yield
    processes.kill_unfinished()


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_loader_by_itself_merges_and_ends_when_it_is_asked_to(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "pen"], ["2", None])))
    process = Process(road.folder, "pipeline", "run", PIPELINE, "--target", "wh")
    assert process.wait_for_output("shop.orders holds 000000:10"), process.stderr_lines
    refused = processes.run_command(road.folder, "pipeline", "run", PIPELINE, "--target", "wh")
    assert "auditor: it is taken by process" in refused.stderr_lines[-1]
    process.send(signal.SIGTERM)
    assert (process.wait(), process.stdout) == (0, "")
    assert "shop: stopped after the batch" in process.stderr_lines[-1]
    assert road.rows() == [(1, "pen"), (2, None)]
    assert not any("Spark" in line for line in process.stderr_lines), "one session that loads alone needs no Java"


class Shared:
    """A pipeline from a live source into two targets, one of which has a process of its own."""

    def __init__(self, folder: Path, source: LiveEngine, postgres: str) -> None:
        self.folder, self.source = folder, source
        duckdb = f"duckdb:///{folder}/warehouse.duckdb"
        path = folder / "auditor.yaml"
        path.write_text(
            f"""\
connections:
  source: {{url: "{source.url}"}}
  pg: {{url: "{postgres}", write: {{url: "{postgres}"}}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [shared_orders]}}
    staging: {{path: "{folder}/staging"}}
    targets:
      pg: {{connection: pg, schema: {SCHEMA}, every: 0s}}
      duck: {{connection: duck, schema: {SCHEMA}, every: 0s}}
"""
        )
        self.settings = load(path)
        assert self.settings.store
        self.store = open_store(self.settings.store.url)
        self._beats = itertools.count(10**6)
        tables.make(source, "shared_orders", [("id", Kind("integer")), ("item", Kind("text"))], [], key=["id"])

    def close(self) -> None:
        self.store.close()
        with open_writer("pg", self.settings.connections["pg"]) as session:
            session.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")

    def start(self, *arguments: str) -> Process:
        return Process(self.folder, "pipeline", "run", PIPELINE, *arguments)

    def beat(self) -> None:
        """Commit one row."""
        tables.execute(self.source, f"INSERT INTO shared_orders VALUES ({next(self._beats)}, 'a beat')")

    def positions(self) -> list[int]:
        """Where each target stands."""
        merges = pipelines.list_merges(self.store, PIPELINE)
        return [report.position for found in merges.values() for report in found.values()]

    def is_merged(self) -> bool:
        """Whether both targets hold everything that was staged."""
        staged = parts.list_tables(self.store, PIPELINE)
        return bool(staged) and self.positions() == 2 * [one.staged_through for one in staged.values()]

    def held(self, target: str) -> list[tuple[object, ...]]:
        with open_writer(target, self.settings.connections[target]) as session:
            return session.query(COUNTED.format(f"{SCHEMA}.shared_orders"))


@pytest.fixture
def shared(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    monkeypatch.setattr(processes, "PATIENCE", 240)  # Spark alone takes half a minute to start on a busy machine
    engines.live("spark")
    made = Shared(tmp_path, engines.live(request.param), engines.live("postgres").url)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.parametrize("shared", engine_params("mysql", "mariadb"), indirect=True)
def test_two_processes_share_a_pipeline_and_end_after_the_batch(shared: Shared) -> None:
    loader = shared.start("--target", "duck")
    assert loader.wait_for_output("shop: loads duck"), loader.stderr_lines
    stager = shared.start()
    assert stager.wait_for_output("shop: stages and loads pg"), stager.stderr_lines
    assert any("target duck is not loaded here: it is taken by process" in line for line in stager.stderr_lines)

    def is_loaded(lines: list[str]) -> bool:
        del lines
        shared.beat()
        return len(shared.positions()) == 2

    assert stager.wait_until(is_loaded, "both targets to be loaded"), stager.stderr_lines
    # A signal while a large batch is under way: it is staged to its end, or not at all.
    values = ", ".join(f"({number}, 'item {number}')" for number in range(100_000))
    tables.execute(shared.source, f"INSERT INTO shared_orders VALUES {values}")
    stager.send(signal.SIGTERM)
    assert stager.wait() == 0 and any("shop: stopped after the batch" in line for line in stager.stderr_lines), stager.stderr_lines
    assert sweep(LocalFolder(shared.folder / "staging"), parts.list_paths(shared.store, PIPELINE)) == []
    again = shared.start()
    wanted = tables.query(shared.source, COUNTED.format("shared_orders"))
    assert again.wait_until(lambda _: shared.is_merged() and shared.held("pg") == wanted, "the rest to arrive"), again.stderr_lines
    for process in (loader, again):
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.stderr_lines
    assert shared.held("duck") == wanted
