"""Ask both databases what a plan depends on: the tables' columns, how many rows they hold, the least and greatest key.

Wide ranges of sparse integer keys hold about equally many rows only if the keys are distributed uniformly, which a few counts show.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from auditor.config import Audit, QueryRef, TableRef
from auditor.connections.reader import Reader
from auditor.errors import BadExpression, EngineError, NoSuchObject, PlanError
from auditor.model import Plan, Side
from auditor.planning import chunks, conventions
from auditor.planning.columns import Endpoint, find_gap, find_typing_errors, masked_columns, masked_in_query
from auditor.planning.partitioning import MAX_KEYS_PER_ROW, Bounds
from auditor.sql import render
from auditor.sql.relation import relation
from auditor.sql.side_query import read_query
from dialects import Dialect, Origins, Place, Session, Table

log = logging.getLogger(__name__)

PROBE_COUNT = 16
"""Number of key ranges in which sparse keys are counted."""


class DescribedTogether:
    """The tables of audits that are planned one after another: a database's catalogue is asked of all of them when the first is planned.

    So the last one is described as its catalogue had it when the first was. Any thread may ask.
    """

    def __init__(self, audits: Iterable[Audit]) -> None:
        self._wanted: dict[str, dict[Place, None]] = {}
        """What was not asked for yet, by connection."""
        for audit in audits:
            for reference in audit.places.values():
                if isinstance(reference, TableRef):
                    self._wanted.setdefault(reference.connection, {})[reference.place] = None
        self._found: dict[tuple[str, Place], list[Table]] = {}
        self._locks = {connection: threading.Lock() for connection in self._wanted}

    def find(self, connection: str, session: Session, place: Place) -> list[Table]:
        """Return what ``Catalogue.describe`` does, which raises what this raises."""
        catalogue = session.dialect.catalogue
        if connection not in self._locks or not catalogue.is_listed(place):
            return catalogue.describe(session, place)
        with self._locks[connection]:
            if wanted := [one for one in self._wanted.pop(connection, ()) if catalogue.is_listed(one)]:
                try:
                    self._found |= zip([(connection, one) for one in wanted], catalogue.describe_each(session, wanted), strict=True)
                except EngineError as error:  # of one of them, so that each has to be asked for by itself
                    log.info("the tables cannot be described together: %s", error, extra={"action": "described_one_by_one"})
            found = self._found.get((connection, place))
        return catalogue.describe(session, place) if found is None else found


def describe_tables(reader: Reader, audit: Audit, together: DescribedTogether | None = None) -> dict[Side, Endpoint]:
    """Return every table that is read, as the databases' catalogues have them, by its side; ``together`` with those of other audits.

    Raises NoSuchObject, and PlanError for an ambiguous name.
    """

    def describe(side: Side, session: Session) -> Endpoint:
        settings = reader.sides[side].settings
        end = describe_table(audit, side, session, settings.zone or "", settings.mask, together)
        catalogue = session.dialect.catalogue
        if end.query:
            return replace(end, protections=tuple(_protections_of_query(session, end.reads)))
        hidden = catalogue.protections(session, end.table)
        return replace(end, protections=tuple(hidden), hides_columns=catalogue.hides_columns(session, end.table))

    return reader.ask_each(describe)


def describe_table(
    audit: Audit, side: Side, session: Session, zone: str = "", mask: Sequence[str] = (), together: DescribedTogether | None = None
) -> Endpoint:
    """Return a side's table as its database's catalogue has it now; ``zone`` and ``mask`` are its connection's.

    Raises NoSuchObject, and PlanError for an ambiguous name.
    """
    reference = audit.places[side]
    if isinstance(reference, QueryRef):
        return _describe_query(reference, side, session, zone, mask)
    place = reference.place
    if together and isinstance(reference, TableRef):  # not a topic, whose rows are in a database of its own
        found = together.find(reference.connection, session, place)
    else:
        found = session.dialect.catalogue.describe(session, place)
    table = _choose_table(found, place, side, session.dialect)
    names, label = [column.name for column in table.columns], reference.label
    # Only where something is masked: a table may show columns of the tables that it is a part of, or that it reads.
    origins = session.dialect.catalogue.origins(session, table) if mask else Origins()
    shown = [reference.place, *(Place(table) for table in origins.tables)]
    masks = frozenset[str]().union(*(masked_columns(mask, place, names) for place in shown))
    gap = find_gap(mask, label, origins)
    notes = tuple(
        f"{side}: the mask {pattern!r} of the connection {reference.connection} names no column of {reference.table}: correct or remove it"
        for pattern in find_typing_errors(mask, reference.place, names)
    )
    notes += (f"{side}: {gap}; mask its own columns too",) if gap else ()
    followed = reference.follows and conventions.find(reference.follows, table, f"the {side} ({label})")
    visible = conventions.visible_table(table, followed) if followed else table
    return Endpoint(reference.connection, label, session.dialect, visible, zone, masks, gap, notes, follows=followed or None)


def _describe_query(reference: QueryRef, side: Side, session: Session, zone: str, mask: Sequence[str]) -> Endpoint:
    """Return what a query returns, described as a table. Raises BadExpression for a query that is not read, and NoSuchObject."""
    what, label = "its query", reference.label
    query = read_query(reference.query, session.dialect, what)
    columns = session.dialect.catalogue.describe_query(session, query.text)
    names = [column.name for column in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadExpression(f"{what} has two columns named {twice!r}; name them apart: ... AS {twice}_2")
    masks = masked_in_query(mask, query.tables, names)
    gap = find_gap(mask, label, Origins(query.tables, is_view=True), "a query")
    notes = (f"{side}: {gap}; mask others with columns: {{override: {{NAME: {{mask: true}}}}}}",) if gap else ()
    table = Table(f"(\n{query.text}\n)", columns, (), None)
    return Endpoint(
        reference.connection,
        label,
        session.dialect,
        table,
        zone,
        masks,
        gap,
        notes,
        query=query.text,
        reads=query.tables,
        assumed=query.assumed,
    )


def _protections_of_query(session: Session, reads: Sequence[tuple[str, ...]]) -> list[str]:
    """Return what the server may hide from the session of the tables that a query reads, as `Catalogue.protections` says it of each."""
    catalogue, hidden = session.dialect.catalogue, []
    try:
        session.dialect.template("protections")
    except LookupError:  # an engine without policies
        return []
    for parts in reads:
        try:
            tables = catalogue.describe(session, Place(parts))
        except NoSuchObject:
            tables = []
        if not tables:  # a file, a temporary table, a function
            hidden.append(f"whether policies hide rows or values of {'.'.join(parts)}, which its query reads, is not known")
        hidden += [sentence for table in tables for sentence in catalogue.protections(session, table)]
    return list(dict.fromkeys(hidden))


def _choose_table(candidates: list[Table], place: Place, side: Side, dialect: Dialect) -> Table:
    """Return the table that the name means: the one spelled exactly so, else the only one when letters' case is ignored."""
    exact = [table for table in candidates if table.sql.endswith(dialect.names.quote(place.parts[-1]))] if place.parts else []
    if len(several := exact or candidates) > 1:
        apart = len({table.names[:-1] for table in several}) > 1
        how = "write its schema too" if apart else f"write its name in quotes, as in {dialect.names.quote(several[0].names[-1])}"
        raise PlanError(f"{side}: {place} can mean {', '.join(table.sql for table in several)}; {how}")
    if not candidates:
        raise NoSuchObject(f"{side}: there is no table {place}, or this user may not see it")
    return (exact or candidates)[0]


