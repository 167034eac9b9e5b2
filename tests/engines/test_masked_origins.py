"""Masks hide a column's values in partitions, parents, children and views too; what definitions over HTTP may read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from auditor.config import Settings, validate_audit, validate_settings
from auditor.errors import ConfigError
from auditor.service import audits, planning
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.engines_in_turn

COLUMNS = [("id", Kind("integer")), ("email", Kind("text")), ("note", Kind("text"))]


def settings_of(engine: LiveEngine, *mask: str, **more: Any) -> Settings:
    return validate_settings({"connections": {"here": {"url": engine.url, "mask": list(mask), **more}}, "audits": {}})


def definition(table: str) -> dict[str, Any]:
    ends = {"connection": "here", "table": table}
    return {"source": ends, "target": ends, "key": ["id"]}


def masked(settings: Settings, table: str) -> set[str]:
    """Return the columns that a plan of a table masks."""
    plan = planning.make_plan(settings, "one", validate_audit(definition(table)))
    return {column.name for column in plan.columns if column.masked}


def define(settings: Settings, table: str) -> set[str]:
    """Validate a definition as over HTTP, and return the columns that its plan masks."""
    audits.validate_definition(settings, "one", definition(table))
    return masked(settings, table)


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


@only("postgres")
def test_masks_follow_partitions_and_inheritance(engine: LiveEngine) -> None:
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS people, base CASCADE",
        "CREATE TABLE people (id int, email text, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE people_low PARTITION OF people FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)",
        "CREATE TABLE people_low_1 PARTITION OF people_low FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE people_high PARTITION OF people FOR VALUES FROM (100) TO (200)",
        "CREATE TABLE base (id int, email text, note text)",
        "CREATE TABLE derived (extra int) INHERITS (base)",
        "INSERT INTO people VALUES (1, 'a@b', 'n'), (101, 'c@d', 'n')",
    )
    try:
        top = settings_of(engine, "people.email", "base.email")
        for table in ("people", "people_low", "people_low_1", "people_high", "base", "derived"):
            assert define(top, table) == {"email"}, table
        leaf = settings_of(engine, "people_low_1.email", "derived.note")
        assert define(leaf, "people") == define(leaf, "people_low") == {"email"}, "a parent shows the rows of its parts"
        assert define(leaf, "base") == {"note"}
        assert define(leaf, "people_high") == set(), "another part does not"
    finally:
        tables.execute(engine, "DROP TABLE people, base CASCADE")


@only("postgres")
def test_masks_follow_views_of_postgres(engine: LiveEngine) -> None:
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS people CASCADE",
        "DROP TABLE IF EXISTS plain CASCADE",
        "CREATE TABLE people (id int, email text, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE people_low PARTITION OF people FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE plain (id int, note text)",
        "CREATE VIEW same AS SELECT id, email FROM people_low",
        "CREATE VIEW renamed AS SELECT id, upper(email) AS shout, email FROM same",
        "CREATE MATERIALIZED VIEW renamed_kept AS SELECT * FROM renamed",
        "CREATE VIEW harmless AS SELECT id, note FROM plain",
        "CREATE OR REPLACE FUNCTION reads_all() RETURNS TABLE (id int, mail text) LANGUAGE sql AS 'SELECT id, email FROM people'",
        "CREATE VIEW by_function AS SELECT * FROM reads_all()",
    )
    try:
        settings = settings_of(engine, "people.email")
        assert define(settings, "harmless") == set()
        for table in ("same", "renamed", "renamed_kept"):
            assert masked(settings, table) == {"email"}, table
            with pytest.raises(ConfigError, match=r"is a view, and reads public\.people, of which columns are masked"):
                define(settings, table)
        with pytest.raises(ConfigError, match="calls a function"):
            define(settings, "by_function")
        ends = planning.describe_tables(settings, "one", validate_audit(definition("renamed")))
        assert "mask its own columns too" in " ".join(ends["source"].notes), "plans of auditor.yaml say so"
        assert define(settings_of(engine), "renamed") == set(), "nothing is masked here"
    finally:
        tables.execute(engine, "DROP TABLE people, plain CASCADE", "DROP FUNCTION reads_all CASCADE")


@pytest.mark.slow_on("spark")
@only("mysql", "mariadb", "duckdb", "redshift", "spark")
def test_views_over_masked_columns_are_refused_over_http(engine: LiveEngine) -> None:
    tables.make(engine, "people", COLUMNS, [(1, "a@b", "n")], key=["id"])
    with suppress(Exception):
        tables.execute(engine, "DROP VIEW shown")
    tables.execute(engine, "CREATE VIEW shown AS SELECT id, email, email AS mail FROM people")
    try:
        settings = settings_of(engine, "people.email")
        assert define(settings, "people") == {"email"}
        with pytest.raises(ConfigError, match="view"):
            define(settings, "shown")
        if engine.name == "mysql":
            assert masked(settings, "shown") == {"email"}, "its catalogue says which tables a view reads"
        assert define(settings_of(engine), "shown") == set()
    finally:
        tables.execute(engine, "DROP VIEW shown", "DROP TABLE people")


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        pytest.param("postgres", ("pg_stat_activity", "pg_catalog.pg_stats", "information_schema.columns"), marks=pytest.mark.postgres),
        pytest.param("mysql", ("information_schema.processlist", "performance_schema.threads", "mysql.user"), marks=pytest.mark.mysql),
        pytest.param("mariadb", ("information_schema.PROCESSLIST", "mysql.user"), marks=pytest.mark.mariadb),
    ],
    indirect=["engine"],
)
def test_system_tables_are_refused_over_http(engine: LiveEngine, names: tuple[str, ...]) -> None:
    for name in names:
        with pytest.raises(ConfigError, match="the server's own tables are not audited over HTTP"):
            audits.validate_definition(settings_of(engine), "one", definition(name))


@only("postgres", "mysql", "duckdb")
def test_definitions_read_only_the_tables_that_are_allowed(engine: LiveEngine) -> None:
    for name in ("open_one", "closed"):
        tables.make(engine, name, COLUMNS, [(1, "a", "b")], key=["id"])
    try:
        for allowed in (["open_*"], ["OPEN_ONE"], ["*.open_one"]):
            settings = settings_of(engine, audit_tables=allowed)
            assert define(settings, "open_one") == set()
            with pytest.raises(ConfigError, match="audit_tables"):
                define(settings, "closed")
        with pytest.raises(ConfigError, match="audit_tables"):
            define(settings_of(engine, audit_tables=[]), "open_one")
    finally:
        tables.execute(engine, "DROP TABLE open_one", "DROP TABLE closed")
