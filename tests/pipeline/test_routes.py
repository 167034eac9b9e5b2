"""Rows of one table of a live server arrive in the tables of their routes, and the proposed audits find what is wrong in each."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor import config
from auditor.cli import main
from auditor.config import Audit
from auditor.connections.writer import open_writer, writing_dialect
from auditor.model import Report, Verdict
from auditor.pipeline import check as checks
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.incarnation import check_staging
from auditor.pipeline.refresh import use_cases
from auditor.pipeline.refresh.carrier import Carrier
from auditor.pipeline.reset import find_tables
from auditor.pipeline.run import read_values
from auditor.pipeline.staged_parts import sweep
from auditor.points import followed
from auditor.run import audit_run
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.store import parts, pipelines, refreshes, salt
from tests.binlog import LiveLog
from tests.live import Engines, engine_params
from tests.pipeline.aligned_road import AlignedRoad
from tests.pipeline.conftest import AND_LAKES, CHANGED
from tests.pipeline.killed import Killed
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, Road, pass_time
from tests.pipeline.running import Running
from tests.pipeline.test_schema_changes import add, change
from tests.pipeline.whole_road import WholeRoad
from tests.pipeline_events import announce, batch, delete, insert, table, update

pytestmark = pytest.mark.few

SOURCES = engine_params("mysql", "mariadb")
ROUTES = """{routed_orders: {table: [
  {name: orders_eu, when: "region = 'EU'"},
  {name: orders_large, when: "amount > 10 AND note <> 'no'"}]%s}}"""
OUTPUTS = ("orders_eu", "orders_large", "routed_orders")
CREATE = "CREATE TABLE routed_orders (id INT PRIMARY KEY, region VARCHAR(9), amount INT, note VARCHAR(20), day DATE)"
_schemas = itertools.count()


class Routed:
    """From a table of a live server into three of a target."""

    def __init__(self, folder: Path, source: Any, into: str, columns: str = ROUTES % "") -> None:
        self.log = LiveLog(source.url)
        self.clear()
        self.log.run(CREATE)
        self.road = LiveRoad(folder, source, "routed_*", columns, into, schema=f"routed_{next(_schemas)}")
        self.road.notes = True

    def clear(self) -> None:
        self.log.run("DROP TABLE IF EXISTS routed_orders, routed_other, routed_eu")

    def ids(self, *names: str) -> dict[str, list[int]]:
        """The keys in each of the target's tables, or in these."""
        found: dict[str, list[int]] = {}
        for name in names or OUTPUTS:
            there = self.named(name)
            found[name] = [int(row[0]) for row in self.road.query(f"SELECT id FROM {there} ORDER BY id")]
        return found

    def named(self, name: str) -> str:
        """A table of the target, as SQL text."""
        dialect = writing_dialect("warehouse", self.road.settings.connections["warehouse"])
        return dialect.names.table(self.road.schema, name)

    def reports(self) -> dict[str, Report]:
        """What the audits that the pipeline proposes find, by the target's table."""
        proposed = service.propose_audits(self.road.settings, PIPELINE)
        definitions = {name: Audit.model_validate(found) for name, found in proposed.items()}
        return {
            name.removeprefix(f"{PIPELINE}_"): audit_run.run(name, audit, self.road.settings.connections)
            for name, audit in definitions.items()
        }

    def verdicts(self) -> dict[str, Verdict | None]:
        return {name: report.verdict for name, report in self.reports().items()}

    def refresh(self, table: str | None = "routed_orders", **some: Any) -> list[refreshes.Refresh]:
        """Send rows of a table again, and stage and merge them."""
        asked = use_cases.request(self.road.settings, self.road.store, PIPELINE, table, **some)
        Carrier(self.road.settings, self.road.store, PIPELINE, threading.Event()).carry_out()
        return asked

    def stopped(self) -> dict[str, str]:
        found = status(self.road.settings, self.road.store, PIPELINE, look=False).stopped
        return {one.table.partition(".")[2]: one.reason for one in found}

    def skip(self) -> None:
        while found := status(self.road.settings, self.road.store, PIPELINE, look=False).stopped:
            service.skip(self.road.settings, self.road.store, PIPELINE, found[0].table, found[0].place, "sent again", by="ann")
        pass_time(self.road.loader)

    def close(self) -> None:
        self.road.drop()
        self.road.close()
        self.clear()


