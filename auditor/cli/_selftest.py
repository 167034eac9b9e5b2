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
    found = service.selftest(load_settings(options), options.connection, _show_progress if watched else service.ignore_check)
    if watched:
        print("\r\x1b[K", end="", file=exact(sys.stderr))
    if options.format == "json":
        print_json({**dataclasses.asdict(found), "failed": len(found.failed)})
    else:
        _print(found)
    return 1 if found.failed else 0


def _show_progress(check: Check) -> None:
    print(f"\r\x1b[K{visible(f'{check.group}: {check.name}')}"[:100], end="", file=exact(sys.stderr), flush=True)


def _print(found: SelfTest) -> None:
    print(f"{found.connection}: {found.server} ({found.engine})")
    print(f"tested with {found.tables}")
    for group in dict.fromkeys(check.group for check in found.checks):
        outcomes = Counter(check.outcome for check in found.checks if check.group == group)
        print(f"  {group}: {', '.join(f'{outcomes[one]} {one}' for one in ('passed', 'failed', 'not run') if outcomes[one])}")
    for check in found.checks:
        if check.outcome == "not run":
            print(f"not run: {check.group}: {check.name}: {check.detail}")
    for check in found.failed:
        print(f"FAILED: {check.group}: {check.name}: {check.detail}")
        if check.sql:
            sql = " ".join(check.sql.split())
            print(f"  SQL: {sql[:LONGEST_SQL]}{' ...' if len(sql) > LONGEST_SQL else ''}")
    print(
        f"{len(found.failed)} of {len(found.checks)} checks failed"
        if found.failed
        else f"all {len(found.checks)} checks passed or were not run"
    )
