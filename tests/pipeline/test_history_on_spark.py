"""A capture that runs as a process, and is killed with all its children: its history goes on, and audits look rows up in it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.cli import main
from auditor.model import Report, Verdict
from auditor.store import parts
from tests.live import Engines, engine_params
from tests.pipeline.history_road import CAPTURE, HistoryRoad
from tests.pipeline.running import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.spark, pytest.mark.postgres]
ROOT, TABLE = Path(__file__).parents[2], "history_on_spark"
COLUMNS = "id int PRIMARY KEY, item varchar(40)"


@pytest.fixture
def road(engine_name: str, engines: Engines, tmp_path: Path) -> Iterator[HistoryRoad]:
    engines.live("spark")
    made = HistoryRoad(tmp_path, engines.live(engine_name), engines.live("postgres"), TABLE, at_most="5s")
    made.create(COLUMNS, ", ".join(f"({n}, 'item {n}')" for n in range(100)))
    made.begin_stream()
    yield made
    made.close()


@contextmanager
def piped(road: HistoryRoad) -> Iterator[subprocess.Popen[bytes]]:
    """Run the capture as a process for the block."""
    command = [sys.executable, "-m", "auditor", "pipeline", "run", CAPTURE, "--config", str(road.config_file)]
    with (road.config_file.parent / "driver.log").open("a") as told:
        process = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=told)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def until(run: Callable[[], Report], reached: Callable[[Report], bool]) -> Report:
    """Run the audit until a report is as it should be."""
    deadline = time.monotonic() + PATIENCE
    while not reached(report := run()):
        assert time.monotonic() < deadline, report.reasons
    return report


@pytest.mark.parametrize("engine_name", engine_params("mysql"))
def test_a_capture_that_is_killed_goes_on(road: HistoryRoad, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDITOR_CONFIG", str(road.config_file))
    with piped(road) as process:
        assert road.run().verdict is Verdict.MATCH
        road.log.run(f"UPDATE {TABLE} SET item = 'first' WHERE id = 1")
        report = until(road.run, lambda report: road.looked_up(report) != {"untold": 1})
        assert (report.verdict, list(road.looked_up(report))) in ((Verdict.MATCH, ["in_flight"]), (Verdict.MISMATCH, ["late"]))
        process.kill()
    road.log.run(f"UPDATE {TABLE} SET item = 'second' WHERE id = 1", f"DELETE FROM {TABLE} WHERE id = 2")
    road.sink(f"UPDATE sink.{TABLE} SET item = 'first' WHERE id = 1", f"UPDATE sink.{TABLE} SET item = 'edited' WHERE id = 50")
    with piped(road):
        report = until(road.run, lambda report: road.looked_up(report) == {"late": 2, "foreign": 1})
        assert report.verdict is Verdict.MISMATCH
        assert report.differences
        causes = {row.key["id"]: row.cause for row in report.differences.named}
        assert "; the update at " in causes["1"]
        assert "; the delete at " in causes["2"]
        assert causes["50"].startswith("the source did not hold it since ")
        for command in (["status", CAPTURE], ["check", CAPTURE]):
            assert main(["pipeline", *command]) == 0, capsys.readouterr()
    assert parts.list_parts(road.store, CAPTURE, f"{road.database}.{TABLE}", 0)
