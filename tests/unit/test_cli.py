"""The command line: help, exit codes, stdout versus stderr, and JSON output valid against docs/report.schema.json."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from jsonschema import Draft202012Validator

from auditor import cli, service
from auditor.cli import _parser, main
from auditor.errors import UNEXPECTED, AlreadyRunning
from auditor.store import open_store
from dialects import extras

ROOT = Path(__file__).parents[2]
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")))
DRIVERS = ("pymysql", "psycopg2", "redshift_connector", "pyspark", "duckdb", "pydantic", "sqlglot", "numpy", "pyarrow")


def parsers() -> dict[str, argparse.ArgumentParser]:
    (commands,) = (action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two databases and a configuration with one audit per exit code."""
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


def test_every_command_and_option_has_help() -> None:
    assert set(parsers()) >= {"init", "check", "sql", "run", "compare", "demo"}
    for name, parser in parsers().items():
        for action in parser._actions:
            assert action.help, f"{name} {action.option_strings or action.metavar}"


@pytest.mark.parametrize("command", ["", *parsers()])
def test_help_lists_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.parametrize("arguments", [["audit"], ["run", "match", "--format", "xml"], ["compare", "--source", "x"]])
def test_wrong_arguments_exit_with_2_and_print_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("usage: auditor")


@pytest.mark.parametrize("command", ["import auditor", "from auditor.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"])
def test_drivers_are_not_imported_at_startup(command: str) -> None:
    code = f"import sys\n{command}\nprint(sorted(set({DRIVERS}) & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


# run


@pytest.mark.parametrize(("audit", "code"), [("match", 0), ("mismatch", 1), ("wrong", 2), ("unknown", 3)])
def test_run_exit_code_and_json_by_verdict(workdir: Path, capsys: pytest.CaptureFixture[str], audit: str, code: int) -> None:
    assert main(["run", audit, "--format", "json", "--quiet"]) == code
    out, error = capsys.readouterr()
    found = json.loads(out)
    SCHEMA.validate(found)
    assert found["audit"] == audit
    assert found["verdict"] == (audit if audit != "wrong" else "unknown")
    assert (error == "") == (code in (0, 1))


