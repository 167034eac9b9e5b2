"""Compare times that the two sides hold differently: of a zone and of UTC, and with more digits and with fewer.

Times of a zone are compared with times of UTC by what the clocks of the zone show at the latter. A time that a clock shows says which
moment it was, except in the hour that is repeated when clocks are set back. So the times of UTC are taken to the zone, where each has one
reading, and not the other way round: the side that holds the zone's times does not know more.

Engines read some names in their own way: PostgreSQL takes those that are abbreviations too, as CET, for an offset without summer time, and
a server's rules may be older than a change. So names that the IANA database only links are replaced by the areas they are linked to, and
each server is asked what the clocks of a zone show around every change of them since FIRST_YEAR.

Where the source's times are finer than the target's, they are rounded as the target's engine stores them, or as the audit's
``fraction`` says.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from auditor import canonical
from auditor.canonical import TIMESTAMPS
from auditor.config import Audit, Override
from auditor.errors import ColumnRefused
from auditor.model import SIDES, Plan, Side
from dialects import Dialect, Kind, Session, errors

UTC = "UTC"

AREAS = {
    "CET": "Europe/Brussels",
    "MET": "Europe/Brussels",
    "EET": "Europe/Athens",
    "WET": "Europe/Lisbon",
    "EST": "America/Panama",
    "MST": "America/Phoenix",
    "HST": "Pacific/Honolulu",
    "EST5EDT": "America/New_York",
    "CST6CDT": "America/Chicago",
    "MST7MDT": "America/Denver",
    "PST8PDT": "America/Los_Angeles",
}
"""The areas to which the IANA database links names that are no areas, which older releases of it have in other words.
https://github.com/eggert/tz/blob/main/backward"""

FIRST_YEAR = 1971
"""The year from which on clocks are asked for; MySQL takes times before 1970 to no zone.
https://dev.mysql.com/doc/refman/9.4/en/date-and-time-functions.html#function_convert-tz"""

REFUSED_FROM = dt.datetime(2000, 1, 1)
"""The time from which on a clock that shows another time than the zone's rules is refused; before, the plan notes it, because
releases of the IANA database correct each other about the past."""

CLOCKS_ASKED = 100
"""Clocks that one statement asks for."""

SECOND, STEP = dt.timedelta(seconds=1), dt.timedelta(days=8)
"""How exactly changes are found, and how far apart they are at least."""

CLOCKS = canonical.TIMESTAMPS | {"time"}
"""Kinds whose seconds have a fraction."""

Fraction = Literal["cut", "round"] | None
"""How a loader shortens times; None for what the target's engine does."""


def area_of(zone: str) -> str:
    """Return the name of an area whose clocks show the same as those of a zone with another name; the zone's own if there is none."""
    area = AREAS.get(zone, zone)
    return area if area == zone or clocks(area) == clocks(zone) else zone


@lru_cache(maxsize=64)
def clocks(zone: str) -> Mapping[dt.datetime, dt.datetime]:
    """Return what the clocks of a zone show at times of UTC: in winter and summer of each year, and around each change of the clocks."""
    rules, year = ZoneInfo(zone), dt.datetime.now(dt.UTC).year + 1

    def shown(at: dt.datetime) -> dt.datetime:
        return at.replace(tzinfo=dt.UTC).astimezone(rules).replace(tzinfo=None)

    texts = {at: shown(at) for y in range(FIRST_YEAR, year + 1) for at in (dt.datetime(y, 1, 15, 12), dt.datetime(y, 7, 15, 12))}
    time, last = dt.datetime(FIRST_YEAR, 1, 1), dt.datetime(year, 12, 31)
    offset = shown(time) - time
    while time < last:
        begin, end = time, time + STEP
        if shown(end) - end != offset:
            while end - begin > SECOND:
                middle = begin + (end - begin) // SECOND // 2 * SECOND
                begin, end = (middle, end) if shown(middle) - middle == offset else (begin, middle)
            texts |= {begin: shown(begin), end: shown(end)}
            offset = shown(end) - end
        time += STEP
    return dict(sorted(texts.items()))


def zones_of(audit: Audit, rule: Override, name: str, native: Mapping[Side, Kind], of_connections: Mapping[Side, str]) -> dict[Side, str]:
    """Return for each side whose times have to be taken to a zone the zone; nothing where both sides' times are of one zone.

    ``native`` are the kinds of both sides' own types. The zone of a side whose type has none is the column's setting, else its
    connection's, else UTC. Raises ColumnRefused if a setting has no meaning, or the two sides' times are of two zones.
    """
    zoneless = [side for side in SIDES if native[side].name == "timestamp"]
    written = dict.fromkeys(zoneless, rule.zone) if isinstance(rule.zone, str) else {side: getattr(rule.zone, side, None) for side in SIDES}
    if rule.zone is not None:
        _check(name, native, [side for side in SIDES if written.get(side)], is_for_both=isinstance(rule.zone, str) and len(zoneless) > 1)
    if not {kind.name for kind in native.values()} <= TIMESTAMPS:
        return {}
    zones = {side: area_of(written.get(side) or of_connections[side] or UTC) if side in zoneless else UTC for side in SIDES}
    source, target = zones["source"], zones["target"]
    if source == target:
        return {}
    if UTC not in (source, target):
        raise ColumnRefused(
            f"column {name!r}: the source's times are those of {source}, the target's those of {target}; write an expr that takes one"
            " side's to the other's zone"
        )
    low = name.lower()
    if low == (audit.partition.column or "").lower() or (audit.settle and low == audit.settle.column.lower()):
        raise ColumnRefused(f"column {name!r} holds times of a zone: it can neither partition nor settle rows; use one of UTC")
    return {"target": source} if target == UTC else {"source": target}


