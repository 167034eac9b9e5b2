"""Rendered statements are parsed in tests: a malformed one is an error, and those of one shape are parsed once."""

from __future__ import annotations

import pytest

import dialects
from auditor.sql import user_sql

QUOTES = {"mysql": "`", "spark": "`"}


@pytest.mark.parametrize("name", ["duckdb", "mysql", "postgres", "redshift", "spark"])
def test_malformed_statements_are_rejected_and_odd_texts_are_not(name: str) -> None:
    dialect = dialects.get(name)
    quote = QUOTES.get(name, '"')
    odd = ["it''s", 'a "b" c', "`", "1", "", "OR", "%Y-%m-%d", '"', "|0"]
    column = f"{quote}odd name 1{quote}"
    texts = ", ".join([*(f"'{text}'" for text in odd), dialect.names.string_literal("back\\slash"), column])
    sql = f"SELECT {texts} FROM {column} WHERE ({column} >= 1 AND {column} < 20) OR ({column} >= 300 AND {column} < 4000)"
    assert user_sql.checked(sql, dialect) == sql
    plain = f"SELECT 'x' FROM {column} WHERE ({column} >= 1) OR ({column} >= 2)"
    broken = [correct + end for correct in (sql, plain) for end in (")", " OR (")]
    for wrong in (*broken, plain.replace(" >= 1", " >=")):
        with pytest.raises(ValueError, match="malformed"):
            user_sql.checked(wrong, dialect)


def test_statements_of_one_shape_are_parsed_once() -> None:
    dialect = dialects.get("duckdb")
    sql = """SELECT SHA256('{0}|1' || "{1}") AS once FROM "{1}" WHERE ("id" >= {2} AND "id" < 9) OR ("id" >= 12 AND "id" < {2})"""
    before = user_sql.check_shape.cache_info().misses
    for values in (("831e970e4918c73f", "shared_91", 1), ("91960c7119a0623f", "t", 5), ("", "a b", 70_000)):
        user_sql.checked(sql.format(*values), dialect)
    assert user_sql.check_shape.cache_info().misses == before + 1
