"""The portable language of filters: what it refuses and with which words, and the SQL that keeps one meaning on every engine."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dialects
from auditor import canonical
from auditor.errors import BadExpression
from auditor.model import SIDES, Side
from auditor.sql import filter as portable
from auditor.sql.filter import FilterColumn
from dialects import Column
from dialects.kinds import Rounding

ENGINES = ("mysql", "postgres")
NOW = dt.datetime(2026, 3, 31, 12, 0, 0, 500_000)
TYPES: Mapping[str, tuple[str, str]] = {
    "id": ("bigint", "bigint"), "n": ("int", "integer"), "status": ("varchar(20)", "character varying(20)"), "note": ("text", "text"),
    "code": ("char(8)", "text"), "label": ("enum('a','b')", "text"), "price": ("decimal(10,2)", "numeric(10,2)"),
    "rate": ("decimal(12,4)", "numeric(10,2)"), "wide": ("decimal(30,10)", "numeric(30,10)"), "weight": ("double", "double precision"),
    "single": ("float", "double precision"), "active": ("tinyint(1)", "boolean"), "day": ("date", "date"),
    "made": ("datetime(6)", "timestamp without time zone"), "moved": ("datetime(6)", "date"),
    "fine": ("datetime(6)", "timestamp(0) without time zone"), "coarse": ("datetime", "timestamp(6) without time zone"),
    "clock": ("time", "time without time zone"), "doc": ("json", "jsonb"), "raw": ("blob", "bytea"), "mixed": ("int", "text"),
    "whole": ("decimal(37,0)", "numeric(37,0)"), "year": ("year", "smallint"), "flag": ("bit(1)", "boolean"),
}  # fmt: skip
"""Columns of a table on MySQL and on PostgreSQL."""


def columns(types: Mapping[str, tuple[str, str]]) -> dict[str, FilterColumn]:
    engines = {"source": dialects.get("mysql"), "target": dialects.get("postgres")}
    found = {}
    for name, natives in types.items():
        collations = {"source": "utf8mb4_0900_ai_ci" if name == "status" else "latin1_swedish_ci", "target": None}
        both: dict[Side, Column] = {
            side: Column(name, native, engines[side].types.kind(native), True, collations[side])
            for side, native in zip(SIDES, natives, strict=True)
        }
        found[name] = FilterColumn(name, {side: engines[side].names.quote(name) for side in SIDES}, both)
    return found


def render(text: str, types: Mapping[str, tuple[str, str]] = TYPES) -> tuple[str, str]:
    """Return the SQL of a filter on MySQL, the source, and on PostgreSQL, the target."""
    with portable.naming("where"):
        bound = portable.bind(portable.parse(text), NOW)
        found = columns(types)
        return (
            portable.Renderer(found, "source", dialects.get("mysql")).condition(bound),
            portable.Renderer(found, "target", dialects.get("postgres")).condition(bound),
        )


WAY_OUT = 'write where: {source: "...", target: "..."}, each in its own dialect'
FOREIGN = (
    "CHAR_LENGTH(status) > 3", "GREATEST(n, id) > 3",
    "LEAST(n, NULL) = 1", "DAYOFWEEK(day) = 1", "WEEKDAY(day) = 0", "CONVERT_TZ(made, '+00:00', '+02:00') > now",
    "CAST(n AS CHAR) = '1'", "SUBSTR(status, -2) = 'ft'", "status REGEXP '^d'", "status RLIKE 'd'", "IFNULL(status, '') = ''",
    "n / 2 = 1", "n % 2 = 0", "n DIV 2 = 1", "MOD(n, 2) = 0", "n <=> 3",
    "BINARY status = 'draft'", "status COLLATE utf8mb4_bin = 'draft'", "status ILIKE 'd%'",
    "EXISTS (SELECT 1)", "n = 1 XOR id = 2", "n & 1 = 1", "status::text = 'a'", "doc->'a' = 1", "CONCAT(note) = 'a'", "n = ?", "n = :n",
    "n = @n", "id = 1 LIMIT 5", "id = 1; DELETE FROM t", "id = 1 UNION SELECT 1", "n IS UNKNOWN", "n IS DISTINCT FROM 1",
    "~n = 1", "n ^ 2 = 1",
)  # fmt: skip


@pytest.mark.parametrize("text", FOREIGN)
def test_whatever_engines_read_in_different_ways_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(BadExpression) as caught:
        render(text)
    sentence = str(caught.value)
    assert sentence.startswith("where: ") and "\n" not in sentence
    assert WAY_OUT in sentence or "NULL" in sentence, sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the filter is empty; remove it"),
        ("id =", "a column or a value is missing at the end"),
        ("id = 1 id", "AND or OR is missing at 'id' (character 8)"),
        ("(id = 1", "')' is missing at the end"),
        ("id = 1)", "AND or OR is missing at ')'"),
        ("id", "the column 'id' (bigint in the source and bigint in the target) cannot be compared with TRUE by =; write id <> 0"),
        ("id + 1", "a value alone is no condition"),
        ("(id = 1) = TRUE", "a condition cannot be compared"),
        ("id = 'x", "the quote at character 6 is not closed"),
        ("id = 1 -- all", "a filter has no comments"),
        ("id = 1 /* all */", "a filter has no comments"),
        ("orders.id = 1", "a column is written without its table"),
        ("id = 1e5", "is no number"),
        ("id = 123456789012345678901234567890123456789", "more than 38 digits"),
        ("status = NULL", "write IS NULL"),
        ("status IN ('a', NULL)", "write IS NULL"),
        ("n IN (id, 3)", "write a = b OR a = c"),
        ("made > NOW()", "NOW() would be each server's own clock; write now"),
        ("made > CURRENT_TIMESTAMP", "write now, which is the source's for both sides"),
        ("day = CURRENT_DATE", "write today, which is the source's for both sides"),
        ("day = CURDATE()", "write today"),
        ("status LIKE 'a\\_b'", "engines read a backslash in a pattern of LIKE in different ways"),
        ("status LIKE 'a!b' ESCAPE '!'", "! must be followed by %, _ or !"),
        ("status LIKE 'a!' ESCAPE '!'", "! must be followed by %, _ or !"),
        ("status LIKE 'a' ESCAPE '%'", "ESCAPE takes one character other than % and _"),
        ("status LIKE note", "a pattern, as in LIKE 'A%' is missing"),
        ("n LIKE '1%'", "LIKE takes a column of text"),
        ("status = 1", "'status' (varchar(20) in the source and character varying(20) in the target) cannot be compared"),
        ("n = '1'", "write n <> 0, or"),
        ("active = 1", "by =; write active = TRUE, or write where: {source:"),
        ("active > FALSE", "write active = TRUE"),
        ("n = TRUE", "write n <> 0"),
        ("made > '2026-11-01'", "write made >= DATE '2026-11-01'"),
        ("made > 20261101", "write made >= DATE '2026-11-01'"),
        ("status = n", "cannot be compared with the column 'n' (int in"),
        ("mixed = 1", "cannot be compared with the number 1 by =; " + WAY_OUT),
        ("doc = '{}'", "cannot be compared with the text '{}' by =; " + WAY_OUT),
        ("raw = 'a'", "cannot be compared with the text"),
        ("clock > TIMESTAMP '2026-11-01 00:00:00'", "cannot be compared with a time by >"),
        ("single > 0.5", "cannot be compared with the number 0.5"),
        ("weight * 2 > 1", "calculate with whole numbers and decimals"),
        ("weight = price", "cannot be compared with the column 'price'"),
        ("fine > made", "it is compared as the target stores it, and with literals only"),
        ("moved > made", "it is compared by its date, and with literals only"),
        ("made + INTERVAL '1' month > now", "months and years have no fixed length"),
        ("made > day + INTERVAL '1' day", "a column with an interval is compared with now, today or a literal only"),
        ("made > now - 7", "add an interval to a time"),
        ("made > now - INTERVAL 7 DAY", "INTERVAL '7' day"),
        ("made > now - INTERVAL '7' fortnight", "with the unit second, minute, hour, day, week, month or year"),
        ("made > now - INTERVAL '1.5' day", "takes a whole number and a unit"),
        ("made > now - INTERVAL '999999999' year", "outside the years 1 to 9999"),
        ("day = DATE '2026-02-30'", "is no date; write DATE '2026-11-01'"),
        ("day = DATE '26-2-3'", "is no date"),
        ("made = TIMESTAMP '2026-02-03 25:00:00'", "is no timestamp"),
        ("wide * wide > 1", "may need 61 digits"),
        ("'a' = 1", "cannot be compared; write two values of one kind"),
        ("status = X'61'", "X before a text is no literal"),
        ("status = 'a\0b'", "the character U+0000"),
        ("- status = 1", "calculate with whole numbers"),
        ("NOT " * 101 + "active", "more than 100 brackets"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_used_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises(BadExpression) as caught:
        render(text)
    assert str(caught.value).startswith("where: ") and words in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("n < 2.5", "`n` < 3", '"n" < 3'),
        ("n <= 2.5", "`n` <= 2", '"n" <= 2'),
        ("2.5 > n", "`n` < 3", '"n" < 3'),
        ("n = 2.5", "`n` <> `n`", '"n" <> "n"'),
        ("n <> 2.5", "`n` = `n`", '"n" = "n"'),
        ("n IN (2.5, 3)", "`n` IN (3)", '"n" IN (3)'),
        ("n < 99999999999999999999", "`n` = `n`", '"n" = "n"'),
        ("n > 99999999999999999999", "`n` <> `n`", '"n" <> "n"'),
        ("n >= -99999999999999999999", "`n` = `n`", '"n" = "n"'),
        ("price = 2.50", "`price` = 2.5", '"price" = 2.5'),
        ("rate > 1", "ROUND(`rate`, 2) > 1", '"rate" > 1'),
        ("year = 24", "(`year` + 0) = 24", '"year" = 24'),
        ("n + 1 > id", "(CAST(`n` AS DECIMAL(10,0)) + CAST(1 AS DECIMAL(1,0))) > CAST(`id` AS DECIMAL(19,0))",
         '(CAST("n" AS NUMERIC(10,0)) + CAST(1 AS NUMERIC(1,0))) > CAST("id" AS NUMERIC(19,0))'),
        ("whole + 1 > 0", "(CAST(`whole` AS DECIMAL(37,0)) + CAST(1 AS DECIMAL(1,0))) > 0",
         '(CAST("whole" AS NUMERIC(37,0)) + CAST(1 AS NUMERIC(1,0))) > 0'),
        ("weight > 0.1", "(`weight` + 0e0) > 0.1e0", "CAST(\"weight\" AS DOUBLE PRECISION) > CAST('0.1' AS DOUBLE PRECISION)"),
        ("active", "`active` <> 0", '"active"'),
        ("active = FALSE", "NOT (`active` <> 0)", 'NOT ("active")'),
        ("flag <> active", "((`flag` + 0) <> 0) <> (`active` <> 0)", '("flag") <> ("active")'),
        ("day > now", "`day` > DATE '2026-03-31'", "\"day\" > DATE '2026-03-31'"),
        ("day < now", "`day` <= DATE '2026-03-31'", "\"day\" <= DATE '2026-03-31'"),
        ("day = now", "`day` <> `day`", '"day" <> "day"'),
        ("day >= today - INTERVAL '1' month", "`day` >= DATE '2026-02-28'", "\"day\" >= DATE '2026-02-28'"),
        ("made + INTERVAL '1' day > now",
         "`made` > TIMESTAMP '2026-03-30 12:00:00.500000'", "\"made\" > TIMESTAMP '2026-03-30 12:00:00.500000'"),
        ("made < TIMESTAMP '2026-03-30 12:00:00+02:00'", "`made` < TIMESTAMP '2026-03-30 10:00:00.000000'",
         "\"made\" < TIMESTAMP '2026-03-30 10:00:00.000000'"),
        ("moved = DATE '2026-03-30'",
         "(`moved` >= TIMESTAMP '2026-03-30 00:00:00.000000' AND `moved` < TIMESTAMP '2026-03-31 00:00:00.000000')",
         "\"moved\" = DATE '2026-03-30'"),
        ("moved <= DATE '9999-12-31'", "`moved` <= TIMESTAMP '9999-12-31 23:59:59.999999'", "\"moved\" <= DATE '9999-12-31'"),
        ("coarse > now", "`coarse` > TIMESTAMP '2026-03-31 12:00:00.500000'", "\"coarse\" > TIMESTAMP '2026-03-31 12:00:00.500000'"),
        ("made IS NULL AND clock IS NOT NULL", "(`made` <=> NULL AND NOT (`clock` IS NULL))", '("made" IS NULL AND NOT ("clock" IS NULL))'),
        ("1 = 1 AND 'b' < 'a'", "(1 = 1 AND 1 = 0)", "(1 = 1 AND 1 = 0)"),
        ("code = 'a'", "(`code` = 'a' AND CAST((`code` COLLATE utf8mb4_bin) AS BINARY) = CAST('a' AS BINARY))",
         "(RTRIM((CAST(\"code\" AS TEXT) COLLATE \"C\"), ' ') COLLATE \"C\") = ('a' COLLATE \"C\")"),
        ("label <> 'a'", "CAST((`label` COLLATE utf8mb4_bin) AS BINARY) <> CAST('a' AS BINARY)",
         "((CAST(\"label\" AS TEXT) COLLATE \"C\") COLLATE \"C\") <> ('a' COLLATE \"C\")"),
        ('"status" IS NULL or `status` Is Not Null',
         "(`status` IS NULL OR NOT (`status` IS NULL))", '("status" IS NULL OR NOT ("status" IS NULL))'),
        ("(n > 1) IS NOT TRUE",
         "CASE WHEN `n` > 1 THEN CAST(1 AS DECIMAL(1,0)) ELSE CAST(0 AS DECIMAL(1,0)) END = 0",
         'CASE WHEN "n" > 1 THEN CAST(1 AS NUMERIC(1,0)) ELSE CAST(0 AS NUMERIC(1,0)) END = 0'),
        ("(id = 2 OR n > 1) is true",
         "CASE WHEN (`id` = 2 OR `n` > 1) THEN CAST(1 AS DECIMAL(1,0)) ELSE CAST(0 AS DECIMAL(1,0)) END = 1",
         'CASE WHEN ("id" = 2 OR "n" > 1) THEN CAST(1 AS NUMERIC(1,0)) ELSE CAST(0 AS NUMERIC(1,0)) END = 1'),
    ],
)  # fmt: skip
def test_a_filter_is_rendered_so_that_it_means_the_same_on_both_sides(text: str, source: str, target: str) -> None:
    assert render(text) == (source, target)


@pytest.mark.parametrize(
    ("text", "rounding", "source", "target"),
    [
        ("fine >= now", "", ">= TIMESTAMP '2026-03-31 12:00:00.000000'", ">= TIMESTAMP '2026-03-31 12:00:00.000000'"),
        ("fine > now", "", ">= TIMESTAMP '2026-03-31 12:00:01.000000'", ">= TIMESTAMP '2026-03-31 12:00:01.000000'"),
        ("fine >= now", "half from 2000", ">= TIMESTAMP '2026-03-31 12:00:00.500000'", ">= TIMESTAMP '2026-03-31 12:00:01.000000'"),
        ("fine < DATE '1999-01-01'", "half from 2000",
         "< TIMESTAMP '1998-12-31 23:59:59.500001'", "< TIMESTAMP '1999-01-01 00:00:00.000000'"),
        ("fine < DATE '2000-01-01'", "half up", "< TIMESTAMP '1999-12-31 23:59:59.500000'", "< TIMESTAMP '2000-01-01 00:00:00.000000'"),
        ("fine < TIMESTAMP '9999-12-31 23:59:59.5'", "half up", "< TIMESTAMP '9999-12-31 23:59:59.500000'",
         "<= TIMESTAMP '9999-12-31 23:59:59.999999'"),
        ("moved >= DATE '2026-03-30'", "half up", ">= TIMESTAMP '2026-03-29 23:59:59.500000'", ">= DATE '2026-03-30'"),
    ],
)  # fmt: skip
def test_a_finer_time_is_compared_as_the_target_stores_it(text: str, rounding: Rounding, source: str, target: str) -> None:
    """A time that is the literal's own is selected by = and >= on both sides."""
    name = text.split(maxsplit=1)[0]
    found = {name: dataclasses.replace(columns(TYPES)[name], rounding=rounding)}
    bound = portable.bind(portable.parse(text), NOW)
    sql = [portable.Renderer(found, side, dialects.get(engine)).condition(bound) for side, engine in zip(SIDES, ENGINES, strict=True)]
    assert sql == [f"`{name}` {source}", f'"{name}" {target}']


