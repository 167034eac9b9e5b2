"""Derive a run's verdict from its comparison, its differences and its threshold, with sentences that give the reasons.

A threshold allows the differences where even the certain bound is within it. It is exceeded where the 95 % bound lies beyond it. In
between nothing is claimed. D rows that are on one side only are at most D differing rows, and at least (D + gap) / 2, where gap is the
difference of both sides' row counts: a changed row is on both sides, and a missing or extra one widens the gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.config import Allowed, Threshold
from auditor.escaping import visible
from auditor.model import Comparison, Difference, Differences, HistoryCheck, Jaccard, Verdict
from auditor.quantities import plural

KINDS = ("missing", "extra", "changed")

COLUMNS = "columns that differ most often"
"""How the sentence on the columns that differ begins."""

MAX_COLUMNS = 5
"""Columns that the reasons name."""

MAX_STORY_COLUMNS = 3
"""Columns that the first sentence names."""

MAX_CAUSES = 3
"""Wrong rows of which the reasons say what a history tells."""

MAX_KEY = 80
"""Characters of each column of their keys."""

ROUNDING = 1e-6
"""More than what is lost where a number of rows becomes a similarity and a number again."""


def conclude(
    comparison: Comparison,
    differences: Differences | None,
    jaccard: Jaccard | None,
    threshold: Threshold,
    documents: Sequence[str] = (),
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict of a run with its reasons.

    ``differences`` are those that were named and rechecked; None for a method that names none. `judge_threshold` compares the threshold
    with the similarity and with the number of differing rows; rows that were not compared are never allowed by it. ``documents`` are the
    columns of which unequal texts may be equal JSON documents: rows that were not fetched may differ in nothing else.
    """
    if jaccard is None or not comparison.unequal:
        return comparison.verdict, comparison.reasons
    if differences is None:
        return _doubt_documents(comparison, documents, *_conclude_unnamed(comparison, jaccard, threshold))
    reasons = [
        count_sentence(comparison, differences) or f"no difference was {'confirmed' if differences.looks else 'named'}",
        *_listed_sentences(differences),
        *_column_sentences(differences),
        *comparison.reasons[: comparison.skipped > 0],
    ]
    reasons += _wrong_sentences(differences)
    reasons += _uncounted_sentences(differences)
    estimated = differences.partitions["estimated"]
    if estimated:
        reasons.append(f"{plural(estimated, 'partition was', 'partitions were')} estimated: {differences.why}")
    elif differences.why:
        reasons.append(differences.why)
    if differences.unaccounted:
        reasons.append(
            f"{plural(differences.unaccounted, 'partition', 'partitions')} differed in the scan, and the rows fetched do not"
            " account for it, so nothing is claimed about them; run the audit again, and report a bug if this repeats"
        )
    confirmed = any(getattr(differences, kind) for kind in KINDS)
    unread, undecided = comparison.skipped or differences.unaccounted, differences.unsettled or differences.undecided
    judged = judge_threshold(threshold, compute_bounds(comparison, jaccard, differences))
    allowed = judged.verdict is Verdict.MATCH and not unread
    if not estimated and not confirmed and not (undecided and allowed):
        return _conclude_without_differences(comparison, differences, reasons)
    if allowed:
        return Verdict.MATCH, (*reasons, *judged.reasons, *_warnings(threshold, compute_bounds(comparison, jaccard, differences)))
    if not confirmed and documents:
        return _doubt_documents(comparison, documents, judged.verdict, (*reasons, *judged.reasons))
    if not confirmed and _is_changing(differences):
        return Verdict.UNKNOWN, (*reasons, "no difference was confirmed, and estimated partitions cannot be rechecked; run the audit again")
    if judged.verdict is Verdict.MISMATCH:
        return Verdict.MISMATCH, (*reasons, *judged.reasons)
    if undecided or unread:
        sentence = "confirmed differences are within the threshold, but with unsettled or uncompared rows they may exceed it"
        return Verdict.UNKNOWN, (*reasons, *judged.reasons, sentence)
    return Verdict.UNKNOWN, (*reasons, *judged.reasons)


