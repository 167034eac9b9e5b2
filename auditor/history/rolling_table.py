"""State of a rolling audit's whole table, merged from the latest run of each partition.

A partition map shows what the scan found. In a run that matched, a partition can still differ in the scan, for one of two reasons.
Either nothing that differed remained a difference (equal at a recheck, in flight, within tolerances): then it is equal here. Or the
audit's threshold allowed the remaining differences: then it differs here too, but causes no mismatch, as it caused none in its run. So
the whole table matches if every part did; a number of rows that the threshold allows applies to each part separately. Partitions that
differed in a run with the verdict unknown are unknown, and so are all that it read if none differed: then something else made it unknown.
Rows without a key are of no range, and are read by each run: they are as the last one saw them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from auditor.history import fingerprint, records, rolling
from auditor.model import NULL_PARTITION, SIDES, Verdict
from auditor.store import Store, rolling_parts, runs
from auditor.summary.codec import PartitionMap
from auditor.summary.partition_states import STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingTable:
    """The state of each partition of a table when it was last read.

    ``pieces`` cover all ``partitions`` in order, by the time of that read (None: never); ``oldest`` is the earliest of these times.
    ``partitions_read`` were ever read. ``unequal`` differ, of which ``allowed`` were within the audit's threshold. ``undecided`` were read
    by runs that could not tell, such as those whose rows may be in flight.
    """

    verdict: Verdict
    partition_map: PartitionMap
    pieces: tuple[rolling.Piece, ...]
    partitions: int
    partitions_read: int
    unequal: int
    allowed: int
    undecided: int
    oldest: dt.datetime | None

    @property
    def sentence(self) -> str:
        """The state of the whole table as a sentence."""
        never = f", {self.partitions - self.partitions_read:,} were never read" if self.partitions_read < self.partitions else ""
        since = f"; the least recent was read on {self.oldest:%Y-%m-%d %H:%M} UTC" if self.oldest else ""
        undecided = f", {self.undecided:,} could not be decided, for which the runs that read them say why" if self.undecided else ""
        within = f" ({self.allowed:,} of them within the threshold)" if self.allowed else ""
        differ = f"{self.unequal:,} {'differs' if self.unequal == 1 else 'differ'}"
        return f"of the whole table's {self.partitions:,} partitions {differ} as last read{within}{undecided}{never}{since}"


@dataclass(frozen=True, slots=True)
class RollingVerdict:
    """The status of a rolling audit's whole table; ``within_threshold`` is whether it matches although something differs."""

    verdict: Verdict
    within_threshold: bool
    sentence: str


_verdicts: WeakKeyDictionary[Store, dict[str, tuple[object, RollingVerdict | None]]] = WeakKeyDictionary()
"""The last verdict of each rolling audit by store, with what it was computed from: deriving one reads the maps of many runs."""


def load_rolling_verdict(store: Store, name: str, last: str) -> RollingVerdict | None:
    """Return the verdict on an audit's whole table after its last done run, whose id is ``last``. Raises StoreError."""
    basis = last, rolling_parts.get_last_read(store, name)
    known = _verdicts.setdefault(store, {}).get(name)
    if known and known[0] == basis:
        return known[1]
    table = load_rolling_table(store, name)
    verdict = None
    if table:
        verdict = RollingVerdict(table.verdict, table.verdict is Verdict.MATCH and table.allowed > 0, table.sentence)
    _verdicts[store][name] = basis, verdict
    return verdict


def load_rolling_table(store: Store, name: str) -> RollingTable | None:
    """Return the state of an audit's whole table, None if its last done run was not that of a rolling audit. Raises StoreError."""
    last = runs.get_latest_run(store, name)
    report = records.load_report(store, last.run, max_differences=0) if last else None
    plan = report.plan if report else None
    if last is None or plan is None or not plan.partition_ranges or plan.least is None or plan.greatest is None:
        return None
    first, end = plan.least // plan.partitioning.size, plan.greatest // plan.partitioning.size + 1
    read = rolling_parts.list_parts(store, name, fingerprint.hash_layout(plan, fingerprint.hash_settings(last.definition)))
    # Beyond the present bounds neither side has a row any more, and no run will read there again.
    within = [(part, max(first, part.first or first), end if part.end is None else min(end, part.end)) for part in read]
    placed = [(part, rolling.Piece(low, high, part.at)) for part, low, high in within if low < high]
    pieces = [piece for _, piece in placed]
    loaded = [maps for part, piece in placed if (maps := _load_piece(store, part.run, piece))]
    if keyless := _load_piece(store, max(read, key=lambda part: part.at).run, None) if read else None:
        loaded.append(keyless)
    return _combine(loaded, rolling.fill_gaps(pieces, first, end))


