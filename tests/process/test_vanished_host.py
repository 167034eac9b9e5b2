"""A host that vanishes without a word is noticed by TCP itself, whatever a driver waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

PATIENCE = 120.0


def _may_make_namespaces() -> bool:
    try:
        return subprocess.run(["unshare", "--net", "ip", "link"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.clock
def test_waits_for_a_host_that_vanished_end() -> None:
    """By keepalives where nothing was sent, by TCP_USER_TIMEOUT where what was sent is not acknowledged; with shorter times than ours."""
    if not _may_make_namespaces():
        pytest.skip("network namespaces need root, unshare (util-linux) and ip (iproute2)")
    command = ["unshare", "--net", sys.executable, "-m", "tests.process.vanishing", "--quickly"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.stdout == "{'idle': 'ETIMEDOUT', 'unacknowledged': 'ETIMEDOUT'}\n", found.stdout + found.stderr
