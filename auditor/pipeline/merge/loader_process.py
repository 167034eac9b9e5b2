"""A loader in a process of its own, for a target that one session alone may load: its rows do not pass the driver.

The process reads lines from its standard input: ``staged``, ``paused`` or ``going``. It ends after the merge under way when that input
ends, which also happens when the driver is killed.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from auditor import config, telemetry
from auditor.pipeline.merge.load import LoadTask
from auditor.pipeline.merge.loader import FIRST_WAIT, LONGEST_WAIT, POLL, Loader
from auditor.pipeline.merge.table_merge import Where
from auditor.store import open_store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoaderProcess:
    """Starts and steers the process of one loader; a process that was killed is started again."""

    config_file: str
    pipeline: str
    target: str

    def run(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> None:
        """Merge as `Loader.run` does, until ``stopped`` is set."""
        level = logging.getLevelName(log.getEffectiveLevel())
        command = [sys.executable, "-m", __name__, self.config_file, self.pipeline, self.target, str(every), level]
        wait = FIRST_WAIT
        while not stopped.is_set():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
            assert process.stdin
            with suppress(BrokenPipeError), process.stdin:
                while process.poll() is None and not stopped.is_set():
                    _tell(process.stdin, "paused" if paused.is_set() else "going")
                    if staged.wait(POLL):
                        staged.clear()
                        _tell(process.stdin, "staged")
            code = process.wait()
            if not stopped.is_set():
                extra = {"action": "loader_ended", "target": self.target, "exit_code": code, "again_in": wait}
                log.warning("%s: its loader's process ended with %d; it is started again", self.target, code, extra=extra)
                stopped.wait(wait)
                wait = min(LONGEST_WAIT, 2 * wait)


def _tell(stdin: IO[str], word: str) -> None:
    stdin.write(f"{word}\n")
    stdin.flush()


def _load(config_file: Path, pipeline: str, target: str, every: float, level: str) -> None:
    """Run a loader until standard input ends, and log what has at least this level."""
    settings = config.load(config_file)
    telemetry.configure_logging("console" if sys.stderr.isatty() else "json", level, config.find_secrets(settings))
    chosen = settings.pipeline(pipeline).targets[target]
    assert settings.store
    store = open_store(settings.store.url)
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    root = settings.pipeline(pipeline).staging.path
    where = Where(store, pipeline, str(config_file), chosen.connection, chosen.schema_, root, _run_here)
    loader = Loader(where, target, settings.connections[chosen.connection])
    thread = threading.Thread(target=loader.run, args=(every, stopped, staged, paused), name=f"loader {target}")
    thread.start()
    for line in sys.stdin:
        word = line.strip()
        if word == "staged":
            staged.set()
        else:
            (paused.set if word == "paused" else paused.clear)()
    stopped.set()
    staged.set()
    thread.join()
    store.close()


def _run_here(function: Callable[[LoadTask], Any], tasks: Sequence[LoadTask]) -> list[Any]:
    return [function(task) for task in tasks]


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or a supervisor, which reach the driver too
        signal.signal(number, signal.SIG_IGN)
    _load(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
