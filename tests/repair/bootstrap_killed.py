"""A process that copies a table anew and kills itself at one of its steps, or a moment after.

python -m tests.repair.bootstrap_killed FILE
"""

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

STEPS = ("begun", "made", "range", "loaded", "verify", "swapping", "swap", "swapped", "noted")
"""The steps of a bootstrap, in order."""

ROWS = 20
"""Rows of a range, so that there are several."""


def kill(
    both: Damaged | Small, folder: Path, *, step: str = "", nth: int = 1, delay: float = 0.0, audit: str = "all", by_spark: bool = False
) -> int:
    """Run such a process and return its exit code: -9 if it was killed, 0 if it came to its end before.

    It is killed ``delay`` seconds after the ``nth`` time that this ``step``, or with '' any step, begins.
    """
    assert not step or f"bootstrap.{step}" in POINTS
    settings = both.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    (folder / "auditor.yaml").write_text(json.dumps(settings))  # which executors read
    file = folder / "order.json"
    order = {"settings": settings, "store": both.store.name, "step": step, "nth": nth, "delay": delay, "audit": audit, "by_spark": by_spark}
    file.write_text(json.dumps(order))
    process = Forked("tests.repair.bootstrap_killed", [str(file)], ROOT, stderr=True)
    _, errors = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode


def main(order: dict[str, Any]) -> None:
    """Do what the order says."""
    from auditor.bootstrap import plan, use_cases
    from auditor.config import Settings
    from auditor.points import followed
    from auditor.store import open_store

    vars(plan)["RANGE_ROWS"] = ROWS
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
    spreading = use_cases.Spreading(Path(sys.argv[1]).with_name("auditor.yaml"), is_asked=True) if order["by_spark"] else None
    with followed("bootstrap", step):
        use_cases.run_bootstrap(settings, store, order["audit"], spreading=spreading)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
