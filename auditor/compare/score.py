"""The two scores of a run: the similarity of all rows (`similarity`), and the published score (`published_score`).

Verdicts compare the **similarity** with the threshold (`verdict`): the row-weighted Jaccard similarity of two tables with an interval,
exact where differences were named, estimated elsewhere. The **published score** is an average over partitions, as the published method
defines it, and is shown beside; a verdict compares it under the method counts alone, which knows no similarity (`comparator.compare`).

The tables A and B are multisets of rows. With T rows on both sides together, D of which are on one side only (a changed row counts
on both), J = |A and B| / |A or B| = (T - D) / (T + D), in 0 .. 1. J falls as D grows, so bounds for D are bounds for J.

**D from the signature.** A w-bit word of a good hash is uniform on 0 .. 2^w - 1 (w = 30, or 32 in the published encoding), with
mean mu = (2^w - 1) / 2 and variance sigma^2 = (2^(2w) - 1) / 12. Let d be the difference of a partition's sums of a word, less mu
times the difference of its row counts. Then E[d^2] = sigma^2 D: the tug-of-war sketch (Alon, Matias and Szegedy, "The space
complexity of approximating the frequency moments", 1996), free of cost because the sums are the signature. With q = d^2 / sigma^2,
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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from auditor.model import Jaccard, Score
from auditor.summary.arrays import Integers

if TYPE_CHECKING:
    import numpy.typing as npt

Z = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""

VARIANCE_FACTOR = 2.0
"""Factor on the estimated variance. Where one partition holds most of the differences, only its own sums show it, and by chance they
may be too small. In simulations the interval then covers the true value for 97 % of tables (94 % without the factor)."""

MINHASH_BELOW = 1 / 3
"""Similarity below which minhash has the smaller variance; the two cross near 0.35."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The n unequal partitions that both sides have and whose differences were not named."""

    words: Integers
    """Target minus source of the signatures' word sums, (n, words) int64."""
    source: Integers
    """Rows of the source, (n,) int64."""
    target: Integers
    """Rows of the target, (n,) int64."""
    at_least: Integers
    """Rows known to be on one side only, (n,) int64; 0 where nothing is known."""
    minhash: npt.NDArray[np.float64]
    """Share of equal minhashes, (n,) in 0 .. 1; NaN for k = 0."""
    k: int
    """Minhashes per partition; 0 for none."""
    bits: int
    """Width of a signature word in bits."""


def merge(first: Unresolved, second: Unresolved) -> Unresolved:
    """Return the unresolved partitions of two scans together; minhashes are used only if both scans have them."""
    return Unresolved(
        words=np.concatenate([first.words, second.words]),
        source=np.concatenate([first.source, second.source]),
        target=np.concatenate([first.target, second.target]),
        at_least=np.concatenate([first.at_least, second.at_least]),
        minhash=np.concatenate([first.minhash, second.minhash]),
        k=min(first.k, second.k),
        bits=first.bits,
    )


def estimate_differing(rest: Unresolved) -> float:
    """Return an estimate of D, the rows of these partitions that are on one side only."""
    return _estimate(rest)[0]


def estimate_rows(rest: Unresolved, share: float | None = None) -> int:
    """Return about how many rows of these partitions differ, a changed one counting once.

    ``share`` is how many rows that is, at the known differences, for each row that is on one side only: 1/2 if all are changed. It is
    that of as many changed rows as possible if nothing is known.
    """
    least, most = _hard_bounds(rest)
    differing = float(np.clip(_estimate(rest)[0], least.sum(), most.sum()))
    fewest = (differing + float(np.abs(rest.target - rest.source).sum())) / 2
    return round(fewest if share is None else min(max(differing * share, fewest), differing))


def similarity(rows: int, differing: int, rest: Unresolved, unknown: int = 0) -> Jaccard | None:
    """Return the similarity of two tables; None if they have no rows.

    ``rows`` is T, the rows of both together, ``differing`` those known to be on one side only. ``unknown`` rows of partitions that could
    not be compared widen the lower bounds, as if all of them differed.
    """
    if not rows:
        return None
    least, most = _hard_bounds(rest)
    estimate, lower, upper = _estimate(rest)
    estimate, lower, upper = (float(np.clip(value, least.sum(), most.sum())) for value in (estimate, lower, upper))
    known, open_ended = float(differing), float(unknown)
    value, low, high = (_jaccard(rows, d) for d in (known + estimate, known + upper + open_ended, known + lower))
    return Jaccard(
        score=Score(value, low, high),
        least=_jaccard(rows, known + float(most.sum()) + open_ended),
        most=_jaccard(rows, known + float(least.sum())),
        differing=known + estimate,
    )


def published_score(equal: int, similarities: npt.NDArray[np.float64], k: int) -> Score | None:
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


def _jaccard(rows: int, differing: float) -> float:
    return max(0.0, (rows - differing) / (rows + differing))


def _hard_bounds(rest: Unresolved) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the least and the most rows of each partition that can be on one side only, both (n,)."""
    gap = np.abs(rest.target - rest.source)
    least = np.maximum(np.where(gap == 0, 2, gap), rest.at_least)
    least = least + (least - gap) % 2  # D has the parity of gap
    most = rest.source + rest.target
    return np.minimum(least, most).astype(np.float64), most.astype(np.float64)


def _estimate(rest: Unresolved) -> tuple[float, float, float]:
    """Return D of the unresolved partitions with the ends of its 95 % interval."""
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
    if rest.k and _jaccard(int(rows), min(estimate, rows)) < MINHASH_BELOW:
        return _estimate_by_minhash(rest)
    spread = VARIANCE_FACTOR * (2.8 * estimate + 2 * max(squares - 2 * estimate, 0.0)) / words
    return estimate, *_interval(estimate, spread, len(rest.source) * words)


def _interval(estimate: float, spread: float, terms: int) -> tuple[float, float]:
    """Return the 95 % interval of D: estimate * nu / chi-square(nu) at 97.5 % and 2.5 %, with nu = 2 D^2 / variance."""
    if estimate <= 0:
        return 0.0, math.inf
    freedom = max(min(2 * estimate**2 / max(spread, 1e-9), float(terms)), 1.0)
    return estimate * freedom / _chi_square(freedom, Z), estimate * freedom / _chi_square(freedom, -Z)


def _chi_square(freedom: float, z: float) -> float:
    """Return a quantile of the chi-square distribution from the normal one (Wilson and Hilferty, 1931), bounded away from zero."""
    cube = 1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))
    return freedom * max(cube, 0.05) ** 3


def _estimate_by_minhash(rest: Unresolved) -> tuple[float, float, float]:
    rows = (rest.source + rest.target).astype(np.float64)
    f = rest.minhash
    differing = rows * (1 - f) / (1 + f)
    # Two successes and two failures are added, so that shares of 0 and 1 have a variance too (Agresti and Coull, 1998).
    near = (f * rest.k + 2) / (rest.k + 4)
    spread = float((4 * rows**2 / (1 + near) ** 4 * near * (1 - near) / rest.k).sum())
    width = Z * math.sqrt(spread)
    total = float(differing.sum())
    return total, total - width, total + width
