"""Words and numbers shared by all reports, and text from outside made safe to display."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from auditor import escaping
from auditor.compare import sampling, text_forms
from auditor.config import Threshold
from auditor.model import (
    SLICES,
    ColumnDifference,
    Difference,
    Differences,
    RangeDifference,
    Report,
    ShardResult,
    Side,
    Step,
    Suggestions,
    TopicSide,
)
from auditor.planning.proxy import Combined
from auditor.quantities import format_duration, plural

if TYPE_CHECKING:
    from auditor.api_models.run import SideProgress
    from auditor.store.runs import StoredRun

visible, sentence = escaping.visible, escaping.sentence
"""How reports write text from outside."""

MOMENT_FORMAT = "%Y-%m-%d %H:%M:%S"

EXPLANATIONS = {
    "score": "The score is the share of all rows, of both tables together, that are the same in both; 1 means all of them.",
    "interval": "The 95 % interval contains the true share in 95 of 100 such estimates; the outer bounds are certain.",
    "exact": "Every difference was found and counted, so the score is exact.",
    "published": "The published score is an average over partitions: 1 for an equal one, the share of equal minhashes for any other.",
    "coverage": "The share of the table's rows that the verdict speaks for. Rows that were not compared never count as equal.",
    "verified": "Everything that the source held up to this moment was found equal in the target.",
    "within": "Up to this moment the target was equal to the source, or differed no more than the audit allows.",
    "aligned": "Source and target were read at this position of the source's log: nothing was in flight, and every difference is real.",
    "proved": "What the source's log does not say is found by a scan of the source alone: what is later than that scan rests on the log.",
    "as_of": "The moment whose data the dump between source and target holds.",
    "watermark": "Rows from this moment on were left out on both sides, because they may still be in flight.",
}
"""Explanations that pages show below a figure, by the figure's name."""


def value(text: str) -> str:
    """Return a value made visible, in quotes if it is empty, begins or ends with a blank, or would pass for NULL or for such a text."""
    looks_as_meant = text and text == text.strip(" ") and not text_forms.passes_for_null(text)
    return visible(text) if looks_as_meant else f"'{visible(text)}'"


def key(texts: dict[str, str | None]) -> str:
    """Return the texts of a key's columns, in order, separated by commas."""
    return ", ".join("NULL" if text is None else value(text) for text in texts.values())


def moment(at: dt.datetime) -> str:
    """Format a moment in UTC, to the second; a naive one is taken as UTC."""
    return f"{at.astimezone(dt.UTC) if at.tzinfo else at:{MOMENT_FORMAT}} UTC"


def exact_percent(share: float) -> str:
    """Format a share between 0 and 1 as a percentage with as many digits as keep it from being rounded to 0 or 100."""
    for digits in (7, 10, 13, 17):
        text = f"{100 * share:.{digits}g}"
        if (float(text) in (0.0, 100.0)) == (share in (0.0, 1.0)):
            return f"{text} %"
    return f"{100 * share!r} %"


def score(value: float, lower: float | None, upper: float | None) -> str:
    """Format a score with its bounds, or alone if the bounds are equal or missing."""
    text = rounded(value)
    return text if lower is None or upper is None or lower == upper else f"{text} in [{rounded(lower)}, {rounded(upper)}]"


def bounds(combined: Combined) -> str:
    """Format the bounds of the score of source and target, as combined from both legs of a proxy audit."""
    lower, upper = rounded(combined.lower), rounded(combined.upper)
    return lower if lower == upper else f"between {lower} and {upper}"


def one_off(settings: str) -> str:
    """Format what marks a one-off run: the settings that differ from its audit's."""
    name = "partial run" if re.match(rf"({'|'.join(SLICES)})\b", settings) else "run with other settings"
    return f"{name} ({sentence(settings)}); the audit's status is unchanged"


def score_name(run: StoredRun) -> str:
    """Return what a run's score is: the similarity of all rows, or under the method counts, which knows none, the published score."""
    return "published score" if run.method == "counts" else "score"


def score_of(run: StoredRun) -> str:
    """Format the score of a run that has one."""
    return score(run.score or 0.0, run.lower, run.upper)


def verified(through: dt.datetime | None, within: dt.datetime | None) -> list[str]:
    """Return up to when everything was seen equal, and equal or within the threshold, a line each as far as there is one."""
    verified_through = (("verified through", through), ("within threshold through", within))
    return [f"{words} {moment(at)}" for words, at in verified_through if at]


MOST_PARTITIONS = 8
"""Partitions of a topic whose offsets a report for people lists; the JSON has all."""


