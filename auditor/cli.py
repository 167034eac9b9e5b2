"""The command line: arguments to the service, its answer to text or JSON, and an exit code.

Nothing is imported before it is needed, so that ``auditor --help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import __version__

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.model import Report

EPILOGUE = """\
exit codes:
  0  match: everything that was asked for is equal
  1  mismatch: something differs
  2  the request or the configuration was wrong
  3  something could not be compared, so nothing is claimed

The configuration is auditor.yaml here, or $AUDITOR_CONFIG, or --config FILE. Start with: auditor init
"""
METHODS = ("counts", "signature", "minhash", "exact")
WORST_LAST = (0, 1, 3, 2)
"""Exit codes of several audits fold into the last of these that any of them has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    from auditor.errors import AuditorError

    try:
        code: int = options.command(options)
    except AuditorError as error:
        print(f"auditor: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("auditor: interrupted", file=sys.stderr)
        return 3
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 3
    return code


def console_main() -> None:
    """The entry point of the installed command."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="auditor",
        description="Prove from the outside that a target table holds what its source table holds.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"auditor {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str, more: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=about, description=f"{about}. {more}".strip(), formatter_class=argparse.RawDescriptionHelpFormatter
        )
        made.set_defaults(command=run)
        return made

    def configured(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made.add_argument("--config", metavar="FILE", help="the configuration (default: $AUDITOR_CONFIG, else auditor.yaml here)")
        return made

    made = command("init", _init, "Write a commented configuration", "With both URLs, it proposes an audit for each table on both sides.")
    made.add_argument("--source", metavar="URL", help="the source database, e.g. mysql://reader:password@db1:3306/shop")
    made.add_argument("--target", metavar="URL", help="the target database, e.g. redshift://auditor:password@wh:5439/analytics")
    made.add_argument("--output", metavar="FILE", default="auditor.yaml", help="where to write (default: %(default)s); never overwritten")

    made = configured(command("check", _check, "Connect, plan every audit and tell every problem at once"))
    made.add_argument("audits", nargs="*", metavar="AUDIT", help="which audits (default: all)")
    made.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: %(default)s)")

    made = configured(command("plan", _check, "Explain how an audit will run: strategy, sizes, methods, expected costs"))
    made.add_argument("audits", nargs=1, metavar="AUDIT", help="which audit")
    made.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: %(default)s)")

    made = configured(command("sql", _sql, "Print statements to paste into the engines' own consoles"))
    made.add_argument("audit", metavar="AUDIT", help="which audit")
    made.add_argument("--side", choices=("source", "target"), help="one side only (default: both)")
    made.add_argument("--method", choices=METHODS, help="another method than the audit's")
    made.add_argument("--console", action="store_true", help="whole scripts for a console, which is the default and only form")

    made = configured(command("run", _run, "Run audits and report"))
    made.add_argument("audits", nargs="+", metavar="AUDIT", help="which audits; several fold into the gravest exit code")
    _format(made)

    made = configured(command("compare", _compare, "Compare two saved results, without any connection"))
    made.add_argument("--source", required=True, metavar="FILE", help="the source's result: CSV or TSV with header, JSON lines, Parquet")
    made.add_argument("--target", required=True, metavar="FILE", help="the target's result")
    made.add_argument("--audit", metavar="AUDIT", help="take threshold and allow_empty from this audit")
    _format(made)

    made = command(
        "demo",
        _demo,
        "Audit real public data, damaged the way pipelines damage it",
        "Without URLs, in two embedded databases. With them, the data is loaded into your servers, into tables of its own.",
    )
    made.add_argument("--source", metavar="URL", help="load the undamaged data here")
    made.add_argument("--target", metavar="URL", help="load the damaged data here")
    made.add_argument("--rows", type=int, metavar="N", help="use the first N rows only")
    made.add_argument("--directory", metavar="DIR", default="demo-data", help="where the embedded databases go (default: %(default)s)")
    _format(made)
    return parser


def _format(made: argparse.ArgumentParser) -> None:
    made.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="how to print (default: %(default)s)")
    made.add_argument("--verbose", action="store_true", help="also costs, snapshots and the servers")
    made.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _settings(options: argparse.Namespace) -> Settings:
    from auditor import config

    return config.load(config.find(options.config))


def _init(options: argparse.Namespace) -> int:
    from auditor import starter

    path = Path(options.output)
    audits = starter.write(path, options.source, options.target)
    print(f"wrote {path}" + (f" with {len(audits)} audits: {', '.join(audits)}" if audits else ""), file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    from auditor import service
    from auditor.report import json as as_json
    from auditor.report import text

    settings = _settings(options)
    for name in options.audits:
        settings.audit(name)
    found = list(service.check(settings, options.audits))
    if options.format == "json":
        _print_json(
            [{"audit": c.audit, "error": str(c.error) if c.error else None, "plan": c.plan and as_json.plan(c.plan)} for c in found]
        )
    else:
        for checked in found:
            if checked.plan:
                _printer().print(text.plan(checked.plan))
    errors = [c.error for c in found if c.error]
    for checked in found:
        if checked.error:
            print(f"auditor: {checked.audit}: {checked.error}", file=sys.stderr)
    return _folded([error.exit_code for error in errors])


def _sql(options: argparse.Namespace) -> int:
    from auditor import service

    wanted: Any = (options.side,) if options.side else ("source", "target")
    print("\n".join(service.sql(_settings(options), options.audit, wanted, options.method).values()), end="")
    return 0


def _run(options: argparse.Namespace) -> int:
    from auditor import service
    from auditor.model import State
    from auditor.progress import watching

    settings = _settings(options)
    for name in options.audits:
        settings.audit(name)
    reports: list[Report] = []
    with watching(options.quiet) as watch:
        for name in options.audits:
            reports.append(service.run_audit(settings, name, watch))
            if reports[-1].state is State.CANCELLED:
                break
    return _told(reports, options)


def _compare(options: argparse.Namespace) -> int:
    from auditor import service

    audit = _settings(options).audit(options.audit) if options.audit else None
    return _told([service.compare_files(Path(options.source), Path(options.target), audit)], options)


def _demo(options: argparse.Namespace) -> int:
    from auditor.demo import show
    from auditor.progress import watching

    with watching(options.quiet) as watch:
        shown = show.run(options.source, options.target, Path(options.directory), options.rows, watch)
    code = _told([shown.report], options)
    if options.format == "text":
        _printer().print(shown.epilogue, highlight=False)
    return code


def _told(reports: list[Report], options: argparse.Namespace) -> int:
    """Print reports as asked; the exit code of the worst of them."""
    if options.format == "json":
        from auditor.report import json as as_json

        values = [as_json.report(report) for report in reports]
        _print_json(values[0] if len(values) == 1 else values)
    elif options.format == "markdown":
        from auditor.report import markdown

        print("\n".join(markdown.report(report) for report in reports), end="")
    else:
        from auditor.report import text

        for report in reports:
            _printer().print(text.report(report, options.verbose))
    for report in reports:
        if report.verdict.value == "unknown":
            print(f"auditor: {report.audit}: {' '.join(report.reasons)}", file=sys.stderr)
    return _folded([report.exit_code for report in reports])


def _folded(codes: list[int]) -> int:
    return max(codes, key=WORST_LAST.index, default=0)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _printer() -> Any:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 150)
