"""Patterns of changed values: each is found where it holds, with the exact number of its rows, and not elsewhere."""

from __future__ import annotations

import datetime as dt
import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.compare import patterns
from auditor.model import ChangedColumn, ColumnDifference, ColumnPlan, Difference, Differences
from dialects import Kind

MONEY, WHOLE, DOUBLE, TEXT, MOMENT = Kind("decimal", 12, 2), Kind("integer"), Kind("float64"), Kind("text"), Kind("timestamp", scale=6)
Texts = list[tuple[str | None, str | None]]


def column(kind: Kind, **more: Any) -> ColumnPlan:
    native: Any = {"source": kind, "target": kind}
    names: Any = {"source": "c", "target": "c"}
    return ColumnPlan(name="amount", kind=kind, native=native, expression=names, types=names, why="", **more)


def cents(value: Decimal) -> str:
    return str(value.quantize(Decimal("0.01"), ROUND_HALF_UP))


def whole(value: Decimal) -> Decimal:
    return value.quantize(Decimal(1), ROUND_HALF_UP)


def moments(seconds: list[int], offset: Callable[[int], int]) -> Texts:
    start = dt.datetime(2026, 1, 1)
    return [tuple(f"{start + dt.timedelta(seconds=at):%Y-%m-%d %H:%M:%S}.000000" for at in (s, s + offset(s))) for s in seconds]  # type: ignore[misc]


SOURCES = [Decimal(n * n * 37 + 1111).scaleb(-2) for n in range(1, 41)]
SECONDS = [n * 86399 * 3 for n in range(40)]
NAMES = [f"name {n} of many" for n in range(10, 50)]
BOTH = "40 of 54 are NULL in the source and empty in the target, 14 of 54 lost the source's last character"
NONE: Any = {"missing": 0, "extra": 0, "changed": 9, "exact": True, "ranges": (), "partitions": {}}
STRANGERS = {MONEY: ("1234.56", "77.01"), DOUBLE: ("1234.56", "77.01"), WHOLE: ("7", "1234567"), TEXT: ("q", "not that")}
HINT = "if the source or the target holds times of a zone, write columns: override: {amount: {zone: ...}}, or zone: under the connection"

FOUND: list[tuple[Kind, Texts, str]] = [
    (MONEY, [(cents(a), cents(a + Decimal("19.99"))) for a in SOURCES], "all 40 are the source's plus 19.99"),
    (MONEY, [(cents(a), cents(a - 3)) for a in SOURCES], "all 40 are the source's minus 3"),
    (MONEY, [(cents(a), cents(a * 100)) for a in SOURCES], "all 40 are the source's times 100"),
    (MONEY, [(cents(a), cents(a / 100)) for a in SOURCES], "all 40 are the source's divided by 100, rounded"),
    (MONEY, [(cents(a), cents(-a)) for a in SOURCES], "all 40 are the source's times -1"),
    (MONEY, [(cents(a), cents(whole(a))) for a in SOURCES if a % 1], "are the source's rounded to whole numbers"),
    (WHOLE, [(str(n * 100), str(n)) for n in range(5, 45)], "all 40 are the source's divided by 100"),
    (WHOLE, [(str(n), "0") for n in range(5, 45)], "all 40 are 0 in the target"),
    (DOUBLE, [(repr(n * 0.1), repr(n * 0.1 / 100)) for n in range(5, 45)], "all 40 are the source's divided by 100"),
    (DOUBLE, [(repr(n * 0.1), repr(n * 0.1 * 1.609344)) for n in range(5, 45)], "times 1.609344"),
    (MOMENT, moments(SECONDS, lambda _: -5 * 3600), f"all 40 are 5 h earlier than the source's; {HINT}"),
    (MOMENT, moments(SECONDS, lambda at: 7200 if 30 < at / 86400 < 90 else 3600), "1 h or 2 h later than the source's, as with"),
    (MOMENT, moments(SECONDS, lambda _: 61), "all 40 are 1 min 1 s later than the source's"),
    (TEXT, [(None, "")] * 40, "all 40 are NULL in the source and empty in the target"),
    (TEXT, [("", None)] * 40, "all 40 are empty in the source and NULL in the target"),
    (TEXT, [(name, name[:6]) for name in [*NAMES, "a longer name"]], "all 41 are the source's cut to 6 characters"),
    (TEXT, [(name, name[:-1]) for name in NAMES], "all 40 lost the source's last character"),
    (TEXT, [(name * n, (name * n)[:-2]) for n, name in enumerate(NAMES, 1)], "all 40 lost the source's last 2 characters"),
    (TEXT, [(name, name.upper()) for name in NAMES], "all 40 differ only in case"),
    (TEXT, [(name, name + "  ") for name in NAMES], "all 40 differ only in trailing blanks"),
    (TEXT, [(name, name.replace(" ", "")) for name in NAMES], "all 40 differ only in blanks"),
    (TEXT, [("\u00e9" + name, "e\u0301" + name) for name in NAMES], "all 40 differ only in Unicode form"),
    (TEXT, [(name + "x", name) for name in NAMES[:14]] + [(None, "")] * 40, BOTH),
    (TEXT, [(f" {name}  ", name) for name in NAMES], "all 40 differ only in leading and trailing blanks"),
    (TEXT, [(" " * (n % 3) + name + " " * (2 - n % 3), name) for n, name in enumerate(NAMES)],
     "all 40 are the source's without leading and trailing blanks"),
    (TEXT, [(text, text.encode()[:12].decode(errors="ignore")) for n, name in enumerate(NAMES) if (text := "ä" * (n % 5) + name)],
     "all 40 are the source's cut to 12 bytes"),
    (TEXT, [(f"{name} \N{PARTY POPPER}", f"{name} ?") for name in NAMES],
     "all 40 have ? in place of emoji and other characters of four bytes"),
    (TEXT, [(f"{name} \N{PARTY POPPER}", f"{name} ????") for name in NAMES],
     "all 40 have ? in place of emoji and other characters of four bytes"),
    (TEXT, [(f"{name} \u4e2d", f"{name} ?") for name in NAMES], "all 40 have ? in place of characters beyond ASCII"),
    (TEXT, [(name, name.replace("a", "\u0430")) for name in NAMES], "all 40 differ only in characters that look alike"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "pairs", "told"), FOUND, ids=[told[:50] for _, _, told in FOUND])
