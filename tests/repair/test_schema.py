"""The printed target schema: loaded with the source's rows it is a match, and its ALTERs bring a drifted target in line."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import dialects
from auditor import service
from auditor.cli import main
from auditor.config import Settings
from auditor.errors import ConfigError
from auditor.model import DefinedTable, Verdict
from auditor.planning.target_schema import find_drift, plan_target, read_comments
from auditor.service.target_schema import alter, print_schema
from auditor.sql import table_definition
from dialects import Column, Kind, Place, Table
from tests import tables
from tests.live import LiveEngine, LivePair, engine_params, pair_params
from tests.repair import damaged

IN_LINE = "-- The target's table is as it should be.\n"


def settings(source: str, target: str, **audit: Any) -> Settings:
    sides = {"source": {"connection": "a", "table": "schema_source"}, "target": {"connection": "b", "table": "schema_target"}}
    connections = {"a": {"url": source}, "b": {"url": target}}
    return Settings.model_validate({"connections": connections, "audits": {"all": {**sides, **audit}}})


def statements(script: str) -> list[str]:
    """Return the statements of a script, without its comments."""
    plain = "".join(line for line in script.splitlines(keepends=True) if not line.startswith("--"))
    return [one for one in plain.split(";\n") if one.strip()]


def printed(configured: Settings, **more: Any) -> str:
    return "".join(print_schema(configured, "all", **more))


def is_slow(param: Any) -> bool:
    """Return whether Spark is in a pair: it takes its time, and its types are made as those of the others are."""
    return "spark" in str(param.id)


PAIRS = [pytest.param(*one.values, marks=[*one.marks, *([pytest.mark.slow] if is_slow(one) else [])], id=one.id) for one in pair_params()]


def describe(engine: LiveEngine) -> Table:
    session = dialects.connect(engine.url)
    try:
        (table,) = session.dialect.catalogue.describe(session, Place(("schema_source",)))
        return table
    finally:
        session.close()


def as_kind(value: Any, kind: Kind) -> Any:
    """Return a value as the source's own type of it, which is another than it was made for, has it."""
    if kind.name == "integer" and isinstance(value, bool):
        return int(value)
    return str(value) if kind.is_free_text and value is not None else value


@pytest.mark.quick_for("mariadb-postgres", "duckdb-mysql", "redshift-mariadb")
@pytest.mark.parametrize("pair", PAIRS, indirect=True)
def test_the_printed_table_with_the_rows_of_the_source_is_a_match(pair: LivePair) -> None:
    generator = random.Random(5)
    columns = damaged.shared_columns(pair)
    values = [damaged.KINDS[name][1] for name, _ in columns[1:]]
    rows = [(number, *(None if generator.random() < 0.1 else value(generator) for value in values)) for number in range(40)]
    tables.make(pair.source, "schema_source", columns, rows, ["id"])
    tables.execute(pair.target, "DROP TABLE IF EXISTS schema_target")
    configured = settings(pair.source.url, pair.target.url, key=["id"])
    script = printed(configured)
    left_out = {line.split(":")[1].strip() for line in script.splitlines() if line.startswith("-- Left out")}
    assert left_out <= {"flags", "exact"}, script
    tables.execute(pair.target, *statements(script))
    kept = [place for place, (name, _) in enumerate(columns) if name not in left_out]
    defined = plan_target(configured.audits["all"], describe(pair.source), dialects.get(pair.target.dialect), {}).columns
    made = [columns[place][1] for place in kept]
    kinds = [kind if kind.name == column.kind.name else column.kind for kind, column in zip(made, defined, strict=True)]
    loaded = [[as_kind(row[place], kind) for place, kind in zip(kept, kinds, strict=True)] for row in rows]
    tables.insert(pair.target, "schema_target", [(column.name, kind) for column, kind in zip(defined, kinds, strict=True)], loaded)
    configured = settings(pair.source.url, pair.target.url, key=["id"], columns={"exclude": sorted(left_out)})
    report = service.run_audit(configured, "all")
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.plan and {column.name for column in report.plan.columns} == {columns[place][0] for place in kept}
    assert printed(configured).endswith(IN_LINE), printed(configured)


