"""The sums that the stream keeps of a source equal full scans of it, under every layout, or have ended with a sentence."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import dialects
from auditor.config import Columns
from auditor.errors import LiveSummariesWrong
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.live.published_epochs import published
from auditor.pipeline.merge import live_sums
from auditor.store import live_epochs, parts
from tests.live import Engines
from tests.pipeline.live_summing import LAYOUTS, SummingRoad, statements
from tests.pipeline.road import PIPELINE

pytestmark = [pytest.mark.alone, pytest.mark.engines_in_turn]
TABLE, KEYS = "summed", 300
_numbers = itertools.count()

MYSQL_DUCKDB = pytest.param(("mysql", "duckdb"), marks=[pytest.mark.mysql, pytest.mark.duckdb], id="mysql-duckdb")
MARIADB_POSTGRES = pytest.param(("mariadb", "postgres"), marks=[pytest.mark.mariadb, pytest.mark.postgres], id="mariadb-postgres")


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[SummingRoad]:
    source, target = (engines.live(name) for name in request.param)
    schema = f"summed_{next(_numbers)}"
    made = SummingRoad(tmp_path, source, TABLE, "" if target.name == "duckdb" else target.url, schema)
    made.create(KEYS)
    yield made
    if target.name != "duckdb":
        made.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    made.close()


ON_BOTH = pytest.mark.parametrize("road", [MYSQL_DUCKDB, MARIADB_POSTGRES], indirect=True)
ON_MYSQL = pytest.mark.parametrize("road", [MYSQL_DUCKDB], indirect=True)
ON_MARIADB = pytest.mark.parametrize("road", [MARIADB_POSTGRES], indirect=True)


def write(road: SummingRoad, seed: int, count: int = 40) -> None:
    road.log.run(*(statement for transaction in statements(TABLE, KEYS, seed, count) for statement in transaction))


@pytest.mark.quick_for("mariadb-postgres")
@ON_BOTH
def test_sums_equal_full_scans_at_each_place(road: SummingRoad) -> None:
    road.begin()
    for seed in range(3):
        write(road, seed)
        road.stage(range_bytes=4096)
        road.merge()
        assert road.check() > 30
    road.log.run(f"ALTER TABLE {TABLE} ADD COLUMN more int DEFAULT 5", f"UPDATE {TABLE} SET more = id, price = 7 WHERE id < 40")
    road.merge()
    assert road.check() > 30, "a column that is not compared changes nothing"
    assert road.reasons() == set()


@pytest.mark.parametrize(
    ("road", "rounds", "transactions", "least"),
    [
        pytest.param(*MARIADB_POSTGRES.values, 2, 25, 50, marks=MARIADB_POSTGRES.marks, id="mariadb-postgres"),
        *(
            pytest.param(*one.values, 12, 25_000, 1_000_000, marks=[*one.marks, pytest.mark.slow], id=f"{one.id}-many")
            for one in (MARIADB_POSTGRES, MYSQL_DUCKDB)
        ),
    ],
    indirect=["road"],
)
def test_killed_loaders_lose_and_double_nothing(road: SummingRoad, rounds: int, transactions: int, least: int) -> None:
    road.begin(LAYOUTS[1:])
    drawn, kills = random.Random(rounds), 0
    for seed in range(rounds):
        write(road, seed, transactions)
        refreshed = road.refresh()
        road.log.run(f"ALTER TABLE {TABLE} ADD COLUMN more_{seed} int DEFAULT 5", f"UPDATE {TABLE} SET more_{seed} = id WHERE id < 40")
        road.stage(range_bytes=8192 if transactions < 100 else 1 << 20)
        kills += road.merge_with_kills(drawn)
        assert road.check() > 20 and refreshed > 20
    events = sum(part.rows for part in parts.list_parts(road.store, PIPELINE, f"{road.database}.{TABLE}", 0, limit=100_000))
    print(f"{events:,} events, {kills} kills")
    assert events >= least and kills >= rounds * 5 / 3 and road.reasons() == set()


@ON_MARIADB
def test_links_are_folded_and_what_is_lost_is_found(road: SummingRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sums, "MOST_ROWS", 3)
    [epoch] = road.begin(LAYOUTS[:1])
    sums = f"{road.schema}.auditor_live_sums"
    for seed in range(6):
        write(road, seed, 5)
        road.merge()
        assert int(road.query(f"SELECT COUNT(*) FROM {sums}")[0][0]) <= 4
    assert road.check() > 10
    live_epochs.end_epoch(road.store, epoch.id, "somebody ended it")
    old, [epoch] = epoch.id, road.begin(LAYOUTS[:1])
    for seed in range(6, 9):
        write(road, seed, 5)
        road.merge()
        assert old not in {row[0] for row in road.query(f"SELECT epoch FROM {sums}")}, "nobody needs sums of an epoch that ended"
    [(place, body)] = road.query(f"SELECT place, body FROM {sums} ORDER BY place DESC LIMIT 1")
    here = f"WHERE place = {place}"
    for damage, mend, where in (
        ("body = 'AAAA'", f"body = '{body}'", here),
        ("previous = previous + 1", "previous = previous - 1", here),
        ("layout = 'range 17'", f"layout = '{epoch.layout}'", here),
        ("shape = 'other'", f"shape = '{road.query(f'SELECT shape FROM {sums} {here}')[0][0]}'", here),
        ("place = place + 1", f"place = {place}", f"WHERE place >= {place}"),
        ("epoch = 'other'", f"epoch = '{epoch.id}'", f"WHERE place >= {place}"),
    ):
        road.execute(f"UPDATE {sums} SET {damage} {where}")
        with pytest.raises(LiveSummariesWrong, match="start again"):
            road.live(epoch)
        road.execute(f"UPDATE {sums} SET {mend} {where}")
    assert road.check() > 10
    url = road.settings.connections["warehouse"].url
    with closing(dialects.connect(url)) as session, pytest.raises(LiveSummariesWrong, match="start again"):
        road.sums(epoch).read(session, epoch, int(place) + 1)
    road.execute(f"DELETE FROM {sums} WHERE place = {place}")
    with pytest.raises(LiveSummariesWrong, match="start again"):
        road.live(epoch)
    write(road, 9, 5)
    road.merge()
    [reason] = road.reasons() - {"somebody ended it"}
    assert "without the sums of what lies behind" in reason


@ON_MYSQL
def test_what_changes_rows_without_an_event_ends_the_sums(road: SummingRoad) -> None:
    for number, (statement, reason) in enumerate([
        ("TRUNCATE TABLE summed", "emptied"),
        ("ALTER TABLE summed MODIFY price decimal(14,3)", "changed the table: modify price"),
        ("ALTER TABLE summed DROP COLUMN latin, ADD COLUMN latin varchar(20) DEFAULT 'x'", "changed the table: "),
        ("ALTER TABLE summed RENAME COLUMN item TO thing", "changed the table: rename item to thing"),
    ]):  # fmt: skip
        [epoch] = road.begin(LAYOUTS[:1])
        road.log.run("REPLACE INTO summed (id, price) VALUES (1, 2)", "DELETE FROM summed WHERE id = 7")
        road.merge()
        assert road.check(), statement
        road.log.run(statement, f"REPLACE INTO summed (id, price) VALUES (1, 10 + {number})")
        road.merge()
        ended = live_epochs.get_epoch(road.store, epoch.id)
        assert ended and ended.state == "ended" and reason in ended.reason
        assert published(LocalFolder(road.root)) == []


@ON_MYSQL
def test_rows_of_a_filter_with_long_hashes(road: SummingRoad) -> None:
    audit = road.settings.audits["live"]
    road.where = "price > 5"
    road.settings.audits["live"] = audit.model_copy(update={"where": road.where, "bits": 120})
    road.begin(LAYOUTS[1:])
    road.log.run("UPDATE summed SET item = 'left out' WHERE id = 3")  # a part in which no row passes the filter
    road.stage()
    changes = ("UPDATE summed SET price = 1 WHERE id IN (6, 7)", "UPDATE summed SET price = 6 WHERE id = 2")
    road.log.run(*changes, "INSERT INTO summed (id) VALUES (900)")
    road.merge()
    assert road.check() > 4 and road.reasons() == set()


@ON_MYSQL
def test_a_change_of_a_column_that_only_the_filter_reads_ends_the_sums(road: SummingRoad) -> None:
    road.where = "day >= DATE '2020-01-01'"
    audit = road.settings.audits["live"]
    road.settings.audits["live"] = audit.model_copy(update={"where": road.where, "columns": Columns(exclude=("day",))})
    road.begin(LAYOUTS[:1])
    road.log.run("ALTER TABLE summed DROP COLUMN day, ADD COLUMN day date DEFAULT '2021-01-01'", "UPDATE summed SET price = 1 WHERE id = 3")
    road.merge()
    [reason] = road.reasons()
    assert reason.startswith("a statement on the source changed the table: ") and reason.endswith(" day")


@ON_MYSQL
def test_a_change_of_the_characters_of_a_column_ends_the_sums(road: SummingRoad) -> None:
    road.begin(LAYOUTS[:1])
    converted = "ALTER TABLE summed CONVERT TO CHARACTER SET latin1"
    road.log.run("SET sql_mode = 'STRICT_TRANS_TABLES'", converted, "UPDATE summed SET price = 1 WHERE id = 3")
    road.merge()
    [reason] = road.reasons()
    assert reason == "a statement on the source changed the table: convert"


@ON_MYSQL
def test_events_without_their_sums_end_the_sums(road: SummingRoad) -> None:
    road.begin(LAYOUTS[:2])
    write(road, 1, 3)
    road.stage()
    damaged, lost = sorted(road.root.glob("*/*.sums"))[-2:]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    lost.unlink()
    road.merge()
    reasons = sorted(road.reasons())
    assert len(reasons) == 2 and "staged without their sums" in " ".join(reasons) and "are damaged" in " ".join(reasons)
