"""From two described tables and an audit to a plan: key, columns, kinds, partitions and chunks, and what was refused and why.

Three steps, because the partitions depend on the key's least and greatest value, which only the engines know: ``draft``
decides everything about columns, the caller asks each side for its ``Bounds``, ``finish`` decides partitions and chunks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor import canonical, expressions
from auditor.canonical import Shared
from auditor.config import Audit, Override, Per, Sql, Written
from auditor.errors import ColumnRefused, HashMissing, NoKey, NoSuchObject, PlanError
from auditor.expectation import choose
from auditor.model import SIDES, Chunk, ColumnPlan, Method, Partitioning, Plan, Side, SidePlan
from auditor.render import integer_key
from dialects import Column, Dialect, Kind, Table, get

CHUNK_ROWS = 262144
"""Rows of one statement on a row store: beyond about 400,000 MariaDB spills its derived table to disk."""

COUNTS_ROWS = 1 << 20
"""Rows a partition should hold under the counts method, whose summaries are large and cheap to compute."""

SALTED = frozenset({"signature", "exact"})
"""Methods whose row text may begin with a salt."""

RANDOM = "random"
"""The salt that is drawn anew for every connected run, and left out of SQL for consoles."""

WIDEST = 64
"""How many possible keys there may be for each row before range partitions give way to hash partitions."""

SPARSE_KEYS = 2**31 - 2
"""The widest a range partition may be."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One side as it was found: its connection's name, the dialect its server speaks, the table."""

    connection: str
    label: str
    dialect: Dialect
    table: Table


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one side says of its rows: about how many, and the least and greatest key (None for no rows or no integer key).

    ``even`` says of sparse keys whether they lie about evenly between these; None where nobody looked.
    """

    rows: int
    least: int | None = None
    greatest: int | None = None
    even: bool | None = None


def draft(name: str, audit: Audit, ends: Mapping[Side, Endpoint]) -> Plan:
    """The plan without its partitions: which columns are compared and as what. Raises PlanError with everything that is wrong."""
    _check_hash(audit, ends)
    method: Method = choose((), audit.t, audit.partition.rows) if audit.method == "auto" else audit.method
    names = _Names(audit, ends)
    key = names.key()
    wanted = names.compared(key)
    problems: list[str] = list(names.problems)
    columns: list[ColumnPlan] = []
    for column in wanted:
        try:
            columns.append(_column(audit, ends, names, column))
        except PlanError as error:
            problems.append(str(error))
    sides = {side: _side(audit, ends, names, side, problems) for side in SIDES}
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
        left_out=tuple(names.left_out),
    )


def _check_hash(audit: Audit, ends: Mapping[Side, Endpoint]) -> None:
    for side in SIDES:
        if audit.algorithm == "md5" and not ends[side].dialect.HAS_MD5:
            raise HashMissing(
                f"the {side} ({ends[side].label}) has no MD5(): have its administrator run"
                " INSTALL COMPONENT 'file://component_classic_hashing', or use hash: sha256 with encoding: injective"
            )


class _Names:
    """The audit's names, found in the two catalogues: exactly as written, else whatever their letters' case."""

    def __init__(self, audit: Audit, ends: Mapping[Side, Endpoint]) -> None:
        self.audit = audit
        self.ends = ends
        self.problems: list[str] = []
        self.left_out: list[str] = []
        self.renamed = {a.lower(): b for a, b in audit.target.columns.items()}

    def find(self, side: Side, name: str) -> Column | None:
        """The column of a side that the source's ``name`` stands for."""
        wanted = self.renamed.get(name.lower(), name) if side == "target" else name
        columns = self.ends[side].table.columns
        exact = [c for c in columns if c.name == wanted]
        loose = [c for c in columns if c.name.lower() == wanted.lower()]
        return exact[0] if exact else loose[0] if len(loose) == 1 else None

    def key(self) -> list[str]:
        """The key's columns by the source's names. Raises NoKey, or NoSuchObject for a column that a side does not have."""
        key = self.audit.key or self.ends["source"].table.primary_key
        if not key:
            raise NoKey(f"{self.ends['source'].label} has no primary key: write key: [column, ...] in the audit")
        for name in key:
            for side in SIDES:
                if not self.find(side, name):
                    raise NoSuchObject(f"the key's column {name!r} is not in the {side} ({self.ends[side].label}){self.hint(side)}")
        return [column.name for name in key if (column := self.find("source", name))]

    def compared(self, key: Sequence[str]) -> list[str]:
        """The compared columns by the source's names, the key's first; notes what is left out and what is missing."""
        rules = self.audit.columns
        excluded = {name.lower() for name in rules.exclude}
        included = {name.lower() for name in rules.include}
        computed = {name.lower(): name for name, rule in rules.override.items() if rule.expr is not None}
        here = [column.name for column in self.ends["source"].table.columns]
        every = [*here, *(name for low, name in computed.items() if low not in {h.lower() for h in here})]
        self._check_written([*rules.exclude, *rules.include, *rules.override, *self.audit.target.columns], every)
        wanted = list(key)
        for name in every:
            low = name.lower()
            if name in wanted:
                continue
            if low in excluded or (included and low not in included):
                self.left_out.append(f"{name}: left out by the audit")
            elif low not in computed and not self.find("target", name):
                self.problems.append(f"column {name!r} is not in the target ({self.ends['target'].label}){self.hint('target')}")
            else:
                wanted.append(name)
        used = {column.name for name in wanted if (column := self.find("target", name))}
        extra = [c.name for c in self.ends["target"].table.columns if c.name not in used and c.name.lower() not in excluded]
        self.left_out += [f"{name}: only in the target" for name in extra]
        return wanted

    def hint(self, side: Side) -> str:
        return "; map it under target: columns: {source name: target name}, or exclude it" if side == "target" else ""

    def _check_written(self, written: Sequence[str], every: Sequence[str]) -> None:
        known = {name.lower() for side in SIDES for name in (c.name for c in self.ends[side].table.columns)}
        known |= {name.lower() for name in every}
        self.problems += [f"the audit names a column {name!r} that neither side has" for name in written if name.lower() not in known]

    def for_expressions(self, side: Side) -> dict[str, str]:
        """Names a person may write in a filter, in lower case, to this side's names."""
        found = {c.name.lower(): c.name for c in self.ends[side].table.columns}
        for column in self.ends["source"].table.columns:
            if there := self.find(side, column.name):
                found[column.name.lower()] = there.name
        return found


