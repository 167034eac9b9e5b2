"""A process that applies or undoes a patch and kills itself at one of its steps, or a moment after: python -m tests.repair.killed FILE."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from auditor.points import POINTS
from tests.programs.forking import ROOT, Forked
from tests.repair.damaged import Damaged
from tests.repair.small import Small

STEPS = ("prepared", "begun", "marked", "written", "commit", "committed", "noted")
"""The steps of each batch, in order."""

ROWS = 5
"""Rows of one batch, so that there are several."""


def kill(both: Damaged | Small, folder: Path, *, run: str = "", undo: str = "", step: str = "", nth: int = 1, delay: float = 0.0) -> int:
    """Run such a process and return its exit code: -9 if it was killed, 0 if it came to its end before.

    It is killed ``delay`` seconds after the ``nth`` time that this ``step``, or with '' any step, begins.
    """
    assert not step or f"patch.{step}" in POINTS
    order: dict[str, Any] = {
        "settings": both.settings.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "store": both.store.name,
        "run": run,
    }
    order |= {"undo": undo, "step": step, "nth": nth, "delay": delay}
    file = folder / "order.json"
    file.write_text(json.dumps(order))
    process = Forked("tests.repair.killed", [str(file)], ROOT, stderr=True)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode


def main(order: dict[str, Any]) -> None:
    """Do what the order says."""
    from auditor.config import Settings
    from auditor.points import followed
    from auditor.repair import batch
    from auditor.repair.keys import Selection
    from auditor.service import patches
    from auditor.store import open_store

    vars(batch)["PATCH_BATCH_ROWS"] = ROWS
    seen = 0

    def step(name: str) -> None:
        nonlocal seen
        seen += order["step"] in ("", name)
        if seen == order["nth"]:
            seen += 1
            if not order["delay"]:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Thread(target=die, daemon=True).start()

    def die() -> None:
        time.sleep(order["delay"])
        os.kill(os.getpid(), signal.SIGKILL)

    settings, store = Settings.model_validate(order["settings"]), open_store(order["store"])
    with followed("patch", step):
        if order["undo"]:
            patches.undo_patch(settings, store, order["undo"])
        else:
            patches.apply_patch(settings, store, order["run"], Selection(delete_extra=True))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
