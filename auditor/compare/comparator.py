"""Two sides' summaries to a verdict: which partitions are equal, which are not, which could not be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.compare import minhash, score
from auditor.model import NULL_PARTITION, SIDES, Comparison, Divergent, Side, Verdict
from auditor.summary import Integers, Summaries

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both sides' summaries by partition: row i of either side is at ``at[side][i]``, or -1 where the side lacks it.

    ``equal``, ``unequal`` and ``skipped`` flag each partition, exactly one of them.
    """

    sides: dict[Side, Summaries]
    partition: Integers
    at: dict[Side, Integers]
    equal: Flags
    unequal: Flags
    skipped: Flags

    def only(self, kept: Flags) -> Aligned:
        """These partitions alone."""
        at = {side: self.at[side][kept] for side in SIDES}
        return Aligned(self.sides, self.partition[kept], at, self.equal[kept], self.unequal[kept], self.skipped[kept])

    def on(self, side: Side) -> Flags:
        """Which partitions a side has."""
        return self.at[side] >= 0

    def id(self, index: int) -> int | None:
        """A partition's id as engines have it: None of the one of rows without a key."""
        number = int(self.partition[index])
        return None if number == NULL_PARTITION else number

    def rows(self, side: Side, index: int) -> int:
        """The rows of a side's partition, 0 where it lacks it."""
        at = int(self.at[side][index])
        return int(self.sides[side].rows[at]) if at >= 0 else 0

    def keys(self, index: int) -> tuple[int | None, int | None]:
        """The least and greatest key of a partition over both sides; None where keys have no order."""
        found: list[int] = []
        for side in SIDES:
            at, here = int(self.at[side][index]), self.sides[side]
            found += [key for key in (here.least[at], here.greatest[at]) if key is not None] if at >= 0 else []
        return min(found, default=None), max(found, default=None)

    @property
    def skipped_rows(self) -> int:
        """The rows of both sides in partitions that could not be compared."""
        return int(sum(self.sides[s].rows[self.at[s][self.skipped & self.on(s)]].sum() for s in SIDES))

    def words(self, chosen: Integers) -> Integers:
        """Target minus source of the signatures' words of these partitions, both of which are on both sides."""
        source, target = (self.sides[side].words[self.at[side][chosen]] for side in SIDES)
        return np.asarray(target - source, np.int64)


def align(source: Summaries, target: Summaries) -> Aligned:
    """Lay two sides of one plan beside each other and see which partitions are equal."""
    sides: dict[Side, Summaries] = {"source": source, "target": target}
    partition = np.union1d(source.partition, target.partition)
    at: dict[Side, Integers] = {}
    for side in SIDES:
        here = np.full(len(partition), -1, np.int64)
        here[np.searchsorted(partition, sides[side].partition)] = np.arange(len(sides[side]))
        at[side] = here
    both = (at["source"] >= 0) & (at["target"] >= 0)
    skipped = _skipped(sides, at)
    equal = np.zeros(len(both), np.bool_)
    equal[both] = _equal(sides, at, both)
    equal &= ~skipped
    return Aligned(sides, partition, at, equal, ~equal & ~skipped, skipped)


def compare(
    aligned: Aligned,
    *,
    threshold: float = 1.0,
    allow_empty: bool = False,
    measures: Sequence[str] = (),
    label: Callable[[int | None], str] = str,
) -> Comparison:
    """What the summaries say.

    ``threshold`` is the published score below which unequal partitions make a mismatch; ``measures`` names the columns of
    counts summaries; ``label`` says for a person what a partition is. Two empty tables are equal only with ``allow_empty``.
    """
    sides, equal, unequal, skipped = aligned.sides, aligned.equal, aligned.unequal, aligned.skipped
    k = sides["source"].minhashes.shape[1]
    similar = np.zeros(len(equal))
    shared = unequal & aligned.on("source") & aligned.on("target")
    similar[shared] = minhash.similarity(*(sides[s].minhashes[aligned.at[s][shared]] for s in SIDES)) if k else np.nan
    rows = {side: int(sides[side].rows.sum()) for side in SIDES}
    published = score.published(int(equal.sum()), similar[unequal], k)
    verdict, reasons = _verdict(rows, aligned, published.value if published else 0.0, threshold, allow_empty)
    return Comparison(
        verdict=verdict,
        reasons=tuple(reasons),
        published=published,
        rows=rows,
        total=len(equal),
        equal=int(equal.sum()),
        source_only=int((unequal & ~aligned.on("target")).sum()),
        target_only=int((unequal & ~aligned.on("source")).sum()),
        skipped=int(skipped.sum()),
        skipped_rows=aligned.skipped_rows,
        divergent=tuple(_divergent(aligned, int(i), similar[i], measures, label) for i in np.flatnonzero(unequal)),
    )


def _skipped(sides: dict[Side, Summaries], at: dict[Side, Integers]) -> Flags:
    """Partitions with a row that an engine could not build the text of: nothing is claimed of them."""
    skipped = np.zeros(len(at["source"]), np.bool_)
    for side in SIDES:
        here = at[side] >= 0
        skipped[here] |= (sides[side].rows != sides[side].hashed)[at[side][here]]
    return skipped


def _equal(sides: dict[Side, Summaries], at: dict[Side, Integers], both: Flags) -> Flags:
    """Which of the partitions on both sides are equal in their row counts, signatures and measures."""
    pairs: list[tuple[Any, Any]] = []
    for name in ("rows", "words", "syndromes", "measures"):
        mine, other = (getattr(sides[s], name)[at[s][both]] for s in SIDES)
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
        reasons.append(f"{int(skipped.sum()):,} partitions hold a row that could not be hashed, and were not compared")
    if unequal.any():
        reasons.append(f"{int(unequal.sum()):,} of {len(equal):,} partitions differ")
        if rows["source"] != rows["target"]:
            reasons.append(f"the source has {rows['source']:,} rows, the target {rows['target']:,}")
        if value >= threshold and threshold < 1:
            reasons.append(f"the score {value:.6g} is not below the threshold {threshold:g}")
            return (Verdict.UNKNOWN if skipped.any() else Verdict.MATCH), reasons
        return Verdict.MISMATCH, reasons
    if skipped.any():
        return Verdict.UNKNOWN, reasons
    return Verdict.MATCH, [f"all {len(equal):,} partitions are equal"]


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
    at = {side: int(aligned.at[side][index]) for side in SIDES}
    least, greatest = aligned.keys(index)
    return Divergent(
        partition=partition,
        key_range=(least, greatest) if least is not None and greatest is not None else None,
        label=label(partition),
        rows={side: int(sides[side].rows[at[side]]) if at[side] >= 0 else 0 for side in SIDES},
        similarity=None if np.isnan(similarity) else float(similarity),
        measures=_differing(sides, at, measures),
    )


def _differing(sides: dict[Side, Summaries], at: dict[Side, int], names: Sequence[str]) -> tuple[str, ...]:
    """The measures that differ, as sentences."""
    if min(at.values()) < 0:
        return ()
    mine, other = (sides[side].measures[at[side]] for side in SIDES)
    return tuple(f"{name}: {a} in the source, {b} in the target" for name, a, b in zip(names, mine, other, strict=False) if a != b)
