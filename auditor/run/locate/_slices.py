"""List a part of partitions that are too large to be listed whole, so that some of their differences are named.

A part is the rows of one bucket of the keys' hashes, of which both sides are listed. As a signature is a sum, that of the other rows is
the partition's less that of the listed ones: they stay one smaller partition to be estimated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from auditor.compare import accounting, jaccard
from auditor.compare.accounting import Row
from auditor.compare.jaccard import Unresolved
from auditor.model import NULL_PARTITION, SIDES, Side
from auditor.run.locate._rows import compare_rows
from auditor.run.locate._work import Work
from auditor.summary.lazy_numpy import np

MAX_PARTITIONS = 4
"""The most partitions of which a part is listed."""

MAX_BUCKETS = 1 << 20
"""The most buckets of which one is listed: they are remainders of a number of 31 bits."""


def list_parts(work: Work, ordered: Sequence[int], budget: int) -> dict[int, dict[Side, list[Row]]]:
    """Add the differences of a part of some of these partitions (by index), of about ``budget`` rows; return the listed rows."""
    keyed = [index for index in ordered if work.aligned.partition[index] != NULL_PARTITION]
    chosen = keyed[: min(MAX_PARTITIONS, budget)]
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
    return jaccard.Unresolved(words, source, target, rest.at_least, rest.minhash, rest.k, rest.bits)