def test_json_of_a_mismatch_locates_the_divergent_partition(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_json_of_every_method_matches_the_schema(workdir: Path, capsys: pytest.CaptureFixture[str], method: str) -> None:
    path = workdir / "auditor.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("minhash", method), encoding="utf-8")
    assert main(["run", "mismatch", "--format", "json", "--quiet"]) == 1
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert found["method"] == method


@pytest.mark.parametrize("wrong", [{"verdict": "equal"}, {"state": "failed"}, {"score": None}, {"rows": {"source": -1, "target": 0}}])
def test_schema_rejects_invalid_reports(workdir: Path, capsys: pytest.CaptureFixture[str], wrong: dict[str, Any]) -> None:
    main(["run", "match", "--format", "json", "--quiet"])
    assert not SCHEMA.is_valid({**json.loads(capsys.readouterr().out), **wrong})


@pytest.mark.quick_for("audits1", "audits2")
@pytest.mark.parametrize(
    ("audits", "code"),
    [(["match", "mismatch"], 1), (["mismatch", "unknown"], 3), (["unknown", "wrong", "match"], 2), (["match", "match"], 0)],
)
def test_several_audits_return_the_worst_exit_code(workdir: Path, capsys: pytest.CaptureFixture[str], audits: list[str], code: int) -> None:
    assert main(["run", *audits, "--format", "json", "--quiet"]) == code
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert [one["audit"] for one in found] == audits


def test_run_without_audits_suggests_due(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert "--due" in capsys.readouterr().err


def test_rejected_audit_does_not_hide_the_results_of_others(
    workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_audit = service.run_audit

    def reject_mismatch(settings: Any, name: str, *arguments: Any, **more: Any) -> Any:
        if name == "mismatch":
            raise AlreadyRunning
        return run_audit(settings, name, *arguments, **more)

    monkeypatch.setattr(service, "run_audit", reject_mismatch)
    assert main(["run", "match", "mismatch", "--quiet"]) == 2
    captured = capsys.readouterr()
    assert "MATCH  match" in captured.out
    assert "already running" in captured.err


def test_unknown_audit_name_runs_nothing(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "match", "mismtach"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert (
        error
        == "auditor: there is no audit 'mismtach'; did you mean 'mismatch' or 'match'? (audits here: match, mismatch, unknown, wrong)\n"
    )


def test_help_is_printed_where_no_command_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2, "which no script takes for a match"
    out, error = capsys.readouterr()
    assert out.startswith("usage: auditor ") and "exit codes:" in out and error == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnu", "orders"], "there is no command 'rnu'; did you mean 'run'"),
        (["pipeline", "stat", "shop"], "auditor pipeline: error: there is no command 'stat'; did you mean 'status'?"),
        (["run", "orders", "--formt", "json"], "auditor run: error: there is no option --formt; did you mean '--format', '--force' or"),
        (["pipeline", "status", "shop", "--tabel=x"], "there is no option --tabel; did you mean '--table'"),
        (["ls", "--zzz"], "there is no option --zzz; see --help"),
    ],
)
def test_the_nearest_commands_and_options_are_named(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and says in capsys.readouterr().err


def test_progress_goes_to_stderr_unless_quiet(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "match", "--quiet"])
    assert capsys.readouterr().err == ""
    main(["run", "match"])
    lines = capsys.readouterr().err.splitlines()
    for side in ("source", "target"):
        for step in ("connecting", "summarising", "done"):
            assert f"match: {side}: {step}" in lines


def test_text_and_markdown_output(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "mismatch", "--quiet", "--verbose"])
    out = capsys.readouterr().out
    assert out.startswith("MISMATCH  mismatch")
    assert "bytes a partition" in out
    assert "keys 16 to 23" in out
    main(["run", "mismatch", "--quiet", "--format", "markdown"])
    out = capsys.readouterr().out
    assert out.startswith("## mismatch: mismatch\n")
    assert "| keys 16 to 23 | 8 | 8 |" in out


def test_interrupt_cancels_all_requested_audits(workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("auditor.planning.build.draft_plan", interrupted)
    assert main(["run", "match", "mismatch", "--quiet", "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    SCHEMA.validate(found)
    assert (found["audit"], found["state"], found["verdict"]) == ("match", "cancelled", "unknown")
    monkeypatch.setattr(service, "run_audit", interrupted)
    assert main(["run", "match"]) == 130
    assert capsys.readouterr().err == "auditor: interrupted\n"


@pytest.mark.quick_for("run mismatch --format json", "crontab")
@pytest.mark.parametrize("command", ["sql match", "crontab", "run match", "run mismatch --format json"])
def test_closed_stdout_is_neither_a_verdict_nor_a_traceback(workdir: Path, command: str) -> None:
    """Whether the pipe is full, or is written to only when the command has ended."""
    open_store(f"sqlite:///{workdir}/auditor.db").close()  # which takes a process of its own a second
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        line = [sys.executable, "-m", "auditor", *command.split()]
        done = subprocess.run(line, cwd=workdir, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("command", parsers())
def test_unexpected_error_of_any_command_is_no_verdict(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with one line and an exit code of its own, and its message, which may quote a row, is only in a private file."""

    def fail(*_: object, **__: object) -> None:
        raise KeyError("4711 is the key of a row")

    monkeypatch.setattr(cli, "parser", lambda: _with_command(_parser.parser(), command, fail))  # one of its own, which is changed
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main([command]) == UNEXPECTED == 4
    (line,) = capsys.readouterr().err.splitlines()
    (kept,) = tmp_path.iterdir()
    assert line.startswith("auditor: unexpected error KeyError at ") and "4711" not in line
    assert f"its traceback is in {kept}, and --debug prints it" in line
    assert "KeyError: '4711 is the key of a row'" in kept.read_text() and kept.stat().st_mode & 0o077 == 0
    assert main(["--debug", command]) == main([command, "--debug"]) == 4
    error = capsys.readouterr().err
    assert error.count("Traceback") == 2 and list(tmp_path.iterdir()) == [kept]


def _with_command(parser: argparse.ArgumentParser, name: str, run: Any) -> argparse.ArgumentParser:
    """The parser, whose command of this name needs no arguments and calls ``run``."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    commands.choices[name] = argparse.ArgumentParser()
    commands.choices[name].set_defaults(command=run)
    return parser


@pytest.mark.parametrize("where", ["auditor.config.load", "auditor.run.audit_run.AuditRun.perform", "auditor.report.json.report"])
def test_unexpected_error_within_a_run_is_no_mismatch(
    workdir: Path, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(where, fail)
    assert main(["run", "match", "mismatch", "--quiet", "--format", "json"]) == 4
    assert capsys.readouterr().err.startswith("auditor: unexpected error ZeroDivisionError at ")


@pytest.mark.quick_for("run no_such_audit")
@pytest.mark.parametrize(("command", "code"), [("run no_such_audit", 2), ("check wrong", 4)])
def test_closed_stderr_never_ends_as_a_mismatch(workdir: Path, command: str, code: int) -> None:
    """Whether the command's error cannot be printed, or what it says of an audit."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        line = [sys.executable, "-m", "auditor", *command.split()]
        assert subprocess.run(line, cwd=workdir, stdout=subprocess.DEVNULL, stderr=pipe, check=False).returncode == code


def test_full_disk_behind_stdout_is_no_verdict(workdir: Path) -> None:
    open_store(f"sqlite:///{workdir}/auditor.db").close()
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", "auditor", "run", "match", "--quiet"]
        done = subprocess.run(line, cwd=workdir, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1) and done.stderr.startswith("auditor: unexpected error OSError at ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_before_anything_is_compared_is_its_own_exit_code(workdir: Path, number: int, code: int) -> None:
    program = "import os, signal, sys, time, auditor.config\nfrom auditor.cli import console_main\nsys.argv = ['auditor', 'run', 'match']\n"
    program += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which a shell's background jobs ignore
    # Another thread may take the signal, and the main one hears of it a moment later.
    interrupted = f"[os.kill(os.getpid(), {int(number)}), *(time.sleep(0.01) for _ in range(3000))]"
    program += f"auditor.config.load = lambda *_: {interrupted}\nconsole_main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=workdir, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "auditor: interrupted\n")


# the other commands


def test_check_reports_all_problems_at_once(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    out, error = capsys.readouterr()
    assert out.splitlines() == [
        "match: can run (method minhash, 2 columns, about 40 rows)",
        "mismatch: can run (method minhash, 2 columns, about 40 rows)",
        "unknown: can run (method minhash, 2 columns, about 0 rows)",
        "3 of 4 audits can run",
    ]
    (line,) = error.splitlines()  # the table is missing on both sides, and either may be reported first
    assert line.removeprefix("auditor: wrong: ")[6:] == ": there is no table absent, or this user may not see it"
    assert main(["check", "match", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["audit"], found["error"], [c["kind"] for c in found["plan"]["columns"]]) == ("match", None, ["integer", "text"])


def test_plan_says_whether_a_run_begins_with_a_prescan(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured = json.loads((workdir / "auditor.yaml").read_text(encoding="utf-8"))
    audits = configured["audits"]
    audits["match"]["method"] = audits["mismatch"]["method"] = "exact"
    audits["mismatch"]["prescan"] = True
    (workdir / "auditor.yaml").write_text(json.dumps(configured), encoding="utf-8")
    assert main(["check", "match", "mismatch", "unknown", "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if "pre-scan" in line] == [
        "pre-scan: no, because about 40 rows are read at once",
        "pre-scan: yes, because the audit says so",
        "pre-scan: no, because the method minhash compares more than signatures",
    ]
    assert main(["run", "mismatch", "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["plan"]["prescan"], report["plan"]["prescan_why"]) == (True, "the audit says so")
    assert "pre-scan: 1 of 5 parts of the table differs, and was read in full" in report["notes"]


def test_plan_without_its_store_leaves_the_prescan_open(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured = json.loads((workdir / "auditor.yaml").read_text(encoding="utf-8"))
    store = {"store": {"url": f"sqlite:///{workdir}/absent/store.db"}}
    (workdir / "auditor.yaml").write_text(json.dumps({**configured, **store}), encoding="utf-8")
    assert main(["plan", "match"]) == 3
    out, error = capsys.readouterr()
    assert "pre-scan: decided by the last runs when the audit runs" in out
    assert error.startswith("auditor: store: ")


def test_check_shows_types_without_interpreting_markup(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("source", "target"):
        with duckdb.connect(str(workdir / f"{side}.duckdb")) as connection:
            connection.execute("ALTER TABLE same ADD COLUMN mood ENUM('[b]', '[/i]')")
    assert main(["check", "match", "-v"]) == 0
    assert "ENUM('[b]', '[/i]')" in capsys.readouterr().out


def test_check_warns_of_brokers_that_are_not_verified(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = workdir / "auditor.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), "brokers": {"events": {"servers": "kafka.example:9092"}}}))
    assert main(["check", "match"]) == 0
    warning = "auditor: warning: brokers.events.properties: its brokers are not verified, so that anybody between could read along"
    assert warning in capsys.readouterr().err


def test_sql_prints_statements_for_the_selected_side_and_method(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "match"]) == 0
    both = capsys.readouterr().out
    assert main(["sql", "match", "--side", "target", "--method", "signature"]) == 0
    one = capsys.readouterr().out
    assert both.count("-- auditor: audit match") == 2
    assert one.count("-- auditor: audit match, target") == 1
    assert "minhash_0" in both
    assert "minhash_0" not in one


def test_missing_configuration_suggests_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    assert main(["run", "match"]) == 2
    assert capsys.readouterr().err == "auditor: configuration file auditor.yaml does not exist; create one with: auditor init\n"


@pytest.mark.parametrize("missing", [["uvicorn"], ["fastapi", "python_multipart"]])
def test_serve_says_which_packages_are_missing(
    missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    assert main(["serve"]) == 2
    names = " and ".join(missing)
    message = f"the service needs {names}, which this Python does not have; run: {extras.install_command('service')}"
    assert capsys.readouterr().err == f"auditor: {message}\n"
