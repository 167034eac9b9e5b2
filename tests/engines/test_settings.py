"""Settings of servers, roles and processes, each at its worst, change nothing of what a run finds; those that nobody can undo are refused.

docs/sessions.md names the most important ones for people.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import auditor
import dialects
from auditor.model import Report
from dialects import Kind
from dialects.errors import AccessDenied, SessionNotKept, StatementRefused
from dialects.mysql import settings as mysql_settings
from dialects.postgres import settings as postgres_settings
from dialects.settings import refuse_others
from dialects.spark import settings as spark_settings
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.servers import mysql

COLUMNS = [("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 12, 2)), ("seen", Kind("timestamp", scale=6))]
ROWS = 3_000
PREFIX = "the same beginning of every name "
FOUND = [("changed", "17"), ("changed", "1500"), ("missing", "2000"), ("extra", "2500")]
"""What a run must find of the damage."""


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("engine", engine_params(*names), indirect=True)


def make_damaged(engine: LiveEngine) -> None:
    rows = [(n, f"{PREFIX}{n}", Decimal(n) / 4, datetime(2024, 1, 1, 0, 0, n % 60, 250_000)) for n in range(ROWS)]
    damaged: list[tuple[Any, ...]] = [row for row in rows if row[0] != 2000]
    damaged[17] = (17, f"{PREFIX}another", *rows[17][2:])
    damaged[1500] = (1500, rows[1500][1], Decimal("0.01"), rows[1500][3])
    tables.make(engine, "set_source", COLUMNS, [row for row in rows if row[0] != 2500], key=["id"])
    tables.make(engine, "set_target", COLUMNS, damaged, key=["id"])


def assert_found(report: Report) -> None:
    assert report.verdict == "mismatch" and report.differences and report.differences.exact, report.reasons
    assert [(one.kind, one.key["id"]) for one in report.differences.named] == FOUND


def audit_damaged(engine: LiveEngine, **settings: Any) -> Report:
    return auditor.audit((engine.url, "set_source"), (engine.url, "set_target"), key=["id"], **settings)


WORST_OF_BOTH: Mapping[str, object] = {
    "sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,PIPES_AS_CONCAT'",
    "time_zone": "'+05:30'",
    "group_concat_max_len": 8,
    "sql_big_selects": 0,
    "sql_safe_updates": 1,
    "sql_auto_is_null": 1,
    "max_sort_length": 8,
    "div_precision_increment": 0,
    "default_week_format": 7,
    "lc_time_names": "'de_DE'",
    "completion_type": "'RELEASE'",
    "sql_quote_show_create": 0,
    "default_tmp_storage_engine": "'MEMORY'",
    "wait_timeout": 1,
    "interactive_timeout": 1,
    "net_read_timeout": 1,
    "net_write_timeout": 1,
    "lock_wait_timeout": 1,
    "innodb_lock_wait_timeout": 1,
    "low_priority_updates": 1,
    "sql_buffer_result": 1,
    "big_tables": 1,
    "max_length_for_sort_data": 4,
    "max_seeks_for_key": 1,
    "max_error_count": 0,
    "sql_notes": 0,
    "join_buffer_size": 128,
    "eq_range_index_dive_limit": 1,
    "updatable_views_with_limit": "'NO'",
    "foreign_key_checks": 0,
}
"""Worst values of global variables that do not hide each other's effects."""

WORST_OF_ONE: Mapping[str, Mapping[str, object]] = {
    "mysql": {
        "transaction_isolation": "'READ-UNCOMMITTED'",
        "max_execution_time": 1,
        "windowing_use_high_precision": 0,
        "show_gipk_in_create_table_and_information_schema": 0,
        "explain_format": "'JSON'",
        "cte_max_recursion_depth": 1,
        "information_schema_stats_expiry": 31_536_000,
    },
    "mariadb": {
        "tx_isolation": "'READ-UNCOMMITTED'",
        "max_statement_time": 0.001,
        "system_versioning_asof": "'2001-01-01 00:00:00'",
        "max_recursive_iterations": 1,
        "default_regex_flags": "'DOTALL,EXTENDED,MULTILINE'",
        "standard_compliant_cte": 0,
        "old_mode": "'NO_DUP_KEY_WARNINGS_WITH_IGNORE,ZERO_DATE_TIME_CAST'",
        "sql_if_exists": 1,
        "idle_transaction_timeout": 1,
        "idle_readonly_transaction_timeout": 1,
        "idle_write_transaction_timeout": 1,
        "join_cache_level": 8,
        "optimizer_use_condition_selectivity": 1,
        "use_stat_tables": "'NEVER'",
    },
}

