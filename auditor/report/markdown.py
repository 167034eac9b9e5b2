"""A report as Markdown, for a ticket or a pull request."""

from __future__ import annotations

import re

from auditor.model import Differences, Measure, Report
from auditor.report import plain
from auditor.report.shown import shown

SHOWN = 20
"""Rows of each table; the JSON has more."""


def report(found: Report) -> str:
    """One run of one audit."""
    found = shown(found)
    lines = [f"## {text(found.audit)}: {found.verdict.value}", ""]
    lines += [f"- {text(line)}" for line in [*found.reasons, *_figures(found)]]
    if found.plan:
        lines += [f"- cannot see: {text(sentence)}" for sentence in found.plan.lossy]
        lines += [f"- left out: {text(sentence)}" for sentence in found.plan.left_out]
    lines += [f"- schema changed: {text(change)}" for change in found.schema_changes]
    lines += [f"- before it, {text(plain.step(one))}" for one in found.steps]
    lines += [f"- {text(note)}" for note in plain.notes(found)]
    lines.append(f"- run `{found.run}`, {found.state.value} after {found.seconds:.2f} s")
    if found.resumable:
        lines.append(f"- go on with: `auditor resume {found.run}`")
    if found.measures:
        lines += _measures(found.measures)
    if found.differences:
        lines += _differences(found.differences)
    comparison = found.comparison
    if comparison and comparison.divergent and not found.measures and not (found.differences and found.differences.exact):
        lines += ["", "| partition | rows in source | rows in target | similarity |", "|---|--:|--:|--:|"]
        for one in comparison.divergent[:SHOWN]:
            share = "" if one.similarity is None else f"{one.similarity:.4g}"
            lines.append(f"| {text(one.label)} | {one.rows['source']:,} | {one.rows['target']:,} | {share} |")
        if comparison.unequal > SHOWN:
            lines.append(f"\nand {comparison.unequal - SHOWN:,} more partitions")
    return "\n".join(lines) + "\n"


def _figures(found: Report) -> list[str]:
    lines: list[str] = []
    if found.comparison:
        comparison = found.comparison
        if found.jaccard:
            lines.append(f"similarity {plain.similarity(found.jaccard)} of {plain.meant(found)} are in both tables")
        if comparison.published:
            score = comparison.published
            lines.append(f"published score {score.value:.6g}, between {score.lower:.6g} and {score.upper:.6g}")
        lines.append(f"rows: {comparison.rows['source']:,} in the source, {comparison.rows['target']:,} in the target")
        lines.append(f"partitions: {comparison.equal:,} of {comparison.total:,} equal, {comparison.skipped:,} not compared")
        if comparison.skipped or found.covered < 1 or found.section:
            lines.append(f"coverage: {plain.percent(found.coverage['rows'])} of {plain.meant(found)}")
    if found.differences and (told := plain.apart(found.differences)):
        lines.append(f"not counted: {told}")
    if found.plan and found.plan.watermark:
        lines.append(f"watermark {found.plan.watermark} UTC: younger rows were left out on both sides")
    if found.verified_through:
        lines.append(f"everything is verified up to {plain.moment(found.verified_through)}")
    if found.as_of:
        lines.append(f"the dump is as of {plain.moment(found.as_of)}")
    return [*lines, *([told] if (told := plain.snapshot(found)) else [])]


def _differences(found: Differences) -> list[str]:
    if not found.ranges and not found.named:
        return []
    lines = ["", "| difference | key | column | source | target |", "|---|---|---|---|---|"]
    for span in found.ranges[:SHOWN]:
        sides = f"{span.rows:,} rows | |" if span.kind == "missing" else f"| {span.rows:,} rows |"
        lines.append(f"| {_kind(span.kind, span.state)} | {text(span.label)} | | {sides}")
    for one in found.named[:SHOWN]:
        kind, key = _kind(one.kind, one.state), code(plain.key(one.key))
        for column in one.columns:
            lines.append(f"| {kind} | {key} | {text(column.name)} | {_value(column.source)} | {_value(column.target)} |")
        if not one.columns:
            lines.append(f"| {kind} | {key} | | | |")
    if len(found.named) > SHOWN:
        lines.append(f"\nand {len(found.named) - SHOWN:,} more differences")
    return lines


def _kind(kind: str, state: str) -> str:
    return f"{kind}, unsettled" if state == "unsettled" else kind


def _measures(found: tuple[Measure, ...]) -> list[str]:
    lines = ["", "| measure | of | source | target | deviation | |", "|---|---|---|---|--:|---|"]
    for one in sorted(found, key=lambda one: one.allowed)[:SHOWN]:
        deviation = "" if one.deviation is None else plain.deviation(one.deviation)
        sides = f"{_value(one.source)} | {_value(one.target)}"
        lines.append(f"| {text(one.name)} | {text(one.label)} | {sides} | {deviation} | {'allowed' if one.allowed else ''} |")
    return lines if len(found) <= SHOWN else [*lines, f"\nand {len(found) - SHOWN:,} more measures"]


def _value(found: str | None) -> str:
    return "*NULL*" if found is None else code(plain.value(found))


def text(words: str) -> str:
    """Words that are read as words, wherever they stand: no markup, no HTML, no cell's end."""
    escaped = re.sub(r"([\\`*\[\]|~#])", r"\\\1", plain.sentence(words))
    escaped = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", escaped)  # within a word it is no markup
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;").replace("://", ":&#47;/")


def code(words: str) -> str:
    """Words that are shown as they are."""
    fence = "`" * (max((len(run) for run in re.findall("`+", words)), default=0) + 1)
    pad = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{pad}{words}{pad}{fence}".replace("|", "\\|")
