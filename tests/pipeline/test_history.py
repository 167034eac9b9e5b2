"""Rows that differ are looked up among the versions that a capture keeps: in flight or wrong, whoever's pipeline fills the target."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from auditor.api import create_app
from auditor.cli import main
from auditor.model import Report, Verdict
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.versions import writer
from auditor.pipeline.versions.files import VERSIONS
from auditor.pipeline.versions.writer import open_writer
from auditor.points import armed
from auditor.store import parts, pipelines, row_versions, tokens
from tests.durations import SetDurations
from tests.live import Engines, engine_params
from tests.pipeline.history_road import AUDIT, CAPTURE, HistoryRoad

pytestmark = [pytest.mark.engines_in_turn, pytest.mark.postgres, pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"))]

TABLE = "looked_up"
COLUMNS = "id int PRIMARY KEY, item varchar(40), price decimal(8,2)"
ROWS = ", ".join(f"({n}, 'item {n}', {n}.50)" for n in range(1, 41))
SINK = f"sink.{TABLE}"


class Killed(BaseException):
    """The process was killed."""


def kill() -> None:
    raise Killed


@pytest.fixture
def road(engine: str, engines: Engines, tmp_path: Path) -> Iterator[HistoryRoad]:
    made = HistoryRoad(tmp_path, engines.live(engine), engines.live("postgres"), TABLE)
    made.create(COLUMNS, ROWS, COLUMNS.replace(" PRIMARY KEY", ""))
    made.begin_stream()
    with made.capturing():
        assert made.run().verdict is Verdict.MATCH  # which lets the history begin
        yield made
    made.close()


def causes(report: Report) -> dict[str | None, str]:
    assert report.differences
    return {row.key["id"]: row.cause for row in report.differences.named}


def in_flight(service: TestClient) -> tuple[float, list[float]]:
    """What the metrics of a service say of rows in flight, and of the ages of the youngest, the median and the oldest."""
    text = service.get("/metrics").raise_for_status().text
    found = {(one.name, one.labels.get("bound")): one.value for family in text_string_to_metric_families(text) for one in family.samples}
    bounds = ("least", "median", "greatest")
    return found["auditor_in_flight_rows", None], [found["auditor_in_flight_age_seconds", bound] for bound in bounds]


@pytest.fixture
def metrics(road: HistoryRoad) -> TestClient:
    """A service, which counts runs that end from now on."""
    secret = tokens.create_token(road.store, name=uuid.uuid4().hex, scope="read")
    app = create_app(road.settings, road.store)
    return TestClient(app, base_url="http://localhost", headers={"Authorization": f"Bearer {secret}"})


@pytest.mark.slow_on("mariadb")
@pytest.mark.few
def test_rows_in_flight_are_no_mismatch_until_they_are_too_old(road: HistoryRoad, metrics: TestClient) -> None:
    road.pass_time(2.2)  # since the history begins
    road.log.run(
        f"UPDATE {TABLE} SET price = 7 WHERE id = 1", f"DELETE FROM {TABLE} WHERE id = 2", f"INSERT INTO {TABLE} VALUES (77, 'new', 1)"
    )
    road.allow("60s")
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.MATCH, {"in_flight": 3}), report.reasons
    rows, ages = in_flight(metrics)
    assert rows == 3 and ages == sorted(ages) and len(ages) == 3 and 0 < ages[0] <= ages[-1] < 60
    assert any(reason.startswith("3 rows are in flight, ") and reason.endswith(" s old") for reason in report.reasons), report.reasons
    road.sink(f"UPDATE {SINK} SET price = 7 WHERE id = 1", f"DELETE FROM {SINK} WHERE id = 2")
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.MATCH, {"in_flight": 1})
    road.allow("1s")
    road.pass_time(2.2)
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.MISMATCH, {"late": 1})
    assert "; the insert at " in causes(report)["77"]
    assert causes(report)["77"].endswith(" never came")
    road.sink(f"INSERT INTO {SINK} VALUES (77, 'new', 1)")
    assert road.run().verdict is Verdict.MATCH


def test_each_fault_is_told_by_what_the_row_holds(
    road: HistoryRoad, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDITOR_CONFIG", str(road.config_file))
    road.log.run(f"UPDATE {TABLE} SET price = price + 1 WHERE id < 20", f"INSERT INTO {TABLE} VALUES (77, 'new', 1)")
    road.log.run(f"UPDATE {TABLE} SET item = 'a second time' WHERE id < 10", f"DELETE FROM {TABLE} WHERE id IN (11, 12)")
    road.sink(
        f"DELETE FROM {SINK}",
        f"INSERT INTO {SINK} SELECT n, CASE WHEN n < 10 THEN 'a second time' ELSE 'item ' || n END,"
        " n + CASE WHEN n < 20 THEN 1.5 ELSE 0.5 END FROM generate_series(1, 40) AS g (n) WHERE n NOT IN (11, 12)",
        f"INSERT INTO {SINK} VALUES (77, 'new', 1)",
    )
    assert road.run().verdict is Verdict.MATCH
    road.sink(
        f"UPDATE {SINK} SET item = 'item 1' WHERE id = 1",  # the second update was lost
        f"UPDATE {SINK} SET item = 'item 2', price = 2.5 WHERE id = 2",  # both were
        f"UPDATE {SINK} SET price = 3.5 WHERE id = 3",  # the first one was
        f"UPDATE {SINK} SET price = 5 WHERE id = 4",  # rounded
        f"INSERT INTO {SINK} VALUES (11, 'item 11', 12.5), (12, 'item 12', 12.5)",  # deletes were lost: one after the update
        f"DELETE FROM {SINK} WHERE id IN (13, 30, 77)",
        f"INSERT INTO {SINK} VALUES (5, 'a second time', 6.5), (90, 'never there', 1)",
        f"UPDATE {SINK} SET item = 'edited' WHERE id = 31",
    )
    road.pass_time(2.2)
    road.log.run("SET sql_log_bin = 0", f"UPDATE {TABLE} SET item = 'unlogged' WHERE id = 14")
    report = road.run()
    assert report.verdict is Verdict.MISMATCH
    assert road.looked_up(report) == {"late": 5, "foreign": 6, "doubled": 1, "unlogged": 1}, causes(report)
    told = causes(report)
    assert told["1"].startswith("it is the version of ")
    assert "; the update at " in told["1"]
    assert told["2"].startswith("it is a version from before ")
    assert "; the delete at " in told["11"]
    assert told["12"].startswith("it is a version from before ")
    assert "; the insert at " in told["77"]
    for key in ("3", "4", "13", "30", "31", "90"):
        assert told[key].startswith("the source did not hold it since "), told[key]
    assert told["5"] == "the target has several rows of this key"
    assert told["14"] == "the source's log does not say how its row became what it is"
    text = shown(capsys)
    assert "looked up in the history: 6 hold what the source did not hold since its history begins; 5 stand at an older version" in text
    stored = json.loads(shown(capsys, "--format", "json"))
    assert stored["differences"]["history"]["late"] == 5
    assert {row["key"]["id"]: row["cause"] for row in stored["differences"]["sample"]} == {
        int(key or 0): cause for key, cause in told.items()
    }


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Return what the command says of the last run, from the store."""
    capsys.readouterr()
    main(["show", AUDIT, *options])
    return capsys.readouterr().out


