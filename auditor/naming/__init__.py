"""From unequal partitions to named differences: ranges, decoding, accounting, listing; what is left is estimated.

1. A partition that one side lacks altogether is a range difference, counted and not enumerated.
2. The others' syndromes are decoded; the rows at the positions found are fetched from both sides. Where they explain the
   partition's whole difference, in every word and in the count, it is accounted for: no other row of it differs.
3. Partitions that hold more differences than decode, but not very many, are summarised once more, cut into smaller ones.
4. What still did not decode, or was not accounted for, is listed: key and row hash of every row of it, within the limits.
5. The rest keeps the estimate that its signature gives.

Rows that were fetched have to account for what the scan saw. Those of a list do not where rows changed in between; where nothing can
have changed, or the rows of a partition are fewer and its summary of now is not equal either, they were not all found: the partition
is unaccounted for, and nothing is equal because of it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from auditor.compare import jaccard, ranges
from auditor.compare.comparator import Aligned
from auditor.compare.jaccard import Rest
from auditor.config import Limits
from auditor.model import SIDES, Difference, Differences, Jaccard, Plan, Side
from auditor.naming import _decoding, _listing, _refining
from auditor.naming._work import Both, Found, Naming, position_of
from auditor.render import WORD_BITS, integer_key
from dialects import Session

__all__ = ["Named", "estimate", "name_differences", "position_of"]


@dataclass(frozen=True, slots=True)
class Named:
    """The differences of a run, how each unequal partition (by id) was settled, and what the similarity is computed of.

    ``rows`` are both sides' together, ``unknown`` those of partitions that could not be compared, ``rest`` the partitions whose
    differences were not named, ``differing`` the rows that are on one side only.
    """

    differences: Differences
    states: Mapping[int, str]
    rows: int
    unknown: int
    rest: Rest
    differing: int

    def similarity(self, cleared: int = 0, unsettled: int = 0) -> Jaccard | None:
        """How similar the tables are, once so many of the differing rows turned out to be equal, or may yet."""
        return jaccard.similarity(self.rows, self.differing - cleared - unsettled, self.rest, self.unknown + unsettled)


def name_differences(
    plan: Plan,
    aligned: Aligned,
    limits: Limits,
    session: Callable[[Side], Session],
    both: Both,
    rescan: Callable[[Plan], Aligned],
    still: Callable[[], bool],
) -> Named:
    """Name what differs within the limits.

    ``session`` is a side's session of now. ``rescan`` summarises both sides again: at most once by a plan of smaller partitions, for
    those that hold more differences than decode but few enough to be named, and then partitions that emptied since the scan.
    ``still`` says whether both sides are seen as they were at the scan, up to now. Raises errors of the tree.
    """
    naming = Naming(plan, aligned, limits, session, both, rescan, still, time.monotonic() + limits.max_seconds, Found())
    rest = _settle(naming)
    naming.found.partitions["estimated"] = len(rest.source)
    rows = sum(int(aligned.sides[side].rows.sum()) for side in SIDES)
    return Named(_concluded(naming), naming.found.states, rows, aligned.skipped_rows, rest, naming.found.differing)


def _settle(naming: Naming) -> Rest:
    """Explain every unequal partition as far as the limits allow; the rest."""
    whole, how = not naming.again, naming.plan.partitioning
    stretches = ranges.one_sided(naming.aligned, how)
    naming.keep_stretches(stretches)
    naming.settled([one.begins for one in stretches if one.kind == "missing"], "source_only")
    naming.settled([one.begins for one in stretches if one.kind == "extra"], "target_only")
    naming.found.partitions["one_sided"] += len(stretches)
    decoded = _decoding.decoded(naming)
    overloaded = {index for index, positions in decoded.items() if positions is None}
    refined, finer = ([], None) if naming.again else _refining.finer(naming, sorted(overloaded))
    left = _decoding.accounted(naming, {index: found for index, found in decoded.items() if index not in set(refined)})
    left, within = _listing.listed_and_left(naming, left)
    naming.found.ranges += ranges.joined([*stretches, *within], how, [int(p) for p in naming.aligned.partition], whole)
    at_least = {index: naming.plan.t + 1 for index in left if index in overloaded and _decoding.has_syndromes(naming, index)}
    naming.settled(left, "estimated")
    naming.settled(refined, "refined")
    rest = jaccard.rest_of(naming.aligned, np.array(left, np.int64), at_least, WORD_BITS[naming.plan.method])
    if finer:
        naming.found.partitions["refined"] = len(refined)
        kept = _refining.within(naming.rescan(finer), naming, refined, finer)
        rest = jaccard.together(rest, _settle(dataclasses.replace(naming, plan=finer, aligned=kept, again=True)))
    return rest


def _concluded(naming: Naming) -> Differences:
    found = naming.found
    return Differences(
        missing=found.counts["missing"],
        extra=found.counts["extra"],
        changed=found.counts["changed"],
        exact=not (found.partitions["estimated"] or found.vanished or found.unaccounted or naming.aligned.skipped.any()),
        named=tuple(_in_order(naming.plan, found.named)),
        ranges=tuple(sorted(found.ranges, key=lambda one: (one.first is None, one.first or 0))),
        partitions=dict(found.partitions),
        vanished=found.vanished,
        unaccounted=found.unaccounted,
        tolerated=found.tolerated,
        why=found.why,
    )


def _in_order(plan: Plan, named: list[Difference]) -> list[Difference]:
    """Differences in the order of their keys, where these are numbers; those without a key last."""
    if not integer_key(plan):
        return named
    return sorted(named, key=lambda one: (None in one.key.values(), one.key_number))


def estimate(plan: Plan, aligned: Aligned) -> Jaccard | None:
    """How similar the tables are by a method that names no differences: every unequal partition on both sides is estimated."""
    stretches = ranges.one_sided(aligned, plan.partitioning)
    rest = np.flatnonzero(aligned.unequal & aligned.on("source") & aligned.on("target"))
    return jaccard.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(stretch.rows for stretch in stretches),
        rest=jaccard.rest_of(aligned, rest, {}, WORD_BITS[plan.method]),
        unknown=aligned.skipped_rows,
    )
