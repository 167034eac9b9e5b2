"""A merge updates rows that are there, and deletes and inserts no others: what hangs on them in the target stays."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

import pytest

from auditor.config import TargetKeys
from auditor.connections.writer import open_writer
from auditor.pipeline.check import check_target
from auditor.sql.merge import MergeStatements
from auditor.store import pipelines
from dialects import Place
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.conftest import EVERY
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import Row, announce, batch, delete, insert, refresh, table, update

pytestmark = pytest.mark.engines_in_turn

ORDERS = table(id="bigint", code="varchar(10) null", item="varchar(40) null")
UPDATING = engine_params("postgres", "mysql", "mariadb")
on_updating = pytest.mark.parametrize("engine", UPDATING, indirect=True)
LOSES_VALUES = r"(10\.5\.28|10\.6\.21|10\.11\.11|11\.4\.5|11\.7\.2)-"
"""Releases of MariaDB in which INSERT ... SELECT does so before a trigger. https://jira.mariadb.org/browse/MDEV-36026"""

MERGE_SINCE = 150_000
"""The version of PostgreSQL since which it has MERGE."""

ROWS = [["1", "a", "pen"], ["2", "b", "ink"], ["3", "c", "cap"]]


def text(road: Road) -> str:
    return "varchar(40)" if road.dialect.name == "postgres" else "varchar(40) CHARACTER SET utf8mb4"


def make(road: Road, more: str = "", name: str = "orders") -> str:
    """Make the target's table by hand, and the schema before it; return its name in SQL."""
    if road.dialect.name == "postgres":
        road.execute(f"CREATE SCHEMA IF NOT EXISTS {road.schema}")
    else:
        road.execute(f"CREATE DATABASE IF NOT EXISTS {road.schema}")
    made = road.dialect.names.table(road.schema, name)
    road.execute(f"CREATE TABLE {made} (id bigint PRIMARY KEY, code {text(road)}, item {text(road)}{more})")
    return made


def loader(road: Road, *accept: str) -> Any:
    now = itertools.count(0, 1000)
    return road.loader(clock=lambda: next(now), keys={"orders": TargetKeys(accept=accept)})


def reason(road: Road) -> str:
    return pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].reason


