"""The number of a row's key, 0 .. p: its bucket and its position within a partition are computed from it.

The number is 31 bits of the hash of the key's text, except where each column of the key (at most four) is a whole number, a date or a
UUID, which costs no hash: there it is the sum of (n mod Q + Q) * a over the columns, modulo p = 2^31 - 1, with n the column's own number:

* of a whole number, itself;
* of a date, the days since 1970-01-01, negative before;
* of a UUID, 15 of its 32 hexadecimal digits: the 4th to 8th, the 12th to 16th, and the 28th to 32nd. They hold what varies fastest in
  UUIDs by time, in their own order or MySQL's swapped one (versions 1, 6 and 7), in random ones (4), and in those that count. Text that
  has no such digits has the first 60 bits of its hash.

``mod`` has the sign of n; Q is a prime below 2^31, and the factors are odd and below 2^29, so that four terms stay below 2^63. They are
fixed: a key has the same number in every run. That several keys share a bucket and a position is harmless, since their rows are fetched
together; so anyone who can choose keys can make this slower, but not wrong.

`auditor.sql.key_number` computes the same numbers in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from auditor import canonical
from auditor.model import ColumnPlan, Plan
from auditor.summary.measures import numeric_value

P = 2147483647
"""p = 2^31 - 1, a prime: positions are 1 .. p - 1, symbols 0 .. 2^30 - 1, and power sums are taken modulo p."""

Q = 1168518413
"""The prime modulo which the numbers of columns are taken."""

FACTORS = (346030291, 364002015, 409395327, 476025533)
"""The factors of a key's columns, in key order: digits of SHA-256 hashes."""

POSITIONS = 1 << 15
"""Positions of rows in a partition by hash or time: few enough that a partition that seems to decode by chance is rare, as with ranges."""

SECONDS_PER_DAY = 86400

Form = Literal["whole", "date", "uuid"]
"""What a column of a key is whose number needs no hash."""

Key = Sequence[str | None]
"""The canonical texts of a key's columns."""

HEXADECIMAL = re.compile(r"[0-9a-fA-F]{15}")
UUID_LENGTH = 36
"""Characters of a UUID with its hyphens."""


def forms(plan: Plan) -> tuple[Form, ...]:
    """Return what the columns of the key are if its number needs no hash; empty if it is that of its text's hash."""
    key_forms = [_form(column) for column in plan.key_columns]
    return tuple(form for form in key_forms if form) if len(key_forms) <= len(FACTORS) and all(key_forms) else ()


def _form(column: ColumnPlan) -> Form | None:
    """Return what a column is, by its kind and both sides' own types, so that both sides compute the same; None for any other."""
    if column.trim or column.case or column.null_as is not None or any(sql.startswith("(") for sql in column.expression.values()):
        return None
    natives, kind = {(native.name, native.scale or 0) for native in column.native.values()}, column.kind.name
    if kind in ("integer", "year") and natives <= {("integer", 0), ("decimal", 0), ("year", 0)} and None not in _scales(column):
        return "whole"
    if kind == "date" and natives == {("date", 0)}:
        return "date"
    return "uuid" if kind == "uuid" else None


def _scales(column: ColumnPlan) -> set[int | None]:
    """Return the scales of a column's decimals; a decimal without one may have digits after its point."""
    return {native.scale for native in column.native.values() if native.name == "decimal"}


def key_number(plan: Plan, key: Key) -> int | None:
    """Return the number of a key; None where its SQL is NULL: for NULL, and for a date that is no day."""
    shapes = forms(plan)
    if not shapes:
        return None if None in key else _hash_number(canonical.row_text(key), plan) & P
    total = 0
    for form, factor, text in zip(shapes, FACTORS, key, strict=False):
        number = None if text is None else _number(form, text, plan)
        if number is None:
            return None
        total += ((abs(number) % Q) * (-1 if number < 0 else 1) + Q) * factor
    return total % P


def _number(form: Form, text: str, plan: Plan) -> int | None:
    if form == "whole":
        return int(text)
    if form == "date":
        seconds = numeric_value(text) if is_day(text) else None
        return None if seconds is None else int(seconds) // SECONDS_PER_DAY
    digits = text[3:8] + text[12:13] + text[14:18] + text[31:36]
    return int(digits, 16) if len(text) == UUID_LENGTH and HEXADECIMAL.fullmatch(digits) else _hash_number(text, plan)


def is_day(text: str) -> bool:
    """Return whether a date's canonical text is a day of the calendar: not ``infinity``, nor MySQL's ``2024-00-00``."""
    match = re.fullmatch(r"\d+-(\d\d)-(\d\d)( BC)?", text)
    return match is not None and match[1] != "00" and match[2] != "00"


def _hash_number(text: str, plan: Plan) -> int:
    return canonical.word(canonical.row_hash(text, plan.hash), 1, 15)


def bucket_of(number: int, buckets: int) -> int:
    """Return the bucket of a key's number: 0 .. ``buckets`` - 1. Squaring modulo p spreads keys that lie evenly."""
    return number * number % P % buckets


def position_of(number: int) -> int:
    """Return the position of a key's number: 1 .. POSITIONS."""
    return number % POSITIONS + 1
