"""The command selftest: test the engine behind a connection, and print what failed."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from typing import TYPE_CHECKING

from auditor.cli._output import load_settings, print_json
from auditor.escaping import exact, visible
from auditor.service import selftest as service

if TYPE_CHECKING:
    from auditor.service.selftest import Check, SelfTest

LONGEST_SQL = 400
"""Characters of a failed statement that are printed as text; JSON has all of it."""


def selftest(options: argparse.Namespace) -> int:
    """Test a connection's engine; 0 if nothing failed, otherwise 1."""
    watched = not options.quiet and sys.stderr.isatty()
    selftest_result = service.selftest(load_settings(options), options.connection, _show_progress if watched else service.ignore_check)
    if watched:
        print("\r\x1b[K", end="", file=exact(sys.stderr))
    if options.format == "json":
        print_json({**dataclasses.asdict(selftest_result), "failed": len(selftest_result.failed)})
    else:
        _print(selftest_result)
    return 1 if selftest_result.failed else 0


def _show_progress(check: Check) -> None:
    print(f"\r\x1b[K{visible(f'{check.group}: {check.name}')}"[:100], end="", file=exact(sys.stderr), flush=True)


def _print(selftest_result: SelfTest) -> None:
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