@pytest.mark.parametrize("text", ["fine > TIMESTAMP '9999-12-31 23:59:59.7'", "fine >= DATE '0001-01-01'"])
def test_times_that_the_target_stores_outside_all_years_are_refused(text: str) -> None:
    found = {"fine": dataclasses.replace(columns(TYPES)["fine"], rounding="half up")}
    with pytest.raises(BadExpression, match="outside the years 1 to 9999"):
        portable.Renderer(found, "source", dialects.get("mysql")).condition(portable.bind(portable.parse(text), NOW))


def test_plain_comparisons_are_added_for_an_index_only_where_they_are_not_negated() -> None:
    helped = "(`status` IN ('a') AND CAST((`status` COLLATE utf8mb4_bin) AS BINARY) IN (CAST('a' AS BINARY)))"
    assert (
        render("status IN ('a')")[0] == render("NOT status = 'b' AND status IN ('a')")[0].split(" AND ", 1)[1].removesuffix(")") == helped
    )
    for text in ("NOT status = 'a'", "status NOT IN ('a')", "status <> 'a'", "status NOT LIKE 'a%'", "NOT (n = 1 AND NOT status = 'a')"):
        assert "`status` =" not in render(text)[0] and "`status` IN" not in render(text)[0] and "`status` LIKE" not in render(text)[0]
    assert render("status LIKE 'ä!%%' ESCAPE '!'")[0].startswith("(`status` LIKE _utf8mb4 X'c3a4212525' ESCAPE '!' AND ")
    for text in ("status LIKE '%a'", "status LIKE '_a'", "note LIKE 'ä%'", "note = 'ä'", "note IN ('a', 'ä')", "label = 'a'"):
        assert "AND" not in render(text)[0], "no fixed beginning, no such characters in Latin-1, or an enum"


