"""An audit's status: its last verdict with its age, what was verified, and what became of its last run. Every door reads this.

Only runs with the audit's own settings count; runs with others say nothing of it. A run that failed or was cancelled has no verdict, so it
stands beside the last verdict and never replaces it. The verdict of a rolling audit is that of its whole table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, takewhile
from statistics import median
from typing import TYPE_CHECKING, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim

from auditor.config import Audit, ConnectionSettings, Schedule, Threshold
from auditor.history import fingerprint
from auditor.history.records import load_report
from auditor.model import Report, State, Status, Verdict
from auditor.quantities import format_rough_duration
from auditor.store import Store, audit_state, runs
from auditor.store.audit_state import AuditState
from auditor.store.runs import StoredRun
from auditor.summary.partition_states import STATES

if TYPE_CHECKING:
    from auditor.history.rolling_table import RollingVerdict

STATUSES: tuple[Status, ...] = ("mismatch", "unknown", "stale", "never", "running", "within_threshold", "match")
"""The statuses of an audit, the most urgent first. ``stale`` is a match that is too old to rely on, ``running`` a first run that has not
ended, ``within_threshold`` a match although something differs."""

LABELS: Mapping[Status, str] = {"never": "never run", "within_threshold": "match within threshold"}
"""Statuses that people read in other words."""

SCHEDULE_GRACE = 3600.0
"""Seconds after its due time, plus the schedule's jitter, after which an audit without a new verdict counts as stale."""

HABIT_RUNS = 50
"""Verdicts from which the usual interval of an audit without a schedule is taken."""

HABIT_DAYS = 30
"""How many days back these verdicts lie at most."""

RECOVERY_RUNS = 1000
"""Earlier runs among which the last one that did not match is looked for."""

NOTHING = AuditState()
"""The state of an audit of which nothing is remembered."""

MIN_STALE_AGE = 86400.0
"""Seconds below which a verdict of an audit without a schedule is never stale."""


NO_THRESHOLD = Threshold()
"""That of audits whose settings have none."""


class Scheduled(Protocol):
    """An audit of tables or of segments."""

    @property
    def schedule(self) -> Schedule | None:
        """When it is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An audit's status. Runs are those with its own settings, except ``active``."""

    status: Status
    """The last verdict, or why there is none."""
    reasons: tuple[str, ...]
    """Sentences that explain the status."""
    verdict: Verdict | None = None
    """The last verdict; of a rolling audit that of its whole table. None if no run was done."""
    within_threshold: bool = False
    """Whether this is a match although something differs, which the audit allows."""
    run: StoredRun | None = None
    """The run of the last verdict; its counts of rows are the known differences."""
    age: float | None = None
    """Seconds since that run ended."""
    last: StoredRun | None = None
    """The run that ended last: ``run``, or a later one that failed or was cancelled."""
    last_run: str = ""
    """A sentence on a last run that failed or was cancelled after the last verdict; empty if there is none."""
    active: StoredRun | None = None
    """The running, else the pending run, also one with other settings."""
    threshold: Threshold | None = None
    """The threshold under which the last verdict was reached."""
    verified_through: dt.datetime | None = None
    """The moment up to which everything was seen equal; None under settings that never verified it."""
    within_threshold_through: dt.datetime | None = None
    """The moment up to which everything was equal or within the threshold; None if that is not later than ``verified_through``."""

    stream_through: dt.datetime | None = None
    """The moment up to which the target was seen equal to the stream of its source, which live summaries say; None without them.
    ``verified_through`` is then when a scan of the source last proved it."""

    @property
    def newest(self) -> StoredRun | None:
        """Return the newest run with the audit's own settings that has begun, else one that waits."""
        active = self.active if self.active and not self.active.is_one_off else None
        return active if active and (active.state is State.RUNNING or self.last is None) else self.last

    @property
    def label(self) -> str:
        """Return the status as people read it."""
        return status_label(self.status)

    @property
    def verdict_label(self) -> str:
        """Return the last verdict as people read it, however old; empty if there is none."""
        return status_label("within_threshold") if self.within_threshold else self.verdict.value if self.verdict else ""

    @property
    def has_failed(self) -> bool:
        """Return whether the run that ended last failed."""
        return self.last is not None and self.last.state is State.FAILED

    @property
    def needs_attention(self) -> bool:
        """Return whether a person should look: the audit does not match, or its last run failed."""
        return self.status not in ("match", "within_threshold") or self.has_failed


def status_label(status: Status) -> str:
    """Return a status as people read it."""
    return LABELS.get(status, status)


