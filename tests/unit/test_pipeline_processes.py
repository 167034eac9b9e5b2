"""Pipelines of the service run in processes that are started again when they end, and end with the service."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor import config
from auditor.errors import ConfigError
from auditor.service import pipeline_processes
from auditor.service.pipeline_processes import PipelineProcesses
from tests.durations import SetDurations

PROGRAM = """
import os, pathlib, signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
folder = pathlib.Path(sys.argv[1])
(folder / f"began.{os.getpid()}").touch()
stop.wait()
(folder / f"ended.{os.getpid()}").touch()
"""


@pytest.fixture
def processes(tmp_path: Path, set_durations: SetDurations) -> Iterator[PipelineProcesses]:
    """Processes of two pipelines, in which a program waits for its end."""
    set_durations(pipeline_first_retry=0.01)
    made = PipelineProcesses(tmp_path / "auditor.yaml", ["one", "two"], lambda file, name: [sys.executable, "-c", PROGRAM, str(tmp_path)])
    made.start()
    yield made
    made.stop(10)


def _pids(folder: Path, what: str) -> set[int]:
    return {int(path.suffix[1:]) for path in folder.glob(f"{what}.*")}


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_processes_are_started_again_and_all_end_with_the_service(
    processes: PipelineProcesses, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _until(lambda: len(_pids(tmp_path, "began")) == 2)
    killed = min(_pids(tmp_path, "began"))
    os.kill(killed, signal.SIGKILL)
    _until(lambda: len(_pids(tmp_path, "began")) == 3)
    processes.stop(60)
    assert _pids(tmp_path, "ended") == _pids(tmp_path, "began") - {killed}
    assert [one.exit_code for one in caplog.records if getattr(one, "action", "") == "pipeline_ended"] == [-signal.SIGKILL]  # type: ignore[attr-defined]


def test_a_process_is_started_again_at_once_by_request(processes: PipelineProcesses, tmp_path: Path, set_durations: SetDurations) -> None:
    _until(lambda: len(_pids(tmp_path, "began")) == 2)
    before = _pids(tmp_path, "began")
    assert processes.restart("one") and not processes.restart("three")
    _until(lambda: len(_pids(tmp_path, "began")) == 3)
    [ended] = _pids(tmp_path, "ended")
    assert ended in before, "after its batch"
    # One that waits for its next start after it failed does so no longer.
    set_durations(pipeline_first_retry=3600.0, pipeline_steady=0.0)
    [running] = _pids(tmp_path, "began") - before
    os.kill(running, signal.SIGKILL)
    _until(lambda: "one" not in processes.running)
    assert processes.restart("one")
    _until(lambda: len(_pids(tmp_path, "began")) == 4)


@pytest.mark.parametrize(("setting", "what"), [("pipelines", "pipeline"), ("heartbeats", "connection")])
def test_names_must_exist(tmp_path: Path, setting: str, what: str) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(json.dumps({"connections": {}, "audits": {}, "service": {setting: ["shop"]}}))
    with pytest.raises(ConfigError, match=rf"service.*{setting}.*there is no {what} 'shop'"):
        config.load(path)


def test_the_commands_run_one_pipeline_and_one_writer_of_heartbeats() -> None:
    assert pipeline_processes.command(Path("/a/auditor.yaml"), "shop")[1:] == [
        *("-m", "auditor", "pipeline", "run", "shop"),
        *("--config", "/a/auditor.yaml"),
    ]
    assert pipeline_processes.heartbeat_command(Path("/a/auditor.yaml"), "shop")[1:] == [
        *("-m", "auditor", "heartbeat", "run", "shop"),
        *("--config", "/a/auditor.yaml"),
    ]
