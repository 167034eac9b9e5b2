"""SQLite, installed as a package of its own: it passes the tests for engines, and is audited against DuckDB and PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import shlex
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
PAGE = ROOT / "docs" / "engines.md"
PACKAGE = Path(__file__).parent / "auditor-sqlite"
COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 10, 2))]
ROWS = [(number, f"row | {number}" if number % 9 else None, number) for number in range(1, 601)]


APART = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "--oracle-examples", "25")
"""What keeps the options of this suite out of the package's tests, and few random rows: any of them finds what is wrong below."""


class Installed:
    """An environment in which the package is installed."""

    def __init__(self, folder: Path) -> None:
        self.source, self.site = folder / "auditor-sqlite", folder / "site"
        shutil.copytree(PACKAGE, self.source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
        run([sys.executable, "-m", "pip", *documented("pip"), *options, "--target", str(self.site)], {}, cwd=folder)

    def python(self, *arguments: str, codes: tuple[int, ...] = (0,), cwd: Path = ROOT, site: Path | None = None) -> str:
        """Run Python with the installed package (-P: not with what lies in ``cwd``), or a copy of it, and return what it prints."""
        return run([sys.executable, "-P", *arguments], {"PYTHONPATH": f"{ROOT}:{site or self.site}"}, codes, cwd)


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


def documented(program: str) -> list[str]:
    """Return the arguments of the command of that program that the documentation shows."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL) for line in block.splitlines()]
    (found,) = [shlex.split(line)[1:] for line in lines if line.startswith(f"{program} ")]
    return found


def lines(text: str) -> str:
    """Return text without blank lines and without what its lines are indented by, which in a document is less."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def test_the_page_shows_what_the_files_hold() -> None:
    shown = re.findall(r'^```\w+ title="(.*?)"\n(.*?)^```$', PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(shown) >= 8
    for name, block in shown:
        assert lines(block) in lines((PACKAGE / name).read_text(encoding="utf-8")), f"{name} holds no such lines:\n{block}"


def diff(installed: Installed, source: str, target: str, codes: tuple[int, ...]) -> dict[str, Any]:
    _, _, table, _, other = documented("auditor")
    output = installed.python("-m", "auditor", "diff", source, table, target, other, "--format", "json", codes=codes)
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.slow
def test_its_tests_pass(installed: Installed) -> None:
    """With the plug-in of pytest that third parties use."""
    assert "12 passed" in installed.python("-m", "pytest", *APART, *documented("pytest"), cwd=installed.source)


def test_a_wrong_dialect_fails_its_tests(installed: Installed, tmp_path: Path) -> None:
    """The tests find what a plug-in gets wrong: here the zeros at the end of decimals."""
    shutil.copytree(installed.site, tmp_path / "site")
    module = tmp_path / "site" / "auditor_sqlite" / "functions.py"
    right, wrong = "{rounded if rounded else abs(rounded):f}", "{rounded.normalize():f}"
    assert right in module.read_text()
    module.write_text(module.read_text().replace(right, wrong))
    chosen = "tests/test_engine.py::TestCanonicalText::test_canonical_text_of_every_shared_kind_equals_the_oracle"
    printed = installed.python(
        "-m", "pytest", *APART, *documented("pytest")[:2], chosen, codes=(1,), cwd=installed.source, site=tmp_path / "site"
    )
    assert "money_decimal_10_2 as decimal(10,2)" in printed
    assert "free_text" not in printed, "what is right is not named"


@pytest.mark.parametrize("engine", engine_params("duckdb", "postgres", slow=["postgres"]), indirect=True)
def test_it_is_audited_as_source_and_target(installed: Installed, lite: tuple[str, sqlite3.Connection], engine: LiveEngine) -> None:
    """With --slow also against PostgreSQL, from which nothing else is asked."""
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


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_its_queries_are_audited(installed: Installed, lite: tuple[str, sqlite3.Connection], engine: LiveEngine) -> None:
    columns = [("first", Kind("text")), ("orders", Kind("integer")), ("highest", Kind("integer"))]
    columns_of_query = (
        ("SUBSTR(COALESCE(name, '-'), 1, 7)", "TEXT", "first"), ("COUNT(*)", "INTEGER", "orders"), ("MAX(price)", "INTEGER", "highest")
    )  # fmt: skip
    shown = ", ".join(f"CAST({computed} AS {native}) AS {name}" for computed, native, name in columns_of_query)
    query = f"SELECT {shown} FROM orders GROUP BY 1"
    expected: dict[str, list[int]] = {}
    for _, name, price in ROWS:
        expected.setdefault((name or "-")[:7], []).append(price)
    rows = [(first, len(prices), max(prices)) for first, prices in expected.items()]
    for changed, code in ((None, 0), (rows[3][0], 1)):
        tables.make(engine, "firsts", columns, [(first, count + (first == changed), most) for first, count, most in rows])
        command = ["-m", "auditor", "diff", lite[0], f"{query}; -- by name", engine.url, "firsts", "-k", "first", "--format", "json"]
        found = json.loads(installed.python(*command, codes=(code,)))
        assert [one["kind"] for one in found["plan"]["columns"]] == ["text", "integer", "integer"]
        if changed:
            assert [(one["kind"], one["key"]["first"]) for one in found["differences"]["sample"]] == [("changed", changed)]


def test_without_the_package_its_scheme_is_unknown(lite: tuple[str, sqlite3.Connection]) -> None:
    """Nothing of it is in the auditor's own distribution."""
    command = [sys.executable, "-m", "auditor", "diff", lite[0], "orders", "duckdb:///:memory:", "orders"]
    found = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert re.search(r"unknown engine in URL sqlite://; use one of .*duckdb, .*mariadb, .*mysql, ", found.stderr)