@pytest.mark.slow_on("mariadb")
def test_rows_of_a_tool_are_looked_up_as_its_convention_shows_them(engine: str, engines: Engines, tmp_path: Path) -> None:
    """A row that the tool flags as deleted is absent: right, in flight or wrong as a row that is not there."""
    road = HistoryRoad(tmp_path, engines.live(engine), engines.live("postgres"), TABLE, at_most="60s", convention="fivetran")
    road.create(
        COLUMNS, ROWS, COLUMNS.replace(" PRIMARY KEY", "") + ", _fivetran_deleted boolean DEFAULT false, _fivetran_synced timestamp"
    )
    road.begin_stream()
    with road.capturing():
        assert road.run().verdict is Verdict.MATCH  # which lets the history begin
        road.log.run(f"DELETE FROM {TABLE} WHERE id IN (2, 3)", f"UPDATE {TABLE} SET price = 7 WHERE id = 4")
        road.sink(f"UPDATE {SINK} SET _fivetran_deleted = true WHERE id = 2")
        report = road.run()
        assert (report.verdict, road.looked_up(report)) == (Verdict.MATCH, {"in_flight": 2}), report.reasons
        road.sink(f"UPDATE {SINK} SET price = 7 WHERE id = 4", f"UPDATE {SINK} SET _fivetran_deleted = true WHERE id = 5")
        road.allow("1s")
        road.pass_time(2.2)
        report = road.run()
        assert (report.verdict, road.looked_up(report)) == (Verdict.MISMATCH, {"late": 1, "foreign": 1}), report.reasons
        told = causes(report)
        assert sorted(key for key in told if key) == ["3", "5"] and "; the delete at " in (told["3"] or ""), told
    road.close()


