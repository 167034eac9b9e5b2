"""Columns that are excluded, masked and renamed, and rows that enter and leave a filter."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.config import PipelineColumns
from auditor.errors import AuditorError, BadExpression, ColumnRefused, ValueRefused
from auditor.pipeline.columns import Projection, Rules, digest
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema
from tests.pipeline_events import absent, announce, batch, delete, insert, refresh, table, update

SALT = b"salt of a test"
ORDERS = table(id="bigint", email="varchar(40) null", country="char(2) null", amount="decimal(10,2) null", at="datetime(3) null")


def project(schema: TableSchema, **columns: Any) -> Projection:
    return Projection(schema, Rules(PipelineColumns(**columns), SALT))


def computed(expr: str, kind: str = "decimal(12,2)") -> dict[str, Any]:
    return {"compute": {"made": {"kind": kind, "expr": expr}}}


def transformed(function: str, kind: str = "integer") -> dict[str, Any]:
    return {"transform": {"function": function, "columns": {"made": kind}}}


def outcome(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("kind", "position", "row", "before", "after")) for row in batch.to_pylist()]


def test_without_rules_events_stay_as_they_are() -> None:
    announced, events = batch(announce(ORDERS, 1)), batch(insert(ORDERS, 2, ["1", None, "DE", "1.00", None]))
    found = project(ORDERS).apply(events)
    assert found.schema == ARROW_SCHEMA and found.to_pylist() == events.to_pylist()
    assert project(ORDERS).announce(announced).to_pylist() == announced.to_pylist()


def test_columns_are_excluded_masked_and_renamed() -> None:
    projection = project(ORDERS, exclude=["amount", "at"], mask=["Email"], rename={"country": "land"})
    assert [(c.name, c.type, c.nullable) for c in projection.schema.columns] == [
        ("id", "bigint", False), ("email", "char(32)", True), ("land", "char(2)", True),
    ]  # fmt: skip
    one, other = ["1", "a@b.c", "DE", "1.00", None], ["1", None, None, "2.00", "2026-01-01 00:00:00.000"]
    found = projection.apply(batch(insert(ORDERS, 2, one), update(ORDERS, 3, (one, other)), delete(ORDERS, 4, other)))
    mask = digest(SALT, "a@b.c")
    assert outcome(found) == [
        ("insert", 2, 0, None, ["1", mask, "DE"]),
        ("update", 3, 0, ["1", mask, "DE"], ["1", None, None]),
        ("delete", 4, 0, ["1", None, None], None),
    ]
    announced = projection.announce(batch(announce(ORDERS, 1)))
    assert TableSchema.from_json(announced["after"][0][0].as_py()) == projection.schema
    assert {*found["schema_id"].to_pylist(), *announced["schema_id"].to_pylist()} == {
        projection.schema.id
    } and projection.schema.id != ORDERS.id
    assert "a@b.c" not in str(found.to_pylist()) and len(mask) == 32 and mask != digest(b"other", "a@b.c")


def test_a_row_that_leaves_a_filter_is_deleted_and_one_that_enters_is_inserted() -> None:
    projection = project(ORDERS, where="country = 'DE' AND amount > 1.5", exclude=["country"])
    inside, outside, unknown = (["7", "x", c, a, None] for c, a in (("DE", "1.51"), ("DE", "1.50"), (None, "9.00")))
    kept = ["7", "x", "1.51", None]
    found = projection.apply(
        batch(
            insert(ORDERS, 1, inside, outside, unknown),
            update(ORDERS, 2, (inside, outside), (outside, inside), (inside, inside), (outside, unknown), (inside, unknown)),
            delete(ORDERS, 3, inside, outside),
            insert(ORDERS, 4, inside, outside, kind="refresh"),
        )
    )
    assert outcome(found) == [
        ("insert", 1, 0, None, kept),
        ("delete", 2, 0, kept, None),
        ("insert", 2, 1, None, kept),
        ("update", 2, 2, kept, kept),
        ("delete", 2, 4, kept, None),
        ("delete", 3, 0, kept, None),
        ("refresh", 4, 0, None, kept),
        ("absent", 4, 1, ["7", None, None, None], None),
    ]


rows = st.tuples(st.integers(0, 3).map(str), st.one_of(st.none(), st.text(max_size=3)), st.sampled_from(["DE", "FR", None]))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["insert", "update", "delete"]), rows, rows), max_size=12))
def test_projection_equals_the_plain_one(changes: list[tuple[str, Any, Any]]) -> None:
    schema = table(id="int", note="varchar(9) null", country="char(2) null")
    makers = {"insert": lambda p, b, a: insert(schema, p, a), "update": lambda p, b, a: update(schema, p, (b, a))}
    makers["delete"] = lambda p, b, a: delete(schema, p, b)
    events = batch(*(makers[kind](p, b, a) for p, (kind, b, a) in enumerate(changes)))
    found = outcome(project(schema, where="country = 'DE'", exclude=["note"], mask=["id"]).apply(events))

    def plain(row: Any) -> Any:
        return [digest(SALT, row[0]), row[2]] if row and row[2] == "DE" else None

    wanted = []
    for position, (kind, before, after) in enumerate(changes):
        old, new = plain(before) if kind != "insert" else None, plain(after) if kind != "delete" else None
        if old or new:
            wanted.append(("update" if old and new else "insert" if new else "delete", position, 0, old, new))
    assert found == wanted


@pytest.mark.parametrize(
    ("columns", "error", "sentence"),
    [
        ({"exclude": ["mail"]}, ColumnRefused, "shop.orders has no column 'mail', which the pipeline's columns: name"),
        ({"exclude": ["id"]}, ColumnRefused, "'id' is part of the key, so it cannot be excluded; mask it instead"),
        ({"rename": {"email": "AMOUNT"}}, ColumnRefused, "two columns would be named 'amount'"),
        ({"where": "land = 'DE'"}, BadExpression, "shop.orders has no column 'land'"),
        ({"where": "at > now - INTERVAL '1' day"}, BadExpression, "a pipeline's filter cannot contain now or today"),
        ({"where": "country LIKE"}, BadExpression, "where"),
        (computed("amount / 2"), BadExpression, "compute made: amount / 2: '/' (character 8) is not part of the portable language"),
        (computed("amount / 2"), BadExpression, "or compute it by a function: transform: {function: package.module:function"),
        (computed("price"), BadExpression, "shop.orders has no column 'price'"),
        (computed("amount", "integer"), BadExpression, "it has up to 2 digits after the point, and integer has 0; write ROUND(..., 0)"),
        ({**computed("email", "text"), "mask": ["email"]}, ColumnRefused, "'email' is masked, so nothing is computed from its clear text"),
        ({"compute": {"Amount": {"kind": "integer", "expr": "id"}}}, ColumnRefused, "two columns would be named 'amount'"),
        (transformed("nowhere_at_all:f"), ColumnRefused, "transform: nowhere_at_all:f cannot be imported"),
        (transformed("json:nothing"), ColumnRefused, "transform: json:nothing cannot be imported"),
        (transformed("json:__name__"), ColumnRefused, "transform: json:__name__ is no function"),
    ],
)
def test_rules_that_cannot_be_applied_are_refused(columns: dict[str, Any], error: type[AuditorError], sentence: str) -> None:
    with pytest.raises(error) as raised:
        project(ORDERS, **columns)
    assert sentence in str(raised.value)


def test_filters_compare_times_of_zero_and_refuse_half_dates() -> None:
    projection = project(ORDERS, where="at < DATE '2026-01-01'", exclude=["email", "country", "amount"])
    times = ["0000-00-00 00:00:00.000", "2025-12-31 23:59:59.999", "2026-01-01 00:00:00.000"]
    found = projection.apply(batch(insert(ORDERS, 1, *([str(n), "", "", "1.00", at] for n, at in enumerate(times)))))
    assert [row[4][0] for row in outcome(found)] == ["0", "1"]
    with pytest.raises(ValueRefused, match=r"cannot be evaluated on a row of shop\.orders: .*out of range"):
        projection.apply(batch(insert(ORDERS, 2, ["1", "", "", "1.00", "2024-00-10 00:00:00.000"])))


@pytest.mark.parametrize(
    ("kind", "where", "passing", "failing"),
    [
        ("bigint unsigned", "v > 9223372036854775807", "18446744073709551615", "9223372036854775807"),
        ("varchar(20)", "v LIKE 'ä%'", "äpfel", "Äpfel"),
        ("char(5)", "v = 'ab'", "ab", "Ab"),
        ("decimal(30,10)", "v = 0.1", "0.1000000000", "0.1000000001"),
        ("double", "v >= 0.5", "0.5", "0.49999999999999994"),
        ("date", "v = DATE '2024-02-29'", "2024-02-29", "2024-03-01"),
        ("timestamp(6)", "v <= TIMESTAMP '2024-02-29 23:59:59.5'", "2024-02-29 23:59:59.500000", "2024-02-29 23:59:59.500001"),
        ("year", "v IN (2024, 2025)", "2025", "2026"),
        ("enum('a','b')", "v <> 'a'", "b", "a"),
    ],
)
def test_a_filter_knows_the_types_of_the_source(kind: str, where: str, passing: str, failing: str) -> None:
    schema = table(id="int", v=f"{kind} null")
    found = project(schema, where=where).apply(batch(insert(schema, 1, ["1", passing], ["2", failing], ["3", None])))
    assert [row[4][0] for row in outcome(found)] == ["1"]


def test_what_a_refresh_sends_passes_the_filter_by_its_keys() -> None:
    projection = project(ORDERS, where="country = 'DE'", exclude=["amount", "at"])
    low, high, gone = (["1", *[None] * 4], ["9", *[None] * 4], ["5", *[None] * 4])
    rows = [["2", "x", "DE", "1.00", None], ["3", "y", "FR", "1.00", None]]
    found = projection.apply(batch(refresh(ORDERS, 10, *rows, bounds=(low, high)), absent(ORDERS, 20, gone)))
    assert outcome(found) == [
        ("bounds", 10, 0, ["1", None, None], ["9", None, None]),
        ("refresh", 10, 1, None, ["2", "x", "DE"]),
        ("absent", 10, 2, ["3", None, None], None),
        ("absent", 20, 0, ["5", None, None], None),
    ]


def test_bounds_of_a_masked_key_are_dropped() -> None:
    by_email = table("people", ("email",), id="bigint", email="varchar(40)")
    chunk = refresh(by_email, 10, ["1", "a@b.c"], bounds=([None, "a"], [None, "b"]))
    found = project(by_email, mask=["email"]).apply(batch(chunk))
    assert outcome(found) == [("refresh", 10, 1, None, ["1", digest(SALT, "a@b.c")])]


@pytest.mark.parametrize(
    ("expr", "kind", "row", "made"),
    [
        ("amount * 2", "decimal(9,2)", ["1", None, None, "-0.50", None], "-1.00"),
        ("COALESCE(amount, 0)", "decimal(9,2)", ["1", None, None, None, None], "0.00"),
        ("at", "timestamp(3)", ["1", None, None, None, "0001-01-01 00:00:00.001"], "0001-01-01 00:00:00.001"),
        ("DATE(at)", "date", ["1", None, None, None, "9999-12-31 23:59:59.999"], "9999-12-31"),
        ("DATE(at)", "date", ["1", None, None, None, "0000-00-00 00:00:00.000"], None),
        ("YEAR(at)", "integer", ["1", None, None, None, "0000-00-00 00:00:00.000"], None),
        ("UPPER(email)", "text", ["1", "straße é\n", None, None, None], "STRAßE é\n"),
        ("country || '|'", "text", ["1", None, "D", None, None], "D|"),
        ("LENGTH(email)", "integer", ["1", "a\u0308😀 ", None, None, None], "4"),
        ("'it''s'", "text(4)", ["1", None, None, None, None], "it's"),
    ],
)
def test_a_value_is_computed_as_the_source_prints_it(expr: str, kind: str, row: list[str | None], made: str | None) -> None:
    [found] = project(ORDERS, **computed(expr, kind)).apply(batch(insert(ORDERS, 1, row))).to_pylist()
    assert found["after"] == [*row, made]


@pytest.mark.parametrize(
    ("columns", "row", "sentence"),
    [
        (computed("at", "timestamp(3)"), ["1", None, None, None, "0000-00-00 00:00:00.000"], "made of shop.orders is a zero date in a row"),
        (computed("YEAR(at)", "integer"), ["1", None, None, None, "2024-00-10 00:00:00.000"], "cannot be computed of a row of shop.orders"),
        (computed("amount * amount", "decimal(9,4)"), ["1", None, None, "99999999.99", None], "cannot be computed of a row"),
        (computed("email", "text(3)"), ["1", "long", None, None, None], "made of shop.orders has 4 characters in a row, and is varchar(3)"),
        (transformed(f"{__name__}:half"), ["1", "x", None, "1.50", None], "returned values in made that are no integer"),
        (transformed(f"{__name__}:half", "text"), ["2", "x", None, "1.50", None], "returned 2 values in made for 1 rows"),
        (transformed(f"{__name__}:half"), ["3", "x", None, "1.50", None], "returned no column 'made'"),
        (transformed(f"{__name__}:half"), ["4", "x", None, "1.50", None], "raised KeyError (line "),
    ],
)
def test_a_row_that_cannot_be_computed_is_refused_without_its_values(columns: dict[str, Any], row: list[str | None], sentence: str) -> None:
    with pytest.raises(ValueRefused) as raised:
        project(ORDERS, **columns).apply(batch(insert(ORDERS, 1, row)))
    assert sentence in str(raised.value) and "99999999" not in str(raised.value) and "long" not in str(raised.value)


def exact(rows: pa.RecordBatch) -> Any:
    """Return values whose texts have a form of their own."""
    return pa.table(
        {
            "tiny": pa.array([Decimal("0.00000001")] * rows.num_rows),
            "when": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 120_000)] * rows.num_rows, pa.timestamp("us")),
            "day": pa.array([dt.date(1, 2, 3)] * rows.num_rows),
            "n": pa.array([-7.0] * rows.num_rows),
            "text": pa.array(["é😀\n"] * rows.num_rows, pa.large_string()),
        }
    )


def test_what_a_function_returns_is_written_as_the_source_prints_it() -> None:
    kinds = {"tiny": "decimal(12,8)", "when": "timestamp(3)", "day": "date", "n": "integer", "text": "text"}
    transform = {"function": f"{__name__}:exact", "columns": kinds}
    [found] = project(ORDERS, transform=transform).apply(batch(insert(ORDERS, 1, ["1", None, None, None, None]))).to_pylist()
    assert found["after"][5:] == ["0.00000001", "2024-02-29 01:02:03.120", "0001-02-03", "-7", "é😀\n"]
    with pytest.raises(ValueRefused, match="more digits of a second"):
        project(ORDERS, transform={**transform, "columns": {"when": "timestamp(1)"}}).apply(batch(insert(ORDERS, 1, ["1", *[None] * 4])))


def half(rows: pa.RecordBatch) -> Any:
    """Return what a wrong transform returns, by the key of the row."""
    match rows["id"][0].as_py():
        case "1":
            return {"made": ["1.5"]}
        case "2":
            return {"made": ["a", "b"]}
        case "3":
            return rows
    raise KeyError(rows["id"][0])
