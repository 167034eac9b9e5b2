"""The self-test of a connection: it passes on every engine, writes into no schema, and names what is broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import dialects
from auditor import cli
from auditor.config import ConnectionSettings, Settings
from auditor.errors import ConfigError
from auditor.service.selftest import SelfTest, ignore_check, selftest
from auditor.service.selftest.bench import Bench
from auditor.service.selftest.pieces import check_pieces
from auditor.service.selftest.texts import check_texts
from auditor.sql import user_sql
from dialects.duckdb.dialect import DuckDB
from dialects.duckdb.expressions import DuckDBNumbers, DuckDBText
from tests import tables
from tests.live import Engines, LiveEngine, engine_params, quick_on
from tests.servers.redshift import StandIn
from tests.servers.redshift_strict import STRICT

pytestmark = pytest.mark.engines_in_turn

LEAST_CHECKS = 150
"""Checks that every engine passes at least."""


def run(url: str) -> SelfTest:
    return selftest(Settings(connections={"here": ConnectionSettings(url=url)}, audits={}), "here")


def listed(engine: LiveEngine) -> list[str]:
    with closing(dialects.connect(engine.url)) as session:
        return sorted(f"{table.schema}.{table.name}" for table in session.dialect.catalogue.list_tables(session))


@pytest.fixture(autouse=True)
def unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the parser: the engines themselves read each statement."""
    monkeypatch.setattr(user_sql, "CHECK_RENDERED_SQL", False)


@contextmanager
def queues(engine: LiveEngine) -> Iterator[None]:
    """Give the stand-in the view of Redshift's queues for the block, where nothing else has defined it."""
    missing = engine.name == "redshift" and not tables.query(engine, "SELECT to_regclass('stv_wlm_query_state')")[0][0]
    if missing:
        tables.execute(engine, "CREATE VIEW stv_wlm_query_state (service_class, state, query) AS SELECT 6, CAST('Running' AS CHAR(16)), 1")
    try:
        yield
    finally:
        if missing:
            tables.execute(engine, "DROP VIEW stv_wlm_query_state")


@pytest.mark.quick_for("mysql", "postgres", "redshift")
@pytest.mark.parametrize("engine", quick_on("mysql", "mariadb", "postgres", "redshift", "duckdb"), indirect=True)
@pytest.mark.few
def test_every_engine_passes(engine: LiveEngine) -> None:
    """Each check passes, in temporary tables; that which an engine lacks is named as not run."""
    tables.make(engine, "selftest_seen", [("id", dialects.Kind("integer"))], [(1,)], key=["id"])
    with queues(engine):
        before = listed(engine)
        found = run(engine.url)
        assert listed(engine) == before, "it left something behind"
    assert not found.failed, found.failed[:5]
    passed = {check.group for check in found.checks if check.outcome == "passed"}
    assert passed >= {"canonical text", "row hash", "method", "published example", "summary", "rows", "statement", "filter", "server"}
    assert sum(check.outcome == "passed" for check in found.checks) >= LEAST_CHECKS
    assert found.tables.startswith("temporary tables")
    assert all(check.detail for check in found.checks if check.outcome == "not run")
    assert ("the description of a table", "passed") in [(check.name, check.outcome) for check in found.checks]


