"""Schema drift: changes of a table's columns and primary key since earlier runs."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from auditor import service
from auditor.config import validate_settings
from auditor.history import records
from auditor.history.handover import StoredSchema
from auditor.model import Report, State
from auditor.planning import schema_drift
from auditor.store import open_store
from dialects import Column, Kind, Table

INTEGER = Kind("integer")


def table(*columns: tuple[str, str, bool], key: tuple[str, ...] = ("id",)) -> Table:
    return Table("t", tuple(Column(name, native, INTEGER, nullable) for name, native, nullable in columns), key, 10)


def schema(*columns: tuple[str, str, bool], key: tuple[str, ...] = ("id",)) -> StoredSchema:
    stored: StoredSchema = json.loads(json.dumps(schema_drift.describe_schema(table(*columns, key=key))))
    return stored


ID, NAME, PRICE = ("id", "bigint", False), ("name", "varchar(20)", True), ("price", "decimal(10,2)", True)
BEFORE = schema(ID, NAME, PRICE)


@pytest.mark.parametrize(
    ("now", "sentences"),
    [
        (BEFORE, ()),
        (schema(PRICE, NAME, ID), ()),
        (schema(ID, NAME, PRICE, ("note", "varchar(20)", True)), ("source: column note was added (varchar(20))",)),
        (schema(ID, PRICE), ("source: column name was dropped (varchar(20))",)),
        (schema(ID, NAME, ("price", "double", True)), ("source: column price was decimal(10,2) and is double",)),
        (schema(ID, ("name", "varchar(20)", False), PRICE), ("source: column name may no longer be NULL",)),
        (schema(("id", "bigint", True), NAME, PRICE), ("source: column id may be NULL now",)),
        (schema(ID, NAME, PRICE, key=("id", "name")), ("source: the primary key was (id) and is (id, name)",)),
        (schema(ID, NAME, PRICE, key=()), ("source: the primary key was (id) and is none",)),
        (
            schema(ID, ("label", "varchar(20)", True), PRICE),
            (
                "source: column name was dropped (varchar(20)); perhaps it is called label now",
                "source: column label was added (varchar(20))",
            ),
        ),
        (
            schema(ID, ("label", "text", True), PRICE),
            ("source: column name was dropped (varchar(20))", "source: column label was added (text)"),
        ),
        (
            schema(ID, PRICE, ("label", "varchar(20)", True)),
            ("source: column name was dropped (varchar(20))", "source: column label was added (varchar(20))"),
        ),
    ],
)
def test_changes_are_described_in_sentences(now: StoredSchema, sentences: tuple[str, ...]) -> None:
    assert schema_drift.describe_changes({"source": BEFORE}, {"source": now}) == sentences


def test_unambiguous_renames_are_suggested() -> None:
    now = schema(ID, ("label", "varchar(20)", True), ("cost", "decimal(10,2)", True))
    hints = [sentence for sentence in schema_drift.describe_changes({"source": BEFORE}, {"source": now}) if "perhaps" in sentence]
    assert [hint.split()[-2] for hint in hints] == ["label", "cost"]
    two = schema(ID, ("a", "varchar(20)", True), ("b", "varchar(20)", True), PRICE)
    assert not any("perhaps" in sentence for sentence in schema_drift.describe_changes({"source": BEFORE}, {"source": two}))


def test_no_changes_without_an_earlier_schema() -> None:
    assert schema_drift.describe_changes(None, {"source": BEFORE}) == ()
    assert schema_drift.describe_changes({"source": BEFORE}, {"source": BEFORE, "target": schema(ID)}) == ()


def test_changes_name_their_side() -> None:
    now = {"source": schema(ID, NAME), "target": schema(ID, PRICE)}
    assert schema_drift.describe_changes({"source": BEFORE, "target": BEFORE}, now) == (
        "source: column price was dropped (decimal(10,2))",
        "target: column name was dropped (varchar(20))",
    )


@pytest.mark.duckdb
def test_strict_audit_fails_until_a_changed_column_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error message says how to accept the column, and no number of failed runs accepts it implicitly."""
    monkeypatch.setattr(records, "LOOKBACK_RUNS", 2)
    store = open_store(f"sqlite:///{tmp_path}/auditor.db")
    ends = {side: {"connection": side, "table": "t"} for side in ("source", "target")}

    def execute(sql: str) -> None:
        for side in ends:
            with duckdb.connect(str(tmp_path / side)) as connection:
                connection.execute(sql)

    def audit_with(schema: str) -> Report:
        connections = {side: {"url": f"duckdb:///{tmp_path / side}"} for side in ends}
        settings = validate_settings({"connections": connections, "audits": {"t": {**ends, "key": ["id"], "schema": schema}}})
        return service.run_audit(settings, "t", store=store)

    execute("CREATE TABLE t AS SELECT i AS id, 'a' AS v FROM range(10) r(i)")
    assert audit_with("strict").state is State.DONE
    execute("ALTER TABLE t ADD COLUMN note VARCHAR")
    for _ in range(4):
        failed = audit_with("strict")
        assert failed.state is State.FAILED and "column note was added" in failed.reasons[0]
        assert "to accept them, write schema: note in this audit, run it once, and write schema: strict again" in failed.reasons[0]
    noted = audit_with("note")
    assert noted.state is State.DONE and noted.schema_changes
    assert audit_with("strict").state is State.DONE
