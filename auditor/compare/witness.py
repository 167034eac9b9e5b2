"""What a summary of a few rows must be, computed here from their plain values by the canonical rules.

A scan sees a row only through the SQL that was rendered for it. A name in that SQL that is bound to the wrong column, or a value that is
rendered wrongly, makes summaries of both sides that agree about something else than the rows. Witness rows are fetched as the driver
returns them, by a statement that has no names but the table's own, and hashed here: what the same rows are in a summary has to follow.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from auditor import canonical
from auditor.model import NULL_PARTITION, ColumnPlan, Plan, Side
from auditor.summary import measures
from auditor.summary.arrays import Summaries
from auditor.summary.key_number import P, bucket_of, key_number, position_of
from auditor.summary.row_bytes import NEXT_COLUMN, NEXT_ROW, NULL_VALUE, is_closed

Texts = tuple[str | None, ...]
"""The canonical texts of a row's columns, in plan order; None for NULL."""

NUMBERS = frozenset({"boolean", "integer", "year", "decimal"})

PLAIN: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(NUMBERS, (bool, int, Decimal)),
    "text": (str,),
    "char": (str,),
    "enum": (str,),
    "uuid": (str, uuid.UUID),
    "binary": (bytes, bytearray, memoryview),
    "date": (dt.date,),
    "timestamp": (dt.datetime,),
}
"""The kinds whose values every driver returns without a loss, and as what. Of others the server's canonical text is fetched alone."""

DIGEST_WORDS = 4
"""Words of 60 bits of a digest of rows."""

MICROSECONDS = 6
"""Digits of a second's fraction that Python's times hold."""


def is_plain(column: ColumnPlan, side: Side) -> bool:
    """Return whether a column's canonical text follows from the value that a side's driver returns."""
    native, kind = column.native[side], column.kind
    if native.name not in PLAIN or column.pieces or column.tolerance or column.zones:
        return False
    if native.name == "year" and native.digits:  # whose driver returns the two digits, not the year that they mean
        return False
    if native.name in ("date", "timestamp"):
        return kind.name == native.name and (native.scale or 0) <= MICROSECONDS
    return {native.name, kind.name} <= NUMBERS or native.name == kind.name


def fits(column: ColumnPlan, side: Side, value: Any) -> bool:
    """Return whether a driver returned a value as one of the types of its column's kind, and without a loss.

    Some return a text where Python has no such time, and for times without end its first or last one.
    """
    if isinstance(value, dt.date) and not dt.MINYEAR < value.year < dt.MAXYEAR:
        return False
    return value is None or isinstance(value, PLAIN[column.native[side].name])


def plain_text(column: ColumnPlan, value: Any) -> str | None:
    """Return the canonical text of a plain value, as the plan compares it."""
    text = canonical.text(column.kind, value)
    if text is not None and column.trim:
        text = text.strip(" ")
    if text is not None and column.case:
        text = canonical.fold_case(text, column.case)
    return column.null_as if text is None else text


def row_hash(plan: Plan, texts: Texts) -> str:
    """Return the hash of a row as the method computes it, in hexadecimal digits."""
    if plan.encoding == "published":
        return canonical.row_hash(canonical.published_row_text(texts), plan.hash)
    whole = [
        canonical.digest(column.kind, text) if column.digest and not column.pieces else text
        for column, text in zip(plan.columns, texts, strict=True)
    ]
    salt = plan.salt + canonical.SEPARATOR if plan.salt else ""
    return canonical.row_hash(salt + canonical.row_text(whole), plan.hash)


def row_bytes(plan: Plan, texts: Texts) -> bytes:
    """Return the bytes of a row that a pre-scan hashes."""
    parts = [plan.salt.encode()] if plan.salt else []
    for closed, some in groupby(zip(plan.columns, texts, strict=True), lambda pair: is_closed(pair[0])):
        if closed:
            parts.append(canonical.BAR.join(text or "" for _, text in some).encode())
        else:
            parts += [_bytes(column, text) for column, text in some]
    return NEXT_COLUMN.join(parts)


def _bytes(column: ColumnPlan, text: str | None) -> bytes:
    whole = canonical.digest(column.kind, text) if column.digest and not column.pieces else text
    return NULL_VALUE if whole is None else whole.encode()


Seen = dict[str, object]
"""What summaries say of a few rows over all partitions: partitions, rows, numbers of their words, power sums; or measures."""