@pytest.mark.slow
@pytest.mark.parametrize("manner", [frozenset(), STRICT | {"case"}], ids=["as PostgreSQL", "without case"])
@pytest.mark.parametrize("engine", engine_params("redshift"), indirect=True)
def test_stand_in_passes_in_other_manners(engine: LiveEngine, engines: Engines, manner: frozenset[str]) -> None:
    """In its strict one it passes above."""
    server = engines.server(engine.name)
    if not isinstance(server, StandIn):
        pytest.skip(f"{engine.name}: {server.how}, whose behaviour is its own")
    with server.behaving(manner):
        found = run(engine.url)
    assert not found.failed, found.failed[:5]
    assert sum(check.outcome == "passed" for check in found.checks) >= LEAST_CHECKS


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_user_who_may_only_read_is_tested_on_values(engine: LiveEngine) -> None:
    """Without the privilege for temporary tables, the values are part of the statements, and the report says so."""
    database = urlsplit(engine.url).path.lstrip("/")
    reader = urlsplit(engine.url)._replace(netloc=f"selftest_reader:pw@127.0.0.1:{urlsplit(engine.url).port}").geturl()
    tables.execute(engine, "CREATE USER selftest_reader@'%' IDENTIFIED BY 'pw'", f"GRANT SELECT ON {database}.* TO selftest_reader@'%'")
    try:
        found = run(reader)
    finally:
        tables.execute(engine, "DROP USER selftest_reader@'%'")
    assert not found.failed, found.failed[:5]
    lag = next(check for check in found.checks if check.name == "the load: lag")
    assert lag.outcome == "not run" and "the user lacks a privilege" in lag.detail, "SHOW REPLICA STATUS needs REPLICATION CLIENT"
    assert "values in each statement" in found.tables and "denied" in found.tables
    assert {"document", "flags"} <= {check.name for check in found.checks if check.outcome == "not run"}


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_postgres_without_temporary_tables_is_tested_on_values(engine: LiveEngine) -> None:
    database = urlsplit(engine.url).path.lstrip("/")
    reader = urlsplit(engine.url)._replace(netloc=f"selftest_reader:pw@127.0.0.1:{urlsplit(engine.url).port}").geturl()
    tables.execute(engine, "CREATE ROLE selftest_reader LOGIN PASSWORD 'pw'", "GRANT pg_read_all_stats TO selftest_reader",
                   f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC")  # fmt: skip
    try:
        found = run(reader)
    finally:
        tables.execute(engine, f"GRANT TEMPORARY ON DATABASE {database} TO PUBLIC", "DROP ROLE selftest_reader")
    assert not found.failed, found.failed[:5]
    assert "values in each statement" in found.tables and "permission denied" in found.tables


Breakage = Callable[..., str]

FAULTS: dict[str, tuple[Breakage, str]] = {
    "floor_divide": (lambda self, c, divisor, native: self.as_bigint(f"{c} // {divisor}"), "floor_divide"),
    "remainder": (lambda self, c, divisor, native: f"{c} % {divisor}", "remainder"),
    "signed_remainder": (lambda self, c, divisor, native: f"ABS({c}) % {divisor}", "signed_remainder"),
    "word": (lambda self, digits, first, count: f"CAST('0x' || SUBSTR({digits}, {first + 1}, {count}) AS BIGINT)", "word"),
    "row_hash": (lambda self, text, algorithm: f"UPPER(SHA256({text}))", "row_hash (sha256)"),
    "shift_right": (lambda self, c, bits: f"({c} >> {bits - 1})", "shift_right"),
    "day_index": (lambda self, c: f"DATE_DIFF('day', DATE '2000-01-01', CAST({c} AS DATE))", "day_index"),
    "integer_sum": (lambda self, c: f"CAST(SUM(CAST({c} AS DOUBLE)) AS BIGINT)", "integer_sum"),
    "lower": (lambda self, c: f"LOWER({c})", "lower"),
    "trim_right": (lambda self, c: c, "trim_right"),
    "bytewise": (lambda self, c: f"({c} COLLATE NOCASE)", "bytewise"),
    "exact_text": (lambda self, c: f"RTRIM({c})", "exact_text"),
    "replace": (lambda self, c, old, new: c, "replace"),
    "length": (lambda self, c: f"STRLEN({c})", "length"),
    "string_literal": (lambda self, value: "'" + value.replace("'", "''").replace("\\", "\\\\") + "'", "string_literal"),
    "decimal_text": (lambda self, c, scale, native: f"CAST(CAST(TRUNC({c} * {10**scale}) / {10**scale} AS DECIMAL(38,{scale})) AS VARCHAR)",
                     "price: DECIMAL(12,4) as decimal(10,2)"),
    "power_of_two": (lambda self, exponent: f"EXP({exponent} * LN(CAST(2 AS DOUBLE)))", "double: DOUBLE as float64"),
    "date_text": (lambda self, c: f"STRFTIME({c}, '%y-%m-%d')", "day: DATE as date"),
    "short_time_text": (lambda self, c, native: f"STRFTIME({c}, '%H:%M')", "clock: TIME as time(6)"),
    "boolean_text": (lambda self, c, native: f"CAST({c} AS VARCHAR)", "flag: BOOLEAN as boolean"),
    "uuid_text": (lambda self, c, native: f"UPPER(CAST({c} AS VARCHAR))", "ident: UUID as uuid"),
}  # fmt: skip
"""Methods, each with something that an engine might really do, and the check that names it."""


def part_with(method: str) -> type:
    """Return the class of the part of DuckDB's dialect that has a method."""
    (found,) = {type(part) for name in dialects.PARTS if hasattr(part := getattr(DuckDB(), name), method)}
    return found


@pytest.mark.quick_for("decimal_text", "power_of_two", "signed_remainder", "word", "shift_right", "uuid_text")
@pytest.mark.parametrize("method", FAULTS)
def test_broken_method_is_named(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, name = FAULTS[method]
    with closing(dialects.connect("duckdb:///:memory:")) as session:
        monkeypatch.setattr(part_with(method), method, broken)
        bench = Bench(session, ignore_check)
        named: list[str] = []
        for check_some in (check_pieces, check_texts):
            check_some(bench)
            failed = {check.name: check for check in bench.checks if check.outcome == "failed"}
            if named := [check for check in failed if check == name or check.startswith(f"{name} (")]:
                break
    assert named, sorted(failed)
    assert failed[named[0]].sql and failed[named[0]].detail


def test_refused_expression_is_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One column whose SQL the engine refuses does not hide the others."""
    monkeypatch.setattr(DuckDBText, "hex_text", lambda self, c: f"NO_SUCH_FUNCTION({c})")
    with closing(dialects.connect("duckdb:///:memory:")) as session:
        bench = Bench(session, ignore_check)
        check_texts(bench)
    failed = {check.name: check.detail for check in bench.checks if check.outcome == "failed"}
    assert set(failed) == {"bytes: BLOB as binary", "ident_bytes: BLOB as uuid"}
    assert all("no_such_function" in detail.lower() for detail in failed.values())


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "auditor.yaml"
    path.write_text("connections:\n  lake: {url: 'duckdb:///:memory:'}\naudits: {}\n")
    return str(path)


def test_command_reports_what_failed(config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--connection", "lake", "--config", config]) == 0
    printed = capsys.readouterr().out
    assert "lake: DuckDB" in printed and "tested with temporary tables" in printed and "all 1" in printed
    monkeypatch.setattr(DuckDBNumbers, "floor_divide", lambda self, c, divisor, native: self.as_bigint(f"{c} // {divisor}"))
    assert cli.main(["selftest", "--connection", "lake", "--config", config, "--format", "json"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    failed = [check for check in found["checks"] if check["outcome"] == "failed"]
    assert len(failed) == found["failed"] and any(check["name"].startswith("floor_divide") for check in failed)
    assert any(check["group"] == "summary" for check in failed), "what rests on the method fails too"


def test_unknown_connection_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"there is no connection 'there' \(connections here: none\)"):
        selftest(Settings(connections={}, audits={}), "there")
