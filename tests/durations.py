"""How tests set durations until they end: the fixture ``set_durations`` is an object of this class."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields

from auditor.durations import durations
from dialects.durations import SessionDurations
from dialects.durations import durations as session_durations

_OF_SESSIONS = {one.name for one in fields(SessionDurations)}


class SetDurations(ExitStack):
    """Sets durations, of the auditor and of sessions, for a block."""

    def __call__(self, **seconds: float | tuple[float, ...]) -> None:
        """Set some fields; raises TypeError for an unknown one."""
        for name, value in seconds.items():
            place = session_durations if name in _OF_SESSIONS else durations
            self.enter_context(place.overridden(**{name: value}))
