"""A report as Markdown, for a ticket or a pull request."""

from __future__ import annotations

from auditor.model import Differences, Report
from auditor.report.text import SHOWN, similarity


def report(found: Report) -> str:
    """One run of one audit."""
    lines = [f"## {found.audit}: {found.verdict.value}", ""]
    lines += [f"- {_plain(reason)}" for reason in found.reasons]
    comparison = found.comparison
    if comparison:
        if found.jaccard:
            lines.append(f"- similarity {similarity(found.jaccard)} of all rows are in both tables")
        if comparison.published:
            score = comparison.published
            lines.append(f"- published score {score.value:.6g}, between {score.lower:.6g} and {score.upper:.6g}")
        lines.append(f"- rows: {comparison.rows['source']:,} in the source, {comparison.rows['target']:,} in the target")
        lines.append(f"- partitions: {comparison.equal:,} of {comparison.total:,} equal, {comparison.skipped:,} not compared")
    if found.plan:
        lines += [f"- cannot see: {_plain(sentence)}" for sentence in found.plan.lossy]
    lines.append(f"- run `{found.run}`, {found.state.value} after {found.seconds:.2f} s")
    if found.differences:
        lines += _differences(found.differences)
    if comparison and comparison.divergent and not (found.differences and found.differences.exact):
        lines += ["", "| partition | rows in source | rows in target | similarity |", "|---|--:|--:|--:|"]
        for one in comparison.divergent[:SHOWN]:
            share = "" if one.similarity is None else f"{one.similarity:.4g}"
            lines.append(f"| {_plain(one.label)} | {one.rows['source']:,} | {one.rows['target']:,} | {share} |")
        if comparison.unequal > SHOWN:
            lines.append(f"\nand {comparison.unequal - SHOWN:,} more partitions")
    return "\n".join(lines) + "\n"


def _differences(found: Differences) -> list[str]:
    if not found.ranges and not found.named:
        return []
    lines = ["", "| difference | key | column | source | target |", "|---|---|---|---|---|"]
    lines += [f"| {one.kind} | {_plain(one.label)} | | {one.rows:,} rows | |" for one in found.ranges[:SHOWN]]
    for one in found.named[:SHOWN]:
        key = _plain(", ".join("NULL" if text is None else text for text in one.key.values()))
        for column in one.columns:
            lines.append(f"| {one.kind} | {key} | {_plain(column.name)} | {_value(column.source)} | {_value(column.target)} |")
        if not one.columns:
            lines.append(f"| {one.kind} | {key} | | | |")
    if len(found.named) > SHOWN:
        lines.append(f"\nand {len(found.named) - SHOWN:,} more differences")
    return lines


def _value(text: str | None) -> str:
    return "*NULL*" if text is None else f"`{_plain(text)}`"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