@pytest.mark.slow_on("mariadb")
def test_a_type_that_a_convention_converts_is_refused_by_its_column(engine: str, engines: Engines, tmp_path: Path) -> None:
    """The source's time is compared as the number that the tool writes, which events do not have."""
    road = HistoryRoad(tmp_path, engines.live(engine), engines.live("postgres"), TABLE, convention="debezium")
    road.create(COLUMNS, ROWS, COLUMNS.replace(" PRIMARY KEY", "") + ", __op varchar(1) DEFAULT 'c'")
    road.log.run(f"ALTER TABLE {TABLE} ADD COLUMN seen datetime(6)")
    road.sink(f"ALTER TABLE {SINK} ADD COLUMN seen bigint")
    road.begin_stream()
    with road.capturing():
        report = road.run()
    assert report.verdict is Verdict.UNKNOWN, report.reasons
    assert any("seen is compared by an expression, which only the source can compute" in reason for reason in report.reasons), (
        report.reasons
    )
    road.close()


def test_nothing_is_claimed_of_what_the_history_cannot_know(road: HistoryRoad) -> None:
    road.allow("3600s")
    road.sink(f"UPDATE {SINK} SET item = 'edited' WHERE id = 31")
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.UNKNOWN, {"untold": 1})
    assert any("the history begins at " in reason and "less than 3600 s ago" in reason for reason in report.reasons), report.reasons


def test_a_statement_that_changes_rows_without_events_lets_the_history_begin_again(road: HistoryRoad) -> None:
    road.log.run(f"UPDATE {TABLE} SET price = 7 WHERE id = 1")
    road.sink(f"UPDATE {SINK} SET price = 7 WHERE id = 1")
    assert road.run().verdict is Verdict.MATCH
    before = road.history()
    road.log.run(f"TRUNCATE TABLE {TABLE}", f"INSERT INTO {TABLE} VALUES (1, 'again', 1)")
    road.allow("60s")
    report = road.run()
    after = road.history()
    assert after.begins and before.begins
    assert after.begins > before.begins
    assert "a statement changed" in after.why_there
    assert report.verdict is Verdict.UNKNOWN  # the other rows of the target may be on their way out
    road.allow("1s")
    road.pass_time(2.2)
    assert road.run().verdict is Verdict.MISMATCH


def test_another_column_that_is_compared_begins_another_history(road: HistoryRoad) -> None:
    before = road.history()
    road.log.run(f"ALTER TABLE {TABLE} ADD COLUMN note varchar(10) NOT NULL DEFAULT 'x'")
    road.sink(f"ALTER TABLE {SINK} ADD COLUMN note varchar(10) NOT NULL DEFAULT 'x'")
    assert road.run().verdict is Verdict.MATCH
    assert road.history().id != before.id
    road.log.run(f"UPDATE {TABLE} SET note = 'y' WHERE id = 1")
    road.allow("60s")
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.MATCH, {"in_flight": 1})


