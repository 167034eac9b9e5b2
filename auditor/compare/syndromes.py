"""Which positions of a partition differ, from the difference of its power sums: Reed-Solomon decoding over GF(2^31 - 1).

A partition's summary holds S_j = SUM(w * x^j mod p), with x a row's position and w its symbol. Target minus source is the sum
over differing positions of e_i * x_i^j: the syndromes of the difference, with locators x_i. Berlekamp and Massey's algorithm
(Massey, "Shift-register synthesis and BCH decoding", IEEE Trans. Inf. Theory 15, 1969; here without inversions, after
Burton, 1971) finds the locator polynomial whenever at most t positions differ, and its roots are the positions.

A partition in which more positions differ is flagged, not guessed. That its locator polynomial nevertheless has all its roots
among the n positions of a range has a chance of about (n / p)^t / t! (10^-19 for n = 1,024, t = 3); positions taken from a hash
have two spare sums, which an overloaded partition meets by chance once in p^2. Accounting proves the rest.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from auditor.field import P
from auditor.summary import Integers

WIDEST_EVALUATED = 1 << 16
"""The widest range whose roots are found by trying every position."""

_BLOCK = 1 << 22
"""Values of a locator polynomial computed at a time (32 MB)."""


def differences(source: Integers, target: Integers) -> Integers:
    """Target minus source modulo p; both are (partitions, sums), unreduced."""
    return np.asarray((target % P - source % P) % P, np.int64)


def decode(sums: Integers, t: int, width: int | None) -> list[tuple[int, ...] | None]:
    """For each partition the positions that differ, ascending, or None where they do not decode consistently.

    ``sums`` is (partitions, 2t) for positions 1 .. ``width``, or (partitions, 2t + 2) for hashed positions (``width`` None).
    """
    if not len(sums):
        return []
    locators, degrees = locator_polynomials(sums)
    consistent = (degrees >= 1) & (degrees <= t)
    found: list[tuple[int, ...] | None] = [None] * len(sums)
    chosen = np.flatnonzero(consistent)
    locators = locators[:, : t + 1]
    if width is not None and width <= WIDEST_EVALUATED:
        roots = _roots_by_evaluation(locators[chosen], width)
    else:
        roots = [_roots_of(locators[i], int(degrees[i]), width or P - 1) for i in chosen]
    for index, positions in zip(chosen, roots, strict=True):
        if len(positions) == degrees[index]:
            found[index] = positions
    return found


def locator_polynomials(sums: Integers) -> tuple[Integers, Integers]:
    """The shortest linear recurrence of each row: its connection polynomial C (C_0 first, up to a factor) and its length."""
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
        better = (last[:, None] * current - discrepancy[:, None] * previous % P) % P
        # The product of two residues stays below 2^62; their difference is reduced to 0 .. p - 1.
        previous = np.where(grows[:, None], current, previous)
        current = np.where(wrong[:, None], better, current)
        last = np.where(grows, discrepancy, last)
        degree = np.where(grows, step + 1 - degree, degree)
    return current, degree


def _roots_by_evaluation(locators: Integers, width: int) -> list[tuple[int, ...]]:
    """The x in 1 .. width with C(1/x) = 0, that is sum of C_j * x^(t-j) = 0, for each locator polynomial."""
    x = np.arange(1, width + 1, dtype=np.int64)
    block = max(1, _BLOCK // width)
    found: list[tuple[int, ...]] = []
    for start in range(0, len(locators), block):
        some = locators[start : start + block]
        value = np.repeat(some[:, :1], width, axis=1)
        for j in range(1, some.shape[1]):
            value = (value * x + some[:, j : j + 1]) % P
        at, position = np.nonzero(value == 0)
        cuts = np.searchsorted(at, np.arange(1, len(some)))
        found += [tuple(int(p) + 1 for p in positions) for positions in np.split(position, cuts)]
    return found


def _roots_of(locator: npt.NDArray[np.int64], degree: int, width: int) -> tuple[int, ...]:
    """The roots of a locator polynomial's reciprocal, by factoring it; empty if it does not split into distinct positions."""
    from flint import nmod_poly

    reciprocal = nmod_poly([int(c) for c in locator[degree::-1]], P)
    roots = cast("list[tuple[object, int]]", reciprocal.roots())
    positions = sorted(int(str(root)) for root, multiplicity in roots if multiplicity == 1)
    return tuple(position for position in positions if 1 <= position <= width)


def power_sums(rows: list[tuple[int, int]], count: int) -> list[int]:
    """S_0 .. S_(count-1) of (position, symbol) pairs, each term reduced, in plain Python: the oracle of the SQL."""
    return [sum(symbol * pow(position, j, P) % P for position, symbol in rows) for j in range(count)]