def derive_standing(
    kept: Sequence[StoredRun],
    at: dt.datetime,
    audit: Scheduled | None,
    settings: str | None = None,
    *,
    state: AuditState = NOTHING,
    paused: bool = False,
    table: RollingVerdict | None = None,
) -> Standing:
    """Return an audit's status, from its kept runs, newest first.

    ``audit`` is its definition and ``settings`` the hash of it, both None if it is no longer configured. ``state`` is what is remembered
    of it beyond these runs, ``table`` the state of a rolling audit's whole table. Of older runs only those matter that `load_standings`
    loads.
    """
    own = [run for run in kept if not run.is_one_off]
    active = next((run for run in kept if run.state is State.RUNNING), None) or next(
        (run for run in kept if run.state is State.PENDING), None
    )
    last = next((run for run in own if run.ended), None)
    run = next((run for run in own if run.state is State.DONE), None)
    verified_through, within_through = _verified(own, settings, state)
    if run is None:
        status, reasons = _without_verdict(last, active)
        return Standing(status=status, reasons=reasons, last=last, active=active)
    verdict = table.verdict if table else run.verdict
    within = table.within_threshold if table else run.within_threshold
    reasons = (table.sentence,) if table else run.reasons
    age = max(0.0, (at - (run.ended or run.started)).total_seconds())
    stale = "" if verdict is not Verdict.MATCH or paused or active else _stale_reason(own, run, audit, age, at)
    return Standing(
        status="stale" if stale else "within_threshold" if within else verdict.value,
        reasons=(*reasons, stale) if stale else reasons,
        verdict=verdict,
        within_threshold=within,
        run=run,
        age=age,
        last=last,
        last_run=_describe_last(last) if last and last is not run else "",
        active=active,
        threshold=Threshold.model_validate(written) if (written := run.definition.get("threshold")) is not None else NO_THRESHOLD,
        verified_through=verified_through,
        within_threshold_through=within_through,
    )


def _without_verdict(last: StoredRun | None, active: StoredRun | None) -> tuple[Status, tuple[str, ...]]:
    if last is not None:
        return "unknown", last.reasons or (f"its last run {_ENDED[last.state]}",)
    if active is not None and not active.is_one_off:
        return "running", ("its first run has not ended yet",)
    return "never", ("it has never run",)


_ENDED = {State.FAILED: "failed", State.CANCELLED: "was cancelled"}


def _describe_last(last: StoredRun) -> str:
    reasons = f": {'; '.join(last.reasons)}" if last.reasons and last.state is State.FAILED else ""
    return f"the last run {_ENDED.get(last.state, 'ended')} on {last.ended or last.started:%Y-%m-%d %H:%M} UTC{reasons}"


def _verified(own: Sequence[StoredRun], settings: str | None, state: AuditState) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Return up to when everything was seen equal, and equal or within the threshold, under these settings or those of the newest run."""
    if settings is None and own:
        settings = fingerprint.hash_settings(own[0].definition)
    verified, within = state.verified_under(settings or "")
    for run in reversed(own):  # the newest one counts
        marked = run.verified_through or run.within_threshold_through
        if marked and fingerprint.hash_stored(run.definition) == settings:
            verified = run.verified_through or verified
            within = run.within_threshold_through or within
    return verified, within if within and (verified is None or within > verified) else None


def _stale_reason(own: Sequence[StoredRun], run: StoredRun, audit: Scheduled | None, age: float, at: dt.datetime) -> str:
    """Return why the verdict of ``run`` is too old to rely on; empty if it is not. One that is running or paused is never stale."""
    if audit and audit.schedule:
        return _late_reason(audit.schedule, own, run, at)
    return _unusual_age_reason(own, age, at)


def _late_reason(schedule: Schedule, own: Sequence[StoredRun], run: StoredRun, at: dt.datetime) -> str:
    """Return why a scheduled audit is stale: it was due, and no run ended in a verdict within the grace period."""
    due = _first_due(schedule.cron, schedule.timezone, run.started)
    if due is None or at <= due + dt.timedelta(seconds=schedule.jitter + SCHEDULE_GRACE):
        return ""
    began = any(other.started > due for other in own)
    since = "no run since then ended in a verdict" if began else "has not started since"
    return f"it was due at {due:%Y-%m-%d %H:%M:%S} UTC and {since}"


@lru_cache(maxsize=10_000)
def _first_due(cron: str, timezone: str, after: dt.datetime) -> dt.datetime | None:
    """Return the first time of a schedule after a moment, in UTC. It is cached, as standings of all audits ask for it."""
    due = next(CronSim(cron, after.astimezone(ZoneInfo(timezone))), None)
    return due.astimezone(dt.UTC) if due else None


def _unusual_age_reason(own: Sequence[StoredRun], age: float, at: dt.datetime) -> str:
    """Return why an audit without a schedule is stale: its verdict is older than a day and than twice its usual interval."""
    if age <= MIN_STALE_AGE:
        return ""
    oldest = at - dt.timedelta(days=HABIT_DAYS)
    starts = [run.started for run in own if run.state is State.DONE and run.started >= oldest][:HABIT_RUNS]
    intervals = [(later - earlier).total_seconds() for later, earlier in pairwise(starts)]
    usual = median(intervals) if intervals else 0.0
    if age <= 2 * usual:
        return ""
    habit = f"; it usually runs every {format_rough_duration(usual)}" if usual else ""
    return f"its last verdict is {format_rough_duration(age)} old{habit}"


def count_streak(kept: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the newest runs, newest first, that ended in the same verdict one after the other; those without a verdict do not count."""
    done = [run for run in kept if run.state is State.DONE and not run.is_one_off]
    return list(takewhile(lambda run: run.verdict is done[0].verdict, done))


