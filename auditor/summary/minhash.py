"""MinHash: the constants of the k hash functions, and the similarity of two partitions.

Minhash i of a partition is the minimum over its rows of ((seed * a_i + b_i) mod (2^61 - 1)) & (2^31 - 1), where seed is a 32-bit word
of the row hash (the fourth in the published encoding). The share of k minhashes that two sets have in common estimates their Jaccard
similarity J with variance J (1 - J) / k (Broder, "On the resemblance and containment of documents", 1997).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MODULUS = 2305843009213693951
"""2^61 - 1, a prime."""

LOW_BITS = 2147483647
"""2^31 - 1: the low 31 bits, of which a minhash consists."""

_PUBLISHED = (
    (1285533145, 1655539436),
    (1350832907, 492214603),
    (1235092432, 1629043653),
    (176256801, 205743474),
)
"""Pairs (a_i, b_i) of the published example."""

_SEED = 20130101
"""Seed of Python's Mersenne Twister, which generates the pairs after the published four."""


def constants(k: int) -> list[tuple[int, int]]:
    """Return the pairs (a_i, b_i) of ``k`` hash functions, 0 < a, b < 2^31: the published four, then generated ones.

    A larger k appends pairs and changes none. seed * a + b stays below 2^63 for every seed below 2^32.
    """
    generator = random.Random(_SEED)
    generated = [(generator.randrange(1, LOW_BITS), generator.randrange(1, LOW_BITS)) for _ in range(max(0, k - len(_PUBLISHED)))]
    return [*_PUBLISHED, *generated][:k]


def similarity(source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the share of equal minhashes of each partition, (n,) in 0 .. 1; both arrays are (n, k) with k at least 1."""
    shares: npt.NDArray[np.float64] = (source == target).mean(axis=1)
    return shares


def row_minhashes(seed: int, k: int) -> list[int]:
    """Return the k minhashes of one row in plain Python: the oracle for the SQL. ``seed`` is below 2^32."""
    return [((seed * a + b) % MODULUS) & LOW_BITS for a, b in constants(k)]
