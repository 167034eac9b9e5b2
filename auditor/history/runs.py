"""Stored runs, as every door shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.history import fingerprint
from auditor.model import State
from auditor.shapes.run import Run, RunScore
from auditor.store import runs

if TYPE_CHECKING:
    from auditor.store import Store
    from auditor.store.runs import StoredRun


def list_runs(store: Store, *, audit: str | None = None, state: str | None = None, limit: int = 50, before: str | None = None) -> list[Run]:
    """Return the newest runs, of all audits or of one, older than ``before``. Raises StoreError, and UnknownRun for ``before``."""
    return [as_run(stored) for stored in runs.list_runs(store, audit=audit, state=state, limit=limit, before=before)]


def get_run(store: Store, run: str) -> Run:
    """Return the run whose id is or begins with ``run``. Raises UnknownRun."""
    return as_run(runs.get_run(store, run))


def as_run(stored: StoredRun) -> Run:
    """Return a stored run as it leaves the process."""
    progress = stored.progress if stored.state in (State.PENDING, State.RUNNING) else {}
    return Run(
        **Run.fields_of(stored, without=("score", "other_settings", "definition", "progress")),
        began=stored.started,
        score=RunScore(value=stored.score, lower=stored.lower, upper=stored.upper, published=stored.published),
        other_settings=stored.other_settings or None,
        keys=stored.overrides.get("keys"),
        times=stored.overrides.get("times"),
        definition=fingerprint.without_connections(stored.definition) if stored.is_ad_hoc else None,
        progress=progress,
        waiting_for={side: now["doing"] for side, now in progress.items() if str(now.get("doing", "")).startswith("waits")},
    )
