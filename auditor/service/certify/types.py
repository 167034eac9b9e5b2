"""Audits of one table of each kind that an engine stores: equal to its twin, and with damage, of which every row must be named.

What differs is known in Python before anything is asked: rows are made here, and the damaged ones are written beside the others.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from auditor import canonical
from auditor.errors import ResultError
from auditor.model import DifferenceKind, RangeDifference, Report, Verdict
from auditor.service.certify.book import Book, listed
from auditor.service.certify.scratch import Scratch
from auditor.service.running import audit_tables
from auditor.service.selftest import SAMPLES, Differs, Sample, catalogue_kind
from dialects import Dialect, Kind

KEY = Kind("integer")

DAMAGES = ("kept", "changed", "nulled", "missing", "kept as well")
"""What is done to the rows of each value."""

YEARS = range(1901, 2156)
"""The years of MySQL's type. https://dev.mysql.com/doc/refman/9.4/en/year.html"""

LIMITS = {"limits": {"max_rows_listed": 100_000, "max_differences": 100_000, "value_length": 64}}


@dataclass(frozen=True, slots=True)
class Damaged:
    """The rows of a kind as they should be, as they are after damage, and which keys that concerns."""

    rows: Sequence[tuple[int, Any]]
    damaged: Sequence[tuple[int, Any]]
    keys: Mapping[DifferenceKind, frozenset[int]]


def samples() -> list[Sample]:
    """Return the samples of which each is a kind of its own: those that are compared as what they are."""
    return [sample for sample in SAMPLES if sample.kind in sample.compared_as]


def check_types(book: Book, here: Scratch, twin: Scratch, chosen: Sequence[Sample]) -> None:
    """Audit a table of each kind against its twin, without damage and with it."""
    for sample in chosen:
        name = _name(sample)
        why = next((f"{side.dialect.name}: {lacks}" for side in (here, twin) if (lacks := why_not(side.dialect, sample))), "")
        if why:
            book.skip("types", name, why)
            continue
        shared = canonical.shared_kind(catalogue_kind(twin.dialect, sample.kind), catalogue_kind(here.dialect, sample.kind))
        if shared is None:
            book.skip("types", name, f"{twin.dialect.name} and {here.dialect.name} have no kind in common for it")
            continue
        damaged_sample = (sample, damage(sample, shared.kind))
        if book.attempt("types", f"{name}: written", partial(_write, here, twin, *damaged_sample)):
            book.attempt("types", f"{name}: equal", partial(_check_equal, book, here, twin, *damaged_sample))
            book.attempt("types", f"{name}: damaged", partial(_check_damage, book, here, twin, *damaged_sample))


def why_not(dialect: Dialect, sample: Sample) -> str:
    """Return why an engine does not store a sample; '' if it does."""
    lacking = "nan" if sample.name == "beyond" else sample.kind.name
    if lacking in dialect.types.UNSUPPORTED_VALUES:
        return dialect.types.UNSUPPORTED_VALUES[lacking]
    try:
        dialect.types.native_type(sample.kind)
    except LookupError as error:
        return str(error)
    return ""


def damage(sample: Sample, kind: Kind) -> Damaged:
    """Return rows of every value of a sample, NULL among them, with each kind of damage done to each value, compared as ``kind``."""
    values = (*sample.values, None)
    rows: list[tuple[int, Any]] = []
    damaged: list[tuple[int, Any]] = []
    keys: dict[DifferenceKind, set[int]] = {"changed": set(), "missing": set(), "extra": set()}
    for index, value in enumerate(values):
        other = _other(sample, kind, values, index)
        for slot, what in enumerate(DAMAGES):
            key = index * len(DAMAGES) + slot
            rows.append((key, value))
            if what == "missing":
                keys["missing"].add(key)
                continue
            now = {"changed": other, "nulled": other if value is None else None}.get(what, value)
            damaged.append((key, now))
            if sample.expected(kind, now) != sample.expected(kind, value):
                keys["changed"].add(key)
    for index, value in enumerate(values):
        key = (len(values) + 2 * index) * len(DAMAGES)  # with gaps between them
        damaged.append((key, value))
        keys["extra"].add(key)
    return Damaged(rows, damaged, {what: frozenset(some) for what, some in keys.items()})


def _other(sample: Sample, kind: Kind, values: Sequence[Any], index: int) -> Any:
    """Return a value that differs as little as can be, else the next one that has another text; NULL if there is none."""
    text = sample.expected(kind, values[index])
    following = [value for value in (*values[index + 1 :], *values[:index]) if value is not None]
    nearest = [] if values[index] is None else [_nearest(sample.kind, values[index])]
    return next((value for value in (*nearest, *following) if value is not None and sample.expected(kind, value) != text), None)


