"""Fill a disk of its own with a store, then prune it: ``python -m tests.store.full_disk DIRECTORY``, for `test_full_disk`.

Prints a JSON object: what ``auditor prune`` says with no byte free, and with a megabyte, and the room that the latter gives back.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditor.cli import main
from auditor.store import open_store, run_lifecycle
from tests.store.samples import DONE, start_run

RUNS = 60
REPORT = 200_000
"""Bytes of a run's report."""


def fill(directory: Path) -> None:
    """Store runs of one audit."""
    store = open_store(f"sqlite:///{directory}/store.db")
    for _ in range(RUNS):
        run = start_run(store, "large")
        run_lifecycle.finish_run(store, run, replace(DONE, report=os.urandom(REPORT)))
    store.close()


def room(directory: Path) -> int:
    """Return the bytes that are free."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_bsize


def prune(directory: Path) -> dict[str, Any]:
    """Run ``auditor prune``; return its exit code, what it printed, and how many bytes became free."""
    free, output = room(directory), io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main(["prune", "--config", str(directory / "auditor.yaml")])
    return {"code": code, "output": output.getvalue(), "freed": room(directory) - free}


def _main(directory: Path) -> None:
    config = {"store": {"url": f"sqlite:///{directory}/store.db"}, "keep": {"runs": 1}, "connections": {}, "audits": {}}
    (directory / "auditor.yaml").write_text(json.dumps(config))
    fill(directory)
    (directory / "megabyte").write_bytes(bytes(1_000_000))
    (directory / "rest").write_bytes(bytes(room(directory)))
    without_room = prune(directory)
    (directory / "megabyte").unlink()
    print(json.dumps({"without room": without_room, "with a megabyte": prune(directory)}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
