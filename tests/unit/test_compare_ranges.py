"""Ranges of rows that one side lacks: how a partition's differences are split into them, and which of them are joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from auditor.compare.accounting import Row
from auditor.compare.ranges import MIN_RANGE_KEYS, OneSidedRows, describe, join_ranges, split_ranges
from auditor.model import NULL_PARTITION, Difference, DifferenceKind, Partitioning, RangeDifference

HOW = Partitioning(strategy="range", size=100)


def differences(kind: DifferenceKind, keys: Iterable[int]) -> list[Difference]:
    rows = {"missing": (1, 0), "extra": (0, 1), "changed": (1, 1)}[kind]
    return [Difference(kind=kind, key={"id": str(key)}, rows={"source": rows[0], "target": rows[1]}) for key in keys]


def rows(keys: Iterable[int]) -> list[Row]:
    return [Row(0, "0" * 15, (str(key),)) for key in keys]


def split(source: Iterable[int], target: Iterable[int], *groups: list[Difference]) -> tuple[list[Any], list[int]]:
    """Return the ranges, and the keys of the other differences."""
    found, others = split_ranges(4, {"source": rows(source), "target": rows(target)}, [one for group in groups for one in group])
    shown = [(one.kind, one.first, one.last, one.rows, one.touches_start, one.touches_end) for one in found]
    assert all((one.first_index, one.last_index) == (4, 4) for one in found)
    return shown, [one.key_number for one in others]


def test_neighbouring_missing_rows_in_the_middle_are_a_range_from_some_number_on() -> None:
    everything = range(100)
    lacks = range(40, 40 + MIN_RANGE_KEYS)
    assert split(everything, set(everything) - set(lacks), differences("missing", lacks)) == (
        [("missing", 40, 39 + MIN_RANGE_KEYS, MIN_RANGE_KEYS, False, False)],
        [],
    )
    fewer = lacks[:-1]
    assert split(everything, set(everything) - set(fewer), differences("missing", fewer)) == ([], list(fewer))


def test_two_rows_are_a_range_at_an_end_and_one_is_not() -> None:
    everything = range(100)
    assert split(everything, range(2, 100), differences("missing", (0, 1))) == ([("missing", 0, 1, 2, True, False)], [])
    assert split(range(98), everything, differences("extra", (98, 99))) == ([("extra", 98, 99, 2, False, True)], [])
    assert split(everything, range(1, 100), differences("missing", (0,))) == ([], [0])
    assert split(everything, everything, differences("changed", (0, 1))) == ([], [0, 1])


def test_kinds_are_not_mixed_and_a_present_row_ends_a_range() -> None:
    missing, extra = range(3), range(3, 6)
    found = split([*missing, 9], [*extra, 9], differences("missing", missing), differences("extra", extra))
    assert found == ([("missing", 0, 2, 3, True, False)], [3, 4, 5])
    everything = range(50)
    lacks = [key for key in range(10, 40) if key != 25]
    found = split(everything, set(everything) - set(lacks), differences("missing", lacks))
    assert found == ([], lacks), "neither half has enough rows"


def one(kind: DifferenceKind, first: int, last: int, index: int, **more: bool) -> OneSidedRows:
    return OneSidedRows(kind, first, last, last - first + 1, index, index, **more)


def described(one_sided: list[OneSidedRows], partitions: list[int], whole: bool) -> list[RangeDifference]:
    return [describe(one, HOW, partitions, whole) for one in join_ranges(one_sided, partitions, whole)]


@pytest.mark.parametrize(
    ("second", "partitions", "whole", "joined"),
    [
        (one("missing", 200, 299, 1), [1, 2], False, True),
        (one("missing", 300, 399, 1), [1, 3], False, False),
        (one("missing", 300, 399, 1), [1, 3], True, True),
        (one("extra", 200, 299, 1), [1, 2], False, False),
        (one("missing", 250, 299, 1, touches_start=False), [1, 2], False, False),
        (one("missing", 300, 399, 2), [1, 2, 3], False, False),
    ],
)
def test_ranges_are_joined_across_the_border_of_partitions(second: OneSidedRows, partitions: list[int], whole: bool, joined: bool) -> None:
    found = described([second, one("missing", 100, 199, 0)], partitions, whole)
    assert len(found) == (1 if joined else 2)
    if joined:
        assert (found[0].first, found[0].last, found[0].rows, found[0].partitions) == (100, second.last, 200, 2)
        assert (found[0].label, found[0].ids) == (f"keys 100 to {second.last}", (partitions[0], partitions[1]))


def test_rows_without_a_key_are_no_part_of_a_range() -> None:
    null = OneSidedRows("missing", None, None, 3, 0, 0)
    found = described([null, OneSidedRows("missing", None, None, 5, 1, 1)], [NULL_PARTITION, NULL_PARTITION + 1], True)
    assert [(one.rows, one.ids[0]) for one in found] == [(3, None), (5, NULL_PARTITION + 1)]
