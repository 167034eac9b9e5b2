"""A run whose process, or whose database, is killed in the middle: nothing is lost, and nothing is counted twice."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.engines import Engines
from tests.killable import Killable, killable
from tests.processes import configure, found, watched
from tests.servers import mysql, postgres

pytestmark = [pytest.mark.mariadb, pytest.mark.postgres]

DAMAGE = (
    "DELETE FROM live WHERE id IN (17, 4000, 31234)",
    "UPDATE live SET v = 'mangled' WHERE id IN (18, 9999, 25000, 50001)",
    "INSERT INTO live SELECT MAX(id) + 1, 'ghost' FROM live",
)


@dataclass
class Stage:
    """Both tables, damaged, the configuration, and what an undisturbed run finds."""

    server: Killable
    folder: Path
    rows: int
    settings: dict[str, Any]
    undisturbed: dict[str, Any]

    def run(self) -> processes.Process:
        return processes.run(self.folder, settings=self.settings)

    def ends_well(self, process: processes.Process) -> dict[str, Any]:
        report = process.report()
        assert report["state"] == "done", report["reasons"]
        assert found(report) == self.undisturbed
        return report

    def resumed(self) -> dict[str, Any]:
        """The report of the newest run, resumed if it has not ended well."""
        newest = processes.runs(self.folder)[0]
        assert newest["state"] in ("failed", "cancelled") and newest["resumable"], newest
        again = processes.Process(self.folder, "resume", newest["run"], "--format", "json", settings=self.settings)
        report = self.ends_well(again)
        assert report["run"] == newest["run"]
        assert [one["state"] for one in processes.runs(self.folder) if one["run"] == newest["run"]] == ["done"]
        return report


def _stage(server: Killable, target: str, folder: Path, rows: int, chunk: int) -> Stage:
    with mysql.connect(server.url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS live")
        cursor.execute("CREATE TABLE live (id BIGINT PRIMARY KEY, v VARCHAR(50) CHARACTER SET utf8mb4)")
        cursor.execute(f"INSERT INTO live SELECT seq, CONCAT('row ', seq * 7919 MOD 100003) FROM seq_1_to_{rows}")
        cursor.execute("ANALYZE TABLE live")
    there = postgres.connect(target)
    with there.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS live")
        cursor.execute("CREATE TABLE live (id BIGINT PRIMARY KEY, v TEXT)")
        cursor.execute(f"INSERT INTO live SELECT i, 'row ' || (i::BIGINT * 7919) % 100003 FROM generate_series(1, {rows}) AS i")
        for statement in DAMAGE:
            cursor.execute(statement)
        cursor.execute("ANALYZE live")
    there.close()
    configure(folder, server.url, target, partition={"size": 250})
    settings = {**processes.SMALL, "auditor.plan.CHUNK_ROWS": chunk}
    stage = Stage(server, folder, rows, settings, {})
    stage.undisturbed = found(processes.run(folder, settings=settings).report())
    assert {name: stage.undisturbed[name] for name in ("verdict", "missing", "extra", "changed")} == {
        "verdict": "mismatch",
        "missing": 3,
        "extra": 1,
        "changed": 4,
    }
    assert stage.undisturbed["rows"] == {"source": rows, "target": rows - 2}
    return stage


@pytest.fixture(scope="module")
def server() -> Iterator[Killable]:
    with killable() as server:
        yield server


@pytest.fixture(scope="module")
def stage(server: Killable, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return _stage(server, engines.live("postgres").url, tmp_path_factory.mktemp("kills"), 60_000, 2000)


@pytest.fixture(scope="module")
def large(server: Killable, engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return _stage(server, engines.live("postgres").url, tmp_path_factory.mktemp("large"), 1_000_000, 10_000)


@pytest.mark.parametrize("tenths", [1, 7, 14])
def test_the_process_is_killed(stage: Stage, tenths: int) -> None:
    with watched(stage.folder):
        process = stage.run()
        assert process.says("summarising", times=tenths), process.said
        process.kill()
        newest = processes.runs(stage.folder)[0]
        assert newest["state"] == "failed" and "its process is gone" in newest["reasons"][0]
        report = stage.resumed()
    assert any("was resumed" in note for note in report["notes"])


@pytest.mark.parametrize("tenths", [1, 8, 15])
def test_the_source_is_killed_and_comes_back(stage: Stage, tenths: int) -> None:
    with watched(stage.folder):
        process = stage.run()
        assert process.says("summarising", times=tenths), process.said
        stage.server.kill()
        process.says("to try again")
        stage.server.start()
        report = stage.ends_well(process)
    assert report["retries"] and processes.runs(stage.folder)[0]["state"] == "done"


def test_the_source_stays_away(stage: Stage) -> None:
    """A resume that fails at once leaves the run as resumable as it was."""
    hasty = {**stage.settings, "auditor.link.WAITS": [0.05, 0.1]}
    process = processes.run(stage.folder, settings=hasty)
    assert process.says("summarising", times=6), process.said
    stage.server.kill()
    try:
        report = process.report()
        assert (report["state"], report["verdict"], report["resumable"]) == ("failed", "unknown", True), report["reasons"]
        assert process.end() == 3
        newest = processes.runs(stage.folder)[0]
        early = processes.Process(stage.folder, "resume", newest["run"], "--format", "json", settings=hasty)
        assert (early.report()["resumable"], early.end()) == (True, 3)
    finally:
        stage.server.start()
    stage.resumed()


@pytest.mark.slow
def test_the_process_is_killed_at_any_moment(large: Stage) -> None:
    chance, resumed = random.Random(20), 0
    with watched(large.folder):
        began = time.monotonic()
        large.ends_well(large.run())
        whole = time.monotonic() - began
        for _ in range(20):
            process = large.run()
            process.says("connecting")
            process.after(chance.uniform(0, whole))
            process.kill()
            newest = processes.runs(large.folder)[0]
            assert newest["state"] != "running"
            if newest["resumable"]:
                large.resumed()
                resumed += 1
    assert resumed >= 10


@pytest.mark.slow
def test_the_source_is_killed_at_any_moment(large: Stage) -> None:
    chance = random.Random(21)
    with watched(large.folder):
        began = time.monotonic()
        large.ends_well(large.run())
        whole = time.monotonic() - began
        for _ in range(20):
            process = large.run()
            process.says("source: ", times=2)
            process.after(chance.uniform(0, 0.8 * whole))
            large.server.kill()
            large.server.start()
            large.ends_well(process)
