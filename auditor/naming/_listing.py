"""Partitions that nothing else explains: listed, key and row hash of every row, as far as the limits allow."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from auditor.compare import ranges
from auditor.compare.account import Row
from auditor.compare.ranges import Stretch
from auditor.model import NULL_PARTITION, SIDES, Difference, Side
from auditor.naming._decoding import explained
from auditor.naming._refining import only
from auditor.naming._work import Naming, by_index, differences, position_of

ROWS_AT_ONCE = 50_000
"""About how many rows are listed at once with all their columns."""

WITH_COLUMNS = 1000
"""Changed rows of listed partitions whose columns are looked at."""


def listed_and_left(naming: Naming, left: Sequence[int]) -> tuple[list[int], list[Stretch]]:
    """Name the differences of these partitions from lists of their keys and hashes.

    The partitions that the limits leave, and the stretches of rows on one side only.
    """
    found = naming.found
    chosen = _listable(naming, left)
    if len(chosen) < len(left):
        found.why = f"{len(left) - len(chosen):,} partitions hold more rows than max_rows_listed allows to list"
    stretches: list[Stretch] = []
    listed: list[int] = []
    for some in _portions(naming, chosen):
        if time.monotonic() > naming.deadline:
            found.why = f"max_seconds were over before {len(chosen) - len(listed):,} partitions could be listed"
            break
        stretches += _list(naming, some)
        listed += some
    naming.keep_stretches(stretches)
    naming.settled(listed, "listed")
    found.partitions["listed"] += len(listed)
    return sorted(set(left) - set(listed)), stretches


def _listable(naming: Naming, left: Sequence[int]) -> list[int]:
    """The partitions that the limits allow to list, the smallest first; none where most are beyond them anyway."""
    aligned = naming.aligned
    sizes = {index: sum(aligned.rows(side, index) for side in SIDES) for index in left}
    budget = naming.limits.max_rows_listed
    if budget is None:
        budget = max(100_000, sum(int(aligned.sides[side].rows.sum()) for side in SIDES) // 100)
    chosen: list[int] = []
    for index in sorted(left, key=lambda one: sizes[one]):
        budget -= sizes[index]
        if budget < 0:
            break
        chosen.append(index)
    return chosen if 2 * len(chosen) >= len(left) else []


def _portions(naming: Naming, chosen: Sequence[int]) -> list[list[int]]:
    """The partitions to list, by what is fetched at once: with tolerances, every row comes with all its columns.

    Where partitions are no key ranges, each portion takes a scan, so there are few.
    """
    portions: list[list[int]] = []
    rows = [sum(naming.aligned.rows(side, index) for side in SIDES) for index in chosen]
    most = ROWS_AT_ONCE if naming.plan.partitioning.strategy == "range" else max(ROWS_AT_ONCE, sum(rows) // 4)
    room = 0
    for index, here in zip(chosen, rows, strict=True):
        room -= here
        if not portions or (room < 0 and naming.plan.is_tolerant):
            portions.append([])
            room = most - here
        portions[-1].append(index)
    return portions


def _list(naming: Naming, some: Sequence[int]) -> list[Stretch]:
    """Name the differences of these partitions; the stretches of rows on one side only."""
    plan, tolerant = naming.plan, naming.plan.is_tolerant
    numbers = [int(naming.aligned.partition[index]) for index in some]
    rows = naming.both(lambda side: list(naming.fetch(side).by_partition(numbers, texts=tolerant)))
    sorted_out = by_index(naming, some, rows)
    stretches: list[Stretch] = []
    changed: list[Difference] = []
    equal: set[int] = set()
    for index, here in sorted(sorted_out.items()):
        found, forgiven = differences(naming, here)
        if not found and not forgiven:
            equal.add(index)  # it differed in the scan and no longer does
        if plan.partitioning.strategy == "range" and naming.aligned.partition[index] != NULL_PARTITION:
            within, found = ranges.within(index, here, found)
            stretches += within
        naming.keep([one for one in found if one.kind != "changed"])
        changed += [one for one in found if one.kind == "changed"]
    naming.keep(changed if tolerant else _with_columns(naming, changed))
    unaccounted = _unaccounted(naming, sorted_out, equal)
    naming.found.unaccounted += len(unaccounted)
    naming.found.vanished += len(equal - unaccounted)
    return stretches


def _unaccounted(naming: Naming, rows: Mapping[int, Mapping[Side, Sequence[Row]]], equal: Collection[int]) -> set[int]:
    """The listed partitions (by index) whose rows are not the ones that the scan summarised, though nothing says that they changed.

    Where both sides are seen as they were, the rows add up to what differed. Otherwise a partition of which fewer rows came, all of
    them ``equal``, is summarised again: rows that the list did not find, it finds.
    """
    aligned = naming.aligned
    if naming.still():
        return {index for index, here in rows.items() if not explained(aligned, index, here)}
    fewer = sorted(index for index in equal if any(len(rows[index][side]) < aligned.rows(side, index) for side in SIDES))
    if not fewer:
        return set()
    now = naming.rescan(only(naming, [int(aligned.partition[index]) for index in fewer]))
    differing = set(now.partition[~now.equal].tolist())
    return {index for index in fewer if int(aligned.partition[index]) in differing}


def _with_columns(naming: Naming, changed: list[Difference]) -> list[Difference]:
    """Changed rows with the columns that differ, as many as the limits allow to keep; the others as they are."""
    plan = naming.plan
    room = min(WITH_COLUMNS, max(0, naming.limits.max_differences - len(naming.found.named)))
    wanted = [one for one in changed[:room] if None not in one.key.values()]
    if not wanted:
        return changed
    if plan.partitioning.strategy == "range":
        keys = [one.key_number for one in wanted]
        found = naming.both(lambda side: list(naming.fetch(side).by_key(keys)))
    else:
        positions = sorted({position_of(plan, tuple(one.key.values())) for one in wanted})
        found = naming.both(lambda side: list(naming.fetch(side).by_position(positions)))
    seen = {tuple(one.key.values()): one for one in differences(naming, found)[0]}
    return [seen.get(tuple(one.key.values()), one) for one in changed]
