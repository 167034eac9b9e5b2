"""JSON documents are equal if their values are, whatever their length and depth; what is no document equals only itself."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.compare import documents

EQUAL = [
    ('{"a":1,"bb":[1,2]}', ' { "bb" : [ 1 , 2 ] ,\n"a":1}\t'),
    ("[1, 1.0, 1e0, 10e-1, 0.10, -0, 100]", "[1.0, 1, 1, 1, 0.1, 0.0, 1E+2]"),
    ("12345678901234567890", "1234567890123456789e1"),
    (r'"\u0041\/\u00e9\ud83d\ude00\n"', '"A/é😀\\u000a"'),
    ('{"a":1,"a":{"b":2,"b":3}}', '{"a":{"b":3}}'),
    ("[" * 100_000 + "1" + "]" * 100_000, "[" * 100_000 + "1.0" + "]" * 100_000),
    (r'{"":null,"\u0000":[]}', r'{"\u0000":[ ],"":null }'),
    ("1e400", "10e399"),
]
DIFFERENT = [
    ("1", '"1"'), ("null", "0"), ("[]", "{}"), ("[]", "[[]]"), ("[1,2]", "[2,1]"), ('{"a":null}', "{}"), ("true", '"true"'),
    ("12345678901234567890", "12345678901234567891"), ("0.1", "0.10000000000000001"), ('"a"', '"A"'), ('"é"', '"e\u0301"'),
    ('{"a":1,"a":2}', '{"a":1}'), ("[[],[]]", "[[[]]]"), ('["a,b"]', '["a","b"]'), ('{"a":"b"}', '["a","b"]'), ("1", "-1"),
    ('"' + "x" * 99 + '"', '"' + "x" * 98 + 'y"'),
]  # fmt: skip
NO_DOCUMENTS = [
    "",
    " ",
    "nope",
    "[1 2]",
    "[1,]",
    "{,}",
    '{"a" 1}',
    '{"a":1,}',
    "[1",
    "1]",
    "01",
    "1.",
    ".5",
    "+1",
    "NaN",
    "'a'",
    '"\t"',
    r'"\x"',
    "1 2",
    "[}",
    '{"a"}',
    "]",
    ",",
    ":",
    '"a',
]


@pytest.mark.parametrize(("source", "target"), EQUAL)
def test_values_that_are_equal(source: str, target: str) -> None:
    assert documents.are_equal(source, target) is True


@pytest.mark.parametrize(("source", "target"), DIFFERENT)
def test_values_that_differ(source: str, target: str) -> None:
    assert documents.are_equal(source, target) is False


@pytest.mark.parametrize("text", NO_DOCUMENTS)
def test_what_is_no_document_equals_only_itself(text: str) -> None:
    assert documents.digest(text) is None
    assert documents.are_equal(text, text) is True
    assert documents.are_equal(text, text + " ") is False


def test_null_is_no_document_and_a_shortened_text_is_not_decided() -> None:
    assert documents.are_equal(None, "null") is False
    assert documents.are_equal(None, None) is True
    assert documents.are_equal("[1" + "... sha256 0123456789abcdef", "[1, 2]") is None


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.decimals(allow_nan=False, allow_infinity=False, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def _write(value: Any, order: random.Random) -> str:
    """Write a value with its keys in any order, and its numbers, escapes and blanks in any spelling."""
    blank = order.choice(["", " ", "\n"])
    if isinstance(value, dict):
        items = [f"{_write(key, order)}:{_write(one, order)}" for key, one in value.items()]
        order.shuffle(items)
        return "{" + f"{blank},".join(items) + blank + "}"
    if isinstance(value, list):
        return "[" + f",{blank}".join(_write(one, order) for one in value) + "]"
    if isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool)):
        return order.choice([f"{value:f}", f"{value:f}" + ("0" if "." in f"{value:f}" else ".0"), f"{value:f}e0"])
    return json.dumps(value, ensure_ascii=order.random() < 0.5)


@given(_VALUES, _VALUES, st.randoms(use_true_random=False))
def test_documents_are_equal_exactly_if_their_values_are(one: Any, other: Any, order: random.Random) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {"object": {key: plain(item) for key, item in value.items()}}
        if isinstance(value, list):
            return ["array", *(plain(item) for item in value)]
        return (isinstance(value, bool), value)  # True equals 1 in Python

    assert documents.are_equal(_write(one, order), _write(one, order)) is True
    first, second = _write(one, order), _write(other, order)
    assert documents.are_equal(first, second) is (plain(one) == plain(other))
    assert (documents.digest(first) == documents.digest(second)) is (plain(one) == plain(other))
