"""What psql and mysql really write for the printed scripts is read, and the keys that differ are named without a connection."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from auditor import service
from auditor.config import validate_settings
from auditor.model import SIDES, Side
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

COLUMNS = (("id", Kind("integer")), ("note", Kind("text")))

PSQL = {"aligned": [], "unaligned": ["--no-align"], "csv": ["--csv"], "markdown": ["--pset=linestyle=old-ascii", "--pset=border=2"]}
MYSQL = {"aligned": ["--table"], "unaligned": ["--batch"], "csv": ["--batch", "--raw"], "markdown": ["--table", "-vv"]}


def run_client(engine: LiveEngine, form: str, script: Path, output: Path) -> None:
    """Run a script in the engine's own client, and save what it prints."""
    url = urlsplit(engine.url)
    mysql = engine.dialect == "mysql"
    program = shutil.which("mysql" if mysql else "psql")
    if program is None:
        pytest.skip(f"{'mysql' if mysql else 'psql'} is not installed")
    user, database = ("--user", "") if mysql else ("--username", "--dbname=")
    arguments = [program, f"--host={url.hostname}", f"--port={url.port}", f"{user}={url.username}", f"{database}{url.path[1:]}"]
    arguments += [*MYSQL[form], "--protocol=tcp"] if mysql else ["--no-psqlrc", *PSQL[form]]
    environment = {**os.environ, "MYSQL_PWD" if mysql else "PGPASSWORD": unquote(url.password or "")}
    with script.open(encoding="utf-8") as statements, output.open("w", encoding="utf-8") as printed:
        subprocess.run(arguments, stdin=statements, stdout=printed, env=environment, check=True)


@pytest.fixture
def made(pair: LivePair) -> Iterator[LivePair]:
    rows = [(number, f"note {number}") for number in range(500)]
    tables.make(pair.source, "console_orders", COLUMNS, rows, ["id"])
    tables.make(pair.target, "console_orders", COLUMNS, [(n, "x" if n == 333 else note) for n, note in rows if n != 77], ["id"])
    yield pair
    for engine in (pair.source, pair.target):
        tables.execute(engine, "DROP TABLE console_orders")


@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres"), indirect=True)
def test_saved_results_of_the_clients_name_the_keys(made: LivePair, tmp_path: Path) -> None:
    engines: dict[Side, LiveEngine] = {"source": made.source, "target": made.target}
    ends: dict[str, Any] = {side: {"connection": side, "table": "console_orders"} for side in SIDES}
    audit = {**ends, "key": ["id"], "partition": {"strategy": "range", "size": 64}}
    urls = {side: {"url": engine.url} for side, engine in engines.items()}
    scripts = service.sql(validate_settings({"connections": urls, "audits": {"orders": audit}}), "orders")
    for side, script in scripts.items():
        (tmp_path / f"{side}.sql").write_text(script, encoding="utf-8")
    for form in PSQL:
        for side, engine in engines.items():
            run_client(engine, form, tmp_path / f"{side}.sql", tmp_path / f"{side}.{form}")
        found = service.compare_files(tmp_path / f"source.{form}", tmp_path / f"target.{form}")
        assert found.verdict == "mismatch", form
        assert found.notes[0].endswith("not fetched: 77, 333"), form
