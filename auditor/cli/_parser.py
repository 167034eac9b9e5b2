"""What can be written on the command line."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Callable
from importlib import import_module

from auditor import __version__

EPILOGUE = """\
exit codes:
  0  match: everything that was asked for is equal
  1  mismatch: something differs
  2  the request or the configuration was wrong
  3  something could not be compared, so nothing is claimed

The configuration is auditor.yaml here, or $AUDITOR_CONFIG, or --config FILE. Start with: auditor init
"""
METHODS = ("counts", "signature", "minhash", "exact")


Adder = Callable[..., argparse.ArgumentParser]
"""Adds a command: its name, what it calls, what it is about, and more about it."""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    whole = argparse.ArgumentParser(
        prog="auditor",
        description="Prove from the outside that a target table holds what its source table holds.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"auditor {__version__}")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str, more: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=about, description=f"{about}. {more}".strip(), formatter_class=argparse.RawDescriptionHelpFormatter
        )
        made.set_defaults(command=run)
        return made

    _about_audits(command)
    _about_runs(command)
    _about_service(command)
    _without_servers(command)
    return whole


def _configured(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The command with the option that names its configuration."""
    made.add_argument("--config", metavar="FILE", help="the configuration (default: $AUDITOR_CONFIG, else auditor.yaml here)")
    return made


