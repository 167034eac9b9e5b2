"""From a live server's binary log to both targets, which an audit then finds equal to the source."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from auditor import config
from auditor.config import Audit
from auditor.connections.writer import open_writer
from auditor.model import Report, Verdict
from auditor.pipeline.run import Run
from auditor.run import audit_run
from auditor.service import pipelines as service
from auditor.sql.value_literal import value_literal
from auditor.store import Store, open_store
from auditor.store import pipelines as stored
from dialects import Kind
from tests import tables
from tests.live import Engines, LiveEngine
from tests.pipeline.running import Running

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

PIPELINE, SCHEMA, ROWS = "shop", "whole_road", 200
COLUMNS = [
    ("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 12, 2)), ("at", Kind("timestamp", scale=6)),
    ("data", Kind("binary")), ("weight", Kind("float64")),
]  # fmt: skip
SOURCES = [
    pytest.param("mysql", marks=pytest.mark.mysql),
    pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow]),
]


class WholeRoad:
    """A pipeline from the table ``road_orders`` of a live server into PostgreSQL and DuckDB."""

    def __init__(self, folder: Path, source: LiveEngine, postgres: LiveEngine) -> None:
        self.source = source
        duckdb = f"duckdb:///{folder}/warehouse.duckdb"
        path = folder / "auditor.yaml"
        path.write_text(
            f"""\
connections:
  source: {{url: "{source.url}"}}
  pg: {{url: "{postgres.url}", write: {{url: "{postgres.url}"}}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [road_orders]}}
    staging: {{path: "{folder}/staging"}}
    targets:
      pg: {{connection: pg, schema: {SCHEMA}, every: 0s}}
      duck: {{connection: duck, schema: {SCHEMA}, every: 0s}}
"""
        )
        self.settings = config.load(path)
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)
        self.path = path

    def run(self) -> Run:
        """Return a run of it."""
        return Run(self.settings, self.path, self.store, PIPELINE, ["pg", "duck"])

    def audits(self) -> dict[str, Report]:
        """Run the audits that the pipeline proposes."""
        proposed = service.propose_audits(self.settings, PIPELINE)
        definitions = {name: Audit.model_validate(found) for name, found in proposed.items()}
        return {name: audit_run.run(name, audit, self.settings.connections) for name, audit in definitions.items()}

    def is_read(self) -> bool:
        """Whether both targets have something."""
        return len(self._positions()) == 2

    def have_arrived(self) -> bool:
        """Whether PostgreSQL holds the rows of the source, and its newest name, and DuckDB is as far: opening its file would delay it."""
        newest = "SELECT COUNT(*), MAX(name) FROM {}"
        wanted = tables.query(self.source, newest.format("road_orders"))
        if len(positions := self._positions()) < 2 or len(set(positions.values())) > 1:
            return False
        with open_writer("pg", self.settings.connections["pg"]) as session:
            return session.query(newest.format(f"{SCHEMA}.road_orders")) == wanted

    def _positions(self) -> dict[str, int]:
        merges = stored.list_merges(self.store, PIPELINE)
        return {target: report.position for target, tables in merges.items() for report in tables.values() if report.state == "merged"}


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[WholeRoad]:
    engines.live("spark")
    made = WholeRoad(tmp_path, engines.live(request.param), engines.live("postgres"))
    yield made
    made.store.close()
    with open_writer("pg", made.settings.connections["pg"]) as session:
        session.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def row(number: int) -> tuple[object, ...]:
    at = dt.datetime(2026, 3, 1, 12, 0, 0, number)
    return (number, f"näme {number}", Decimal(number) / 4, at, bytes([number % 256, 0]), number / 7)


@pytest.mark.parametrize("road", SOURCES, indirect=True)
def test_what_a_source_commits_is_what_an_audit_of_the_targets_finds(road: WholeRoad) -> None:
    tables.make(road.source, "road_orders", COLUMNS, [], key=["id"])
    beats = itertools.count(10**6)
    with Running(road.run()) as running:

        def is_beat_read() -> bool:
            tables.execute(road.source, f"INSERT INTO road_orders (id, name) VALUES ({next(beats)}, 'a beat')")
            return road.is_read()

        running.until(is_beat_read, every=0.3)  # the stream begins at the end of the log, wherever that is by then
        tables.execute(road.source, "DELETE FROM road_orders")
        running.until(road.have_arrived)
        fill(road)
        running.until(road.have_arrived)
    assert running.error is None
    assert {name: report.verdict for name, report in road.audits().items()} == {
        "shop_road_orders_pg": Verdict.MATCH, "shop_road_orders_duck": Verdict.MATCH,
    }  # fmt: skip
    # What is committed while nothing reads arrives with the next run, and damage in a target is found.
    tables.execute(road.source, "UPDATE road_orders SET id = id + 5000, name = 'zzz last' WHERE id % 50 = 1")
    with Running(road.run()) as running:
        running.until(road.have_arrived)
    assert running.error is None
    assert {report.verdict for report in road.audits().values()} == {Verdict.MATCH}
    with open_writer("pg", road.settings.connections["pg"]) as session:
        session.execute(f"UPDATE {SCHEMA}.road_orders SET price = price + 1 WHERE id = 7")
    found = road.audits()["shop_road_orders_pg"].differences
    assert found and [(one.kind, one.key["id"]) for one in found.named] == [("changed", "7")]


def fill(road: WholeRoad) -> None:
    """Insert, change, delete rows, and give some another key, in transactions of several sizes."""
    with tables.open_writable(road.source) as session:
        rows = [
            [value_literal(session.dialect, kind, value) for (_, kind), value in zip(COLUMNS, row(n), strict=True)] for n in range(ROWS)
        ]
        values = [f"({', '.join(one)})" for one in rows]
        session.execute(f"INSERT INTO road_orders VALUES {', '.join(values[:150])}")
        for one in values[150:]:
            session.execute(f"INSERT INTO road_orders VALUES {one}")
        session.execute("UPDATE road_orders SET price = NULL, weight = -weight WHERE id % 3 = 0")
        session.execute("UPDATE road_orders SET id = id + 1000 WHERE id % 10 = 9")
        session.execute("DELETE FROM road_orders WHERE id % 7 = 0 AND id > 7")
        session.execute("UPDATE road_orders SET name = 'zz at the end' WHERE id = 8")
