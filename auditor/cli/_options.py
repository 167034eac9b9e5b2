"""Options that several commands share, and how their values are parsed."""

from __future__ import annotations

import argparse
import re


def keys(text: str) -> dict[str, int]:
    """Parse a range of keys such as ``1000..2000``; its order and limits are checked when the run is requested."""
    return {name: int(key) for name, key in _range_ends(text, r"-?\d{1,20}").items()}


def times(text: str) -> dict[str, str]:
    """Split a range of times such as ``2026-11-01..2026-12-01``; the times are parsed when the run is requested."""
    return _range_ends(text, r"[^.]+(?:\.\d+[^.]*)?")


def names(text: str) -> tuple[str, ...]:
    """Split names at their commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def count(text: str) -> int:
    """Parse a number of rows, at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; write 1 or more")
    return int(text)


def _range_ends(text: str, pattern: str) -> dict[str, str]:
    match = re.fullmatch(rf"({pattern})?\.\.({pattern})?", text)
    if not match or not any(match.groups()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range; write FROM..TO, FROM.. or ..TO")
    return {name: end for name, end in zip(("from", "to"), match.groups(), strict=True) if end}


def add_list_options(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that list runs."""
    states = ("pending", "running", "done", "failed", "cancelled")
    command.add_argument("--state", choices=states, help="list runs in this state only")
    command.add_argument("--limit", type=int, default=20, metavar="N", help="maximum number of runs (default: %(default)s)")
    add_format_option(command, "text", "json")


def add_report_options(command: argparse.ArgumentParser, *more: str) -> None:
    """Add the options of commands that print reports; ``more`` are further formats."""
    add_format_option(command, "text", "json", "markdown", *more)
    command.add_argument("--verbose", action="store_true", help="also print costs, notes, left-out columns and all unequal partitions")


def add_quiet_option(command: argparse.ArgumentParser) -> None:
    """Add --quiet to a command that prints progress."""
    command.add_argument("-q", "--quiet", action="store_true", help="print no progress to standard error")


def add_format_option(command: argparse.ArgumentParser, *formats: str) -> None:
    """Add --format, of which the first one is the default, and --json."""
    command.add_argument("--format", choices=formats, default=formats[0], help="output format (default: %(default)s)")
    if "json" in formats:
        command.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
