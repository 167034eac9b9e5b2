"""The command ``auditor segments``: status, verify, copy and reset of segment audits, which ``auditor run`` runs."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from auditor.cli._output import console, current_user, print_json, settings_and_store
from auditor.quantities import format_duration

if TYPE_CHECKING:
    from auditor.api_models.segment import SegmentAuditStatus


def segments(options: argparse.Namespace) -> int:
    """Run the action that the options name."""
    return {"status": _status, "verify": _verify, "copy": _copy, "reset": _reset}[options.action](options)


def _status(options: argparse.Namespace) -> int:
    from auditor.service import segment_audits

    with settings_and_store(options) as (configured, store):
        audit_status = segment_audits.concluded_status(configured, store, options.audit)
    if options.format == "json":
        print_json(audit_status)
    else:
        console().print(_table(audit_status))
        for reason in audit_status.reasons:
            print(reason)
    return audit_status.verdict.exit_code


def _table(audit_status: SegmentAuditStatus) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("table", "side", "segments", "events", "up to", "behind"):
        table.add_column(title, justify="right" if title in ("segments", "events") else "left")
    for table_status in audit_status.tables:
        for name, side in table_status.sides.items():
            behind = format_duration(side.lag_seconds) if side.lag_seconds else ""
            through = f"{side.through:%Y-%m-%d %H:%M:%S}" if side.through else ""
            table.add_row(table_status.table, name, f"{side.segments:,}", f"{side.events:,}", through, behind)
    return table


def _verify(options: argparse.Namespace) -> int:
    from auditor.service import segment_audits, segment_files

    with settings_and_store(options) as (configured, store):
        sides = [side.name for side in segment_files.sides_of(configured, store, options.audit)]
        verified = list(segment_files.verify(configured, store, options.audit, options.table))
    if options.format == "json":
        listed = [
            {
                "table": table.table,
                "segments": table.segments,
                "problems": [{**dataclasses.asdict(problem), "first_difference": text or None} for problem, text in table.problems],
                "findings": [
                    {
                        "kind": each.kind,
                        "sentence": segment_audits.describe(each, sides),
                        "values": [one.model_dump() for one in segment_audits.different_values(each, sides)],
                        "first_difference": text or None,
                    }
                    for each, text in table.findings
                ],
            }
            for table in verified
        ]
        print_json(listed)
    else:
        for table in verified:
            for problem, text in table.problems:
                print(f"{problem.side}: {problem.sentence}" + (f"\n  {text}" if text else ""))
            for each, text in table.findings:
                print(segment_audits.describe(each, sides) + (f"\n  {text}" if text else ""))
        wrong = sum(len(table.problems) for table in verified)
        print(
            f"{sum(table.segments for table in verified):,} segments of {len(verified)} {'table' if len(verified) == 1 else 'tables'}:"
            f" {wrong:,} are wrong"
        )
    return 1 if any(table.problems or table.findings for table in verified) else 0


def _copy(options: argparse.Namespace) -> int:
    from auditor.pipeline.poison import log_file
    from auditor.service import audits, segment_files

    with settings_and_store(options) as (configured, store):
        about = (configured, store, options.audit, options.side, options.table)
        repairs = segment_files.copy(*about, by=current_user()) if options.apply else segment_files.plan_copy(*about)
        bad = next(side.name for side in segment_files.sides_of(configured, store, options.audit) if side.name != options.side)
        file = log_file(store, bad)
        lines = list(
            segment_files.tell_copied(audits.with_defined_audits(configured, store), repairs, options.side, bad, file)
            if options.apply
            else segment_files.tell_planned(repairs, options.side, bad, file)
        )
    if not options.apply and any(not repair.refused for repair in repairs):
        lines.append("nothing was copied; add --apply to copy them")
    if options.format == "json":
        print_json([dataclasses.asdict(repair) for repair in repairs])
    else:
        print("\n".join([*lines, *([] if repairs else [f"nothing differs, and all segments of {bad} hold what was hashed"])]))
    return 1 if any(repair.refused for repair in repairs) else 0


def _reset(options: argparse.Namespace) -> int:
    from auditor.service import segment_files

    with settings_and_store(options) as (configured, store):
        segment_files.reset(configured, store, options.audit, by=current_user())
    print(f"the register of {options.audit} is empty; the next run registers what both manifests list")
    return 0
