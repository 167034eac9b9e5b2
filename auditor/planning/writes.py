"""Choose by the distribution of writes how a run reads which part of a table, and in which order.

What was written since all of the table was last seen equal is where differences are expected: by the events that a pipeline staged of the
table, or else by the times in the audit's settle column. Nothing is taken as equal because nothing was written there: every part is read.

Recent runs say how much is expected to differ, the writes where. A stretch that will probably be read again after the pre-scan is cheaper
read by the method at once; the others are pre-scanned. That a run is expected to be cheaper so has to hold for where the last run found its
differences, too: writes need not be what makes rows differ.

How many differences a partition's power sums decode stays as it is: more sums cost as much as the second scan that they spare of the
partitions with more differences, which are few or, where they are many, have too many for any sums. With up to twice the
sums in these parts alone, 2 to 6 % more CPU time was measured, whatever the second scan had to read.

The span of a count is a stretch of the pre-scan, or a few of them. Writes are known only of key ranges of one integer key.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from statistics import mean

from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.errors import StatementTimeout
from auditor.history.handover import EarlierRuns
from auditor.model import SIDES, Method, Plan, Side, Writes, consecutive_ranges
from auditor.planning import planner
from auditor.planning.chunks import CHUNK_ROWS, read_first
from auditor.planning.columns import Endpoint
from auditor.planning.prescan import LAST_RUNS, LEAST_ROWS, cost_of, find_digest_rows, partitions_per_stretch
from auditor.sql.prescan import count_writes
from dialects import Session

MOST_SPANS = 4096
"""Spans of a table in which writes are counted; of more stretches several are one span."""

MOST_RANGES = 32
"""Ranges of neighbouring spans that are read before others: each begins a statement of its own."""

FIRST_SHARE = 0.9
"""Share of the writes that the spans hold which are read first, if these are at most half of all."""

LEAST_GAIN = 0.15
"""Share of a scan by the method that a choice by the writes has to be expected to save; below, the table is read as without it. Where 7 to
9 % were expected, of pre-scans without digests, `benchmarks/writes.py` measured a loss of as much: more statements, and their ranges."""


def choose_by_writes(
    reader: Reader, plan: Plan, audit: Audit, tables: Mapping[Side, Endpoint], earlier: EarlierRuns, found_by: Method | None = None
) -> Plan:
    """Return a plan, whose pre-scan is decided, with what the distribution of writes changes: the pre-scan, and the order of chunks.

    ``found_by`` is the method of a ladder's earlier level that found a difference in this run.
    """
    writes = find_writes(reader, plan, audit, tables, earlier)
    plan = replace(plan, writes=writes)
    if writes.origin == "unknown":
        return plan
    plan = _with_mixed_prescan(plan, audit, earlier, found_by)
    if (plan.prescan and plan.prescan.at_once) or not any(plan.sides[side].chunk_keys for side in plan.read_sides):
        return plan
    ranges = _hottest_first(writes, _spans_with_most(writes))
    chosen = [(low * writes.width, end * writes.width) for low, end in ranges]
    sides = {side: read_first(plan.sides[side], chosen) for side in plan.read_sides}
    return replace(plan, sides={**plan.sides, **sides}, writes=replace(writes, first=ranges))


# how writes are distributed


def find_writes(reader: Reader, plan: Plan, audit: Audit, tables: Mapping[Side, Endpoint], earlier: EarlierRuns) -> Writes:
    """Return how the writes since all of the table was last seen equal are distributed, or why they are not known."""
    if why := _why_unknown(plan, earlier):
        return Writes(origin="unknown", why=why)
    width, spans = _spans(plan, tables)
    since = earlier.verified_through
    assert since is not None, "without a match the writes are not known"
    counted = Writes(origin="unknown", why="", since=since, width=width, spans=len(spans))
    why_no_events = "no pipeline of the store carries the table"
    if earlier.events:
        keys = earlier.events(plan.columns[0].name, since)
        if not isinstance(keys, str):
            found: dict[int, int] = {}
            for key in keys:
                if key // width in spans:
                    found[key // width] = found.get(key // width, 0) + 1
            return replace(counted, origin="events", why="events that its pipeline staged", counts=tuple(sorted(found.items())))
        why_no_events = keys
    if audit.settle is None:
        return Writes(origin="unknown", why=f"{why_no_events}, and the audit has no settle column")
    if not _expected(earlier.unequal_shares):  # an order is not worth the count, which cost up to 6 % of such a run's CPU time
        return Writes(origin="unknown", why=f"{why_no_events}, and the last runs found no difference for which rows would be counted")
    return _count_by_column(reader, plan, audit, audit.settle.column, tables, counted, spans)


def _why_unknown(plan: Plan, earlier: EarlierRuns) -> str:
    """Return why nothing is to be gained by knowing the writes, or they cannot be known; empty if neither."""
    rows = max((plan.sides[side].estimate or 0) for side in SIDES)
    if plan.method not in ("signature", "exact"):
        return f"the method {plan.method} reads every part alike"
    if plan.slice:
        return "the run reads a slice"
    if plan.queries:
        return "a side is a query, which runs as a whole"
    if set(plan.read_sides) != set(SIDES):
        return "the source consists of several tables"
    if plan.partitioning.strategy != "range" or not plan.has_integer_key or plan.least is None:
        return "the table is not read in ranges of one integer key"
    if rows < LEAST_ROWS:
        return f"about {rows:,} rows are read at once"
    if earlier.verified_through is None:
        return "no run has seen all of the table equal yet"
    return ""


def _spans(plan: Plan, tables: Mapping[Side, Endpoint]) -> tuple[int, frozenset[int]]:
    """Return how many keys a span has, a whole number of stretches, and the numbers of the spans that the plan reads."""
    size, (least, greatest) = plan.partitioning.size, (plan.least or 0, plan.greatest or 0)
    stretch = find_digest_rows(plan, tables)[1] or partitions_per_stretch(plan)
    count = greatest // size // stretch - least // size // stretch + 1
    width = size * stretch * math.ceil(count / MOST_SPANS)
    ranges = plan.partition_ranges or ((least // size, greatest // size + 1),)
    return width, frozenset(number for low, end in ranges for number in range(low * size // width, (end * size - 1) // width + 1))


def _count_by_column(
    reader: Reader, plan: Plan, audit: Audit, name: str, tables: Mapping[Side, Endpoint], counted: Writes, spans: frozenset[int]
) -> Writes:
    """Return the rows of the source by when its settle column says that they were written, where counting them costs little."""
    column = planner.find_columns(audit, tables, name, "settle")["source"]
    quoted, since = tables["source"].dialect.names.quote(column.name), f"{counted.since:%Y-%m-%d %H:%M:%S.%f}"
    literal = tables["source"].dialect.names.timestamp_literal(since)
    is_late = False

    def count(side: Side, session: Session) -> list[tuple[object, ...]] | None:
        nonlocal is_late
        here = plan.sides[side]
        leading = session.dialect.server.leading_index_columns(session, here.table)
        is_indexed = leading is not None and column.name in leading
        is_scanned_quickly = leading is None or (here.estimate or 0) <= CHUNK_ROWS
        if not (is_indexed or is_scanned_quickly):
            return None
        try:
            return session.query(count_writes(plan, side, session.dialect, counted.width, f"{quoted} >= {literal}"))
        except StatementTimeout:
            is_late = True
            return None

    rows = reader.ask_side("source", count)
    if is_late:  # some engines refuse to continue in a transaction in which a statement failed
        reader.sides["source"].renew_snapshot()
        return Writes(origin="unknown", why=f"counting the rows by their {column.name} took longer than a statement may")
    if rows is None:
        return Writes(origin="unknown", why=f"no index begins with the settle column {column.name}")
    found = sorted((int(str(number)), int(str(writes))) for number, writes in rows if number is not None and int(str(number)) in spans)
    return replace(counted, origin="settle column", why=f"rows by their {column.name}", counts=tuple(found))


# what is expected of them


def _expected(shares: Sequence[float]) -> float:
    """Return the share that is expected to differ by the last runs, 0 to 1; 0 if none found anything."""
    latest = shares[-LAST_RUNS:]
    return mean(latest) if latest else 0.0


def _with_mixed_prescan(plan: Plan, audit: Audit, earlier: EarlierRuns, found_by: Method | None) -> Plan:
    """Return the plan whose pre-scan leaves to the method at once what will probably differ, if that is expected to save something.

    The pre-scan stays as it is where the audit fixes it, and where something else than its cost decided.
    """
    prescan, writes = plan.prescan, plan.writes
    share = _expected(earlier.unequal_shares)
    if prescan is None or writes is None or not prescan.partitions or audit.prescan is not None or found_by or not share:
        return plan
    if earlier.unequal_shares[-1] and not earlier.unequal_keys:  # nothing says whether the writes show where differences are
        return plan
    cost = cost_of(plan, prescan)
    stretches = writes.width // (plan.partitioning.size * prescan.partitions)
    partitions = share * writes.spans * stretches * prescan.partitions
    differs = {
        number: 1 - math.exp(-partitions * count / writes.total / stretches) for number, count in writes.counts
    }  # of a stretch, where each unequal partition is so by a random write
    chosen = [number for number, probability in differs.items() if probability > 1 - cost]
    ranges = _hottest_first(writes, chosen)
    at_once = {number for low, end in ranges for number in range(low, end)}
    again = sum(probability for number, probability in differs.items() if number not in at_once)
    seen = {key // writes.width for key in earlier.unequal_keys} - at_once  # of a rolling audit perhaps elsewhere
    count = writes.spans
    mixed = (len(at_once) + (count - len(at_once)) * cost + again) / count
    as_last = (len(at_once) + (count - len(at_once)) * cost + len(seen)) / count
    before = cost + sum(differs.values()) / count if prescan.used else 1.0
    if mixed > before - LEAST_GAIN or as_last > 1 - LEAST_GAIN:
        return plan
    at = f"; {len(at_once):,} of {count:,} parts, in which they are expected to differ, are read by the method at once" if at_once else ""
    why = f"by the writes since the last match, and what the last runs found, {1 - mixed:.0%} of a scan is saved{at}"
    keys = tuple((low * writes.width, end * writes.width) for low, end in ranges)
    return replace(
        plan, prescan=replace(prescan, used=True, why=why, at_once=keys), writes=replace(writes, first=ranges if at_once else ())
    )


# what is read first


def _spans_with_most(writes: Writes) -> list[int]:
    """Return the fewest spans that hold FIRST_SHARE of the writes; none if these are more than half of all."""
    descending = sorted(writes.counts, key=lambda one: (-one[1], one[0]))
    held = list(accumulate(count for _, count in descending))
    chosen = descending[: bisect_left(held, FIRST_SHARE * writes.total) + 1]
    return [number for number, _ in chosen] if 2 * len(chosen) <= writes.spans else []


def _hottest_first(writes: Writes, chosen: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return spans as at most MOST_RANGES ranges, from the first (inclusive) to the end (exclusive), the most writes per span first."""
    if not chosen:
        return ()
    counts = dict(writes.counts)

    def density(span: tuple[int, int]) -> float:
        low, end = span
        return sum(counts.get(number, 0) for number in range(low, end)) / (end - low)

    ranges = [(first, last + 1) for first, last in consecutive_ranges(chosen, MOST_RANGES)]
    return tuple(sorted(ranges, key=lambda span: (-density(span), span)))
