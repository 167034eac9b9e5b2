"""Pipelines and writers of heartbeats as processes of the service: started with it, started again when they end, and stopped with it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from auditor.background import Backoff, Service
from auditor.durations import durations

log = logging.getLogger(__name__)


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
    _services: list[Service] = field(default_factory=list)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The processes that run, by name."""
    _restarts: dict[str, threading.Event] = field(default_factory=dict)
    """By pipeline, set while its process is to be started again at once."""

    def start(self) -> None:
        """Start the processes."""
        for name in self.names:
            self._restarts[name] = threading.Event()
            first, longest = 2 * durations().pipeline_first_retry, durations().pipeline_longest_retry
            work = partial(self._run_process, name, Backoff(first, longest))
            failure, fields = f"{name}: its process cannot be started", {"pipeline": name}
            backoff = Backoff(first, longest)
            self._services.append(
                Service(f"pipeline {name}", work, failure=failure, fields=fields, backoff=backoff, stopping=self._stopping)
            )
            self._services[-1].start()

    def restart(self, name: str) -> bool:
        """Let a pipeline's process end after its batch, if one runs, and start the next at once; return False for one not run here."""
        if name not in self._restarts:
            return False
        self._restarts[name].set()
        return True

    def ask_to_stop(self) -> None:
        """Let every process end after its batch, and do not wait for that."""
        self._stopping.set()

    def stop(self, grace: float) -> None:
        """Let every process end after its batch, and kill what still runs after ``grace`` seconds; nothing is lost either way."""
        self.ask_to_stop()
        deadline = time.monotonic() + grace
        for service in self._services:
            service.join(max(0.0, deadline - time.monotonic()))
        for process in list(self.running.values()):
            process.kill()

    def _run_process(self, name: str, backoff: Backoff) -> None:
        """Run a process until it ends, or the service stops, and wait until it may be started again."""
        restart = self._restarts[name]
        restart.clear()
        began = time.monotonic()
        process = subprocess.Popen(self.command(self.config_file, name), stdin=subprocess.DEVNULL)
        self.running[name] = process
        while process.poll() is None and not restart.is_set() and not self._stopping.wait(durations().process_poll):
            pass
        if process.poll() is None:
            process.terminate()
        code = process.wait()
        self.running.pop(name, None)
        if self._stopping.is_set():
            return
        if restart.is_set():
            log.info("%s: its process is started again by request", name, extra={"action": "pipeline_restarted", "pipeline": name})
            backoff.succeed()
            return
        if time.monotonic() - began > durations().pipeline_steady:
            backoff.succeed()
            wait = durations().pipeline_first_retry
        else:
            wait = backoff.fail()
        extra = {"action": "pipeline_ended", "pipeline": name, "exit_code": code, "again_in": wait}
        log.warning("%s: its process ended with %d; it is started again", name, code, extra=extra)
        self._wait(wait, restart)

    def _wait(self, seconds: float, restart: threading.Event) -> None:
        """Wait before the next start, but no longer once a restart is asked for, or the service stops."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not restart.is_set() and not self._stopping.wait(durations().process_poll):
            pass
