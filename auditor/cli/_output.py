"""Shared by the commands: loading settings, opening the store, printing reports and choosing the exit code."""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.escaping import command, exact, json_text

if TYPE_CHECKING:
    from auditor.api_models.audit import Overrides
    from auditor.config import Settings
    from auditor.errors import AuditorError
    from auditor.model import Report
    from auditor.store import Store

SEVERITY = (0, 1, 3, 2, 4)
"""Exit codes from least to most severe; several audits exit with the most severe of theirs."""


def load_settings(options: argparse.Namespace) -> Settings:
    """Load the configuration that the options name. Raises ConfigError."""
    from auditor import config

    return config.load(config.find_file(options.config))


def find_audits(
    configured: Settings, wanted: list[str], store: Store | None, *, asks_databases: bool = False, by_leg: bool = False
) -> tuple[Settings, list[str]]:
    """Return the settings with every audit that there is, and the names of those that are wanted, as `audits.select` does.

    Tables of groups without an audit are named on standard error. Raises what `audits.select` raises.
    """
    plain = {*configured.segments, *(name for name, audit in configured.audits.items() if not (by_leg and audit.via))}
    if wanted and plain.issuperset(wanted):
        return configured, wanted
    from auditor.service import audits  # which loads the store's library

    selected = audits.select(configured, wanted, store, asks_databases=asks_databases, by_leg=by_leg)
    for line in selected.left_out:
        print(f"auditor: {line}", file=sys.stderr)
    return selected.settings, selected.names


def print_unaudited(known: Settings) -> bool:
    """Print, on standard error, how to run the groups of which no table ran yet, and return whether there are any.

    ``known`` has every audit that there is.
    """
    groups = known.unaudited_groups(known.audits)
    if not groups:
        return False
    from auditor.report.day_text import NOT_YET  # which loads the report of a day

    for group in groups:
        print(f"auditor: {NOT_YET.format(group)}; run them: {command('auditor', 'run', group)}", file=sys.stderr)
    return True


def with_known_groups(configured: Settings, store: Store) -> Settings:
    """Return the settings with every audit; where a database cannot be asked, those of its groups that ran before are still due."""
    from auditor.errors import AuditorError

    try:
        return find_audits(configured, [], store, asks_databases=True)[0]
    except AuditorError as error:
        print(f"auditor: {error}; tables that were audited before are still due", file=sys.stderr)
        return configured


@contextmanager
def open_optional_store(configured: Settings, skip: bool = False) -> Iterator[Store | None]:
    """Open the configured store for the block; yields None if none is configured, or with ``skip``."""
    if skip or configured.store is None:
        yield None
        return
    from auditor.store import open_store

    store = open_store(configured.store.url)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def shared_statement_slots(store: Store | None) -> Iterator[None]:
    """For the block, count concurrent statements together with all processes that share the store."""
    if store is None:
        yield
        return
    from auditor.connections import throttle

    throttle.share_through(store)
    try:
        yield
    finally:
        throttle.share_through(None)


@contextmanager
def settings_and_store(options: argparse.Namespace) -> Iterator[tuple[Settings, Store]]:
    """Load the settings and open their store for the block. Raises ConfigError if no store is configured."""
    from auditor.errors import ConfigError

    configured = load_settings(options)
    with open_optional_store(configured) as store:
        if store is None:
            raise ConfigError("no store is configured, so runs are not stored; add store: {url: ...}")
        yield configured, store


def one_off_settings(options: argparse.Namespace) -> Overrides:
    """Return the settings of a one-off run that --keys, --times, --method and --t give."""
    return {name: value for name in ("keys", "times", "method", "t") if (value := getattr(options, name))}


