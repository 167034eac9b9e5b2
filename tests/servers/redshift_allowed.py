"""The part of Redshift's SQL that an audit may use, each entry with the page of the manual that documents it.

PostgreSQL stands in for Redshift in the tests and accepts much that Redshift rejects, so every token of a statement is checked:
`violations` returns whatever is not listed here. Extend a list only after reading the manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import sqlglot
from sqlglot import Token, TokenType, exp

from tests.servers import redshift_strict, redshift_unload

FUNCTIONS: Mapping[str, str] = {
    # aggregates and windows
    "ROW_NUMBER": "r_WF_ROW_NUMBER.html",
    "COUNT": "r_COUNT.html", "SUM": "r_SUM.html", "MIN": "r_MIN.html", "MAX": "r_MAX.html", "OVER": "r_WF_COUNT.html",
    # conditions and conversions
    "COALESCE": "r_NVL_function.html", "NULLIF": "r_NULLIF_function.html", "CAST": "r_CAST_function.html",
    # hashes and words
    "MD5": "r_MD5.html", "SHA2": "SHA2.html", "STRTOL": "r_STRTOL.html",
    # text
    "SUBSTRING": "r_SUBSTRING.html", "LEFT": "r_LEFT.html", "REPLACE": "r_REPLACE.html", "LOWER": "r_LOWER.html",
    "COLLATE": "r_COLLATE.html", "CHARINDEX": "r_CHARINDEX.html",
    "UPPER": "r_UPPER.html", "TRANSLATE": "r_TRANSLATE.html", "TRIM": "r_TRIM.html", "RTRIM": "r_RTRIM.html", "CHR": "r_CHR.html",
    "CHAR_LENGTH": "r_CHAR_LENGTH.html", "TO_CHAR": "r_TO_CHAR.html", "REGEXP_REPLACE": "REGEXP_REPLACE.html",
    "JSON_PARSE": "JSON_PARSE.html", "JSON_SERIALIZE": "JSON_SERIALIZE.html", "JSON_SIZE": "r_json_size.html",
    "JSON_SERIALIZE_TO_VARBYTE": "JSON_SERIALIZE_TO_VARBYTE.html", "OCTET_LENGTH": "r_OCTET_LENGTH.html",
    "FROM_VARBYTE": "r_FROM_VARBYTE.html", "TO_VARBYTE": "r_TO_VARBYTE.html",
    # numbers and dates
    "ABS": "r_ABS.html", "AVG": "r_AVG.html", "FLOOR": "r_FLOOR.html", "ROUND": "r_ROUND.html", "MOD": "r_MOD.html", "LN": "r_LN.html",
    "DATEADD": "r_DATEADD_function.html",
    "EXISTS": "r_exists_condition.html",
    "GETDATE": "r_GETDATE.html", "POWER": "r_POWER.html", "RANDOM": "r_RANDOM.html", "EXTRACT": "r_EXTRACT_function.html",
    # the session
    "PG_BACKEND_PID": "PG_BACKEND_PID.html", "PG_CANCEL_BACKEND": "PG_CANCEL_BACKEND.html",
    "PG_TERMINATE_BACKEND": "PG_TERMINATE_BACKEND.html",
}  # fmt: skip
"""Functions that run on compute nodes. SUBSTR and LOG2 are not among them: SUBSTR runs on the leader node only.
https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions_leader_node_only.html"""

CATALOGUE_FUNCTIONS: Mapping[str, str] = {
    "FORMAT_TYPE": "c_join_PG.html",
    "PG_TABLE_IS_VISIBLE": "c_join_PG.html",
    "ANY": "c_join_PG.html",
    "CURRENT_SCHEMA": "r_CURRENT_SCHEMA.html",
    "CURRENT_DATABASE": "r_CURRENT_DATABASE.html",
    "CURRENT_SETTING": "r_CURRENT_SETTING.html",
}
"""Functions of the leader node, allowed in statements that read only the catalogue or no table. The manual has CURRENT_SCHEMA;
Amazon's SQLAlchemy dialect uses all of them to read the catalogue. https://github.com/sqlalchemy-redshift/sqlalchemy-redshift"""

