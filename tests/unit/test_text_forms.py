"""Texts that look the same and are not: the reason is named, and shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.compare import text_forms
from auditor.report import formatting

CASES = [
    ("caf\u00e9", "cafe\u0301", "Unicode form"),
    ("\ud55c", "\u1112\u1161\u11ab", "Unicode form"),
    ("blue ", "blue", "trailing blank"),
    (" blue", "blue", "leading blank"),
    ("a\u00a0b", "a b", "non-breaking blank"),
    ("a\u2009b", "a b", "other blank"),
    ("a\u200bb", "ab", "control character"),
    ("\ufeffab", "ab", "control character"),
    ("line\r\n", "line\n", "control character"),
    ("\u0410BC", "ABC", "look-alike"),
    ("p\u0430ypal", "paypal", "look-alike"),
    ("it\u2019s", "it's", "look-alike"),
    ("2020\u20132021", "2020-2021", "look-alike"),
    ("\uff21\uff22", "AB", "look-alike"),
    ("caf\u00e9 ", "cafe\u0301\u00a0", "look-alike"),
]


@pytest.mark.parametrize(("source", "target", "reason"), CASES, ids=str)
def test_reason_is_named_and_the_difference_shown(source: str, target: str, reason: str) -> None:
    for pair in ((source, target), (target, source)):
        assert text_forms.reason(*pair) == reason
        shown = [None if one is None else formatting.value(one) for one in formatting.sides(*pair, reason)]
        plain = [unicodedata.normalize("NFC", one or "").strip("'") for one in shown]
        assert shown[0] != shown[1] and (plain[0] != plain[1] or "blank" in reason), "a reader sees which is which"
    if reason in ("Unicode form", "look-alike"):
        assert any("\u27e8U+" in (one or "") for one in formatting.sides(source, target, reason))


@pytest.mark.parametrize(
    ("source", "target"), [("a", "b"), ("a", "A"), ("", None), (None, ""), ("a b", "ab"), ("1", "l"), ("caf\u00e9", "cafe"), ("x", "x")]
)
def test_texts_that_look_different_have_no_reason(source: str | None, target: str | None) -> None:
    assert text_forms.reason(source, target) == text_forms.reason(target, source) == ""


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_reason_is_given_only_to_texts_that_are_equal_when_levelled(source: str, target: str) -> None:
    reason = text_forms.reason(source, target)
    assert reason == text_forms.reason(target, source)
    if reason == "Unicode form":
        assert unicodedata.normalize("NFD", source) == unicodedata.normalize("NFD", target)
    if reason in ("trailing blank", "leading blank"):
        assert source.strip(" ") == target.strip(" ")
    if source == target or (source.isascii() and target.isascii() and source.isprintable() and target.isprintable()):
        assert reason in ("", "trailing blank", "leading blank", "look-alike")
    if reason:
        assert source != target


@given(st.text(min_size=1, max_size=20))
def test_forms_of_one_text_are_recognised(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert text_forms.reason(composed, decomposed) == ("" if composed == decomposed else "Unicode form")
    assert text_forms.reason(text, text + " ") == "trailing blank"
    assert text_forms.differs_in_case_only("x" + text, "X" + text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_escaped_texts_can_be_read_back(source: str, target: str) -> None:
    import re

    shown = text_forms.escape(source, target)
    if "\u27e8" not in source:
        assert re.sub("\u27e8U\\+([0-9A-F]{4,6})\u27e9", lambda found: chr(int(found[1], 16)), shown) == source


@pytest.mark.parametrize(
    ("source", "target", "shown"),
    [
        ("short", "shirt", ("short", "shirt")),
        ("a" * 50 + "X" + "b" * 50, "a" * 50 + "Y" + "b" * 50, ("...aaaaaXbbbb... (101 characters)", "...aaaaaYbbbb... (101 characters)")),
        ("a" * 30, "a" * 25, ("...aaaaaaaaaa (30 characters)", "...aaaaa (25 characters)")),
        ("X" + "a" * 30, "", ("Xaaaaaaaaa... (31 characters)", " (0 characters)")),
    ],
)
def test_long_texts_are_shown_around_their_first_difference(source: str, target: str, shown: tuple[str, str]) -> None:
    assert text_forms.window(source, target, 10) == shown
