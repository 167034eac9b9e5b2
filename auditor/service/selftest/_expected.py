"""What a summary must be: the reference in plain Python for every method and strategy of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NotRequired, TypedDict

from auditor import canonical
from auditor.compare.syndromes import power_sums
from auditor.model import NULL_PARTITION, Plan
from auditor.sql.power_sums import count_sums
from auditor.summary import measures
from auditor.summary.key_number import P, bucket_of, key_number, position_of
from auditor.summary.minhash import row_minhashes

Texts = Sequence[str | None]
"""The canonical texts of a row, in the order of the plan's columns."""

SECONDS = {"hour": 3600, "day": 86400}


class Summary(TypedDict):
    """What an engine must say of a partition: fields of ``auditor.summary.arrays.Summaries``."""

    rows: int
    least: int | None
    greatest: int | None
    measures: NotRequired[list[str | None]]
    hashed: NotRequired[int]
    words: NotRequired[list[int]]
    syndromes: NotRequired[list[int]]
    minhashes: NotRequired[list[int]]


def summaries(plan: Plan, rows: Sequence[Texts]) -> dict[int, Summary]:
    """Return what an engine must say of each partition, by its id."""
    groups: defaultdict[int, list[Texts]] = defaultdict(list)
    for row in rows:
        groups[partition_of(plan, row)].append(row)
    return {partition: _summary(plan, partition, groups[partition]) for partition in sorted(groups)}


def partition_of(plan: Plan, row: Texts) -> int:
    """Return the partition id of a row."""
    how = plan.partitioning
    text = row[how.column]
    if how.strategy == "whole":
        return 0
    if how.strategy == "hash":
        number = key_number(plan, row[: plan.key])
        return NULL_PARTITION if number is None else bucket_of(number, how.buckets)
    if text is None:
        return NULL_PARTITION
    if how.strategy == "range":
        return int(text) // how.size
    if how.unit == "month":
        return (int(text[:4]) - 1970) * 12 + int(text[5:7]) - 1
    return int((measures.numeric_value(text) or Fraction(0)) // SECONDS[how.unit])


def position_of_row(plan: Plan, row: Texts) -> int:
    """Return the position of a row with a key in its partition, at least 1."""
    if plan.partitioning.strategy == "range":
        return int(str(row[plan.partitioning.column])) % plan.partitioning.size + 1
    number = key_number(plan, row[: plan.key])
    assert number is not None
    return position_of(number)


def row_digits(plan: Plan, row: Texts) -> str:
    """Return the hash of a row in the plan's encoding, in hexadecimal digits."""
    text = canonical.published_row_text(row) if plan.encoding == "published" else canonical.row_text(row)
    return canonical.row_hash(f"{plan.salt}{canonical.SEPARATOR}{text}" if plan.salt else text, plan.hash)


def _summary(plan: Plan, partition: int, rows: Sequence[Texts]) -> Summary:
    keys = [int(text) for row in rows if plan.has_integer_key and (text := row[0]) is not None]
    summary: Summary = {"rows": len(rows), "least": min(keys, default=None), "greatest": max(keys, default=None)}
    if plan.method == "counts":
        summary["measures"] = [text for index in range(len(plan.columns)) for text in _measures(plan, index, rows)]
        return summary
    digits = [row_digits(plan, row) for row in rows]
    width, count = (8, 4) if plan.method == "minhash" else (15, plan.bits // 60)
    values = [[canonical.word(row_hash, 1 + width * index, width) for index in range(count)] for row_hash in digits]
    words = values if plan.method == "minhash" else [[half for v in row for half in (v >> 30, v & (1 << 30) - 1)] for row in values]
    summary["hashed"] = len(rows)
    summary["words"] = [sum(column) for column in zip(*words, strict=True)]
    if plan.method == "exact" and partition != NULL_PARTITION:
        places = [(position_of_row(plan, row), word[0]) for row, word in zip(rows, words, strict=True)]
        summary["syndromes"] = [value % P for value in power_sums(places, count_sums(plan))[1:]]
    if plan.k:
        minima = [row_minhashes(canonical.word(row_hash, 25, 8), plan.k) for row_hash in digits]
        summary["minhashes"] = [min(column) for column in zip(*minima, strict=True)]
    return summary


def _measures(plan: Plan, index: int, rows: Sequence[Texts]) -> list[str | None]:
    column, values = plan.columns[index], [row[index] for row in rows if row[index] is not None]
    texts = [text for text in values if text is not None]
    results: list[str | None] = []
    for name in measures.column_measures(column):
        match name:
            case "nulls":
                results.append(str(len(rows) - len(values)))
            case "characters":
                results.append(str(sum(map(len, texts))) if texts else None)
            case "true":
                results.append(str(texts.count("1")) if rows else None)
            case "sum":
                results.append(f"{sum(map(Decimal, texts), Decimal(0)):f}" if texts else None)
            case _:
                results.append((min if name == "min" else max)(texts, key=measures.sort_key) if texts else None)
    return results
