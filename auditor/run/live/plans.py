"""Which plans a change stream can keep the source's summaries of, and when those of one plan are those of another."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from auditor import canonical
from auditor.model import ColumnPlan, Plan

TEXTS = ("text", "char")

KINDS = {
    "boolean": ("boolean", "integer"),
    "integer": ("integer", "year", "boolean", "decimal", "rounded", "float32", "float64"),
    "year": ("year", "integer", "decimal"),
    "decimal": ("decimal", "integer", "rounded", "float32", "float64"),
    "float32": ("float32", "float64", "rounded"),
    "float64": ("float64", "float32", "rounded"),
    "bit": ("bit", "integer", "boolean"),
    "text": TEXTS,
    "char": TEXTS,
    "enum": (*TEXTS, "enum"),
    "set": (*TEXTS, "set"),
    "binary": ("binary", "uuid"),
    "uuid": ("uuid",),
    "network": ("network",),
    "json": ("json",),
    "date": ("date", "timestamp", "timestamptz"),
    "timestamp": ("timestamp", "timestamptz", "date"),
    "timestamptz": ("timestamp", "timestamptz", "date"),
    "time": ("time",),
}
"""By the kind of a source's column, as which kinds its text can be computed from the stream."""


def why_not_live(plan: Plan) -> str:
    """Return why the stream cannot keep the summaries of a plan, as a sentence that names what is in the way; '' if it can."""
    reasons = [_method(plan), _rows(plan), *(_column(column, number < plan.key) for number, column in enumerate(plan.columns))]
    return next(filter(None, reasons), "")


def _method(plan: Plan) -> str:
    if plan.method not in ("signature", "exact"):
        return f"live summaries are sums, and the method {plan.method} takes minima and maxima too; use the method exact or signature"
    if plan.k:
        return "minhashes are minima, which a row taken away does not give back; remove k"
    if plan.encoding == "published":
        return "the published encoding cannot be kept live; remove encoding"
    if plan.partitioning.strategy not in ("range", "hash"):
        return "live summaries need partitions by ranges or by the hash of the key; remove partition: strategy"
    return ""


def _rows(plan: Plan) -> str:
    if plan.now:
        return "where: rows leave a filter with now or today without an event; write a literal"
    if plan.sides["source"].settled or plan.watermark:
        return "live summaries are of all rows, and settle leaves some out; remove settle"
    return ""


def _column(column: ColumnPlan, in_key: bool) -> str:
    """Return why the sums cannot have a column."""
    if why := why_not_told(column):
        return why
    if in_key and "source" not in column.never_null:
        return f"{column.name} is of the key and may be NULL, which the stream cannot place; name a key without NULL"
    return ""


def why_not_told(column: ColumnPlan) -> str:
    """Return why the text of a column cannot be computed from events; '' if it can."""
    native = column.native["source"]
    if column.expression["source"].startswith("("):
        return (
            f"{column.name} is compared by an expression, which only the source can compute: that of the audit (expr), or of a convention"
            " that converts its type; remove expr, or exclude the column"
        )
    if column.zones:
        return f"{column.name} is taken to another zone, which the stream does not do; remove zone, or exclude the column"
    if column.kind.name not in KINDS.get(native.name, ()):
        return f"{column.name} is a {native.name} that is compared as {column.kind.name}, which the stream does not do; exclude the column"
    return ""


def fingerprint(plan: Plan) -> str:
    """Return what is equal for two plans whose source summaries are of the same rows and texts. 16 hexadecimal digits.

    Salt and partitioning are left out: an epoch keeps those with which it began, and `under_epoch` gives them to a later plan.
    """
    source = plan.sides["source"]
    parts: list[object] = [canonical.VERSION, source.dialect, source.table, source.where, plan.method, plan.hash, plan.encoding]
    parts += [plan.key, plan.t, plan.bits]
    for c in plan.columns:
        parts.append((c.name, str(c.kind), str(c.native["source"]), c.expression["source"], c.trim, c.case, c.null_as, str(c.tolerance)))
        parts.append((c.digest, c.pieces, c.zones.get("source", ""), c.types["source"]))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def under_epoch(plan: Plan, begun: Plan) -> Plan:
    """Return a plan with the salt and the partitioning with which an epoch began; their fingerprints have to be equal."""
    return replace(plan, salt=begun.salt, partitioning=begun.partitioning)


def layout(plan: Plan) -> str:
    """Return how the plan's keys become partitions and positions, as an epoch states it."""
    how = plan.partitioning
    return f"range {how.size}" if how.strategy == "range" else f"{how.strategy} {how.buckets}".removesuffix(" 0")


def widths(plan: Plan) -> tuple[int, int]:
    """Return how many words and power sums, beyond the first, summaries by a plan have for each partition."""
    return (plan.bits // 30, 2 * plan.t - 1) if plan.method == "exact" else (2, 0)
