"""Live summaries all the way through Spark: random events, a pipeline that is killed, and audits of both targets by the sums."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from auditor.connections.writer import open_writer
from auditor.model import Difference, Report, State, Verdict
from auditor.pipeline.folders import S3Folder
from auditor.service import running
from auditor.store import parts
from auditor.store import pipelines as stored
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.live_summing import COLUMNS, statements
from tests.pipeline.running import PATIENCE
from tests.pipeline.test_staging_in_s3 import BUCKET, bucket  # noqa: F401 (a fixture)
from tests.pipeline.whole_road import PIPELINE, WholeRoad

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.spark, pytest.mark.postgres]
ROOT = Path(__file__).parents[2]
SCHEMA, TABLE, KEYS, TRANSACTIONS = "live_on_spark", "spark_summed", 2000, 1500
TARGETS = ("pg", "duck")


@pytest.fixture(params=[pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("mariadb", marks=pytest.mark.mariadb)])
def make_road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[Callable[[str], WholeRoad]]:
    """Make the table, and the road from it with its parts in a place."""
    engines.live("spark")
    source, made = engines.live(request.param), list[WholeRoad]()
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    LiveLog(source.url).run(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} ({columns})")

    def make(staging: str) -> WholeRoad:
        sides = "source: {{connection: source, table: {table}}}, target: {{connection: {target}, table: {schema}.{table}}}"
        audits = []
        for target in TARGETS:
            about = sides.format(table=TABLE, target=target, schema=SCHEMA)
            audits += [f"live_{target}: {{{about}, summaries: live}}", f"full_{target}: {{{about}, align: pipeline}}"]
        road = WholeRoad(tmp_path, source, engines.live("postgres"), SCHEMA, [TABLE], staging=staging, audits=f"{{{', '.join(audits)}}}")
        made.append(road)
        return road

    yield make
    for road in made:
        road.close()


class Piped:
    """A pipeline that runs as a process in the block."""

    def __init__(self, road: WholeRoad) -> None:
        self.log = road.path.parent / "driver.log"
        command = [sys.executable, "-m", "auditor", "pipeline", "run", PIPELINE, "--config", str(road.path)]
        with self.log.open("a") as told:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=told)

    def __enter__(self) -> Piped:
        return self

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-6000:]
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill it, so that it can put nothing in order."""
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


def arrived(road: WholeRoad) -> bool:
    """Whether everything that is logged by now is staged, and both targets have merged it."""
    name = f"{road.database}.{TABLE}"
    if not road.is_staged(LiveLog(road.source.url).end()) or name not in parts.list_tables(road.store, PIPELINE):
        return False
    return road.reports(TABLE) == dict.fromkeys(TARGETS, ("merged", ""))


def audit(road: WholeRoad, name: str, **overrides: bool) -> Report:
    report = running.run_audit(road.settings, name, store=road.store, overrides=overrides)
    assert report.state is State.DONE, (name, report.reasons)
    return report


def goes_all_the_way(road: WholeRoad) -> None:
    """Let sums begin, kill the pipeline among random events, and compare both targets with the sums, and these with scans."""
    log = LiveLog(road.source.url)
    random = list(statements(TABLE, KEYS, 21, TRANSACTIONS))
    begin = f"INSERT INTO {TABLE} (id, item, price) VALUES " + ", ".join(f"({key}, 'row {key}', {key})" for key in range(KEYS))
    with Piped(road) as pipeline:
        pipeline.until(road.has_begun)
        log.run(begin)
        pipeline.until(lambda: arrived(road))
        for target in TARGETS:
            first = audit(road, f"live_{target}")
            assert first.verdict is Verdict.MATCH and first.live and first.live.scanned and first.aligned, first.reasons
        merged = road.positions(TABLE)
        log.run(*(one for transaction in random[: TRANSACTIONS // 2] for one in transaction))
        pipeline.until(lambda: any(position > merged[target] for target, position in road.positions(TABLE).items()))
        pipeline.kill()
    log.run(*(one for transaction in random[TRANSACTIONS // 2 :] for one in transaction))
    with Piped(road) as pipeline:
        pipeline.until(lambda: arrived(road))
        for target in TARGETS:
            live, full = audit(road, f"live_{target}"), audit(road, f"full_{target}")
            assert live.verdict is full.verdict is Verdict.MATCH, (live.reasons, full.reasons)
            assert live.live and not live.live.scanned and full.aligned, "nothing was lost by the kill, and the sums go on"
            assert live.comparison and full.comparison and live.comparison.rows == full.comparison.rows
            proof = audit(road, f"live_{target}", rescan=True)
            assert proof.verdict is Verdict.MATCH and proof.live and proof.live.scanned == "a rescan was asked for"
            assert not proof.live.lost and not proof.live.lost_partitions, "each partition's sums equal the scan"
        with open_writer("pg", road.settings.connections["pg"]) as session:
            session.execute(f"DELETE FROM {SCHEMA}.{TABLE} WHERE id = (SELECT MIN(id) FROM {SCHEMA}.{TABLE})")
        names = [[(one.kind, one.key) for one in _named(audit(road, name))] for name in ("live_pg", "full_pg")]
        assert names[0] == names[1] and [kind for kind, _ in names[0]] == ["missing"]
    assert stored.get_pipeline(road.store, PIPELINE).events > TRANSACTIONS


def _named(report: Report) -> Sequence[Difference]:
    assert report.differences and report.differences.exact
    return report.differences.named


def test_a_pipeline_that_was_killed_keeps_the_sums_right(make_road: Callable[[str], WholeRoad]) -> None:
    goes_all_the_way(make_road(""))


@pytest.mark.usefixtures("bucket")
def test_sums_that_are_staged_in_s3(make_road: Callable[[str], WholeRoad], tmp_path: Path) -> None:
    goes_all_the_way(make_road(f"s3://{BUCKET}/shop"))
    staged = list(S3Folder(f"s3://{BUCKET}/shop").names())
    assert any(name.endswith(".sums") for name in staged) and not (tmp_path / "staging").exists()
