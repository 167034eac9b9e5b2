"""What ``auditor pipeline`` checks, shows, pauses, proposes and resets."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import dialects
from auditor import config
from auditor.api_models.pipeline import LiveSummaries, PipelineStatus
from auditor.cli import main
from auditor.config import Settings
from auditor.connections.writer import open_writer
from auditor.pipeline import check as checks
from auditor.pipeline.binlog.heartbeats import Beat, Trail
from auditor.pipeline.binlog.ranges import Mark, as_offset
from auditor.pipeline.events import Place
from auditor.pipeline.failover import Failover
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.live.published_epochs import published
from auditor.pipeline.segments.writer import open_writer as open_segment_writer
from auditor.service import failovers
from auditor.service import pipelines as services
from auditor.store import live_epochs, parts, pipelines
from auditor.store.live_epochs import EpochSubject
from tests.live import Engines, engine_params
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table
from tests.servers import mysql

ORDERS = table(id="bigint", item="varchar(40) null")


@pytest.fixture
def duck(tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    """A road into a DuckDB file."""
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    yield made
    made.close()


def command(road: Road, *arguments: str) -> int:
    return main(["pipeline", *arguments, "--config", str(road.config_file)])


def test_status_says_what_a_target_holds_and_lacks(duck: Road, capsys: pytest.CaptureFixture[str]) -> None:
    keyless = table("log", (), id="int")
    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])), batch(announce(keyless, 2), insert(keyless, 3, ["1"])))
    duck.loader().merge_all()
    assert command(duck, "status", PIPELINE, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["paused"] is False and found["staged_through"] == 10 and found["events"] == 2
    assert {table: staged["parts"] for table, staged in found["tables"].items()} == {"shop.log": 1, "shop.orders": 1}
    target = found["targets"]["wh"]
    assert target["pending_events"] == 1 and target["lag_seconds"] >= target["tables"]["shop.log"]["lag_seconds"] > 0
    assert target["tables"]["shop.orders"]["state"] == "merged" and target["tables"]["shop.log"]["state"] == "stopped"
    assert target["tables"]["shop.orders"]["lag_seconds"] == 0 and not found["running"]
    assert found["warnings"][0].startswith("the source cannot be checked: ")
    assert command(duck, "pause", PIPELINE) == 0 and pipelines.get_pipeline(duck.store, PIPELINE).paused
    capsys.readouterr()
    assert command(duck, "status", PIPELINE) == 0
    text = capsys.readouterr().out
    assert "pipeline shop: paused; 2 events staged, up to 2026-11-01" in text and "wh: shop.log: stopped: shop.log has no primary" in text
    assert command(duck, "unpause", PIPELINE) == 0 and not pipelines.get_pipeline(duck.store, PIPELINE).paused
    assert command(duck, "status", "other") == 2


def test_status_says_which_heartbeat_the_stream_carried_last(duck: Road, capsys: pytest.CaptureFixture[str]) -> None:
    def status(form: str = "text") -> str:
        assert command(duck, "status", PIPELINE, "--format", form) == 0
        return capsys.readouterr().out

    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    assert json.loads(status("json"))["heartbeat"] is None and "heartbeat" not in status()
    written = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=2)
    offset = as_offset(Mark(Place("binlog.000001", 400), trail=Trail(Beat("shop", 4711, written, 1), 3, 99)), epoch=0)
    parts.record_batch(duck.store, PIPELINE, [], {}, offset)
    found = json.loads(status("json"))["heartbeat"]
    assert 120 <= found.pop("age_seconds") < 600
    assert dt.datetime.fromisoformat(found.pop("at")) == written
    assert found == {"database": "shop", "serial": 4711}
    assert re.search(rf"^last heartbeat: 4,711 of shop, written 1\d\d s ago \({written:%Y-%m-%dT%H:%M:%S} UTC\)$", status(), re.MULTILINE)


def test_status_says_which_live_summaries_the_stream_keeps(duck: Road, capsys: pytest.CaptureFixture[str]) -> None:
    def status(form: str = "text") -> str:
        assert command(duck, "status", PIPELINE, "--format", form) == 0
        return capsys.readouterr().out

    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    assert json.loads(status("json"))["live_summaries"] == [] and "live summaries" not in status()
    began = dt.datetime(2026, 11, 23, 10, tzinfo=dt.UTC)
    for number, one in enumerate(("orders", "orders", "items")):
        subject = EpochSubject(one, PIPELINE, "wh", f"shop.{one}")
        epoch = live_epochs.begin_epoch(duck.store, subject, fingerprint="f", layout="range 16", plan={"number": number})
    last, place = live_epochs.current_epoch(duck.store, "orders"), "binlog.000001:400"
    assert last and live_epochs.place_epoch(duck.store, last.id, position=400, log_place=place, at=began)
    assert live_epochs.keep_epoch(duck.store, last.id, b"")
    about = {"table": "shop.items", "target": "wh", "since": None, "since_place": "", "proved": None, "proved_place": "", "ended": None}
    kept = {"audit": "orders", "table": "shop.orders", "target": "wh", "state": "kept", "since": began, "since_place": place}
    assert PipelineStatus.from_json(status("json")).live_summaries == [
        LiveSummaries.model_validate({"audit": "items", "state": "wanted", "reason": "", **about}),
        LiveSummaries.model_validate({**kept, "proved": began, "proved_place": place, "ended": None, "reason": ""}),
    ]
    told = "live summaries of orders (shop.orders in wh): kept since 2026-11-23T10:00:00"
    assert f"{told}, proved by a scan of the source as of 2026-11-23T10:00:00\n" in status()
    failovers.end_live_summaries(
        duck.store, PIPELINE, Failover(as_offset(Mark(Place("binlog.000002", 4)), epoch=1), "", ("rows are missing",), ("shop.orders",))
    )
    assert (found := live_epochs.get_epoch(duck.store, epoch.id)) and found.state == "wanted", "no rows of its table are missing"
    assert re.search(r"orders.*: ended since .*, ended \S+: the pipeline failed over with a gap: rows are missing\n", status())


def test_sums_that_no_audit_asks_for_end_as_the_pipeline_begins(duck: Road) -> None:
    epoch = live_epochs.begin_epoch(duck.store, EpochSubject("gone", PIPELINE, "wh", "shop.orders"), fingerprint="f", layout="", plan={})
    duck.stage(batch(announce(ORDERS, 1)))
    services.end_unwanted_sums(duck.settings, duck.store, PIPELINE)
    found = live_epochs.get_epoch(duck.store, epoch.id)
    assert found and found.reason == "no audit of this name asks for live summaries any more" and published(LocalFolder(duck.root)) == []


def test_reset_forgets_what_it_says_once_the_name_was_written_again(duck: Road, capsys: pytest.CaptureFixture[str]) -> None:
    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    duck.loader().merge_all()
    assert command(duck, "reset", PIPELINE, "--name-again", "shoop") == 2
    told = capsys.readouterr()
    assert f"the staged parts below {duck.root}: 1 events" in told.out and "that is another name, so nothing was reset" in told.err
    assert parts.list_tables(duck.store, PIPELINE)
    assert command(duck, "reset", PIPELINE, "--name-again", PIPELINE) == 0
    assert not parts.list_tables(duck.store, PIPELINE) and not list(duck.root.rglob("*.arrows"))
    assert duck.query("SELECT * FROM shop.auditor_positions") == [] and duck.rows() == [(1, "a")]


def test_segments_are_listed_and_verified(duck: Road, capsys: pytest.CaptureFixture[str]) -> None:
    text = duck.config_file.read_text().replace(
        "    targets:", f"    segment: {{rows: 2, format: csv, path: {duck.folder}/archive}}\n    targets:"
    )
    duck.config_file.write_text(text)
    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"], ["3", "c"], ["4", "d"])))
    assert open_segment_writer(duck.store, PIPELINE, config.load(duck.config_file).pipeline(PIPELINE)).step()
    assert command(duck, "segments", PIPELINE, "--verify") == 0
    told = capsys.readouterr()
    assert told.out.count("shop.orders 2026-11-01T00:00:10Z         2 events  ") == 2
    assert "2 segments of 1 tables; 2 of them hold what was hashed" in told.err
    [first, second] = sorted((duck.folder / "archive").rglob("*.csv"))
    assert first.read_text().splitlines()[1].endswith(',,"[""1"",""a""]"')
    first.write_text(first.read_text().replace('""a""', '""b""'))
    second.unlink()
    assert command(duck, "segments", PIPELINE, "--table", "orders", "--verify", "--format", "json") == 1
    wrong = [one["wrong"] for one in json.loads(capsys.readouterr().out)]
    assert "does not hold the events that were hashed: it has 2 of 2" in wrong[0] and "is missing" in wrong[1]
    assert command(duck, "segments", PIPELINE, "--table", "other") == 2
    assert "has no segments of 'other'; it has of shop.orders" in capsys.readouterr().err
    assert command(duck, "reset", PIPELINE, "--name-again", PIPELINE) == 0
    assert "which segments there are; their files stay" in capsys.readouterr().out and first.exists()


def test_a_reset_deletes_the_segments_of_the_staging(duck: Road, capsys: pytest.CaptureFixture[str]) -> None:
    duck.config_file.write_text(duck.config_file.read_text().replace("    targets:", "    segment: {rows: 2}\n    targets:"))
    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"], ["3", "c"])))
    assert open_segment_writer(duck.store, PIPELINE, config.load(duck.config_file).pipeline(PIPELINE)).step()
    assert len(list((duck.root / "segments").iterdir())) == 1
    assert command(duck, "reset", PIPELINE, "--name-again", PIPELINE) == 0
    assert "the segments of its stream, with their files" in capsys.readouterr().out and not (duck.root / "segments").exists()


def test_a_target_that_is_added_later_is_built_from_kept_parts_or_says_what_it_lacks(duck: Road) -> None:
    duck.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    duck.stage(batch(insert(ORDERS, 20, ["2", "b"])))
    duck.loader().merge_all()
    duck.execute("DROP TABLE shop.orders", "DELETE FROM shop.auditor_positions")
    pipelines.forget(duck.store, PIPELINE)  # as a new target has reported nothing
    assert duck.loader().merge_all() == 2 and duck.rows() == [(1, "a"), (2, "b")]
    pipelines.report_merges(duck.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(10, "merged")})
    assert len(parts.delete_passed(duck.store, PIPELINE, -1, targets=["wh"])) == 1
    duck.execute("DELETE FROM shop.auditor_positions")
    pipelines.forget(duck.store, PIPELINE)
    assert duck.loader().merge_all() == 0
    report = pipelines.list_merges(duck.store, PIPELINE)["wh"]["shop.orders"]
    assert report.state == "stopped" and report.reason.startswith(
        "shop.orders: the target holds nothing, and the parts up to 000000:10 were deleted; send all its rows again, after which the target"
        " begins behind these parts: auditor pipeline refresh shop --table shop.orders --apply"
    )


def _settings(folder: Path, source: str, tables: str, columns: str = "{}") -> Settings:
    path = folder / "auditor.yaml"
    url = f"duckdb:///{folder}/warehouse.duckdb"
    path.write_text(
        f"""\