WORST_ALONE = [
    {"sql_select_limit": 1},
    {"sql_select_limit": 500},
    {"max_join_size": 1},
    {"max_join_size": 1, "sql_big_selects": 0},
    {"sql_select_limit": 0},
]
"""Settings that cut, or refuse, by themselves."""


@contextmanager
def global_variables(engine: LiveEngine, values: Mapping[str, object]) -> Iterator[None]:
    """Set variables for the sessions that begin within the block."""
    with closing(mysql.connect(engine.url)) as connection, connection.cursor() as cursor:
        before = {}
        for name in values:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            (before[name],) = cursor.fetchone() or ()
        try:
            for name, value in values.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
            yield
        finally:
            for name, value in before.items():
                is_default = name == "system_versioning_asof"
                cursor.execute(f"SET GLOBAL {name} = {'DEFAULT' if is_default else '%s'}", () if is_default else (value,))


@only("mysql", "mariadb")
@pytest.mark.alone  # changes the server's variables
def test_the_worst_variables_of_mysql_change_nothing(engine: LiveEngine) -> None:
    make_damaged(engine)
    if engine.name == "mariadb":  # of other tables, no earlier rows are kept
        tables.execute(engine, *(f"ALTER TABLE {name} ADD SYSTEM VERSIONING" for name in ("set_source", "set_target")))
    with global_variables(engine, {**WORST_OF_BOTH, **WORST_OF_ONE[engine.name]}):
        assert_found(audit_damaged(engine))
        assert_found(audit_damaged(engine, where="price >= 0"))


@pytest.mark.quick_for("{'sql_select_limit': 1}", "{'max_join_size': 1, 'sql_big_selects': 0}")
@only("mysql", "mariadb")
@pytest.mark.alone
@pytest.mark.parametrize("values", WORST_ALONE, ids=str)
@pytest.mark.few
def test_a_limit_of_the_server_cuts_nothing(engine: LiveEngine, values: Mapping[str, object]) -> None:
    make_damaged(engine)
    with global_variables(engine, values):
        assert_found(audit_damaged(engine))
        assert_found(audit_damaged(engine, partition={"size": 4}))
        same = auditor.audit((engine.url, "set_source"), (engine.url, "set_source"), key=["id"])
        assert same.verdict == "match" and same.comparison and same.comparison.rows == {"source": ROWS - 1, "target": ROWS - 1}


@pytest.mark.slow_on("mysql")
@only("mysql", "mariadb")
@pytest.mark.alone
def test_a_side_that_waits_keeps_its_snapshot_on_mysql(engine: LiveEngine) -> None:
    make_damaged(engine)
    names = ["wait_timeout", "interactive_timeout", "net_read_timeout", "net_write_timeout"]
    idle = ["idle_transaction_timeout", "idle_readonly_transaction_timeout"] if engine.name == "mariadb" else []
    with global_variables(engine, dict.fromkeys([*names, *idle], 1)), closing(dialects.connect(engine.url)) as session:
        session.begin()
        time.sleep(2.5)
        assert session.query("SELECT COUNT(*) FROM set_source") == [(ROWS - 1,)]


class Refusing:
    """A server of MySQL that lacks a variable, lets nobody set another, or answers with a value of its own."""

    def __init__(self, unknown: str = "", kept: str = "") -> None:
        self.unknown, self.kept = unknown, kept
        self.sent: list[str] = []

    def execute(self, sql: str) -> None:
        self.sent.append(sql)
        if self.unknown and f" {self.unknown} " in sql:
            raise StatementRefused(f"Unknown system variable '{self.unknown}' (MySQL error 1193)")
        if self.kept and f" {self.kept} " in sql:
            raise AccessDenied("Access denied; you need the SUPER privilege (MySQL error 1227)")


