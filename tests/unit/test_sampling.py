"""Few of many: spread evenly over all, fair between kinds, and the same ones every time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from auditor.compare import sampling
from auditor.model import Difference, DifferenceKind
from tests.unit.test_tolerance import PLAN

KINDS: list[DifferenceKind] = ["missing", "extra", "changed"]


def difference(number: int, kind: DifferenceKind = "missing") -> Difference:
    return Difference(kind=kind, key={"id": str(number)}, rows={"source": 1, "target": 0})


@given(st.integers(0, 300), st.integers(1, 300))
def test_every_beginning_of_a_spread_order_covers_all_items(count: int, first: int) -> None:
    ordered = sampling.spread(range(count))
    assert sorted(ordered) == list(range(count))
    some = sorted(ordered[:first])
    gaps = [b - a for a, b in zip([-1, *some], [*some, count], strict=True)]
    assert max(gaps) <= max(4 * (count // max(1, len(some)) + 1), 2)


@given(st.lists(st.lists(st.integers(), max_size=9), max_size=4))
def test_alternating_keeps_every_item(groups: list[list[int]]) -> None:
    assert sorted(sampling.alternate(groups)) == sorted(item for group in groups for item in group)


@given(st.dictionaries(st.sampled_from(KINDS), st.integers(0, 60)), st.integers(0, 80))
def test_fair_shares_use_what_they_may_and_prefer_nobody(sizes: dict[DifferenceKind, int], most: int) -> None:
    shares = sampling.fair_shares(sizes, most)
    assert sum(shares.values()) == min(most, sum(sizes.values()))
    cut = [kind for kind in sizes if shares[kind] < sizes[kind]]
    assert all(shares[kind] <= sizes[kind] for kind in sizes)
    assert all(shares[kind] + 1 >= shares[other] for kind in cut for other in sizes), "one that is cut short has as many as any other"


@given(st.lists(st.sampled_from(KINDS), max_size=200), st.integers(0, 50))
def test_examples_and_kept_differences_are_in_order_and_fair(kinds: list[DifferenceKind], most: int) -> None:
    found = [difference(number, kind) for number, kind in enumerate(kinds)]
    sample = sampling.Sample(most, PLAN)
    sample.add(found[:77])
    sample.add(found[77:])
    for chosen in (sampling.examples(found, most), sample.chosen()):
        numbers = [one.key_number for one in chosen]
        assert numbers == sorted(set(numbers)) and len(numbers) == min(most, len(found))
        assert Counter(one.kind for one in chosen) == +Counter(sampling.fair_shares(Counter(kinds), most))


def test_a_sample_of_very_many_is_spread_and_repeats_itself() -> None:
    samples = [sampling.Sample(100, PLAN) for _ in range(2)]
    for sample, step in zip(samples, (1, -1), strict=True):
        sample.add(difference(number) for number in range(20_000)[::step])
    first, again = ([one.key_number for one in sample.chosen()] for sample in samples)
    assert first == again and len(first) == 100
    assert first[:50] == list(range(50)), "the first keys"
    assert all(5 < count < 25 for count in Counter(number // 5000 for number in first[50:]).values()), "and evenly of the rest"