def _nearest(kind: Kind, value: Any) -> Any:
    """Return the value of a kind that differs least from another one: by its last digit, bit or microsecond, or by case; None for none."""
    match kind.name:
        case "boolean":
            return not value
        case "integer" | "year":
            return value - 1 if value > YEARS.start else value + 1
        case "decimal":
            step = Decimal(1).scaleb(-(kind.scale or 0))
            return canonical.EXACT.subtract(value, step) if value > 0 else canonical.EXACT.add(value, step)
        case "float64" | "float32":
            return _next_float(value, *(("<d", "<q") if kind.name == "float64" else ("<f", "<i")))
        case "text" | "char":
            return value.swapcase() if value.isascii() and value.swapcase() != value else f"{value}x"[: kind.digits or None]
        case "binary":
            return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\x01"
        case "date":
            return value + dt.timedelta(days=1 if value.year < 2000 else -1)
        case "timestamp" | "timestamptz" | "time":
            return value.replace(microsecond=value.microsecond ^ 1)
        case "uuid":
            return UUID(int=value.int ^ 1)
        case "bit":
            return value ^ 1
        case "json":
            return f"[{value}]"
        case "interval":
            return (*value[:2], value[2] ^ 1)
    return None


def _next_float(value: float, number: str, bits: str) -> float:
    """Return the next float towards zero above 1, and away from it below, so that neither limit is passed; 1 for what has no next one."""
    if value == 0 or not math.isfinite(value):
        return 1.0
    (pattern,) = struct.unpack(bits, struct.pack(number, value))
    return float(struct.unpack(number, struct.pack(bits, pattern + (-1 if abs(value) > 1 else 1)))[0])


def _name(sample: Sample) -> str:
    return f"{sample.kind} ({sample.name})"


def _write(here: Scratch, twin: Scratch, sample: Sample, made: Damaged) -> None:
    columns = [("id", KEY), ("v", sample.kind)]
    with twin.writing() as session:
        twin.fill(session, f"{sample.name}_rows", columns, made.rows)
    with here.writing() as session:
        here.fill(session, f"{sample.name}_equal", columns, made.rows)
        here.fill(session, f"{sample.name}_damaged", columns, made.damaged)


def _audit(book: Book, here: Scratch, twin: Scratch, sample: Sample, table: str) -> Report:
    source, target = twin.place(f"{sample.name}_rows"), here.place(f"{sample.name}_{table}")
    report = audit_tables(source, target, key=["id"], name="certify", options=LIMITS, patient=False)
    book.meter.add_report(report)
    if report.verdict is Verdict.UNKNOWN:
        raise ResultError(" ".join(report.reasons) or "the audit came to no verdict")
    return report


def _check_equal(book: Book, here: Scratch, twin: Scratch, sample: Sample, made: Damaged) -> None:
    report = _audit(book, here, twin, sample, "equal")
    if report.verdict is not Verdict.MATCH:
        values = dict(made.rows)
        texts = [f"{values.get(key)!r}" for _, key in sorted(_named(report, made), key=lambda pair: pair[1])]
        raise Differs(f"equal rows are said to differ; with the values {listed(list(dict.fromkeys(texts)))}")
    rows = report.comparison.rows if report.comparison else {}
    if set(rows.values()) != {len(made.rows)}:
        raise Differs(f"{len(made.rows):,} rows were written, and the audit compared {dict(rows)}")


def _check_damage(book: Book, here: Scratch, twin: Scratch, sample: Sample, made: Damaged) -> None:
    report = _audit(book, here, twin, sample, "damaged")
    wanted = {(kind, key) for kind, keys in made.keys.items() for key in keys}
    named = list(_named(report, made))
    values, now = dict(made.rows), dict(made.damaged)

    def told(some: set[tuple[DifferenceKind, int]]) -> str:
        return listed([f"{kind} {key} ({values.get(key)!r} to {now.get(key)!r})" for kind, key in sorted(some, key=lambda pair: pair[1])])

    if unnamed := wanted - set(named):
        raise Differs(f"damage that was not named: {told(unnamed)}")
    if invented := set(named) - wanted:
        raise Differs(f"rows that were named and are equal: {told(invented)}")
    if len(named) != len(wanted):
        raise Differs(f"{len(wanted):,} rows differ, and the audit named {len(named):,}")
    if report.differences is None or not report.differences.exact:
        raise Differs("all damage was named, and the report does not say that this is all")


def _named(report: Report, made: Damaged) -> Iterator[tuple[DifferenceKind, int]]:
    """Yield what a report names, the keys of a range one by one. Raises Differs for a range that does not hold as many rows as it says."""
    for difference in report.differences or ():
        if not isinstance(difference, RangeDifference):
            yield difference.kind, difference.key_number
            continue
        if difference.first is None or difference.last is None:
            raise Differs(f"{difference.rows:,} rows are {difference.kind} in a range without limits")
        there = [
            key for key, _ in (made.damaged if difference.kind == "extra" else made.rows) if difference.first <= key <= difference.last
        ]
        if len(there) != difference.rows:
            raise Differs(
                f"{difference.rows:,} rows are {difference.kind} between {difference.first} and {difference.last}, "
                f"where {len(there):,} were written"
            )
        yield from ((difference.kind, key) for key in there)
