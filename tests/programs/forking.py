"""Start Python programs in a few hundredths of a second, as forks of a process that has imported what they need.

Tests start the auditor in a process of its own hundreds of times, and the imports alone take most of a second of a processor. Such a
process does what ``python -m MODULE ARGUMENT...`` does, but for the imports; tests of how a process begins start a real one.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]

PRELOADED = (
    "alembic.command", "duckdb", "psycopg2", "pymysql", "pytest", "rich.progress", "rich.table", "uvicorn.logging",
    "auditor.api.app", "auditor.cli._audits", "auditor.cli._pipeline", "auditor.cli._run", "auditor.cli._runs", "auditor.cli._serving",
    "auditor.run.audit_run", "auditor.service.running", "auditor.service.workers",
    "dialects.duckdb.dialect", "dialects.mysql.dialect", "dialects.postgres.dialect", "dialects.redshift.dialect",
)  # fmt: skip
"""Modules that most programs load. None of them starts a thread."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([*PRELOADED])


class Forked:
    """A process that runs a module with arguments: what tests use of ``subprocess.Popen``, with pipes of text.

    Its outputs go to the file ``output`` where there is one, else to pipes; without ``stderr`` its standard error is that of the tests.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], folder: Path, *, output: IO[bytes] | None = None, stderr: bool = False
    ) -> None:
        inner, outer = os.pipe()
        self.stdin: IO[str] = os.fdopen(outer, "w")
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        streams = {0: inner}
        if output:
            streams |= {1: os.dup(output.fileno()), 2: os.dup(output.fileno())}
        else:
            self.stdout, streams[1] = _pipe()
            if stderr:
                self.stderr, streams[2] = _pipe()
        ends = {number: Connection(end) for number, end in streams.items()}
        self._process = _context.Process(
            target=_run,
            args=(
                module,
                list(arguments),
                str(folder),
                {**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])},
                ends,
            ),
            daemon=False,
        )
        self._process.start()
        for end in ends.values():
            end.close()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends and return its exit code. Raises TimeoutExpired after ``timeout`` seconds."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Close its input, wait until it ends, and return what it printed and was not read yet.

        After ``timeout`` seconds it is killed, which its exit code then says.
        """
        self.stdin.close()
        late = threading.Timer(timeout or threading.TIMEOUT_MAX, self.kill)
        late.start()
        out, err = (pipe.read() if pipe else "" for pipe in (self.stdout, self.stderr))
        late.cancel()
        self.wait(timeout)
        self.close()
        return out, err

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()


def _pipe() -> tuple[IO[str], int]:
    """Return the end that a test reads, and the one that a process writes."""
    inner, outer = os.pipe()
    return os.fdopen(inner), outer


def _run(module: str, arguments: list[str], folder: str, environment: dict[str, str], ends: dict[int, Connection]) -> None:
    """Become the program: streams, folder, environment and arguments are its own, and it ends as an interpreter does."""
    for number, end in ends.items():
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, folder)
    sys.argv = [module, *arguments]
    code: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    raise SystemExit(code)
