"""Types of MariaDB of which the log tells less than a SELECT shows arrive as they are shown, or stop their table by name.

Of a YEAR(2) it logs 1901 and shows 01, which means 2001; of times of its old format it does not log how long they are.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.config import Audit
from auditor.connections.writer import writing_dialect
from auditor.model import Verdict
from auditor.pipeline import check as checks
from auditor.pipeline.refresh import source_tables
from auditor.pipeline.refresh.carrier import Carrier
from auditor.run import audit_run
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.service.pipelines import propose_audits
from auditor.store import refreshes, table_notes
from dialects import Dialect
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE, pass_time

pytestmark = [
    pytest.mark.alone,  # the log that they read is the whole server's
    pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new", slow=["mariadb_new"]), indirect=True),
]
SHORT = "CREATE TABLE short_y (id int PRIMARY KEY, y YEAR(2))"
LONG = "CREATE TABLE short_y (id int PRIMARY KEY, y YEAR(4))"
ROWS = "INSERT INTO short_y VALUES (1, 1901), (2, 1950), (3, 2155), (4, 2001), (5, '0000')"
_schemas = itertools.count()


class Years(LiveRoad):
    """A road of tables whose names begin with short_, of which statements are noted."""

    notes = True

    def stops(self) -> dict[str, str]:
        found = table_notes.list_notes(self.store, self.name)
        return {one.table.partition(".")[2]: one.body["reason"] for one in found if one.stops}

    def said(self) -> list[str]:
        return [one.sentence for one in checks.check(self.settings, self.name, b"salt") if one.severity == "error"]

    def skip(self) -> None:
        while found := status(self.settings, self.store, PIPELINE, look=False).stopped:
            stopped = found[0]
            service.skip(self.settings, self.store, PIPELINE, stopped.table, stopped.place, "rows are sent again", by="ann")
        pass_time(self.loader)

    def verdict(self, table: str) -> Verdict | None:
        found = propose_audits(self.settings, PIPELINE)
        [name] = [one for one, audit in found.items() if audit["source"]["table"].endswith(table)]
        return audit_run.run(name, Audit.model_validate(found[name]), self.settings.connections).verdict


Open = Callable[..., Years]


@pytest.fixture
def log(engine: LiveEngine) -> Iterator[LiveLog]:
    found = LiveLog(engine.url)
    drop = "DROP TABLE IF EXISTS short_y, short_other, short_new"
    found.run(drop)
    yield found
    found.run(drop)


@pytest.fixture
def open_road(log: LiveLog, engine: LiveEngine, into: str, tmp_path: Path) -> Iterator[Open]:
    made: list[Years] = []

    def open_one(columns: str = "{}") -> Years:
        made.append(Years(tmp_path, engine, "short_*", columns, into, schema=f"years_{next(_schemas)}"))
        return made[-1]

    yield open_one
    for road in made:
        road.drop()
        road.close()


def test_a_table_stops_by_name_until_its_years_have_four_digits(log: LiveLog, open_road: Open) -> None:
    road = open_road()
    log.run(SHORT, "CREATE TABLE short_other (id int PRIMARY KEY, y YEAR)", "INSERT INTO short_other VALUES (1, 1901), (2, 0)")
    log.run(ROWS)
    assert [row[0] for row in log.run("SELECT LPAD(y, 2, '0') FROM short_y ORDER BY id")] == ["01", "50", "55", "01", "00"]
    [said] = road.said()
    assert "'y' is a YEAR(2)" in said and f"ALTER TABLE {log.database}.short_y MODIFY y YEAR(4)" in said and "exclude the column" in said
    road.stage()
    road.loader.merge_all()
    assert road.stops() == {"short_y": said}
    assert road.rows("short_other") == [(1, 1901), (2, 0)]
    log.run("ALTER TABLE short_y MODIFY y YEAR(4)", "INSERT INTO short_y VALUES (6, 1902)")
    assert road.said() == []
    road.skip()
    refresh(road)
    road.merge()
    shown = sorted(log.run("SELECT * FROM short_y"))
    assert road.rows("short_y") == shown == [(1, 1901), (2, 1950), (3, 2155), (4, 2001), (5, 0), (6, 1902)]
    assert road.verdict("short_y") == Verdict.MATCH


def target_of(road: Years) -> Dialect:
    return writing_dialect("warehouse", road.settings.connections["warehouse"])


def refresh(road: Years) -> None:
    refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.short_y", refreshes.RefreshScope(), "ops")
    Carrier(road.settings, road.store, PIPELINE, threading.Event()).carry_out()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE short_y MODIFY y YEAR(2)",
        "ALTER TABLE short_y CHANGE y z YEAR(2)",
        "ALTER TABLE short_y ADD z YEAR(2) DEFAULT 1901",
        "CREATE OR REPLACE TABLE short_y (id int PRIMARY KEY, y YEAR(2))",
        "CREATE TABLE short_new LIKE short_other",
        "RENAME TABLE short_y TO short_new, short_other TO short_y",
    ],
)
def test_a_statement_that_makes_such_a_column_stops_its_table_without_a_row(log: LiveLog, open_road: Open, statement: str) -> None:
    log.run("CREATE TABLE short_other (id int PRIMARY KEY, y YEAR(2))")
    road = open_road()
    log.run(LONG, "INSERT INTO short_y VALUES (1, 1901)")
    road.merge()
    assert road.rows("short_y") == [(1, 1901)] and road.stops() == {}
    log.run(statement)
    road.stage()
    assert set(road.stops()) == {"short_new" if "LIKE" in statement else "short_y"}
    assert "is a YEAR(2)" in next(iter(road.stops().values()))


def test_rows_from_before_a_change_are_right_or_stop(log: LiveLog, open_road: Open) -> None:
    road = open_road()
    log.run(SHORT, ROWS, "ALTER TABLE short_y MODIFY y YEAR(4), ALGORITHM=COPY", "INSERT INTO short_y VALUES (6, 1969)")
    log.run("ALTER TABLE short_y MODIFY y YEAR(2)", "INSERT INTO short_y VALUES (7, '00')", "ALTER TABLE short_y MODIFY y YEAR")
    road.merge()
    assert [row[1] for row in road.rows("short_y")] == [1901, 1950, 2155, 2001, 0, 1969, 2000]
    assert road.verdict("short_y") == Verdict.MATCH
    log.run("ALTER TABLE short_y MODIFY y YEAR(2)", "INSERT INTO short_y VALUES (8, 1903)", "ALTER TABLE short_y MODIFY y INT")
    assert log.run("SELECT y FROM short_y WHERE id IN (1, 4)") == [(1,), (1,)], "two digits are all that is left"
    road.stage()
    road.loader.merge_all()
    assert "'y' is a YEAR(2), or was one" in road.stops()["short_y"]


def test_an_excluded_column_stops_nothing_unless_the_filter_names_it(log: LiveLog, open_road: Open) -> None:
    log.run(SHORT)
    road = open_road("{short_y: {exclude: [y]}}")
    log.run("ALTER TABLE short_y ADD n int", "INSERT INTO short_y VALUES (1, 1901, 7)")
    road.merge()
    assert road.rows("short_y") == [(1, 7)] and road.said() == []
    filtered = open_road('{short_y: {exclude: [y], where: "y > 1990"}}')
    assert "is a YEAR(2)" in filtered.said()[0]


@pytest.mark.parametrize("makes_tables", [True, False])
def test_a_refresh_of_such_a_table_stops_it(log: LiveLog, open_road: Open, makes_tables: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not makes_tables:
        monkeypatch.setattr(source_tables, "check_server", lambda _: source_tables.NO_TABLES)
    log.run(SHORT, ROWS)
    road = open_road()
    refresh(road)
    road.stage()
    assert "is a YEAR(2)" in road.stops()["short_y"]


def test_other_types_that_are_shown_otherwise_arrive_as_they_are_read(log: LiveLog, open_road: Open) -> None:
    columns = (
        "a bit(12), b decimal(8,3) zerofill, c char(5), d int(6) zerofill, e float(7,3) zerofill, f double(9,2) zerofill, g bit(1),"
        " h binary(5), i set('x','y'), j tinyint(1), k timestamp NULL, l year(4), m bigint(20) zerofill, n decimal(5,0) zerofill"
    )
    road = open_road()
    unsupported = target_of(road).types.UNSUPPORTED_VALUES
    if lacking := [name for name, kind in {"a": "bit", "g": "bit", "o": "time"}.items() if kind in unsupported]:
        road = open_road(f"{{short_y: {{exclude: [{', '.join(lacking)}]}}}}")
    with log.globally(mysql56_temporal_format="OFF"):
        log.run(f"CREATE TABLE short_y (id int(7) zerofill PRIMARY KEY, {columns}, o time, p datetime, q timestamp NULL)")
    values = "5, 1.5, 'a', 42, 1.5, 2.25, b'1', 'a', 'x,y', 3, '2024-01-02 03:04:05', 1901, 7, 12"
    log.run(f"INSERT INTO short_y VALUES (1, {values}, '10:11:12', '2024-01-02 03:04:05', '2024-01-02 03:04:05')")
    log.run("INSERT INTO short_y (id, c, l, o) VALUES (2, '', 0, '00:00:00'), (3, 'abcde', 2155, '23:59:59')")
    road.merge()
    assert road.verdict("short_y") == Verdict.MATCH
    refresh(road)
    road.merge()
    assert road.verdict("short_y") == Verdict.MATCH


@pytest.mark.parametrize("kind", ["timestamp(3) NULL", "datetime(6)", "datetime(1), b timestamp(3) NULL"])
def test_times_of_the_old_format_with_a_fraction_stop_their_table_by_name(log: LiveLog, open_road: Open, kind: str) -> None:
    """Those of a DATETIME(6) are decoded to something else, and those of two columns may take as many bytes as two without a fraction."""
    road = open_road()
    time = "2024-01-02 03:04:05.123456"
    with log.globally(mysql56_temporal_format="OFF"):
        log.run(f"CREATE TABLE short_y (id int PRIMARY KEY, a {kind})", f"INSERT INTO short_y (id, a) VALUES (1, '{time}')")
        said = road.said()[0]
        assert "in the format before mysql56_temporal_format" in said and f"ALTER TABLE {log.database}.short_y FORCE" in said
        road.stage()
        assert road.stops() == {"short_y": said}
        refresh(road)
        road.stage()
        assert road.stops() == {"short_y": said}
    log.run("ALTER TABLE short_y FORCE")
    assert road.said() == []
    road.loader.merge_all()
    road.skip()
    refresh(road)
    road.merge()
    assert road.verdict("short_y") == Verdict.MATCH and len(road.rows("short_y")) == 1
