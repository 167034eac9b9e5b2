"""Let a command that writes end at a safe place when it is interrupted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
