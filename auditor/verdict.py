"""From what a run found to its verdict, and the sentences that give its reasons."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.config import Threshold
from auditor.model import Comparison, Differences, Jaccard, Verdict

KINDS = ("missing", "extra", "changed")


def conclude(
    comparison: Comparison, differences: Differences | None, jaccard: Jaccard | None, threshold: Threshold
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict once differences were named and looked at again; without differences the comparison's own stands, or a threshold.

    The threshold is held against the row-weighted similarity and the number of differing rows. Of a method that names none only the
    bound that holds for certain counts: its estimate may be too low by chance, and a match by chance is no match.
    """
    if jaccard is None or not comparison.unequal:
        return comparison.verdict, comparison.reasons
    if differences is None:
        at_most = _at_most(comparison, jaccard.least)
        allowed = _few(comparison, at_most, threshold)
        if comparison.verdict is Verdict.MISMATCH and allowed:
            verdict = Verdict.UNKNOWN if comparison.skipped else Verdict.MATCH
            return verdict, (*comparison.reasons, f"whatever differs within these partitions, {allowed}")
        return comparison.verdict, comparison.reasons
    reasons = [*comparison.reasons[: 1 + (comparison.skipped > 0)], _named(differences), *_apart(differences)]
    estimated = differences.partitions["estimated"]
    if estimated:
        reasons.append(f"{estimated:,} partitions were estimated: {differences.why}")
    if differences.unaccounted:
        reasons.append(
            f"{differences.unaccounted:,} partitions differed in the scan, and the rows fetched of them do not account for it, so nothing"
            " is claimed of these; run it again, and report it as a defect if it says so again"
        )
    confirmed = any(getattr(differences, kind) for kind in KINDS)
    unread = comparison.skipped or differences.unaccounted
    allowed = "" if unread else _allowed(comparison, differences, jaccard, threshold)
    if not estimated and not confirmed and not (differences.unsettled and allowed):
        return _nothing_named(comparison, differences, reasons)
    if allowed:
        return Verdict.MATCH, (*reasons, allowed)
    if not confirmed and _moving(differences):
        return Verdict.UNKNOWN, (*reasons, "nothing was confirmed, and what was estimated cannot be looked at again; run it again")
    if (differences.unsettled or unread) and _may_be_allowed(comparison, differences, jaccard, threshold):
        sentence = "what is confirmed is within the threshold, and together with what is unsettled or was not compared it may be beyond"
        return Verdict.UNKNOWN, (*reasons, sentence)
    return Verdict.MISMATCH, tuple(reasons)


def in_doubt(reasons: Sequence[str], young: int, *, named: bool) -> tuple[Verdict, tuple[str, ...]]:
    """Nothing is claimed where ``young`` rows of the source that are in flight can be all that differs."""
    flight = f"{young:,} rows of the source are in flight, and their old versions in the target can be all that differs"
    then = (
        "to have them told apart, raise limits.max_rows_listed or limits.max_seconds, or run it again when fewer rows are written"
        if named
        else "to have them told apart, use the method exact, or a ladder that ends with it; or run it again when fewer rows are written"
    )
    return Verdict.UNKNOWN, (*reasons, flight, then)


def _moving(found: Differences) -> bool:
    """Whether the table is seen to change while it is audited."""
    return bool(found.unsettled or found.in_flight or found.cleared)


def _named(found: Differences) -> str:
    told = [f"{count:,} {kind}" for kind in KINDS if (count := getattr(found, kind))]
    return f"{'confirmed' if found.looks else 'named'}: {', '.join(told) or 'nothing'}"


def _apart(found: Differences) -> list[str]:
    """What was seen and is not counted as a difference, each with its reason."""
    told = (
        (found.unsettled, "rows are unsettled: still changing at the last look, or beyond limits.max_differences and not looked at"),
        (found.in_flight, "rows are in flight: younger than the watermark on the source, or without a time there that settles them"),
        (found.cleared, "rows differed in the scan and were equal when they were looked at again"),
        (found.vanished, "partitions differed in the scan and were equal when they were looked at again"),
        (found.tolerated, "rows differ within the columns' tolerances"),
    )
    return [f"{count:,} {sentence}" for count, sentence in told if count]


def _nothing_named(comparison: Comparison, found: Differences, reasons: list[str]) -> tuple[Verdict, tuple[str, ...]]:
    if found.unsettled:
        return Verdict.UNKNOWN, (*reasons, "only unsettled differences were found, so nothing is claimed; run it again")
    if comparison.skipped or found.unaccounted:
        return Verdict.UNKNOWN, tuple(reasons)
    return Verdict.MATCH, (*reasons, "every row that was compared is equal")


def _allowed(comparison: Comparison, found: Differences, jaccard: Jaccard, threshold: Threshold) -> str:
    """Why the threshold allows what differs, with all that is unsettled; nothing where it does not."""
    if threshold.score < 1 and jaccard.score.lower >= threshold.score:
        return f"the similarity {jaccard.score.value:.6g} is not below the threshold {threshold.score:g}"
    differing = sum(getattr(found, kind) for kind in KINDS) + found.unsettled
    estimated = found.partitions["estimated"]
    return _few(comparison, max(differing, _at_most(comparison, jaccard.score.lower)) if estimated else differing, threshold)


def _may_be_allowed(comparison: Comparison, found: Differences, jaccard: Jaccard, threshold: Threshold) -> bool:
    """Whether the threshold would allow what differs if all that is unsettled, or was not compared, turned out to be equal."""
    if threshold.score < 1 and jaccard.score.upper >= threshold.score:
        return True
    differing = sum(getattr(found, kind) for kind in KINDS)
    if found.partitions["estimated"]:
        differing = max(differing, _at_most(comparison, jaccard.score.upper) // 2)  # a changed row is on both sides
    return bool(_few(comparison, differing, threshold))


def _at_most(comparison: Comparison, similarity: float) -> int:
    """The most rows that can differ at that similarity or above: of T rows D = T (1 - J) / (1 + J) are on one side only."""
    whole = sum(comparison.rows.values())
    return round(whole * (1 - similarity) / (1 + similarity))


def _few(comparison: Comparison, differing: int, threshold: Threshold) -> str:
    """Why the threshold allows so many differing rows; nothing where it does not."""
    if threshold.rows is not None and differing <= threshold.rows:
        return f"{differing:,} differing rows are not more than the {threshold.rows:,} that the threshold allows"
    most = max(comparison.rows.values(), default=0)
    if threshold.share is not None and most and differing / most <= threshold.share:
        return f"{differing / most:.4%} of the rows differ, not more than the {threshold.share:.4%} that the threshold allows"
    return ""
