"""``auditor demo`` ends with the report, the files that it wrote, and commands that work as they stand."""

from __future__ import annotations

import shlex
from pathlib import Path

import duckdb
import pytest

from auditor.cli import main
from auditor.config import validate_settings
from auditor.demo import show

ENDS = {"source": {"connection": "source", "table": "t"}, "target": {"connection": "target", "table": "t"}}


def run_all(commands: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run commands as they are printed, which exit with 0 or 1, and return what each prints."""
    printed = []
    for command in commands:
        words = shlex.split(command, comments=True)
        first = next(index for index, word in enumerate(words) if word in ("run", "differences", "report"))
        assert "auditor" in words[first - 1]
        assert main(words[first:]) in (0, 1)
        printed.append(capsys.readouterr().out)
    return printed


def test_commands_to_try_next_work_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for side in ENDS:
        with duckdb.connect(f"{side}.duckdb") as database:
            database.execute(f"CREATE TABLE t AS SELECT i AS id, '{side}' AS v FROM range(3) r(i)")
    urls = {side: {"url": f"duckdb:///{side}.duckdb"} for side in ENDS}
    settings = validate_settings({"connections": urls, "audits": {"flights": {**ENDS, "key": ["id"]}}})
    files = show.write_files(settings, "flights", Path())
    assert [file.name for file in files] == ["source.sql", "target.sql", "auditor.yaml"]
    assert "SELECT" in files[0].read_text(encoding="utf-8")
    run, _, _ = run_all(show.commands("flights", files[-1]), capsys)
    assert "MISMATCH  flights" in run
    assert len(Path("differences.csv").read_text(encoding="utf-8").splitlines()) == 4
    assert "flights" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_demonstration_ends_with_the_report_and_these_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--rows", "12000", "-q"]) == 1
    out = capsys.readouterr().out
    assert out.index("Faults in the target") < out.index("MISMATCH  flights") < out.index("  wrote demo-data/source.sql,")
    assert "SELECT" not in out
    assert "MISMATCH  flights" in run_all(out.splitlines()[-3:], capsys)[0]


def test_passwords_are_written_as_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.service.sql", lambda *_: {})
    urls = {"source": {"url": "mysql://u:s3cret@h/d"}, "target": {"url": "postgresql://u@h/d"}}
    (path,) = show.write_files(validate_settings({"connections": urls, "audits": {"flights": ENDS}}), "flights", tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "mysql://u:${SOURCE_PASSWORD}@h/d" in text
    assert "Set SOURCE_PASSWORD first." in text
    assert "s3cret" not in text
