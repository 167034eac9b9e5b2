"""Types that one engine has and another lacks: the kind they share with what a loader makes of them, and what that does not see."""

from __future__ import annotations

import pytest

from auditor.errors import ColumnRefused
from tests.unit.test_planner import draft, end


@pytest.mark.parametrize(
    ("source", "target", "kind", "how"),
    [
        (("mysql", "binary(16)"), ("postgres", "uuid"), "uuid", ""),
        (("mysql", "char(32)"), ("postgres", "uuid"), "uuid", "folded"),
        (("mysql", "float"), ("postgres", "numeric(9,2)"), "float32", "rounded"),
        (("mysql", "decimal(6,2)"), ("postgres", "real"), "float32", ""),
        (("mysql", "decimal(15,2)"), ("spark", "double"), "float64", ""),
        (("mysql", "decimal(16,2)"), ("spark", "double"), "float64", "rounded"),
        (("mysql", "bigint"), ("spark", "double"), "float64", "rounded"),
        (("mysql", "year"), ("spark", "double"), "float64", ""),
        (("mysql", "double"), ("postgres", "boolean"), "float64", ""),
        (("mysql", "decimal(39,0)"), ("duckdb", "HUGEINT"), "decimal(39,0)", ""),
        (("mysql", "enum('a','b')"), ("postgres", "mood enum"), "enum", ""),
        (("mysql", "varchar(9)"), ("postgres", "mood enum"), "text", ""),
        (("mysql", "decimal(9,4)"), ("postgres", "price domain of numeric(10,2)"), "decimal(10,2)", "rounded"),
        (("mysql", "varchar(43)"), ("postgres", "inet"), "network", ""),
        (("mysql", "varchar(99)"), ("postgres", "interval"), "text", ""),
        (("mysql", "json"), ("postgres", "character varying(20)[]"), "json", "ignored ignored"),
        (("mysql", "json"), ("duckdb", 'STRUCT(a INTEGER[2], "b c" STRUCT(d BOOLEAN))[]'), "json", "ignored ignored"),
        (
            ("postgres", "address struct<street text, \"zip code\" integer>"), ("spark", "struct<street:string,zip:int>"), "json",
            "ignored ignored",
        ),
        (("mysql", "varchar(9) /*M!100301 COMPRESSED*/ character set latin1"), ("postgres", "text"), "text", ""),
    ],
)  # fmt: skip
def test_peculiar_types_share_a_kind(source: tuple[str, str], target: tuple[str, str], kind: str, how: str) -> None:
    tables = end(source[0], {"id": "bigint", "v": source[1]}), end(target[0], {"id": "bigint", "v": target[1]})
    plan = draft(*tables, key=["id"])
    assert [(column.name, str(column.kind)) for column in plan.columns] == [("id", "integer"), ("v", kind)]
    assert [one.how for one in plan.not_compared if one.column == "v"] == how.split()


UNKNOWN = [
    ("postgres", "xml"), ("postgres", "hstore"), ("postgres", "vector(3)"), ("postgres", "double precision[]"), ("postgres", "numeric[]"),
    ("postgres", "geometry(Point,4326)"), ("mysql", "point"), ("duckdb", "MAP(VARCHAR, INTEGER)"), ("duckdb", "STRUCT(a DATE)"),
    ("duckdb", "UNION(a INTEGER)"), ("spark", "map<string,int>"), ("spark", "array<struct<a:int,b:double>>"), ("spark", "struct<a b:int>"),
]  # fmt: skip
"""Engines' types without a canonical text."""


@pytest.mark.parametrize(("engine", "native"), UNKNOWN)
def test_column_of_an_unknown_type_is_left_out_by_name(engine: str, native: str) -> None:
    source, target = end("mysql", {"id": "bigint", "v": "text"}), end(engine, {"id": "bigint", "v": native})
    plan = draft(source, target, key=["id"])
    assert [column.name for column in plan.columns] == ["id"]
    (left_out,) = plan.not_compared
    assert (left_out.column, left_out.how, left_out.side) == ("v", "left out", "target")
    assert left_out.what == (
        f"{engine}'s type {native} has no canonical text; compare it by columns: {{override: {{v: {{expr: {{source: ..., target: ...}},"
        " kind: ...}}}"
    )
    for asked in ({"include": ["v"]}, {"override": {"v": {"trim": True}}}):
        with pytest.raises(ColumnRefused, match="no canonical text; exclude it, or compare it by columns: "):
            draft(source, target, key=["id"], columns=asked)
    with pytest.raises(ColumnRefused, match="no canonical text"):
        draft(source, target, key=["v"])
    shown = {"override": {"v": {"kind": "text", "expr": {"source": "v", "target": "v"}}}}
    assert [column.name for column in draft(source, target, key=["id"], columns=shown).columns] == ["id", "v"]
