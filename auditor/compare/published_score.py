"""The published score and its published bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from auditor.model import Score
from auditor.summary.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt


def score(equal: int, similarities: npt.NDArray[np.float64], k: int) -> Score | None:
    """Return the published score of ``equal`` equal partitions and the unequal ones; None where there is no partition.

    ``similarities``, (n,) in 0 .. 1, are the shares of equal minhashes of the n unequal partitions. With m equal partitions and
    N = m + n, score = (m + sum of similarities) / N, and its bound is (n / N) / sqrt(k), clipped to [0, 1]. The bound is the published
    one; it is no confidence interval for the table's Jaccard similarity. Without minhashes (k = 0) similarities are NaN: such a
    partition counts as 0, and as 1 in the upper bound.
    """
    unequal = len(similarities)
    total = equal + unequal
    if not total:
        return None
    value = (equal + float(np.nansum(similarities))) / total
    if not k:
        return Score(value, value, value + int(np.isnan(similarities).sum()) / total)
    bound = unequal / total / math.sqrt(k)
    return Score(value, max(0.0, value - bound), min(1.0, value + bound))
