"""Name what differs between a target and sums of its source as of a position, without a scan of the source.

Positions that differ are decoded from the sums; their rows are fetched from the target's snapshot, and from the source as it is now. The
symbol of the source's row as of the position follows from the target's and from the decoded difference, so that a row that has changed
in the source since then is recognised: it differs, but its columns cannot be compared. Such a partition is looked at again as of a later
position.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auditor.compare import jaccard, ranges, syndromes
from auditor.compare.accounting import Row, hash_words
from auditor.compare.jaccard import Unresolved
from auditor.model import SIDES, Difference, DifferenceKind, Look, Side
from auditor.run.locate import _decode, _list
from auditor.run.locate._rows import compare_rows
from auditor.run.locate._work import Work, place_of
from auditor.sql.render import WORD_BITS
from auditor.summary.key_number import P
from auditor.summary.lazy_numpy import np

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
    _list.count_one_sided(work, _list.name_one_sided(work, one_sided, whole=False), whole=False)
    decoded = _decode.decode_positions(work)
    left = sorted(index for index, positions in decoded.items() if positions is None)
    work.record_state(left, "estimated")
    tally.partitions["estimated"] += len(left)
    at_least = {index: work.plan.t + 1 for index in left if _decode.has_syndromes(work, index)}
    rest = jaccard.select_unresolved(work.aligned, np.array(left, np.int64), at_least, WORD_BITS[work.plan.method])
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
    rows, moved = _decode.fetch_positions(work, positions), dict[int, list[Difference]]()
    for index, decoded in positions.items():
        if _decode.accounts_for(work.aligned, index, rows[index]):
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
    symbols = syndromes.symbols_at(_decode.syndromes_of(work.aligned, np.array([index]))[0].tolist(), positions)
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
