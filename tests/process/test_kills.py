"""Kill a run's process or its database in the middle: the resumed run loses nothing and counts nothing twice."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live import Engines
from tests.programs import processes
from tests.programs.processes import comparable_result, listing_runs, write_config
from tests.servers import mysql, postgres
from tests.servers.killable import Killable, killable

pytestmark = [pytest.mark.clock, pytest.mark.mariadb, pytest.mark.postgres]

DAMAGE = (
    "DELETE FROM live WHERE id IN (17, 4000, 31234)",
    "UPDATE live SET v = 'mangled' WHERE id IN (18, 9999, 25000, 50001)",
    "INSERT INTO live SELECT MAX(id) + 1, 'ghost' FROM live",
)


@dataclass
class Stage:
    """Two tables with known differences, their configuration, and the result of an undisturbed run."""

    server: Killable
    folder: Path
    rows: int
    settings: dict[str, Any]
    expected: dict[str, Any]

    def run(self) -> processes.Process:
        return processes.start_run(self.folder, settings=self.settings)

    def assert_same_result(self, process: processes.Process) -> dict[str, Any]:
        report = process.report()
        assert report["state"] == "done", report["reasons"]
        assert comparable_result(report) == self.expected
        return report

    def resume_newest(self) -> dict[str, Any]:
        """Resume the newest run, check its result, and return its report."""
        newest = processes.list_runs(self.folder)[0]
        assert newest["state"] in ("failed", "cancelled") and newest["resumable"], newest
        process = processes.Process(self.folder, "resume", newest["run"], "--format", "json", settings=self.settings)
        report = self.assert_same_result(process)
        assert report["run"] == newest["run"]
        assert [one["state"] for one in processes.list_runs(self.folder) if one["run"] == newest["run"]] == ["done"]
        return report


def _make_stage(server: Killable, target: str, folder: Path, rows: int, chunk: int) -> Stage:
    with mysql.connect(server.url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS live")
        cursor.execute("CREATE TABLE live (id BIGINT PRIMARY KEY, v VARCHAR(50) CHARACTER SET utf8mb4)")
        cursor.execute(f"INSERT INTO live SELECT seq, CONCAT('row ', seq * 7919 MOD 100003) FROM seq_1_to_{rows}")
        cursor.execute("ANALYZE TABLE live")
    target_connection = postgres.connect(target)
    with target_connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS live")
        cursor.execute("CREATE TABLE live (id BIGINT PRIMARY KEY, v TEXT)")
        cursor.execute(f"INSERT INTO live SELECT i, 'row ' || (i::BIGINT * 7919) % 100003 FROM generate_series(1, {rows}) AS i")
        for statement in DAMAGE:
            cursor.execute(statement)
        cursor.execute("ANALYZE live")
    target_connection.close()
    write_config(folder, server.url, target, partition={"size": 250}, prescan=True)
    settings = {**processes.SMALL, "auditor.planning.chunks.CHUNK_ROWS": chunk}
    stage = Stage(server, folder, rows, settings, {})
    stage.expected = comparable_result(processes.start_run(folder, settings=settings).report())
    assert {name: stage.expected[name] for name in ("verdict", "missing", "extra", "changed")} == {
        "verdict": "mismatch",
        "missing": 3,
        "extra": 1,
        "changed": 4,
    }
    assert stage.expected["rows"] == {"source": rows, "target": rows - 2}
    return stage


@pytest.fixture(scope="module")
def server() -> Iterator[Killable]:
    with killable() as server:
        yield server


@pytest.fixture(scope="module")
def stage(server: Killable, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return _make_stage(server, engines.live("postgres").url, tmp_path_factory.mktemp("kills"), 60_000, 2000)


@pytest.fixture(scope="module")
def large(server: Killable, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return _make_stage(server, engines.live("postgres").url, tmp_path_factory.mktemp("large"), 1_000_000, 10_000)


@pytest.mark.parametrize(
    ("doing", "times"),
    [
        pytest.param("comparing digests", 5, marks=pytest.mark.slow),
        pytest.param("comparing digests", 7, marks=pytest.mark.slow),
        pytest.param("comparing digests", 14, marks=pytest.mark.slow),
        ("summarising", 3),
    ],
)
def test_run_resumes_after_its_process_is_killed(stage: Stage, doing: str, times: int) -> None:
    with listing_runs(stage.folder):
        process = stage.run()
        assert process.wait_for_output(doing, times=times), process.stderr_lines
        process.kill()
        newest = processes.list_runs(stage.folder)[0]
        assert newest["state"] == "failed" and "its process has died" in newest["reasons"][0]
        report = stage.resume_newest()
    assert any("was resumed" in note for note in report["notes"])


@pytest.mark.slow
def test_run_that_is_killed_before_it_stored_a_chunk_is_refused_and_a_new_one_finds_the_same(stage: Stage) -> None:
    with listing_runs(stage.folder):
        process = stage.run()
        assert process.wait_for_output("connecting"), process.stderr_lines
        process.kill()
        newest = processes.list_runs(stage.folder)[0]
        assert newest["state"] == "failed" and not newest["resumable"], newest
        refused = processes.Process(stage.folder, "resume", newest["run"], settings=stage.settings)
        assert refused.wait() == 2
        assert any("cannot be resumed" in line for line in refused.stderr_lines), refused.stderr_lines
        stage.assert_same_result(stage.run())


@pytest.mark.parametrize(
    ("doing", "times"),
    [
        pytest.param("comparing digests", 1, marks=pytest.mark.slow),
        ("comparing digests", 8),
        pytest.param("comparing digests", 15, marks=pytest.mark.slow),
        pytest.param("summarising", 2, marks=pytest.mark.slow),
    ],
)
def test_run_continues_after_the_source_restarts(stage: Stage, doing: str, times: int) -> None:
    with listing_runs(stage.folder):
        process = stage.run()
        assert process.wait_for_output(doing, times=times), process.stderr_lines
        stage.server.kill()
        assert process.wait_for_output("to retry"), process.stderr_lines
        stage.server.start()
        report = stage.assert_same_result(process)
    assert report["retries"] and processes.list_runs(stage.folder)[0]["state"] == "done"


def test_run_stays_resumable_while_the_source_is_down(stage: Stage) -> None:
    """A resume that fails immediately leaves the run resumable."""
    few_retries = {**stage.settings, "durations.connection_retry_waits": [0.05, 0.1]}
    process = processes.start_run(stage.folder, settings=few_retries)
    assert process.wait_for_output("comparing digests", times=6), process.stderr_lines
    stage.server.kill()
    try:
        report = process.report()
        assert (report["state"], report["verdict"], report["resumable"]) == ("failed", "unknown", True), report["reasons"]
        assert process.wait() == 3
        newest = processes.list_runs(stage.folder)[0]
        failed_resume = processes.Process(stage.folder, "resume", newest["run"], "--format", "json", settings=few_retries)
        assert (failed_resume.report()["resumable"], failed_resume.wait()) == (True, 3)
    finally:
        stage.server.start()
    stage.resume_newest()


@pytest.mark.slow
def test_run_resumes_after_its_process_is_killed_at_any_moment(large: Stage) -> None:
    chance, resumed = random.Random(20), 0
    with listing_runs(large.folder):
        began = time.monotonic()
        large.assert_same_result(large.run())
        duration = time.monotonic() - began
        for _ in range(20):
            process = large.run()
            process.wait_for_output("connecting")
            process.wait_for_seconds(chance.uniform(0, duration))
            process.kill()
            newest = processes.list_runs(large.folder)[0]
            assert newest["state"] != "running"
            if newest["resumable"]:
                large.resume_newest()
                resumed += 1
    assert resumed >= 10


@pytest.mark.slow
def test_run_continues_after_the_source_restarts_at_any_moment(large: Stage) -> None:
    chance = random.Random(21)
    with listing_runs(large.folder):
        began = time.monotonic()
        large.assert_same_result(large.run())
        duration = time.monotonic() - began
        for _ in range(20):
            process = large.run()
            process.wait_for_output("source: ", times=2)
            process.wait_for_seconds(chance.uniform(0, 0.8 * duration))
            large.server.kill()
            large.server.start()
            large.assert_same_result(process)
