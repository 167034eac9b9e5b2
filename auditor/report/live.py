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
    live_check = report.live
    if live_check is None:
        return []
    proved = f"against the source up to {formatting.moment(live_check.proved)}, at {live_check.proved_place}"
    since = f"since {formatting.moment(live_check.began)}, from {live_check.began_place} on"
    kept = f"the pipeline {live_check.pipeline} keeps the source's summaries {since}"
    return [
        (name, formatting.sentence(text)) for name, text in (("stream", _compared(report, live_check)), ("proved", f"{proved}; {kept}"))
    ]


def _compared(report: Report, live_check: LiveCheck) -> str:
    at = f"{live_check.place} ({formatting.moment(live_check.time)})" if live_check.time else live_check.place
    if live_check.scanned:
        return f"the source was scanned at {at}: {live_check.scanned}"
    says = "equals the stream" if report.verdict is Verdict.MATCH and not report.within_threshold else "was compared with the stream"
    moved = f"; {formatting.rows(live_check.moved)} that differed had changed in the source since" if live_check.moved else ""
    return f"the target {says} as of {at}; the source was not scanned{moved}"


def lost(live_check: LiveCheck) -> list[str]:
    """Return what the stream lost, a line each, the first ones."""
    named = [f"the stream lost this: {LOST[row.kind]}, {formatting.key(row.key)}" for row in live_check.lost[:MAX_LOST]]
    more = len(live_check.lost) - MAX_LOST
    rest = [f"the stream lost rows of {label}, more than its sums name" for label in live_check.lost_partitions[:MAX_LOST]]
    return [formatting.sentence(line) for line in (*named, *([f"the stream lost {more:,} more rows"] if more > 0 else []), *rest)]
