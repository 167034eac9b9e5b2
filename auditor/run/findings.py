"""What a run finds by one method, and what follows from the summaries alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from auditor.compare.comparator import Aligned, compare
from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.model import Comparison, Differences, Jaccard, Measure, Plan, Side, Verdict
from auditor.planning import planner
from auditor.run.unhashed import describe_unhashed
from auditor.sql import render
from dialects import Session


@dataclass(slots=True)
class Findings:
    """What a run found by one method."""

    aligned: Aligned
    comparison: Comparison
    differences: Differences | None = None
    jaccard: Jaccard | None = None
    states: Mapping[int, str] = field(default_factory=dict)
    """How each unequal partition, by id, was settled."""
    measures: tuple[Measure, ...] = ()
    prescan: str = ""
    """What a pre-scan found, as a sentence; empty if there was none."""
    verdict: Verdict = Verdict.UNKNOWN
    reasons: tuple[str, ...] = ()


def compare_summaries(audit: Audit, reader: Reader, plan: Plan, aligned: Aligned) -> Comparison:
    """Return what the summaries say; unknown if all rows are still in flight."""
    score = audit.threshold.score if plan.method == "counts" else 1.0  # the other methods know a similarity
    comparison = compare(aligned, threshold=score, allow_empty=audit.allow_empty, label=plan.label)
    if comparison.skipped and (named := describe_unhashed(reader, plan, aligned)):
        comparison = replace(comparison, reasons=(f"{comparison.reasons[0]}: {'; '.join(named)}", *comparison.reasons[1:]))
    if comparison.total or not plan.watermark:
        return comparison
    if not any(reader.ask_each(lambda side, session: _count_rows(plan, side, session)).values()):
        return comparison
    sentence = f"every row is from the watermark {plan.watermark} UTC on, so nothing was compared yet; run it again later"
    return replace(comparison, verdict=Verdict.UNKNOWN, reasons=(sentence,))


def reasons_of(findings: Findings, plan: Plan | None) -> tuple[str, ...]:
    """Return the reasons of the verdict, with what it does not speak of: the rows outside a slice, and ambiguous row texts."""
    if plan is None:
        return findings.reasons
    outside = [f"only {plan.slice} were compared; nothing is said of others"] if plan.slice else []
    ambiguous = [planner.AMBIGUITY] if plan.encoding == "published" and findings.verdict is Verdict.MATCH else []
    return (*outside, *findings.reasons, *_doubled(findings.differences), *ambiguous)


def _count_rows(plan: Plan, side: Side, session: Session) -> int:
    """Return how many rows a side has, those in flight among them."""
    here = plan.sides[side]
    return int(session.query_row(render.count(session.dialect, here.table, here.where or "1 = 1"))[0])


def _doubled(differences: Differences | None) -> tuple[str, ...]:
    """Return the sentence about keys that several shards hold, if there are any."""
    doubled = [difference for difference in differences.named if difference.is_doubled] if differences is not None else []
    if not doubled:
        return ()
    where = " and ".join(sorted({shard for difference in doubled for shard in difference.shards}))
    what = "1 key is doubled" if len(doubled) == 1 else f"{len(doubled):,} keys are doubled"
    return (f"{what}: several shards ({where}) hold a row of it, and each row should be on one of them",)
