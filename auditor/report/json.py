"""A report as JSON: the shape that ``docs/report.schema.json`` describes. It grows only by adding."""

from __future__ import annotations

import datetime as dt
from typing import Any

from auditor.model import SIDES, Comparison, Difference, Jaccard, Plan, Report, Score
from auditor.report.shown import shown, shown_plan

MOST_DIVERGENT = 1000
"""Divergent partitions that are listed; ``unequal`` counts them all."""


def report(found: Report) -> dict[str, Any]:
    """One run of one audit as plain values."""
    found = shown(found)
    comparison = found.comparison
    return {
        "audit": found.audit,
        "run": found.run,
        "state": found.state.value,
        "verdict": found.verdict.value,
        "method": found.method,
        "reasons": list(found.reasons),
        "score": {"published": _score(comparison.published), "jaccard": _jaccard(found.jaccard)} if comparison else None,
        "coverage": found.coverage,
        "rows": dict(comparison.rows) if comparison else None,
        "partitions": _partitions(comparison) if comparison else None,
        "differences": _differences(found) if found.differences else None,
        "plan": plan(found.plan) if found.plan else None,
        "servers": dict(found.servers),
        "cost": {
            "seconds": round(found.seconds, 3),
            **{
                side: {"statements": cost.statements, "bytes": cost.bytes, "scan_bytes": cost.scan_bytes, "seconds": round(cost.seconds, 3)}
                for side in SIDES
                if (cost := found.cost.get(side))
            },
        },
        "began": _moment(found.began),
        "covered": found.covered,
        "section": str(found.section) if found.section else None,
        "verified_through": _moment(found.verified_through),
        "as_of": _moment(found.as_of),
        "measures": [
            {
                "partition": one.partition,
                "label": one.label,
                "name": one.name,
                "source": one.source,
                "target": one.target,
                "deviation": one.deviation,
                "allowed": one.allowed,
            }
            for one in found.measures[:MOST_DIVERGENT]
        ],
        "steps": [
            {"method": one.method, "verdict": one.verdict.value, "seconds": round(one.seconds, 3), "reasons": list(one.reasons)}
            for one in found.steps
        ],
        "schema_changes": list(found.schema_changes),
        "retries": found.retries,
        "resumable": found.resumable,
        "notes": list(found.notes),
    }


def _moment(at: dt.datetime | None) -> str | None:
    return at.isoformat() if at else None


def _score(score: Score | None) -> dict[str, float] | None:
    return {"value": score.value, "lower": score.lower, "upper": score.upper} if score else None


def _jaccard(found: Jaccard | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {
        "value": found.score.value,
        "lower": found.score.lower,
        "upper": found.score.upper,
        "least": found.least,
        "most": found.most,
        "differing_rows": found.differing,
    }


def _differences(report: Report) -> dict[str, Any] | None:
    found = report.differences
    if found is None:
        return None
    numbers = {column.name for column in report.plan.key_columns if column.kind.name == "integer"} if report.plan else set()
    return {
        "missing": found.missing,
        "extra": found.extra,
        "changed": found.changed,
        "exact": found.exact,
        "partitions": dict(found.partitions),
        "unsettled": found.unsettled,
        "why": found.why,
        "ranges": [
            {
                "kind": one.kind,
                "first": one.first,
                "last": one.last,
                "label": one.label,
                "rows": one.rows,
                "partitions": one.partitions,
                "state": one.state,
            }
            for one in found.ranges
        ],
        "sample": [_named(one, numbers) for one in found.named],
        "in_flight": found.in_flight,
        "cleared": found.cleared,
        "tolerated": found.tolerated,
        "vanished": found.vanished,
        "looks": found.looks,
    }


def _named(one: Difference, numbers: set[str]) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "key": {name: _number(text) if name in numbers else text for name, text in one.key.items()},
        "rows": dict(one.rows),
        "columns": [{"name": c.name, "source": c.source, "target": c.target} for c in one.columns],
        "state": one.state,
        "looks": [{"at": look.at.isoformat(), "seen": look.seen} for look in one.looks],
    }


def _number(text: str | None) -> int | str | None:
    """A whole number; what is hidden stays text."""
    return text if text is None or not text.lstrip("-").isdigit() else int(text)


def _partitions(found: Comparison) -> dict[str, Any]:
    return {
        "total": found.total,
        "equal": found.equal,
        "unequal": found.unequal,
        "source_only": found.source_only,
        "target_only": found.target_only,
        "skipped": found.skipped,
        "divergent": [
            {
                "partition": one.partition,
                "key_range": list(one.key_range) if one.key_range else None,
                "label": one.label,
                "rows": dict(one.rows),
                "similarity": one.similarity,
                "measures": list(one.measures),
            }
            for one in found.divergent[:MOST_DIVERGENT]
        ],
    }


def plan(plan: Plan) -> dict[str, Any]:
    """A plan as plain values."""
    plan = shown_plan(plan)
    return {
        "partitioning": str(plan.partitioning),
        "partitioning_why": plan.partitioning.why,
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
                "source": column.types["source"],
                "target": column.types["target"],
                "why": column.why,
                "lossy": column.lossy,
                "masked": column.masked,
                "tolerance": str(column.tolerance) if column.tolerance else None,
            }
            for column in plan.columns
        ],
        "left_out": list(plan.left_out),
        "notes": list(plan.notes),
        "snapshot": plan.snapshot,
        "watermark": plan.watermark or None,
        "stretches": [list(stretch) for stretch in plan.stretches],
    }
