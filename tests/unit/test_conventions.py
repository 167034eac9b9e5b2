"""Conventions as data, and in a configuration: what they are recognised by, what a person states, and what they cannot be combined with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.cli import main
from auditor.config import Audit, validate_audit
from auditor.conventions import CONVENTIONS, NAMES, Convention, Mark, folded_name, recognise
from auditor.errors import ConfigError
from auditor.planning.conventions import find_target_names
from auditor.service.table_pairs import match_tables
from dialects import Column, Kind, TableName

SIDES: dict[str, Any] = {"source": {"connection": "a", "table": "orders"}, "target": {"connection": "b", "table": "orders"}}


def audit(convention: Any, **settings: Any) -> Audit:
    return validate_audit({**SIDES, "target": {**SIDES["target"], "convention": convention}, **settings})


@pytest.mark.parametrize("known", CONVENTIONS, ids=lambda known: known.name)
def test_convention_leaves_its_own_columns_out_and_links_to_its_page(known: Convention) -> None:
    named = [name for group in known.needs for name in group]
    named += [mark.column for mark in (*known.deleted, *([known.current] if known.current else []))]
    assert all(known.is_own_column(name) for name in (*named, *known.versions))
    assert known.link.startswith("https://")
    assert known.needs


def test_every_name_has_one_convention() -> None:
    assert sorted(NAMES) == sorted(known.name for known in CONVENTIONS)


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (["id", "_fivetran_synced", "_fivetran_deleted"], "fivetran"),
        (["id", "_fivetran_synced", "_fivetran_active", "_fivetran_start", "_fivetran_end"], "fivetran-history"),
        (["id", "_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_meta"], "airbyte"),
        (["ID", "OP"], "dms"),
        (["id", "_PEERDB_IS_DELETED", "_PEERDB_SYNCED_AT"], "peerdb"),
        (["id", "__deleted", "__source_ts_ms"], "debezium"),
        (["id", "_dlt_id", "_dlt_load_id"], "dlt"),
        (["id", "_dlt_id", "_dlt_load_id", "_dlt_valid_from", "_dlt_valid_to"], "dlt-scd2"),
        (["id", "_sdc_batched_at", "_sdc_sequence"], "stitch"),
        (["id", "deleted_at"], None),
    ],
)
def test_tables_are_recognised_by_their_columns(columns: list[str], name: str | None) -> None:
    known = recognise(columns)
    assert (known and known.name) == name


def test_stated_parts_replace_those_of_a_tool() -> None:
    convention = audit({"tool": "dms", "versions": ["dms_ts"], "metadata": ["DMS_*"]}).target.follows
    assert convention
    assert (convention.name, convention.deleted, convention.versions) == ("dms", (Mark("op", "D"),), ("dms_ts",))
    assert convention.is_own_column("dms_ts")
    assert convention.is_own_column("Op")
    own = audit({"deleted": {"column": "gone", "value": True}}).target.follows
    assert own
    assert (own.name, own.deleted, own.stated) == ("own", (Mark("gone", "true"),), ("gone",))


@pytest.mark.parametrize(
    ("convention", "settings", "sentence"),
    [
        ("fivetrann", {}, "target.convention: write one of 'fivetran'"),
        ({"tool": "fivetran"}, {}, "target.convention: it states nothing; write deleted, current, versions, metadata or types"),
        ({"flag": "a"}, {}, "target.convention.flag: unknown setting 'flag'"),
        (
            {"deleted": {"column": "a", "value": "x", "filled": True}},
            {},
            "target.convention.deleted: value and filled cannot be combined",
        ),
        ({"current": {"column": "a"}, "versions": ["b"]}, {}, "current and versions both say which row of a key counts"),
        ("fivetran", {"align": "pipeline"}, "align and convention cannot be combined"),
        ("fivetran", {"summaries": "live"}, "align and convention cannot be combined"),
    ],
)
def test_wrong_settings_are_refused_by_name(convention: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        audit(convention, **settings)


def test_shards_and_a_proxied_source_have_no_convention() -> None:
    written = {"connection": "a", "table": "orders", "convention": "dlt"}
    with pytest.raises(ConfigError, match="convention: belongs to one table, and the source has several shards"):
        validate_audit({**SIDES, "source": [written, {"connection": "c", "table": "orders"}]})
    with pytest.raises(ConfigError, match="via and convention cannot be combined"):
        validate_audit({**SIDES, "source": written, "via": {"connection": "c", "table": "orders.parquet"}})


def test_what_writes_the_target_or_defines_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="a patch needs plain tables, and the target b: orders follows the convention fivetran"):
        audit("fivetran").check_plain("a patch")


def test_names_find_each_other_by_letters_and_digits() -> None:
    def columns(*names: str) -> list[Column]:
        return [Column(name, "text", Kind("text"), True) for name in names]

    source = columns("id", "OrderID", "Größe", "1st choice", "user-name", "a_b", "aB", "plain", "mapped")
    target = columns("id", "order_id", "groesse", "_1_st_choice", "user_name", "ab", "PLAIN", "other", "grosse")
    pairs = find_target_names(source, target, {"mapped": "other"})
    assert pairs == {"OrderID": "order_id", "Größe": "grosse", "1st choice": "_1_st_choice", "user-name": "user_name"}
    assert folded_name("___") == "___"


def test_tables_find_each_other_by_letters_and_digits() -> None:
    source, target = [TableName("shop", "OrderItems"), TableName("shop", "a")], [TableName("dw", "order_items"), TableName("dw", "b")]
    pairs, left_out = match_tables(source, target, folded_name)
    assert pairs == [(source[0], target[0])]
    assert list(map(str, left_out)) == ["a: only in the source", "b: only in the target"]


def test_patch_of_a_table_that_a_tool_writes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run is stored and reported like any other; it suggests no patch, and one is refused by name, as is a bootstrap."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as database:
        database.execute("CREATE TABLE orders AS SELECT i AS id, 'note ' || i AS note FROM range(1, 50) r(i)")
        database.execute("ALTER TABLE orders ADD PRIMARY KEY (id)")
    with duckdb.connect("dwh.duckdb") as database:
        database.execute("CREATE TABLE orders AS SELECT i AS id, 'note ' || i AS note, i > 48 AS _fivetran_deleted FROM range(1, 50) r(i)")
        database.execute("ALTER TABLE orders ADD COLUMN _fivetran_synced TIMESTAMP")
    sides = {
        "source": {"connection": "shop", "table": "orders"},
        "target": {"connection": "dwh", "table": "orders", "convention": "fivetran"},
    }
    dwh = {"url": "duckdb:///dwh.duckdb", "write": {"url": "duckdb:///dwh.duckdb"}}
    values = {"connections": {"shop": {"url": "duckdb:///shop.duckdb"}, "dwh": dwh}, "audits": {"orders": sides}}
    Path("auditor.yaml").write_text(json.dumps(values), encoding="utf-8")
    assert main(["run", "orders", "-q"]) == 1
    printed = capsys.readouterr().out
    assert "1 row of the target is flagged as deleted (_fivetran_deleted is true); the source has 1 of them (key 49)" in printed
    assert "auditor patch" not in printed
    for command in (["patch", "orders"], ["bootstrap", "orders"], ["schema", "orders"]):
        assert main(command) == 2
        assert "needs plain tables, and the target dwh: orders follows the convention fivetran" in capsys.readouterr().err
    assert main(["diff", "duckdb:///shop.duckdb", "orders", "duckdb:///dwh.duckdb", "orders", "--convention", "airbyte", "-q"]) == 2
    assert "its columns are those of another: write --convention fivetran" in " ".join(capsys.readouterr().out.split())
