"""The commands and options of the command line."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NoReturn

from auditor import __version__, conventions
from auditor.cli import _option_values as option_values

EPILOGUE = """\
exit codes:
  0  match: source and target are equal, or differ within the threshold
  1  mismatch: source and target differ
  2  wrong arguments or configuration
  3  unknown: the comparison could not be completed
  4  unexpected error: a bug; --debug prints its traceback

The configuration is --config FILE, else $AUDITOR_CONFIG, else ./auditor.yaml. Start with: auditor init
"""
PARTITION_STATES = ("equal", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only", "skipped")
METHODS = ("counts", "signature", "minhash", "exact")


class Parser(argparse.ArgumentParser):
    """A parser whose error messages repeat no password of a URL, and name the nearest commands and options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments as the base class does; an option that the command does not have is an error here, not left over."""
        options, rest = super().parse_known_args(args, namespace)
        if not hasattr(options, "asked"):
            options.asked = self  # of nested ones the innermost, whose usage says what it takes
        if unknown := next((text for text in rest if re.match("--?[A-Za-z]", text)), None):
            name = unknown.partition("=")[0]
            self.error(f"there is no option {name}{self._instead_of(name)}")
        return options, rest

    def _instead_of(self, name: str) -> str:
        """Return the end of the error about an unknown option: the argument of that name, the option that takes it, or the nearest ones."""
        word = name.lstrip("-")
        if any(action.metavar == word.upper() and not action.option_strings for action in self._actions):
            return f"; write {word.upper()} without it"
        taking = [action.option_strings[-1] for action in self._actions if action.option_strings and f"this {word}" in (action.help or "")]
        return _nearest(name, self._option_string_actions) if len(taking) != 1 or taking == [name] else f"; did you mean {taking[0]!r}?"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError for a command that there is not, with the nearest ones; other choices are checked by the base class."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise argparse.ArgumentError(None, f"there is no command {value!r}{_nearest(value, action.choices)}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        without = re.sub(r"\S++", lambda word: _without_password(word[0]), message)
        super().error(re.sub(r"([?&;]\w++=)[^\s&;]++", r"\1***", without))


def _nearest(name: str, known: Iterable[str]) -> str:
    from auditor.config import suggest

    return suggest(name, known) or "; see --help"


def _without_password(word: str) -> str:
    scheme, is_url, rest = word.partition("://")
    user, has_password, more = rest.partition(":")
    if not (is_url and has_password and "@" in more) or "/" in user or "@" in user:
        return word
    return f"{scheme}://{user}:***@{more.rpartition('@')[2]}"


AddCommand = Callable[..., argparse.ArgumentParser]
"""Adds a command: its name, the function it calls, its one-line help, and optionally more help."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    main = Parser(
        prog="auditor",
        description="Verify that a target table holds the same data as its source table.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main.add_argument("--version", action="version", version=f"auditor {__version__}")
    main.add_argument("--debug", action="store_true", help="print the traceback of an error; every command takes it, in any place")
    commands = main.add_subparsers(title="commands", metavar="COMMAND")
    main.set_defaults(command=None)

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str, more: str = "") -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=summary, description=f"{summary}. {more}".strip(), formatter_class=argparse.RawDescriptionHelpFormatter
        )
        added.set_defaults(command=run)
        return added

    _add_audit_commands(command)
    _add_run_commands(command)
    _add_partitions_command(command)
    _add_wait_command(command)
    _add_incident_commands(command)
    _add_patch_command(command)
    _add_trace_command(command)
    _add_bisect_command(command)
    _add_drill_command(command)
    _add_bootstrap_command(command)
    _add_service_commands(command)
    _add_pipeline_command(command)
    _add_heartbeat_command(command)
    _add_segments_command(command)
    _add_offline_commands(command)
    return main