TYPES: Mapping[str, str] = {
    "BIGINT": "r_Numeric_types201.html", "DECIMAL": "r_Numeric_types201.html", "NUMERIC": "r_Numeric_types201.html",
    "REAL": "r_Numeric_types201.html", "DOUBLE PRECISION": "r_Numeric_types201.html", "VARCHAR": "r_Character_types.html",
    "DATE": "r_Datetime_types.html", "TIMESTAMP": "r_Datetime_types.html", "VARBYTE": "r_VARBYTE_type.html",
}  # fmt: skip
"""Types that an expression may be cast to."""

KEYWORDS: Mapping[str, str] = {
    **dict.fromkeys(("SELECT", "AS", "FROM", "WHERE"), "r_SELECT_synopsis.html"),
    **dict.fromkeys(("LIKE", "ESCAPE"), "r_patternmatching_condition_like.html"),
    "GROUP BY": "r_GROUP_BY_clause.html", 
    "LIMIT": "r_ORDER_BY_clause.html", "DESC": "r_ORDER_BY_clause.html",
    "HAVING": "r_HAVING_clause.html", **dict.fromkeys(("UNION", "ALL"), "r_UNION.html"), "ORDER BY": "r_ORDER_BY_clause.html",
    **dict.fromkeys(("JOIN", "ON"), "r_Join_examples.html"), "LEFT": "r_FROM_clause30.html",
    **dict.fromkeys(("AND", "OR", "NOT"), "r_logical_condition.html"), "IN": "r_in_condition.html",
    **dict.fromkeys(("IS", "NULL"), "r_null_condition.html"),
    **dict.fromkeys(("CASE", "WHEN", "THEN", "ELSE", "END"), "r_CASE_function.html"), "BOTH": "r_TRIM.html",
    **dict.fromkeys(("DATE", "TIMESTAMP", "INTEGER"), "r_Date_and_time_literals.html"), "VARBYTE": "r_VARBYTE_OPERATORS.html",
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOUR", "SECOND", "EPOCH"), "r_Dateparts_for_datetime_functions.html"),
    **dict.fromkeys(("BIGINT", "REAL", "DOUBLE PRECISION", "VARCHAR", "DECIMAL", "NUMERIC"), "c_Supported_data_types.html"),
}  # fmt: skip
"""Words that are neither identifiers nor functions."""

OPERATORS: Mapping[str, str] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "&", ">>"), "r_OPERATOR_SYMBOLS.html"),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), "r_comparison_condition.html"),
    "||": "r_concat_op.html",
    **dict.fromkeys(("(", ")", ",", "."), "r_names.html"),
}

STATEMENTS: Mapping[str, str] = {
    r"BEGIN READ ONLY": "r_BEGIN.html",
    r"COMMIT": "r_COMMIT.html",
    r"ROLLBACK": "r_ROLLBACK.html",
    r"SET timezone TO '[\w/]+'": "r_timezone_config.html",
    r"SET datestyle TO 'ISO, YMD'": "r_datestyle.html",
    r"SET enable_case_sensitive_identifier TO true": "r_enable_case_sensitive_identifier.html",
    r"SET statement_timeout TO [1-9]\d*": "r_statement_timeout.html",
    r"SET client_encoding TO 'UTF8'": "r_SET.html",
    r"FETCH FORWARD (1000|[1-9]\d{0,2}) FROM \w+": "fetch.html",  # a cluster of one node allows no more
    r"CLOSE \w+": "close.html",
    r"SELECT PG_LAST_UNLOAD_COUNT\(\)": "PG_LAST_UNLOAD_COUNT.html",
}
"""Patterns of whole statements that sqlglot does not parse."""

_DECLARE = re.compile(r"DECLARE \w+ CURSOR FOR (.*)", re.DOTALL)  # declare.html
_TEXT = {TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER}


WRITES: Mapping[str, str] = {
    **dict.fromkeys(("CREATE", "TABLE", "IF", "EXISTS", "PRIMARY KEY"), "r_CREATE_TABLE_NEW.html"),
    **dict.fromkeys(("INSERT", "INTO", "VALUES"), "r_INSERT_30.html"),
    **dict.fromkeys(("UPDATE", "SET"), "r_UPDATE.html"),
    **dict.fromkeys(("TEMPORARY",), "r_CREATE_TABLE_AS.html"), "USING": "r_DELETE.html", "PARTITION BY": "r_WF_ROW_NUMBER.html",
    **dict.fromkeys(("DISTKEY", "SORTKEY"), "r_CREATE_TABLE_NEW.html"),
    "DROP": "r_DROP_TABLE.html", "DELETE": "r_DELETE.html", "CHAR": "r_Character_types.html", "TRUE": "r_Boolean_type.html",
}  # fmt: skip
"""Words of statements that only patches send."""

