"""Plan an audit from the descriptions of its two tables: key, columns, settings of counts, partitions and chunks.

Planning takes three steps, because partitions depend on the least and greatest key, which only the engines know: ``draft`` plans
the columns, the caller queries each side's ``Bounds``, and ``finish`` plans partitions and chunks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

from auditor import canonical
from auditor.compare import tolerance
from auditor.config import Audit, Counts
from auditor.errors import HashMissing, NoSuchObject, PlanError
from auditor.model import SIDES, ColumnPlan, Method, NotCompared, Partitioning, Plan, Side, SidePlan
from auditor.planning import conventions, filters, not_compared
from auditor.planning.chunks import plan_chunks
from auditor.planning.columns import Endpoint, NameResolver, column_plan, hash_long_columns, note_digests, refuse
from auditor.planning.cost import choose_method
from auditor.planning.filters import Clock
from auditor.planning.partitioning import Bounds, choose_partitioning, count_rows
from auditor.summary import measures
from dialects import Column

SNAPSHOT_ROWS = 1 << 25
"""Most rows of a table for which one snapshot is held while a whole side is read, for some two minutes; beyond, each chunk has its own."""

SALTED_METHODS = frozenset({"signature", "exact"})
"""Methods whose row text may begin with a salt."""

RANDOM_SALT = "random"
"""Value of ``salt`` for a random salt per run; SQL for consoles has no salt then."""

AMBIGUITY = "the published row text cannot distinguish NULL from the word NULL, nor where one column ends and the next begins"
"""What the published encoding does not see."""

HIDDEN_COLUMNS = "this user may read only some columns of {table}: the others are not compared (GRANT SELECT on the table shows them)"
"""What is hidden where a user has rights on columns alone."""


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
    how = choose_partitioning(plan, audit, bounds)
    ordered = plan.has_integer_key
    least = [b.least for b in bounds.values() if b.least is not None and ordered]
    greatest = [b.greatest for b in bounds.values() if b.greatest is not None and ordered]
    whole = dataclasses.replace(plan, partitioning=how, least=min(least, default=None), greatest=max(greatest, default=None))
    sides = {side: plan_chunks(whole, ends[side], bounds[side].rows, side) for side in plan.read_sides}
    if "source" not in sides:
        sides = {"source": dataclasses.replace(plan.sides["source"], estimate=count_rows(bounds)["source"]), **sides}
    return dataclasses.replace(whole, sides=sides, notes=(*_notes(whole, ends), *plan.notes))


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
