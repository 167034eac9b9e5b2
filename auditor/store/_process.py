"""Identify the process that owns a run, and find out whether it has ended."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its host name, process id, and when it started.

    ``started`` distinguishes it from a later process with the same id: boot id, PID namespace and start time in clock ticks since the boot,
    as Linux's /proc has them; '' on other systems.
    """

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """Return the calling process."""
    return Owner(socket.gethostname(), os.getpid(), _start_marker(os.getpid()))


def has_ended(owner: Owner) -> bool | None:
    """Return whether the process has ended; None if this cannot be determined from this host."""
    if owner.host != socket.gethostname():
        return None
    if not owner.started or not _pid_namespace():
        return True if not _pid_exists(owner.pid) else None  # a living process may be another one that got the same id
    # Containers can share a host name but not their PID namespace, and a reboot makes earlier process ids meaningless.
    return _start_marker(owner.pid) != owner.started if owner.started.startswith(_pid_namespace()) else None


def _pid_exists(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_marker(pid: int) -> str:
    """Return the process's PID namespace and its start time in clock ticks since boot; '' if it has ended or /proc is missing."""
    try:
        # The program's name, in parentheses, may contain any character: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" or not _pid_namespace() else f"{_pid_namespace()}{fields[18]}"


@cache
def _pid_namespace() -> str:
    """Return the boot id and PID namespace, in which process ids are unique; '' if /proc is missing."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot[:13]}/{Path('/proc/self/ns/pid').readlink().name.strip('pid:[]')}/"
    except OSError:
        return ""
