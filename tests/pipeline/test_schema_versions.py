"""The versions of tables: what each has, by which statement, who holds it, and what breaks readers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from auditor import config
from auditor.api_models.pipeline import SchemaVersion
from auditor.cli import main
from auditor.config import Audit
from auditor.errors import ConfigError
from auditor.pipeline.folders import folder_at
from auditor.pipeline.run import read_values
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.staging import Staging
from auditor.service import schema_versions, stored_runs
from auditor.store import pipelines
from tests.binlog import LiveLog
from tests.live import Engines, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_schema_changes import add, change, comes, rename
from tests.pipeline_events import batch, table

ORDERS = table(id="bigint", item="varchar(40) null")
PRICED = table(id="bigint", item="varchar(40) null", price="int null")
NARROW = table(id="bigint", item="varchar(20) null", price="int null")

pytestmark = pytest.mark.parametrize("engine", engine_params("duckdb", "postgres", slow=["postgres"]), indirect=True)


def stage(road: Road) -> None:
    """Orders that get a price, whose items get shorter, and that are then as they were at first."""
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"])))
    more = {"statement": "ALTER TABLE orders\n  ADD price int"}
    road.stage_task(batch(change("orders", 20, add("price", text=None), **more), comes(PRICED, 30, ["2", "ink", "7"])))
    road.stage_task(batch(change("orders", 40, {"op": "modify", "column": "item"}), comes(NARROW, 50, ["3", "cap", "8"])))
    road.stage_task(batch(change("orders", 60, {"op": "drop", "column": "price"}), comes(ORDERS, 70, ["4", "nib"])))


def test_versions_have_their_columns_changes_and_targets(road: Road) -> None:
    stage(road)
    road.loader().merge_all()
    pipelines.report_merges(road.store, PIPELINE, "slow", {"shop.orders": pipelines.MergeNews(30, "merged")})
    found = schema_versions.list_versions(road.settings, road.store, PIPELINE)
    assert [(one.version, one.place.partition(":")[2], one.targets) for one in found] == [
        (1, "10", []), (2, "30", ["slow"]), (3, "50", []), (1, "70", ["wh"]),
    ]  # fmt: skip
    assert [[(one.sentence, one.breaks_readers) for one in version.changes] for version in found] == [
        [],
        [("price (int) was added", False)],
        [("item is varchar(20) and was varchar(40), which does not hold all that it held", True)],
        [("price was dropped", True), ("item is varchar(40) and was varchar(20)", False)],
    ]
    assert found[1].statements == ["ALTER TABLE orders\n  ADD price int"]
    assert [(one.name, one.type, one.nullable, one.in_key) for one in found[0].columns] == [
        ("id", "bigint", False, True), ("item", "varchar(40)", True, False),
    ]  # fmt: skip


def test_a_renamed_column_breaks_readers(road: Road) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"])))
    named = table(id="bigint", product="varchar(40) null")
    road.stage_task(batch(change("orders", 20, rename("item", "product")), comes(named, 30, ["2", "ink"])))
    [_, second] = schema_versions.list_versions(road.settings, road.store, PIPELINE, "orders")
    assert [(one.sentence, one.breaks_readers) for one in second.changes] == [("item is called product", True)]


def test_a_table_is_made_for_any_version(road: Road) -> None:
    stage(road)

    def create(engine: str, version: int | None = None) -> str:
        return " ".join(schema_versions.create_statement(road.settings, road.store, PIPELINE, "orders", engine, version).split())

    assert "price" not in create("postgres") and '"price" BIGINT' in create("postgres", 2)
    assert create("mysql", 3).startswith("CREATE TABLE") and "`price`" in create("mysql", 3)
    with pytest.raises(ConfigError, match="has 3 versions; there is no version 4"):
        create("postgres", 4)
    with pytest.raises(ConfigError, match="no table is made on 'oracle'"):
        create("oracle")


def test_a_change_that_breaks_readers_stops_the_table_where_that_is_asked_for(road: Road) -> None:
    stage(road)
    road.loader(on_breaking="stop").merge_all()
    report = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"]
    assert (report.state, report.position) == ("stopped", 30), "what breaks nobody is followed"
    assert "item is varchar(20) and was varchar(40)" in report.reason and "set on_breaking: follow" in report.reason
    assert road.rows() == [(1, "pen", None), (2, "ink", 7)]
    road.stage_task(batch(comes(ORDERS, 80, ["5", "pot"])))
    loader = road.loader()
    while loader.merge_all():
        pass
    assert road.rows() == [(1, "pen"), (2, "ink"), (3, "cap"), (4, "nib"), (5, "pot")]


def test_the_command_prints_versions_and_statements(road: Road, capsys: pytest.CaptureFixture[str]) -> None:
    stage(road)

    def run(*words: str) -> int:
        return main(["pipeline", "schemas", PIPELINE, *words, "--config", str(road.config_file)])

    assert run("orders") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("shop.orders: version 1 from ") and "  id bigint NOT NULL, in the key" in told
    assert "  by: ALTER TABLE orders ADD price int" in told and "  price was dropped; this breaks readers" in told
    assert run("--format", "json") == 0
    assert len([SchemaVersion.model_validate(one) for one in json.loads(capsys.readouterr().out)]) == 4
    assert run("orders", "--create", "duckdb", "--version", "2") == 0
    assert '"price" BIGINT' in capsys.readouterr().out
    for wrong, why in (
        (["--create", "duckdb"], "name it"),
        (["--version", "2"], "add --create"),
        (["other"], "has staged nothing of a table 'other'"),
    ):
        assert run(*wrong) == 2
        assert why in capsys.readouterr().err


def test_owner_and_docs_are_shown(road: Road, capsys: pytest.CaptureFixture[str]) -> None:
    about = "orders: {owner: shop team, doc: what customers ordered, docs: {Item: what it is called}, rename: {item: label}}"
    road.config_file.write_text(road.config_file.read_text().replace("columns: {", f"columns: {{{about}, "))
    labelled = table(id="bigint", label="varchar(40) null")
    road.stage_task(batch(comes(labelled, 10, ["1", "pen"])))
    [version] = schema_versions.list_versions(config.load(road.config_file), road.store, PIPELINE, "orders")
    assert (version.owner, version.doc) == ("shop team", "what customers ordered")
    assert {column.name: column.doc for column in version.columns} == {"id": "", "label": "what it is called"}
    assert main(["pipeline", "schemas", PIPELINE, "orders", "--config", str(road.config_file)]) == 0
    told = capsys.readouterr().out
    assert "  owner: shop team\n  holds: what customers ordered\n" in told and "  label varchar(40): what it is called\n" in told


def test_reports_of_audits_say_who_owns_the_table(road: Road) -> None:
    about = "orders: {owner: shop team, doc: what customers ordered, docs: {item: what it is called}}"
    road.config_file.write_text(road.config_file.read_text().replace("columns: {", f"columns: {{{about}, "))
    settings = config.load(road.config_file)
    source, target = {"connection": "source", "table": "orders"}, {"connection": "warehouse", "table": f"{road.schema}.orders"}
    stage(road)
    assert stored_runs.notes_on_pipelines(settings, road.store, Audit.model_validate({"source": source, "target": target})) == (
        "pipeline shop: shop team owns shop.orders",
        "pipeline shop: shop.orders holds: what customers ordered",
        "pipeline shop: columns of shop.orders: item: what it is called",
    )


@pytest.mark.parametrize("source", [pytest.param(one, marks=getattr(pytest.mark, one)) for one in ("mysql", "mariadb")])
def test_the_comments_of_the_source_say_what_columns_hold(source: str, road: Road, engines: Engines) -> None:
    log = LiveLog(engines.live(source).url)
    log.run(
        "DROP TABLE IF EXISTS told",
        "CREATE TABLE told (id bigint PRIMARY KEY, item varchar(40) COMMENT 'what it''s called', n int COMMENT 'x')",
    )
    about = 'told: {docs: {n: how many}, compute: {two: {kind: integer, expr: "n * 2"}}}'
    text = road.config_file.read_text().replace("columns: {", f"columns: {{{about}, ").replace("mysql://nobody@localhost/shop", log.url)
    road.config_file.write_text(text)
    road.settings = config.load(road.config_file)
    told = replace(table("told", id="bigint", item="varchar(40) null", n="int null"), database=log.database)
    rules = TableRules(road.settings.pipeline(PIPELINE), b"salt")
    rows = [row for one in stage_task(str(road.root), rules, [batch(comes(told, 10, ["1", "pen", "2"]))]) for row in one.to_pylist()]
    staging = Staging(road.store, PIPELINE, folder_at(str(road.root)), rules)
    staging.complete = partial(read_values, road.settings, PIPELINE)
    staging.record_batch(read_entries(rows)[0], None)
    [version] = schema_versions.list_versions(road.settings, road.store, PIPELINE, "told")
    assert {column.name: column.doc for column in version.columns} == {
        "id": "", "item": "what it's called", "n": "how many", "two": "computed by n * 2",
    }  # fmt: skip


def test_what_is_said_of_a_table_is_shown_with_each_into_which_its_rows_go(road: Road) -> None:
    about = "orders: {owner: shop team, docs: {item: what it is called}, rename: {item: label}, table: {name: eu, when: id = 1}}"
    road.config_file.write_text(road.config_file.read_text().replace("columns: {", f"columns: {{{about}, "))
    road.settings = config.load(road.config_file)
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"], ["2", "ink"])))
    found = schema_versions.list_versions(road.settings, road.store, PIPELINE)
    assert [(one.table, one.owner, one.columns[1].doc) for one in found] == [
        ("shop.eu", "shop team", "what it is called"), ("shop.orders", "shop team", "what it is called"),
    ]  # fmt: skip


class Noting(LiveRoad):
    """A pipeline that notes statements that change tables."""

    notes = True


@pytest.mark.mysql
@pytest.mark.alone
def test_a_servers_statements_are_kept_with_the_versions(road: Road, engines: Engines) -> None:
    source = engines.live("mysql")
    log = LiveLog(source.url)
    log.run("DROP TABLE IF EXISTS versioned", "CREATE TABLE versioned (id int PRIMARY KEY, v varchar(9))")
    folder = road.folder / "live"
    folder.mkdir()
    live = Noting(folder, source, "versioned")
    log.run("INSERT INTO versioned VALUES (1, 'a')", "ALTER TABLE versioned ADD n int DEFAULT 5, RENAME COLUMN v TO w")
    log.run("INSERT INTO versioned VALUES (2, 'b', 6)")
    live.merge()
    [_, second] = schema_versions.list_versions(live.settings, live.store, PIPELINE, "versioned")
    assert second.statements == ["ALTER TABLE versioned ADD n int DEFAULT 5, RENAME COLUMN v TO w"]
    assert [one.sentence for one in second.changes] == ["v is called w", "n (int) was added"] and second.targets == ["wh"]
    live.close()
