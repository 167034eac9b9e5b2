"""Merge by key what partitions by time found: a row whose time changed lies in one partition on the source, in another on the target.

In every other partitioning the key decides the partition, so that all rows of a key are found together.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from auditor.compare import accounting
from auditor.compare.ranges import OneSidedRows
from auditor.model import Difference
from auditor.run.locate._rows import compare_rows
from auditor.run.locate._work import Work, group_by_partition


def count_by_key(work: Work, one_sided: Sequence[OneSidedRows]) -> tuple[list[OneSidedRows], dict[int, list[Difference]]]:
    """Count the differences found in partitions by time, each key once; return what is left of partitions that are missing on one side.

    The rows of these are listed too, within the limits: those whose key the other side holds at another time are no part of a range.
    The others are returned as well, by the partition's index.
    """
    listed = _list_rows(work, one_sided)
    times = Counter(_key(difference) for part in (work.tally.by_time, *listed.values()) for difference in part)
    apart, work.tally.by_time = work.tally.by_time, []
    merged = _merge(work, [difference for part in (apart, *listed.values()) for difference in part if times[_key(difference)] > 1])
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


def _merge(work: Work, several: Sequence[Difference]) -> list[Difference]:
    """Return one difference for each key of these; with tolerances, with the columns that differ."""
    merged = accounting.merge(several)
    if not work.plan.is_tolerant:
        return merged
    keys = [_key(difference) for difference in merged]
    rows = work.reader.ask(lambda side, session: [row for row, _ in work.fetcher(side, session).by_canonical_key(keys, "")])
    return compare_rows(work, rows)[0]  # of two times within the tolerance, each may lie in a partition of its own
