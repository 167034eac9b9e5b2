"""The actions of the command ``auditor pipeline`` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from auditor.cli._options import add_format_option, add_quiet_option, keys


def add_options(command: argparse.ArgumentParser, with_config: Callable[[argparse.ArgumentParser], argparse.ArgumentParser]) -> None:
    """Add the actions of the command to its parser."""
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION", help="what to do; all but demo take a name")
    summaries = {
        "init": "write the audits that compare a pipeline's source with its targets into the configuration",
        "check": "connect, and report every missing right, setting and unsupported column with what mends it",
        "run": "replicate until a signal, which ends it after the batch",
        "status": "show what was staged, and what each target holds and lacks",
        "pause": "let a running pipeline stand still",
        "unpause": "let a paused pipeline go on",
        "skip": "let a stopped table go on without the events that stop it",
        "refresh": "send existing rows through the stream, in order with the changes of others; goes on where an earlier one was stopped",
        "segments": "list the segments of a pipeline's stream with their digests",
        "failover": "go on from another server, a replica of the one that was read, behind the transaction that was read last",
        "reset": "forget the staged parts and all positions; asks for the name again",
    }
    added = {name: with_config(actions.add_parser(name, help=text, description=f"{text}.")) for name, text in summaries.items()}
    for action in added.values():
        action.add_argument("pipeline", metavar="PIPELINE", help="name of the pipeline")
    for name in ("check", "status", "segments", "refresh", "skip", "failover"):
        add_format_option(added[name], "text", "json")
    for name in ("init", "segments", "refresh"):
        add_quiet_option(added[name])
    _add_refresh_options(added["refresh"])
    prove = "also write a row into the auditor's own table on the source, and wait until it came through the log"
    added["check"].add_argument("--prove", action="store_true", help=prove)
    added["run"].add_argument(
        "--target", metavar="TARGET", help="only load this target from what another process stages; start it before that one"
    )
    added["failover"].add_argument("--to", metavar="CONNECTION", required=True, help="connection to the new server")
    added["failover"].add_argument("--dry-run", action="store_true", help="only say where it would go on, and what may be missing")
    added["failover"].add_argument("--accept-gap", action="store_true", help="go on although rows may be missing; copy the tables then")
    added["skip"].add_argument("--table", metavar="TABLE", required=True, help="the table that is stopped")
    added["skip"].add_argument("--position", metavar="FILE:POS:NUMBER", required=True, help="where it is stopped, as status shows it")
    added["skip"].add_argument("--reason", metavar="WHY", required=True, help="why the events may be left out; is stored with your name")
    added["segments"].add_argument("--table", metavar="TABLE", help="of this table alone")
    added["segments"].add_argument("--verify", action="store_true", help="read each file, and compare it with its digest")
    demo = "replicate from a private server into PostgreSQL and DuckDB, audit both, break them, and audit them again"
    actions.add_parser("demo", help=demo, description=f"{demo}.")
    added["reset"].add_argument(
        "--from-targets", action="store_true", help="let targets keep their positions, and read the source's log again from there"
    )
    added["reset"].add_argument("--name-again", metavar="PIPELINE", help="the name again, instead of being asked for it")


def _add_refresh_options(refresh: argparse.ArgumentParser) -> None:
    refresh.add_argument("--table", metavar="TABLE", help="of this table, or of those that match a pattern (default: of all)")
    chosen = refresh.add_mutually_exclusive_group()
    chosen.add_argument("--keys", type=keys, metavar="FROM..TO", help="only these keys, both ends included; either end may be empty")
    chosen.add_argument("--key-list", metavar="FILE", help="only the keys of this file: one a line, of several columns as JSON arrays")
    chosen.add_argument("--list", action="store_true", help="list the refreshes so far instead, newest first")
    refresh.add_argument("--ask", action="store_true", help="only ask for it: the pipeline's own process carries it out")