def _doubt_documents(
    comparison: Comparison, documents: Sequence[str], verdict: Verdict, reasons: Sequence[str]
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict with its reasons, unknown if every row that differs may do so in how documents are written alone."""
    counts = comparison.rows.values()
    if verdict is not Verdict.MISMATCH or not documents or min(counts) != max(counts):
        return verdict, tuple(reasons)
    sentence = (
        f"rows that were not fetched may differ in nothing but how the JSON documents of {', '.join(documents)} are written, which were not"
        " compared by their values; use the method exact with larger limits.max_rows_listed and limits.max_seconds, leave these columns out"
        " (columns: exclude), or compare them as text (json: text)"
    )
    return Verdict.UNKNOWN, (*reasons, sentence)


def _conclude_unnamed(comparison: Comparison, similar: Jaccard, threshold: Threshold) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict of a method that names no rows, some of which differ."""
    bounds = compute_bounds(comparison, similar)
    judged = judge_threshold(threshold, bounds)
    verdict = Verdict.UNKNOWN if comparison.skipped and judged.verdict is Verdict.MATCH else judged.verdict
    warnings = _warnings(threshold, bounds) if verdict is Verdict.MATCH else []
    return verdict, (*comparison.reasons, *judged.reasons, *warnings)


def unknown_in_flight(reasons: Sequence[str], young: int, *, named: bool) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict unknown for a mismatch that ``young`` rows of the source, which are in flight, may explain alone.

    ``named`` says whether the method names rows, which decides what the reasons suggest.
    """
    rows = plural(young, "row of the source is", "rows of the source are")
    explanation = f"{rows} in flight, and old versions in the target may explain all of the difference"
    suggestion = (
        "to distinguish them, raise limits.max_rows_listed or limits.max_seconds, or run the audit again when fewer rows are written"
        if named
        else "to distinguish them, use the method exact or a ladder that ends with it, or run the audit again when fewer rows are written"
    )
    return Verdict.UNKNOWN, (*reasons, explanation, suggestion)


def unknown_unaligned(reasons: Sequence[str], why: str) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict unknown for a mismatch of a run that should have been aligned and is not: its sides were read at two moments."""
    explanation = f"the run is not aligned ({why}), so rows in flight may be all that differs"
    return Verdict.UNKNOWN, (*reasons, explanation, "to distinguish them in such runs, write settle or recheck in the audit")


def _is_changing(differences: Differences) -> bool:
    """Return whether rows changed during the run, or were looked up; whether young rows explain the rest is counted after this."""
    return bool(differences.unsettled or differences.cleared or differences.history)


def count_sentence(comparison: Comparison, differences: Differences) -> str:
    """Return how many of how many rows differ, by kind and column; empty if none is known to.

    It is the first reason of a verdict, and what every report, page and message begins with:
    ``54 of 200,000 rows differ: 50 missing, 4 changed (status)``.
    """
    counts = [(kind, count) for kind in KINDS if (count := getattr(differences, kind))]
    total = sum(count for _, count in counts)
    if not total + differences.estimated:
        return ""
    shown = three_digits(total + differences.estimated) if differences.estimated else total
    rows = max(comparison.rows["source"] + differences.extra, comparison.rows["target"] + differences.missing)
    sure = "about " if differences.estimated else "" if differences.exact else "at least "
    words = f"{sure}{shown:,} of {plural(rows, 'row')} {'differs' if shown == 1 else 'differ'}"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts)
    names = [visible(column.name) for column in differences.columns[:MAX_STORY_COLUMNS]]
    more = len(differences.columns) - len(names)
    columns = f" ({', '.join(names)}{f' and {more:,} more' if more else ''})" if names and differences.changed else ""
    return f"{words}{'; counted' if differences.estimated else ''}: {kinds}{columns}" if counts else words


