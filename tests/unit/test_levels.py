"""What a report says of values that were levelled before they were compared: ambiguous texts, rounded numbers, shortened times."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import auditor
from auditor import canonical
from auditor.compare.patterns import fraction_hints
from auditor.errors import ColumnRefused
from auditor.model import ColumnDifference, ColumnPlan, Difference, Partitioning, Plan, Side, SidePlan, Verdict
from auditor.planning import not_compared, planner
from auditor.report import render
from dialects import Kind
from tests.unit.test_planner import audit as definition
from tests.unit.test_planner import draft, end, ends


def audit(directory: Path, tables: dict[str, str], **options: Any) -> auditor.Report:
    """Audit two tables, each created by a SELECT."""
    urls = []
    for side, select in tables.items():
        with duckdb.connect(str(directory / f"{side}.duckdb")) as connection:
            connection.execute(f"CREATE OR REPLACE TABLE t AS {select}")
        urls.append((f"duckdb:///{directory}/{side}.duckdb", "t"))
    return auditor.audit(*urls, key=["id"], **options)


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_match_by_the_published_text_says_that_it_is_ambiguous(tmp_path: Path, form: str) -> None:
    """Tables that differ match by it, so the reasons, which every form and every notification shows, say what it cannot tell."""
    different = {"source": "SELECT 1 AS id, 'a' AS v, 'bc' AS w", "target": "SELECT 1 AS id, 'ab' AS v, 'c' AS w"}
    report = audit(tmp_path, different, method="minhash", encoding="published")
    assert report.verdict is Verdict.MATCH
    assert any("cannot distinguish NULL from the word NULL, nor where one column ends" in reason for reason in report.reasons)
    assert "cannot distinguish NULL from the word NULL" in render.run(report, None, form)
    injective = audit(tmp_path, different, method="minhash")
    assert injective.verdict is Verdict.MISMATCH
    assert not any("NULL" in reason for reason in injective.reasons)


def test_rounded_numbers_are_shown_with_their_point(tmp_path: Path) -> None:
    tables = {
        "source": "SELECT * FROM (VALUES (1, 1.5::DOUBLE), (2, -0.04), (3, 2.0), (4, 1e300), (5, NULL)) r(id, v)",
        "target": "SELECT * FROM (VALUES (1, 1.25::DOUBLE), (2, 0.05), (3, 2.004), (4, 2e300), (5, 0)) r(id, v)",
    }
    report = audit(tmp_path, tables, columns={"override": {"v": {"round": 2}}})
    assert report.differences is not None and report.plan
    shown = {one.key["id"]: (one.columns[0].source, one.columns[0].target) for one in report.differences.named}
    assert shown == {"1": ("1.50", "1.25"), "2": ("-0.04", "0.05"), "4": ("1e+300", "2e+300"), "5": (None, "0.00")}
    assert [str(one) for one in report.plan.not_compared] == ["v: values are rounded to 2 digits after the decimal point"]


def column(name: str, kind: Kind, source: Kind, target: Kind | None = None, **more: Any) -> ColumnPlan:
    native: dict[Side, Kind] = {"source": source, "target": target or kind}
    both: dict[Side, str] = {"source": name, "target": name}
    return ColumnPlan(name=name, kind=kind, native=native, expression=both, types=both, why="", **more)


FINE = Kind("timestamp", scale=6)
ROUNDED, CUT = Kind("timestamp", scale=3, rounding="half up"), Kind("timestamp", scale=3)
UP = ("at", "2025-01-01 00:00:00", "2024-12-31 23:59:59.999")

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": st.integers(-3, 3),
    "year": st.integers(1999, 2001),
    "decimal": st.decimals(-2, 2, places=4),
    "float32": st.floats(-1, 1, width=32),
    "float64": st.floats(-1, 1) | st.sampled_from([0.1, 0.1000000000000001]),
    "date": st.dates(dt.date(2023, 12, 30), dt.date(2024, 1, 2)),
    "time": st.integers(0, 3_000_000).map(lambda micros: dt.timedelta(hours=23, microseconds=micros)),
    "timestamp": st.integers(-2_000_000, 2_000_000).map(lambda micros: dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=micros)),
    "text": st.sampled_from(["a", "a ", " a", "A", "", "-"]),
}
NATIVES = [Kind("boolean"), Kind("integer"), Kind("year"), Kind("decimal", 9, 4), Kind("decimal"), Kind("float32"), Kind("float64"),
           Kind("date"), Kind("time", scale=6), FINE, Kind("text")]  # fmt: skip
REQUESTED = [*NATIVES, Kind("decimal", 9, 2), Kind("rounded", scale=2), Kind("time", scale=0), Kind("timestamp", scale=3), Kind("char")]


@given(st.data())
def test_no_two_different_values_have_one_text_untold(data: st.DataObject) -> None:
    """Whatever a kind, asked for or shared, makes of two values that a column tells apart: if it is one text, the list says so."""
    native = data.draw(st.sampled_from(NATIVES))
    shared = [found.kind for other in NATIVES if (found := canonical.shared_kind(native, other))]
    kind = data.draw(st.sampled_from([one for one in REQUESTED if canonical.can_render(one, native)] + shared))
    if "text" in (native.name, kind.name) and native.name != kind.name and kind.name != "char":
        return  # text that stands for another kind is taken as it is
    one, other = (data.draw(VALUES[native.name]) for _ in range(2))
    told = not_compared.of_column(column("v", kind, native, native))
    if canonical.text(native, one) != canonical.text(native, other) and canonical.text(kind, one) == canonical.text(kind, other):
        assert told, (native, kind, one, other)


def plan_of(*columns: ColumnPlan) -> Plan:
    side = SidePlan(dialect="duckdb", connection="", label="", table="t", where="")
    key = column("id", Kind("integer"), Kind("integer"))
    how = Partitioning(strategy="hash", buckets=1)
    sides: dict[Side, SidePlan] = {"source": side, "target": side}
    return Plan(audit="a", method="exact", sides=sides, columns=(key, *columns), key=1, partitioning=how, prefix="a_")


def changed(*columns: tuple[str, str | None, str | None]) -> Difference:
    differing = tuple(ColumnDifference(*column) for column in columns)
    return Difference(kind="changed", key={"id": "1"}, rows={"source": 1, "target": 1}, columns=differing)


@pytest.mark.parametrize(
    ("one", "found", "option"),
    [
        (column("at", ROUNDED, FINE), UP, "fraction: cut"),
        (column("at", CUT, FINE), ("at", UP[2], UP[1]), "fraction: round"),
        (column("at", CUT, FINE), UP, None),
        (column("at", ROUNDED, FINE), ("at", "2025-01-01 00:00:00", "2024-12-31 23:59:59.998"), None),
        (column("at", ROUNDED, FINE), ("at", "2025-01-01 00:00:00", None), None),
        (column("at", ROUNDED, FINE, masked=True), UP, None),
        (column("at", CUT, CUT), ("at", UP[2], UP[1]), None),
        (column("at", Kind("time", scale=0, rounding="half up"), Kind("time", scale=6)), ("at", "-10:00:01", "-10:00:00"), "fraction: cut"),
        (column("at", Kind("date"), FINE), ("at", "2024-12-31", "2025-01-01"), "fraction: round"),
        (column("at", Kind("date"), FINE, FINE), ("at", "2024-12-31", "2025-01-01"), None),
    ],
)
def test_hint_of_times_that_a_loader_shortened_otherwise(one: ColumnPlan, found: tuple[str, str, str | None], option: str | None) -> None:
    hints = fraction_hints(plan_of(one), [changed(found)])
    assert (len(hints) == 1 and option in hints[0]) if option else hints == []


def test_hint_needs_most_of_the_changed_rows() -> None:
    plan = plan_of(column("at", ROUNDED, FINE), column("v", Kind("text"), Kind("text")))
    other = changed(("v", "a", "b"))
    assert fraction_hints(plan, [changed(UP), other]) == []
    (hint,) = fraction_hints(plan, [changed(UP), other, changed(UP, ("v", "a", "b"))])
    assert hint.startswith("at: 2 of the 3 changed rows")
    missing = dataclasses.replace(other, kind="missing", columns=())
    assert fraction_hints(plan, [missing]) == []


@pytest.mark.parametrize(
    ("text", "shown"), [("150", "1.50"), ("-4", "-0.04"), ("0", "0.00"), ("123456789012345678", "1234567890123456.78")]
)
def test_readable_form_of_a_rounded_number(text: str, shown: str) -> None:
    assert canonical.readable(Kind("rounded", scale=2), text) == shown
    assert canonical.readable(Kind("rounded", scale=2), "NaN") == "NaN"
    assert canonical.readable(Kind("rounded", scale=2), None) is None


# what the plan lists


@pytest.mark.parametrize(
    ("target", "fraction", "kind"),
    [
        (("postgres", "timestamp(3) without time zone"), "cut", "timestamp(3)"),
        (("mysql", "datetime"), "cut", "timestamp(0)"),
        (("mysql", "date"), "cut", "date"),
        (("spark", "timestamp_ntz"), "round", "timestamp(6)"),
        (("postgres", "timestamp(3) without time zone"), "round", "timestamp(3) rounded half from 2000"),
    ],
)
def test_fraction_says_how_a_loader_shortens_times(target: tuple[str, str], fraction: str, kind: str) -> None:
    tables = end("mysql", {"id": "bigint", "v": "datetime(6)"}), end(target[0], {"id": "bigint", "v": target[1]})
    plan = draft(*tables, key=["id"], columns={"override": {"v": {"fraction": fraction}}})
    assert str(plan.columns[1].kind) == kind


def test_fraction_needs_times() -> None:
    tables = end("mysql", {"id": "bigint", "v": "decimal(9,4)"}), end("postgres", {"id": "bigint", "v": "numeric(9,2)"})
    with pytest.raises(ColumnRefused, match=r"column 'v' is compared as .*, which has no fractions of seconds: remove fraction"):
        draft(*tables, key=["id"], columns={"override": {"v": {"fraction": "cut"}}})


def test_a_kind_coarser_than_both_columns_is_cut() -> None:
    """No engine stored it, so both sides lose digits in the same way; whatever the kind, the plan says what it does not see."""
    tables = (
        end("mysql", {"id": "bigint", "v": "datetime(6)", "w": "decimal(9,4)"}),
        end("postgres", {"id": "bigint", "v": "timestamp(3) without time zone", "w": "numeric(9,4)"}),
    )
    plan = draft(*tables, key=["id"], columns={"override": {"v": {"kind": "timestamp(0)"}, "w": {"kind": "integer"}}})
    assert [str(column.kind) for column in plan.columns[1:]] == ["timestamp(0)", "integer"]
    assert [str(one) for one in plan.not_compared] == [
        "v: digits beyond 0 after the decimal point of the seconds are cut",
        "w: values are rounded to 0 digits after the decimal point",
    ]


def test_how_the_target_rounds_is_listed() -> None:
    tables = end("postgres", {"id": "bigint", "v": "timestamp(6) without time zone", "w": "timestamp(6) without time zone"})
    plan = draft(tables, end("mysql", {"id": "bigint", "v": "datetime(3)", "w": "date"}), key=["id"])
    assert [str(one) for one in plan.not_compared] == [
        "v (source): digits beyond 3 after the decimal point of the seconds are rounded, a half up",
        "w (source): the time of day is left out, after rounding to seconds, a half up",
    ]
    plan = draft(tables, end("postgres", {"id": "bigint", "v": "timestamp(3) without time zone", "w": "date"}), key=["id"])
    assert [str(one) for one in plan.not_compared] == [
        "v (source): digits beyond 3 after the decimal point of the seconds are rounded, a half away from 2000",
        "w (source): the time of day is left out",
    ]


def test_settings_that_level_values_are_listed() -> None:
    table = end("mysql", {"id": "bigint", "v": "text", "w": "double", "x": "char(3)"})
    rules = {"v": {"trim": True, "case": "lower", "null_as": "-"}, "w": {"tolerance": {"absolute": 0.01}}}
    plan = planner.draft("a", definition(key=["id"], method="exact", columns={"override": rules}), ends(table, table))
    assert [str(one) for one in plan.not_compared] == [
        "v: leading and trailing blanks are ignored",
        "v: the letters A to Z are compared in lower case",
        "v: NULL and the text '-' count as equal",
        "w: values up to 0.01 apart count as equal",
        "w: floats beyond 1e+13 may also equal neighbouring ones",
        "x: trailing blanks are ignored",
    ]


def test_capitals_and_excluded_columns_of_the_target_are_listed() -> None:
    source = end("mysql", {"id": "bigint", "a": "text", "b": "text"}, key=["id"])
    target = end("postgres", {"id": "bigint", "x": "text", "B": "text", "loaded": "date", "etl": "date"})
    plan = draft(source, target, {"a": "X"}, columns={"exclude": ["loaded"]})
    assert [str(one) for one in plan.not_compared] == [
        "loaded (target): left out by the audit",
        "etl (target): only in the target",
        "a: the capitals of its name are ignored: the target has 'x', not 'X'",
        "b: the capitals of its name are ignored: the target has 'B', not 'b'",
    ]