def current_user() -> str:
    """Return the name of the operating system's user, or '' if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


@contextmanager
def printing_failures() -> Iterator[Callable[[Iterable[str]], None]]:
    """Yield what prints why notifications were not sent. For the block they are not logged as well, which would print them twice."""

    def is_other(record: logging.LogRecord) -> bool:
        return getattr(record, "action", "") != "notify_failed"

    def print_failures(failures: Iterable[str]) -> None:
        for failure in failures:
            print(f"auditor: {failure}", file=sys.stderr)

    logger = logging.getLogger("auditor.service.notify")
    logger.addFilter(is_other)
    try:
        yield print_failures
    finally:
        logger.removeFilter(is_other)


@contextmanager
def notifying(configured: Settings, store: Store | None) -> Iterator[Callable[[Report], None]]:
    """Yield a function that notifies the channels of a finished run, together with others that end within a minute or with the block."""
    if store is None or not (configured.notify.channels or configured.notify.openlineage):
        yield lambda _: None
        return
    from auditor.service import audits
    from auditor.service.notify import Batch

    batch, known = Batch(configured, store), audits.with_defined_audits(configured, store)
    with printing_failures() as print_failures:
        try:
            yield lambda report: print_failures(batch.add(known, report))
        finally:
            print_failures(batch.flush())


def notify_channels(configured: Settings, store: Store | None, report: Report) -> None:
    """Notify the configured channels and OpenLineage of a finished run; failures are printed to standard error."""
    if store is None or not (configured.notify.channels or configured.notify.openlineage):
        return
    from auditor.service.notify import notify_of_run

    with printing_failures() as print_failures:
        print_failures(notify_of_run(configured, store, report))


def print_head(report: Report) -> None:
    """Print the line of a report that says its verdict."""
    from auditor.report import text

    console().print(text.head(report))


def print_reports(reports: list[Report], options: argparse.Namespace, failures: Mapping[str, AuditorError] = {}) -> int:
    """Print reports in the format that the options name, and return the most severe of their exit codes.

    ``failures`` say why audits did not begin, for formats that have a place for it.
    """
    if options.format == "json":
        from auditor.report import json as as_json

        values = [as_json.report(report) for report in reports]
        print_json(values[0] if len(values) == 1 else values)
    elif options.format == "markdown":
        from auditor.report import markdown

        print("\n".join(markdown.report(report) for report in reports), end="")
    elif options.format == "html":
        from auditor.report import html

        print("\n".join(html.run(report) for report in reports))
    elif options.format == "junit":
        from auditor.report import junit

        print(junit.runs(reports, failures), end="")
    else:
        from auditor.report import text

        for report in reports:
            console().print(text.report(report, options.verbose))
    for report in reports:
        if report.verdict.value == "unknown" and options.format != "text":  # whose report says why
            print(f"auditor: {report.audit}: {' '.join(report.reasons)}", file=sys.stderr)
    return worst_exit_code([report.exit_code for report in reports])


def print_where_stored(reports: list[Report], store: Store | None, options: argparse.Namespace) -> None:
    """Print, below reports as text, how to see again and in full what is stored of these runs."""
    if store is None or options.format != "text":
        return
    for report in reports:
        # An audit's name stands for the run of its last verdict.
        is_last = report.state.value == "done" and not report.other_settings
        print(f"  Details: {command('auditor', 'show', report.audit if is_last else report.run[:12])} --verbose")


def write_private(path: Path, data: bytes) -> None:
    """Write what holds keys and values: a new file is readable by its owner alone, one that exists keeps its mode."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def write_pieces(pieces: Iterable[str], options: argparse.Namespace, more: str = "") -> int:
    """Write pieces of text as they come, to standard output or as `write_private` does; ``more`` is said of the file. Returns 0."""
    if not options.output:
        data_output().writelines(pieces)
        return 0
    with os.fdopen(os.open(options.output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(pieces)
    if not options.quiet:
        print(f"wrote {Path(options.output)}{more}", file=sys.stderr)
    return 0


def data_output() -> Any:
    """Return standard output for CSV and SQL, which hold names and values exactly; a terminal is shown them made visible."""
    return sys.stdout if sys.stdout.isatty() else exact(sys.stdout)


def worst_exit_code(codes: list[int]) -> int:
    """Return the most severe of several exit codes; 0 for none."""
    return max(codes, key=SEVERITY.index, default=0)


def print_json(value: Any) -> None:
    """Print plain values, models or lists of models as JSON."""
    print(json_text(value, indent=2))


def console() -> Any:
    """Return a rich console, which makes texts visible: as wide as the terminal, or 150 columns for a file."""
    from auditor.report.console import VisibleConsole

    class CandidConsole(VisibleConsole):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich itself would end the process with the exit code of a mismatch

    return CandidConsole(file=exact(sys.stdout), width=None if sys.stdout.isatty() else 150)