MATCHES = dict.fromkeys(OUTPUTS, Verdict.MATCH)


@pytest.fixture(params=SOURCES)
def routed(request: pytest.FixtureRequest, engines: Engines, loaded_url: str, tmp_path: Path) -> Iterator[Routed]:
    made = Routed(tmp_path, engines.live(request.param), loaded_url)
    yield made
    made.close()


@pytest.mark.quick_for("mysql-duckdb")
def test_rows_go_where_their_route_leads_and_audits_find_what_is_wrong_there(routed: Routed) -> None:
    log, road = routed.log, routed.road
    log.run("INSERT INTO routed_orders (id, region, amount, note) VALUES (1,'EU',5,'a'), (2,'US',50,'a'), (3,'US',1,'a'), (4,NULL,50,NULL)")
    log.run(
        "INSERT INTO routed_orders (id, region, amount, note) VALUES (5,NULL,50,'a'), (6,'eu',NULL,'a'), (7,'EU',50,'no'), (8,'x',50,'no')"
    )
    road.merge()
    assert routed.ids() == {"orders_eu": [1, 7], "orders_large": [2, 5], "routed_orders": [3, 4, 6, 8]}
    assert routed.verdicts() == MATCHES
    log.run("UPDATE routed_orders SET region = 'EU' WHERE id IN (2, 3)", "UPDATE routed_orders SET region = NULL WHERE id = 7")
    log.run("UPDATE routed_orders SET id = 20, amount = 99, note = 'b' WHERE id = 6", "DELETE FROM routed_orders WHERE id IN (1, 8)")
    log.run("BEGIN", "UPDATE routed_orders SET note = 'c' WHERE id = 4", "UPDATE routed_orders SET region = 'EU' WHERE id = 4", "COMMIT")
    road.merge()
    assert routed.ids() == {"orders_eu": [2, 3, 4], "orders_large": [5, 20], "routed_orders": [7]}
    assert routed.verdicts() == MATCHES
    eu, large, rest = (routed.named(name) for name in OUTPUTS)
    road.execute(f"UPDATE {eu} SET amount = 6 WHERE id = 3")
    road.execute(f"INSERT INTO {large} (id, region, amount) VALUES (77, 'EU', 1)")  # which no filter of this table would pass
    road.execute(f"UPDATE {rest} SET region = 'EU' WHERE id = 7")
    found = routed.reports()
    named = {
        name: [(one.kind, one.key["id"]) for one in report.differences.named] if report.differences else []
        for name, report in found.items()
    }
    assert named == {"orders_eu": [("changed", "3")], "orders_large": [("extra", "77")], "routed_orders": [("changed", "7")]}
    routed.refresh("orders_large")  # which is one of routed_orders
    road.merge()
    assert routed.verdicts() == MATCHES and routed.ids()["orders_large"] == [5, 20]


