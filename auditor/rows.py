"""Fetching rows of both sides: by key through its index, by hashed position or by partition in one scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from auditor import render
from auditor.compare.account import Row
from auditor.model import NULL_PARTITION, ColumnPlan, Plan, Side
from dialects import Dialect, Session

T = TypeVar("T")

KEYS_A_STATEMENT = 1000
"""Keys that one statement asks for."""

RANGES_A_STATEMENT = 100
"""Key ranges that one statement asks for."""


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
        how = self.plan.partitioning
        columns = self.plan.key_columns if how.strategy == "hash" else (self.plan.columns[how.column],)
        return " OR ".join(f"{column.expression[self.side]} IS NULL" for column in columns)

    def _rows(self, where: str, texts: bool) -> Iterator[Row]:
        dialect, key = self.session.dialect, self.plan.key
        columns = [render.text(column, self.side, dialect) for column in self.plan.key_columns]
        columns += [self._text(column, dialect) for column in self.plan.columns[key:]] if texts else []
        for batch in self.session.stream(render.rows(self.plan, self.side, dialect, where, columns)):
            for partition, digits, *found in zip(*batch, strict=True):
                number = None if partition is None or partition != partition else int(partition)  # noqa: PLR0124 - Arrow's NULL
                yield Row(number, str(digits), tuple(found[:key]), tuple(found[key:]))

    def _text(self, column: ColumnPlan, dialect: Dialect) -> str:
        return render.shortened(column, self.side, dialect, self.length)


def _batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
