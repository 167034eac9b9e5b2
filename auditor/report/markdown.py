"""The report of a run as Markdown, for a ticket or a pull request."""

from __future__ import annotations

from auditor.escaping import markdown_code as code
from auditor.escaping import markdown_text as text
from auditor.model import SIDES, Differences, Measure, Report
from auditor.report import formatting, live
from auditor.report.redact import redact

MAX_ROWS = 20
"""Rows shown of each table; the JSON has more."""


def report(report: Report) -> str:
    """Return the report of a run."""
    report = redact(report)
    within = " within the threshold" if report.within_threshold else ""
    lines = [f"## {text(report.audit)}: {report.verdict.value}{within}", ""]
    lines += [f"- {text(formatting.one_off(report.other_settings))}"] if report.other_settings else []
    lines += [f"- asked for: {text(report.reason)}"] if report.reason else []
    lines += [f"- {text(line)}" for line in [*report.reasons, *_figures(report)]]
    lines += [f"- {text(formatting.shard(one))}" for one in report.shards]
    if report.plan:
        lines += [f"- not compared: {text(str(one))}" for one in report.plan.not_compared]
    lines += [f"- schema changed: {text(change)}" for change in report.schema_changes]
    lines += [f"- tried before: {text(formatting.step(step))}" for step in report.steps]
    lines += [f"- {text(line)}" for line in (formatting.remedies(report.advice) if report.advice else ())]
    lines += [f"- {text(note)}" for note in formatting.notes(report)]
    lines.append(f"- run `{report.run}`, {report.state.value} after {report.seconds:.2f} s")
    if report.resumable:
        lines.append(f"- resume with: `auditor resume {report.run}`")
    if report.measures:
        lines += _measures(report.measures)
    if report.differences is not None:
        lines += _differences(report.differences)
    comparison = report.comparison
    if comparison and comparison.divergent and not report.measures and not (report.differences is not None and report.differences.exact):
        lines += ["", "| partition | rows in source | rows in target | similarity |", "|---|--:|--:|--:|"]
        for partition in comparison.divergent[:MAX_ROWS]:
            share = "" if partition.similarity is None else f"{partition.similarity:.4g}"
            lines.append(f"| {text(partition.label)} | {partition.rows['source']:,} | {partition.rows['target']:,} | {share} |")
        if comparison.unequal > MAX_ROWS:
            lines.append(f"\nand {comparison.unequal - MAX_ROWS:,} more partitions")
    return "\n".join(lines) + "\n"


def _figures(report: Report) -> list[str]:
    lines: list[str] = []
    if report.comparison:
        comparison = report.comparison
        if report.jaccard:
            lines.append(f"similarity {formatting.similarity(report.jaccard)} of {formatting.scope(report)} are in both tables")
        if comparison.published:
            score = comparison.published
            lines.append(f"published score {score.value:.6g}, between {score.lower:.6g} and {score.upper:.6g}")
        lines.append(f"rows: {comparison.rows['source']:,} in the source, {comparison.rows['target']:,} in the target")
        lines.append(f"partitions: {comparison.equal:,} of {comparison.total:,} equal, {comparison.skipped:,} not compared")
        if comparison.skipped or report.covered < 1 or report.slice:
            lines.append(f"coverage: {formatting.percent(report.coverage['rows'])} of {formatting.scope(report)}")
    if report.differences is not None and (not_counted := formatting.not_counted(report.differences)):
        lines.append(f"not counted: {not_counted}")
    if report.plan and report.plan.watermark:
        lines.append(f"watermark {report.plan.watermark} UTC; younger rows were left out on both sides")
    lines += formatting.verified(report.verified_through, report.within_threshold_through)
    if found := formatting.aligned(report):
        lines.append(f"{found[0]}: {text(found[1])}")
    lines += [f"{name}: {text(line)}" for name, line in live.lines(report)]
    lines += [text(line) for line in (live.lost(report.live) if report.live else ())]
    if report.as_of:
        lines.append(f"dump as of {formatting.moment(report.as_of)}")
    lines += [f"{side}: {text(server)}" for side, server in report.servers.items()]
    return [*lines, *([note] if (note := formatting.snapshot_note(report)) else [])]


def _differences(differences: Differences) -> list[str]:
    if not differences.ranges and not differences.named:
        return []
    lines = ["", "| difference | key | column | source | target |", "|---|---|---|---|---|"]
    for span in differences.ranges[:MAX_ROWS]:
        more = f"{formatting.rows(span.rows)} more"
        sides = f"{more} | |" if span.kind == "missing" else f"| {more} |"
        lines.append(f"| {text(formatting.kind(span))} | {text(span.label)} | | {sides}")
    for row in formatting.examples(differences.named, MAX_ROWS):
        kind, key = text(formatting.kind(row)), code(formatting.key(row.key))
        for column in row.columns:
            values = " | ".join(map(_value, formatting.sides(column.source, column.target, column.reason)))
            lines.append(f"| {kind} | {key} | {text(formatting.column_name(column))} | {values} |")
        if not row.columns:
            surplus = (f"{formatting.rows(count)} more" if (count := row.rows[side]) and row.kind != "changed" else "" for side in SIDES)
            lines.append(f"| {kind} | {key} | | {' | '.join(surplus)} |")
    more = formatting.more(differences, MAX_ROWS)
    return [*lines, f"\nand {more}"] if more else lines


def _measures(measures: tuple[Measure, ...]) -> list[str]:
    lines = ["", "| measure | of | source | target | deviation | |", "|---|---|---|---|--:|---|"]
    for measure in sorted(measures, key=lambda measure: measure.allowed)[:MAX_ROWS]:
        deviation = "" if measure.deviation is None else formatting.deviation(measure.deviation)
        sides = f"{_value(measure.source)} | {_value(measure.target)}"
        lines.append(f"| {text(measure.name)} | {text(measure.label)} | {sides} | {deviation} | {'allowed' if measure.allowed else ''} |")
    return lines if len(measures) <= MAX_ROWS else [*lines, f"\nand {len(measures) - MAX_ROWS:,} more measures"]


def _value(text: str | None) -> str:
    return "*NULL*" if text is None else code(formatting.value(text))
