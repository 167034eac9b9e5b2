"""From unequal partitions to named differences: ranges, decoding, accounting, listing; what is left is estimated.

1. A partition that one side lacks altogether is a range difference, counted and not enumerated.
2. The others' syndromes are decoded; the rows at the positions found are fetched from both sides. Where they explain the
   partition's whole difference, in every word and in the count, it is accounted for: no other row of it differs.
3. What did not decode, or was not accounted for, is listed: key and row hash of every row of it, within the limits.
4. The rest keeps the estimate that its signature gives.
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
from auditor.model import NULL_PARTITION, SIDES, ColumnDifference, Difference, Differences, Jaccard, Plan, Side
from auditor.render import WORD_BITS
from auditor.rows import Fetcher
from auditor.summary import Integers
from dialects import Kind, Session

Both = Callable[[Callable[[Side], Any]], dict[Side, Any]]
"""Does a piece of work for both sides at once."""

RESCAN_LIMIT = 1 << 20
"""The most partitions of a second scan."""


@dataclass(slots=True)
class Naming:
    """What is known so far of the unequal partitions of one run."""

    plan: Plan
    aligned: Aligned
    limits: Limits
    sessions: Mapping[Side, Session]
    both: Both
    deadline: float
    named: list[Difference] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    differing: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})
    partitions: dict[str, int] = field(default_factory=lambda: {"one_sided": 0, "accounted": 0, "listed": 0, "estimated": 0})
    unsettled: int = 0
    why: str = ""

    def fetch(self, side: Side) -> Fetcher:
        """What fetches rows of a side."""
        return Fetcher(self.plan, side, self.sessions[side], self.limits.value_length)

    def keep(self, found: Sequence[Difference]) -> None:
        """Count differences, and keep as many by their keys as the limits allow."""
        for difference in found:
            self.counts[difference.kind] += 1
            self.differing += sum(difference.rows.values())
        self.named += found[: max(0, self.limits.max_differences - len(self.named))]

    def keep_stretches(self, found: Sequence[Stretch]) -> None:
        """Count stretches of rows on one side only."""
        for stretch in found:
            self.counts[stretch.kind] += stretch.rows
            self.differing += stretch.rows
        self.stretches += found


def name_differences(
    plan: Plan,
    aligned: Aligned,
    limits: Limits,
    sessions: Mapping[Side, Session],
    both: Both,
    rescan: Callable[[Plan], Aligned] | None,
) -> tuple[Differences, Jaccard | None]:
    """Name what differs within the limits, and say how similar the tables are.

    ``rescan`` summarises both sides again by another plan; it is used at most once, where most partitions hold more differences
    than decode but few enough to be named from smaller partitions. Raises errors of the tree.
    """
    naming = Naming(plan, aligned, limits, sessions, both, time.monotonic() + limits.max_seconds)
    stretches = ranges.one_sided(aligned)
    naming.keep_stretches(stretches)
    naming.partitions["one_sided"] = len(stretches)
    decoded = _decoded(naming)
    overloaded = {index for index, positions in decoded.items() if positions is None}
    if rescan and (finer := _finer(naming, decoded, overloaded)):
        return name_differences(finer, rescan(finer), limits, sessions, both, None)
    left = _accounted(naming, decoded)
    rest = _listed(naming, left)
    at_least = {index: plan.t + 1 if index in overloaded and _has_syndromes(naming, index) else 0 for index in rest}
    return _concluded(naming, rest), _similar(naming, rest, at_least)


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


def _finer(naming: Naming, decoded: Mapping[int, object], overloaded: set[int]) -> Plan | None:
    """A plan of smaller partitions, about one difference in each, where most of the unequal ones are overloaded; else None."""
    if len(overloaded) * 2 <= len(decoded) or _listable(naming, sorted(overloaded)) == len(overloaded):
        return None
    expected = jaccard.differing(_rest(naming, sorted(overloaded), {}))
    rows = sum(naming.aligned.rows(side, index) for index in overloaded for side in SIDES)
    if expected > naming.limits.max_differences or expected > rows / 10:
        return None
    how = naming.plan.partitioning
    times = math.ceil(expected / len(overloaded))
    if len(naming.aligned.partition) * times > RESCAN_LIMIT or how.strategy == "time":
        return None
    why = f"about {expected:,.0f} rows differ, too many for partitions {how}"
    if how.strategy == "range":
        if how.size // times < 2:
            return None
        return dataclasses.replace(naming.plan, partitioning=dataclasses.replace(how, size=how.size // times, why=why))
    return dataclasses.replace(naming.plan, partitioning=dataclasses.replace(how, buckets=how.buckets * times, why=why))


def _accounted(naming: Naming, decoded: Mapping[int, tuple[int, ...] | None]) -> list[int]:
    """Fetch the decoded rows of both sides; the partitions that they do not explain, and those that did not decode."""
    aligned = naming.aligned
    positions = {index: found for index, found in decoded.items() if found is not None}
    rows = _fetched(naming, positions)
    left = [index for index, found in decoded.items() if found is None]
    for index in positions:
        words = [int(word) for word in aligned.words(np.array([index]))[0]]
        if account.explains(rows[index], words, aligned.rows("target", index) - aligned.rows("source", index)):
            naming.partitions["accounted"] += 1
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
    return (canonical.word(digits, 1, 15) & syndromes.P) % (syndromes.P - 1) + 1


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


def _listable(naming: Naming, left: Sequence[int]) -> int:
    """How many of these partitions, the smallest first, the limits allow to list."""
    aligned = naming.aligned
    budget = naming.limits.max_rows_listed
    if budget is None:
        budget = max(100_000, sum(int(aligned.sides[side].rows.sum()) for side in SIDES) // 100)
    sizes = np.sort([sum(aligned.rows(side, index) for side in SIDES) for index in left])
    return int(np.searchsorted(np.cumsum(sizes), budget, side="right"))


def _listed(naming: Naming, left: Sequence[int]) -> list[int]:
    """Name the differences of these partitions from lists of their keys and hashes; the partitions that the limits leave."""
    aligned, plan = naming.aligned, naming.plan
    smallest_first = sorted(left, key=lambda index: sum(aligned.rows(side, index) for side in SIDES))
    chosen = smallest_first[: _listable(naming, left)]
    if len(chosen) < len(left):
        naming.why = f"{len(left) - len(chosen):,} partitions hold more rows than max_rows_listed allows to list"
    if chosen and time.monotonic() > naming.deadline:
        naming.why, chosen = f"max_seconds were over before {len(chosen):,} partitions could be listed", []
    if chosen:
        numbers = [int(aligned.partition[index]) for index in chosen]
        found = naming.both(lambda side: list(naming.fetch(side).by_partition(numbers)))
        changed: list[Difference] = []
        for index, rows in sorted(_by_index(naming, chosen, found).items()):
            differences = _differences(plan, rows)
            naming.unsettled += not differences  # it differed in the scan and no longer does
            if plan.partitioning.strategy == "range" and aligned.partition[index] != NULL_PARTITION:
                stretches, differences = ranges.within(index, rows, differences)
                naming.keep_stretches(stretches)
            naming.keep([one for one in differences if one.kind != "changed"])
            changed += [one for one in differences if one.kind == "changed"]
        naming.keep(_with_columns(naming, changed))
    naming.partitions["listed"] = len(chosen)
    return sorted(set(left) - set(chosen))


def _with_columns(naming: Naming, changed: list[Difference]) -> list[Difference]:
    """Changed rows with the columns that differ, as many as the limits allow to keep; the others as they are."""
    plan = naming.plan
    room = max(0, naming.limits.max_differences - len(naming.named))
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


def _concluded(naming: Naming, rest: Sequence[int]) -> Differences:
    naming.partitions["estimated"] = len(rest)
    return Differences(
        missing=naming.counts["missing"],
        extra=naming.counts["extra"],
        changed=naming.counts["changed"],
        exact=not rest and not naming.aligned.skipped.any(),
        named=tuple(naming.named),
        ranges=tuple(ranges.joined(naming.stretches, naming.plan.partitioning, [int(p) for p in naming.aligned.partition])),
        partitions=dict(naming.partitions),
        unsettled=naming.unsettled,
        why=naming.why,
    )


def _similar(naming: Naming, rest: Sequence[int], at_least: Mapping[int, int]) -> Jaccard | None:
    return jaccard.similarity(
        rows=sum(int(naming.aligned.sides[side].rows.sum()) for side in SIDES),
        differing=naming.differing,
        rest=_rest(naming, rest, at_least),
        unknown=naming.aligned.skipped_rows,
    )


def _rest(naming: Naming, indices: Sequence[int], at_least: Mapping[int, int]) -> Rest:
    return jaccard.rest_of(naming.aligned, np.array(indices, np.int64), at_least, WORD_BITS[naming.plan.method])


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
