"""Pipelines and writers of heartbeats as processes of the service: started with it, started again when they end, and stopped with it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditor.background import Backoff
from auditor.pipeline.waits import FIRST_WAIT, LONGEST_WAIT

log = logging.getLogger(__name__)

STEADY = 60.0
"""Seconds after which a process that ended counts as one that ran well: the next one starts after the shortest wait again."""

LOOK = 0.2
"""Seconds between two looks at a process."""


def command(config_file: Path, name: str) -> list[str]:
    """Return the command line that runs a pipeline."""
    return [sys.executable, "-m", "auditor", "pipeline", "run", name, "--config", str(config_file)]


def heartbeat_command(config_file: Path, connection: str) -> list[str]:
    """Return the command line that writes heartbeats into a connection's database."""
    return [sys.executable, "-m", "auditor", "heartbeat", "run", connection, "--config", str(config_file)]


@dataclass(slots=True)
class PipelineProcesses:
    """Runs pipelines, or writers of heartbeats, each in a process of its own, until it is stopped.

    A process that ends is started again with growing waits, also one whose source another process reads: so it takes over when that ends.
    """

    config_file: Path
    names: Sequence[str]
    command: Callable[[Path, str], list[str]] = command
    """Returns the command line of the process of a name."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _restarts: dict[str, threading.Event] = field(default_factory=dict)
    """By pipeline, set while its process is to be started again at once."""

    def start(self) -> None:
        """Start the processes."""
        for name in self.names:
            self._restarts[name] = threading.Event()
            thread = threading.Thread(target=self._keep_running, args=(name,), name=f"pipeline {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def restart(self, name: str) -> bool:
        """Let a pipeline's process end after its batch, if one runs, and start the next at once; return False for one not run here."""
        if name not in self._restarts:
            return False
        self._restarts[name].set()
        return True

    def stop(self, grace: float) -> None:
        """Let every process end after its batch, and kill what still runs after ``grace`` seconds; nothing is lost either way."""
        self._stopping.set()
        deadline = time.monotonic() + grace
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for process in list(self._running.values()):
            process.kill()

    def _keep_running(self, name: str) -> None:
        backoff, restart = Backoff(2 * FIRST_WAIT, LONGEST_WAIT), self._restarts[name]
        while not self._stopping.is_set():
            restart.clear()
            began = time.monotonic()
            process = subprocess.Popen(self.command(self.config_file, name), stdin=subprocess.DEVNULL)
            self._running[name] = process
            while process.poll() is None and not restart.is_set() and not self._stopping.wait(LOOK):
                pass
            if process.poll() is None:
                process.terminate()
            code = process.wait()
            self._running.pop(name, None)
            if self._stopping.is_set():
                return
            if restart.is_set():
                log.info("%s: its process is started again by request", name, extra={"action": "pipeline_restarted", "pipeline": name})
                backoff.succeed()
                continue
            if time.monotonic() - began > STEADY:
                backoff.succeed()
                wait = FIRST_WAIT
            else:
                wait = backoff.fail()
            extra = {"action": "pipeline_ended", "pipeline": name, "exit_code": code, "again_in": wait}
            log.warning("%s: its process ended with %d; it is started again", name, code, extra=extra)
            self._wait(wait, restart)

    def _wait(self, seconds: float, restart: threading.Event) -> None:
        """Wait before the next start, but no longer once a restart is asked for, or the service stops."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not restart.is_set() and not self._stopping.wait(LOOK):
            pass
