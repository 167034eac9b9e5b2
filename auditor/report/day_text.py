"""The report of a day for a terminal, as Markdown, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.api_models.report import CombinedVerdict, DayAudit, DayLastRun, DayReport, DayScore
from auditor.escaping import markdown_text
from auditor.history.audit_status import status_label
from auditor.model import Difference, Report, Status
from auditor.planning.proxy import Combined
from auditor.quantities import format_duration
from auditor.report import formatting, sparkline
from auditor.report import json as as_json
from auditor.report.day import AuditEntry, Day

NOT_YET = "no table of {} has been audited yet"
"""What is said of a group of tables whose audits are not known, because none of them ran."""

MAX_SAMPLE = 5
"""Differences, and partitions, listed of each audit."""


def _colour(status: Status) -> str:
    return {"match": "green", "within_threshold": "green", "mismatch": "red"}.get(status, "yellow")


def text(day: Day) -> RenderableType:
    """Return the report of a day for a terminal."""
    parts: list[RenderableType] = [
        Text(f"Audits on {day.date}", "bold"),
        Text(f"As of {formatting.moment(day.at)}: {tally(day)}", "dim"),
    ]
    for entry in day.attention:
        status = (status_label(entry.status).upper(), f"bold {_colour(entry.status)}")
        parts.append(Text.assemble("\n", status, f"  {formatting.visible(entry.audit)}"))
        parts += [Text(f"  {line}") for line in lines(entry)]
        for leg in entry.legs:
            parts.append(Text(f"  {formatting.visible(leg.audit)}: {status_label(leg.status)}", "bold"))
            parts += [Text(f"    {line}") for line in lines(leg)]
    if day.rest:
        parts += [
            Text("\nOther audits" if day.attention else "", "bold"),
            _table(day),
            *(Text(f"  {line}", "dim") for line in _remarks(day)),
        ]
    return Group(*parts)


def _table(day: Day) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  audit", "verdict", "score", "last run", "verified", "30 days"):
        table.add_column(name, overflow="fold", no_wrap=name == "30 days")
    for top in day.rest:
        for entry in (top, *top.legs):
            table.add_row(
                Text(f"  {formatting.visible(entry.audit)}{'' if entry.configured else ' (no longer configured)'}"),
                Text(status_label(entry.status), _colour(entry.status)),
                _score(entry),
                "" if entry.age is None else f"{format_duration(entry.age)} ago",
                ("" if entry.verified_age is None else f"{format_duration(entry.verified_age)} ago") + within_age(entry),
                sparkline.blocks(entry.trend),
            )
    return table


def within_age(entry: AuditEntry) -> str:
    """Return how long ago everything was equal or within the threshold; empty if that is not later than everything was seen equal."""
    age = entry.within_threshold_age
    return "" if age is None else f"{'; ' if entry.verified_age is not None else ''}within threshold {format_duration(age)} ago"


def _remarks(day: Day) -> Iterator[str]:
    """Yield what differs within a threshold, what became of a later run, what runs now and what was not compared, of those in the table."""
    for entry in (entry for top in day.rest for entry in (top, *top.legs)):
        for remark in (*remarks(entry), entry.running, *entry.not_compared):
            if remark:
                yield f"{formatting.visible(entry.audit)}: {formatting.sentence(remark)}"


def remarks(entry: AuditEntry) -> list[str]:
    """Return what differs and why it is allowed, for a match within a threshold, and what became of a later run, one sentence each."""
    allowed = "; ".join(entry.standing.reasons) if entry.standing.within_threshold else ""
    return [line for line in (allowed, entry.standing.last_run) if line]


def tally(day: Day) -> str:
    """Return how many audits there are of each status, and of which groups none ran yet."""
    counts = [f"{count:,} {status_label(status)}" for status, count in day.counts.items() if count]
    groups = [formatting.sentence(NOT_YET.format(group)) for group in day.unaudited_groups]
    return "; ".join([*([", ".join(counts)] if counts else []), *groups]) or "there are no audits"


def _score(entry: AuditEntry) -> str:
    if entry.combined:
        return formatting.bounds(entry.combined)
    run = entry.run
    return formatting.score_of(run) if run and formatting.has_score(run) else ""


def lines(entry: AuditEntry) -> Iterator[str]:
    """Yield the lines on an audit that needs attention: which rows differ first, partitions and score last."""
    yield from (formatting.sentence(reason) for reason in entry.reasons)
    if entry.running:
        yield f"now: {formatting.sentence(entry.running)}"
    if entry.run and entry.age is not None:
        streak = f", {entry.run.verdict.value} {entry.streak:,} times in a row" if entry.streak > 1 else ""
        what = "last verdict" if entry.standing.run else "last run"
        yield f"{what}: run {entry.run.run[:12]}, {format_duration(entry.age)} ago{streak}"
    ages = entry.verified_age, entry.within_threshold_age
    moments = formatting.verified(entry.standing.verified_through, entry.standing.within_threshold_through)
    for line, age in zip(moments, (age for age in ages if age is not None), strict=True):
        yield f"{line}, {format_duration(age)} ago"
    yield from (f"differs: {difference}" for difference in sample(entry))
    yield from (formatting.sentence(sentence) for sentence in entry.not_compared)
    if len(entry.trend) > 1:
        yield f"30 days: {sparkline.blocks(entry.trend)}"
    if entry.paused:
        yield "paused"
    if partitions := _partitions(entry):
        yield partitions
    if score := _score(entry):
        name = formatting.score_name(entry.run) if entry.run else "score"
        yield f"{name} {score}{f'; {formatting.threshold(entry.threshold)}' if entry.threshold else ''}"
    if entry.run:
        resumable = entry.report and entry.report.resumable
        yield formatting.resume_hint(entry.report) if entry.report and resumable else f"more: auditor show {entry.run.run[:12]}"


def _partitions(entry: AuditEntry) -> str:
    """Return some partitions that contain the rows that differ; empty if ``sample`` lists partitions already."""
    if entry.whole_table:
        return _join_labels([partition.label for partition in entry.whole_table.divergent], len(entry.whole_table.divergent))
    report = entry.report
    if not (report and report.comparison and report.comparison.divergent) or report.measures:
        return ""
    if report.differences is None or not (report.differences.named or report.differences.ranges):
        return ""
    return _join_labels([partition.label for partition in report.comparison.divergent], report.comparison.unequal)


def _join_labels(labels: Sequence[str], count: int) -> str:
    listed = [formatting.sentence(label) for label in labels[:MAX_SAMPLE]]
    more = f"; and {count - len(listed):,} more" if count > len(listed) else ""
    return f"in the partitions: {'; '.join(listed)}{more}" if listed else ""


def sample(entry: AuditEntry, limit: int = MAX_SAMPLE) -> list[str]:
    """Return up to ``limit`` ranges and keys that differ in an audit's latest run, or else partitions."""
    return sample_differences(entry.report, limit) if entry.report else []


