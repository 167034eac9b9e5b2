"""A run tells when the server may hide rows from it or show it other values: row-level security, and views with rights of their own."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import closing
from html import unescape
from pathlib import Path

import pytest

import auditor
from auditor.config import Settings, validate_settings
from auditor.model import Report
from auditor.report import render
from auditor.report.day import load_day
from auditor.service import notify
from auditor.service.running import run_audit
from auditor.store import open_store
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, engine_params


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


def told(report: Report) -> list[str]:
    assert report.plan, report.reasons
    return [str(one) for one in report.plan.not_compared if one.how == "hidden"]


@only("postgres")
def test_row_level_security_that_applies_is_told(engine: LiveEngine, tmp_path: Path) -> None:
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
        settings = {"store": {"url": f"sqlite:///{tmp_path / 'store.db'}"}, "connections": {"bound": {"url": bound}}}
        ends = {"connection": "bound", "table": "secured"}
        _shows_what_is_hidden(validate_settings({**settings, "audits": {"secured": {"source": ends, "target": ends}}}), told(report)[0])
        for number, read in enumerate(("secured", "seen_0")):
            tables.execute(engine, f"CREATE VIEW seen_{number} AS SELECT * FROM {read}", f"GRANT SELECT ON seen_{number} TO auditor_bound")
            report = auditor.audit((engine.url, "secured"), (bound, f"seen_{number}"), key=["id"])
            assert told(report) == [
                f'target: row-level security (first_only) is attached to a table that the view "public"."seen_{number}" reads: rows that it'
                " hides are not compared"
            ]
    finally:
        tables.execute(engine, "DROP TABLE secured CASCADE", "DROP ROLE auditor_bound")


def _shows_what_is_hidden(settings: Settings, sentence: str) -> None:
    """A match of what is left is shown with what was hidden from it, wherever people read it."""
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        report = run_audit(settings, "secured", store=store)
        assert report.verdict == "match"
        day = load_day(store, settings, dt.datetime.now(dt.UTC).date())
    shown = {form: render.run(report, None, form) for form in ("text", "markdown", "html")}
    for form in ("text", "markdown", "html"):
        shown[f"day as {form}"] = render.day(day, form)
    for name, message in (("message", notify.run_message(report, "recovery")), ("digest", notify.digest_message(day))):
        shown[name] = message.body("text")
    words = {form: re.sub(r"\W+", "", unescape(text)) for form, text in shown.items()}
    assert [form for form, text in words.items() if re.sub(r"\W+", "", sentence.partition(": ")[2]) not in text] == []


@only("mysql", "mariadb")
def test_columns_that_a_user_may_not_read_are_told(engine: LiveEngine) -> None:
    """The catalogue does not show them, so that they would seem to be in the other table only, or in none."""
    columns = [("id", Kind("integer")), ("a", Kind("text")), ("b", Kind("text"))]
    for name, b in (("granted", "same"), ("open", "other")):
        tables.make(engine, name, columns, [(1, "x", b)], key=["id"])
    tables.execute(
        engine,
        "DROP USER IF EXISTS bound",
        "CREATE USER bound IDENTIFIED BY 'b'",
        "GRANT SELECT (id, a) ON granted TO bound",
        "GRANT SELECT (id, a) ON open TO bound",
    )
    bound = re.sub(r"//[^@]*@", "//bound:b@", engine.url)
    database = tables.query(engine, "SELECT DATABASE()")[0][0]
    hidden = (
        f"this user may read only some columns of `{database}`.`{{}}`: the others are not compared (GRANT SELECT on the table shows them)"
    )
    try:
        both = auditor.audit((bound, "granted"), (bound, "open"))
        one = auditor.audit((bound, "granted"), (engine.url, "open"))
        refused = auditor.audit((engine.url, "granted"), (bound, "open"))
    finally:
        tables.execute(engine, "DROP USER bound")
    assert both.verdict == "match"
    assert told(both) == [f"source: {hidden.format('granted')}", f"target: {hidden.format('open')}"]
    assert one.verdict == "match" and told(one) == [f"source: {hidden.format('granted')}"] and one.plan
    assert "b (target): only in the target, or hidden from this user in the source" in map(str, one.plan.not_compared)
    assert "column 'b' is not in the target (target: open), or hidden from this user there" in " ".join(refused.reasons)


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
