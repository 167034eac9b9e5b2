"""Compare a copy with the snapshot that it was read in, by the exact method."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from auditor.bootstrap.job import BootstrapJob
from auditor.bootstrap.plan import BootstrapPlan, join_spans, table_parts
from auditor.config import Audit, PerSide
from auditor.connections.reader import Reader
from auditor.connections.throttle import HOW_TO_CONTINUE
from auditor.errors import BootstrapFailed, DatabaseBusy, StatementCancelled
from auditor.model import SIDES, Chunk, Difference, Report, State, Verdict
from auditor.planning import watermark
from auditor.repair.proposal import unnamed
from auditor.run import audit_run
from auditor.sql import render

SHOWN = 3
"""Differences that a message names."""


MARGIN = 1.0
"""Seconds between two readings of a clock, generously."""


def verify(job: BootstrapJob, plan: BootstrapPlan, reader: Reader, began: dt.datetime) -> Report:
    """Return the report of the copy against the source's open snapshot. Raises BootstrapFailed if nothing could be compared, DatabaseBusy.

    Where ranges were read in snapshots of their own since the source's clock was at ``began``, rows that were written since are left
    out, if the audit says which (``settle``).
    """
    reader.alone["source"] = "it reads the snapshot that was copied" if plan.is_one_moment else "it reads one snapshot"
    audit = copied_audit(job.audit, plan)
    if job.audit.settle and not plan.is_one_moment:
        clock = reader.ask_side("source", lambda _, session: watermark.read_clock(session))
        lag = (clock - began).total_seconds() + (job.audit.settle.lag or 0.0) + MARGIN
        audit = audit.model_copy(update={"settle": job.audit.settle.model_copy(update={"lag": lag, "heartbeat": None})})
    report = audit_run.perform(plan.audit, audit, job.connections, reader=reader).report
    job.check_stopped()
    if report.state is State.CANCELLED:
        raise StatementCancelled
    if busy := next((reason for reason in report.reasons if reason.endswith(HOW_TO_CONTINUE)), ""):
        raise DatabaseBusy(busy)  # which says that the bootstrap continues, where it is caught
    if report.verdict is Verdict.UNKNOWN:
        raise BootstrapFailed(f"the copy could not be compared with its source: {' '.join(report.reasons)}; run it again to continue")
    return report


def copied_audit(audit: Audit, plan: BootstrapPlan) -> Audit:
    """Return the audit of a copy: its columns are compared exactly, whatever the audit levels."""
    overrides = {name: column.model_copy(update=_without_levelling(column.kind)) for name, column in audit.columns.override.items()}
    table = audit.target.model_copy(update={"table": _quoted([*table_parts(plan.table), plan.stage]), "format": None})
    exact = {
        "target": table,
        "columns": audit.columns.model_copy(update={"override": overrides}),
        "method": "exact",
        "hash": "sha256",
        "encoding": "injective",
        "snapshot": "whole",
        "allow_empty": True,
        "prescan": False,
        "where": _filter(plan),
        "threshold": type(audit.threshold)(),
        **dict.fromkeys(("settle", "recheck", "ladder", "rolling", "via", "schedule")),
    }
    return audit.model_copy(update=exact)


def _filter(plan: BootstrapPlan) -> PerSide | None:
    """Return the condition of the rows that are copied, on each side."""
    if plan.is_whole and not plan.plan.sides["source"].where:
        return None
    conditions = {side: render.where(plan.plan, side, join_spans(plan.plan, side, plan.spans)) for side in SIDES}
    return PerSide(source=conditions["source"], target=conditions["target"])


def differing_ranges(report: Report, ranges: Sequence[Chunk]) -> list[int] | None:
    """Return the numbers of the ranges in which a copy differs; None where not all differences are known by their keys."""
    differences = report.differences
    plan = report.plan
    if differences is None or plan is None or unnamed(differences) or not plan.has_integer_key:
        return None
    spans = [
        Chunk(difference.key_number, difference.key_number + 1) for difference in differences.named if None not in difference.key.values()
    ]
    spans += [Chunk(null_key=True) for difference in differences.named if None in difference.key.values()]
    spans += [Chunk(span.first, None if span.last is None else span.last + 1) for span in differences.ranges]
    return sorted({number for number, chunk in enumerate(ranges) if any(chunk.overlaps(span) for span in spans)})


def describe(report: Report) -> str:
    """Return the first differences of a copy for a person: keys and columns, without values."""
    differences = report.differences
    rows = [
        f"{_key(difference)} is {difference.kind}{_columns(difference)}"
        for difference in (differences.named if differences else ())[:SHOWN]
    ]
    rows += [f"{span.label}: {span.rows:,} rows are {span.kind}" for span in (differences.ranges if differences else ())[:SHOWN]]
    return "; ".join(rows) or " ".join(report.reasons)


def _key(difference: Difference) -> str:
    return ", ".join(f"{name} = {text}" for name, text in difference.key.items())


def _columns(difference: Difference) -> str:
    return f" in {', '.join(column.name for column in difference.columns)}" if difference.columns else ""


def _without_levelling(kind: str | None) -> dict[str, object]:
    plain: dict[str, object] = {"round": None, "trim": False, "case": None, "null_as": None, "tolerance": None}
    return {**plain, "kind": None} if kind and kind.startswith("rounded") else plain


def _quoted(parts: Sequence[str]) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
