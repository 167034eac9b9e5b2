"""The daily report: the state of every audit on one day."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.config import Audit, ConnectionSettings, SegmentAudit, Settings, Threshold
from auditor.durations import durations
from auditor.errors import StoreError, UnknownDay
from auditor.history import fingerprint, records
from auditor.history.audit_status import NOTHING, STATUSES, Standing, count_streak, derive_standing, load_table_verdict
from auditor.history.rolling_table import load_rolling_table
from auditor.masking import redact
from auditor.model import Report, State, Status
from auditor.planning import proxy
from auditor.quantities import format_duration
from auditor.report import formatting
from auditor.report.rolling import WholeTable, build_whole_table
from auditor.report.sentences import repeats_story
from auditor.store import Store, audit_state, runs
from auditor.store.audit_state import AuditState
from auditor.store.runs import ScorePoint, StoredRun

TREND_DAYS = 30
"""Days that a trend goes back."""

MAX_DIFFERENCES = 10
"""Differences loaded of each run."""

FIRST_DAY = dt.date(1970, 1, 1)

PAGE_SIZE = 500
"""Runs loaded at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One audit in the report: its status, the redacted report of the run of its last verdict, and the trend of the runs before it.

    ``verified_age`` and ``within_threshold_age`` are the seconds since those moments of the standing. The last ``streak`` verdicts were
    the same; the first of them is of a run that started at ``streak_since``. ``running`` describes a run in progress and is empty without
    one. Audits by way of a dump have ``legs`` and their ``combined`` verdict instead of a run; rolling audits have ``whole_table``,
    because their latest run read only some of its partitions.
    """

    audit: str
    standing: Standing
    status: Status
    reasons: tuple[str, ...]
    report: Report | None = None
    age: float | None = None
    running: str = ""
    threshold: Threshold | None = None
    verified_age: float | None = None
    within_threshold_age: float | None = None
    streak: int = 0
    streak_since: dt.datetime | None = None
    trend: tuple[ScorePoint, ...] = ()
    configured: bool = True
    paused: bool = False
    not_compared: tuple[str, ...] = ()
    legs: tuple[AuditEntry, ...] = ()
    combined: proxy.Combined | None = None
    whole_table: WholeTable | None = None

    @property
    def run(self) -> StoredRun | None:
        """The run of the last verdict, else a run that ended without one."""
        return self.standing.run or self.standing.last

    @property
    def needs_attention(self) -> bool:
        """Whether a person should look at it."""
        return any(entry.standing.needs_attention for entry in (self, *self.legs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """All audits on a day (UTC), as of its end, or of the present if it has not ended; ordered by urgency."""

    date: dt.date
    at: dt.datetime
    entries: tuple[AuditEntry, ...]
    unaudited_groups: tuple[str, ...] = ()
    """Groups of tables of which none ran yet, so that nothing is known of their audits."""

    @property
    def attention(self) -> tuple[AuditEntry, ...]:
        """Configured audits that are not a current match, or whose last run failed."""
        return tuple(entry for entry in self.entries if entry.configured and entry.needs_attention)

    @property
    def rest(self) -> tuple[AuditEntry, ...]:
        """All other audits; those no longer configured come last."""
        return tuple(entry for entry in self.entries if not (entry.configured and entry.needs_attention))

    @property
    def counts(self) -> dict[Status, int]:
        """Number of configured audits by status."""
        return {status: sum(entry.configured and entry.status == status for entry in self.entries) for status in STATUSES}

    @property
    def first(self) -> dt.datetime:
        """Start of the trends."""
        return self.at - dt.timedelta(days=TREND_DAYS)


def check_day(date: dt.date, today: dt.date | None = None) -> None:
    """Raise UnknownDay for a day that has not begun (``today`` is by default the one in UTC) or lies before 1970."""
    today = today or dt.datetime.now(dt.UTC).date()
    if not FIRST_DAY <= date <= today:
        raise UnknownDay(f"there is no report of {date}: write a day from {FIRST_DAY} to today, {today} (UTC)")


def load_day(store: Store, settings: Settings, date: dt.date, now: dt.datetime | None = None, among: Container[str] | None = None) -> Day:
    """Load the state of every audit on a day, from the runs that started on it or before; ``among`` names all that may be shown.

    Raises StoreError.
    """
    now = now or dt.datetime.now(dt.UTC)
    end = dt.datetime.combine(date, dt.time(), dt.UTC) + dt.timedelta(days=1)
    at = min(now, end)
    by_audit: dict[str, list[StoredRun]] = {}
    for run in _recent_runs(store, end, at - dt.timedelta(days=TREND_DAYS)):
        if among is None or run.audit in among:
            by_audit.setdefault(run.audit, []).append(run)
    states = audit_state.get_states(store)
    paused = {name for name in (*by_audit, *settings.audits, *settings.segments) if audit_state.is_paused(states, name)}
    loader = _Loader(store, by_audit, end, at, paused, states if now < end else {}, settings.connections)
    entries = [_configured_entry(loader, name, audit) for name, audit in settings.audits.items()]
    known = {name for entry in entries for name in (entry.audit, *(leg.audit for leg in entry.legs))}
    entries += [_entry(loader, name, None, settings.segments.get(name)) for name in {**settings.segments, **by_audit} if name not in known]
    return Day(
        date=date, at=at, entries=tuple(sorted(entries, key=_sort_key)), unaudited_groups=tuple(settings.unaudited_groups(settings.audits))
    )


def _sort_key(entry: AuditEntry) -> tuple[bool, int, str]:
    return not entry.configured, STATUSES.index(entry.status), entry.audit


def _recent_runs(store: Store, end: dt.datetime, oldest: dt.datetime) -> Iterator[StoredRun]:
    """Yield the runs started from ``oldest`` to before ``end``, newest first, without ad-hoc runs and finished one-off runs."""
    last: str | None = None
    while page := runs.list_runs(store, limit=PAGE_SIZE, before=last):
        recent = (run for run in page if oldest <= run.started < end and not run.is_ad_hoc)
        yield from (run for run in recent if not run.is_one_off or run.ended is None)
        if len(page) < PAGE_SIZE or page[-1].started < oldest:
            return
        last = page[-1].run


@dataclass(frozen=True, slots=True)
class _Loader:
    """What the entries of a day are loaded from: ``by_audit`` are recent runs, ``end`` is the end of the day, ``at`` the present.

    ``states`` is what is remembered of audits beyond their runs; nothing for a past day, of which only its runs tell.
    """

    store: Store
    by_audit: Mapping[str, Sequence[StoredRun]]
    end: dt.datetime
    at: dt.datetime
    paused: Container[str]
    states: Mapping[str, AuditState]
    connections: Mapping[str, ConnectionSettings]

    def kept(self, name: str) -> Sequence[StoredRun]:
        """Return an audit's recent runs, newest first; if none of them is done, add its latest older one, preferably one that is."""
        recent = self.by_audit.get(name, ())
        if any(run.state is State.DONE for run in recent):
            return recent
        older = runs.get_latest_run(self.store, name, before=self.end)
        if older is None and not any(run.ended for run in recent):
            older = runs.get_latest_run(self.store, name, done_only=False, before=self.end)
        return [*recent, *([older] if older and all(older.run != run.run for run in recent) else [])]


