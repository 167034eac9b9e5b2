"""What a pipeline writes tells no password, no excluded column and no masked value: a real process, with the event log of Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from auditor import config
from auditor.connections.writer import open_writer
from auditor.store import open_store, pipelines
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.running import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.mariadb, pytest.mark.slow]

PASSWORD, EXCLUDED, MASKED = "pa55-of-the-reader", "hush-hush-1234", "masked-me@home"


@pytest.fixture
def running(engines: Engines, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path, LiveLog]]:
    """A process of ``auditor pipeline run``, whose Spark writes its event log."""
    url = engines.live("mariadb").url
    log = LiveLog(url)
    log.run(
        "DROP TABLE IF EXISTS secretive",
        "CREATE TABLE secretive (id int PRIMARY KEY, name varchar(40), token varchar(40), email varchar(40)) CHARACTER SET utf8mb4",
        f"CREATE OR REPLACE USER secret_reader@'%' IDENTIFIED BY '{PASSWORD}'",
        "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO secret_reader@'%'",
    )
    spark_conf, duckdb = tmp_path / "conf", f"duckdb:///{tmp_path}/warehouse.duckdb"
    spark_conf.mkdir()
    (tmp_path / "events").mkdir()
    (spark_conf / "spark-defaults.conf").write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir file://{tmp_path}/events\n")
    path = tmp_path / "auditor.yaml"
    path.write_text(
        f"""\
connections:
  source: {{url: "mariadb://secret_reader:${{READER_PASSWORD}}@{url.partition("@")[2]}"}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
pipelines:
  secretive:
    source: {{connection: source, tables: [secretive]}}
    columns: {{secretive: {{exclude: [token], mask: [email]}}}}
    staging: {{path: "{tmp_path}/staging"}}
    targets: {{duck: {{connection: duck, schema: main, every: 0s}}}}
"""
    )
    command = [sys.executable, "-m", "auditor", "pipeline", "run", "secretive", "--config", str(path)]
    environment = {**os.environ, "SPARK_CONF_DIR": str(spark_conf), "READER_PASSWORD": PASSWORD}
    with (tmp_path / "said.log").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
    yield process, tmp_path, log
    if process.poll() is None:
        process.kill()
    process.wait()
    log.run("DROP USER secret_reader@'%'")


def test_nothing_that_a_pipeline_writes_tells_a_secret(
    running: tuple[subprocess.Popen[bytes], Path, LiveLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, folder, log = running
    monkeypatch.setenv("READER_PASSWORD", PASSWORD)
    settings = config.load(folder / "auditor.yaml")
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        _wait(process, folder, lambda: pipelines.get_pipeline(store, "secretive").source_offset is not None)
        log.run(f"INSERT INTO secretive VALUES (1, 'plain', '{EXCLUDED}', '{MASKED}'), (2, 'seen', NULL, NULL)")
        log.run(f"UPDATE secretive SET name = 'changed', token = '{EXCLUDED}x' WHERE id = 1")
        _wait(process, folder, lambda: bool(pipelines.list_merges(store, "secretive")))
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, (folder / "said.log").read_text()[-2000:]
    with open_writer("duck", settings.connections["duck"]) as session:
        assert session.query("SELECT id, name FROM secretive ORDER BY 1") == [(1, "changed"), (2, "seen")]
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "auditor.yaml"]
    names = {path.relative_to(folder).parts[0] for path in files}
    assert {"staging", "events", "said.log", "auditor.db", "warehouse.duckdb"} <= names
    assert any(path.stat().st_size > 10_000 for path in files if "events" in path.parts), "Spark wrote its plans"
    for path in files:
        text = path.read_bytes()
        if path.suffix == ".arrows":
            text += json.dumps(pa.ipc.open_stream(path).read_all().to_pylist(), default=str).encode()
        for secret in (PASSWORD, EXCLUDED, MASKED):
            assert secret.encode() not in text, f"{path} has {secret}"
    said = [json.loads(line) for line in (folder / "said.log").read_text().splitlines() if line.startswith("{")]
    staged = next(line for line in said if line.get("action") == "staged")
    assert {"batch", "events", "events_per_second", "lag_seconds", "lag_bytes", "pipeline"} <= set(staged)
    assert any(line.get("action") == "merged" and line["table"].endswith(".secretive") for line in said)


def _wait(process: subprocess.Popen[bytes], folder: Path, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert process.poll() is None and time.monotonic() < deadline, (folder / "said.log").read_text()[-2000:]
        time.sleep(0.2)
