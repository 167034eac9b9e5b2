"""Find the merge after which a target and its source's log part, and tell who parted them, from ledgers and from what runs found.

Three things are known of each partition: the sums that the stream keeps of the source; what merges did to the target, as the stream's sums
and the entries of the ledger say; and, as of each run, what is in the target. Pure: values in, values out.

- An entry says that its merge left other rows than the log says, or changed rows of other keys: the merge did that.
- A run finds something else in the target than merges made of it: somebody else changed the target, after the run before.
- An entry says that its merge left the right rows, and found others than the log says: either of both. The next run tells: if the target
  holds what merges made of it, the log lacked a change of the source, and else somebody had changed the row in the target.
- A scan of the source finds what the stream's sums lack: the log did not hold it.

All differences are target minus source, as vectors of numbers of rows and words, which are sums over rows: so they cancel out where a later
merge replaces the row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from auditor.compare.syndromes import decode
from auditor.run.live.ledger import Deviation, Entry, read_deviation
from auditor.summary.arrays import Summaries
from auditor.summary.key_number import P

Cause: TypeAlias = Literal["merge", "target", "log", "before", "unknown"]
"""Who parted target and source: a merge, a change of the target by others, one of the source that no staged event has, because the log did
not hold it or it was lost before it was staged, or one that was there when the ledger began."""

Vector: TypeAlias = tuple[int, ...]

CONTRADICTED = "the log's events of this merge contradict each other, or keys share their place, so that it does not say what the rows were"

FOLDED = "the ledger's entries of these merges were folded into one, which no longer says what each of them did"

FOUND_OTHERS = (
    "the merge found another row in the target than the log says: somebody had changed it in the target, or the log lacked a change of the"
    " source; the audit's next run tells which"
)

PARTLY = (
    "several rows of the partition differed before this merge, which found one of these, or one that somebody had changed in the target,"
    " or of which the log lacked a change"
)

AT_ONCE = "several rows of the partition were changed between two runs, in the target or without the log, and cannot be told apart"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a run found of the whole target as of a position."""

    position: int
    apart: Summaries
    """Target minus source, of the partitions that differ."""
    missing: Summaries
    """What a scan of the source had and the stream's sums had not; they have it from here on."""
    is_scan: bool = False


@dataclass(slots=True)
class Parting:
    """What parted target and source in one partition."""

    cause: Cause
    partition: int
    after: int
    """The position up to which it had not happened yet."""
    through: int
    """The position at which it had happened."""
    change: Vector
    batch: int | None = None
    """The number of the merge that did it, or that found it, counted from the ledger's begin; None if it was found by a run."""
    entry: Entry | None = None
    places: tuple[int, ...] = ()
    """Places of the rows in the partition, where the entry's sums name them."""
    why: str = ""
    """Why nobody can say who it was; empty if that is known."""
    ended: int | None = None
    """The position at which the rows were equal again; None if they are not."""
    ended_batch: int | None = None
    """The merge that made them so; None if they are not, or a run found it."""
    after_check: int | None = None
    """The run, by its index, that found the rows as they were before; None if ``after`` is no run's."""
    through_check: int | None = None
    """The run, by its index, that found what happened; None if a merge did."""


