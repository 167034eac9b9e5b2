"""List partitions that nothing else explains: key and row hash of every row, or of a part of them, within the limits.

Of partitions that are too large to be listed whole a part is: the rows of one bucket of the keys' hashes, on both sides. As a signature is
a sum, that of the other rows is the partition's less that of the listed ones: they stay one smaller partition to be estimated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from auditor.compare import accounting, ranges, sampling, score
from auditor.compare.accounting import Row
from auditor.compare.ranges import OneSidedRows
from auditor.compare.score import Unresolved
from auditor.model import NULL_PARTITION, SIDES, Difference, Side, side_of
from auditor.run.locate.decoding import Work, accounts_for, compare_rows, group_by_partition
from auditor.run.locate.refining import restrict_plan
from auditor.run.scan import scan
from dialects import Session

LISTED_ROWS = 50_000
"""About how many rows are listed at once with all their columns."""

DOCUMENT_ROWS = 5_000
"""About how many where a column holds documents, which are long."""

MAX_WITH_COLUMNS = 1000
"""Changed rows of listed partitions whose columns are fetched."""

MAX_PARTS = 4
"""The most partitions of which a part is listed."""

MAX_BUCKETS = 1 << 20
"""The most buckets of which one is listed: they are remainders of a number of 31 bits."""


@dataclass(slots=True)
class Listed:
    """What was listed, and what was not."""

    left: list[int]
    """The partitions (by index) that the limits leave."""
    one_sided: list[OneSidedRows] = field(default_factory=list)
    """Neighbouring rows that are missing on one side."""
    parts: dict[int, dict[Side, list[Row]]] = field(default_factory=dict)
    """The rows of those partitions of which a part was listed."""


def list_partitions(work: Work, left: Sequence[int], expected: int = 0) -> Listed:
    """Add the differences of these partitions (by index) from lists of their keys and row hashes, as far as the limits allow.

    ``expected`` is about how many differences a second scan will name.
    """
    tally = work.tally
    chosen, others, budget = _within_budget(work, left, expected)
    if others:
        tally.why = _why_not_listed(work, left, len(others))
    one_sided: list[OneSidedRows] = []
    listed: list[int] = []
    if chosen:
        rows = {side: sum(int(work.aligned.rows[side][index]) for index in chosen) for side in SIDES}
        work.begin("listing the rows of partitions that differ", rows)
    for batch in _batches(work, chosen):
        if time.monotonic() > work.deadline:
            tally.why = f"max_seconds were over before {len(chosen) - len(listed):,} partitions could be listed"
            break
        one_sided += _list_batch(work, batch)
        listed += batch
    work.record_state(listed, "listed")
    tally.partitions["listed"] += len(listed)
    parts = list_parts(work, others, budget) if budget else {}
    return Listed(sorted(set(left) - set(listed)), one_sided, parts)


def _within_budget(work: Work, left: Sequence[int], expected: int) -> tuple[list[int], list[int], int]:
    """Return the partitions to list, the most informative first: all of them, or as many as the limits allow; then the others.

    Of too many, those are chosen that are expected to hold as many differences as are kept with their keys. The last value is how many
    rows may be listed of the others in part: those that are left of the limits if it is more than half.
    """
    sizes, budget = _rows_of(work, left), work.most_listed
    ordered = _most_telling_first(work, left, sizes, budget)
    if sum(sizes.values()) <= budget:
        return ordered, [], 0
    most = work.limits.max_differences
    room = max(most - expected, most // 4)
    enough = 2 * room * sum(sizes.values()) / max(work.estimate_differing(left), 1.0)  # a changed row differs on both sides
    most_rows = rest = min(budget, math.ceil(enough))
    chosen: list[int] = []
    for index in ordered:
        if sizes[index] <= rest:
            rest -= sizes[index]
            chosen.append(index)
    others = [index for index in ordered if index not in set(chosen)]
    return chosen, others, rest if 2 * rest > most_rows else 0


def _rows_of(work: Work, indices: Sequence[int]) -> dict[int, int]:
    """Return how many rows of both sides together these partitions hold."""
    return {index: sum(int(work.aligned.rows[side][index]) for side in SIDES) for index in indices}


def _most_telling_first(work: Work, left: Sequence[int], sizes: Mapping[int, int], budget: int) -> list[int]:
    """Return the partitions in an order that is spread over the table, and fair between those where either side has more rows, or none.

    Partitions that would take much of the budget alone come last.
    """
    rows = work.aligned.rows
    groups: dict[int, list[int]] = {}
    for index in left:
        more = int(rows["target"][index]) - int(rows["source"][index])
        groups.setdefault((more > 0) - (more < 0), []).append(index)
    turned = [
        [*group[place * len(group) // 3 :], *group[: place * len(group) // 3]] for place, (_, group) in enumerate(sorted(groups.items()))
    ]
    ordered = sampling.alternate([sampling.spread(group) for group in turned])  # not all of them begin where the table does
    return sorted(ordered, key=lambda index: sizes[index] > budget // 4)


def _why_not_listed(work: Work, left: Sequence[int], count: int) -> str:
    """Return why ``count`` of these partitions were not listed, and what would show more of them."""
    plan = work.plan
    more = ["a slice of the table (--keys or --times)" if plan.has_integer_key else "a slice of the table (--times)"]
    if plan.partitioning.strategy != "time":
        more.append("partitions by time (partition: {strategy: time, column: ...})")
    listable = f"of the {sum(_rows_of(work, left).values()):,} rows to list, max_rows_listed allows {work.most_listed:,}"
    return (
        f"{count:,} partitions were not listed: {listable}, and no more are listed than max_differences needs; larger limits,"
        f" {' or '.join(more)} would name more"
    )


def _batches(work: Work, chosen: Sequence[int]) -> list[list[int]]:
    """Return the partitions to list in batches that are fetched at once: with tolerances, every row comes with all its columns.

    Where partitions are no key ranges, each batch takes a scan, so there are few.
    """
    batches: list[list[int]] = []
    rows = [sum(int(work.aligned.rows[side][index]) for side in SIDES) for index in chosen]
    most = DOCUMENT_ROWS if work.plan.documents else LISTED_ROWS
    if work.plan.partitioning.strategy != "range":
        most = max(most, sum(rows) // 4)
    room = 0
    for index, size in zip(chosen, rows, strict=True):
        room -= size
        if not batches or (room < 0 and work.plan.is_tolerant):
            batches.append([])
            room = most - size
        batches[-1].append(index)
    return batches


def _list_batch(work: Work, batch: Sequence[int]) -> list[OneSidedRows]:
    """Add the differences of these partitions; return neighbouring rows that are missing on one side."""
    plan, tolerant = work.plan, work.plan.is_tolerant
    numbers = [int(work.aligned.partition[index]) for index in batch]
    expected = {side: sum(int(work.aligned.rows[side][index]) for index in batch) for side in SIDES}
    rows = work.reader.ask(
        lambda side, session: list(work.fetcher(side, session).by_partition(numbers, texts=tolerant, expected=expected[side_of(side)]))
    )
    grouped = group_by_partition(work, batch, rows)
    one_sided: list[OneSidedRows] = []
    equal: set[int] = set()
    for index, here in sorted(grouped.items()):
        differences, tolerated = compare_rows(work, here)
        if not differences and not tolerated:
            equal.add(index)  # it differed in the scan and no longer does
        if plan.partitioning.strategy == "range" and work.aligned.partition[index] != NULL_PARTITION:
            within, differences = ranges.split_ranges(index, here, differences)
            one_sided += within
        work.add(differences)
    unaccounted = _unaccounted(work, grouped, equal)
    work.tally.unaccounted += len(unaccounted)
    work.tally.vanished += len(equal - unaccounted)
    return one_sided


def _unaccounted(work: Work, rows: Mapping[int, Mapping[Side, Sequence[Row]]], equal: Collection[int]) -> set[int]:
    """Return the listed partitions (by index) whose rows are not the ones that the scan summarised, though nothing says they changed.

    In one snapshot, the rows have to add up to what differed. Otherwise a partition of which fewer rows came, all of them ``equal``,
    is summarised again, which finds rows that the list did not.
    """
    aligned = work.aligned
    if work.saw_one_snapshot:
        return {index for index, here in rows.items() if not accounts_for(aligned, index, here)}
    fewer = sorted(index for index in equal if any(len(rows[index][side]) < int(aligned.rows[side][index]) for side in SIDES))
    if not fewer:
        return set()
    now = scan(work.reader, restrict_plan(work, [int(aligned.partition[index]) for index in fewer]))
    differing = set(now.partition[~now.equal].tolist())
    return {index for index in fewer if int(aligned.partition[index]) in differing}


def name_one_sided(work: Work, one_sided: Sequence[OneSidedRows], *, whole: bool) -> list[OneSidedRows]:
    """Count by their keys the rows of partitions without a range of keys that is missing on one side, within the limits; return the others.

    The number of a bucket says nothing of its rows. Where one side of the ``whole`` table has no row at all, that is a range of all rows.
    """
    is_all = whole and len(one_sided) == len(work.aligned.partition) and len({rows.kind for rows in one_sided}) == 1
    if is_all and sum(rows.rows for rows in one_sided) >= ranges.MIN_RANGE_KEYS:
        return list(one_sided)
    room = min(work.limits.max_differences - sum(work.tally.counts.values()), work.most_listed)
    chosen: list[int] = []
    for rows in sorted((rows for rows in one_sided if rows.first is None), key=lambda rows: rows.rows):
        room -= rows.rows
        if room < 0 or time.monotonic() > work.deadline:
            break
        chosen.append(rows.first_index)
    named = _name_partitions(work, chosen)
    return [rows for rows in one_sided if rows.first_index not in named]


def count_one_sided(
    work: Work, one_sided: Sequence[OneSidedRows], listed: Mapping[int, Sequence[Difference]] = MappingProxyType({}), *, whole: bool
) -> None:
    """Count neighbouring rows that are missing on one side: as ranges, and by their keys where these are one row, or few.

    ``listed`` are the rows of partitions (by index) that are fetched already; ``whole`` says that the partitions are all of the table.
    """
    partitions = [int(partition) for partition in work.aligned.partition]
    spans = ranges.join_ranges(one_sided, partitions, whole)
    single = [span.first_index for span in spans if span.rows == 1 and span.first is not None]
    named = _name_partitions(work, single)
    for span in spans:
        within = range(span.first_index, span.last_index + 1)
        if span.rows == 1 and span.first_index in named:
            continue
        if span.rows < ranges.MIN_RANGE_KEYS and listed.keys() >= set(within):
            work.count([difference for index in within for difference in listed[index]])
            continue
        work.add_one_sided([span])
        work.tally.ranges.append(ranges.describe(span, work.plan.partitioning, partitions, whole))


def _name_partitions(work: Work, indices: Sequence[int]) -> set[int]:
    """Add the rows of partitions (by index) that are missing on one side by their keys; return the partitions whose rows account for them.

    One that changed meanwhile is left as the scan counted it.
    """
    if not indices:
        return set()
    numbers = [int(work.aligned.partition[index]) for index in indices]
    rows = work.reader.ask(lambda side, session: list(work.fetcher(side, session).by_partition(numbers, texts=work.plan.is_tolerant)))
    named: set[int] = set()
    for index, here in group_by_partition(work, indices, rows).items():
        if accounts_for(work.aligned, index, here) and not (here["source"] and here["target"]):
            work.count(compare_rows(work, here)[0])
            named.add(index)
    return named


def with_columns(work: Work, named: Sequence[Difference]) -> list[Difference]:
    """Return named differences, those changed rows of lists that are to be shown with the columns that differ."""
    plan = work.plan
    without_columns = [difference for difference in named if difference.kind == "changed" and not difference.columns + difference.looks]
    wanted = sampling.examples(without_columns, MAX_WITH_COLUMNS)
    if not wanted or plan.is_tolerant:  # with tolerances, lists hold the columns
        return list(named)
    chosen = dict.fromkeys(tuple(difference.key.values()) for difference in wanted)
    by_number = plan.partitioning.strategy == "range"
    numbers = [difference.key_number for difference in wanted if by_number and None not in difference.key.values()]
    others = [key for key in chosen if not by_number or None in key]

    work.begin("reading the columns that differ", dict.fromkeys(SIDES, len(chosen)))

    def fetch(side: Side, session: Session) -> list[Row]:
        fetcher = work.fetcher(side, session)
        return [*fetcher.by_key(numbers), *(row for row, _ in fetcher.by_canonical_key(others))]

    rows = work.reader.ask(fetch)
    by_key = {tuple(difference.key.values()): difference for difference in compare_rows(work, rows)[0] if difference.kind == "changed"}
    return [by_key.get(key, difference) if (key := tuple(difference.key.values())) in chosen else difference for difference in named]


def list_parts(work: Work, ordered: Sequence[int], budget: int) -> dict[int, dict[Side, list[Row]]]:
    """Add the differences of a part of some of these partitions (by index), of about ``budget`` rows; return the listed rows."""
    keyed = [index for index in ordered if work.aligned.partition[index] != NULL_PARTITION]
    chosen = keyed[: min(MAX_PARTS, budget)]
    listed: dict[int, dict[Side, list[Row]]] = {}
    for index in chosen:
        if time.monotonic() > work.deadline:
            break
        rows = sum(int(work.aligned.rows[side][index]) for side in SIDES)
        buckets = max(2, math.ceil(rows * len(chosen) / budget))
        if buckets > MAX_BUCKETS // max(1, work.plan.partitioning.buckets):
            continue
        listed[index] = _rows_of_part(work, int(work.aligned.partition[index]), buckets)
        work.add(compare_rows(work, listed[index])[0])
    return listed


def _rows_of_part(work: Work, partition: int, buckets: int) -> dict[Side, list[Row]]:
    rows = work.reader.ask(lambda side, session: list(work.fetcher(side, session).of_part(partition, buckets)))
    return {side: [row for row in rows[side] if row.partition == partition] for side in SIDES}


def without_parts(rest: Unresolved, left: Sequence[int], listed: dict[int, dict[Side, list[Row]]]) -> Unresolved:
    """Return the unresolved partitions, ``left`` by index, without the rows that were listed of some."""
    if not listed:
        return rest
    words, source, target = rest.words.copy(), rest.source.copy(), rest.target.copy()
    for place, index in enumerate(left):
        for side, sign, count in (("source", -1, source), ("target", 1, target)):
            for row in listed.get(index, {}).get(side, ()):  # type: ignore[call-overload]
                words[place] -= sign * np.array(accounting.hash_words(row.digits, words.shape[1]), np.int64)
                count[place] = max(0, count[place] - 1)
    return score.Unresolved(words, source, target, rest.at_least, rest.minhash, rest.k, rest.bits)
