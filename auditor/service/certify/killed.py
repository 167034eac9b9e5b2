"""A process that merges and kills itself at a step: ``python -m auditor.service.certify.killed CONFIG STEP``.

It dies as by ``kill -9`` or a machine that goes down: nothing is closed or rolled back by itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from auditor import config
from auditor.points import armed
from auditor.service.certify.target import make_loader
from auditor.store import open_store


def _main(file: Path, fatal: str) -> None:
    settings = config.load(file)
    assert settings.store
    with armed(f"merge.{fatal}", lambda: os.kill(os.getpid(), signal.SIGKILL)):
        make_loader(file, open_store(settings.store.url)).merge_all()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2])
