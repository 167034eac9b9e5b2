"""The process of a publisher, with steps at which it kills itself: ``python -m tests.chaos.publisher ARGUMENT...``."""

from __future__ import annotations

import sys
from pathlib import Path

from auditor.pipeline.child_process import ignore_signals
from auditor.pipeline.publisher_process import publish
from tests.chaos import steps

if __name__ == "__main__":
    ignore_signals()
    with steps.installed():
        publish(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
