"""The command ``auditor pipeline refresh``: ask for existing rows to be sent through the stream, and carry that out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.cli._output import current_user, print_json, settings_and_store
from auditor.cli._signals import stopped_by_signals
from auditor.errors import ConfigError
from auditor.service import pipeline_refreshes as service
from auditor.store import refreshes

if TYPE_CHECKING:
    from auditor.shapes.refresh import Refresh as ShownRefresh
    from auditor.store.refreshes import Refresh


def refresh(options: argparse.Namespace) -> int:
    """Send rows through the stream until they are all in the source's log, or a signal ends it after a chunk."""
    with (
        settings_and_store(options) as (configured, store),
        stopped_by_signals("stopping after this chunk; the pipeline, or the same command, goes on with it") as stopped,
    ):
        if options.list:
            configured.pipeline(options.pipeline)
            return _show(refreshes.list_refreshes(store, options.pipeline), options)
        ends = options.keys or {}
        listed = read_keys(Path(options.key_list)) if options.key_list else ()
        about = (configured, store, options.pipeline, options.table)
        asked = service.request(*about, first=ends.get("from"), last=ends.get("to"), keys=listed, by=current_user())
        if not options.ask:
            asked = service.carry_out(configured, store, options.pipeline, asked, stopped, _Follower(options.quiet).follow)
        return _show(asked, options)


def read_keys(path: Path) -> list[list[str]]:
    """Return the keys of a file: JSON arrays, or single values, which are taken as they are written. Raises ConfigError."""
    found = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("["):
                values = json.loads(line)
                if not all(isinstance(one, str | int) for one in values):
                    raise ConfigError(f"{path}, line {number}: write a key as an array of texts and whole numbers")
                found.append([str(one) for one in values])
            elif line:
                found.append([line])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the keys cannot be read from {path}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: {error}; write a JSON array") from error
    if not found:
        raise ConfigError(f"{path} lists no key")
    return found


class _Follower:
    """Prints what changes, on standard error, unless it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._told: dict[str, tuple[str, int]] = {}

    def follow(self, one: Refresh) -> None:
        tenth = int(one.progress.get("rows", 0)) // 100_000
        if not self._quiet and self._told.get(one.refresh) != (one.reason, tenth) and one.state == "running":
            self._told[one.refresh] = (one.reason, tenth)
            print(f"{one.table}: {one.progress.get('rows', 0):,} rows{': ' * bool(one.reason)}{one.reason}", file=sys.stderr, flush=True)


def _show(found: Sequence[Refresh], options: argparse.Namespace) -> int:
    from auditor.service.pipeline_refreshes import show

    shown = [show(one) for one in found]
    if options.format == "json":
        print_json(shown)
    else:
        for one in shown:
            print(_line(one))
    return 3 if any(one.state == "failed" for one in shown) and not options.list else 0


def _line(one: ShownRefresh) -> str:
    how = f"{one.rows:,} rows in {one.chunks:,} chunks, {one.seconds:,.1f} s"
    locked = f"; rows were locked for {one.longest:.2f} s at most" if one.longest else ""
    place = f"; in the log up to {one.log_place}" if one.log_place else ""
    return f"{one.table}: {one.state}: {how}{locked}{place}{': ' * bool(one.reason)}{one.reason}"
