"""From unequal partitions to named differences: ranges, decoding, accounting, listing; the rest is estimated.

1. A partition that is missing entirely on one side is a range difference, counted and not enumerated.
2. The others' syndromes are decoded; the rows at the positions found are fetched from both sides. Where they explain the
   partition's whole difference, in every word and in the count, it is accounted for: no other row of it differs.
3. Partitions that hold more differences than decode, but not very many, are summarised once more, cut into smaller ones.
4. What still did not decode, or was not accounted for, is listed: key and row hash of every row of it, within the limits.
5. The rest keeps the estimate that its signature gives.

Fetched rows have to account for what the scan saw. Those of a list do not if rows changed in between; where nothing can have
changed, or the rows of a partition are fewer and its new summary is not equal either, they were not all found: the partition is
unaccounted for, and nothing is equal because of it.

In partitions by time a row whose time changed lies in one partition on the source and in another on the target: what these found is merged
by key. In every other partitioning the key decides the partition, so that all rows of a key are found together.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auditor.compare import accounting, ranges, score
from auditor.compare.comparator import Aligned, select_unresolved
from auditor.compare.ranges import OneSidedRows
from auditor.compare.sampling import Sample
from auditor.compare.score import Unresolved
from auditor.config import Limits
from auditor.connections.reader import Reader
from auditor.model import SIDES, Difference, Differences, Jaccard, Plan
from auditor.run.locate import decoding, listing, refining
from auditor.run.locate.decoding import Tally, Work, compare_rows, group_by_partition
from auditor.run.locate.live import Lost, count_moved, explain_as_of, find_lost
from auditor.run.locate.refining import clear_equal_by_now, plan_of_partitions
from auditor.run.scan import scan
from auditor.sql.render import WORD_BITS

__all__ = [
    "Located",
    "Lost",
    "clear_equal_by_now",
    "estimate_similarity",
    "find_lost",
    "locate_as_of",
    "locate_differences",
    "plan_of_partitions",
]


@dataclass(frozen=True, slots=True)
class Located:
    """The differences of a scan, how each unequal partition was settled, and what the similarity is computed from."""

    differences: Differences
    states: Mapping[int, str]
    """How each unequal partition, by id, was settled."""
    rows: int
    """Rows of both sides together."""
    unknown_rows: int
    """Those of partitions that could not be compared."""
    rest: Unresolved
    """Partitions whose differences were not named."""
    differing_rows: int
    """Rows on one side only, of named differences and ranges."""
    saw_one_snapshot: bool
    """Whether both sides were seen as they were at the scan."""

    def similarity(self, cleared: int = 0, unsettled: int = 0) -> Jaccard | None:
        """Return how similar the tables are, if ``cleared`` of the differing rows are equal after all, and ``unsettled`` may be."""
        differing = max(0, self.differing_rows - cleared - unsettled)  # of rows that were not named, the most are taken as unsettled
        undecided = 2 * self.differences.undecided  # each is a row of either side
        return score.similarity(self.rows, differing, self.rest, self.unknown_rows + unsettled + undecided)


def locate_differences(reader: Reader, plan: Plan, aligned: Aligned, limits: Limits, *, resumed: bool = False) -> Located:
    """Return which rows differ in the unequal partitions of a scan, as far as the limits allow.

    Both sides are scanned again at most twice: once by smaller partitions, for those that hold more differences than decode but few
    enough to be named, and once for partitions that turned out empty. ``resumed`` says that some chunks were read in an earlier
    attempt's snapshot. Raises errors of the tree.
    """
    tally = Tally(named=Sample(limits.max_differences, plan))
    work = Work(plan, aligned, limits, reader, time.monotonic() + limits.max_seconds, tally, resumed)
    rest = _explain(work)
    tally.partitions["estimated"] = len(rest.source)
    rows = sum(int(aligned.sides[side].rows.sum()) for side in SIDES)
    differences = _conclude(work, rest)
    return Located(differences, tally.states, rows, aligned.skipped_rows, rest, tally.differing_rows, work.saw_one_snapshot)


def locate_as_of(
    reader: Reader, plan: Plan, whole: Aligned, unequal: Aligned, limits: Limits, again: Callable[[Sequence[int]], Aligned | None]
) -> tuple[Located, int]:
    """Return which rows of a target's snapshot differ from sums of its source as of where that stands, and how many had moved on.

    ``unequal`` has the power sums of the partitions of ``whole`` that differ. ``again`` returns what differs of partitions (by id) as of a
    later position, or None if there is no looking again: for those in which a row has changed in the source since.
    """
    work = Work(plan, unequal, limits, reader, math.inf, Tally(named=Sample(limits.max_differences, plan)))
    explained, cleared, moved = explain_as_of(work), 0, 0
    rest, left = explained.rest, explained.moved
    while left and (later := again(sorted(left))) is not None:
        moved = max(moved, _count_moved_rows(left))
        work = dataclasses.replace(work, aligned=later)
        more = explain_as_of(work)
        differ = {int(number) for number in later.partition}
        cleared += sum(len(differences) for number, differences in left.items() if number not in differ)
        rest, left = score.merge(rest, more.rest), more.moved
    moved = max(moved, _count_moved_rows(left))
    count_moved(work, left)
    differences = dataclasses.replace(_conclude(work, rest), cleared=cleared)
    rows = sum(int(whole.sides[side].rows.sum()) for side in SIDES)
    return Located(differences, work.tally.states, rows, whole.skipped_rows, rest, work.tally.differing_rows, True), moved


def _count_moved_rows(left: Mapping[int, Sequence[Difference]]) -> int:
    return sum(bool(difference.looks) for differences in left.values() for difference in differences)


def _explain(work: Work) -> Unresolved:
    """Explain every unequal partition as far as the limits allow, and return the rest."""
    how, tally = work.plan.partitioning, work.tally
    one_sided, filled = refining.still_one_sided(work, ranges.one_sided_partitions(work.aligned, how))
    work.record_state([rows.first_index for rows in one_sided if rows.kind == "missing"], "source_only")
    work.record_state([rows.first_index for rows in one_sided if rows.kind == "extra"], "target_only")
    tally.partitions["one_sided"] += len(one_sided)

    decoded = decoding.decode_positions(work)
    overloaded = {index for index, positions in decoded.items() if positions is None}
    refined, finer = ([], None) if work.second_scan else refining.plan_second_scan(work, sorted(overloaded))
    left = decoding.account_for(work, {index: positions for index, positions in decoded.items() if index not in set(refined)})
    listed = listing.list_partitions(work, [*left, *filled], int(work.estimate_differing(refined)) // 2)
    tally.unaccounted += len(set(listed.left) & set(filled))  # of these the scan saw one side alone
    left = sorted(set(listed.left) - set(filled))
    of_times: Mapping[int, list[Difference]] = {}
    if how.strategy == "time":
        one_sided, of_times = count_by_key(work, one_sided)
    else:
        one_sided = listing.name_one_sided(work, one_sided, whole=not work.second_scan)
    listing.count_one_sided(work, [*one_sided, *listed.one_sided], of_times, whole=not work.second_scan)

    at_least = {index: work.plan.t + 1 for index in left if index in overloaded and decoding.has_syndromes(work, index)}
    work.record_state(left, "estimated")
    work.record_state(refined, "refined")
    rest = select_unresolved(work.aligned, np.array(left, np.int64), at_least, WORD_BITS[work.plan.method])
    rest = listing.without_parts(rest, left, listed.parts)
    if finer:
        tally.partitions["refined"] = len(refined)
        again = refining.within_refined(scan(work.reader, finer), work, refined, finer)
        rest = score.merge(rest, _explain(dataclasses.replace(work, plan=finer, aligned=again, second_scan=True)))
    return rest


def _conclude(work: Work, rest: Unresolved) -> Differences:
    tally = work.tally
    scattered = tally.scattered
    why = "; ".join(filter(None, (tally.why, tally.counted_twice)))
    return Differences(
        missing=tally.counts["missing"],
        extra=tally.counts["extra"],
        changed=tally.counts["changed"],
        exact=not (
            tally.counted_twice
            or tally.partitions["estimated"]
            or tally.vanished
            or tally.unaccounted
            or tally.undecided
            or work.aligned.skipped.any()
        ),
        named=tuple(listing.with_columns(work, tally.named.chosen())),
        ranges=tuple(sorted(tally.ranges, key=lambda span: (span.first is None, span.first or 0))),
        partitions=dict(tally.partitions),
        vanished=tally.vanished,
        unaccounted=tally.unaccounted,
        tolerated=tally.tolerated,
        undecided=tally.undecided,
        why=why,
        estimated=score.estimate_rows(rest, scattered.rows / scattered.one_sided if scattered.one_sided else None),
    )


def estimate_similarity(plan: Plan, aligned: Aligned) -> Jaccard | None:
    """Return the similarity by a method that names no differences: every unequal partition on both sides is estimated."""
    one_sided = ranges.one_sided_partitions(aligned, plan.partitioning)
    rest = np.flatnonzero(aligned.unequal & aligned.on_both)
    return score.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(rows.rows for rows in one_sided),
        rest=select_unresolved(aligned, rest, {}, WORD_BITS[plan.method]),
        unknown=aligned.skipped_rows,
    )


def count_by_key(work: Work, one_sided: Sequence[OneSidedRows]) -> tuple[list[OneSidedRows], dict[int, list[Difference]]]:
    """Count the differences found in partitions by time, each key once; return what is left of partitions that are missing on one side.

    The rows of these are listed too, within the limits: those whose key the other side holds at another time are no part of a range.
    The others are returned as well, by the partition's index.
    """
    listed = _list_rows(work, one_sided)
    times = Counter(_key(difference) for part in (work.tally.by_time, *listed.values()) for difference in part)
    apart, work.tally.by_time = work.tally.by_time, []
    merged = _merge_by_key(work, [difference for part in (apart, *listed.values()) for difference in part if times[_key(difference)] > 1])
    work.count([*(difference for difference in apart if times[_key(difference)] == 1), *merged])
    alone = {index: [difference for difference in part if times[_key(difference)] == 1] for index, part in listed.items()}
    counts = {index: sum(difference.row_count for difference in part) for index, part in alone.items()}
    rest = [dataclasses.replace(rows, rows=counts.get(rows.first_index, rows.rows)) for rows in one_sided]
    return [rows for rows in rest if rows.rows], alone


def _key(difference: Difference) -> accounting.Key:
    return tuple(difference.key.values())


def _list_rows(work: Work, one_sided: Sequence[OneSidedRows]) -> dict[int, list[Difference]]:
    """Return the rows of partitions that are missing on one side, by the partition's index; nothing if the limits forbid it."""
    if not one_sided:
        return {}
    if sum(rows.rows for rows in one_sided) > work.most_listed:
        work.tally.counted_twice = (
            f"{len(one_sided):,} partitions that are missing on one side hold more rows than max_rows_listed allows to list, so that a row"
            " of them whose time changed counts as missing and as extra"
        )
        return {}
    numbers = [int(work.aligned.partition[rows.first_index]) for rows in one_sided]
    fetched = work.reader.ask(lambda side, session: list(work.fetcher(side, session).by_partition(numbers, texts=work.plan.is_tolerant)))
    grouped = group_by_partition(work, [rows.first_index for rows in one_sided], fetched)
    return {index: compare_rows(work, here)[0] for index, here in grouped.items()}


def _merge_by_key(work: Work, several: Sequence[Difference]) -> list[Difference]:
    """Return one difference for each key of these; with tolerances, with the columns that differ."""
    merged = accounting.merge(several)
    if not work.plan.is_tolerant:
        return merged
    keys = [_key(difference) for difference in merged]
    rows = work.reader.ask(lambda side, session: [row for row, _ in work.fetcher(side, session).by_canonical_key(keys, "")])
    return compare_rows(work, rows)[0]  # of two times within the tolerance, each may lie in a partition of its own
