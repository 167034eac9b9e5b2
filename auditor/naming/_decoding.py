"""Partitions that hold few differences: decoding which rows they are, and proving that these explain the partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from auditor.compare import account, syndromes
from auditor.compare.account import Row
from auditor.compare.comparator import Aligned
from auditor.model import NULL_PARTITION, SIDES, Side
from auditor.naming._work import Naming, by_index, differences, position_of
from auditor.summary import Integers


def decoded(naming: Naming) -> dict[int, tuple[int, ...] | None]:
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


def has_syndromes(naming: Naming, index: int) -> bool:
    """Whether a partition's syndromes say that rows with a position differ."""
    aligned = naming.aligned
    return aligned.partition[index] != NULL_PARTITION and bool(_syndromes(aligned, np.array([index])).any())


def accounted(naming: Naming, decoded: Mapping[int, tuple[int, ...] | None]) -> list[int]:
    """Fetch the decoded rows of both sides; the partitions that they do not explain, and those that did not decode."""
    aligned = naming.aligned
    positions = {index: found for index, found in decoded.items() if found is not None}
    rows = _fetched(naming, positions)
    left = [index for index, found in decoded.items() if found is None]
    for index in positions:
        if explained(aligned, index, rows[index]):
            naming.found.partitions["accounted"] += 1
            naming.settled([index], "accounted")
            naming.keep(differences(naming, rows[index])[0])
        else:
            left.append(index)
    return sorted(left)


def explained(aligned: Aligned, index: int, rows: Mapping[Side, Sequence[Row]]) -> bool:
    """Whether these rows account for a partition's whole difference (by index): in every word of its signature, and in the count."""
    words = [int(word) for word in aligned.words(np.array([index]))[0]]
    return account.explains(rows, words, aligned.rows("target", index) - aligned.rows("source", index))


def _fetched(naming: Naming, positions: Mapping[int, Sequence[int]]) -> dict[int, dict[Side, list[Row]]]:
    """The rows at these positions of these partitions (by index), from both sides."""
    aligned, plan = naming.aligned, naming.plan
    if plan.partitioning.strategy == "range":
        size = plan.partitioning.size
        keys = sorted(int(aligned.partition[index]) * size + x - 1 for index, found in positions.items() for x in found)
        found = naming.both(lambda side: list(naming.fetch(side).by_key(keys)))
        return by_index(naming, positions, found)
    every = sorted({x for found in positions.values() for x in found})
    found = naming.both(lambda side: list(naming.fetch(side).by_position(every)) if every else [])
    wanted = {index: set(at) for index, at in positions.items()}
    sorted_out = by_index(naming, positions, found)
    for index, sides in sorted_out.items():
        for side in SIDES:
            sides[side] = [row for row in sides[side] if position_of(plan, row.key) in wanted[index]]
    return sorted_out
