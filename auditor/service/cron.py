"""The ticks of a schedule: cron expressions in time zones, across daylight-saving changes.

Which expressions are taken, ``auditor/config/_schedule.py`` decides.

A tick is an instant in UTC. As in Debian's cron, a fixed time that the clock skips falls on the end of the gap, and one that the clock
repeats comes once; an interval (``*/15``) runs through both. Ticks are only computed forward: cronsim 2.8 with ``reverse=True`` skips
a tick when it starts within a repeated hour, and does not return around the changes of Pacific/Chatham.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from auditor.config import Schedule

LOOKBACKS = tuple(dt.timedelta(hours=hours) for hours in (2, 26, 8 * 24, 63 * 24, 367 * 24, 9 * 366 * 24))
"""How far back to search for the last tick, in steps; two February 29ths can be more than eight years apart."""

LAST_TICKS: dict[tuple[str, str], tuple[dt.datetime, dt.datetime]] = {}
"""The last computed tick of each expression in a time zone and the one after it, so that polling every second computes nothing."""

NEXT_TICKS: dict[tuple[str, str], tuple[dt.datetime, dt.datetime]] = {}
"""The next computed tick of each, and a moment before it since which there is no other."""


def jitter_offset(schedule: Schedule, name: str) -> dt.timedelta:
    """Return the delay between a tick and the moment an audit is due: constant for a name, in [0, jitter) seconds."""
    if not schedule.jitter:
        return dt.timedelta()
    share = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6]) / 2**48
    return dt.timedelta(seconds=int(share * schedule.jitter))


def next_times(schedule: Schedule, after: dt.datetime, count: int, name: str) -> list[dt.datetime]:
    """Return the next moments in UTC at which an audit is due, jitter included; fewer than ``count`` if the schedule ends."""
    delay = jitter_offset(schedule, name)
    begin, ticking = after - delay, (schedule.cron, schedule.timezone)
    if count == 1:
        for known in (LAST_TICKS.get(ticking), NEXT_TICKS.get(ticking)):
            if known and known[0] <= begin < known[1]:
                return [known[1] + delay]
    ticks = list(islice(iterate_ticks(schedule, begin), count))
    if ticks:
        NEXT_TICKS[ticking] = (begin, ticks[0])
    return [tick + delay for tick in ticks]


def last_tick(schedule: Schedule, now: dt.datetime, name: str) -> dt.datetime | None:
    """Return the latest tick at which an audit is already due, without its jitter; None if there has been none."""
    return _last_tick(schedule, now - jitter_offset(schedule, name))


def _last_tick(schedule: Schedule, until: dt.datetime) -> dt.datetime | None:
    ticking = schedule.cron, schedule.timezone
    known = LAST_TICKS.get(ticking)
    if known and known[0] <= until < known[1]:
        return known[0]
    for lookback in LOOKBACKS:
        last = None
        for tick in iterate_ticks(schedule, until - lookback):
            if tick > until:
                if last:
                    LAST_TICKS[ticking] = (last, tick)
                break
            last = tick
        if last:
            return last
    return None


def iterate_ticks(schedule: Schedule, after: dt.datetime) -> Iterator[dt.datetime]:
    """Yield the ticks after a moment, in order."""
    try:
        for local in CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.timezone))):
            tick = local.astimezone(dt.UTC)
            # From within a repeated hour CronSim yields a tick of its first pass, which is in the past.
            if tick > after:
                yield tick
    except StopIteration:
        return
