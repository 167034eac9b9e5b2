"""Find the differing positions of a partition from its power sums: Reed-Solomon decoding over GF(p), p = 2^31 - 1.

A partition's summary holds S_j = SUM(w * x^j mod p), j = 0 .. 2t - 1, with x a row's position (1 .. p - 1) and w its symbol, the
high 30 bits of a 60-bit prefix of the row hash; a position without a row has symbol 0. Target minus source is the sum over
differing positions of e_i * x_i^j: the syndromes of the difference, with locators x_i and values e_i. Berlekamp and Massey's
algorithm (Massey, "Shift-register synthesis and BCH decoding", IEEE Trans. Inf. Theory 15, 1969; here without inversions, after
Burton, 1971) finds the locator polynomial whenever at most t positions differ, and its roots are the positions.

A partition in which more positions differ is reported as undecodable, not guessed. That its locator polynomial nevertheless has all
its roots among its n positions has a chance of about (n / p)^t / t! (10^-19 for n = 1,024, t = 3; 10^-15 for the 32,768 positions of a
partition by hash or time). Accounting proves the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from auditor.summary.arrays import Integers
from auditor.summary.key_number import P

if TYPE_CHECKING:
    import numpy.typing as npt

WIDEST_EVALUATED = 1 << 11
"""Widest range of positions whose roots are found by evaluating the polynomial at every position."""

_BLOCK = 1 << 22
"""Values of locator polynomials computed at a time: 32 MB of int64."""


def differences(source: Integers, target: Integers) -> Integers:
    """Return target minus source modulo p, (partitions, sums) int64 in 0 .. p - 1; the arguments need not be reduced."""
    return np.asarray((target % P - source % P) % P, np.int64)


def decode(sums: Integers, t: int, width: int) -> list[tuple[int, ...] | None]:
    """Return for each partition the positions that differ, ascending, or None where they do not decode consistently.

    ``sums`` are the differences of the power sums in 0 .. p - 1, (partitions, 2t), for positions 1 .. ``width``.
    """
    if not len(sums):
        return []
    locators, degrees = locator_polynomials(sums)
    consistent = (degrees >= 1) & (degrees <= t)
    decoded: list[tuple[int, ...] | None] = [None] * len(sums)
    chosen = np.flatnonzero(consistent)
    locators = locators[:, : t + 1]
    if width <= WIDEST_EVALUATED:
        roots = _roots_by_evaluation(locators[chosen], width)
    else:
        roots = [_roots_of(locators[i], int(degrees[i]), width) for i in chosen]
    for index, positions in zip(chosen, roots, strict=True):
        if len(positions) == degrees[index]:
            decoded[index] = positions
    return decoded


def symbols_at(sums: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Return the values e_i, 0 .. p - 1, with sum of e_i * x_i^j = S_j for the given positions x_i: target minus source of each symbol.

    ``sums`` are one partition's differences, of which the first as many as there are positions decide; the positions are distinct.
    """
    rows = [[pow(x, j, P) for x in positions] + [int(sums[j]) % P] for j in range(len(positions))]
    for column in range(len(positions)):
        pivot = next(index for index in range(column, len(rows)) if rows[index][column])  # a Vandermonde matrix is regular
        rows[column], rows[pivot] = rows[pivot], rows[column]
        inverse = pow(rows[column][column], -1, P)
        rows[column] = [value * inverse % P for value in rows[column]]
        for index, row in enumerate(rows):
            if index != column and row[column]:
                rows[index] = [(a - row[column] * b) % P for a, b in zip(row, rows[column], strict=True)]
    return [row[-1] for row in rows]


def locator_polynomials(sums: Integers) -> tuple[Integers, Integers]:
    """Return the shortest linear recurrence of each row of ``sums``, (rows, length) int64 in 0 .. p - 1.

    The result is the connection polynomials C, (rows, length + 1) int64 with C_0 first, each up to a factor, and their degrees, (rows,).
    """
    rows, length = sums.shape
    current = np.zeros((rows, length + 1), np.int64)
    current[:, 0] = 1
    previous = current.copy()
    last = np.ones(rows, np.int64)
    degree = np.zeros(rows, np.int64)
    for step in range(length):
        terms = current[:, : step + 1] * sums[:, step::-1][:, : step + 1] % P
        discrepancy = terms.sum(axis=1) % P
        previous = np.roll(previous, 1, axis=1)
        previous[:, 0] = 0
        wrong = discrepancy != 0
        grows = wrong & (2 * degree <= step)
        # Products of two residues stay below 2^62, and so does their difference; % P makes it 0 .. p - 1.
        better = (last[:, None] * current - discrepancy[:, None] * previous % P) % P
        previous = np.where(grows[:, None], current, previous)
        current = np.where(wrong[:, None], better, current)
        last = np.where(grows, discrepancy, last)
        degree = np.where(grows, step + 1 - degree, degree)
    return current, degree


def _roots_by_evaluation(locators: Integers, width: int) -> list[tuple[int, ...]]:
    """Return for each locator polynomial the x in 1 .. width with C(1/x) = 0, that is, sum of C_j * x^(t-j) = 0."""
    x = np.arange(1, width + 1, dtype=np.int64)
    block = max(1, _BLOCK // width)
    roots: list[tuple[int, ...]] = []
    for start in range(0, len(locators), block):
        batch = locators[start : start + block]
        value = np.repeat(batch[:, :1], width, axis=1)
        for j in range(1, batch.shape[1]):
            value = (value * x + batch[:, j : j + 1]) % P
        at, position = np.nonzero(value == 0)
        cuts = np.searchsorted(at, np.arange(1, len(batch)))
        roots += [tuple(int(p) + 1 for p in positions) for positions in np.split(position, cuts)]
    return roots


def _roots_of(locator: npt.NDArray[np.int64], degree: int, width: int) -> tuple[int, ...]:
    """Return the positions in 1 .. width that are simple roots of a locator polynomial's reciprocal, by factoring it, ascending."""
    from flint import nmod_poly

    reciprocal = nmod_poly([int(c) for c in locator[degree::-1]], P)
    roots = cast("list[tuple[object, int]]", reciprocal.roots())
    positions = sorted(int(str(root)) for root, multiplicity in roots if multiplicity == 1)
    return tuple(position for position in positions if 1 <= position <= width)


def power_sums(rows: list[tuple[int, int]], count: int) -> list[int]:
    """Return S_0 .. S_(count-1) of (position, symbol) pairs in plain Python, each term reduced modulo p: the oracle for the SQL."""
    return [sum(symbol * pow(position, j, P) % P for position, symbol in rows) for j in range(count)]
