"""A pipeline's segments against its source's log, read anew: what was lost or changed between the log and the staged files is found."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from auditor import config
from auditor.config import PipelineColumns
from auditor.errors import PositionLost
from auditor.model import State, Verdict
from auditor.pipeline.events import place_text
from auditor.service import segment_audits, segment_files
from auditor.store import open_store, segment_register, segments
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_segments import LogWriter
from tests.staged_files import Rows

pytestmark = pytest.mark.alone  # it reads where the log ends


CONFIGURATION = """
connections:
  shop: {{url: '{url}'}}
  duck: {{url: 'duckdb:///x.duckdb', write: {{url: 'duckdb:///x.duckdb'}}}}
audits: {{}}
pipelines:
  shop:
    source: {{connection: shop, tables: [anew]}}
    columns: {{anew: {{mask: [secret]}}}}
    staging: {{path: '{folder}/staging'}}
    segment: {{rows: 3, age: 1h, path: '{folder}/archive', format: csv, by: t}}
    targets: {{duck: {{connection: duck, schema: main}}}}
segments:
  log: {{pipelines: [shop]}}
"""

MARIADB = pytest.param("mariadb", id="mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow])


@pytest.mark.parametrize("engine", [*engine_params("mysql"), MARIADB], indirect=True)
def test_the_log_read_anew_is_the_other_side(engine: LiveEngine, tmp_path: Path) -> None:
    log = LiveLog(engine.url)
    log.run("DROP TABLE IF EXISTS anew", "CREATE TABLE anew (id int PRIMARY KEY, t varchar(30), secret varchar(30))", "FLUSH BINARY LOGS")
    path = tmp_path / "auditor.yaml"
    path.write_text(
        f"connections:\n  shop: {{url: '{log.url}'}}\n  duck: {{url: 'duckdb:///x.duckdb', write: {{url: 'duckdb:///x.duckdb'}}}}\n"
        f"audits: {{}}\npipelines:\n  shop:\n    source: {{connection: shop, tables: [anew]}}\n    columns: {{anew: {{mask: [secret]}}}}\n"
        f"    staging: {{path: '{tmp_path}/staging'}}\n    segment: {{rows: 3, age: 1h}}\n"
        "    targets: {duck: {connection: duck, schema: main}}\nsegments:\n  log: {pipelines: [shop]}\n"
    )
    settings = config.load(path)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        assert segment_audits.run(settings, store, "log").reasons == (
            "pipeline shop has read nothing yet; start it, and run the audit again",
        )
        shop = LogWriter(settings, path, store, "shop")
        _write(log, range(10))
        shop.read()
        first = segment_audits.run(settings, store, "log")
        assert first.verdict is Verdict.MATCH and first.reasons[0].startswith("3 segments with 9 events"), first.reasons
        kept = list((tmp_path / "staging/anew-log/segments").glob("*"))
        assert kept == [], "files that equal the other side's are not kept"
        _write(log, range(10, 30))
        shop.read(_damage)
        second = segment_audits.run(settings, store, "log")
        assert second.verdict is Verdict.MISMATCH, second.reasons
        [verified] = segment_files.verify(settings, store, "log")
        assert "column t, after: 'DAMAGED' in shop, 'row 20' in anew" in verified.findings[0][1]
        [mended] = segment_files.copy(settings, store, "log", "anew", None, by="ada")
        assert mended.copied and segment_audits.run(settings, store, "log").verdict is Verdict.MATCH
        segment_files.reset(settings, store, "log", by="ada")
        assert segment_audits.run(settings, store, "log").verdict is Verdict.MATCH, "the file in which the pipeline stands is read again"
        log.purge()
        gone = segment_audits.run(settings, store, "log")
        assert (gone.state, gone.exit_code) == (State.FAILED, PositionLost.exit_code)
        assert "so what shop staged since is not compared: position binlog." in gone.reasons[0]
        assert gone.reasons[0].endswith("; begin anew where shop stands now: auditor segments reset log")


@pytest.mark.parametrize("engine", [*engine_params("mysql"), MARIADB], indirect=True)
def test_files_that_were_deleted_are_read_from_the_log_again(engine: LiveEngine, tmp_path: Path) -> None:
    """Those of segments that match are not kept: a damaged file of the pipeline is mended by what the log still has, or not at all."""
    log = LiveLog(engine.url)
    log.run("DROP TABLE IF EXISTS anew", "CREATE TABLE anew (id int PRIMARY KEY, t varchar(30), secret varchar(30))", "FLUSH BINARY LOGS")
    path = tmp_path / "auditor.yaml"
    path.write_text(CONFIGURATION.format(url=log.url, folder=tmp_path))
    settings = config.load(path)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        shop = LogWriter(settings, path, store, "shop")
        _write(log, range(10))
        shop.read()
        assert segment_audits.run(settings, store, "log").verdict is Verdict.MATCH, "it begins with the log's file of now"
        log.run("FLUSH BINARY LOGS")
        _write(log, range(10, 20))
        shop.read()
        assert segment_audits.run(settings, store, "log").verdict is Verdict.MATCH
        listed = segments.list_segments(store, "shop", f"{log.database}.anew")
        archive = tmp_path / "archive"
        content = {one.path: (archive / one.path).read_bytes() for one in listed}
        for one in (listed[1], listed[2], listed[4]):  # two that follow one another, and one in the next file of the log
            (archive / one.path).write_bytes(content[one.path].replace(b"row", b"ROW"))
        [verified] = segment_files.verify(settings, store, "log")
        assert [problem.first for problem, _ in verified.problems] == [listed[1].first, listed[2].first, listed[4].first]

        other = {"columns": {"anew": PipelineColumns()}}
        unmasked = settings.model_copy(update={"pipelines": {"shop": settings.pipeline("shop").model_copy(update=other)}})
        refused = segment_files.copy(unmasked, store, "log", "anew", None, by="ada")
        for stretch, file in zip(refused, (listed[1], listed[2], listed[4]), strict=True):
            places = f"from {place_text(file.first)} to {place_text(file.last)}"
            other_events = f"it has other events of {log.database}.anew {places} now"
            assert stretch.refused.endswith(f": {other_events}, or the pipeline's columns are others")

        mended = segment_files.copy(settings, store, "log", "anew", None, by="ada")
        assert [(one.refused, len(one.copied)) for one in mended] == [("", 1)] * 3
        [verified] = segment_files.verify(settings, store, "log")
        assert (verified.problems, verified.findings) == ((), ()) and segment_audits.run(settings, store, "log").verdict is Verdict.MATCH
        now = segments.list_segments(store, "shop", f"{log.database}.anew")
        assert [replace(one, path="") for one in now] == [replace(one, path="") for one in listed] and now[1].path != listed[1].path

        log.purge()
        files = sorted(archive.rglob("*"))
        (archive / now[0].path).unlink()
        (archive / now[-1].path).write_bytes(b"")
        refused = segment_files.copy(settings, store, "log", "anew", None, by="ada")
        assert len(refused) == 2 and not any(one.copied for one in refused)
        for stretch in refused:
            assert stretch.refused.startswith(
                "the segment of anew cannot be copied: its file was deleted by design, because it was equal to the other side's, and the"
                " log does not yield it again: position binlog."
            )
        assert sorted(archive.rglob("*")) == [one for one in files if one != archive / now[0].path], "nothing was written"
        assert segments.list_segments(store, "shop", f"{log.database}.anew") == now
        segment_register.prune(store, "log", dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        kept = settings.model_copy(update={"keep": settings.keep.model_copy(update={"days": 30})})
        old, *_ = segment_files.copy(kept, store, "log", "anew", None, by="ada")
        assert old.first == now[0].first and old.refused == (
            "its entries left the register by design, 30 days after it was found equal (keep: days), so nothing says any more what anew has"
            " there"
        )


def _write(log: LiveLog, keys: range) -> None:
    for key in keys:
        log.run(f"INSERT INTO anew VALUES ({key}, 'row {key}', 'secret {key}')")


def _damage(rows: Rows) -> Rows:
    """Change a value on the way from the log to the segments."""
    for row in rows:
        if row["kind"] == "insert" and row["after"][1] == "row 20":
            row["after"][1] = "DAMAGED"
    return rows
