"""What every command needs: the settings, the store, and printing reports with the right exit code."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.model import Report
    from auditor.store import Store

WORST_LAST = (0, 1, 3, 2)
"""Exit codes of several audits fold into the last of these that any of them has."""


def settings(options: argparse.Namespace) -> Settings:
    """The configuration that the command names."""
    from auditor import config

    return config.load(config.find(options.config))


@contextmanager
def opened(configured: Settings, without: bool = False) -> Iterator[Store | None]:
    """The store of a configuration, open for the block; None where there is none, or none is wanted."""
    if without or configured.store is None:
        yield None
        return
    from auditor.store import open_store

    store = open_store(configured.store.url)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def shared(store: Store | None) -> Iterator[None]:
    """Statements count together with those of every process that shares the store, for the block."""
    if store is None:
        yield
        return
    from auditor import sharing

    sharing.share(store)
    try:
        yield
    finally:
        sharing.share(None)


@contextmanager
def stored(options: argparse.Namespace) -> Iterator[tuple[Settings, Store]]:
    """The settings and their store. Raises ConfigError where nothing is kept."""
    from auditor.errors import ConfigError

    configured = settings(options)
    with opened(configured) as store:
        if store is None:
            raise ConfigError("this configuration keeps no runs; write store: {url: ...}")
        yield configured, store


def section(options: argparse.Namespace) -> dict[str, Any]:
    """What of a run's overrides the command says of the section of the tables that it is to look at alone."""
    return {name: asked for name in ("keys", "times") if (asked := getattr(options, name))}


def who() -> str:
    """Who runs this command, as far as the machine knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


def announce(configured: Settings, store: Store | None, report: Report) -> None:
    """Tell the configured channels; one that cannot be told is named on standard error."""
    if store is None or not configured.notify.channels:
        return
    from auditor.notify import tell

    for failure in tell(configured.notify, store, report):
        print(f"auditor: {failure}", file=sys.stderr)


def told(reports: list[Report], options: argparse.Namespace) -> int:
    """Print reports as asked; the exit code of the worst of them."""
    if options.format == "json":
        from auditor.report import json as as_json

        values = [as_json.report(report) for report in reports]
        print_json(values[0] if len(values) == 1 else values)
    elif options.format == "markdown":
        from auditor.report import markdown

        print("\n".join(markdown.report(report) for report in reports), end="")
    else:
        from auditor.report import text

        for report in reports:
            printer().print(text.report(report, options.verbose))
    for report in reports:
        if report.verdict.value == "unknown":
            print(f"auditor: {report.audit}: {' '.join(report.reasons)}", file=sys.stderr)
    return folded([report.exit_code for report in reports])


def folded(codes: list[int]) -> int:
    """The gravest of several exit codes."""
    return max(codes, key=WORST_LAST.index, default=0)


def print_json(value: Any) -> None:
    """Print plain values as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def printer() -> Any:
    """What prints text: as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 150)
