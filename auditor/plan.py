"""From two described tables and an audit to a plan: key, columns, kinds, partitions and chunks, and what was refused and why.

Three steps, because the partitions depend on the key's least and greatest value, which only the engines know: ``draft``
decides everything about columns, the caller asks each side for its ``Bounds``, ``finish`` decides partitions and chunks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from auditor import measures, tolerance
from auditor.columns import Endpoint, Names, column_plan, written
from auditor.config import Audit
from auditor.errors import ColumnRefused, HashMissing, NoSuchObject, PlanError
from auditor.expectation import choose
from auditor.model import SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, Side, SidePlan
from auditor.render import integer_key
from dialects import Column

CHUNK_ROWS = 262144
"""The most rows of one statement on a row store: beyond about 400,000 MariaDB spills its derived table to disk."""

COLUMN_CHUNK_ROWS = 1 << 26
"""The most rows of one statement on a column store."""

SNAPSHOT_ROWS = 1 << 23
"""Rows up to which one snapshot is held while a whole side is read."""

LARGER_CHUNK = 4
"""How many times as many rows one statement has where nothing spills: a chunk costs a plan, and its expressions compiled."""

COUNTS_ROWS = 1 << 20
"""Rows a partition should hold under the counts method where partitions are asked for without their size: its summaries are
large and cheap to compute."""

SALTED = frozenset({"signature", "exact"})
"""Methods whose row text may begin with a salt."""

RANDOM = "random"
"""The salt that is drawn anew for every connected run, and left out of SQL for consoles."""

WIDEST = 64
"""How many possible keys there may be for each row before range partitions give way to hash partitions."""

DIVISIBLE = 32
"""What the width of large range partitions is a multiple of, so that a second scan can cut them evenly."""

SPARSE_KEYS = 2**31 - DIVISIBLE
"""The widest a range partition may be: narrower than the field that positions are taken from."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one side says of its rows: about how many, and the least and greatest key (None for no rows or no integer key).

    ``even`` says of sparse keys whether they lie about evenly between these; None where nobody looked.
    """

    rows: int
    least: int | None = None
    greatest: int | None = None
    even: bool | None = None


def draft(name: str, audit: Audit, ends: Mapping[Side, Endpoint], method: Method | None = None) -> Plan:
    """The plan without its partitions: which columns are compared and as what, by ``method`` or else the audit's.

    Raises PlanError with everything that is wrong.
    """
    _check_hash(audit, ends)
    if method is None:
        method = choose((), audit.t, audit.partition.rows, ended=0) if audit.method == "auto" else audit.method
    names = Names(audit, ends)
    key = names.key()
    wanted = names.compared(key)
    problems: list[str] = list(names.problems)
    columns: list[ColumnPlan] = []
    for column in wanted:
        try:
            columns.append(column_plan(audit, ends, names, column, method))
        except PlanError as error:
            problems.append(str(error))
    sides = {side: _side(audit, ends, names, side, problems) for side in SIDES}
    problems += measures.problems(columns, audit.counts) if not problems else []
    if problems:
        told = "\n".join(f"  - {problem}" for problem in dict.fromkeys(problems))
        raise ColumnRefused(f"audit {name} cannot run as it is:\n{told}")
    return Plan(
        audit=name,
        method=method,
        sides=sides,
        columns=tuple(columns),
        key=len(key),
        partitioning=Partitioning(strategy="hash", buckets=1),
        hash=audit.algorithm,
        encoding=audit.encoding,
        k=(audit.k or (16 if method == "minhash" else 0)) if method in ("minhash", "exact") else 0,
        t=audit.t if method == "exact" else 0,
        bits=audit.bits if method == "exact" else 60,
        salt=audit.salt if method in SALTED and audit.salt != RANDOM and audit.encoding == "injective" else "",
        snapshot=audit.snapshot or ("whole" if max((end.table.estimate or 0) for end in ends.values()) <= SNAPSHOT_ROWS else "per_chunk"),
        left_out=tuple(names.left_out),
    )


def columns_named(audit: Audit, ends: Mapping[Side, Endpoint], name: str, what: str) -> dict[Side, Column]:
    """Both sides' columns that the source's ``name`` stands for. Raises NoSuchObject, in which ``what`` is the setting."""
    names = Names(audit, ends)
    found = {side: names.find(side, name) for side in SIDES}
    for side, column in found.items():
        if column is None:
            raise NoSuchObject(f"{what}: the column {name!r} is not in the {side} ({ends[side].label}){names.hint(side, name)}")
    return {side: column for side, column in found.items() if column}


def _check_hash(audit: Audit, ends: Mapping[Side, Endpoint]) -> None:
    for side in SIDES:
        if audit.algorithm == "md5" and not ends[side].dialect.HAS_MD5:
            raise HashMissing(
                f"the {side} ({ends[side].label}) has no MD5(): have its administrator run"
                " INSTALL COMPONENT 'file://component_classic_hashing', or use hash: sha256 with encoding: injective"
            )


def _side(audit: Audit, ends: Mapping[Side, Endpoint], names: Names, side: Side, problems: list[str]) -> SidePlan:
    end = ends[side]
    condition = ""
    if audit.where is not None:
        try:
            condition = f"({written(audit.where, 'where', ends, names, side)})"
        except PlanError as error:
            problems.append(str(error))
    return SidePlan(
        dialect=end.dialect.name,
        connection=end.connection,
        label=end.label,
        table=end.table.sql,
        where=condition,
        estimate=end.table.estimate,
    )


def finish(plan: Plan, audit: Audit, ends: Mapping[Side, Endpoint], bounds: Mapping[Side, Bounds]) -> Plan:
    """The plan with its partitions and chunks. Raises PlanError where the asked partitioning does not fit the key."""
    how = _partitioning(plan, audit, bounds)
    _check_size(plan, how, ends)
    ordered = integer_key(plan)
    least = [b.least for b in bounds.values() if b.least is not None and ordered]
    greatest = [b.greatest for b in bounds.values() if b.greatest is not None and ordered]
    whole = dataclasses.replace(plan, partitioning=how, least=min(least, default=None), greatest=max(greatest, default=None))
    sides = {side: _chunked(whole, ends[side], bounds[side].rows, side) for side in SIDES}
    return dataclasses.replace(whole, sides=sides, notes=tuple(_notes(whole, ends)))


def _partitioning(plan: Plan, audit: Audit, bounds: Mapping[Side, Bounds]) -> Partitioning:
    asked = audit.partition
    if plan.method == "counts" and not (asked.strategy or asked.size or asked.buckets or asked.column):
        return Partitioning(strategy="whole", why="the method counts measures the whole table")
    aim = max(asked.rows, COUNTS_ROWS) if plan.method == "counts" else asked.rows
    rows = max(b.rows for b in bounds.values())
    aim = max(aim, math.ceil(rows / asked.limit))
    if asked.strategy == "time" or (asked.column and asked.strategy is None):
        return _by_time(plan, audit)
    buckets = asked.buckets or max(1, min(asked.limit, math.ceil(rows / aim)))
    if asked.strategy == "hash" or asked.buckets:
        return Partitioning(strategy="hash", buckets=buckets, why="the audit says so")
    if not integer_key(plan):
        if asked.strategy == "range" or asked.size:
            raise PlanError(f"audit {plan.audit}: range partitions need a key of one integer column; write strategy: hash")
        return Partitioning(strategy="hash", buckets=buckets, why="the key is not one integer column")
    if asked.size:
        return Partitioning(strategy="range", size=asked.size, why="the audit says so")
    span = _span(bounds)
    size = max(1, math.ceil(aim * span / max(rows, 1)))
    even = bounds["source"].even and bounds["target"].even is not False
    if even and span <= SPARSE_KEYS * asked.limit:
        size = min(size, SPARSE_KEYS)
    if asked.strategy == "range" or size <= min(aim * WIDEST, SPARSE_KEYS) or (even and size <= SPARSE_KEYS):
        size = max(size, math.ceil(span / asked.limit))
        if DIVISIBLE**2 < size < SPARSE_KEYS:
            size = math.ceil(size / DIVISIBLE) * DIVISIBLE
        return Partitioning(strategy="range", size=max(2, size), why=f"an integer key{_spread(plan, ', ', span, rows)}")
    return Partitioning(strategy="hash", buckets=buckets, why=f"the key is sparse{_spread(plan, ': ', span, rows)}")


def _spread(plan: Plan, mark: str, span: int, rows: int) -> str:
    """How far the rows' keys are spread; nothing where the key is masked, for the least is often 1 and the span then the greatest."""
    return "" if plan.columns[0].masked else f"{mark}{span:,} possible values for about {rows:,} rows"


