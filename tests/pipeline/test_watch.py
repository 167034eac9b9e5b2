"""What a running pipeline reports before it hurts: how far it lies behind, a log about to expire, a disk nearly full, a store away."""

from __future__ import annotations

import datetime as dt
import logging
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config
from auditor.api_models.pipeline import PipelineProgress
from auditor.config import Settings
from auditor.errors import StoreUnavailable
from auditor.pipeline.binlog.server import LogFiles
from auditor.pipeline.check import check
from auditor.pipeline.events import Place
from auditor.pipeline.watch import SeenSource, Watch, assess, check_once
from auditor.service.pipeline_status import status
from auditor.store import Store, open_store, parts, pipelines
from auditor.store.pipelines import PipelineState
from dialects import versions
from dialects.versions import Tried, note_log
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params

PIPELINE = "shop"
NOW = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
FILES = LogFiles({"binlog.000002": 1000, "binlog.000003": 500}, 3600)
PLENTY = (10 << 30, 1 << 30)
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)


def at(file: str, position: int) -> dict[str, Any]:
    return {"epoch": 0, "file": file, "position": position, "gtid": ""}


def test_bytes_behind_count_over_files() -> None:
    assert FILES.end == Place("binlog.000003", 500)
    assert FILES.bytes_behind(Place("binlog.000003", 500)) == 0
    assert FILES.bytes_behind(Place("binlog.000002", 900)) == 600
    assert FILES.bytes_behind(Place("binlog.000001", 4)) is None


@pytest.mark.parametrize(
    ("offset", "stood", "disk", "warning"),
    [
        (at("binlog.000003", 500), 86400, PLENTY, ""),
        (at("binlog.000002", 900), 1700, PLENTY, ""),
        (at("binlog.000002", 900), 1900, PLENTY, "staging has been at binlog.000002:900 since 2026-11-01 11:28:20 UTC, and the source may"),
        (at("binlog.000001", 900), 10, PLENTY, "binlog.000001, which staging reads, is gone from the source's binary log: forget the"),
        (at("binlog.000003", 500), 0, (100 << 20, 300 << 20), "the disk of the staging's folder has 100 MiB left, and fewer than 300 MiB"),
    ],
)  # fmt: skip
def test_what_will_hurt_is_said_before(offset: dict[str, Any], stood: float, disk: tuple[int, int], warning: str) -> None:
    found = assess(PipelineState(source_offset=offset), SeenSource(FILES, None, NOW - dt.timedelta(seconds=stood)), disk, NOW)
    assert [one[: len(warning)] for one in found.warnings] == ([warning] if warning else [])


def _open(folder: Path, url: str, empty_store: Path) -> tuple[Settings, Store]:
    path = folder / "auditor.yaml"
    duckdb = f"duckdb:///{folder}/warehouse.duckdb"
    path.write_text(
        f"""\
connections:
  source: {{url: "{url}"}}
  warehouse: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [orders]}}
    staging: {{path: "{folder}"}}
    targets: {{wh: {{connection: warehouse, schema: shop}}}}
"""
    )
    shutil.copy(empty_store, folder / "auditor.db")
    settings = config.load(path)
    assert settings.store
    return settings, open_store(settings.store.url)


@on_both
def test_lag_is_told_in_bytes_and_seconds(engine: LiveEngine, tmp_path: Path, empty_store: Path) -> None:
    log = LiveLog(engine.url)
    settings, store = _open(tmp_path, engine.url, empty_store)
    with log.globally(binlog_expire_logs_seconds="86400"):
        log.run("DROP TABLE IF EXISTS watched", "CREATE TABLE watched (id int PRIMARY KEY)")
        watch = Watch(store, settings, PIPELINE)
        for _ in range(20):  # tests of other workers write into the same server's log
            end = log.end()
            parts.record_batch(store, PIPELINE, [], {}, at(end.file, end.offset))
            first = watch.check()
            if first.lag_bytes == 0:
                break
        assert (first.lag_bytes, first.log_end, first.log_expires, first.warnings) == (0, str(end), 86400, [])
        log.run("INSERT INTO watched VALUES (1)", "INSERT INTO watched VALUES (2)")
        second = watch.check()
        assert second.lag_bytes and second.lag_bytes > 200
        assert second.current_at and second.at and second.current_at < second.at and first.current_at == second.current_at
        pipelines.set_progress(store, PIPELINE, second)
        found = status(settings, store, PIPELINE)
        assert found.running and found.lag_bytes == second.lag_bytes and found.lag_seconds and found.lag_seconds > 0
        parts.record_batch(store, PIPELINE, [], {}, at(log.end().file, log.end().offset))
        assert watch.check().lag_bytes == 0
    stopped = threading.Event()
    stopped.set()
    watch.service(stopped).run()  # which closes its connection
    store.close()


