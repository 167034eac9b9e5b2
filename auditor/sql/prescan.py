"""SQL of a pre-scan: the stretches of the key, and the hash of each one's rows, whose bytes are joined in the order of the key.

A row's text is most of what a scan costs, and its own hash, the number of that hash and its sum most of the rest. One hash of many rows
saves the latter, and says more: it has 240 bits, and nobody can choose rows that cancel each other out. Where keys are in no such order
each row is hashed, by the same bytes.

The canonical texts are joined as bytes, with bytes between them that UTF-8 never contains (`NEXT_COLUMN`), so that they need not
be escaped: equal bytes are those of equal rows in an equal order. Neighbouring columns whose texts are never empty and hold no bar
(`CLOSED_KINDS`) are joined as texts, with bars between them and nothing for NULL, because an engine turns one text into bytes
sooner than several.

Stretches between cuts are ranges of the key's first column, numbered from 1. Rows whose key is below the first cut or from the last on are
the stretch 0, of which there are none where both tables' keys are ordered as the cuts are. So every row is in one stretch, by each engine's
own comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

import sql_templates
from auditor.canonical import BAR, TEXT_KINDS
from auditor.model import Chunk, ColumnPlan, Plan, Side, consecutive_ranges
from auditor.sql.relation import relation
from auditor.sql.row_text import digest, mark_null, operand
from auditor.sql.user_sql import checked
from auditor.summary.row_bytes import NEXT_COLUMN, NEXT_ROW, NO_TEXT, NULL_VALUE, is_closed
from dialects import Dialect, Kind
from dialects.kinds import UTF8_BYTES

WORDS = 4
"""Words of 60 bits that are read of a digest."""

LONGEST_VALUE = 16_383
"""Bytes of a value whose type states no length: a row with a longer one has no text here, so that its stretch is read by the method."""

OTHER_BYTES = 80
"""Bytes of the longest text of a number, a time, a UUID or an address, and the separator after it."""

DIGEST_BYTES = 66
"""Bytes of a column's digest and the separator after it."""

OTHER_KINDS = frozenset({"boolean", "integer", "float32", "float64", "year", "date", "time", "timestamp", "timestamptz", "uuid", "network"})

OUTSIDE = 0
"""The stretch of rows that lie between no two cuts."""


