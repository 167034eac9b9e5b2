"""Scripts run in the engines' own clients, with results saved and compared later, give the result of a connected run."""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

import dialects
import sql_templates
from auditor import service
from auditor.cli import main
from auditor.config import Settings
from auditor.model import SIDES, Report, Side
from dialects import Kind, Url
from tests import tables
from tests.live import ENGINES, LiveEngine, LivePair, engine_params, pair_params
from tests.pairs.test_published_example import COLUMNS, ROWS, ensure_md5

RANDOM_COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 10, 2)), ("weight", Kind("float64")),
                  ("at", Kind("timestamp", scale=6)), ("flag", Kind("boolean"))]  # fmt: skip


def run_client(command: list[str], script: str, **environment: str) -> str:
    if shutil.which(command[0]) is None:
        missing = f"there is no {command[0]} on PATH: run scripts/engines.sh"
        pytest.fail(missing) if os.environ.get("CI", "").lower() == "true" else pytest.skip(missing)
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def mysql(url: Url, script: str) -> str:
    where = [f"--host={url.host}", f"--port={url.port}", f"--user={url.user}", "--protocol=tcp", "--default-character-set=utf8mb4"]
    return run_client(["mysql", *where, "--batch", url.database], script, MYSQL_PWD=url.password or "")


def psql(url: Url, script: str) -> str:
    where = [f"--host={url.host}", f"--port={url.port}", f"--username={url.user}", f"--dbname={url.database}"]
    options = ["--csv", "--no-psqlrc", "--set=ON_ERROR_STOP=1"]
    return run_client(["psql", *where, *options], script, PGPASSWORD=url.password or "", PGOPTIONS="")


def duckdb(url: Url, script: str) -> str:
    import duckdb as driver

    with driver.connect(url.database) as connection:
        for text in statements(script):
            result = connection.execute(text)
            if is_query(text):
                return to_csv([column[0] for column in result.description or ()], result.fetchall())
    raise AssertionError("the script has no query")


def spark(url: Url, script: str) -> str:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    results = [session.sql(text) for text in statements(script)]
    (result,) = [result for text, result in zip(statements(script), results, strict=True) if is_query(text)]
    return to_csv(result.columns, [tuple(row) for row in result.collect()])


def statements(script: str) -> list[str]:
    """Split a script into statements; each ends with a semicolon at the end of a line, and none contains one there."""
    return [text.strip() for text in sql_templates.body(script).removesuffix(";").split(";\n") if text.strip()]


def is_query(text: str) -> bool:
    return text.startswith("SELECT")


