"""An audit's status, as a pure function of its kept runs."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from auditor.config import Audit
from auditor.history import fingerprint
from auditor.history.audit_status import Standing, count_streak, derive_standing
from auditor.history.rolling_table import RollingVerdict
from auditor.model import State, Verdict
from auditor.store.audit_state import AuditState
from auditor.store.runs import StoredRun

NOW = dt.datetime(2026, 3, 18, 12, 0, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
ENDS = {side: {"connection": "c", "table": "t"} for side in ("source", "target")}
MATCH, MISMATCH, UNKNOWN = Verdict.MATCH, Verdict.MISMATCH, Verdict.UNKNOWN


def run(verdict: Verdict = MATCH, hours: float = 1, state: State = State.DONE, **more: Any) -> StoredRun:
    """Return a run that began and ended so many hours ago, unless it is running or pending."""
    began = NOW - hours * HOUR
    nothing = dict.fromkeys((
        "exit_code", "method", "seconds", "score", "lower", "upper", "published", "coverage", "rows", "partitions", "unequal", "missing",
        "extra", "changed", "unsettled", "owner", "verified_through", "within_threshold_through", "schema",
    ))  # fmt: skip
    values: dict[str, Any] = {
        **nothing, "run": f"{verdict}-{hours}-{state}", "audit": "a", "state": state, "verdict": verdict, "reason": "", "requested_by": "",
        "overrides": {}, "started": began, "ended": began if state in (State.DONE, State.FAILED, State.CANCELLED) else None,
        "reasons": ("because",), "progress": {}, "resumable": False, "cancel_requested": False, "within_threshold": False, "definition": {},
    }  # fmt: skip
    return StoredRun(**(values | more))


def stand(*kept: StoredRun, **more: Any) -> Standing:
    """Return what an audit with these runs, newest first, stands at."""
    return derive_standing(kept, NOW, None, **more)


FAILED, CANCELLED = run(UNKNOWN, 0.1, State.FAILED), run(UNKNOWN, 0.2, State.CANCELLED)


def test_early_ends_stand_beside_the_last_verdict() -> None:
    mismatch = run(MISMATCH, 2)
    found = stand(FAILED, CANCELLED, mismatch, run(MATCH, 3))
    assert (found.status, found.run, found.last, found.age) == ("mismatch", mismatch, FAILED, 2 * 3600)
    assert found.last_run == "the last run failed on 2026-03-18 11:54 UTC: because" and found.has_failed
    assert stand(CANCELLED, mismatch).last_run == "the last run was cancelled on 2026-03-18 11:48 UTC"
    assert stand(mismatch, FAILED).last_run == "", "it was before the verdict"


def test_audit_without_a_verdict() -> None:
    assert (stand().status, stand().reasons) == ("never", ("it has never run",))
    assert stand(FAILED).status == stand(CANCELLED).status == "unknown" and stand(FAILED).verdict is None
    assert stand(run(UNKNOWN, state=State.RUNNING)).status == stand(run(UNKNOWN, state=State.PENDING)).status == "running"


@pytest.mark.parametrize("overrides", [{"threshold": 0}, {"keys": {"from": 1}}, {"method": "counts", "force": True}])
@pytest.mark.parametrize("state", State)
def test_one_off_runs_change_nothing(overrides: dict[str, Any], state: State) -> None:
    one_off = run(MATCH if state is State.DONE else UNKNOWN, 0.1, state, overrides=overrides, verified_through=NOW)
    before, after = stand(run(MISMATCH, 2)), stand(one_off, run(MISMATCH, 2))
    is_active = state in (State.RUNNING, State.PENDING)
    assert after.active is (one_off if is_active else None)
    for name in ("status", "verdict", "run", "last", "last_run", "verified_through", "reasons", "newest"):
        assert getattr(after, name) == getattr(before, name), name
    assert stand(one_off).status == "never"
    assert count_streak([one_off, run(MATCH), run(MATCH, 3), run(MISMATCH, 4), run(MATCH, 5)]) == [run(MATCH), run(MATCH, 3)]


def test_run_that_may_only_read_more_is_the_audits_own() -> None:
    assert stand(run(MISMATCH, 0.5, overrides={"force": True}), run(MATCH, 1)).status == "mismatch"


def test_verified_through_needs_the_same_settings() -> None:
    earlier, later = NOW - 9 * HOUR, NOW - 2 * HOUR
    kept = run(MATCH, 1, within_threshold=True, within_threshold_through=later), run(MATCH, 3, verified_through=earlier)
    found = stand(*kept)
    assert (found.status, found.verified_through, found.within_threshold_through) == ("within_threshold", earlier, later)
    assert stand(run(MATCH, 1, verified_through=NOW), *kept).within_threshold_through is None, "all was seen equal since"
    other = run(MISMATCH, 0.5, definition={"key": ["id"]})
    assert stand(other, *kept).verified_through is None
    settings = fingerprint.hash_settings({})
    assert derive_standing([other, *kept], NOW, None, settings).verified_through == earlier
    state = AuditState(verified_through=later, verified_settings=settings)
    assert derive_standing([other], NOW, None, settings, state=state).verified_through == later, "remembered beyond its run"


def test_rolling_audit_stands_at_its_whole_table() -> None:
    for table, status in (
        (RollingVerdict(MISMATCH, False, "1 differs"), "mismatch"),
        (RollingVerdict(UNKNOWN, False, "4 were never read"), "unknown"),
        (RollingVerdict(MATCH, True, "1 differs within"), "within_threshold"),
    ):
        found = stand(run(MATCH), table=table)
        assert (found.status, found.verdict, found.reasons) == (status, table.verdict, (table.sentence,))


def scheduled(cron: str) -> Audit:
    return Audit.model_validate({**ENDS, "schedule": cron})


def test_match_is_stale_if_it_was_due_and_got_no_verdict() -> None:
    audit = scheduled("0 6 * * *")
    assert derive_standing([run(MATCH, 5)], NOW, audit).status == "match"
    old = run(MATCH, 29)
    assert derive_standing([old], NOW, audit).reasons[-1] == "it was due at 2026-03-18 06:00:00 UTC and has not started since"
    found = derive_standing([run(UNKNOWN, 5, State.FAILED), old], NOW, audit)
    assert found.status == "stale" and "no run since then ended in a verdict" in found.reasons[-1]
    assert derive_standing([run(UNKNOWN, 0, State.RUNNING), old], NOW, audit).status == "match", "its run is in progress"
    assert derive_standing([old], NOW, audit, paused=True).status == "match"
    assert derive_standing([run(MISMATCH, 99)], NOW, audit).status == "mismatch", "a mismatch stays one, however old"


def test_match_without_a_schedule_is_stale_after_twice_its_usual_interval() -> None:
    assert stand(run(MATCH, 23)).status == "match" and stand(run(MATCH, 25)).status == "stale"
    assert stand(*(run(MATCH, hours) for hours in (40, 70, 100))).status == "match"
    assert (
        stand(*(run(MATCH, hours) for hours in (70, 100, 130))).reasons[-1]
        == "its last verdict is 3 days old; it usually runs every 30 hours"
    )
