"""The command line: help, exit codes, what goes to which stream, and the JSON that docs/report.schema.json promises."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from jsonschema import Draft202012Validator

from auditor import cli, service
from auditor.cli import main
from auditor.errors import AlreadyRunning

ROOT = Path(__file__).parent.parent
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")))
DRIVERS = ("pymysql", "psycopg2", "redshift_connector", "pyspark", "duckdb", "pydantic", "sqlglot", "numpy", "pyarrow")


def parsers() -> dict[str, argparse.ArgumentParser]:
    (commands,) = (action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two databases and a configuration whose audits end in each possible way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for side, changed in (("source", "v || ''"), ("target", "CASE WHEN id = 20 THEN 'changed' ELSE v END")):
        with duckdb.connect(str(tmp_path / f"{side}.duckdb")) as connection:
            rows = "(SELECT CAST(i AS BIGINT) AS id, 'v' || i AS v FROM range(40) t(i))"
            connection.execute("CREATE TABLE same (id BIGINT PRIMARY KEY, v VARCHAR)")
            connection.execute("CREATE TABLE other (id BIGINT PRIMARY KEY, v VARCHAR)")
            connection.execute("CREATE TABLE nothing (id BIGINT PRIMARY KEY, v VARCHAR)")
            connection.execute(f"INSERT INTO same SELECT * FROM {rows}")
            connection.execute(f"INSERT INTO other SELECT id, {changed} FROM {rows}")

    def audit(table: str) -> dict[str, Any]:
        ends = {side: {"connection": side, "table": table} for side in ("source", "target")}
        return {"method": "minhash", "partition": {"strategy": "range", "size": 8}, **ends}

    audits = {"match": audit("same"), "mismatch": audit("other"), "unknown": audit("nothing"), "wrong": audit("absent")}
    connections = {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in ("source", "target")}
    (tmp_path / "auditor.yaml").write_text(json.dumps({"connections": connections, "audits": audits}), encoding="utf-8")
    return tmp_path


# help


def test_every_command_and_option_says_what_it_is_for() -> None:
    assert set(parsers()) >= {"init", "check", "sql", "run", "compare", "demo"}
    for name, parser in parsers().items():
        for action in parser._actions:
            assert action.help, f"{name} {action.option_strings or action.metavar}"


@pytest.mark.parametrize("command", ["", *parsers()])
def test_help_names_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*([command] if command else []), "--help"])
    assert caught.value.code == 0
    out, error = capsys.readouterr()
    assert error == ""
    parser = parsers()[command] if command else cli.parser()
    for action in parser._actions:
        for option in action.option_strings:
            assert option in out
    assert "exit codes:" in out or command


@pytest.mark.parametrize("arguments", [[], ["audit"], ["run", "match", "--format", "xml"], ["compare", "--source", "x"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("usage: auditor")


@pytest.mark.parametrize("command", ["import auditor", "from auditor.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"])
def test_nothing_heavy_is_imported_before_it_is_needed(command: str) -> None:
    code = f"import sys\n{command}\nprint(sorted(set({DRIVERS}) & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


# run


@pytest.mark.parametrize(("audit", "code"), [("match", 0), ("mismatch", 1), ("wrong", 2), ("unknown", 3)])
def test_the_exit_code_and_json_of_a_run(here: Path, capsys: pytest.CaptureFixture[str], audit: str, code: int) -> None:
    assert main(["run", audit, "--format", "json", "--quiet"]) == code
    out, error = capsys.readouterr()
    found = json.loads(out)
    SCHEMA.validate(found)
    assert found["audit"] == audit
    assert found["verdict"] == (audit if audit != "wrong" else "unknown")
    assert (error == "") == (code in (0, 1))


def test_the_json_of_a_mismatch(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "mismatch", "--format", "json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == {"source": 40, "target": 40}
    assert {name: found["partitions"][name] for name in ("total", "equal", "unequal", "skipped")} == {
        "total": 5, "equal": 4, "unequal": 1, "skipped": 0,
    }  # fmt: skip
    (one,) = found["partitions"]["divergent"]
    assert (one["partition"], one["key_range"], one["rows"]) == (2, [16, 23], {"source": 8, "target": 8})
    score = found["score"]["published"]
    assert score["lower"] <= score["value"] < 1
    assert found["cost"]["source"]["statements"] > 0


@pytest.mark.parametrize("method", cli.METHODS)
def test_the_json_of_every_method(here: Path, capsys: pytest.CaptureFixture[str], method: str) -> None:
    path = here / "auditor.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("minhash", method), encoding="utf-8")
    assert main(["run", "mismatch", "--format", "json", "--quiet"]) == 1
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert found["method"] == method


@pytest.mark.parametrize("wrong", [{"verdict": "equal"}, {"state": "failed"}, {"score": None}, {"rows": {"source": -1, "target": 0}}])
def test_the_schema_refuses_what_is_no_report(here: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any]) -> None:
    main(["run", "match", "--format", "json", "--quiet"])
    assert not SCHEMA.is_valid({**json.loads(capsys.readouterr().out), **wrong})


@pytest.mark.parametrize(
    ("audits", "code"),
    [(["match", "mismatch"], 1), (["mismatch", "unknown"], 3), (["unknown", "wrong", "match"], 2), (["match", "match"], 0)],
)
def test_several_audits(here: Path, capsys: pytest.CaptureFixture[str], audits: list[str], code: int) -> None:
    assert main(["run", *audits, "--format", "json", "--quiet"]) == code
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert [one["audit"] for one in found] == audits


def test_a_run_of_nothing_says_what_to_write(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert "--due" in capsys.readouterr().err


def test_an_audit_that_is_refused_keeps_no_other_from_being_told(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = service.run_audit

    def refused(settings: Any, name: str, *arguments: Any, **more: Any) -> Any:
        if name == "mismatch":
            raise AlreadyRunning
        return ran(settings, name, *arguments, **more)

    monkeypatch.setattr(service, "run_audit", refused)
    assert main(["run", "match", "mismatch", "--quiet"]) == 2
    told = capsys.readouterr()
    assert "MATCH  match" in told.out
    assert "being run already" in told.err


def test_an_unknown_audit_runs_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "match", "mismtach"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error == "auditor: there is no audit 'mismtach'; did you mean 'mismatch'? (audits here: match, mismatch, unknown, wrong)\n"


def test_quiet_and_plain_progress(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "match", "--quiet"])
    assert capsys.readouterr().err == ""
    main(["run", "match"])
    lines = capsys.readouterr().err.splitlines()
    for side in ("source", "target"):
        for step in ("connecting", "summarising", "done"):
            assert f"match: {side}: {step}" in lines


def test_text_and_markdown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "mismatch", "--quiet", "--verbose"])
    out = capsys.readouterr().out
    assert out.startswith("MISMATCH  mismatch")
    assert "bytes a partition" in out
    assert "keys 16 to 23" in out
    main(["run", "mismatch", "--quiet", "--format", "markdown"])
    out = capsys.readouterr().out
    assert out.startswith("## mismatch: mismatch\n")
    assert "| keys 16 to 23 | 8 | 8 |" in out


def test_an_interrupt_ends_all_that_was_asked(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("auditor.survey.planned", interrupted)
    assert main(["run", "match", "mismatch", "--quiet", "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert (found["audit"], found["state"], found["verdict"]) == ("match", "cancelled", "unknown")
    monkeypatch.setattr(service, "run_audit", interrupted)
    assert main(["run", "match"]) == 3
    assert capsys.readouterr().err == "auditor: interrupted\n"


def test_a_reader_that_went_away(here: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m auditor sql match | head -1", shell=True, cwd=here, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("-- auditor: audit match, source")
    assert "Traceback" not in done.stderr


# the other commands


def test_check_tells_every_problem_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    out, error = capsys.readouterr()
    assert "range of 8 keys" in out
    assert "BIGINT" in out
    (line,) = error.splitlines()  # both sides lack it, and either may say so first
    assert line.removeprefix("auditor: wrong: ")[6:] == ": there is no table absent, or this user may not see it"
    assert main(["check", "match", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["audit"], found["error"], [c["kind"] for c in found["plan"]["columns"]]) == ("match", None, ["integer", "text"])


def test_check_shows_types_as_they_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("source", "target"):
        with duckdb.connect(str(here / f"{side}.duckdb")) as connection:
            connection.execute("ALTER TABLE same ADD COLUMN mood ENUM('[b]', '[/i]')")
    assert main(["check", "match"]) == 0
    assert "ENUM('[b]', '[/i]')" in capsys.readouterr().out


def test_sql(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "match"]) == 0
    both = capsys.readouterr().out
    assert main(["sql", "match", "--side", "target", "--method", "signature", "--console"]) == 0
    one = capsys.readouterr().out
    assert both.count("-- auditor: audit match") == 2
    assert one.count("-- auditor: audit match, target") == 1
    assert "minhash_0" in both
    assert "minhash_0" not in one


def test_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    assert main(["run", "match"]) == 2
    assert capsys.readouterr().err == "auditor: there is no auditor.yaml; write one with: auditor init\n"
