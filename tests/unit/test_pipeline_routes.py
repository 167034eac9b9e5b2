"""Rows of one table that go into several: each into one of them at any moment, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.config import Pipeline
from auditor.errors import BadExpression, ColumnRefused, StagingFailed
from auditor.model import TableNote
from auditor.pipeline.columns import Projection
from auditor.pipeline.event_count import EventCount, check_routes
from auditor.pipeline.events import TableSchema
from auditor.pipeline.live.staged_sums import TaskSums
from auditor.pipeline.stage_task import TableRules, project
from tests.pipeline_events import absent, announce, batch, delete, insert, note, refresh, table, update

ORDERS = table(id="bigint", region="varchar(9) null", amount="int null", at="datetime null")
ROUTES = [{"name": "orders_eu", "when": "region = 'EU'"}, {"name": "orders_large", "when": "amount > 10 OR region = 'US'"}]
OUTPUTS = ["shop.orders_eu", "shop.orders_large", "shop.orders"]


def rules(routes: Any = ROUTES, tables: Sequence[str] = ("*",), **columns: Any) -> TableRules:
    given = {
        "source": {"connection": "source", "tables": tables},
        "columns": {"orders": {"table": routes, **columns}},
        "staging": {"path": "/nowhere"},
        "targets": {"wh": {"connection": "warehouse", "schema": "shop"}},
    }
    return TableRules(Pipeline.model_validate(given), b"salt")


def staged(chosen: TableRules, folder: Any, *batches: pa.RecordBatch) -> tuple[list[pa.RecordBatch], list[TableNote]]:
    """What a task makes of batches, without announcements."""
    notes: list[TableNote] = []
    found = list(project(batches, chosen, notes, TaskSums(str(folder)), EventCount()))
    return [one for one in found if one.num_rows and one["kind"][0].as_py() != "schema"], notes


def route(region: str | None, amount: int | None) -> str:
    """The table of the stream that a row is to be in."""
    if region == "EU":
        return OUTPUTS[0]
    return OUTPUTS[1] if region == "US" or (amount is not None and amount > 10) else OUTPUTS[2]


def apply(tables: dict[str, dict[str, list[str | None]]], events: Iterator[dict[str, Any]]) -> None:
    """Do to tables, by key, what events say, as a target does."""
    for event in events:
        rows = tables[f"{event['database']}.{event['table']}"]
        before, after = event["before"], event["after"]
        match event["kind"]:
            case "insert":
                assert after[0] not in rows, "an insert of a row that is there"
                rows[after[0]] = after
            case "update":
                assert rows.pop(before[0]) == before
                rows[after[0]] = after
            case "delete":
                assert rows.pop(before[0]) == before, "a delete of another row than the one that is there"
            case "refresh":
                rows[after[0]] = after
            case "absent":
                rows.pop(before[0], None)
            case "bounds":
                for key in [key for key in rows if int(before[0] or 0) < int(key) <= int(after[0] or 1 << 40)]:
                    del rows[key]


ROWS = st.tuples(st.integers(1, 6), st.sampled_from(["EU", "US", "eu", "", None]), st.sampled_from([None, 0, 10, 11]))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["write", "write", "delete", "refresh", "some"]), ROWS), min_size=1, max_size=25))
def test_each_row_is_in_the_table_of_its_route_alone_after_any_changes(tmp_path_factory: Any, changes: list[Any]) -> None:
    chosen, folder = rules(), tmp_path_factory.getbasetemp()
    source: dict[str, list[str | None]] = {}
    events: list[list[dict[str, object]]] = []
    for position, (kind, (key, region, amount)) in enumerate(changes, 10):
        name = str(key)
        row = [name, region, None if amount is None else str(amount), None]
        if kind == "write":
            events.append(update(ORDERS, position, (source[name], row)) if name in source else insert(ORDERS, position, row))
            source[name] = row
        elif kind == "delete" and name in source:
            events.append(delete(ORDERS, position, source.pop(name)))
        elif kind == "refresh":
            nothing = [None] * 4
            events.append(refresh(ORDERS, position, *source.values(), bounds=(nothing, nothing)))
        elif kind == "some":
            events.append(absent(ORDERS, position, [name, None, None, None]))
            if name in source:
                events.append(refresh(ORDERS, position + 1000, source[name]))
    found, notes = staged(chosen, folder, batch(announce(ORDERS, 1)), batch(*events))
    tables: dict[str, dict[str, list[str | None]]] = {output: {} for output in OUTPUTS}
    apply(tables, (event for one in found for event in one.to_pylist()))
    wanted = {
        output: {key: row for key, row in source.items() if route(row[1], int(row[2]) if row[2] else None) == output} for output in OUTPUTS
    }
    assert tables == wanted and not notes


def test_the_tables_have_the_names_of_routes_and_schemas_of_their_own() -> None:
    projections = rules(rename={"amount": "cents"}, mask=["region"]).project(ORDERS)
    assert [one.schema.table for one in projections] == ["orders_eu", "orders_large", "orders"]
    assert len({one.schema.id for one in projections}) == 3 and {one.schema.columns[2].name for one in projections} == {"cents"}
    [announced] = [projections[0].announce(batch(announce(ORDERS, 1)))]
    assert announced["table"].to_pylist() == ["orders_eu"]
    assert TableSchema.from_json(announced["after"][0][0].as_py()) == projections[0].schema
    [renamed] = rules({"name": "invoices"}).project(ORDERS)
    assert renamed.schema.table == "invoices" and not renamed.leaves_out and not renamed.changes_nothing
    assert renamed.apply(batch(insert(ORDERS, 2, ["1", None, None, None])))["table"].to_pylist() == ["invoices"]


def test_the_filter_of_the_pipeline_comes_before_routes() -> None:
    found = rules(where="amount > 0").pipeline.columns["orders"].outputs("orders")
    assert found == {
        "orders_eu": "(amount > 0) AND (region = 'EU')",
        "orders_large": "(amount > 0) AND (region = 'EU') IS NOT TRUE AND (amount > 10 OR region = 'US')",
        "orders": "(amount > 0) AND (region = 'EU') IS NOT TRUE AND (amount > 10 OR region = 'US') IS NOT TRUE",
    }
    assert rules([*ROUTES, {"name": "rest"}]).pipeline.outputs_of("shop.orders") == ["shop.orders_eu", "shop.orders_large", "shop.rest"]


@pytest.mark.parametrize(
    ("when", "error", "words"),
    [
        ("region = 'EU') OR (amount = 1", BadExpression, "')'"),
        ("zone = 'EU'", BadExpression, "shop.orders has no column 'zone'"),
        ("at > now", BadExpression, "cannot contain now or today"),
    ],
)
def test_a_condition_must_be_one_by_itself(when: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        rules([{"name": "orders_eu", "when": when}]).project(ORDERS)
    assert words in str(raised.value)


def test_a_row_of_which_the_route_is_not_known_stops_the_tables_that_it_may_be_of_with_its_key(tmp_path: Any) -> None:
    chosen = rules([{"name": "orders_eu", "when": "region = 'EU'"}, {"name": "orders_old", "when": "at < DATE '2020-01-01'"}])
    good, bad = ["1", "US", None, "2024-01-01 00:00:00"], ["7", "EU", None, "2024-00-10 00:00:00"]
    found, notes = staged(chosen, tmp_path, batch(announce(ORDERS, 1)), batch(insert(ORDERS, 9, good, bad)))
    assert [(one["table"][0].as_py(), one.num_rows) for one in found] == [("orders_eu", 1), ("orders", 1)]
    assert [(one.table, one.position, one.row, one.body["stage"]) for one in notes] == [
        ("shop.orders_old", 9, 1, "staging"), ("shop.orders", 9, 1, "staging"),
    ]  # fmt: skip
    assert all(one.reason.endswith("; the row with id = 7") and one.body["cause"] in one.reason for one in notes)


def test_a_schema_that_cannot_be_projected_stops_all_of_them(tmp_path: Any) -> None:
    other = table(id="bigint", amount="int null")
    _, notes = staged(rules(), tmp_path, batch(announce(other, 1)), batch(insert(other, 9, ["1", None])))
    assert [(one.table, one.events) for one in notes] == [(output, 1) for output in OUTPUTS]


def test_a_table_of_the_source_with_the_name_of_a_route_stops(tmp_path: Any) -> None:
    taken = TableSchema("shop", "orders_eu", ORDERS.columns, ORDERS.key)
    with pytest.raises(ColumnRefused, match=r"the source has a table shop.orders_eu, and rows of orders go into a table of this name"):
        rules().project(taken)
    events = batch(note("change", "orders_eu", 9, {"ops": [{"op": "create", "sure": True}], "advances": True}))
    found, notes = staged(rules(), tmp_path, events)
    assert not found and [(one.table, one.stops, "advances" in one.body) for one in notes] == [("shop.orders_eu", True, False)]


def test_statements_reach_all_tables_of_a_table_and_renames_stop_them(tmp_path: Any) -> None:
    ops: list[dict[str, Any]] = [{"op": "add", "column": "note", "value": {"text": None}}]
    _, notes = staged(rules(), tmp_path, batch(note("change", "orders", 9, {"ops": ops})))
    assert [(one.table, one.stops, one.body["ops"]) for one in notes] == [(output, False, ops) for output in OUTPUTS]
    moved = {"ops": [{"op": "moved", "from": "shop.orders"}], "advances": True}
    gone = {"ops": [{"op": "gone", "to": "shop.archive"}], "advances": True}
    _, notes = staged(rules(), tmp_path, batch(note("change", "archive", 9, moved)), batch(note("change", "orders", 9, gone)))
    assert [one.table for one in notes] == ["shop.archive", *OUTPUTS] and all(one.stops and not one.body["ops"] for one in notes)
    assert notes[0].reason == (
        "the source renamed shop.archive or shop.orders, and rows of shop.orders go into tables of other names (columns: table); send all"
        " rows of shop.archive again: auditor pipeline refresh, and skip this"
    )
    _, notes = staged(rules(), tmp_path, batch(note("poison", "orders", 9, {"stage": "decoding", "reason": "why"}, events=2)))
    assert [(one.table, one.reason, one.events) for one in notes] == [(output, "why", 2) for output in OUTPUTS]


def test_a_row_that_no_table_gets_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    events = batch(insert(ORDERS, 9, ["1", "US", None, None], ["2", "EU", None, None]))
    lost = [one.apply(events) for one in rules().project(ORDERS)[:1]]
    with pytest.raises(
        StagingFailed, match=r"2 rows of shop.orders were decoded, and 1 came into the tables of its routes; nothing of this"
    ):
        check_routes("shop.orders", events, lost)
    monkeypatch.setattr(Projection, "apply", lambda self, one: one)
    with pytest.raises(StagingFailed, match=r"2 rows of shop.orders were decoded, and 6 came into"):
        staged(rules(), tmp_path, batch(announce(ORDERS, 1)), events)
