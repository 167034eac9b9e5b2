"""A process whose children merge and kill themselves: ``python -m tests.pipeline.killed CONFIG SCHEMA``.

It reads the name of a step from each line, forks a child that merges until that step and then kills itself as ``kill -9`` does, and
prints how the child ended. It imports first and starts no thread, so that forking is safe and quick.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Killed:
    """The process, as seen by the test."""

    def __init__(self, config_file: Path, schema: str) -> None:
        command = [sys.executable, "-m", "tests.pipeline.killed", str(config_file), schema]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def merge_until(self, step: str) -> str:
        """Merge in a process that is killed when it reaches this step; return ``killed``, or how it ended otherwise."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)


def _merge(config_file: Path, schema: str, fatal: str) -> None:
    from auditor import config
    from auditor.pipeline.merge.loader import Loader
    from auditor.pipeline.merge.table_merge import Where
    from auditor.store import open_store
    from tests.pipeline.road import PIPELINE, run_here

    def step(name: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = config.load(config_file)
    assert settings.store
    root = settings.pipelines[PIPELINE].staging.path
    where = Where(open_store(settings.store.url), PIPELINE, str(config_file), "warehouse", schema, root, run_here)
    Loader(where, "wh", settings.connections["warehouse"], step).merge_all()


def _main() -> None:

    import dialects.duckdb
    import dialects.postgres  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                _merge(Path(sys.argv[1]), sys.argv[2], line.strip())
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else f"ended with {status}", flush=True)


if __name__ == "__main__":
    _main()
