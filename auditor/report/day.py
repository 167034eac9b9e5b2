"""What is known of all audits on one day: the report that is read in the morning."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim

from auditor import chain, keep
from auditor.config import Audit, Schedule, Settings, Threshold
from auditor.errors import StoreError
from auditor.model import Report, State, Verdict
from auditor.report import plain
from auditor.report.rolled import Rolled, rolled
from auditor.report.shown import shown
from auditor.store import Store, runs, standing
from auditor.store.runs import STALE, Point, StoredRun
from auditor.whole import whole

Status = Literal["mismatch", "unknown", "stale", "never", "match"]
STATUSES: tuple[Status, ...] = ("mismatch", "unknown", "stale", "never", "match")
"""Those that need a person's attention first."""

DAYS = 30
"""How far a trend goes back."""

PATIENCE = 3600.0
"""Seconds after which an audit that is due and has not begun counts as stale."""

SAMPLE = 10
"""Differences of an audit that are read."""

PAGE = 500
"""Runs that are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One audit: its latest run that ended (``age`` seconds ago), what that found, and how those before went.

    ``same`` says how many runs, the latest last, ended with this verdict, and ``since`` when the first of these began. ``legs`` and
    ``combined`` are those of an audit by way of a dump; ``rolled`` is the whole table of a rolling audit, of which the run read a part.
    """

    audit: str
    status: Status
    why: tuple[str, ...]
    run: StoredRun | None = None
    report: Report | None = None
    age: float | None = None
    running: str = ""
    threshold: Threshold | None = None
    verified_through: dt.datetime | None = None
    verified_age: float | None = None
    same: int = 0
    since: dt.datetime | None = None
    trend: tuple[Point, ...] = ()
    configured: bool = True
    paused: bool = False
    not_compared: tuple[str, ...] = ()
    legs: tuple[Entry, ...] = ()
    combined: chain.Combined | None = None
    rolled: Rolled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """All audits as they were on a day (UTC), at its end or now; those that need attention first."""

    date: dt.date
    at: dt.datetime
    entries: tuple[Entry, ...]

    @property
    def attention(self) -> tuple[Entry, ...]:
        """The audits that somebody should look at."""
        return tuple(one for one in self.entries if one.configured and one.status != "match")

    @property
    def rest(self) -> tuple[Entry, ...]:
        """The others, those that are no longer configured last."""
        return tuple(one for one in self.entries if not one.configured or one.status == "match")

    @property
    def counts(self) -> dict[Status, int]:
        """How many configured audits there are of each status."""
        return {status: sum(one.configured and one.status == status for one in self.entries) for status in STATUSES}

    @property
    def first(self) -> dt.datetime:
        """Where the trends begin."""
        return self.at - dt.timedelta(days=DAYS)


def day(store: Store, settings: Settings, date: dt.date, now: dt.datetime | None = None) -> Day:
    """What is known of every audit on a day: of its latest run that began on it or before. Raises StoreError."""
    now = now or dt.datetime.now(dt.UTC)
    end = dt.datetime.combine(date, dt.time(), dt.UTC) + dt.timedelta(days=1)
    at = min(now, end)
    by_audit: dict[str, list[StoredRun]] = {}
    for one in _recent(store, end, at - dt.timedelta(days=DAYS)):
        by_audit.setdefault(one.audit, []).append(one)
    found = [_configured(store, name, audit, by_audit, end, at) for name, audit in settings.audits.items()]
    known = {name for entry in found for name in (entry.audit, *(leg.audit for leg in entry.legs))}
    found += [_entry(store, name, None, mine, at) for name, mine in by_audit.items() if name not in known]
    return Day(date=date, at=at, entries=tuple(sorted(found, key=_place)))


def _place(entry: Entry) -> tuple[bool, int, str]:
    return not entry.configured, STATUSES.index(entry.status), entry.audit


def _recent(store: Store, end: dt.datetime, oldest: dt.datetime) -> Iterator[StoredRun]:
    """The runs that began between two moments, the latest first, but for ad-hoc ones and those of a section that have ended."""
    last: str | None = None
    while page := runs.listed(store, limit=PAGE, before=last):
        here = (one for one in page if oldest <= one.started < end and not one.is_ad_hoc)
        yield from (one for one in here if one.is_whole or one.ended is None)
        if len(page) < PAGE or page[-1].started < oldest:
            return
        last = page[-1].run


def _configured(
    store: Store, name: str, audit: Audit, by_audit: Mapping[str, Sequence[StoredRun]], end: dt.datetime, at: dt.datetime
) -> Entry:
    if audit.via is None:
        return _entry(store, name, audit, _runs(store, name, by_audit, end), at, audit.schedule)
    names = [f"{name}.{leg}" for leg in chain.LEGS]
    legs = tuple(_entry(store, leg, audit, _runs(store, leg, by_audit, end), at) for leg in names)
    first, second = (_leg(leg) for leg in legs)
    combined = chain.combined(first, second, at, audit.threshold)
    states: list[Status] = [combined.verdict.value, *(leg.status for leg in legs)]
    status = min(states, key=STATUSES.index) if any(leg.run or leg.running for leg in legs) else "never"
    return Entry(
        audit=name,
        status=status,
        why=combined.reasons,
        age=max((leg.age for leg in legs if leg.age is not None), default=None),
        running="; ".join(f"{leg.audit}: {leg.running}" for leg in legs if leg.running),
        threshold=audit.threshold,
        paused=standing.get(store, name).paused,
        legs=legs,
        combined=combined,
    )


def _leg(entry: Entry) -> chain.Leg | None:
    if entry.run is None:
        return None
    return chain.leg(entry.run.verdict, entry.run.started, entry.report)


