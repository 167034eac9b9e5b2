"""Events about runs, read by OpenLineage's own classes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from auditor.cli import main
from tests.integrations.conftest import ROOT, environment
from tests.unit.test_lineage import Receiver, configure, receiver

__all__ = ["receiver"]
pytestmark = [pytest.mark.slow]
PYTHON = environment("openlineage")


def test_events_are_read_by_openlineage(tmp_path: Path, receiver: Receiver) -> None:
    path = str(configure(tmp_path, receiver.url))
    assert [main(["run", name, "-q", "--config", path]) for name in ("same", "other")] == [0, 1]
    program = ROOT / "tests" / "integrations" / "openlineage_event.py"
    for event, said in zip(receiver.events, ([True] * 4, [False] * 2), strict=True):
        done = subprocess.run([PYTHON, program], input=json.dumps(event), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"{json.dumps(said)}\n"), done.stderr
