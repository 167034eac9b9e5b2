"""Single methods of a dialect: each piece of SQL by itself, so that a fault is named by the method that has it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from auditor import canonical
from auditor.errors import AuditorError
from auditor.service.selftest.bench import Bench, require
from auditor.summary.key_number import Q
from dialects import Dialect, Kind
from dialects.numbers import UUID_PLACES

GROUP = "method"
WHOLE, TEXT = Kind("integer"), Kind("text")
WIDEST = Kind("decimal", 20, 0), Kind("decimal", 18, 0)
"""Decimals of whole numbers, of which the first is taken that the engine stores."""
EPOCH = dt.date(1970, 1, 1)
BLANK = "two "
DIVISORS = (1, 7, 1024, 2**31 - 33)

Row = Mapping[str, Any]

COLUMNS = (
    ("n", WHOLE),
    ("number", WHOLE),
    ("wide", WIDEST[0]),
    ("words", TEXT),
    ("digits", TEXT),
    ("day", Kind("date")),
    ("moment", Kind("timestamp", scale=6)),
)
ROWS: tuple[Row, ...] = tuple(
    dict(zip((name for name, _ in COLUMNS), values, strict=True))
    for values in (
        (0, 0, 0, "", "0" * 64, EPOCH, dt.datetime(1970, 1, 1)),
        (1, 1, 1, BLANK, "f" * 64, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 59, 999999)),
        (
            2,
            2**62 + 12345,
            10**17,
            "Äpfel|und Birnen",
            "0123456789abcdef" * 4,
            dt.date(1969, 12, 31),
            dt.datetime(1969, 12, 31, 23, 0, 0, 1),
        ),
        (3, -1, -1, "two", "fedcba9876543210" * 4, dt.date(1583, 1, 1), dt.datetime(1583, 1, 1, 12)),
        (4, -(2**62) - 7, -(10**17) + 1, "TWO %_", "7" * 64, dt.date(9999, 12, 31), dt.datetime(9999, 12, 31, 1, 2, 3)),
    )
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A method of the dialect with its arguments, and what its SQL yields of a row in plain Python."""

    method: str
    sql: Callable[[Dialect, Callable[[str], str]], str]
    """Returns the SQL, given the dialect and a function that quotes a column."""
    expected: Callable[[Row], Any]
    detail: str = ""
    """The arguments, where a method has several pieces."""


def check_pieces(bench: Bench) -> None:
    """Compare what each piece of SQL yields."""
    dialect = bench.dialect
    wide = next(kind for kind in WIDEST if _is_stored(kind, dialect) or kind == WIDEST[-1])
    columns = [(name, wide if name == "wide" else kind) for name, kind in COLUMNS]
    table = bench.table("pieces", columns, [tuple(row.values()) for row in ROWS])
    pieces = [*_text_pieces(), *_hash_pieces(dialect), *_number_pieces(wide), *_time_pieces()]
    scalars = [piece.sql(dialect, dialect.names.quote) for piece in pieces]
    conditions = _conditions()
    truths = [f"CASE WHEN {piece.sql(dialect, dialect.names.quote)} THEN 1 ELSE 0 END" for piece in conditions]
    answers = bench.values([*scalars, *truths], table, dialect.names.quote("n"))
    for piece, sql, results in zip((*pieces, *conditions), (*scalars, *truths), answers, strict=True):
        with bench.check(GROUP, f"{piece.method}{f' ({piece.detail})' if piece.detail else ''}", sql):
            if isinstance(results, AuditorError):
                raise results
            for row, result in zip(ROWS, results, strict=True):
                wanted = piece.expected(row)
                require(int(result) if isinstance(wanted, int) and result is not None else result, wanted, f"row {row['n']}")
    _check_sums(bench, table, wide)


def _is_stored(kind: Kind, dialect: Dialect) -> bool:
    try:
        dialect.types.native_type(kind)
    except LookupError:
        return False
    return True


