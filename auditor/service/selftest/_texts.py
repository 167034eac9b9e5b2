"""Canonical texts and row hashes of an engine against the reference in ``auditor.canonical``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from auditor import canonical
from auditor.errors import AuditorError
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, SidePlan
from auditor.service.selftest._bench import Bench, require
from auditor.service.selftest._samples import Sample, catalogue_kind, supported
from auditor.sql import row_text
from dialects import HashAlgorithm, Kind

GROUP = "canonical text"
HASHES = "row hash"
NUMBER = "n"
"""Name of the column that numbers the rows."""


@dataclass(frozen=True, slots=True)
class Held:
    """A table of samples."""

    sql: str
    samples: Sequence[Sample]
    rows: Sequence[Sequence[Any]]
    """Values in the samples' order."""


def check_texts(bench: Bench) -> None:
    """Compare the canonical text of every value, in every kind of its column, and the hashes of whole rows."""
    stored_samples = _hold_samples(bench)
    if stored_samples is None:
        return
    compared = [(place, sample, kind) for place, sample in enumerate(stored_samples.samples) for kind in sample.compared_as]
    columns = [column_plan(bench, sample, kind) for _, sample, kind in compared]
    texts = [row_text.text(column, "source", bench.dialect) for column in columns]
    order = bench.dialect.quote(NUMBER)
    right = []
    for (place, sample, kind), sql, column, results in zip(
        compared, texts, columns, bench.values(texts, stored_samples.sql, order), strict=True
    ):
        expected = [sample.expected(kind, row[place]) for row in stored_samples.rows]
        with bench.check(GROUP, f"{sample.name}: {column.types['source']} as {kind}", sql):
            if isinstance(results, AuditorError):
                raise results
            for row, text, wanted in zip(stored_samples.rows, results, expected, strict=True):
                require(text, wanted, f"the value {row[place]!r}"[:100])
            right.append((column, expected))
    _check_hashes(bench, stored_samples, right)


def _hold_samples(bench: Bench) -> Held | None:
    """Put the samples into one table; leave out, and keep as not run, those that the engine does not store."""
    samples, without = supported(bench.dialect)
    for name, why in without.items():
        bench.skip(GROUP, name, why)
    try:
        return _hold(bench, samples)
    except LookupError:
        uncast = [sample for sample in samples if not _casts(bench, sample.kind)]
        for sample in uncast:
            bench.skip(GROUP, sample.name, f"without a temporary table, no cast makes a value of type {sample.kind}")
        return _hold(bench, [sample for sample in samples if sample not in uncast])


def _casts(bench: Bench, kind: Kind) -> bool:
    try:
        bench.dialect.typed_value("NULL", kind)
    except LookupError:
        return False
    return True


def _hold(bench: Bench, samples: Sequence[Sample]) -> Held | None:
    count = 1 + max(len(sample.values) for sample in samples)
    columns = [list(islice(cycle((*sample.values, None)), count)) for sample in samples]
    rows = [list(row) for row in zip(*columns, strict=True)]
    named = [(NUMBER, Kind("integer")), *((sample.name, sample.kind) for sample in samples)]
    sql = bench.table("values", named, [[number, *row] for number, row in enumerate(rows)])
    return Held(sql, samples, rows)


def column_plan(bench: Bench, sample: Sample, kind: Kind) -> ColumnPlan:
    """Return the plan of a sample's column that is compared as ``kind``."""
    dialect = bench.dialect
    return ColumnPlan(
        name=sample.name,
        kind=kind,
        native=dict.fromkeys(SIDES, catalogue_kind(dialect, sample.kind)),
        expression=dict.fromkeys(SIDES, dialect.quote(sample.name)),
        types=dict.fromkeys(SIDES, dialect.native_type(sample.kind)),
        why="",
    )


def _check_hashes(bench: Bench, stored_samples: Held, columns: Sequence[tuple[ColumnPlan, list[str | None]]]) -> None:
    """Compare the hashes of rows that have every column whose texts are right."""
    if not columns:
        return
    algorithms: list[HashAlgorithm] = ["sha256"]
    if bench.dialect.HAS_MD5:
        algorithms.append("md5")
    else:
        bench.skip(HASHES, "md5", "the server has no MD5(); the published encoding needs it")
    texts = row_text.row_text(plan_of(bench, [column for column, _ in columns], stored_samples.sql), "source", bench.dialect)
    expressions = [bench.dialect.row_hash(texts, algorithm) for algorithm in algorithms]
    answers = bench.values(expressions, stored_samples.sql, bench.dialect.quote(NUMBER))
    for algorithm, sql, hashes in zip(algorithms, expressions, answers, strict=True):
        with bench.check(HASHES, algorithm, sql):
            if isinstance(hashes, AuditorError):
                raise hashes
            for index, row_hash in enumerate(hashes):
                expected = canonical.row_hash(canonical.row_text([values[index] for _, values in columns]), algorithm)
                require(row_hash, expected, f"row {index}")


def plan_of(bench: Bench, columns: Sequence[ColumnPlan], table: str) -> Plan:
    """Return a plan that reads these columns of a table of the bench on both sides, the first of them as the key."""
    side = SidePlan(dialect=bench.dialect.name, connection="", label="self-test", table=table, where="")
    return Plan(
        audit="selftest",
        method="signature",
        sides=dict.fromkeys(SIDES, side),
        columns=tuple(columns),
        key=1,
        partitioning=Partitioning(strategy="hash", buckets=1),
        prefix="a_",
    )
