"""Compare an audit's threshold with what is certain, and what is likely, of a run's similarity and of its differing rows.

A threshold allows the differences where even the certain bound is within it. It is exceeded where the 95 % bound lies beyond it. In
between nothing is claimed. D rows that are on one side only are at most D differing rows, and at least (D + gap) / 2, where gap is the
difference of both sides' row counts: a changed row is on both sides, and a missing or extra one widens the gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from auditor.config import Threshold
from auditor.model import Comparison, Differences, Jaccard, Verdict

ROUNDING = 1e-6
"""More than what is lost where a number of rows becomes a similarity and a number again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a run in which something differs."""

    similar: Jaccard
    """The similarity."""
    fewest: int
    """The 95 % lower bound of the differing rows, as a whole number; exact if all of them were named."""
    most: int
    """The certain upper bound of the differing rows."""
    rows: int
    """Rows of the side that has more."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a threshold says of a run: match if it allows the differences, mismatch if they exceed it, else unknown; with the numbers."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def bounds(comparison: Comparison, similar: Jaccard, differences: Differences | None = None) -> Bounds:
    """Return the bounds of the similarity and of the differing rows. ``differences`` are those that were named, None if none were named.

    Unsettled rows and rows that were not compared count as equal in what is likely, and as different in what is certain.
    """
    counts = comparison.rows.values()
    gap = max(counts, default=0) - min(counts, default=0)
    fewest = math.ceil((_one_sided(comparison, similar.score.upper) + gap) / 2 - ROUNDING)
    most = round(_one_sided(comparison, similar.least))
    if differences is not None:
        named = differences.missing + differences.extra + differences.changed
        estimated = differences.partitions["estimated"] > 0
        fewest = max(named, fewest) if estimated else named
        is_known = not (estimated or comparison.skipped or differences.unaccounted)
        most = named + differences.unsettled if is_known else max(named + differences.unsettled, most)
    return Bounds(similar, fewest, most, max(counts, default=0))


def _one_sided(comparison: Comparison, similarity: float) -> float:
    """Return D = T (1 - J) / (1 + J), the rows on one side only at a similarity J of T rows on both sides together."""
    return sum(comparison.rows.values()) * (1 - similarity) / (1 + similarity)


def judge(threshold: Threshold, known: Bounds) -> Judgement:
    """Return what the threshold says. Its criteria are alternatives: one that allows the differences suffices."""
    judged = [judgement for criterion in (_by_score, _by_rows, _by_share) if (judgement := criterion(threshold, known))]
    if not judged:  # nothing is allowed to differ
        return Judgement(Verdict.MISMATCH)
    for verdict in (Verdict.MATCH, Verdict.UNKNOWN):
        if chosen := [judgement for judgement in judged if judgement.verdict is verdict]:
            return Judgement(verdict, tuple(reason for judgement in chosen for reason in judgement.reasons))
    return Judgement(Verdict.MISMATCH, tuple(reason for judgement in judged for reason in judgement.reasons))


def _by_score(threshold: Threshold, known: Bounds) -> Judgement | None:
    if threshold.score == 1:
        return None
    least, upper = known.similar.least, known.similar.score.upper
    if least >= threshold.score:
        number = f"{least:.6g}" if least == upper else f"at least {least:.6g}"
        return Judgement(Verdict.MATCH, (f"the similarity is {number}, not below the threshold {threshold.score:g}",))
    if upper < threshold.score:
        number = f"{upper:.6g}" if least == upper else f"at most {upper:.6g}, at 95 % confidence"
        return Judgement(Verdict.MISMATCH, (f"the similarity is {number}, below the threshold {threshold.score:g}",))
    between = f"certainly at least {least:.6g}, and at most {upper:.6g} at 95 % confidence"
    return Judgement(Verdict.UNKNOWN, (f"the similarity is {between}, so the threshold {threshold.score:g} is undecided",))


def _by_rows(threshold: Threshold, known: Bounds) -> Judgement | None:
    if threshold.rows is None:
        return None
    exact = known.fewest == known.most
    allowed = f"the {threshold.rows:,} that the threshold allows"
    if known.most <= threshold.rows:
        return Judgement(Verdict.MATCH, (f"{'' if exact else 'at most '}{known.most:,} differing rows are not more than {allowed}",))
    if known.fewest > threshold.rows:
        number = f"{known.fewest:,} differing rows" if exact else f"at least {known.fewest:,} differing rows, at 95 % confidence,"
        return Judgement(Verdict.MISMATCH, (f"{number} are more than {allowed}",))
    sentence = f"between {known.fewest:,} and {known.most:,} rows differ, so whether they are more than {allowed} is undecided"
    return Judgement(Verdict.UNKNOWN, (sentence,))


def _by_share(threshold: Threshold, known: Bounds) -> Judgement | None:
    if threshold.share is None or not known.rows:
        return None
    fewest, most, exact = known.fewest / known.rows, known.most / known.rows, known.fewest == known.most
    allowed = f"the {threshold.share:.4%} that the threshold allows"
    if most <= threshold.share:
        return Judgement(Verdict.MATCH, (f"{'' if exact else 'at most '}{most:.4%} of the rows differ, not more than {allowed}",))
    if fewest > threshold.share:
        number = f"{fewest:.4%}" if exact else f"at least {fewest:.4%}, at 95 % confidence,"
        return Judgement(Verdict.MISMATCH, (f"{number} of the rows differ, more than {allowed}",))
    sentence = f"between {fewest:.4%} and {most:.4%} of the rows differ, so whether they are more than {allowed} is undecided"
    return Judgement(Verdict.UNKNOWN, (sentence,))
