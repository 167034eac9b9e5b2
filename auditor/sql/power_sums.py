"""SQL of the method exact: signature words and power sums of a partition's row hashes; and the published minhashes beside them.

From v, the first 60 bits of a row hash (15 hexadecimal digits), w0 = v >> 30 and w1 = v & (2^30 - 1). For a row's position x and
p = 2^31 - 1 the engine returns S_0 = SUM(w0), W_1 = SUM(w1) and S_j = SUM(w0 * x^j mod p) mod p. No intermediate number exceeds 63
bits: w0 < 2^30, x < 2^31 and residues are below 2^31. ``auditor.compare.syndromes`` has the algebra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from auditor.model import Plan, Side
from auditor.sql.key_number import bucket, key_number, partition, position
from auditor.sql.row_text import row_text
from auditor.summary.key_number import P, forms
from auditor.summary.minhash import LOW_BITS, MODULUS, constants
from dialects import Dialect

INLINE_T = 4
"""Greatest t at which every sum spells out its products; beyond it a level of the statement computes the powers for all sums."""

NARROW = 1 << 15
"""Greatest position whose square, up to 2^30, needs no reduction modulo p: POSITIONS of partitions by hash or time are no more."""


def uses_levels(plan: Plan) -> bool:
    """Return whether a level of the statement computes the powers of positions for all sums (template ``exact_levels``)."""
    return plan.method == "exact" and (plan.t > INLINE_T or plan.bits > 60 or plan.k > 0)


def count_sums(plan: Plan) -> int:
    """Return the number of power sums in a summary, including S_0, which is the first word of the signature."""
    return 2 * plan.t


def fragments(plan: Plan, side: Side, dialect: Dialect) -> dict[str, str]:
    """Return the fragments for the templates ``exact`` and ``exact_levels``."""
    how = plan.partitioning
    row = row_text(plan, side, dialect)
    add, counted = aggregates(plan, dialect)
    shared = uses_levels(plan)
    narrow = how.strategy != "range" or how.size <= NARROW
    located, group, place = _row_location(plan, side, dialect)
    named, v, h = plan.named, plan.named("hashed_rows.v"), plan.named("hashed_rows.h")
    powers = _powers(count_sums(plan) - 1, named("located_rows.x"), dialect)
    words = (
        [named(f"row_words.w{i}") for i in range(plan.bits // 30)]
        if shared
        else [dialect.numbers.shift_right(v, 30), dialect.numbers.low_bits(v, 30)]
    )
    known = [named(f"row_words.{name}") for _, name in powers] if shared else []
    terms = [_power_term(j, words[0], place, known, narrow, dialect) for j in range(1, count_sums(plan))]
    longs = ["v", "v1"][: plan.bits // 60]
    located_longs = [named(f"located_rows.{name}") for name in longs]
    halves = [half for long in located_longs for half in (dialect.numbers.shift_right(long, 30), dialect.numbers.low_bits(long, 30))]
    columns = [f"{sql} AS {named(f'w{i}')}" for i, sql in enumerate(halves)]
    whole = plan.bits > 60 or plan.k > 0
    parts = [dialect.numbers.word(h, 1 + 15 * i, 15) for i in range(len(longs))] if whole else [v]
    sources = [f"{sql} AS {named(name)}" for sql, name in zip(parts, longs, strict=True)]
    sources += [f"{dialect.numbers.word(h, 25, 8)} AS {named('seed')}"] if plan.k else []
    summed = [f"{dialect.numbers.modulo(add(term), P)} AS syndrome_{j}" for j, term in enumerate(terms, start=1)]
    return {
        "partition": group,
        "located": located,
        "position": place,
        "counted": counted(words[0] if shared else v),
        "word": dialect.hashes.row_word(row, plan.hash),
        "hashed": f"{dialect.hashes.row_hash(row, plan.hash)} AS {named('h')}"
        if whole
        else f"{dialect.hashes.row_word(row, plan.hash)} AS {named('v')}",
        "word_sources": ",\n      ".join(sources),
        "word_columns": ",\n    ".join([*columns, *([f"{named('located_rows.seed')} AS {named('seed')}"] if plan.k else [])]),
        "powers": ",\n    ".join(f"{sql} AS {named(name)}" for sql, name in powers),
        "words": ",\n  ".join([f"{add(word)} AS word_{j}" for j, word in enumerate(words)]),
        "syndromes": ",\n  ".join([*summed, *minima(plan.k, named("row_words.seed"), dialect)]),
    }


def _row_location(plan: Plan, side: Side, dialect: Dialect) -> tuple[str, str, str]:
    """Return SQL of a row's columns that locate it, of its partition id, and of its position (from these columns)."""
    how = plan.partitioning
    if how.strategy == "range":
        column = plan.columns[how.column]
        offset = dialect.numbers.remainder(column.expression[side], how.size, column.native[side])
        located = f"{partition(plan, side, dialect)} AS {plan.named('partition_id')},\n    {offset} + 1 AS {plan.named('x')}"
        return located, plan.named("hashed_rows.partition_id"), plan.named("hashed_rows.x")
    number, kv = key_number(plan, side, dialect), plan.named("hashed_rows.kv")
    located, place = f"{number} AS {plan.named('kv')}", position(kv, dialect)
    if set(forms(plan)) and "uuid" not in forms(plan):  # computed twice, because the sums use the position a dozen times
        located, place = f"{located},\n    {position(number, dialect)} AS {plan.named('x')}", plan.named("hashed_rows.x")
    if how.strategy == "time":
        cut = f"{partition(plan, side, dialect)} AS {plan.named('partition_id')}"
        return f"{cut},\n    {located}", plan.named("hashed_rows.partition_id"), place
    return located, bucket(kv, how.buckets, dialect), place


