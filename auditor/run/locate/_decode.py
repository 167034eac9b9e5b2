"""Decode partitions that hold few differences, fetch the rows, and prove that they account for the partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from auditor.compare import accounting, syndromes
from auditor.compare.accounting import Row
from auditor.compare.comparator import Aligned
from auditor.model import NULL_PARTITION, SIDES, Side
from auditor.run.locate._work import Work, compare_rows, group_by_partition, place_of
from auditor.summary.arrays import Integers
from auditor.summary.key_number import POSITIONS


def decode_positions(work: Work) -> dict[int, tuple[int, ...] | None]:
    """Return for each unequal partition on both sides (by index) the positions that differ, None if they do not decode."""
    aligned, plan = work.aligned, work.plan
    chosen = np.flatnonzero(aligned.unequal & aligned.on_both)
    if not len(chosen):
        return {}
    width = plan.partitioning.size if plan.partitioning.strategy == "range" else POSITIONS
    decoded = syndromes.decode(syndromes_of(aligned, chosen), plan.t, width)
    null = aligned.partition[chosen] == NULL_PARTITION  # rows without a key have no position
    return {int(index): None if is_null else positions for index, positions, is_null in zip(chosen, decoded, null, strict=True)}


def syndromes_of(aligned: Aligned, chosen: Integers) -> Integers:
    """Return the power sums of partitions (by index), target minus source, (partitions, 2t) in 0 .. p - 1; both sides have them."""
    sums = []
    for side in SIDES:
        summaries, at = aligned.sides[side], aligned.row_index[side][chosen]
        sums.append(np.concatenate([summaries.words[at][:, :1], summaries.syndromes[at]], axis=1))
    return syndromes.differences(sums[0], sums[1])


def has_syndromes(work: Work, index: int) -> bool:
    """Whether a partition's syndromes say that rows with a position differ."""
    aligned = work.aligned
    return aligned.partition[index] != NULL_PARTITION and bool(syndromes_of(aligned, np.array([index])).any())


def account_for(work: Work, decoded: Mapping[int, tuple[int, ...] | None]) -> list[int]:
    """Fetch the decoded rows of both sides and add their differences; return the partitions (by index) that are left.

    These are the ones that did not decode, and those whose rows do not account for the whole difference.
    """
    positions = {index: places for index, places in decoded.items() if places is not None}
    rows = fetch_positions(work, positions)
    left = [index for index, places in decoded.items() if places is None]
    for index in positions:
        if accounts_for(work.aligned, index, rows[index]):
            work.tally.partitions["accounted"] += 1
            work.record_state([index], "accounted")
            work.add(compare_rows(work, rows[index])[0])
        else:
            left.append(index)
    return sorted(left)


def accounts_for(aligned: Aligned, index: int, rows: Mapping[Side, Sequence[Row]]) -> bool:
    """Whether these rows explain a partition's whole difference (by index), in every word of its signature and in the row count."""
    words = [int(word) for word in aligned.word_differences(np.array([index]))[0]]
    return accounting.accounts_for(rows, words, int(aligned.rows["target"][index]) - int(aligned.rows["source"][index]))


def fetch_positions(work: Work, positions: Mapping[int, Sequence[int]]) -> dict[int, dict[Side, list[Row]]]:
    """Return both sides' rows at these positions of these partitions (by index)."""
    aligned, plan = work.aligned, work.plan
    if plan.partitioning.strategy == "range":
        size = plan.partitioning.size
        keys = sorted(int(aligned.partition[index]) * size + x - 1 for index, places in positions.items() for x in places)
        rows = work.reader.ask(lambda side, session: list(work.fetcher(side, session).by_key(keys)))
        return group_by_partition(work, positions, rows)
    every = sorted({(int(aligned.partition[index]), x) for index, places in positions.items() for x in places})
    rows = work.reader.ask(lambda side, session: list(work.fetcher(side, session).by_place(every)) if every else [])
    wanted = set(every)
    return group_by_partition(work, positions, {side: [row for row in rows[side] if place_of(plan, row) in wanted] for side in SIDES})
