"""Fetching rows of both sides: by key through its index, by hashed position or by partition in one scan."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from auditor import canonical, render
from auditor.compare.account import Key, Row
from auditor.model import NULL_PARTITION, ColumnPlan, Plan, RangeDifference, Side
from dialects import Dialect, Session

T = TypeVar("T")

KEYS_A_STATEMENT = 1000
"""Keys that one statement asks for."""

RANGES_A_STATEMENT = 100
"""Key ranges that one statement asks for."""

SAME_AS_ITS_TEXT = frozenset({"integer", "text", "char", "uuid", "date"})
"""Kinds of which a column equals the literal of its canonical text, so that an index finds it."""

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Young = bool
"""Whether a row is younger than the watermark."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """What is asked of one side: the plan, its session, and how long a value may be."""

    plan: Plan
    side: Side
    session: Session
    length: int

    def by_key(self, keys: Sequence[int]) -> Iterator[Row]:
        """The rows of these integer keys with the texts of all columns, in few statements that the key's index serves."""
        key = self.plan.columns[0].expression[self.side]
        for some in _batched(list(keys), KEYS_A_STATEMENT):
            yield from self._rows(f"{key} IN ({', '.join(str(k) for k in some)})", texts=True)

    def again(self, keys: Sequence[Key], settled: str) -> Iterator[tuple[Row, Young]]:
        """The rows of these keys (canonical texts) as they are now, and whether ``settled`` does not hold of them.

        Served by an index as far as the key's columns equal literals; one scan where none does.
        """
        held = [key for key in keys if self._can_hold(key)]
        young = [f"CASE WHEN {settled} THEN '0' ELSE '1' END"] if settled else []
        literal = {key for key in held if all(map(_is_literal, self.plan.key_columns, key))}
        odd = [key for key in held if key not in literal]  # apart, for a few of them would make every statement a scan
        for some in (*_batched([key for key in held if key in literal], KEYS_A_STATEMENT), *_batched(odd, KEYS_A_STATEMENT)):
            wanted = set(some)  # an index may serve a part of the key alone, and find rows of other statements' keys too
            for row in self._rows(self._of_keys(some), texts=True, more=young):
                if row.key in wanted:
                    flag = row.texts[-1:] == ("1",) if settled else False
                    texts = row.texts[:-1] if settled else row.texts
                    yield Row(row.partition, row.digits, row.key, texts), flag

    def counted(self, span: RangeDifference, settled: str) -> tuple[int, int]:
        """The rows of a range as they are now, and how many of them are younger than ``settled`` allows."""
        dialect = self.session.dialect
        where = " AND ".join(f"({one})" for one in (*self.plan.sides[self.side].conditions, self._of_range(span)))
        rows = int(self.session.query(render.count(dialect, self.plan.sides[self.side].table, where))[0][0])
        if not rows or not settled:
            return rows, 0
        old = int(self.session.query(render.count(dialect, self.plan.sides[self.side].table, f"{where} AND {settled}"))[0][0])
        return rows, rows - old

    def summarised(self, spans: Sequence[RangeDifference]) -> int:
        """How many of the rows that the plan summarises lie in these ranges, asked by the conditions that look at them again."""
        rows = 0
        for some in _batched(spans, RANGES_A_STATEMENT):
            which = " OR ".join(f"({self._of_range(span)})" for span in some)
            where = " AND ".join(f"({one})" for one in (*self.plan.sides[self.side].conditions, which))
            rows += int(self.session.query(render.count(self.session.dialect, self.plan.sides[self.side].table, where))[0][0])
        return rows

    def within(self, span: RangeDifference) -> Iterator[Row]:
        """The rows of a range as they are now; with texts only where tolerances need them."""
        yield from self._rows(self._of_range(span), texts=self.plan.is_tolerant)

    def by_position(self, positions: Sequence[int]) -> Iterator[Row]:
        """The rows at these hashed positions (of any partition) with the texts of all columns, in one scan."""
        where = render.position(self.plan, self.side, self.session.dialect)
        yield from self._rows(f"{where} IN ({', '.join(str(p) for p in positions)})", texts=True)

    def by_partition(self, partitions: Sequence[int], texts: bool = False) -> Iterator[Row]:
        """The rows of these partitions: of key ranges through the key's index, of anything else in one scan."""
        numbers = sorted(p for p in partitions if p != NULL_PARTITION)
        if len(numbers) < len(partitions):
            yield from self._rows(self._null(), texts)
        if numbers:
            for where in render.of_partitions(self.plan, self.side, self.session.dialect, numbers, RANGES_A_STATEMENT):
                yield from self._rows(where, texts)

    def _null(self) -> str:
        """The condition of rows that lie in no partition.

        The partition itself is asked, not the column: a time that is no date (MySQL's 0000-00-00, PostgreSQL's infinity) is in none
        either. A key range is NULL where its key is, which an index finds.
        """
        if self.plan.partitioning.strategy == "range":
            return f"{self.plan.columns[0].expression[self.side]} IS NULL"
        return f"{render.partition(self.plan, self.side, self.session.dialect)} IS NULL"

    def _of_keys(self, keys: Collection[Key]) -> str:
        """A condition that holds for the rows of these keys, and perhaps for others."""
        columns = self.plan.key_columns
        served = [
            index
            for index, column in enumerate(columns)
            if self._equals_its_text(column) and all(_is_literal(column, key[index]) for key in keys)
        ]
        if not served:
            dialect = self.session.dialect
            found = [f"{render.key_text(self.plan, self.side, dialect)} IN ({', '.join(dialect.string(_written(key)) for key in keys)})"]
            without = " OR ".join(f"{column.expression[self.side]} IS NULL" for column in columns)
            found += [f"({without})"] if any(None in key for key in keys) else []
            return " OR ".join(found)
        if len(columns) == 1 and all(key[0] is not None for key in keys):
            return f"{columns[0].expression[self.side]} IN ({', '.join(self._literal(columns[0], str(key[0])) for key in keys)})"
        return " OR ".join(f"({' AND '.join(self._equal(columns[index], key[index]) for index in served)})" for key in keys)

    def _can_hold(self, key: Key) -> bool:
        """Whether this side can hold a key at all: what the other one's texts say, it may refuse to read even as a literal."""
        if "NUL in text" in self.session.dialect.GAPS and any("\0" in (text or "") for text in key):
            return False
        return all(text is None or self._can_be(column, text) for column, text in zip(self.plan.key_columns, key, strict=True))

    def _can_be(self, column: ColumnPlan, text: str) -> bool:
        """Whether a column of this side can have that canonical text; where it does not equal its texts, it is not asked by literals."""
        if not self._equals_its_text(column):
            return True
        if column.kind.name == "integer":
            least = 0 if column.native[self.side].unsigned else -(2**63)
            return INTEGER.fullmatch(text) is not None and least <= int(text) < least + 2**64
        return column.kind.name != "uuid" or UUID.fullmatch(text) is not None

    def _equals_its_text(self, column: ColumnPlan) -> bool:
        plain = not (column.trim or column.case or column.null_as is not None)
        return plain and column.kind.name in SAME_AS_ITS_TEXT and column.native[self.side].name == column.kind.name

    def _equal(self, column: ColumnPlan, text: str | None) -> str:
        expression = column.expression[self.side]
        return f"{expression} IS NULL" if text is None else f"{expression} = {self._literal(column, text)}"

    def _literal(self, column: ColumnPlan, text: str) -> str:
        return text if column.kind.name == "integer" else self.session.dialect.string(text)

    def _of_range(self, span: RangeDifference) -> str:
        """A condition that holds for the rows of a range."""
        if span.first is not None and span.last is not None:
            key = self.plan.columns[0].expression[self.side]
            return f"{key} >= {span.first} AND {key} <= {span.last}"
        first, last = span.ids
        if first is None or last is None:
            return self._null()
        how = dataclasses.replace(self.plan.partitioning, buckets=span.buckets)  # those of a second scan are smaller
        id_ = render.partition(dataclasses.replace(self.plan, partitioning=how), self.side, self.session.dialect)
        return f"{id_} >= {first} AND {id_} <= {last}"

    def _rows(self, where: str, texts: bool, more: Sequence[str] = ()) -> Iterator[Row]:
        dialect, key = self.session.dialect, self.plan.key
        columns = [render.text(column, self.side, dialect) for column in self.plan.key_columns]
        columns += [self._text(column, dialect) for column in self.plan.columns[key:]] if texts else []
        columns += more
        for batch in self.session.stream(render.rows(self.plan, self.side, dialect, where, columns)):
            for partition, digits, *found in zip(*batch, strict=True):
                number = None if partition is None or partition != partition else int(partition)  # noqa: PLR0124 - Arrow's NULL
                yield Row(number, str(digits), tuple(found[:key]), tuple(found[key:]))

    def _text(self, column: ColumnPlan, dialect: Dialect) -> str:
        return render.shortened(column.finely(self.side), self.side, dialect, self.length)


def _is_literal(column: ColumnPlan, text: str | None) -> bool:
    """Whether every engine reads a canonical text as the literal it stands for.

    Years before Christ, and beyond 9999, each writes in its own way; what is no day, as MySQL's 0000-00-00, most refuse.
    """
    if text is None or column.kind.name != "date":
        return True
    if not DATE.fullmatch(text):
        return False
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _written(key: Key) -> str:
    """The text of a key without NULLs, as the key's SQL text has it."""
    return canonical.row_text(tuple("" if text is None else text for text in key))


def _batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
