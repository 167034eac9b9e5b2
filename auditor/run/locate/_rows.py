"""Compare fetched rows, and read JSON documents that are too long to come with them where only their values show whether rows differ."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from auditor.compare import documents, tolerance
from auditor.compare.accounting import Key, Row
from auditor.model import SIDES, Difference, Plan, Side
from auditor.run.locate._work import Work
from dialects import Session

AT_ONCE = 8
"""Rows of a side whose documents are in memory at once; each may have many megabytes."""

WHOLE = 1 << 30
"""More characters than a document has."""


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
        whole = _fetch(work, some)
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


def _fetch(work: Work, keys: Sequence[Key]) -> Mapping[Side, list[Row]]:
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
