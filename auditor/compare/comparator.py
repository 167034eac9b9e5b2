"""Align both sides' summaries by partition, decide which partitions are equal, and derive a verdict, a score and the partition map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from auditor.compare.score import Unresolved, published_score
from auditor.model import NULL_PARTITION, SIDES, Comparison, Divergent, Side, Verdict, similarity_error
from auditor.summary import minhash
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.codec import PartitionMap
from auditor.summary.partition_states import STATES

if TYPE_CHECKING:
    import numpy.typing as npt

Flags: TypeAlias = "npt.NDArray[np.bool_]"

NO_DIFFERENCE = "no difference"
"""The reason of a match."""

PUBLISHED_SCORE = "the published score"
"""How a reason begins that compares the published score with the threshold."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both sides' summaries aligned by partition, over the n partitions that at least one side has.

    Exactly one of ``equal``, ``unequal`` and ``skipped`` is set for each partition. Methods take a partition's index, 0 .. n - 1.
    """

    sides: dict[Side, Summaries]
    """The summaries of each side."""
    partition: Integers
    """Partition ids, (n,) int64, ascending."""
    row_index: dict[Side, Integers]
    """For each side the index of each partition's row in ``sides[side]``, (n,) int64; -1 where the partition is missing on the side."""
    present: dict[Side, Flags]
    """For each side which partitions it has, (n,) bool."""
    on_both: Flags
    """Which partitions both sides have, (n,) bool."""
    rows: dict[Side, Integers]
    """For each side the rows of each partition, (n,) int64; 0 where it is missing on the side."""
    equal: Flags
    """Whether row counts, signatures, syndromes and measures are equal, (n,) bool."""
    unequal: Flags
    """Whether the partition differs, or is missing on one side, (n,) bool."""
    skipped: Flags
    """Whether the partition could not be compared because an engine could not hash one of its rows, (n,) bool."""
    shard_rows: Mapping[Side, int] = field(default_factory=dict)
    """Rows that were read of each shard of the source; empty for a source of one table."""

    def select(self, mask: Flags) -> Aligned:
        """Return only the partitions for which ``mask``, (n,) bool, is true."""
        return Aligned(
            sides=self.sides,
            partition=self.partition[mask],
            row_index={side: self.row_index[side][mask] for side in SIDES},
            present={side: self.present[side][mask] for side in SIDES},
            on_both=self.on_both[mask],
            rows={side: self.rows[side][mask] for side in SIDES},
            equal=self.equal[mask],
            unequal=self.unequal[mask],
            skipped=self.skipped[mask],
            shard_rows=self.shard_rows,
        )

    def partition_id(self, index: int) -> int | None:
        """Return a partition's id; None for the partition of rows whose key holds a NULL."""
        number = int(self.partition[index])
        return None if number == NULL_PARTITION else number

    def key_range(self, index: int) -> tuple[int | None, int | None]:
        """Return the least and greatest key of a partition over both sides; None where keys have no order."""
        keys: list[int] = []
        for side in SIDES:
            at, summaries = int(self.row_index[side][index]), self.sides[side]
            keys += [key for key in (summaries.least[at], summaries.greatest[at]) if key is not None] if at >= 0 else []
        return min(keys, default=None), max(keys, default=None)

    @property
    def skipped_rows(self) -> int:
        """Return the rows of both sides together in skipped partitions."""
        return int(sum(self.rows[side][self.skipped].sum() for side in SIDES))

    def word_differences(self, indices: Integers) -> Integers:
        """Return target minus source of the signatures' word sums, (len(indices), words) int64, 0 for a side without the partition."""
        sums: list[Integers] = []
        for side in SIDES:
            at, words = self.row_index[side][indices], self.sides[side].words
            sums.append(np.zeros((len(at), words.shape[1]), np.int64))
            sums[-1][at >= 0] = words[at[at >= 0]]
        return sums[1] - sums[0]


def align(source: Summaries, target: Summaries) -> Aligned:
    """Align two sides of one plan by partition, and decide which partitions are equal."""
    sides: dict[Side, Summaries] = {"source": source, "target": target}
    numbers = np.sort(np.concatenate([source.partition, target.partition]))
    partition = numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]  # np.union1d, without the modules that it loads
    row_index: dict[Side, Integers] = {}
    rows: dict[Side, Integers] = {}
    for side in SIDES:
        at = np.searchsorted(partition, sides[side].partition)
        row_index[side], rows[side] = np.full(len(partition), -1, np.int64), np.zeros(len(partition), np.int64)
        row_index[side][at], rows[side][at] = np.arange(len(sides[side])), sides[side].rows
    present = {side: row_index[side] >= 0 for side in SIDES}
    on_both = present["source"] & present["target"]
    skipped = _skipped_partitions(sides, row_index)
    equal = np.zeros(len(partition), np.bool_)
    equal[on_both] = _equal_partitions(sides, row_index, on_both)
    equal &= ~skipped
    return Aligned(sides, partition, row_index, present, on_both, rows, equal, ~equal & ~skipped, skipped)