def test_a_variable_that_a_server_lacks_or_keeps_does_not_hinder_the_others() -> None:
    values = mysql_settings.assignments(True, 60.0, 10.0)
    lacking: Any = Refusing(unknown="wsrep_dirty_reads")
    assert mysql_settings.assign(lacking, True, values, "mark") == ["wsrep_dirty_reads"]
    assert len(lacking.sent) == 3 and "sql_select_limit = 18446744073709551615" in lacking.sent[-1]
    keeping: Any = Refusing(kept="old_mode")
    assert mysql_settings.assign(keeping, True, values, "mark") == []
    assert len(keeping.sent) == 3 + len(values), "each by itself"


def test_what_results_depend_on_is_held() -> None:
    wanted = mysql_settings.results(mariadb=True)
    as_read = {name: value.strip("'") for name, value in wanted.items()}
    refuse_others("mysql://h/d", wanted, as_read)
    with pytest.raises(SessionNotKept, match=r"mysql://h/d: .* sql_select_limit is 500, not 18446744073709551615; set them so"):
        refuse_others("mysql://h/d", wanted, {**as_read, "sql_select_limit": 500})


WORST_OF_POSTGRES: Mapping[str, str] = {
    "TimeZone": "'Asia/Kolkata'",
    "DateStyle": "'German, DMY'",
    "IntervalStyle": "'iso_8601'",
    "bytea_output": "'escape'",
    "standard_conforming_strings": "off",
    "extra_float_digits": "-15",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "gin_fuzzy_search_limit": "1",
    "array_nulls": "off",
    "exit_on_error": "on",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_deferrable": "on",
    "default_transaction_read_only": "on",
    "statement_timeout": "'2s'",
    "lock_timeout": "1",
    "backslash_quote": "on",
    "client_min_messages": "'error'",
    "constraint_exclusion": "on",
    "enable_partition_pruning": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "'force_generic_plan'",
    "from_collapse_limit": "1",
    "geqo_threshold": "2",
    "synchronize_seqscans": "on",
    "work_mem": "64",
    "default_text_search_config": "'simple'",
    "xmlbinary": "'hex'",
    "timezone_abbreviations": "'India'",
    "row_security": "off",
    "cursor_tuple_fraction": "0",
}


READ_ALL_SINCE = 140_000
"""The version of PostgreSQL since which a role may be let read everything."""


