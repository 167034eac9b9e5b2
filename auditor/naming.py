"""From unequal partitions to named differences: ranges, decoding, accounting, listing; what is left is estimated.

1. A partition that one side lacks altogether is a range difference, counted and not enumerated.
2. The others' syndromes are decoded; the rows at the positions found are fetched from both sides. Where they explain the
   partition's whole difference, in every word and in the count, it is accounted for: no other row of it differs.
3. Partitions that hold more differences than decode, but not very many, are summarised once more, cut into smaller ones.
4. What still did not decode, or was not accounted for, is listed: key and row hash of every row of it, within the limits.
5. The rest keeps the estimate that its signature gives.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from auditor import canonical
from auditor.compare import account, jaccard, ranges, syndromes
from auditor.compare.account import Row
from auditor.compare.comparator import Aligned
from auditor.compare.jaccard import Rest
from auditor.compare.ranges import Stretch
from auditor.config import Limits
from auditor.model import (
    NULL_PARTITION,
    SIDES,
    Chunk,
    ColumnDifference,
    Difference,
    Differences,
    Jaccard,
    Partitioning,
    Plan,
    RangeDifference,
    Side,
)
from auditor.render import WORD_BITS, of_partitions
from auditor.rows import Fetcher
from auditor.summary import Integers, P
from dialects import Kind, Session

Both = Callable[[Callable[[Side], Any]], dict[Side, Any]]
"""Does a piece of work for both sides at once."""

FINER_LIMIT = 1 << 20
"""The most partitions of a second scan."""

FINER_RANGES = 100
"""The most key ranges that the condition of a second scan holds."""

FINER_TIMES = 10
"""A second scan is made for up to so many times max_differences."""

WITH_COLUMNS = 1000
"""Changed rows of listed partitions whose columns are looked at."""


@dataclass(slots=True)
class Found:
    """What was found so far, over both scans."""

    named: list[Difference] = field(default_factory=list)
    ranges: list[RangeDifference] = field(default_factory=list)
    differing: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})
    partitions: dict[str, int] = field(default_factory=lambda: {"one_sided": 0, "accounted": 0, "refined": 0, "listed": 0, "estimated": 0})
    unsettled: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Naming:
    """One scan whose unequal partitions are to be explained: by which plan, what it found, and how to ask the engines more."""

    plan: Plan
    aligned: Aligned
    limits: Limits
    sessions: Mapping[Side, Session]
    both: Both
    deadline: float
    found: Found

    def fetch(self, side: Side) -> Fetcher:
        """What fetches rows of a side."""
        return Fetcher(self.plan, side, self.sessions[side], self.limits.value_length)

    def keep(self, differences: Sequence[Difference]) -> None:
        """Count differences, and keep as many by their keys as the limits allow."""
        for difference in differences:
            self.found.counts[difference.kind] += 1
            self.found.differing += sum(difference.rows.values())
        self.found.named += differences[: max(0, self.limits.max_differences - len(self.found.named))]

    def keep_stretches(self, stretches: Sequence[Stretch]) -> None:
        """Count stretches of rows on one side only."""
        for stretch in stretches:
            self.found.counts[stretch.kind] += stretch.rows
            self.found.differing += stretch.rows


def name_differences(
    plan: Plan,
    aligned: Aligned,
    limits: Limits,
    sessions: Mapping[Side, Session],
    both: Both,
    rescan: Callable[[Plan], Aligned],
) -> tuple[Differences, Jaccard | None]:
    """Name what differs within the limits, and say how similar the tables are.

    ``rescan`` summarises both sides again by a plan of smaller partitions; it is called at most once, for partitions that hold
    more differences than decode but few enough to be named. Raises errors of the tree.
    """
    naming = Naming(plan, aligned, limits, sessions, both, time.monotonic() + limits.max_seconds, Found())
    rest = _settle(naming, rescan)
    naming.found.partitions["estimated"] = len(rest.source)
    similar = jaccard.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=naming.found.differing,
        rest=rest,
        unknown=aligned.skipped_rows,
    )
    return _concluded(naming), similar


def _settle(naming: Naming, rescan: Callable[[Plan], Aligned] | None) -> Rest:
    """Explain every unequal partition as far as the limits allow; the rest."""
    whole = rescan is not None
    stretches = ranges.one_sided(naming.aligned)
    naming.keep_stretches(stretches)
    naming.found.partitions["one_sided"] += len(stretches)
    decoded = _decoded(naming)
    overloaded = {index for index, positions in decoded.items() if positions is None}
    refined, finer = _finer(naming, sorted(overloaded)) if rescan else ([], None)
    left = _accounted(naming, {index: found for index, found in decoded.items() if index not in set(refined)})
    left, within = _listed(naming, left)
    naming.found.ranges += ranges.joined([*stretches, *within], naming.plan.partitioning, [int(p) for p in naming.aligned.partition], whole)
    at_least = {index: naming.plan.t + 1 for index in left if index in overloaded and _has_syndromes(naming, index)}
    rest = jaccard.rest_of(naming.aligned, np.array(left, np.int64), at_least, WORD_BITS[naming.plan.method])
    if finer and rescan:
        naming.found.partitions["refined"] = len(refined)
        kept = _within(rescan(finer), naming, refined, finer)
        rest = jaccard.together(rest, _settle(dataclasses.replace(naming, plan=finer, aligned=kept), None))
    return rest


def _decoded(naming: Naming) -> dict[int, tuple[int, ...] | None]:
    """For each unequal partition on both sides (by index) the positions that differ, None where they do not decode."""
    aligned, plan = naming.aligned, naming.plan
    chosen = np.flatnonzero(aligned.unequal & aligned.on("source") & aligned.on("target"))
    if not len(chosen):
        return {}
    width = plan.partitioning.size if plan.partitioning.strategy == "range" else None
    decoded = syndromes.decode(_syndromes(aligned, chosen), plan.t, width)
    null = aligned.partition[chosen] == NULL_PARTITION  # rows without a key have no position
    return {int(index): None if is_null else positions for index, positions, is_null in zip(chosen, decoded, null, strict=True)}


def _syndromes(aligned: Aligned, chosen: Integers) -> Integers:
    sums = []
    for side in SIDES:
        found, at = aligned.sides[side], aligned.at[side][chosen]
        sums.append(np.concatenate([found.words[at][:, :1], found.syndromes[at]], axis=1))
    return syndromes.differences(sums[0], sums[1])


def _has_syndromes(naming: Naming, index: int) -> bool:
    """Whether a partition's syndromes say that rows with a position differ."""
    aligned = naming.aligned
    return aligned.partition[index] != NULL_PARTITION and bool(_syndromes(aligned, np.array([index])).any())


