"""The picture of a whole table after a run: what became of each of its partitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from auditor.compare import minhash
from auditor.compare.comparator import Aligned
from auditor.model import SIDES, Side
from auditor.packed import STATES, Picture


def draw(aligned: Aligned, states: Mapping[int, str]) -> Picture:
    """The picture of what was summarised; ``states`` says how unequal partitions (by id) were settled."""
    count = len(aligned.partition)
    state = np.full(count, STATES.index("unequal"), np.uint8)
    state[aligned.equal] = STATES.index("equal")
    state[aligned.skipped] = STATES.index("skipped")
    state[aligned.unequal & ~aligned.on("target")] = STATES.index("source_only")
    state[aligned.unequal & ~aligned.on("source")] = STATES.index("target_only")
    for index in np.flatnonzero(aligned.unequal):
        if how := states.get(int(aligned.partition[index])):
            state[index] = STATES.index(how)
    rows = {side: _rows(aligned, side) for side in SIDES}
    similarity = np.full(count, np.nan, np.float32)
    similarity[aligned.equal] = 1.0
    shared = aligned.unequal & aligned.on("source") & aligned.on("target")
    if aligned.sides["source"].minhashes.shape[1]:
        similarity[shared] = minhash.similarity(*(aligned.sides[s].minhashes[aligned.at[s][shared]] for s in SIDES))
    similarity[aligned.unequal & ~shared] = 0.0
    least, greatest = np.empty(count, np.object_), np.empty(count, np.object_)
    for index in np.flatnonzero(aligned.unequal):
        least[index], greatest[index] = aligned.keys(int(index))
    return Picture(aligned.partition, state, similarity, rows, least, greatest)


def _rows(aligned: Aligned, side: Side) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rows = np.zeros(len(aligned.partition), np.int64)
    here = aligned.on(side)
    rows[here] = aligned.sides[side].rows[aligned.at[side][here]]
    return rows
