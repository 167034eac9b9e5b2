"""Schemas, tables and columns may have any name their engine accepts: with quotes, dots, slashes, blanks, percent signs, accents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import auditor
import dialects
from auditor.config import Audit, ConnectionSettings, TableRef
from auditor.errors import NoSuchObject
from auditor.run import audit_run
from auditor.service.table_pairs import quote_parts
from dialects import Kind, Place
from tests import tables
from tests.live import LiveEngine, engine_params

pytestmark = pytest.mark.engines_in_turn

ODD = "É/o.o \"q\" 'a' `b` 100%s %(x)s ${y} \\ :z ?"
"""A name with everything that a driver, a template or a parser could take for its own."""

KEY, VALUE = f"{ODD} key", f"{ODD} value"
WITH_SCHEMAS = ("mysql", "mariadb", "postgres", "redshift", "duckdb")
"""Engines whose schemas and tables may have any name; Spark's have letters, digits and underscores alone, and any columns."""


def quoted(*parts: str) -> str:
    """Return a table's name as a configuration writes it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def make_tables(engine: LiveEngine) -> tuple[str, str]:
    """Create two tables that differ in row 2, under odd names; return their names for an audit."""
    dialect = dialects.get(engine.dialect)
    schema = dialect.names.quote(ODD)
    in_schema = engine.name in WITH_SCHEMAS
    names = [(ODD, ODD), (ODD, f"{ODD} copy")] if in_schema else [("odd_columns",), ("odd_columns_copy",)]
    key, value = dialect.names.quote(KEY), dialect.names.quote(VALUE)
    if in_schema:
        tables.execute(engine, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for parts, changed in zip(names, ("b", "changed"), strict=True):
        text = "VARCHAR(40)" if in_schema else "STRING"
        tables.execute(
            engine,
            f"DROP TABLE IF EXISTS {dialect.names.table(*parts)}",
            f"CREATE TABLE {dialect.names.table(*parts)} ({key} {text}{' PRIMARY KEY' if in_schema else ''}, {value} {text})",
            f"INSERT INTO {dialect.names.table(*parts)} VALUES ('1', 'a'), ('2%s', '{changed}'), ('3', '100%')",
        )
    return quoted(*names[0]), quoted(*names[1])


@pytest.fixture
def odd_tables(engine: LiveEngine) -> Iterator[tuple[str, str]]:
    yield make_tables(engine)
    if engine.name in WITH_SCHEMAS:
        cascade = " CASCADE" if engine.dialect in ("postgres", "redshift", "duckdb") else ""
        tables.execute(engine, f"DROP SCHEMA {dialects.get(engine.dialect).names.quote(ODD)}{cascade}")


@pytest.mark.slow_on("spark")
@pytest.mark.few
def test_odd_names_are_audited_named_and_rechecked(engine: LiveEngine, odd_tables: tuple[str, str]) -> None:
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": odd_tables[0]},
            "target": {"connection": "target", "table": odd_tables[1]},
            "key": [KEY],
            "recheck": {"times": 1, "wait": "0s"},
        }
    )
    connection = ConnectionSettings(url=engine.url)
    report = audit_run.run("odd", audit, {"source": connection, "target": connection})
    assert report.differences is not None
    assert [(one.key, one.kind, [column.name for column in one.columns]) for one in report.differences.named] == [
        ({KEY: "2%s"}, "changed", [VALUE])
    ]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "duckdb"), indirect=True)
def test_table_is_found_by_its_letters_whatever_their_case(engine: LiveEngine) -> None:
    """An accent is no case: MySQL's catalogue compares names without accents, and PostgreSQL's folds the letters of its locale.

    In the locale C, which databases of the tests have before PostgreSQL 15, these are A to Z alone.
    """
    tables.make(engine, "ÉTÉ_Ça", [("n", Kind("integer"))], [(1,)])
    folds_all = engine.name != "postgres" or tables.query(engine, "SELECT LOWER('É')") == [("é",)]
    with closing(dialects.connect(engine.url)) as session:
        for asked in ("ÉTÉ_Ça", "été_ça" if folds_all else "ÉtÉ_ÇA"):
            (table,) = session.dialect.catalogue.describe(session, Place((asked,)))
            assert table.sql.endswith(session.dialect.names.quote("ÉTÉ_Ça"))
        assert session.dialect.catalogue.describe(session, Place(("ete_ca",))) == []


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ('"a/b"', ("a/b",)),
        ('shop."a.b"', ("shop", "a.b")),
        ('`a``b`."c""d"', ("a`b", 'c"d')),
        ('"x.parquet"', ("x.parquet",)),
        ("shop.orders 2", ("shop", "orders 2")),
        (quoted(ODD, ODD), (ODD, ODD)),
    ],
)
def test_quoted_name_is_no_path(written: str, parts: tuple[str, ...]) -> None:
    assert TableRef(connection="c", table=written).place == Place(parts)


@pytest.mark.parametrize("written", ["a/b", "dir/x.parquet", "x.csv.gz", 'data/"a".parquet'])
def test_unquoted_slash_or_ending_is_a_path(written: str) -> None:
    assert TableRef(connection="c", table=written).place.path == written


@pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)
def test_path_on_an_engine_of_tables_is_refused_with_the_way_out(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session, pytest.raises(NoSuchObject, match="in double quotes"):
        session.dialect.catalogue.describe(session, TableRef(connection="c", table="a/b").place)


@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
def test_quoted_path_is_no_way_into_sparks_files(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url)) as session:
        assert session.dialect.catalogue.describe(session, TableRef(connection="c", table='json."/etc/hostname"').place) == []


def test_name_written_by_init_is_read_back() -> None:
    assert quote_parts(ODD) == quoted(ODD)
    assert TableRef(connection="c", table=quote_parts(ODD, "plain")).place == Place((ODD, "plain"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
def test_spark_reads_the_header_of_csv_as_duckdb_does(engine: LiveEngine, tmp_path: Path) -> None:
    text = (
        'id,name,price,seen\n1,Ann,1.50,2026-01-01\n2,"a ""b"", c",2.25,2026-01-02\n3,"two\nlines",3.75,2026-01-03\n4,\\,0.25,2026-01-04\n'
    )
    (tmp_path / "orders.csv").write_text(text)
    changed = text.replace("Ann", "Anna")
    (tmp_path / "changed.csv").write_text(changed)
    there = "duckdb://", str(tmp_path / "orders.csv")
    report = auditor.audit(there, (engine.url, str(tmp_path / "orders.csv")), key=["id"])
    assert report.verdict == "match" and report.plan, report.reasons
    assert [column.name for column in report.plan.columns] == ["id", "name", "price", "seen"]
    report = auditor.audit(there, (engine.url, str(tmp_path / "changed.csv")), key=["id"])
    assert report.verdict == "mismatch" and report.differences
    assert [(one.key["id"], one.columns[0].target) for one in report.differences.named] == [("1", "Anna")]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_a_name_that_is_ambiguous_within_one_schema_is_asked_for_in_quotes(engine: LiveEngine) -> None:
    """Its schema, which both have, would not tell them apart."""
    names = ('"Twice"', '"TWICE"')
    try:
        for name in names:
            tables.execute(
                engine, f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)"
            )
        report = auditor.audit((engine.url, "twice"), (engine.url, "twice"))
        assert '"public"."TWICE"' in str(report.reasons) and "write its name in quotes, as in " in str(report.reasons)
        assert auditor.audit((engine.url, names[0]), (engine.url, names[1])).verdict == "match"
    finally:
        tables.execute(engine, *(f"DROP TABLE IF EXISTS {name}" for name in names))


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
def test_temporary_tables_are_no_tables_of_the_database(engine: LiveEngine) -> None:
    with tables.open_writable(engine) as session:
        session.execute("CREATE TEMPORARY TABLE passing (id INT PRIMARY KEY)")
        assert "passing" not in {one.name for one in session.dialect.catalogue.list_tables(session)}
        session.execute("DROP TEMPORARY TABLE passing")
