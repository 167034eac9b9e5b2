"""The environments that ``make integrations`` installs, and a service with audits that match, differ and fail."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.programs.serve import Served, serve

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "integrations"


def environment(name: str) -> Path:
    """Return the Python of an environment. Skips the module by name where it is not installed."""
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{name} is not installed here: make integrations installs it", allow_module_level=True)
    return python


def execute(folder: Path, environment: Mapping[str, str], *command: str | Path) -> str:
    """Run a program of an environment in a folder, and return what it prints. Fails the test with its last words if it fails."""
    path = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env={**path, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def audit_of(target: str) -> dict[str, Any]:
    return {"source": {"connection": "here", "table": "orders"}, "target": {"connection": "here", "table": target}, "key": ["id"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with audits ``good``, ``bad``, one of whose rows is missing, and ``broken``, whose target does not exist."""
    folder = tmp_path_factory.mktemp("served")
    with duckdb.connect(str(folder / "tables.duckdb")) as connection:
        connection.execute("CREATE TABLE orders AS SELECT i AS id, 'v' || i AS v FROM range(100) t(i)")
        connection.execute("CREATE TABLE good AS SELECT * FROM orders")
        connection.execute("CREATE TABLE bad AS SELECT * FROM orders WHERE id <> 7")
    configured = {
        "connections": {"here": {"url": f"duckdb:///{folder}/tables.duckdb"}},
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "audits": {"good": audit_of("good"), "bad": audit_of("bad"), "broken": audit_of("absent")},
    }
    with serve(folder, configured) as found:
        yield found
