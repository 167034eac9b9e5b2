"""Plan, dialect and template to SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sql_templates
from auditor import canonical, measuring
from auditor.compare import ranges
from auditor.compare.minhash import MASK, MODULUS, constants
from auditor.expressions import checked
from auditor.field import SPARES, P
from auditor.model import Chunk, ColumnPlan, Partitioning, Plan, Side
from dialects import Dialect, Kind
from dialects._kinds import FREE_TEXT

WORD_BITS = {"signature": 30, "minhash": 32, "exact": 30}
"""Bits of a signature word, by method."""

INLINE_T = 4
"""Up to this t the products are written out in every sum; beyond it a level of its own shares the powers."""

NARROW = 1 << 15
"""Positions up to here square to below 2^30, which needs no reduction."""

NUMERIC = frozenset({"integer", "decimal", "year"})


def summary(plan: Plan, side: Side, dialect: Dialect, chunk: Chunk, console: str = "") -> str:
    """The statement that summarises a chunk of one side, a row a partition.

    ``console`` is a name for the plan; where it is given, each row also says how many partitions there are in all and whose
    result it is, so that a result that was cut short or mistaken for another is recognised when it is compared.
    """
    fragments = {
        "partition": partition(plan, side, dialect),
        "key": least_key(plan, side),
        "table": plan.sides[side].table,
        "where": where(plan, side, chunk),
        "fence": dialect.FENCE,
        "fence_column": dialect.FENCE_COLUMN,
        "console": _console(dialect, side, console),
        **_METHODS[plan.method](plan, side, dialect),
    }
    template = dialect.template(template_name(plan))
    wanted = sql_templates.holes(template)
    return checked(sql_templates.fill(template, {name: text for name, text in fragments.items() if name in wanted}), dialect)


def template_name(plan: Plan) -> str:
    """The template of the plan's summaries."""
    return "exact_levels" if plan.method == "exact" and (plan.t > INLINE_T or plan.bits > 60 or plan.k) else plan.method


