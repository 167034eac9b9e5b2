"""SQL of a column's text with an audit's settings, what reads a clock, and where statements change their shape."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import dialects
from auditor.model import ColumnPlan, Partitioning
from auditor.sql import power_sums, row_text, user_sql
from auditor.sql.render import cut_into_batches
from auditor.summary import measures
from auditor.testing.statements import plan_of
from dialects import Kind

DUCKDB = dialects.get("duckdb")
NOTE = ColumnPlan(
    name="note",
    kind=Kind("text"),
    native=dict.fromkeys(("source", "target"), Kind("text")),
    expression=dict.fromkeys(("source", "target"), '"note"'),
    types=dict.fromkeys(("source", "target"), "varchar"),
    why="",
)
BOTH = ("source", "target")
PLAIN = DUCKDB.canonical.canonical_text(Kind("text"), '"note"', Kind("text"))


@pytest.mark.parametrize(
    ("settings", "sql"),
    [
        ({}, PLAIN),
        ({"case": "lower"}, DUCKDB.text.lower(PLAIN)),
        ({"case": "upper"}, DUCKDB.text.upper(PLAIN)),
        ({"trim": True}, DUCKDB.text.trim(PLAIN)),
        ({"trim": True, "case": "upper"}, DUCKDB.text.upper(DUCKDB.text.trim(PLAIN))),
        ({"null_as": "-"}, f"CASE WHEN \"note\" IS NULL THEN '-' ELSE {PLAIN} END"),
    ],
)
def test_settings_of_a_column_change_its_text(settings: dict[str, Any], sql: str) -> None:
    assert row_text.text(replace(NOTE, **settings), "source", DUCKDB) == sql


@pytest.mark.parametrize(
    ("settings", "escaped"),
    [
        ({}, True),
        ({"kind": Kind("integer"), "native": dict.fromkeys(BOTH, Kind("integer"))}, False),
        ({"kind": Kind("date"), "native": dict.fromkeys(("source", "target"), Kind("text"))}, True),
        (
            {"native": dict.fromkeys(BOTH, Kind("enum")), "types": dict.fromkeys(BOTH, "enum('a','b')")},
            False,
        ),
        ({"native": dict.fromkeys(BOTH, Kind("enum")), "types": dict.fromkeys(BOTH, "enum('a|b')")}, True),
        ({"kind": Kind("integer"), "native": dict.fromkeys(BOTH, Kind("integer")), "null_as": "|"}, True),
    ],
)
def test_only_texts_that_can_hold_a_bar_are_escaped(settings: dict[str, Any], escaped: bool) -> None:
    assert ("'|0'" in row_text.escaped(replace(NOTE, **settings), "source", DUCKDB)) is escaped


def test_digest_stands_for_the_whole_text_or_for_its_pieces() -> None:
    whole, pieces = (row_text.digest(replace(NOTE, digest=True, pieces=count), "source", DUCKDB) for count in (0, 3))
    assert whole == DUCKDB.hashes.row_hash(PLAIN, "sha256")
    assert pieces == DUCKDB.hashes.digest_of_pieces(Kind("text"), '"note"', Kind("text"), 3)
    assert pieces != whole


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("at < NOW()", "NOW"), ("at < current_date", "current_date"), ("at = 'now'", "now"), ("at = 'Today'", "Today"), ('"now" = 1', ""),
        ('"current_date" = 1', ""), ("note = 'knowing'", ""), ("at < other", ""),
    ],
)  # fmt: skip
def test_what_reads_the_clock_is_found(sql: str, read: str) -> None:
    assert user_sql.find_clock(sql, DUCKDB) == read


def test_sums_of_powers_have_a_level_of_their_own_from_some_t_on() -> None:
    exact = plan_of(DUCKDB, "exact", "range")
    assert [power_sums.uses_levels(replace(exact, t=t)) for t in (1, 4, 5, 16)] == [False, False, True, True]
    assert power_sums.uses_levels(replace(exact, bits=120))
    assert power_sums.uses_levels(replace(exact, k=1))
    assert not power_sums.uses_levels(replace(exact, method="signature", t=5))
    narrow, wide = (replace(exact, partitioning=Partitioning(strategy="range", size=size)) for size in (1 << 15, (1 << 15) + 1))
    square = re.compile(r"\(((?:\w+\.)?\w*x) \* \1\) % 2147483647")
    squares = [len(square.findall(power_sums.fragments(plan, "source", DUCKDB)["syndromes"])) for plan in (narrow, wide)]
    assert squares[0] == 0, "the square of a narrow position needs no reduction"
    assert squares[1] > 0


def test_lists_are_cut_by_bytes_and_by_number() -> None:
    def cut(values: list[str], most: int | None = None) -> list[list[str]]:
        return list(cut_into_batches(values, len, DUCKDB, most))

    assert cut(["a"] * 5, 2) == [["a", "a"], ["a", "a"], ["a"]]
    half = "x" * (1 << 19)
    assert [len(one) for one in cut([half, half, half])] == [2, 1]
    assert [len(one) for one in cut([half + "x", half, half])] == [1, 2]
    assert cut([]) == []
    assert [len(one) for one in cut(["x" * (1 << 21), "a"])] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "native", "family"),
    [
        ("boolean", "boolean", "truth"), ("boolean", "integer", "truth"), ("boolean", "text", "text"), ("integer", "decimal", "number"),
        ("integer", "text", "text"), ("float64", "float32", "float"), ("float64", "integer", "text"), ("rounded", "float64", "rounded"),
        ("date", "timestamp", "moment"), ("date", "text", "text"), ("time", "time", "clock"), ("uuid", "uuid", "fixed"),
        ("uuid", "char", "text"), ("json", "json", "text"),
    ],
)  # fmt: skip
def test_families_of_measures(kind: str, native: str, family: str) -> None:
    column = replace(NOTE, kind=Kind(kind), native={"source": Kind(native), "target": Kind(native)})
    assert measures.family(column) == family
    assert measures.family(replace(column, null_as="-")) == "text"


def test_times_beside_texts_are_measured_as_texts() -> None:
    column = replace(NOTE, kind=Kind("time"), native={"source": Kind("time"), "target": Kind("text")})
    assert measures.family(column) == "text"
    assert measures.family(replace(column, kind=Kind("text"), native={"source": Kind("time"), "target": Kind("time")})) == "text"
