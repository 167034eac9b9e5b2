"""Merges keep what they do otherwise than the log says, on each engine, and nothing where they do as it says."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import dialects
from auditor.errors import LiveSummariesWrong
from auditor.pipeline.merge import live_sums, target_ledger
from auditor.run.live import plans
from auditor.run.live.ledger import Deviation, Entry, LedgerStatements, check_chain, read_deviation, read_entries
from auditor.sql.merge import MergeStatements
from auditor.store import live_epochs
from tests.live import Engines
from tests.pipeline.conftest import opened_url
from tests.pipeline.live_summing import LAYOUTS, SummingRoad, statements

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]
TABLE, KEYS = "booked", 300
_numbers = itertools.count()

MYSQL_DUCKDB = pytest.param(("mysql", "duckdb"), marks=[pytest.mark.mysql, pytest.mark.duckdb], id="mysql-duckdb")
MARIADB_POSTGRES = pytest.param(("mariadb", "postgres"), marks=[pytest.mark.mariadb, pytest.mark.postgres], id="mariadb-postgres")
MARIADB_MYSQL = pytest.param(("mariadb", "mysql"), marks=[pytest.mark.mariadb, pytest.mark.mysql], id="mariadb-mysql")
MYSQL_MARIADB = pytest.param(("mysql", "mariadb"), marks=[pytest.mark.mariadb, pytest.mark.mysql], id="mysql-mariadb")
MYSQL_REDSHIFT = pytest.param(("mysql", "redshift"), marks=[pytest.mark.mysql, pytest.mark.redshift], id="mysql-redshift")
PAIRS = [MYSQL_DUCKDB, MARIADB_POSTGRES, MARIADB_MYSQL, MYSQL_MARIADB, MYSQL_REDSHIFT]


@pytest.fixture(params=PAIRS)
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SummingRoad]:
    source, target = (engines.live(name) for name in request.param)
    with opened_url(target, tmp_path, engines, monkeypatch) as url:
        made = SummingRoad(tmp_path, source, TABLE, "" if target.name == "duckdb" else url, f"booked_{next(_numbers)}")
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


@pytest.mark.quick_for("mariadb-postgres", "mariadb-mysql")
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


def deviating(road: SummingRoad) -> list[list[tuple[int, Deviation]]]:
    """The numbers of the merges, by epoch, that did otherwise than the log says, and how."""
    widths = [plans.widths(road.plan(epoch)) for epoch in live_epochs.list_epochs(road.store, lasting=True)]
    return [
        [(number, read_deviation(entry.body, *sizes)) for number, entry in enumerate(of_epoch) if entry.body]
        for of_epoch, sizes in zip(entries(road), widths, strict=True)
    ]


@pytest.mark.quick_for("mariadb-postgres", "mysql-mariadb")
def test_merges_that_do_otherwise_say_how(road: SummingRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    road.begin(ledger=True)
    write(road, 0)
    road.merge()
    right = MergeStatements.prepare, MergeStatements.change
    with monkeypatch.context() as patched:
        drop = "DELETE FROM {last} WHERE id IN (1, 2)"
        patched.setattr(MergeStatements, "prepare", lambda self, *given: [*right[0](self, *given), drop.format(last=self.last)])
        road.log.run(f"REPLACE INTO {TABLE} (id, price) VALUES (1, 4), (2, 4), (3, 4), (150, 4)")
        road.merge()
        road.log.run(f"DELETE FROM {TABLE} WHERE id IN (2, 150)")
        road.merge()
        patched.undo()
        damage = "UPDATE {target} SET price = 6 WHERE id = 3"
        patched.setattr(MergeStatements, "change", lambda self, *given: [*right[1](self, *given), damage.format(target=self.target)])
        road.log.run(f"UPDATE {TABLE} SET price = 5 WHERE id IN (3, 200)")
        road.merge()
    road.execute(f"DELETE FROM {road.schema}.{TABLE} WHERE id = 1")
    road.log.run(f"UPDATE {TABLE} SET price = 8 WHERE id IN (1, 3)")
    road.merge()
    found = deviating(road)
    assert [len(of_epoch) for of_epoch in found] == [4] * len(LAYOUTS)
    for of_epoch in found:
        numbers = [number for number, _ in of_epoch]
        assert numbers == list(range(numbers[0], numbers[0] + 4)), "one after the other"
        (_, dropped), (_, undeleted), (_, wrong), (_, edited) = of_epoch
        assert sum(dropped.wrote.rows) in (-1, -2, 0) and len(dropped.wrote) and not dropped.contradicted
        assert (
            not len(undeleted.wrote)
            and sum(undeleted.replaced.rows) == -1
            and undeleted.misplaced == {*undeleted.replaced.partition.tolist()}
        )
        assert sum(wrong.wrote.rows) == 0 and len(wrong.wrote) == 1 and not len(wrong.replaced)
        assert not len(edited.wrote) and len(edited.replaced) in (1, 2) and not edited.misplaced
    assert road.reasons() == set(), "the source's sums are right whatever the target holds"


@pytest.mark.quick_for("mysql-redshift", "mariadb-postgres")
def test_what_somebody_else_did_to_rows_is_found_by_a_refresh(road: SummingRoad) -> None:
    road.begin(LAYOUTS[:1], ledger=True)
    road.execute(f"DELETE FROM {road.schema}.{TABLE} WHERE id = 5", f"UPDATE {road.schema}.{TABLE} SET price = 77 WHERE id = 100")
    road.execute(f"INSERT INTO {road.schema}.{TABLE} (id, price) VALUES (100000, 1)")
    road.refresh()
    road.merge()
    [of_epoch] = deviating(road)
    assert of_epoch and all(not len(deviation.wrote) for _, deviation in of_epoch)
    replaced = {
        int(number): int(rows) for _, one in of_epoch for number, rows in zip(one.replaced.partition, one.replaced.rows, strict=True)
    }
    assert replaced == {5 // 16: -1, 100 // 16: 0, 100000 // 16: 1}


@pytest.mark.quick_for("mariadb-postgres")
@pytest.mark.parametrize("road", [MARIADB_POSTGRES, MYSQL_DUCKDB], indirect=True)
def test_killed_loaders_keep_their_books(road: SummingRoad) -> None:
    road.begin(LAYOUTS[1:], ledger=True)
    drawn, kills = random.Random(7), 0
    for seed in range(2):
        write(road, seed, 25)
        road.refresh()
        road.stage(range_bytes=8192)
        kills += road.merge_with_kills(drawn)
    assert kills >= 3 and road.check() > 20
    assert [entry.body for of_epoch in entries(road) for entry in of_epoch if entry.body] == []


@pytest.mark.slow
@pytest.mark.parametrize("road", [MARIADB_POSTGRES], indirect=True)
def test_long_ledgers_are_folded_and_keep_what_went_wrong(road: SummingRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sums, "MOST_ROWS", 3)
    monkeypatch.setattr(target_ledger, "MOST_ENTRIES", 6)
    road.begin(LAYOUTS[:1], ledger=True)
    for number in range(20):
        if number == 4:
            road.execute(f"UPDATE {road.schema}.{TABLE} SET price = 6 WHERE id = 3")
        road.log.run(f"UPDATE {TABLE} SET price = {number + 1000} WHERE id IN (3, 200)")
        road.merge()
    [of_epoch] = entries(road)
    assert len(of_epoch) < 12 and sum(entry.batches for entry in of_epoch) == 20 and max(entry.batches for entry in of_epoch) > 3
    [[(number, deviation)]] = deviating(road)
    assert sum(entry.batches for entry in of_epoch[:number]) == 4 and of_epoch[number].batches == 1 and len(deviation.replaced) == 1
    road.execute(f"UPDATE {road.schema}.auditor_ledger SET version = 'x' WHERE previous = {of_epoch[0].previous}")
    for number in range(30, 50):
        road.log.run(f"UPDATE {TABLE} SET price = {number} WHERE id = 3")
        road.merge()
    [epoch] = live_epochs.list_epochs(road.store, lasting=True)
    assert not epoch.ledger_ended and road.reasons() == set(), "a damaged ledger stops no merge"
    with pytest.raises(LiveSummariesWrong, match="the ledger is missing what was merged after"):
        entries(road)