def load_standings(
    store: Store,
    audits: Mapping[str, Audit],
    connections: Mapping[str, ConnectionSettings],
    at: dt.datetime,
    states: Mapping[str, AuditState],
    only: str | None = None,
) -> dict[str, Standing]:
    """Return the status of each of these audits, by audit; with ``only`` the store is read for this one alone. Raises StoreError."""
    return standings_of_audits(store, audits, connections, at, states, runs.list_latest_runs(store, only))


def standings_of_audits(
    store: Store,
    audits: Mapping[str, Audit],
    connections: Mapping[str, ConnectionSettings],
    at: dt.datetime,
    states: Mapping[str, AuditState],
    kept: Mapping[str, list[StoredRun]],
) -> dict[str, Standing]:
    """Return the status of each of these audits, by audit, from its runs that `runs.list_latest_runs` returned. Raises StoreError."""
    hashes = {name: fingerprint.hash_audit(name, audit, connections) for name, audit in audits.items()}
    return {name: _load_standing(store, name, audit, hashes[name], kept.get(name, []), at, states) for name, audit in audits.items()}


def load_standing(store: Store, name: str, audit: Audit | None, connections: Mapping[str, ConnectionSettings], at: dt.datetime) -> Standing:
    """Return the status of one audit; ``audit`` is None if it is no longer configured. Raises StoreError."""
    kept = runs.list_latest_runs(store, name).get(name, [])
    settings = fingerprint.hash_audit(name, audit, connections) if audit else None
    return _load_standing(store, name, audit, settings, kept, at, audit_state.get_states(store))


def _load_standing(
    store: Store,
    name: str,
    audit: Audit | None,
    settings: str | None,
    kept: list[StoredRun],
    at: dt.datetime,
    states: Mapping[str, AuditState],
) -> Standing:
    table, paused, state = load_table_verdict(store, name, kept), audit_state.is_paused(states, name), states.get(name, NOTHING)
    status = derive_standing(kept, at, audit, settings, state=state, paused=paused, table=table)
    if isinstance(audit, Audit) and audit.summaries:
        status = replace(status, stream_through=_stream_through(store, kept))
    if status.status != "stale" or (audit and audit.schedule):
        return status
    earlier = runs.list_runs(store, audit=name, state=State.DONE, limit=HABIT_RUNS, own_only=True)
    known = {run.run for run in kept}
    habit = [*kept, *(run for run in earlier if run.run not in known)]
    return replace(
        derive_standing(habit, at, audit, settings, state=state, paused=paused, table=table), stream_through=status.stream_through
    )


def _stream_through(store: Store, kept: Sequence[StoredRun]) -> dt.datetime | None:
    """Return up to when the last run that matched saw the target equal to the stream."""
    run = next((record for record in kept if record.verdict is Verdict.MATCH and not record.is_one_off), None)
    report = load_report(store, run.run, 0) if run else None
    return report.live.time if report and report.live else None


def load_table_verdict(store: Store, name: str, kept: Sequence[StoredRun]) -> RollingVerdict | None:
    """Return the state of a rolling audit's whole table; None if the last verdict among these runs was not that of a rolling audit."""
    run = next((run for run in kept if run.state is State.DONE and not run.is_one_off), None)
    if run is None or "rolling" not in run.definition:
        return None
    from auditor.history.rolling_table import load_rolling_verdict  # which loads NumPy

    return load_rolling_verdict(store, name, run.run)


def has_recovered(store: Store, report: Report) -> bool:
    """Return whether everything that differed in earlier runs was seen equal by this run, which matches, or by others since.

    A run that read a part of the table, or that compared only counts, says nothing of differences elsewhere, or of those that counts do
    not show. Raises StoreError.
    """
    earlier = runs.list_runs(store, audit=report.audit, limit=RECOVERY_RUNS, own_only=True)
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
    if not (report.plan and report.plan.partition_ranges):
        return True  # this run read all of it
    from auditor.history.rolling_table import load_rolling_table

    table = load_rolling_table(store, report.audit)
    if table is None:
        return True  # as did this audit's last run
    states = table.partition_map.state
    if table.unequal > table.allowed or bool((states == STATES.index("skipped")).any()):
        return False
    if bad.state is not State.DONE:  # it found nothing
        return True
    read_since = table.partitions_read == table.partitions and table.oldest is not None and table.oldest >= bad.started
    return read_since or _found_in_parts(store, bad, report)


def _found_in_parts(store: Store, bad: StoredRun, report: Report) -> bool:
    """Return whether what the ``bad`` run found is among the parts of the rolling audit, which a run of these must have replaced."""
    theirs = load_report(store, bad.run, max_differences=0)
    if theirs is None or theirs.plan is None or theirs.slice or report.plan is None:
        return False
    ours = runs.get_run(store, report.run)
    layouts = {
        fingerprint.hash_layout(plan, fingerprint.hash_settings(run.definition)) for plan, run in ((theirs.plan, bad), (report.plan, ours))
    }
    return len(layouts) == 1