def topic(read: TopicSide) -> str:
    """Return what was read of a topic: messages, rows, and the offsets of its partitions."""
    parts = [f"{part.partition} from {part.begin:,} to {part.end:,}" for part in read.partitions[:MOST_PARTITIONS]]
    more = len(read.partitions) - MOST_PARTITIONS
    parts += [f"and {plural(more, 'more partition')}"] if more > 0 else []
    what = f"the latest of {plural(read.messages, 'message')} for each key, {rows(read.rows)}"
    return f"{read.label} ({read.id}): {what}; offsets by partition: {', '.join(parts)}"


def aligned(report: Report) -> tuple[str, str] | None:
    """Return ``aligned`` with where both sides were read and how that is known, or ``not aligned`` with the reason; None if neither."""
    if alignment := report.aligned:
        pipelines = "pipelines" if report.shards else "pipeline"
        hold = f"the {pipelines} {alignment.pipeline} held the target's table still for {alignment.held_seconds:.2f} s"
        if "target" in report.topics:
            hold = f"the topic was read up to there, by the positions that the pipeline {alignment.pipeline} gives its messages"
        return "aligned", sentence(f"at {alignment.position} ({moment(alignment.time)}): {alignment.way}; {hold}")
    return ("not aligned", sentence(report.not_aligned)) if report.not_aligned else None


def has_score(run: StoredRun) -> bool:
    """Return whether the run has a score with bounds narrower than [0, 1]."""
    return run.score is not None and (run.lower, run.upper) != (0.0, 1.0)


def scope(report: Report) -> str:
    """Return which rows a report is about: its slice, or all rows."""
    return f"the {report.slice}" if report.slice else "all rows"


def similarity(share: float | None, error: float | None) -> str:
    """Format how similar a partition is, with its error if it is an estimate: ``0.75 ± 0.5``; empty if it is not known."""
    if share is None:
        return ""
    return f"{share:.4g}" + (f" ± {error:.2g}" if error is not None else "")


def rows(count: int) -> str:
    """Format a number of rows."""
    return plural(count, "row")


def only_in(count: int, side: Side) -> str:
    """Format a number of rows that one side alone has."""
    return f"{rows(count)}, only in the {side}"


COPIES = {"bootstrap": " (copies the table again)", "range bootstrap": " (copies the range again)"}
"""What a suggestion does whose command does not say it."""


def suggestion_lines(suggestions: Suggestions) -> list[str]:
    """Return a line for each way to repair a target, with its command and what it costs; the suggested one first, with the reason."""
    lines = []
    for index, suggestion in enumerate(suggestions.items):
        most = "at most " if suggestion.tool == "range bootstrap" else ""
        cost = f"{most}{rows(suggestion.rows)}, about {format_duration(max(1, suggestion.seconds))}"
        begin = f"{'or' if index else 'Suggested'}{COPIES.get(suggestion.tool, '')}"
        lines.append(f"{begin}: {suggestion.command} ({cost}{'' if index else f'; {suggestions.why}'})")
    return lines


def statements(progress: SideProgress) -> str:
    """Format the statement counts of one side's progress; empty before the first statement."""
    if not progress.statements and not progress.running:
        return ""
    running = f", {progress.running:,} running" if progress.running else ""
    return f"; {progress.statements:,} {'statement' if progress.statements == 1 else 'statements'} done{running}"


def deviation(share: float) -> str:
    """Format a measure's relative deviation (1.0 is 100%) as a percentage."""
    return f"{share * 100:,.4g}%" if share < 1e6 else f"{share * 100:.3e}%"


def rounded(share: float) -> str:
    """Format a share between 0 and 1 with as many digits as keep it from being rounded to 0 or 1."""
    for digits in (6, 9, 12, 17):
        text = f"{share:.{digits}g}"
        if (float(text) in (0.0, 1.0)) == (share in (0.0, 1.0)):
            return text
    return repr(share)


def percent(share: float) -> str:
    """Format a share between 0 and 1 as a percentage; only exactly 1 becomes 100%."""
    return "100%" if share == 1 else f"{min(share, 0.9999):.2%}"


def threshold(threshold: Threshold) -> str:
    """Describe which differences an audit allows."""
    allowed = [f"a score of {threshold.score:g}"] if threshold.score < 1 else []
    allowed += [f"{threshold.rows:,} differing rows"] if threshold.rows is not None else []
    allowed += [f"{threshold.share:.4%} differing rows"] if threshold.share is not None else []
    return f"allowed: {' or '.join(allowed)}" if allowed else "no difference is allowed"


