"""The interval of the row-weighted similarity holds the truth, its hard bounds always; and it is exact where all is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from auditor.compare import jaccard
from auditor.compare.jaccard import Rest
from auditor.model import Jaccard
from tests.simulated import PATTERNS, Simulated, table


def nothing() -> Rest:
    none = np.zeros(0, np.int64)
    return Rest(np.zeros((0, 2), np.int64), none, none, none, np.zeros(0), 0, 30)


def estimated(one: Simulated) -> Jaccard:
    found = jaccard.similarity(one.rows, 0, one.rest)
    assert found
    return found


def coverage(tables: int, k: int, words: int, bits: int) -> tuple[float, dict[str, tuple[float, float, float]]]:
    """The share of intervals that hold the truth; per pattern that share, the median width, and the published bound's."""
    generator = np.random.default_rng(20240229)
    told = {}
    for pattern in PATTERNS:
        held, widths, published = 0, [], []
        for _ in range(tables // len(PATTERNS)):
            one = table(generator, pattern, bits, words, k)
            found = estimated(one)
            assert found.least - 1e-12 <= one.true <= found.most + 1e-12, "a hard bound"
            assert found.least <= found.score.lower <= found.score.value <= found.score.upper <= found.most
            held += found.score.lower - 1e-12 <= one.true <= found.score.upper + 1e-12
            widths.append(found.score.upper - found.score.lower)
            published.append(min(1.0, 2 * len(one.rest.source) / one.partitions / math.sqrt(k or 16)))
        told[pattern] = (held / (tables // len(PATTERNS)), float(np.median(widths)), float(np.median(published)))
    return float(np.mean([share for share, _, _ in told.values()])), told


@pytest.mark.parametrize(("k", "words", "bits"), [(0, 2, 30), (16, 4, 32)], ids=["signature", "minhash"])
def test_the_interval_holds_the_truth(k: int, words: int, bits: int) -> None:
    share, told = coverage(600, k, words, bits)
    assert share >= 0.94, told


@pytest.mark.slow
@pytest.mark.parametrize(("k", "words", "bits"), [(0, 2, 30), (16, 4, 32)], ids=["signature", "minhash"])
def test_the_interval_holds_the_truth_for_ten_thousand_tables(k: int, words: int, bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    share, told = coverage(10_000, k, words, bits)
    with capsys.disabled():
        print(f"\ncoverage {share:.4f} with k = {k}")
        for pattern, (held, width, published) in told.items():
            print(f"  {pattern:<10} holds {held:.3f}, median width {width:.4f}; the published bound's {published:.4f}")
    assert share >= 0.94, told


def test_what_is_known_is_exact() -> None:
    """The worked example: 32 rows a side, two of them changed."""
    found = jaccard.similarity(64, 4, nothing())
    assert found
    assert (found.score.value, found.score.lower, found.score.upper) == (30 / 34, 30 / 34, 30 / 34)
    assert found.least == found.most == 30 / 34


def test_rows_that_were_not_compared_widen_the_bounds() -> None:
    found = jaccard.similarity(200, 0, nothing(), unknown=20)
    assert found
    assert found.most == 1
    assert found.least == found.score.lower == (200 - 20) / (200 + 20)


def test_no_rows_have_no_similarity() -> None:
    assert jaccard.similarity(0, 0, nothing()) is None