def _power_term(j: int, first: str, x: str, known: Sequence[str], narrow: bool, dialect: Dialect) -> str:
    """Return SQL of w * x^j mod p, multiplying by x^(2^i) for each binary digit i of j, so that no intermediate exceeds 63 bits.

    ``known`` are the columns of these powers, in their order; without any each is computed from ``x``.
    """
    term = first
    for bit in range(j.bit_length()):
        if j >> bit & 1:
            power = known[bit] if known else _inline_power(x, bit, narrow, dialect)
            term = dialect.numbers.modulo(f"({term} * {power})", P)
            term = f"({term})" if j >> bit + 1 else term
    return term


def _inline_power(x: str, bit: int, narrow: bool, dialect: Dialect) -> str:
    """Return SQL of x^(2^bit), below 2^31."""
    if bit == 0:
        return x
    half = _inline_power(x, bit - 1, narrow, dialect)
    square = f"({half} * {half})"
    return square if narrow and bit == 1 else f"({dialect.numbers.modulo(square, P)})"


def _powers(greatest: int, x: str, dialect: Dialect) -> list[tuple[str, str]]:
    """Return the columns x, x2, x4, .. for all sums, as (SQL, name): the position and its repeated squares modulo p."""
    return [(_inline_power(x, bit, False, dialect), "x" if bit == 0 else f"x{1 << bit}") for bit in range(greatest.bit_length())]


def aggregates(plan: Plan, dialect: Dialect) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return functions that render the sum of a term below 2^31 over a partition, and the count of its hashed rows.

    If an engine's fast sums are exact only up to some number of rows, a partition that holds more of them than planned is counted as
    having no hashed rows: it is skipped instead of compared by rounded sums.
    """
    most = dialect.numbers.SMALL_SUM_MAX_ROWS
    if most is None or plan.partitioning.strategy == "time" or plan.rows_per_partition > most // 4:
        return dialect.numbers.integer_sum, "COUNT({})".format
    return dialect.numbers.small_sum, f"CASE WHEN COUNT(*) <= {most} THEN COUNT({{}}) ELSE 0 END".format


def minima(k: int, seed: str, dialect: Dialect) -> list[str]:
    """Return SQL of the k minima of a partition, each the least permuted value of the 32-bit word ``seed`` of its row hashes."""
    permuted = (dialect.numbers.modulo(f"({seed} * {a} + {b})", MODULUS) for a, b in constants(k))
    return [f"MIN({dialect.numbers.low_bits(f'({sql})', LOW_BITS.bit_length())}) AS minhash_{i}" for i, sql in enumerate(permuted)]
