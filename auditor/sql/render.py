"""Render the statements of a plan from a dialect and the templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import sql_templates
from auditor.model import NULL_PARTITION, Chunk, ColumnPlan, Plan, Side, consecutive_ranges
from auditor.sql import counts, power_sums, prescan
from auditor.sql.key_number import bucket, key_number, partition, position
from auditor.sql.power_sums import aggregates, minima
from auditor.sql.relation import key_condition, of_chunk, relation
from auditor.sql.row_text import row_text, text
from auditor.sql.user_sql import checked
from auditor.summary import measures
from dialects import Dialect

WORD_BITS = {"signature": 30, "minhash": 32, "exact": 30}
"""Bits of a signature word by method."""

T = TypeVar("T")

LIST_BYTES = 1 << 20
"""Bytes of a list in one statement, even where the server accepts more. Each further statement may be one more scan of the table, and
each has to be parsed, so lists are neither short nor endless."""


FILE_NUMBER = "file_number"
"""The column, behind all others, of a statement that summarises files each on its own."""


def summary(plan: Plan, side: Side, dialect: Dialect, chunk: Chunk, console: str = "", by_file: str = "") -> str:
    """Return the statement that summarises a chunk of one side, one row per partition; see ``result_columns``.

    With ``by_file``, the quoted name of a column that numbers the files of what is read, there is one row per partition and file, with the
    file's number as the last column, FILE_NUMBER; only of the methods signature and exact.

    With ``console``, a name for the plan, each row also holds the total numbers of partitions and rows, and the plan's name with the side,
    so that a result that was truncated, edited or swapped is recognised when it is compared.
    """
    if plan.digest_rows:
        return prescan.digests(plan, side, dialect, chunk, where(plan, side, chunk))
    barrier = dialect.OPTIMIZER_BARRIER_COLUMN
    fragments = {
        "partition": partition(plan, side, dialect),
        **_key_columns(plan, side, dialect),
        "p": plan.prefix,
        "table": of_chunk(plan, side, dialect, chunk),
        "where": where(plan, side, chunk),
        "fence": dialect.OPTIMIZER_BARRIER,
        "fence_column": f",\n      {barrier} AS {plan.named('fence')}" if barrier else "",
        "console": _console_columns(dialect, side, console, plan.named("m.row_count") if plan.method == "counts" else "COUNT(*)"),
        **_METHODS[plan.method](plan, side, dialect),
        "by_file": "",
    }
    template = dialect.template(template_name(plan, dialect))
    wanted = sql_templates.holes(template)
    if by_file:
        if "by_file" not in wanted:
            raise LookupError(f"template {template_name(plan, dialect)} of {dialect.name} does not summarise files each on its own")
        fragments |= _by_file(plan, dialect, fragments, by_file)
    return checked(sql_templates.fill(template, {name: text for name, text in fragments.items() if name in wanted}), dialect)


def template_name(plan: Plan, dialect: Dialect) -> str:
    """Return the name of the template of the plan's summaries."""
    if plan.joins_words and dialect.SUMS_WHOLE_WORDS:
        return "signature_joined"
    return "exact_levels" if power_sums.uses_levels(plan) else plan.method


