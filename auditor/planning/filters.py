"""Plan an audit's filter: one in the portable language for both sides, or one that is written for each side and taken on trust."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from auditor.config import Audit, Override, PerSide
from auditor.errors import BadExpression
from auditor.model import SIDES, NotCompared, Side
from auditor.planning import times
from auditor.planning.columns import Endpoint, NameResolver
from auditor.planning.times import with_rounding
from auditor.sql import user_sql
from dialects import Kind

if TYPE_CHECKING:
    from auditor.sql.filter import Condition, FilterColumn

Clock = Callable[[], dt.datetime]
"""The source's time, in UTC."""

ON_TRUST = "both filters (where) were taken on trust: nothing checked that they select the same rows"
"""What every report says of filters that are written for each side."""

SOME_TIME = dt.datetime(2000, 1, 1)
"""What ``now`` stands for if nobody will read the filter's SQL."""


@dataclass(frozen=True, slots=True)
class PlannedFilter:
    """An audit's filter as SQL of both sides, and what a person should know of it."""

    sql: Mapping[Side, str] = field(default_factory=lambda: dict.fromkeys(SIDES, ""))
    """Each side's condition; empty for all rows."""
    now: str = ""
    """As in ``Plan.now``."""
    assumed: tuple[NotCompared, ...] = ()
    """What is taken for granted."""
    notes: tuple[str, ...] = ()
    """Further sentences."""


def plan_filter(
    where: str | PerSide | None,
    ends: Mapping[Side, Endpoint],
    names: NameResolver,
    clock: Clock | None,
    problems: list[str],
    sides: Sequence[Side] = SIDES,
) -> PlannedFilter:
    """Return the filter of an audit; without it, and if ``problems`` receives why it cannot be used, that of all rows.

    One in the portable language selects rows on these ``sides``: on both, or on the source alone.
    """
    try:
        if isinstance(where, PerSide):
            return _plan_per_side(where, ends, names)
        return _plan_portable(where, ends, names, clock, sides) if where is not None else PlannedFilter()
    except BadExpression as error:
        problems.append(str(error))
        return PlannedFilter()


def _plan_portable(
    where: str, ends: Mapping[Side, Endpoint], names: NameResolver, clock: Clock | None, sides: Sequence[Side]
) -> PlannedFilter:
    from auditor.sql import filter as portable  # loaded by need: most audits have no filter

    with portable.naming("where"):
        written = portable.parse(where)
        columns = _columns_of(written, ends, names, is_of_both=len(sides) > 1)
        now, notes = None, []
        if portable.reads_clock(written):
            now = (clock() if clock else SOME_TIME).replace(tzinfo=None)
            at = now.isoformat(" ", "microseconds")
            notes.append(f"where: now is {at} UTC by the source's clock, for both sides and for all of the run")
        bound = portable.bind(written, now)
        sql = dict.fromkeys(SIDES, "")
        sql |= {side: f"({portable.Renderer(columns, side, ends[side].dialect).condition(bound)})" for side in sides}
    notes += [sentence for column in columns.values() for sentence in _notes(column, sides)]
    return PlannedFilter(sql, now.isoformat(" ", "microseconds") if now else "", notes=tuple(notes))


def _columns_of(written: Condition, ends: Mapping[Side, Endpoint], names: NameResolver, is_of_both: bool) -> dict[str, FilterColumn]:
    """Return the columns of a filter, by their names as written; where it is of the source alone, as the source has them.

    Raises BadExpression.
    """
    from auditor.sql.filter import FilterColumn, column_names

    columns: dict[str, FilterColumn] = {}
    for name in column_names(written):
        by_side = names.for_filter(name, is_of_both)
        dialects = {side: ends[side if is_of_both else "source"].dialect for side in SIDES}
        quoted = {side: dialects[side].names.quote(by_side[side].name) for side in SIDES}
        column = FilterColumn(by_side["source"].name, quoted, by_side)
        columns[name] = _as_stored(column, ends, names.audit) if is_of_both else column
    return columns


def _as_stored(column: FilterColumn, ends: Mapping[Side, Endpoint], audit: Audit) -> FilterColumn:
    """Return a filter's column with how the source's finer times came into the target. Raises BadExpression for times of a zone."""
    if column.sort != "time":
        return column
    native = {side: column.native(side) for side in SIDES}
    rule = next((rule for name, rule in audit.columns.override.items() if name.lower() == column.name.lower()), Override())
    if times.zones_of(audit, rule, column.name, native, {side: ends[side].zone for side in SIDES}):
        from auditor.sql.filter import WAY_OUT

        raise BadExpression(
            f"the column {column.name!r} holds times of a zone on one side and of UTC on the other, and a filter compares with UTC;"
            f" {WAY_OUT}"
        )
    stored = Kind("date") if column.in_days else native["target"]
    return dataclasses.replace(column, rounding=with_rounding(stored, native, ends["target"].dialect, rule.fraction).rounding)


def _notes(column: FilterColumn, sides: Sequence[Side]) -> Iterator[str]:
    """Yield how a column is compared otherwise than its engine would."""
    if column.sort == "number" and column.is_rounded("source"):
        yield f"where: {column.name} of the source is rounded to {column.scale('source')} digits after the point, as the target holds it"
    if column.sort == "time" and column.in_days and column.native("source").name != "date":
        yield f"where: {column.name} is compared by its date, since the target holds dates"
    if column.sort == "time" and (digits := column.shortened_to) is not None:
        how = "rounded" if column.rounding else "cut"
        yield f"where: {column.name} of the source, and what it is compared with, is {how} to {digits} digits of a second, as in the target"
    for side in sides:
        if column.sort == "text" and (loose := column.columns[side].collation):
            yield f"where: {column.name} is compared by its exact characters, unlike under the {side}'s collation {loose}"


def _plan_per_side(where: PerSide, ends: Mapping[Side, Endpoint], names: NameResolver) -> PlannedFilter:
    written: dict[Side, str] = {"source": where.source, "target": where.target}
    sql: dict[Side, str] = {}
    assumed = [NotCompared(column="", how="assumed", what=ON_TRUST)]
    for side in SIDES:
        dialect = ends[side].dialect
        sql[side] = user_sql.check_filter(written[side], dialect, names.for_expressions(side, shared=False), f"where of the {side}")
        if read := user_sql.find_clock(written[side], dialect):
            what = (
                f"the filter reads the clock of its own server ({read}), again in each statement: a row at its limit may be on one side"
                " only"
            )
            assumed.append(NotCompared(column="", how="assumed", what=what, side=side))
    return PlannedFilter(sql, assumed=tuple(assumed))