def compute(text: str, kind: str = "text") -> str:
    """Return the SQL of a value on MySQL."""
    engine = dialects.get("mysql")
    found = {name: dataclasses.replace(one, columns=dict.fromkeys(SIDES, one.columns["source"])) for name, one in columns(TYPES).items()}
    value = portable.Renderer(found, "source", engine).value(portable.bind_value(portable.parse_value(text)))
    return portable.of_kind(value, canonical.parse_kind(kind), engine).sql


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", "text", "the expression is empty"),
        ("n = 1", "integer", "a condition is no value; write CASE WHEN ... THEN 1 ELSE 0 END"),
        ("price * rate", "decimal(12,2)", "it has up to 6 digits after the point, and decimal(12,2) has 2; write ROUND(..., 2)"),
        ("price", "integer", "write ROUND(..., 0)"),
        ("n", "text", "it is a number, and the kind says text"),
        ("status", "date", "it is a text, and the kind says date"),
        ("made", "date", "a time is no date; write DATE(...) of it"),
        ("made", "timestamp(3)", "it has 6 digits of a second, and timestamp(3) fewer; write the kind timestamp(6)"),
        ("weight + 1", "decimal(12,2)", "calculate with whole numbers and decimals"),
        ("COALESCE(weight, 1)", "decimal(12,2)", "nothing is computed from the column 'weight'"),
        ("doc", "text", "nothing is computed from the column 'doc'"),
        ("COALESCE(n, status)", "text", "COALESCE cannot have a number beside a text"),
        ("CASE WHEN n = 1 THEN n ELSE 'x' END", "text", "CASE cannot have a number beside a text"),
        ("CASE WHEN n = 1 THEN NULL END", "text", "CASE yields nothing but NULL"),
        ("CASE n WHEN 1 THEN 2 END", "integer", "CASE is followed by conditions"),
        ("CASE WHEN n = 1 THEN 2", "integer", "END, as in CASE WHEN"),
        ("COALESCE(n)", "integer", "is written COALESCE(value, value, ...)"),
        ("ROUND(price)", "integer", "is written ROUND(number, digits)"),
        ("ROUND(price, n)", "integer", "is written ROUND(number, digits)"),
        ("SUBSTRING(status, 0)", "text", "is written SUBSTRING(text, first, characters)"),
        ("REPLACE(status, '', 'x')", "text", "is written REPLACE(text, 'old', 'new')"),
        ("UPPER(n)", "text", "UPPER() takes a text, and this is a number"),
        ("YEAR(status)", "integer", "YEAR() takes a date or time, and this is a text"),
        ("HOUR(day)", "integer", "HOUR() takes a time, and this is a date"),
        ("status || made", "text", "|| joins texts and numbers, and a date or time is neither"),
        ("now", "timestamp(6)", "cannot contain now or today"),
        ("made + INTERVAL '1' day", "timestamp(6)", "calculate with whole numbers"),
        ("wide * wide", "decimal(38,20)", "this calculation may need"),
        ("CONCAT(status, note)", "text", "CONCAT() (character 1) is not part of the portable language"),
        ("n + 1 2", "integer", "an operator such as + is missing"),
        ("NULL", "integer", "NULL"),
    ],
)  # fmt: skip
def test_a_value_that_no_engine_computes_alike_is_refused_with_what_to_write(text: str, kind: str, words: str) -> None:
    with pytest.raises(BadExpression) as caught:
        compute(text, kind)
    assert words in str(caught.value) and "\n" not in str(caught.value), str(caught.value)


