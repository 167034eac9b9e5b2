"""What is loaded at the borders of packages: behind them modules import what they need at their top, without making starts slower.

A library that is loaded in more places than here makes each start of these slower, and is imported by a function, with the reason beside
it; one that is loaded in fewer places no longer has to be.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import duckdb
import pytest

from auditor.store import open_store

ROOT = Path(__file__).parents[2]

LIBRARIES = (
    "alembic", "apprise", "boto3", "cryptography", "dialects", "duckdb", "fastapi", "flint", "jinja2", "numpy", "opentelemetry",
    "prometheus_client",
    "psycopg2", "pyarrow", "pydantic", "pymysql", "pyspark", "redshift_connector", "rich", "sqlalchemy", "sqlglot", "uvicorn", "yaml",
)  # fmt: skip
"""Those that take long to load; with the dialects, which every error of the tree brings."""

CHAINS = (
    # without a store
    {
        "auditor": "",
        "auditor.cli": "",
        "auditor.cli._output": "",
        "auditor.cli._completion": "",
        "auditor.cli._segments": "",
        "auditor.client": "dialects pydantic",
        "auditor.cli._remote": "",
        "auditor.cli._listing": "",
        "auditor.cli._audits": "yaml",
        "auditor.cli._run": "",
        "auditor.cli._pipeline": "",
        "auditor.service": "",
        "auditor.service.running": "",
        "auditor.cli._diff": "",
        "auditor.cli._init": "",
        "auditor.cli._engines": "numpy",
        "auditor.bootstrap.tasks": "",  # what an executor does of a copy
    },
    # with one: commands, then the workers of the service, then pipelines and the processes that they consist of
    {
        "auditor.store": "dialects sqlalchemy",
        "auditor.cli._runs": "pydantic",
        "auditor.cli._serving": "yaml",
        "auditor.service.stored_runs": "numpy",
        "auditor.cli._patch": "",
        "auditor.cli._bootstrap": "",
        "auditor.service.workers": "cryptography rich",
        "auditor.cli._drill": "",
        "auditor.cli._bisect": "",
        "auditor.cli._trace": "pyarrow",
        "auditor.cli._wait": "",
        "auditor.cli._incidents": "",
        "auditor.pipeline.run": "",
        "auditor.pipeline.target_process": "",
        "auditor.pipeline.segments.process": "",
        "auditor.pipeline.source": "pyspark",
    },
    # a task that stages
    {"auditor.pipeline.stage_task": "dialects numpy pyarrow pydantic yaml"},
    {"auditor.cli._evidence": "cryptography dialects pydantic sqlalchemy"},
)
"""Modules in the order in which one process imports them, with the libraries that each brings that those before it did not."""

SETTINGS = "annotated_types cronsim pydantic pydantic_core typing_extensions typing_inspection yaml"
STORE = "sqlalchemy tenacity"
ROWS = "duckdb numpy pyarrow"
SQL_OF_USERS = "mypy_extensions sqlglot"
RUNS = {
    "--version": "",
    "--help": "",
    "ls": f"rich {SETTINGS} {STORE}",
    "check t": f"rich {SETTINGS} {STORE} duckdb",
    "diff duckdb:///here.duckdb t duckdb:///there.duckdb t -k id --quiet": f"rich {SETTINGS} {ROWS}",
    "run t --no-store --quiet": f"rich {SETTINGS} {ROWS}",
    "run t --quiet": f"rich {SETTINGS} {STORE} {ROWS}",
    "run filtered --quiet": f"rich {SETTINGS} {STORE} {ROWS}",
    "run by_side --quiet": f"rich {SETTINGS} {STORE} {ROWS} {SQL_OF_USERS}",
}
"""All packages of others that whole commands load, on two DuckDB files and with a store that is there already."""

CONFIG = """
connections: {{here: {{url: 'duckdb:///{0}/here.duckdb'}}, there: {{url: 'duckdb:///{0}/there.duckdb'}}}}
store: {{url: 'sqlite:///{0}/auditor.db'}}
audits:
  t: {{source: {{connection: here, table: t}}, target: {{connection: there, table: t}}, key: [id]}}
  filtered: {{source: {{connection: here, table: t}}, target: {{connection: there, table: t}}, key: [id], where: id > 10}}
  by_side:
    source: {{connection: here, table: t}}
    target: {{connection: there, table: t}}
    key: [id]
    where: {{source: id > 10, target: id > 10}}
