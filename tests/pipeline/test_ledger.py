"""Merges keep what they do otherwise than the log says, on each engine, and nothing where they do as it says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import dialects
from auditor.run.live.ledger import Entry, LedgerStatements, check_chain, read_entries
from auditor.store import live_epochs
from tests.live import Engines
from tests.pipeline.live_summing import LAYOUTS, SummingRoad, statements

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]
TABLE, KEYS = "booked", 300
_numbers = itertools.count()

MYSQL_DUCKDB = pytest.param(("mysql", "duckdb"), marks=[pytest.mark.mysql, pytest.mark.duckdb], id="mysql-duckdb")
MARIADB_POSTGRES = pytest.param(("mariadb", "postgres"), marks=[pytest.mark.mariadb, pytest.mark.postgres], id="mariadb-postgres")


@pytest.fixture(params=[MYSQL_DUCKDB, MARIADB_POSTGRES])
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[SummingRoad]:
    source, target = (engines.live(name) for name in request.param)
    made = SummingRoad(tmp_path, source, TABLE, "" if target.name == "duckdb" else target.url, f"booked_{next(_numbers)}")
    made.create(KEYS)
    yield made
    if target.name != "duckdb":
        made.drop()
    made.close()


def entries(road: SummingRoad) -> list[list[Entry]]:
    """The ledger of each epoch, whole."""
    found = []
    with closing(dialects.connect(road.settings.connections["warehouse"].url)) as session:
        for epoch in live_epochs.list_epochs(road.store, lasting=True):
            assert epoch.ledger and not epoch.ledger_ended, epoch.ledger_ended
            rows = session.query(LedgerStatements(session.dialect, road.schema).list(epoch.id))
            listed = read_entries(epoch.id, rows)
            check_chain(listed, epoch.id, epoch.position)
            found.append(listed)
    return found


def write(road: SummingRoad, seed: int, count: int = 40) -> None:
    road.log.run(*(statement for transaction in statements(TABLE, KEYS, seed, count) for statement in transaction))


def test_merges_that_do_as_the_log_says_leave_empty_entries(road: SummingRoad) -> None:
    road.begin(ledger=True)
    for seed in range(3):
        write(road, seed)
        road.stage(range_bytes=4096)
        road.merge()
    assert road.check() > 30
    assert road.refresh() > 20
    write(road, 3)
    road.merge()
    road.log.run(f"ALTER TABLE {TABLE} ADD COLUMN more int DEFAULT 5", f"UPDATE {TABLE} SET more = id, price = 7 WHERE id < 40")
    road.merge()
    assert road.check() > 30 and road.reasons() == set()
    for of_epoch in entries(road):
        assert len(of_epoch) > 4 and [entry.body for entry in of_epoch] == [""] * len(of_epoch)
        assert {entry.version for entry in of_epoch} == {"0.1.0"}
    assert len(entries(road)) == len(LAYOUTS)
