"""Tables of a source that would be one table of a target are told apart, or refused; and so is what a target cannot name."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dialects
from auditor import config
from auditor.errors import ConfigError
from auditor.pipeline import check as checks
from auditor.pipeline.events import TableSchema
from auditor.pipeline.run import Run
from auditor.service.pipelines import propose_audits
from auditor.sql.table_definition import TableStatements
from auditor.store import open_store, pipelines
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.conftest import COMMITTED, QUICK, TARGETS
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_schema_changes import change, comes
from tests.pipeline_events import announce, batch, delete, refresh, table, update

pytestmark = pytest.mark.engines_in_turn

SOURCES = engine_params("mysql", "mariadb", "mariadb_new", slow=["mariadb_new"])
FOLDING = ("duckdb", "delta")
ORDERS = table(id="bigint", item="varchar(40) null")


def named(name: str, database: str = "shop") -> TableSchema:
    return TableSchema(database, name, ORDERS.columns, ORDERS.key)


def rename_by(road: Road, **chosen: Any) -> None:
    """Let the configuration of the target say this of names."""
    target = road.settings.pipelines[PIPELINE].table_targets["wh"]
    road.settings.pipelines[PIPELINE].targets["wh"] = config.PipelineTarget.model_validate(
        {"connection": target.connection, "schema": target.schema_, **chosen}
    )


def reports(road: Any) -> dict[str, tuple[str, str]]:
    return {name: (one.state, one.reason) for name, one in pipelines.list_merges(road.store, PIPELINE)["wh"].items()}


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_names_that_differ_in_case_are_two_tables_or_neither_goes_on(road: Road) -> None:
    road.stage_task(batch(comes(named("orders"), 10, ["1", "small"])), batch(comes(named("Orders"), 11, ["1", "large"])))
    road.loader().merge_all()
    if road.dialect.name in FOLDING:
        sentence = reports(road)["shop.orders"][1]
        assert (
            sentence.startswith("shop.orders and shop.Orders would be one table of the target wh, ")
            and "table: '{database}_{table}'" in sentence
        )
        assert {state for state, _ in reports(road).values()} == {"stopped"}
        rename_by(road, tables={"shop.Orders": {"name": "orders_2"}})
        road.loader().merge_all()
        assert road.rows("orders") == [(1, "small")] and road.rows("orders_2") == [(1, "large")]
    else:
        assert road.rows("orders") == [(1, "small")] and road.rows("Orders") == [(1, "large")]
    assert set(reports(road).values()) == {("merged", "")}


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_a_table_of_another_database_that_comes_later_stops_alone(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "first"])))
    road.loader().merge_all()
    road.stage_task(batch(comes(ORDERS, 20, ["2", "first"])), batch(comes(named("orders", "billing"), 21, ["1", "second"])))
    road.loader().merge_all()
    assert road.rows() == [(1, "first"), (2, "first")]
    found = reports(road)
    assert found["shop.orders"] == ("merged", "") and found["billing.orders"][0] == "stopped"
    assert found["billing.orders"][1].startswith("billing.orders and shop.orders would be one table of the target wh")
    road.stage_task(batch(change("orders", 30, {"op": "clear"})))
    rename_by(road, tables={"billing.orders": {"name": "invoices"}})
    road.loader().merge_all()
    assert road.rows() == [] and road.rows("invoices") == [(1, "second")]
    assert set(reports(road).values()) == {("merged", "")}


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_names_are_made_of_the_whole_name_in_the_source(road: Road) -> None:
    rename_by(road, table="{database}_{table}")
    road.stage_task(batch(comes(ORDERS, 10, ["1", "shop"])), batch(comes(named("orders", "billing"), 11, ["1", "billing"])))
    road.loader().merge_all()
    assert road.rows("shop_orders") == [(1, "shop")] and road.rows("billing_orders") == [(1, "billing")]
    road.stage_task(batch(change("orders", 20, {"op": "clear"}), comes(ORDERS, 30, ["2", "again"])))
    road.loader().merge_all()
    assert road.rows("shop_orders") == [(2, "again")] and set(reports(road).values()) == {("merged", "")}


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_schemas_are_made_of_the_whole_name_in_the_source(road: Road) -> None:
    schemas = [f"{road.schema}_{one}" for one in ("shop", "billing")]
    rename_by(road, schema=f"{road.schema}_{{database}}")
    road.stage_task(batch(comes(ORDERS, 10, ["1", "shop"])), batch(comes(named("orders", "billing"), 11, ["1", "billing"])))
    road.loader().merge_all()
    road.stage_task(batch(comes(ORDERS, 20, ["2", "shop"])))
    road.loader().merge_all()
    found = [road.query(f"SELECT item FROM {road.dialect.names.table(one, 'orders')} ORDER BY id") for one in schemas]
    try:
        assert found == [[("shop",), ("shop",)], [("billing",)]] and set(reports(road).values()) == {("merged", "")}
        if road.dialect.name not in ("delta", "parquet"):
            assert [
                road.query(f"SELECT table_name FROM {road.dialect.names.table(one, 'auditor_positions')} ORDER BY table_name")
                for one in schemas
            ] == [[("",), ("shop.orders",)], [("",), ("billing.orders",)]]
    finally:
        for one in schemas if road.dialect.name not in ("delta", "parquet") else ():
            cascade = "" if road.dialect.name == "mysql" else " CASCADE"
            road.execute(f"DROP SCHEMA IF EXISTS {road.dialect.names.quote(one)}{cascade}")


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id in QUICK], indirect=True)
def test_a_table_that_is_renamed_in_case_alone_keeps_its_rows(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "kept"])))
    loader = road.loader()
    loader.merge_all()
    road.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.Orders"})),
        batch(change("Orders", 20, {"op": "moved", "from": "shop.orders"}), comes(named("Orders"), 30, ["2", "new"])),
    )
    for _ in range(2):
        loader.merge_all()
    assert road.rows("Orders") == [(1, "kept"), (2, "new")] and set(reports(road).values()) == {("merged", "")}


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id in QUICK], indirect=True)
def test_a_table_of_the_target_that_the_pipeline_did_not_fill_is_not_dropped_by_a_rename(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "kept"])))
    loader = road.loader()
    loader.merge_all()
    road.execute(f"CREATE TABLE {road.schema}.later (id bigint PRIMARY KEY)", f"INSERT INTO {road.schema}.later VALUES (7)")
    road.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"}), comes(named("later"), 30, ["2", "new"])),
    )
    for _ in range(2):
        loader.merge_all()
    assert road.rows("later") == [(7,)] and road.rows() == [(1, "kept")]
    assert "which this pipeline did not fill; rename it or drop it there" in reports(road)["shop.later"][1]


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
@pytest.mark.parametrize("name", ["auditor_positions", "auditor_last", "Auditor_Positions", "auditor_stage_0123"])
def test_a_table_cannot_have_the_name_of_one_that_the_pipeline_makes_for_itself(road: Road, name: str) -> None:
    road.stage_task(batch(comes(named(name), 10, ["1", "a"])), batch(comes(ORDERS, 11, ["1", "a"])))
    road.loader().merge_all()
    assert road.rows() == [(1, "a")]
    state, sentence = reports(road)[f"shop.{name}"]
    assert state == "stopped" and "where the pipeline has a table of its own" in sentence
    rename_by(road, tables={name: {"name": "own"}})
    road.loader().merge_all()
    assert road.rows("own") == [(1, "a")]


def put_away(road: Road, back: bool) -> None:
    """Rename the table in the target, or rename it back."""
    old, new = ("away", "orders") if back else ("orders", "away")
    if road.dialect.name in ("delta", "parquet"):
        folder = road.folder / "lake" / road.schema
        (folder / old).rename(folder / new)
    elif road.dialect.name == "mysql":  # where a name without a schema is one of the session's database
        road.execute(f"RENAME TABLE {road.dialect.names.table(road.schema, old)} TO {road.dialect.names.table(road.schema, new)}")
    else:
        road.execute(TableStatements(road.dialect, road.dialect.names.table(road.schema, old)).rename_table(new))


def drop(road: Road, name: str) -> None:
    if road.dialect.name in ("delta", "parquet"):
        shutil.rmtree(road.folder / "lake" / road.schema / name)
    else:
        road.execute(f"DROP TABLE {road.dialect.names.table(road.schema, name)}")


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
@pytest.mark.parametrize("again", [False, True], ids=["same session", "new session"])
def test_a_table_that_was_renamed_or_dropped_by_hand_is_not_made_anew(road: Road, again: bool) -> None:
    now = itertools.count(0, 100)
    road.stage_task(batch(comes(ORDERS, 10, ["1", "old"])), batch(comes(named("healthy"), 10, ["1", "a"])))
    loader = road.loader(clock=lambda: next(now))
    loader.merge_all()
    put_away(road, back=False)
    if again:
        loader.close()
        loader = road.loader(clock=lambda: next(now))
    road.stage_task(batch(comes(ORDERS, 20, ["2", "new"])), batch(comes(named("healthy"), 20, ["2", "a"])))
    for _ in range(3):
        loader.merge_all()
    state, sentence = reports(road)["shop.orders"]
    assert state == "stopped" and re.match(
        r"shop.orders: rows of it were merged, and the target has no .*orders.* any more; rename it", sentence
    )
    assert reports(road)["shop.healthy"] == ("merged", "") and len(road.rows("healthy")) == 2
    put_away(road, back=True)
    loader.merge_all()
    assert road.rows() == [(1, "old"), (2, "new")] and reports(road)["shop.orders"] == ("merged", "")
    drop(road, "orders")
    road.stage_task(batch(comes(ORDERS, 30, ["3", "new"])))
    for _ in range(3):
        loader.merge_all()
    state, sentence = reports(road)["shop.orders"]
    assert state == "stopped" and "any more; rename it back" in sentence
    if road.dialect.writing.WRITES_COMMITS:
        return
    made = re.search(
        r"make it anew \((CREATE TABLE .*)\) and send its rows \(auditor pipeline refresh shop --table shop.orders --apply\)", sentence
    )
    assert made
    road.execute(made[1])
    loader.merge_all()
    assert road.rows() == [(3, "new")] and reports(road)["shop.orders"] == ("merged", "")


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_a_schema_that_was_dropped_by_hand_is_not_filled_with_the_parts_that_are_kept(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "old"])))
    road.loader().merge_all()
    road.loaders.pop().close()
    if road.dialect.name in ("delta", "parquet"):
        shutil.rmtree(road.folder / "lake" / road.schema)
    else:
        road.execute(f"DROP SCHEMA {road.dialect.names.quote(road.schema)}{'' if road.dialect.name == 'mysql' else ' CASCADE'}")
    road.stage_task(batch(comes(ORDERS, 20, ["2", "new"])))
    road.loader().merge_all()
    state, sentence = reports(road)["shop.orders"]
    assert state == "stopped" and "says nothing of shop.orders, and held it up to 000000:10: the target was emptied" in sentence


@pytest.mark.parametrize("engine", COMMITTED, indirect=True)
def test_a_table_that_was_made_anew_by_hand_is_not_filled_with_the_parts_that_are_kept(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "old"])), batch(comes(named("healthy"), 10, ["1", "a"])))
    road.loader().merge_all()
    road.loaders.pop().close()
    lake = road.folder / "lake" / road.schema
    drop(road, "orders")
    shutil.copytree(lake / "healthy", lake / "orders")
    road.stage_task(batch(comes(ORDERS, 20, ["2", "new"])), batch(comes(named("healthy"), 20, ["2", "a"])))
    road.loader().merge_all()
    state, sentence = reports(road)["shop.orders"]
    assert state == "stopped" and "rows of it were merged, and the target's table does not say so: it was made anew" in sentence
    assert reports(road)["shop.healthy"] == ("merged", "") and len(road.rows("healthy")) == 2


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id in QUICK], indirect=True)
def test_a_table_that_the_source_emptied_is_made_anew_where_it_was_dropped(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "old"])))
    loader = road.loader()
    loader.merge_all()
    drop(road, "orders")
    road.stage_task(batch(change("orders", 20, {"op": "clear"}), comes(ORDERS, 30, ["2", "new"])))
    loader.merge_all()
    assert road.rows() == [(2, "new")] and set(reports(road).values()) == {("merged", "")}


OWN = ("auditor_op", "AUDITOR_ROW", "auditor_position", "auditor_attempt", "auditor_rank", "auditor_last", "auditor_bounds",
       "auditor_one", "auditor1_op", "one", "nothing", "merged", "changed", "ranked", "stage", "last",
       "auditor_created_by", "position", "pipeline",
       "rowid", "file", "select", "a b", "a.b", "a/b", "quo'te", 'quo"te', "back`tick", "per%cent", "%s", "{x}", "名前")  # fmt: skip
"""Names of columns that statements of a pipeline use for something else, or that have to be quoted."""


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_no_name_of_a_column_means_something_else(road: Road) -> None:
    chosen = [one for one in OWN if one.isidentifier() or road.dialect.name != "redshift"]  # whose stand-in reads no others in COPY
    wide = table("wide", ("id", "auditor_op"), **{"id": "bigint", **dict.fromkeys(chosen, "varchar(40)")})
    old, new, other = (["1", *(f"{text}{number}" for number in range(len(chosen)))] for text in ("old", "new", "other"))
    new[1], other[0] = old[1], "2"
    road.stage_task(batch(comes(wide, 10, old, other)))
    loader = road.loader()
    assert loader.merge_all() == 2
    road.stage_task(batch(announce(wide, 20), update(wide, 20, (old, new)), delete(wide, 21, other)))
    loader.merge_all()
    assert reports(road)["shop.wide"] == ("merged", "") and [list(map(str, row)) for row in road.rows("wide")] == [new]
    road.stage_task(batch(announce(wide, 30), refresh(wide, 30, new, bounds=([None] * len(new), [None] * len(new)))))
    loader.merge_all()
    assert reports(road)["shop.wide"] == ("merged", "") and [list(map(str, row)) for row in road.rows("wide")] == [new]


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_a_column_whose_name_begins_as_ours_leaves_changes_as_they_are(road: Road) -> None:
    named = table("named", id="bigint", auditor_mark="varchar(40)")
    road.stage_task(batch(comes(named, 10, ["1", "i"], ["2", "d"], ["3", "d"])))
    loader = road.loader()
    loader.merge_all()
    road.stage_task(batch(announce(named, 20), update(named, 20, (["2", "d"], ["2", "e"])), delete(named, 21, ["1", "i"])))
    loader.merge_all()
    assert reports(road)["shop.named"] == ("merged", "") and [list(map(str, row)) for row in road.rows("named")] == [["2", "e"], ["3", "d"]]


@pytest.mark.parametrize("engine", TARGETS, indirect=True)
def test_columns_that_each_table_has_already_are_refused_until_they_are_renamed(road: Road) -> None:
    taken = {"mysql": ["DB_ROW_ID", "db_trx_id"], "duckdb": []}.get(road.dialect.name, ["xmin", "ctid", "tableoid", "cmax"])
    for number, name in enumerate(taken):
        road.stage_task(batch(comes(table(f"t{number}", id="bigint", **{name: "varchar(9)"}), 10, ["1", "a"])))
        road.loader().merge_all()
        state, sentence = reports(road)[f"shop.t{number}"]
        said = f"shop.t{number}: the column's name {name} is that of a column which each table of {road.dialect.name} has already"
        assert (
            state == "stopped"
            and sentence == f"{said}; give it another one by columns: {{t{number}: {{rename: {{{name}: ANOTHER}}}}}}, or exclude it"
        )


@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_names_that_are_too_long_are_refused_and_the_longest_are_not_cut(road: Road) -> None:
    limit, unit = road.dialect.writing.NAME_LIMIT or (300, "bytes")
    longest = "t" * (limit - 1)
    bounded = road.dialect.writing.NAME_LIMIT is not None
    if road.dialect.name != "redshift":  # whose stand-in is PostgreSQL, which cuts them earlier
        road.stage_task(batch(comes(named(f"{longest}a"), 10, ["1", "a"])), batch(comes(named(f"{longest}b"), 10, ["1", "b"])))
    road.stage_task(batch(comes(named(f"{longest}bc"), 10, ["1", "c"])))
    road.loader().merge_all()
    if road.dialect.name != "redshift":
        assert [road.rows(f"{longest}{one}") for one in "ab"] == [[(1, "a")], [(1, "b")]]
    state, sentence = reports(road)[f"shop.{longest}bc"]
    assert state == ("stopped" if bounded else "merged")
    assert sentence.startswith(f"shop.{longest}bc: the name {longest}bc has {limit + 1} {unit}, and names of" if bounded else "")
    if bounded:
        rename_by(road, tables={f"{longest}bc": {"name": "shorter"}})
        road.loader().merge_all()
        assert road.rows("shorter") == [(1, "c")]
    if bounded and road.dialect.name != "delta":
        columns = table("long_column", id="bigint", **{f"{longest}{one}": "varchar(9)" for one in ("a", "b", "bc")})
        road.stage_task(batch(comes(columns, 20, ["1", "a", "b", "c"])))
        road.loader().merge_all()
        assert reports(road)["shop.long_column"][1].startswith(f"shop.long_column: the column's name {longest}bc has {limit + 1} {unit}")


NAMES = ("or.ders", "a/b", "..", "quo'te", 'quo"te', "back`tick", "sp ace", "per%cent", "per%2Fcent", "what?", "sha#rp", "a\\b", "{table}",
         "名" * 40, "名" * 39 + "前", "ß" * 64, "select", "_under", "a:b", "a+b")  # fmt: skip
"""Names of tables in a source. A file system takes the longest only where they are shortened."""


@pytest.mark.quick_for("postgres", "duckdb")
@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
@pytest.mark.few
def test_a_table_arrives_whatever_its_name(road: Road) -> None:
    names = [name for name in NAMES if road.dialect.name != "redshift" or len(name.encode()) < 64]  # what its stand-in does not cut
    road.stage_task(*(batch(comes(named(name), 10 + number, [str(number), name])) for number, name in enumerate(names)))
    road.loader().merge_all()
    refused = [name for name in names if road.dialect.writing.refuse_name(name, "table")]
    assert {
        name: report for name, report in reports(road).items() if report != ("merged", "") and name.removeprefix("shop.") not in refused
    } == {}
    assert all(
        report[0] == "stopped" and "give it another one by" in report[1] for name, report in reports(road).items() if name[5:] in refused
    )
    unnamed = {"postgres": NAMES[13:16], "delta": ("a/b", "..", "per%cent", "per%2Fcent", "what?", "sha#rp", "a\\b")}
    assert refused == [name for name in names if name in unnamed.get(road.dialect.name, ())]
    for number, name in enumerate(names):
        assert name in refused or road.rows(name) == [(number, name)]
    road.stage_task(*(batch(change(name, 100 + number, {"op": "clear"})) for number, name in enumerate(names)))
    road.loader().merge_all()
    assert [name for name in names if name not in refused and road.rows(name)] == []


@pytest.mark.parametrize("source", engine_params("mariadb", "mariadb_new", slow=["mariadb_new"]))
def test_a_sequence_is_passed_by(source: str, engines: Engines, tmp_path: Path) -> None:
    with databases(engines.live(source), "names_a") as log:
        road = LiveRoad(tmp_path, engines.live(source), "names_a.*")
        road.notes = True
        try:
            log.run("CREATE SEQUENCE names_a.s CACHE 2", "CREATE TABLE names_a.t (id int PRIMARY KEY)")
            log.run(*("INSERT INTO names_a.t VALUES (nextval(names_a.s))",) * 5, "ALTER SEQUENCE names_a.s RESTART 50")
            log.run("INSERT INTO names_a.t VALUES (nextval(names_a.s))", "DROP SEQUENCE names_a.s")
            road.merge()
            assert road.query("SELECT id FROM shop.t ORDER BY 1") == [(1,), (2,), (3,), (4,), (5,), (50,)]
            assert set(pipelines.list_merges(road.store, PIPELINE)["wh"]) == {"names_a.t"}
        finally:
            road.close()


@pytest.mark.slow_on("mysql")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.few
def test_tables_of_any_name_arrive_from_a_log(source: str, engines: Engines, tmp_path: Path) -> None:
    with databases(engines.live(source), "names_a") as log:
        road = LiveRoad(tmp_path, engines.live(source), "names_a.*")
        road.notes = True
        written = {name: f"names_a.`{name.replace('`', '``')}`" for name in NAMES}
        try:
            for number, one in enumerate(written.values()):
                log.run(
                    f"CREATE TABLE {one} (id int PRIMARY KEY)",
                    f"INSERT INTO {one} VALUES ({number}), (1000)",
                    f"DELETE FROM {one} WHERE id = 1000",
                )
            road.merge()
            duckdb = dialects.get("duckdb")
            assert [road.query(f"SELECT id FROM {duckdb.names.table('shop', name)}") for name in NAMES] == [
                [(one,)] for one in range(len(NAMES))
            ]
            log.run(*(f"TRUNCATE TABLE {one}" for one in written.values()))
            road.merge()
            assert [name for name in NAMES if road.query(f"SELECT id FROM {duckdb.names.table('shop', name)}")] == []
        finally:
            road.close()


@pytest.mark.parametrize("source", SOURCES)
def test_check_says_what_a_target_cannot_name(source: str, engines: Engines, tmp_path: Path) -> None:
    live, long = engines.live(source), "長" * 22
    with databases(live, "names_a") as log:
        log.run("CREATE TABLE names_a.t (id int PRIMARY KEY, xmin int)", f"CREATE TABLE names_a.`{long}` (id int PRIMARY KEY)")
        log.run("CREATE TABLE names_a.own (auditor_op int PRIMARY KEY, auditor_row int)")
        url = engines.live("postgres").url
        settings = settings_of(tmp_path, live.url, url, '["names_a.*"]')
        found = [one.sentence for one in checks.check(settings, PIPELINE, b"salt") if one.severity == "error"]
        assert [one.partition(";")[0] for one in found] == [
            "names_a.t: the column's name xmin is that of a column which each table of postgres has already",
            f"names_a.{long}: the name {long} has 66 bytes, and names of postgres have 63 at most",
        ]


@contextmanager
def databases(source: LiveEngine, *names: str) -> Iterator[LiveLog]:
    log = LiveLog(source.url)
    log.run(*(text for name in names for text in (f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`")))
    try:
        yield log
    finally:
        log.run(*(f"DROP DATABASE IF EXISTS `{name}`" for name in names))


def settings_of(folder: Path, source: str, into: str, tables: str, more: str = "") -> config.Settings:
    path = folder / "auditor.yaml"
    path.write_text(
        f"""\