def _with_config(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("--config", metavar="FILE", help="configuration file (default: $AUDITOR_CONFIG, else ./auditor.yaml)")
    return command


def _with_server(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("--server", metavar="URL", help="use the service at this URL; its token is read from $AUDITOR_TOKEN")
    return command


def _add_audit_commands(command: AddCommand) -> None:
    init = command(
        "init",
        _lazy("_init", "init"),
        "Write a commented configuration",
        "With --source and --target, it contains an audit for each table that exists on both sides; with --from-dbt, too, for each table"
        " that dbt says the origin of: meta: {auditor: {source: shop.orders, key: [id]}}.",
    )
    init.add_argument("--source", metavar="URL", help="source database, e.g. mysql://reader:password@db1:3306/shop")
    init.add_argument("--target", metavar="URL", help="target database, e.g. redshift://auditor:password@wh:5439/analytics")
    init.add_argument("--from-dbt", metavar="MANIFEST", help="manifest of a dbt project that reads the target, target/manifest.json")
    init.add_argument("--output", metavar="FILE", default="auditor.yaml", help="file to write; it must not exist (default: %(default)s)")
    _add_quiet_option(init)

    check = _with_config(command("check", _lazy("_audits", "check"), "Connect, plan the audits and report every problem"))
    check.add_argument("audits", nargs="*", metavar="AUDIT", help="audits to check (default: all)")
    _add_format_option(check, "text", "json")
    check.add_argument(
        "-v", "--verbose", action="store_true", help="also print partitions, hashes and expected costs, as auditor plan does"
    )

    more = "Nothing is written but temporary tables; without them, the values are part of each statement. It exits with 1 if a check fails."
    selftest = _with_config(command("selftest", _lazy("_engines", "selftest"), "Test that an engine computes what audits need", more))
    selftest.add_argument("--connection", required=True, metavar="NAME", help="connection whose engine to test")
    _add_format_option(selftest, "text", "json")
    _add_quiet_option(selftest)

    _add_certify_command(command)

    plan = _with_config(command("plan", _lazy("_audits", "check"), "Show how an audit will run: partitions, methods, expected costs"))
    plan.add_argument("audits", nargs=1, metavar="AUDIT", help="audit to plan")
    _add_format_option(plan, "text", "json")
    plan.set_defaults(verbose=True)

    schema = _with_config(
        command(
            "schema",
            _lazy("_audits", "schema"),
            "Print the target's CREATE TABLE for the source's table, or the ALTERs that bring a drifted target in line",
            "Nothing is run. Types follow the canonical kinds by which the audit compares, so that the source's rows, loaded, are a match.",
        )
    )
    schema.add_argument("audit", metavar="AUDIT", help="audit whose target to print")
    schema.add_argument("--create", action="store_true", help="print CREATE TABLE even if the target is there")
    schema.add_argument(
        "--dist-key", type=option_values.names, default=(), metavar="COLUMN", help="distribution key of the table, on Redshift"
    )
    schema.add_argument("--sort-key", type=option_values.names, default=(), metavar="COLUMN,..", help="sort key of the table, on Redshift")

    more = "via: of the audit names its folder, and how many dumps are kept. Needs Spark, the extra pipeline."
    dump = _with_config(command("dump", _lazy("_audits", "dump"), "Dump an audit's source to Parquet files, which stand in for it", more))
    dump.add_argument("audit", metavar="AUDIT", help="audit whose source is dumped")
    dump.add_argument("--master", default="local[1]", metavar="URL", help="the Spark that runs the dump (default: one in this process)")
    _add_format_option(dump, "text", "json")

    sql = _with_config(command("sql", _lazy("_audits", "sql"), "Print SQL scripts to paste into the engines' own consoles"))
    sql.add_argument("audit", metavar="AUDIT", help="audit to print")
    sql.add_argument("--side", choices=("source", "target"), help="print one side only (default: both)")
    sql.add_argument("--method", choices=METHODS, help="use this method instead of the audit's")

    _add_diff_command(command)
    _add_run_command(command)


def _add_diff_command(command: AddCommand) -> None:
    more = "Nothing is stored. Without -k the source's primary key identifies a row."
    diff = command("diff", _lazy("_diff", "diff"), "Compare two tables without a configuration", more)
    options = "[-k COLUMN] [-c COLUMN ...] [--where CONDITION] [--limit N] [--format FORMAT] [OPTION ...]"
    diff.usage = f"auditor diff URL1 TABLE1 [URL2] TABLE2 {options}"
    diff.add_argument(
        "tables",
        nargs="+",
        metavar="URL TABLE",
        help="source and target, each as URL and table, or a SELECT in quotes; URL2 may be left out",
    )
    diff.add_argument(
        "-k", "--key", type=option_values.names, action="extend", default=[], metavar="COLUMN,..", help="columns that identify a row"
    )
    more = "columns to compare (default: all columns of the source)"
    diff.add_argument("-c", "--columns", type=option_values.names, action="extend", default=[], metavar="COLUMN,..", help=more)
    more = "columns to leave out"
    diff.add_argument("--exclude", type=option_values.names, action="extend", default=[], metavar="COLUMN,..", help=more)
    more = "columns that have another name in the target"
    diff.add_argument(
        "--rename",
        type=option_values.pairs("a name and its name in the target", str),
        action="extend",
        default=[],
        metavar="A=B,..",
        help=more,
    )
    more = "how far numbers (0.01, or 0.1%% of the greater one) or times (1s) of a column may differ and still be equal"
    diff.add_argument(
        "--tolerance",
        type=option_values.pairs("a column and its tolerance", option_values.tolerance),
        action="extend",
        default=[],
        metavar="COLUMN=X,..",
        help=more,
    )
    more = "what still counts as a match: a similarity (0.999), rows=N that may differ, or share=0.01%% of the rows"
    diff.add_argument("--threshold", type=option_values.threshold, metavar="X", help=more)
    diff.add_argument("-w", "--where", metavar="CONDITION", help="compare only rows that fulfil this, as in: status <> 'draft'")
    more = "the tool that writes the target, whose flags, versions and columns are taken into account"
    diff.add_argument("--convention", choices=conventions.NAMES, metavar="NAME", help=f"{more}: {', '.join(conventions.NAMES)}")
    diff.add_argument("-l", "--limit", type=option_values.count, metavar="N", help="name at most N differences; all are counted")
    _add_report_options(diff, "csv", "html")
    _add_quiet_option(diff)


def _add_certify_command(command: AddCommand) -> None:
    summary = "Try an engine in a schema that is made for it: self-test, every type with damage, a pipeline's merges, its log"
    more = (
        "The schema is dropped again, also after an error or Ctrl-C. What the account may not do is not tried, and said. It exits with 1 if"
        "\nsomething failed, with 2 if the server is refused, with 3 if nothing could be tried."
    )
    certify = command("certify", _lazy("_engines", "certify"), summary, more)
    certify.add_argument("url", metavar="URL", help="server to try, with an account that may make a schema")
    more = "engine that holds the other side of the audits (default: an embedded DuckDB)"
    certify.add_argument("--against", default="", metavar="URL", help=more)
    more = "try these alone: selftest, facts, types, target, source (default: all that the engine has)"
    certify.add_argument("--parts", type=option_values.names, default=(), metavar="PART,..", help=more)
    certify.add_argument("--minutes", type=float, default=60.0, metavar="N", help="begin nothing after N minutes (default: %(default)g)")
    certify.add_argument("--dry-run", action="store_true", help="print what it would cost, and do nothing")
    certify.add_argument("--output", metavar="FILE", help="write the certificate to this file, as JSON")
    certify.add_argument("--page", metavar="FILE", help="write the certificate to this file, as Markdown")
    _add_format_option(certify, "text", "json", "markdown")
    _add_quiet_option(certify)


def _add_run_command(command: AddCommand) -> None:
    run = _with_server(_with_config(command("run", _lazy("_run", "run"), "Run audits and print their reports")))
    more = "audits to run, or patterns such as 'shop.*'; the exit code is the most severe of theirs"
    run.add_argument("audits", nargs="*", metavar="AUDIT", help=more)
    run.add_argument("--all", action="store_true", help="run all audits of the configuration")
    run.add_argument("--due", action="store_true", help="run all audits that are due by their schedules, and all pending runs")
    more = "run N audits at a time (default: 1); limits: of each connection and database hold for all of them together"
    run.add_argument("-j", "--jobs", type=option_values.count, default=1, metavar="N", help=more)
    _add_report_options(run, "junit")
    _add_quiet_option(run)
    run.add_argument("--reason", default="", metavar="TEXT", help="reason to store with the run")
    run.add_argument(
        "--keys",
        type=option_values.keys,
        metavar="FROM..TO",
        help="compare only these keys, both ends included; either end may be empty (--keys=-9..9)",
    )
    run.add_argument(
        "--times", type=option_values.times, metavar="FROM..TO", help="compare only rows from FROM until before TO, UTC (ISO 8601)"
    )
    run.add_argument("--method", choices=METHODS, help="use this method instead of the audit's; the audit's status stays as it is")
    run.add_argument(
        "--t",
        type=option_values.scattered,
        metavar="N",
        help="let a partition name up to N scattered differences from its sums (method exact)",
    )
    run.add_argument(
        "--rescan",
        action="store_true",
        help="scan the source in spite of its live summaries, or read all files in spite of their kept sums, and prove these by that",
    )
    run.add_argument("--force", action="store_true", help="scan large tables even if their key has no index")
    run.add_argument("--no-store", action="store_true", help="do not store the run")


def _add_run_commands(command: AddCommand) -> None:
    resume = _with_config(command("resume", _lazy("_runs", "resume"), "Resume a failed or cancelled run from its last completed chunk"))
    resume.add_argument(
        "run", metavar="RUN", help="run id or its first characters (see: auditor runs), or an audit, whose latest run is resumed"
    )
    _add_report_options(resume)
    _add_quiet_option(resume)

    cancel = _with_server(_with_config(command("cancel", _lazy("_runs", "cancel"), "Cancel a run in any process; it can be resumed later")))
    cancel.add_argument("run", metavar="RUN", help="run id or its first characters, or an audit, whose latest run is cancelled")
    cancel.add_argument("--wait", type=float, default=30.0, metavar="SECONDS", help="how long to wait for its end (default: %(default)g)")
    _add_format_option(cancel, "text", "json")

    runs = _with_server(_with_config(command("runs", _lazy("_runs", "runs"), "List stored runs, newest first")))
    runs.add_argument("--audit", metavar="AUDIT", help="list runs of this audit only")
    _add_list_options(runs)

    ls = _with_server(
        _with_config(command("ls", _lazy("_listing", "ls"), "List audits: what each stands at, since when, and its next run"))
    )
    ls.add_argument("audits", nargs="*", metavar="AUDIT", help="audits to list, or patterns such as 'shop.*' (default: all)")
    _add_format_option(ls, "text", "json")

    history = _with_server(_with_config(command("history", _lazy("_runs", "runs"), "List the runs of one audit, newest first")))
    history.add_argument("audit", metavar="AUDIT", help="audit whose runs to list")
    _add_list_options(history)

    show = _with_server(_with_config(command("show", _lazy("_runs", "show"), "Show the report of a run, or its progress")))
    show.add_argument("run", metavar="RUN", help="run id, its first characters, or an audit (its last verdict)")
    show.add_argument("--follow", action="store_true", help="print its progress until it ends, and exit with the code of its report")
    _add_report_options(show)
    _add_quiet_option(show)

    summary = "Print the stored differences of a run, or write them to a file"
    differences = _with_server(_with_config(command("differences", _lazy("_listing", "differences"), summary)))
    differences.add_argument("run", metavar="RUN", help="run id, its first characters, or an audit (its last verdict)")
    _add_format_option(differences, "csv", "json", "parquet")
    differences.add_argument("--output", metavar="FILE", help="write to this file, readable by its owner alone, instead of standard output")
    _add_quiet_option(differences)

    report = _with_config(command("report", _lazy("_runs", "report"), "Report on all audits of a day, or on one run"))
    report.add_argument("--run", metavar="RUN", help="report on this run, or on the last verdict of this audit")
    report.add_argument("--day", type=datetime.date.fromisoformat, metavar="DATE", help="day to report on, UTC (default: today)")
    _add_format_option(report, "text", "html", "markdown", "json", "junit")
    report.add_argument("--output", metavar="FILE", help="write to this file instead of standard output")
    _add_quiet_option(report)

    more = "Runs that were pruned count, too. What pipelines, repairs and traces run is not counted, nor is planning alone."
    costs = _with_server(_with_config(command("costs", _lazy("_listing", "costs"), "Say what audits cost, by audit and day", more)))
    since = costs.add_mutually_exclusive_group()
    since.add_argument("--since", type=datetime.date.fromisoformat, metavar="DATE", help="the first day, UTC")
    since.add_argument("--days", type=option_values.count, metavar="N", help="the last N days, today among them (default: 7)")
    costs.add_argument("--by", choices=("audit", "day", "connection"), help="add up by this alone (default: by day and audit)")
    _add_format_option(costs, "text", "json")

    _add_evidence_commands(command)

    notify = _with_config(command("notify", _lazy("_runs", "notify"), "Test the notification channels, or send the daily digest"))
    notify.add_argument("what", choices=("test", "digest"), help="what to send")
    notify.add_argument("channels", nargs="*", metavar="CHANNEL", help="channels to test (default: all)")

    store = _with_config(command("store", _lazy("_runs", "scrub"), "Remove values of masked columns that are still stored"))
    store.add_argument(
        "action", choices=("scrub",), help="scrub: remove what older versions stored, or runs from before a column was masked"
    )

    _add_forget_command(command)

    prune = _with_config(command("prune", _lazy("_runs", "prune"), "Delete runs, events and ended tokens beyond the limits in keep:"))
    _add_format_option(prune, "text", "json")


def _add_incident_commands(command: AddCommand) -> None:
    listing = _with_server(_with_config(command("incidents", _lazy("_incidents", "incidents"), "List incidents, newest first")))
    listing.add_argument("audit", nargs="?", metavar="AUDIT", help="list only the incidents of this audit")
    listing.add_argument("--limit", type=option_values.count, default=20, metavar="N", help="list at most N (default: %(default)s)")
    _add_format_option(listing, "text", "json")

    summary = "Say that you know of an audit's open incident"
    more = (
        "Who, why and until when is stored. Nobody is notified again of what is known; with --mute, of nothing that the incident has."
        " It ends with the incident."
    )
    known = _with_server(_with_config(command("acknowledge", _lazy("_incidents", "acknowledge"), summary, more)))
    known.add_argument("audit", metavar="AUDIT", help="audit whose incident is acknowledged")
    known.add_argument("--why", default="", metavar="REASON", help="the reason, for others to read")
    known.add_argument("--mute", action="store_true", help="notify nobody about the incident")
    known.add_argument("--until", type=option_values.moment, metavar="TIME", help="when it ends (ISO 8601; without a zone UTC)")
    known.add_argument("--known", action="store_true", help="let it end, too, with the first run that finds a new differing row")
    known.add_argument("--withdraw", action="store_true", help="withdraw it, so that all are notified again")
    _add_format_option(known, "text", "json")


def _add_partitions_command(command: AddCommand) -> None:
    summary = "List the partitions of a run that are not equal, with how many rows each side has and how similar they are"
    partitions = _with_server(_with_config(command("partitions", _lazy("_listing", "partitions"), summary)))
    partitions.add_argument("run", metavar="RUN", help="run id, its first characters, or an audit (its last verdict)")
    which = partitions.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="also list the equal ones")
    which.add_argument("--state", choices=PARTITION_STATES, help="only those in this state")
    _add_format_option(partitions, "text", "csv", "json")


def _add_forget_command(command: AddCommand) -> None:
    more = (
        "It looks into stored runs, repairs and rows that were left out, and names what it does not look into: journals of patches, dumps,"
        " staged parts, segments, histories, topics, and what was sent. With --apply the store loses it."
    )
    forget = _with_config(
        command("forget", _lazy("_runs", "forget"), "Say where the key of a row still is, or remove it from the store", more)
    )
    forget.add_argument("audit", metavar="AUDIT", help="audit of the row's table")
    key = "key of the row, as reports print it; of several columns with commas between, or as a JSON list"
    forget.add_argument("--key", required=True, metavar="KEY", help=key)
    forget.add_argument("--apply", action="store_true", help="remove it where that is allowed, instead of only saying where it is")
    _add_format_option(forget, "text", "json")


def _add_wait_command(command: AddCommand) -> None:
    summary = "Wait until audits have verified everything up to a moment, so that a next step reads only what was proved"
    more = (
        "No run is requested: what runs verify counts, whoever starts them. A match within the audit's threshold verifies. It exits with 1"
        "\nas soon as a run that began after the moment found differences, and with 3 when the time is up."
    )
    wait = _with_server(_with_config(command("wait", _lazy("_wait", "wait"), summary, more)))
    wait.add_argument("audits", nargs="+", metavar="AUDIT", help="audits of tables or segments that must all verify it, or patterns")
    more = "the moment (ISO 8601; without a zone UTC), such as the end of the interval that the next step reads"
    wait.add_argument("--verified-through", dest="through", type=option_values.moment, required=True, metavar="TIME", help=more)
    more = "how long to wait, such as 30m; 0 looks once (default: 1h)"
    wait.add_argument("--timeout", type=option_values.duration, default=3600.0, metavar="DURATION", help=more)
    _add_format_option(wait, "text", "json")
    _add_quiet_option(wait)


def _add_evidence_commands(command: AddCommand) -> None:
    summary = "Write the signed evidence of a run as one JSON file, for somebody else to verify"
    more = "The stored run and its chain are held against it first: what was changed since it was signed is said, and the exit code is 3."
    evidence = _with_config(command("evidence", _lazy("_evidence", "evidence"), summary, more))
    evidence.add_argument("run", nargs="?", metavar="RUN", help="run id, its first characters, or an audit (the last link of its chain)")
    evidence.add_argument("-o", "--output", metavar="FILE", help="write to this file, readable by its owner alone")
    evidence.add_argument("--chain", action="store_true", help="also write all other links of the audit's chain, without what they found")
    action = evidence.add_mutually_exclusive_group()
    action.add_argument(
        "--new-key", action="store_true", help="make the key that signs, in the file evidence: key, and print its public key"
    )
    action.add_argument("--public-key", action="store_true", help="print the public key, for those who verify")
    action.add_argument("--row-key", action="store_true", help="print the key of the digests of rows, for somebody who looks for a row")
    action.add_argument(
        "--erase-row-keys", action="store_true", help="erase the key of the run's digests, or those of all runs of the audit"
    )
    _add_quiet_option(evidence)

    summary = "Say whether files of evidence are whole, and whether the chain is unbroken; without a configuration or a database"
    verify = command("verify", _lazy("_evidence", "verify"), summary, "The exit code is 3 if anything is not whole.")
    verify.add_argument("files", nargs="+", metavar="FILE", help="files that auditor evidence wrote, or that a bucket holds")
    more = "public key that is trusted, as a file or in hexadecimal; may be repeated. Without it, any key is accepted, and named"
    verify.add_argument("--key", action="append", default=[], metavar="KEY", help=more)
    more = "digest of a head that was published; may be repeated. A link in the files must have it"
    verify.add_argument("--head", action="append", default=[], metavar="DIGEST", help=more)
    _add_format_option(verify, "text", "json")


def _add_trace_command(command: AddCommand) -> None:
    summary = "Say where rows were lost that differ: on the way into the source's log, a pipeline's files, a topic, or the target"
    more = (
        "The pipeline that carries the table, or the topic that the audit names, is asked for each hop. It exits with 0 if no row is lost,"
        " with 1 if the hop of one is named, and with 3 if it cannot be told."
    )
    trace = _with_config(command("trace", _lazy("_trace", "trace_rows"), summary, more))
    trace.add_argument("run", metavar="RUN", help="run id, its first characters, or an audit (its last run)")
    key = "trace this row instead of those that the run names; of several columns with commas between, or as a JSON list; may be repeated"
    trace.add_argument("--key", action="append", default=[], metavar="KEY", help=key)
    trace.add_argument(
        "--limit", type=option_values.count, default=20, metavar="N", help="rows that are traced at most (default: %(default)s)"
    )
    _add_format_option(trace, "text", "json")
    _add_quiet_option(trace)


def _add_drill_command(command: AddCommand) -> None:
    summary = "Prove that an audit's alarms work: damage a row of a canary table, find it, report it, repair it, and print the times"
    more = (
        "The table auditor_drill is made beside the audit's tables and dropped again; no other table is touched. The target's connection"
        " needs write: {url: ...}. It exits with 1 if a step fails, and a channel that was not told is one."
    )
    drill = _with_config(command("drill", _lazy("_drill", "drill"), summary, more))
    drill.add_argument("audit", metavar="AUDIT", help="audit beside whose tables, and by whose channels, the drill is held")
    _add_apply_option(drill, "hold the drill; without it, only the plan is printed")
    _add_format_option(drill, "text", "json")


def _add_bisect_command(command: AddCommand) -> None:
    summary = "Say at which merge a target and its source parted, and who parted them, from the ledger of an audit with ledger: true"
    more = (
        "Neither table is read. What others changed is known as of the audit's last run: run it first. It exits with 1 if rows differ, and"
        " with 3 if it cannot be told since when, or by whom."
    )
    bisect = _with_server(_with_config(command("bisect", _lazy("_bisect", "bisect"), summary, more)))
    bisect.add_argument("audit", metavar="AUDIT", help="audit whose target is looked at")
    _add_format_option(bisect, "text", "json")


def _add_patch_command(command: AddCommand) -> None:
    summary = "Print the statements that make a target's rows equal its source's, or apply or undo them"
    more = "Rows are read again from both sides. Nothing is written without --apply, which needs write: {url: ...} on the connection."
    patch = _with_config(command("patch", _lazy("_patch", "patch"), summary, more))
    patch.add_argument("run", nargs="?", metavar="RUN", help="run id, its first characters, or an audit (its last run)")
    how = patch.add_mutually_exclusive_group()
    how.add_argument("--apply", action="store_true", help="write it, in small transactions, or send it, and audit the rows again")
    how.add_argument("--dry-run", action="store_true", help="execute the patch in the target, and roll every batch back")
    what = patch.add_mutually_exclusive_group()
    what.add_argument("--undo", metavar="PATCH", help="instead, write the rows of an applied patch back as they were")
    what.add_argument(
        "--through",
        choices=("refresh", "command", "file"),
        help="let what delivers to the target bring the rows: its pipeline, --command, or whatever reads the file --output",
    )
    patch.add_argument("--command", dest="receiver", metavar="COMMAND", help="with --through command: gets the changes as JSON lines")
    patch.add_argument("--format", choices=("sql", "json", "csv"), help="output format of a printed patch (default: sql)")
    patch.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    patch.add_argument("--output", metavar="FILE", help="write to this file, readable by its owner alone, instead of standard output")
    patch.add_argument(
        "--keys", type=option_values.keys, metavar="FROM..TO", help="patch only these keys, both ends included; either end may be empty"
    )
    patch.add_argument(
        "--columns", type=option_values.names, default=(), metavar="COLUMN,..", help="patch only these columns, of changed rows alone"
    )
    patch.add_argument("--only", choices=("missing", "changed", "extra"), help="patch only rows of this kind")
    patch.add_argument("--limit", type=option_values.count, metavar="N", help="patch at most the first N differences")
    patch.add_argument("--delete-extra", action="store_true", help="also delete the rows that only the target has")
    patch.add_argument(
        "--accept",
        action="append",
        choices=("triggers", "cascades", "identity", "defaults"),
        default=[],
        help="patch although the target's triggers, cascading foreign keys, numbered columns or defaults then do more than is printed",
    )
    _add_quiet_option(patch)


def _add_bootstrap_command(command: AddCommand) -> None:
    summary = "Print how a target's table, or a range of its keys, would be copied again from the source, or copy it"
    more = (
        "Nothing is written without --apply. The copy is compared with the snapshot that it is read in, and only a match is brought into"
        " the table, whose replaced rows stay until --drop-old. Needs write: {url: ...} on the target's connection. The same command"
        " continues one that did not end."
    )
    bootstrap = _with_config(command("bootstrap", _lazy("_bootstrap", "bootstrap"), summary, more))
    bootstrap.add_argument("audit", nargs="?", metavar="AUDIT", help="audit whose target is copied again")
    bootstrap.add_argument(
        "--keys", type=option_values.keys, metavar="FROM..TO", help="copy only these keys, both ends included; either may be empty"
    )
    bootstrap.add_argument(
        "--partitions",
        default="",
        metavar="N,N..N",
        help="copy only these partitions of the audit's last run, by number; 'differing' stands for those that differed",
    )
    bootstrap.add_argument(
        "--from", dest="replica", default="", metavar="CONNECTION", help="read this replica of the source, which matched it lately"
    )
    bootstrap.add_argument(
        "--spark", action="store_true", help="copy by executors of Spark, however few the rows are; write: {spark: ...} says which"
    )
    action = bootstrap.add_mutually_exclusive_group()
    action.add_argument("--due", action="store_true", help="copy what is due by schedule: {bootstrap: ...}; for cron")
    action.add_argument("--drop-old", action="store_true", help="drop the replaced rows and unfinished copies of earlier bootstraps")
    _add_apply_option(bootstrap, "copy the rows, or drop what is left; without it, only the plan is printed")
    _add_quiet_option(bootstrap)


def _add_service_commands(command: AddCommand) -> None:
    serve = _with_config(command("serve", _lazy("_serving", "serve"), "Serve the HTTP API and pages, and run scheduled audits"))
    serve.add_argument("--host", metavar="ADDRESS", help="address to listen on (default: host in service:)")
    serve.add_argument("--port", type=int, metavar="N", help="port to listen on (default: port in service:)")
    serve.add_argument("--insecure", action="store_true", help="let everybody read and run audits without a token")

    token = _with_config(command("token", _lazy("_serving", "token"), "Create, list and revoke access tokens of the service"))
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION", help="create, list or revoke")
    create = actions.add_parser("create", help="create a token and print its secret, which is shown only once")
    create.add_argument("--name", required=True, metavar="NAME", help="name of the token")
    scopes = ("read", "run", "define", "pipeline", "repair", "apply", "admin")
    create.add_argument("--scope", required=True, choices=scopes, help="what the token permits")
    more = "limit it to audits of these names, or patterns such as 'shop.*' (default: all)"
    create.add_argument("--audits", type=option_values.names, default=(), metavar="AUDIT,..", help=more)
    create.add_argument("--expires", metavar="TIME", help="lifetime, such as 90d (default: until revoked)")
    _add_format_option(actions.add_parser("list", help="list all tokens"), "text", "json")
    revoke = actions.add_parser("revoke", help="revoke a token at once")
    revoke.add_argument("name", metavar="NAME", help="name of the token")
    _add_quiet_option(revoke)

    for name, summary in (("pause", "Stop scheduling an audit"), ("unpause", "Schedule a paused audit again")):
        pause = _with_config(command(name, _lazy("_serving", name), summary))
        pause.add_argument("audit", metavar="AUDIT", help=f"audit to {name}")

    _with_config(
        command("crontab", _lazy("_serving", "crontab"), "Print a crontab and a Kubernetes CronJob that run due audits without a server")
    )


def _add_pipeline_command(command: AddCommand) -> None:
    summary = "Replicate tables from a change stream into targets, on Spark"
    pipeline = command("pipeline", _lazy("_pipeline", "pipeline"), summary)
    actions = pipeline.add_subparsers(dest="action", required=True, metavar="ACTION", help="what to do; all but demo take a name")
    summaries = {
        "init": "write the audits that compare a pipeline's source with its targets into the configuration",
        "check": "connect, and report every missing right, setting and unsupported column with its remedy",
        "run": "replicate until a signal, which ends it after the batch",
        "status": "show what was staged, and what each target holds and lacks",
        "pause": "let a running pipeline stand still",
        "unpause": "let a paused pipeline continue",
        "skip": "let a stopped table continue without the events that stop it",
        "refresh": "print which existing rows would go through the stream, or send them, in order with the changes of others",
        "segments": "list the segments of a pipeline's stream with their digests",
        "rebuild": "write a table as it stood at a position of the log, or a time, from the staged parts that are kept",
        "events": "print the events of a table in Debezium's form, a line of JSON each, from the staged parts that are kept",
        "schemas": "list the versions of tables: their columns, by which statement they changed, and which targets hold them",
        "failover": "print where a replica of the server that was read would be read from, or continue there",
        "reset": "forget the staged parts and all positions; asks for the name again",
    }
    added = {name: _with_config(actions.add_parser(name, help=text, description=f"{text}.")) for name, text in summaries.items()}
    for action in added.values():
        action.add_argument("pipeline", metavar="PIPELINE", help="name of the pipeline")
    for name in ("check", "status", "segments", "schemas", "refresh", "skip", "failover", "rebuild"):
        _add_format_option(added[name], "text", "json")
    for name in ("init", "segments", "refresh", "events"):
        _add_quiet_option(added[name])
    _add_refresh_options(added["refresh"])
    _add_rebuild_options(added["rebuild"])
    _add_events_options(added["events"])
    prove = "also write a row into the auditor's own table on the source, and wait until it came through the log"
    added["check"].add_argument("--prove", action="store_true", help=prove)
    added["run"].add_argument(
        "--target", metavar="TARGET", help="only load this target from what another process stages; start it before that one"
    )
    added["failover"].add_argument("--to", metavar="CONNECTION", required=True, help="connection to the new server")
    _add_apply_option(added["failover"], "continue there; without it, only the place and what may be missing are printed")
    added["failover"].add_argument("--accept-gap", action="store_true", help="continue although rows may be missing; copy the tables then")
    added["skip"].add_argument("--table", metavar="TABLE", required=True, help="the table that is stopped")
    added["skip"].add_argument("--position", metavar="FILE:POS:NUMBER", required=True, help="where it is stopped, as status shows it")
    added["skip"].add_argument("--reason", metavar="WHY", required=True, help="why the events may be left out; is stored with your name")
    schemas = added["schemas"]
    schemas.add_argument("table", nargs="?", metavar="TABLE", help="only of this table, or of those that match a pattern")
    schemas.add_argument("--create", metavar="ENGINE", help="print the CREATE TABLE for this engine instead, of one table")
    schemas.add_argument(
        "--version", type=option_values.count, metavar="N", help="with --create: for the rows of this version (default: the last one)"
    )
    added["segments"].add_argument("--table", metavar="TABLE", help="of this table alone")
    added["segments"].add_argument("--verify", action="store_true", help="read each file, and compare it with its digest")
    which = "only of this table, or of those that match a pattern, such as 'crm.*'; may be given repeatedly"
    added["status"].add_argument("--table", metavar="TABLE", action="append", help=which)
    demo = "replicate from a private server into PostgreSQL and DuckDB, audit both, break them, and audit them again"
    actions.add_parser("demo", help=demo, description=f"{demo}.")
    of_what = added["reset"].add_mutually_exclusive_group()
    of_what.add_argument(
        "--from-targets", action="store_true", help="let targets keep their positions, and read the source's log again from there"
    )
    of_what.add_argument("--target", metavar="TARGET", help="forget how far this target is, and nothing else; it begins as a new one")
    added["reset"].add_argument("--name-again", metavar="PIPELINE", help="the name again, instead of being asked for it")


def _add_refresh_options(refresh: argparse.ArgumentParser) -> None:
    refresh.add_argument("--table", metavar="TABLE", help="of this table, or of those that match a pattern (default: of all)")
    chosen = refresh.add_mutually_exclusive_group()
    chosen.add_argument(
        "--keys", type=option_values.keys, metavar="FROM..TO", help="only these keys, both ends included; either end may be empty"
    )
    chosen.add_argument("--key-list", metavar="FILE", help="only the keys of this file: one a line, of several columns as JSON arrays")
    chosen.add_argument("--list", action="store_true", help="list the refreshes so far instead, newest first")
    _add_apply_option(refresh, "send them, or continue a refresh that was stopped; without it, only the plan is printed")
    refresh.add_argument("--ask", action="store_true", help="with --apply: only ask for it, the pipeline's own process carries it out")


def _add_rebuild_options(rebuild: argparse.ArgumentParser) -> None:
    rebuild.add_argument("rebuilt", metavar="TABLE", help="the table, by its name in the source then: orders, or shop.orders")
    when = "FILE:POS of the source's log, as binlog.000012:4567, or a time in UTC, as 2026-11-01T12:00:00"
    rebuild.add_argument("--at", metavar="POSITION", required=True, help=when)
    where = rebuild.add_mutually_exclusive_group(required=True)
    where.add_argument("--output", metavar="FILE.parquet", help="write it into this file, which there is not yet")
    where.add_argument("--into", metavar="CONNECTION", help="write it into a new table of this connection, which needs write: {url: ...}")
    rebuild.add_argument("--table", metavar="SCHEMA.TABLE", help="with --into: the new table")
    _add_apply_option(rebuild, "with --into: write it; without it, only what would be written is printed")


def _add_events_options(events: argparse.ArgumentParser) -> None:
    events.add_argument("--table", metavar="TABLE", required=True, help="of this table: orders, or shop.orders")
    where = "behind which they begin: earliest, latest, FILE:POS of the source's log, or the position of an earlier line"
    events.add_argument("--from", dest="start", metavar="POSITION", required=True, help=where)
    events.add_argument("--follow", action="store_true", help="continue with what is staged later, until a signal")
    events.add_argument("--limit", type=option_values.count, metavar="N", help="print no more than so many lines")


def _add_heartbeat_command(command: AddCommand) -> None:
    heartbeat = command("heartbeat", _lazy("_pipeline", "heartbeat"), "Write a serial number and the time into a source, again and again")
    actions = heartbeat.add_subparsers(dest="action", required=True, metavar="ACTION", help="what to do")
    summary = "write heartbeats until a signal, into the table auditor_heartbeat, which is made if it is missing"
    run = _with_config(actions.add_parser("run", help=summary, description=f"{summary}."))
    run.add_argument("connection", metavar="CONNECTION", help="connection to the source; it needs write: {url: ...}")
    run.add_argument("--every", metavar="TIME", default="5s", help="time between two heartbeats (default: %(default)s)")


def _add_segments_command(command: AddCommand) -> None:
    summary = "Compare two writers of one change stream: what is registered, their files, and repairing one from the other"
    segments = command("segments", _lazy("_segments", "segments"), summary)
    actions = segments.add_subparsers(dest="action", required=True, metavar="ACTION", help="what to do")
    summaries = {
        "status": "show what both sides of a segment audit registered, and what is wrong between them",
        "verify": "read the segments of both sides anew, check them against manifest and register, and name the first event that differs",
        "copy": "print which segments of one side would be replaced by the other's, or replace them: copied, verified, then switched",
        "reset": "forget the register of a segment audit; files and manifests stay",
    }
    added = {name: _with_config(actions.add_parser(name, help=text, description=f"{text}.")) for name, text in summaries.items()}
    for action in added.values():
        action.add_argument("audit", metavar="AUDIT", help="name of the segment audit")
    for name in ("status", "verify", "copy"):
        _add_format_option(added[name], "text", "json")
    for name in ("verify", "copy"):
        added[name].add_argument("--table", metavar="TABLE", help="of this table alone")
    _add_apply_option(added["copy"], "copy them; without it, only the plan is printed")
    added["copy"].add_argument("--from", dest="side", metavar="SIDE", required=True, help="the side that is right: a pipeline, or anew")


def _add_offline_commands(command: AddCommand) -> None:
    compare = _with_config(command("compare", _lazy("_audits", "compare"), "Compare two saved results without connecting to a database"))
    compare.add_argument(
        "--source", required=True, metavar="FILE", help="result of the source: CSV or TSV with header, JSON lines, JSON array or Parquet"
    )
    compare.add_argument("--target", required=True, metavar="FILE", help="result of the target, in one of the same formats")
    compare.add_argument("--audit", metavar="AUDIT", help="use threshold and allow_empty of this audit")
    _add_report_options(compare)

    demo = command(
        "demo",
        _lazy("_audits", "demo"),
        "Audit public flight data with typical pipeline faults",
        "Without URLs it uses two embedded databases; with them it loads the data into new tables on your servers.",
    )
    demo.add_argument("--source", metavar="URL", help="database to load the original data into")
    demo.add_argument("--target", metavar="URL", help="database to load the damaged data into")
    demo.add_argument("--rows", type=int, metavar="N", help="use only the first N rows")
    demo.add_argument("--directory", metavar="DIR", default="demo-data", help="directory of the embedded databases (default: %(default)s)")
    _add_report_options(demo)
    _add_quiet_option(demo)

    summary = "Print a script that completes commands, options, and names of audits and runs in a shell"
    more = 'For bash: eval "$(auditor completion bash)"'
    completion = _with_config(command("completion", _lazy("_completion", "completion"), summary, more))
    more = "shell to print it for; audits and runs print the names that the script completes"
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "audits", "runs"), help=more)


