"""Points of the protocols that a process may die between, where a test raises an error, changes a table or kills the process.

A point is reached before the step begins that it is named by, or after the one that it is named by in the past tense. Nothing is armed
unless a test, or ``auditor certify`` in a child process, does so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Literal, get_args

Point = Literal[
    # a patch: its batches, and the journal
    "patch.prepared", "patch.begun", "patch.marked", "patch.written", "patch.commit", "patch.committed", "patch.noted",
    # a bootstrap that copies a table and swaps the copy in
    "bootstrap.begun", "bootstrap.made", "bootstrap.range", "bootstrap.read", "bootstrap.load", "bootstrap.loaded", "bootstrap.verify",
    "bootstrap.swapping", "bootstrap.swap", "bootstrap.cleared", "bootstrap.commit", "bootstrap.swapped", "bootstrap.noted",
    # a chunk of a refresh: existing rows that are written into the source's log
    "chunk.begin", "chunk.copy", "chunk.commit", "chunk.committed",
    # a merge into a table of a target, and what statements did to the source's table
    "merge.stage", "merge.load", "merge.merge", "merge.merged", "merge.commit", "merge.committed", "merge.report",
    "merge.clear", "merge.cleared", "merge.move", "merge.renamed", "merge.copied", "merge.made", "merge.moved",
    "merge.migrate", "merge.altered", "merge.migrated", "merge.changed",
    # a transaction of messages
    "publish.begin", "publish.sent", "publish.commit", "publish.committed", "publish.report",
    # the versions of rows: a file of them, and how far they were written
    "history.written", "history.recorded",
    # a schema tracker: when it is made, and when a batch is planned with it
    "tracker.owned", "tracker.created", "tracker.dumped", "tracker.begun",
    "tracker.noted", "tracker.applied", "tracker.emptied", "tracker.restored", "tracker.recorded",
]  # fmt: skip

POINTS: tuple[str, ...] = get_args(Point)
"""All of them, those of each protocol in the order in which they are reached."""

_actions: dict[str, list[Callable[[], object]]] = {}


def reach(point: Point) -> None:
    """Call what is armed at a point."""
    for action in tuple(_actions.get(point, ())):
        action()


@contextmanager
def armed(point: str, action: Callable[[], object], nth: int | None = None) -> Iterator[None]:
    """Call ``action`` for the block whenever any thread of this process reaches a point, or only the ``nth`` time.

    Raises LookupError for an unknown point, and AssertionError at the end of the block, however it ends, if ``action`` was never called.
    """
    reached = 0

    def count() -> None:
        nonlocal reached
        reached += 1
        if nth is None or reached == nth:
            action()

    def unreached() -> str:
        times = f"reached {reached} of {nth} times" if nth else "not reached"
        return f"the point {point} was armed, and {times}"

    if point not in POINTS:
        raise LookupError(f"there is no point {point!r}; the points are listed in {__name__}")
    try:
        with _listening({point: count}):
            yield
    except BaseException as error:
        if reached < (nth or 1):
            raise AssertionError(f"{unreached()}; the block ended with {error!r}") from error
        raise
    if reached < (nth or 1):
        raise AssertionError(unreached())


@contextmanager
def followed(protocol: str, action: Callable[[str], object]) -> Iterator[None]:
    """Call ``action`` for the block with the name, without the protocol, of each point of a protocol that is reached, if any is.

    Raises LookupError for an unknown protocol.
    """
    actions = {point: partial(action, point.partition(".")[2]) for point in POINTS if point.startswith(f"{protocol}.")}
    if not actions:
        raise LookupError(f"no protocol {protocol!r} has points; the points are listed in {__name__}")
    with _listening(actions):
        yield


@contextmanager
def _listening(actions: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    for point, action in actions.items():
        _actions.setdefault(point, []).append(action)
    try:
        yield
    finally:
        for point, action in actions.items():
            _actions[point].remove(action)
