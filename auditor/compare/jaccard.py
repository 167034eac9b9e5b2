"""How similar two tables are as multisets of rows, with an interval: exact where differences were named, estimated elsewhere.

With T rows on both sides together and D rows that are on one side only (a changed row counts on both), the similarity is
J = |A and B| / |A or B| = (T - D) / (T + D). It falls as D grows, so bounds for D are bounds for J.

**D from the signature.** A word of w bits of a good hash is uniform, with mean mu = (2^w - 1) / 2 and variance
sigma^2 = (2^2w - 1) / 12. Let d be the difference of a partition's sums of a word, less mu times the difference of its row
counts. Then E[d^2] = sigma^2 D: the tug-of-war sketch (Alon, Matias and Szegedy, "The space complexity of approximating the
frequency moments", 1996), which costs nothing here because the sums are the signature. With q = d^2 / sigma^2,
E[d^4] = (3 D^2 - 1.2 D) sigma^4, so (q^2 + 1.2 q) / 3 estimates D^2 of a partition, and the estimate's variance is
(2.8 D + 2 max(sum D_i^2 - 2 D, 0)) / words. The interval is that of a chi-square variable with the same mean and variance
(Satterthwaite, 1946).

**D from minhashes.** Where the rest is mostly different (J below 1/3) minhash is the better estimator: I = T f / (1 + f) rows
are common to both sides of a partition of which the share f of minhashes is equal (Broder, 1997).

**Hard bounds.** D of an unequal partition has the parity of the difference of its counts, is at least that difference and at
most all its rows; it is at least 2 where the counts are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auditor.compare import minhash
from auditor.compare.comparator import Aligned
from auditor.model import SIDES, Jaccard, Score
from auditor.summary import Integers

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""

CAUTION = 2.0
"""What the estimated variance is multiplied by: where one partition holds most of the differences, its own sums are the only
witness of that, and by chance say too little. Simulated, the interval then holds the truth for 97 % of tables (94 % without)."""

MINHASH_BELOW = 1 / 3
"""Below this similarity minhash has the smaller variance (the two cross near 0.35)."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Unequal partitions on both sides whose differences were not named.

    ``words`` (n, words) is target minus source, ``source`` and ``target`` (n,) the row counts, ``at_least`` (n,) how many rows are
    known to differ (0 where nothing is known), ``minhash`` (n,) the share of ``k`` minhashes that are equal, or NaN for k = 0,
    ``bits`` the width of a word.
    """

    words: Integers
    source: Integers
    target: Integers
    at_least: Integers
    minhash: npt.NDArray[np.float64]
    k: int
    bits: int


def rest_of(aligned: Aligned, indices: Integers, at_least: Mapping[int, int], bits: int) -> Rest:
    """What the summaries say of these partitions (by index), all of them on both sides; ``bits`` is a signature word's width."""
    shares = [aligned.sides[side].minhashes[aligned.at[side][indices]] for side in SIDES]
    k = shares[0].shape[1]
    return Rest(
        words=aligned.words(indices),
        source=aligned.sides["source"].rows[aligned.at["source"][indices]],
        target=aligned.sides["target"].rows[aligned.at["target"][indices]],
        at_least=np.array([at_least.get(int(index), 0) for index in indices], np.int64),
        minhash=minhash.similarity(*shares) if k else np.full(len(indices), np.nan),
        k=k,
        bits=bits,
    )


def together(first: Rest, second: Rest) -> Rest:
    """Partitions of two scans as one rest; minhashes count only where both have them."""
    return Rest(
        words=np.concatenate([first.words, second.words]),
        source=np.concatenate([first.source, second.source]),
        target=np.concatenate([first.target, second.target]),
        at_least=np.concatenate([first.at_least, second.at_least]),
        minhash=np.concatenate([first.minhash, second.minhash]),
        k=min(first.k, second.k),
        bits=first.bits,
    )