def _span(bounds: Mapping[Side, Bounds]) -> int:
    """How many keys there can be between the least and the greatest of both sides."""
    least = [b.least for b in bounds.values() if b.least is not None]
    greatest = [b.greatest for b in bounds.values() if b.greatest is not None]
    return max(greatest) - min(least) + 1 if least and greatest else 1


def _by_time(plan: Plan, audit: Audit) -> Partitioning:
    name = audit.partition.column
    if not name:
        raise PlanError(f"audit {plan.audit}: time partitions need a column: partition: {{strategy: time, column: ...}}")
    for index, column in enumerate(plan.columns):
        if column.name.lower() == name.lower():
            if column.null_as is not None:
                raise PlanError(f"audit {plan.audit}: partitions are cut by the column {name!r}: it cannot have null_as")
            held = {n.name for n in column.native.values()}
            if audit.partition.unit == "hour" and "date" in held | {column.kind.name}:
                raise PlanError(
                    f"audit {plan.audit}: the column {name!r} of its time partitions has no hours"
                    f" ({' and '.join(column.types[side] for side in SIDES)}, compared as {column.kind}); write unit: day"
                )
            if held <= {"date", "timestamp", "timestamptz"}:
                return Partitioning(strategy="time", unit=audit.partition.unit, column=index, why="the audit says so")
            raise PlanError(f"audit {plan.audit}: the column {name!r} of its time partitions holds no dates or timestamps")
    raise PlanError(f"audit {plan.audit}: the column {name!r} of its time partitions is not compared")


