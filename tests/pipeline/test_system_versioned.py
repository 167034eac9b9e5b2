"""Of a system-versioned table of MariaDB a pipeline carries what a SELECT shows, and none of its history."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from auditor.config import Audit
from auditor.model import Verdict
from auditor.pipeline import check as checks
from auditor.pipeline.refresh.carrier import Carrier
from auditor.run import audit_run
from auditor.service.pipelines import propose_audits
from auditor.store import refreshes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE

HIDDEN = "CREATE TABLE versioned (id int, v varchar(20), PRIMARY KEY (id)) WITH SYSTEM VERSIONING"
SHOWN = """CREATE TABLE versioned (
    id int, s timestamp(6) GENERATED ALWAYS AS ROW START, v varchar(20), e timestamp(6) GENERATED ALWAYS AS ROW END,
    n int WITHOUT SYSTEM VERSIONING, PRIMARY KEY (id), PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING"""
PLAIN = "CREATE TABLE versioned (id int, v varchar(20), row_start timestamp(6), row_end timestamp(6), PRIMARY KEY (id, row_end))"


class Line:
    """From a versioned table of a live server into a target."""

    def __init__(self, folder: Path, source: LiveEngine, into: str, definition: str) -> None:
        self.log = LiveLog(source.url)
        self.log.run("DROP TABLE IF EXISTS versioned")
        self.road = LiveRoad(folder, source, "versioned", into=into, schema="versions")
        self.road.drop()
        self.road.notes = True
        self.log.run(definition)

    def audit(self) -> Verdict:
        [(name, found)] = propose_audits(self.road.settings, PIPELINE).items()
        report = audit_run.run(name, Audit.model_validate(found), self.road.settings.connections)
        assert report.verdict
        return report.verdict

    def close(self) -> None:
        self.road.drop()
        self.road.close()
        self.log.run("DROP TABLE IF EXISTS versioned")


@pytest.mark.quick_for("duckdb-hidden")
@pytest.mark.parametrize("source", engine_params("mariadb", "mariadb_new", slow=["mariadb_new"]))
@pytest.mark.parametrize("definition", [HIDDEN, SHOWN], ids=["hidden", "shown"])
def test_the_rows_arrive_that_a_select_shows(source: str, definition: str, engines: Engines, into: str, tmp_path: Path) -> None:
    line = Line(tmp_path, engines.live(source), into, definition)
    try:
        said = [one for one in checks.check(line.road.settings, PIPELINE, b"salt") if one.subject == "table versioned"]
        assert [(one.severity, "none of its history" in one.sentence) for one in said] == [("warning", True)]
        line.log.run("INSERT INTO versioned (id, v) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
        line.road.merge()
        line.log.run(
            "UPDATE versioned SET v = 'x' WHERE id < 3", "UPDATE versioned SET id = 9 WHERE id = 2", "DELETE FROM versioned WHERE id = 3"
        )
        line.log.run("BEGIN", "INSERT INTO versioned (id, v) VALUES (5, 'e')", "UPDATE versioned SET v = 'f' WHERE id = 5", "COMMIT")
        line.log.run("INSERT INTO versioned (id, v) VALUES (3, 'again')", "REPLACE INTO versioned (id, v) VALUES (4, 'dd')")
        line.road.merge()
        wanted = [(1, "x"), (3, "again"), (4, "dd"), (5, "f"), (9, "x")]
        assert [(row[0], row[1] if definition == HIDDEN else row[2]) for row in line.road.rows("versioned")] == wanted
        assert line.log.run("SELECT COUNT(*) FROM versioned FOR SYSTEM_TIME ALL")[0][0] > len(wanted)
        assert line.audit() == Verdict.MATCH
        line.log.run(
            "DELETE HISTORY FROM versioned", "DELETE FROM versioned WHERE id = 9", "INSERT INTO versioned (id, v) VALUES (10, 'k')"
        )
        line.road.merge()
        assert line.audit() == Verdict.MATCH
        assert [row[0] for row in line.road.rows("versioned")] == [1, 3, 4, 5, 10]
        line.log.run("SET sql_log_bin = 0", "INSERT INTO versioned (id, v) VALUES (11, 'unseen')", "DELETE FROM versioned WHERE id = 1")
        assert line.audit() == Verdict.MISMATCH
        refreshes.request_refresh(line.road.store, PIPELINE, f"{line.road.database}.versioned", refreshes.RefreshScope(), "ops")
        Carrier(line.road.settings, line.road.store, PIPELINE, threading.Event()).carry_out()
        line.road.merge()
        assert line.audit() == Verdict.MATCH
    finally:
        line.close()


@pytest.mark.parametrize("source", engine_params("mariadb", "mariadb_new", slow=["mariadb_new"]))
def test_a_table_keeps_its_rows_while_versioning_comes_and_goes(source: str, engines: Engines, into: str, tmp_path: Path) -> None:
    line = Line(tmp_path, engines.live(source), into, "CREATE TABLE versioned (id int PRIMARY KEY, v varchar(20))")
    try:
        line.log.run("INSERT INTO versioned VALUES (1, 'a'), (2, 'b')", "ALTER TABLE versioned ADD SYSTEM VERSIONING")
        line.log.run("UPDATE versioned SET v = 'x' WHERE id = 1", "DELETE FROM versioned WHERE id = 2")
        line.log.run(
            "ALTER TABLE versioned DROP SYSTEM VERSIONING",
            "INSERT INTO versioned VALUES (2, 'c')",
            "UPDATE versioned SET v = 'y' WHERE id = 1",
        )
        line.road.merge()
        assert line.road.rows("versioned") == [(1, "y"), (2, "c")]
    finally:
        line.close()


@pytest.mark.parametrize("source", engine_params("mariadb", "mariadb_new", slow=["mariadb_new"]))
def test_a_table_with_columns_of_such_names_is_no_such_table(source: str, engines: Engines, into: str, tmp_path: Path) -> None:
    line = Line(tmp_path, engines.live(source), into, PLAIN)
    try:
        line.log.run("INSERT INTO versioned VALUES (1, 'a', '2026-01-01', '2026-01-02'), (1, 'b', '2026-01-02', '2026-01-03')")
        line.road.merge()
        assert [row[1] for row in line.road.rows("versioned")] == ["a", "b"]
    finally:
        line.close()
