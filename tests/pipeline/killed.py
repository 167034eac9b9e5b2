"""A process whose children stage or merge and kill themselves: ``python -m tests.pipeline.killed CONFIG SCHEMA``.

It reads from each line the name of a step, and of a file with events if they are to be staged; it forks a child that goes on until that
step and then kills itself as ``kill -9`` does, and prints how the child ended. It imports first and starts no thread, so that forking is
safe and quick.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.programs.forking import ROOT, Forked


class Killed:
    """The process, as seen by the test."""

    def __init__(self, config_file: Path, schema: str) -> None:
        self.process = Forked("tests.pipeline.killed", [str(config_file), schema], ROOT)

    def merge_until(self, step: str) -> str:
        """Merge in a process that is killed when it reaches this step; return ``killed``, or how it ended otherwise."""
        return self._ask(step)

    def stage_until(self, step: str, events: Path) -> str:
        """Stage the events of a file in a process that is killed when it reaches this step; return the same."""
        return self._ask(f"{step} {events}")

    def _ask(self, line: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)


def merge(config_file: Path, schema: str, fatal: str = "") -> None:
    """Merge in this process, which is killed at this point of a merge, if there is one."""
    from auditor import config
    from auditor.pipeline.merge.loader import Loader
    from auditor.pipeline.merge.positions import Where
    from auditor.points import armed
    from auditor.store import open_store
    from tests.pipeline.road import PIPELINE, run_here

    settings = config.load(config_file)
    assert settings.store
    root, chosen = settings.pipelines[PIPELINE].staging.path, settings.pipelines[PIPELINE].table_targets["wh"]
    where = Where(open_store(settings.store.url), PIPELINE, str(config_file), "warehouse", schema, root, run_here, "wh", chosen)
    with armed(f"merge.{fatal}", lambda: os.kill(os.getpid(), signal.SIGKILL)) if fatal else nullcontext():
        Loader(where, "wh", settings.connections["warehouse"]).merge_all()


def _stage(config_file: Path, fatal: str, events: Path) -> None:
    import pyarrow.parquet as pq

    from auditor import config
    from auditor.pipeline.folders import folder_at
    from auditor.pipeline.part_writer import EventFile
    from auditor.pipeline.stage_task import TableRules, read_entry, stage_task
    from auditor.pipeline.staging import Staging
    from auditor.store import open_store
    from tests.pipeline.road import PIPELINE

    def step(name: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(*given: Any) -> tuple[int, int]:
        place = _write(*given)
        step("part unfinished")
        return place

    _write, EventFile.write = EventFile.write, write  # type: ignore[method-assign,assignment]
    settings = config.load(config_file)
    assert settings.store
    root = folder_at(settings.pipelines[PIPELINE].staging.path)
    rules = TableRules(settings.pipelines[PIPELINE], b"salt")
    entries = list(stage_task(str(root), rules, pq.read_table(events).to_batches()))
    step("parts written")
    staging = Staging(open_store(settings.store.url), PIPELINE, root, rules)
    staging.record_batch([read_entry(row) for one in entries for row in one.to_pylist()], None)
    step("parts listed")


def _main() -> None:
    for module in ("auditor.pipeline.merge.loader", "auditor.pipeline.staging", "dialects.duckdb.dialect", "dialects.postgres.dialect"):
        import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                step, slash, events = line.strip().partition(" /")
                if events:
                    _stage(Path(sys.argv[1]), step, Path(slash.strip() + events))
                else:
                    merge(Path(sys.argv[1]), sys.argv[2], step)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else f"ended with {status}", flush=True)


if __name__ == "__main__":
    _main()