def _check(name: str, native: Mapping[Side, Kind], sides: list[Side], *, is_for_both: bool) -> None:
    """Raise ColumnRefused unless these sides' types hold times without a zone, and the setting says whose zone it is."""
    wrong = [side for side in sides if native[side].name != "timestamp"]
    if wrong or not sides:
        types = " and ".join(str(native[side]) for side in wrong or SIDES)
        raise ColumnRefused(f"column {name!r}: zone is for times whose type has no zone, and this is {types}; remove it")
    if is_for_both:
        raise ColumnRefused(
            f"column {name!r}: neither side's type has a zone, so say whose it is: zone: {{source: ...}} or zone: {{target: ...}}"
        )


def take_to(zone: str, expression: str, native: Kind, dialect: Dialect) -> tuple[str, Kind]:
    """Return SQL of what the clocks of a zone show at a column's times of UTC, and its kind."""
    return dialect.times.wall_time(expression, native, zone), Kind("timestamp", scale=native.scale)


def check_known(plan: Plan, side: Side, session: Session) -> list[str]:
    """Return what to note of the zones to which a side's times are taken.

    Raises ColumnRefused if its server does not know a zone, or reads its name otherwise than the IANA database.
    """
    notes = []
    for column in plan.columns:
        zone = column.zones.get(side)
        if not zone:
            continue
        where, update = f"column {column.name!r}: the server of the {side}", session.dialect.ZONE_TABLES or "update its time zones"
        try:
            wrong = find_other_clocks(session, zone) if session.dialect.catalogue.knows_zone(session, zone) else None
        except errors.StatementRefused as error:
            raise ColumnRefused(f"{where} does not take times to the time zone {zone} ({error}); {update}, or write an expr") from error
        if wrong is None:
            raise ColumnRefused(f"{where} does not know the time zone {zone}; {update}, or write an expr")
        if not wrong:
            continue
        at, shown = wrong[-1]
        meant = clocks(zone)[at]
        sentence = (
            f"{where} reads the time zone {zone} otherwise than the IANA database: {at} UTC is {shown} there, and {meant} by its rules"
        )
        if at >= REFUSED_FROM:
            hint = f"write zone: {AREAS[zone]} if that is meant" if zone in AREAS else update
            raise ColumnRefused(f"{sentence}; {hint}, or write an expr")
        notes.append(f"{sentence}; no later time is")
    return notes


def find_other_clocks(session: Session, zone: str) -> list[tuple[dt.datetime, str]]:
    """Return the times of UTC at which a server shows another time of a zone than the zone's rules say, ascending, with what it shows."""
    at, dialect = Kind("timestamp", scale=6), session.dialect
    differing, asked = [], list(clocks(zone).items())
    for some in (asked[start : start + CLOCKS_ASKED] for start in range(0, len(asked), CLOCKS_ASKED)):
        literals = [dialect.names.timestamp_literal(f"{moment}.000000") for moment, _ in some]
        said = session.query(
            f"SELECT {', '.join(dialect.times.timestamp_text(dialect.times.wall_time(literal, at, zone), at) for literal in literals)}"
        )[0]
        differing += [(moment, str(text)) for (moment, meant), text in zip(some, said, strict=True) if str(text) != str(meant)]
    return differing


def with_rounding(kind: Kind, native: Mapping[Side, Kind], target: Dialect, fraction: Fraction) -> Kind:
    """Return the kind with the rounding that brought the source's times into the target; unchanged where none did.

    A kind that is coarser than both columns, as an override or a tolerance can request, is no type that anything was stored in: both
    sides are cut.
    """
    if kind.name == "date":
        shortened, rounds = native["target"].name == "date" and native["source"].name in CLOCKS, target.times.ROUNDS_TO_DATES
    else:
        kept = kind.scale if kind.name in CLOCKS else None
        shortened = kept is not None and _digits(native["source"]) > kept >= _digits(native["target"])
        rounds = bool(target.times.TIME_ROUNDING)
    if fraction is not None:
        rounds = fraction == "round"
    return dataclasses.replace(kind, rounding=target.times.TIME_ROUNDING or "half up") if shortened and rounds else kind


def _digits(native: Kind) -> int:
    """Return the fraction digits of a type's seconds; 0 for a date."""
    if native.name not in CLOCKS:
        return 0
    return 6 if native.scale is None else native.scale


def check_fraction(kind: Kind, name: str, fraction: Fraction) -> None:
    """Raise ColumnRefused for ``fraction`` of a column that is not compared as times or dates."""
    if fraction is not None and kind.name not in CLOCKS | {"date"}:
        raise ColumnRefused(f"column {name!r} is compared as {kind}, which has no fractions of seconds: remove fraction")
