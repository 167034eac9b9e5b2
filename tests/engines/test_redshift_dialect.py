"""Every statement rendered for Redshift, and every one that a run sends, uses only SQL that Redshift's manual documents.

PostgreSQL, which stands in for Redshift, accepts much that Redshift rejects; the lists are in tests/servers/redshift_allowed.py.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

import auditor
import dialects
import sql_templates
from auditor import canonical, service
from auditor.model import ColumnPlan
from auditor.report import render as render_report
from auditor.sql import render, row_text
from auditor.testing.statements import METHODS, STRATEGIES, plan_of
from dialects import Kind, Place
from dialects.postgres.session import PostgresSession
from tests import tables
from tests.live import Engines, LiveEngine, engine_params
from tests.servers import redshift_allowed
from tests.servers.redshift import StandIn
from tests.servers.redshift_allowed import script_violations, violations
from tests.unit.test_golden import render_statements

DIALECT = dialects.get("redshift")
KINDS = [
    Kind("boolean"), Kind("integer"), Kind("integer", unsigned=True), Kind("decimal", 38, 10), Kind("decimal", 10, 0),
    Kind("rounded", scale=2), Kind("float32"), Kind("float64"), Kind("text"), Kind("char", 8), Kind("enum"), Kind("set"),
    Kind("binary"), Kind("date"), Kind("time", scale=6), Kind("time", scale=0), Kind("timestamp", scale=6),
    Kind("timestamp", scale=0), Kind("timestamp", scale=9), Kind("timestamptz", scale=3), Kind("uuid"), Kind("json"),
    Kind("year"), Kind("bit", 1),
]  # fmt: skip
NATIVES = [kind for kind in {DIALECT.types.kind(name) for name in DIALECT.types.KIND_BY_TYPE} if kind is not None]


def columns() -> Iterator[ColumnPlan]:
    """Yield a column for every kind and every Redshift type that can be compared as it, with each normalisation option."""
    for kind, native in product(KINDS, NATIVES):
        shared = canonical.shared_kind(native, kind)
        if canonical.can_render(kind, native) or (shared and shared.kind == kind):
            for trim, case, null_as in ((False, None, None), (True, "lower", "a\\b"), (False, "upper", "")):
                yield ColumnPlan(
                    name="c", kind=kind, native={"source": native, "target": native}, expression={"source": '"c"', "target": '"c"'},
                    types={"source": "", "target": ""}, why="", trim=trim, case=case, null_as=null_as,  # type: ignore[arg-type]
                )  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("method", METHODS)
def test_every_console_script_is_allowed(method: str, strategy: str) -> None:
    script = service.console_script(plan_of(DIALECT, method, strategy), "target", DIALECT, 60.0)
    statements = [part.strip() for part in sql_templates.body(script).split(";") if part.strip()]
    assert len(statements) == len([*DIALECT.pin_statements(60.0), *DIALECT.BEGIN_SNAPSHOT, "the statement", *DIALECT.END_SNAPSHOT])
    assert {statement: found for statement in statements if (found := violations(statement))} == {}


def test_every_template_is_allowed() -> None:
    whole = {name: sql for name, sql in render_statements(DIALECT).items() if name != "console"}
    assert script_violations(whole.pop("patch")) == []
    assert script_violations(whole.pop("bootstrap")) == []
    assert script_violations(whole.pop("merge")) == []
    assert {name: found for name, sql in whole.items() if (found := violations(sql))} == {}


def test_every_canonical_text_is_allowed() -> None:
    base = plan_of(DIALECT, "minhash", "range")
    checked = 0
    for column in columns():
        sql = f"SELECT {row_text.escaped(column, 'target', DIALECT)} FROM {base.sides['target'].table}"
        assert violations(sql) == [], f"{column.native['target']} as {column.kind}:\n{sql}"
        checked += 1
    assert checked > 60


def test_every_measure_is_allowed(request: pytest.FixtureRequest) -> None:
    """Without --slow, columns without normalisation options; the test of canonical texts has these."""
    base = plan_of(DIALECT, "counts", "hash")
    chosen = list(columns())[:: 1 if request.config.getoption("--slow") else 3]
    every = [replace(column, name=f"c{number}") for number, column in enumerate(chosen)]
    for first in range(0, len(every), 20):
        some = every[first : first + 20]
        plan = replace(base, columns=(base.columns[0], *some))
        sql = render.summary(plan, "target", DIALECT, plan.sides["target"].chunks[0])
        assert violations(sql) == [], f"{[(column.native['target'], column.kind) for column in some]}:\n{sql}"


def test_every_partition_expression_is_allowed() -> None:
    for native, size in product((Kind("integer"), Kind("integer", unsigned=True), Kind("decimal", 20, 0)), (2, 1024)):
        assert violations(f'SELECT {DIALECT.numbers.floor_divide("c", size, native)} FROM "t"') == []
    for unit in ("hour", "day", "month"):
        assert violations(f'SELECT {DIALECT.times.time_index("c", unit)} FROM "t"') == []


@pytest.mark.parametrize("name", ["columns", "primary_key", "estimate", "tables"])
def test_every_catalogue_statement_is_allowed(name: str) -> None:
    template = DIALECT.template(name)
    literals = {hole: DIALECT.names.literal("a\\b'c") for hole in sql_templates.holes(template)}
    assert violations(sql_templates.fill(template, literals)) == []


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_every_statement_of_a_run_is_allowed(engine: LiveEngine, engines: Engines) -> None:
    """The statements as recorded by the proxy in front of the stand-in: session settings, catalogue, snapshot, cursor."""
    server = engines.server(engine.name)
    if not isinstance(server, StandIn):
        pytest.skip(f"{engine.name}: {server.how}, without the recording proxy")
    tables.make(engine, "allowed", [("id", Kind("integer")), ("note", Kind("text"))], [(n, f"'{n}|\\") for n in range(20)], key=["id"])
    server.forget()
    for method in METHODS:
        report = auditor.audit((engine.url, "allowed"), (engine.url, "allowed"), method=method)
        assert report.verdict == "match", report.reasons
    sent = server.statements()
    assert any(statement.startswith("DECLARE") for statement in sent)
    assert {statement: found for statement in sent if (found := violations(statement))} == {}


COLUMNS = [("id", Kind("integer")), ("day", Kind("date")), ("note", Kind("text")), ("price", Kind("decimal", 10, 2)),
           ("at", Kind("timestamp", scale=6)), ("weight", Kind("float64")), ("data", Kind("binary"))]  # fmt: skip
LEAN = {"columns": {"exclude": ["weight"]}}
"""The text of a float takes longest to check."""
FEATURES: dict[str, Mapping[str, Any]] = {
    "differences by integer key": {"t": 4, "recheck": {"times": 1, "wait": "0s"}},
    "overloaded partitions": {"t": 1, "partition": {"strategy": "range", "size": 64}},
    "a text key": {"key": ["note"], "t": 4, "recheck": {"times": 1, "wait": "0s"}},
    "a key of two columns": {"key": ["day", "note"], "t": 4, "recheck": {"times": 1, "wait": "0s"}},
    "overloaded buckets": {"key": ["note"], "t": 1, "partition": {"strategy": "hash", "buckets": 2}},
    "days": {"key": ["note"], "partition": {"strategy": "time", "column": "at", "unit": "day"}},
    "months": {"key": ["note"], "partition": {"strategy": "time", "column": "at", "unit": "month"}},
    "wide hashes and minhashes": {"bits": 120, "k": 4, "t": 2},
    "a pre-scan": {"prescan": True},
    "classes and histograms": {"columns": {}, "method": "counts", "counts": {
        "classes": ["note", "price"], "most_classes": 3,
        "histogram": [{"column": name, "buckets": 4} for name in ("price", "weight", "at", "day")]}},
    "a watermark": {"settle": {"column": "at", "lag": "1s"}, "recheck": {"times": 1, "wait": "0s"}},
    "a filter": {"where": "note LIKE 'n%' AND price * 2 > 1.5 AND at >= now - INTERVAL '9000' day AND day IS NOT NULL"},
    "tolerances": {"columns": {"override": {"weight": {"tolerance": {"absolute": 0.5}}, "price": {"round": 1}, "note": {"case": "lower"}}}},
}  # fmt: skip
"""Settings of audits of which each sends statements of its own."""


@pytest.mark.slow
@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_every_statement_of_every_feature_is_allowed(engine: LiveEngine, engines: Engines) -> None:
    """Also those of introspection, load, heartbeat and cancelling."""
    server = engines.server(engine.name)
    if not isinstance(server, StandIn):
        pytest.skip(f"{engine.name}: {server.how}, without the recording proxy")
    start = dt.datetime(2026, 1, 1, 10)
    rows = [
        (n, start.date() + dt.timedelta(n % 28), f"n{n}", Decimal(n) / 4, start + dt.timedelta(n % 28), n / 3, bytes([n % 256]))
        for n in range(300)
    ]
    changed = [(*row[:3], row[3] + (row[0] == 7), row[4], row[5] + (row[0] in (9, 90)), row[6]) for row in rows if not 120 <= row[0] < 190]
    for name, these in (("featured", rows), ("featured_changed", [*changed, (900, rows[0][1], "new", *rows[0][3:])])):
        tables.make(engine, name, COLUMNS, these, key=["id"])
    server.forget()
    for feature, settings in FEATURES.items():
        report = auditor.audit((engine.url, "featured"), (engine.url, "featured_changed"), **{"key": ["id"], **LEAN, **settings})
        assert report.state == "done" and report.verdict == "mismatch", (feature, report.reasons)
    with closing(dialects.connect(engine.url)) as session:
        session.dialect.server.server_load(session, session.dialect.server.LOAD_MEASURES)
        assert session.dialect.catalogue.list_tables(session)
        session.dialect.server.heartbeat_age(session, Place(("featured",)), "at")
        assert isinstance(session, PostgresSession)
        endings = [session.cancel_statement(), session.terminate_statement()]
    sent = [*server.statements(), *endings]
    shapes = {re.sub(r"\b\d+\b", "1", statement): statement for statement in sent}
    assert len(shapes) > 60
    assert {statement: found for statement in shapes.values() if (found := violations(statement))} == {}


@pytest.mark.parametrize(
    "forbidden",
    [
        "SELECT generate_series(1, 2) FROM t",
        "SELECT g FROM generate_series(1, 2) g",
        "SELECT string_agg(a, ',') FROM t",
        "SELECT a::bit FROM t",
        "SELECT CAST(a AS BIT(32)) FROM t",
        "SELECT CAST(CAST('x' || a AS BIT(60)) AS BIGINT) FROM t",
        "SELECT CAST(a AS TEXT) FROM t",
        "SELECT DISTINCT ON (a) a FROM t",
        "SELECT COUNT(*) FILTER (WHERE a > 1) FROM t",
        "SELECT b FROM t, LATERAL (SELECT a AS b) z",
        "SELECT bit_xor(a) FROM t",
        "SELECT a # b FROM t",
        "SELECT SUBSTR(a, 1, 2) FROM t",
        "SELECT ENCODE(SHA256(CONVERT_TO(a, 'UTF8')), 'hex') FROM t",
        "SELECT a FROM t WHERE a IS DISTINCT FROM b",
        "SELECT a FROM t WHERE a = ANY (b)",
        "SELECT pg_table_is_visible(a) FROM t",
        "SELECT a FROM (VALUES (1)) z (a)",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t OFFSET 0",
        "INSERT INTO t SELECT 1 RETURNING a",
        "SET jit TO off",
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "FETCH FORWARD 2048 FROM c",
        "DECLARE c CURSOR FOR SELECT array_agg(a) FROM t",
        # found in earlier versions of the auditor's own statements
        "SELECT MIN(k) FROM (SELECT NULL AS k FROM t) z",
        "SELECT a FROM (SELECT b, 'x' AS a FROM t) z",
        "SELECT COUNT(*) FROM stv_wlm_query_state WHERE service_class > 4",
        "SELECT column_name FROM svv_columns WHERE table_schema = CURRENT_SCHEMA()",
        "SELECT a FROM t JOIN svv_columns c ON c.column_name = t.a",
        "SELECT a FROM t JOIN pg_catalog.pg_class c ON c.relname = t.a",
        "SELECT (a * b) % 2147483647 FROM t",
        "SELECT MOD(a, 1024) FROM t",
        "SELECT FROM_VARBYTE(a, 'hex') FROM t",
        "SELECT REGEXP_REPLACE(a, '(x)', '$1', 1, 'p') FROM t",
    ],
)
def test_sql_that_redshift_lacks_is_detected(forbidden: str) -> None:
    assert violations(forbidden)


def test_every_list_entry_names_its_manual_page() -> None:
    lists = ("FUNCTIONS", "CATALOGUE_FUNCTIONS", "TYPES", "KEYWORDS", "OPERATORS", "STATEMENTS", "WRITES")
    for name in lists:
        for entry, page in getattr(redshift_allowed, name).items():
            assert page.endswith(".html") and "/" not in page, f"{name}: {entry}"


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_sessions_carry_the_auditors_name(engine: LiveEngine) -> None:
    assert tables.query(engine, "SHOW application_name") == [("auditor",)]


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_query_group_and_application_name_are_the_urls(engine: LiveEngine) -> None:
    with closing(dialects.connect(f"{engine.url}&query_group=it's+nightly&application_name=audits")) as session:
        assert session.query("SHOW query_group") == [("it's nightly",)]
        assert session.query("SHOW application_name") == [("audits",)]


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_rows_are_estimated_without_those_that_are_deleted(engine: LiveEngine) -> None:
    """By SVV_TABLE_INFO, which counts them as they are; without the right to read it, by what ANALYZE found."""
    tables.make(engine, "estimated", [("id", Kind("integer"))], [(n,) for n in range(500)])
    tables.execute(engine, "ANALYZE estimated")
    tables.execute(engine, "DELETE FROM estimated WHERE id < 100")
    refuse = "BEGIN RAISE 'permission denied for relation svv_table_info' USING ERRCODE = '42501'; END"
    assert _estimate(engine) == 400
    tables.execute(
        engine,
        f"CREATE FUNCTION refuse() RETURNS TEXT LANGUAGE plpgsql AS $${refuse}$$",
        'CREATE VIEW svv_table_info AS SELECT refuse() AS "schema", refuse() AS "table", 0 AS estimated_visible_rows',
    )
    try:
        assert _estimate(engine) == 500
    finally:
        tables.execute(engine, "DROP VIEW svv_table_info", "DROP FUNCTION refuse()")


def _estimate(engine: LiveEngine) -> int | None:
    with closing(dialects.connect(engine.url)) as session:
        return session.dialect.catalogue.describe(session, dialects.Place(("estimated",)))[0].estimate


@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_report_tells_what_the_server_recorded_of_a_run(engine: LiveEngine) -> None:
    """By SYS_QUERY_HISTORY: the statements of the run's own sessions since it began, and no others."""
    tables.make(engine, "recorded", [("id", Kind("integer"))], [(n,) for n in range(20)], key=["id"])
    times = "2500000 AS elapsed_time, 500000 AS queue_time, 1500000 AS execution_time"
    rows = f"SELECT {{}} AS session_id, {{}} AS start_time, {times}"
    own, now = "pg_backend_pid()", "CAST(GETDATE() AS TIMESTAMP)"
    found = [(own, now), (own, f"{now} - INTERVAL '1 day'"), ("0", now)]
    tables.execute(engine, f"CREATE VIEW sys_query_history AS {' UNION ALL '.join(rows.format(*one) for one in found)}")
    try:
        report = auditor.audit((engine.url, "recorded"), (engine.url, "recorded"))
    finally:
        tables.execute(engine, "DROP VIEW sys_query_history")
    assert report.verdict == "match" and report.cost["target"].server == dialects.ServerTimes(1, 2.5, 0.5, 1.5)
    assert '"queued_seconds": 0.5' in render_report.run(report, None, "json")
    assert "1 statements took 2.50 s, of which 0.50 s in queues" in render_report.run(report, None, "text")
    refused = "CREATE VIEW sys_query_history AS SELECT 1 AS session_id"
    tables.execute(engine, refused)
    try:
        report = auditor.audit((engine.url, "recorded"), (engine.url, "recorded"))
    finally:
        tables.execute(engine, "DROP VIEW sys_query_history")
    assert report.verdict == "match" and report.cost["target"].server is None
