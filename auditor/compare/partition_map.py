"""Build the partition map: the state of every partition after a run."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.compare.comparator import Aligned
from auditor.model import SIDES
from auditor.summary import minhash
from auditor.summary.codec import STATES, PartitionMap
from auditor.summary.lazy_numpy import np


def build(aligned: Aligned, states: Mapping[int, str]) -> PartitionMap:
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
