"""Decoding syndromes: up to t differences are recovered exactly; more than t are flagged as undecodable."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.compare import syndromes
from auditor.compare.syndromes import decode, power_sums
from auditor.summary.key_number import POSITIONS, P

WIDTH = 1024
Rows = dict[int, int]
"""A partition: its symbols by position."""


def sum_differences(source: Rows, target: Rows, count: int) -> list[int]:
    mine, other = (power_sums(list(rows.items()), count) for rows in (source, target))
    return [int(n) for n in syndromes.differences(np.array(mine, np.int64), np.array(other, np.int64))]


@st.composite
def damaged(draw: st.DrawFn, max_changes: int, width: int) -> tuple[Rows, Rows, set[int]]:
    """Generate a partition, a copy with up to ``max_changes`` rows missing, extra or changed, and the positions of these."""
    symbols = st.integers(0, 2**30 - 1)
    source: Rows = draw(st.dictionaries(st.integers(1, width), symbols, max_size=20))
    target = dict(source)
    changed: set[int] = set()
    for _ in range(draw(st.integers(0, max_changes))):
        position = draw(st.sampled_from(sorted(source)) | st.integers(1, width) if source else st.integers(1, width))
        if position in changed:
            continue
        changed.add(position)
        if position in target and draw(st.booleans()):
            del target[position]
        else:
            target[position] = draw(symbols)
    return source, target, {p for p in changed if source.get(p, 0) != target.get(p, 0)}


@pytest.mark.parametrize("t", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("hashed", [False, True], ids=["range", "hash"])
@settings(max_examples=60)
@given(data=st.data())
def test_up_to_t_differences_are_recovered_exactly(t: int, hashed: bool, data: st.DataObject) -> None:
    width = POSITIONS if hashed else WIDTH
    source, target, expected = data.draw(damaged(t, width))
    sums = sum_differences(source, target, 2 * t)
    found = decode(np.array([sums], np.int64), t, width)
    assert found == [tuple(sorted(expected)) if expected else None]
    differing = sorted(expected)
    symbols = [(target.get(position, 0) - source.get(position, 0)) % P for position in differing]
    assert syndromes.symbols_at(sums, differing) == symbols


@pytest.mark.parametrize("t", [1, 3, 8])
@pytest.mark.parametrize("hashed", [False, True], ids=["range", "hash"])
def test_more_than_t_differences_are_flagged_and_never_guessed(t: int, hashed: bool) -> None:
    """The probability of a wrong decode is (n/p)^t / t!, so 1,500 samples should have none: at t = 1 it is one in 65,536 at most."""
    generator = random.Random(t)
    width = POSITIONS if hashed else WIDTH
    rows = []
    for number in range(1500):
        positions = generator.sample(range(1, width), t + 1 + number % (2 * t + 3))
        errors = {position: generator.randrange(1, P) for position in positions}
        rows.append(power_sums(list(errors.items()), 2 * t))
    found = decode(np.array(rows, np.int64) % P, t, width)
    assert found == [None] * len(rows)


def test_wide_range_is_decoded_within_its_positions() -> None:
    wide = 1 << 20
    sums = power_sums([(wide, 5), (70_000, 9)], 6)
    assert decode(np.array([sums], np.int64), 3, wide) == [(70_000, wide)]
    assert decode(np.array([sums], np.int64), 3, wide - 1) == [None]


def test_rate_of_wrong_decodes_is_as_documented() -> None:
    """At t = 1 every overloaded partition has a root, which lies in a range of n with probability n / p; here n = p / 8."""
    generator = random.Random(7)
    width = P // 8
    rows = [power_sums([(generator.randrange(1, P), generator.randrange(1, P)) for _ in range(3)], 2) for _ in range(4000)]
    wrong = sum(found is not None for found in decode(np.array(rows, np.int64) % P, 1, width))
    assert 400 < wrong < 600, "about one in eight"


def test_zero_syndromes_decode_to_no_differences() -> None:
    assert decode(np.zeros((2, 6), np.int64), 3, WIDTH) == [None, None]
    assert decode(np.zeros((0, 6), np.int64), 3, WIDTH) == []