def _lazy(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """Return a function that imports its module when called; with --server it is the one of that name in `_remote`."""

    def call(options: argparse.Namespace) -> int:
        if getattr(options, "server", None):
            from auditor.cli import _remote

            return _remote.call(name, options)
        code: int = getattr(import_module(f"auditor.cli.{module}"), name)(options)
        return code

    return call


# options that several commands share


def _add_list_options(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that list runs."""
    states = ("pending", "running", "done", "failed", "cancelled")
    command.add_argument("--state", choices=states, help="list runs in this state only")
    command.add_argument("--limit", type=int, default=20, metavar="N", help="maximum number of runs (default: %(default)s)")
    _add_format_option(command, "text", "json")


def _add_report_options(command: argparse.ArgumentParser, *more: str) -> None:
    """Add the options of commands that print reports; ``more`` are further formats."""
    _add_format_option(command, "text", "json", "markdown", *more)
    verbose = "also print partitions, the published score, costs and notes, and of several runs those that match in full"
    command.add_argument("-v", "--verbose", action="store_true", help=verbose)


def _add_apply_option(command: argparse.ArgumentParser, help: str) -> None:
    """Add --apply to a command that changes data: without it, it prints what it would do."""
    command.add_argument("--apply", action="store_true", help=help)


def _add_quiet_option(command: argparse.ArgumentParser) -> None:
    """Add --quiet to a command that prints progress."""
    command.add_argument("-q", "--quiet", action="store_true", help="print no progress to standard error")


def _add_format_option(command: argparse.ArgumentParser, *formats: str) -> None:
    """Add --format, of which the first one is the default, and --json."""
    command.add_argument("--format", choices=formats, default=formats[0], help="output format (default: %(default)s)")
    if "json" in formats:
        command.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