SOURCE = (
    "DROP TABLE IF EXISTS schema_source",
    "CREATE TABLE schema_source (id VARCHAR PRIMARY KEY, name VARCHAR, price DECIMAL(12, 2), sold TIMESTAMP, kind VARCHAR NOT NULL)",
    "COMMENT ON TABLE schema_source IS 'what''s \\sold'",
    "COMMENT ON COLUMN schema_source.price IS 'in €'",
)
DRIFTED = "CREATE TABLE schema_target (id VARCHAR(9), name VARCHAR(9) NOT NULL, price DECIMAL(5, 1), kind VARCHAR(9), more INTEGER)"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """The URL of a DuckDB file with a table whose key is a text, and with comments."""
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/source.duckdb")
    tables.execute(engine, *SOURCE)
    return engine.url


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql", "mariadb", "duckdb", "redshift"), indirect=True)
def test_comments_and_keys_arrive_in_the_target(engine: LiveEngine, source: str) -> None:
    tables.execute(engine, "DROP TABLE IF EXISTS schema_target")
    configured = settings(source, engine.url)
    tables.execute(engine, *statements(printed(configured)))
    session = dialects.connect(engine.url)
    try:
        (table,) = session.dialect.catalogue.describe(session, Place(("schema_target",)))
        assert read_comments(session, table) == {"": "what's \\sold", "price": "in €"}
    finally:
        session.close()
    assert [name.lower() for name in table.primary_key] == ["id"]
    assert {column.name: column.nullable for column in table.columns} == {
        "id": False, "name": True, "price": True, "sold": True, "kind": False,
    }  # fmt: skip


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql", "mariadb", "duckdb"), indirect=True)
def test_alters_bring_a_drifted_target_in_line(engine: LiveEngine, source: str) -> None:
    tables.execute(engine, "DROP TABLE IF EXISTS schema_target", DRIFTED)
    configured = settings(source, engine.url)
    script = printed(configured)
    for sentence in (
        "price is ", "name may be NULL in the source", "kind is never NULL in the source", "only the target has more; to drop it: ALTER",
    ):  # fmt: skip
        assert f"-- {sentence}" in script, script
    assert "PRIMARY KEY" in script and "ADD COLUMN" in script
    tables.execute(engine, *statements(script))
    again = printed(configured)
    assert not statements(again), again
    assert [line for line in again.splitlines()[1:] if "only the target has more" not in line] == [], again
    assert "CREATE TABLE" in printed(configured, create=True)


WHOLE = (
    "CREATE TABLE schema_target (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY COMMENT 'one, two',"
    " name VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'it''s' COMMENT 'a\\\\b ''c''\\n',"
    " price DECIMAL(5, 2) NULL DEFAULT 1.25 COMMENT 'in €', code INT NULL DEFAULT 7 INVISIBLE COMMENT 'hidden',"
    " sold DATETIME(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6))"
)
ATTRIBUTES = (
    "SELECT COLUMN_NAME, COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT, COLLATION_NAME, COLUMN_TYPE, IS_NULLABLE FROM information_schema.COLUMNS"
    " WHERE TABLE_NAME = 'schema_target' AND TABLE_SCHEMA = DATABASE() ORDER BY ORDINAL_POSITION"
)


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_a_changed_column_keeps_its_default_its_numbering_and_its_comment(engine: LiveEngine, tmp_path: Path) -> None:
    other = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/whole.duckdb")
    columns = "id UBIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(12, 2), code INTEGER NOT NULL, sold TIMESTAMP NOT NULL"
    tables.execute(other, f"CREATE TABLE schema_source ({columns})")
    tables.execute(engine, "DROP TABLE IF EXISTS schema_target", WHOLE)
    before = tables.query(engine, ATTRIBUTES)
    script = printed(settings(other.url, engine.url))
    assert script.count("MODIFY COLUMN") == 5, script
    tables.execute(engine, *statements(script))
    after = tables.query(engine, ATTRIBUTES)
    assert [row[:5] for row in after] == [row[:5] for row in before]
    assert [str(row[5]).replace("(20)", "").replace("(11)", "") for row in after] == [
        "bigint unsigned", "varchar(9)", "decimal(12,2)", "int", "datetime(6)",
    ]  # fmt: skip
    assert [row[6] for row in after] == ["NO", "YES", "YES", "NO", "NO"]
    assert not statements(printed(settings(other.url, engine.url)))