@pytest.mark.quick_for("mysql-duckdb")
def test_a_refresh_while_rows_change_brings_what_no_log_said_to_the_right_table(routed: Routed) -> None:
    log, road = routed.log, routed.road
    values = ", ".join(f"({n}, {'NULL' if n % 5 == 0 else repr('EU' if n % 2 else 'US')}, {n % 30}, 'a')" for n in range(1, 301))
    log.run(f"INSERT INTO routed_orders (id, region, amount, note) VALUES {values}")
    road.merge()
    assert routed.verdicts() == MATCHES
    log.run("SET sql_log_bin = 0", "UPDATE routed_orders SET region = IF(region = 'EU', 'US', 'EU') WHERE id % 7 = 0")
    log.run("DELETE FROM routed_orders WHERE id % 11 = 0", "SET sql_log_bin = 1")
    assert Verdict.MATCH not in {*routed.verdicts().values()}
    [asked] = use_cases.request(road.settings, road.store, PIPELINE, "routed_orders")
    carrier = Carrier(road.settings, road.store, PIPELINE, threading.Event())
    sending = threading.Thread(target=carrier.carry_out)
    sending.start()
    for number in itertools.count():
        log.run(f"UPDATE routed_orders SET region = IF(region = 'EU', NULL, 'EU') WHERE id % 13 = {number % 13}")
        if not sending.is_alive() and number >= 20:
            break
    sending.join()
    road.merge()
    assert routed.verdicts() == MATCHES
    [asked] = refreshes.get_refreshes(road.store, [asked.refresh])
    outputs_of = road.settings.pipeline(PIPELINE).outputs_of
    assert asked.state == "done" and use_cases.Arrival(road.store, PIPELINE, ["wh"], outputs_of).lacking([asked]) == {}
    # Keys alone, of rows that are in other tables now, or nowhere.
    log.run("SET sql_log_bin = 0", "UPDATE routed_orders SET region = 'EU' WHERE id IN (2, 4)", "DELETE FROM routed_orders WHERE id = 6")
    routed.refresh(keys=[["2"], ["4"], ["6"]])
    road.stage()
    arrival = use_cases.Arrival(road.store, PIPELINE, ["wh"], outputs_of)
    latest = refreshes.list_done(road.store, PIPELINE, [f"{road.database}.routed_orders"])[-1]
    assert arrival.lacking([latest]) == {"wh": outputs_of(f"{road.database}.routed_orders")}
    road.merge()
    assert routed.verdicts() == MATCHES and arrival.lacking([latest]) == {}


@pytest.mark.quick_for("mariadb-postgres")
def test_statements_of_the_source_reach_each_table(routed: Routed) -> None:
    log, road = routed.log, routed.road
    log.run("INSERT INTO routed_orders (id, region, amount, note) VALUES (1,'EU',5,'a'), (2,'US',50,'a'), (3,'US',1,'a')")
    road.merge()
    log.run(
        "ALTER TABLE routed_orders ADD COLUMN kind VARCHAR(9) NOT NULL DEFAULT 'new'", "ALTER TABLE routed_orders RENAME COLUMN day TO made"
    )
    log.run("INSERT INTO routed_orders (id, region, amount, note) VALUES (4,'EU',5,'a'), (5,'US',50,'a'), (6,'US',1,'a')")
    road.merge()
    for name, (old, new) in zip(OUTPUTS, ((1, 4), (2, 5), (3, 6)), strict=True):
        there = routed.named(name)
        assert road.query(f"SELECT id, kind, made FROM {there} ORDER BY id") == [(old, "new", None), (new, "new", None)], name
    assert routed.verdicts() == MATCHES
    log.run("TRUNCATE TABLE routed_orders", "INSERT INTO routed_orders (id, region) VALUES (9, 'EU')")
    road.merge()
    assert routed.ids() == {"orders_eu": [9], "orders_large": [], "routed_orders": []}
    log.run("DROP TABLE routed_orders", CREATE, "INSERT INTO routed_orders (id, region, amount, note) VALUES (1, 'US', 50, 'a')")
    road.merge()
    assert routed.ids() == {"orders_eu": [], "orders_large": [1], "routed_orders": []}
    log.run("ALTER TABLE routed_orders RENAME TO routed_other", "INSERT INTO routed_other (id, region) VALUES (2, 'EU')")
    road.stage()
    road.loader.merge_all()
    assert set(routed.stopped()) == {*OUTPUTS, "routed_other"} and "go into tables of other names" in routed.stopped()["routed_other"]
    log.run("RENAME TABLE routed_other TO routed_orders", "INSERT INTO routed_orders (id) VALUES (3)")
    road.stage()
    routed.skip()
    routed.refresh()
    road.stage()
    while routed.stopped():
        routed.skip()
        road.loader.merge_all()
    road.loader.merge_all()
    assert routed.verdicts() == MATCHES and routed.ids() == {"orders_eu": [2], "orders_large": [1], "routed_orders": [3]}


