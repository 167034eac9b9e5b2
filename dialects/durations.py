"""How long sessions wait: one object, of which tests set fields for a block. Those of the auditor: `auditor/durations.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

W = TypeVar("W", bound=Any)


class Current(Generic[W]):
    """The object of durations that all threads of this process read, at the moment when they wait."""

    def __init__(self, usual: W) -> None:
        self._now = usual

    def __call__(self) -> W:
        return self._now

    @contextmanager
    def overridden(self, **seconds: float | tuple[float, ...]) -> Iterator[None]:
        """Set some fields for the block, in all threads. Raises TypeError for an unknown one."""
        before = self._now
        self._now = replace(before, **seconds)
        try:
            yield
        finally:
            self._now = replace(self._now, **{name: getattr(before, name) for name in seconds})


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDurations:
    """What sessions wait for, in seconds."""

    silence_grace: float = 30.0
    """For a server, beyond a statement's time limit, to say that the limit has passed."""
    cancel_grace: float = 5.0
    """For a server to end a cancelled statement, before its connection is cut."""
    close_grace: float = 1.0
    """For the end of a channel of Spark Connect, after the server had ``cancel_grace`` to release the session."""
    receipt_poll: float = 0.2
    """Between two looks at how much the waits that are going on have received."""
    snapshot_lock: float = 1
    """For the lock under which sessions open equal snapshots, and to hold it; writers to the table wait as long."""
    idle_session: float = 86_400
    """For the other side, without losing MySQL's session and snapshot; the server's default is a third of that."""
    transfer: float = 600
    """For which MySQL waits while one part of a result or statement is on its way."""
    file_poll: tuple[float, float] = (0.05, 0.2)
    """Between two looks at whether a file is free that another process has open: at random between these, so that two that wait differ."""
    longest_commit_pause: float = 2.0
    """Before a commit to a Delta table is tried again, at most."""
    unfinished_file: float = 3_600.0
    """For which a file stays at least that no pointer lists: another process may be about to list it."""


durations = Current(SessionDurations())
"""Call it for the durations of sessions that hold now."""