@dataclass(frozen=True, slots=True)
class _Book:
    """What an entry says of one partition."""

    number: int
    entry: Entry
    wrote: Vector
    replaced: Vector
    is_contradicted: bool
    is_by_key: bool
    """Whether the merge changed other keys than its events, or fewer: then it is the merge that did otherwise."""
    sums: tuple[int, ...]
    """Power sums of what changed, for decoding."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What a run found of one partition."""

    position: int
    apart: Vector
    missing: Vector
    index: int
    previous: int
    """The run before it, by its index; itself for the first."""
    previous_scan: int
    """The last run before it that scanned the source, likewise."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """What is known of a ledger."""

    partings: Sequence[Parting]
    """In the order of the stream."""
    batches: int
    """How many merges it holds."""
    through: int
    """The last position that it holds."""


def bisect(entries: Sequence[Entry], checks: Sequence[Checked], *, words: int, powers: int, t: int, width: int) -> Bisection:
    """Return what parted target and source, from a ledger that is whole and at least one check; ``width`` places a partition.

    Entries before the first check are not looked at. Raises LiveSummariesWrong.
    """
    zero = (0,) * (1 + words)
    looks, positions = list(_looks(checks, zero)), [check.position for check in checks]
    history: dict[int, list[_Book]] = defaultdict(list)
    number = 0
    for entry in entries:
        first, number = number + 1, number + entry.batches
        if entry.body and entry.place > checks[0].position:
            for partition, book in _books(first, entry, read_deviation(entry.body, words, powers), zero):
                history[partition].append(book)
    seen: dict[int, list[int]] = defaultdict(list)
    for index, (_, found, missing) in enumerate(looks):
        for partition in {*found, *missing}:
            seen[partition].append(index)
    partings = list[Parting]()
    for partition in sorted({*history, *seen}):
        books = history[partition]
        chosen = [looks[index] for index in _telling(books, seen[partition], positions)]
        partings += _follow(partition, _in_order(books, partition, chosen, positions, zero), positions, zero, t, width)
    partings.sort(key=lambda one: (one.through, one.after, one.partition))
    return Bisection(partings, number, entries[-1].place if entries else checks[0].position)


_Looked: TypeAlias = tuple[tuple[int, int, int], Mapping[int, Vector], Mapping[int, Vector]]
"""The indexes of a run, of the one before it and of the last scan before it; what it found apart, and missing, by partition."""


def _looks(checks: Sequence[Checked], zero: Vector) -> Iterator[_Looked]:
    previous = scan = 0
    for index, check in enumerate(checks):
        yield (index, previous, scan), _vectors(check.apart, zero), _vectors(check.missing, zero)
        previous, scan = index, index if check.is_scan else scan


def _vectors(sums: Summaries, zero: Vector) -> dict[int, Vector]:
    rows = np.column_stack([sums.rows, sums.words])[:, : len(zero)].tolist()
    return dict(zip(sums.partition.tolist(), map(tuple, rows), strict=True))


def _books(number: int, entry: Entry, deviation: Deviation, zero: Vector) -> Iterator[tuple[int, _Book]]:
    wrote, replaced = _vectors(deviation.wrote, zero), _vectors(deviation.replaced, zero)
    powers = [dict(zip(sums.partition.tolist(), sums.syndromes.tolist(), strict=True)) for sums in (deviation.wrote, deviation.replaced)]
    nothing = [0] * deviation.wrote.syndromes.shape[1]
    for partition in sorted({*wrote, *replaced}):
        left, found = wrote.get(partition, zero), replaced.get(partition, zero)
        first = (left[1] - found[1]) % P
        rest = [(a - b) % P for a, b in zip(*(some.get(partition, nothing) for some in powers), strict=True)]
        yield (
            partition,
            _Book(number, entry, left, found, partition in deviation.contradicted, partition in deviation.misplaced, (first, *rest)),
        )


def _telling(books: Sequence[_Book], seen: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Return the runs, by index, that say more of a partition than the one before them: those that found something, and the next ones."""
    after = [bisect_left(positions, book.entry.place) for book in books]
    wanted = {0, *seen, *(index + 1 for index in seen), *after}
    return sorted(index for index in wanted if index < len(positions))


def _in_order(
    books: Sequence[_Book], partition: int, looks: Sequence[_Looked], positions: Sequence[int], zero: Vector
) -> Iterator[_Book | _Look]:
    """Yield what entries and runs say of a partition by position; a run after the merge that ended there."""
    found: list[tuple[int, int, _Book | _Look]] = [(book.entry.place, -1, book) for book in books]
    for (index, *before), apart, missing in looks:
        look = _Look(positions[index], apart.get(partition, zero), missing.get(partition, zero), index, *before)
        found.append((look.position, index, look))
    yield from (one for _, _, one in sorted(found, key=lambda one: one[:2]))


def _follow(partition: int, history: Iterable[_Book | _Look], positions: Sequence[int], zero: Vector, t: int, width: int) -> list[Parting]:
    known = _Partition(partition, positions, zero, zero)
    for one in history:
        if isinstance(one, _Look):
            known.look(one)
        else:
            known.merge(one, t, width)
    return known.partings


