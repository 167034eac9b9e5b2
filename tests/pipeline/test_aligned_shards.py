"""Aligned audits of a source of two shards: a pipeline for each fills one table of the target, and each is held at its own place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor import config
from auditor.config import Settings
from auditor.model import Report, Verdict
from auditor.run.alignment import BY_IDS, BY_LOCK, BY_SERVER
from auditor.service import running
from auditor.store import holds
from tests.durations import SetDurations
from tests.live import Engines
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.pipeline.road import leased

pytestmark = [pytest.mark.alone, pytest.mark.mysql, pytest.mark.mariadb]
TABLE, KEYS, SECOND, LOST = "sharded_orders", 1000, 100_000, 900_000
"""The second shard's keys begin with SECOND; nobody writes to the key LOST."""
POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
DUCKDB = pytest.param("duckdb", marks=[pytest.mark.duckdb, pytest.mark.slow])
_numbers = itertools.count()


class Shards:
    """Two shards, each with its road into one table, and an audit of both."""

    def __init__(self, folder: Path, engines: Engines, target: str) -> None:
        schema = f"sharded_{next(_numbers)}"
        into = f"duckdb:///{folder}/warehouse.duckdb" if target == "duckdb" else engines.live(target).url
        store = f"sqlite:///{folder}/auditor.db"
        self.roads: list[AlignedRoad] = []
        for number, name in enumerate(("eu", "us")):
            (folder / name).mkdir()
            source = engines.live(("mysql", "mariadb")[number])
            self.roads.append(AlignedRoad(folder / name, source, TABLE, into, schema, name=name, store=store))
            self.roads[-1].fill(KEYS, number * SECOND)
        self.settings = self._settings(folder, schema)

    def _settings(self, folder: Path, schema: str) -> Settings:
        """Return the configuration of the audit, which has both pipelines."""
        found: dict[str, Any] = {"connections": {}, "pipelines": {}}
        for road in self.roads:
            one = yaml.safe_load(road.config_file.read_text())
            found["connections"] |= {road.name: one["connections"]["source"], "warehouse": one["connections"]["warehouse"]}
            found["pipelines"][road.name] = one["pipelines"][road.name]
            found["pipelines"][road.name]["source"]["connection"] = road.name
            found["store"] = one["store"]
        source = [{"connection": road.name, "table": TABLE} for road in self.roads]
        target = {"connection": "warehouse", "table": f"{schema}.{TABLE}"}
        path = folder / "shards.yaml"
        path.write_text(yaml.safe_dump({**found, "audits": {AUDIT: {"source": source, "target": target, "align": "pipeline"}}}))
        return config.load(path)

    def audit(self) -> Report:
        """Run the audit."""
        return running.run_audit(self.settings, AUDIT, store=self.roads[0].store)

    def close(self) -> None:
        """Close both roads."""
        for road in self.roads:
            road.close()


@pytest.fixture
def shards(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[Shards]:
    made = Shards(tmp_path, engines, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("shards", [POSTGRES, DUCKDB], indirect=True)
def test_both_shards_are_read_where_the_target_stands(shards: Shards) -> None:
    eu, us = shards.roads
    with ExitStack() as held:
        for road, first in ((eu, 0), (us, SECOND)):
            held.enter_context(road.delivering())
            held.enter_context(road.written_to(KEYS, 60, first=first))
        shards.audit()  # by its end the loaders have begun
        equal = [shards.audit() for _ in range(2)]
        us.log.run("SET sql_log_bin = 0", f"INSERT INTO {TABLE} VALUES ({LOST}, 'not logged', 1)")
        lost = shards.audit()
    for report in (*equal, lost):
        assert report.not_aligned == "" and report.aligned and report.plan, report.reasons
        mysql, mariadb = (one.aligned for one in report.shards)
        assert mysql and mariadb and mysql.way in (BY_IDS, BY_LOCK) and mariadb.way == BY_SERVER
        assert (mysql.pipeline, mariadb.pipeline, report.aligned.pipeline) == ("eu", "us", "eu and us")
        position = f"{mysql.position} of eu: {TABLE} and {mariadb.position} of us: {TABLE}"
        assert report.aligned.position == report.plan.aligned == position
        assert report.aligned.time == min(mysql.time, mariadb.time)
    assert [report.verdict for report in equal] == [Verdict.MATCH] * 2
    assert equal[0].verified_through == equal[0].aligned.time if equal[0].aligned else False
    assert lost.differences is not None and [(one.kind, one.key["id"], one.shards) for one in lost.differences.named] == [
        ("missing", str(LOST), (f"us: {TABLE}",))
    ]
    assert [(one.verdict, one.missing) for one in lost.shards] == [(Verdict.MATCH, 0), (Verdict.MISMATCH, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("shards", [POSTGRES], indirect=True)
def test_a_shard_that_is_not_there_is_named_and_no_table_stands_still_afterwards(shards: Shards, set_durations: SetDurations) -> None:
    eu, us = shards.roads
    set_durations(hold_answer=0.5)
    with eu.delivering():
        assert shards.audit().not_aligned == "no process loads the target wh; start one with: auditor pipeline run us"
        with leased(us.store, "us"):
            silent = shards.audit()
        assert silent.verdict is Verdict.MATCH and silent.aligned is None and silent.not_aligned.endswith("auditor pipeline status us")
        assert [one.aligned for one in silent.shards] == [None, None]
        assert [holds.list_holds(eu.store, name, "wh") for name in ("eu", "us")] == [{}, {}]
        with us.delivering():
            us.log.run(f"ALTER TABLE {TABLE} ENGINE = Aria")
            assert shards.audit().not_aligned == (
                f"us: {TABLE}: the storage engine of the source's table is Aria, which has no snapshots; only InnoDB's are known"
            )