def test_without_the_capture_nothing_is_claimed(engine: str, engines: Engines, tmp_path: Path, set_durations: SetDurations) -> None:
    road = HistoryRoad(tmp_path, engines.live(engine), engines.live("postgres"), TABLE)
    road.create(COLUMNS, ROWS)
    road.begin_stream()
    with road.capturing():
        assert road.run().verdict is Verdict.MATCH
    road.sink(f"UPDATE {SINK} SET item = 'edited' WHERE id = 31")
    set_durations(hold_reach=0.5)
    road.log.run(f"UPDATE {TABLE} SET item = 'other' WHERE id = 1")
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.UNKNOWN, {"untold": 2})
    assert any("has not written its history up to " in reason for reason in report.reasons)
    pipelines.set_paused(road.store, CAPTURE, paused=True)
    assert any("the pipeline capture is paused" in reason for reason in road.run().reasons)
    road.close()


def test_small_files_are_joined_and_old_versions_left_out(road: HistoryRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MANY", 4)
    for number in range(12):
        road.log.run(f"UPDATE {TABLE} SET price = {number} WHERE id IN (1, {number + 2})")
        road.run()  # which waits until they are written
    listed = row_versions.list_files(road.store, road.history().id)
    assert len(listed) < 8
    assert sum(file.versions for file in listed) == 24
    names = {path for path in LocalFolder(road.root).names() if path.endswith(VERSIONS)}
    assert names == {file.path for file in listed}
    road.sink(f"UPDATE {SINK} SET price = 5 WHERE id = 1")
    road.allow("60s")
    report = road.run()
    assert (report.verdict, road.looked_up(report)) == (Verdict.MATCH, {"in_flight": 13})
    begins = road.history().begins
    road.writer.most_bytes = 1
    road.log.run(f"UPDATE {TABLE} SET price = 99 WHERE id = 1")
    road.until(lambda history: history.why_there != "")  # versions are written first, and left out then
    report = road.run()
    history = road.history()
    assert begins and history.begins and history.begins > begins
    assert history.why_there == "no more bytes are kept (history: bytes)"
    assert (report.verdict, road.looked_up(report)) == (Verdict.UNKNOWN, {"untold": 13})
    assert not row_versions.list_files(road.store, history.id)


@pytest.mark.parametrize("point", ["history.written", "history.recorded"])
def test_a_writer_that_is_killed_goes_on_where_it_was(engine: str, engines: Engines, tmp_path: Path, point: str) -> None:
    road = HistoryRoad(tmp_path, engines.live(engine), engines.live("postgres"), TABLE)
    road.create(COLUMNS, ROWS)
    road.begin_stream()
    with road.capturing():
        road.run()
    for number in range(5):
        road.log.run(f"UPDATE {TABLE} SET price = {number} WHERE id = {number + 1}")
        with armed(point, kill), pytest.raises(Killed):
            road.capture()
        road.writer = open_writer(road.settings, road.store, CAPTURE)
        road.capture()
    files = row_versions.list_files(road.store, road.history().id)
    assert sum(file.versions for file in files) == 5
    assert {path for path in LocalFolder(road.root).names() if path.endswith(VERSIONS)} == {file.path for file in files}
    road.close()


def test_parts_are_kept_until_their_versions_are_written(engine: str, engines: Engines, tmp_path: Path) -> None:
    road = HistoryRoad(tmp_path, engines.live(engine), engines.live("postgres"), TABLE)
    road.create(COLUMNS, ROWS)
    road.begin_stream()
    with road.capturing():
        road.run()
    road.log.run(f"UPDATE {TABLE} SET price = 7 WHERE id = 1")
    road.stage()
    assert not parts.delete_passed(road.store, CAPTURE, -1)
    road.capture()
    begins = road.history().begins
    assert len(parts.delete_passed(road.store, CAPTURE, -1)) == 1
    row_versions.restart(road.store, road.history(), 1, None, "")  # as if they had been deleted all the same
    road.log.run(f"UPDATE {TABLE} SET price = 8 WHERE id = 1")
    with road.capturing():
        road.run()
    history = road.history()
    assert begins and history.begins and history.begins > begins
    assert "were deleted" in history.why_there
    road.close()
