"""The command ``auditor`` with steps at which it kills itself: ``python -m tests.chaos ARGUMENT...``."""

from __future__ import annotations

from auditor.cli import console_main
from tests.chaos import steps

if __name__ == "__main__":
    with steps.installed():
        console_main()
