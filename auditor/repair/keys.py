"""The keys of a run's confirmed differences, ranges included, in a temporary file: there may be millions of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from auditor import canonical
from auditor.compare.accounting import Key
from auditor.connections.reader import Reader
from auditor.model import DifferenceKind, Plan, RangeDifference, Side
from auditor.run.fetch import Fetcher
from auditor.store import Store, runs
from auditor.store.runs import StoredDifference
from dialects import Session

PAGE = 1000
"""Stored differences that are read at once."""

KEY_LENGTH = 1 << 30
"""Characters beyond which a fetched text would be shortened; keys never are."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a run's differences are patched."""

    only: DifferenceKind | None = None
    first: int | None = None
    """Least key, inclusive, of a key of one integer column; None for no bound."""
    last: int | None = None
    """Greatest key, inclusive."""
    columns: tuple[str, ...] = ()
    """Columns to which changed rows are limited; other rows are not patched then."""
    limit: int | None = None
    """Differences that are patched at most, the first ones."""
    delete_extra: bool = False
    column: str = ""
    """A column: only rows that the run found to differ in it, whole; empty for all rows."""
    key: str = ""
    """A text: only rows that have it as their key, or in one column of it, as reports write it; empty for all rows."""

    def takes(self, kind: str) -> bool:
        """Return whether differences of this kind are patched."""
        if kind == "extra" and not self.delete_extra:
            return False
        if self.column and kind != "changed":
            return False
        return kind == self.only if self.only else (kind == "changed" or not self.columns)

    def holds(self, key: Key) -> bool:
        """Return whether a key lies between the bounds."""
        if self.first is None and self.last is None:
            return True
        number = int(key[0] or 0)
        return (self.first is None or number >= self.first) and (self.last is None or number <= self.last)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Keys in a temporary file, one on each line."""

    file: IO[str]

    def batches(self, size: int) -> Iterator[list[Key]]:
        """Yield the keys, so many at once, from the first one."""
        self.file.seek(0)
        batch: list[Key] = []
        for line in self.file:
            batch.append(tuple(json.loads(line)))
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch


@contextmanager
def collect_keys(
    store: Store, run: str, plan: Plan, reader: Reader, selection: Selection, spans: list[tuple[int, int]] | None = None
) -> Iterator[KeyFile]:
    """Yield the keys of a run's confirmed differences that are selected; ranges are read from the side that has their rows.

    ``plan`` is the run's own. With ``spans``, ranges of keys are added there as they are, and not read. Raises errors of the tree.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        left = selection.limit
        for difference in _selected(store, run, selection):
            if left == 0:
                break
            if difference.range and spans is not None and (span := _clip(difference.range, selection)):
                spans.append(span)
                written = 0
            elif difference.range:
                written = _write_range(file, difference.range, plan, reader, selection, left)
            else:
                written = _write(file, [_key(difference)], selection, left)
            left = None if left is None else left - written
        yield KeyFile(file)


def _selected(store: Store, run: str, selection: Selection) -> Iterator[StoredDifference]:
    after = 0
    while page := runs.list_differences(store, run, state="confirmed", after=after, limit=PAGE, column=selection.column, key=selection.key):
        after = page[-1][0]
        yield from (difference for _, difference in page if _is_selected(difference, selection))


def _is_selected(difference: StoredDifference, selection: Selection) -> bool:
    """Return whether a difference is patched; of a range some rows may be."""
    if not selection.takes(difference.kind):
        return False
    if selection.column and all(column["name"] != selection.column for column in difference.columns):
        return False
    return not selection.key or difference.range is not None or selection.key in (difference.key or {}).values()


def _clip(stored: Mapping[str, Any], selection: Selection) -> tuple[int, int] | None:
    """Return the selected keys of a range; None if it is none of keys, or nothing of it is selected."""
    first, last = stored["first"], stored["last"]
    if first is None or last is None:
        return None
    first = first if selection.first is None else max(first, selection.first)
    last = last if selection.last is None else min(last, selection.last)
    if selection.key:  # a range that is clipped is one of keys of one integer column
        number = int(selection.key) if selection.key.removeprefix("-").isdecimal() else None
        first, last = (1, 0) if number is None else (max(first, number), min(last, number))
    return (first, last) if first <= last else None


def _key(difference: StoredDifference) -> Key:
    return tuple((difference.key or {}).values())


def _write(file: IO[str], keys: Iterable[Key], selection: Selection, most: int | None) -> int:
    """Write the selected of these keys, at most so many, and return how many."""
    written = 0
    for key in keys:
        if written == most:
            break
        if selection.holds(key):
            file.write(json.dumps(key) + "\n")
            written += 1
    return written


def _write_range(file: IO[str], stored: Mapping[str, Any], plan: Plan, reader: Reader, selection: Selection, most: int | None) -> int:
    """Write the keys of a range as the side that has its rows holds them now."""
    span = RangeDifference(**{**stored, "ids": tuple(stored["ids"])})
    side: Side = "source" if span.kind == "missing" else "target"
    start = file.tell()
    kinds = [column.kind for column in plan.key_columns]

    def has_key(key: Key) -> bool:
        return not selection.key or selection.key in map(canonical.readable, kinds, key)

    def read(_: Side, session: Session) -> int:
        file.seek(start)
        file.truncate()  # an attempt that failed may have written some
        keys = (row.key for row in Fetcher(plan, side, session, KEY_LENGTH).of_range(span))
        return _write(file, filter(has_key, keys), selection, most)

    return reader.ask_side(side, read, fresh=True)
