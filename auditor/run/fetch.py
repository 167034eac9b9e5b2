"""Fetch rows of one side: by key through its index, by hashed position or by partition in one scan."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from auditor import canonical
from auditor.compare import documents
from auditor.compare.accounting import Key, Row
from auditor.model import NULL_PARTITION, Chunk, ColumnPlan, Partitioning, Plan, RangeDifference, Side, is_shard
from auditor.sql import key_number, render, row_text
from auditor.sql.relation import relation
from auditor.sql.render import cut_into_batches, number_size
from auditor.summary import arrays
from auditor.summary.key_number import POSITIONS
from dialects import Dialect, Session
from dialects.kinds import UTF8_BYTES

T = TypeVar("T")

KEYS_PER_STATEMENT = 1000
"""Keys that one statement asks for."""

RANGES_PER_STATEMENT = 100
"""Key ranges that one statement asks for."""

LITERAL_MARKS = 20
"""Bytes that a condition on a key column has besides the column and the value, at most."""

EQUAL_TO_LITERAL = frozenset({"integer", "text", "char", "uuid", "date"})
"""Kinds whose columns can be compared with their canonical text as a literal, so that an index serves."""

POSITION_SIZE = 7
"""Bytes of a position in a list, at most."""

COARSE = 1 << 40
"""Keys of the partitions in which a range is summed: so many that there are few."""

Place = tuple[int, int]
"""A partition by hash or time, and a position in it."""

Sums = tuple[int, ...]
"""Rows, and the sums of the words of their hashes."""

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Age:
    """How old a row is."""

    is_young: bool = False
    """Whether it is younger than the watermark."""
    written: str | None = None
    """Canonical text of when it was last written; None where no column says it."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches rows of one side by a plan; longer values than ``value_length`` characters are shortened."""

    plan: Plan
    side: Side
    session: Session
    value_length: int
    document_length: int = documents.INLINE
    """Characters of a JSON document that is compared by its value, beyond which it is shortened, too."""
    on_rows: Callable[[int], None] = lambda _: None
    """Called with how many rows came, as they come."""

    def by_key(self, keys: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of these integer keys with the texts of all columns, through the key's index."""
        key = self.plan.columns[0].expression[self.side]
        for some in _batched(list(keys), KEYS_PER_STATEMENT):
            yield from self.rows_where(f"{key} IN ({', '.join(str(k) for k in some)})", texts=True, by_key=True)

    def by_canonical_key(self, keys: Sequence[Key], settled: str = "", written: str = "") -> Iterator[tuple[Row, Age]]:
        """Yield the rows of these keys (tuples of canonical texts) as they are now, with their ages.

        ``settled`` is the SQL condition that a row is not young, ``written`` the SQL of when it was written. An index serves those key
        columns that can be compared with literals; without any, it takes one scan.
        """
        possible = [key for key in keys if self.can_hold(key)]
        more = ([f"CASE WHEN {settled} THEN '0' ELSE '1' END"] if settled else []) + ([written] if written else [])
        literal = {key for key in possible if all(map(_is_literal, self.plan.key_columns, key))}
        # in statements of their own: a few of them would make every statement a scan
        others = [key for key in possible if key not in literal]
        for some in (*self._batches_of_keys([key for key in possible if key in literal]), *self._batches_of_keys(others)):
            wanted = set(some)  # an index may serve only a part of the key and find rows of other statements' keys
            for row in self.rows_where(self.keys_condition(some), texts=True, more=more, by_key=True):
                if row.key in wanted:
                    texts, ages = row.texts[: len(row.texts) - len(more)], row.texts[len(row.texts) - len(more) :]
                    age = Age(is_young=bool(settled) and ages[0] == "1", written=ages[-1] if written else None)
                    yield Row(row.partition, row.digits, row.key, texts), age

    def sum_range(self, span: RangeDifference) -> Sums:
        """Return how many rows a range has now, and the sums of the two words of their hashes."""
        how = self.plan.partitioning
        coarse = dataclasses.replace(how, size=COARSE if how.strategy == "range" else 0, unit="month")
        plan = dataclasses.replace(self.plan, method="signature", k=0, t=0, bits=60, partitioning=coarse)
        statement = render.summary(plan, self.side, self.session.dialect, Chunk(within=self.range_condition(span)))
        sums = arrays.read(self.session.summarise(statement), render.result_columns(plan))
        return (int(sums.rows.sum()), *(int(word) for word in sums.words.sum(axis=0)))

    def of_range(self, span: RangeDifference) -> Iterator[Row]:
        """Yield the rows of a range as they are now; with texts only where tolerances need them."""
        yield from self.rows_where(self.range_condition(span), texts=self.plan.is_tolerant, expected=span.rows)

    def by_place(self, places: Sequence[Place]) -> Iterator[Row]:
        """Yield the rows at these positions of partitions by hash or time, with the texts of all columns.

        It takes one scan for as many places as a statement may hold.
        """
        dialect = self.session.dialect
        # With its sign, because the partitions of times before 1970 are negative, and MySQL's bits are a number without one.
        position = dialect.numbers.as_bigint(key_number.position(key_number.key_number(self.plan, self.side, dialect), dialect))
        partition = key_number.partition(self.plan, self.side, dialect)
        for some in cut_into_batches(places, lambda place: number_size(place[0] * POSITIONS) + POSITION_SIZE, dialect):
            positions = ", ".join(str(x) for x in sorted({x for _, x in some}))
            numbers = ", ".join(str(number * POSITIONS + x) for number, x in some)
            # Few rows are at these positions of any partition, so that partitions are seldom computed.
            yield from self.rows_where(f"{position} IN ({positions}) AND {partition} * {POSITIONS} + {position} IN ({numbers})", texts=True)

    def all_rows(self) -> Iterator[Row]:
        """Yield all rows that meet the plan's conditions, whatever their partition, in one scan."""
        anywhere = dataclasses.replace(self.plan, partitioning=Partitioning(strategy="hash", buckets=1))
        expected = self.plan.sides[self.side].estimate or 0
        yield from dataclasses.replace(self, plan=anywhere).rows_where("", texts=False, expected=expected)

    def by_partition(self, partitions: Sequence[int], texts: bool = False, expected: int = 0) -> Iterator[Row]:
        """Yield the rows of these partitions, about ``expected``: key ranges through the key's index, others in one scan."""
        numbers = sorted(p for p in partitions if p != NULL_PARTITION)
        if len(numbers) < len(partitions):
            yield from self.rows_where(self._without_partition(), texts)
        if numbers:
            for where in render.partition_conditions(self.plan, self.side, self.session.dialect, numbers, RANGES_PER_STATEMENT):
                share = min(len(numbers), RANGES_PER_STATEMENT) / len(numbers) if self.plan.partitioning.strategy == "range" else 1
                by_key = self.plan.partitioning.strategy != "time"
                yield from self.rows_where(where, texts, expected=round(expected * share), by_key=by_key)

    def unhashed(self, partitions: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of these partitions that the engine cannot hash; a text is ``1`` for each column whose text it cannot build."""
        dialect = self.session.dialect
        flags = [f"CASE WHEN {text} IS NULL THEN '1' ELSE '0' END" for text in row_text.column_texts(self.plan, self.side, dialect)]
        numbers = sorted(p for p in partitions if p != NULL_PARTITION)
        conditions = list(render.partition_conditions(self.plan, self.side, dialect, numbers, RANGES_PER_STATEMENT)) if numbers else []
        conditions += [self._without_partition()] if len(numbers) < len(partitions) else []
        for where in conditions:
            unhashed = f"{row_text.row_text(self.plan, self.side, dialect)} IS NULL"
            yield from self.rows_where(f"({where}) AND {unhashed}", texts=False, more=flags)

    def of_part(self, partition: int, buckets: int) -> Iterator[Row]:
        """Yield the rows of a partition whose key lies in the first of ``buckets`` buckets; with texts only where tolerances need them."""
        how, dialect = self.plan.partitioning, self.session.dialect
        (within,) = render.partition_conditions(self.plan, self.side, dialect, [partition], 1)
        # Buckets within a bucket are finer ones of which each lies whole in one of the coarser.
        finer, number = (how.buckets * buckets, partition) if how.strategy == "hash" else (buckets, 0)
        bucket = key_number.bucket(key_number.key_number(self.plan, self.side, dialect), finer, dialect)
        yield from self.rows_where(f"({within}) AND {bucket} = {number}", texts=self.plan.is_tolerant)

    def _without_partition(self) -> str:
        """Return the condition of rows that lie in no partition.

        It tests the partition, not the column: a time that is no date (MySQL's 0000-00-00, PostgreSQL's infinity) has none either. A
        key range is NULL where its key is, which an index finds.
        """
        if self.plan.partitioning.strategy == "range":
            return f"{self.plan.columns[0].expression[self.side]} IS NULL"
        return f"{key_number.partition(self.plan, self.side, self.session.dialect)} IS NULL"

    def _batches_of_keys(self, keys: Sequence[Key]) -> Iterator[list[Key]]:
        columns = sum(len(column.expression[self.side].encode()) + LITERAL_MARKS for column in self.plan.key_columns)

        def size(key: Key) -> int:
            return columns + sum(2 * len((text or "").encode()) for text in key)  # at most every character is escaped

        return cut_into_batches(keys, size, self.session.dialect, KEYS_PER_STATEMENT)

    def keys_condition(self, keys: Collection[Key]) -> str:
        """Return a condition that holds for the rows of these keys, and perhaps for others."""
        columns = self.plan.key_columns
        served = [
            index
            for index, column in enumerate(columns)
            if self._equals_literal(column) and all(_is_literal(column, key[index]) for key in keys)
        ]
        if not served:
            dialect = self.session.dialect
            conditions = [dialect.text.is_one_of(row_text.key_text(self.plan, self.side, dialect), [_key_text(key) for key in keys])]
            if any(None in key for key in keys):
                conditions.append("(" + " OR ".join(f"{column.expression[self.side]} IS NULL" for column in columns) + ")")
            return " OR ".join(conditions)
        if len(columns) == 1 and all(key[0] is not None for key in keys):
            return self._is_one_of(columns[0], [str(key[0]) for key in keys])
        return " OR ".join(f"({' AND '.join(self._equal(columns[index], key[index]) for index in served)})" for key in keys)

    @property
    def finds_keys_by_index(self) -> bool:
        """Whether a column of the key can be compared with literals, so that an index may serve."""
        return any(self._equals_literal(column) for column in self.plan.key_columns)

    def can_hold(self, key: Key) -> bool:
        """Whether this side can hold a key at all: an engine may refuse the other side's text even as a literal."""
        if "NUL in text" in self.session.dialect.types.UNSUPPORTED_VALUES and any("\0" in (text or "") for text in key):
            return False
        return all(text is None or self._can_have(column, text) for column, text in zip(self.plan.key_columns, key, strict=True))

    def _can_have(self, column: ColumnPlan, text: str) -> bool:
        """Whether a column of this side can have that canonical text; true for columns that are not compared with literals."""
        if not self._equals_literal(column):
            return True
        if column.kind.name == "integer":
            least = 0 if column.native[self.side].unsigned else -(2**63)
            return INTEGER.fullmatch(text) is not None and least <= int(text) < least + 2**64
        return column.kind.name != "uuid" or UUID.fullmatch(text) is not None

    def _equals_literal(self, column: ColumnPlan) -> bool:
        plain = not (column.trim or column.case or column.null_as is not None)
        return plain and column.kind.name in EQUAL_TO_LITERAL and column.native[self.side].name == column.kind.name

    def _equal(self, column: ColumnPlan, text: str | None) -> str:
        return f"{column.expression[self.side]} IS NULL" if text is None else self._is_one_of(column, [text])

    def _is_one_of(self, column: ColumnPlan, texts: Sequence[str]) -> str:
        dialect, expression = self.session.dialect, column.expression[self.side]
        computed = expression.startswith("(")  # by the audit; a column's name is quoted
        if column.kind.name in ("text", "char"):
            return dialect.text.is_one_of(expression, texts, "" if computed else column.types[self.side])
        literals = texts if column.kind.name == "integer" else map(dialect.names.string_literal, texts)
        return f"{expression} IN ({', '.join(literals)})"

    def range_condition(self, span: RangeDifference) -> str:
        """Return the condition of a range's rows."""
        if span.first is not None and span.last is not None:
            key = self.plan.columns[0].expression[self.side]
            return f"{key} >= {span.first} AND {key} <= {span.last}"
        first, last = span.ids
        if first is None or last is None:
            return self._without_partition()
        how = dataclasses.replace(self.plan.partitioning, buckets=span.buckets)  # those of a second scan are smaller
        id_ = key_number.partition(dataclasses.replace(self.plan, partitioning=how), self.side, self.session.dialect)
        return f"{id_} >= {first} AND {id_} <= {last}"

    def rows_where(self, where: str, texts: bool, more: Sequence[str] = (), expected: int = 0, *, by_key: bool = False) -> Iterator[Row]:
        """Yield the rows that fulfil a condition, with the texts of ``more`` behind those of their columns; about ``expected`` rows.

        With ``by_key`` the key alone decides whether a row does.
        """
        dialect, key = self.session.dialect, self.plan.key
        shard = self.plan.sides[self.side].label if is_shard(self.side) else ""
        columns = [row_text.text(column, self.side, dialect) for column in self.plan.key_columns]
        columns += [self._text(column, dialect) for column in self.plan.columns[key:]] if texts else []
        columns += more
        sql = render.rows(self.plan, self.side, dialect, where, columns, by_key=by_key)
        if dialect.CUTS_STORED_TEXTS:
            here = self.plan.sides[self.side]
            condition = " AND ".join(f"({part})" for part in (*here.conditions, where) if part) or "1 = 1"
            batches = self.session.stream_counted(sql, render.count(dialect, relation(here, dialect), condition))
        else:
            batches = self.session.stream_whole(sql, expected)
        for batch in batches:
            self.on_rows(len(batch[0]))
            for partition, digits, *fields in zip(*batch, strict=True):
                number = None if partition is None else int(partition)
                yield Row(number, str(digits), tuple(fields[:key]), tuple(fields[key:]), shard)

    def _text(self, column: ColumnPlan, dialect: Dialect) -> str:
        length = max(self.value_length, self.document_length) if column.by_value else self.value_length
        if column.by_value and dialect.hashes.MAX_TEXT_BYTES is not None:
            length = min(length, dialect.hashes.MAX_TEXT_BYTES // UTF8_BYTES)  # what the engine builds whatever its characters are
        return row_text.shortened_text(column.unrounded(self.side), self.side, dialect, length)


def _is_literal(column: ColumnPlan, text: str | None) -> bool:
    """Whether every engine reads a canonical text as the same literal.

    Years before 1 and after 9999 are spelled differently by each engine; what is no day, as MySQL's 0000-00-00, most refuse.
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


def _key_text(key: Key) -> str:
    """Return the text of a key without NULLs, as its SQL text has it."""
    return canonical.row_text(tuple("" if text is None else text for text in key))


def _batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
