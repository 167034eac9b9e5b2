"""The sentences and figures of a run's report, in the order in which people read them: outcome, certainty, next steps, evidence, method.

Each renderer draws them; what they say, and in which order, is decided here alone. The reasons of a verdict are worded in
`auditor/compare/verdict.py`, and the fields of the report as JSON are in `auditor/api_models/report.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.compare.verdict import COLUMNS, count_sentence
from auditor.model import SIDES, Comparison, FilesExpected, FilesRead, Jaccard, LiveCheck, NotCompared, Report, Verdict
from auditor.quantities import format_size, plural
from auditor.report import formatting

LEVELLED = ("rounded", "cut", "padded", "folded", "ignored")
"""Ways in which different values come to count as equal."""

PRESCAN = "pre-scan: "
"""Beginning of the note about a pre-scan, which says nothing of the result."""

MAX_LOST = 20
"""Rows that the stream lost which a report for people lists; the JSON has more."""

LOST = {"missing": "a row that it never had", "extra": "the end of a row", "changed": "a change of a row"}
"""What the stream lost, by the kind of the difference between the source and the stream."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A named value with what belongs to it, such as the similarity of both tables: ``99.971 %``, ``of all rows are in both tables``."""

    name: str
    value: str
    note: str = ""
    term: str = ""
    """The term that explains it, in the help of pages and in `formatting.EXPLANATIONS`; empty if it explains itself."""

    def __str__(self) -> str:
        return f"{self.value} {self.note}".strip()


@dataclass(frozen=True, slots=True)
class Sentences:
    """What a report says, without its tables. The table of differences belongs to the outcome."""

    headline: str
    """How many of how many rows differ, by kind and column, and whether the audit allows that; empty if none is known to."""
    notice: str
    """That the run had other settings than its audit; empty if it had not."""
    outcome: tuple[str, ...]
    """The run's reasons, and what else is not as expected."""
    certainty: tuple[Figure, ...]
    """How sure the outcome is: the similarity with its bounds, the coverage, and the rows that were not counted."""
    set_aside: tuple[Figure, ...]
    """What the comparison did not see: values treated as equal, what was not compared, and what is assumed."""
    next_steps: tuple[str, ...]
    """Commands to run next, the suggested one first."""
    evidence: tuple[Figure, ...]
    """What was compared, and as of when."""
    tried: tuple[str, ...]
    """Cheaper methods that were tried first."""
    notes: tuple[str, ...]
    """Notes about how the tables were read."""
    details: tuple[str, ...]
    """Further notes, for reports that show everything."""


def build_sentences(report: Report) -> Sentences:
    """Return what is said in a report whose masked values were redacted."""
    notes = formatting.notes(report)
    return Sentences(
        headline=tell_story(report),
        notice=formatting.one_off(report.other_settings) if report.other_settings else "",
        outcome=tuple(map(formatting.sentence, _outcome(report))),
        certainty=tuple(_certainty(report)),
        set_aside=tuple(set_aside(report)),
        next_steps=tuple(_next_steps(report)),
        evidence=tuple(_evidence(report)),
        tried=tuple(formatting.sentence(f"tried before: {formatting.step(step)}") for step in report.steps),
        notes=tuple(note for note in notes if not note.startswith(PRESCAN)),
        details=(
            *(note for note in notes if note.startswith(PRESCAN)),
            *(formatting.sentence(note) for note in (report.plan.notes if report.plan else ())),
        ),
    )


def tell_story(report: Report) -> str:
    """Return the whole story in a line: ``54 of 200,000 rows differ: 50 missing, 4 changed (status)``."""
    counted = count_sentence(report.comparison, report.differences) if report.comparison and report.differences is not None else ""
    return "; ".join(filter(None, (counted, "within the threshold" if report.within_threshold else "")))


def _outcome(report: Report) -> Iterator[str]:
    yield from (reason for reason in report.reasons if not is_in_headline(reason, report))
    yield from (f"schema changed: {change}" for change in report.schema_changes)
    yield from lost_lines(report.live) if report.live else ()


def is_in_headline(reason: str, report: Report) -> bool:
    """Return whether a reason says no more than the headline does."""
    if report.comparison is None or report.differences is None:
        return False
    return repeats_story(reason, report) or reason == count_sentence(report.comparison, report.differences)


