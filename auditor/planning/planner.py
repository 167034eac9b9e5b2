"""Plan an audit from the descriptions of its two tables: key, columns, settings of counts, partitions and chunks.

Planning takes three steps, because partitions depend on the least and greatest key, which only the engines know: ``draft`` plans
the columns, the caller queries each side's ``Bounds``, and ``finish`` plans partitions and chunks.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditor import canonical
from auditor.compare import tolerance
from auditor.config import Audit, Counts
from auditor.errors import HashMissing, NoSuchObject, PlanError
from auditor.model import SIDES, ColumnPlan, Method, NotCompared, Partitioning, Plan, Side, SidePlan, side_of
from auditor.planning import conventions, filters, not_compared
from auditor.planning.chunks import plan_chunks
from auditor.planning.columns import Endpoint, NameResolver, column_plan, hash_long_columns, note_digests, refuse
from auditor.planning.cost import choose_method
from auditor.planning.filters import Clock
from auditor.summary import measures
from dialects import Column

SNAPSHOT_ROWS = 1 << 25
"""Most rows of a table for which one snapshot is held while a whole side is read, for some two minutes; beyond, each chunk has its own."""

COUNTS_ROWS = 1 << 20
"""Least aim of rows per partition for the method counts, if its partitions have no configured size: its summaries are large."""

FINER_FROM, FINER_PARTITIONS = 1 << 16, 512
"""Rows from which the method exact cuts a table into at least this many partitions, unless rows of a partition are configured: 1 % of
differing rows is then named from one scan. A second scan of a smaller table costs nothing that anybody notices, and of a table with as many
partitions of the usual size the summaries would become large."""

SALTED_METHODS = frozenset({"signature", "exact"})
"""Methods whose row text may begin with a salt."""

RANDOM_SALT = "random"
"""Value of ``salt`` for a random salt per run; SQL for consoles has no salt then."""

MAX_KEYS_PER_ROW = 64
"""Most possible keys per row for range partitions; sparser keys get hash partitions."""

SIZE_MULTIPLE = 32
"""Sizes of large range partitions, and of those that are cut finer, are multiples of this, so that a second scan can divide them evenly."""

MAX_RANGE_KEYS = 2**31 - SIZE_MULTIPLE
"""Most keys of a range partition, so that positions stay below p = 2^31 - 1."""

AMBIGUITY = "the published row text cannot distinguish NULL from the word NULL, nor where one column ends and the next begins"
"""What the published encoding does not see."""

HIDDEN_COLUMNS = "this user may read only some columns of {table}: the others are not compared (GRANT SELECT on the table shows them)"
"""What is hidden where a user has rights on columns alone."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The extent of one side's rows."""

    rows: int
    """Rows, counted or estimated."""
    least: int | None = None
    """Least key; None if there are no rows or the key is not one integer column."""
    greatest: int | None = None
    """Greatest key; None where ``least`` is."""
    even: bool | None = None
    """Whether sparse keys are distributed about uniformly between these; None if that was not checked."""


def draft(name: str, audit: Audit, ends: Mapping[Side, Endpoint], method: Method | None = None, clock: Clock | None = None) -> Plan:
    """Return the plan without its partitions: the compared columns and their kinds, for ``method`` or else the audit's method.

    ``clock`` returns the source's time in UTC, and is called at most once; None if no time is needed, since only the columns are.
    Raises PlanError; ColumnRefused lists all problems of columns, filters and expressions at once.
    """
    _check_hash(audit, ends)
    if method is None:
        method = choose_method((), audit.t, audit.partition.rows, finished_runs=0) if audit.method == "auto" else audit.method
    names = NameResolver(audit, ends)
    key = names.key()
    compared = names.compared_columns(key)
    problems: list[str] = list(names.problems)
    columns: list[ColumnPlan] = []
    for column in compared:
        try:
            columns.append(column_plan(audit, ends, names, column, method))
        except PlanError as error:
            problems.append(str(error))
    chosen = filters.plan_filter(audit.where, ends, names, clock, problems, ("source",) if audit.where_on == "source" else SIDES)
    prefix = choose_prefix(ends)
    sides = {side: _side_plan(ends[side], chosen.sql[side], prefix) for side in SIDES}
    for side, end in ends.items():
        if end.follows:
            columns_of_key = [there for name in key if (there := names.find(side, name))]
            sides[side] = conventions.plan_side(sides[side], end.follows, columns_of_key, end.dialect, prefix)
    problems += _counts_problems(columns, audit.counts) if not problems else []
    if problems:
        refuse(name, problems)
    settled = hash_long_columns(columns, ends) if audit.encoding == "injective" else tuple(columns)
    return Plan(
        audit=name,
        method=method,
        sides=sides,
        columns=settled,
        key=len(key),
        partitioning=Partitioning(strategy="hash", buckets=1),
        prefix=prefix,
        hash=audit.algorithm,
        encoding=audit.encoding,
        k=(audit.k or (16 if method == "minhash" else 0)) if method in ("minhash", "exact") else 0,
        t=audit.t if method == "exact" else 0,
        bits=audit.bits if method == "exact" else 60,
        salt=audit.salt if method in SALTED_METHODS and audit.salt != RANDOM_SALT and audit.encoding == "injective" else "",
        snapshot=audit.snapshot or ("whole" if max((end.table.estimate or 0) for end in ends.values()) <= SNAPSHOT_ROWS else "per_chunk"),
        not_compared=(*_hidden(ends), *chosen.assumed, *_not_compared(audit, names, columns)),
        now=chosen.now,
        notes=(*(note for side in SIDES for note in ends[side].notes), *chosen.notes, *note_digests(settled)),
        version=canonical.VERSION,
    )


