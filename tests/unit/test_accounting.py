"""Whether named rows account for a partition's difference, and which differences rows make."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.compare.accounting import Row, accounts_for, differences, hash_words, merge
from auditor.model import Difference, Side

OLD, NEW = "0123456789abcde", "fedcba987654321"


def row(key: int, digits: str, *texts: str | None) -> Row:
    return Row(0, digits, (str(key),), texts)


def words(digits: str, count: int = 2) -> list[int]:
    return hash_words(digits, count)


def test_words_are_the_high_and_the_low_thirty_bits_of_sixty() -> None:
    number = int(OLD, 16)
    assert words(OLD) == [number >> 30, number % 2**30]
    assert words(OLD + NEW, 4) == [*words(OLD), *words(NEW)]


@pytest.mark.parametrize(
    ("moved", "count", "accounted"),
    [
        ((0, 0), 0, True),
        ((1, 0), 0, False),
        ((-1, 0), 0, False),
        ((0, 1), 0, False),
        ((0, -1), 0, False),
        ((0, 0), 1, False),
        ((0, 0), -1, False),
    ],
)
def test_rows_account_for_a_difference_only_if_every_word_and_the_count_agree(moved: tuple[int, int], count: int, accounted: bool) -> None:
    rows: Mapping[Side, list[Row]] = {"source": [row(7, OLD)], "target": [row(7, NEW)]}
    difference = [new - old + more for new, old, more in zip(words(NEW), words(OLD), moved, strict=True)]
    assert accounts_for(rows, difference, count) is accounted


def test_a_missing_and_an_extra_row_account_for_counts() -> None:
    assert accounts_for({"source": [row(7, OLD)], "target": []}, [-word for word in words(OLD)], -1)
    assert accounts_for({"source": [], "target": [row(7, OLD)]}, words(OLD), 1)
    assert not accounts_for({"source": [], "target": [row(7, OLD)]}, words(OLD), 0)
    assert accounts_for({"source": [], "target": []}, [0, 0], 0)


def test_rows_of_one_key_are_compared_as_multisets() -> None:
    rows = {
        "source": [row(1, OLD, "a"), row(2, OLD, "a"), row(4, OLD, "a")],
        "target": [row(1, OLD, "a"), row(1, OLD, "a"), row(2, NEW, "b"), row(3, NEW, "b")],
    }
    found = differences(rows, ["id"], ["note"], set())  # type: ignore[arg-type]
    assert [(one.kind, one.key["id"], one.rows) for one in found] == [
        ("extra", "1", {"source": 0, "target": 1}),
        ("changed", "2", {"source": 1, "target": 1}),
        ("missing", "4", {"source": 1, "target": 0}),
        ("extra", "3", {"source": 0, "target": 1}),
    ]
    assert [(one.name, one.source, one.target) for one in found[1].columns] == [("note", "a", "b")]
    assert found[0].columns == found[2].columns == ()


def test_parts_of_one_key_are_merged_and_equal_rows_left_out() -> None:
    def part(kind: str, source: tuple[str, ...], target: tuple[str, ...], key: str = "1") -> Difference:
        rows: dict[Side, int] = {"source": len(source), "target": len(target)}
        return Difference(kind=kind, key={"id": key}, rows=rows, hashes={"source": source, "target": target})  # type: ignore[arg-type]

    assert merge([part("missing", (OLD,), ()), part("extra", (), (OLD,))]) == []
    (changed,) = merge([part("missing", (OLD,), ()), part("extra", (), (NEW,))])
    assert (changed.kind, changed.rows, changed.hashes) == ("changed", {"source": 1, "target": 1}, {"source": (OLD,), "target": (NEW,)})
    (missing,) = merge([part("missing", (OLD, OLD), ()), part("extra", (), (OLD,))])
    assert (missing.kind, missing.rows) == ("missing", {"source": 1, "target": 0})
    alone = part("extra", (), (NEW,), "2")
    assert merge([alone]) == [alone]
