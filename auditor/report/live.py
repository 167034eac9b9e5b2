"""What a report says of live summaries: as of where the target equals the stream, and when the stream was last proved by the source."""

from __future__ import annotations

from auditor.model import LiveCheck, Report, Verdict
from auditor.report import formatting

MAX_LOST = 20
"""Rows that the stream lost which a report for people lists; the JSON has more."""

LOST = {"missing": "a row that it never had", "extra": "the end of a row", "changed": "a change of a row"}
"""What the stream lost, by the kind of the difference between the source and the stream."""


def lines(report: Report) -> list[tuple[str, str]]:
    """Return what a report says of live summaries, each with a word in front; nothing without them."""
    found = report.live
    if found is None:
        return []
    proved = f"against the source up to {formatting.moment(found.proved)}, at {found.proved_place}"
    kept = f"the pipeline {found.pipeline} keeps the source's summaries since {formatting.moment(found.began)}, from {found.began_place} on"
    return [(name, formatting.sentence(text)) for name, text in (("stream", _compared(report, found)), ("proved", f"{proved}; {kept}"))]


def _compared(report: Report, found: LiveCheck) -> str:
    at = f"{found.place} ({formatting.moment(found.time)})" if found.time else found.place
    if found.scanned:
        return f"the source was scanned at {at}: {found.scanned}"
    says = "equals the stream" if report.verdict is Verdict.MATCH and not report.within_threshold else "was compared with the stream"
    moved = f"; {formatting.rows(found.moved)} that differed had changed in the source since" if found.moved else ""
    return f"the target {says} as of {at}; the source was not scanned{moved}"


def lost(found: LiveCheck) -> list[str]:
    """Return what the stream lost, a line each, the first ones."""
    named = [f"the stream lost this: {LOST[one.kind]}, {formatting.key(one.key)}" for one in found.lost[:MAX_LOST]]
    more = len(found.lost) - MAX_LOST
    rest = [f"the stream lost rows of {label}, more than its sums name" for label in found.lost_partitions[:MAX_LOST]]
    return [formatting.sentence(line) for line in (*named, *([f"the stream lost {more:,} more rows"] if more > 0 else []), *rest)]