def test_errors_begin_with_the_setting_and_end_with_its_own_way_out() -> None:
    with pytest.raises(BadExpression) as caught, portable.naming("compute x", "write a function"):
        compute("n / 2", "integer")
    assert str(caught.value).startswith("compute x: ") and str(caught.value).endswith("; write a function")


def test_functions_may_stand_in_filters() -> None:
    for text in ("UPPER(status) = 'DRAFT'", "COALESCE(n, 0) > 3", "YEAR(day) IN (2024, 2025)", "LEFT(code, 2) LIKE 'A%'"):
        assert all(render(text)), text


@given(st.text(max_size=60) | st.text("abn'\"`()=<>,.*+- 0123_%!\\ANDORINLIKEtoday", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        condition = portable.parse(text)
    except BadExpression as error:
        assert str(error)
    else:
        assert isinstance(portable.column_names(condition), list)
    with suppress(BadExpression):
        portable.parse_value(text)


DOCUMENTED: Mapping[str, tuple[str, str]] = {
    "order_id": ("bigint", "bigint"), "order": ("int", "integer"), "note": ("text", "text"), "price": ("decimal(10,2)", "numeric(10,2)"),
    "active": ("tinyint(1)", "boolean"), "paid": ("tinyint(1)", "boolean"), "day": ("date", "date"),
    "updated_at": ("datetime", "timestamp(6) without time zone"), "amount": ("int", "integer"), "tax": ("decimal(10,2)", "numeric(10,2)"),
    "status": ("varchar(20)", "text"), "code": ("varchar(20)", "text"),
}  # fmt: skip


def test_every_documented_example_is_a_filter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")
    examples = [line.split("|")[2].strip() for line in page.splitlines() if line.startswith("|")][2:]
    assert len(examples) >= 12
    for example in examples:
        render(example.strip("`"), DOCUMENTED)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        (f"id = {2**63 - 1}", f"`id` = {2**63 - 1}"), (f"id = {2**63}", "`id` <> `id`"), (f"id < {2**63}", "`id` = `id`"),
        (f"id >= {-(2**63)}", f"`id` >= {-(2**63)}"), (f"id > {-(2**63) - 1}", "`id` = `id`"), (f"id <= {-(2**63) - 1}", "`id` <> `id`"),
    ],
)  # fmt: skip
def test_integers_are_compared_with_no_literal_beyond_64_bits(text: str, sql: str) -> None:
    assert render(text)[0] == sql


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("at > DATE '1500-01-01'", '"at" = "at"'), ("at >= DATE '1500-01-01'", '"at" = "at"'), ("at < DATE '1500-01-01'", '"at" <> "at"'),
        ("at = DATE '1500-01-01'", '"at" <> "at"'), ("at <> DATE '1500-01-01'", '"at" = "at"'), ("at < DATE '2500-01-01'", '"at" = "at"'),
        ("at <= DATE '2500-01-01'", '"at" = "at"'), ("at > DATE '2500-01-01'", '"at" <> "at"'),
    ],
)  # fmt: skip
def test_nanoseconds_are_compared_with_no_time_outside_their_years(text: str, sql: str) -> None:
    duckdb = dialects.get("duckdb")
    column = Column("at", "timestamp_ns", duckdb.types.kind("timestamp_ns"), True)
    found = {"at": FilterColumn("at", dict.fromkeys(SIDES, '"at"'), dict.fromkeys(SIDES, column))}
    assert portable.Renderer(found, "source", duckdb).condition(portable.bind(portable.parse(text), NOW)) == sql
