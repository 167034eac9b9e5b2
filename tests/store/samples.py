"""Sample runs and chunks."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from dataclasses import replace
from typing import Any

from auditor.model import State, Verdict
from auditor.store import Store, run_lifecycle, runs

T0 = dt.datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=dt.UTC)

DONE = run_lifecycle.Outcome(
    state=State.DONE,
    verdict=Verdict.MISMATCH,
    exit_code=1,
    seconds=12.3456789012345,
    method="exact",
    reasons=("2 rows are missing", "größer, 大きい, 🙂"),
    score=0.1 + 0.2,
    lower=1 / 3,
    upper=2 / 3,
    published=0.9375,
    coverage=1.0,
    rows={"source": 2**40, "target": 7},
    partitions=65_536,
    unequal=3,
    missing=2,
    extra=0,
    changed=1,
    unsettled=0,
    verified_through=T0,
    report=b'{"audit": "a"}' * 100,
    partition_map=b"\x00\xffpicture",
    differences=(
        runs.StoredDifference(kind="missing", key={"id": str(2**64), "text": "naïve 🙂\x00"}, rows={"source": 1, "target": 0}),
        runs.StoredDifference(kind="changed", key={"id": None}, columns=[{"name": "a", "source": "1", "target": None}], state="unsettled"),
        runs.StoredDifference(
            kind="extra",
            range={"first": 2**70, "last": 2**70 + 9, "label": "keys", "rows": 10, "partitions": 1},
            looks=[{"at": T0.isoformat(), "outcome": "confirmed"}],
        ),
    ),
)

FAILED = run_lifecycle.Outcome(state=State.FAILED, verdict=Verdict.UNKNOWN, exit_code=3, seconds=1.0, reasons=("lost",), resumable=True)

_numbers = itertools.count()


def new_audit_name() -> str:
    """Return a unique audit name."""
    return f"audit-{next(_numbers)}-{uuid.uuid4().hex[:6]}"


def start_run(store: Store, audit: str, run: str | None = None, **more: Any) -> str:
    """Start a run in this process and return its id."""
    run = run or uuid.uuid4().hex
    run_lifecycle.start_run(store, run=run, audit=audit, definition={"source": "orders", "n": 1}, method="exact", **more)
    return run


def add_finished_run(store: Store, audit: str, outcome: run_lifecycle.Outcome = DONE, **more: Any) -> str:
    """Start and finish a run, and return its id."""
    run = start_run(store, audit)
    run_lifecycle.save_plan(store, run, plan=b"plan", schema={"source": [["id", "bigint"]], "target": []})
    outcome = replace(outcome, **more)
    if outcome.resumable:
        run_lifecycle.save_chunk(store, run, make_chunk())
    run_lifecycle.finish_run(store, run, outcome)
    return run


def make_chunk(first: int | None = 0, end: int | None = 10, **more: Any) -> run_lifecycle.StoredChunk:
    """Return a finished chunk."""
    return run_lifecycle.StoredChunk(
        **{"side": "source", "rows": 5, "seconds": 0.25, "attempts": 1, "at": T0, "payload": b"\x00\x01", **more}, first=first, end=end
    )