def _listed_sentences(differences: Differences) -> list[str]:
    """Return how many of the rows that differ are listed, and how many changed ones were compared by column, where that is not all."""
    total = sum(getattr(differences, kind) for kind in KINDS)
    standing = [difference for difference in differences if difference.state == "confirmed"]
    listed = sum(difference.row_count if isinstance(difference, Difference) else difference.rows for difference in standing)
    sentences = [f"{listed:,} of them are listed, a sample: the first keys, and evenly of the rest"] if listed < total else []
    if differences.columns and differences.compared < differences.changed:
        sentences.append(f"{differences.compared:,} changed {'row was' if differences.compared == 1 else 'rows were'} compared by column")
    return sentences


def _column_sentences(differences: Differences) -> list[str]:
    """Return which columns differ most often, and what explains their changed values."""
    if not differences.columns:
        return []
    listed = ", ".join(f"{column.name} ({column.rows:,})" for column in differences.columns[:MAX_COLUMNS])
    more = f" and {len(differences.columns) - MAX_COLUMNS:,} more" if len(differences.columns) > MAX_COLUMNS else ""
    return [
        f"{COLUMNS}: {listed}{more}",
        *(f"{column.name}: {column.pattern}" for column in differences.columns[:MAX_COLUMNS] if column.pattern),
    ]


def three_digits(number: int) -> int:
    """Return a number rounded to three digits, as estimates are shown."""
    return int(float(f"{number:.3g}"))


def _in_flight(history: HistoryCheck | None) -> str:
    """Return what rows in flight are."""
    if history is None or history.ages is None:
        return "in flight: on the source younger than the watermark, or without a time"
    least, _, greatest = (f"{age:.1f}" for age in history.ages)
    return f"in flight, {least if least == greatest else f'{least} to {greatest}'} s old"


def _unsettled(history: HistoryCheck | None) -> str:
    """Return what unsettled rows are."""
    if history is None:
        return "unsettled: still changing at the last recheck, or beyond limits.max_differences and not rechecked"
    return f"unsettled: {history.why_untold or 'beyond limits.max_differences, or of a range with too many rows, and not looked up'}"


def _wrong_sentences(differences: Differences) -> list[str]:
    """Return what a history says of the rows that are wrong, and of the first of them."""
    history = differences.history
    if history is None:
        return []
    counts = (
        (history.foreign, "hold" if history.foreign > 1 else "holds", "what the source did not hold since its history begins"),
        (
            history.late,
            "stand" if history.late > 1 else "stands",
            f"at an older version, whose next change is more than {history.at_most:g} s old",
        ),
        (history.doubled, "are" if history.doubled > 1 else "is", "several rows of one key in the target"),
        (history.unlogged, "differ" if history.unlogged > 1 else "differs", "by what the source's log does not say"),
    )
    told = "; ".join(f"{count:,} {verb} {what}" for count, verb, what in counts if count)
    examples = [difference for difference in differences.named if difference.state == "confirmed" and difference.cause]
    return [*([f"looked up in the history: {told}"] if told else []), *(_example(one) for one in examples[:MAX_CAUSES])]


def _example(difference: Difference) -> str:
    key = ", ".join(f"{name} {'NULL' if text is None else text[:MAX_KEY]}" for name, text in difference.key.items())
    return f"{key}: {difference.cause}"


