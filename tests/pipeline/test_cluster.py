"""The whole road on a cluster of two workers, and on a Spark Connect server, from a live log to both targets."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from auditor.model import Verdict
from auditor.pipeline.folders import S3Folder
from auditor.store import parts
from auditor.store import pipelines as stored
from benchmarks.process import command_line, process_tree, proportional_bytes
from tests import tables
from tests.live import Engines
from tests.pipeline.running import PATIENCE
from tests.pipeline.test_staging_in_s3 import BUCKET, bucket  # noqa: F401 (a fixture)
from tests.pipeline.test_whole_road import COLUMNS, TABLE, fill
from tests.pipeline.whole_road import PIPELINE, WholeRoad
from tests.servers import spark_cluster

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.postgres, pytest.mark.mysql]

ROOT = Path(__file__).parents[2]
SECRET = {"spark.authenticate": "true", "spark.authenticate.secret": "of the tests", "spark.network.crypto.enabled": "true"}
MASKED = f"columns: {{{TABLE}: {{mask: [name]}}}}"


@contextmanager
def running(road: WholeRoad, directory: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``auditor pipeline`` with the cluster's settings for the block."""
    arguments = [sys.executable, "-m", "auditor", "pipeline", *command, PIPELINE, "--config", str(road.path)]
    environment = spark_cluster.environment(directory)
    with (directory / "driver.log").open("a") as log:
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def until(process: subprocess.Popen[str], log: Path, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-6000:]
        time.sleep(0.3)


def holds_all(road: WholeRoad, events: int) -> bool:
    """Whether so many events at least are staged, and both targets have merged them."""
    staged = parts.list_tables(road.store, PIPELINE).get(f"{road.database}.{TABLE}")
    if staged is None or stored.get_pipeline(road.store, PIPELINE).events < events:
        return False
    return road.reports(TABLE) == dict.fromkeys(("pg", "duck"), ("merged", ""))


def memory(process: subprocess.Popen[str], directory: Path) -> str:
    """PSS in MiB of each process of the driver and, by their folder, of the cluster."""
    found = []
    for pid in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]:
        line = command_line(pid)
        if pid in process_tree(process.pid) or str(directory) in line or "pyspark.daemon" in line or "pyspark/daemon.py" in line:
            what = re.search(r"deploy\.(?:master|worker)\.\w+|CoarseGrainedExecutorBackend|SparkSubmit|[\w.]*daemon|-m [\w.]+", line)
            found.append(f"{what[0] if what else line[:60]} {proportional_bytes(pid) >> 20}")
    return ", ".join(sorted(found))


def goes_all_the_way(road: WholeRoad, directory: Path, killed: bool = False) -> None:
    """Replicate rows, stop, or be killed, replicate what was committed meanwhile, and audit both targets."""
    tables.make(road.source, TABLE, COLUMNS, [], key=["id"])
    log = directory / "driver.log"
    with running(road, directory, "run") as process:
        until(process, log, road.has_begun)
        fill(road)
        until(process, log, lambda: holds_all(road, 1 if killed else 130))
        print(f"\n{memory(process, directory)}")
        if killed:
            process.kill()
    assert process.returncode == (-signal.SIGKILL if killed else 0), log.read_text()[-3000:]
    tables.execute(road.source, f"UPDATE {TABLE} SET id = id + 5000, name = 'zzz last' WHERE id % 50 = 1")
    before = road.positions(TABLE)
    with running(road, directory, "run") as process:
        until(process, log, lambda: min(road.positions(TABLE).values()) > max(before.values()) and holds_all(road, 130))
    assert {report.verdict for report in road.audits().values()} == {Verdict.MATCH}
    assert "the last batch in the store" not in log.read_text()


@pytest.fixture
def road(engines: Engines, tmp_path: Path) -> Iterator[Callable[..., WholeRoad]]:
    """Makes the road at a master."""
    with ExitStack() as held:

        def made(master: str, staging: str = "") -> WholeRoad:
            more = f'master: "{master}"\n{MASKED}'
            found = WholeRoad(tmp_path, engines.live("mysql"), engines.live("postgres"), "at_cluster", [TABLE], more, staging)
            held.callback(found.close)
            return found

        yield made


def test_a_cluster_of_two_workers(road: Callable[..., WholeRoad], tmp_path: Path) -> None:
    with spark_cluster.cluster(tmp_path, SECRET) as master:
        goes_all_the_way(road(master), tmp_path)


def test_a_connect_server_on_a_cluster(road: Callable[..., WholeRoad], tmp_path: Path) -> None:
    with spark_cluster.cluster(tmp_path, SECRET) as master, spark_cluster.connect_server(tmp_path, master) as url:
        goes_all_the_way(road(url), tmp_path)


@pytest.mark.usefixtures("bucket")
def test_a_cluster_whose_hosts_share_nothing_but_s3(road: Callable[..., WholeRoad], tmp_path: Path) -> None:
    with spark_cluster.cluster(tmp_path, SECRET) as master:
        goes_all_the_way(road(master, f"s3://{BUCKET}/shop"), tmp_path, killed=True)
    staged = list(S3Folder(f"s3://{BUCKET}/shop").names())
    assert len(staged) > 1 and not (tmp_path / "staging").exists()


def test_what_a_cluster_lacks_is_refused_before_anything_runs(road: Callable[..., WholeRoad], tmp_path: Path) -> None:
    """The salt of masked columns would travel in plain sight."""
    with spark_cluster.cluster(tmp_path, {}) as master:
        found = road(master)
        with running(found, tmp_path, "run") as process:
            assert process.wait(PATIENCE) == 2
        told = (tmp_path / "driver.log").read_text()
        assert f"{TABLE} has masked columns, whose salt tasks get, and Spark does not encrypt what it sends to executors" in told
        assert not found.has_begun()
