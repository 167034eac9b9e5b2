"""Runs: their life in `_life`, reading them in `_reading`."""

from __future__ import annotations

from auditor.store._life import STALE, Outcome, Resumed, ask_cancel, beat, begin, finish, pin, recover, take_up
from auditor.store._process import Owner, this_process
from auditor.store._reading import (
    Ending,
    Kept,
    Point,
    differences,
    endings,
    find,
    latest,
    listed,
    living,
    newest_and_living,
    picture,
    plan,
    report,
    scores,
)
from auditor.store._stored import AD_HOC, StoredRun, ad_hoc

__all__ = [
    "AD_HOC", "STALE", "Ending", "Kept", "Outcome", "Owner", "Point", "Resumed", "StoredRun", "ad_hoc", "ask_cancel", "beat",
    "begin", "differences", "endings", "find", "finish", "latest", "listed", "living", "newest_and_living", "picture", "pin",
    "plan", "recover", "report", "scores", "take_up", "this_process",
]  # fmt: skip