def repeats_story(reason: str, report: Report) -> bool:
    """Return whether a reason counts the rows by column where the sentence before it has named the one column in which they differ."""
    differences = report.differences
    if differences is None or len(differences.columns) != 1 or differences.estimated:
        return False
    return reason.startswith(f"{COLUMNS}: ") and differences.columns[0].rows == differences.changed


def _certainty(report: Report) -> Iterator[Figure]:
    comparison = report.comparison
    if report.jaccard:
        yield _similarity(report.jaccard, formatting.scope(report))
    if comparison and (comparison.skipped or report.covered < 1 or report.slice):
        skipped = f"; {plural(comparison.skipped, 'partition')} could not be compared" if comparison.skipped else ""
        yield Figure("coverage", formatting.percent(report.coverage["rows"]), f"of {formatting.scope(report)}{skipped}", "coverage")
    if report.differences is not None and (not_counted := formatting.not_counted(report.differences)):
        yield Figure("not counted", "", not_counted)
    if note := formatting.snapshot_note(report):
        yield Figure("snapshot", "", note)


def _similarity(jaccard: Jaccard, scope: str) -> Figure:
    """Describe the share of rows that are in both tables: one number if it is exact, otherwise with its 95 % interval and its bounds."""
    score = jaccard.score
    if jaccard.least == jaccard.most == 1:
        return Figure("similarity", "1", f"({scope} are in both tables)", "score")
    share, what = formatting.exact_percent(score.value), f"of {scope} are in both tables"
    if jaccard.least == jaccard.most:
        return Figure("similarity", share, f"{what} (exact)", "score")
    low, high, least, most = map(formatting.exact_percent, (score.lower, score.upper, jaccard.least, jaccard.most))
    return Figure("similarity", share, f"{what} (95 % interval {low} to {high}, certainly {least} to {most})", "score")


def set_aside(report: Report) -> Iterator[Figure]:
    """Yield what the comparison did not see: values treated as equal, then what was not compared, then what is assumed."""
    names = ("treated as equal", "not compared", "assumed")
    levellings = [(name_of(levelling), levelling) for levelling in (report.plan.not_compared if report.plan else ())]
    for name, levelling in sorted(levellings, key=lambda named: names.index(named[0])):
        yield Figure(name, "", formatting.sentence(str(levelling)))


def name_of(levelling: NotCompared) -> str:
    """Return the word under which it stands that a comparison does not see something."""
    return "treated as equal" if levelling.how in LEVELLED else "assumed" if levelling.how == "assumed" else "not compared"


def _next_steps(report: Report) -> Iterator[str]:
    if report.resumable:
        yield formatting.resume_hint(report)
    yield from map(formatting.sentence, formatting.suggestion_lines(report.suggestions) if report.suggestions else ())


def _evidence(report: Report) -> Iterator[Figure]:
    comparison = report.comparison
    if comparison:
        source, target = (f"{comparison.rows[side]:,}" for side in SIDES)
        yield Figure("rows", source, "in each table" if source == target else f"in the source, {target} in the target", "rows")
        yield Figure("partitions", *_partitions(comparison), "partition")
        if score := comparison.published:
            between = "" if score.lower == score.upper else f"between {score.lower:.6g} and {score.upper:.6g}"
            yield Figure("published score", f"{score.value:.6g}", between, "published")
    if report.verified_through:
        yield Figure("verified", f"everything up to {formatting.moment(report.verified_through)}", "", "verified")
    if report.within_threshold_through:
        yield Figure("within threshold", f"everything up to {formatting.moment(report.within_threshold_through)}", "", "within")
    if report.plan and report.plan.watermark:
        watermark = formatting.visible(report.plan.watermark)
        yield Figure("watermark", f"{watermark} UTC", "(younger rows were left out on both sides)", "watermark")
    if report.plan:
        yield from (Figure(f"{side} query", "", formatting.sentence(query)) for side, query in report.plan.queries.items())
    yield from (Figure(f"{side} topic", "", formatting.sentence(formatting.topic(topic))) for side, topic in report.topics.items())
    if alignment := formatting.aligned(report):
        yield Figure(alignment[0], "", alignment[1], "aligned" if report.aligned else "")
    yield from (Figure(name, "", text, name) for name, text in live_lines(report))
    yield from (Figure(name, "", text, "files") for name, text in file_lines(report))
    if report.as_of:
        yield Figure("dump", f"as of {formatting.moment(report.as_of)}", "", "as_of")
    if report.reason:
        yield Figure("reason", "", formatting.sentence(report.reason))


