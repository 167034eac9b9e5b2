"""Name what differs between sums of the source as of a position and a target, or a scan of the source.

Positions that differ are decoded from the sums; their rows are fetched from the target's snapshot, and from the source as it is now. The
symbol of the source's row as of the position follows from the target's and from the decoded difference, so that a row that has changed
in the source since then is recognised: it differs, but its columns cannot be compared. Such a partition is looked at again as of a later
position.

In the same way the rows are named that a scan of the source found and a stream's sums at the same position do not have: what its log did
not say.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from auditor.compare import ranges, syndromes
from auditor.compare.accounting import Row, hash_words
from auditor.compare.comparator import Aligned, select_unresolved
from auditor.compare.sampling import Sample
from auditor.compare.score import Unresolved
from auditor.compare.text_forms import with_windows
from auditor.config import Limits
from auditor.connections.reader import Reader
from auditor.model import SIDES, Difference, DifferenceKind, Look, Plan, Side
from auditor.run.locate import decoding, listing
from auditor.run.locate.decoding import Tally, Work, compare_rows, place_of
from auditor.sql.render import WORD_BITS
from auditor.summary.key_number import P

MOVED = "moved"
"""What a look has seen of a row that changed in the source after the position."""


@dataclass(slots=True)
class AsOf:
    """What one look at unequal partitions found besides what it counted."""

    rest: Unresolved
    """Partitions whose differences were not named."""
    moved: dict[int, list[Difference]] = field(default_factory=dict)
    """By partition id the differences of partitions in which a row has changed in the source since: they are not counted yet."""


def explain_as_of(work: Work) -> AsOf:
    """Name the differences of the unequal partitions, as far as the sums decode, and count those that rows of both sides account for."""
    how, tally = work.plan.partitioning, work.tally
    one_sided = ranges.one_sided_partitions(work.aligned, how)
    for kind, state in (("missing", "source_only"), ("extra", "target_only")):
        work.record_state([rows.first_index for rows in one_sided if rows.kind == kind], state)
    tally.partitions["one_sided"] += len(one_sided)
    listing.count_one_sided(work, listing.name_one_sided(work, one_sided, whole=False), whole=False)
    decoded = decoding.decode_positions(work)
    left = sorted(index for index, positions in decoded.items() if positions is None)
    work.record_state(left, "estimated")
    tally.partitions["estimated"] += len(left)
    at_least = {index: work.plan.t + 1 for index in left if decoding.has_syndromes(work, index)}
    rest = select_unresolved(work.aligned, np.array(left, np.int64), at_least, WORD_BITS[work.plan.method])
    return AsOf(rest, _account(work, {index: positions for index, positions in decoded.items() if positions is not None}))


def count_moved(work: Work, moved: Mapping[int, Sequence[Difference]]) -> None:
    """Count the differences of partitions in which rows keep changing: each was there as of the position."""
    for differences in moved.values():
        work.tally.partitions["accounted"] += bool(differences)
        work.tally.unaccounted += not differences
        work.add(differences)


def key_of(work: Work, index: int, position: int) -> int:
    """Return the key at a position of a partition (by index) that is a range of keys."""
    return int(work.aligned.partition[index]) * work.plan.partitioning.size + position - 1


def symbol_of(rows: Sequence[Row]) -> int:
    """Return the symbol at a position with these rows, 0 .. p - 1."""
    return sum(hash_words(row.digits, 2)[0] for row in rows) % P


def at_position(work: Work, index: int, position: int, rows: Sequence[Row]) -> list[Row]:
    """Return those rows of a partition (by index) that lie at a position of it."""
    if work.plan.partitioning.strategy == "range":
        return [row for row in rows if int(row.key[0] or 0) == key_of(work, index, position)]
    return [row for row in rows if (place := place_of(work.plan, row)) and place[1] == position]


def _account(work: Work, positions: Mapping[int, Sequence[int]]) -> dict[int, list[Difference]]:
    rows, moved = decoding.fetch_positions(work, positions), dict[int, list[Difference]]()
    for index, decoded in positions.items():
        if decoding.accounts_for(work.aligned, index, rows[index]):
            work.tally.partitions["accounted"] += 1
            work.add(compare_rows(work, rows[index])[0])
        elif (differences := _split(work, index, decoded, rows[index])) is not None:
            moved[int(work.aligned.partition[index])] = differences
        else:
            work.tally.unaccounted += 1
            continue
        work.record_state([index], "accounted")
    return moved


def _split(work: Work, index: int, positions: Sequence[int], rows: Mapping[Side, Sequence[Row]]) -> list[Difference] | None:
    """Return the differences of a partition (by index), those of rows that have changed in the source marked; None if no row has."""
    at = dt.datetime.now(dt.UTC)
    symbols = syndromes.symbols_at(decoding.syndromes_of(work.aligned, np.array([index]))[0].tolist(), positions)
    still: dict[Side, list[Row]] = {side: [] for side in SIDES}
    marked: list[tuple[int, dict[Side, list[Row]], int]] = []
    for position, symbol in zip(positions, symbols, strict=True):
        here: dict[Side, list[Row]] = {side: at_position(work, index, position, rows[side]) for side in SIDES}
        before = (symbol_of(here["target"]) - symbol) % P
        if symbol_of(here["source"]) == before:
            for side in SIDES:
                still[side] += here[side]
        else:
            marked.append((position, here, before))
    if not marked:
        return None
    marks = [_mark(work, index, *entry, at) for entry in marked]
    if None in marks:
        return []
    return [*compare_rows(work, still)[0], *(mark for mark in marks if mark)]


def _mark(work: Work, index: int, position: int, here: Mapping[Side, Sequence[Row]], before: int, at: dt.datetime) -> Difference | None:
    """Return the difference of a row of which the source has another version by now; ``before`` is 0 if it had none.

    None if neither side has the row, and its position does not identify its key.
    """
    kind: DifferenceKind = "missing" if not here["target"] else "changed" if before else "extra"
    known = [row.key for side in SIDES for row in here[side]]
    if not known and work.plan.partitioning.strategy != "range":
        return None
    key = known[0] if known else (str(key_of(work, index, position)),)
    names = [column.name for column in work.plan.key_columns]
    rows: dict[Side, int] = {"source": int(kind != "extra"), "target": int(kind != "missing")}
    return Difference(kind=kind, key=dict(zip(names, key, strict=True)), rows=rows, looks=(Look(at, MOVED),))


@dataclass(frozen=True, slots=True)
class Lost:
    """What a stream lost."""

    rows: tuple[Difference, ...] = ()
    """By key. ``source`` is the source's row, ``target`` the stream's: missing is a row that the stream never had, extra one that it
    still has."""
    partitions: tuple[int, ...] = ()
    """The ids of partitions of which not every row is named."""


def find_lost(reader: Reader, plan: Plan, kept: Aligned, limits: Limits) -> Lost:
    """Return the rows in which a scan of the source differs from the stream's sums, in both sides' snapshots.

    ``kept`` has the sums as its source and the scan as its target. Values are reported where the target holds what the stream had.
    """
    work = Work(plan, kept, limits, reader, 0.0, Tally(Sample(limits.max_differences, plan)))
    decoded = decoding.decode_positions(work)
    chosen = {index: positions for index, positions in decoded.items() if positions is not None}
    rows = decoding.fetch_positions(work, chosen)
    named: list[Difference] = []
    left = [int(kept.partition[index]) for index in np.flatnonzero(kept.unequal) if int(index) not in chosen]
    for index, positions in chosen.items():
        sums = decoding.syndromes_of(kept, np.array([index]))[0].tolist()
        for position, symbol in zip(positions, syndromes.symbols_at(sums, positions), strict=True):
            here: dict[Side, list[Row]] = {side: at_position(work, index, position, of_side) for side, of_side in rows[index].items()}
            if (lost := _name_lost(work, index, position, here, symbol)) is not None:
                named.append(lost)
            else:
                left.append(int(kept.partition[index]))
    shown = (with_windows(difference, limits.value_length) for difference in named[: limits.max_differences])
    return Lost(tuple(shown), tuple(sorted(set(left))))


def _name_lost(work: Work, index: int, position: int, here: dict[Side, list[Row]], symbol: int) -> Difference | None:
    """Return what the stream lost at a position; None where neither side has a row, and the position does not identify the key."""
    before = (symbol_of(here["source"]) - symbol) % P
    if symbol_of(here["target"]) == before:
        differences = compare_rows(work, here)[0]
        return differences[0] if len(differences) == 1 else None
    kind: DifferenceKind = "extra" if not here["source"] else "changed" if before else "missing"
    known: Sequence[Row] = here["source"] or here["target"]
    if not known and work.plan.partitioning.strategy != "range":
        return None
    key = known[0].key if known else (str(key_of(work, index, position)),)
    names = [column.name for column in work.plan.key_columns]
    return Difference(
        kind=kind, key=dict(zip(names, key, strict=True)), rows={"source": int(kind != "extra"), "target": int(kind != "missing")}
    )