def _runs(store: Store, name: str, by_audit: Mapping[str, Sequence[StoredRun]], end: dt.datetime) -> Sequence[StoredRun]:
    """An audit's runs, the latest first; the last one that is done where there is no other."""
    mine = by_audit.get(name, ())
    if any(one.ended for one in mine):
        return mine
    older = runs.latest(store, name, before=end) or runs.latest(store, name, done_only=False, before=end)
    return [*mine, *([older] if older and older not in mine else [])]


def _entry(
    store: Store, name: str, audit: Audit | None, mine: Sequence[StoredRun], at: dt.datetime, schedule: Schedule | None = None
) -> Entry:
    ended = [one for one in mine if one.ended]
    living = next((one for one in mine if one.ended is None), None)
    running = _running(living, at) if living else ""
    stands = standing.get(store, name)
    if not ended:
        why = ("its first run is going on",) if running else ("it was never run",)
        status: Status = "unknown" if running else "never"
        return Entry(audit=name, status=status, why=why, running=running, configured=audit is not None, paused=stands.paused)
    run = ended[0]
    age = max(0.0, (at - (run.ended or run.started)).total_seconds())
    report, unread = _report(store, run)
    found = whole(store, name) if report and report.covered < 1 else None
    verdict = found.verdict if found else run.verdict
    late_since = "" if stands.paused or running else late(schedule, [one.started for one in ended], age, at)
    by = keep.settings(run.definition)
    verified = next((one.verified_through for one in ended if one.verified_through and keep.settings(one.definition) == by), None)
    same = [one for one, _ in zip(ended, _while_same(ended), strict=False)]
    return Entry(
        audit=name,
        status="stale" if late_since and verdict is Verdict.MATCH else verdict.value,
        why=tuple(text for text in (*([found.sentence] if found else run.reasons), unread, late_since) if text),
        run=run,
        report=report,
        age=age,
        running=running,
        threshold=audit.threshold if audit else None,
        verified_through=verified,
        verified_age=max(0.0, (at - verified).total_seconds()) if verified else None,
        same=len(same),
        since=same[-1].started,
        trend=tuple(_point(one) for one in reversed(ended) if one.state is not State.CANCELLED),
        configured=audit is not None,
        paused=stands.paused,
        not_compared=tuple(not_compared(report)) if report else (),
        rolled=rolled(found, report.plan, at) if found and report and report.plan else None,
    )


def _while_same(ended: Sequence[StoredRun]) -> Iterator[StoredRun]:
    for one in ended:
        if one.verdict is not ended[0].verdict:
            return
        yield one


def _point(one: StoredRun) -> Point:
    score, lower, upper = (one.score, one.lower, one.upper) if plain.has_score(one) else (None, None, None)
    return Point(run=one.run, at=one.started, verdict=one.verdict, score=score, lower=lower, upper=upper)


def _running(one: StoredRun, at: dt.datetime) -> str:
    """What a run that has not ended does, in a sentence."""
    doing = dict.fromkeys(plain.sentence(str(told["doing"])) for told in one.progress.values() if told.get("doing"))
    since = f"run {one.run[:12]} is going on, since {plain.moment(one.started)}"
    silent = (at - one.started).total_seconds()
    gone = f"; it began {plain.ago(silent)} ago" if silent > STALE else ""
    return since + (f": {', '.join(doing)}" if doing else "") + gone


def late(schedule: Schedule | None, starts: Sequence[dt.datetime], age: float, at: dt.datetime) -> str:
    """Why the last verdict of an audit that neither runs nor is paused is too old to be trusted; nothing where it is not.

    ``starts`` are the beginnings of its runs, the latest first, of which that one ended ``age`` seconds ago.
    """
    return _overdue(schedule, starts[0], at) if schedule else _unusual(starts, age)


def _overdue(schedule: Schedule, started: dt.datetime, at: dt.datetime) -> str:
    """Why a scheduled audit counts as stale: it was due, and did not begin for a while."""
    due = next(CronSim(schedule.cron, started.astimezone(ZoneInfo(schedule.timezone))), None)
    if due is None or at <= due + dt.timedelta(seconds=schedule.jitter + PATIENCE):
        return ""
    return f"it was due at {plain.moment(due)}, and has not begun since"


def _unusual(starts: Sequence[dt.datetime], age: float) -> str:
    """Why an audit counts as stale: its last run is older than a day, and than twice what usually lies between two runs."""
    between = [(later - earlier).total_seconds() for later, earlier in pairwise(starts)]
    usual = median(between) if between else 0.0
    if age <= max(86400.0, 2 * usual):
        return ""
    return f"its last run ended {plain.ago(age)} ago" + (f", and it usually runs every {plain.ago(usual)}" if usual else "")


def _report(store: Store, run: StoredRun) -> tuple[Report | None, str]:
    """A run's report, and why it cannot be read where it cannot."""
    try:
        found = keep.report(store, run.run, most=SAMPLE)
    except (StoreError, ValueError, zlib.error):
        return None, "its report can no longer be read"
    return (shown(found) if found else None), ""


def not_compared(found: Report) -> Iterator[str]:
    """What a run did not compare, and why."""
    comparison, plan = found.comparison, found.plan
    if comparison and comparison.skipped:
        yield f"{comparison.skipped:,} partitions with {comparison.skipped_rows:,} rows could not be compared"
    if found.covered < 1:
        yield f"{plain.percent(found.covered)} of the table's partitions were read in this run; the others have their turn in others"
    if plan and plan.watermark:
        yield f"rows from {plan.watermark} UTC on were left out on both sides, as still in flight"
    if plan:
        yield from (f"left out: {sentence}" for sentence in plan.left_out)
        yield from (f"cannot see: {sentence}" for sentence in plan.lossy)