@contextmanager
def role(engine: LiveEngine, *settings: str) -> Iterator[str]:
    """Create a role that may read everything, has these settings, and is gone after the block; yield the URL with which it connects."""
    grants = ["GRANT pg_read_all_data TO auditor_set"]
    if tables.postgres_version(engine) < READ_ALL_SINCE:
        written = tables.query(engine, "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema !~ '^(pg_|inf)'")
        grants = [f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO auditor_set" for (schema,) in written]
    tables.execute(
        engine,
        "DROP ROLE IF EXISTS auditor_set",
        "CREATE ROLE auditor_set LOGIN PASSWORD 'b'",
        *grants,
        *(f"ALTER ROLE auditor_set SET {one}" for one in settings),
    )
    try:
        yield engine.url.replace("//audit:audit@", "//auditor_set:b@")
    finally:
        tables.execute(engine, "DROP OWNED BY auditor_set", "DROP ROLE auditor_set")


@only("postgres")
def test_the_worst_parameters_of_postgres_change_nothing(engine: LiveEngine) -> None:
    make_damaged(engine)
    with role(engine, *(f"{name} TO {value}" for name, value in WORST_OF_POSTGRES.items())) as url:
        bound = replace(engine, url=url)
        assert_found(audit_damaged(bound))
        assert_found(audit_damaged(bound, where="price >= 0", partition={"size": 64}))


@only("postgres")
def test_an_index_leaves_no_rows_out(engine: LiveEngine) -> None:
    make_damaged(engine)
    for name in ("set_source", "set_target"):
        tables.execute(
            engine,
            f"ALTER TABLE {name} ADD COLUMN tags integer[] DEFAULT '{{1, 2}}'",
            f"CREATE INDEX ON {name} USING gin (tags) WITH (fastupdate = off)",
        )
    where = dict.fromkeys(("source", "target"), "tags @> ARRAY[1]")
    with role(engine, "gin_fuzzy_search_limit TO 1", "enable_seqscan TO off", "enable_indexscan TO off") as url:
        assert_found(audit_damaged(replace(engine, url=url), where=where, columns={"exclude": ["tags"]}))


@only("postgres")
@pytest.mark.parametrize("name", postgres_settings.NOT_SETTABLE)
def test_what_only_superusers_set_is_refused(engine: LiveEngine, name: str) -> None:
    with role(engine, f"{name} TO on") as url, pytest.raises(SessionNotKept, match=rf"{name} is on, not off; set them so for this user"):
        dialects.connect(url)


@only("postgres")
def test_a_side_that_waits_keeps_its_snapshot_on_postgres(engine: LiveEngine) -> None:
    make_damaged(engine)
    version = tables.postgres_version(engine)
    newer = [name for name, first in (("idle_session_timeout", 140_000), ("transaction_timeout", 170_000)) if version >= first]
    limits = [f"{name} TO 1000" for name in ("idle_in_transaction_session_timeout", *newer)]
    with role(engine, *limits) as url, closing(dialects.connect(url)) as session:
        time.sleep(1.5)
        session.begin()
        time.sleep(1.5)
        assert session.query("SELECT COUNT(*) FROM set_source") == [(ROWS - 1,)]


SHADOWED = (
    "abs power ln floor substr substring sha256 md5 encode decode textsend round replace uuid_send get_byte convert_to left right"
    " timestamp char_length isfinite octet_length length lower upper current_setting set_config clock_timestamp format format_type mod"
    " quote_ident regexp_replace to_char date_trunc extract date_part btrim rtrim ltrim translate strpos position pg_table_is_visible"
)
"""Functions that statements use, among others."""


@only("postgres")
def test_functions_of_a_role_stand_in_for_none_of_the_servers(engine: LiveEngine) -> None:
    """A path that names pg_catalog behind a schema of the role's own, as users of orafce have it."""
    make_damaged(engine)
    tables.execute(
        engine, "DROP SCHEMA IF EXISTS shadowing CASCADE", "CREATE SCHEMA shadowing", "GRANT USAGE ON SCHEMA shadowing TO public"
    )
    try:
        narrow = (f"ALTER TABLE {name} ALTER COLUMN name TYPE varchar(100)" for name in ("set_source", "set_target"))
        tables.execute(engine, *narrow, "ALTER TABLE set_source SET SCHEMA shadowing")
        twins = tables.query(
            engine,
            "SELECT proname, pg_get_function_identity_arguments(oid), pg_get_function_result(oid) FROM pg_proc"
            " WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND provariadic = 0 AND NOT proretset"
            " AND prorettype NOT IN ('internal'::regtype, 'anyelement'::regtype, 'anyarray'::regtype, 'trigger'::regtype)"
            " AND NOT 'internal'::regtype = ANY (proargtypes) AND NOT 2276 = ANY (proargtypes)"
            f" AND proname = ANY (string_to_array('{SHADOWED}', ' '))",
        )
        assert len(twins) > 50
        twins += [(name, given.replace("text", "varchar"), result) for name, given, result in twins if "text" in given]
        tables.execute(
            engine,
            *(
                f"CREATE FUNCTION shadowing.{name}({given}) RETURNS {result} LANGUAGE sql AS 'SELECT NULL::{result}'"
                for name, given, result in twins
            ),
            "CREATE FUNCTION shadowing.equal(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
            "CREATE OPERATOR shadowing.= (LEFTARG = text, RIGHTARG = text, FUNCTION = shadowing.equal)",
        )
        with role(engine, "search_path TO shadowing, public, pg_catalog") as url:
            assert_found(audit_damaged(replace(engine, url=url)))
            with closing(dialects.connect(url)) as session:
                assert session.query("SHOW search_path") == [("shadowing, public",)]
    finally:
        tables.execute(engine, "DROP SCHEMA shadowing CASCADE")


WORST_OF_SPARK: Mapping[str, str] = {
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoredPathSegmentRegex": "^part-",
    "spark.sql.optimizer.metadataOnly": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.groupByAliases": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.codingErrorAction": "true",
    "spark.sql.legacy.javaCharsets": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "true",
    "spark.sql.legacy.interval.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.codegen.wholeStage": "false",
}


@pytest.mark.slow
@only("spark")
def test_the_worst_configuration_of_spark_changes_nothing(engine: LiveEngine) -> None:
    make_damaged(engine)
    with spark_configured(WORST_OF_SPARK):
        assert_found(audit_damaged(engine))


@only("spark")
def test_damaged_files_are_not_left_out(engine: LiveEngine, tmp_path: Path) -> None:
    """With ``ignoreCorruptFiles`` their rows are, and equal tables of what is left match."""
    for name in ("one", "two"):
        pq.write_table(pa.table({"id": list(range(100))}), tmp_path / f"{name}.parquet")
    (tmp_path / "two.parquet").write_bytes(b"PAR1 and nothing of the kind behind it PAR1")
    with spark_configured({"spark.sql.files.ignoreCorruptFiles": "true"}):
        report = auditor.audit((engine.url, str(tmp_path)), (engine.url, str(tmp_path)), key=["id"])
    assert report.verdict == "unknown", report.comparison


@contextmanager
def spark_configured(values: Mapping[str, str]) -> Iterator[None]:
    """Let sessions that begin within the block have these settings, as if spark-defaults.conf named them."""
    from pyspark import SparkContext

    context = SparkContext.getOrCreate()
    shared: Any = context._jsc.sc().conf()
    before = {name: shared.get(name, "") for name in values}
    for name, value in values.items():
        shared.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            shared.set(name, value) if value else shared.remove(name)


def test_a_setting_of_spark_that_a_service_keeps_is_refused() -> None:
    found = {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.caseSensitive": "TRUE", "spark.sql.groupByOrdinal": "true"}

    def write(name: str, value: str) -> None:
        if name == "spark.sql.files.ignoreMissingFiles":
            raise StatementRefused("[CONFIG_NOT_AVAILABLE]")
        found[name] = value

    with pytest.raises(SessionNotKept, match=r"depend: spark.sql.files.ignoreMissingFiles is true, not false; set them so"):
        spark_settings.restore("sc://h", lambda: found, write)
    assert found["spark.sql.caseSensitive"] == "false", "what can be set is"


WORST_OF_DUCKDB: Mapping[str, str] = {
    "default_order": "'DESC'",
    "default_null_order": "'NULLS_FIRST'",
    "default_collation": "'NOCASE'",
    "integer_division": "true",
    "ieee_floating_point_ops": "false",
    "order_by_non_integer_literal": "true",
    "scalar_subquery_error_on_multiple_rows": "false",
    "TimeZone": "'Asia/Kolkata'",
    "Calendar": "'hebrew'",
    "binary_as_string": "true",
    "arrow_lossless_conversion": "true",
    "arrow_large_buffer_size": "true",
    "preserve_insertion_order": "false",
    "enable_optimizer": "false",
    "threads": "1",
}


@pytest.mark.closes_files
def test_the_worst_settings_of_a_process_change_nothing_on_duckdb(tmp_path: Path) -> None:
    engine = LiveEngine("duckdb", "duckdb", f"duckdb:///{tmp_path}/worst.duckdb")
    make_damaged(engine)
    with closing(duckdb.connect(f"{tmp_path}/worst.duckdb", read_only=True)) as process:
        for name, value in WORST_OF_DUCKDB.items():
            process.execute(f"SET GLOBAL {name} = {value}")
        assert_found(audit_damaged(engine))
        assert_found(audit_damaged(engine, where="price >= 0", partition={"size": 64}))
        assert process.execute("SELECT current_setting('default_order'), current_setting('integer_division')").fetchall() == [
            ("DESC", True)
        ]


@pytest.mark.closes_files
@pytest.mark.parametrize("macro", ["replace(a, b, c) AS 'x'", "sha256(a) AS 'x'", "sum(a) AS 7"])
def test_a_macro_in_the_place_of_a_function_is_refused(tmp_path: Path, macro: str) -> None:
    with closing(duckdb.connect(f"{tmp_path}/own.duckdb")) as own:
        own.execute(f"CREATE MACRO {macro}")
    name = macro.partition("(")[0]
    with pytest.raises(StatementRefused, match=rf"macros that take the place of functions of DuckDB's own: {name}; give them"):
        dialects.connect(f"duckdb:///{tmp_path}/own.duckdb")