def _partitions(comparison: Comparison) -> tuple[str, str]:
    if not comparison.unequal + comparison.skipped:
        return f"{comparison.total:,}", "equal" if comparison.total == 1 else "all equal"
    only = [f"{count:,} only in the {side}" for side in SIDES if (count := getattr(comparison, f"{side}_only"))]
    differ = f"{comparison.unequal:,} {'differs' if comparison.unequal == 1 else 'differ'}"
    return f"{comparison.equal:,}", ", ".join([f"of {comparison.total:,} equal", differ, *only])


def live_lines(report: Report) -> list[tuple[str, str]]:
    """Return what a report says of live summaries: as of where the target equals the stream, and when the source last proved the stream.

    Each line has a word in front. There are none without live summaries.
    """
    live_check = report.live
    if live_check is None:
        return []
    proved = f"against the source up to {formatting.moment(live_check.proved)}, at {live_check.proved_place}"
    since = f"since {formatting.moment(live_check.began)}, from {live_check.began_place} on"
    kept = f"the pipeline {live_check.pipeline} keeps the source's summaries {since}"
    texts = (("stream", _compared_with_stream(report, live_check)), ("proved", f"{proved}; {kept}"))
    return [(name, formatting.sentence(text)) for name, text in texts]


def _compared_with_stream(report: Report, live_check: LiveCheck) -> str:
    at = f"{live_check.place} ({formatting.moment(live_check.time)})" if live_check.time else live_check.place
    if live_check.scanned:
        return f"the source was scanned at {at}: {live_check.scanned}"
    says = "equals the stream" if report.verdict is Verdict.MATCH and not report.within_threshold else "was compared with the stream"
    moved = f"; {formatting.rows(live_check.moved)} that differed had changed in the source since" if live_check.moved else ""
    return f"the target {says} as of {at}; the source was not scanned{moved}"


def file_lines(report: Report) -> list[tuple[str, str]]:
    """Return what was read of each side that consists of files, and on what the sums of the other files rest; each with a word in front."""
    return [(f"{side} files", formatting.sentence(_files_read(read))) for side, read in report.files.items()]


def files_expected(files: FilesExpected) -> str:
    """Return what a run is expected to read of a side that consists of files."""
    sizes = f"{format_size(files.new_bytes)} of {format_size(files.bytes)}"
    count = f"{files.new:,} of {files.files:,} {'file is' if files.files == 1 else 'files are'} to be read"
    deleted = f", {files.hidden:,} more for rows that deletes hide" if files.hidden else ""
    return f"{count}{deleted} ({sizes}){f': {files.why}' if files.why else ''}"


def _files_read(read: FilesRead) -> str:
    sizes = f"{format_size(read.read_bytes)} of {format_size(read.bytes)}"
    count = f"{read.read:,} of {read.files:,} {'file was' if read.files == 1 else 'files were'} read"
    deleted = f", {read.hidden:,} more for rows that deletes hide" if read.hidden else ""
    why = f": {read.why}" if read.why else ""
    damaged = f"; kept sums of {read.damaged:,} were damaged" if read.damaged else ""
    rests = f"; {read.trusts}, and all were last read at {formatting.moment(read.since)}" if read.since and read.read < read.files else ""
    return f"{count}{deleted} ({sizes}){why}{damaged}{rests}{f'; {read.state}' if read.state else ''}"


def lost_lines(live_check: LiveCheck) -> list[str]:
    """Return what the stream lost, a line each, the first ones."""
    named = [f"the stream lost this: {LOST[row.kind]}, {formatting.key(row.key)}" for row in live_check.lost[:MAX_LOST]]
    more = len(live_check.lost) - MAX_LOST
    rest = [f"the stream lost rows of {label}, more than its sums name" for label in live_check.lost_partitions[:MAX_LOST]]
    return [formatting.sentence(line) for line in (*named, *([f"the stream lost {more:,} more rows"] if more > 0 else []), *rest)]
