"""Plan, dialect and template to SQL."""

from __future__ import annotations

from functools import cache

import sqlglot
from sqlglot.errors import SqlglotError

import sql_templates
from auditor import canonical
from auditor.compare.minhash import MASK, MODULUS, constants
from auditor.model import Chunk, ColumnPlan, Method, Plan, Side
from dialects import Dialect, Kind
from dialects._kinds import FREE_TEXT

WORD_BITS = {"signature": 30, "minhash": 32}
"""Bits of a signature word, by method."""

WORDS = {"signature": 2, "minhash": 4}
"""Words of a signature, by method."""

NUMERIC = frozenset({"integer", "decimal", "year"})
FLOATS = frozenset({"float32", "float64"})
ORDERED = frozenset({"date", "time", "timestamp", "timestamptz"})


def summary(plan: Plan, side: Side, dialect: Dialect, chunk: Chunk, console: str = "") -> str:
    """The statement that summarises a chunk of one side, a row a partition.

    ``console`` is a name for the plan; where it is given, each row also says how many partitions there are in all and whose
    result it is, so that a result that was cut short or mistaken for another is recognised when it is compared.
    """
    fragments = {
        "partition": partition(plan, side, dialect),
        "key": _least_key(plan, side),
        "table": plan.sides[side].table,
        "where": where(plan, side, chunk),
        "fence": dialect.FENCE,
        "fence_column": dialect.FENCE_COLUMN,
        "console": _console(dialect, side, console),
        **_METHODS[plan.method](plan, side, dialect),
    }
    return checked(sql_templates.fill(dialect.template(plan.method), fragments), dialect)


def bounds(column: ColumnPlan, side: Side, dialect: Dialect, table: str, condition: str) -> str:
    """The statement that finds the least and greatest value of a key column."""
    fragments = {"key": column.expression[side], "table": table, "where": condition}
    return checked(sql_templates.fill(dialect.template("bounds"), fragments), dialect)


def count(dialect: Dialect, table: str, condition: str) -> str:
    """The statement that counts rows."""
    return checked(sql_templates.fill(dialect.template("count"), {"table": table, "where": condition}), dialect)


def checked(sql: str, dialect: Dialect) -> str:
    """``sql`` itself, which sqlglot could parse. Raises ValueError: a statement that it cannot is a slip of ours."""
    _parse(sql, dialect.sqlglot)
    return sql


@cache
def _parse(sql: str, sqlglot_name: str) -> None:
    try:
        sqlglot.parse_one(sql, dialect=sqlglot_name)
    except SqlglotError as error:
        raise ValueError(f"rendered SQL is malformed: {error}\n{sql}") from error


# the columns of a row