def _configured_entry(loader: _Loader, name: str, audit: Audit) -> AuditEntry:
    if audit.via is None:
        return _entry(loader, name, audit)
    legs = tuple(_entry(loader, f"{name}.{leg}", audit) for leg in proxy.LEG_SUFFIXES)
    first, second = (_leg(leg) for leg in legs)
    combined = proxy.combine(first, second, loader.at, audit.threshold)
    states: list[Status] = [combined.verdict.value, *(leg.status for leg in legs)]
    status = min(states, key=STATUSES.index) if any(leg.run or leg.running for leg in legs) else "never"
    return AuditEntry(
        audit=name,
        standing=Standing(status=status, reasons=combined.reasons),
        status=status,
        reasons=combined.reasons,
        age=max((leg.age for leg in legs if leg.age is not None), default=None),
        running="; ".join(f"{leg.audit}: {leg.running}" for leg in legs if leg.running),
        threshold=audit.threshold,
        paused=name in loader.paused,
        legs=legs,
        combined=combined,
    )


def _leg(entry: AuditEntry) -> proxy.Leg | None:
    run = entry.standing.run
    return proxy.leg_result(run.verdict, run.started, entry.report) if run else None


def _entry(loader: _Loader, name: str, audit: Audit | None, of_segments: SegmentAudit | None = None) -> AuditEntry:
    kept, at, paused = loader.kept(name), loader.at, name in loader.paused
    settings = fingerprint.hash_audit(name, audit, loader.connections) if audit and audit.via is None else None
    table, state = load_table_verdict(loader.store, name, kept), loader.states.get(name, NOTHING)
    standing = derive_standing(kept, at, audit or of_segments, settings, state=state, paused=paused, table=table)
    run = standing.run or standing.last
    report, read_error = _load_report(loader.store, run) if run else (None, "")
    whole = load_rolling_table(loader.store, name) if report and report.covered < 1 else None
    streak = count_streak(kept)
    through = standing.verified_through, standing.within_threshold_through
    verified_age, within_threshold_age = (max(0.0, (at - moment).total_seconds()) if moment else None for moment in through)
    return AuditEntry(
        audit=name,
        standing=standing,
        status=standing.status,
        reasons=tuple(
            text for text in (*standing.reasons, read_error, standing.last_run) if text and not (report and repeats_story(text, report))
        ),
        report=report,
        age=standing.age if standing.run or run is None else max(0.0, (at - (run.ended or run.started)).total_seconds()),
        running=_describe_running(standing.active, at) if standing.active else "",
        threshold=audit.threshold if audit else None,
        verified_age=verified_age,
        within_threshold_age=within_threshold_age,
        streak=len(streak),
        streak_since=streak[-1].started if streak else None,
        trend=tuple(_trend_point(run) for run in reversed(kept) if run.ended and run.state is not State.CANCELLED and not run.is_one_off),
        configured=audit is not None or of_segments is not None,
        paused=paused,
        not_compared=tuple(not_compared(report)) if report else (),
        whole_table=build_whole_table(whole, report.plan, at) if whole and report and report.plan else None,
    )


