"""The comparison of aligned summaries, and the map of its partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from auditor.compare import comparator
from auditor.model import Verdict
from auditor.run.live import running_sums
from auditor.summary.arrays import Summaries


def summaries(*rows: int) -> Summaries:
    """Return summaries of partitions with so many rows each, and a word and a power sum that are the same number."""
    numbers = np.array(rows, np.int64)
    return running_sums.of(np.arange(len(rows)), numbers, numbers[:, None], numbers[:, None])


@pytest.mark.parametrize(
    ("source", "target", "reasons"),
    [
        ((5, 7), (5, 8), ["1 of 2 partitions differ", "the source has 12 rows, the target 13"]),
        ((5, 7), (7, 5), ["2 of 2 partitions differ"]),
        ((5, 7), (5, 7), ["no difference"]),
    ],
)
def test_rows_are_counted_in_the_reasons_only_where_they_differ(
    source: tuple[int, ...], target: tuple[int, ...], reasons: list[str]
) -> None:
    found = comparator.compare(comparator.align(summaries(*source), summaries(*target)))
    assert list(found.reasons) == reasons
    assert found.verdict is (Verdict.MATCH if source == target else Verdict.MISMATCH)


@pytest.mark.parametrize(("threshold", "verdict"), [(0.4, Verdict.MATCH), (0.5, Verdict.MATCH), (0.6, Verdict.MISMATCH)])
def test_published_score_is_compared_with_a_threshold(threshold: float, verdict: Verdict) -> None:
    found = comparator.compare(comparator.align(summaries(5, 7), summaries(5, 8)), threshold=threshold)
    assert found.published and found.published.value == 0.5
    assert found.verdict is verdict


def test_partitions_that_differ_have_the_keys_of_both_sides() -> None:
    keys = np.array([1, 10], np.object_)
    source = replace(summaries(5, 7), least=keys, greatest=keys + 4)
    target = replace(summaries(5, 8), least=keys, greatest=keys + 6)
    (one,) = comparator.compare(comparator.align(source, target)).divergent
    assert one.key_range == (10, 16)
    (one,) = comparator.compare(comparator.align(summaries(5, 7), summaries(5, 8))).divergent
    assert one.key_range is None


def test_map_has_no_similarity_where_one_side_lacks_the_partition() -> None:
    aligned = comparator.align(summaries(5, 7, 9), summaries(5, 8))
    found = comparator.build_partition_map(aligned, {})
    np.testing.assert_array_equal(found.similarity, np.array([1.0, np.nan, 0.0], np.float32))


@pytest.mark.parametrize(("source", "target"), [("4", "6"), ("6", "4")])
def test_measures_that_differ_are_named(source: str, target: str) -> None:
    sides = [replace(summaries(5), measures=np.array([["7", one]], np.object_)) for one in (source, target)]
    (one,) = comparator.compare(comparator.align(*sides), measures=["price max", "price sum"]).divergent
    assert one.measures == (f"price sum: {source} in the source, {target} in the target",)
