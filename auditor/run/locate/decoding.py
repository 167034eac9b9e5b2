"""What locating differences works on: one scan's unequal partitions, the reader, the comparison of rows, and what was located so far.

Partitions that hold few differences are decoded: their rows are fetched, and prove that they account for the partition.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from auditor.compare import accounting, documents, score, syndromes, tolerance
from auditor.compare.accounting import Key, Row
from auditor.compare.comparator import Aligned, select_unresolved
from auditor.compare.ranges import OneSidedRows
from auditor.compare.sampling import Sample
from auditor.compare.text_forms import MOST_CHARACTERS
from auditor.config import Limits
from auditor.connections.reader import Reader
from auditor.model import NULL_PARTITION, SIDES, Difference, Plan, RangeDifference, Side, side_of
from auditor.run.fetch import Fetcher, Place
from auditor.sql.render import WORD_BITS
from auditor.summary import key_number
from auditor.summary.arrays import Integers
from auditor.summary.key_number import POSITIONS
from dialects import Session

AT_ONCE = 8
"""Rows of a side whose documents are in memory at once; each may have many megabytes."""

WHOLE = 1 << 30
"""More characters than a document has."""


@dataclass(slots=True)
class ScatteredRows:
    """Rows of differences that lie in no range: ``rows``, and ``one_sided`` if a changed row counts on both sides."""

    rows: int = 0
    one_sided: int = 0


@dataclass(slots=True)
class Tally:
    """What was located so far, over both scans."""

    named: Sample
    """The differences that are kept with their keys."""
    ranges: list[RangeDifference] = field(default_factory=list)
    differing_rows: int = 0
    """Rows on one side only, a changed row counting on both."""
    scattered: ScatteredRows = field(default_factory=ScatteredRows)
    """Those of them that lie in no range."""
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})
    partitions: dict[str, int] = field(default_factory=lambda: {"one_sided": 0, "accounted": 0, "refined": 0, "listed": 0, "estimated": 0})
    """How many unequal partitions were settled in which way."""
    states: dict[int, str] = field(default_factory=dict)
    """How each of the first scan's unequal partitions (by id) was settled."""
    vanished: int = 0
    unaccounted: int = 0
    tolerated: int = 0
    undecided: int = 0
    by_time: list[Difference] = field(default_factory=list)
    """Differences found in partitions by time, not yet merged by key nor counted."""
    counted_twice: str = ""
    """Why rows whose time changed count as missing and as extra; empty if they do not."""
    why: str = ""
    """Why partitions are left that were only estimated."""
    doing: str = ""
    """What is fetched now, for a person."""
    fetched: dict[Side, int] = field(default_factory=dict)
    """Rows that came of it, by what is read."""
    expected: Mapping[Side, int] = field(default_factory=dict)
    """About how many rows of each side it is."""