@on_both
def test_a_log_that_expires_under_a_stopped_pipeline_is_said_by_its_status(engine: LiveEngine, tmp_path: Path, empty_store: Path) -> None:
    log = LiveLog(engine.url)
    settings, store = _open(tmp_path, engine.url, empty_store)
    with log.globally(binlog_expire_logs_seconds="3600"):
        log.run("DROP TABLE IF EXISTS watched", "CREATE TABLE watched (id int PRIMARY KEY)")
        start = log.end()
        parts.record_batch(store, PIPELINE, [], {}, at(start.file, start.offset))
        hour_ago = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=50)
        pipelines.set_progress(store, PIPELINE, PipelineProgress(at=hour_ago, current_at=hour_ago, lag_bytes=0))
        log.run("INSERT INTO watched VALUES (1)")
        found = status(settings, store, PIPELINE)
        assert not found.running and found.lag_seconds and 2990 < found.lag_seconds < 3600 and found.lag_bytes
        [warning] = found.warnings
        assert warning.startswith(f"staging has been at {start} since ") and "because binlog_expire_logs_seconds is 3600" in warning
        gone = at(f"{start.file.rpartition('.')[0]}.000000", 4)
        [lost] = check_once(settings, PIPELINE, PipelineState(source_offset=gone)).warnings
        assert "is gone from the source's binary log: forget the pipeline's positions with auditor pipeline reset" in lost
    store.close()


def test_a_source_and_a_store_that_are_away_are_said_once(
    tmp_path: Path, empty_store: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, store = _open(tmp_path, "mysql://nobody@127.0.0.1:1/shop", empty_store)
    watch = Watch(store, settings, PIPELINE)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            watch.check()
        assert [one.message for one in caplog.records if "the source cannot be checked" in one.message] == [caplog.records[0].message]
        stopped = threading.Event()

        def fail(*_: object) -> None:
            stopped.set()
            raise StoreUnavailable("it went away")

        monkeypatch.setattr(pipelines, "get_pipeline", fail)
        watch.service(stopped).run()
    assert caplog.records[-1].message.endswith("staging and merges wait for it, and nothing is lost: it went away")
    store.close()


def test_a_version_that_was_not_tried_is_said() -> None:
    assert note_log("MariaDB 11.4.5-MariaDB-log") == note_log("MariaDB 10.11") == note_log("MySQL 9.7.4") == []
    assert note_log("MySQL 8.0.45")[0].startswith(
        "the source is MySQL 8.0, on which pipelines were not tried (tried: MySQL 9.7, MariaDB 10.11, MariaDB"
    )
    files = LogFiles({"binlog.000001": 9}, None, note_log("MariaDB 12.1"))
    now = dt.datetime.now(dt.UTC)
    assert assess(PipelineState(), SeenSource(files), None, now).notes == list(files.notes)
    kept = PipelineState(progress=PipelineProgress(notes=["a note"]))
    assert assess(kept, SeenSource(), None, now).notes == ["a note"], "while the source is away"


@on_both
def test_a_source_and_a_target_that_were_not_tried_are_noted_by_check_and_status(
    engine: LiveEngine, tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, store = _open(tmp_path, engine.url, empty_store)
    with closing(duckdb.connect(f"{tmp_path}/warehouse.duckdb")):
        pass  # which makes the file
    LiveLog(engine.url).run("CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY)")
    server = "MariaDB" if engine.name == "mariadb" else "MySQL"
    monkeypatch.setattr(versions, "TRIED", {name: Tried(("0.1",), ("0.1",)) for name in ("MySQL", "MariaDB", "DuckDB")})
    found = check(settings, PIPELINE, b"salt")
    assert any(one.severity == "warning" and one.sentence.startswith(f"the source is {server} ") for one in found), found
    assert any(one.subject == "target wh" and "not tried; newest tried 0.1" in one.sentence for one in found), found
    [note] = status(settings, store, PIPELINE).notes
    assert note.startswith(f"the source is {server} ") and "on which pipelines were not tried (tried: MySQL 0.1, MariaDB 0.1" in note
    store.close()
