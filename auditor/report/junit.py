"""Runs and days as JUnit XML, which CI servers show beside tests: each audit is a test case.

A match passes, a mismatch is a failure, and what has no verdict is an error: a CI server must not show it as passed. An audit that never
ran is skipped. The elements are those of https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/
xunit/types/model/xsd/junit-10.xsd, which all readers of JUnit's files know.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from auditor.errors import AuditorError
from auditor.escaping import visible_lines
from auditor.masking import redact
from auditor.model import Report, State, Status, Verdict
from auditor.report import formatting, text
from auditor.report.console import plain_text
from auditor.report.day import AuditEntry, Day
from auditor.report.sentences import build_sentences

Outcome = Literal["passed", "failure", "error", "skipped"]

OUTCOMES: Mapping[Status, Outcome] = {
    "match": "passed", "within_threshold": "passed", "mismatch": "failure", "unknown": "error", "stale": "error", "running": "skipped",
    "never": "skipped",
}  # fmt: skip
"""What each status of an audit is as a test case; a match that is too old to rely on has not passed."""


@dataclass(frozen=True, slots=True)
class _Case:
    audit: str
    outcome: Outcome
    kind: str
    """The verdict or status."""
    message: str
    """One line."""
    detail: str
    """The report as text."""
    seconds: float


def runs(reports: Sequence[Report], failures: Mapping[str, AuditorError] = {}) -> str:
    """Return the file about runs, and about audits that did not begin, with the reasons."""
    cases = [_case_of_run(report) for report in reports]
    cases += [_Case(audit, "error", type(error).__name__, formatting.sentence(str(error)), "", 0.0) for audit, error in failures.items()]
    began = min((f"{report.began:%Y-%m-%dT%H:%M:%S}" for report in reports if report.began), default="")
    return _write("auditor", cases, began)


def day(day: Day) -> str:
    """Return the file about the audits of a day that are configured."""
    return _write(f"auditor {day.date}", [_case_of_entry(entry) for entry in day.entries if entry.configured], f"{day.date}T00:00:00")


def _case_of_run(report: Report) -> _Case:
    status: Status = report.verdict.value
    sentences = build_sentences(redact(report))
    message = "; ".join(filter(None, (sentences.headline, *(sentences.outcome if report.verdict is not Verdict.MATCH else ()))))
    kind = report.verdict.value if report.state is State.DONE else report.state.value
    return _Case(report.audit, OUTCOMES[status], kind, message, plain_text(text.report(report)), report.seconds)


def _case_of_entry(entry: AuditEntry) -> _Case:
    detail = plain_text(text.report(entry.report)) if entry.report else ""
    seconds = entry.report.seconds if entry.report else 0.0
    outcome = "error" if entry.standing.has_failed and OUTCOMES[entry.status] == "passed" else OUTCOMES[entry.status]
    return _Case(entry.audit, outcome, entry.status, "; ".join(map(formatting.sentence, entry.reasons)), detail, seconds)


def _write(name: str, cases: Sequence[_Case], timestamp: str) -> str:
    counts = {outcome: sum(case.outcome == outcome for case in cases) for outcome in ("failure", "error", "skipped")}
    numbers = {"tests": len(cases), "failures": counts["failure"], "errors": counts["error"]}
    totals = {**{key: str(number) for key, number in numbers.items()}, "time": f"{sum(case.seconds for case in cases):.3f}"}
    root = ET.Element("testsuites", {"name": name, **totals})
    suite = ET.SubElement(root, "testsuite", {"name": name, **totals, "skipped": str(counts["skipped"])})
    if timestamp:
        suite.set("timestamp", timestamp)
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", {"classname": name.partition(" ")[0], "name": _shown(case.audit), "time": f"{case.seconds:.3f}"}
        )
        if case.outcome != "passed":
            ET.SubElement(element, case.outcome, {"type": case.kind, "message": _shown(case.message)}).text = _shown(case.detail)
        elif case.detail:
            ET.SubElement(element, "system-out").text = _shown(case.detail)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _shown(text: str) -> str:
    """Return a text with what XML cannot hold made visible."""
    return visible_lines(text)
