"""Processes that carry out what waits, which tests kill and stop: ``python -m tests.serving SETTINGS CONFIG WORKERS GRACE [CLOCK]``.

SETTINGS is JSON: attributes of modules that are set first. With CLOCK, JSON with ``begin``, ``speed`` and ``end`` of a clock that
runs fast, it keeps the schedules too. It ends at SIGTERM, or when its input is closed, as the service does.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Serving:
    """Such a process, from outside."""

    def __init__(self, config: Path, workers: int = 2, grace: float = 5.0, settings: Mapping[str, Any] = {}, clock: Any = None) -> None:
        arguments = [json.dumps(settings), str(config), str(workers), str(grace), *([json.dumps(clock)] if clock else [])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving", *arguments],
            cwd=config.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def end(self) -> float:
        """Ask it to end with SIGTERM; the seconds that this took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0 and out == "ended\n", (self.process.returncode, out)
        return time.monotonic() - began


def _main() -> None:
    settings, path, workers, grace, *clock = sys.argv[1:]
    for name, value in json.loads(settings).items():
        module, _, attribute = name.rpartition(".")
        setattr(import_module(module), attribute, value)
    from auditor import config, schedule
    from auditor.service.queueing import Workers
    from auditor.store import open_store

    configured = config.load(Path(path))
    assert configured.store
    store = open_store(configured.store.url)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=lambda: ended.set() if not sys.stdin.read() else None, daemon=True).start()
    carried = Workers(configured, store, int(workers))
    ticker = None
    if clock:
        fast = json.loads(clock[0])
        begin, began = dt.datetime.fromisoformat(fast["begin"]), time.monotonic()
        last = dt.datetime.fromisoformat(fast["end"])
        ticker = schedule.Ticker(
            configured, store, str(os.getpid()), lambda: min(last, begin + dt.timedelta(seconds=(time.monotonic() - began) * fast["speed"]))
        )
        ticker.start()
    carried.start()
    print("ready", flush=True)
    ended.wait()
    if ticker:
        ticker.stop()
    carried.stop(float(grace))
    print("ended", flush=True)


if __name__ == "__main__":
    _main()