def rows(plan: Plan, side: Side, dialect: Dialect, which: str, texts: Sequence[str]) -> str:
    """The statement that fetches rows of one side for which the condition ``which`` holds, with the texts asked for."""
    fragments = {
        "partition": partition(plan, side, dialect),
        "hash": dialect.row_hash(row_text(plan, side, dialect), plan.hash),
        "digits": str(plan.bits // 4),
        "texts": _listed([f"{sql} AS t{index}" for index, sql in enumerate(texts)]),
        "table": plan.sides[side].table,
        "where": " AND ".join(f"({condition})" for condition in (*plan.sides[side].conditions, which) if condition),
    }
    return checked(sql_templates.fill(dialect.template("rows"), fragments), dialect)


def position(plan: Plan, side: Side, dialect: Dialect) -> str:
    """SQL of a row's hashed position."""
    return _position(key_word(plan, side, dialect))


def shortened(column: ColumnPlan, side: Side, dialect: Dialect, length: int) -> str:
    """SQL of the column's canonical text, or of its beginning and its hash where it is longer: equal where the texts are equal."""
    sql = text(column, side, dialect)
    if column.masked:
        return dialect.row_hash(sql, "sha256")
    if not column.kind.is_free_text and column.kind.name != "binary" and column.native[side].name not in FREE_TEXT:
        return sql
    cut = dialect.concat([f"LEFT({sql}, {length})", dialect.string("... sha256 "), f"LEFT({dialect.row_hash(sql, 'sha256')}, 16)"])
    return f"CASE WHEN {dialect.length(sql)} > {length} THEN {cut} ELSE {sql} END"


def bounds(column: ColumnPlan, side: Side, dialect: Dialect, table: str, condition: str) -> str:
    """The statement that finds the least and greatest value of a key column."""
    fragments = {"key": column.expression[side], "table": table, "where": condition}
    return checked(sql_templates.fill(dialect.template("bounds"), fragments), dialect)


def count(dialect: Dialect, table: str, condition: str) -> str:
    """The statement that counts rows."""
    return checked(sql_templates.fill(dialect.template("count"), {"table": table, "where": condition}), dialect)


# the columns of a row


def text(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """SQL of the column's canonical text, with what the audit asks to be done to it; NULL for NULL."""
    sql = dialect.text(column.kind, column.expression[side], column.native[side])
    if column.tolerance and column.kind.name == "float32" and column.native[side].name != "float32":
        sql = _single(sql, column, side, dialect)
    if column.trim:
        sql = dialect.trimmed(sql)
    if column.case:
        sql = dialect.lower(sql) if column.case == "lower" else dialect.upper(sql)
    return _or_null(column, side, sql, dialect.string(column.null_as)) if column.null_as is not None else sql


def _single(sql: str, column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """SQL of a double's text in single precision; as it is where it is too small or too large for that, which engines refuse."""
    x = dialect.double(column.expression[side])
    fits = f"ABS({x}) > {dialect.double_literal('1e-37')} AND ABS({x}) < {dialect.double_literal('3e38')}"
    whole = dialect.text(Kind("float64"), column.expression[side], column.native[side])
    return f"CASE WHEN {fits} THEN {sql} ELSE {whole} END"


def escaped(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """The column's canonical text with the row encoding's own character escaped, where it can hold them; NULL for NULL."""
    sql = text(column, side, dialect)
    if not (column.kind.is_free_text or column.native[side].name in FREE_TEXT or column.null_as):
        return sql
    return dialect.replaced(sql, canonical.BAR, canonical.ESCAPED)


def _or_null(column: ColumnPlan, side: Side, sql: str, null: str) -> str:
    """SQL of a text, or what stands for NULL where the column itself is NULL.

    Not COALESCE: a text that the engine could not build (too long for it, say) is NULL as well, and has to make the row text
    NULL, so that the row counts as not hashed.
    """
    return f"CASE WHEN {column.expression[side]} IS NULL THEN {null} ELSE {sql} END"


def _marked(column: ColumnPlan, side: Side, sql: str, null: str) -> str:
    """SQL of a text, or the row encoding's mark of NULL; a text that stands for NULL itself takes no mark."""
    return sql if column.null_as is not None else _or_null(column, side, sql, null)


def row_text(plan: Plan, side: Side, dialect: Dialect) -> str:
    """SQL of the row's text in the plan's encoding; NULL only where the engine could not build it."""
    if plan.encoding == "published":
        null = dialect.string("NULL")
        return dialect.concat([_marked(column, side, text(column, side, dialect), null) for column in plan.columns])
    null = dialect.string(canonical.NULL)
    texts = [_marked(column, side, escaped(column, side, dialect), null) for column in plan.columns]
    between = dialect.string(canonical.SEPARATOR)
    pieces = [piece for text in texts for piece in (between, text)]
    return dialect.concat([dialect.string(plan.salt + canonical.SEPARATOR), *pieces[1:]] if plan.salt else pieces[1:])


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
    return _bucket(how, key_word(plan, side, dialect), dialect)


def key_word(plan: Plan, side: Side, dialect: Dialect) -> str:
    """SQL of the first 60 bits of the key's hash: the bucket is taken from its upper bits, the position from its lower 31."""
    return dialect.row_word(key_text(plan, side, dialect), plan.hash)


def _bucket(how: Partitioning, key_word: str, dialect: Dialect) -> str:
    return f"({dialect.shifted(key_word, 31)} % {how.buckets})"


def _position(key_word: str) -> str:
    """SQL of a position 1 .. p - 1 from a word of the key's hash."""
    return f"(({key_word} & {P}) % {P - 1} + 1)"


def where(plan: Plan, side: Side, chunk: Chunk) -> str:
    """The condition of a chunk: the audit's filter and plain comparisons of the key, which an index serves."""
    key = plan.columns[0].expression[side]
    conditions = plan.sides[side].conditions
    if chunk.null_key:
        conditions.append(f"{key} IS NULL")
    if chunk.first is not None:
        conditions.append(f"{key} >= {chunk.first}")
    if chunk.end is not None:
        conditions.append(f"{key} < {chunk.end}")
    if chunk.within:
        conditions.append(f"({chunk.within})")
    return " AND ".join(condition for condition in conditions if condition) or "1 = 1"


def of_partitions(plan: Plan, side: Side, dialect: Dialect, numbers: Sequence[int], most: int) -> list[str]:
    """Conditions that together hold for the rows of these partitions: of ``most`` key ranges each, which an index serves, or
    one condition that takes a scan where partitions are no key ranges."""
    if plan.partitioning.strategy != "range":
        return [f"{partition(plan, side, dialect)} IN ({', '.join(str(n) for n in numbers)})"]
    key, size = plan.columns[0].expression[side], plan.partitioning.size
    spans = [f"({key} >= {first * size} AND {key} < {(last + 1) * size})" for first, last in ranges.runs(numbers)]
    return [" OR ".join(spans[start : start + most]) for start in range(0, len(spans), most)]


def integer_key(plan: Plan) -> bool:
    """Whether the key is one column of whole numbers, on both sides by their own types, so that it has a least value."""
    column = plan.columns[0]
    whole = column.kind.name == "integer" and not {n.name for n in column.native.values()} - NUMERIC
    return plan.key == 1 and whole and column.null_as is None  # a NULL lies in no range that what stands for it could lie in


def least_key(plan: Plan, side: Side) -> str:
    """SQL of the key where it has a least value, NULL where it has none."""
    return plan.columns[0].expression[side] if integer_key(plan) else "NULL"


def _console(dialect: Dialect, side: Side, name: str) -> str:
    if not name:
        return ""
    return f",\n  COUNT(*) OVER () AS partition_count,\n  {dialect.string(f'{name}/{side}')} AS audit_plan"


def _listed(items: list[str]) -> str:
    return ",\n  ".join(items)


def _signature(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    words = [dialect.shifted("v", 30), f"(v & {2**30 - 1})"]
    return {
        "word": dialect.row_word(row_text(plan, side, dialect), plan.hash),
        "words": _listed([f"{dialect.integer_sum(word)} AS word_{j}" for j, word in enumerate(words)]),
    }


def _minhash(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    columns = [f"{dialect.word('h', 8 * j + 1, 8)} AS w{j}" for j in range(4)]
    return {
        "hash": dialect.row_hash(row_text(plan, side, dialect), plan.hash),
        "word_columns": ",\n    ".join(columns),
        "words": _listed([f"{dialect.integer_sum(f'w{j}')} AS word_{j}" for j in range(4)]),
        "minhashes": _listed(_minima(plan.k, "w3")),
    }


def _minima(k: int, seed: str) -> list[str]:
    return [f"MIN((({seed} * {a} + {b}) % {MODULUS}) & {MASK}) AS minhash_{i}" for i, (a, b) in enumerate(constants(k))]


def _counts(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    return measuring.fragments(plan, side, dialect, [text(column, side, dialect) for column in plan.columns])


def sums(plan: Plan) -> int:
    """How many power sums a summary holds, S_0 (the first word of the signature) among them."""
    return 2 * plan.t + (0 if plan.partitioning.strategy == "range" else SPARES)


def _exact(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    how = plan.partitioning
    row = row_text(plan, side, dialect)
    add, counted = _adding(plan, dialect)
    shared = template_name(plan) == "exact_levels"
    narrow = how.strategy == "range" and how.size <= NARROW
    located, group, position = _located(plan, side, dialect)
    x = "x" if shared else position
    first = "w0" if shared else dialect.shifted("v", 30)
    words = [first, "w1" if shared else f"(v & {2**30 - 1})", *(("w2", "w3") if plan.bits > 60 else ())]
    terms = [_power_term(j, first, x, shared, narrow) for j in range(1, sums(plan))]
    halves = [(dialect.shifted(v, 30), f"({v} & {2**30 - 1})") for v in ("v", "v1")[: plan.bits // 60]]
    columns = [f"{sql} AS w{i}" for i, sql in enumerate(half for pair in halves for half in pair)]
    whole = plan.bits > 60 or plan.k > 0
    sources = [f"{dialect.word('h', 1 + 15 * i, 15)} AS v{i or ''}" for i in range(plan.bits // 60)] if whole else ["v"]
    sources += [f"{dialect.word('h', 25, 8)} AS seed"] if plan.k else []
    summed = [f"{add(term)} % {P} AS syndrome_{j}" for j, term in enumerate(terms, start=1)]
    return {
        "partition": group,
        "located": located,
        "position": position,
        "counted": counted("w0" if shared else "v"),
        "word": dialect.row_word(row, plan.hash),
        "hashed": f"{dialect.row_hash(row, plan.hash)} AS h" if whole else f"{dialect.row_word(row, plan.hash)} AS v",
        "word_sources": ",\n      ".join(sources),
        "word_columns": ",\n    ".join([*columns, *(["seed"] if plan.k else [])]),
        "powers": ",\n    ".join(f"{sql} AS {name}" for name, sql in _powers(sums(plan) - 1)),
        "words": _listed([f"{add(word)} AS word_{j}" for j, word in enumerate(words)]),
        "syndromes": _listed([*summed, *_minima(plan.k, "seed")]),
    }


def _adding(plan: Plan, dialect: Dialect) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """How the words and power sums of a partition are added up, and its hashed rows counted.

    Where quick sums are exact for so many rows only, a partition that holds more, which its plan did not expect, counts as
    not hashed: it is left out by name instead of compared by sums that were rounded.
    """
    most = dialect.SMALL_SUM
    if most is None or plan.partitioning.strategy == "time" or plan.rows_each > most // 4:
        return dialect.integer_sum, "COUNT({})".format
    return dialect.small_sum, f"CASE WHEN COUNT(*) <= {most} THEN COUNT({{}}) ELSE 0 END".format


def _located(plan: Plan, side: Side, dialect: Dialect) -> tuple[str, str, str]:
    """The columns that locate a row, beside its hash; and from these its partition and its position."""
    how = plan.partitioning
    if how.strategy == "range":
        column = plan.columns[how.column]
        offset = dialect.remainder(column.expression[side], how.size, column.native[side])
        return f"{partition(plan, side, dialect)} AS partition_id,\n    {offset} + 1 AS x", "partition_id", "x"
    located = f"{key_word(plan, side, dialect)} AS kv"
    if how.strategy == "time":
        return f"{partition(plan, side, dialect)} AS partition_id,\n    {located}", "partition_id", _position("kv")
    return located, _bucket(how, "kv", dialect), _position("kv")


def _power_term(j: int, first: str, x: str, shared: bool, narrow: bool) -> str:
    """SQL of w * x^j mod p, no intermediate of which exceeds 63 bits: x^j by the binary digits of j."""
    term = first
    for bit in range(j.bit_length()):
        if j >> bit & 1:
            power = (x if bit == 0 else f"x{1 << bit}") if shared else _inline_power(x, bit, narrow)
            term = f"({term} * {power}) % {P}"
            term = f"({term})" if j >> bit + 1 else term
    return term


def _inline_power(x: str, bit: int, narrow: bool) -> str:
    """SQL of x^(2^bit), below 2^31."""
    if bit == 0:
        return x
    half = _inline_power(x, bit - 1, narrow)
    return f"({half} * {half})" if narrow and bit == 1 else f"(({half} * {half}) % {P})"


def _powers(greatest: int) -> list[tuple[str, str]]:
    """The columns x, x2, x4, .. that the sums share, each a square of a square of the position."""
    return [("x" if bit == 0 else f"x{1 << bit}", _inline_power("x", bit, False)) for bit in range(greatest.bit_length())]


_METHODS = {"signature": _signature, "minhash": _minhash, "counts": _counts, "exact": _exact}


def result_columns(plan: Plan) -> list[str]:
    """The names of the columns of a summary's result, in order, the console's own aside."""
    if plan.method == "counts":
        return ["partition_id", "row_count", "key_min", "key_max", *measuring.result_columns(plan)]
    words = {"signature": 2, "minhash": 4, "exact": plan.bits // 30}[plan.method]
    names = ["partition_id", "row_count", "hashed", "key_min", "key_max", *(f"word_{j}" for j in range(words))]
    names += [f"syndrome_{j}" for j in range(1, sums(plan))] if plan.method == "exact" else []
    return names + [f"minhash_{i}" for i in range(plan.k)]
