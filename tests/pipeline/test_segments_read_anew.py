"""A pipeline's segments against its source's log, read anew: what was lost or changed between the log and the staged files is found."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from auditor import config
from auditor.errors import PositionLost
from auditor.model import State, Verdict
from auditor.service import segment_audits, segment_files
from auditor.store import open_store
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.live_segments import LogWriter
from tests.staged_files import Rows

pytestmark = pytest.mark.alone  # it reads where the log ends


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


def _write(log: LiveLog, keys: range) -> None:
    for key in keys:
        log.run(f"INSERT INTO anew VALUES ({key}, 'row {key}', 'secret {key}')")


def _damage(rows: Rows) -> Rows:
    """Change a value on the way from the log to the segments."""
    for row in rows:
        if row["kind"] == "insert" and row["after"][1] == "row 20":
            row["after"][1] = "DAMAGED"
    return rows
