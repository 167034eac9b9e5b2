"""The commands that try an engine: selftest on the tables of a connection, certify in a schema of its own."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.cli._output import load_settings, print_json
from auditor.escaping import exact, visible
from auditor.service import selftest as checks

if TYPE_CHECKING:
    from auditor.model.certificate import CertifiedCheck
    from auditor.service.certify import Estimate
    from auditor.service.selftest import Check, SelfTest


EXIT_CODES = {"certified": 0, "failed": 1, "refused": 2, "not tried": 3}
"""Exit codes of certify by its verdict."""

LONGEST_SQL = 400
"""Characters of a failed statement that are printed as text; JSON has all of it."""


def selftest(options: argparse.Namespace) -> int:
    """Test a connection's engine; 0 if nothing failed, otherwise 1."""
    watched = not options.quiet and sys.stderr.isatty()
    selftest_result = checks.selftest(load_settings(options), options.connection, _show_check if watched else checks.ignore_check)
    if watched:
        _show("")
    if options.format == "json":
        print_json({**dataclasses.asdict(selftest_result), "failed": len(selftest_result.failed)})
    else:
        _print_tested(selftest_result)
    return 1 if selftest_result.failed else 0


def _show_check(check: Check) -> None:
    _show(f"{check.group}: {check.name}")


def _print_tested(selftest_result: SelfTest) -> None:
    print(f"{selftest_result.connection}: {selftest_result.server} ({selftest_result.engine})")
    print(f"tested with {selftest_result.tables}")
    for group in dict.fromkeys(check.group for check in selftest_result.checks):
        outcomes = Counter(check.outcome for check in selftest_result.checks if check.group == group)
        print(
            f"  {group}: {', '.join(f'{outcomes[outcome]} {outcome}' for outcome in ('passed', 'failed', 'not run') if outcomes[outcome])}"
        )
    for check in selftest_result.checks:
        if check.outcome == "not run":
            print(f"not run: {check.group}: {check.name}: {check.detail}")
    for check in selftest_result.failed:
        print(f"FAILED: {check.group}: {check.name}: {check.detail}")
        if check.sql:
            sql = " ".join(check.sql.split())
            print(f"  SQL: {sql[:LONGEST_SQL]}{' ...' if len(sql) > LONGEST_SQL else ''}")
    print(
        f"{len(selftest_result.failed)} of {len(selftest_result.checks)} checks failed"
        if selftest_result.failed
        else f"all {len(selftest_result.checks)} checks passed or were not run"
    )


def certify(options: argparse.Namespace) -> int:
    """Try a server; 0 if all that was tried passed, 1 if something failed, 2 if it is refused, 3 if nothing could be tried."""
    from auditor.report import certificate as report
    from auditor.service import certify as service

    will_cost = service.estimate(options.url, options.parts)
    if options.dry_run:
        print("\n".join(_announce(will_cost, options.minutes)))
        return 0
    if not options.quiet:
        print("\n".join(_announce(will_cost, options.minutes)), file=sys.stderr)
    watched = not options.quiet and sys.stderr.isatty()
    certificate = service.certify(
        options.url, options.against, parts=options.parts, minutes=options.minutes, on_check=_show_all if watched else _show_left
    )
    if watched:
        _show("")
    if options.output:
        Path(options.output).write_text(certificate.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if options.page:
        Path(options.page).write_text(report.markdown(certificate), encoding="utf-8")
    if options.format == "json":
        print(certificate.model_dump_json(indent=2))
    elif options.format == "markdown":
        print(report.markdown(certificate), end="")
    else:
        print(report.text(certificate), end="")
        if options.output:
            print(f"{options.output} holds all of it; sent in, it becomes a cell of the table of versions")
    return EXIT_CODES[certificate.verdict]


def _announce(will_cost: Estimate, minutes: float) -> list[str]:
    tried = ", ".join(will_cost.parts) or "nothing"
    lines = [
        f"auditor: to be tried: {tried}; about {will_cost.statements:,} statements, {will_cost.rows:,} rows written and"
        f" {will_cost.bytes / 1e6:,.1f} MB, in a schema that is made for it and dropped again; nothing is begun after {minutes:g} minutes"
    ]
    return lines + [f"auditor: not to be tried: {part}: {why}" for part, why in will_cost.lacking.items()]


def _show_left(check: CertifiedCheck) -> None:
    """Print that a schema is left, also where the command is interrupted and prints nothing else."""
    if check.part == "scratch" and check.outcome == "failed":
        print(f"auditor: {check.detail}", file=sys.stderr)


def _show_all(check: CertifiedCheck) -> None:
    _show(f"{check.part}: {check.name}")
    _show_left(check)


def _show(step: str) -> None:
    """Put a step in place of the one before it on the terminal's line; an empty one clears the line."""
    print(f"\r\x1b[K{visible(step)}"[:100], end="", file=exact(sys.stderr), flush=True)
