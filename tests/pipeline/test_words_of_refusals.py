"""What a target refuses is said with its names, the row's key and the next step, and by the check in advance; values are not shown."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor import config
from auditor.config import TargetKeys
from auditor.pipeline.check import check
from auditor.service import pipelines as service
from auditor.store import pipelines, table_notes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.conftest import CHANGED
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table

pytestmark = pytest.mark.engines_in_turn

SECRET = "a text of no one's business"
NOTED = table("noted", ("id",), id="bigint", v="varchar(40) null", n="int null")
ON_POSTGRES = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
_numbers = itertools.count()


def reason(road: Road) -> str:
    notes = [one for one in table_notes.list_notes(road.store, PIPELINE) if one.kind == "poison"]
    assert len(notes) == 1, notes
    return notes[0].reason


@ON_POSTGRES
@pytest.mark.parametrize(
    ("columns", "row", "said", "way_on"),
    [
        (
            "v varchar(3), n int",
            ["7", SECRET, "1"],
            "value too long for type character varying(3), in column v",
            "widen the target's column",
        ),
        ("v varchar(60), n int NOT NULL", ["7", SECRET, None], 'null value in column "n" of relation "noted"', "DROP NOT NULL"),
        (
            "v varchar(60), n int CHECK (n < 5)",
            ["7", SECRET, "9"],
            'violates check constraint "noted_n_check"',
            "change the target's constraint",
        ),
        ("v varchar(60) UNIQUE, n int", ["7", SECRET, "9"], 'violates unique constraint "noted_v_key"', "drop the target's constraint"),
    ],
)
def test_what_postgres_refuses_is_said_with_its_names(road: Road, columns: str, row: list[str | None], said: str, way_on: str) -> None:
    road.execute(f"CREATE SCHEMA {road.schema}", f"CREATE TABLE {road.schema}.noted (id bigint PRIMARY KEY, {columns})")
    if "UNIQUE" in columns:
        road.execute(f"INSERT INTO {road.schema}.noted VALUES (99, '{SECRET.replace(chr(39), chr(39) * 2)}', 1)")
    road.stage(batch(announce(NOTED, 1), insert(NOTED, 10, ["1", "ab", "1"]), insert(NOTED, 20, row)))
    road.loader().merge_all()
    found = reason(road)
    assert said in found and "the row with id = 7" in found and way_on in found and SECRET not in found


@ON_POSTGRES
def test_a_row_without_a_partition_is_said_with_its_names(road: Road) -> None:
    parts = f"CREATE TABLE {road.schema}.noted_1 PARTITION OF {road.schema}.noted FOR VALUES FROM (0) TO (5)"
    made = f"CREATE TABLE {road.schema}.noted (id bigint PRIMARY KEY, v varchar(60), n int) PARTITION BY RANGE (id)"
    road.execute(f"CREATE SCHEMA {road.schema}", made, parts)
    road.stage(batch(announce(NOTED, 1), insert(NOTED, 10, ["1", "ab", "1"]), insert(NOTED, 20, ["7", SECRET, "1"])))
    road.loader(keys={"noted": TargetKeys(accept=("partitions noted",))}).merge_all()
    found = reason(road)
    assert 'no partition of relation "noted" found for row' in found and "the row with id = 7" in found and "add a partition" in found
    assert SECRET not in found


@pytest.mark.parametrize("engine", CHANGED, indirect=True)
@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("date", "2024-02-31", "shop.times.t holds a date that does not exist (2024-02-31)"),
        ("date", "2023-02-29", "shop.times.t holds a date that does not exist (2023-02-29)"),
        ("datetime(6)", "2024-04-31 10:00:00.000000", "shop.times.t holds a date that does not exist (2024-04-31)"),
        ("time", "25:00:00", "shop.times.t holds no time of day, as every target's TIME is (25:00:00)"),
        ("date", "2024-02-29", ""),
    ],
)
@pytest.mark.few
def test_dates_and_times_that_no_target_takes_are_said(road: Road, kind: str, value: str, said: str) -> None:
    times = table("times", ("id",), id="bigint", t=f"{kind} null")
    road.stage(batch(announce(times, 1), insert(times, 10, ["7", value])))
    road.loader().merge_all()
    found = [one.reason for one in table_notes.list_notes(road.store, PIPELINE) if one.kind == "poison"]
    assert (said in found[0] and "the row with id = 7" in found[0]) if said else found == []


@pytest.fixture
def checked(engine: LiveEngine, engines: Engines, tmp_path: Path) -> Iterator[LiveRoad]:
    log = LiveLog(engine.url)
    ((mode,),) = log.run("SELECT @@GLOBAL.sql_mode")
    log.run(
        "DROP TABLE IF EXISTS refused",
        "CREATE TABLE refused (id INT PRIMARY KEY, v VARCHAR(40), n INT, t TIME, d DATE)",
        "SET GLOBAL sql_mode = 'ALLOW_INVALID_DATES'",
    )
    schema = f"refused_{next(_numbers)}"
    made = LiveRoad(tmp_path, engine, "refused", into=engines.live("postgres").url, schema=schema)
    made.execute(
        f"DROP SCHEMA IF EXISTS {schema} CASCADE", f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.refused (id INT PRIMARY KEY, v VARCHAR(3), n INT NOT NULL, t TIME, d DATE)",
    )  # fmt: skip
    yield made
    made.execute(f"DROP SCHEMA {schema} CASCADE")
    made.close()
    log.run("DROP TABLE refused", f"SET GLOBAL sql_mode = '{mode}'")


@pytest.mark.alone  # changes the mode of the whole server
@pytest.mark.postgres
@on_both
def test_the_check_says_it_in_advance(checked: LiveRoad, engine: LiveEngine) -> None:
    found = "\n".join(one.sentence for one in check(checked.settings, PIPELINE, b"salt"))
    assert "refused.v is varchar(40), and character varying(3) in the target: a longer value would stop the table" in found
    assert "refused.n may be NULL in the source, and not in the target" in found and 'ALTER COLUMN "n" DROP NOT NULL' in found
    assert "refused.t is time: a duration that is negative or beyond 24 hours would stop the table" in found
    assert "sql_mode has ALLOW_INVALID_DATES" in found
    LiveLog(engine.url).run("SET sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO refused VALUES (1, 'abc', 1, '10:00:00', '2024-02-31')")
    checked.stage()
    checked.loader.merge_all()
    report = pipelines.list_merges(checked.store, PIPELINE)["wh"][f"{checked.database}.refused"]
    assert report.state == "stopped" and "a date that does not exist (2024-02-31)" in report.reason


@on_both
def test_names_of_tables_are_quoted_in_proposed_audits(engine: LiveEngine, tmp_path: Path) -> None:
    log, names = LiveLog(engine.url), ["or.ders", "a/b", 'q"t', "plain"]
    log.run(*(f"DROP TABLE IF EXISTS `{name}`" for name in names), *(f"CREATE TABLE `{name}` (id INT PRIMARY KEY)" for name in names))
    road = LiveRoad(tmp_path, engine, "*")
    proposed = {name: one for name, one in service.propose_audits(road.settings, PIPELINE).items() if name.removeprefix("shop_") in names}
    assert len(proposed) == len(names)
    config.add_audits(road.config_file, json.loads(json.dumps(proposed)))
    audits = config.load(road.config_file).audits
    for name in names:
        audit = audits[f"shop_{name}"]
        assert audit.source.place.parts == (name,) and audit.target.place.parts == ("shop", name)  # type: ignore[union-attr]
    road.close()
    log.run(*(f"DROP TABLE `{name}`" for name in names))
