"""Progress on standard error: bars on a terminal, otherwise one line per step; nothing with --quiet."""

from __future__ import annotations

import datetime as dt
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from auditor.escaping import exact
from auditor.model import Progress

if TYPE_CHECKING:
    from auditor.api_models.run import Run


class Watch:
    """Shows the progress of runs, or with ``--quiet`` nothing. Any thread may call it."""

    def __call__(self, now: Progress) -> None:
        """Show how far a side of a run is."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to what is printed in the block."""
        yield


@contextmanager
def watching(quiet: bool, at_once: int = 1) -> Iterator[Watch]:
    """Yield what shows the progress of both sides during the block, of as many audits as run at once."""
    if quiet:
        yield Watch()
    elif sys.stderr.isatty():
        with bars(at_once) as watch:
            yield watch
    else:
        yield _Lines()


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


class _Lines(Watch):
    """A line for each step."""

    def __init__(self) -> None:
        self._printed: set[tuple[str, str, str, int]] = set()
        self._lock = threading.Lock()

    def __call__(self, now: Progress) -> None:
        tenth = 10 * now.done // now.total if now.total else 0
        step = (now.audit, now.side, now.doing, tenth)
        with self._lock:  # both sides report, each from its own thread
            if step in self._printed:
                return
            self._printed.add(step)
            share = f" {now.done:,} of about {now.total:,} rows" if 0 < now.done < now.total else ""
            sys.stderr.write(f"{now.audit}: {now.side}: {now.doing}{share}\n")  # print writes the end of the line apart
            sys.stderr.flush()


@contextmanager
def bars(at_once: int = 1) -> Iterator[Watch]:
    """Yield what shows a bar for each side of the latest runs, as many as run at once, with the time since each began."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    from auditor.report.console import VisibleConsole

    class Clock(ProgressColumn):
        """The time since the run began. The library's own stops once all rows are read, and rows are named after that."""

        def render(self, task: Task) -> Text:
            return Text(str(dt.timedelta(seconds=int(task.elapsed or 0))), "progress.elapsed")

    statements = TextColumn("{task.fields[statements]} statements")
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), statements, Clock())
    with Bars(*columns, console=VisibleConsole(file=exact(sys.stderr)), transient=True) as shown:
        yield _Bars(shown, at_once)


class _Bars(Watch):
    """The bars of runs."""

    def __init__(self, bars: Any, at_once: int) -> None:
        self._bars, self._at_once = bars, at_once
        self._lock = threading.Lock()
        self._tasks: dict[tuple[str, str], Any] = {}

    def __call__(self, now: Progress) -> None:
        with self._lock:
            which = (now.audit, now.side)
            audits = list(dict.fromkeys([*(audit for audit, _ in self._tasks if audit != now.audit), now.audit]))
            for ended in [task for task in self._tasks if task[0] in audits[: -self._at_once]]:
                self._bars.remove_task(self._tasks.pop(ended))
            if which not in self._tasks:
                self._tasks[which] = self._bars.add_task("", total=None, statements=0)
            self._bars.update(
                self._tasks[which],
                description=f"{now.audit} {now.side}: {now.doing}",
                completed=now.done,
                total=now.total or None,
                statements=now.statements,
            )

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()
