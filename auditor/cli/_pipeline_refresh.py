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
from auditor.pipeline.refresh import use_cases as service
from auditor.store import refreshes

if TYPE_CHECKING:
    from auditor.shapes.pipeline import Refresh as ShownRefresh
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
        asked = service.request(
            configured, store, options.pipeline, options.table, first=ends.get("from"), last=ends.get("to"), keys=listed, by=current_user()
        )
        if not options.ask:
            asked = service.carry_out(configured, store, options.pipeline, asked, stopped, _Follower(options.quiet).follow)
        return _show(asked, options)


def read_keys(path: Path) -> list[list[str]]:
    """Return the keys of a file: JSON arrays, or single values, which are taken as they are written. Raises ConfigError."""
    keys = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("["):
                values = json.loads(line)
                if not all(isinstance(value, str | int) for value in values):
                    raise ConfigError(f"{path}, line {number}: write a key as an array of texts and whole numbers")
                keys.append([str(value) for value in values])
            elif line:
                keys.append([line])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the keys cannot be read from {path}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: {error}; write a JSON array") from error
    if not keys:
        raise ConfigError(f"{path} lists no key")
    return keys


class _Follower:
    """Prints what changes, on standard error, unless it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._told: dict[str, tuple[str, int]] = {}

    def follow(self, followed: Refresh) -> None:
        tenth = int(followed.progress.get("rows", 0)) // 100_000
        if not self._quiet and self._told.get(followed.refresh) != (followed.reason, tenth) and followed.state == "running":
            self._told[followed.refresh] = (followed.reason, tenth)
            print(
                f"{followed.table}: {followed.progress.get('rows', 0):,} rows{': ' * bool(followed.reason)}{followed.reason}",
                file=sys.stderr,
                flush=True,
            )


def _show(sent: Sequence[Refresh], options: argparse.Namespace) -> int:
    from auditor.pipeline.refresh.use_cases import show

    shown = [show(stored) for stored in sent]
    if options.format == "json":
        print_json(shown)
    else:
        for shown_refresh in shown:
            print(_line(shown_refresh))
    return 3 if any(shown_refresh.state == "failed" for shown_refresh in shown) and not options.list else 0


def _line(shown: ShownRefresh) -> str:
    how = f"{shown.rows:,} rows in {shown.chunks:,} chunks, {shown.seconds:,.1f} s"
    locked = f"; rows were locked for {shown.longest:.2f} s at most" if shown.longest else ""
    place = f"; in the log up to {shown.log_place}" if shown.log_place else ""
    return f"{shown.table}: {shown.state}: {how}{locked}{place}{': ' * bool(shown.reason)}{shown.reason}"