def sample_differences(report: Report, limit: int) -> list[str]:
    """Return up to ``limit`` ranges and keys that differ in a run, or else partitions."""
    differences = report.differences
    if differences is not None and (differences.ranges or differences.named):
        rows = [f"{span.kind} {formatting.sentence(span.label)}, {formatting.rows(span.rows)}" for span in differences.ranges]
        few = min(len(differences.named), limit // 2)
        return [*rows[: limit - few], *(_named_row(row) for row in formatting.examples(differences.named, max(few, limit - len(rows))))]
    if report.measures or report.comparison is None:
        return []
    return [formatting.sentence(partition.label) for partition in report.comparison.divergent[:limit]]


def _named_row(row: Difference) -> str:
    rows = f", {formatting.rows(row.row_count)}" if row.row_count > 1 else ""
    return f"{row.kind} {formatting.key(row.key)}{rows}{', unsettled' if row.state == 'unsettled' else ''}"


def markdown(day: Day) -> str:
    """Return the report of a day as Markdown."""
    document = [f"## Audits on {day.date}", "", f"As of {formatting.moment(day.at)}: {tally(day)}."]
    for entry in day.attention:
        document += ["", *_section("###", entry)]
        for leg in entry.legs:
            document += ["", *_section("####", leg)]
    if day.rest:
        document += ["", "### Other audits" if day.attention else "### All audits", ""]
        document += ["| audit | verdict | score | last run | verified | 30 days |", "|---|---|---|---|---|---|"]
        for entry in (entry for top in day.rest for entry in (top, *top.legs)):
            ages = [f"{format_duration(age)} ago" if age is not None else "" for age in (entry.age, entry.verified_age)]
            ages[1] += within_age(entry)
            name = markdown_text(entry.audit) + ("" if entry.configured else " (no longer configured)")
            cells = [name, status_label(entry.status), _score(entry), *ages, sparkline.blocks(entry.trend)]
            document.append(f"| {' | '.join(cells)} |")
        entries = [entry for top in day.rest for entry in (top, *top.legs)]
        listed = [(entry.audit, remark) for entry in entries for remark in (*remarks(entry), *entry.not_compared)]
        document += ["", *(f"- {markdown_text(name)}: {markdown_text(remark)}" for name, remark in listed)] if listed else []
    return "\n".join(document) + "\n"


def _section(mark: str, entry: AuditEntry) -> list[str]:
    items = [f"- {markdown_text(line)}" for line in lines(entry)]
    return [f"{mark} {markdown_text(entry.audit)}: {status_label(entry.status)}", "", *items]


def json(day: Day) -> DayReport:
    """Return the report of a day as it leaves the process."""
    return DayReport(date=day.date, at=day.at, counts=day.counts, audits=tuple(map(_audit, day.entries)))


def _audit(entry: AuditEntry) -> DayAudit:
    run, standing, last = entry.run, entry.standing, entry.standing.last
    return DayAudit(
        **DayAudit.fields_of(entry, without=("run", "running", "report", "combined", "legs")),
        run=run.run if run else None,
        began=run.started if run else None,
        age_seconds=entry.age,
        running=entry.running or None,
        verdict=standing.verdict or (run.verdict if run else None),
        score=DayScore(value=run.score, lower=run.lower, upper=run.upper) if run and run.score is not None else None,
        verified_through=standing.verified_through,
        verified_age_seconds=entry.verified_age,
        within_threshold=standing.within_threshold,
        within_threshold_through=standing.within_threshold_through,
        last_run=DayLastRun(run=last.run, state=last.state, ended=last.ended) if last else None,
        report=as_json.report(entry.report) if entry.report and entry.status != "match" else None,
        combined=_combined(entry.combined) if entry.combined else None,
        legs=tuple(map(_audit, entry.legs)),
    )


def _combined(combined: Combined) -> CombinedVerdict:
    return CombinedVerdict(
        **CombinedVerdict.fields_of(combined),
        hard_lower=combined.least,
        hard_upper=combined.most,
        leg_ages_seconds=combined.ages,
        dump_age_seconds=combined.dump_age,
    )
