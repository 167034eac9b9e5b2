"""The process of a target, with steps at which it kills itself: ``python -m tests.chaos.target_process ARGUMENT...``."""

from __future__ import annotations

import sys

from auditor.pipeline.child_process import ignore_signals
from auditor.pipeline.target_process import main
from tests.chaos import steps

if __name__ == "__main__":
    ignore_signals()
    with steps.installed():
        main(sys.argv[1:])
