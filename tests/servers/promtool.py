"""promtool, which evaluates rules of alerts; scripts/engines.sh unpacks it from Debian's package prometheus."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

VARIABLE = "AUDITOR_TEST_PROMTOOL"
MISSING = f"promtool is missing: run scripts/engines.sh, install prometheus, or set {VARIABLE}"


def find_promtool() -> str:
    """Return the path of promtool. Skips the test where it is missing, and with CI=true fails it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = os.environ.get(VARIABLE) or shutil.which("promtool") or shutil.which(str(cache / "auditor-tests" / "promtool"))
    if found:
        return found
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(MISSING)
    pytest.skip(MISSING)
