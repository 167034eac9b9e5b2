"""What runs left out, one run after another, so that nothing stays unseen for ever without a word.

Rows are followed by key, and whole stretches of the table, of which a run compared no row, by their ends. What is stored stays small: of
an audit so many rows are followed as MAX_FOLLOWED, and so many stretches as MAX_STRETCHES.
"""

from __future__ import annotations

import datetime as dt
import heapq
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

Key = tuple[str | None, ...]
"""Canonical texts of a key's columns, in key order; None for NULL."""

MAX_FOLLOWED = 10_000
"""Rows of an audit that are followed."""

MAX_STRETCHES = 1_000
"""Stretches of an audit that are followed."""


@dataclass(frozen=True, slots=True)
class LeftOutRow:
    """A row that the last runs left out."""

    runs: int
    """Runs in a row that read its part of the table and did not compare it."""
    since: dt.datetime
    """When the first of them began."""


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring positions at which a run left out every row. A position is a key, or the number of a partition."""

    first: int
    """The first position, inclusive."""
    last: int
    """The last position, inclusive."""
    rows: int
    """The rows that were left out there."""

    def part(self, first: int, last: int) -> Span:
        """Return the part between two positions of it, both inclusive, as if its rows lay evenly."""
        share = (last - first + 1) / (self.last - self.first + 1)
        return Span(first, last, round(self.rows * share))


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span that the last runs left out. Its rows are the fewest of all these runs."""

    span: Span
    runs: int
    """Runs in a row that read it and compared none of its rows."""
    since: dt.datetime
    """When the first of them began."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the last runs of an audit left out."""

    rows: Mapping[Key, LeftOutRow] = field(default_factory=dict)
    """Rows, by key."""
    stretches: tuple[Stretch, ...] = ()
    """Stretches, ascending; they do not overlap."""
    positions: str = ""
    """What the positions of the stretches are: those of other positions cannot be compared with them."""
    one_in: int = 1
    """The rows of one in so many keys are followed."""


def advance(
    earlier: Mapping[Key, LeftOutRow], now: Iterable[Key], was_followed: Callable[[Key], bool], at: dt.datetime
) -> dict[Key, LeftOutRow]:
    """Return the rows that are left out after a run which began at ``at`` and left out those of the keys ``now``.

    ``was_followed`` says whether this run would have reported that it left out a row. Other rows stay as they were.
    """
    rows: dict[Key, LeftOutRow] = {}
    for key in now:
        before = earlier.get(key)
        rows[key] = LeftOutRow(before.runs + 1, before.since) if before else LeftOutRow(1, at)
    for key, row in earlier.items():
        if key not in rows and not was_followed(key):
            rows[key] = row
    if len(rows) <= MAX_FOLLOWED:
        return rows
    return dict(heapq.nlargest(MAX_FOLLOWED, rows.items(), key=lambda item: item[1].runs))


def advance_stretches(
    earlier: Sequence[Stretch], now: Iterable[Span], read: Sequence[tuple[int, int]] | None, at: dt.datetime
) -> tuple[Stretch, ...]:
    """Return the stretches that are left out after a run which began at ``at`` and left out the spans ``now``.

    ``read`` are the positions that it read, first and last of each range, ascending; None for all. Stretches elsewhere stay as they were.
    """
    stretches: list[Stretch] = []
    end = None
    for span in sorted(now, key=lambda missing_span: missing_span.first):
        first = span.first if end is None else max(span.first, end + 1)
        if first <= span.last:
            stretches += _continue(earlier, span.part(first, span.last), at)
            end = span.last
    stretches += [replace(stretch, span=stretch.span.part(*gap)) for stretch in earlier for gap in _unread(stretch.span, read)]
    joined = _join(sorted((stretch for stretch in stretches if stretch.span.rows), key=lambda stretch: stretch.span.first))
    if len(joined) > MAX_STRETCHES:
        joined = heapq.nlargest(MAX_STRETCHES, joined, key=lambda stretch: (stretch.runs, stretch.span.rows))
    return tuple(sorted(joined, key=lambda stretch: stretch.span.first))


def _continue(earlier: Sequence[Stretch], span: Span, at: dt.datetime) -> Iterable[Stretch]:
    """Yield the parts of a span: those that were left out before continue, the others begin."""
    begin = span.first
    for before in earlier:
        first, last = max(before.span.first, begin), min(before.span.last, span.last)
        if first > last:
            continue
        if begin < first:
            yield Stretch(span.part(begin, first - 1), 1, at)
        rows = min(span.part(first, last).rows, before.span.part(first, last).rows)
        yield Stretch(Span(first, last, rows), before.runs + 1, before.since)
        begin = last + 1
    if begin <= span.last:
        yield Stretch(span.part(begin, span.last), 1, at)


def _unread(span: Span, read: Sequence[tuple[int, int]] | None) -> Iterable[tuple[int, int]]:
    """Yield the parts of a span that were not read."""
    begin = span.first
    for first, last in read if read is not None else [(span.first, span.last)]:
        if begin < first:
            yield begin, min(first - 1, span.last)
        begin = max(begin, last + 1)
        if begin > span.last:
            return
    yield begin, span.last


def _join(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the stretches with neighbours joined that were left out in the same runs."""
    joined: list[Stretch] = []
    for stretch in stretches:
        before = joined[-1] if joined else None
        if before and before.span.last + 1 == stretch.span.first and (before.runs, before.since) == (stretch.runs, stretch.since):
            joined[-1] = replace(before, span=Span(before.span.first, stretch.span.last, before.span.rows + stretch.span.rows))
        else:
            joined.append(stretch)
    return joined


def pack(left_out: LeftOut) -> bytes:
    """Return what was left out in few bytes."""
    rows = [[list(key), row.runs, row.since.isoformat()] for key, row in left_out.rows.items()]
    stretches = [
        [stretch.span.first, stretch.span.last, stretch.span.rows, stretch.runs, stretch.since.isoformat()]
        for stretch in left_out.stretches
    ]
    body = {"rows": rows, "stretches": stretches, "positions": left_out.positions, "one_in": left_out.one_in}
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode())


def unpack(body: bytes) -> LeftOut:
    """Return what was packed."""
    if not body:
        return LeftOut()
    stored = json.loads(zlib.decompress(body))
    stretches = (
        Stretch(Span(first, last, rows), runs, dt.datetime.fromisoformat(since)) for first, last, rows, runs, since in stored["stretches"]
    )
    rows = {tuple(key): LeftOutRow(runs, dt.datetime.fromisoformat(since)) for key, runs, since in stored["rows"]}
    return LeftOut(rows, tuple(stretches), stored["positions"], stored["one_in"])