@pytest.mark.quick_for("mysql-duckdb")
def test_a_damaged_part_of_a_route_is_staged_again_and_the_catalogue_is_asked_for_its_source(routed: Routed) -> None:
    log, road = routed.log, routed.road
    road.salt = salt.get_salt(road.store)
    check_staging(road.store, PIPELINE, LocalFolder(road.root))
    for first in (1, 11):
        values = ", ".join(f"({n}, {'NULL' if n % 2 else repr('EU')}, {n})" for n in range(first, first + 10))
        log.run(f"INSERT INTO routed_orders (id, region, amount) VALUES {values}")
        road.stage()
    for path in sorted(road.root.glob("batches/*.arrows"))[:1]:
        path.unlink()
    for _ in range(3):
        road.loader.merge_all()
    road.merge()
    wanted = {"orders_eu": [*range(2, 21, 2)], "routed_orders": [*range(1, 21, 2)]}
    assert routed.ids(*wanted) == wanted, "where no row ever went there is no table"
    listed = [parts.list_parts(road.store, PIPELINE, f"{road.database}.{name}", 0)[0] for name in ("orders_eu", "routed_orders")]
    schemas = {one.table: TableSchema.from_json(json.dumps(parts.get_schema(road.store, PIPELINE, one.schema_id))) for one in listed}
    assert len({one.path for one in listed}) == 2, "each was staged again into a file of its own"
    assert [one.table for one in schemas.values()] == ["orders_eu", "routed_orders"]
    values_of = read_values(road.settings, PIPELINE, schemas)
    assert [*values_of[listed[0].table]] == ["id", "region", "amount", "note", "day"] and values_of.keys() == schemas.keys()
    assert {one.partition(".")[2] for one in find_tables(road.settings, road.store, PIPELINE)} == {*OUTPUTS}


ODD = """{routed_orders: {table: [
  {name: orders_eu, when: "region = 'EU'"}, {name: orders_large, when: "day < DATE '2020-01-01'"}], mask: [region], exclude: [day]}}"""


@pytest.mark.quick_for("duckdb-mysql")
@pytest.mark.parametrize("source", SOURCES)
def test_a_row_that_no_condition_can_be_asked_about_stops_with_its_key(
    source: str, engines: Engines, loaded_url: str, tmp_path: Path
) -> None:
    routed = Routed(tmp_path, engines.live(source), loaded_url, ODD)
    log, road = routed.log, routed.road
    try:
        log.run("INSERT INTO routed_orders VALUES (1,'EU',1,'a','2024-01-01'), (2,'US',1,'a','2019-01-01'), (3,'US',1,'a',NULL)")
        road.merge()
        assert routed.ids() == {"orders_eu": [1], "orders_large": [2], "routed_orders": [3]}
        assert routed.verdicts() == MATCHES, "by columns that the target does not have as they are"
        audits = service.propose_audits(road.settings, PIPELINE)
        assert audits["shop_orders_eu"].get("where_on") == "source" and audits["shop_orders_eu"].get("where") == "region = 'EU'"
        log.run("SET sql_mode = ''", "INSERT INTO routed_orders VALUES (4,'EU',1,'a','2024-00-10'), (5,'EU',1,'a',NULL)")
        log.run("UPDATE routed_orders SET amount = 2")
        road.stage()
        road.loader.merge_all()
        stopped = routed.stopped()
        assert set(stopped) == {"orders_large", "routed_orders"}
        assert all(reason.endswith("; the row with id = 4") for reason in stopped.values())
        assert routed.ids() == {"orders_eu": [1, 4, 5], "orders_large": [2], "routed_orders": [3]}
        routed.skip()
        road.loader.merge_all()
        assert routed.ids() == {"orders_eu": [1, 4, 5], "orders_large": [2], "routed_orders": [3]} and not routed.stopped()
        log.run("DELETE FROM routed_orders WHERE id = 4")
        road.stage()
        road.loader.merge_all()
        routed.skip()
        road.loader.merge_all()
        assert routed.verdicts() == MATCHES
    finally:
        routed.close()


