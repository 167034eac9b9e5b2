"""Runs: `_run_lifecycle` and `_dead_runs` write them, `_reading` reads them."""

from __future__ import annotations

from auditor.store._dead_runs import recover_runs
from auditor.store._process import Owner, this_process
from auditor.store._reading import (
    Ending,
    ScorePoint,
    StoredDifference,
    get_active_runs,
    get_latest_run,
    get_partition_map,
    get_plan,
    get_report,
    get_run,
    list_differences,
    list_endings,
    list_latest_runs,
    list_runs,
    list_scores,
)
from auditor.store._rows import AD_HOC_PREFIX, StoredRun, ad_hoc_audit
from auditor.store._run_lifecycle import (
    Outcome,
    ResumedRun,
    finish_run,
    record_heartbeat,
    request_cancel,
    resume_run,
    save_plan,
    start_run,
)

__all__ = [
    "AD_HOC_PREFIX",
    "Ending",
    "Outcome",
    "Owner",
    "ResumedRun",
    "ScorePoint",
    "StoredDifference",
    "StoredRun",
    "ad_hoc_audit",
    "finish_run",
    "get_active_runs",
    "get_latest_run",
    "get_partition_map",
    "get_plan",
    "get_report",
    "get_run",
    "list_differences",
    "list_endings",
    "list_latest_runs",
    "list_runs",
    "list_scores",
    "record_heartbeat",
    "recover_runs",
    "request_cancel",
    "resume_run",
    "save_plan",
    "start_run",
    "this_process",
]  # fmt: skip
