"""A certificate as text for a terminal, as a page in Markdown, and as a cell of the table of versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from auditor.errors import ResultError
from auditor.escaping import markdown_code, markdown_text, visible
from auditor.model.certificate import Certificate, CertifiedCheck, CertifiedOutcome, CertifiedPart

PART_NAMES: dict[CertifiedPart, str] = {
    "selftest": "the self-test",
    "facts": "single facts",
    "types": "audits of every kind, with damage",
    "target": "a pipeline's target",
    "source": "the binary log",
    "scratch": "the schema of this certification",
}
OUTCOMES: tuple[CertifiedOutcome, ...] = ("passed", "failed", "refused", "noted", "not tried")
LONGEST_SQL = 400
"""Characters of a statement that are shown; the file has all of it."""

MOST_NAMES = 5
"""Names of failed checks that a cell shows."""


@dataclass(frozen=True, slots=True)
class VersionCell:
    """What a certificate says of one version of an engine, in the table of versions."""

    outcome: Literal["passed", "refused", "failed", "not tried"]
    """``passed`` where all that was tried passed."""
    names: tuple[str, ...]
    """The checks that failed or were refused; of a cell that is not tried, or passed, the parts that were not tried, and why."""
    stand_in: bool
    """Whether something else answered in the engine's place."""

    def __str__(self) -> str:
        """Return the cell's text."""
        shown = "; ".join(self.names[:MOST_NAMES]) + (f"; and {len(self.names) - MOST_NAMES} more" if len(self.names) > MOST_NAMES else "")
        said = f"{self.outcome}; not tried: {shown}" if self.outcome == "passed" and shown else f"{self.outcome}: {shown}"
        return ("stand-in: " if self.stand_in else "") + (said if shown else self.outcome)


def read(path: Path) -> Certificate:
    """Return the certificate in a file. Raises ResultError if the file has none, or one of another form."""
    try:
        return Certificate.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "it"
        raise ResultError(f"{path} is no certificate of this version of the auditor ({where}: {error.errors()[0]['msg']})") from None


def cell(certificate: Certificate) -> VersionCell:
    """Return what a certificate says in the table of versions."""
    is_stand_in = bool(certificate.stand_in)
    if certificate.refused:
        return VersionCell("refused", (certificate.refused,), is_stand_in)
    for outcome in ("failed", "refused"):
        if checks := certificate.of(outcome):
            return VersionCell(outcome, tuple(f"{check.part}: {check.name}" for check in checks), is_stand_in)
    lacking = tuple(f"{check.part} ({check.detail})" for check in certificate.of("not tried") if check.name == "everything")
    return VersionCell("passed" if certificate.verdict == "certified" else "not tried", lacking, is_stand_in)


def lines(certificate: Certificate) -> Iterator[str]:
    """Yield the certificate as lines of text, the outcome first."""
    yield f"{certificate.verdict.upper()}  {_server(certificate)}"
    if certificate.refused:
        yield f"refused: {certificate.refused}"
    if certificate.stand_in:
        yield f"NOT THE ENGINE ITSELF: {certificate.stand_in}"
    for outcome in ("failed", "refused"):
        for check in certificate.of(outcome):
            yield f"{outcome.upper()}: {check.part}: {check.name}: {check.detail}"
            if check.sql:
                yield f"  SQL: {_sql(check)}"
    yield from (f"  {line}" for line in _counts(certificate))
    for check in certificate.of("not tried"):
        yield f"not tried: {check.part}: {check.name}: {check.detail}"
    for check in certificate.of("noted"):
        yield f"noted: {check.name}: {check.answer or check.detail}"
    yield _cost(certificate)


def text(certificate: Certificate) -> str:
    """Return the certificate as text."""
    return "\n".join(map(visible, lines(certificate))) + "\n"


def markdown(certificate: Certificate) -> str:
    """Return the certificate as a page in Markdown."""
    page_lines = [f"# {_title(certificate)}", "", markdown_text(_server(certificate)) + ".", ""]
    if certificate.refused:
        page_lines += [f"The auditor refuses this server: {markdown_text(certificate.refused)}", ""]
    if certificate.stand_in:
        page_lines += [f"**Not the engine itself:** {markdown_text(certificate.stand_in)}", ""]
    for outcome in ("failed", "refused"):
        if checks := certificate.of(outcome):
            page_lines += [f"## What was {outcome}" if outcome == "refused" else "## What failed", ""]
            page_lines += [f"- {check.part}: {markdown_text(check.name)}: {markdown_text(check.detail)}{_code(check)}" for check in checks]
            page_lines += [""]
    page_lines += ["## What was tried", "", *(f"- {markdown_text(line)}" for line in _counts(certificate)), ""]
    if checks := certificate.of("not tried"):
        page_lines += ["## What was not tried", ""]
        page_lines += [f"- {check.part}: {markdown_text(check.name)}: {markdown_text(check.detail)}" for check in checks] + [""]
    if facts := [check for check in certificate.checks if check.part == "facts" and check.outcome != "not tried"]:
        page_lines += ["## Facts", "", "| fact | statement | must be | answer |", "|---|---|---|---|"]
        for check in facts:
            answer = markdown_code(check.answer) if check.answer else markdown_text(check.detail)
            expected = markdown_code(check.expected) if check.expected else ""
            page_lines.append(f"| {markdown_text(check.name)} | {markdown_code(_sql(check))} | {expected} | {answer} |")
        page_lines += [""]
    return "\n".join([*page_lines, markdown_text(_cost(certificate)), ""])


def _title(certificate: Certificate) -> str:
    return {
        "certified": "Certified",
        "failed": "Not certified: something failed",
        "refused": "Not certified: refused",
        "not tried": "Not certified: nothing could be tried",
    }[certificate.verdict]


def _server(certificate: Certificate) -> str:
    named = f"{certificate.server or 'a server'}{f', {certificate.variant}' if certificate.variant else ''}"
    said = f", which says {certificate.version}" if certificate.version and certificate.version not in certificate.server else ""
    by = f"auditor {certificate.auditor}, {certificate.made:%Y-%m-%d %H:%M} UTC, against {certificate.against}"
    return f"{named} ({certificate.engine}){said}; {by}"


def _counts(certificate: Certificate) -> Iterator[str]:
    for part in dict.fromkeys(check.part for check in certificate.checks):
        counts = Counter(check.outcome for check in certificate.checks if check.part == part)
        yield f"{PART_NAMES[part]}: {', '.join(f'{counts[outcome]} {outcome}' for outcome in OUTCOMES if counts[outcome])}"


def _cost(certificate: Certificate) -> str:
    cost = certificate.cost
    recorded = f"; the server recorded {cost.server_statements:,} statements" if cost.server_statements is not None else ""
    computed = f", which it computed in {cost.server_seconds:,.1f} s" if cost.server_seconds is not None else ""
    return f"cost: {cost.seconds:,.0f} s, {cost.statements:,} statements, {cost.bytes:,} bytes received{recorded}{computed}"


def _sql(check: CertifiedCheck) -> str:
    sql = " ".join(check.sql.split())
    return sql if len(sql) <= LONGEST_SQL else f"{sql[:LONGEST_SQL]} ..."


def _code(check: CertifiedCheck) -> str:
    return f"; SQL: {markdown_code(_sql(check))}" if check.sql else ""