def _load_piece(store: Store, run: str, piece: rolling.Piece | None) -> tuple[PartitionMap, bool] | None:
    """Return the partition map of a piece by the run that read it, and whether the audit's threshold allowed its differences.

    Without a piece, of the rows without a key.
    """
    whole = records.load_partition_map(store, run)
    if whole is None:
        return None
    mask = records.partitions_in_range(whole, piece.first, piece.end) if piece else whole.partition == NULL_PARTITION
    part = PartitionMap(
        partition=whole.partition[mask],
        state=whole.state[mask],
        similarity=whole.similarity[mask],
        rows={side: whole.rows[side][mask] for side in SIDES},
        least=whole.least[mask],
        greatest=whole.greatest[mask],
    )
    verdict = runs.get_run(store, run).verdict
    if verdict is Verdict.UNKNOWN:
        doubtful = _differing(part) if (whole.state != STATES.index("equal")).any() else np.ones(len(part), np.bool_)
        return _repaint(part, doubtful, "skipped"), False
    if not _differing(part).any() or verdict is Verdict.MISMATCH:
        return part, False
    report = records.load_report(store, run, max_differences=0)
    if report and report.jaccard and not report.jaccard.differing:
        return _repaint(part, _differing(part), "equal"), False
    return part, True


def _differing(partition_map: PartitionMap) -> npt.NDArray[np.bool_]:
    """Return a mask of the partitions that differ, shape (partitions,)."""
    return ~np.isin(partition_map.state, [STATES.index("equal"), STATES.index("skipped")])


def _repaint(partition_map: PartitionMap, mask: npt.NDArray[np.bool_], state: Literal["equal", "skipped"]) -> PartitionMap:
    """Return the map with the partitions of a mask set to ``state``."""
    parts = {name: getattr(partition_map, name).copy() for name in ("state", "similarity", "least", "greatest")}
    similar = 1.0 if state == "equal" else np.nan
    for name, value in (("state", STATES.index(state)), ("similarity", similar), ("least", None), ("greatest", None)):
        parts[name][mask] = value
    return dataclasses.replace(partition_map, **parts)


def _combine(loaded: list[tuple[PartitionMap, bool]], pieces: list[rolling.Piece]) -> RollingTable | None:
    if not loaded:
        return None
    parts = [part for part, _ in loaded]
    partition_map = PartitionMap(
        partition=np.concatenate([part.partition for part in parts]),
        state=np.concatenate([part.state for part in parts]),
        similarity=np.concatenate([part.similarity for part in parts]),
        rows={side: np.concatenate([part.rows[side] for part in parts]) for side in SIDES},
        least=np.concatenate([part.least for part in parts]),
        greatest=np.concatenate([part.greatest for part in parts]),
    )
    times = [piece.at for piece in pieces if piece.at]
    read = sum(piece.end - piece.first for piece in pieces if piece.at)
    partitions = sum(piece.end - piece.first for piece in pieces)
    unequal = int(_differing(partition_map).sum())
    allowed = sum(int(_differing(part).sum()) for part, within in loaded if within)
    undecided = int((partition_map.state == STATES.index("skipped")).sum())
    return RollingTable(
        verdict=Verdict.MISMATCH if unequal > allowed else Verdict.UNKNOWN if undecided or read < partitions else Verdict.MATCH,
        partition_map=partition_map,
        pieces=tuple(pieces),
        partitions=partitions,
        partitions_read=read,
        unequal=unequal,
        allowed=allowed,
        undecided=undecided,
        oldest=min(times, default=None),
    )
