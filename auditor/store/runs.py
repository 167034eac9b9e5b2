"""Runs: their life in `_life`, reading them in `_reading`."""

from __future__ import annotations

from auditor.store._life import STALE, Outcome, Resumed, ask_cancel, beat, begin, finish, pin, recover, take_up
from auditor.store._process import Owner, this_process
from auditor.store._reading import Kept, Scored, differences, find, latest, listed, living, newest, picture, plan, report, scores
from auditor.store._stored import StoredRun

__all__ = [
    "STALE", "Kept", "Outcome", "Owner", "Resumed", "Scored", "StoredRun", "ask_cancel", "beat", "begin", "differences", "find",
    "finish", "latest", "listed", "living", "newest", "picture", "pin", "plan", "recover", "report", "scores", "take_up",
    "this_process",
]  # fmt: skip
