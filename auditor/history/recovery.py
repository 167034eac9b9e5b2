"""Whether everything that differed in an audit was seen equal since, so that those notified of it can be notified of its end."""

from __future__ import annotations

from auditor.history import fingerprint, records
from auditor.history.rolling_table import load_rolling_table
from auditor.model import Report, State, Verdict
from auditor.store import Store, runs
from auditor.store.runs import StoredRun
from auditor.summary.codec import STATES

LOOKBACK_RUNS = 1000
"""Earlier runs among which the last one that did not match is looked for."""


def has_recovered(store: Store, report: Report) -> bool:
    """Return whether everything that differed in earlier runs was seen equal by this run, which matches, or by others since.

    A run that read a part of the table, or that compared only counts, says nothing of differences elsewhere, or of those that counts do
    not show. Raises StoreError.
    """
    earlier = runs.list_runs(store, audit=report.audit, limit=LOOKBACK_RUNS, own_only=True)
    for verdict in (Verdict.MISMATCH, Verdict.UNKNOWN):
        place = next((number for number, run in enumerate(earlier) if run.verdict is verdict and run.run != report.run and run.ended), None)
        if place is None:
            continue
        if not (_is_seen_by_method(earlier[place], earlier[:place], report) and _is_seen_everywhere(store, earlier[place], report)):
            return False
    return True


def _is_seen_by_method(bad: StoredRun, since: list[StoredRun], report: Report) -> bool:
    """Return whether a run that matched since compares what the ``bad`` one compared: counts do not show changed values."""
    methods = [report.method, *(run.method for run in since if run.verdict is Verdict.MATCH)]
    return bad.method in (None, "counts") or bad.state is not State.DONE or any(method != "counts" for method in methods)


def _is_seen_everywhere(store: Store, bad: StoredRun, report: Report) -> bool:
    """Return whether the table was read and seen equal wherever the ``bad`` run may have found it different."""
    table = load_rolling_table(store, report.audit) if report.plan and report.plan.partition_ranges else None
    if table is None:
        return True  # this run read all of it
    states = table.partition_map.state
    if table.unequal > table.allowed or bool((states == STATES.index("skipped")).any()):
        return False
    if bad.state is not State.DONE:  # it found nothing
        return True
    read_since = table.partitions_read == table.partitions and table.oldest is not None and table.oldest >= bad.started
    return read_since or _found_in_parts(store, bad, report)


def _found_in_parts(store: Store, bad: StoredRun, report: Report) -> bool:
    """Return whether what the ``bad`` run found is among the parts of the rolling audit, which a run of these must have replaced."""
    theirs = records.load_report(store, bad.run, max_differences=0)
    if theirs is None or theirs.plan is None or theirs.slice or report.plan is None:
        return False
    ours = runs.get_run(store, report.run)
    layouts = {
        fingerprint.hash_layout(plan, fingerprint.hash_settings(run.definition)) for plan, run in ((theirs.plan, bad), (report.plan, ours))
    }
    return len(layouts) == 1