def counts_by_kind(differences: Differences) -> str:
    """Format how many rows are missing, extra and changed, without the zeros."""
    counts = [f"{count:,} {kind}" for kind in ("missing", "extra", "changed") if (count := getattr(differences, kind))]
    return ", ".join(counts) or "none"


def sides(source: str | None, target: str | None, reason: str) -> tuple[str | None, str | None]:
    """Return a column's two values to show: those that look the same for this reason with the characters escaped in which they differ."""
    if reason not in (text_forms.UNICODE_FORM, text_forms.LOOK_ALIKE) or source is None or target is None:
        return source, target
    return text_forms.escape(source, target), text_forms.escape(target, source)


def column_name(column: ColumnDifference) -> str:
    """Return the name of a column that differs, with the reason if its values look the same."""
    return f"{column.name} ({column.reason})" if column.reason else column.name


def examples(named: Sequence[Difference], most: int) -> list[Difference]:
    """Return up to ``most`` named differences to show, a sample of more; changed rows rather with their columns."""
    told = [difference for difference in named if difference.columns or difference.kind != "changed"]
    return sampling.examples(told if len(told) >= most else named, most)


def more(differences: Differences, most: int) -> str:
    """Return how many of the listed ranges and rows are not among the ``most`` of each that are shown; empty if all are."""
    ranges, named = (max(0, len(listed) - most) for listed in (differences.ranges, differences.named))
    if not ranges + named:
        return ""
    sample = "; those shown are a sample: the first keys, and evenly of the rest" if named else ""
    return f"{ranges + named:,} more {'difference' if ranges + named == 1 else 'differences'}{sample}"


def with_examples(differences: Differences, most: int) -> Differences:
    """Return the differences with no more named ones than are shown."""
    return replace(differences, named=tuple(examples(differences.named, most)))


def kind(difference: Difference | RangeDifference) -> str:
    """Describe what kind of difference it is: unsettled or not, and of a source of several shards in which."""
    words = [difference.kind, *(["unsettled"] if difference.state == "unsettled" else [])]
    if isinstance(difference, Difference) and difference.is_doubled:
        words.append("doubled")
    return ", ".join(words) + (f" ({sentence(' and '.join(difference.shards))})" if difference.shards else "")


def shard(result: ShardResult) -> str:
    """Describe a shard of the source on one line: its verdict, its rows, and which of them the target does not hold."""
    size = "" if result.rows is None else f", {rows(result.rows)}"
    counts = [f"{count:,} {name}" for name in ("missing", "changed", "doubled") if (count := getattr(result, name))]
    lost = f"; {result.snapshots_lost:,} of its snapshots were lost" if result.snapshots_lost else ""
    at = f"; aligned at {sentence(result.aligned.position)}" if result.aligned else ""
    return f"shard {sentence(result.label)}: {result.verdict.value}{size}{': ' + ', '.join(counts) if counts else ''}{lost}{at}"


def not_counted(differences: Differences) -> str:
    """Format how many rows differed but do not count as differences, by reason; empty if there are none."""
    words = {"unsettled": "unsettled", "in_flight": "in flight", "cleared": "equal on recheck", "tolerated": "within tolerances"}
    counts = [f"{count:,} {word}" for name, word in words.items() if (count := getattr(differences, name))]
    rechecks = f" ({differences.looks:,} {'recheck' if differences.looks == 1 else 'rechecks'})" if differences.looks else ""
    return ", ".join(counts) + rechecks if counts else ""


def step(step: Step) -> str:
    """Describe one level of a ladder on one line."""
    why = f": {sentence('; '.join(step.reasons))}" if step.reasons else ""
    return f"{step.method}: {step.verdict.value} after {step.seconds:.2f} s{why}"


def notes(report: Report) -> list[str]:
    """Return the notes of a run, without those that repeat its schema changes."""
    return [sentence(note) for note in report.notes if not note.startswith("schema: ")]


def hidden(report: Report) -> list[str]:
    """Return what the servers may have hidden from a run, one sentence each."""
    return [sentence(str(levelling)) for levelling in (report.plan.not_compared if report.plan else ()) if levelling.how == "hidden"]


def snapshot_note(report: Report) -> str:
    """Return a warning if each chunk was read in its own snapshot; otherwise an empty text."""
    per_chunk = report.plan is not None and report.plan.snapshot == "per_chunk"
    return "each chunk was read in its own snapshot; there was none of the whole table" if per_chunk else ""


def resume_hint(report: Report) -> str:
    """Return how to resume the run; empty if it cannot be resumed."""
    return f"resume with: {escaping.command('auditor', 'resume', report.run)}" if report.resumable else ""
