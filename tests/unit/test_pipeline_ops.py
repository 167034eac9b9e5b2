"""What a statement does, as parts and targets see it: of the tables that are read, under the pipeline's rules."""

from __future__ import annotations

import pytest

from auditor.config import PipelineColumns
from auditor.pipeline.binlog.ddl import changes_of, read_statement
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.columns import Rules, digest
from auditor.pipeline.merge.column_origins import find_origins
from auditor.pipeline.stage_task import project_ops
from auditor.pipeline.table_ops import Op
from tests.pipeline_events import table

RULES = Rules(PipelineColumns.model_validate({"exclude": ["secret"], "mask": ["email"], "rename": {"zip": "postcode"}}), b"salt")


def projected(*ops: Op) -> list[Op]:
    return project_ops({"ops": list(ops)}, "shop.orders", RULES)["ops"]


def renamed(old: str, new: str) -> list[tuple[str, ...]]:
    return [tuple(str(one) for key, one in op.items() if key != "value") for op in projected({"op": "rename", "from": old, "to": new})]


def test_excluded_masked_and_renamed_columns() -> None:
    assert projected({"op": "add", "column": "Secret", "value": {"text": "x"}}, {"op": "drop", "column": "secret"}) == []
    assert projected({"op": "add", "column": "zip", "value": {"text": "1"}})[0]["column"] == "postcode"
    [masked] = projected({"op": "add", "column": "email", "value": {"text": "a@b"}})
    assert masked["value"] == {"text": digest(b"salt", "a@b")}
    assert projected({"op": "add", "column": "email", "value": {"text": None}})[0]["value"] == {"text": None}


def test_another_type_of_an_excluded_column_is_one_of_what_is_computed_from_it() -> None:
    compute = {
        "domain": {"kind": "text", "expr": "UPPER(Secret)"},
        "net": {"kind": "integer", "expr": "a"},
        "wrong": {"kind": "text", "expr": "("},
    }
    rules = Rules(PipelineColumns.model_validate({"exclude": ["secret"], "compute": compute}), b"salt")
    modify: Op = {"op": "modify", "column": "secret", "type": "char(2)", "nullable": True, "charset": "", "strict": True}
    assert project_ops({"ops": [modify]}, "shop.orders", rules)["ops"] == [{**modify, "column": "domain", "type": ""}]
    assert project_ops({"ops": [{"op": "drop", "column": "secret"}]}, "shop.orders", rules)["ops"] == []
    assert projected({"op": "key", "columns": ["id", "zip"], "strict": False}) == [
        {"op": "key", "columns": ["id", "postcode"], "strict": False}
    ]


@pytest.mark.parametrize(
    ("old", "new", "ops"),
    [
        ("zip", "place", [("rename", "postcode", "place")]), ("secret", "secret", []), ("a", "secret", [("drop", "a")]),
        ("secret", "a", [("add", "a")]), ("a", "email", [("drop", "a"), ("add", "email")]), ("a", "b", [("rename", "a", "b")]),
    ],
)  # fmt: skip
def test_renames_under_rules(old: str, new: str, ops: list[tuple[str, ...]]) -> None:
    assert renamed(old, new) == ops


def test_copies_beside_a_table() -> None:
    chosen = Selection(["orders", "crm_*", "_crm_a_old"], "shop")
    assert chosen.shadowed("shop", "_orders_gho") == ("orders", "gho") == chosen.shadowed("shop", "__orders_20260102030405_gho")
    assert chosen.shadowed("shop", "_crm_x_new") == ("crm_x", "new") and chosen.shadowed("shop", "_stock_new") is None
    assert chosen.has("shop", "_crm_a_old") and chosen.shadowed("shop", "_crm_a_old") is None, "it is named"
    everything = Selection(["*"], "shop")
    assert everything.has("shop", "orders") and not everything.has("shop", "_orders_gho") and everything.has("shop", "_orders")


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("RENAME TABLE a TO c, b TO a, c TO b", {"a": "moved shop.b", "b": "moved shop.a"}),
        ("RENAME TABLE a TO away", {"a": "gone"}),
        ("RENAME TABLE away TO a", {"a": "rows"}),
        ("RENAME TABLE a TO b", {"b": "moved shop.a", "a": "gone shop.b"}),
        ("RENAME TABLE a TO _a_old, _a_new TO a", {"a": "swapped shop._a_new"}),
        ("RENAME TABLE a TO _a_new, _a_old TO a", {"a": "rows"}),
        ("ALTER TABLE _a_gho RENAME TO a", {"a": "swapped shop._a_gho"}),
        ("RENAME TABLE a TO c, c TO a", {}),
    ],
)
def test_renames_of_tables(statement: str, found: dict[str, str]) -> None:
    bodies = changes_of(read_statement(statement, "shop"), Selection(["a", "b"], "shop"))
    told = {name[1]: [f"{op['op']} {op.get('from', op.get('to', ''))}".strip() for op in body["ops"]] for name, body in bodies.items()}
    assert told == {name: [op] for name, op in found.items()}
    assert all(("reason" in body) == (told[name[1]] == ["rows"]) for name, body in bodies.items())


def test_where_columns_come_from() -> None:
    old, new = table(id="int", a="int", b="int", c="int"), table(id="int", b="int", x="int", c="int", d="int")
    statements: list[list[Op]] = [[{"op": "rename", "from": "a", "to": "B"}, {"op": "rename", "from": "b", "to": "y"}],
                  [{"op": "drop", "column": "c"}], [{"op": "add", "column": "c", "value": {"text": "5"}},
                   {"op": "rename", "from": "y", "to": "x"}]]  # fmt: skip
    found = find_origins(old, new, statements)
    assert found.old == {"id": "id", "b": "a", "x": "b"} and found.values == {"c": {"text": "5"}} and found.said == []
    found = find_origins(old, new, [])
    assert found.old == {"id": "id", "b": "b", "c": "c"} and "x, d came and a went" in found.said[0]
