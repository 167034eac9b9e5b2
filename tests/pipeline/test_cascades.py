"""What foreign keys of the source do to child rows without a word of it in the log stops the child, and the child alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.pipeline.binlog.cascades import Reference, made_references
from auditor.pipeline.check import check
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.store import pipelines, table_notes
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, pass_time

pytestmark = pytest.mark.engines_in_turn

on_both = pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new", "mysql", slow=["mariadb_new"]), indirect=True)
PARENT = "CREATE TABLE fam_p (id int PRIMARY KEY, code int NOT NULL UNIQUE, note varchar(20))"
CHILD = "CREATE TABLE fam_c (id int PRIMARY KEY, p_id int NULL, FOREIGN KEY (p_id) REFERENCES fam_p ({column}) {action})"
TABLES = ("fam_g", "fam_c", "fam_self", "fam_p")
_schemas = itertools.count()


class Family(LiveRoad):
    """A road of tables whose names begin with fam_, of which statements are noted."""

    notes = True

    def stops(self) -> dict[str, int]:
        found = table_notes.list_notes(self.store, self.name)
        return {one.table.partition(".")[2]: one.events for one in found if one.stops}

    def both(self, table: str) -> tuple[list[Any], list[Any]]:
        log = LiveLog(self.settings.connections["source"].url)
        return sorted(log.run(f"SELECT * FROM {table}")), self.rows(table)


@pytest.fixture
def log(engine: LiveEngine) -> LiveLog:
    found = LiveLog(engine.url)
    found.run(*(f"DROP TABLE IF EXISTS {name}" for name in TABLES))
    return found


@pytest.fixture
def family(log: LiveLog, engine: LiveEngine, into: str, tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path, engine, "fam_*", into=into, schema=f"family_{next(_schemas)}")
    yield made
    made.drop()
    made.close()
    log.run(*(f"DROP TABLE IF EXISTS {name}" for name in TABLES))


def logs_cascades(log: LiveLog) -> bool:
    return bool(log.run("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"))


@on_both
@pytest.mark.parametrize(
    ("action", "event"),
    [
        ("ON DELETE CASCADE", "DELETE FROM fam_p WHERE id = 1"),
        ("ON DELETE SET NULL", "DELETE FROM fam_p WHERE id = 1"),
        ("ON UPDATE CASCADE", "UPDATE fam_p SET code = 11 WHERE id = 1"),
        ("ON UPDATE SET NULL", "UPDATE fam_p SET code = 11 WHERE id = 1"),
        ("ON DELETE CASCADE", "REPLACE INTO fam_p VALUES (1, 10, 'again')"),
    ],
)
@pytest.mark.few
def test_the_child_is_equal_or_stops(log: LiveLog, family: Family, action: str, event: str) -> None:
    log.run(PARENT, CHILD.format(column="code", action=action))
    log.run("INSERT INTO fam_p VALUES (1, 10, NULL), (2, 20, NULL)", "INSERT INTO fam_c VALUES (1, 10), (2, 10), (3, 20)")
    log.run("UPDATE fam_p SET note = 'x'", "UPDATE fam_p SET id = id + 100", "UPDATE fam_p SET id = id - 100")
    family.merge()
    assert family.both("fam_c")[0] == family.both("fam_c")[1] and family.stops() == {}
    log.run(event, "INSERT INTO fam_p VALUES (3, 30, NULL)", "INSERT INTO fam_c VALUES (4, 30)")
    family.stage()
    family.loader.merge_all()
    assert family.both("fam_p")[0] == family.both("fam_p")[1], "the parent goes on"
    if logs_cascades(log):
        assert family.both("fam_c")[0] == family.both("fam_c")[1] and family.stops() == {}
        return
    assert family.stops() == {"fam_c": 1}
    reason = pipelines.list_merges(family.store, PIPELINE)["wh"][f"{log.database}.fam_c"].reason
    assert f"by the foreign key {log.database}.fam_c (p_id) REFERENCES {log.database}.fam_p (code) {action}" in reason
    assert "which the source does not log; skip this, then send its rows again: auditor pipeline refresh" in reason
    place = next(stop.place for stop in status(family.settings, family.store, PIPELINE, look=False).stopped)
    service.skip(family.settings, family.store, PIPELINE, "fam_c", place, "rows are sent again", by="ann")
    pass_time(family.loader)
    family.loader.merge_all()
    assert family.stops() == {} and (4, 30) in family.both("fam_c")[1], "it goes on behind what was skipped"


@on_both
def test_cascades_over_tables_between_and_to_itself(log: LiveLog, family: Family) -> None:
    log.run(PARENT, "CREATE TABLE fam_self (id int PRIMARY KEY, boss int, FOREIGN KEY (boss) REFERENCES fam_self (id) ON DELETE CASCADE)")
    log.run("DROP TABLE IF EXISTS between_c", "CREATE TABLE between_c (id int PRIMARY KEY, p_id int,"
            " FOREIGN KEY (p_id) REFERENCES fam_p (id) ON DELETE CASCADE)")  # fmt: skip
    try:
        log.run("CREATE TABLE fam_g (id int PRIMARY KEY, c_id int, FOREIGN KEY (c_id) REFERENCES between_c (id) ON DELETE CASCADE)")
        log.run("INSERT INTO fam_p VALUES (1, 10, NULL)", "INSERT INTO between_c VALUES (1, 1)", "INSERT INTO fam_g VALUES (1, 1)")
        log.run("INSERT INTO fam_self VALUES (1, NULL), (2, 1)")
        family.merge()
        log.run("SET foreign_key_checks = 0", "INSERT INTO fam_p VALUES (9, 90, NULL)", "DELETE FROM fam_p WHERE id = 9")
        family.stage()
        assert family.stops() == {}, "without checks nothing cascades"
        log.run("DELETE FROM fam_p", "DELETE FROM fam_self WHERE id = 1")
        family.stage()
        family.loader.merge_all()
        assert family.stops() == ({} if logs_cascades(log) else {"fam_g": 1, "fam_self": 1})
    finally:
        log.run("DROP TABLE IF EXISTS fam_g", "DROP TABLE IF EXISTS between_c")


@on_both
def test_keys_that_were_made_and_dropped_within_a_batch_count(log: LiveLog, family: Family) -> None:
    log.run(PARENT, "CREATE TABLE fam_c (id int PRIMARY KEY, p_id int NULL)", "INSERT INTO fam_p VALUES (1, 10, NULL), (2, 20, NULL)")
    log.run("INSERT INTO fam_c VALUES (1, 1), (2, 2)")
    family.merge()
    log.run("DELETE FROM fam_p WHERE id = 2")
    family.merge()
    assert family.stops() == {}
    key = "CONSTRAINT fk FOREIGN KEY (p_id) REFERENCES fam_p(id) ON DELETE CASCADE"
    log.run("DELETE FROM fam_c WHERE id = 2", f"ALTER TABLE fam_c ADD {key}",
            "DELETE FROM fam_p WHERE id = 1", "ALTER TABLE fam_c DROP FOREIGN KEY fk", "INSERT INTO fam_c VALUES (3, 3)")  # fmt: skip
    family.stage(range_bytes=200)
    assert set(family.stops()) == {"fam_c"} or logs_cascades(log)


@on_both
def test_check_names_what_cascades_without_a_word(log: LiveLog, family: Family) -> None:
    log.run(PARENT, CHILD.format(column="id", action="ON DELETE CASCADE"))
    log.run("DROP USER IF EXISTS reader", "CREATE USER reader IDENTIFIED BY 'a-Long1Password'",
            "GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO reader")  # fmt: skip
    source = family.settings.connections["source"]
    url = f"{source.url.partition('//')[0]}//reader:a-Long1Password@{source.url.rpartition('@')[2]}"
    family.settings.connections["source"] = source.model_copy(update={"url": url})
    found = [one for one in check(family.settings, PIPELINE, b"salt") if one.subject == f"table {log.database}.fam_c"]
    if logs_cascades(log):
        assert found == []
        return
    [one] = found
    assert one.severity == "warning" and f"the table stops at the first such event of {log.database}.fam_p" in one.sentence


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE c ADD FOREIGN KEY (a, `b`) REFERENCES o.p (x, y) MATCH FULL ON DELETE SET NULL ON UPDATE CASCADE",
         [Reference(("d", "c"), ("a", "b"), ("o", "p"), ("x", "y"), "SET NULL", "CASCADE")]),
        ("CREATE TABLE IF NOT EXISTS `e`.c (id int PRIMARY KEY, p int REFERENCES p (id) ON DELETE CASCADE, q int, z int,"
         " CONSTRAINT k FOREIGN KEY k2 (q) REFERENCES q (id) ON UPDATE NO ACTION ON DELETE CASCADE, KEY (z))",
         [Reference(("e", "c"), ("id",), ("d", "p"), ("id",), "CASCADE", "RESTRICT"),
          Reference(("e", "c"), ("q",), ("d", "q"), ("id",), "CASCADE", "NO ACTION")]),
        ("ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p (x) ON DELETE RESTRICT", []),
        ("ALTER TABLE c COMMENT 'REFERENCES p (x) ON DELETE CASCADE'", []),
        ("CREATE VIEW v AS SELECT 1 AS `references`", []),
    ],
)  # fmt: skip
def test_keys_that_statements_make(statement: str, expected: list[Reference]) -> None:
    assert made_references(statement, "d", 0) == expected
