"""Remove the values of masked columns from what earlier versions stored, or earlier runs when the columns were not masked yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

import dialects
from auditor.config import Settings, TableRef
from auditor.history import key_digests
from auditor.history.key_digests import Digest
from auditor.masking import MASK, MASKED_KEYS, partition_label, redact_plan
from auditor.model import Chunk, Differences, Measure, Plan, Report, Side, is_shard, shard_number
from auditor.pipeline.events import table_of_stream
from auditor.pipeline.segments.sides import is_masked
from auditor.planning.columns import are_mentioned, masked_columns, masked_in_query
from auditor.service import evidence
from auditor.sql.side_query import read_query
from auditor.store import Store, patches, runs, salt, scrubbing, segment_register
from auditor.store.evidence import Seal
from auditor.store.runs import StoredRun
from auditor.store.scrubbing import DifferenceDetail

PAGE = 200
"""Runs that are read at once."""

REMOVED = "the reasons of this run were removed, because they may name values of columns that are masked now"

_REPORT = TypeAdapter(Report)


def scrub(settings: Settings, store: Store) -> int:
    """Remove the values of masked columns from all stored runs, and return from how many.

    Masked is what a run's audit masked, and what the connections of its tables mask now. Runs that ended early cannot be resumed
    afterwards. Their evidence is signed anew. Raises ConfigError and StoreError.
    """
    digest, seal = key_digests.salted(salt.get_salt(store)), evidence.get_seal(settings)
    scrubbed = 0
    audits: set[str] = set()
    for run in _all_runs(store):
        if run.ended is not None and _scrub_run(settings, store, run, digest, seal):
            scrubbed += 1
            audits.add(run.audit)
    for audit in audits:
        scrubbing.forget_audit(store, audit)
    scrubbing.rewrite_file(store)
    return scrubbed


def _all_runs(store: Store) -> Iterator[StoredRun]:
    page = runs.list_runs(store, limit=PAGE)
    while page:
        yield from page
        page = runs.list_runs(store, limit=PAGE, before=page[-1].run)


def _scrub_run(settings: Settings, store: Store, run: StoredRun, digest: Digest, seal: Seal | None) -> bool:
    """Remove masked values from one run; False if it has no masked columns."""
    body = runs.get_report(store, run.run)
    report = _REPORT.validate_json(body) if body else None
    if report is None:
        return False
    if report.plan is None:
        return _scrub_segments(settings, store, run, report, seal)
    before = frozenset(column.name for column in report.plan.columns if column.masked)
    plan = _mask_plan(settings, run, report.plan)
    masked = frozenset(column.name for column in plan.columns if column.masked)
    if not masked:
        return False
    hide_run(store, run.run, replace(report, plan=plan), masked, masked - before, digest, seal)
    return True


def hide_run(
    store: Store,
    run: str,
    report: Report,
    masked: frozenset[str],
    new: frozenset[str],
    digest: Digest,
    seal: Seal | None,
    why: str = REMOVED,
) -> None:
    """Remove the values of the ``masked`` columns, as the report's plan has them, from a run, its recorded repairs and its patches.

    ``new`` are those that were not masked when it ran, for which its reasons are replaced by ``why``.
    """
    plan = report.plan
    assert plan is not None
    hidden = _hide(report, masked, new, digest, why)
    keys = frozenset(column.name for column in plan.key_columns if column.masked)
    details = {number: _hide_detail(detail, masked, keys, digest) for number, detail in scrubbing.list_details(store, run).items()}
    report_now, keep_map = _REPORT.dump_json(hidden), not plan.hides_ranges
    scrubbing.replace_run(store, run, report=report_now, reasons=hidden.reasons, details=details, keep_map=keep_map, seal=seal)
    scrubbing.replace_repaired_keys(store, run, keys, MASK)
    patches.drop_rows(store, run=run)


def _scrub_segments(settings: Settings, store: Store, run: StoredRun, report: Report, seal: Seal | None) -> bool:
    """Remove the reasons of a run of a segment audit that name values of columns which are masked now; False if it has none."""
    pipelines = run.definition.get("segments", {}).get("pipelines", ())
    chosen = [settings.pipelines[name] for name in pipelines if name in settings.pipelines]
    named = [place for reason in report.reasons if (place := _named_by(reason))]
    if not any(is_masked(settings, pipeline, *place) for place in named for pipeline in chosen):
        return False
    body = _REPORT.dump_json(replace(report, reasons=(REMOVED,)))
    scrubbing.replace_run(store, run.run, report=body, reasons=(REMOVED,), details={}, keep_map=True, seal=seal)
    segment_register.replace_values(store, run.audit, {})
    return True


def _named_by(reason: str) -> tuple[str, str] | None:
    """Return the table and the column whose values a reason names, as `segment_audits.describe` writes it; None if it names none."""
    column, _, values = reason.partition("; by ")[2].partition(": ")
    return (table_of_stream(reason.partition(", ")[0]), column) if values and not values.startswith(MASK) else None


def _mask_plan(settings: Settings, run: StoredRun, plan: Plan) -> Plan:
    """Return the plan with the columns masked that the connections of its tables mask now."""
    masks: dict[str, frozenset[str]] = {}
    for side in plan.read_sides:
        connection = settings.connections.get(plan.sides[side].connection)
        names = [column["name"] for column in ((run.schema or {}).get(side) or {}).get("columns", ())]
        if query := plan.sides[side].query:
            tables = read_query(query, dialects.get(plan.sides[side].dialect), "a query").tables
            masks[side] = masked_in_query(connection.mask if connection else (), tables, names)
            continue
        try:
            place = TableRef.model_validate(_written(run, side)).place
        except (KeyError, IndexError, ValidationError):  # of a version that wrote it differently
            continue
        masks[side] = masked_columns(connection.mask if connection else (), place, names)
    columns = tuple(
        replace(
            column, masked=column.masked or any(are_mentioned(masks.get(side, ()), column.expression[side]) for side in plan.read_sides)
        )
        for column in plan.columns
    )
    return replace(plan, columns=columns)


def _written(run: StoredRun, side: Side) -> Any:
    """Return how the run's settings name a side's table, or that of a shard."""
    return run.definition["source"][shard_number(side) - 1] if is_shard(side) else run.definition[side]


def _hide(report: Report, masked: frozenset[str], new: frozenset[str], digest: Digest, why: str) -> Report:
    """Return the report without masked values. ``new`` are the columns that were not masked when it was made."""
    plan, comparison, differences = report.plan, report.comparison, report.differences
    assert plan is not None
    if comparison and plan.key_columns[0].masked:
        divergent = (
            replace(partition, key_range=None, label=partition_label(plan, partition.partition)) for partition in comparison.divergent
        )
        if plan.hides_ranges:
            divergent = (replace(partition, partition=None) for partition in divergent)
        comparison = replace(comparison, divergent=tuple(divergent))
    if comparison and new:
        comparison = replace(
            comparison, divergent=tuple(replace(partition, measures=()) for partition in comparison.divergent), reasons=(why,)
        )
    report = replace(report, comparison=comparison, differences=_without_patterns(differences, masked) if differences is not None else None)
    if new:
        steps = tuple(replace(step, reasons=()) for step in report.steps)
        report = replace(report, reasons=(why,), notes=(), steps=steps, overdue_ranges=(), suggestions=None)
    measures = tuple(_hide_measure(measure, plan, new) for measure in report.measures)
    statements = {} if plan.hides_ranges else report.statements
    return replace(key_digests.hide_report(report, digest), measures=measures, plan=_without_bounds(plan), statements=statements)


def _without_patterns(differences: Differences, masked: frozenset[str]) -> Differences:
    columns = tuple(replace(column, pattern="") if column.name in masked else column for column in differences.columns)
    return replace(differences, columns=columns)


def _hide_measure(measure: Measure, plan: Plan, new: frozenset[str]) -> Measure:
    if column := next((name for name in new if measure.name.startswith(f"{name} ")), None):
        kind = measure.name.removeprefix(f"{column} ").split()[0]  # without the class or the bucket, which are values
        measure = replace(measure, name=f"{column} {kind}", label=MASK, source=MASK, target=MASK, deviation=None)
    if plan.hides_ranges and measure.partition is not None:
        measure = replace(measure, partition=None, label=partition_label(plan, measure.partition))
    return measure


def _without_bounds(plan: Plan) -> Plan:
    """Return the plan without the limits of its partitions and chunks, if these would reveal masked values."""
    if not plan.hides_ranges:
        return plan
    sides = {side: replace(plan.sides[side], chunks=(Chunk(),), chunk_keys=0, where="") for side in plan.sides}
    hidden = redact_plan(plan)
    return replace(hidden, sides=sides, slice=None, notes=(), partitioning=replace(hidden.partitioning, why=""))


def _hide_detail(detail: DifferenceDetail, masked: frozenset[str], keys: frozenset[str], digest: Digest) -> DifferenceDetail:
    """Return a stored difference without masked values."""
    hidden = detail.copy()
    if hidden["key"]:
        hidden["key"] = {name: digest(text) if name in keys and text is not None else text for name, text in hidden["key"].items()}
    if hidden["range"] and keys:
        hidden["range"] = {**hidden["range"], "first": None, "last": None, "label": MASKED_KEYS, "ids": [None, None]}
    hidden["columns"] = [
        {**column, "source": MASK, "target": MASK, "reason": ""} if column["name"] in masked else column for column in hidden["columns"]
    ]
    return hidden