def _text_pieces() -> list[Piece]:
    return [
        Piece("string_literal", lambda d, c: d.names.string_literal("a\\b'\"é😀${x}\n%s"), lambda row: "a\\b'\"é😀${x}\n%s"),
        Piece("concat", lambda d, c: d.text.concat(["'<'", c("words"), "'>'"]), lambda row: f"<{row['words']}>"),
        Piece("join", lambda d, c: d.text.join([c("words"), c("digits")], "|1"), lambda row: f"{row['words']}|1{row['digits']}"),
        Piece("replace", lambda d, c: d.text.replace(c("words"), "|", "|0"), lambda row: row["words"].replace("|", "|0")),
        Piece("length", lambda d, c: d.text.length(c("words")), lambda row: len(row["words"])),
        Piece("lower", lambda d, c: d.text.lower(c("words")), lambda row: canonical.fold_case(row["words"], "lower")),
        Piece("upper", lambda d, c: d.text.upper(c("words")), lambda row: canonical.fold_case(row["words"], "upper")),
        Piece("trim", lambda d, c: d.text.trim(d.text.concat(["'  '", c("words"), "' '"])), lambda row: row["words"].strip(" ")),
        Piece("trim_right", lambda d, c: d.text.trim_right(c("words")), lambda row: row["words"].rstrip(" ")),
        Piece("as_text", lambda d, c: d.text.as_text(c("number")), lambda row: str(row["number"])),
        Piece(
            "pieces", lambda d, c: d.numbers.pieces(c("digits"), ((1, 2), (15, 3))), lambda row: row["digits"][:2] + row["digits"][14:17]
        ),
        Piece("hex_text", lambda d, c: d.text.hex_text(d.names.binary_literal(b"\x00\xffA")), lambda row: "00ff41", "of binary_literal"),
    ]


def _hash_pieces(dialect: Dialect) -> list[Piece]:
    pieces = [
        Piece("row_hash", lambda d, c: d.hashes.row_hash(c("words"), "sha256"), lambda row: canonical.row_hash(row["words"]), "sha256"),
        Piece(
            "row_word",
            lambda d, c: d.hashes.row_word(c("words"), "sha256"),
            lambda row: canonical.word(canonical.row_hash(row["words"]), 1, 15),
        ),
        Piece("digits_number", lambda d, c: d.numbers.digits_number(c("digits"), UUID_PLACES), _number_at_places),
        Piece(
            "digits_number",
            lambda d, c: d.numbers.digits_number(d.text.concat(["'xxxx'", c("digits")]), UUID_PLACES),
            lambda row: None,
            "no digits",
        ),
        Piece(
            "hex_word", lambda d, c: d.numbers.hex_word(d.numbers.pieces(c("digits"), ((1, 15),))), lambda row: int(row["digits"][:15], 16)
        ),
    ]
    if dialect.hashes.HAS_MD5:
        pieces.append(
            Piece("row_hash", lambda d, c: d.hashes.row_hash(c("words"), "md5"), lambda row: canonical.row_hash(row["words"], "md5"), "md5")
        )
    for first, count in ((1, 15), (1, 8), (25, 8), (16, 1)):
        pieces.append(_word(first, count))
    return pieces


def _number_at_places(row: Row) -> int:
    digits: str = row["digits"]
    return int("".join(digits[first - 1 : first - 1 + count] for first, count in UUID_PLACES), 16)


def _word(first: int, count: int) -> Piece:
    detail = f"{count} digits from {first}"
    return Piece(
        "word", lambda d, c: d.numbers.word(c("digits"), first, count), lambda row: canonical.word(row["digits"], first, count), detail
    )


def _number_pieces(decimal: Kind) -> list[Piece]:
    pieces = [
        Piece(
            "shift_right",
            lambda d, c: d.numbers.shift_right(d.numbers.word(c("digits"), 1, 15), 30),
            lambda row: int(row["digits"][:15], 16) >> 30,
        ),
        Piece("as_bigint", lambda d, c: d.numbers.as_bigint(c("wide")), lambda row: row["wide"]),
    ]
    for column, kind in (("number", WHOLE), ("wide", decimal)):
        for divisor in DIVISORS:
            pieces += _divisions(column, kind, divisor)
    return pieces