def _finer(naming: Naming, overloaded: Sequence[int]) -> tuple[list[int], Plan | None]:
    """Which overloaded partitions to summarise again, and a plan that cuts them so that about one difference lies in each.

    Not those without a position, nor those that one side lacks a good part of, nor the neighbours of partitions that one side
    lacks: these hold ranges, which a list shows.
    """
    aligned, how = naming.aligned, naming.plan.partitioning
    none: tuple[list[int], Plan | None] = ([], None)
    lone = aligned.on("source") != aligned.on("target")
    chosen: list[int] = []
    for index in overloaded:
        source, target = (aligned.rows(side, index) for side in SIDES)
        edge = bool(lone[index - 1 : index + 2].any()) if index else bool(lone[:2].any())
        if (
            aligned.partition[index] != NULL_PARTITION
            and not edge
            and abs(source - target) < max(ranges.SHORTEST, (source + target) // 256)
        ):
            chosen.append(index)
    if not chosen or how.strategy == "time":
        return none
    expected = jaccard.differing(jaccard.rest_of(aligned, np.array(chosen, np.int64), {}, WORD_BITS[naming.plan.method]))
    rows = sum(aligned.rows(side, index) for index in chosen for side in SIDES)
    if expected > FINER_TIMES * naming.limits.max_differences or expected > rows / 8:
        return none
    times = _divisor(how, math.ceil(max(expected / 2 / len(chosen), 4)))
    if times is None or len(chosen) * times > FINER_LIMIT:
        return none
    why = f"about {expected:,.0f} rows of {len(chosen):,} partitions differ"
    smaller = dataclasses.replace(how, why=why, size=how.size // times, buckets=how.buckets * times)
    numbers = [int(aligned.partition[index]) for index in chosen]
    if how.strategy == "range":
        numbers = [number for first, last in ranges.runs(numbers, FINER_RANGES) for number in range(first, last + 1)]
    sides = {
        side: dataclasses.replace(
            naming.plan.sides[side],
            chunks=tuple(
                Chunk(within=within) for within in of_partitions(naming.plan, side, naming.sessions[side].dialect, numbers, FINER_RANGES)
            ),
        )
        for side in SIDES
    }
    return chosen, dataclasses.replace(naming.plan, sides=sides, partitioning=smaller)


def _divisor(how: Partitioning, wanted: int) -> int | None:
    """Into how many a partition is cut, at least ``wanted``: smaller ranges must lie whole within their parent."""
    if how.strategy != "range":
        return wanted
    return next((times for times in range(wanted, how.size // 2 + 1) if how.size % times == 0), None)


def _within(again: Aligned, naming: Naming, refined: Sequence[int], finer: Plan) -> Aligned:
    """The second scan's partitions that lie within the refined ones; it may have seen others between these."""
    coarse, fine = naming.plan.partitioning, finer.partitioning
    parents = again.partition // (coarse.size // fine.size) if coarse.strategy == "range" else again.partition % coarse.buckets
    wanted = naming.aligned.partition[list(refined)]
    kept = (again.partition != NULL_PARTITION) & np.isin(parents, wanted)
    naming.found.unsettled += len(wanted) - len(np.unique(parents[kept & ~again.equal]))  # they no longer differ
    return again.only(kept)


def _accounted(naming: Naming, decoded: Mapping[int, tuple[int, ...] | None]) -> list[int]:
    """Fetch the decoded rows of both sides; the partitions that they do not explain, and those that did not decode."""
    aligned = naming.aligned
    positions = {index: found for index, found in decoded.items() if found is not None}
    rows = _fetched(naming, positions)
    left = [index for index, found in decoded.items() if found is None]
    for index in positions:
        words = [int(word) for word in aligned.words(np.array([index]))[0]]
        if account.explains(rows[index], words, aligned.rows("target", index) - aligned.rows("source", index)):
            naming.found.partitions["accounted"] += 1
            naming.keep(_differences(naming.plan, rows[index]))
        else:
            left.append(index)
    return sorted(left)


def _differences(plan: Plan, rows: Mapping[Side, Sequence[Row]]) -> list[Difference]:
    names = [column.name for column in plan.columns]
    kinds = {column.name: column.kind for column in plan.columns}
    masked = {column.name for column in plan.columns if column.masked}
    found = account.differences(rows, names[: plan.key], names[plan.key :], masked)
    return [dataclasses.replace(one, columns=tuple(_readable(column, kinds[column.name]) for column in one.columns)) for one in found]


def _readable(column: ColumnDifference, kind: Kind) -> ColumnDifference:
    source, target = (canonical.readable(kind, text) for text in (column.source, column.target))
    return ColumnDifference(column.name, source, target)


def _fetched(naming: Naming, positions: Mapping[int, Sequence[int]]) -> dict[int, dict[Side, list[Row]]]:
    """The rows at these positions of these partitions (by index), from both sides."""
    aligned, plan = naming.aligned, naming.plan
    if plan.partitioning.strategy == "range":
        size = plan.partitioning.size
        keys = sorted(int(aligned.partition[index]) * size + x - 1 for index, found in positions.items() for x in found)
        found = naming.both(lambda side: list(naming.fetch(side).by_key(keys)))
        return _by_index(naming, positions, found)
    every = sorted({x for found in positions.values() for x in found})
    found = naming.both(lambda side: list(naming.fetch(side).by_position(every)) if every else [])
    wanted = {index: set(at) for index, at in positions.items()}
    sorted_out = _by_index(naming, positions, found)
    for index, sides in sorted_out.items():
        for side in SIDES:
            sides[side] = [row for row in sides[side] if position_of(plan, row.key) in wanted[index]]
    return sorted_out


def position_of(plan: Plan, key: account.Key) -> int:
    """The hashed position of a key, from its canonical texts."""
    digits = canonical.row_hash(canonical.row_text(key), plan.hash)
    return (canonical.word(digits, 1, 15) & P) % (P - 1) + 1


def _by_index(naming: Naming, indices: Iterable[int], rows: Mapping[Side, Iterable[Row]]) -> dict[int, dict[Side, list[Row]]]:
    """Rows sorted into the partitions (by index) that they belong to; those of others are dropped."""
    sorted_out: dict[int, dict[Side, list[Row]]] = {index: {side: [] for side in SIDES} for index in indices}
    index_of = {int(naming.aligned.partition[index]): index for index in sorted_out}
    for side in SIDES:
        for row in rows[side]:
            index = index_of.get(NULL_PARTITION if row.partition is None else row.partition)
            if index is not None:
                sorted_out[index][side].append(row)
    return sorted_out


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


def _listed(naming: Naming, left: Sequence[int]) -> tuple[list[int], list[Stretch]]:
    """Name the differences of these partitions from lists of their keys and hashes.

    The partitions that the limits leave, and the stretches of rows on one side only.
    """
    aligned, plan, found = naming.aligned, naming.plan, naming.found
    chosen = _listable(naming, left)
    if len(chosen) < len(left):
        found.why = f"{len(left) - len(chosen):,} partitions hold more rows than max_rows_listed allows to list"
    if chosen and time.monotonic() > naming.deadline:
        found.why, chosen = f"max_seconds were over before {len(chosen):,} partitions could be listed", []
    stretches: list[Stretch] = []
    if chosen:
        numbers = [int(aligned.partition[index]) for index in chosen]
        rows = naming.both(lambda side: list(naming.fetch(side).by_partition(numbers)))
        changed: list[Difference] = []
        for index, here in sorted(_by_index(naming, chosen, rows).items()):
            differences = _differences(plan, here)
            found.unsettled += not differences  # it differed in the scan and no longer does
            if plan.partitioning.strategy == "range" and aligned.partition[index] != NULL_PARTITION:
                within, differences = ranges.within(index, here, differences)
                stretches += within
            naming.keep([one for one in differences if one.kind != "changed"])
            changed += [one for one in differences if one.kind == "changed"]
        naming.keep(_with_columns(naming, changed))
        naming.keep_stretches(stretches)
    found.partitions["listed"] += len(chosen)
    return sorted(set(left) - set(chosen)), stretches


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
    seen = {tuple(one.key.values()): one for one in _differences(plan, found)}
    return [seen.get(tuple(one.key.values()), one) for one in changed]


def _concluded(naming: Naming) -> Differences:
    found = naming.found
    return Differences(
        missing=found.counts["missing"],
        extra=found.counts["extra"],
        changed=found.counts["changed"],
        exact=not found.partitions["estimated"] and not found.unsettled and not naming.aligned.skipped.any(),
        named=tuple(_in_order(naming.plan, found.named)),
        ranges=tuple(sorted(found.ranges, key=lambda one: (one.first is None, one.first or 0))),
        partitions=dict(found.partitions),
        unsettled=found.unsettled,
        why=found.why,
    )


def _in_order(plan: Plan, named: list[Difference]) -> list[Difference]:
    """Differences in the order of their keys, where these are numbers; those without a key last."""
    if plan.key > 1 or plan.columns[0].kind.name != "integer":
        return named
    return sorted(named, key=lambda one: (None in one.key.values(), one.key_number))


def estimate(plan: Plan, aligned: Aligned) -> Jaccard | None:
    """How similar the tables are by a method that names no differences: every unequal partition on both sides is estimated."""
    stretches = ranges.one_sided(aligned)
    rest = np.flatnonzero(aligned.unequal & aligned.on("source") & aligned.on("target"))
    return jaccard.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(stretch.rows for stretch in stretches),
        rest=jaccard.rest_of(aligned, rest, {}, WORD_BITS[plan.method]),
        unknown=aligned.skipped_rows,
    )
