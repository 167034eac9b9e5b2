"""The commands and programs in the documentation are executed, and print what it shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest
import yaml
from cronsim import CronSim

from auditor.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a block, with the lines of output that are shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip() not in ("", "...")]


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables that the documentation speaks of, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for name in ("shop", "dwh"):
        with duckdb.connect(f"{name}.duckdb") as database:
            for table in ("orders", "orders_copy", "customers"):
                database.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, note VARCHAR)")
                database.execute(f"INSERT INTO {table} SELECT i, 'note ' || i FROM range(1, 101) r(i)")
    with duckdb.connect("dwh.duckdb") as database:
        database.execute("UPDATE orders SET note = 'other' WHERE id = 7")
        database.execute("DELETE FROM orders WHERE id = 12")
    sides = {"source": "shop", "target": "dwh"}
    audits = {
        f"shop.{table}": {side: {"connection": name, "table": table} for side, name in sides.items()} for table in ("orders", "customers")
    }
    value = {"connections": {name: {"url": f"duckdb:///{name}.duckdb"} for name in sides.values()}, "audits": audits}
    Path("auditor.yaml").write_text(json.dumps(value), encoding="utf-8")


def fill_as_fivetran() -> None:
    """Let the target's orders be those of the page about conventions: as Fivetran writes them, two of them flagged by mistake."""
    with duckdb.connect("shop.duckdb") as database:
        database.execute("CREATE OR REPLACE TABLE orders (id BIGINT PRIMARY KEY, customerName VARCHAR, opens TIME)")
        database.execute("INSERT INTO orders SELECT i, 'customer ' || i, TIME '09:30:00' FROM range(1, 101) r(i)")
    with duckdb.connect("dwh.duckdb") as database:
        own = "_fivetran_deleted BOOLEAN, _fivetran_synced TIMESTAMPTZ"
        database.execute(f"CREATE OR REPLACE TABLE orders (id BIGINT, customer_name VARCHAR, opens VARCHAR, {own})")
        values = "i, 'customer ' || i, '09:30:00', i > 100 OR i IN (5, 9), TIMESTAMPTZ '2026-03-01 00:00:00+00'"
        database.execute(f"INSERT INTO orders SELECT {values} FROM range(1, 113) r(i)")
        database.execute("UPDATE orders SET customer_name = 'other' WHERE id = 7")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("page", ["one-line.md", "conventions.md"])
def test_commands_print_what_is_shown(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    if page == "conventions.md":
        fill_as_fivetran()
    assert blocks(page, "console")
    for block in blocks(page, "console"):
        for command, shown in commands(block):
            program, *arguments = shlex.split(command, comments=True)
            assert program == "auditor"
            code = main(arguments)
            out, error = capsys.readouterr()
            assert code in (0, 1), (command, error)
            printed = [" ".join(line.split()) for line in out.splitlines()]
            missing = [line for line in shown if not any(" ".join(line.split()) in one for one in printed)]
            assert not missing, (command, out)


@pytest.mark.usefixtures("tables")
def test_programs_run() -> None:
    names: dict[str, object] = {}
    for block in blocks("python.md", "python"):
        exec(compile(block, "python.md", "exec"), names)


# recipes


def stand_in(name: str, **members: object) -> ModuleType:
    """Return a module of a scheduler that is not installed here; its decorators leave functions as they are."""
    module = ModuleType(name)
    vars(module).update(members)
    return module


def decorator(*functions: Any, **_: object) -> Any:
    return functions[0] if functions else lambda function: function


def recipe(name: str, language: str) -> str:
    (text,) = re.findall(rf"## {name}\n.*?(?=\n## |\Z)", (DOCS / "recipes.md").read_text(encoding="utf-8"), re.DOTALL)
    return str(re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0])


@pytest.mark.usefixtures("tables")
def test_commands_of_the_other_recipes_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cron = [line.split(maxsplit=5) for line in recipe("cron", "cron").splitlines() if not line.startswith("#")]
    assert all(CronSim(" ".join(fields[:5]), datetime(2026, 1, 1)) for fields in cron)
    workflow = yaml.safe_load(recipe("GitHub Actions", "yaml"))
    steps = [step["run"] for step in workflow["jobs"]["audit"]["steps"] if "run" in step]
    gate = recipe("A gate before the next step", "sh").replace("--timeout 2h", "--timeout 0")
    lines = [*steps, *recipe("dbt", "sh").splitlines(), *(fields[5] for fields in cron), *gate.splitlines()]
    ran = []
    for command in (part.strip() for line in lines for part in line.split("&&")):
        program, *arguments = shlex.split(command.partition(">>")[0])
        if program != "auditor" or arguments[0] == "init":  # of a manifest, which tests/integrations/test_dbt.py has
            assert program in ("auditor", "cd", "dbt", "pip", "./publish-report")
            continue
        code = main(arguments)
        ran.append((arguments[0], code))
        assert code in (0, 1), capsys.readouterr().err
    assert ran == [("check", 0), ("run", 1), ("differences", 0), ("run", 1), ("run", 0), ("ls", 0), ("notify", 0), ("wait", 1)]
    assert len(Path("differences.csv").read_text(encoding="utf-8").splitlines()) == 3
