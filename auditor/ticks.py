"""When a schedule's ticks are: cron expressions in time zones, over their clocks' jumps.

A tick is an instant. A fixed time that a clock leaps over comes when it has leapt, one that the clock shows twice comes once, as
Debian's cron has it; what comes every so many minutes comes as often as these pass.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from auditor.config import Schedule

BACK = tuple(dt.timedelta(hours=hours) for hours in (2, 26, 8 * 24, 63 * 24, 367 * 24, 9 * 366 * 24))
"""How far back the last tick is looked for, step by step; February 29th can be more than eight years ago."""

_FOUND: dict[Schedule, tuple[dt.datetime, dt.datetime]] = {}
"""The last tick that was found of each schedule, and the one after it: who asks every second need not count again."""


def offset(schedule: Schedule, name: str) -> dt.timedelta:
    """How much later than its tick an audit is due: always the same for one name."""
    share = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6]) / 2**48
    return dt.timedelta(seconds=int(share * schedule.jitter))


def next_times(schedule: Schedule, after: dt.datetime, count: int, name: str) -> list[dt.datetime]:
    """The next moments at which an audit is due, jitter included, in UTC."""
    late = offset(schedule, name)
    known = _FOUND.get(schedule)
    if count == 1 and known and known[0] <= after - late < known[1]:
        return [known[1] + late]
    return [tick + late for tick in islice(_ticks(schedule, after - late), count)]


def last(schedule: Schedule, now: dt.datetime, name: str) -> dt.datetime | None:
    """The latest tick whose moment has come, without its jitter; None where there never was any."""
    return _last(schedule, now - offset(schedule, name))


def _last(schedule: Schedule, until: dt.datetime) -> dt.datetime | None:
    known = _FOUND.get(schedule)
    if known and known[0] <= until < known[1]:
        return known[0]
    for back in BACK:
        found = None
        for tick in _ticks(schedule, until - back):
            if tick > until:
                if found:
                    _FOUND[schedule] = (found, tick)
                break
            found = tick
        if found:
            return found
    return None


def _ticks(schedule: Schedule, after: dt.datetime) -> Iterator[dt.datetime]:
    """The ticks after a moment."""
    try:
        for local in CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.timezone))):
            tick = local.astimezone(dt.UTC)
            # From within an hour that comes twice, its first time is found again.
            if tick > after:
                yield tick
    except StopIteration:
        return