connections:
  source: {{url: "{source}"}}
  warehouse: {{url: "{url}", write: {{url: "{url}"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: {tables}}}
    columns: {columns}
    staging: {{path: "{folder}/staging"}}
    targets: {{wh: {{connection: warehouse, schema: shop}}}}
"""
    )
    return config.load(path)


@pytest.mark.parametrize("name", engine_params("mysql", "mariadb"))
def test_check_says_everything_that_is_missing_at_once_and_init_writes_audits(
    name: str, engines: Engines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = engines.live(name).url
    with mysql.connect(url) as connection, connection.cursor() as cursor:
        for statement in (
            "DROP TABLE IF EXISTS piped, piped_log, piped_shape",
            "CREATE TABLE piped (id INT PRIMARY KEY, secret VARCHAR(9) CHARACTER SET latin1, country CHAR(2))",
            "CREATE TABLE piped_log (id INT)",
            "CREATE TABLE piped_shape (id INT PRIMARY KEY, shape GEOMETRY)",
            "CREATE USER IF NOT EXISTS piper@'%' IDENTIFIED BY 'piper'",
            "GRANT SELECT ON *.* TO piper@'%'",
        ):
            cursor.execute(statement)
    reader = f"{name}://piper:piper@{url.partition('@')[2]}"
    columns = "{piped: {exclude: [secret], where: \"country = 'DE'\"}}"
    settings = _settings(tmp_path, reader, '["piped*", "gone_*"]', columns)
    found = {(one.severity, one.subject): one.sentence for one in checks.check(settings, PIPELINE, b"salt")}
    sentences = [one.sentence for one in checks.check(settings, PIPELINE, b"salt")]
    assert found["warning", "table gone_*"].startswith("the source has no such table")
    assert any("the user needs REPLICATION SLAVE and REPLICATION CLIENT; run: GRANT REPLICATION SLAVE" in one for one in sentences)
    assert any("piped_log has no primary key, so its rows cannot be merged" in one for one in sentences)
    assert any("piped_shape.shape is of type geometry, which no target holds; exclude it" in one for one in sentences)
    assert not any("binlog_" in one for one in sentences), "the server of the tests is set up for a change stream"
    assert not any("piped." in one for one in sentences), "nothing is wrong with this one"
    from auditor.service.pipelines import propose_audits

    assert propose_audits(settings, PIPELINE)["shop_piped"] == {
        "source": {"connection": "source", "table": "piped"},
        "target": {"connection": "warehouse", "table": "shop.piped"},
        "columns": {"exclude": ["secret"]},
        "where": "country = 'DE'",
    }
    with open_writer("warehouse", settings.connections["warehouse"]) as session:
        assert session.query("SELECT COUNT(*) FROM duckdb_tables()") == [(0,)], "checking makes nothing"
    path = tmp_path / "auditor.yaml"
    assert main(["pipeline", "init", PIPELINE, "--config", str(path)]) == 0
    told, written = capsys.readouterr(), config.load(path)
    assert "shop_piped: added" in told.out and "were written into" in told.err
    assert written.audits["shop_piped"].where == "country = 'DE'" and written.pipelines == settings.pipelines
    assert main(["pipeline", "init", PIPELINE, "--config", str(path)]) == 0
    assert "shop_piped: is there already, and stays as it is" in capsys.readouterr().out


def test_check_says_which_settings_of_the_source_are_wrong() -> None:
    class Session:
        dialect, server, variants = dialects.get("mysql"), "MySQL 9.7", ()
        settings = {"log_bin": "OFF", "binlog_format": "ROW", "binlog_row_metadata": "MINIMAL", "server_id": "0"}

        def query(self, sql: str) -> list[tuple[Any, ...]]:
            if sql.startswith("SHOW GRANTS"):
                return [("GRANT ALL PRIVILEGES ON *.* TO `root`@`%`",)]
            return [*self.settings.items(), ("binlog_expire_logs_seconds", "3600")]

    found = {sentence: severity for severity, sentence in checks.check_source(cast(dialects.Session, Session()), has_tracker=False)}
    assert list(found.values()) == ["error", "error", "error", "warning"]
    told = "\n".join(found)
    assert "log_bin is 'OFF' and must be 'ON'; start the server with --log-bin" in told
    assert "binlog_row_metadata is 'MINIMAL' and must be 'FULL'; run SET GLOBAL binlog_row_metadata = 'FULL'" in told
    assert "option file; or give the pipeline a tracker: {url: ...}" in told
    with_tracker = [sentence for _, sentence in checks.check_source(cast(dialects.Session, Session()), has_tracker=True)]
    assert with_tracker == [sentence for sentence in found if "binlog_row_metadata" not in sentence]
    Session.server, Session.settings = "MariaDB 12.3.1", {"binlog_storage_engine": "innodb"}
    newer = {sentence.partition(",")[0]: severity for severity, sentence in checks.check_source(cast(dialects.Session, Session()), True)}
    assert newer["binlog_storage_engine is 'innodb'"] == "error" and newer["the source is MariaDB 12.3"] == "warning"
    assert "run: SET GLOBAL server_id = 1" in told and "binary logs are deleted after 3600 s" in told


def test_proposed_audits_rename_and_leave_out(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "mysql://nobody@localhost/shop", "[orders]", "{orders: {mask: [mail], rename: {zip: postcode}}}")
    from auditor.service.pipelines import propose_audits

    audits = propose_audits(settings, PIPELINE, ["orders"])
    assert audits["shop_orders"]["target"] == {"connection": "warehouse", "table": "shop.orders", "columns": {"zip": "postcode"}}
    assert audits["shop_orders"]["columns"] == {"exclude": ["mail"]}
    assert config.validate_audit(audits["shop_orders"]).target.columns == {"zip": "postcode"}
