"""JUnit XML of runs and days: read as CI servers read it, by the elements and attributes that the common schema has."""

from __future__ import annotations

import datetime as dt
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from auditor.cli import main
from auditor.errors import AlreadyRunning
from auditor.model import SIDES, State, Verdict
from auditor.report import junit, render
from tests.unit.test_report_run import full_report

SCHEMA = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "time", "skipped", "timestamp"}, {"testcase"}),
    "testcase": ({"name", "time", "classname"}, {"skipped", "error", "failure", "system-out"}),
    "skipped": ({"type", "message"}, set[str]()),
    "error": ({"type", "message"}, set[str]()),
    "failure": ({"type", "message"}, set[str]()),
    "system-out": (set[str](), set[str]()),
}
"""By element of junit-10.xsd, the attributes that it may have and the elements that it may hold."""


def read(text: str) -> dict[str, tuple[str, str]]:
    """Return of each audit the outcome and its message; a document that the schema forbids is refused."""
    root = ET.fromstring(text)

    def check(element: ET.Element) -> None:
        attributes, children = SCHEMA[element.tag]
        assert set(element.attrib) <= attributes, (element.tag, element.attrib)
        for child in element:
            assert child.tag in children, (element.tag, child.tag)
            check(child)

    check(root)
    (suite,) = root
    cases = {case.attrib["name"]: next((one for one in case if one.tag != "system-out"), None) for case in suite}
    for what, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert suite.attrib[what] == str(sum(one is not None and one.tag == tag for one in cases.values()))
    assert suite.attrib["tests"] == str(len(cases)) and all(float(case.attrib["time"]) >= 0 for case in suite)
    return {name: ("passed", "") if one is None else (one.tag, one.attrib["message"]) for name, one in cases.items()}


def test_verdicts_are_outcomes() -> None:
    known = full_report()
    reports = [
        replace(known, audit="equal", verdict=Verdict.MATCH, state=State.DONE),
        replace(known, audit="differs", verdict=Verdict.MISMATCH, state=State.DONE),
        replace(known, audit="unclear", verdict=Verdict.UNKNOWN, state=State.DONE),
        replace(known, audit="failed", verdict=Verdict.UNKNOWN, state=State.FAILED),
        replace(known, audit="stopped", verdict=Verdict.UNKNOWN, state=State.CANCELLED),
    ]
    text = junit.runs(reports, {"busy": AlreadyRunning("audit busy is already running")})
    found = read(text)
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        "equal": "passed", "differs": "failure", "unclear": "error", "failed": "error", "stopped": "error", "busy": "error",
    }  # fmt: skip
    assert "rows differ: " in found["differs"][1] and found["busy"][1] == "audit busy is already running"
    assert [one.attrib["type"] for one in ET.fromstring(text).iter("error")] == ["unknown", "failed", "cancelled", "AlreadyRunning"]


def test_names_and_values_of_any_characters_are_well_formed() -> None:
    report = replace(full_report("<&\"'\x00\x1b]]>\u2028"), state=State.DONE)
    assert len(read(junit.runs([report]))) == 1
    assert read(render.run(report, None, "junit")) == read(junit.runs([report]))


def test_commands_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUDITOR_CONFIG", raising=False)
    for side in SIDES:
        with duckdb.connect(f"{side}.duckdb") as database:
            for name in ("equal", "differs", "empty"):
                rows = 0 if name == "empty" else 20 - (name == "differs" and side == "target")
                database.execute(f"CREATE TABLE {name} AS SELECT i::BIGINT AS id FROM range({rows}) r(i)")
    audits = {
        name: {side: {"connection": side, "table": name} for side in SIDES} | {"key": ["id"]} for name in ("equal", "differs", "empty")
    }
    audits["waits"] = audits["equal"]
    value = {"connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in SIDES}, "audits": audits}
    Path("auditor.yaml").write_text(json.dumps(value))
    expected = {"equal": "passed", "differs": "failure", "empty": "error"}
    assert main(["run", *expected, "-q", "--format", "junit", "-j", "2"]) == 3
    assert {name: outcome for name, (outcome, _) in read(capsys.readouterr().out).items()} == expected
    assert main(["report", "--format", "junit", "--output", "day.xml", "-q"]) == 0
    found = read(Path("day.xml").read_text())
    assert {name: outcome for name, (outcome, _) in found.items()} == {**expected, "waits": "skipped"}
    assert main(["report", "--run", "differs", "--format", "junit"]) == 0
    assert read(capsys.readouterr().out) == {"differs": ("failure", "1 of 20 rows differs: 1 missing")}
    assert f"{dt.datetime.now(dt.UTC):%Y-}" in Path("day.xml").read_text()