def _trend_point(run: StoredRun) -> ScorePoint:
    score, lower, upper = (run.score, run.lower, run.upper) if formatting.has_score(run) else (None, None, None)
    return ScorePoint(run=run.run, at=run.started, verdict=run.verdict, score=score, lower=lower, upper=upper)


def _describe_running(run: StoredRun, at: dt.datetime) -> str:
    """Describe a run in progress: when it started, and what each side is doing."""
    doing = dict.fromkeys(formatting.sentence(str(side["doing"])) for side in run.progress.values() if side.get("doing"))
    doing_what = "has been running" if run.state is State.RUNNING else "has been waiting"
    settings = f", with other settings: {run.other_settings}," if run.is_one_off else ""
    since = f"run {run.run[:12]}{settings} {doing_what} since {formatting.moment(run.started)}"
    elapsed = (at - run.started).total_seconds()
    started = f"; it started {format_duration(elapsed)} ago" if elapsed > durations().run_lease else ""
    return since + (f": {', '.join(doing)}" if doing else "") + started


def _load_report(store: Store, run: StoredRun) -> tuple[Report | None, str]:
    """Load a run's report and redact it; return None and an error message if it is corrupt."""
    try:
        report = records.load_report(store, run.run, max_differences=MAX_DIFFERENCES)
    except (StoreError, ValueError, zlib.error):
        return None, "its report cannot be read any more"
    return (redact(report) if report else None), ""


def not_compared(report: Report) -> Iterator[str]:
    """Yield what a run did not compare, and why, one sentence each."""
    yield from not_read(report)
    if report.plan:
        yield from (str(levelling) for levelling in report.plan.not_compared)


def not_read(report: Report) -> Iterator[str]:
    """Yield which rows a run did not compare, and why, one sentence each."""
    comparison, plan = report.comparison, report.plan
    if comparison and comparison.skipped:
        partitions = "partition" if comparison.skipped == 1 else "partitions"
        yield f"{comparison.skipped:,} {partitions} with {formatting.rows(comparison.skipped_rows)} could not be compared"
    if report.covered < 1:
        yield f"this run read {formatting.percent(report.covered)} of the table's partitions; other runs read the others"
    if plan and plan.watermark:
        yield f"rows from {plan.watermark} UTC on were left out on both sides, as still in flight"
