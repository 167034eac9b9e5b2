"""Processes that execute pending runs, for tests to kill and stop.

One is ``python -m tests.programs.workers SETTINGS CONFIG WORKERS GRACE [CLOCK]``.

SETTINGS is a JSON object of module attributes and waits to set first, as of ``tests.programs.processes``. With CLOCK the process runs the
scheduler too, on a fast clock: a JSON object with ``begin`` and ``end`` (ISO times) and ``speed`` (simulated seconds per second). The
process stops at SIGTERM, like the service, or when its input is closed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.programs import processes
from tests.programs.forking import Forked


class Serving:
    """A serving process, as seen by the test."""

    def __init__(self, config: Path, workers: int = 2, grace: float = 5.0, settings: Mapping[str, Any] = {}, clock: Any = None) -> None:
        arguments = [json.dumps(settings), str(config), str(workers), str(grace), *([json.dumps(clock)] if clock else [])]
        self.process = Forked("tests.programs.workers", arguments, config.parent)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """Kill it, like a crash."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def end(self) -> float:
        """Stop it with SIGTERM and return the seconds this took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0 and out == "ended\n", (self.process.returncode, out)
        return time.monotonic() - began


def _main() -> None:
    settings, path, workers, grace, *clock = sys.argv[1:]
    processes.apply(json.loads(settings))
    from auditor import config
    from auditor.service import scheduler
    from auditor.service.workers import Workers
    from auditor.store import open_store

    configured = config.load(Path(path))
    assert configured.store
    store = open_store(configured.store.url)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=lambda: stopping.set() if not sys.stdin.read() else None, daemon=True).start()
    running = Workers(configured, store, int(workers))
    ticker = None
    if clock:
        fast = json.loads(clock[0])
        begin, began = dt.datetime.fromisoformat(fast["begin"]), time.monotonic()
        last = dt.datetime.fromisoformat(fast["end"])
        ticker = scheduler.Ticker(
            configured, store, str(os.getpid()), lambda: min(last, begin + dt.timedelta(seconds=(time.monotonic() - began) * fast["speed"]))
        )
        ticker.start()
    running.start()
    print("ready", flush=True)
    stopping.wait()
    if ticker:
        ticker.stop()
    running.stop(float(grace))
    print("ended", flush=True)


if __name__ == "__main__":
    _main()
