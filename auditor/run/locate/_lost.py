"""Name the rows that a scan of the source found and a stream's sums at the same position do not have: what its log did not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.compare import syndromes
from auditor.compare.accounting import Row
from auditor.compare.comparator import Aligned
from auditor.compare.sampling import Sample
from auditor.compare.text_forms import with_windows
from auditor.config import Limits
from auditor.connections.reader import Reader
from auditor.model import Difference, DifferenceKind, Plan, Side
from auditor.run.locate import _decode
from auditor.run.locate._as_of import at_position, key_of, symbol_of
from auditor.run.locate._rows import compare_rows
from auditor.run.locate._work import Tally, Work
from auditor.summary.key_number import P
from auditor.summary.lazy_numpy import np


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
    decoded = _decode.decode_positions(work)
    chosen = {index: positions for index, positions in decoded.items() if positions is not None}
    rows = _decode.fetch_positions(work, chosen)
    named: list[Difference] = []
    left = [int(kept.partition[index]) for index in np.flatnonzero(kept.unequal) if int(index) not in chosen]
    for index, positions in chosen.items():
        sums = _decode.syndromes_of(kept, np.array([index]))[0].tolist()
        for position, symbol in zip(positions, syndromes.symbols_at(sums, positions), strict=True):
            here: dict[Side, list[Row]] = {side: at_position(work, index, position, of_side) for side, of_side in rows[index].items()}
            if (lost := _name(work, index, position, here, symbol)) is not None:
                named.append(lost)
            else:
                left.append(int(kept.partition[index]))
    shown = (with_windows(difference, limits.value_length) for difference in named[: limits.max_differences])
    return Lost(tuple(shown), tuple(sorted(set(left))))


def _name(work: Work, index: int, position: int, here: dict[Side, list[Row]], symbol: int) -> Difference | None:
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
