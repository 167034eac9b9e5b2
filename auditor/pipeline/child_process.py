"""Processes beside a pipeline's driver, for work whose rows shall not pass the driver.

Such a process reads lines from its standard input: ``staged``, ``paused`` or ``going``. It ends after the work under way when that input
ends, which also happens when the driver is killed.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from auditor import config, telemetry
from auditor.background import NEVER, Backoff, Service
from auditor.config import Settings
from auditor.durations import durations

log = logging.getLogger(__name__)

ServiceOf = Callable[[threading.Event, threading.Event, threading.Event], Service]
"""What a process does until the first event is set; the second is set when events were staged, the third while it is to pause."""


@dataclass(frozen=True, slots=True)
class Child:
    """Starts and steers a process; one that was killed is started again."""

    module: str
    """Its main module, which calls `serve`."""
    arguments: tuple[str, ...]
    label: str
    """What it is, for messages."""

    def service(self, name: str, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what keeps the process running until ``stopped`` is set, in a thread of this name."""
        level = logging.getLevelName(log.getEffectiveLevel())
        command = [sys.executable, "-m", self.module, *self.arguments, level]
        waits = durations().pipeline_first_retry, durations().pipeline_longest_retry
        backoff = Backoff(*waits)

        def run_process() -> float:
            ended = self._run_once(command, stopped, staged, paused)
            if stopped.is_set():
                return NEVER
            wait = backoff.fail()
            extra = {"action": "process_ended", "child": self.label, "again_in": wait}
            log.warning("%s: %s; it is started again", self.label, ended, extra=extra)
            return wait

        return Service(name, run_process, backoff=Backoff(*waits), stopping=stopped)

    @staticmethod
    def _run_once(command: list[str], stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> str:
        """Run the process until it ends or ``stopped`` is set; return how it ended."""
        try:
            # With the environment copied: Spark's start in another thread changes it, and a new process may read it half changed.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=dict(os.environ))
        except OSError as error:
            return f"its process cannot be started ({error.strerror})"
        assert process.stdin
        with suppress(BrokenPipeError), process.stdin:
            while process.poll() is None and not stopped.is_set():
                _write(process.stdin, "paused" if paused.is_set() else "going")
                if staged.wait(durations().staged_poll):
                    staged.clear()
                    _write(process.stdin, "staged")
        return f"its process ended with {process.wait()}"


def _write(stdin: IO[str], word: str) -> None:
    stdin.write(f"{word}\n")
    stdin.flush()


def ignore_signals() -> None:
    """Ignore the signals of a terminal or a supervisor, which reach the driver too: it says when this process ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def log_as_driver(settings: Settings, level: str) -> None:
    """Log what has at least this level, as the driver does."""
    telemetry.configure_logging("console" if sys.stderr.isatty() else "json", level, config.find_secrets(settings))


def serve(service_of: ServiceOf) -> None:
    """Run a service until standard input ends; call it as a process's main work."""
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    service = service_of(stopped, staged, paused)
    service.start()
    for line in sys.stdin:
        word = line.strip()
        if word == "staged":
            staged.set()
        else:
            (paused.set if word == "paused" else paused.clear)()
    stopped.set()
    staged.set()
    service.join()
