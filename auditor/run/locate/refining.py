"""Cut partitions that hold more differences than decode, but not very many, into smaller ones for a second scan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from auditor.compare import ranges, sampling
from auditor.compare.comparator import Aligned
from auditor.compare.ranges import OneSidedRows
from auditor.compare.sampling import Sample
from auditor.config import Limits
from auditor.connections.reader import Reader
from auditor.model import NULL_PARTITION, SIDES, Chunk, Partitioning, Plan, consecutive_ranges
from auditor.run.locate.decoding import Tally, Work
from auditor.run.scan import scan
from auditor.sql.render import partition_conditions

MAX_PARTITIONS = 1 << 20
"""The most partitions of a second scan."""

MAX_RANGES, RANGES_PER_STATEMENT = 100, 25
"""The most key ranges that a second scan reads, and how many of them one statement reads."""

MAX_DIFFERENCES_FACTOR = 10
"""A second scan is made for up to this many times ``max_differences`` differences; beyond, for some of the partitions."""


def plan_second_scan(work: Work, overloaded: Sequence[int]) -> tuple[list[int], Plan | None]:
    """Return which overloaded partitions (by index) to scan again, and a plan that cuts them so that about one difference lies in each.

    Left out are partitions without a position, those of which a good part is missing on one side, and neighbours of partitions that are
    missing on one side: these hold ranges, which a list shows. Of too many differences some partitions are chosen, spread over the table,
    that hold about ``max_differences``. The plan is None if no second scan is worth it.
    """
    aligned, how = work.aligned, work.plan.partitioning
    chosen = [index for index in overloaded if _is_scattered(aligned, index)]
    if not chosen or how.strategy == "time":
        return [], None
    expected = work.estimate_differing(chosen)
    rows = sum(int(aligned.rows[side][index]) for index in chosen for side in SIDES)
    if not work.limits.max_differences or expected > rows / 8:
        return [], None
    if expected > MAX_DIFFERENCES_FACTOR * work.limits.max_differences:
        most = min(len(chosen), MAX_RANGES) if how.strategy == "range" else len(chosen)
        share = 2 * work.limits.max_differences / expected  # a changed row differs on both sides
        chosen = sorted(sampling.spread(chosen)[: max(1, min(most, int(len(chosen) * share)))])
        expected = work.estimate_differing(chosen)
    times = _divisor(how, math.ceil(max(expected / 2 / len(chosen), 4)))
    if times is None or len(chosen) * times > MAX_PARTITIONS:
        return [], None
    why = f"about {expected:,.0f} rows of {len(chosen):,} partitions differ"
    smaller = dataclasses.replace(how, why=why, size=how.size // times, buckets=how.buckets * times)
    numbers = [int(aligned.partition[index]) for index in chosen]
    if how.strategy == "range":
        numbers = [number for first, last in consecutive_ranges(numbers, MAX_RANGES) for number in range(first, last + 1)]
    return chosen, dataclasses.replace(_plan_of(work, numbers), partitioning=smaller)


def _is_scattered(aligned: Aligned, index: int) -> bool:
    """Whether a partition seems to hold scattered differences, and no part of a range that is missing on one side."""
    one_sided = aligned.present["source"] != aligned.present["target"]
    source, target = (int(aligned.rows[side][index]) for side in SIDES)
    at_edge = bool(one_sided[index - 1 : index + 2].any()) if index else bool(one_sided[:2].any())
    has_key = bool(aligned.partition[index] != NULL_PARTITION)
    return has_key and not at_edge and abs(source - target) < max(ranges.MIN_RANGE_KEYS, (source + target) // 256)


def _plan_of(work: Work, numbers: Sequence[int]) -> Plan:
    """Return the plan that reads these partitions alone."""
    return _keyed(work.reader, work.plan, numbers)


def _keyed(reader: Reader, plan: Plan, numbers: Sequence[int]) -> Plan:
    sides = dict(plan.sides)
    for side in plan.read_sides:
        conditions = partition_conditions(plan, side, reader.session(side).dialect, numbers, RANGES_PER_STATEMENT)
        sides[side] = dataclasses.replace(sides[side], chunks=tuple(Chunk(within=condition) for condition in conditions))
    return dataclasses.replace(plan, sides=sides)


def restrict_plan(work: Work, numbers: Sequence[int]) -> Plan:
    """Return the plan that summarises these partitions once more; the whole plan if partitions are no key ranges."""
    return work.plan if work.plan.partitioning.strategy != "range" else plan_of_partitions(work.reader, work.plan, numbers)


def plan_of_partitions(reader: Reader, plan: Plan, numbers: Sequence[int]) -> Plan:
    """Return the plan that reads these partitions, that of NULL keys among them; where that is no range of keys, the whole plan."""
    keyed = [number for number in numbers if number != NULL_PARTITION]
    if len(keyed) == len(numbers):
        return _keyed(reader, plan, keyed)
    if plan.partitioning.strategy != "range":
        return plan
    restricted = _keyed(reader, plan, keyed)
    sides = {side: dataclasses.replace(here, chunks=(*here.chunks, Chunk(null_key=True))) for side, here in restricted.sides.items()}
    return dataclasses.replace(restricted, sides=sides)


def still_one_sided(work: Work, one_sided: Sequence[OneSidedRows]) -> tuple[list[OneSidedRows], list[int]]:
    """Return the partitions that are missing on one side, as they are now, and those (by index) that both sides have by now, and differ.

    Where the sides were not read in one snapshot each, a partition may have been filled on one side after the other was read.
    """
    if work.saw_one_snapshot or not one_sided:
        return list(one_sided), []
    aligned = work.aligned
    index_of = {int(aligned.partition[rows.first_index]): rows.first_index for rows in one_sided}
    now = scan(work.reader, _only(work, list(index_of)))
    now = now.select(np.isin(now.partition, list(index_of)))
    left = ranges.one_sided_partitions(now, work.plan.partitioning)
    places = {place: index_of[int(number)] for place, number in enumerate(now.partition)}
    both = [places[int(place)] for place in np.flatnonzero(now.unequal & now.on_both)]
    work.tally.vanished += len(one_sided) - len(left) - len(both)
    moved = [dataclasses.replace(rows, first_index=places[rows.first_index], last_index=places[rows.first_index]) for rows in left]
    return moved, sorted(both)


def clear_equal_by_now(reader: Reader, plan: Plan, aligned: Aligned) -> Aligned:
    """Return the partitions with those as equal that differ only because their sides were read at different times.

    Both sides of all that differ are summarised once more. This serves runs that were resumed, by methods that name no rows.
    """
    numbers = [int(number) for number in aligned.partition[aligned.unequal]]
    if not numbers:
        return aligned
    work = Work(plan, aligned, Limits(), reader, 0.0, Tally(Sample(0, plan)), resumed=True)
    now = scan(reader, _only(work, numbers))
    gone = aligned.unequal & ~np.isin(aligned.partition, now.partition[~now.equal])
    return dataclasses.replace(aligned, equal=aligned.equal | gone, unequal=aligned.unequal & ~gone)


def _only(work: Work, numbers: Sequence[int]) -> Plan:
    """Return the plan that summarises these partitions once more: one of NULL keys, too, and those by hash or time in one statement."""
    if work.plan.partitioning.strategy == "range":
        return restrict_plan(work, numbers)
    return plan_of_partitions(work.reader, work.plan, numbers)


def _divisor(how: Partitioning, wanted: int) -> int | None:
    """Return into how many a partition is cut, at least ``wanted``: smaller ranges must lie whole within their parent."""
    if how.strategy != "range":
        return wanted
    return next((times for times in range(wanted, how.size // 2 + 1) if how.size % times == 0), None)


def within_refined(again: Aligned, work: Work, refined: Sequence[int], finer: Plan) -> Aligned:
    """Return the second scan's partitions that lie within the refined ones; it may have seen others between these."""
    coarse, fine = work.plan.partitioning, finer.partitioning
    parents = again.partition // (coarse.size // fine.size) if coarse.strategy == "range" else again.partition % coarse.buckets
    wanted = work.aligned.partition[list(refined)]
    inside = (again.partition != NULL_PARTITION) & np.isin(parents, wanted)
    equal = len(wanted) - len(set(parents[inside & ~again.equal].tolist()))
    if work.saw_one_snapshot:
        work.tally.unaccounted += equal
    else:
        work.tally.vanished += equal  # they no longer differ
    return again.select(inside)
