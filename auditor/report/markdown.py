"""A report as Markdown, for a ticket or a pull request."""

from __future__ import annotations

from auditor.model import Report
from auditor.report.text import SHOWN


def report(found: Report) -> str:
    """One run of one audit."""
    lines = [f"## {found.audit}: {found.verdict.value}", ""]
    lines += [f"- {_plain(reason)}" for reason in found.reasons]
    comparison = found.comparison
    if comparison:
        if comparison.published:
            score = comparison.published
            lines.append(f"- score {score.value:.6g}, between {score.lower:.6g} and {score.upper:.6g}")
        lines.append(f"- rows: {comparison.rows['source']:,} in the source, {comparison.rows['target']:,} in the target")
        lines.append(f"- partitions: {comparison.equal:,} of {comparison.total:,} equal, {comparison.skipped:,} not compared")
    if found.plan:
        lines += [f"- cannot see: {_plain(sentence)}" for sentence in found.plan.lossy]
    lines.append(f"- run `{found.run}`, {found.state.value} after {found.seconds:.2f} s")
    if comparison and comparison.divergent:
        lines += ["", "| partition | rows in source | rows in target | similarity |", "|---|--:|--:|--:|"]
        for one in comparison.divergent[:SHOWN]:
            similarity = "" if one.similarity is None else f"{one.similarity:.4g}"
            lines.append(f"| {_plain(one.label)} | {one.rows['source']:,} | {one.rows['target']:,} | {similarity} |")
        if comparison.unequal > SHOWN:
            lines.append(f"\nand {comparison.unequal - SHOWN:,} more partitions")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
