"""SQL pasted into the engines' own clients, its results saved and compared later, says what a connected run says."""

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
from tests.engines import ENGINES, LiveEngine, LivePair, engine_params, pair_params
from tests.test_published_example import COLUMNS, ROWS, md5

RANDOM_COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 10, 2)), ("weight", Kind("float64")),
                  ("at", Kind("timestamp", scale=6)), ("flag", Kind("boolean"))]  # fmt: skip


def run(command: list[str], script: str, **environment: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} on PATH")
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def mysql(url: Url, script: str) -> str:
    where = [f"--host={url.host}", f"--port={url.port}", f"--user={url.user}", "--protocol=tcp", "--default-character-set=utf8mb4"]
    return run(["mysql", *where, "--batch", url.database], script, MYSQL_PWD=url.password or "")


def psql(url: Url, script: str) -> str:
    where = [f"--host={url.host}", f"--port={url.port}", f"--username={url.user}", f"--dbname={url.database}"]
    options = ["--csv", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1"]
    return run(["psql", *where, *options], script, PGPASSWORD=url.password or "", PGOPTIONS="")


def duckdb(url: Url, script: str) -> str:
    import duckdb as driver

    with driver.connect(url.database) as connection:
        for text in statements(script):
            found = connection.execute(text)
            if is_query(text):
                return written([column[0] for column in found.description or ()], found.fetchall())
    raise AssertionError("the script has no query")


def spark(url: Url, script: str) -> str:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    results = [session.sql(text) for text in statements(script)]
    (found,) = [result for text, result in zip(statements(script), results, strict=True) if is_query(text)]
    return written(found.columns, [tuple(row) for row in found.collect()])


def statements(script: str) -> list[str]:
    """The script's statements; each ends its line with a semicolon, and none holds one that does."""
    return [text.strip() for text in sql_templates.body(script).removesuffix(";").split(";\n") if text.strip()]


def is_query(text: str) -> bool:
    return text.startswith("SELECT")


def written(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    lines = [",".join(names), *(",".join("" if value is None else str(value) for value in row) for row in rows)]
    return "\n".join(lines) + "\n"


CLIENTS: dict[str, Callable[[Url, str], str]] = {"mysql": mysql, "postgres": psql, "redshift": psql, "duckdb": duckdb, "spark": spark}
"""What people paste SQL into, by dialect; DuckDB's and Spark's own clients are not installed with their Python packages."""

QUICK = [engine.name for engine in ENGINES if engine.dialect != "spark"]
SLOW = [engine.name for engine in ENGINES if engine.name not in QUICK]


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


def pasted(pair: LivePair, wanted: Settings, directory: Path) -> dict[Side, Path]:
    """Both sides' scripts put through their engines' clients, and the results in files."""
    files: dict[Side, Path] = {}
    for side, script in service.sql(wanted, "pasted").items():
        engine: LiveEngine = getattr(pair, side)
        check_script(script, engine, side)
        files[side] = directory / f"{side}.csv"
        files[side].write_text(CLIENTS[engine.dialect](dialects.parse(engine.url), script), encoding="utf-8")
    return files


def check_script(script: str, engine: LiveEngine, side: Side) -> None:
    """Its header says what it audits and what a row is; it opens a snapshot, holds one query, and binds nothing."""
    header = [line for line in script.splitlines() if line.startswith("-- ")]
    assert f"audit pasted, {side}" in header[0]
    assert any("One row per partition" in line for line in header)
    assert any("auditor compare" in line for line in header)
    dialect = dialects.get(engine.dialect)
    found = statements(script)
    assert {*dialect.BEGIN, *dialect.END} <= set(found)
    (query,) = [text for text in found if is_query(text)]
    tree = sqlglot.parse_one(query, dialect=dialect.sqlglot)
    assert tree.find(exp.Placeholder, exp.Parameter) is None


def same(saved: dict[str, Any], connected: Report) -> None:
    """Verdict, score and partitions are those of the connected run."""
    assert connected.comparison is not None, connected.reasons
    assert saved["verdict"] == connected.verdict
    score = connected.comparison.published
    assert score is not None
    assert saved["score"]["published"] == {"value": score.value, "lower": score.lower, "upper": score.upper}
    parts = [(part["partition"], part["similarity"], part["rows"]) for part in saved["partitions"]["divergent"]]
    assert parts == [(part.partition, part.similarity, part.rows) for part in connected.comparison.divergent]
    assert saved["partitions"]["total"] == connected.comparison.total


def compared(files: dict[Side, Path], capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    """What `auditor compare` says of the two files."""
    capsys.readouterr()
    assert main(["compare", "--source", str(files["source"]), "--target", str(files["target"]), "--format", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


_MADE: set[str] = set()


def made(engine: LiveEngine) -> None:
    """The published example and a table of tricky values, both sides of each, once a run; rows 5 and 77 of the latter differ."""
    if engine.name in _MADE:
        return
    for side in SIDES:
        tables.make(engine, f"pasted_nato_{side}", COLUMNS, ROWS[side], key=["id"])
        tables.make(engine, f"pasted_random_{side}", RANDOM_COLUMNS, tricky_rows(side), key=["id"])
    _MADE.add(engine.name)


TRICKY = [None, "", "a,b", 'say "hi"', "tab\there", "line\nbreak", "ünï|code~ 😀", "NULL"]


def tricky_rows(side: Side) -> list[tuple[Any, ...]]:
    """A hundred rows with keys from -50 on."""
    changed = {} if side == "source" else {5: "x", 77: "x"}
    start = dt.datetime(2024, 2, 1, 0, 0, 0, 1)
    return [
        (n - 50, changed.get(n, TRICKY[n % 8]), Decimal(n - 30).scaleb(-2), n / 7, start + dt.timedelta(hours=n), n % 3 == 0)
        for n in range(100)
    ]


def agrees(pair: LivePair, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(pair.source)
    made(pair.target)
    wanted = settings(pair, "pasted_nato", encoding="published", k=4)
    with md5(pair.source, pair.target):
        saved = compared(pasted(pair, wanted, directory), capsys, 1)
        same(saved, service.run_audit(wanted, "pasted"))
    assert saved["score"]["published"] == {"value": 0.9375, "lower": 0.6875, "upper": 1.0}
    assert [(part["partition"], part["similarity"]) for part in saved["partitions"]["divergent"]] == [(2, 0.75), (3, 1.0)]
    wanted = settings(pair, "pasted_random")
    saved = compared(pasted(pair, wanted, directory), capsys, 1)
    same(saved, service.run_audit(wanted, "pasted"))
    assert [part["partition"] for part in saved["partitions"]["divergent"]] == [-45 // 8, 27 // 8]


@pytest.mark.parametrize("pair", pair_params(*QUICK), indirect=True)
def test_saved_results_say_what_a_connected_run_says(pair: LivePair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agrees(pair, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params(*SLOW), indirect=True)
def test_saved_results_of_slow_engines_too(engine: LiveEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agrees(LivePair(engine, engine), tmp_path, capsys)


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
@pytest.mark.parametrize("method", ["counts", "signature"])
def test_every_method_can_be_pasted(engine: LiveEngine, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(engine)
    pair = LivePair(engine, engine)
    wanted = settings(pair, "pasted_random", method=method)
    saved = compared(pasted(pair, wanted, tmp_path), capsys, 1)
    assert [part["partition"] for part in saved["partitions"]["divergent"]] == [-45 // 8, 27 // 8]


@pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)
def test_a_result_cut_short_claims_nothing(engine: LiveEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(engine)
    pair = LivePair(engine, engine)
    files = pasted(pair, settings(pair, "pasted_nato"), tmp_path)
    lines = files["target"].read_text(encoding="utf-8").splitlines()
    assert len(list(csv.reader(lines))) == 5
    files["target"].write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    assert main(["compare", "--source", str(files["source"]), "--target", str(files["target"])]) in (2, 3)
    assert "cut short" in capsys.readouterr().err
