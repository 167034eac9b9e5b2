"""Queries in place of tables: what is read of their text, what is refused, and what they cannot be combined with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import auditor
import dialects
from auditor import Verdict, service
from auditor.cli import main
from auditor.config import Audit, Settings, validate_audit, validate_settings
from auditor.errors import BadExpression, ConfigError
from auditor.history import records
from auditor.service.scrub import scrub
from auditor.sql.side_query import read_query
from auditor.store import open_store, runs

TOTALS = "SELECT customer, COUNT(*) AS orders FROM orders GROUP BY customer"


def read(sql: str, dialect: str = "mysql") -> str:
    return read_query(sql, dialects.get(dialect), "its query").text


@pytest.mark.parametrize("dialect", ["mysql", "postgres", "redshift", "duckdb", "spark"])
@pytest.mark.parametrize(
    "written",
    [
        TOTALS,
        f"{TOTALS};",
        f"  {TOTALS} ; ",
        f"{TOTALS} -- by customer",
        f"{TOTALS}; -- done\n;",
        f"/* totals */ {TOTALS} /* done */",
    ],
)
def test_what_stands_around_a_query_is_left_out(dialect: str, written: str) -> None:
    assert read(written, dialect) == TOTALS


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        ("mysql", "WITH t AS (SELECT 1 AS a) SELECT a, `x``;y` FROM t -- b\n, u WHERE c = ';--' AND d = \"/*\""),
        ("mysql", "SELECT 5--1 AS a"),
        ("mysql", "select a # remark; of mine\n from t"),
        ("postgres", "SELECT $$;--$$ AS a, $x$ ' $x$ AS b, E'\\';' AS c FROM \"t;\" FETCH FIRST 3 ROWS ONLY"),
        ("postgres", "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t"),
        ("redshift", "SELECT TOP 5 a::VARCHAR(10) AS a FROM t ORDER BY a"),
        ("spark", "SELECT word, COLLECT_SET(id) AS ids FROM t LATERAL VIEW EXPLODE(SPLIT(text, ' ')) w AS word GROUP BY word"),
        ("duckdb", "SELECT sleeping, random_numbers AS \"uuid\" FROM read_parquet('a;b.parquet')"),
    ],
)
def test_query_is_left_as_it_was_written(dialect: str, written: str) -> None:
    assert read(written, dialect) == written


@pytest.mark.parametrize(
    ("dialect", "written", "why"),
    [
        ("mysql", "", "is empty"),
        ("mysql", "-- nothing", "is empty"),
        ("mysql", "DELETE FROM t", "begins with DELETE"),
        ("mysql", "CALL clear()", "begins with CALL"),
        ("mysql", "TABLE t", "begins with TABLE"),
        ("postgres", "EXPLAIN ANALYZE SELECT 1", "begins with EXPLAIN"),
        ("postgres", "(SELECT 1 AS a)", "begins with ("),
        ("mysql", "SELECT 1; SELECT 2", "has 2 statements"),
        ("mysql", "SELECT 1; DROP TABLE t", "has 2 statements"),
        ("mysql", "SELECT a FROM t UNION SELECT b FROM u", "is a UNION of several SELECTs"),
        ("mysql", "SELECT a INTO OUTFILE '/tmp/a' FROM t", "has INTO, which writes"),
        ("mysql", "SELECT a FROM t INTO @a", "has INTO, which writes"),
        ("postgres", "SELECT a INTO u FROM t", "has INTO, which writes"),
        ("postgres", "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", "has DELETE, which writes"),
        ("postgres", "WITH new AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM new", "has INTO, which writes"),
        ("postgres", "WITH new AS (SELECT 1 AS a) UPDATE t SET a = 1", "is no SELECT"),
        ("mysql", "SELECT a FROM t FOR UPDATE", "locks rows (FOR UPDATE)"),
        ("mysql", "SELECT a FROM t LOCK IN SHARE MODE", "locks rows"),
        ("postgres", "SELECT a FROM (SELECT a FROM t FOR SHARE) AS u", "locks rows"),
        ("mysql", "SELECT SLEEP(5) AS a FROM t", "calls SLEEP()"),
        ("mysql", "SELECT a FROM t WHERE get_lock ('a', 1)", "calls GET_LOCK()"),
        ("postgres", "SELECT pg_catalog.pg_sleep_for('5 s') AS a", "calls PG_SLEEP_FOR()"),
        ("postgres", "SELECT \"nextval\"('s') AS a", "calls NEXTVAL()"),
        ("postgres", "SELECT pg_try_advisory_lock(1) AS a", "calls PG_TRY_ADVISORY_LOCK()"),
        ("spark", "SELECT java_method('java.lang.System', 'exit', 0) AS a", "calls JAVA_METHOD()"),
        ("mysql", "SELECT a FROM t ORDER BY RAND() LIMIT 5", "calls RAND(), which returns another value"),
        ("postgres", "SELECT gen_random_uuid() AS a", "returns another value"),
        ("postgres", "SELECT a FROM t TABLESAMPLE SYSTEM (1)", "reads a sample"),
        ("mysql", "SELECT a FROM t WHERE b = ?", "has a placeholder or a variable"),
        ("mysql", "SELECT a FROM t WHERE b = :b", "has a placeholder or a variable"),
        ("postgres", "SELECT a FROM t WHERE b = $1", "has a placeholder or a variable"),
        ("mysql", "SELECT @n := @n + 1 AS a FROM t", "has a placeholder or a variable"),
        ("mysql", "SELECT 1 /*!50000 INTO OUTFILE '/tmp/a' */", "a comment that servers read differently or run"),
        ("mysql", "SELECT 1 /*M! FOR UPDATE */", "a comment that servers read differently or run"),
        ("postgres", "SELECT /* a /* b */ c */ 1 AS a", "a comment that servers read differently or run"),
        ("redshift", "SELECT 1 AS a --x", "a comment that servers read differently or run"),
        ("mysql", "SELECT /*+ SET_VAR(sql_mode = '') */ 1 AS a", "has a hint"),
        ("postgres", "SELECT 1 AS a /*+ SeqScan(t) */", "has a hint"),
        ("mysql", "SELECT a, b AS a FROM t", "has two columns named 'a'"),
        ("mysql", "SELECT a FROM t WHERE (", "is not valid mysql SQL"),
        ("mysql", "SELECT 'a", "is not valid mysql SQL"),
        ("mysql", "SELECT a FROM t) AS u, (SELECT 1 AS b", "is not valid mysql SQL"),
    ],
)
def test_what_is_not_one_reading_select_is_refused_by_name(dialect: str, written: str, why: str) -> None:
    with pytest.raises(BadExpression) as refused:
        read(written, dialect)
    assert why in str(refused.value)
    assert str(refused.value).startswith("its query ")


def test_tables_and_what_is_taken_for_granted_are_read() -> None:
    written = "WITH t AS (SELECT * FROM shop.orders) SELECT t.id FROM t JOIN customers USING (id) WHERE day < CURRENT_DATE LIMIT 5"
    query = read_query(written, dialects.get("postgres"), "its query")
    assert set(query.tables) == {("shop", "orders"), ("customers",)}
    assert [text.split(":")[0] for text in query.assumed] == [
        "its query has a LIMIT",
        "its query reads the server's clock (CURRENT_DATE) again in each statement",
    ]
    assert read_query(TOTALS, dialects.get("mysql"), "its query").assumed == ()


SIDES: dict[str, Any] = {"source": {"connection": "a", "query": TOTALS}, "target": {"connection": "b", "table": "totals"}}


def audit(**settings: Any) -> Audit:
    return validate_audit({**SIDES, "key": ["customer"], **settings})


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"key": []}, "a query has no primary key: write key: [column, ...]"),
        ({"align": "pipeline"}, "align and query cannot be combined"),
        ({"summaries": "live"}, "summaries: live and query cannot be combined"),
        ({"history": "shop"}, "history and query cannot be combined"),
        ({"rolling": {"per_run": "5%"}}, "rolling and query cannot be combined"),
        ({"via": {"connection": "b", "table": "dump"}}, "via and query cannot be combined"),
        ({"through": {"broker": "k", "topic": "orders"}}, "through and query cannot be combined"),
        ({"prescan": True}, "prescan: true and query cannot be combined"),
        ({"source": [{"connection": "a", "table": "x"}, {"connection": "b", "table": "x"}],
          "target": {"connection": "b", "query": TOTALS}}, "several shards and query cannot be combined"),
        ({"source": {**SIDES["source"], "table": "orders"}}, "table and query cannot be combined"),
        ({"source": {**SIDES["source"], "convention": "dms"}}, "convention and query cannot be combined"),
        ({"source": {**SIDES["source"], "columns": {"a": "b"}}}, "columns: belongs to the target"),
    ],
)  # fmt: skip
def test_what_a_query_cannot_serve_is_refused_by_its_name(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        audit(**settings)
    assert why in str(refused.value)


def test_group_of_tables_has_no_query() -> None:
    group = {"tables": ["orders"], "source": {"connection": "a", "query": TOTALS}, "target": {"connection": "a"}}
    with pytest.raises(ConfigError, match="tables and a query cannot be combined"):
        validate_settings({"connections": {"a": {"url": "duckdb:///a"}}, "audits": {"g": group}})


@pytest.mark.parametrize("what", ["a patch", "a bootstrap", "a trace", "a drill", "the definition of a target", "a dump"])
def test_what_needs_tables_names_the_query(what: str) -> None:
    with pytest.raises(ConfigError, match=f"{what} needs two tables, and this audit's source is a query"):
        audit().one_source(what)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Orders, their totals by customer, of which some are wrong, and a configuration that audits these."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as shop:
        shop.execute("CREATE TABLE orders AS SELECT range AS id, range % 50 AS customer, 'note ' || range AS note FROM range(1000)")
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as warehouse:
        warehouse.execute("CREATE TABLE totals AS SELECT range AS customer, 20 AS orders FROM range(51) WHERE range <> 9")
        warehouse.execute("UPDATE totals SET orders = 21 WHERE customer = 7")
    (tmp_path / "auditor.yaml").write_text(
        f"""
