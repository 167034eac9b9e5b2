"""The command certify: try a server in a schema of its own, and write down what was found."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.escaping import exact, visible
from auditor.report import certificate as report
from auditor.service import certify as service

if TYPE_CHECKING:
    from auditor.model import CertifiedCheck
    from auditor.service.certify import Estimate

EXIT_CODES = {"certified": 0, "failed": 1, "refused": 2, "not tried": 3}


def certify(options: argparse.Namespace) -> int:
    """Try a server; 0 if all that was tried passed, 1 if something failed, 2 if it is refused, 3 if nothing could be tried."""
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
        print("\r\x1b[K", end="", file=exact(sys.stderr))
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
    print(f"\r\x1b[K{visible(f'{check.part}: {check.name}')}"[:100], end="", file=exact(sys.stderr), flush=True)
    _show_left(check)