def choose_prefix(ends: Mapping[Side, Endpoint]) -> str:
    """Return how the plan's own names begin: ``a_``, or ``a1_`` and so on if a column, a table's name, or a word of a query begins so.

    Nothing else keeps them apart: an engine may take a name of ours in a subquery for a column, or a column for one of ours.
    """
    tables = [end.table for end in ends.values()]
    taken = [name.casefold() for table in tables for name in (*table.names, *(column.name for column in table.columns))]
    taken += [column.name.casefold() for end in ends.values() if end.follows for column in end.follows.metadata]
    taken += [word.casefold() for end in ends.values() for word in re.findall(r"\w+", end.query)]
    prefixes = ("a_", *(f"a{number}_" for number in range(1, len(taken) + 1)))  # of which each name rules out one
    return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in taken))


def find_columns(audit: Audit, ends: Mapping[Side, Endpoint], name: str, what: str) -> dict[Side, Column]:
    """Return the columns of the source's ``name`` in all tables that are read, by side.

    Raises NoSuchObject; ``what`` names the setting in its message.
    """
    columns: dict[Side, Column] = {}
    for place, pair in pairs(ends).items():
        names = NameResolver(audit, pair)
        for side, end in pair.items():
            column = names.find(side, name)
            if column is None:
                raise NoSuchObject(f"{what}: the column {name!r} is not in the {side} ({end.label}){names.hint(side, name)}")
            columns[place if side == "source" else side] = column
    return columns


def pairs(ends: Mapping[Side, Endpoint]) -> dict[Side, dict[Side, Endpoint]]:
    """Return the source's table, or each of its shards, beside the target as the two sides of an audit, by what stands for it."""
    return {side: {"source": end, "target": ends["target"]} for side, end in ends.items() if side != "target"}


def _check_hash(audit: Audit, ends: Mapping[Side, Endpoint]) -> None:
    for side in SIDES:
        if audit.algorithm == "md5" and not ends[side].dialect.hashes.HAS_MD5:
            raise HashMissing(
                f"the {side} ({ends[side].label}) has no MD5(): have its administrator run"
                " INSTALL COMPONENT 'file://component_classic_hashing', or use hash: sha256 with encoding: injective"
            )


def _hidden(ends: Mapping[Side, Endpoint]) -> list[NotCompared]:
    """Return what the servers may hide from the sessions, and what is taken for granted of queries."""
    hidden: list[NotCompared] = []
    for side in SIDES:
        columns = [HIDDEN_COLUMNS.format(table=ends[side].table.sql)] if ends[side].hides_columns else []
        hidden += [NotCompared(column="", how="hidden", what=what, side=side) for what in (*columns, *ends[side].protections)]
        hidden += [NotCompared(column="", how="assumed", what=what, side=side) for what in ends[side].assumed]
    return hidden


def _not_compared(audit: Audit, names: NameResolver, columns: Sequence[ColumnPlan]) -> tuple[NotCompared, ...]:
    """Return what a plan of these columns does not see: of whole rows, of columns left out, and of each compared column."""
    rows = [NotCompared(column="", how="folded", what=AMBIGUITY)] if audit.encoding == "published" else []
    return (*rows, *names.not_compared, *(entry for column in columns for entry in not_compared.of_column(column)))


def _side_plan(end: Endpoint, where: str, prefix: str) -> SidePlan:
    return SidePlan(
        dialect=end.dialect.name,
        connection=end.connection,
        label=end.label,
        table=f"{end.table.sql} {prefix}read_query" if end.query else end.table.sql,
        query=end.query,
        where=where,
        estimate=end.table.estimate,
    )