connections:
  shop: {{url: "duckdb:///{tmp_path}/shop.duckdb", mask: [orders.note]}}
  warehouse: {{url: "duckdb:///{tmp_path}/warehouse.duckdb"}}
audits:
  totals:
    source: {{connection: shop, query: "{TOTALS} -- as of now"}}
    target: {{connection: warehouse, table: totals}}
    key: [customer]
"""
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_query_is_shown_by_plan_run_and_console_script(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "totals", "--json"]) == 0
    [checked] = json.loads(capsys.readouterr().out)
    assert checked["plan"]["queries"] == {"source": TOTALS}
    assert not checked["plan"]["prescan"]
    assert main(["check", "totals", "-v"]) == 0
    assert f"source query: {TOTALS}\n" in capsys.readouterr().out
    assert main(["run", "totals", "-q"]) == 1
    assert f"source query      {TOTALS}" in capsys.readouterr().out
    assert main(["report", "--run", "totals", "--format", "html"]) == 0
    assert TOTALS in capsys.readouterr().out
    assert main(["sql", "totals", "--side", "source"]) == 0
    script = capsys.readouterr().out
    assert f"FROM (\n{TOTALS}\n) a_read_query\n" in script
    statement = script[script.index("\nSELECT") : script.index(";\nCOMMIT")]
    with duckdb.connect(str(shop / "shop.duckdb")) as connection:
        assert connection.execute(statement).fetchall()[0][1] == 50


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["patch", "totals"], "a patch needs two tables, and this audit's source is a query (shop: a query)"),
        (["bootstrap", "totals"], "a bootstrap needs two tables"),
        (["trace", "totals"], "a trace needs two tables"),
        (["schema", "totals"], "the definition of a target needs two tables"),
        (["drill", "totals"], "a drill needs two tables"),
    ],
)
def test_commands_that_need_tables_refuse_a_query(shop: Path, capsys: pytest.CaptureFixture[str], command: list[str], why: str) -> None:
    assert main(["run", "totals", "-q"]) == 1
    assert main(command) == 2
    assert why in capsys.readouterr().err


def test_diff_takes_queries_in_place_of_tables(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = f"duckdb:///{shop}/shop.duckdb", f"duckdb:///{shop}/warehouse.duckdb"
    assert main(["diff", source, f"{TOTALS};", target, "totals", "-k", "customer", "-q", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(row["kind"], row["key"]["customer"]) for row in found["differences"]["sample"]] == [
        ("changed", 7),
        ("missing", 9),
        ("extra", 50),
    ]
    assert found["audit"] == "totals"
    both = ["SELECT customer FROM orders GROUP BY 1", "SELECT customer FROM totals WHERE customer < 50 UNION ALL SELECT 9"]
    assert main(["diff", source, both[0], target, f"SELECT * FROM ({both[1]}) AS parts", "-k", "customer", "-q"]) == 0
    assert main(["diff", source, TOTALS, target, "totals"]) == 2
    assert "a query has no primary key; name the columns that identify a row: -k COLUMN,.." in capsys.readouterr().err
    assert main(["diff", source, "SELECT random() AS customer, 1 AS orders", target, "totals", "-k", "customer", "-q"]) == 2
    assert "its query calls RANDOM(), which returns another value each time it is read" in capsys.readouterr().out


def compare(shop: Path, query: str, target: str = "totals", **options: Any) -> auditor.Report:
    sides = (f"duckdb:///{shop}/shop.duckdb", query), (f"duckdb:///{shop}/warehouse.duckdb", target)
    return auditor.audit(*sides, **{"key": ["customer"], **options})


EQUAL = "SELECT range AS {name}, 20 + (range = 7)::INT AS orders FROM range(51) WHERE range <> 9"


@pytest.mark.parametrize(
    "query",
    [
        f"WITH a_read_query AS ({EQUAL.format(name='customer')}) SELECT * FROM a_read_query",
        f"WITH a_hashed_rows(a_k, a_v) AS ({EQUAL.format(name='customer')}) SELECT a_k AS customer, a_v AS orders FROM a_hashed_rows",
        f"{EQUAL.format(name='customer')} ORDER BY customer DESC LIMIT 1000 OFFSET 0 -- the end",
        f"SELECT read_query.* FROM ({EQUAL.format(name='customer')}) AS read_query",
    ],
)
def test_names_inside_a_query_are_not_taken_for_ours(shop: Path, query: str) -> None:
    report = compare(shop, query)
    assert report.verdict is Verdict.MATCH, report.reasons
    assert report.plan
    assert "a_" not in query or report.plan.prefix == "a1_"


def test_columns_with_names_of_ours_are_compared(shop: Path) -> None:
    with duckdb.connect(str(shop / "warehouse.duckdb")) as warehouse:
        warehouse.execute(
            "CREATE TABLE ours AS SELECT range AS customer, 1 AS a_k, 2 AS a_v, 3 AS a_partition_id, range AS read_query FROM range(9)"
        )
    query = "SELECT range AS customer, 1 AS a_k, 2 AS a_v, 3 AS a_partition_id, range + (range = 4)::INT AS read_query FROM range(9)"
    report = compare(shop, query, "ours")
    assert report.differences
    assert [(row.kind, row.key["customer"]) for row in report.differences.named] == [("changed", "4")]
    assert report.plan
    assert report.plan.prefix == "a1_"


def test_columns_of_one_name_are_refused(shop: Path) -> None:
    report = compare(shop, "SELECT * FROM orders JOIN orders AS other USING (id)", key=["id"])
    assert report.verdict is Verdict.UNKNOWN
    assert "its query has two columns named 'customer'; name them apart" in report.reasons[0]


def test_limit_is_said_to_be_taken_for_granted(shop: Path) -> None:
    report = compare(shop, f"{EQUAL.format(name='customer')} LIMIT 1000")
    assert report.plan
    assert [str(entry) for entry in report.plan.not_compared] == [
        "rows (source): its query has a LIMIT: unless its ORDER BY leaves no two rows alike, the server may choose other rows each time it"
        " is read"
    ]


def test_masked_columns_of_the_tables_are_masked_in_a_query(shop: Path) -> None:
    """Under their own names; that others may be the same column is said."""
    with duckdb.connect(str(shop / "warehouse.duckdb")) as warehouse:
        warehouse.execute("CREATE TABLE notes AS SELECT range AS id, 'note ' || (range + (range = 5)::INT) AS note FROM range(1000)")
    settings = validate_settings(
        {
            "connections": {
                "shop": {"url": f"duckdb:///{shop}/shop.duckdb", "mask": ["orders.note"]},
                "warehouse": {"url": f"duckdb:///{shop}/warehouse.duckdb"},
            },
            "audits": {
                "notes": {
                    "source": {"connection": "shop", "query": "SELECT id, note FROM orders"},
                    "target": {"connection": "warehouse", "table": "notes"},
                    "key": ["id"],
                }
            },
        }
    )
    report = service.run_audit(settings, "notes")
    assert report.plan
    assert [column.name for column in report.plan.columns if column.masked] == ["note"]
    assert "note 6" not in str(report)
    assert any("is a query, and reads orders, of which columns are masked" in note for note in report.plan.notes)


def test_stored_runs_of_a_query_are_rechecked_sliced_and_scrubbed_as_those_of_a_table(shop: Path) -> None:
    with duckdb.connect(str(shop / "warehouse.duckdb")) as warehouse:
        warehouse.execute("CREATE TABLE notes AS SELECT range AS id, 'note ' || (range + (range = 5)::INT) AS note FROM range(1000)")

    def configured(mask: list[str], **more: Any) -> Settings:
        connections = {"shop": {"url": f"duckdb:///{shop}/shop.duckdb", "mask": mask}}
        connections["warehouse"] = {"url": f"duckdb:///{shop}/warehouse.duckdb", "mask": []}
        sides = {"source": {"connection": "shop", "query": "SELECT id, note FROM orders"}}
        sides["target"] = {"connection": "warehouse", "query": "SELECT * FROM notes WHERE id >= 0"}
        return validate_settings({"connections": connections, "audits": {"notes": {**sides, "key": ["id"], **more}}})

    store = open_store(f"sqlite:///{shop}/auditor.db")
    plain = configured([], recheck={"times": 1, "wait": "0s"})
    for overrides in ({}, {"keys": {"from": 4, "to": 6}}):
        report = service.run_audit(plain, "notes", store=store, overrides=overrides)
        assert report.differences
        assert [(row.kind, row.key) for row in report.differences.named] == [("changed", {"id": "5"})]
        assert [(column.source, column.target) for row in report.differences.named for column in row.columns] == [("note 5", "note 6")]
    assert scrub(configured(["orders.note"]), store) == 2
    for run in runs.list_runs(store):
        scrubbed = records.load_report(store, run.run)
        assert scrubbed
        assert scrubbed.differences
        assert [(column.source, column.target) for row in scrubbed.differences.named for column in row.columns] == [("***", "***")]
