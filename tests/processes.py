"""The command line in processes of their own, which tests kill, stop and watch: ``python -m tests.processes SETTINGS ARGUMENT...``.

SETTINGS is JSON: attributes of modules that are set first, such as ``{"auditor.plan.CHUNK_ROWS": 1000}``, so that a small table is
read in many chunks; ``{"pause": true}`` lets a run wait, once its plan is kept, until it is told to go on. With ``watch`` in place
of the arguments, the process lists runs again and again until its input is closed.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONFIG = "auditor.yaml"
PATIENCE = 60.0
"""Seconds after which what a test waits for does not come any more."""

WAITS = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
"""What replaces the auditor's waits, so that tests need not wait as long."""

SMALL: Mapping[str, Any] = {"auditor.plan.CHUNK_ROWS": 4000, "auditor.link.WAITS": WAITS, "auditor.kept.BEAT": 0.1}


PAUSING = {**SMALL, "pause": True}


class Process:
    """One command. What it says on standard error is kept by lines, as it is said."""

    def __init__(self, folder: Path, *arguments: str, settings: Mapping[str, Any] = SMALL) -> None:
        self.said: list[str] = []
        self.out = ""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes", json.dumps(settings), *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [threading.Thread(target=self._listen, daemon=True), threading.Thread(target=self._read, daemon=True)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self.said.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.out = self._process.stdout.read()

    def until(self, true: Callable[[list[str]], bool], what: str) -> bool:
        """Wait until what was said is so: True; False where the process ended first."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not true(self.said):
                if not self._threads[0].is_alive():
                    return False
                assert time.monotonic() < deadline, f"it never said {what}: {self.said}"
                self._changed.wait(0.2)
        return True

    def says(self, text: str, times: int = 1) -> bool:
        """Wait until it has said so in so many lines."""
        return self.until(lambda said: sum(text in line for line in said) >= times, text)

    def after(self, seconds: float) -> None:
        """Wait so long, or until it ended: a moment of its life that nothing tells."""
        until = time.monotonic() + seconds
        self.until(lambda _: time.monotonic() > until, "that time passed")

    def go(self) -> None:
        """Let a run that paused go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self.end()

    def end(self) -> int:
        """Its exit code, once it has ended."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            code = self._process.wait(PATIENCE)
        finally:
            self._process.kill()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def report(self) -> dict[str, Any]:
        """The report that it printed as JSON, once it has ended."""
        code = self.end()
        assert self.out, (code, self.said)
        found: dict[str, Any] = json.loads(self.out)
        return found


def command(folder: Path, *arguments: str) -> Process:
    """A command that has ended."""
    done = Process(folder, *arguments)
    done.end()
    return done


def run(folder: Path, *arguments: str, settings: Mapping[str, Any] = SMALL) -> Process:
    """``auditor run`` of the configuration's audit, which is called ``live``."""
    return Process(folder, "run", "live", "--format", "json", *arguments, settings=settings)


def runs(folder: Path) -> list[dict[str, Any]]:
    """What ``auditor runs`` lists, the newest first."""
    done = command(folder, "runs", "--format", "json")
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Another process lists the runs throughout the block, and must never fail to."""
    watcher = Process(folder, "watch")
    try:
        assert watcher.says("listed"), watcher.said
        yield
    finally:
        code = watcher.end()
    assert (code, [line for line in watcher.said if line != "listed"]) == (0, [])


def configure(folder: Path, source: str, target: str, store: str = "auditor.db", **audit: Any) -> None:
    """Write ``auditor.yaml``; two connections read each side. ``limits`` are the source's, ``table`` is both sides'."""
    here = {"url": source, "connections": 2, "limits": audit.pop("limits", {})}
    table = audit.pop("table", "live")
    ends = {side: {"connection": name, "table": table} for side, name in (("source", "here"), ("target", "there"))}
    value = {
        "connections": {"here": here, "there": {"url": target, "connections": 2}},
        "store": {"url": f"sqlite:///{folder}/{store}"},
        "audits": {"live": {**ends, "key": ["id"], **audit}},
    }
    (folder / CONFIG).write_text(json.dumps(value))


def found(report: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs of one audit over the same rows have in common."""
    differences = report["differences"]
    named = [(one["kind"], one["key"]) for one in differences["sample"]]
    ranges = [(one["kind"], one["first"], one["last"], one["rows"]) for one in differences["ranges"]]
    counts = {kind: differences[kind] for kind in ("missing", "extra", "changed")}
    return {
        "verdict": report["verdict"],
        "rows": report["rows"],
        "coverage": report["coverage"],
        **counts,
        "named": named,
        "ranges": ranges,
    }


def _watch() -> int:
    from auditor.cli import main

    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    code = 0
    while not code and not ended.is_set():
        with redirect_stdout(io.StringIO()):
            code = main(["runs", "--format", "json"])
        print("listed", file=sys.stderr, flush=True)
        ended.wait(0.1)
    return code


def _pausing() -> None:
    """Let a run wait once its plan is kept."""
    from auditor.kept import Kept

    pin = Kept.pin

    def pinned(self: Kept, *arguments: Any) -> None:
        pin(self, *arguments)
        print("planned", file=sys.stderr, flush=True)
        sys.stdin.readline()

    Kept.pin = pinned  # type: ignore[method-assign,assignment]


def _main() -> None:
    settings = json.loads(sys.argv[1])
    if settings.pop("pause", False):
        _pausing()
    for name, value in settings.items():
        module, _, attribute = name.rpartition(".")
        setattr(import_module(module), attribute, value)
    if sys.argv[2:] == ["watch"]:
        sys.exit(_watch())
    from auditor.cli import console_main

    sys.argv[1:] = sys.argv[2:]
    console_main()


if __name__ == "__main__":
    _main()
