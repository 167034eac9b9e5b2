"""How tests set durations until they end: the fixture ``set_durations`` is an object of this class."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields

from auditor.durations import durations
from dialects.durations import SessionDurations
from dialects.durations import durations as session_durations

_OF_SESSIONS = {one.name for one in fields(SessionDurations)}


POLLS: dict[str, float | tuple[float, ...]] = {
    "worker_poll": 0.05, "staged_poll": 0.1, "run_poll": 0.1, "batch_poll": 0.05, "process_poll": 0.05, "drill_poll": 0.05,
    "path_poll": 0.2, "slot_poll": 0.05, "limiter_poll": 0.02, "connecting_poll": 0.02, "heartbeat_poll": 0.1, "log_proof_poll": 0.05,
    "trace_pause": 0.1, "connection_retry_waits": (0.1, 0.2, 0.5, 2.0, 8.0, 15.0, 30.0),
}  # fmt: skip
"""What the process of the tests waits between two looks, and before a first retry, unless a test says otherwise: most tests wait for it."""


class SetDurations(ExitStack):
    """Sets durations, of the auditor and of sessions, for a block."""

    def __call__(self, **seconds: float | tuple[float, ...]) -> None:
        """Set some fields; raises TypeError for an unknown one."""
        for name, value in seconds.items():
            place = session_durations if name in _OF_SESSIONS else durations
            self.enter_context(place.overridden(**{name: value}))
