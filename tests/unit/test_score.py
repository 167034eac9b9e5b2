"""The row-weighted similarity: its interval covers the true value, its hard bounds always do, and it is exact if all rows are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from auditor.compare import score
from auditor.compare.score import Unresolved
from auditor.model import Jaccard
from tests.simulated import PATTERNS, Simulated, table


def no_unresolved() -> Unresolved:
    none = np.zeros(0, np.int64)
    return Unresolved(np.zeros((0, 2), np.int64), none, none, none, np.zeros(0), 0, 30)


def estimate(one: Simulated) -> Jaccard:
    found = score.similarity(one.rows, 0, one.rest)
    assert found
    return found


def coverage(tables: int, k: int, words: int, bits: int) -> tuple[float, dict[str, tuple[float, float, float]]]:
    """Return the share of intervals that cover the true value; per pattern: that share, the median width, and the published bound's."""
    generator = np.random.default_rng(20240229)
    by_pattern = {}
    for pattern in PATTERNS:
        covered, widths, published = 0, [], []
        for _ in range(tables // len(PATTERNS)):
            one = table(generator, pattern, bits, words, k)
            found = estimate(one)
            assert found.least - 1e-12 <= one.true <= found.most + 1e-12, "the hard bounds cover the true value"
            assert found.least <= found.score.lower <= found.score.value <= found.score.upper <= found.most
            covered += found.score.lower - 1e-12 <= one.true <= found.score.upper + 1e-12
            widths.append(found.score.upper - found.score.lower)
            published.append(min(1.0, 2 * len(one.rest.source) / one.partitions / math.sqrt(k or 16)))
        by_pattern[pattern] = (covered / (tables // len(PATTERNS)), float(np.median(widths)), float(np.median(published)))
    return float(np.mean([share for share, _, _ in by_pattern.values()])), by_pattern


@pytest.mark.parametrize(("k", "words", "bits"), [(0, 2, 30), (16, 4, 32)], ids=["signature", "minhash"])
def test_interval_covers_the_true_similarity(k: int, words: int, bits: int) -> None:
    share, by_pattern = coverage(600, k, words, bits)
    assert share >= 0.94, by_pattern
    assert max(width for _, width, _ in by_pattern.values()) < 0.25, "an interval that covers everything says nothing"


def test_rows_on_one_side_have_the_parity_of_the_counts() -> None:
    """Of 10 and 11 rows at least 2 are known to be on one side only, so 3 are."""
    source, target, known = (np.array([rows]) for rows in (10, 11, 2))
    found = score.similarity(21, 0, Unresolved(np.zeros((1, 2), np.int64), source, target, known, np.array([np.nan]), 0, 30))
    assert found and found.most == pytest.approx((21 - 3) / (21 + 3))


@pytest.mark.slow
@pytest.mark.parametrize(("k", "words", "bits"), [(0, 2, 30), (16, 4, 32)], ids=["signature", "minhash"])
def test_interval_covers_the_true_similarity_of_many_tables(k: int, words: int, bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    share, by_pattern = coverage(10_000, k, words, bits)
    with capsys.disabled():
        print(f"\ncoverage {share:.4f} with k = {k}")
        for pattern, (covered, width, published) in by_pattern.items():
            print(f"  {pattern:<10} covers {covered:.3f}, median width {width:.4f}; the published bound's {published:.4f}")
    assert share >= 0.94, by_pattern


def test_similarity_is_exact_if_all_rows_are_known() -> None:
    """The worked example: 32 rows per side, two of them changed."""
    found = score.similarity(64, 4, no_unresolved())
    assert found
    assert (found.score.value, found.score.lower, found.score.upper) == (30 / 34, 30 / 34, 30 / 34)
    assert found.least == found.most == 30 / 34


def test_interval_by_minhash_is_as_wide_as_its_variance() -> None:
    """Of 100 and 100 rows that share half of 16 minhashes, D = rows (1 - f) / (1 + f), and dD/df = -2 rows / (1 + f)^2."""
    one = np.array([100])
    rest = Unresolved(np.array([[2 * 10**10, -2 * 10**10]]), one, one, np.array([0]), np.array([0.5]), 16, 32)
    found = score.similarity(200, 0, rest)
    differing, deviation = 200 / 3, 2 * 200 / 1.5**2 * math.sqrt(0.25 / 16)
    assert found
    for value, count in ((found.score.value, 0.0), (found.score.lower, score.Z), (found.score.upper, -score.Z)):
        rows = differing + count * deviation
        assert value == pytest.approx((200 - rows) / (200 + rows), rel=1e-9)


def test_uncompared_rows_widen_the_bounds() -> None:
    found = score.similarity(200, 0, no_unresolved(), unknown=20)
    assert found
    assert found.most == 1
    assert found.least == found.score.lower == (200 - 20) / (200 + 20)


def test_empty_tables_have_no_similarity() -> None:
    assert score.similarity(0, 0, no_unresolved()) is None
