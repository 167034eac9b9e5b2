"""Checking and planning audits, their SQL for consoles, and comparing saved results."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dialects
import sql_templates
from auditor import render, results, survey
from auditor.config import Audit, Settings
from auditor.errors import AuditorError
from auditor.model import SIDES, Chunk, Comparison, Divergent, Method, Plan, Report, Side, State, Verdict
from auditor.service import chains


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found of one audit: its plan, or the error that keeps it from running."""

    audit: str
    plan: Plan | None
    error: AuditorError | None


def check(settings: Settings, names: Sequence[str] = ()) -> Iterator[Checked]:
    """Connect and plan each audit (all of them without ``names``); every problem is told, none ends the check."""
    for name in chains.expanded(settings, names):
        try:
            yield Checked(name, planned(settings, name, chains.audit(settings, name)), None)
        except AuditorError as error:
            yield Checked(name, None, error)


def planned(settings: Settings, name: str, audit: Audit) -> Plan:
    """The plan of an audit as both databases are now. Raises errors of the tree."""
    with survey.opened(audit, settings.connections) as sides:
        return survey.planned(name, audit, sides)


def sql(settings: Settings, name: str, wanted: Sequence[Side] = SIDES, method: Method | None = None) -> dict[Side, str]:
    """What to paste into each side's console. Raises errors of the tree."""
    audit = chains.audit(settings, name)
    if method:
        audit = audit.model_copy(update={"method": method})
    with survey.opened(audit, settings.connections) as sides:
        plan = survey.planned(name, audit, sides)
        limits = {side: settings.connections[plan.sides[side].connection].limits for side in SIDES}
        timeouts = {side: (limits[side].statement_timeout, limits[side].lock_timeout) for side in SIDES}
        return {side: console(plan, side, sides[side].dialect, *timeouts[side]) for side in wanted}


def console(plan: Plan, side: Side, dialect: dialects.Dialect, statement_timeout: float, lock_timeout: float = 10.0) -> str:
    """A script for one side's console: what the session's results depend on is set, a snapshot opened and closed."""
    here = plan.sides[side]
    statement = render.summary(plan, side, dialect, Chunk(), console=f"{plan.audit}/{plan_name(plan)}")
    columns = ", ".join(f"{column.name} ({column.kind})" for column in plan.columns)
    other = "target" if side == "source" else "source"
    comments = [
        f"auditor: audit {plan.audit}, {side} ({here.label}), method {plan.method}, partitions {plan.partitioning}",
        f"Compared: {columns}",
        *(f"Left out: {name}" for name in plan.left_out),
        f"{sql_templates.comment(dialect.template(render.template_name(plan)))}",
        "partition_count and audit_plan let the comparison see a result that was cut short or mistaken for another.",
        f"Save the last result with its header, run the {other}'s statement that was printed with this one too, then:",
        "  auditor compare --source SOURCE_FILE --target TARGET_FILE",
    ]
    lines = [f"-- {' '.join(comment.split())}" for comment in comments]
    statements = [*dialect.pins(statement_timeout, lock_timeout), *dialect.BEGIN, statement, *dialect.END]
    return "\n".join([*lines, "", *(f"{text};" for text in statements), ""])


def plan_name(plan: Plan) -> str:
    """A short name of what a plan asks of both sides, so that results of different plans are told apart.

    The watermark is in it: with ``settle``, each printing has its own, and leaves out other rows.
    """
    how = plan.partitioning
    asked: list[object] = [plan.method, plan.k, plan.t, plan.bits, plan.salt, plan.hash, plan.encoding, plan.key, str(how), how.column]
    asked += [(plan.sides[side].connection, plan.sides[side].table, *plan.sides[side].conditions) for side in SIDES]
    asked += [
        (c.name, str(c.kind), c.trim, c.case, c.null_as, str(c.tolerance), *(c.expression[side] for side in SIDES)) for c in plan.columns
    ]
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:12]


def compare_files(source: Path, target: Path, audit: Audit | None = None) -> Report:
    """The report of two saved results; ``audit`` gives the threshold.

    Where its other settings may allow what differs, and no result tells so much, nothing is claimed. Raises ResultError.
    """
    began = time.monotonic()
    name, comparison, measured = results.compare_files(
        {"source": source, "target": target}, threshold=audit.threshold if audit else None, allow_empty=bool(audit and audit.allow_empty)
    )
    beyond = _beyond_results(audit, comparison, bool(measured)) if audit and comparison.verdict is Verdict.MISMATCH else []
    if beyond:
        reasons = (*comparison.reasons, *beyond, f"a connected run knows: auditor run {name}")
        comparison = dataclasses.replace(comparison, verdict=Verdict.UNKNOWN, reasons=reasons)
    return Report(
        audit=name,
        run=uuid.uuid4().hex,
        state=State.DONE,
        verdict=comparison.verdict,
        reasons=comparison.reasons,
        seconds=time.monotonic() - began,
        exit_code=comparison.verdict.exit_code,
        comparison=comparison,
    )


def _beyond_results(audit: Audit, comparison: Comparison, counted: bool) -> list[str]:
    """What of an audit's settings may allow all that differs in results of which these settings cannot be told, a sentence each."""
    found: list[str] = []
    if audit.settle:
        found.append("settle: rows that are in flight leave their old versions in the target, which can be what differs")
    tolerant = [column for column, rule in audit.columns.override.items() if rule.tolerance]
    if tolerant and not any(one.rows["source"] != one.rows["target"] for one in comparison.divergent):
        found.append(f"tolerance: values of {', '.join(tolerant)} within it can be rounded apart, which can be what differs")
    if counted and audit.counts.allow:
        allowed = {name.split()[-1] for name in audit.counts.allow}
        if all(_differs_in(one) <= allowed for one in comparison.divergent):
            found.append("counts.allow: a result does not tell which columns it is about, and what differs can be within it")
    return found


def _differs_in(one: Divergent) -> set[str]:
    """The kinds of measures in which a partition of counts differs: ``rows``, ``sum``, .."""
    rows = {"rows"} if one.rows["source"] != one.rows["target"] else set()
    return rows | {sentence.split("_", 1)[0] for sentence in one.measures}


def tables_on_both(source_url: str, target_url: str) -> list[tuple[str, str]]:
    """Tables with one name on both sides, as each side's audit would write it. Raises errors of the tree."""
    found: dict[Side, dict[str, str]] = {}
    urls: dict[Side, str] = {"source": source_url, "target": target_url}
    for side, url in urls.items():
        session = dialects.connect(url)
        try:
            listed = session.dialect.tables(session)
        finally:
            session.close()
        one_schema = len({schema for schema, _ in listed}) == 1
        found[side] = {table.lower(): _written(*((table,) if one_schema else (schema, table))) for schema, table in listed}
    return [(name, found["target"][low]) for low, name in found["source"].items() if low in found["target"]]


def _written(*parts: str) -> str:
    """A table's name as a configuration holds it: parts that could be misread are quoted."""
    return ".".join(part if re.fullmatch(r"[^.\"`]+", part) else f'"{part}"' for part in parts)