def _uncounted_sentences(differences: Differences) -> list[str]:
    """Return a sentence for each group of rows that is not counted as a difference."""
    groups = (
        (
            differences.unsettled,
            ("row is", "rows are"),
            _unsettled(differences.history),
        ),
        (differences.in_flight, ("row is", "rows are"), _in_flight(differences.history)),
        (differences.cleared, ("row", "rows"), "differed in the scan and equalled at the recheck"),
        (differences.vanished, ("partition", "partitions"), "differed in the scan and equalled when read again"),
        (
            differences.tolerated,
            ("row differs", "rows differ"),
            "within the columns' tolerances, or in nothing but how JSON documents are written",
        ),
        (
            differences.undecided,
            ("row differs", "rows differ"),
            "in the text of JSON documents whose values were not compared: masked, too long, or beyond limits.max_seconds",
        ),
    )
    return [f"{plural(count, *words)} {sentence}" for count, words, sentence in groups if count]


def _conclude_without_differences(comparison: Comparison, differences: Differences, reasons: list[str]) -> tuple[Verdict, tuple[str, ...]]:
    if differences.unsettled:
        return Verdict.UNKNOWN, (*reasons, "only unsettled differences were found, so nothing is claimed; run the audit again")
    if comparison.skipped or differences.unaccounted or differences.undecided:
        return Verdict.UNKNOWN, tuple(reasons)
    equal = "equal within the columns' tolerances and by the values of documents" if differences.tolerated else "equal"
    return Verdict.MATCH, (*reasons, f"every row that was compared is {equal}")


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


def compute_bounds(comparison: Comparison, similar: Jaccard, differences: Differences | None = None) -> Bounds:
    """Return the bounds of the similarity and of the differing rows. ``differences`` are those that were named, None if none were named.

    Unsettled rows, and rows that were not compared or whose documents were not, count as equal in what is likely, and as different in
    what is certain.
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
        counted = named + differences.unsettled + differences.undecided
        most = counted if is_known else max(counted, most)
    return Bounds(similar, fewest, most, max(counts, default=0))


def _one_sided(comparison: Comparison, similarity: float) -> float:
    """Return D = T (1 - J) / (1 + J), the rows on one side only at a similarity J of T rows on both sides together."""
    return sum(comparison.rows.values()) * (1 - similarity) / (1 + similarity)


def exceeds_warning(threshold: Threshold, known: Bounds) -> bool:
    """Return whether more differs, or may, than the threshold's ``warn`` allows; False if it has none."""
    return threshold.warn is not None and judge_threshold(threshold.warn, known).verdict is not Verdict.MATCH


def _warnings(threshold: Threshold, known: Bounds) -> list[str]:
    """Return a sentence for a match of which the channels are warned."""
    if threshold.warn is None or not exceeds_warning(threshold, known):
        return []
    limits = {"score": f"a similarity of {threshold.warn.score:g}"} if threshold.warn.score < 1 else {}
    limits |= {"rows": plural(threshold.warn.rows, "differing row", "differing rows")} if threshold.warn.rows is not None else {}
    limits |= {"share": f"{threshold.warn.share:.4%} of the rows"} if threshold.warn.share is not None else {}
    return [f"this is a warning: the level warn of the threshold allows {' or '.join(limits.values()) or 'no difference'}"]


def judge_threshold(threshold: Allowed, known: Bounds) -> Judgement:
    """Return what the threshold says. Its criteria are alternatives: one that allows the differences suffices."""
    judged = [judgement for criterion in (_by_score, _by_rows, _by_share) if (judgement := criterion(threshold, known))]
    if not judged:  # nothing is allowed to differ
        return Judgement(Verdict.MISMATCH)
    for verdict in (Verdict.MATCH, Verdict.UNKNOWN):
        if chosen := [judgement for judgement in judged if judgement.verdict is verdict]:
            return Judgement(verdict, tuple(reason for judgement in chosen for reason in judgement.reasons))
    return Judgement(Verdict.MISMATCH, tuple(reason for judgement in judged for reason in judgement.reasons))


def _by_score(threshold: Allowed, known: Bounds) -> Judgement | None:
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


def _by_rows(threshold: Allowed, known: Bounds) -> Judgement | None:
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


def _by_share(threshold: Allowed, known: Bounds) -> Judgement | None:
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
