"""Which process a run belongs to, and whether that process is gone."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process. ``started`` tells it from another that got its number later; "" where the system does not say."""

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The process that asks."""
    return Owner(socket.gethostname(), os.getpid(), _started(os.getpid()))


def gone(owner: Owner) -> bool | None:
    """Whether the process has ended; None where that cannot be seen from here."""
    if owner.host != socket.gethostname():
        return None
    if not owner.started or not _place():
        return True if not _exists(owner.pid) else None  # the number may have gone to another process
    # Containers can share a name and not their processes; after a restart of the machine, numbers mean nothing.
    return _started(owner.pid) != owner.started if owner.started.startswith(_place()) else None


def _exists(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> str:
    """Where the process's number is valid, and when it started there, in ticks since the machine did."""
    try:
        # The name of the program, in parentheses, may hold anything: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" or not _place() else f"{_place()}{fields[18]}"


@cache
def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot[:13]}/{Path('/proc/self/ns/pid').readlink().name.strip('pid:[]')}/"
    except OSError:
        return ""