LOCK = r'LOCK "\w+"\."\w+"'
"""The one statement of scripts that sqlglot does not parse. r_LOCK.html"""

_CHANGES = (exp.Create, exp.Drop, exp.Insert, exp.Update, exp.Delete)


def script_violations(sql: str) -> list[str]:
    """Return the same for statements that may also write, each ended by a semicolon and the end of its line."""
    statements = [one.rstrip(";") for one in sql.strip().split(";\n")]
    return [found for one in statements if not re.fullmatch(LOCK, one) for found in _check_statement(one, writes=True)]


def violations(sql: str) -> list[str]:
    """Return descriptions of the parts of a statement that are not on the lists."""
    whole = sql.strip().rstrip(";")
    if whole.upper().startswith("UNLOAD"):
        whole = redshift_unload.parse(whole)[0]
    if any(re.fullmatch(pattern, whole) for pattern in STATEMENTS):
        return []
    declared = _DECLARE.fullmatch(whole)
    return list(_check_statement(declared.group(1) if declared else whole))


def _check_statement(sql: str, writes: bool = False) -> Iterator[str]:
    try:
        tree = sqlglot.parse_one(sql, dialect="redshift")
    except sqlglot.errors.SqlglotError as error:
        yield f"cannot be parsed: {error}"
        return
    if not isinstance(tree, (exp.Select, exp.Union, *(_CHANGES if writes else ()))):
        yield f"a statement of the kind {type(tree).__name__}"
        return
    tables = [table for table in tree.find_all(exp.Table) if table.name]
    if refused := redshift_strict.refusal(sql, redshift_strict.REFUSALS):
        yield refused[1]
    functions = set(FUNCTIONS)
    if all(table.db == "pg_catalog" for table in tables):
        functions |= set(CATALOGUE_FUNCTIONS)
    yield from _doubts(tree)
    keywords = set(KEYWORDS) | (set(WRITES) if writes else set())
    names = {name.name.upper() for name in tree.find_all(exp.Identifier) if not name.args.get("quoted")}
    # What sqlglot parses as a function without parentheses, or as a type, is not an identifier.
    names -= {word.upper() for node in tree.find_all(exp.Anonymous) for word in [node.name]}
    yield from (f"a cast to {kind}" for kind in _cast_types(tree) if kind not in TYPES)
    tokens = sqlglot.tokenize(sql, dialect="redshift")
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        yield from _check_token(token, following, functions, keywords, names)


def _doubts(tree: exp.Expr) -> Iterator[str]:
    """Yield what is documented to be otherwise than on PostgreSQL, or not documented, and can be written so that it does not matter."""
    for rest in tree.find_all(exp.Mod):
        if any(isinstance(one.unnest(), exp.Literal) for one in (rest.this, rest.expression)):
            yield f"MOD with an INTEGER: {rest.sql(dialect='redshift')}"  # r_MOD.html
    for found in tree.find_all(exp.Anonymous, exp.RegexpReplace):
        arguments = [str(one.name) for one in found.find_all(exp.Literal)]
        if found.name.upper() == "FROM_VARBYTE" and "hex" in arguments and not found.find_ancestor(exp.Lower):
            yield "hexadecimal digits whose case is not documented"  # r_FROM_VARBYTE.html
        if isinstance(found, exp.RegexpReplace) and "$" in str(found.args["replacement"].name):
            yield "a back-reference in REGEXP_REPLACE"  # REGEXP_REPLACE.html


def _cast_types(tree: exp.Expr) -> Iterator[str]:
    for node in tree.find_all(exp.Cast):
        yield str(node.to.sql(dialect="redshift")).split("(")[0].upper()


def _check_token(token: Token, following: Token | None, functions: set[str], keywords: set[str], names: set[str]) -> Iterator[str]:
    if token.token_type in _TEXT:
        return
    word = " ".join(token.text.upper().split())
    if not re.match(r"[A-Z_]", word):
        if word not in OPERATORS:
            yield f"the operator {word}"
    elif following is not None and following.token_type == TokenType.L_PAREN:
        if word not in functions | keywords:
            yield f"the function {word}"
    elif word not in keywords | names:
        yield f"the word {word}"
