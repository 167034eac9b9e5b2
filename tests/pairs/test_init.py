"""What ``auditor init`` proposes for two servers runs, whatever their schemas are called, and what it leaves out has a reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import dialects
from auditor import conventions, service
from auditor.cli._init import write
from auditor.config import load, validate_settings
from auditor.model import Verdict
from auditor.service import table_pairs
from dialects import TableName
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs, engine_params

pytestmark = pytest.mark.engines_in_turn

KEYED = "init_orders"
VARIABLES = ("SOURCE_PASSWORD", "TARGET_PASSWORD")


def create(engine: LiveEngine, schema: str, *, partitioned: bool = False) -> None:
    """Create a keyed table, one without a key, and a view; in a schema of their own, or where the session looks first."""
    with tables.open_writable(engine) as session:
        prefix = f"{schema}." if schema else ""
        if schema:
            session.execute(f"CREATE SCHEMA {schema}")
        parts = " PARTITION BY RANGE (id)" if partitioned else ""
        session.execute(f"CREATE TABLE {prefix}init_orders (id INTEGER PRIMARY KEY, note VARCHAR(20)){parts}")
        if partitioned:
            session.execute(f"CREATE TABLE {prefix}init_part PARTITION OF {prefix}init_orders DEFAULT")
        session.execute(f"INSERT INTO {prefix}init_orders VALUES (1, 'a'), (2, 'b')")
        session.execute(f"CREATE TABLE {prefix}init_log (note VARCHAR(20))")
        session.execute(f"CREATE VIEW {prefix}init_seen AS SELECT id FROM {prefix}init_orders")


@pytest.fixture
def made(pair: LivePair) -> Iterator[LivePair]:
    create(pair.source, "")
    schema = "" if pair.target.name == "mysql" else "init_there"  # MySQL's schemas are databases, of which the URL names one
    create(pair.target, schema, partitioned=pair.target.name == "postgres")
    yield pair
    for engine, prefix in ((pair.source, ""), (pair.target, f"{schema}." if schema else "")):
        tables.execute(engine, f"DROP VIEW {prefix}init_seen", f"DROP TABLE {prefix}init_log", f"DROP TABLE {prefix}init_orders")
    if schema:
        tables.execute(pair.target, f"DROP SCHEMA {schema}")


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-redshift", "postgres-duckdb", "redshift-mysql"), indirect=True)
def test_proposed_audit_of_tables_in_other_schemas_runs(made: LivePair, tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    found = write(path, made.source.url, made.target.url)
    settings = load(path, {"SOURCE_PASSWORD": "audit", "TARGET_PASSWORD": "audit"})
    there = ("init_there." if made.target.name != "mysql" else "") + KEYED
    (name,) = [name for name, audit in settings.audits.items() if audit.sources[0].table == KEYED]
    assert settings.audits[name].target.table == there
    assert service.run_audit(settings, name).verdict is Verdict.MATCH
    lines = [line for line in map(str, found.left_out) if "init_" in line]
    assert lines == [
        "init_log: no primary key on either side; write its audit with key: [column, ...]",
        "init_seen: a view, which has no primary key; write its audit with key: [column, ...]",
    ]
    ends = {side: {"connection": side} for side in ("source", "target")}
    group = {"connections": {side: {"url": getattr(made, side).url} for side in ends}, "audits": {"g": {**ends, "tables": "init_*"}}}
    expanded, left_out, _ = table_pairs.expand_groups(validate_settings(group))
    assert set(expanded.audits) == {"g.init_orders", "g.init_log"}
    assert "g: init_seen: a view, which has no primary key; write its audit with key: [column, ...]; it has no audit" in left_out
    assert service.run_audit(expanded, "g.init_orders").verdict is Verdict.MATCH


@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
def test_spark_lists_the_tables_of_its_database(engine: LiveEngine) -> None:
    tables.execute(engine, "CREATE TABLE IF NOT EXISTS init_orders (id INT)")
    with closing(dialects.connect(engine.url)) as session:
        assert TableName("default", "init_orders") in session.dialect.catalogue.list_tables(session)


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "duckdb-redshift"), indirect=True)
def test_tables_that_a_tool_writes_are_proposed_with_its_convention(pair: LivePair, tmp_path: Path) -> None:
    q = {"mysql": "`{}`"}.get(pair.source.name, '"{}"').format
    tables.execute(pair.source, f"CREATE TABLE {q('InitItems')} (id INTEGER PRIMARY KEY, {q('orderNote')} VARCHAR(20))")
    tables.execute(pair.source, f"INSERT INTO {q('InitItems')} VALUES (1, 'a'), (2, 'b')")
    tables.execute(
        pair.target,
        "CREATE TABLE init_items (id INTEGER, order_note VARCHAR(20), _fivetran_deleted BOOLEAN, _fivetran_synced TIMESTAMP)",
        "INSERT INTO init_items VALUES (1, 'a', FALSE, NULL), (2, 'b', FALSE, NULL), (3, 'c', TRUE, NULL)",
    )
    path = tmp_path / "auditor.yaml"
    write(path, pair.source.url, pair.target.url)
    settings = load(path, dict.fromkeys(VARIABLES, "audit"))
    (name,) = [name for name, audit in settings.audits.items() if audit.sources[0].table == "InitItems"]
    assert settings.audits[name].target.table == "init_items"
    assert settings.audits[name].target.follows == conventions.by_name("fivetran")
    assert service.run_audit(settings, name).verdict is Verdict.MATCH
    tables.execute(pair.source, f"DROP TABLE {q('InitItems')}")
    tables.execute(pair.target, "DROP TABLE init_items")
