"""The commands and programs in the documentation are executed, and print what it shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

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


@pytest.mark.usefixtures("tables")
def test_commands_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("one-line.md", "console"):
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