@dataclass(slots=True)
class _Partition:
    """A partition as it is followed through the stream."""

    number: int
    positions: Sequence[int]
    """Of the runs."""
    zero: Vector
    apart: Vector
    """Target minus source, as far as is known."""
    partings: list[Parting] = field(default_factory=list)
    is_begun: bool = False

    def merge(self, book: _Book, t: int, width: int) -> None:
        """Follow what a merge did."""
        entry, change = book.entry, _minus(book.wrote, book.replaced)
        before, self.apart = self.apart, _plus(self.apart, change)
        last = book.number + entry.batches - 1
        did_right = book.wrote == self.zero and not book.is_by_key
        if did_right and self._is_put_right(book.replaced, before, entry.place, last):
            return
        why = FOLDED if entry.batches > 1 else CONTRADICTED if book.is_contradicted else ""
        if not why and did_right:
            why = PARTLY if any(parting.cause != "unknown" for parting in self._open()) else FOUND_OTHERS
        partly = next((parting for parting in self._open() if parting.why == why == PARTLY), None)
        if partly:  # one for all such merges, as nobody knows which rows are left
            partly.change = _plus(partly.change, change)
            return
        places = decode(np.array([book.sums], np.int64), t, width)[0] if t else None
        where = self.number, entry.previous, entry.place
        self.partings.append(Parting("unknown" if why else "merge", *where, change, last, entry, places or (), why))
        if self.apart == self.zero:
            self._close_all(entry.place, last)

    def _is_put_right(self, replaced: Vector, before: Vector, place: int, batch: int) -> bool:
        """Whether a merge that left the right rows found one that was known to be wrong."""
        if self.apart == self.zero and before != self.zero:
            self._close_all(place, batch)
            return True
        for parting in self._open():
            if parting.change == replaced:
                parting.ended, parting.ended_batch = place, batch
                return True
        return False

    def look(self, look: _Look) -> None:
        """Follow what a run found."""
        if not self.is_begun:
            self.is_begun, self.apart = True, look.apart
            if look.apart != self.zero:
                self._found_by_run("before", look.apart, look, look.index)
            return
        if look.missing != self.zero:
            self._lack(look)
        by_others = _minus(look.apart, self.apart)
        waiting = [parting for parting in self._open() if parting.why == FOUND_OTHERS]
        if waiting:
            by_others = self._tell_apart(waiting, by_others, look)
        if by_others != self.zero:
            self._change_by_others(by_others, look)
        self.apart = look.apart
        if self.apart == self.zero:
            self._close_all(look.position, None)

    def _lack(self, look: _Look) -> None:
        """Follow a scan of the source that found what the log did not hold."""
        self.apart = _minus(self.apart, look.missing)
        for parting in self._open():
            if (parting.why == FOUND_OTHERS or (parting.cause == "log" and parting.batch)) and parting.change == look.missing:
                self._blame_log(parting, look)
                parting.ended = look.position
                return
        self._found_by_run("log", _minus(self.zero, look.missing), look, look.previous_scan)

    def _tell_apart(self, waiting: Sequence[Parting], by_others: Vector, look: _Look) -> Vector:
        """Tell of merges that found other rows than the log says whose change that was; return what else others changed in the target.

        ``by_others`` is what the target holds beyond what merges made of it.
        """
        for parting in waiting:
            if by_others == _minus(self.zero, parting.change) or by_others == _minus(self.zero, _sum(waiting, self.zero)):
                break
        else:
            for parting in waiting:
                if by_others == self.zero:
                    self._blame_log(parting, look)
                else:
                    parting.why = AT_ONCE
            return self.zero
        edited = [parting] if by_others == _minus(self.zero, parting.change) else waiting
        for one in waiting:
            self._blame_log(one, look)
            if one in edited:
                one.cause, one.after, one.after_check = "target", self.positions[look.previous], look.previous
                one.ended, one.ended_batch = one.through, one.batch
        return self.zero

    def _blame_log(self, parting: Parting, look: _Look) -> None:
        """Say that the log lacked a change: after the last scan of the source, which would have found it, and before the merge."""
        if parting.cause == "unknown":
            parting.cause, parting.why = "log", ""
            parting.after, parting.after_check = self.positions[look.previous_scan], look.previous_scan

    def _change_by_others(self, change: Vector, look: _Look) -> None:
        if look.apart == self.zero:  # no matter who changed it, it is right again
            return
        for parting in self._open():
            if change == _minus(self.zero, parting.change):
                parting.ended = look.position
                return
        self._found_by_run("target", change, look, look.previous)

    def _found_by_run(self, cause: Cause, change: Vector, look: _Look, after: int) -> None:
        where = self.number, self.positions[after], look.position
        self.partings.append(Parting(cause, *where, change, after_check=after, through_check=look.index))

    def _open(self) -> list[Parting]:
        return [parting for parting in self.partings if parting.ended is None]

    def _close_all(self, place: int, batch: int | None) -> None:
        for parting in self._open():
            parting.ended, parting.ended_batch = place, batch


def _plus(one: Vector, other: Vector) -> Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _minus(one: Vector, other: Vector) -> Vector:
    return tuple(a - b for a, b in zip(one, other, strict=True))


def _sum(partings: Sequence[Parting], zero: Vector) -> Vector:
    total = zero
    for parting in partings:
        total = _plus(total, parting.change)
    return total
