"""Where a key is cut into stretches, from the least and the greatest value of its first column."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dialects
from auditor.model import SIDES, Plan, Side
from auditor.planning import prescan
from auditor.planning.prescan import CUT_STRETCHES, place_cuts
from auditor.testing.statements import plan_of
from dialects import Dialect, Kind

MYSQL, POSTGRES = dialects.get("mysql"), dialects.get("postgres")
BOTH: dict[Side, Dialect] = {"source": MYSQL, "target": POSTGRES}
NIL, LAST = "0" * 8 + "-0000-0000-0000-" + "0" * 12, "f" * 8 + "-ffff-ffff-ffff-" + "f" * 11 + "e"


def plan_with(source: Kind, target: Kind) -> Plan:
    made = plan_of(MYSQL, "exact", "hash")
    return replace(made, columns=(replace(made.columns[0], kind=source, native={"source": source, "target": target}), *made.columns[1:]))


NUMBERS = plan_with(Kind("integer"), Kind("integer"))
TEXTS = plan_with(Kind("text"), Kind("char", 36))


def test_numbers_are_cut_evenly_between_the_ends_of_both_sides() -> None:
    cuts = place_cuts(NUMBERS, BOTH, {"source": ("-100", "500"), "target": ("-90", "539")})
    assert cuts["source"] == cuts["target"] and len(cuts["source"]) == CUT_STRETCHES + 1
    assert (cuts["source"][0], cuts["source"][1], cuts["source"][-1]) == ("-100", "-90", "540")
    assert place_cuts(NUMBERS, BOTH, {"source": ("3", "5"), "target": ("4", "5")})["source"] == ("3", "4", "5", "6")


def test_years_are_not_cut() -> None:
    assert not prescan.can_be_cut(plan_with(Kind("year"), Kind("integer")).columns[0], "source", BOTH["source"])
    assert prescan.can_be_cut(NUMBERS.columns[0], "source", BOTH["source"])


def test_digits_are_cut_in_the_form_of_each_side() -> None:
    cuts = place_cuts(TEXTS, BOTH, {"source": (NIL.replace("-", ""), LAST.replace("-", "")), "target": (NIL, LAST)})
    assert cuts["source"][:2] == (f"'{'0' * 32}'", f"'03{'f' * 30}'")
    assert cuts["target"][1] == "CAST('03ffffff-ffff-ffff-ffff-ffffffffffff' AS CHARACTER(36))"
    assert cuts["source"][-1] == f"'{'f' * 32}'" and sorted(cuts["source"]) == list(cuts["source"])
    own = plan_with(Kind("binary", 16), Kind("uuid"))
    cuts = place_cuts(own, BOTH, {"source": (NIL.replace("-", ""), LAST.replace("-", "")), "target": (NIL, LAST)})
    assert cuts["source"][0] == f"X'{'0' * 32}'" and cuts["target"][0] == f"CAST('{NIL}' AS UUID)"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (("0a", "0b"), None),  # a side without rows
        (("0a", "0B"), ("0a", "0b")),  # capitals, which some collations order apart
        (("0a", "zz"), ("0a", "0b")),
        (("0a", "0bc"), ("0a", "0bc")),
        (("0-ab", "0a-b"), ("0-ab", "0a-b")),
        (("0a", "0b"), ("0ab", "0bc")),
        (("00", "ff"), ("00", "ff")),  # whose end has a digit more
        (("0a\n", "0b\n"), ("0a", "0b")),
        (("", "0b"), ("", "0b")),
        (("-0a", "-0b"), ("-0a", "-0b")),
        (("٠١", "٠٢"), ("٠١", "٠٢")),  # digits of another script
    ],
)
def test_other_texts_are_not_cut(source: tuple[str, str], target: tuple[str, str] | None) -> None:
    assert place_cuts(TEXTS, BOTH, {"source": source, "target": target}) == {}


def test_numbers_whose_end_might_not_fit_are_not_cut() -> None:
    for least, greatest in ((0, 1 << 62), (-(1 << 62), 5)):
        assert place_cuts(NUMBERS, BOTH, dict.fromkeys(SIDES, (str(least), str(greatest)))) == {}


def test_a_planner_that_expects_nothing_or_too_many_rows_in_one_stretch_decides() -> None:
    assert not prescan.is_even([], 100)
    assert prescan.is_even([100, 90, 101] * 1 + [80] * 20, 100)
    assert not prescan.is_even([10, 10, 500], 100)