def _check_size(plan: Plan, how: Partitioning, ends: Mapping[Side, Endpoint]) -> None:
    if how.strategy == "range" and how.size < 2 and plan.columns[0].kind.unsigned:
        raise PlanError(f"audit {plan.audit}: partitions of an unsigned key hold at least 2 keys; write size: 2 or more")


def _chunked(plan: Plan, end: Endpoint, rows: int, side: Side) -> SidePlan:
    """A side with its chunks: with an integer key a long table is read in key ranges, on a row store through its index.

    A column store reads much at once and finds a key range by its sort key at best, so its chunks are larger.
    """
    here = dataclasses.replace(plan.sides[side], estimate=rows)
    most = COLUMN_CHUNK_ROWS if not end.dialect.ROW_STORE else CHUNK_ROWS if end.dialect.SPILLS else CHUNK_ROWS * LARGER_CHUNK
    if not plan.span or rows <= (CHUNK_ROWS if end.dialect.ROW_STORE else COLUMN_CHUNK_ROWS):
        return here
    column = plan.columns[0]
    middle = (plan.least or 0) + plan.span // 2
    middle -= middle % (plan.partitioning.size or 1)
    # A chunk is read piece by piece between bounds, in which no row without a key lies. What is computed may be NULL for all we know.
    never_null = column.expression[side] in {end.dialect.quote(c.name) for c in end.table.columns if not c.nullable}
    chunks = (Chunk(),) if never_null else (Chunk(end=middle), Chunk(first=middle), Chunk(null_key=True))
    return dataclasses.replace(here, chunks=chunks, chunk_keys=math.ceil(plan.span * most / rows))


def _notes(plan: Plan, ends: Mapping[Side, Endpoint]) -> list[str]:
    notes = [f"{side}: {ends[side].dialect.SNAPSHOT}" for side in SIDES]
    if plan.snapshot == "per_chunk":
        notes = ["each chunk reads a snapshot of its own: a row that changes meanwhile is seen as it was when its chunk was read"]
    if plan.watermark:
        notes.append(f"rows from {plan.watermark} UTC on are left out on both sides")
    if plan.section and plan.section.has_times:
        notes.append(f"a row whose {plan.section.column} lies within on one side only is told as missing or extra")
    if plan.encoding == "published":
        notes.append("the published row text cannot tell NULL from the word NULL, nor where one column ends and the next begins")
    return notes + tolerance.notes(plan)
