"""A pipeline on Spark whose source's log names no columns, with a tracker, into both targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.connections.writer import open_writer
from auditor.model import Verdict
from auditor.pipeline.binlog.refreshes import SCHEMA as REFRESH
from auditor.store import parts, refreshes
from tests.binlog import LiveLog
from tests.live import Engines, engine_params
from tests.pipeline.running import Running
from tests.pipeline.tracked import METADATA, empty_server
from tests.pipeline.whole_road import PIPELINE, WholeRoad
from tests.servers import tracker

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.postgres, pytest.mark.alone]
SCHEMA, TABLE = "tracked_road", "tracked_orders"


@pytest.fixture(params=engine_params(*METADATA))
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[WholeRoad]:
    engines.live("spark")
    source = engines.live(request.param)
    url = engines.companion(f"{request.param} tracker", tracker.START[request.param]).url.removesuffix("audit")
    empty_server(url)
    log = LiveLog(source.url)
    log.run(f"DROP DATABASE IF EXISTS {REFRESH}")
    with log.globally(binlog_row_metadata=METADATA[request.param]):
        made = WholeRoad(tmp_path, source, engines.live("postgres"), SCHEMA, [TABLE], tracker=url)
        yield made
        made.close()


def have_arrived(road: WholeRoad) -> bool:
    """Whether PostgreSQL has the source's newest row, and DuckDB is as far."""
    newest = LiveLog(road.source.url).run(f"SELECT COUNT(*), MAX(id), MAX(b) FROM {TABLE}")
    with open_writer("pg", road.settings.connections["pg"]) as session:
        columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = '{}' AND table_name = '{}' AND column_name = 'b'"
        if session.query(columns.format(SCHEMA, TABLE)) != [(1,)]:
            return False
        if session.query(f"SELECT COUNT(*), MAX(id), MAX(b) FROM {SCHEMA}.{TABLE}") != newest:
            return False
    staged = parts.get_table(road.store, PIPELINE, f"{road.database}.{TABLE}").staged_through  # which PostgreSQL holds, or more
    return len(positions := road.positions(TABLE)) == 2 and set(positions.values()) == {staged}


def test_changes_and_a_refresh_arrive_as_they_are_on_the_source(road: WholeRoad) -> None:
    log = LiveLog(road.source.url)
    log.run(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, a varchar(20), b varchar(20), n int unsigned)")
    log.run(f"INSERT INTO {TABLE} VALUES (0, 'a old', 'b old', 4000000000)")
    with Running(road.run()) as running:
        running.until(road.has_begun)
        log.run(f"INSERT INTO {TABLE} VALUES (1, 'a 1', 'b 1', 4000000000), (2, 'a 2', 'b 2', NULL)")
        log.run(f"ALTER TABLE {TABLE} RENAME COLUMN a TO b, RENAME COLUMN b TO a", f"UPDATE {TABLE} SET b = 'zz' WHERE id = 2")
        log.run(f"ALTER TABLE {TABLE} ADD COLUMN c decimal(8,2) NOT NULL DEFAULT 2.5 AFTER id", f"INSERT INTO {TABLE} (id) VALUES (3)")
        refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.{TABLE}", refreshes.RefreshScope(), "ops")
        running.until(lambda: have_arrived(road), every=0.5)
    assert running.error is None
    log.run(f"ALTER TABLE {TABLE} MODIFY n bigint, MODIFY c decimal(12,4)", f"INSERT INTO {TABLE} (id, b, n) VALUES (4, 'zzz', -1)")
    with Running(road.run()) as running:
        running.until(lambda: have_arrived(road), every=0.5)
    assert running.error is None
    assert {report.verdict for report in road.audits().values()} == {Verdict.MATCH}
    log.run(f"DROP TABLE {TABLE}")
