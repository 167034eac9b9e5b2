"""Every command that prints an outcome has --json, and every one that prints progress or remarks has --quiet; the rest say why not."""

from __future__ import annotations

import ast
import datetime as dt
import json
from pathlib import Path

import pytest

from auditor.api_models.pipeline import StoppedTable
from auditor.cli import main, parser
from auditor.pipeline.dump import Dumped
from auditor.service.failovers import FailedOver
from scripts import command_reference
from tests import documents

WITHOUT_JSON = {
    "init": "writes a file, and prints nothing",
    "schema": "prints SQL",
    "sql": "prints SQL",
    "notify": "sends messages, and prints failures alone",
    "store": "prints one number, of what is gone",
    "bootstrap": "prints its steps while it works; GET /api/v1/bootstraps has the outcome",
    "serve": "runs until a signal, and logs",
    "token create": "prints the secret alone",
    "token revoke": "prints nothing but a remark",
    "pause": "prints nothing",
    "unpause": "prints nothing",
    "crontab": "prints files of other programs",
    "pipeline init": "writes into a file, whose audits it names",
    "pipeline run": "runs until a signal, and logs",
    "pipeline pause": "prints that it was done",
    "pipeline unpause": "prints that it was done",
    "pipeline reset": "asks a person",
    "pipeline events": "prints lines of JSON",
    "pipeline demo": "shows something to a person",
    "heartbeat run": "runs until a signal, and logs",
    "segments reset": "prints that it was done",
    "completion": "prints a script",
    "evidence": "prints evidence, which is JSON",
}
"""Commands without --json, and why."""

WITH_QUIET = {
    "init", "selftest", "certify", "diff", "run", "resume", "show", "differences", "report", "patch", "bootstrap", "demo", "token revoke",
    "evidence", "pipeline init", "pipeline refresh", "pipeline segments",
    "pipeline events", "trace", "wait",
}  # fmt: skip
"""Commands that print to standard error while nothing is wrong."""

ASKED_BEFORE = {"_signals.py", "__init__.py", "_output.py", "_progress.py"}
"""Modules that print to standard error because of a signal, an error, or what their caller has asked of --quiet."""


COMMANDS = {name.removeprefix("auditor "): command for name, command, _ in command_reference.commands(parser(), "auditor")}


def test_every_command_has_json_or_a_reason() -> None:
    without = {name for name, command in COMMANDS.items() if "--json" not in command._option_string_actions}
    assert without == set(WITHOUT_JSON)


def test_commands_that_print_remarks_can_be_quiet() -> None:
    assert {name for name, command in COMMANDS.items() if "--quiet" in command._option_string_actions} == WITH_QUIET
    for name in WITH_QUIET:
        assert "-q" in COMMANDS[name]._option_string_actions


@pytest.mark.parametrize("path", sorted((documents.ROOT / "auditor" / "cli").glob("*.py")), ids=lambda path: path.stem)
def test_what_is_printed_to_standard_error_is_a_failure_or_can_be_silenced(path: Path) -> None:
    """So that a new remark is not forgotten: each such print begins with `auditor: `, or stands in a block that asks for --quiet."""
    if path.name in ASKED_BEFORE:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and "file=sys.stderr" in ast.unparse(call) and ast.unparse(call.func) == "print":
            around: list[str] = []
            text = ast.unparse(call.args[0])[:60]
            node: ast.AST = call
            while node in above and not isinstance(node, ast.FunctionDef):
                node = above[node]
                if isinstance(node, ast.If):
                    around.append(ast.unparse(node.test))
                elif isinstance(node, ast.ExceptHandler) and node.type:
                    around.append(ast.unparse(node.type))
            assert "auditor: " in text or any("quiet" in one or "Error" in one for one in around), f"{path.name}:{call.lineno}"