@pytest.mark.parametrize("source", SOURCES)
def test_a_check_names_what_cannot_be_routed(source: str, engines: Engines, tmp_path: Path) -> None:
    columns = """{routed_orders: {table: [{name: routed_eu, when: "zone = 'EU'"}, {name: auditor_positions}]}}"""
    routed = Routed(tmp_path, engines.live(source), "", columns)
    try:
        routed.log.run("CREATE TABLE routed_eu (id INT PRIMARY KEY)")
        said = [one.sentence for one in checks.check(routed.road.settings, PIPELINE, b"salt") if one.severity == "error"]
        database = routed.road.database
        assert [one for one in said if f"the source has a table {database}.routed_eu, and rows of routed_orders go into a table of" in one]
        assert [one for one in said if f"where: {database}.routed_orders has no column 'zone'" in one]
        assert [one for one in said if f"{database}.auditor_positions would be" in one]
        assert len(said) == len({*said})
        routed.road.pipeline.table_targets["wh"].tables["routed_orders"] = config.TargetKeys(name="elsewhere")
        found = [one.sentence for one in checks.check(routed.road.settings, PIPELINE, b"salt") if one.severity == "warning"]
        assert "tables: routed_orders is no table there: its rows go into routed_eu, auditor_positions; name these" in found
    finally:
        routed.close()


ORDERS = table(id="bigint", region="varchar(9) null")


def order(number: int, region: str | None) -> list[str | None]:
    return [str(number), region]


@pytest.mark.quick_for("postgres")
@pytest.mark.parametrize("engine", CHANGED, indirect=True)
def test_what_is_killed_while_it_stages_or_merges_routed_rows_loses_and_doubles_none(road: Road) -> None:
    text = road.config_file.read_text()
    routes = """columns: {orders: {table: [{name: eu, when: "region = 'EU'"}, {name: us, when: "region = 'US'"}]}, guests"""
    road.config_file.write_text(text.replace("columns: {guests", routes))
    road.settings = config.load(road.config_file)
    killed, events = Killed(road.config_file, road.schema), road.folder / "events.parquet"
    regions: dict[int, str | None] = {}
    wheel = ("EU", "US", None)
    steps = ("part unfinished", "parts written", "parts listed")
    for round_, (step, merging) in enumerate(zip(steps, ("merged", "commit", "committed"), strict=True)):
        position = 100 * (round_ + 1)
        moved = {n: wheel[(n + round_) % 3] for n in regions if n % 2}
        new = {n: wheel[n % 3] for n in range(30 * round_, 30 * round_ + 30)}
        gone = [n for n in regions if n % 10 == 4][:2]
        changes = batch(
            announce(ORDERS, position),
            update(ORDERS, position, *((order(n, regions[n]), order(n, region)) for n, region in moved.items())),
            delete(ORDERS, position + 1, *(order(n, regions[n]) for n in gone)),
            insert(ORDERS, position + 2, *(order(n, region) for n, region in new.items())),
        )
        pq.write_table(pa.Table.from_batches([changes]), events)
        assert killed.stage_until(step, events) == "killed", step
        sweep(LocalFolder(road.root), parts.list_paths(road.store, PIPELINE))
        road.stage_task(changes)  # as Spark replays a batch that it has not committed
        regions = {n: region for n, region in (regions | moved | new).items() if n not in gone}
        assert killed.merge_until(merging) == "killed", merging
        road.loader().merge_all()
        held = {name: sorted(int(row[0]) for row in road.rows(name)) for name in ("eu", "us", "orders")}
        assert held == {
            name: sorted(n for n, one in regions.items() if one == region)
            for name, region in (("eu", "EU"), ("us", "US"), ("orders", None))
        }, step
    killed.close()
    assert {one.state for one in pipelines.list_merges(road.store, PIPELINE)["wh"].values()} == {"merged"}


def routed_by(road: Road) -> None:
    """Let orders of the EU go into eu, and all others into orders."""
    text = road.config_file.read_text()
    road.config_file.write_text(text.replace("columns: {", """columns: {orders: {table: {name: eu, when: "region = 'EU'"}}, """))
    road.settings = config.load(road.config_file)


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_row_that_changes_routes_is_in_one_table_at_any_moment(road: Road) -> None:
    routed_by(road)
    regions = {n: "EU" if n % 2 else None for n in range(40)}
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 9, *(order(n, region) for n, region in regions.items()))))
    road.loader().merge_all()
    both = " UNION ALL ".join(f"SELECT id FROM {road.dialect.names.table(road.schema, name)}" for name in ("eu", "orders"))
    seen: list[list[int]] = []

    def look(_: str) -> None:
        seen.append(sorted(int(row[0]) for row in road.query(both)))

    for position in range(10, 16):
        now = {n: None if region else "EU" for n, region in regions.items()}
        road.stage_task(
            batch(announce(ORDERS, position), update(ORDERS, position, *((order(n, regions[n]), order(n, now[n])) for n in regions)))
        )
        regions = now
        with followed("merge", look):
            road.loader().merge_all()
    assert len(seen) > 30 and all(one == [*range(40)] for one in seen)


