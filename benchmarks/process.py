"""Run a command and measure its time and memory; describe the machine."""

from __future__ import annotations

import os
import platform
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_INTERVAL = 0.03
"""Seconds between two samples of a process tree's memory."""


@dataclass(frozen=True)
class CompletedCommand:
    """A finished command. ``memory`` is the peak of the resident bytes, summed over the process and its descendants.

    ``cpu`` is the processor's time in seconds, of the process and of those descendants that it waited for.
    """

    code: int
    seconds: float
    memory: int
    out: str
    err: str
    timed_out: bool = False
    cpu: float = 0.0

    @property
    def error_message(self) -> str:
        """The last line on standard error, or the exit code if there is none."""
        return (self.err.strip().splitlines() or [f"exit code {self.code}"])[-1].strip()


def run(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 900
) -> CompletedCommand:
    """Run a command until it ends or ``timeout`` seconds have passed, and measure it."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**inherited_environment(), **(environment or {})},
            cwd=cwd,
            text=True,
            start_new_session=True,
        )
        finished = threading.Event()
        sampler = _MemorySampler(process.pid, finished)
        sampler.start()
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        finished.set()
        sampler.join()
        out.seek(0)
        err.seek(0)
        return CompletedCommand(process.returncode, seconds, sampler.peak, out.read(), err.read(), timed_out, cpu)


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without a ban on compiled modules.

    Installed programs have theirs compiled; with the ban, one that runs from its sources would compile them at each start.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class _MemorySampler(threading.Thread):
    """Samples the memory of a process tree; ``peak`` is in bytes. The kernel's VmHWM also covers the root's peaks between samples."""

    def __init__(self, root: int, finished: threading.Event) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._root = root
        self._finished = finished

    def run(self) -> None:
        while not self._finished.wait(SAMPLE_INTERVAL):
            now = sum(_resident_bytes(pid) for pid in process_tree(self._root))
            self.peak = max(self.peak, now, _peak_bytes(self._root))


def process_tree(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    pids = [root]
    for pid in pids:  # grows meanwhile
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += [int(child) for child in (task / "children").read_text().split()]
    return pids


def _resident_bytes(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return 0


def _peak_bytes(pid: int) -> int:
    with suppress(OSError):
        if match := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
            return int(match.group(1)) * 1024
    return 0


def command_line(pid: int) -> str:
    """Return the command line of a process; '' if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def proportional_bytes(pid: int) -> int:
    """Return the PSS of a process: its own pages, and its share of those that it shares; 0 if it has ended."""
    with suppress(OSError):
        if match := re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE):
            return int(match.group(1)) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, without its children; 0 if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
    return 0.0


def reaped_seconds(pid: int) -> float:
    """Return the CPU time of the children of a process that have ended; 0 if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / CLOCK_TICKS
    return 0.0


def load_average() -> str:
    """Return a note on the machine's load, for the list of calls in RESULTS.md."""
    return f"load {os.getloadavg()[0]:.1f} at the start"


def describe_machine() -> str:
    """Return cores, processor, memory and system in one line."""
    model = "an unknown processor"
    with suppress(OSError):
        if match := re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()):
            model = match.group(1).strip()
    memory = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES / 2**30
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{cores} cores of {model}, {memory:.0f} GB, {system}"