def to_csv(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    lines = [",".join(names), *(",".join("" if value is None else str(value) for value in row) for row in rows)]
    return "\n".join(lines) + "\n"


CLIENTS: dict[str, Callable[[Url, str], str]] = {"mysql": mysql, "postgres": psql, "redshift": psql, "duckdb": duckdb, "spark": spark}
"""Clients that run a script, by dialect; DuckDB and Spark run in Python, because their packages install no command-line client."""

CHOSEN = [engine for engine in ENGINES if not engine.only_named]
QUICK = [engine.name for engine in CHOSEN if engine.dialect != "spark"]
SLOW = [engine.name for engine in CHOSEN if engine.name not in QUICK]


def settings(pair: LivePair, table: str, **options: Any) -> Settings:
    return Settings.model_validate(
        {
            "connections": {side: {"url": getattr(pair, side).url} for side in SIDES},
            "audits": {
                "pasted": {
                    **{side: {"connection": side, "table": f"{table}_{side}"} for side in SIDES},
                    "key": ("id",),
                    "method": "minhash",
                    "salt": "",
                    "partition": {"strategy": "range", "size": 8},
                    **options,
                }
            },
        }
    )


def run_scripts(pair: LivePair, audit_settings: Settings, directory: Path) -> dict[Side, Path]:
    """Run both sides' scripts in their engines' clients and return the files with the results."""
    files: dict[Side, Path] = {}
    for side, script in service.sql(audit_settings, "pasted").items():
        engine: LiveEngine = getattr(pair, side)
        check_script(script, engine, side)
        files[side] = directory / f"{side}.csv"
        files[side].write_text(CLIENTS[engine.dialect](dialects.parse_url(engine.url), script), encoding="utf-8")
    return files


def check_script(script: str, engine: LiveEngine, side: Side) -> None:
    """Assert that a script has a header with the audit and the meaning of a row, a snapshot, and one query without parameters."""
    header = [line for line in script.splitlines() if line.startswith("-- ")]
    assert f"audit pasted, {side}" in header[0]
    assert any("One row per partition" in line for line in header)
    assert any("auditor compare" in line for line in header)
    dialect = dialects.get(engine.dialect)
    found = statements(script)
    assert {*dialect.BEGIN_SNAPSHOT, *dialect.END_SNAPSHOT} <= set(found)
    (query,) = [text for text in found if is_query(text)]
    tree = sqlglot.parse_one(query, dialect=dialect.sqlglot_dialect)
    assert tree.find(exp.Placeholder, exp.Parameter) is None


def assert_same_result(saved: dict[str, Any], connected: Report) -> None:
    """Assert that verdict, score and partitions equal those of the connected run."""
    assert connected.comparison is not None, connected.reasons
    assert saved["verdict"] == connected.verdict
    score = connected.comparison.published
    assert score is not None
    assert saved["score"]["published"] == {"value": score.value, "lower": score.lower, "upper": score.upper}
    parts = [(part["partition"], part["similarity"], part["rows"]) for part in saved["partitions"]["divergent"]]
    assert parts == [(part.partition, part.similarity, part.rows) for part in connected.comparison.divergent]
    assert saved["partitions"]["total"] == connected.comparison.total


def compare_files(files: dict[Side, Path], capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    """Run `auditor compare` on the two files and return its JSON output."""
    capsys.readouterr()
    assert main(["compare", "--source", str(files["source"]), "--target", str(files["target"]), "--format", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


_CREATED: set[str] = set()


def ensure_tables(engine: LiveEngine) -> None:
    """Create both sides of the published example and of a table of edge cases, once per session; rows 5 and 77 of the latter differ."""
    if engine.name in _CREATED:
        return
    for side in SIDES:
        tables.make(engine, f"pasted_nato_{side}", COLUMNS, ROWS[side], key=["id"])
        tables.make(engine, f"pasted_random_{side}", RANDOM_COLUMNS, tricky_rows(side), key=["id"])
    _CREATED.add(engine.name)


TRICKY = [None, "", "a,b", 'say "hi"', "tab\there", "line\nbreak", "ünï|code~ 😀", "NULL"]


def tricky_rows(side: Side) -> list[tuple[Any, ...]]:
    """Return a hundred rows with keys from -50 on."""
    changed = {} if side == "source" else {5: "x", 77: "x"}
    start = dt.datetime(2024, 2, 1, 0, 0, 0, 1)
    return [
        (n - 50, changed.get(n, TRICKY[n % 8]), Decimal(n - 30).scaleb(-2), n / 7, start + dt.timedelta(hours=n), n % 3 == 0)
        for n in range(100)
    ]


def assert_scripts_agree_with_run(pair: LivePair, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_tables(pair.source)
    ensure_tables(pair.target)
    audit_settings = settings(pair, "pasted_nato", encoding="published", k=4)
    with ensure_md5(pair.source, pair.target):
        saved = compare_files(run_scripts(pair, audit_settings, directory), capsys, 1)
        assert_same_result(saved, service.run_audit(audit_settings, "pasted"))
    assert saved["score"]["published"] == {"value": 0.9375, "lower": 0.6875, "upper": 1.0}
    assert [(part["partition"], part["similarity"]) for part in saved["partitions"]["divergent"]] == [(2, 0.75), (3, 1.0)]
    audit_settings = settings(pair, "pasted_random")
    saved = compare_files(run_scripts(pair, audit_settings, directory), capsys, 1)
    assert_same_result(saved, service.run_audit(audit_settings, "pasted"))
    assert [part["partition"] for part in saved["partitions"]["divergent"]] == [-45 // 8, 27 // 8]


@pytest.mark.quick_for("postgres-duckdb", "mariadb-postgres", "redshift-mariadb")
@pytest.mark.alone  # installs MD5() for the whole server
@pytest.mark.parametrize("pair", pair_params(*QUICK), indirect=True)
def test_saved_results_agree_with_a_connected_run(pair: LivePair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_scripts_agree_with_run(pair, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("engine", engine_params(*SLOW), indirect=True)
def test_saved_results_agree_with_a_connected_run_on_slow_engines(
    engine: LiveEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_scripts_agree_with_run(LivePair(engine, engine), tmp_path, capsys)


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
@pytest.mark.parametrize("method", ["counts", "signature"])
def test_every_method_has_a_console_script(engine: LiveEngine, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_tables(engine)
    pair = LivePair(engine, engine)
    audit_settings = settings(pair, "pasted_random", method=method)
    saved = compare_files(run_scripts(pair, audit_settings, tmp_path), capsys, 1)
    assert [part["partition"] for part in saved["partitions"]["divergent"]] == [-45 // 8, 27 // 8]


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_truncated_result_is_rejected(engine: LiveEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_tables(engine)
    pair = LivePair(engine, engine)
    files = run_scripts(pair, settings(pair, "pasted_nato"), tmp_path)
    lines = files["target"].read_text(encoding="utf-8").splitlines()
    assert len(list(csv.reader(lines))) == 5
    files["target"].write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    assert main(["compare", "--source", str(files["source"]), "--target", str(files["target"])]) in (2, 3)
    assert "contains 3 of 4 partitions" in capsys.readouterr().err
