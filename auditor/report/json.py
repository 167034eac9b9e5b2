"""The report of a run, and a plan, as JSON values; ``docs/report.schema.json`` describes them. Later versions only add fields."""

from __future__ import annotations

import datetime as dt

from auditor.model import (
    SIDES,
    Advice,
    Alignment,
    Comparison,
    Difference,
    Differences,
    Divergent,
    Jaccard,
    LiveCheck,
    Measure,
    Plan,
    RangeDifference,
    Report,
    Score,
    ShardResult,
    SideCost,
)
from auditor.report.json_types import (
    AdviceJson,
    AlignedJson,
    CostJson,
    DifferenceJson,
    DifferencesJson,
    JaccardJson,
    LiveJson,
    MeasureJson,
    PartitionJson,
    PartitionsJson,
    PlanJson,
    RangeJson,
    ReportJson,
    ScoreJson,
    ShardJson,
    SideCostJson,
)
from auditor.report.redact import redact, redact_plan

MAX_LISTED = 1000
"""Divergent partitions, and measures, listed at most; ``unequal`` counts all of the former."""


def report(report: Report) -> ReportJson:
    """Return the report of a run, without the values of masked columns."""
    report = redact(report)
    comparison = report.comparison
    return {
        "audit": report.audit,
        "run": report.run,
        "state": report.state.value,
        "verdict": report.verdict.value,
        "method": report.method,
        "reasons": list(report.reasons),
        "score": {"published": _score_json(comparison.published), "jaccard": _jaccard_json(report.jaccard)} if comparison else None,
        "coverage": report.coverage,
        "rows": dict(comparison.rows) if comparison else None,
        "partitions": _partitions(comparison) if comparison else None,
        "differences": _differences(report.differences, report.plan) if report.differences is not None else None,
        "plan": plan(report.plan) if report.plan else None,
        "servers": dict(report.servers),
        "cost": _cost(report),
        "began": _isoformat(report.began),
        "share_read": report.covered,
        "slice": str(report.slice) if report.slice else None,
        "other_settings": report.other_settings or None,
        "verified_through": _isoformat(report.verified_through),
        "within_threshold": report.within_threshold,
        "within_threshold_through": _isoformat(report.within_threshold_through),
        "aligned": _aligned(report.aligned) if report.aligned else None,
        "not_aligned": report.not_aligned or None,
        "live": _live(report.live, report.plan) if report.live else None,
        "dump_as_of": _isoformat(report.as_of),
        "measures": [_measure(measure) for measure in report.measures[:MAX_LISTED]],
        "cheaper_methods": [
            {"method": step.method, "verdict": step.verdict.value, "seconds": round(step.seconds, 3), "reasons": list(step.reasons)}
            for step in report.steps
        ],
        "schema_changes": list(report.schema_changes),
        "left_out_rows": report.left_out,
        "overdue_rows": report.overdue_rows,
        "overdue_ranges": [
            {"label": one.label, "rows": one.rows, "runs": one.runs, "since": one.since.isoformat()} for one in report.overdue_ranges
        ],
        "overdue": [{"key": dict(row.key), "runs": row.runs, "since": row.since.isoformat()} for row in report.overdue],
        "retries": report.retries,
        "resumable": report.resumable,
        "reason": report.reason,
        "advice": _advice(report.advice) if report.advice else None,
        "notes": list(report.notes),
        "shards": [_shard(one) for one in report.shards],
    }


def _shard(one: ShardResult) -> ShardJson:
    return {
        "label": one.label,
        "server": one.server,
        "verdict": one.verdict.value,
        "rows": one.rows,
        "missing": one.missing,
        "changed": one.changed,
        "doubled": one.doubled,
        "snapshots_lost": one.snapshots_lost,
        "cost": _side_cost(one.cost) if one.cost else None,
        "aligned": _aligned(one.aligned) if one.aligned else None,
    }


def _advice(advice: Advice) -> AdviceJson:
    return {
        "why": advice.why,
        "remedies": [
            {"tool": one.tool, "rows": one.rows, "share": one.share, "seconds": round(one.seconds, 1), "command": one.command}
            for one in advice.remedies
        ],
    }


def _aligned(found: Alignment) -> AlignedJson:
    return {
        "position": found.position,
        "time": found.time.isoformat(),
        "way": found.way,
        "pipeline": found.pipeline,
        "held_seconds": round(found.held, 3),
    }


def _live(found: LiveCheck, plan: Plan | None) -> LiveJson:
    integers = _integer_keys(plan)
    return {
        "pipeline": found.pipeline,
        "place": found.place,
        "time": _isoformat(found.time),
        "began": {"place": found.began_place, "time": found.began.isoformat()},
        "proved": {"place": found.proved_place, "time": found.proved.isoformat()},
        "scanned": found.scanned or None,
        "moved_rows": found.moved,
        "lost": [_difference(row, integers) for row in found.lost],
        "lost_partitions": list(found.lost_partitions),
    }


def _integer_keys(plan: Plan | None) -> set[str]:
    return {column.name for column in plan.key_columns if column.kind.name == "integer"} if plan else set()


def _isoformat(at: dt.datetime | None) -> str | None:
    return at.isoformat() if at else None


def _score_json(score: Score | None) -> ScoreJson | None:
    return {"value": score.value, "lower": score.lower, "upper": score.upper} if score else None