def digests(plan: Plan, side: Side, dialect: Dialect, chunk: Chunk, where: str) -> str:
    """Return the statement that reads one row per stretch of a chunk: see ``render.result_columns``. ``where`` selects the chunk's rows."""
    digest_of_rows = plan.named("digested_rows.digest")
    common = {
        "p": plan.prefix,
        "words": _words([dialect.numbers.word(digest_of_rows, 15 * word + 1, 15) for word in range(WORDS)]),
        "digest": dialect.hashes.digest_of_rows(plan.named("ordered_rows.v"), NEXT_ROW),
        "most": str(plan.digest_rows),
        "row": _limited_bytes(plan, side, dialect),
        "table": relation(plan.sides[side], dialect),
    }
    if plan.prescan and plan.prescan.cuts:
        return _digests_between_cuts(plan, side, dialect, where, common)
    width, key = plan.partitioning.size, plan.columns[0].expression[side]
    assert plan.least is not None and plan.greatest is not None, "only of keys that are known to lie between two integers"
    first = (plan.least if chunk.first is None else chunk.first) // width
    end = plan.greatest if chunk.end is None else chunk.end - 1
    last = first if chunk.null_key else max(first, end // width)  # a primary key is not NULL, so that such a chunk has no rows
    k = plan.named("ordered_rows.k")
    common |= {"key": f"{key} AS {plan.named('k')},", "least": f"MIN({k})", "greatest": f"MAX({k})"}
    if dialect.HAS_LATERAL:
        series = f"GENERATE_SERIES(CAST({first} AS BIGINT), CAST({last} AS BIGINT)) AS {_stretches(plan, 'partition_id')}"
        number = plan.named("stretches.partition_id")
        holes = {"stretches": series, "order": key, "where": f"{where} AND {_within(key, number, width)}"}
        return checked(sql_templates.fill(dialect.template("stretches"), {**common, **holes}), dialect)
    return _one_by_one(
        {n: f"{where} AND {key} >= {n * width} AND {key} < {(n + 1) * width}" for n in range(first, last + 1)}, dialect, common
    )


def _digests_between_cuts(plan: Plan, side: Side, dialect: Dialect, where: str, common: dict[str, str]) -> str:
    """Return the statement of all stretches of a key that was cut, and of the rows in none."""
    assert plan.prescan is not None
    key, cuts = plan.columns[0].expression[side], plan.prescan.cuts[side]
    no_key = dict.fromkeys(("least", "greatest"), dialect.numbers.as_bigint("NULL"))
    common |= {"key": "", **no_key}
    holes = {
        "p": plan.prefix,
        "words": _words(["0"] * WORDS, plan.prefix),
        "table": common["table"],
        "where": f"{where} AND ({stretch_condition(plan, side, [OUTSIDE])})",
    }
    outside = sql_templates.fill(dialect.template("stretch_outside"), {**no_key, **holes}).rstrip()
    if dialect.HAS_LATERAL:
        values = ", ".join(f"({number}, {first}, {end})" for number, (first, end) in enumerate(pairwise(cuts), 1))
        holes = {
            "stretches": f"(VALUES {values}) AS {_stretches(plan, 'partition_id', 'first_key', 'end_key')}",
            "order": ", ".join(column.expression[side] for column in plan.key_columns),
            "where": f"{where} AND {key} >= {plan.named('stretches.first_key')} AND {key} < {plan.named('stretches.end_key')}",
        }
        inside = sql_templates.fill(dialect.template("stretches"), {**common, **holes})
    else:
        numbers = range(1, len(cuts))
        inside = _one_by_one({n: f"{where} AND {stretch_condition(plan, side, [n])}" for n in numbers}, dialect, common)
    return checked(f"{outside}\nUNION ALL\n{inside}", dialect)


def _one_by_one(conditions: Mapping[int, str], dialect: Dialect, common: Mapping[str, str]) -> str:
    """Return the statement that reads stretches, by number and condition of their rows, each by a subquery of its own."""
    template = dialect.template("stretch")
    each = [sql_templates.fill(template, {**common, "stretch": str(n), "where": where}) for n, where in conditions.items()]
    checked(each[0], dialect)
    return "\nUNION ALL\n".join(statement.rstrip() for statement in each)


def _stretches(plan: Plan, *columns: str) -> str:
    return f"{plan.named('stretches')}({', '.join(map(plan.named, columns))})"


def _words(sql: Sequence[str], prefix: str = "") -> str:
    return ",\n  ".join(f"{word} AS {prefix}word_{number}" for number, word in enumerate(sql))


def _within(key: str, number: str, width: int) -> str:
    return f"{key} >= {number} * {width} AND {key} < {number} * {width} + {width}"


def row_bytes(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a row's bytes, equal only for equal rows; NULL only if the engine could not build them."""
    between = dialect.names.binary_literal(NEXT_COLUMN)
    parts = [dialect.names.binary_literal(plan.salt.encode())] if plan.salt else []
    for closed, columns in groupby(plan.columns, is_closed):
        for some in [list(columns)] if closed else [[column] for column in columns]:
            parts += [between] if parts else []
            parts += _closed_parts(some, side, dialect) if closed else [_part(some[0], side, dialect)]
    return dialect.hashes.joined_bytes(parts)


def _limited_bytes(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a row's bytes; of a row without them, or with a value that is too long to be joined with others, something that no row
    of the other side has, so that their digests differ."""
    row = row_bytes(plan, side, dialect)
    limited = [column.expression[side] for column in plan.columns if _is_limited(column, side)]
    if limited:
        too_long = " OR ".join(f"OCTET_LENGTH({c}) > {LONGEST_VALUE}" for c in limited)
        row = f"CASE WHEN {too_long} THEN NULL ELSE {row} END"
    return f"COALESCE({row}, {dialect.names.binary_literal(NO_TEXT + side.encode())})"


def _closed_parts(columns: Sequence[ColumnPlan], side: Side, dialect: Dialect) -> list[str]:
    nothing = dialect.names.string_literal("")
    return dialect.hashes.joined_texts(
        [mark_null(column, side, operand(column, side, dialect), nothing, dialect) for column in columns], BAR
    )


def _part(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    text = digest(column, side, dialect) if column.digest else operand(column, side, dialect)
    return mark_null(column, side, dialect.hashes.text_bytes(text), dialect.hashes.byte_for_null(NULL_VALUE), dialect)


def most_bytes(columns: Sequence[ColumnPlan], side: Side, salt: str) -> int | None:
    """Return the most bytes of a row's text and the separator after it, as ``digests`` reads it; None where no limit is known."""
    widths = [_width(column, side) for column in columns]
    return None if None in widths else sum(width for width in widths if width) + len(salt) + DIGEST_BYTES


def _is_limited(column: ColumnPlan, side: Side) -> bool:
    """Return whether rows are left out by the length of a column's value, because its type states none."""
    native = column.native[side]
    return not column.digest and native.name in (*TEXT_KINDS, "binary") and _stated_bytes(native) is None


def _stated_bytes(native: Kind) -> int | None:
    return native.bytes or (native.digits or 0) * (UTF8_BYTES if native.name == "char" else 1) or None


def _width(column: ColumnPlan, side: Side) -> int | None:
    native = column.native[side]
    if column.digest:
        return DIGEST_BYTES
    if native.name in OTHER_KINDS:
        return OTHER_BYTES
    if native.name in ("decimal", "bit"):
        return None if native.digits is None else OTHER_BYTES + native.digits
    if native.name not in (*TEXT_KINDS, "binary"):
        return None
    most = _stated_bytes(native) or LONGEST_VALUE * (1 if native.utf8 or native.name == "binary" else UTF8_BYTES)
    most *= 2 if native.name == "binary" else 1  # written as hexadecimal digits
    return OTHER_BYTES + most + UTF8_BYTES * len(column.null_as or "")


def key_ends(plan: Plan, side: Side, dialect: Dialect, is_text: bool) -> str:
    """Return the statement that reads the least and the greatest value of the key's first column, by an index that begins with it."""
    column = plan.columns[0]
    key, native = column.expression[side], column.native[side].name
    value = key if not is_text else dialect.text.hex_text(key) if native == "binary" else dialect.text.as_text(key)
    return checked(
        sql_templates.fill(
            dialect.template("key_ends"), {"p": plan.prefix, "key": key, "value": value, "table": relation(plan.sides[side], dialect)}
        ),
        dialect,
    )


def read_stretches(plan: Plan, side: Side, dialect: Dialect) -> list[str]:
    """Return a statement for each stretch between cuts, from 1 on, that reads its rows."""
    template, last = dialect.template("key_range"), len(_cuts(plan, side)) - 1
    return [
        checked(
            sql_templates.fill(template, {"table": relation(plan.sides[side], dialect), "where": stretch_condition(plan, side, [number])}),
            dialect,
        )
        for number in range(1, last + 1)
    ]


def key_crossings(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return the statement that reads a row for each two neighbouring cuts between which rows lie in the wrong order, each by the index."""
    key, cuts, template = plan.columns[0].expression[side], _cuts(plan, side), dialect.template("key_crossing")
    each = [
        sql_templates.fill(template, {"table": relation(plan.sides[side], dialect), "key": key, "first": first, "end": end})
        for end, first in pairwise(cuts)
    ]
    checked(each[0], dialect)
    return "\nUNION ALL\n".join(f"({statement.rstrip()})" for statement in each)


def stretch_condition(plan: Plan, side: Side, numbers: Sequence[int]) -> str:
    """Return the condition of the rows in these stretches."""
    key, cuts = plan.columns[0].expression[side], _cuts(plan, side)
    inside = consecutive_ranges([number for number in numbers if number != OUTSIDE])
    conditions = [f"({key} >= {cuts[first - 1]} AND {key} < {cuts[last]})" for first, last in inside]
    if OUTSIDE in numbers:
        conditions.append(f"({key} < {cuts[0]} OR {key} >= {cuts[-1]})")
    return " OR ".join(conditions)


def _cuts(plan: Plan, side: Side) -> tuple[str, ...]:
    assert plan.prescan is not None and plan.prescan.cuts, "only of plans whose key was cut"
    return plan.prescan.cuts[side]


def count_writes(plan: Plan, side: Side, dialect: Dialect, width: int, written: str) -> str:
    """Return the statement that counts the rows which meet ``written``, by spans of ``width`` keys: number of the span, and rows.

    Of one integer key; the number of rows without a key is NULL.
    """
    here, column = plan.sides[side], plan.columns[0]
    holes = {
        "p": plan.prefix,
        "span": dialect.numbers.floor_divide(column.expression[side], width, column.native[side]),
        "table": relation(here, dialect),
        "where": " AND ".join([*(f"({condition})" for condition in here.conditions), written]),
    }
    return checked(sql_templates.fill(dialect.template("writes"), holes), dialect)
