"""Progress on standard error: bars on a terminal, a plain line at each step otherwise, nothing when quiet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from auditor.link import Watcher, unwatched
from auditor.model import Progress


@contextmanager
def watching(quiet: bool) -> Iterator[Watcher]:
    """A watcher for the block that shows what both sides do."""
    if quiet:
        yield unwatched
    elif sys.stderr.isatty():
        with _bars() as watch:
            yield watch
    else:
        yield _plain()


def _plain() -> Watcher:
    told: set[tuple[str, str, str, int]] = set()

    def watch(now: Progress) -> None:
        tenth = 10 * now.done // now.total if now.total else 0
        step = (now.audit, now.side, now.doing, tenth)
        if step not in told:
            told.add(step)
            share = f" {now.done:,} of about {now.total:,} rows" if 0 < now.done < now.total else ""
            print(f"{now.audit}: {now.side}: {now.doing}{share}", file=sys.stderr, flush=True)

    return watch


@contextmanager
def _bars() -> Iterator[Watcher]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    statements = TextColumn("{task.fields[statements]} statements")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), statements, TimeElapsedColumn())
    lock = threading.Lock()
    tasks: dict[tuple[str, str], TaskID] = {}
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:

        def watch(now: Progress) -> None:
            with lock:
                which = (now.audit, now.side)
                if which not in tasks:
                    tasks[which] = bars.add_task("", total=None, statements=0)
                bars.update(
                    tasks[which],
                    description=f"{now.audit} {now.side}: {now.doing}",
                    completed=now.done,
                    total=now.total or None,
                    statements=now.statements,
                )

        yield watch