def _jaccard_json(jaccard: Jaccard | None) -> JaccardJson | None:
    if jaccard is None:
        return None
    return {
        "value": jaccard.score.value,
        "lower": jaccard.score.lower,
        "upper": jaccard.score.upper,
        "hard_lower": jaccard.least,
        "hard_upper": jaccard.most,
        "differing_rows": jaccard.differing,
    }


def _partitions(comparison: Comparison) -> PartitionsJson:
    return {
        "total": comparison.total,
        "equal": comparison.equal,
        "unequal": comparison.unequal,
        "source_only": comparison.source_only,
        "target_only": comparison.target_only,
        "skipped": comparison.skipped,
        "divergent": [_partition(partition) for partition in comparison.divergent[:MAX_LISTED]],
    }


def _partition(partition: Divergent) -> PartitionJson:
    return {
        "partition": partition.partition,
        "key_range": list(partition.key_range) if partition.key_range else None,
        "label": partition.label,
        "rows": dict(partition.rows),
        "similarity": partition.similarity,
        "measures": list(partition.measures),
    }


def _differences(differences: Differences, plan: Plan | None) -> DifferencesJson:
    integers = _integer_keys(plan)
    return {
        "missing": differences.missing,
        "extra": differences.extra,
        "changed": differences.changed,
        "exact": differences.exact,
        "partitions_by_outcome": dict(differences.partitions),
        "unsettled": differences.unsettled,
        "why_estimated": differences.why,
        "ranges": [_range(span) for span in differences.ranges],
        "sample": [_difference(row, integers) for row in differences.named],
        "in_flight": differences.in_flight,
        "equal_on_recheck": differences.cleared,
        "tolerated": differences.tolerated,
        "partitions_equal_on_recheck": differences.vanished,
        "rechecks": differences.looks,
        "estimated": differences.estimated,
        "columns": [{"name": one.name, "rows": one.rows, "pattern": one.pattern} for one in differences.columns],
        "compared_by_column": differences.compared,
        "doubled": differences.doubled,
    }


def _range(span: RangeDifference) -> RangeJson:
    return {
        "kind": span.kind,
        "first": span.first,
        "last": span.last,
        "label": span.label,
        "rows": span.rows,
        "partitions": span.partitions,
        "state": span.state,
        "shards": dict(span.shards),
    }


def _difference(row: Difference, integers: set[str]) -> DifferenceJson:
    return {
        "kind": row.kind,
        "key": {name: _key_value(text) if name in integers else text for name, text in row.key.items()},
        "rows": dict(row.rows),
        "columns": [{"name": c.name, "source": c.source, "target": c.target, "reason": c.reason} for c in row.columns],
        "state": row.state,
        "rechecks": [{"at": look.at.isoformat(), "seen": look.seen} for look in row.looks],
        "shards": list(row.shards),
        "doubled": row.is_doubled,
    }


def _key_value(text: str | None) -> int | str | None:
    """Return an integer key as a number; a masked one stays text."""
    return text if text is None or not text.lstrip("-").isdigit() else int(text)


def _measure(measure: Measure) -> MeasureJson:
    return {
        "partition": measure.partition,
        "label": measure.label,
        "name": measure.name,
        "source": measure.source,
        "target": measure.target,
        "deviation": measure.deviation,
        "allowed": measure.allowed,
    }


def _cost(report: Report) -> CostJson:
    cost: CostJson = {"seconds": round(report.seconds, 3)}
    for side in SIDES:
        if side in report.cost:
            cost[side] = _side_cost(report.cost[side])
    return cost


def _side_cost(cost: SideCost) -> SideCostJson:
    found: SideCostJson = {
        "statements": cost.statements,
        "bytes_received": cost.bytes,
        "summary_bytes": cost.scan_bytes,
        "seconds": round(cost.seconds, 3),
    }
    if here := cost.server:
        found["server"] = {
            "statements": here.statements,
            "seconds": round(here.elapsed, 3),
            "queued_seconds": round(here.queued, 3),
            "executing_seconds": round(here.executing, 3),
        }
    return found


def plan(plan: Plan) -> PlanJson:
    """Return a plan, without what would reveal the range of a masked key."""
    plan = redact_plan(plan)
    return {
        "partitioning": str(plan.partitioning),
        "partitioning_why": plan.partitioning.why,
        "prescan": plan.prescan.used if plan.prescan else None,
        "prescan_why": plan.prescan.why if plan.prescan else None,
        "hash": plan.hash,
        "encoding": plan.encoding,
        "k": plan.k,
        "t": plan.t,
        "bits": plan.bits,
        "salt": plan.salt,
        "key": [column.name for column in plan.key_columns],
        "columns": [
            {
                "name": column.name,
                "kind": str(column.kind),
                "source_type": column.types["source"],
                "target_type": column.types["target"],
                "why": column.why,
                "masked": column.masked,
                "tolerance": str(column.tolerance) if column.tolerance else None,
            }
            for column in plan.columns
        ],
        "not_compared": [{"column": one.column or None, "side": one.side, "how": one.how, "what": one.what} for one in plan.not_compared],
        "notes": list(plan.notes),
        "snapshot": plan.snapshot,
        "watermark": plan.watermark or None,
        "partition_ranges": [list(span) for span in plan.partition_ranges],
    }
