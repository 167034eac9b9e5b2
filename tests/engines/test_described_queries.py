"""What an engine says that a query returns, against what its catalogue says of the table that the query reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

import dialects
from dialects import Column, Place
from dialects.errors import NoSuchObject
from tests import tables
from tests.live import LiveEngine, engine_params

MYSQL = (
    "BIGINT", "BIGINT UNSIGNED", "INT", "INT UNSIGNED ZEROFILL", "SMALLINT", "TINYINT(1)", "MEDIUMINT UNSIGNED", "DECIMAL(10,2)",
    "DECIMAL(5,0) UNSIGNED", "DECIMAL(65,30)", "FLOAT", "DOUBLE", "VARCHAR(20)", "VARCHAR(20) CHARACTER SET latin1",
    "VARCHAR(20) COLLATE utf8mb4_bin", "CHAR(7)", "CHAR(7) CHARACTER SET ascii", "LONGTEXT", "BINARY(16)", "VARBINARY(40)", "LONGBLOB",
    "BIT(9)", "YEAR", "DATE", "TIME", "TIME(3)", "DATETIME", "DATETIME(6)", "TIMESTAMP(3) NULL",
)  # fmt: skip
POSTGRES = (
    "BIGINT", "INTEGER", "SMALLINT", "BOOLEAN", "NUMERIC(10,2)", "NUMERIC", "REAL", "DOUBLE PRECISION", "VARCHAR(20)", "VARCHAR", "CHAR(7)",
    "TEXT", "DATE", "TIMESTAMP", "TIMESTAMP(3)", "TIMESTAMPTZ(0)",
)  # fmt: skip
ONLY_POSTGRES = (
    "BYTEA", "UUID", "JSON", "JSONB", "INET", "TIME(2)", "BIT(5)", "INTEGER[]", "INTERVAL", "described_mood", "described_price",
    "TEXT COLLATE described_loose",
)  # fmt: skip
TYPES: Mapping[str, Sequence[str]] = {
    "mysql": (*MYSQL, "JSON", "VARCHAR(20) COLLATE utf8mb4_0900_bin"),
    "mariadb": (*MYSQL, "VARCHAR(20) COLLATE utf8mb4_nopad_bin"),
    "postgres": (*POSTGRES, *ONLY_POSTGRES),
    "redshift": POSTGRES,
    "duckdb": (
        "BIGINT", "HUGEINT", "BOOLEAN", "DECIMAL(10,2)", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "UUID", "BLOB", "JSON",
    ),
    "spark": ("BIGINT", "BOOLEAN", "DECIMAL(10,2)", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "BINARY"),
}  # fmt: skip
PREPARED = (
    "DROP TABLE IF EXISTS described_types",
    "DROP TYPE IF EXISTS described_mood",
    "DROP DOMAIN IF EXISTS described_price",
    "DROP COLLATION IF EXISTS described_loose",
    "CREATE TYPE described_mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN described_price AS NUMERIC(9,3)",
    "CREATE COLLATION described_loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
)


@pytest.mark.parametrize("engine", engine_params(*TYPES), indirect=True)
def test_query_has_the_kinds_of_the_table_that_it_reads(engine: LiveEngine, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["engine"]
    types = TYPES[name]
    if name == "postgres":
        tables.execute(engine, *PREPARED)
    columns = ", ".join(f"c{number} {native}" for number, native in enumerate(types))
    tables.execute(engine, "DROP TABLE IF EXISTS described_types", f"CREATE TABLE described_types ({columns})")
    with closing(dialects.connect(engine.url)) as session:
        [table] = session.dialect.catalogue.describe(session, Place(("described_types",)))
        described = session.dialect.catalogue.describe_query(session, "SELECT * FROM described_types -- all of them")
    tables.execute(engine, "DROP TABLE described_types")
    assert [_facts(column) for column in described] == [_facts(column) for column in table.columns]


def _facts(column: Column) -> tuple[object, ...]:
    """Return what decides how a column is compared, but how long a text may be, of which a server says as much as it likes."""
    kind = column.kind and replace(column.kind, bytes=None)
    return column.name, kind, column.collation


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb"), indirect=True)
def test_columns_of_one_name_are_both_returned_or_refused(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        catalogue = session.dialect.catalogue
        try:
            described = catalogue.describe_query(session, "SELECT 1 AS a, 3 AS b, 2 AS a")
        except dialects.errors.StatementRefused as error:
            assert "uplicate" in str(error)
        else:
            assert len(described) == 3
        with pytest.raises(NoSuchObject):
            catalogue.describe_query(session, "SELECT * FROM described_nowhere")
