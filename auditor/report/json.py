"""A report as JSON: the shape that ``docs/report.schema.json`` describes. It grows only by adding."""

from __future__ import annotations

from typing import Any

from auditor.model import SIDES, Comparison, Jaccard, Plan, Report, Score

MOST_DIVERGENT = 1000
"""Divergent partitions that are listed; ``unequal`` counts them all."""


def report(found: Report) -> dict[str, Any]:
    """One run of one audit as plain values."""
    comparison = found.comparison
    return {
        "audit": found.audit,
        "run": found.run,
        "state": found.state.value,
        "verdict": found.verdict.value,
        "method": found.method,
        "reasons": list(found.reasons),
        "score": {"published": _score(comparison.published), "jaccard": _jaccard(found.jaccard)} if comparison else None,
        "coverage": coverage(comparison) if comparison else {"rows": 0.0, "partitions": 0.0},
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
    }


def coverage(comparison: Comparison) -> dict[str, float]:
    """The share of rows and of partitions that the verdict speaks for; 0 where there are none."""
    rows = sum(comparison.rows.values())
    return {
        "rows": (rows - comparison.skipped_rows) / rows if rows else 0.0,
        "partitions": (comparison.total - comparison.skipped) / comparison.total if comparison.total else 0.0,
    }


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
            {"kind": one.kind, "first": one.first, "last": one.last, "label": one.label, "rows": one.rows, "partitions": one.partitions}
            for one in found.ranges
        ],
        "sample": [
            {
                "kind": one.kind,
                "key": {name: int(text) if name in numbers and text is not None else text for name, text in one.key.items()},
                "rows": dict(one.rows),
                "columns": [{"name": c.name, "source": c.source, "target": c.target} for c in one.columns],
            }
            for one in found.named
        ],
    }


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
            }
            for column in plan.columns
        ],
        "left_out": list(plan.left_out),
        "notes": list(plan.notes),
    }
