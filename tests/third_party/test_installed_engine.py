"""SQLite, installed as a package of its own: it passes the tests for engines, and is audited against DuckDB and PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dialects import Kind
from tests import tables
from tests.live import LiveEngine, engine_params

ROOT = Path(__file__).parents[2]
PACKAGE = Path(__file__).parent / "auditor-sqlite"
COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 10, 2))]
ROWS = [(number, f"row | {number}" if number % 9 else None, number) for number in range(1, 601)]


PLUGIN = ("-q", "-p", "auditor.testing.engine_oracle", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".")
"""How the package's tests are run, without the options of this suite."""


class Installed:
    """An environment in which the package is installed."""

    def __init__(self, folder: Path) -> None:
        copy, self.site = folder / "source", folder / "site"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
        run([sys.executable, "-m", "pip", "install", *options, "--target", str(self.site), str(copy)], {})
        self.tests = copy / "tests"

    def python(self, *arguments: str, codes: tuple[int, ...] = (0,), cwd: Path = ROOT, site: Path | None = None) -> str:
        """Run Python with the package, or another copy of it, and return what it prints."""
        return run([sys.executable, *arguments], {"PYTHONPATH": f"{ROOT}:{site or self.site}"}, codes, cwd)


def run(command: list[str], variables: dict[str, str], codes: tuple[int, ...] = (0,), cwd: Path = ROOT) -> str:
    found = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False, cwd=cwd)
    assert found.returncode in codes, f"{found.returncode}\n{found.stdout}\n{found.stderr}"
    return found.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[tuple[str, sqlite3.Connection]]:
    """The URL of a file with the rows, and a connection that writes it."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(40), price DECIMAL(10,2))")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(key, name, f"{price}.5") for key, name, price in ROWS])
        connection.commit()
        yield f"sqlite:///{path}", connection


def diff(installed: Installed, source: str, target: str, codes: tuple[int, ...]) -> dict[str, Any]:
    output = installed.python("-m", "auditor", "diff", source, "orders", target, "orders", "--format", "json", codes=codes)
    found: dict[str, Any] = json.loads(output)
    return found


def test_its_tests_pass(installed: Installed) -> None:
    """With the plug-in of pytest that third parties use."""
    assert "12 passed" in installed.python("-m", "pytest", *PLUGIN, str(installed.tests), cwd=installed.tests)


def test_a_wrong_dialect_fails_its_tests(installed: Installed, tmp_path: Path) -> None:
    """The tests find what a plug-in gets wrong: here the zeros at the end of decimals."""
    shutil.copytree(installed.site, tmp_path / "site")
    module = tmp_path / "site" / "auditor_sqlite" / "functions.py"
    right, wrong = "{rounded if rounded else abs(rounded):f}", "{rounded.normalize():f}"
    assert right in module.read_text()
    module.write_text(module.read_text().replace(right, wrong))
    chosen = f"{installed.tests}/test_engine.py::TestCanonicalText::test_canonical_text_of_every_shared_kind_equals_the_oracle"
    printed = installed.python("-m", "pytest", *PLUGIN, chosen, codes=(1,), cwd=installed.tests, site=tmp_path / "site")
    assert "money_decimal_10_2 as decimal(10,2)" in printed
    assert "free_text" not in printed, "what is right is not named"


@pytest.mark.parametrize("engine", engine_params("duckdb", "postgres"), indirect=True)
def test_it_is_audited_as_source_and_target(installed: Installed, lite: tuple[str, sqlite3.Connection], engine: LiveEngine) -> None:
    url, connection = lite
    tables.make(engine, "orders", COLUMNS, [(key, name, Decimal(price) + Decimal("0.50")) for key, name, price in ROWS], key=["id"])
    assert diff(installed, url, engine.url, (0,))["verdict"] == "match"
    connection.execute("UPDATE orders SET name = 'x' WHERE id = 17")
    connection.execute("UPDATE orders SET price = 3 WHERE id = 9")
    connection.execute("DELETE FROM orders WHERE id = 400")
    connection.commit()
    for source, target, kind in ((url, engine.url, "extra"), (engine.url, url, "missing")):
        found = diff(installed, source, target, (1,))
        assert found["verdict"] == "mismatch"
        named = {(one["kind"], str(one["key"]["id"])) for one in found["differences"]["sample"]}
        assert named == {("changed", "9"), ("changed", "17"), (kind, "400")}


def test_without_the_package_its_scheme_is_unknown(lite: tuple[str, sqlite3.Connection]) -> None:
    """Nothing of it is in the auditor's own distribution."""
    command = [sys.executable, "-m", "auditor", "diff", lite[0], "orders", "duckdb:///:memory:", "orders"]
    found = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "unknown engine in URL sqlite://; use one of duckdb" in found.stderr