def test_answers_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    audit = "{source: {connection: d, table: a}, target: {connection: d, table: b}}"
    Path("auditor.yaml").write_text(
        f"connections: {{d: {{url: 'duckdb:///:memory:'}}}}\naudits: {{a: {audit}}}\nstore: {{url: 'sqlite:///s.db'}}\n"
    )
    assert main(["run", "a", "-q"]) != 0
    capsys.readouterr()
    assert main(["token", "create", "--name", "ops", "--scope", "read", "--expires", "1d"]) == 0
    secret = capsys.readouterr().out.strip()
    assert main(["token", "list", "--json"]) == 0
    [token] = json.loads(printed := capsys.readouterr().out)
    assert (token["name"], token["scope"], token["revoked"]) == ("ops", "read", None) and secret not in printed
    assert dt.datetime.fromisoformat(token["expires"]) - dt.datetime.fromisoformat(token["created_at"]) <= dt.timedelta(days=1)
    assert main(["runs", "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)
    assert main(["cancel", run["run"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == run["run"]
    assert main(["prune", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": 0, "events": 0, "tokens": 0, "bytes": 0}
    for command in (["token", "revoke", "ops", "-q"], ["report", "--output", "day.txt", "-q"], ["init", "--output", "new.yaml", "-q"]):
        assert main(command) == 0 and capsys.readouterr() == ("", "")


STOP = StoppedTable(
    table="shop.orders", place="log.1:4:0", through="log.1:4", events=3, time=dt.datetime(2026, 11, 1, tzinfo=dt.UTC), stage="merge",
    target="wh", reason="too long", skipped_by="ada", skipped_at=dt.datetime(2026, 11, 2, tzinfo=dt.UTC), skip_reason="why",
)  # fmt: skip
ANSWERS: dict[str, tuple[str, object, list[str], int, object]] = {
    "dump": (
        "dumps.dump",
        (Path("/dumps/1"), Dumped(20, 2, dt.datetime(2026, 11, 1, tzinfo=dt.UTC), "", "the server keeps no binary log", 1, 9_000_000)),
        ["dump", "a", "--json"],
        0,
        {
            "folder": "/dumps/1", "rows": 20, "files": 2, "as_of": "2026-11-01T00:00:00+00:00", "position": "",
            "why_unknown": "the server keeps no binary log", "connections": 1, "memory": 9_000_000,
        },
    ),
    "skip": (
        "pipelines.skip",
        [STOP],
        ["pipeline", "skip", "p", "--table", "shop.orders", "--position", "log.1:4", "--reason", "why", "--json"],
        0,
        [
            {
                "table": "shop.orders", "place": "log.1:4:0", "through": "log.1:4", "events": 3, "time": "2026-11-01T00:00:00Z",
                "stage": "merge", "target": "wh", "reason": "too long", "skipped_by": "ada", "skipped_at": "2026-11-02T00:00:00Z",
                "skip_reason": "why",
            }
        ],
    ),
    "failover": (
        "failovers.fail_over",
        FailedOver("log.2:8", "1-1-7", (), ""),
        ["pipeline", "failover", "p", "--to", "d", "--json"],
        0,
        {"place": "log.2:8", "behind": "1-1-7", "gaps": [], "mend": "", "to": "d", "changed": False},
    ),
    "failover with gaps": (
        "failovers.fail_over",
        FailedOver("log.2:8", "", ("rows may be missing",), "auditor pipeline refresh p"),
        ["pipeline", "failover", "p", "--to", "d", "--accept-gap", "--apply", "--json"],
        1,
        {
            "place": "log.2:8", "behind": "", "gaps": ["rows may be missing"], "mend": "auditor pipeline refresh p", "to": "d",
            "changed": True,
        },
    ),
}  # fmt: skip
"""What a command answers to programs, by what its service found, and its exit code."""


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_service_found_is_told_to_programs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("auditor.yaml").write_text("connections: {d: {url: 'duckdb:///:memory:'}}\naudits: {}\nstore: {url: 'sqlite:///s.db'}\n")
    serving, found, command, code, answer = ANSWERS[name]
    monkeypatch.setattr(f"auditor.service.{serving}", lambda *_, **__: found)
    assert main(command) == code
    assert json.loads(capsys.readouterr().out) == answer