@dataclass(frozen=True, slots=True)
class Work:
    """One scan whose unequal partitions are to be explained."""

    plan: Plan
    aligned: Aligned
    limits: Limits
    reader: Reader
    deadline: float
    """The moment, by ``time.monotonic``, after which nothing further is listed."""
    tally: Tally
    resumed: bool = False
    """Whether some chunks were read in the snapshot of an earlier attempt."""
    second_scan: bool = False

    @property
    def saw_one_snapshot(self) -> bool:
        """Whether both sides are seen as they were at the scan, so that nothing can have changed in between."""
        return self.plan.snapshot == "whole" and not self.resumed and self.reader.saw_one_snapshot

    @property
    def most_listed(self) -> int:
        """Return how many rows of both sides may be listed."""
        if self.limits.max_rows_listed is not None:
            return self.limits.max_rows_listed
        return max(100_000, sum(int(self.aligned.sides[side].rows.sum()) for side in SIDES) // 100)

    def fetcher(self, side: Side, session: Session) -> Fetcher:
        """Return what fetches rows of a side."""
        length = max(self.limits.value_length, MOST_CHARACTERS)
        return Fetcher(self.plan, side, session, length, on_rows=partial(self._report_fetched, side))

    def begin(self, doing: str, expected: Mapping[Side, int]) -> None:
        """Report what is fetched from here on, and about how many rows of each side it is."""
        self.tally.doing, self.tally.fetched, self.tally.expected = doing, {}, expected
        for side, rows in expected.items():
            if rows:
                self.reader.report(side, doing, 0, rows)

    def _report_fetched(self, side: Side, rows: int) -> None:
        tally, places = self.tally, max(1, len(self.reader.shards)) if side_of(side) == "source" else 1
        if tally.doing:
            tally.fetched[side] = fetched = tally.fetched.get(side, 0) + rows
            self.reader.report(side, tally.doing, fetched, max(fetched, tally.expected[side_of(side)] // places))

    def add(self, differences: Sequence[Difference]) -> None:
        """Count differences, and keep as many by their keys as the limits allow; those of partitions by time wait to be merged."""
        if self.plan.partitioning.strategy == "time":
            self.tally.by_time += differences
        else:
            self.count(differences)

    def count(self, differences: Sequence[Difference]) -> None:
        """Count differences, one of a key, and keep as many by their keys as the limits allow."""
        for difference in differences:
            self.tally.counts[difference.kind] += difference.row_count
            self.tally.differing_rows += sum(difference.rows.values())
            self.tally.scattered.rows += difference.row_count
            self.tally.scattered.one_sided += sum(difference.rows.values())
        self.tally.named.add(differences)

    def add_one_sided(self, one_sided: Sequence[OneSidedRows]) -> None:
        """Count neighbouring rows that are missing on one side."""
        for rows in one_sided:
            self.tally.counts[rows.kind] += rows.rows
            self.tally.differing_rows += rows.rows

    def estimate_differing(self, indices: Sequence[int]) -> float:
        """Return about how many rows of these partitions (by index, of both sides) are on one side only."""
        at = np.array(indices, np.int64)
        return score.estimate_differing(select_unresolved(self.aligned, at, {}, WORD_BITS[self.plan.method]))

    def record_state(self, indices: Iterable[int], state: str) -> None:
        """Record how partitions (by index) were settled; those of a second scan lie within partitions that are recorded already."""
        for index in () if self.second_scan else indices:
            self.tally.states.setdefault(int(self.aligned.partition[index]), state)


def place_of(plan: Plan, row: Row) -> Place | None:
    """Return the partition and the position of a row in a partition by hash or time; None for a row without either."""
    number = key_number.key_number(plan, row.key)
    return None if number is None or row.partition is None else (row.partition, key_number.position_of(number))


def group_by_partition(work: Work, indices: Iterable[int], rows: Mapping[Side, Iterable[Row]]) -> dict[int, dict[Side, list[Row]]]:
    """Return rows by the partitions (by index) that they belong to; rows of other partitions are dropped."""
    grouped: dict[int, dict[Side, list[Row]]] = {index: {side: [] for side in SIDES} for index in indices}
    index_of = {int(work.aligned.partition[index]): index for index in grouped}
    for side in SIDES:
        for row in rows[side]:
            index = index_of.get(NULL_PARTITION if row.partition is None else row.partition)
            if index is not None:
                grouped[index][side].append(row)
    return grouped


def compare_rows(work: Work, rows: Mapping[Side, Sequence[Row]]) -> tuple[list[Difference], int]:
    """Return the differences of these rows, and how many rows differ in nothing that counts, or perhaps in nothing."""
    differences, pairs = tolerance.named_differences(work.plan, _read_long_documents(work, rows), work.limits.value_length)
    work.tally.tolerated += pairs.equal
    work.tally.undecided += pairs.undecided
    return differences, pairs.equal + pairs.undecided


def _read_long_documents(work: Work, rows: Mapping[Side, Sequence[Row]]) -> Mapping[Side, Sequence[Row]]:
    """Return rows of which those that may differ in a document that was shortened say whether they do, as far as the time allows.

    Where the values of two documents are equal, the target's row has the source's text; where they are not, both have the beginning of
    theirs and its whole hash. Keys with several rows are left as they are.
    """
    if not work.plan.documents:
        return rows
    pairs = dict(_undecided(work.plan, rows))
    decided: dict[int, Row] = {}
    keys = list(pairs)
    for start in range(0, len(keys), AT_ONCE):
        if time.monotonic() > work.deadline:
            break
        some = keys[start : start + AT_ONCE]
        whole = _fetch_documents(work, some)
        by_key: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
        for side in SIDES:
            for row in whole[side]:
                by_key[row.key][side].append(row)
        for key in some:
            source, target = (by_key[key][side] for side in SIDES)
            if len(source) == len(target) == 1:
                for old, new in zip(pairs[key], _decide(work, pairs[key], source[0], target[0]), strict=True):
                    decided[id(old)] = new
    return {side: [decided.get(id(row), row) for row in rows[side]] for side in SIDES}


def _fetch_documents(work: Work, keys: Sequence[Key]) -> Mapping[Side, list[Row]]:
    """Return both sides' rows of these keys with their whole documents."""

    def read(side: Side, session: Session) -> list[Row]:
        return [row for row, _ in dataclasses.replace(work.fetcher(side, session), document_length=WHOLE).by_canonical_key(keys)]

    return work.reader.ask(read)


def _undecided(plan: Plan, rows: Mapping[Side, Sequence[Row]]) -> Iterator[tuple[Key, tuple[Row, Row]]]:
    """Yield the keys of one row a side that differ in nothing but documents of which one was shortened, with both rows."""
    by_key: dict[Key, dict[Side, list[Row]]] = defaultdict(lambda: {side: [] for side in SIDES})
    for side in SIDES:
        for row in rows[side]:
            by_key[row.key][side].append(row)
    others = [index for index, column in enumerate(plan.columns[plan.key :]) if not column.by_value and not column.tolerance]
    readable = [column.name for column in plan.columns if column.by_value and not column.masked]
    for key, of_key in by_key.items():
        if not len(of_key["source"]) == len(of_key["target"]) == 1:
            continue
        source, target = of_key["source"][0], of_key["target"][0]
        if source.digits == target.digits or any(source.texts[index] != target.texts[index] for index in others):
            continue
        equal = [tolerance.are_documents_equal(plan, name, source, target) for name in readable]
        if None in equal and False not in equal:
            yield key, (source, target)


def _decide(work: Work, shown: tuple[Row, Row], source: Row, target: Row) -> tuple[Row, Row]:
    """Return both rows as they were ``shown``, with what their whole documents say."""
    texts = [list(row.texts) for row in shown]
    for index, column in enumerate(work.plan.columns[work.plan.key :]):
        a, b = source.texts[index], target.texts[index]
        if not column.by_value or column.masked or a is None or b is None:
            continue
        equal = documents.are_equal(a, b)
        if equal:
            texts[1][index] = texts[0][index]
        elif equal is False:
            texts[0][index], texts[1][index] = (documents.marked(text, work.limits.value_length) for text in (a, b))
    return dataclasses.replace(shown[0], texts=tuple(texts[0])), dataclasses.replace(shown[1], texts=tuple(texts[1]))


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
    work.begin("reading the rows that differ", dict.fromkeys(SIDES, sum(map(len, positions.values()))))
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