def on_redshift(source: str) -> DefinedTable:
    """Return the table on Redshift that holds the rows of the source."""
    table = describe(LiveEngine("duckdb", "duckdb", source))
    return plan_target(settings(source, source).audits["all"], table, dialects.get("redshift"), {})


def test_what_redshift_does_not_change_is_said(source: str) -> None:
    engine = dialects.get("redshift")
    defined = on_redshift(source)
    narrow = Column("price", "numeric(5,1)", Kind("decimal", 5, 1), True)
    there = Table(
        '"public"."schema_target"', (*(Column(c.name, c.type, c.kind, c.nullable) for c in defined.columns[:2]), narrow), ("id",), None
    )
    drift = find_drift(defined, there)
    script = "".join(alter(engine, there, drift, defined, {}))
    assert (
        "-- price is numeric(5,1), and should be DECIMAL(12,2), which this engine does not change in place; make the table anew." in script
    )
    assert script.count("ADD COLUMN") == 2 and "ALTER COLUMN" not in script


def test_distribution_and_sort_keys_are_asked_for(source: str, tmp_path: Path) -> None:
    redshift, defined = dialects.get("redshift"), on_redshift(source)
    (made,) = table_definition.create_table(redshift, '"public"."t"', defined, {"dist": ("ID",), "sort": ("sold", "id")})
    assert made.endswith(')\nDISTKEY ("id")\nSORTKEY ("sold", "id")')
    with pytest.raises(ConfigError, match="has no column 'nothing' for its sort key; it has id, name, price, sold, kind"):
        list(table_definition.create_table(redshift, "t", defined, {"sort": ("nothing",)}))
    with pytest.raises(ConfigError, match="duckdb has no dist keys; leave out the dist key of"):
        printed(settings(source, f"duckdb:///{tmp_path}/source.duckdb"), keys={"dist": ("id",)})


@pytest.mark.parametrize("engine", engine_params("mariadb"), indirect=True)
def test_columns_without_an_exact_type_are_left_out_and_said(engine: LiveEngine, tmp_path: Path) -> None:
    other = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/bits.duckdb")
    tables.execute(other, "CREATE TABLE schema_source (id INTEGER PRIMARY KEY, flags BIT, span INTERVAL, list INTEGER[])")
    tables.execute(engine, "DROP TABLE IF EXISTS schema_target")
    script = printed(settings(other.url, engine.url))
    assert (
        "-- Left out: flags: BIT states no number of bits, which mysql needs. To audit without it: columns: {exclude: [flags]}.\n" in script
    )
    assert "-- Left out: span: mysql has no type for interval. " in script
    assert "-- Left out: list: INTEGER[] has no type there that an audit compares. " in script
    assert statements(script) == [statements(script)[0]] and "`id` BIGINT NOT NULL" in script


def test_the_command_prints_and_refuses(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = source.removeprefix("duckdb:///")
    Path("auditor.yaml").write_text(f"""
connections: {{a: {{url: "duckdb:///{url}"}}, b: {{url: "duckdb:///target.duckdb"}}}}
audits:
  shop: {{source: {{connection: a, table: schema_source}}, target: {{connection: b, table: shop.sold, columns: {{name: title}}}}}}
  files: {{source: {{connection: a, table: schema_source}}, target: {{connection: b, table: sold.parquet}}}}
  nokey: {{source: {{connection: a, table: schema_source}}, target: {{connection: b, table: sold}}, key: [nothing]}}
""")
    tables.execute(LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/target.duckdb"), "SELECT 1")
    assert main(["schema", "shop"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("-- The target of shop, on duckdb, for the rows of a: schema_source.\n")
    assert 'CREATE TABLE "shop"."sold" (\n  "id" VARCHAR NOT NULL,\n  "title" VARCHAR,' in shown
    for audit, says in (
        ("files", "the target of files is files, which have no CREATE TABLE; name a table"),
        ("nokey", "the source has no column 'nothing', which the audit's key names; it has id, name, price, sold, kind"),
        ("nobody", "nobody"),
    ):
        assert main(["schema", audit]) == 2
        assert says in capsys.readouterr().err
