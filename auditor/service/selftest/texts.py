"""Canonical texts and row hashes of an engine against the reference in ``auditor.canonical``."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from typing import Any
from uuid import UUID

from auditor import canonical
from auditor.errors import AuditorError
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan, SidePlan
from auditor.service.selftest.bench import Bench, require
from auditor.sql import row_text
from dialects import Dialect, HashAlgorithm, Kind


@dataclass(frozen=True, slots=True)
class Sample:
    """A column of a self-test."""

    name: str
    """Its name."""
    kind: Kind
    """The kind of which it is created."""
    values: tuple[Any, ...]
    """What it holds, besides NULL: see ``auditor.canonical.text``."""
    compared_as: tuple[Kind, ...]
    """The kinds in which it is compared."""

    def expected(self, kind: Kind, value: Any) -> str | None:
        """Return the canonical text of a value of the column that is compared as ``kind``."""
        if self.kind.name == "text" and value is not None and kind.name == "uuid":
            return str(UUID(value))
        return canonical.text(self.kind if kind.name == "bit" else kind, value)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


FLAG, WHOLE, TEXT, DATE, TIME = (Kind(name) for name in ("boolean", "integer", "text", "date", "time"))
NATURAL, DOUBLE, SINGLE, UUIDS = Kind("integer", unsigned=True), Kind("float64"), Kind("float32"), Kind("uuid")
MOMENT, MILLIS, SECONDS = (Kind("timestamp", scale=scale) for scale in (6, 3, 0))
INSTANT, CLOCK, CLOCK_SECONDS = Kind("timestamptz", scale=6), Kind("time", scale=6), Kind("time", scale=0)
FULL = canonical.FULL_DECIMAL

IDENTIFIERS = (
    UUID(int=0),
    UUID(int=2**128 - 1),
    UUID("0188d6a2-7c3e-7abc-8def-0123456789ab"),
    UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"),
)
MOMENTS = (
    dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1, 2, 3, 4), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 13, 4, 5, 700000), dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1999, 12, 31, 23, 59, 59, 500000),
    dt.datetime(2001, 2, 3, 4, 5, 6, 123456), dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
)  # fmt: skip
TEXTS = (
    "", " ", "  two ", "NULL", "|", "|0", "|1", "|2", "a|b||", "'", '"', "\\", "\\'", "''", "--", "/*", "%", "%s", ":x", "${x}", "\n", "\t",
    "\r\n", "é", "e\u0301", "ß", "İ", "ſ", "😀", "👩\u200d👩\u200d👧", "\uffff", "\U0010ffff", "\x01", "\x7f", "a" * 3000, "0", "Ab", "aB",
)  # fmt: skip
MOST = "9" * 28 + ".9999999999"
DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.1, 1.1, 2e23, 1e300, -1e300, 2.2250738585072014e-308, 1.7976931348623157e308, 1e-270, 9.99e-271, 2.0**52,
    2.0**53, 2.0**53 + 2, 0.1 + 0.2, 1e15, 123456.789, math.pi, 1e-7, 4503599627370495.5,
)  # fmt: skip

SAMPLES = (
    Sample("flag", FLAG, (True, False), (FLAG, DOUBLE)),
    Sample("whole", WHOLE, (0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 2**53 + 1, 10**15, 2**63 - 1, -(2**63)),
           (WHOLE, Kind("decimal", 23, 4), DOUBLE, FLAG, Kind("rounded", scale=2))),
    Sample("natural", NATURAL, (0, 9, 2**63, 2**64 - 1), (NATURAL, Kind("decimal", 22, 2), DOUBLE)),
    Sample("price", Kind("decimal", 12, 4), tuple(map(Decimal, ("0", "-0.0001", "0.5", "-0.5", "1.25", "1.005", "1.0050", "12345678.9999",
           "-99999999.9999", "100"))), (Kind("decimal", 12, 4), Kind("decimal", 10, 2), FULL, Kind("rounded", scale=2), DOUBLE)),
    Sample("amount", Kind("decimal", 38, 10), tuple(map(Decimal, ("0", MOST, f"-{MOST}", "0.0000000001", "-1.5"))),
           (Kind("decimal", 38, 10), FULL)),
    Sample("share", Kind("decimal", 6, 6), tuple(map(Decimal, ("0", "0.000001", "-0.999999", "0.5"))), (Kind("decimal", 6, 6), FULL)),
    Sample("single", SINGLE, tuple(map(_single, (0.0, 1.5, -0.1, 3e38, 1.3e-38, 16777216.0))), (SINGLE, DOUBLE)),
    Sample("double", DOUBLE, DOUBLES, (DOUBLE, Kind("rounded", scale=3))),
    Sample("beyond", DOUBLE, (math.nan, math.inf, -math.inf), (DOUBLE,)),
    Sample("free", TEXT, TEXTS, (TEXT, Kind("char"))),
    Sample("code", Kind("char", 12), ("", "abc", "a b", "ABC", "é😀"), (Kind("char", 12),)),
    Sample("bytes", Kind("binary"), (b"", b"\x00", b"\x00\xff\x10", b"|~'\\"), (Kind("binary"),)),
    Sample("day", DATE, (dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29),
           dt.date(9999, 12, 31)), (DATE, MOMENT)),
    Sample("moment", MOMENT, MOMENTS, (MOMENT, MILLIS, SECONDS, DATE)),
    Sample("rounds", MOMENT, MOMENTS[1:-1], tuple(
           Kind("timestamp", scale=scale, rounding=how) for how in ("half up", "half from 1970", "half from 2000") for scale in (3, 0))),
    Sample("instant", INSTANT, (dt.datetime(1970, 1, 2), dt.datetime(2024, 3, 10, 7, 30), dt.datetime(2024, 11, 3, 5, 30, 0, 1),
           dt.datetime(2038, 1, 18, 23, 59, 59, 999999)), (INSTANT, MOMENT)),
    Sample("clock", CLOCK, (dt.time(0), dt.time(23, 59, 59, 999999), dt.time(1, 2, 3, 400000)), (CLOCK, CLOCK_SECONDS)),
    Sample("ident", UUIDS, IDENTIFIERS, (UUIDS,)),
    Sample("ident_text", TEXT, tuple(f(uuid) for uuid in IDENTIFIERS for f in (str, lambda u: u.hex, lambda u: str(u).upper())), (UUIDS,)),
    Sample("ident_bytes", Kind("binary", 16), tuple(uuid.bytes for uuid in IDENTIFIERS), (UUIDS,)),
    Sample("flags", Kind("bit", 12), (0, 1, 2**11, 2**12 - 1), (Kind("bit", 12), WHOLE)),
    Sample("year", Kind("year"), (1901, 1999, 2155), (Kind("year"), WHOLE)),
    Sample("document", Kind("json"), ("{}", "[]", "null", '{"a":1,"b":[true,null,"x y"]}', '[{"a":"é😀"},-12]', '"two words"'),
           (Kind("json"),)),
    Sample("address", Kind("network"), ("10.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32"), (Kind("network"),)),
    Sample("span", Kind("interval"), ((0, 0, 0), (13, 5, 86_399_999_999), (1, 0, 1)), (Kind("interval"),)),
)  # fmt: skip


def supported(dialect: Dialect) -> tuple[list[Sample], dict[str, str]]:
    """Return the samples whose values the engine stores, and why it does not store the others, by column."""
    samples: list[Sample] = []
    without: dict[str, str] = {}
    for sample in SAMPLES:
        lacking = "nan" if sample.name == "beyond" else sample.kind.name
        if lacking in dialect.types.UNSUPPORTED_VALUES:
            without[sample.name] = dialect.types.UNSUPPORTED_VALUES[lacking]
            continue
        try:
            dialect.types.native_type(sample.kind)
        except LookupError as error:
            without[sample.name] = str(error)
        else:
            samples.append(sample)
    return samples, without


def catalogue_kind(dialect: Dialect, kind: Kind) -> Kind:
    """Return the kind that the engine's catalogue reports of a column that was created for ``kind``."""
    return dialect.types.kind(dialect.types.native_type(kind).partition(" CHARACTER SET ")[0].lower()) or kind


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
    order = bench.dialect.names.quote(NUMBER)
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
        bench.dialect.types.typed_value("NULL", kind)
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
        expression=dict.fromkeys(SIDES, dialect.names.quote(sample.name)),
        types=dict.fromkeys(SIDES, dialect.types.native_type(sample.kind)),
        why="",
    )


def _check_hashes(bench: Bench, stored_samples: Held, columns: Sequence[tuple[ColumnPlan, list[str | None]]]) -> None:
    """Compare the hashes of rows that have every column whose texts are right."""
    if not columns:
        return
    algorithms: list[HashAlgorithm] = ["sha256"]
    if bench.dialect.hashes.HAS_MD5:
        algorithms.append("md5")
    else:
        bench.skip(HASHES, "md5", "the server has no MD5(); the published encoding needs it")
    texts = row_text.row_text(plan_of(bench, [column for column, _ in columns], stored_samples.sql), "source", bench.dialect)
    expressions = [bench.dialect.hashes.row_hash(texts, algorithm) for algorithm in algorithms]
    answers = bench.values(expressions, stored_samples.sql, bench.dialect.names.quote(NUMBER))
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
