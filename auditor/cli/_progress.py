"""Progress on standard error: bars on a terminal, otherwise one line per step; nothing with --quiet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from auditor.connections.reader import OnProgress, ignore_progress
from auditor.escaping import exact
from auditor.model import Progress

if TYPE_CHECKING:
    from auditor.api_models.run import Run


@contextmanager
def watching(quiet: bool) -> Iterator[OnProgress]:
    """Yield a callback that shows the progress of both sides during the block."""
    if quiet:
        yield ignore_progress
    elif sys.stderr.isatty():
        with bars() as watch:
            yield watch
    else:
        yield _plain()


def print_steps(quiet: bool) -> Callable[[Run], None]:
    """Return a function that prints each new step of a run."""
    printed: set[str] = set()

    def watch(run: Run) -> None:
        for side, step in run.progress.items():
            line = f"{run.audit}: {side}: {step.doing}"
            if not quiet and line not in printed:
                printed.add(line)
                print(line, file=sys.stderr, flush=True)

    return watch


def _plain() -> OnProgress:
    printed: set[tuple[str, str, str, int]] = set()
    lock = threading.Lock()

    def watch(now: Progress) -> None:
        tenth = 10 * now.done // now.total if now.total else 0
        step = (now.audit, now.side, now.doing, tenth)
        with lock:  # both sides report, each from its own thread
            if step in printed:
                return
            printed.add(step)
            share = f" {now.done:,} of about {now.total:,} rows" if 0 < now.done < now.total else ""
            sys.stderr.write(f"{now.audit}: {now.side}: {now.doing}{share}\n")  # print writes the end of the line apart
            sys.stderr.flush()

    return watch


@contextmanager
def bars() -> Iterator[OnProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from auditor.report.console import VisibleConsole

    statements = TextColumn("{task.fields[statements]} statements")
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), statements, TimeElapsedColumn())
    lock = threading.Lock()
    tasks: dict[tuple[str, str], TaskID] = {}
    with Bars(*columns, console=VisibleConsole(file=exact(sys.stderr)), transient=True) as bars:

        def watch(now: Progress) -> None:
            with lock:
                which = (now.audit, now.side)
                for other in [task for task in tasks if task[0] != now.audit]:
                    bars.remove_task(tasks.pop(other))  # audits run one after the other: an earlier one has ended
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