connections:
  source: {{url: "{source}"}}
  warehouse: {{url: "{into}", write: {{url: "{into}"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: {tables}}}
    staging: {{path: "{folder}/staging"}}
    targets: {{wh: {{connection: warehouse, schema: names{more}}}}}
"""
    )
    return config.load(path)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("into", engine_params("postgres", "duckdb"))
def test_check_and_start_refuse_tables_that_would_be_one(
    source: str, into: str, engines: Engines, tmp_path: Path, empty_store: Path
) -> None:
    live = engines.live(source)
    url = f"duckdb:///{tmp_path}/warehouse.duckdb" if into == "duckdb" else engines.live(into).url
    with databases(live, "names_a", "names_b") as log:
        log.run(
            *(f"CREATE TABLE {one} (id int PRIMARY KEY)" for one in ("names_a.t", "names_b.t", "names_b.v", "names_b.V", "names_b.own")),
            "CREATE VIEW names_b.w AS SELECT * FROM names_b.t",
            *(["CREATE SEQUENCE names_b.s"] if source == "mariadb" else []),
        )
        settings = settings_of(tmp_path, live.url, url, '["names_?.*"]')
        findings = [one for one in checks.check(settings, PIPELINE, b"salt") if one.severity != "note"]  # of a version that was not tried
        found = {one.sentence.partition(";")[0] for one in findings if one.subject == "target wh"}
        wanted = {"names_a.t and names_b.t would be one table of the target wh, names.t"}
        if into in FOLDING:
            wanted.add("names_b.V and names_b.v would be one table of the target wh, names.V")
        assert found == wanted
        with pytest.raises(ConfigError, match=re.escape("names_a.t and names_b.t would be one table of the target wh, names.t")):
            Run(settings, tmp_path / "auditor.yaml", open_store(f"sqlite:///{empty_store}"), PIPELINE, ["wh"]).run()
        settings = settings_of(
            tmp_path, live.url, url, '["names_?.*"]', ", table: '{database}_{table}', tables: {names_b.V: {name: large}}"
        )
        assert [one for one in checks.check(settings, PIPELINE, b"salt") if one.severity == "error"] == []
        audits = {name: (one["source"]["table"], one["target"]["table"]) for name, one in propose_audits(settings, PIPELINE).items()}
        assert audits["shop_names_a_t"] == ("names_a.t", "names.names_a_t") and audits["shop_names_b_V"] == ("names_b.V", "names.large")


@pytest.mark.parametrize("source", SOURCES)
def test_tables_of_two_databases_arrive_in_schemas_of_their_own(source: str, engines: Engines, tmp_path: Path) -> None:
    with databases(engines.live(source), "names_a", "names_b") as log:
        log.run("CREATE TABLE names_a.t (id int PRIMARY KEY)", "CREATE TABLE names_b.t (id int PRIMARY KEY)")
        road = LiveRoad(tmp_path, engines.live(source), "names_?.*", schema="'{database}'")
        road.notes = True
        try:
            log.run("INSERT INTO names_a.t VALUES (1), (2)", "INSERT INTO names_b.t VALUES (2), (3)", "DELETE FROM names_a.t WHERE id = 2")
            road.merge()
            assert road.query("SELECT id FROM names_a.t") == [(1,)]
            assert road.query("SELECT id FROM names_b.t ORDER BY 1") == [(2,), (3,)]
            log.run("RENAME TABLE names_a.t TO names_b.u", "INSERT INTO names_b.u VALUES (9)")
            road.stage()
            road.loader.merge_all()
            assert "which is in another schema of the target, and a pipeline moves no table there" in reports(road)["names_b.u"][1]
            assert road.query("SELECT id FROM names_a.t") == [(1,)]
        finally:
            road.close()
