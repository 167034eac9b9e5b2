"""How a command ends before it is done: one line on standard error and an exit code if it failed, a safe place if a signal stops it."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from auditor.errors import UNEXPECTED, AuditorError, PackageMissing
from dialects import extras

STOPPING = "stopping the runs under way, which are stored; once more to leave at once"
"""What is said when a signal stops runs."""


def report(error: Exception, with_traceback: bool) -> int:
    """Print why a command failed, and return its exit code.

    The traceback of an error outside the tree goes to a file that only its owner can read, or to standard error if it is asked for. Its
    message is shown only there, because it may quote a row.
    """
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        return 128 + signal.SIGPIPE
    if isinstance(error, ModuleNotFoundError) and error.name and (extra := extras.extra_of(error.name)):
        error = PackageMissing(extras.explain("this command", [error.name.partition(".")[0]], extra))
    with suppress(OSError):  # of standard error; the exit code must stay the right one
        if with_traceback:
            traceback.print_exception(error)
        print(f"auditor: {_describe(error, with_traceback)}", file=sys.stderr)
    return error.exit_code if isinstance(error, AuditorError) else UNEXPECTED


def _describe(error: Exception, with_traceback: bool) -> str:
    if isinstance(error, AuditorError):
        return str(error)
    what = f"unexpected error {type(error).__name__} at {_place(error)}"
    traceback_place = "its traceback is above" if with_traceback else f"{_keep(error)}, and --debug prints it"
    return f"{what}; {traceback_place}; this is a bug: please report it"


def _reader_is_gone() -> bool:
    """Return whether standard output is a pipe that nobody reads; what is left to write is then discarded."""
    poll, number = select.poll(), sys.stdout.fileno()
    poll.register(number, 0)
    is_gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    if is_gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return is_gone


def _place(error: Exception) -> str:
    """Return the file and line at which an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"


def _keep(error: Exception) -> str:
    """Write an error's traceback to a new file, which only its owner can read, and return where it is."""
    try:
        number, path = tempfile.mkstemp(prefix="auditor-error-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except OSError as why:
        return f"its traceback could not be kept ({why.strerror})"
    return f"its traceback is in {path}"


@contextmanager
def stopped_by_signals(message: str) -> Iterator[threading.Event]:
    """Yield an event that SIGINT or SIGTERM sets, with a message on standard error; a second signal raises KeyboardInterrupt."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        print(f"auditor: {message}", file=sys.stderr)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
