"""Types of one engine against what a loader makes of them on another: enums, domains, addresses, arrays, structs, floats, 128-bit integers.

Each test has one wide table on either side, whose rows differ in one column each: that column is named, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn


@dataclass(frozen=True)
class Pair:
    """A column of both sides: its types, SQL of one equal value on each, and SQL of another value on the target."""

    source_type: str
    target_type: str
    source: str
    target: str
    other: str


def audit_of(columns: Mapping[str, object] | None = None, **settings: object) -> Audit:
    sides = {side: {"connection": side, "table": f"peculiar_{side}"} for side in ("source", "target")}
    return Audit.model_validate({**sides, "key": ["id"], "columns": columns or {}, **settings})


def run(pair: LivePair, audit: Audit) -> Report:
    return audit_run.run(
        "peculiar", audit, {"source": ConnectionSettings(url=pair.source.url), "target": ConnectionSettings(url=pair.target.url)}
    )


def create(engine: LiveEngine, table: str, types: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Create a table with a key and the columns c0, c1, .., of these types, and a row for each list of SQL expressions."""
    columns = ", ".join(["id INTEGER", *(f"c{n} {type_}" for n, type_ in enumerate(types))])
    values = ", ".join(f"({number}, {', '.join(row)})" for number, row in enumerate(rows))
    tables.execute(engine, f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {values}")


def assert_compared(pair: LivePair, columns: Sequence[Pair]) -> None:
    """Row n differs in column n alone, and each is named by it: the other columns are equal. So are one row more, and one of NULLs."""
    nulls = ["NULL"] * len(columns)
    equal = [[one.source for one in columns]] * (len(columns) + 1)
    changed = [[one.other if n == row else one.target for n, one in enumerate(columns)] for row in range(len(columns) + 1)]
    create(pair.source, "peculiar_source", [one.source_type for one in columns], [*equal, nulls])
    create(pair.target, "peculiar_target", [one.target_type for one in columns], [*changed, nulls])
    differences = run(pair, audit_of()).differences
    assert differences is not None
    found = {one.key["id"]: [(column.name, column.source, column.target) for column in one.columns] for one in differences.named}
    assert {key: [name for name, *_ in values] for key, values in found.items()} == {str(n): [f"c{n}"] for n in range(len(columns))}, found


JSON_TEXT = r"""["a", "", null, "|~ \\ \" / é 😀", "\\u001F\u001f\u001F\u0001\u007f\b\f\n\r\t"]"""
"""A document of text with all that is escaped in one way or another."""

POSTGRES_TYPES = (
    "DROP TABLE IF EXISTS peculiar_target",
    "DROP DOMAIN IF EXISTS price, price_of_all, tags, mood_of_all",
    "DROP TYPE IF EXISTS mood, address",
    "CREATE TYPE mood AS ENUM ('a b', 'c')",
    "CREATE DOMAIN price AS NUMERIC(10,2) CHECK (VALUE >= 0)",
    "CREATE DOMAIN price_of_all AS price",
    "CREATE DOMAIN tags AS TEXT[]",
    "CREATE DOMAIN mood_of_all AS mood",
    'CREATE TYPE address AS (street TEXT, "zip code" INTEGER, ok BOOLEAN)',
)
LONG, ROUNDED = "12345678901234567890.123456789012345678", "12345678901234567890.1234"
"""A decimal, and fewer digits that denote the same double."""
UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

ON_POSTGRES = [
    Pair("ENUM('a b', 'c')", "mood", "'a b'", "'a b'", "'c'"),
    Pair("VARCHAR(20) CHARACTER SET latin1", "mood_of_all", "'c'", "'c'", "'a b'"),
    Pair("DECIMAL(10,2)", "price_of_all", "1.10", "1.1", "1.11"),
    Pair("JSON", "tags", "{json}", "ARRAY(SELECT jsonb_array_elements_text({json}))", "ARRAY['a']"),
    Pair("JSON", "INTEGER[]", "'[[1, 2], [3, null]]'", "'{{{{1,2}},{{3,NULL}}}}'", "'{{{{1,2}},{{3,4}}}}'"),
    Pair("JSON", "BOOLEAN[]", "'[]'", "'{{}}'", "'{{NULL}}'"),
    Pair("JSON", "mood[]", "'[\"a b\"]'", "'{{a b}}'", "'{{c}}'"),
    Pair("JSON", "address", """'{{"street": "|", "zip code": 7, "ok": null}}'""", "ROW('|', 7, NULL)", "ROW('|', 7, FALSE)"),
    Pair("VARCHAR(43)", "INET", "'10.0.0.1'", "'10.0.0.1'", "'10.0.0.1/31'"),
    Pair("VARCHAR(43)", "INET", "'2001:db8::1/64'", "'2001:DB8:0::1/64'", "'2001:db8::2/64'"),
    Pair("VARCHAR(43)", "CIDR", "'10.0.0.0/8'", "'10/8'", "'10.0.0.0/9'"),
    Pair("VARCHAR(43)", "MACADDR", "'08:00:2b:01:02:03'", "'08002b-010203'", "'08:00:2b:01:02:04'"),
    Pair("VARCHAR(99)", "INTERVAL", "'1 year 2 mons -3 days +04:05:06.7'", "'14 months -3 days 4:05:06.7'", "'1 year'"),
    Pair("CHAR(32)", "UUID", f"'{UUID.replace('-', '').upper()}'", f"'{UUID}'", f"'{UUID[:-1]}9'"),
    Pair("VARCHAR(36)", "UUID", f"'{UUID.upper()}'", f"'{UUID}'", f"'{UUID[:-1]}9'"),
    Pair("BINARY(16)", "UUID", f"X'{UUID.replace('-', '')}'", f"'{UUID}'", f"'{UUID[:-1]}9'"),
    Pair("BIGINT", "DOUBLE PRECISION", "9007199254740992", "9007199254740992", "9007199254740994"),
    Pair("INT", "REAL", "16777216", "16777216", "16777218"),
    Pair("YEAR", "REAL", "2024", "2024", "2024.5"),
    Pair("DECIMAL(38,18)", "DOUBLE PRECISION", LONG, ROUNDED, "1.234567890123456e19"),
    Pair("DECIMAL(10,2)", "REAL", "0.1", "0.1", "0.1000001"),
    Pair("DOUBLE", "NUMERIC", "0.1", "0.1", "0.10000000000000001e1"),
    Pair("DOUBLE", "BOOLEAN", "1", "TRUE", "FALSE"),
    Pair("DECIMAL(8,2) ZEROFILL", "NUMERIC(8,2)", "12.5", "12.50", "12.51"),
    Pair("DECIMAL(8,2) ZEROFILL", "NUMERIC", "12.5", "12.5", "12.51"),
    Pair("DECIMAL(9) ZEROFILL", "BIGINT", "125", "125", "126"),
    Pair("DECIMAL(8,2) ZEROFILL", "VARCHAR(20)", "12.5", "'12.50'", "'000012.50'"),
    Pair("DECIMAL(8,2) ZEROFILL", "DOUBLE PRECISION", "12.5", "12.5", "12.25"),
    Pair("FLOAT ZEROFILL", "REAL", "12.5", "12.5", "12.25"),
    Pair("DOUBLE(9,3) ZEROFILL", "DOUBLE PRECISION", "12.5", "12.5", "12.25"),
    Pair("INT(8) ZEROFILL", "BOOLEAN", "125", "TRUE", "FALSE"),
    Pair("BIGINT UNSIGNED ZEROFILL", "NUMERIC(20,0)", "18446744073709551615", "18446744073709551615", "1"),
    Pair("DECIMAL(10,0)", "NUMERIC(5,-2)", "9999900", "9999900", "9999800"),
    Pair("DECIMAL(12,2)", "NUMERIC(5,-2)", "12300", "12300", "12400"),
    Pair("INT", "NUMERIC(5,-2)", "-12300", "-12300", "12400"),
    Pair("DECIMAL(30,20)", "NUMERIC(2,20)", "0.00000000000000000099", "0.00000000000000000099", "0.00000000000000000098"),
    Pair("DECIMAL(10,5)", "NUMERIC(3,5)", "0.00567", "0.00567", "0.00568"),
    Pair("DOUBLE", "NUMERIC(3,5)", "0.00567", "0.00567", "0.00568"),
    Pair("BIGINT UNSIGNED", "BIT(64)", "9223372036854775808", "B'1' || REPEAT('0', 63)::bit varying", "REPEAT('1', 64)::bit(64)"),
    Pair("BIGINT UNSIGNED", "BIT VARYING", "18446744073709551615", "REPEAT('1', 64)::bit varying", "B'1' || REPEAT('1', 64)::bit varying"),
    Pair("BIGINT", "BIT VARYING(200)", "5", "REPEAT('0', 100)::bit varying || B'101'", "B'101' || REPEAT('0', 64)::bit varying"),
    Pair("BIGINT UNSIGNED", "BIT(100)", "5", "REPEAT('0', 97)::bit varying || B'101'", "B'101' || REPEAT('0', 97)::bit varying"),
    Pair("BIT(64)", "BIGINT", "b'101'", "5", "6"),
]  # fmt: skip


SINCE_15 = ("NUMERIC(5,-2)", "NUMERIC(2,20)", "NUMERIC(3,5)")
"""Types that PostgreSQL before 15 does not have: with scales below zero, and above the precision."""


def filled(columns: Sequence[Pair], source_json: str, target_json: str) -> list[Pair]:
    """Return the columns with ``{json}`` replaced by a literal of JSON_TEXT."""
    return [
        Pair(one.source_type, one.target_type, one.source.format(json=source_json), one.target.format(json=target_json), one.other.format())
        for one in columns
    ]


def mysql_json(document: str) -> str:
    """Return a literal of MySQL: as text, for a JSON column takes no binary string."""
    return f"_utf8mb4 X'{document.encode().hex()}'"


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-postgres"), indirect=True)
def test_types_of_postgresql_against_mysqls(pair: LivePair) -> None:
    tables.execute(pair.target, *POSTGRES_TYPES)
    columns = filled(ON_POSTGRES, mysql_json(JSON_TEXT), f"CAST($j${JSON_TEXT}$j$ AS JSONB)")
    if tables.postgres_version(pair.target) < 150_000:
        columns = [one for one in columns if one.target_type not in SINCE_15]
    if pair.source.name == "mariadb":
        # MariaDB's JSON is the text that was written: its columns of JSON match if they were written as MySQL would print them.
        columns = [one for one in columns if "json" not in one.source and one.source_type != "JSON"]
        compressed = "VARCHAR(99) /*M!100301 COMPRESSED*/ CHARACTER SET latin1"
        columns.append(Pair(compressed, "TEXT", "'é'", "'é'", "'e'"))
        columns.append(Pair("INET6", "INET", "'2001:DB8::1'", "'2001:db8::1'", "'2001:db8::2'"))
        columns.append(Pair("JSON", "INTEGER[]", "'[1, 2]'", "'{1,2}'", "'{1}'"))
    assert_compared(pair, columns)


STRUCT = """'{{"ok": true, "zip": 7, "street": "|", "deep": [{{"b": null, "aa": [1]}}]}}'"""

ON_DUCKDB = [
    Pair("JSON", "VARCHAR[]", "{json}", "CAST(CAST({json} AS JSON) AS VARCHAR[])", "['a']"),
    Pair("JSON", "INTEGER[2]", "'[1, null]'", "[1, NULL]", "[1, 2]"),
    Pair("JSON", "ENUM('x', 'y')[]", "'[\"x\"]'", "['x']", "['y']"),
    Pair("JSON", "STRUCT(street VARCHAR, zip UBIGINT, ok BOOLEAN, deep STRUCT(aa TINYINT[], b VARCHAR)[])", STRUCT,
         "ROW('|', 7, TRUE, [ROW([1], NULL)])", "ROW('|', 7, TRUE, [ROW([1], '')])"),
    Pair("JSON", 'STRUCT("a ""b\'" INTEGER)', """'{{"a \\\\"b\\'": 1}}'""", "ROW(1)", "ROW(2)"),
    Pair("DECIMAL(39,0)", "HUGEINT", "-170141183460469231731687303715884105728", "'-170141183460469231731687303715884105728'", "1"),
    Pair("DECIMAL(39,0)", "UHUGEINT", "340282366920938463463374607431768211455", "'340282366920938463463374607431768211455'", "1"),
    Pair("BIGINT", "HUGEINT", "-9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    Pair("VARCHAR(43)", "HUGEINT", "'-17'", "-17", "17"),
    Pair("VARCHAR(99)", "INTERVAL", "'1 year 2 months 04:05:06.7'", "INTERVAL '1 year 2 months 04:05:06.7'", "INTERVAL '1 year'"),
    Pair("BINARY(16)", "UUID", f"X'{UUID.replace('-', '')}'", f"'{UUID}'", f"'{UUID[:-1]}9'"),
    Pair("DECIMAL(38,18)", "DOUBLE", LONG, f"{ROUNDED}::DOUBLE", "1.234567890123456e19"),
    Pair("DECIMAL(8,2) ZEROFILL", "DECIMAL(8,2)", "12.5", "12.5", "12.51"),
    Pair("BIGINT UNSIGNED", "BIT", "9223372036854775808", "CAST('1' || REPEAT('0', 63) AS BIT)", "CAST(REPEAT('1', 64) AS BIT)"),
    Pair("BIT(64)", "UBIGINT", "18446744073709551615", "18446744073709551615", "5"),
    Pair("BIGINT", "BIT", "5", "CAST(REPEAT('0', 150) || '101' AS BIT)", "CAST('101' || REPEAT('0', 150) AS BIT)"),
]  # fmt: skip

ON_SPARK = [
    Pair("JSON", "ARRAY<STRING>", "{json}", "FROM_JSON({json}, 'ARRAY<STRING>')", "ARRAY('a')"),
    Pair("JSON", "ARRAY<ARRAY<INT>>", "'[[1, null]]'", "ARRAY(ARRAY(1, NULL))", "ARRAY(ARRAY(1, 2))"),
    Pair("JSON", "STRUCT<street: STRING, zip: BIGINT, ok: BOOLEAN, deep: ARRAY<STRUCT<aa: ARRAY<TINYINT>, b: STRING>>>", STRUCT,
         "NAMED_STRUCT('street', '|', 'zip', 7L, 'ok', TRUE, 'deep', ARRAY(NAMED_STRUCT('aa', ARRAY(1Y), 'b', NULL)))",
         "NAMED_STRUCT('street', '|', 'zip', 7L, 'ok', TRUE, 'deep', ARRAY(NAMED_STRUCT('aa', ARRAY(1Y), 'b', '')))"),
    Pair("DECIMAL(38,18)", "DOUBLE", LONG, f"{ROUNDED}D", "1.234567890123456e19D"),
    Pair("INT", "FLOAT", "16777216", "16777216", "16777218"),
]  # fmt: skip


@pytest.mark.parametrize("pair", chosen_pairs("mysql-duckdb", "mysql-spark"), indirect=True)
def test_arrays_and_structs_against_mysqls_json(pair: LivePair) -> None:
    dialect = dialects.get(pair.target.dialect)
    chosen = {"duckdb": ON_DUCKDB, "spark": ON_SPARK}[pair.target.name]
    assert_compared(pair, filled(chosen, mysql_json(JSON_TEXT), dialect.names.string_literal(JSON_TEXT)))


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres"), indirect=True)
def test_column_without_canonical_text_is_left_out_unless_an_expression_shows_it(pair: LivePair) -> None:
    create(pair.source, "peculiar_source", ["POINT", "TEXT", "INT"], [["POINT(1, 2)", "'<a/>'", "1"], ["NULL", "'<b/>'", "2"]])
    create(pair.target, "peculiar_target", ["TEXT", "XML", "INT"], [["'POINT(1 2)'", "'<a/>'", "1"], ["NULL", "'<c/>'", "2"]])
    report = run(pair, audit_of())
    assert report.verdict is Verdict.MATCH
    assert report.plan is not None
    left_out = {(one.column, one.side) for one in report.plan.not_compared if one.how == "left out"}
    assert left_out == {("c0", "source"), ("c1", "target")}
    shown = {
        "c0": {"kind": "text", "expr": {"source": "ST_AsText(c0)", "target": "c0"}},
        "c1": {"kind": "text", "expr": {"source": "c1", "target": "CAST(c1 AS TEXT)"}},
    }
    differences = run(pair, audit_of({"override": shown})).differences
    assert differences is not None
    assert [(one.key["id"], [column.name for column in one.columns]) for one in differences.named] == [("1", ["c1"])]


@pytest.mark.parametrize("pair", chosen_pairs("mysql-postgres", "mariadb-duckdb"), indirect=True)
@pytest.mark.parametrize("composite", [False, True])
@pytest.mark.few
def test_zeros_before_a_key_are_no_part_of_it(pair: LivePair, composite: bool) -> None:
    """A key of DECIMAL ZEROFILL finds its rows, alone and beside others, in every statement."""
    rows = [[f"{number}.50", str(number), str(number * 3)] for number in range(300)]
    create(pair.source, "peculiar_source", ["DECIMAL(12,2) ZEROFILL", "INT(9) ZEROFILL", "DECIMAL(9,1) ZEROFILL"], rows)
    rows[100][2] = "7"
    create(pair.target, "peculiar_target", ["DECIMAL(12,2)", "INTEGER", "DECIMAL(9,1)"], [*rows[:200], *rows[201:], ["999.25", "1", "1"]])
    keys = ["c0", "c1"] if composite else ["c0"]
    columns = {"include": [*keys, "c2"]}
    differences = run(pair, audit_of(columns, key=keys)).differences
    assert differences is not None
    found = {(one.kind, one.key["c0"], *(column.name for column in one.columns)) for one in differences.named}
    assert found == {("changed", "100.50", "c2"), ("missing", "200.50"), ("extra", "999.25")}
    for where in ("c0 = 100.5", "c1 = 100"):
        report = run(pair, audit_of(columns, key=keys, where=where))
        assert report.differences is not None
        assert [one.key["c0"] for one in report.differences.named] == ["100.50"], where


@pytest.mark.parametrize("pair", chosen_pairs("mariadb-postgres", "mariadb-duckdb"), indirect=True)
@pytest.mark.parametrize("key", ["id", "c0"])
@pytest.mark.few
def test_years_of_two_digits_are_the_years_that_they_mean(pair: LivePair, key: str) -> None:
    """The server and its driver print the digits alone."""
    meant = [0, *range(1971, 2000), *range(2001, 2070)]  # as MariaDB reads 0, 71 to 99 and 1 to 69; it keeps 0 as 2000
    rows = [[str(year % 100), str(year % 100)] for year in meant]
    create(pair.source, "peculiar_source", ["YEAR(2)", "YEAR(2)"], rows)
    years = [[str(year or 2000), str(year or 2000)] for year in meant]
    create(pair.target, "peculiar_target", ["INTEGER", "INTEGER"], years)
    report = run(pair, audit_of({"include": list({key, "c1"})}, key=[key]))
    assert report.verdict is Verdict.MATCH, report.reasons
    years[40][1] = "7"
    create(pair.target, "peculiar_target", ["INTEGER", "INTEGER"], years)
    differences = run(pair, audit_of({"include": list({key, "c1"})}, key=[key])).differences
    assert differences is not None
    assert [(row.kind, [(column.name, column.target) for column in row.columns]) for row in differences.named] == [
        ("changed", [("c1", "7")])
    ]
