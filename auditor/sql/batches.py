"""Cut long lists of values, so that the server accepts every statement that holds one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dialects import Dialect

T = TypeVar("T")

LIST_BYTES = 1 << 20
"""Bytes of a list in one statement, even where the server accepts more. Each further statement may be one more scan of the table, and
each has to be parsed, so lists are neither short nor endless."""


def cut_into_batches(values: Iterable[T], size: Callable[[T], int], dialect: Dialect, most: int | None = None) -> Iterator[list[T]]:
    """Yield the values in lists of at most ``most``, each with room for itself and the rest of a statement; at least one in each.

    ``size`` returns how many bytes a value takes in a list. A statement holds it twice where it counts its rows by a SELECT of its own.
    """
    room = min(LIST_BYTES, dialect.MAX_STATEMENT_BYTES // (4 if dialect.CUTS_STORED_TEXTS else 2))
    batch: list[T] = []
    used = 0
    for value in values:
        if batch and (used + size(value) > room or len(batch) == most):
            yield batch
            batch, used = [], 0
        batch.append(value)
        used += size(value)
    if batch:
        yield batch


def number_size(number: int) -> int:
    """Return how many bytes a number takes in a list, with the comma and the blank."""
    return len(str(number)) + 2