def finish(plan: Plan, audit: Audit, ends: Mapping[Side, Endpoint], bounds: Mapping[Side, Bounds]) -> Plan:
    """Return the plan with its partitions and chunks. Raises PlanError if the configured partitioning does not fit the key."""
    how = _partitioning(plan, audit, bounds)
    _check_range_size(plan, how, ends)
    ordered = plan.has_integer_key
    least = [b.least for b in bounds.values() if b.least is not None and ordered]
    greatest = [b.greatest for b in bounds.values() if b.greatest is not None and ordered]
    whole = dataclasses.replace(plan, partitioning=how, least=min(least, default=None), greatest=max(greatest, default=None))
    sides = {side: plan_chunks(whole, ends[side], bounds[side].rows, side) for side in plan.read_sides}
    if "source" not in sides:
        sides = {"source": dataclasses.replace(plan.sides["source"], estimate=_count_rows(bounds)["source"]), **sides}
    return dataclasses.replace(whole, sides=sides, notes=(*_notes(whole, ends), *plan.notes))


def _count_rows(bounds: Mapping[Side, Bounds]) -> dict[Side, int]:
    """Return about how many rows both sides have; those of shards add up."""
    rows: dict[Side, int] = dict.fromkeys(SIDES, 0)
    for side, side_bounds in bounds.items():
        rows[side_of(side)] += side_bounds.rows
    return rows


def _partitioning(plan: Plan, audit: Audit, bounds: Mapping[Side, Bounds]) -> Partitioning:
    settings = audit.partition
    if plan.method == "counts" and not (settings.strategy or settings.size or settings.buckets or settings.column):
        return Partitioning(strategy="whole", why="the method counts measures the whole table")
    rows = max(_count_rows(bounds).values())
    aim = max(_aim(plan, audit, rows), math.ceil(rows / settings.limit))
    if settings.strategy == "time" or (settings.column and settings.strategy is None):
        return _time_partitioning(plan, audit)
    buckets = settings.buckets or max(1, min(settings.limit, math.ceil(rows / aim)))
    if settings.strategy == "hash" or settings.buckets:
        return Partitioning(strategy="hash", buckets=buckets, why="the audit says so")
    if not plan.has_integer_key:
        if (settings.strategy == "range" or settings.size) and plan.columns[0].masked:
            raise PlanError(f"audit {plan.audit}: range partitions would reveal values of its masked key; write strategy: hash")
        if settings.strategy == "range" or settings.size:
            raise PlanError(f"audit {plan.audit}: range partitions need a key of one integer column; write strategy: hash")
        why = "the key is masked" if any(column.masked for column in plan.key_columns) else "the key is not one integer column"
        return Partitioning(strategy="hash", buckets=buckets, why=why)
    if settings.size:
        return Partitioning(strategy="range", size=settings.size, why="the audit says so")
    span = _span(bounds)
    size = max(1, math.ceil(aim * span / max(rows, 1)))
    sparse = [side_bounds.even for side, side_bounds in bounds.items() if side != "target"]
    even = all(sparse) and bounds["target"].even is not False
    if even and span <= MAX_RANGE_KEYS * settings.limit:
        size = min(size, MAX_RANGE_KEYS)
    if settings.strategy == "range" or size <= min(aim * MAX_KEYS_PER_ROW, MAX_RANGE_KEYS) or (even and size <= MAX_RANGE_KEYS):
        size = max(size, math.ceil(span / settings.limit))
        if SIZE_MULTIPLE**2 < size < MAX_RANGE_KEYS:
            size = math.ceil(size / SIZE_MULTIPLE) * SIZE_MULTIPLE
        elif aim < settings.rows:  # cut finer, with room below the limit
            size -= size % SIZE_MULTIPLE
        return Partitioning(strategy="range", size=max(2, size), why=f"an integer key, {_span_text(span, rows)}")
    return Partitioning(strategy="hash", buckets=buckets, why=f"the key is sparse: {_span_text(span, rows)}")


