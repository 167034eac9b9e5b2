"""Pruning a store on a full disk, for which the kernel mounts a small one in a name space of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.full_disk import REPORT, RUNS

ROOT = Path(__file__).parents[2]
MOUNT = 'mount -t tmpfs -o size=32m tmpfs "$0" && exec "$1" -m tests.store.full_disk "$0"'


def test_pruning_needs_a_megabyte_however_much_it_deletes(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system: unshare -rm is missing or refused")
    command = ["unshare", "-rm", "sh", "-c", MOUNT, str(tmp_path), sys.executable]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["without room"]["code"] == 3
    assert "the disk is full; free some space, or run: auditor prune, which needs a free megabyte itself" in said["without room"]["output"]
    assert (said["with a megabyte"]["code"], said["with a megabyte"]["output"]) == (
        0,
        f"{RUNS - 1} runs, 0 events and 0 ended tokens were deleted\n",
    )
    assert said["with a megabyte"]["freed"] > (RUNS - 1) * REPORT