def text(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """SQL of the column's canonical text, with what the audit asks to be done to it; NULL for NULL."""
    sql = dialect.text(column.kind, column.expression[side], column.native[side])
    if column.trim:
        sql = dialect.trimmed(sql)
    if column.case:
        sql = dialect.lower(sql) if column.case == "lower" else dialect.upper(sql)
    return f"COALESCE({sql}, {dialect.string(column.null_as)})" if column.null_as is not None else sql


def escaped(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """The column's canonical text with the row encoding's own characters escaped, where it can hold them; NULL for NULL."""
    sql = text(column, side, dialect)
    if not (column.kind.is_free_text or column.native[side].name in FREE_TEXT or column.null_as):
        return sql
    return dialect.replaced(dialect.replaced(sql, "~", "~0"), canonical.SEPARATOR, "~1")


def row_text(plan: Plan, side: Side, dialect: Dialect) -> str:
    """SQL of the row's text in the plan's encoding; never NULL."""
    if plan.encoding == "published":
        null = dialect.string("NULL")
        return dialect.concat([f"COALESCE({text(column, side, dialect)}, {null})" for column in plan.columns])
    null = dialect.string(canonical.NULL)
    return dialect.joined([f"COALESCE({escaped(c, side, dialect)}, {null})" for c in plan.columns], canonical.SEPARATOR)


def key_text(plan: Plan, side: Side, dialect: Dialect) -> str:
    """SQL of the key's text; NULL where any column of the key is NULL."""
    between = dialect.string(canonical.SEPARATOR)
    pieces = [piece for column in plan.key_columns for piece in (between, escaped(column, side, dialect))]
    return dialect.concat(pieces[1:])


# the pieces of a statement


def partition(plan: Plan, side: Side, dialect: Dialect) -> str:
    """SQL of the partition's id; NULL for a row whose key holds a NULL."""
    how = plan.partitioning
    column = plan.columns[how.column]
    if how.strategy == "range":
        return dialect.floor_divided(column.expression[side], how.size, column.native[side])
    if how.strategy == "time":
        return dialect.time_index(column.expression[side], how.unit)
    bucket = dialect.word(dialect.row_hash(key_text(plan, side, dialect), plan.hash), 1, 8)
    return f"({bucket} % {how.buckets})"


def where(plan: Plan, side: Side, chunk: Chunk) -> str:
    """The condition of a chunk: the audit's filter and plain comparisons of the key, which an index serves."""
    key = plan.columns[plan.partitioning.column].expression[side]
    conditions = [plan.sides[side].where]
    if chunk.null_key:
        conditions.append(f"{key} IS NULL")
    if chunk.first is not None:
        conditions.append(f"{key} >= {chunk.first}")
    if chunk.end is not None:
        conditions.append(f"{key} < {chunk.end}")
    return " AND ".join(condition for condition in conditions if condition) or "1 = 1"


def integer_key(plan: Plan) -> bool:
    """Whether the key is one column of whole numbers, on both sides by their own types, so that it has a least value."""
    column = plan.columns[0]
    return plan.key == 1 and column.kind.name == "integer" and not {n.name for n in column.native.values()} - NUMERIC


def _least_key(plan: Plan, side: Side) -> str:
    return plan.columns[0].expression[side] if integer_key(plan) else "NULL"


def _console(dialect: Dialect, side: Side, name: str) -> str:
    if not name:
        return ""
    return f",\n  COUNT(*) OVER () AS partition_count,\n  {dialect.string(f'{name}/{side}')} AS audit_plan"


def _listed(items: list[str]) -> str:
    return ",\n  ".join(items)


def _signature(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    digits = dialect.row_hash(row_text(plan, side, dialect), plan.hash)
    words = [dialect.shifted("v", 30), f"(v & {2**30 - 1})"]
    return {
        "word": dialect.word(digits, 1, 15),
        "words": _listed([f"{dialect.integer_sum(word)} AS word_{j}" for j, word in enumerate(words)]),
    }


def _minhash(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    minima = [f"MIN(((w3 * {a} + {b}) % {MODULUS}) & {MASK}) AS minhash_{i}" for i, (a, b) in enumerate(constants(plan.k))]
    columns = [f"{dialect.word('h', 8 * j + 1, 8)} AS w{j}" for j in range(4)]
    return {
        "hash": dialect.row_hash(row_text(plan, side, dialect), plan.hash),
        "word_columns": ",\n    ".join(columns),
        "words": _listed([f"{dialect.integer_sum(f'w{j}')} AS word_{j}" for j in range(4)]),
        "minhashes": _listed(minima),
    }


def measures(column: ColumnPlan) -> list[str]:
    """The measures of a column under the counts method, the same on both sides."""
    if column.kind.name in (*NUMERIC, *FLOATS) and {n.name for n in column.native.values()} <= NUMERIC | FLOATS:
        return ["nulls", "min", "max"] if column.kind.name in FLOATS else ["nulls", "sum", "min", "max"]
    if column.kind.name in ORDERED:
        return ["nulls", "min", "max"]
    return ["nulls", "true"] if column.kind.name == "boolean" else ["nulls", "characters"]


def measure_names(plan: Plan) -> list[str]:
    """The measures of a counts summary for a person, in the result's order: ``price sum``."""
    return [f"{column.name} {name}" for column in plan.columns for name in measures(column)] if plan.method == "counts" else []


def _counts(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    columns: list[str] = []
    wanted: list[str] = []
    for index, column in enumerate(plan.columns):
        names = measures(column)
        as_number = "max" in names and column.kind.name not in ORDERED
        native = column.native[side]
        measured = dialect.number(column.expression[side], native) if as_number else text(column, side, dialect)
        columns.append(f"{measured} AS c{index}")
        wanted += [f"{_measure(name, column, native, f'c{index}', dialect)} AS {name}_{index}" for name in names]
    return {"columns": ",\n    ".join(columns), "measures": _listed(wanted)}


def _measure(name: str, column: ColumnPlan, native: Kind, measured: str, dialect: Dialect) -> str:
    """SQL of one measure as text that both sides spell alike."""
    if name == "nulls":
        return dialect.as_text(f"COUNT(*) - COUNT({measured})")
    if name == "characters":
        return dialect.as_text(dialect.integer_sum(dialect.length(measured)))
    if name == "true":
        return dialect.as_text(dialect.integer_sum(f"CASE WHEN {measured} = '1' THEN 1 ELSE 0 END"))
    folded = f"{name.upper()}({measured})"
    if column.kind.name in ORDERED:
        return folded
    if column.kind.name in FLOATS:
        return dialect.float_text(folded, column.kind, native)
    return dialect.decimal_text(folded, column.kind.scale or 0, Kind("decimal", 38, native.scale or 0))


_METHODS = {"signature": _signature, "minhash": _minhash, "counts": _counts}


def result_columns(plan: Plan) -> list[str]:
    """The names of the columns of a summary's result, in order, the console's own aside."""
    if plan.method == "counts":
        named = [f"{name}_{i}" for i, column in enumerate(plan.columns) for name in measures(column)]
        return ["partition_id", "row_count", "key_min", "key_max", *named]
    return ["partition_id", "row_count", "hashed", "key_min", "key_max", *summary_columns(plan.method, plan.k)]


def summary_columns(method: Method, k: int) -> list[str]:
    """The names of a summary's words and minhashes."""
    return [f"word_{j}" for j in range(WORDS[method])] + [f"minhash_{i}" for i in range(k if method == "minhash" else 0)]
