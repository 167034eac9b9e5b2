"""Named steps of a pipeline at which a process kills itself, once, if the test asked for that step.

A file ``armed`` in the folder that the environment names has one step in it; the process that reaches the step renames the file to ``hit``,
which one can do only, and kills itself as ``kill -9`` does.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from auditor.pipeline import run, source, staging, target_process
from auditor.pipeline import stage_task as tasks
from auditor.pipeline.merge import load_files, load_tasks, table_merge
from auditor.pipeline.source import parse_options
from auditor.points import followed

FOLDER = "AUDITOR_CHAOS"
"""The environment variable with the folder, which the processes that Spark starts inherit."""

STEPS = (
    "driver: planned",
    "driver: cut",
    "worker: decoded",
    "worker: written",
    "driver: begun",
    "driver: written",
    "driver: listed",
    "worker: loaded",
)
"""The driver has found the end of a batch; has cut it into ranges; a task has decoded a part of its range; has written its parts; the
driver begins to stage a batch; has all its parts written, and none listed; has listed them; a task has loaded a part into a staging table,
or written it to a file for one."""

DRIVER_STEPS = ("driver: planned", "driver: cut", "driver: begun", "driver: written", "driver: listed")

PUBLISHER_STEPS = ("begin", "sent", "commit", "committed", "report")
"""Before a transaction of the broker begins, when its messages have arrived, before and after its commit, before that is reported."""

LOADER_STEPS = ("stage", "load", "merge", "merged", "commit", "committed", "report")
"""Before the staging table is made, before it is loaded, before and after the merge in its transaction, before and after its commit."""


def loader_step(target: str, step: str) -> str:
    """Return the name of a step of a target's loader."""
    return f"loader of {target}: {step}"


def reach(step: str) -> None:
    """Kill this process if the test asked for this step."""
    folder = Path(os.environ[FOLDER])
    with suppress(FileNotFoundError):
        if (folder / "armed").read_text() == step:
            (folder / "armed").rename(folder / "hit")
            os.kill(os.getpid(), signal.SIGKILL)


def stage_task(*given: Any) -> Iterator[Any]:
    """Stage a task's parts, and reach a step before the driver receives their names."""
    found = list(_stage_task(*given))
    reach("worker: written")
    yield from found


def load_task(task: load_tasks.LoadTask) -> Any:
    """Load a part, and reach a step before the driver receives the result."""
    found = _load_task(task)
    reach("worker: loaded")
    return found


def store_file(task: load_files.FileTask) -> Any:
    """Write a file of changes, and reach a step before the driver receives its name."""
    found = _store_file(task)
    reach("worker: loaded")
    return found


_stage_task, _load_task, _store_file = tasks.stage_task, load_tasks.load_task, load_files.store_file


class SteppedBinlog(source.MySQLBinlog):
    """The change source with steps."""

    def streamReader(self, schema: Any) -> source.BinlogStream:
        return _SteppedStream(parse_options(self.options, end_allowed=False))


class _SteppedStream(source.BinlogStream):
    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        found = super().latestOffset(start, limit)
        if found != start:
            reach("driver: planned")
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found = super().partitions(start, end)
        reach("driver: cut")
        return found

    def read(self, partition: Any) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            reach("worker: decoded")


class _SteppedStaging(staging.Staging):
    def stage(self, run: Any, batch_id: int, offset: Any, begin: Any = None) -> int:
        reach("driver: begun")
        events = super().stage(run, batch_id, offset, begin)
        reach("driver: listed")
        return events

    def record_batch(self, found: Any, offset: Any, notes: Any = (), begin: Any = None) -> None:
        reach("driver: written")
        super().record_batch(found, offset, notes, begin)


def _reach_of_loader(step: str) -> None:
    target = threading.current_thread().name.removeprefix("loader ")
    reach(loader_step(target, step))


@contextmanager
def installed() -> Iterator[None]:
    """Put the steps into the pipeline of this process for the block; it passes them on to those of Spark."""
    for module, name, replacement in (
        (staging, "stage_task", stage_task),
        (table_merge, "load_task", load_task),
        (load_tasks, "BYTES_WITHOUT_TASKS", 16 << 10),  # so that some parts are loaded by tasks
        (load_tasks, "LEAST_WITHOUT_TASKS", 8 << 10),
        (load_files, "store_file", store_file),
        (run, "TargetProcess", partial(target_process.TargetProcess, module="tests.chaos.target_process")),
        (run, "Staging", _SteppedStaging),
        (run.Run, "_change_source", lambda _: SteppedBinlog),
    ):
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, replacement)
    with followed("merge", _reach_of_loader), followed("publish", lambda step: reach(f"publisher: {step}")):
        yield
