"""Commands of ``auditor`` as processes; ``auditor pipeline run``, with the processes that it starts, restarted as a supervisor does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos import steps

ROOT = Path(__file__).parents[2]

PATIENCE = 600.0
"""Seconds after which the pipeline counts as stuck."""

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles quickly rather than well, because it is killed every other minute."""

PATTERNS: dict[str, Callable[[str, str], bool]] = {
    "worker": lambda command, parent: "pyspark.daemon" in command and "pyspark.daemon" in parent,
    "publisher": lambda command, _: "tests.chaos.target_process publisher" in command,
    "JVM": lambda command, _: "org.apache.spark.deploy.SparkSubmit" in command,
}
"""How the processes below the driver are known, by their command line and that of their parent."""


class Application:
    """The process, and what became of those before it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.ends: Counter[int] = Counter()
        """How often it ended, by exit code; a signal's is negative."""
        self._arguments = arguments
        self._log = (folder / "application.log").open("ab")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.chaos", *self._arguments]
        environment = {**_environment(), steps.FOLDER: str(self.folder), "JDK_JAVA_OPTIONS": JAVA_OPTIONS}
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=self._log, stderr=self._log)

    def keep_running(self) -> None:
        """Start the process again if it has ended."""
        if (code := self.process.poll()) is not None:
            self.ends[code] += 1
            self.process = self._start()

    def until(self, reached: Callable[[], bool], what: str, every: float = 0.1) -> None:
        """Look for a condition until it holds, and restart the process whenever it has ended."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < deadline, f"{what} did not come; {self.tail()}"
            self.keep_running()
            time.sleep(every)

    def restart(self) -> None:
        """Ask the process to end, and start it again."""
        if code := self.terminate():
            self.ends[code] += 1
        self.process = self._start()

    def find(self, name: str) -> list[int]:
        """Return the processes below the driver that are of this name."""
        return [pid for pid in _descendants(self.process.pid) if PATTERNS[name](_command(pid), _command(_parent(pid)))]

    def terminate(self) -> int:
        """Ask the process to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join((self.folder / "application.log").read_text(errors="replace").splitlines()[-15:])

    def close(self) -> None:
        """Kill what still runs."""
        below = _descendants(self.process.pid)
        for pid in [self.process.pid, *below]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


class Command:
    """The command ``auditor`` as a process of its own beside the pipeline's, as a person or a schedule runs it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "auditor", *arguments]
        self._process = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        self.output = self.errors = ""
        """What it printed, once it has ended."""

    def wait(self, kill_after: float | None = None) -> int:
        """Wait for its end, and kill it if it has not ended after so many seconds; return the exit code."""
        try:
            self.output, self.errors = self._process.communicate(timeout=PATIENCE if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.output, self.errors = self._process.communicate()
            assert kill_after is not None, f"{self._process.args!r} did not end; {self.errors}"
        return self._process.returncode


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def kill(pid: int) -> bool:
    """Kill a process; return whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
