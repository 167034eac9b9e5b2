"""One command: its seconds, its memory, what it printed; and what machine this is."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY = 0.03


@dataclass(frozen=True)
class Ran:
    """What came of a command. ``memory`` is the peak of the resident bytes of the process and all below it, summed."""

    code: int
    seconds: float
    memory: int
    out: str
    err: str
    timed_out: bool = False

    @property
    def last_words(self) -> str:
        """The last line it wrote on standard error, or how it ended."""
        return (self.err.strip().splitlines() or [f"it ended with {self.code}"])[-1].strip()


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 900) -> Ran:
    """Run to the end, or to the time limit, and measure."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(environment or {})},
            cwd=cwd,
            text=True,
            start_new_session=True,
        )
        over = threading.Event()
        watcher = _Memory(process.pid, over)
        watcher.start()
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - began
        over.set()
        watcher.join()
        out.seek(0)
        err.seek(0)
        return Ran(process.returncode, seconds, watcher.peak, out.read(), err.read(), timed_out)


class _Memory(threading.Thread):
    """Looks every few hundredths of a second; a peak between two looks of one process is in VmHWM all the same."""

    def __init__(self, root: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._root = root
        self._over = over

    def run(self) -> None:
        while not self._over.wait(EVERY):
            now = sum(_resident(pid) for pid in _family(self._root))
            self.peak = max(self.peak, now, _high_water(self._root))


def _family(root: int) -> list[int]:
    found = [root]
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _resident(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    return 0


def _high_water(pid: int) -> int:
    with suppress(OSError):
        if found := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
            return int(found.group(1)) * 1024
    return 0


def load() -> str:
    """How busy the machine is."""
    return f"load {os.getloadavg()[0]:.1f} at the start"


def machine() -> str:
    """Processor, cores, memory, system: in a line."""
    model = "an unknown processor"
    with suppress(OSError):
        if found := re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()):
            model = found.group(1).strip()
    memory = os.sysconf("SC_PHYS_PAGES") * PAGE / 2**30
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{cores} cores of {model}, {memory:.0f} GB, {system}"