def _divisions(column: str, kind: Kind, divisor: int) -> list[Piece]:
    def signed(row: Row) -> int:
        number: int = row[column]
        return abs(number) % Q * (-1 if number < 0 else 1)

    detail = f"{kind.name} by {divisor}"
    pieces = [
        Piece("floor_divide", lambda d, c: d.numbers.floor_divide(c(column), divisor, kind), lambda row: row[column] // divisor, detail),
        Piece("remainder", lambda d, c: d.numbers.remainder(c(column), divisor, kind), lambda row: row[column] % divisor, detail),
    ]
    if divisor == DIVISORS[0]:
        pieces.append(Piece("signed_remainder", lambda d, c: d.numbers.signed_remainder(c(column), Q, kind), signed, f"{kind.name} by {Q}"))
    return pieces


def _time_pieces() -> list[Piece]:
    def hours(row: Row) -> int:
        moment: dt.datetime = row["moment"]
        return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(hours=1)

    def months(row: Row) -> int:
        moment: dt.datetime = row["moment"]
        return (moment.year - 1970) * 12 + moment.month - 1

    return [
        Piece("day_index", lambda d, c: d.times.day_index(c("day")), lambda row: (row["day"] - EPOCH).days, "date"),
        Piece("day_index", lambda d, c: d.times.day_index(c("moment")), lambda row: (row["moment"].date() - EPOCH).days, "timestamp"),
        Piece("time_index", lambda d, c: d.times.time_index(c("moment"), "day"), lambda row: (row["moment"].date() - EPOCH).days, "day"),
        Piece("time_index", lambda d, c: d.times.time_index(c("moment"), "hour"), hours, "hour"),
        Piece("time_index", lambda d, c: d.times.time_index(c("moment"), "month"), months, "month"),
    ]


def _conditions() -> list[Piece]:
    moment = "2024-02-29 23:59:59.999999"
    return [
        Piece("exact_text", lambda d, c: f"{d.text.exact_text(c('words'))} = {d.text.exact_text(d.names.string_literal('two'))}",
              lambda row: int(row["words"] == "two"), "blanks at the end count"),
        Piece("bytewise", lambda d, c: f"{d.text.bytewise(c('words'))} = {d.text.bytewise(d.names.string_literal('Two'))}",
              lambda row: int(row["words"] == "Two"), "case counts"),
        Piece("like", lambda d, c: d.text.like(c("words"), "%o !%!_"), lambda row: 0, "case counts"),
        Piece("like", lambda d, c: d.text.like(c("words"), "T_O !%!_"), lambda row: int(row["words"] == "TWO %_"), "pattern and escape"),
        Piece("timestamp_literal", lambda d, c: f"{c('moment')} = {d.names.timestamp_literal(moment)}",
              lambda row: int(str(row["moment"]) == moment)),
        Piece("is_null", lambda d, c: d.text.is_null(c("day"), Kind("date")), lambda row: 0),
    ]  # fmt: skip


def _check_sums(bench: Bench, table: str, decimal: Kind) -> None:
    """Compare sums, also of numbers beyond 64 bits."""
    dialect, number, wide = bench.dialect, bench.dialect.names.quote("number"), bench.dialect.names.quote("wide")
    small = dialect.numbers.word(dialect.names.quote("digits"), 1, 7)
    sums = {
        "integer_sum": (dialect.numbers.integer_sum(number), sum(row["number"] for row in ROWS)),
        "small_sum": (dialect.numbers.small_sum(small), sum(int(row["digits"][:7], 16) for row in ROWS)),
        "number_sum (integer)": (dialect.numbers.number_sum(number, WHOLE), sum(row["number"] for row in ROWS)),
        "number_sum (decimal)": (dialect.numbers.number_sum(wide, decimal), sum(row["wide"] for row in ROWS)),
    }
    answers = bench.values([sql for sql, _ in sums.values()], table)
    for (name, (sql, wanted)), results in zip(sums.items(), answers, strict=True):
        with bench.check(GROUP, name, sql):
            if isinstance(results, AuditorError):
                raise results
            require(int(results[0]), wanted)
