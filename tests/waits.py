"""How tests set waits until they end: the fixture ``set_waits`` is an object of this class."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields

from auditor.waits import waits
from dialects.waits import SessionWaits
from dialects.waits import waits as session_waits

_OF_SESSIONS = {one.name for one in fields(SessionWaits)}


class SetWaits(ExitStack):
    """Sets waits, of the auditor and of sessions, for a block."""

    def __call__(self, **seconds: float | tuple[float, ...]) -> None:
        """Set some fields; raises TypeError for an unknown one."""
        for name, value in seconds.items():
            place = session_waits if name in _OF_SESSIONS else waits
            self.enter_context(place.overridden(**{name: value}))
