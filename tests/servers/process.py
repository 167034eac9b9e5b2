"""Starting, watching and stopping a private server process."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

IN_MEMORY = Path("/dev/shm")

SPACE = 4 << 30
"""Bytes that the directories of all servers of a run may take; about twice of what was seen."""


class Unavailable(RuntimeError):
    """This engine cannot be started here; the message says why, in one sentence."""


def do_nothing() -> None:
    """Stop nothing: for servers that the tests did not start."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that answers."""

    url: str
    version: str
    #: Where it came from: "local binary", "unpacked packages", "docker", "given by $VARIABLE".
    how: str
    stopper: Callable[[], None] = field(default=do_nothing, repr=False, compare=False)
    #: Whether the user named it, so that it outlives the tests.
    given: bool = False

    def stop(self) -> None:
        """End the server and remove what it wrote."""
        self.stopper()


def given(variable: str, version_of: Callable[[str], str], errors: type[Exception]) -> Server | None:
    """The server whose URL the variable holds, if it is set."""
    url = os.environ.get(variable)
    if not url:
        return None
    try:
        version = version_of(url)
    except errors as error:
        raise Unavailable(f"${variable} is set, but no server answers there ({type(error).__name__})") from error
    return Server(url=url, version=version, how=f"given by ${variable}", given=True)


_ports_taken: set[int] = set()
_ports_lock = threading.Lock()


def free_port() -> int:
    """A loopback port that is free now and was not handed out before: servers start side by side."""
    with _ports_lock:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            if port not in _ports_taken:
                _ports_taken.add(port)
                return port


def find_program(name: str, folders: Sequence[Path] = ()) -> Path | None:
    """The program in these folders (first match), else on PATH, else in the system's sbin folders."""
    search = [str(folder) for folder in folders]
    search += [*os.environ.get("PATH", "").split(os.pathsep), "/usr/local/sbin", "/usr/sbin"]
    found = shutil.which(name, path=os.pathsep.join(search))
    return Path(found) if found else None


def unprivileged_account() -> str | None:
    """The account for a server that refuses to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Unavailable("PostgreSQL refuses to run as root, and there is neither a postgres nor a nobody account")


def open_directory(parent: Path | None = None, name: str = "auditor-tests") -> Path:
    """A new directory for servers, which one with an account of its own may pass through; pytest's are closed to it."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent or folder_in_memory()))
    directory.chmod(0o711)
    return directory


def folder_in_memory() -> Path | None:
    """Linux's file system in memory, where servers that create and drop tables by the thousand take a sixth less time.

    None, for the usual place, where $TMPDIR names another, where there is none, or where it or the memory is too small for all servers.
    """
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK):
        return None
    found = os.statvfs(IN_MEMORY)
    memory = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    is_large = found.f_bavail * found.f_frsize > SPACE and memory is not None and int(memory[1]) * 1024 > 2 * SPACE
    return IN_MEMORY if is_large else None


def own_directory(parent: Path, name: str, account: str | None = None) -> Path:
    """A new directory for one server, which the account may enter and write."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    if account is not None:
        entry = pwd.getpwnam(account)
        os.chown(directory, entry.pw_uid, entry.pw_gid)
    return directory


def run(command: Sequence[str | Path], directory: Path, account: str | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Run one preparing command to its end."""
    log = directory / "prepare.log"
    if _spawn(command, directory, log, account, environment).wait() != 0:
        raise Unavailable(f"{Path(command[0]).name} failed: {_what_it_said(log)}")


def _spawn(
    command: Sequence[str | Path], directory: Path, log: Path, account: str | None, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    entry = pwd.getpwnam(account) if account else None
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the tests, which then stop their servers in order
            user=entry.pw_uid if entry else None,
            group=entry.pw_gid if entry else None,
            extra_groups=[] if entry else None,
        )


# The server must not outlive the tests even if they are killed: this shell waits for the end of its input,
# which the kernel brings about when the test process is gone, and then cleans up. A line means: never mind.
_WATCHMAN = """
read -r _ && exit
kill -QUIT "$1" || exit
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" || break; sleep 0.5; done
kill -KILL "$1"
rm -rf -- "$2"
rmdir -- "${2%/*}"
"""


class Daemon:
    """A server process in a session of its own, with its log and its directory."""

    def __init__(
        self,
        command: Sequence[str | Path],
        directory: Path,
        *,
        account: str | None = None,
        stop_signal: signal.Signals = signal.SIGKILL,
        environment: Mapping[str, str] | None = None,
        patience: float = 20,
    ) -> None:
        """``patience``: seconds after which a process is killed that ``stop_signal`` does not end."""
        self._directory = directory
        self._log = directory / "server.log"
        self._stop_signal, self._patience = stop_signal, patience
        self._process = _spawn(command, directory, self._log, account, environment)
        self._watchman = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHMAN, "watchman", str(self._process.pid), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self, answer: Callable[[], str], errors: type[Exception], seconds: float = 60) -> str:
        """What the server answers, as soon as it does."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return answer()
            except errors as error:
                if self._process.poll() is not None:
                    reason = f"the server ended while starting: {_what_it_said(self._log)}"
                elif time.monotonic() > deadline:
                    reason = f"the server did not answer within {seconds:.0f} s ({error})"
                else:
                    time.sleep(0.05)
                    continue
            self.stop()
            raise Unavailable(reason)

    @property
    def pid(self) -> int:
        """The number of the process, and of the group that it leads."""
        return self._process.pid

    def output(self) -> str:
        """Return what it printed so far."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End the process and remove its directory; the data is worth nothing, so the end may be abrupt."""
        assert self._watchman.stdin is not None
        if not self._watchman.stdin.closed:
            self._watchman.communicate(b"never mind\n")
        if self._process.poll() is None:
            self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(self._patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def _what_it_said(log: Path) -> str:
    """The lines that name an error, else the last ones."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|fatal)\b", line, re.IGNORECASE)]
    return " | ".join(errors[:3] or lines[-3:]) or "it said nothing"
