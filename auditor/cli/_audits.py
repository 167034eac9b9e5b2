"""Commands about audits: writing and checking them, their SQL, running them."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.cli._output import announce, folded, opened, print_json, printer, section, settings, shared, stored, told, who

if TYPE_CHECKING:
    from auditor.chain import Combined
    from auditor.model import Report
    from auditor.whole import Whole


def init(options: argparse.Namespace) -> int:
    """Write a configuration."""
    from auditor import starter

    path = Path(options.output)
    audits = starter.write(path, options.source, options.target)
    print(f"wrote {path}" + (f" with {len(audits)} audits: {', '.join(audits)}" if audits else ""), file=sys.stderr)
    return 0


def check(options: argparse.Namespace) -> int:
    """Connect and plan."""
    from auditor import service
    from auditor.report import json as as_json
    from auditor.report import text

    configured = settings(options)
    found = list(service.check(configured, service.expanded(configured, options.audits)))
    if options.format == "json":
        print_json([{"audit": c.audit, "error": str(c.error) if c.error else None, "plan": c.plan and as_json.plan(c.plan)} for c in found])
    else:
        for checked in found:
            if checked.plan:
                printer().print(text.plan(checked.plan))
    errors = [c.error for c in found if c.error]
    for checked in found:
        if checked.error:
            print(f"auditor: {checked.audit}: {checked.error}", file=sys.stderr)
    return folded([error.exit_code for error in errors])


def sql(options: argparse.Namespace) -> int:
    """Print statements for consoles."""
    from auditor import service

    wanted: Any = (options.side,) if options.side else ("source", "target")
    print("\n".join(service.sql(settings(options), options.audit, wanted, options.method).values()), end="")
    return 0


def run(options: argparse.Namespace) -> int:
    """Run audits, one after the other."""
    from auditor import service
    from auditor.errors import AuditorError, ConfigError
    from auditor.model import State
    from auditor.progress import watching

    if options.due:
        if options.audits or options.no_store or section(options):
            raise ConfigError("write either --due or audits; what is due is known by the store, and is of whole tables")
        return _due(options)
    if not options.audits:
        raise ConfigError("write which audits to run, or --due; see: auditor check")
    configured = settings(options)
    names = service.expanded(configured, options.audits)
    overrides = section(options) | ({"force": True} if options.force else {})
    reports: list[Report] = []
    refused: list[int] = []
    chains: dict[str, Combined] = {}
    rolled: dict[str, Whole] = {}
    with opened(configured, options.no_store) as store, shared(store), watching(options.quiet) as watch:
        for name in names:
            try:
                report = service.run_audit(configured, name, watch, store, reason=options.reason, requested_by=who(), overrides=overrides)
            except AuditorError as error:  # what the audits before it found is told all the same
                print(f"auditor: {name}: {error}", file=sys.stderr)
                refused.append(error.exit_code)
                continue
            reports.append(report)
            announce(configured, store, report)
            if report.state is State.CANCELLED:
                break
        if store and not section(options):
            rolled = {report.audit: found for report in reports if report.covered < 1 and (found := service.whole(store, report.audit))}
            chains = {name: service.combined(configured, store, name) for name in options.audits if service.audit(configured, name).via}
    code = folded([told(reports, options) if reports else 0, *refused])
    if options.format == "text":
        from auditor.report import history

        for name, found in rolled.items():
            printer().print(history.rolled(name, found))
        for name, both in chains.items():
            printer().print(history.chain(name, both))
    return code


def _due(options: argparse.Namespace) -> int:
    """Request what is due, and carry out what waits."""
    from auditor import schedule
    from auditor.errors import QueueFull
    from auditor.service import queueing
    from auditor.store import runs

    with stored(options) as (configured, store):
        try:
            schedule.tick(configured, store, dt.datetime.now(dt.UTC), str(runs.this_process()))
        except QueueFull as error:  # there is enough to do
            print(f"auditor: {error}", file=sys.stderr)
        with shared(store):
            reports = list(queueing.work_off(configured, store))
    return told(reports, options) if reports else 0


def compare(options: argparse.Namespace) -> int:
    """Compare saved results."""
    from auditor import service

    audit = settings(options).audit(options.audit) if options.audit else None
    return told([service.compare_files(Path(options.source), Path(options.target), audit)], options)


def demo(options: argparse.Namespace) -> int:
    """Show what an audit finds."""
    from auditor.demo import show
    from auditor.progress import watching

    with watching(options.quiet) as watch:
        shown = show.run(options.source, options.target, Path(options.directory), options.rows, watch)
    code = told([shown.report], options)
    if options.format == "text":
        printer().print(shown.epilogue, highlight=False)
    return code