"""


def _loaded(code: str, folder: Path = ROOT) -> list[str]:
    """Run a program that may call ``tell``, and return the libraries that it had loaded at each call, and at its end."""
    tell = f"def tell(): print('loaded', *sorted({set(LIBRARIES)} & set(sys.modules)))"
    script = f"import atexit, sys\n{tell}\natexit.register(tell)\n{code}"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return [line.removeprefix("loaded").strip() for line in done.stdout.splitlines() if line.startswith("loaded")]


@pytest.mark.quick_for("auditor", "auditor.store")
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: next(iter(chain)))
def test_what_borders_load(chain: Mapping[str, str]) -> None:
    seen = _loaded("\n".join(f"import {module}; tell()" for module in chain))
    expected: list[str] = []
    for libraries in chain.values():
        expected.append(" ".join(sorted({*(expected or [""])[-1].split(), *libraries.split()})))
    assert dict(zip(chain, seen, strict=False)) == dict(zip(chain, expected, strict=True))


OF_SOME_AUDITS = (
    "auditor.api_models.audit", "auditor.api_models.run", "auditor.history.audit_status", "auditor.history.rolling_table",
    "auditor.report.listing", "auditor.run.distributions", "auditor.run.file_summaries", "auditor.run.live", "auditor.run.recheck",
    "auditor.run.row_history", "auditor.service.table_pairs",
)  # fmt: skip
"""Modules of our own that a run loads only where its audit, or what it found, needs them."""

PACKAGES = """
import sys
from auditor.cli import main
try:
    code = main({!r}.split())
except SystemExit as ended:
    code = ended.code
files = {{name.partition(".")[0]: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}}
print()
print("own", *sorted(name for name in sys.modules if name.startswith("auditor.")))
print(code, *sorted(name for name, file in files.items() if "site-packages" in file and not name.startswith("_") and "__" not in name))
"""
"""Runs a command, and prints on its last line its exit code, and the packages of others that it loaded; before it our own modules."""


@pytest.mark.quick_for(*RUNS)
@pytest.mark.parametrize("command", RUNS)
def test_what_a_command_loads(command: str, tmp_path: Path) -> None:
    for name in ("here", "there"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as connection:
            connection.execute("CREATE TABLE t AS SELECT i AS id, 'v' AS v FROM range(100) r(i)")
    (tmp_path / "auditor.yaml").write_text(CONFIG.format(tmp_path))
    open_store(f"sqlite:///{tmp_path}/auditor.db").close()
    done = subprocess.run([sys.executable, "-c", PACKAGES.format(command)], cwd=tmp_path, capture_output=True, text=True, check=True)
    *_, own, others = done.stdout.splitlines()
    assert others.split() == ["0", *sorted(RUNS[command].split())], done.stderr
    if command.startswith(("diff", "run")):
        assert "auditor.run.audit_run" in own.split()
        assert [name for name in own.split() if name in OF_SOME_AUDITS] == []


def test_each_command_of_the_table_is_there() -> None:
    table = ast.parse((ROOT / "auditor" / "cli" / "_parser.py").read_text())
    calls = [one for one in ast.walk(table) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "_lazy"]
    named = [tuple(getattr(argument, "value", None) for argument in one.args) for one in calls]
    assert {f"auditor.cli.{module}" for module, _ in named} <= {module for chain in CHAINS for module in chain}
    assert [one for one in named if one[1] and not hasattr(import_module(f"auditor.cli.{one[0]}"), one[1])] == []


def test_each_command_with_a_server_has_its_function_there() -> None:
    """`_lazy` calls the function of the same name in `_remote` where --server is given."""
    from auditor.cli import _parser, _remote

    def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for one in action.choices.values():
                    yield from commands(one)

    remote = [one for one in commands(_parser.parser()) if "--server" in one._option_string_actions]
    assert remote
    for one in remote:
        call = one.get_default("command")
        name = inspect.getclosurevars(call).nonlocals["name"]
        assert callable(getattr(_remote, name)), one.prog