def rows(plan: Plan, side: Side, dialect: Dialect, which: str, texts: Sequence[str], *, by_key: bool = False) -> str:
    """Return the statement that fetches rows of one side.

    ``which`` is an SQL condition; empty for all rows. With ``by_key`` the key alone decides it. ``texts`` are SQL expressions that become
    the last columns. Where the engine CUTS_STORED_TEXTS the first column says how many rows there are.
    """
    table = relation(plan.sides[side], dialect, which if by_key else "")
    chosen = " AND ".join(f"({condition})" for condition in (*plan.sides[side].conditions, which) if condition) or "1 = 1"
    fragments = {
        "total": f"({count(dialect, table, chosen)}) AS {plan.named('read_total')}," if dialect.CUTS_STORED_TEXTS else "",
        "partition": partition(plan, side, dialect),
        "digits": dialect.text.left(dialect.hashes.row_hash(row_text(plan, side, dialect), plan.hash), plan.bits // 4),
        "texts": _join_columns([f"{sql} AS {plan.named(f't{index}')}" for index, sql in enumerate(texts)]),
        "p": plan.prefix,
        "table": table,
        "where": chosen,
    }
    return checked(sql_templates.fill(dialect.template("rows"), fragments), dialect)


def places(plan: Plan, side: Side, dialect: Dialect, numbers: Sequence[int]) -> list[str]:
    """Return statements that together list partition and place of each row of one side, whatever its filter, in partitions given by id."""
    column, size = plan.columns[plan.partitioning.column], plan.partitioning.size
    by_range = plan.partitioning.strategy == "range"
    remainder = f"{dialect.numbers.remainder(column.expression[side], size, column.native[side])} + 1" if by_range else ""
    fragments = {
        "partition": partition(plan, side, dialect),
        "place": remainder or position(key_number(plan, side, dialect), dialect),
        "p": plan.prefix,
        "table": relation(plan.sides[side], dialect),
    }
    conditions = partition_conditions(plan, side, dialect, numbers, len(numbers))
    return [checked(sql_templates.fill(dialect.template("places"), {**fragments, "where": one}), dialect) for one in conditions]


def bounds(column: ColumnPlan, side: Side, dialect: Dialect, table: str, condition: str) -> str:
    """Return the statement that finds the least and greatest value of a key column; ``table`` is SQL of what is read."""
    fragments = {"key": column.expression[side], "table": table, "where": condition}
    return checked(sql_templates.fill(dialect.template("bounds"), fragments), dialect)


def count(dialect: Dialect, table: str, condition: str) -> str:
    """Return the statement that counts rows; ``table`` is SQL of what is read."""
    return checked(sql_templates.fill(dialect.template("count"), {"table": table, "where": condition}), dialect)


def where(plan: Plan, side: Side, chunk: Chunk) -> str:
    """Return the condition of a chunk: the filters, and plain comparisons of the key, for which an index can be used."""
    conditions = [*plan.sides[side].conditions, key_condition(plan, side, chunk)]
    if chunk.within:
        conditions.append(f"({chunk.within})")
    return " AND ".join(condition for condition in conditions if condition) or "1 = 1"


def partition_conditions(plan: Plan, side: Side, dialect: Dialect, numbers: Sequence[int], most: int) -> list[str]:
    """Return conditions that together select the rows of partitions, given by id.

    For range partitions each condition has at most ``most`` key ranges, for which an index can be used; for others each takes a scan, and
    there are as few as the length of a statement allows.
    """
    if plan.partitioning.strategy != "range":
        lists = cut_into_batches(numbers, number_size, dialect)
        return [f"{partition(plan, side, dialect)} IN ({', '.join(str(n) for n in some)})" for some in lists]
    key, size = plan.columns[0].expression[side], plan.partitioning.size
    spans = [f"({key} >= {first * size} AND {key} < {(last + 1) * size})" for first, last in consecutive_ranges(numbers)]
    return [" OR ".join(spans[start : start + most]) for start in range(0, len(spans), most)]


_LAST_LEVEL = {"counts": "read_rows", "minhash": "row_words", "exact_levels": "row_words"}
"""The derived table whose rows a template's sums add up, by the template's name; ``hashed_rows`` of all others."""


def _key_columns(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    """Return the fragments of the least and greatest key, if the key is one integer column.

    Otherwise they are NULL, and no level of the statement has a column for it: MySQL takes a quarter longer to store rows with one.
    """
    if not plan.has_integer_key:
        nothing = dict.fromkeys(("key", "key_of_hashed", "key_of_located"), "")
        return nothing | dict.fromkeys(("least", "greatest"), dialect.numbers.as_bigint("NULL"))
    name, above = plan.named("k"), plan.named(f"{_LAST_LEVEL.get(template_name(plan, dialect), 'hashed_rows')}.k")
    return {
        "key": f"{plan.columns[0].expression[side]} AS {name},",
        "key_of_hashed": f"{plan.named('hashed_rows.k')} AS {name},",
        "key_of_located": f"{plan.named('located_rows.k')} AS {name},",
        "least": f"MIN({above})",
        "greatest": f"MAX({above})",
    }


def _by_file(plan: Plan, dialect: Dialect, fragments: Mapping[str, str], column: str) -> dict[str, str]:
    """Return the fragments that take the number of a row's file through all levels of a statement, and group by it."""
    name, above = plan.named("file"), plan.named(f"{_LAST_LEVEL.get(template_name(plan, dialect), 'hashed_rows')}.file")
    return {
        "located": f"{fragments['located']},\n    {column} AS {name}",
        "key_of_hashed": f"{fragments['key_of_hashed']} {plan.named('hashed_rows.file')} AS {name},".lstrip(),
        "key_of_located": f"{fragments['key_of_located']} {plan.named('located_rows.file')} AS {name},".lstrip(),
        "console": f",\n  {above} AS {FILE_NUMBER}",
        "by_file": f", {above}",
    }


def _console_columns(dialect: Dialect, side: Side, name: str, row_count: str) -> str:
    if not name:
        return ""
    totals = f"COUNT(*) OVER () AS partition_count,\n  SUM({row_count}) OVER () AS total_rows"
    return f",\n  {totals},\n  {dialect.names.string_literal(f'{name}/{side}')} AS audit_plan"


def _join_columns(items: list[str]) -> str:
    return ",\n  ".join(items)


def group_condition(plan: Plan, side: Side, dialect: Dialect, numbers: Sequence[int]) -> str:
    """Return the condition of the rows in groups of keys, by id, of a plan whose partitions are such groups, or stretches between cuts."""
    if plan.prescan and plan.prescan.cuts:
        return prescan.stretch_condition(plan, side, numbers)
    group = partition(plan, side, dialect)
    known = [str(number) for number in numbers if number != NULL_PARTITION]
    conditions = [f"{group} IN ({', '.join(known)})"] if known else []
    return " OR ".join([*conditions, f"{group} IS NULL"] if NULL_PARTITION in numbers else conditions)


def _located_partition(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    """Return the fragments of a row's columns that locate it, and of its partition from these: a bucket takes its number twice."""
    if plan.partitioning.strategy != "hash":
        located = f"{partition(plan, side, dialect)} AS {plan.named('partition_id')}"
        return {"located": located, "partition": plan.named("hashed_rows.partition_id")}
    number = plan.named("hashed_rows.kv")
    located = f"{key_number(plan, side, dialect)} AS {plan.named('kv')}"
    return {"located": located, "partition": bucket(number, plan.partitioning.buckets, dialect)}


def _signature(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    v = plan.named("hashed_rows.v")
    words = [dialect.numbers.shift_right(v, 30), dialect.numbers.low_bits(v, 30)]
    add, counted = aggregates(plan, dialect)
    return {
        **_located_partition(plan, side, dialect),
        "word": _word_of_row(plan, side, dialect),
        "words": _join_columns([f"{add(word)} AS word_{j}" for j, word in enumerate(words)]),
        "counted": counted(v),
    }


def _word_of_row(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the first 60 bits of a row's hash."""
    if plan.hashes_bytes:
        return dialect.hashes.bytes_word(prescan.row_bytes(plan, side, dialect), plan.hash)
    return dialect.hashes.row_word(row_text(plan, side, dialect), plan.hash)


def _minhash(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    h, w = plan.named("hashed_rows.h"), [plan.named(f"row_words.w{j}") for j in range(4)]
    columns = [f"{dialect.numbers.word(h, 8 * j + 1, 8)} AS {plan.named(f'w{j}')}" for j in range(4)]
    return {
        **_located_partition(plan, side, dialect),
        "hash": dialect.hashes.row_hash(row_text(plan, side, dialect), plan.hash),
        "word_columns": ",\n    ".join(columns),
        "words": _join_columns([f"{dialect.numbers.integer_sum(word)} AS word_{j}" for j, word in enumerate(w)]),
        "minhashes": _join_columns(minima(plan.k, w[3], dialect)),
    }


def _counts(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    return counts.fragments(plan, side, dialect, [text(column, side, dialect) for column in plan.columns])


_METHODS = {"signature": _signature, "minhash": _minhash, "counts": _counts, "exact": power_sums.fragments}


def result_columns(plan: Plan) -> list[str]:
    """Return the column names of a summary's result, in order, without those added for consoles."""
    if plan.method == "counts":
        return ["partition_id", "row_count", "key_min", "key_max", *measures.result_columns(plan)]
    words = prescan.WORDS if plan.digest_rows else {"signature": 2, "minhash": 4, "exact": plan.bits // 30}[plan.method]
    names = ["partition_id", "row_count", "hashed", "key_min", "key_max", *(f"word_{j}" for j in range(words))]
    names += [f"syndrome_{j}" for j in range(1, power_sums.count_sums(plan))] if plan.method == "exact" else []
    return names + [f"minhash_{i}" for i in range(plan.k)]


def cut_into_batches(values: Iterable[T], size: Callable[[T], int], dialect: Dialect, most: int | None = None) -> Iterator[list[T]]:
    """Yield the values in lists of at most ``most``, each with room for itself and the rest of a statement; at least one in each.

    ``size`` returns how many bytes a value takes in a list. A statement holds it twice where it counts its rows by a SELECT of its own.
    """
    room = min(LIST_BYTES, dialect.MAX_STATEMENT_BYTES // (4 if dialect.CUTS_STORED_TEXTS else 2))
    batch: list[T] = []
    used = 0
    for value in values:
        if batch and (used + size(value) > room or len(batch) == most):
            yield batch
            batch, used = [], 0
        batch.append(value)
        used += size(value)
    if batch:
        yield batch


def number_size(number: int) -> int:
    """Return how many bytes a number takes in a list, with the comma and the blank."""
    return len(str(number)) + 2