def test_pattern_is_told(kind: Kind, pairs: Texts, told: str) -> None:
    sentence = patterns.sentence(column(kind), pairs)
    assert sentence == told if told[0] in "a4" and told[:3] != "are" else told in sentence
    strangers: Texts = [STRANGERS[kind]] * 3 if kind in STRANGERS else []
    if strangers:
        mixed = patterns.sentence(column(kind), [*pairs, *strangers])
        assert f"of {len(pairs) + 3}" in mixed, "a few others do not hide it, and are not counted"
        few = patterns.sentence(column(kind), [*pairs, *strangers * 3])
        assert few == "", "a pattern of fewer than nine tenths of the rows is not reported"


def test_little_evidence_is_no_pattern() -> None:
    assert patterns.sentence(column(WHOLE), [("100", "1"), ("200", "2")]) == ""
    assert patterns.sentence(column(WHOLE), [("5", "7")] * 50) == "", "one value that became another has no constant to tell"
    assert patterns.sentence(column(TEXT), []) == ""
    assert patterns.sentence(column(WHOLE), [("1", "0"), ("2", "0"), ("4", "0"), ("7", "0")] * 3) == "all 12 are 0 in the target"


def test_cut_text_that_was_not_fetched_whole() -> None:
    long = [f"{n}" * 200 + f"... sha256 {n:016x}" for n in range(3, 9)]
    assert patterns.sentence(column(TEXT), [(text, text[:50]) for text in long]) == "all 6 are the source's cut to 50 characters"
    assert patterns.sentence(column(TEXT), [(text, text[:-1] + "z") for text in long]) == "", (
        "what differs after the shortened text is unknown"
    )


def test_masked_columns_are_counted_and_not_looked_at() -> None:
    """The values are hidden anyway; that a pattern holds, or that one side holds NULL, would tell of them."""
    plan: Any = SimpleNamespace(columns=(column(TEXT, masked=True),))
    named = tuple(
        Difference(kind="changed", key={"id": str(n)}, rows={"source": 1, "target": 1}, columns=(ColumnDifference("amount", "", None),))
        for n in range(9)
    )
    none = Differences(**NONE, named=named)
    assert patterns.describe(plan, none, 9).columns == (ChangedColumn("amount", 9, ""),)


def test_two_columns_with_each_other_s_values() -> None:
    plan: Any = SimpleNamespace(columns=(column(TEXT), replace(column(TEXT), name="price")))
    named = tuple(
        Difference(
            kind="changed",
            key={"id": str(n)},
            rows={"source": 1, "target": 1},
            columns=(ColumnDifference("amount", f"a{n}", f"p{n * n}"), ColumnDifference("price", f"p{n * n}", f"a{n}")),
        )
        for n in range(9)
    )
    found = patterns.describe(plan, Differences(**NONE, named=named), 9)
    assert found.columns == (
        ChangedColumn("amount", 9, "all 9 have the values of price, and price has theirs"),
        ChangedColumn("price", 9, "all 9 have the values of amount, and amount has theirs"),
    )


def test_texts_are_not_taken_for_numbers() -> None:
    assert patterns.sentence(column(TEXT), [(str(n * 100), str(n * 7)) for n in range(5, 45)]) == ""


