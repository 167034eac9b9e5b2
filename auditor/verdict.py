"""From what a run found to its verdict, and the sentences that give its reasons."""

from __future__ import annotations

from auditor.config import Threshold
from auditor.model import Comparison, Differences, Jaccard, Verdict

KINDS = ("missing", "extra", "changed")


def conclude(
    comparison: Comparison, differences: Differences | None, jaccard: Jaccard | None, threshold: Threshold
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict once differences were named and looked at again; without differences the comparison's own stands.

    The threshold is held against the row-weighted similarity and the number of differing rows.
    """
    if differences is None or jaccard is None or not comparison.unequal:
        return comparison.verdict, comparison.reasons
    reasons = [*comparison.reasons[: 1 + (comparison.skipped > 0)], _named(differences), *_apart(differences)]
    estimated = differences.partitions["estimated"]
    if estimated:
        reasons.append(f"{estimated:,} partitions were estimated: {differences.why}")
    if not estimated and not any(getattr(differences, kind) for kind in KINDS):
        return _nothing_named(comparison, differences, reasons)
    if not any(getattr(differences, kind) for kind in KINDS) and _moving(differences):
        return Verdict.UNKNOWN, (*reasons, "nothing was confirmed, and what was estimated cannot be looked at again; run it again")
    allowed = _allowed(comparison, differences, jaccard, threshold)
    if allowed and not comparison.skipped and not differences.unsettled:
        return Verdict.MATCH, (*reasons, allowed)
    return Verdict.MISMATCH, tuple(reasons)


def _moving(found: Differences) -> bool:
    """Whether the table is seen to change while it is audited."""
    return bool(found.unsettled or found.in_flight or found.cleared)


def _named(found: Differences) -> str:
    told = [f"{count:,} {kind}" for kind in KINDS if (count := getattr(found, kind))]
    return f"{'confirmed' if found.looks else 'named'}: {', '.join(told) or 'nothing'}"


def _apart(found: Differences) -> list[str]:
    """What was seen and is not counted as a difference, each with its reason."""
    told = (
        (
            found.unsettled,
            "rows are unsettled: still changing at the last look, or too many to be looked at",
        ),
        (found.in_flight, "rows are in flight: younger than the watermark on one side"),
        (found.cleared, "rows differed in the scan and were equal when they were looked at again"),
        (found.vanished, "partitions differed in the scan and were equal when they were looked at again"),
        (found.tolerated, "rows differ within the columns' tolerances"),
    )
    return [f"{count:,} {sentence}" for count, sentence in told if count]


def _nothing_named(comparison: Comparison, found: Differences, reasons: list[str]) -> tuple[Verdict, tuple[str, ...]]:
    if found.unsettled:
        return Verdict.UNKNOWN, (*reasons, "only unsettled differences were found, so nothing is claimed; run it again")
    if comparison.skipped:
        return Verdict.UNKNOWN, tuple(reasons)
    return Verdict.MATCH, (*reasons, "every row that was compared is equal")


def _allowed(comparison: Comparison, found: Differences, jaccard: Jaccard, threshold: Threshold) -> str:
    """Why the threshold allows what differs; nothing where it does not."""
    if threshold.score < 1 and jaccard.score.lower >= threshold.score:
        return f"the similarity {jaccard.score.value:.6g} is not below the threshold {threshold.score:g}"
    whole = sum(comparison.rows.values())
    lower = jaccard.score.lower
    differing = sum(getattr(found, kind) for kind in KINDS)
    at_most = max(differing, round(whole * (1 - lower) / (1 + lower))) if found.partitions["estimated"] else differing
    if threshold.rows is not None and at_most <= threshold.rows:
        return f"{at_most:,} differing rows are not more than the {threshold.rows:,} that the threshold allows"
    most = max(comparison.rows.values(), default=0)
    if threshold.share is not None and most and at_most / most <= threshold.share:
        return f"{at_most / most:.4%} of the rows differ, not more than the {threshold.share:.4%} that the threshold allows"
    return ""
