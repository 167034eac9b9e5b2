"""What a run found of each shard of a source: whose rows the target lacks or holds otherwise, and which keys are on several shards."""

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
    held = {plan.sides[side].label: count for side, count in zip(reader.shards, rows, strict=True) if count}
    return replace(span, shards=held)


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
    found = findings.differences
    mine = [one for one in found.named if label in one.shards and one.state == "confirmed"]
    missing = sum(one.row_count for one in mine if one.kind == "missing" and not one.is_doubled)
    missing += sum(span.shards.get(label, 0) for span in found.ranges if span.state == "confirmed")
    changed = sum(one.row_count for one in mine if one.kind == "changed" and not one.is_doubled)
    doubled = sum(one.is_doubled for one in mine)
    verdict = Verdict.MISMATCH if missing or changed or doubled else Verdict.MATCH if _is_complete(found) else Verdict.UNKNOWN
    return replace(known, missing=missing, changed=changed, doubled=doubled, verdict=verdict)


def _is_complete(found: Differences) -> bool:
    """Whether every difference is counted, and those of shards are listed with them, so that a shard without any has none."""
    listed = sum(one.row_count for one in found.named) + sum(span.rows for span in found.ranges)
    unnamed = [span for span in found.ranges if span.kind == "missing" and not span.shards]
    return found.exact and not unnamed and listed >= found.missing + found.extra + found.changed