def read_bounds(plan: Plan, side: Side, session: Session, rows_each: int) -> Bounds:
    """Return how many rows a side has, its least and greatest key, and whether sparse keys are distributed evenly.

    Rows are estimated by the catalogue for large tables and counted for small ones. ``rows_each`` is how many rows a partition should
    hold.
    """
    here = plan.sides[side]
    rows = here.estimate
    condition = here.where or "1 = 1"
    if rows is not None and plan.slice and plan.slice.first is not None and plan.slice.last is not None:
        rows = min(rows, plan.slice.last - plan.slice.first + 1)
    if rows is None or rows < chunks.CHUNK_ROWS:  # small, or never analysed: counting is cheap and exact
        rows = int(session.query_row(render.count(session.dialect, relation(here, session.dialect), condition))[0])
    if not plan.has_integer_key:
        return Bounds(rows)
    least, greatest = session.query_row(render.bounds(plan.columns[0], side, session.dialect, relation(here, session.dialect), condition))
    if least is None:
        return Bounds(rows)
    return _with_density(Bounds(rows, int(least), int(greatest)), plan, side, session, rows_each)


def widen_bounds(reader: Reader, plan: Plan) -> Plan:
    """Return a plan whose least and greatest key are those that both sides have now, if they lie beyond those that it has."""
    if plan.least is None or plan.greatest is None:
        return plan

    def bounds(side: Side, session: Session) -> tuple[object, ...]:
        here = plan.sides[side]
        return session.query_row(
            render.bounds(plan.columns[0], side, session.dialect, relation(here, session.dialect), here.where or "1 = 1")
        )

    keys = [int(str(key)) for pair in reader.ask_each(bounds).values() for key in pair if key is not None]
    return replace(plan, least=min([plan.least, *keys]), greatest=max([plan.greatest, *keys]))


def _with_density(bounds: Bounds, plan: Plan, side: Side, session: Session, rows_each: int) -> Bounds:
    """Add whether sparse keys are distributed evenly, where an index makes counting a few key ranges cheap."""
    here, key = plan.sides[side], plan.columns[0].expression[side]
    probes = probe_ranges(bounds, rows_each) if session.dialect.ROW_STORE and not here.query else []
    if not probes:
        return bounds
    leading = session.dialect.server.leading_index_columns(session, here.table) or set()
    if key not in {session.dialect.names.quote(column) for column in leading}:
        return bounds  # each count would scan the whole table
    counts = []
    for first, end in probes:
        within = f"{key} >= {first} AND {key} < {end}"
        table, where = relation(here, session.dialect, within), f"{here.where or '1 = 1'} AND {within}"
        counts.append(int(session.query_row(render.count(session.dialect, table, where))[0]))
    return replace(bounds, even=is_uniform(counts, rows_each))


def probe_ranges(bounds: Bounds, aim: int) -> list[tuple[int, int]]:
    """Return key ranges, first (inclusive) to end (exclusive), that hold about ``aim`` rows each if sparse keys are uniform.

    Empty for dense keys, which need no check, and if the ranges would overlap.
    """
    if bounds.least is None or bounds.greatest is None or not bounds.rows:
        return []
    span = bounds.greatest - bounds.least + 1
    width = aim * span // bounds.rows
    if span <= bounds.rows * MAX_KEYS_PER_ROW or width * PROBE_COUNT > span:
        return []
    step = span // PROBE_COUNT
    return [(bounds.least + i * step, bounds.least + i * step + width) for i in range(PROBE_COUNT)]


def is_uniform(counts: Sequence[int], aim: int) -> bool:
    """Return whether at least three of four probes hold between a quarter and four times of ``aim`` rows."""
    return 4 * sum(aim // 4 <= count <= aim * 4 for count in counts) >= 3 * len(counts)