def _servable(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The command with the option that lets a service do it."""
    made.add_argument("--server", metavar="URL", help="let the service at this URL do it; $AUDITOR_TOKEN is the token")
    return made


def _about_audits(command: Adder) -> None:
    made = command(
        "init",
        _later("_audits", "init"),
        "Write a commented configuration",
        "With both URLs, it proposes an audit for each table on both sides.",
    )
    made.add_argument("--source", metavar="URL", help="the source database, e.g. mysql://reader:password@db1:3306/shop")
    made.add_argument("--target", metavar="URL", help="the target database, e.g. redshift://auditor:password@wh:5439/analytics")
    made.add_argument("--output", metavar="FILE", default="auditor.yaml", help="where to write (default: %(default)s); never overwritten")

    made = _configured(command("check", _later("_audits", "check"), "Connect, plan every audit and tell every problem at once"))
    made.add_argument("audits", nargs="*", metavar="AUDIT", help="which audits (default: all)")
    made.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: %(default)s)")

    made = _configured(
        command("plan", _later("_audits", "check"), "Explain how an audit will run: strategy, sizes, methods, expected costs")
    )
    made.add_argument("audits", nargs=1, metavar="AUDIT", help="which audit")
    made.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: %(default)s)")

    made = _configured(command("sql", _later("_audits", "sql"), "Print statements to paste into the engines' own consoles"))
    made.add_argument("audit", metavar="AUDIT", help="which audit")
    made.add_argument("--side", choices=("source", "target"), help="one side only (default: both)")
    made.add_argument("--method", choices=METHODS, help="another method than the audit's")
    made.add_argument("--console", action="store_true", help="whole scripts for a console, which is the default and only form")

    made = _servable(_configured(command("run", _later("_audits", "run"), "Run audits and report")))
    made.add_argument("audits", nargs="*", metavar="AUDIT", help="which audits; several fold into the gravest exit code")
    made.add_argument("--due", action="store_true", help="what is due by its schedule, and what waits for a process to carry it out")
    _format(made)
    made.add_argument("--reason", default="", metavar="TEXT", help="why, kept with the run")
    made.add_argument(
        "--keys", type=_keys, metavar="FROM..TO", help="only rows with these keys, both included; either may be left out (--keys=-9..9)"
    )
    made.add_argument("--times", type=_times, metavar="FROM..TO", help="only rows from one time on and before the other, in UTC (ISO 8601)")
    made.add_argument("--force", action="store_true", help="scan large tables by a key without an index all the same")
    made.add_argument("--no-store", action="store_true", help="keep nothing of the run")


def _about_runs(command: Adder) -> None:
    made = _configured(command("resume", _later("_runs", "resume"), "Go on with a run that ended early, from the chunks it had read"))
    made.add_argument("run", metavar="RUN", help="the run, or the beginning of its id (see: auditor runs)")
    _format(made)

    made = _servable(
        _configured(command("cancel", _later("_runs", "cancel"), "End a run in whatever process it is, and leave it resumable"))
    )
    made.add_argument("run", metavar="RUN", help="the run, or the beginning of its id")
    made.add_argument("--wait", type=float, default=30.0, metavar="SECONDS", help="how long to wait for its end (default: %(default)g)")

    made = _servable(_configured(command("runs", _later("_runs", "runs"), "List the runs that are kept, the newest first")))
    made.add_argument("--audit", metavar="AUDIT", help="of this audit only")
    _listed(made)

    made = _servable(_configured(command("history", _later("_runs", "runs"), "List the runs of one audit, the newest first")))
    made.add_argument("audit", metavar="AUDIT", help="which audit")
    _listed(made)

    made = _servable(_configured(command("show", _later("_runs", "show"), "Show a run as it was told when it ended, or how far it is")))
    made.add_argument("run", metavar="RUN", help="the run, the beginning of its id, or an audit, whose latest run is shown")
    _format(made)

    made = _configured(command("report", _later("_runs", "report"), "Report on all audits of a day, or on one run"))
    made.add_argument("--run", metavar="RUN", help="on this run, or on the latest of this audit")
    made.add_argument("--day", type=datetime.date.fromisoformat, metavar="DATE", help="on this day, UTC (default: today)")
    made.add_argument("--format", choices=("text", "html", "markdown", "json"), default="text", help="how to print (default: %(default)s)")
    made.add_argument("--output", metavar="FILE", help="write to this file instead")

    made = _configured(command("notify", _later("_runs", "notify"), "Try the channels that are told, or send them the day's digest"))
    made.add_argument("what", choices=("test", "digest"), help="what to send")
    made.add_argument("channels", nargs="*", metavar="CHANNEL", help="to these channels only")

    _configured(command("prune", _later("_runs", "prune"), "Drop the runs, events and ended tokens that keep: lets go"))


def _about_service(command: Adder) -> None:
    made = _configured(command("serve", _later("_serving", "serve"), "Serve audits over HTTP, and run them by their schedules"))
    made.add_argument("--host", metavar="ADDRESS", help="where to listen (default: service: host)")
    made.add_argument("--port", type=int, metavar="N", help="on which port (default: service: port)")
    made.add_argument("--insecure", action="store_true", help="let everybody in who can connect, without a token")

    made = _configured(command("token", _later("_serving", "token"), "Make, list and revoke the tokens that callers of the service need"))
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION", help="what to do with them")
    create = actions.add_parser("create", help="make a token and print its secret, which nobody can read again")
    create.add_argument("--name", required=True, metavar="NAME", help="whose it is")
    create.add_argument("--scope", required=True, choices=("read", "run", "define", "repair"), help="what it is good for")
    create.add_argument("--expires", metavar="TIME", help="how long it lives, such as 90d (default: until it is revoked)")
    actions.add_parser("list", help="list the tokens that were made")
    actions.add_parser("revoke", help="end a token at once").add_argument("name", metavar="NAME", help="whose it is")

    for name, about in (("pause", "Let an audit rest from its schedule"), ("unpause", "Let a paused audit follow its schedule again")):
        made = _configured(command(name, _later("_serving", name), about))
        made.add_argument("audit", metavar="AUDIT", help="which audit")

    _configured(
        command("crontab", _later("_serving", "crontab"), "Print what lets system cron, or Kubernetes, keep the schedules without a server")
    )


def _without_servers(command: Adder) -> None:
    made = _configured(command("compare", _later("_audits", "compare"), "Compare two saved results, without any connection"))
    made.add_argument("--source", required=True, metavar="FILE", help="the source's result: CSV or TSV with header, JSON lines, Parquet")
    made.add_argument("--target", required=True, metavar="FILE", help="the target's result")
    made.add_argument("--audit", metavar="AUDIT", help="take threshold and allow_empty from this audit")
    _format(made)

    made = command(
        "demo",
        _later("_audits", "demo"),
        "Audit real public data, damaged the way pipelines damage it",
        "Without URLs, in two embedded databases. With them, the data is loaded into your servers, into tables of its own.",
    )
    made.add_argument("--source", metavar="URL", help="load the undamaged data here")
    made.add_argument("--target", metavar="URL", help="load the damaged data here")
    made.add_argument("--rows", type=int, metavar="N", help="use the first N rows only")
    made.add_argument("--directory", metavar="DIR", default="demo-data", help="where the embedded databases go (default: %(default)s)")
    _format(made)


def _later(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """A command whose module is imported when it is called."""

    def call(options: argparse.Namespace) -> int:
        where = "_remote" if getattr(options, "server", None) else module
        code: int = getattr(import_module(f"auditor.cli.{where}"), name)(options)
        return code

    return call


def _keys(text: str) -> dict[str, int]:
    """A range of keys as it is written, ``1000..2000``; what has no meaning is told when the run is requested."""
    return {name: int(key) for name, key in _ends(text, r"-?\d{1,20}").items()}


def _times(text: str) -> dict[str, str]:
    """A range of times as it is written, ``2026-11-01..2026-12-01``; what is no time is told when the run is requested."""
    return _ends(text, r"[^.]+(?:\.\d+[^.]*)?")


def _ends(text: str, end: str) -> dict[str, str]:
    found = re.fullmatch(rf"({end})?\.\.({end})?", text)
    if not found or not any(found.groups()):
        raise argparse.ArgumentTypeError(f"{text!r} is no range; write FROM..TO, FROM.. or ..TO")
    return {name: one for name, one in zip(("from", "to"), found.groups(), strict=True) if one}


def _listed(made: argparse.ArgumentParser) -> None:
    states = ("pending", "running", "done", "failed", "cancelled")
    made.add_argument("--state", choices=states, help="in this state only")
    made.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (default: %(default)s)")
    made.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: %(default)s)")


def _format(made: argparse.ArgumentParser) -> None:
    made.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="how to print (default: %(default)s)")
    made.add_argument("--verbose", action="store_true", help="also costs, snapshots and the servers")
    made.add_argument("--quiet", action="store_true", help="no progress on standard error")