@on_updating
def test_columns_that_only_the_target_has_keep_their_values(road: Road) -> None:
    made = make(road, ", seen integer DEFAULT 0")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    load = loader(road)
    load.merge_all()
    road.execute(f"UPDATE {made} SET seen = 7")
    changes = [update(ORDERS, 20, (ROWS[0], ["1", "a", "PEN"])), update(ORDERS, 21, (ROWS[1], ["9", "b", "ink"]))]
    road.stage(batch(*changes, delete(ORDERS, 22, ROWS[2]), insert(ORDERS, 23, ["4", None, None])))
    load.merge_all()
    assert [tuple(row) for row in road.rows()] == [(1, "a", "PEN", 7), (4, None, None, 0), (9, "b", "ink", 0)]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_merge_of_some_keys_does_not_read_the_whole_target(road: Road) -> None:
    made, rows, changed = make(road), 100_000, 5_000
    road.execute(f"INSERT INTO {made} SELECT i, 'a', 'pen' FROM generate_series(1, {rows}) AS i")
    road.execute(f"ANALYZE {made}")
    keys = range(1, rows, rows // changed)
    road.stage(batch(announce(ORDERS, 1), update(ORDERS, 10, *(([str(key), "a", "pen"], [str(key), "a", "ink"]) for key in keys))))

    def read() -> int:
        """Count the target's rows that were read so far."""
        ((count,),) = road.query(
            "SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid)"
            f" FROM pg_stat_user_tables t WHERE relid = CAST('{made}' AS regclass)"
        )
        return int(count)

    before = read()
    load = loader(road)
    load.merge_all()
    load.close()
    while read() - before < changed:  # a session states what it read as it ends
        time.sleep(0.02)
    assert read() - before <= 10 * changed
    assert road.query(f"SELECT count(*) FROM {made} WHERE item = 'ink'") == [(changed,)]


@on_updating
def test_an_update_of_a_parent_leaves_its_children(road: Road) -> None:
    made = make(road)
    lines = road.dialect.names.table(road.schema, "lines")
    road.execute(f"CREATE TABLE {lines} (id bigint PRIMARY KEY, o bigint, FOREIGN KEY (o) REFERENCES {made} (id) ON DELETE CASCADE)")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    loader(road).merge_all()
    assert road.rows() == [] and "in the target has cascade" in reason(road)
    name = reason(road).partition('accept: ["')[2].partition('"')[0]
    load = loader(road, name)
    load.merge_all()
    road.execute(f"INSERT INTO {lines} VALUES (10, 1), (20, 2), (30, 3)")
    road.stage(batch(update(ORDERS, 20, (ROWS[0], ["1", "z", "pen 2"])), delete(ORDERS, 21, ROWS[2])))
    load.merge_all()
    assert road.rows() == [(1, "z", "pen 2"), (2, "b", "ink")]
    assert [row[0] for row in road.rows("lines")] == [10, 20], "the child of a row that the source deleted goes, as was accepted"


@on_updating
def test_two_unique_values_change_places(road: Road) -> None:
    made = make(road, ", UNIQUE (code)")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    load = loader(road)
    load.merge_all()
    swap = update(ORDERS, 20, (ROWS[0], ["1", None, "pen"]), (ROWS[1], ["2", "a", "ink"]), (["1", None, "pen"], ["1", "b", "pen"]))
    road.stage(batch(swap))
    assert load.merge_all() == 3 and road.rows() == [(1, "b", "pen"), (2, "a", "ink"), (3, "c", "cap")]
    lines = road.dialect.names.table(road.schema, "lines")
    road.execute(f"CREATE TABLE {lines} (id bigint PRIMARY KEY, o bigint, FOREIGN KEY (o) REFERENCES {made} (id) ON DELETE CASCADE)")
    road.execute(f"INSERT INTO {lines} VALUES (10, 1), (20, 2)")
    loader(road).merge_all()
    back: list[tuple[Row, Row]] = [
        (["1", "b", "pen"], ["1", None, "pen"]),
        (["2", "a", "ink"], ["2", "b", "ink"]),
        (["1", None, "pen"], ["1", "a", "pen"]),
    ]
    road.stage(batch(update(ORDERS, 30, *back)))
    loader(road).merge_all()
    name = reason(road).partition('accept: ["')[2].partition('"')[0]
    loader(road, name).merge_all()
    assert road.rows() == [(1, "b", "pen"), (2, "a", "ink"), (3, "c", "cap")], "the table stops, with its children"
    assert reason(road) and len(road.rows("lines")) == 2


@on_updating
def test_triggers_of_the_target_are_refused_by_name(road: Road) -> None:
    made = make(road)
    if road.dialect.name == "postgres":
        road.execute(
            f"CREATE FUNCTION {road.schema}.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.item = 'x'; RETURN NEW; END $$",
            f"CREATE TRIGGER stamp BEFORE INSERT ON {made} FOR EACH ROW EXECUTE FUNCTION {road.schema}.stamp()",
        )
    else:
        road.execute(f"CREATE TRIGGER {road.schema}.stamp BEFORE INSERT ON {made} FOR EACH ROW SET NEW.item = 'x'")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    loses = road.dialect.name == "mysql" and re.match(LOSES_VALUES, road.query("SELECT VERSION()")[0][0])
    loader(road).merge_all()
    if loses:
        assert "lose values in this release of MariaDB" in reason(road) and road.rows() == []
        return
    said = "in the target has trigger stamp, which may write something else than the source has; remove that there, or accept it: tables:"
    assert said in reason(road) and road.rows() == []
    loader(road, "trigger stamp").merge_all()
    assert [row[2] for row in road.rows()] == ["x"] * 3


@on_updating
@pytest.mark.parametrize("more", ["", ", UNIQUE (code)"])
def test_a_view_is_no_target(road: Road, more: str) -> None:
    """A server lets rows through that its query hides, and through the triggers of the table beneath."""
    beneath = make(road, more, "beneath")
    road.execute(f"CREATE VIEW {road.dialect.names.table(road.schema, 'orders')} AS SELECT * FROM {beneath} WHERE item <> 'ink'")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    loader(road).merge_all()
    assert "in the target is a view" in reason(road) and road.rows("beneath") == []
    road.loader(keys={"orders": TargetKeys(name="beneath")}, clock=lambda: 10_000).merge_all()
    assert reason(road) == "" and [row[0] for row in road.rows("beneath")] == [1, 2, 3]


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_a_table_that_keeps_its_history_is_a_target(road: Road) -> None:
    made = make(road)
    road.execute(f"ALTER TABLE {made} ADD SYSTEM VERSIONING")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    loader(road).merge_all()
    assert reason(road) == "" and [row[0] for row in road.rows()] == [1, 2, 3]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_cascade_that_comes_later_is_found(road: Road, set_durations: SetDurations) -> None:
    made, lines = make(road), road.dialect.names.table(road.schema, "lines")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    load = loader(road)
    load.merge_all()
    road.execute(f"CREATE TABLE {lines} (id bigint PRIMARY KEY, o bigint REFERENCES {made} (id) ON DELETE CASCADE)")
    set_durations(target_fresh=-1.0)
    road.stage(batch(delete(ORDERS, 20, ROWS[0])))
    load.merge_all()
    assert "in the target has cascade" in reason(road) and len(road.rows()) == 3


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize("more", [", UNIQUE (code)", ", EXCLUDE USING btree (code WITH =)", ", UNIQUE (id, code)", ""])
def test_rows_of_two_keys_that_are_in_each_others_way_are_merged(road: Road, more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a deleted row had is a new row's, and two rows exchange it; one MERGE would hold each row against all that are there."""
    make(road, more)
    sent: list[str] = []
    render = MergeStatements.merge

    def noted(*given: Any) -> Any:
        found = render(*given)
        sent.extend(found)
        return found

    monkeypatch.setattr(MergeStatements, "merge", noted)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    load = loader(road)
    load.merge_all()
    exchanged: list[tuple[Row, Row]] = [
        (ROWS[1], ["2", None, "ink"]),
        (ROWS[2], ["3", "b", "cap"]),
        (["2", None, "ink"], ["2", "c", "ink"]),
    ]
    road.stage(batch(insert(ORDERS, 20, ["0", "z", "pin"]), delete(ORDERS, 21, ROWS[0]), update(ORDERS, 22, *exchanged)))
    road.stage(batch(update(ORDERS, 30, (["0", "z", "pin"], ["0", "a", "pin"]))))
    load.merge_all()
    assert road.rows() == [(0, "a", "pin"), (2, "c", "ink"), (3, "b", "cap")]
    at_once = any("MERGE INTO" in one for one in sent)
    assert at_once is (int(road.query("SHOW server_version_num")[0][0]) >= MERGE_SINCE and more in ("", ", UNIQUE (id, code)"))


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_hazards_of_postgresql_are_refused_by_name(road: Road) -> None:
    def hazards() -> str:
        loader(road).merge_all()
        return reason(road)

    made = make(road)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    road.execute(
        f"DROP TABLE {made}", f"CREATE TABLE {made} (id bigint PRIMARY KEY, code text, item text GENERATED ALWAYS AS ('x') STORED)"
    )
    assert "generated item" in hazards()
    road.execute(f"DROP TABLE {made}", f"CREATE TABLE {made} (id bigint, code text, item text, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    assert "partitions orders" in hazards()
    road.execute(f"DROP TABLE {made}", f"CREATE TABLE {made} (id bigint PRIMARY KEY, code text, item text)")
    road.execute(f"CREATE RULE quiet AS ON INSERT TO {made} DO INSTEAD NOTHING")
    assert "trigger quiet" in hazards()
    road.execute(f"DROP TABLE {made}", f"CREATE TABLE {made} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code text, item text)")
    assert "identity id" in hazards()
    loader(road, "identity id").merge_all()
    road.stage(batch(update(ORDERS, 20, (ROWS[0], ["1", "a", "PEN"]))))
    loader(road, "identity id").merge_all()
    assert road.rows() == [(1, "a", "PEN"), (2, "b", "ink"), (3, "c", "cap")]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_what_acts_on_rows_of_a_partition_is_a_hazard(road: Road) -> None:
    made, part, apart = make(road), f"{road.schema}.part", f"{road.schema}_apart"
    road.execute(
        f"DROP TABLE {made}",
        f"CREATE TABLE {made} (id bigint, code text, item text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        f"CREATE TABLE {part} PARTITION OF {made} DEFAULT PARTITION BY RANGE (id)",
        f"DROP SCHEMA IF EXISTS {apart} CASCADE",
        f"CREATE SCHEMA {apart}",
        f"CREATE TABLE {apart}.low PARTITION OF {part} FOR VALUES FROM (0) TO (2)",
        f"CREATE TABLE {road.schema}.high PARTITION OF {part} DEFAULT",
        f"CREATE FUNCTION {road.schema}.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.item = 'x'; RETURN NEW; END $$",
        f"CREATE TRIGGER whole BEFORE INSERT ON {made} FOR EACH ROW EXECUTE FUNCTION {road.schema}.stamp()",
        f"CREATE TRIGGER stamp BEFORE INSERT ON {apart}.low FOR EACH ROW EXECUTE FUNCTION {road.schema}.stamp()",
        f"CREATE TRIGGER told AFTER INSERT ON {apart}.low FOR EACH STATEMENT EXECUTE FUNCTION {road.schema}.stamp()",
        f"CREATE TABLE {road.schema}.lines (id bigint PRIMARY KEY, o bigint REFERENCES {apart}.low (id) ON DELETE CASCADE)",
        f"CREATE TABLE {road.schema}.notes (id bigint PRIMARY KEY, o bigint REFERENCES {made} (id) ON DELETE CASCADE)",
    )
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    loader(road).merge_all()
    names = reason(road).partition("accept: [")[2].partition("]")[0]
    assert names.split(", ") == [
        '"trigger whole"',
        f'"trigger stamp of {apart}.low"',
        *sorted([f'"cascade {road.schema}.notes"', f'"cascade {road.schema}.lines"'], key=names.index),
    ]
    assert road.rows() == []
    loader(road, *(one.strip('"') for one in names.split(", "))).merge_all()
    assert reason(road) == "" and [row[2] for row in road.rows()] == ["x"] * 3


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_what_acts_on_rows_of_a_table_that_inherits_is_a_hazard(road: Road) -> None:
    made, heir = make(road), f"{road.schema}.heir"
    road.execute(
        f"CREATE TABLE {heir} () INHERITS ({made})",
        f"CREATE FUNCTION {road.schema}.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.item = 'x'; RETURN NEW; END $$",
        f"CREATE TRIGGER stamp BEFORE UPDATE ON {heir} FOR EACH ROW EXECUTE FUNCTION {road.schema}.stamp()",
    )
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    loader(road).merge_all()
    assert f'accept: ["trigger stamp of {heir}"]' in reason(road)


@pytest.mark.parametrize("engine", EVERY, indirect=True)
@pytest.mark.few
def test_rows_that_differ_only_where_the_engine_sees_nothing_arrive(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a", "x"], ["2", "b", "y "])))
    road.loader().merge_all()
    road.stage(batch(update(ORDERS, 20, (["1", "a", "x"], ["1", "A", "x "]), (["2", "b", "y "], ["2", "b", "Y"]))))
    road.loader().merge_all()
    assert road.rows() == [(1, "A", "x "), (2, "b", "Y")]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_refreshed_range_updates_what_is_there(road: Road) -> None:
    made = make(road, ", seen integer DEFAULT 0")
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *ROWS)))
    load = loader(road)
    load.merge_all()
    road.execute(f"UPDATE {made} SET seen = 7", f"UPDATE {made} SET item = 'wrong' WHERE id = 2")
    bounds = ([None, None, None], ["3", None, None])
    road.stage(batch(update(ORDERS, 20, (ROWS[0], ["1", "q", "q"])), refresh(ORDERS, 30, ROWS[0], ROWS[1], bounds=bounds)))
    load.merge_all()
    assert road.rows() == [(1, "a", "pen", 7), (2, "b", "ink", 7)]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_values_of_any_type_are_compared(road: Road) -> None:
    docs = table("docs", id="int", d="json null", f="double null")
    road.stage(batch(announce(docs, 1), insert(docs, 10, ["1", '{"a": 1}', "0"], ["2", None, "1"])))
    load = loader(road)
    load.merge_all()
    road.execute(f"ALTER TABLE {road.schema}.docs ALTER COLUMN d TYPE json USING d::json")
    road.stage(batch(update(docs, 20, (["1", '{"a": 1}', "0"], ["1", '{"a":  1}', "-0"]))))
    loader(road).merge_all()
    assert [str(one) for one in road.query(f"SELECT d::text, f::text FROM {road.schema}.docs ORDER BY id")[0]] == ['{"a":  1}', "-0"]


@on_updating
def test_check_names_the_hazards(road: Road) -> None:
    made, lines = make(road), road.dialect.names.table(road.schema, "lines")
    road.execute(f"CREATE TABLE {lines} (id bigint PRIMARY KEY, o bigint, FOREIGN KEY (o) REFERENCES {made} (id) ON UPDATE CASCADE)")
    [found] = [one for one in check_target(road.settings, PIPELINE, "wh", [ORDERS]) if one.severity != "note"]
    assert (found.severity, found.subject) == ("error", "target wh") and "whose rows go or change with rows of this table" in found.sentence
    name = found.sentence.partition('accept: ["')[2].partition('"')[0]
    road.settings.pipelines[PIPELINE].table_targets["wh"].tables["orders"] = TargetKeys(accept=(name,))
    assert [one for one in check_target(road.settings, PIPELINE, "wh", [ORDERS]) if one.severity != "note"] == []


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_row_security_is_a_hazard_where_it_hides_rows(road: Road) -> None:
    made, kinds = make(road), []
    road.execute(f"ALTER TABLE {made} ENABLE ROW LEVEL SECURITY", "DROP ROLE IF EXISTS hidden_from", "CREATE ROLE hidden_from")
    road.execute(f"GRANT USAGE ON SCHEMA {road.schema} TO hidden_from", f"GRANT ALL ON {made} TO hidden_from")
    with open_writer("warehouse", road.settings.connections["warehouse"]) as session:
        for role in ("NONE", "hidden_from"):
            session.execute(f"SET ROLE {role}")
            [there] = session.dialect.catalogue.describe(session, Place((road.schema, "orders")))
            kinds.append([one.kind for one in session.dialect.catalogue.hazards(session, there)])
        session.execute("RESET ROLE")
    road.execute("DROP OWNED BY hidden_from", "DROP ROLE hidden_from")
    assert ["row security" in one for one in kinds] == [False, True]