@pytest.mark.parametrize("engine", CHANGED, indirect=True)
def test_a_copy_that_becomes_a_routed_table_changes_all_of_its_tables(road: Road) -> None:
    routed_by(road)
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 9, order(1, "EU"), order(2, None))))
    road.loader().merge_all()
    after = table(id="bigint", region="varchar(9) null", kind="varchar(9) null")
    road.stage_task(
        batch(change("_orders_gho", 20, {"op": "create", "sure": True}, beside="orders")),
        batch(change("_orders_gho", 21, add("kind", text="old"), beside="orders")),
        batch(change("orders", 22, {"op": "swapped", "from": "shop._orders_gho"})),
        batch(announce(after, 30), insert(after, 30, [*order(3, "EU"), "new"], [*order(4, None), "new"])),
    )
    loader = road.loader()
    while loader.merge_all():
        pass
    assert road.rows("eu") == [(1, "EU", "old"), (3, "EU", "new")] and road.rows() == [(2, None, "old"), (4, None, "new")]


@pytest.mark.parametrize("engine", AND_LAKES, indirect=True)
@pytest.mark.engines_in_turn
def test_each_kind_of_target_has_the_rows_of_each_route_with_what_is_computed(road: Road) -> None:
    """By a condition that a function makes never unknown, of rows that have NULL, too."""
    columns = """{orders: {table: {name: eu, when: "COALESCE(region, 'EU') = 'EU'"}, compute: {twice: {kind: integer, expr: id * 2}}}, """
    road.config_file.write_text(road.config_file.read_text().replace("columns: {", f"columns: {columns}"))
    road.settings = config.load(road.config_file)
    rows = [order(1, "EU"), order(2, None), order(3, "US"), order(4, "US")]
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 9, *rows)))
    loader = road.loader()
    loader.merge_all()
    assert road.rows("eu") == [(1, "EU", 2), (2, None, 4)] and road.rows() == [(3, "US", 6), (4, "US", 8)]
    moved = update(ORDERS, 20, (order(1, "EU"), order(1, "US")), (order(3, "US"), order(3, None)))
    road.stage_task(batch(announce(ORDERS, 20), moved, delete(ORDERS, 21, order(2, None), order(4, "US"))))
    while loader.merge_all():
        pass
    assert road.rows("eu") == [(3, None, 6)] and road.rows() == [(1, "US", 2)]


ALIGNED = """{aligned_routed: {table: [{name: dear, when: "price > 5"}, {name: none, when: "price IS NULL"}]}}"""


@pytest.mark.quick_for("postgres-live-rest-mariadb")
@pytest.mark.alone
@pytest.mark.parametrize("source", engine_params("mariadb", "mysql", slow=["mysql"]))
@pytest.mark.parametrize(
    ("output", "where"),
    [("dear", "price > 5"), ("", "(price > 5) IS NOT TRUE AND (price IS NULL) IS NOT TRUE")],
    ids=["route", "rest"],
)
@pytest.mark.parametrize("summaries", ["", "summaries: live, rescan: 7d, "], ids=["aligned", "live"])
def test_a_routed_table_is_audited_at_one_position_and_by_the_streams_sums(
    source: str, output: str, where: str, summaries: str, engines: Engines, loaded_url: str, tmp_path: Path
) -> None:
    more = f'{summaries}where: "{where}", where_on: source'
    schema = f"aligned_{next(_schemas)}"
    road = AlignedRoad(tmp_path, engines.live(source), "aligned_routed", loaded_url, schema, more, columns=ALIGNED, output=output)
    try:
        road.fill(100)
        road.log.run("UPDATE aligned_routed SET price = id % 12 WHERE id < 90")
        road.merge()
        with road.delivering():
            first = road.audit()
            assert (first.verdict, first.aligned is not None) == (Verdict.MATCH, True), (first.verdict, first.reasons)
            road.log.run(
                "UPDATE aligned_routed SET price = 11 - price WHERE id < 60", "UPDATE aligned_routed SET price = NULL WHERE id < 5"
            )
            road.log.run("UPDATE aligned_routed SET id = id + 1000 WHERE id > 95", "DELETE FROM aligned_routed WHERE id = 7")
            second = road.audit()
            assert second.verdict == Verdict.MATCH, second.reasons
            assert bool(second.live and not second.live.scanned) == bool(summaries), second.reasons
        table_name = output or "aligned_routed"
        dialect = writing_dialect("warehouse", road.settings.connections["warehouse"])
        road.execute(f"INSERT INTO {dialect.names.table(schema, table_name)} (id, price) VALUES (5000, NULL)")
        with road.delivering():
            third = road.audit()
        assert third.verdict == Verdict.MISMATCH and third.differences
        assert [(one.kind, one.key["id"]) for one in third.differences.named] == [("extra", "5000")]
    finally:
        road.close()


