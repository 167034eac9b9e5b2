"""Run the command line in subprocesses that tests kill, stop and watch: ``python -m tests.programs.processes SETTINGS ARGUMENT...``.

SETTINGS is a JSON object of module attributes and waits to set before the command runs, such as
``{"auditor.planning.chunks.CHUNK_ROWS": 1000}`` to read a small table in many chunks, or ``{"durations.run_heartbeat": 0.1}``.
``{"pause": true}`` pauses a run after its plan is stored, until it is released. With ``watch`` in place of the arguments, the process
lists runs repeatedly until its stdin is closed.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.durations import SetDurations
from tests.programs.forking import Forked

CONFIG = "auditor.yaml"
PATIENCE = 60.0
"""Seconds after which a test stops waiting and fails."""

RETRIES = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
"""Retry delays in seconds that replace the auditor's, to keep tests short."""

SMALL: Mapping[str, Any] = {
    "auditor.planning.chunks.CHUNK_ROWS": 4000,
    "durations.connection_retry_waits": RETRIES,
    "durations.run_heartbeat": 0.1,
}


PAUSING = {**SMALL, "pause": True}


_unfinished: set[Process] = set()
"""Started, and not yet waited for."""


class Process:
    """A subprocess that runs one command and collects the lines of its standard error as they arrive."""

    def __init__(self, folder: Path, *arguments: str, settings: Mapping[str, Any] = SMALL) -> None:
        self.stderr_lines: list[str] = []
        self.stdout = ""
        self._changed = threading.Condition()
        self._process = Forked("tests.programs.processes", [json.dumps(settings), *arguments], folder, stderr=True)
        self._threads = [threading.Thread(target=self._listen, daemon=True), threading.Thread(target=self._read, daemon=True)]
        for thread in self._threads:
            thread.start()
        _unfinished.add(self)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self.stderr_lines.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.stdout = self._process.stdout.read()

    def wait_until(self, condition: Callable[[list[str]], bool], what: str) -> bool:
        """Wait until ``condition(lines of standard error)`` holds. Return False if the process ended first."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not condition(self.stderr_lines):
                if not self._threads[0].is_alive():
                    return False
                assert time.monotonic() < deadline, f"timed out waiting for {what}; standard error: {self.stderr_lines}"
                self._changed.wait(0.2)
        return True

    def wait_for_output(self, text: str, times: int = 1) -> bool:
        """Wait until ``times`` lines of standard error contain the text. Return False if the process ended first."""
        return self.wait_until(lambda lines: sum(text in line for line in lines) >= times, text)

    def wait_for_seconds(self, seconds: float) -> None:
        """Wait this long, or until the process ends."""
        until = time.monotonic() + seconds
        self.wait_until(lambda _: time.monotonic() > until, "the time to pass")

    def release(self) -> None:
        """Release a paused run."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait until the process ends and return its exit code."""
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
        _unfinished.discard(self)
        return code

    def report(self) -> dict[str, Any]:
        """Wait until the process ends and return the JSON report that it printed."""
        code = self.wait()
        assert self.stdout, (code, self.stderr_lines)
        report: dict[str, Any] = json.loads(self.stdout)
        return report


def kill_unfinished() -> None:
    """Kill the processes that a failed test left running, which would otherwise make a later test fail too."""
    for process in list(_unfinished):
        process.kill()


def run_command(folder: Path, *arguments: str) -> Process:
    """Run a command to its end."""
    process = Process(folder, *arguments)
    process.wait()
    return process


def start_run(folder: Path, *arguments: str, settings: Mapping[str, Any] = SMALL) -> Process:
    """Start ``auditor run live``; ``live`` is the audit that `write_config` configures."""
    return Process(folder, "run", "live", "--format", "json", *arguments, settings=settings)


def list_runs(folder: Path) -> list[dict[str, Any]]:
    """Return what ``auditor runs`` lists, newest first. Runs the command in this process, which is faster."""
    from auditor.cli import main

    out = io.StringIO()
    with chdir(folder), redirect_stdout(out):
        assert main(["runs", "--format", "json"]) == 0
    listed: list[dict[str, Any]] = json.loads(out.getvalue())
    return listed


@contextmanager
def listing_runs(folder: Path) -> Iterator[None]:
    """List the runs from another process throughout the block, and assert that this never fails."""
    watcher = Process(folder, "watch")
    try:
        assert watcher.wait_for_output("listed"), watcher.stderr_lines
        yield
    finally:
        code = watcher.wait()
    assert (code, [line for line in watcher.stderr_lines if line != "listed"]) == (0, [])


def write_config(folder: Path, source: str, target: str, store: str = "auditor.db", **audit: Any) -> None:
    """Write ``auditor.yaml`` with two connections per side, and make its store, which takes a process of its own a second.

    ``limits`` apply to the source, ``table`` to both sides.
    """
    from auditor.store import open_store

    here = {"url": source, "connections": 2, "limits": audit.pop("limits", {})}
    table = audit.pop("table", "live")
    ends = {side: {"connection": name, "table": table} for side, name in (("source", "here"), ("target", "there"))}
    value = {
        "connections": {"here": here, "there": {"url": target, "connections": 2}},
        "store": {"url": f"sqlite:///{folder}/{store}"},
        "audits": {"live": {**ends, "key": ["id"], **audit}},
    }
    (folder / CONFIG).write_text(json.dumps(value))
    open_store(f"sqlite:///{folder}/{store}").close()


def comparable_result(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a report that must be equal for any two runs of an audit over the same rows."""
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
        ended.wait(0.3)  # listing takes a third of a processor otherwise, of which there may be two for all tests
    return code


def _pause_after_plan() -> None:
    """Make a run pause after its plan is stored."""
    from auditor.history.checkpoint import StoreCheckpoint

    save_plan = StoreCheckpoint.save_plan

    def save_and_pause(self: StoreCheckpoint, *arguments: Any) -> None:
        save_plan(self, *arguments)
        print("planned", file=sys.stderr, flush=True)
        sys.stdin.readline()

    StoreCheckpoint.save_plan = save_and_pause  # type: ignore[method-assign,assignment]


UNTIL_END = SetDurations()


def apply(settings: Mapping[str, Any]) -> None:
    """Set attributes of modules, and ``durations``, until this process ends."""
    for name, value in settings.items():
        module, _, attribute = name.rpartition(".")
        if module == "durations":
            UNTIL_END(**{attribute: tuple(value) if isinstance(value, list) else value})
        else:
            setattr(import_module(module), attribute, value)


def _main() -> None:
    # A shell that starts the tests in the background lets them ignore SIGINT, which this process would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = json.loads(sys.argv[1])
    if settings.pop("pause", False):
        _pause_after_plan()
    apply(settings)
    if sys.argv[2:] == ["watch"]:
        sys.exit(_watch())
    from auditor.cli import console_main

    sys.argv[1:] = sys.argv[2:]
    console_main()


if __name__ == "__main__":
    _main()