def _side(audit: Audit, ends: Mapping[Side, Endpoint], names: _Names, side: Side, problems: list[str]) -> SidePlan:
    end = ends[side]
    condition = ""
    if audit.where is not None:
        try:
            condition = f"({_written(audit.where, 'where', ends, names, side)})"
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


def _written(sql: Sql, what: str, ends: Mapping[Side, Endpoint], names: _Names, side: Side) -> str:
    """A person's SQL, as this side has to spell it."""
    write = ends[side].dialect
    match sql:
        case Per():
            text, read = (sql.source if side == "source" else sql.target), write
        case Written():
            try:
                text, read = sql.sql, get(sql.dialect)
            except LookupError as error:
                raise PlanError(f"{what}: {error}") from None
        case _:
            text, read = sql, ends["source"].dialect
    return expressions.translate(text, read, write, names.for_expressions(side), what)


def _column(audit: Audit, ends: Mapping[Side, Endpoint], names: _Names, name: str) -> ColumnPlan:
    rules = {key.lower(): rule for key, rule in audit.columns.override.items()}
    rule = rules.get(name.lower(), Override())
    found = {side: names.find(side, name) for side in SIDES}
    asked = canonical.parse_kind(rule.kind) if rule.kind else None
    if rule.round is not None:
        asked = Kind("rounded", scale=rule.round)
    if rule.expr is not None and asked:
        return ColumnPlan(
            name=name,
            kind=asked,
            native=dict.fromkeys(SIDES, asked),
            expression={side: f"({_written(rule.expr, f'expr of {name}', ends, names, side)})" for side in SIDES},
            types=dict.fromkeys(SIDES, "an expression"),
            why="the audit's expression",
            trim=rule.trim,
            case=rule.case,
            null_as=rule.null_as,
            masked=rule.mask,
        )
    both = {side: column for side, column in found.items() if column}
    native = {side: _native(column, name, side, ends[side]) for side, column in both.items()}
    shared = _asked(asked, native, name, both) if asked else _negotiated(native, name, both)
    _check_digits(shared, native, name, ends)
    return ColumnPlan(
        name=name,
        kind=shared.kind,
        native=native,
        expression={side: ends[side].dialect.quote(column.name) for side, column in both.items()},
        types={side: column.native for side, column in both.items()},
        why=shared.why,
        lossy=shared.lossy,
        trim=rule.trim,
        case=rule.case,
        null_as=rule.null_as,
        masked=rule.mask,
    )


def _native(column: Column, name: str, side: Side, end: Endpoint) -> Kind:
    if column.kind is None:
        raise ColumnRefused(
            f"column {name!r}: {end.dialect.name}'s type {column.native!r} of the {side} has no canonical text;"
            f" exclude it, or write columns: override: {{{name}: {{expr: ..., kind: ...}}}}"
        )
    return column.kind


def _negotiated(native: Mapping[Side, Kind], name: str, both: Mapping[Side, Column]) -> Shared:
    shared = canonical.share(native["source"], native["target"])
    if shared is None:
        types = " and ".join(both[side].native for side in SIDES)
        raise ColumnRefused(
            f"column {name!r}: {types} share no kind; exclude it, or write columns: override: {{{name}: {{kind: ...}}}} (or round:, expr:)"
        )
    return shared


