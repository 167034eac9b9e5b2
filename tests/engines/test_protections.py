"""A run tells when the server may hide rows from it or show it other values: row-level security, and views with rights of their own."""

from __future__ import annotations

import pytest

import auditor
from auditor.model import Report
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, engine_params


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


def told(report: Report) -> list[str]:
    assert report.plan, report.reasons
    return [note for note in report.plan.notes if "row-level security" in note or "reads as its definer" in note]


@only("postgres")
def test_row_level_security_that_applies_is_told(engine: LiveEngine) -> None:
    tables.make(engine, "secured", [("id", Kind("integer"))], [(1,), (2,)], key=["id"])
    tables.execute(
        engine,
        "DROP ROLE IF EXISTS auditor_bound",
        "CREATE ROLE auditor_bound LOGIN PASSWORD 'b'",
        "GRANT SELECT ON secured TO auditor_bound",
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY first_only ON secured USING (id < 2)",
    )
    try:
        bound = engine.url.replace("//audit:audit@", "//auditor_bound:b@")
        report = auditor.audit((engine.url, "secured"), (bound, "secured"))
        assert report.verdict == "mismatch"
        assert told(report) == [
            'target: row-level security (first_only) is attached to "public"."secured": rows that it hides from this user are not compared'
        ]
    finally:
        tables.execute(engine, "DROP TABLE secured", "DROP ROLE auditor_bound")


@only("mysql", "mariadb")
def test_a_view_that_reads_as_its_definer_is_told(engine: LiveEngine) -> None:
    tables.make(engine, "defined", [("id", Kind("integer"))], [(1,), (2,)], key=["id"])
    for name, rights in (("as_definer", "DEFINER"), ("as_invoker", "INVOKER")):
        tables.execute(engine, f"CREATE OR REPLACE SQL SECURITY {rights} VIEW {name} AS SELECT * FROM defined")
    report = auditor.audit((engine.url, "as_definer"), (engine.url, "as_invoker"), key=["id"])
    assert report.verdict == "match"
    (note,) = told(report)
    assert note.startswith("source: `") and "`.`as_definer` is a view that reads as its definer " in note


@only("mysql", "postgres", "duckdb")
def test_another_database_than_that_of_the_url_is_refused(engine: LiveEngine) -> None:
    """Its name was ignored once, so that the namesake in the URL's own database was read."""
    tables.make(engine, "housed", [("id", Kind("integer"))], [(1,)], key=["id"])
    own = "def" if engine.dialect == "mysql" else tables.query(engine, "SELECT CURRENT_DATABASE()")[0][0]
    schema = tables.query(engine, "SELECT DATABASE()" if engine.dialect == "mysql" else "SELECT CURRENT_SCHEMA()")[0][0]
    here = auditor.audit((engine.url, f"{own}.{schema}.housed"), (engine.url, "housed"), key=["id"])
    assert here.verdict == "match", here.reasons
    elsewhere = auditor.audit((engine.url, f"elsewhere.{schema}.housed"), (engine.url, "housed"), key=["id"])
    assert elsewhere.state == "failed" and "is of another database than the URL's" in str(elsewhere.reasons)
