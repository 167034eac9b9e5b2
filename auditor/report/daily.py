"""The report of a day for a terminal, as Markdown, and as plain values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.model import Report
from auditor.report import json as as_json
from auditor.report import markdown as md
from auditor.report import plain, trend
from auditor.report.day import Day, Entry

SAMPLE = 5
"""Rows, and partitions, of an audit that are named."""

_COLOURS = {"match": "green", "mismatch": "red", "unknown": "yellow", "stale": "yellow", "never": "yellow"}


def text(found: Day) -> RenderableType:
    """All audits of a day for a person at a terminal."""
    head = Text(f"Audits on {found.date}", "bold")
    parts: list[RenderableType] = [head, Text(f"As of {plain.moment(found.at)}: {tally(found)}", "dim")]
    for entry in found.attention:
        parts.append(Text.assemble("\n", (word(entry.status).upper(), f"bold {_COLOURS[entry.status]}"), f"  {plain.visible(entry.audit)}"))
        parts += [Text(f"  {line}") for line in lines(entry)]
        for leg in entry.legs:
            parts.append(Text(f"  {plain.visible(leg.audit)}: {word(leg.status)}", "bold"))
            parts += [Text(f"    {line}") for line in lines(leg)]
    if found.rest:
        parts += [
            Text("\nThe others" if found.attention else "", "bold"),
            _table(found),
            *(Text(f"  {line}", "dim") for line in _beside(found)),
        ]
    return Group(*parts)


def _table(found: Day) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  audit", "verdict", "score", "last run", "verified", "30 days"):
        table.add_column(name, overflow="fold", no_wrap=name == "30 days")
    for top in found.rest:
        for entry in (top, *top.legs):
            table.add_row(
                Text(f"  {plain.visible(entry.audit)}{'' if entry.configured else ' (no longer configured)'}"),
                Text(word(entry.status), _COLOURS[entry.status]),
                _score(entry),
                "" if entry.age is None else f"{plain.ago(entry.age)} ago",
                "" if entry.verified_age is None else f"{plain.ago(entry.verified_age)} ago",
                trend.blocks(entry.trend),
            )
    return table


def _beside(found: Day) -> Iterator[str]:
    """What is to be known of audits that need no attention."""
    for entry in (one for top in found.rest for one in (top, *top.legs)):
        yield from (f"{plain.visible(entry.audit)}: {plain.sentence(told)}" for told in (entry.running, *entry.not_compared) if told)


def word(status: str) -> str:
    """A status as it is told."""
    return "never run" if status == "never" else status


def tally(found: Day) -> str:
    """How many audits there are of each status."""
    told = [f"{count:,} {word(status)}" for status, count in found.counts.items() if count]
    return ", ".join(told) or "there are no audits"


def _score(entry: Entry) -> str:
    if entry.combined:
        return plain.bounds(entry.combined)
    run = entry.run
    return plain.score(run.score, run.lower, run.upper) if run and run.score is not None and plain.has_score(run) else ""


def lines(entry: Entry) -> Iterator[str]:
    """What is told of an audit that needs attention, a line each."""
    yield from (plain.sentence(reason) for reason in entry.why)
    if entry.running:
        yield f"now: {plain.sentence(entry.running)}"
    if told := _score(entry):
        yield f"score {told}{f'; {plain.threshold(entry.threshold)}' if entry.threshold else ''}"
    if entry.run and entry.age is not None:
        again = f", {entry.run.verdict.value} {entry.same:,} times in a row" if entry.same > 1 else ""
        yield f"run {entry.run.run[:12]}, {plain.ago(entry.age)} ago{again}"
    if entry.verified_through and entry.verified_age is not None:
        yield f"verified through {plain.moment(entry.verified_through)}, {plain.ago(entry.verified_age)} ago"
    yield from (f"differs: {named}" for named in sample(entry))
    if told := _partitions(entry):
        yield told
    yield from (plain.sentence(told) for told in entry.not_compared)
    if len(entry.trend) > 1:
        yield f"30 days: {trend.blocks(entry.trend)}"
    if entry.paused:
        yield "it is paused"
    if entry.run:
        yield plain.go_on(entry.report) if entry.report and entry.report.resumable else f"more: auditor show {entry.run.run[:12]}"


def _partitions(entry: Entry) -> str:
    """Some of the partitions that hold the rows that differ, where rows were named."""
    if entry.rolled:
        return _some([one.label for one in entry.rolled.divergent], len(entry.rolled.divergent))
    found = entry.report
    if not (found and found.comparison and found.comparison.divergent and found.differences) or found.measures:
        return ""
    if not (found.differences.named or found.differences.ranges):
        return ""
    return _some([one.label for one in found.comparison.divergent], found.comparison.unequal)


def _some(labels: Sequence[str], count: int) -> str:
    told = [plain.sentence(label) for label in labels[:SAMPLE]]
    more = f"; and {count - len(told):,} more" if count > len(told) else ""
    return f"in the partitions: {'; '.join(told)}{more}" if told else ""


def sample(entry: Entry, most: int = SAMPLE) -> list[str]:
    """Some of the ranges and keys that differ, else of the partitions."""
    return sample_of(entry.report, most) if entry.report else []


def sample_of(report: Report, most: int) -> list[str]:
    """Some of the ranges and keys that differ in a run, else of the partitions."""
    if report.differences and (report.differences.ranges or report.differences.named):
        found = report.differences
        named = [f"{one.kind} {plain.sentence(one.label)}, {one.rows:,} rows" for one in found.ranges]
        named += [f"{one.kind} {plain.key(one.key)}{', unsettled' if one.state == 'unsettled' else ''}" for one in found.named]
        return named[:most]
    if report.measures or report.comparison is None:
        return []
    return [plain.sentence(one.label) for one in report.comparison.divergent[:most]]


def markdown(found: Day) -> str:
    """All audits of a day as Markdown."""
    told = [f"## Audits on {found.date}", "", f"As of {plain.moment(found.at)}: {tally(found)}."]
    for entry in found.attention:
        told += ["", f"### {md.text(entry.audit)}: {word(entry.status)}", "", *(f"- {md.text(line)}" for line in lines(entry))]
        for leg in entry.legs:
            told += ["", f"#### {md.text(leg.audit)}: {word(leg.status)}", "", *(f"- {md.text(line)}" for line in lines(leg))]
    if found.rest:
        told += ["", "### The others" if found.attention else "### All audits", ""]
        told += ["| audit | verdict | score | last run | verified | 30 days |", "|---|---|---|---|---|---|"]
        for entry in (one for top in found.rest for one in (top, *top.legs)):
            ages = [f"{plain.ago(age)} ago" if age is not None else "" for age in (entry.age, entry.verified_age)]
            name = md.text(entry.audit) + ("" if entry.configured else " (no longer configured)")
            cells = [name, word(entry.status), _score(entry), *ages, trend.blocks(entry.trend)]
            told.append(f"| {' | '.join(cells)} |")
    return "\n".join(told) + "\n"


def json(found: Day) -> dict[str, Any]:
    """All audits of a day as plain values. It grows only by adding."""
    return {
        "date": found.date.isoformat(),
        "at": found.at.isoformat(),
        "counts": dict(found.counts),
        "audits": [_entry(entry) for entry in found.entries],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    run, combined = entry.run, entry.combined
    return {
        "audit": entry.audit,
        "status": entry.status,
        "configured": entry.configured,
        "paused": entry.paused,
        "why": list(entry.why),
        "run": run.run if run else None,
        "began": _moment(run.started) if run else None,
        "age": entry.age,
        "running": entry.running or None,
        "verdict": run.verdict.value if run else None,
        "score": {"value": run.score, "lower": run.lower, "upper": run.upper} if run and run.score is not None else None,
        "threshold": entry.threshold.model_dump() if entry.threshold else None,
        "same": entry.same,
        "since": _moment(entry.since),
        "verified_through": _moment(entry.verified_through),
        "verified_age": entry.verified_age,
        "not_compared": list(entry.not_compared),
        "report": as_json.report(entry.report) if entry.report and entry.status != "match" else None,
        "trend": [
            {"run": p.run, "at": p.at.isoformat(), "verdict": p.verdict.value, "score": p.score, "lower": p.lower, "upper": p.upper}
            for p in entry.trend
        ],
        "combined": {
            "verdict": combined.verdict.value,
            "reasons": list(combined.reasons),
            "lower": combined.lower,
            "upper": combined.upper,
            "least": combined.least,
            "most": combined.most,
            "ages": list(combined.ages),
            "dump_age": combined.dump_age,
        }
        if combined
        else None,
        "legs": [_entry(leg) for leg in entry.legs],
    }


def _moment(at: dt.datetime | None) -> str | None:
    return at.isoformat() if at else None
