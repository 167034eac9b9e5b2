"""Name rows that an engine could not hash, so that their partitions were not compared: side, key, column, and what to set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from auditor import canonical
from auditor.compare.accounting import MASK, Row
from auditor.compare.comparator import Aligned
from auditor.connections.reader import Reader
from auditor.model import Plan, Side, side_of
from auditor.run.fetch import Fetcher
from auditor.summary.lazy_numpy import np
from dialects import Session

MAX_PARTITIONS = 3
"""Partitions in which such rows are looked for."""

MAX_ROWS = 3
"""Rows of a side that are named."""


def describe_unhashed(reader: Reader, plan: Plan, aligned: Aligned) -> list[str]:
    """Return a clause for each of the first rows that could not be hashed; nothing if all rows can be by now, or sums alone could not."""
    notes: list[str] = []
    for side in plan.read_sides:
        summaries = aligned.sides[side_of(side)]
        numbers = [int(number) for number in summaries.partition[np.flatnonzero(summaries.rows != summaries.hashed)][:MAX_PARTITIONS]]
        if numbers:
            notes += reader.ask_side(side, partial(_describe, reader, plan, numbers))
    return notes


def _describe(reader: Reader, plan: Plan, numbers: Sequence[int], side: Side, session: Session) -> list[str]:
    rows = list(Fetcher(plan, side, session, 0).unhashed(numbers))[:MAX_ROWS]
    return [f"{reader.name(side)}, key {_key(plan, row)}: {_cause(plan, row, session.dialect.LONGEST_TEXT_SETTING)}" for row in rows]


def _key(plan: Plan, row: Row) -> str:
    texts = (
        MASK if column.masked else canonical.readable(column.kind, text) for column, text in zip(plan.key_columns, row.key, strict=True)
    )
    return ", ".join("NULL" if text is None else text for text in texts)


def _cause(plan: Plan, row: Row, setting: str) -> str:
    """Return which columns' texts an engine could not build, and what to do about it."""
    names = [column.name for column, flag in zip(plan.columns, row.texts, strict=True) if flag == "1"]
    what = f"the text of {' and '.join(names)} could not be built" if names else "its columns together are too long a text"
    others = [name for name in names if name not in {column.name for column in plan.key_columns}]
    leave_out = f"write columns: {{exclude: [{', '.join(others) or '...'}]}}"
    return f"{what}; {f'raise {setting} on its server, or ' if setting else ''}{leave_out}"
