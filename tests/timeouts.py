"""How tests set timeouts until they end: the fixture ``set_timeouts`` is an object of this class."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields

from auditor.timeouts import timeouts
from dialects.timeouts import SessionTimeouts
from dialects.timeouts import timeouts as session_timeouts

_OF_SESSIONS = {one.name for one in fields(SessionTimeouts)}


class SetTimeouts(ExitStack):
    """Sets timeouts, of the auditor and of sessions, for a block."""

    def __call__(self, **seconds: float | tuple[float, ...]) -> None:
        """Set some fields; raises TypeError for an unknown one."""
        for name, value in seconds.items():
            place = session_timeouts if name in _OF_SESSIONS else timeouts
            self.enter_context(place.overridden(**{name: value}))