def expected(plan: Plan, rows: Sequence[Texts]) -> Seen:
    """Return what the summaries of these rows by a plan have to say."""
    if plan.method == "counts":
        each = [row_measures(plan, texts) for texts in rows]
        names = set.intersection(*map(set, each))
        return {"rows": len(rows), **{name: _number(name, measures.fold(name, [row[name] for row in each])) for name in sorted(names)}}
    expected_values: Seen = {"rows": len(rows)}
    if (places := _partitions(plan, rows)) is not None:
        expected_values["partitions"] = places
    hashed = _hashes(plan, rows)
    if plan.method == "minhash":
        return {
            **expected_values,
            "words": [sum(canonical.word(row_digest, 8 * number + 1, 8) for row_digest in hashed) for number in range(4)],
        }
    count = DIGEST_WORDS if plan.digest_rows else plan.bits // 60
    expected_values["words"] = [sum(canonical.word(row_digest, 15 * number + 1, 15) for row_digest in hashed) for number in range(count)]
    if plan.method == "exact":
        placed = [(canonical.word(row_digest, 1, 15) >> 30, _position(plan, texts)) for row_digest, texts in zip(hashed, rows, strict=True)]
        expected_values["power sums"] = [sum(word * pow(x, power, P) for word, x in placed) % P for power in range(1, 2 * plan.t)]
    return expected_values


def read(plan: Plan, summaries: Summaries) -> Seen:
    """Return what summaries of the same rows do say, of what ``expected`` says."""
    rows = int(summaries.rows.sum())
    if plan.method == "counts":
        columns = zip(measures.result_columns(plan), summaries.measures.T.tolist(), strict=True)
        return {"rows": rows, **{name: _number(name, measures.fold(name, texts)) for name, texts in columns}}
    values: Seen = {"rows": rows}
    if plan.partitioning.strategy in ("range", "hash") and not plan.digest_rows:
        values["partitions"] = [number for number in summaries.partition.tolist() if number != NULL_PARTITION]
    words = [sum(map(int, column)) for column in summaries.words.T.tolist()]
    if plan.method != "minhash" and not plan.digest_rows:
        words = [(high << 30) + low for high, low in zip(words[::2], words[1::2], strict=True)]
    values["words"] = words
    if plan.method == "exact":
        values["power sums"] = [sum(map(int, column)) % P for column in summaries.syndromes.T.tolist()]
    return values


def _hashes(plan: Plan, rows: Sequence[Texts]) -> list[str]:
    """Return the hashes whose words are summed: of rows, or of stretches that hold rows whose keys are integers, or that hold one row."""
    if not plan.digest_rows:
        return [hashlib.sha256(row_bytes(plan, texts)).hexdigest() if plan.hashes_bytes else row_hash(plan, texts) for texts in rows]
    stretches: dict[int, list[Texts]] = {}
    for texts in rows if len(rows) == 1 else sorted(rows, key=lambda texts: int(texts[0] or 0)):
        stretches.setdefault(int(texts[0] or 0) // plan.partitioning.size if len(rows) > 1 else 0, []).append(texts)
    return [hashlib.sha256(NEXT_ROW.join(row_bytes(plan, texts) for texts in some)).hexdigest() for some in stretches.values()]


def _partitions(plan: Plan, rows: Sequence[Texts]) -> list[int] | None:
    """Return the partitions of rows whose keys hold no NULL, ascending; None where they are not computed here."""
    how = plan.partitioning
    if plan.digest_rows or how.strategy not in ("range", "hash"):
        return None
    if how.strategy == "range":
        return sorted({int(text) // how.size for texts in rows if (text := texts[how.column]) is not None})
    numbers = (key_number(plan, texts[: plan.key]) for texts in rows)
    return sorted({bucket_of(number, how.buckets) for number in numbers if number is not None})


def _number(name: str, text: str | None) -> object:
    """Return a measure in a form that is equal for equal values: a sum's last zeros mean nothing."""
    return measures.numeric_value(text) if name.partition("_")[0] in ("sum", *measures.EXTREMES) else text


def _position(plan: Plan, texts: Texts) -> int:
    if plan.partitioning.strategy == "range":
        return int(texts[plan.partitioning.column] or 0) % plan.partitioning.size + 1
    number = key_number(plan, texts[: plan.key])
    return 0 if number is None else position_of(number)


def row_measures(plan: Plan, texts: Texts) -> dict[str, str | None]:
    """Return the measures of one row by the method counts that follow from its texts, by their names in a summary."""
    values: dict[str, str | None] = {}
    for index, (column, text) in enumerate(zip(plan.columns, texts, strict=True)):
        names = measures.column_measures(column)
        if column.null_as is None:
            values[f"nulls_{index}"] = "1" if text is None else "0"
        if measures.family(column) in ("number", "moment") and column.kind != canonical.FULL_DECIMAL and not column.zones:
            values |= {f"{name}_{index}": text for name in names if name in ("sum", *measures.EXTREMES)}
        elif text is not None and "true" in names:
            values[f"true_{index}"] = "1" if text == "1" else "0"
        elif text is not None and "characters" in names and not column.pieces:
            values[f"characters_{index}"] = str(len(text))
            if "bytes" in names:
                values[f"bytes_{index}"] = str(len(text.encode()))
    return values
