"""The published score and its published bound."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from auditor.model import Score


def published(equal: int, similarities: npt.NDArray[np.float64], k: int) -> Score | None:
    """The published score of ``equal`` equal partitions and the unequal ones' similarities; None where there is no partition.

    score = (m + sum of similarities) / N over N partitions of which m are equal; bound = (n / N) / sqrt(k) with n unequal
    ones, clipped to [0, 1]. The bound is the published one; it is no confidence interval for a table's Jaccard similarity.
    A similarity that no minhash tells (``k`` is 0) is NaN: such a partition counts 0, and the upper bound lets it be 1.
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