SPLIT = """\
columns: {routed_split: {table: [{name: split_eu, when: "region = 'EU'"}, {name: split_none, when: "region IS NULL"}]}}"""


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.parametrize("source", engine_params("mysql", "mariadb", slow=["mariadb"]))
def test_a_pipeline_splits_a_table_into_two_targets_and_the_audits_that_it_wrote_match(
    source: str, engines: Engines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engines.live("spark")
    road = WholeRoad(tmp_path, engines.live(source), engines.live("postgres"), "split", ["routed_split"], SPLIT)
    log, names = LiveLog(road.source.url), ("split_eu", "split_none", "routed_split")
    try:
        log.run("DROP TABLE IF EXISTS routed_split", "CREATE TABLE routed_split (id INT PRIMARY KEY, region VARCHAR(9), n INT)")
        beats = itertools.count(1)
        with Running(road.run()) as running:

            def is_read() -> bool:
                beat = next(beats)
                values = ", ".join(f"({3 * beat + i}, {region}, {beat})" for i, region in enumerate(("'EU'", "NULL", "'US'")))
                log.run(f"INSERT INTO routed_split VALUES {values}")
                return all(len(road.positions(name)) == 2 for name in names)

            running.until(is_read, every=0.3)
            log.run("UPDATE routed_split SET region = IF(region = 'EU', NULL, IF(region IS NULL, 'US', 'EU')), n = n + 1 WHERE id % 2 = 0")
            log.run("ALTER TABLE routed_split ADD COLUMN kind INT NOT NULL DEFAULT 7", "DELETE FROM routed_split WHERE id = 3")
            log.run("SET sql_log_bin = 0", "UPDATE routed_split SET region = 'EU' WHERE id = 5", "SET sql_log_bin = 1")
            asked = use_cases.request(road.settings, road.store, PIPELINE, "split_none")

            def has_come() -> bool:
                [done] = refreshes.get_refreshes(road.store, {one.refresh for one in asked})
                arrival = use_cases.Arrival(road.store, PIPELINE, ["pg", "duck"], road.settings.pipeline(PIPELINE).outputs_of)
                return done.state == "done" and not arrival.lacking([done])

            running.until(has_come, every=0.3)
        assert running.error is None
        assert main(["pipeline", "init", PIPELINE, "--config", str(road.path)]) == 0
        written = config.load(road.path)
        assert {*written.audits} == {f"shop_{name}_{target}" for name in names for target in ("pg", "duck")}, capsys.readouterr()
        assert {one.where_on for one in written.audits.values()} == {"source"}
        verdicts = {name: audit_run.run(name, audit, written.connections).verdict for name, audit in written.audits.items()}
        assert {*verdicts.values()} == {Verdict.MATCH}, verdicts
        with open_writer("pg", road.settings.connections["pg"]) as session:
            session.execute("INSERT INTO split.split_eu SELECT id, 'EU', n, kind FROM split.routed_split")
        found = audit_run.run("shop_split_eu_pg", written.audits["shop_split_eu_pg"], written.connections).differences
        assert found and {one.kind for one in found.named} == {"extra"}
    finally:
        road.close()
        log.run("DROP TABLE routed_split")
