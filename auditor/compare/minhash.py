"""MinHash: the constants of the k hash functions, and how similar two partitions are.

Broder, "On the resemblance and containment of documents" (1997): the share of k minimum hashes that two sets have in common
estimates their Jaccard similarity with variance J(1-J)/k.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MODULUS = 2305843009213693951
"""2^61 - 1, a prime: minhash i of a row is ((seed * a_i + b_i) % MODULUS) & MASK, with seed the fourth 32-bit word of its hash."""

MASK = 2147483647

_PUBLISHED = (
    (1285533145, 1655539436),
    (1350832907, 492214603),
    (1235092432, 1629043653),
    (176256801, 205743474),
)
"""The four pairs of the published example."""

_SEED = 20130101
"""The constants after the published four come from Python's Mersenne Twister with this seed."""


def constants(k: int) -> list[tuple[int, int]]:
    """The pairs (a_i, b_i) of ``k`` hash functions, 0 < a, b < 2^31: the published four first, then as many as are wanted.

    The first ones are the same for every k. seed * a + b stays below 2^63 for every seed below 2^32.
    """
    generator = random.Random(_SEED)
    more = [(generator.randrange(1, MASK), generator.randrange(1, MASK)) for _ in range(max(0, k - len(_PUBLISHED)))]
    return [*_PUBLISHED, *more][:k]


def similarity(source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The share of equal minhashes of each partition; both arrays are (partitions, k)."""
    shares: npt.NDArray[np.float64] = (source == target).mean(axis=1)
    return shares


def of_seed(seed: int, k: int) -> list[int]:
    """The k minhash values of one row, in plain Python: the oracle of the SQL."""
    return [((seed * a + b) % MODULUS) & MASK for a, b in constants(k)]
