"""What a run found of each shard of a source: whose rows the target misses or has otherwise, and which keys are on several shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from auditor.connections.reader import Reader
from auditor.model import Alignment, Differences, Plan, RangeDifference, ShardResult, Side, Verdict
from auditor.run.fetch import Fetcher
from auditor.run.findings import Findings

MAX_RANGES = 100
"""Ranges of missing rows of which every shard is asked how many it holds."""


def name_shards_of_ranges(reader: Reader, plan: Plan, differences: Differences) -> Differences:
    """Return the differences with the shards that hold the rows of missing ranges, as they are now; unchanged without shards."""
    if not reader.shards:
        return differences
    ranges = [
        _name_shards(reader, plan, span) if span.kind == "missing" and place < MAX_RANGES else span
        for place, span in enumerate(differences.ranges)
    ]
    return replace(differences, ranges=tuple(ranges))


def _name_shards(reader: Reader, plan: Plan, span: RangeDifference) -> RangeDifference:
    rows = reader.ask_source(lambda side, session: Fetcher(plan, side, session, 0).sum_range(span)[0])
    counts = {plan.sides[side].label: count for side, count in zip(reader.shards, rows, strict=True) if count}
    return replace(span, shards=counts)


def results(reader: Reader, plan: Plan, findings: Findings | None, aligned: Mapping[Side, Alignment]) -> tuple[ShardResult, ...]:
    """Return what was found of each shard, as far as the run got, and where it was read; nothing for a source of one table."""
    return tuple(_result(reader, plan, findings, side, aligned.get(side)) for side in reader.shards)


def _result(reader: Reader, plan: Plan, findings: Findings | None, side: Side, aligned: Alignment | None) -> ShardResult:
    label, main = plan.sides[side].label, reader.sides[side]
    known = ShardResult(
        label=label,
        server=main.server,
        rows=findings.aligned.shard_rows.get(side) if findings else None,
        snapshots_lost=main.snapshots_lost + main.snapshots_given_up,
        cost=reader.cost(side) if main.server else None,
        aligned=aligned if findings else None,
    )
    if findings is None or findings.differences is None:
        equal = findings is not None and findings.verdict is Verdict.MATCH and not findings.comparison.unequal
        return replace(known, verdict=Verdict.MATCH if equal else Verdict.UNKNOWN)
    differences = findings.differences
    mine = [difference for difference in differences.named if label in difference.shards and difference.state == "confirmed"]
    missing = sum(difference.row_count for difference in mine if difference.kind == "missing" and not difference.is_doubled)
    missing += sum(span.shards.get(label, 0) for span in differences.ranges if span.state == "confirmed")
    changed = sum(difference.row_count for difference in mine if difference.kind == "changed" and not difference.is_doubled)
    doubled = sum(difference.is_doubled for difference in mine)
    verdict = Verdict.MISMATCH if missing or changed or doubled else Verdict.MATCH if _is_complete(differences) else Verdict.UNKNOWN
    return replace(known, missing=missing, changed=changed, doubled=doubled, verdict=verdict)


def _is_complete(differences: Differences) -> bool:
    """Whether every difference is counted, and those of shards are listed with them, so that a shard without any has none."""
    listed = sum(difference.row_count for difference in differences.named) + sum(span.rows for span in differences.ranges)
    unnamed = [span for span in differences.ranges if span.kind == "missing" and not span.shards]
    return differences.exact and not unnamed and listed >= differences.missing + differences.extra + differences.changed