def _asked(kind: Kind, native: Mapping[Side, Kind], name: str, both: Mapping[Side, Column]) -> Shared:
    for side in SIDES:
        if not canonical.can_render(kind, native[side]):
            raise ColumnRefused(f"column {name!r}: the {side}'s {both[side].native} cannot be compared as {kind}")
    lossy = f"values are rounded to {kind.scale} digits behind the point" if kind.name == "rounded" else None
    return Shared(kind, "the audit says so", lossy)


def _check_digits(shared: Shared, native: Mapping[Side, Kind], name: str, ends: Mapping[Side, Endpoint]) -> None:
    if shared.kind.name != "decimal":
        return
    for side in SIDES:
        whole = (native[side].digits or 0) - (native[side].scale or 0)
        most = ends[side].dialect.MAX_DECIMAL_DIGITS
        if whole + (shared.kind.scale or 0) > most:
            raise ColumnRefused(
                f"column {name!r}: {whole} digits before the point and {shared.kind.scale} behind it are more than the {most} that"
                f" {ends[side].dialect.name} computes with; write columns: override: {{{name}: {{kind: 'decimal(38,{most - whole})'}}}}"
            )


def finish(plan: Plan, audit: Audit, ends: Mapping[Side, Endpoint], bounds: Mapping[Side, Bounds]) -> Plan:
    """The plan with its partitions and chunks. Raises PlanError where the asked partitioning does not fit the key."""
    how = _partitioning(plan, audit, bounds)
    _check_size(plan, how, ends)
    whole = dataclasses.replace(plan, partitioning=how, span=_span(bounds) if integer_key(plan) else 0)
    sides = {
        side: dataclasses.replace(plan.sides[side], chunks=_chunks(whole, ends[side], bounds, side), estimate=bounds[side].rows)
        for side in SIDES
    }
    return dataclasses.replace(whole, sides=sides, notes=tuple(_notes(whole, ends)))


def _partitioning(plan: Plan, audit: Audit, bounds: Mapping[Side, Bounds]) -> Partitioning:
    asked = audit.partition
    aim = max(asked.rows, COUNTS_ROWS) if audit.method == "counts" else asked.rows
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
    if asked.strategy == "range" or size <= min(aim * WIDEST, SPARSE_KEYS) or (even and size <= SPARSE_KEYS):
        size = max(size, math.ceil(span / asked.limit))
        return Partitioning(strategy="range", size=max(2, size), why=f"an integer key, {span:,} possible values for about {rows:,} rows")
    return Partitioning(strategy="hash", buckets=buckets, why=f"the key is sparse: {span:,} possible values for about {rows:,} rows")


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
            if {n.name for n in column.native.values()} <= {"date", "timestamp", "timestamptz"}:
                return Partitioning(strategy="time", unit=audit.partition.unit, column=index, why="the audit says so")
            raise PlanError(f"audit {plan.audit}: the column {name!r} of its time partitions holds no dates or timestamps")
    raise PlanError(f"audit {plan.audit}: the column {name!r} of its time partitions is not compared")


def _check_size(plan: Plan, how: Partitioning, ends: Mapping[Side, Endpoint]) -> None:
    if how.strategy == "range" and how.size < 2 and plan.columns[0].kind.unsigned:
        raise PlanError(f"audit {plan.audit}: partitions of an unsigned key hold at least 2 keys; write size: 2 or more")


def _chunks(plan: Plan, end: Endpoint, bounds: Mapping[Side, Bounds], side: Side) -> tuple[Chunk, ...]:
    """Row stores with an integer key are read in chunks of whole key ranges through its index; all else in one statement.

    The ranges cover both sides' keys, so that the same chunks serve both; the first and the last are open at their ends.
    """
    least = [b.least for b in bounds.values() if b.least is not None]
    rows = bounds[side].rows
    how = plan.partitioning
    adds_up = how.strategy == "range" or (how.strategy == "hash" and plan.method != "counts")  # measures do not
    if not end.dialect.ROW_STORE or not integer_key(plan) or not least or rows <= CHUNK_ROWS or not adds_up:
        return (Chunk(),)
    span = _span(bounds)
    size = plan.partitioning.size or 1
    width = max(size, math.ceil(span * CHUNK_ROWS / rows / size) * size)
    first = min(least) // size * size
    cuts = list(range(first + width, first + span, width))
    edges: list[Any] = [None, *cuts, None]
    chunks = [Chunk(first=edges[i], end=edges[i + 1]) for i in range(len(edges) - 1)]
    column = plan.columns[0]
    nullable = any(c.nullable for c in end.table.columns if end.dialect.quote(c.name) == column.expression[side])
    return tuple([*chunks, Chunk(null_key=True)] if nullable and cuts else chunks)


def _notes(plan: Plan, ends: Mapping[Side, Endpoint]) -> list[str]:
    notes = [f"{side}: {ends[side].dialect.SNAPSHOT}" for side in SIDES]
    if plan.encoding == "published":
        notes.append("the published row text cannot tell NULL from the word NULL, nor where one column ends and the next begins")
    return notes