def compare(
    aligned: Aligned,
    *,
    threshold: float = 1.0,
    allow_empty: bool = False,
    measures: Sequence[str] = (),
    label: Callable[[int | None], str] = str,
) -> Comparison:
    """Return the comparison of aligned summaries, with its verdict.

    Unequal partitions make a mismatch. ``threshold`` (0 .. 1) is for the method counts alone, which knows no similarity: below 1 it is
    compared with the published score. ``measures`` names the columns of counts summaries, ``label`` describes a partition for a person.
    Two empty tables match only with ``allow_empty``, and are unknown otherwise.
    """
    sides, equal, unequal, skipped = aligned.sides, aligned.equal, aligned.unequal, aligned.skipped
    k = sides["source"].minhashes.shape[1]
    similar = np.zeros(len(equal))
    shared = unequal & aligned.on_both
    similar[shared] = minhash.similarity(*(sides[s].minhashes[aligned.row_index[s][shared]] for s in SIDES)) if k else np.nan
    rows = {side: int(sides[side].rows.sum()) for side in SIDES}
    published = published_score(int(equal.sum()), similar[unequal], k)
    verdict, reasons = _verdict(rows, aligned, published.value if published else 0.0, threshold, allow_empty)
    return Comparison(
        verdict=verdict,
        reasons=tuple(reasons),
        published=published,
        rows=rows,
        total=len(equal),
        equal=int(equal.sum()),
        source_only=int((unequal & ~aligned.present["target"]).sum()),
        target_only=int((unequal & ~aligned.present["source"]).sum()),
        skipped=int(skipped.sum()),
        skipped_rows=aligned.skipped_rows,
        divergent=tuple(_divergent(aligned, int(i), similar[i], measures, label) for i in np.flatnonzero(unequal)),
    )


def _skipped_partitions(sides: dict[Side, Summaries], row_index: dict[Side, Integers]) -> Flags:
    """Return the partitions with a row that an engine could not hash on either side, (n,) bool."""
    skipped = np.zeros(len(row_index["source"]), np.bool_)
    for side in SIDES:
        here = row_index[side] >= 0
        skipped[here] |= (sides[side].rows != sides[side].hashed)[row_index[side][here]]
    return skipped


def _equal_partitions(sides: dict[Side, Summaries], row_index: dict[Side, Integers], both: Flags) -> Flags:
    """Return which of the partitions that ``both`` sides have are equal in row counts, signatures, syndromes and measures, bool."""
    pairs: list[tuple[Any, Any]] = []
    for name in ("rows", "words", "syndromes", "measures"):
        mine, other = (getattr(sides[s], name)[row_index[s][both]] for s in SIDES)
        pairs.append((mine, other))
    equal = np.ones(int(both.sum()), np.bool_)
    for mine, other in pairs:
        same = np.asarray(mine == other, np.bool_)
        equal &= same if same.ndim == 1 else same.all(axis=1)
    return equal


def _verdict(rows: dict[Side, int], aligned: Aligned, value: float, threshold: float, allow_empty: bool) -> tuple[Verdict, list[str]]:
    equal, unequal, skipped = aligned.equal, aligned.unequal, aligned.skipped
    if not len(equal):
        if allow_empty:
            return Verdict.MATCH, ["both tables are empty, which the audit allows"]
        return Verdict.UNKNOWN, ["both tables are empty, so nothing was compared; write allow_empty: true if that is right"]
    reasons: list[str] = []
    if skipped.any():
        count = int(skipped.sum())
        hold = "partition holds a row" if count == 1 else "partitions hold rows"
        reasons.append(f"{count:,} {hold} that could not be hashed, and {'was' if count == 1 else 'were'} not compared")
    if unequal.any():
        reasons.append(_unequal(int(unequal.sum()), len(equal)))
        if rows["source"] != rows["target"]:
            reasons.append(f"the source has {rows['source']:,} rows, the target {rows['target']:,}")
        if threshold == 1:
            return Verdict.MISMATCH, reasons
        if value < threshold:
            return Verdict.MISMATCH, [*reasons, f"{PUBLISHED_SCORE} {value:.6g} is below the threshold {threshold:g}"]
        reasons.append(f"{PUBLISHED_SCORE} {value:.6g} is not below the threshold {threshold:g}")
        return (Verdict.UNKNOWN if skipped.any() else Verdict.MATCH), reasons
    if skipped.any():
        return Verdict.UNKNOWN, reasons
    return Verdict.MATCH, [NO_DIFFERENCE]


