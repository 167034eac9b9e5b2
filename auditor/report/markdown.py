"""The report of a run as Markdown, for a ticket or a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.escaping import markdown_code as code
from auditor.escaping import markdown_text as text
from auditor.masking import redact
from auditor.model import SIDES, Comparison, Differences, Measure, Report
from auditor.quantities import plural
from auditor.report import formatting
from auditor.report.sentences import Figure, build_sentences

MAX_ROWS = 20
"""Rows shown of each table; the JSON has more."""


def report(report: Report) -> str:
    """Return the report of a run."""
    report = redact(report)
    sentences = build_sentences(report)
    outcome = [f"- {text(line)}" for line in (*filter(None, [sentences.notice]), *sentences.outcome)]
    lines = [f"## {text(report.audit)}: {report.verdict.value}{f', {sentences.headline}' if sentences.headline else ''}"]
    lines += ["", *outcome] if outcome else []
    if report.measures:
        lines += _measures(report.measures)
    if report.differences is not None:
        lines += _differences(report.differences)
    comparison = report.comparison
    if comparison and comparison.divergent and not report.measures and not (report.differences is not None and report.differences.exact):
        lines += _partitions(comparison)
    lines += _section("How sure this is", [*map(_figure, sentences.certainty), *map(_figure, sentences.set_aside)])
    lines += _section("What to do", [code(line) if line.startswith("auditor ") else text(line) for line in sentences.next_steps])
    servers = [f"{side}: {text(server)}" for side, server in report.servers.items()]
    lines += _section(
        "Evidence", [*map(_figure, sentences.evidence), *(text(formatting.shard(shard)) for shard in report.shards), *servers]
    )
    ended = f"run {code(report.run)}, {report.state.value} after {report.seconds:.2f} s"
    lines += _section("Method", [*map(text, (*sentences.tried, *sentences.notes, *sentences.details)), ended])
    return "\n".join(lines) + "\n"


def _section(title: str, entries: Sequence[str]) -> list[str]:
    return ["", f"### {title}", "", *(f"- {entry}" for entry in entries)] if entries else []


def _figure(figure: Figure) -> str:
    return f"{figure.name}: {text(str(figure))}"


def _partitions(comparison: Comparison) -> list[str]:
    lines = ["", "| partition | rows in source | rows in target | similarity |", "|---|--:|--:|--:|"]
    for partition in comparison.divergent[:MAX_ROWS]:
        share = formatting.similarity(partition.similarity, partition.similarity_error)
        lines.append(f"| {text(partition.label)} | {partition.rows['source']:,} | {partition.rows['target']:,} | {share} |")
    more = comparison.unequal - MAX_ROWS
    return lines if more <= 0 else [*lines, f"\nand {plural(more, 'more partition', 'more partitions')}"]


def _differences(differences: Differences) -> list[str]:
    if not differences.ranges and not differences.named:
        return []
    lines = ["", "| difference | key | column | source | target |", "|---|---|---|---|---|"]
    for span in differences.ranges[:MAX_ROWS]:
        more = formatting.only_in(span.rows, "source" if span.kind == "missing" else "target")
        sides = f"{more} | |" if span.kind == "missing" else f"| {more} |"
        lines.append(f"| {text(formatting.kind(span))} | {text(span.label)} | | {sides}")
    for row in formatting.examples(differences.named, MAX_ROWS):
        kind, key = text(formatting.kind(row)), code(formatting.key(row.key))
        for column in row.columns:
            values = " | ".join(map(_value, formatting.sides(column.source, column.target, column.reason)))
            lines.append(f"| {kind} | {key} | {text(formatting.column_name(column))} | {values} |")
        if not row.columns:
            surplus = (formatting.only_in(count, side) if (count := row.rows[side]) and row.kind != "changed" else "" for side in SIDES)
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