def _aim(plan: Plan, audit: Audit, rows: int) -> int:
    """Return how many rows a partition should hold, of a table of so many: a power of two where the table is cut finer than usual."""
    configured = audit.partition.rows
    if plan.method == "counts":
        return max(configured, COUNTS_ROWS)
    if plan.method != "exact" or rows < FINER_FROM or "rows" in audit.partition.model_fields_set:
        return configured
    return min(configured, 1 << (rows // FINER_PARTITIONS).bit_length() - 1)


def _span_text(span: int, rows: int) -> str:
    return f"{span:,} possible values for about {rows:,} rows"


def _span(bounds: Mapping[Side, Bounds]) -> int:
    """Return the number of possible keys from the least to the greatest of both sides, at least 1."""
    least = [b.least for b in bounds.values() if b.least is not None]
    greatest = [b.greatest for b in bounds.values() if b.greatest is not None]
    return max(greatest) - min(least) + 1 if least and greatest else 1


def _time_partitioning(plan: Plan, audit: Audit) -> Partitioning:
    name = audit.partition.column
    if not name:
        raise PlanError(f"audit {plan.audit}: time partitions need a column: partition: {{strategy: time, column: ...}}")
    for index, column in enumerate(plan.columns):
        if column.name.lower() == name.lower():
            if column.masked:
                raise PlanError(
                    f"audit {plan.audit}: time partitions would reveal values of the masked column {name!r}; write another column, or"
                    " strategy: hash"
                )
            if column.null_as is not None:
                raise PlanError(f"audit {plan.audit}: partitions are cut by the column {name!r}: it cannot have null_as; remove it")
            kinds = {n.name for n in column.native.values()}
            if audit.partition.unit == "hour" and "date" in kinds | {column.kind.name}:
                raise PlanError(
                    f"audit {plan.audit}: the column {name!r} of its time partitions has no hours"
                    f" ({' and '.join(column.types[side] for side in SIDES)}, compared as {column.kind}); write unit: day"
                )
            if kinds <= {"date", "timestamp", "timestamptz"}:
                return Partitioning(strategy="time", unit=audit.partition.unit, column=index, why="the audit says so")
            raise PlanError(
                f"audit {plan.audit}: the column {name!r} of its time partitions holds no dates or timestamps; write another column"
            )
    raise PlanError(f"audit {plan.audit}: the column {name!r} of its time partitions is not compared; include it, or write another column")


def _check_range_size(plan: Plan, how: Partitioning, ends: Mapping[Side, Endpoint]) -> None:
    if how.strategy == "range" and how.size < 2 and plan.columns[0].kind.unsigned:
        raise PlanError(f"audit {plan.audit}: partitions of an unsigned key hold at least 2 keys; write size: 2 or more")


def _notes(plan: Plan, ends: Mapping[Side, Endpoint]) -> list[str]:
    notes = [f"{side}: {end.dialect.READ_CONSISTENCY}" for side, end in ends.items()]
    if plan.snapshot == "per_chunk":
        notes = ["each chunk reads a snapshot of its own: a row that changes meanwhile is seen as it was when its chunk was read"]
    if plan.watermark:
        notes.append(f"rows from {plan.watermark} UTC on are left out on both sides")
    if plan.slice and plan.slice.has_times:
        notes.append(f"a row whose {plan.slice.column} lies within on one side only is reported as missing or extra")
    return notes + tolerance.notes(plan)


def _counts_problems(columns: Sequence[ColumnPlan], counts: Counts) -> list[str]:
    """Return the problems of the settings, one sentence each."""
    sentences: list[str] = []
    known = {column.name.lower(): column for column in columns}
    for name in counts.classes:
        if name.lower() not in known:
            sentences.append(f"counts: the column {name!r} of classes is not compared; include it, or remove it from classes")
    for histogram in counts.histogram:
        column = known.get(histogram.column.lower())
        if column is None:
            sentences.append(f"counts: the column {histogram.column!r} of a histogram is not compared; include it, or remove the histogram")
        elif measures.family(column) not in measures.HISTOGRAMS:
            sentences.append(f"counts: a histogram needs numbers, dates or timestamps, and {column.name!r} is compared as {column.kind}")
    for name, limit in counts.allow.items():
        sentences += _allow_problems(name, str(limit), known, counts)
    return sentences


def _allow_problems(name: str, limit: str, known: Mapping[str, ColumnPlan], counts: Counts) -> list[str]:
    column, _, measure = name.strip().rpartition(" ")
    column = column.strip().lower()
    every = {measure for names in measures.MEASURES.values() for measure in names} | {"class", "histogram"}
    if name.strip() == "rows" or (column == "*" and measure in every):
        return []
    if column not in known:
        what = f"the column {column!r} is not compared" if column and measure in every else "write rows, 'column measure' or '* measure'"
        return [f"counts: allow names {name!r}: {what}"]
    there = [*measures.column_measures(known[column]), *(["class"] if column in _lower(counts.classes) else [])]
    there += ["histogram"] if column in _lower(histogram.column for histogram in counts.histogram) else []
    if measure not in there:
        return [f"counts: allow names {name!r}: the measures of {known[column].name!r} are {', '.join(there)}"]
    if limit.strip().endswith("%") and measure in measures.EXTREMES and measures.family(known[column]) in ("moment", "clock"):
        return [f"counts: allow names {name!r}: times deviate by seconds, not by a percentage; write seconds"]
    return []


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