def _unequal(count: int, total: int) -> str:
    if total == 1:
        return "1 partition differs"
    return f"{count:,} of {total:,} partitions differ"


def _divergent(
    aligned: Aligned,
    index: int,
    similarity: float,
    measures: Sequence[str],
    label: Callable[[int | None], str],
) -> Divergent:
    sides = aligned.sides
    number = int(aligned.partition[index])
    partition = None if number == NULL_PARTITION else number
    at = {side: int(aligned.row_index[side][index]) for side in SIDES}
    least, greatest = aligned.key_range(index)
    return Divergent(
        partition=partition,
        key_range=(least, greatest) if least is not None and greatest is not None else None,
        label=label(partition),
        rows={side: int(sides[side].rows[at[side]]) if at[side] >= 0 else 0 for side in SIDES},
        similarity=None if np.isnan(similarity) else float(similarity),
        similarity_error=similarity_error(sides["source"].minhashes.shape[1]) if min(at.values()) >= 0 else None,
        measures=_differing_measures(sides, at, measures),
    )


def _differing_measures(sides: dict[Side, Summaries], at: dict[Side, int], names: Sequence[str]) -> tuple[str, ...]:
    """Return the measures that differ, one sentence each."""
    if min(at.values()) < 0:
        return ()
    mine, other = (sides[side].measures[at[side]] for side in SIDES)
    return tuple(f"{name}: {a} in the source, {b} in the target" for name, a, b in zip(names, mine, other, strict=False) if a != b)


def select_unresolved(aligned: Aligned, indices: Integers, at_least: Mapping[int, int], bits: int) -> Unresolved:
    """Return the summaries of unresolved partitions.

    ``indices`` are indices into ``aligned`` of partitions that both sides have, ``at_least`` maps some of them to the rows known to
    differ, ``bits`` is the width of a signature word.
    """
    shares = [aligned.sides[side].minhashes[aligned.row_index[side][indices]] for side in SIDES]
    k = shares[0].shape[1]
    return Unresolved(
        words=aligned.word_differences(indices),
        source=aligned.sides["source"].rows[aligned.row_index["source"][indices]],
        target=aligned.sides["target"].rows[aligned.row_index["target"][indices]],
        at_least=np.array([at_least.get(int(index), 0) for index in indices], np.int64),
        minhash=minhash.similarity(*shares) if k else np.full(len(indices), np.nan),
        k=k,
        bits=bits,
    )


def build_partition_map(aligned: Aligned, states: Mapping[int, str]) -> PartitionMap:
    """Return the partition map of a run.

    ``states`` maps ids of unequal partitions to the state (one of STATES) in which naming differences left them; the others are equal,
    skipped, source_only, target_only or unequal. The similarity of a partition that is missing on one side is 0.
    """
    count = len(aligned.partition)
    state = np.full(count, STATES.index("unequal"), np.uint8)
    state[aligned.equal] = STATES.index("equal")
    state[aligned.skipped] = STATES.index("skipped")
    state[aligned.unequal & ~aligned.present["target"]] = STATES.index("source_only")
    state[aligned.unequal & ~aligned.present["source"]] = STATES.index("target_only")
    for index in np.flatnonzero(aligned.unequal):
        if how := states.get(int(aligned.partition[index])):
            state[index] = STATES.index(how)
    similarity = np.full(count, np.nan, np.float32)
    similarity[aligned.equal] = 1.0
    shared = aligned.unequal & aligned.on_both
    if aligned.sides["source"].minhashes.shape[1]:
        similarity[shared] = minhash.similarity(*(aligned.sides[s].minhashes[aligned.row_index[s][shared]] for s in SIDES))
    similarity[aligned.unequal & ~shared] = 0.0
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    for index in np.flatnonzero(aligned.unequal):
        least[index], greatest[index] = aligned.key_range(int(index))
    return PartitionMap(aligned.partition, state, similarity, aligned.rows, least, greatest)