def differing(rest: Rest) -> float:
    """An estimate of how many rows of these partitions are on one side only."""
    return _estimated(rest)[0]


def similarity(rows: int, differing: int, rest: Rest, unknown: int = 0) -> Jaccard | None:
    """The similarity of two tables of ``rows`` rows together, ``differing`` of which are known to be on one side only.

    ``unknown`` rows are in partitions that could not be compared, and may be anything. None where there are no rows.
    """
    if not rows:
        return None
    least, most = _hard(rest)
    estimate, lower, upper = _estimated(rest)
    estimate, lower, upper = (float(np.clip(value, least.sum(), most.sum())) for value in (estimate, lower, upper))
    known, open_ended = float(differing), float(unknown)
    value, low, high = (_of(rows, d) for d in (known + estimate, known + upper + open_ended, known + lower))
    return Jaccard(
        score=Score(value, low, high),
        least=_of(rows, known + float(most.sum()) + open_ended),
        most=_of(rows, known + float(least.sum())),
        differing=known + estimate,
    )


def _of(rows: int, differing: float) -> float:
    return max(0.0, (rows - differing) / (rows + differing))


def _hard(rest: Rest) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The least and the most rows of each partition that can be on one side only."""
    gap = np.abs(rest.target - rest.source)
    least = np.maximum(np.where(gap == 0, 2, gap), rest.at_least)
    least = least + (least - gap) % 2  # D has the parity of the difference of counts
    most = rest.source + rest.target
    return np.minimum(least, most).astype(np.float64), most.astype(np.float64)


def _estimated(rest: Rest) -> tuple[float, float, float]:
    """D of the rest, with the ends of its 95 % interval."""
    if not len(rest.source):
        return 0.0, 0.0, 0.0
    mean = (2.0**rest.bits - 1) / 2
    variance = (2.0 ** (2 * rest.bits) - 1) / 12
    gap = (rest.target - rest.source).astype(np.float64)
    deviation = rest.words.astype(np.float64) - mean * gap[:, None]
    square = deviation**2 / variance
    words = square.shape[1]
    estimate = float(square.sum() / words)
    squares = float(((square**2 + 1.2 * square) / 3).sum() / words)
    rows = float((rest.source + rest.target).sum())
    if rest.k and _of(int(rows), min(estimate, rows)) < MINHASH_BELOW:
        return _by_minhash(rest)
    spread = CAUTION * (2.8 * estimate + 2 * max(squares - 2 * estimate, 0.0)) / words
    return estimate, *_interval(estimate, spread, len(rest.source) * words)


def _interval(estimate: float, spread: float, terms: int) -> tuple[float, float]:
    """The 95 % interval of D for an estimate of that variance: estimate * nu / chi-square with nu = 2 D^2 / variance."""
    if estimate <= 0:
        return 0.0, math.inf
    freedom = max(min(2 * estimate**2 / max(spread, 1e-9), float(terms)), 1.0)
    return estimate * freedom / _chi_square(freedom, Z), estimate * freedom / _chi_square(freedom, -Z)


def _chi_square(freedom: float, z: float) -> float:
    """A quantile of the chi-square distribution, from the normal one (Wilson and Hilferty, 1931), kept off zero."""
    cube = 1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))
    return freedom * max(cube, 0.05) ** 3


def _by_minhash(rest: Rest) -> tuple[float, float, float]:
    rows = (rest.source + rest.target).astype(np.float64)
    f = rest.minhash
    differing = rows * (1 - f) / (1 + f)
    # A share of 0 or 1 has a spread too: two successes and two failures are added (Agresti and Coull, 1998).
    near = (f * rest.k + 2) / (rest.k + 4)
    spread = float((4 * rows**2 / (1 + near) ** 4 * near * (1 - near) / rest.k).sum())
    width = Z * math.sqrt(spread)
    total = float(differing.sum())
    return total, total - width, total + width