@given(st.integers(0, 2**32), st.sampled_from([MONEY, WHOLE, DOUBLE, TEXT, MOMENT]))
@settings(max_examples=settings().max_examples * 3 // 2)
def test_values_that_have_nothing_to_do_with_each_other_have_no_pattern(seed: int, kind: Kind) -> None:
    generator = random.Random(seed)

    def value() -> str:
        number = generator.choice([generator.randrange(10**9), generator.randrange(1000, 10**5)])
        if kind is MOMENT:
            return f"{dt.datetime(2000, 1, 1) + dt.timedelta(seconds=number):%Y-%m-%d %H:%M:%S}"
        if kind is TEXT:
            return "".join(generator.choices("abcdefgh ", k=generator.randrange(4, 20)))
        return str(number) if kind is WHOLE else cents(Decimal(number).scaleb(-2)) if kind is MONEY else repr(number / 7)

    assert patterns.sentence(column(kind), [(value(), value()) for _ in range(generator.randrange(3, 60))]) == ""


numbers = st.decimals(-(10**6), 10**6, places=2)
CHANGES: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "plus": lambda a, c: a + c, "times": lambda a, c: a * c, "round": lambda a, c: Decimal(round(a)), "other": lambda a, c: c,
}  # fmt: skip


@given(
    st.lists(st.tuples(numbers, st.sampled_from(sorted(CHANGES)), st.booleans()), max_size=40), numbers, st.sampled_from(sorted(CHANGES))
)
@settings(max_examples=settings().max_examples * 2)
def test_every_counted_row_obeys_the_sentence(rows: list[tuple[Decimal, str, bool]], constant: Decimal, usual: str) -> None:
    """As many rows as a sentence about numbers says do obey it, by exact arithmetic on their decimals."""
    pairs = [(str(a), str(CHANGES[usual if often else change](a, constant))) for a, change, often in rows]
    pairs = [(a, b) for a, b in pairs if Decimal(a) != Decimal(b)]
    for part in patterns.find(column(Kind("decimal", 30, 4)), pairs):
        checks: list[tuple[str, Callable[[Decimal, Decimal, Decimal], bool]]] = [
            (r"source's plus ([\d,.]+)", lambda a, b, c: b - a == c),
            (r"source's minus ([\d,.]+)", lambda a, b, c: a - b == c),
            (r"source's times (-?[\d,.]+)(?!.*rounded)", lambda a, b, c: a * c == b),
            (r"source's divided by (-?[\d,.]+)(?!.*rounded)", lambda a, b, c: b * c == a),
            (r"source's times ([\d,.]+), rounded", lambda a, b, c: abs(a * c - b) <= _half_a_digit(b)),
            (r"source's divided by ([\d,.]+), rounded", lambda a, b, c: abs(a / c - b) <= _half_a_digit(b)),
            (r"(?:rounded|cut) to (\d|whole)", lambda a, b, c: abs(a - b) < 1 and b == b.quantize(Decimal(1).scaleb(-int(c)))),
            (r"are (0) in", lambda a, b, c: b == c),
        ]
        told, check = next((found[1], check) for pattern, check in checks if (found := re.search(pattern, part.phrase)))
        given_constant = Decimal(0) if told == "whole" else Decimal(told.replace(",", "").rstrip("."))
        for place in part.places:
            a, b = pairs[place]
            assert check(Decimal(a), Decimal(b), given_constant), (part.phrase, pairs[place])


def _half_a_digit(value: Decimal) -> Decimal:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(5).scaleb(min(exponent, 0) - 1)


@given(st.lists(st.text("abc \u00e9", max_size=8), max_size=30), st.sampled_from(["upper", "nfd", "cut", "blank", "null"]))
def test_every_counted_text_obeys_the_sentence(texts: list[str], change: str) -> None:
    changes: dict[str, Callable[[str], str | None]] = {
        "upper": str.upper, "nfd": lambda a: unicodedata.normalize("NFD", a), "cut": lambda a: a[:3], "blank": lambda a: a + " ",
        "null": lambda a: a or None,
    }  # fmt: skip
    pairs = [(a, changes[change](a)) for a in texts]
    pairs = [(a, b) for a, b in pairs if a != b]
    for part in patterns.find(column(TEXT), pairs):
        for place in part.places:
            a, b = pairs[place]
            if "NULL" in part.phrase:
                assert (a, b) == ("", None)
                continue
            assert b is not None
            told = part.phrase
            assert (
                a.casefold() == b.casefold() if "case" in told
                else unicodedata.normalize("NFC", a) == unicodedata.normalize("NFC", b) if "form" in told
                else a.replace(" ", "") == b.replace(" ", "") if "blank" in told
                else a.startswith(b) and a != b
            ), (told, pairs[place])  # fmt: skip
