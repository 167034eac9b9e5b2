"""Compare times of a zone with times of UTC: by what the clocks of the zone show at the latter.

A time that a clock shows says which moment it was, except in the hour that is repeated when clocks are set back. So the times of UTC are
taken to the zone, where each has one reading, and not the other way round: the side that holds the zone's times does not know more.
"""

from __future__ import annotations

from collections.abc import Mapping

from auditor.canonical import TIMESTAMPS
from auditor.config import Audit, Override
from auditor.errors import ColumnRefused
from auditor.model import SIDES, Plan, Side
from dialects import Dialect, Kind, Session

UTC = "UTC"


def of_column(audit: Audit, rule: Override, name: str, native: Mapping[Side, Kind], of_connections: Mapping[Side, str]) -> dict[Side, str]:
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
    zones = {side: (written.get(side) or of_connections[side] or UTC) if side in zoneless else UTC for side in SIDES}
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
    return dialect.wall_time(expression, native, zone), Kind("timestamp", scale=native.scale)


def check_known(plan: Plan, side: Side, session: Session) -> None:
    """Raise ColumnRefused if a side's server does not know a zone to which its times are to be taken."""
    for column in plan.columns:
        zone = column.zones.get(side)
        if zone and not session.dialect.knows_zone(session, zone):
            mend = session.dialect.ZONE_TABLES or "update its time zones"
            raise ColumnRefused(
                f"column {column.name!r}: the server of the {side} does not know the time zone {zone}; {mend}, or write an expr"
            )
