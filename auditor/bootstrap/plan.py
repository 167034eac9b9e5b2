"""What hangs on a target's table, and which tables are therefore not copied again."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import sql_templates
from auditor.api_models.bootstrap import Swap
from auditor.config import Audit
from auditor.connections.reader import Reader
from auditor.errors import BootstrapRefused, ColumnRefused
from auditor.model import SIDES, Chunk, ColumnPlan, Plan, Side
from auditor.planning import introspect, planner
from auditor.repair.rows import plan_transfer
from auditor.repair.target_facts import TargetFacts, read_facts, unwritten_columns
from auditor.repair.target_writer import writer_class
from auditor.sql import render
from auditor.sql.table_copy import BootstrapStatements, read_lines
from dialects import Dialect, Place, Session, Table

CARRIED = "owner, grants, comments, defaults, sequences, storage settings, replica identity, names of indexes and constraints"
"""What every table has that goes to the one that takes its name."""


@dataclass(frozen=True, slots=True)
class Dependents:
    """Objects by kind and name.

    ``child``: a table whose foreign key points here; ``parent``: one that a foreign key here points to; ``view``, ``publication``,
    ``policy``, ``partition``.
    """

    objects: Sequence[tuple[str, str]]

    def named(self, kind: str) -> list[str]:
        """Return the names of those of a kind."""
        return sorted(name for its_kind, name in self.objects if its_kind == kind)


def read_dependents(session: Session, table: Table) -> Dependents:
    """Return what hangs on a described table; nothing on one that is files below a folder."""
    if writer_class(session.dialect).COMMITS:
        return Dependents([])
    literals = {"schema": session.dialect.names.literal(table.names[-2]), "table": session.dialect.names.literal(table.names[-1])}
    rows = session.query(sql_templates.fill(session.dialect.template("dependents"), literals))
    return Dependents([(str(kind), str(name)) for kind, name in rows])


def read_bound(session: Session, table: Table) -> list[str]:
    """Return what a table would lose if another took its name, as its server describes it."""
    literals = {"schema": session.dialect.names.literal(table.names[-2]), "table": session.dialect.names.literal(table.names[-1])}
    return [str(what) for (what,) in session.query(sql_templates.fill(session.dialect.template("bootstrap_bound"), literals))]


def describe_carried(dependents: Dependents, old: str) -> Sequence[str]:
    """Return what a person should know of a rename: what goes to the new table, and what stays."""
    names = {"foreign keys to": "parent", "views": "view", "publications": "publication"}
    carried = [f"{what} {', '.join(there)}" for what, kind in names.items() if (there := dependents.named(kind))]
    return [
        f"the old table stays as {old}, its indexes and sequences under names that end like it",
        f"carried to the new one: {'; '.join([CARRIED, *carried])}",
        "all sessions wait while names are exchanged; its own wait for the table is short, and repeated",
    ]


def check_target(facts: TargetFacts, dependents: Dependents, key: Sequence[str], unwritten: Sequence[str]) -> None:
    """Raise BootstrapRefused for a table that cannot be copied again without harm. ``key`` and ``unwritten`` are the target's names."""
    table = facts.table
    if facts.named("view"):
        raise BootstrapRefused(f"{table} is a view; audit the table beneath it, and copy that again")
    if storage := facts.named("storage"):
        raise BootstrapRefused(f"{table} is stored by {storage[0]}, which has no transactions, so that no swap could be undone; alter it")
    if facts.enforces_keys and not any(index and index <= set(key) for index in facts.unique):
        raise BootstrapRefused(f"{table} has no primary or unique key of {', '.join(key)}, so that rows could be doubled; add one")
    if triggers := facts.named("trigger"):
        raise BootstrapRefused(f"{table} has the triggers {', '.join(triggers)}, which would act on every copied row; disable them first")
    if children := dependents.named("child"):
        raise BootstrapRefused(
            f"foreign keys of {', '.join(children)} point at {table}, whose rows are deleted while they are exchanged; drop these keys, and"
            " add them again afterwards"
        )
    if unwritten:
        raise BootstrapRefused(
            f"the audit does not compare {', '.join(unwritten)} of {table}, whose values would be lost; let the audit compare them too, or"
            " patch rows instead"
        )


RANGE_ROWS = 250_000
"""Rows of one range, which is copied at once: what is lost if the process is killed."""

COUNTED_ROWS = 1 << 18
"""Rows below which a table is counted, instead of taking the catalogue's estimate."""

SAMPLE_ROWS = 1000
"""Rows from whose lines the size of a copy is estimated."""

EVERYTHING = (Chunk(),)
"""The span that has every key, and the rows without one."""

NAME_LENGTH = 40
"""Characters of a table's name that stand in the name of the table for its replaced rows, so that no engine finds that too long."""

PREVIOUS = "the version before"
"""Where the replaced rows are of a table whose changes are commits."""

Road = Literal["direct", "files", "executors"]


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """What a bootstrap does, and what it needs to do it."""

    audit: str
    """Name of the audit."""
    labels: Mapping[Side, str]
    """Connection and table of each side, for a person."""
    plan: Plan
    """How rows are read; its filters are the audit's, with the slice."""
    columns: Sequence[ColumnPlan]
    """The columns that are copied."""
    statements: BootstrapStatements
    table: Table
    """The target's table."""
    stage: str
    """Name of the table that is copied into."""
    old: str
    """Name of the table for the replaced rows."""
    spans: Sequence[Chunk]
    """The ranges of keys that are copied again; one without bounds for all rows."""
    ranges: Sequence[Chunk]
    rows: int
    """About how many rows are copied."""
    line_bytes: int
    """About how long a row's line is."""
    road: Road
    is_one_moment: bool
    """Whether all ranges are read in one snapshot."""
    swap: Swap
    why: str
    """Why it is swapped in so."""
    effects: Sequence[str]
    """What a person should know of the swap."""
    hides_values: bool
    """Whether a column is masked, so that no message of a server is shown."""

    @property
    def target(self) -> Dialect:
        """The target's dialect."""
        return self.statements.dialect

    @property
    def renames_at_once(self) -> bool:
        """Whether one statement exchanges both tables' names, outside of transactions."""
        return self.swap == "by rename" and not self.target.writing.CARRIES_ON_RENAME

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the table, or of the audit's filter, are copied."""
        return tuple(self.spans) == EVERYTHING

    @property
    def chosen(self) -> Chunk:
        """Return the target's rows that are replaced, as one condition."""
        return join_spans(self.plan, "target", self.spans)

    @property
    def digest(self) -> str:
        """What identifies the copied columns: what was copied under another digest is copied again."""
        known = [(column.name, column.kind, column.native, column.types, column.expression) for column in self.columns]
        filters = [self.plan.sides[side].where for side in SIDES]
        return hashlib.sha256(repr((known, filters, self.road)).encode()).hexdigest()

    def read(self, chunk: Chunk, source: Dialect) -> str:
        """Return the statement that reads a range of the source as lines."""
        return read_lines(self.plan, list(self.columns), source, self.target, chunk)


def plan_bootstrap(
    reader: Reader, name: str, audit: Audit, spans: Sequence[Chunk], now: dt.datetime, rename_above: int, spread_above: float = math.inf
) -> BootstrapPlan:
    """Return the plan of a bootstrap; nothing is written. Raises BootstrapRefused, ColumnRefused and errors of the tree."""
    tables = introspect.describe_tables(reader, audit)
    draft = planner.draft(name, audit, tables, "exact")
    dialect, table = tables["target"].dialect, tables["target"].table
    if why := reader.session("target").loading.why_no_files() if dialect.writing.READS_FILES else "":
        raise BootstrapRefused(f"{table.sql} cannot be copied again as it is: {why}")
    if tuple(spans) != EVERYTHING and not draft.has_integer_key:
        raise BootstrapRefused("a range of keys needs a key of one integer column; copy the whole table")
    plan, columns = _copied_plan(draft, audit, dialect)
    facts, dependents = reader.ask_side("target", lambda _, session: (_read_facts(session, table), read_dependents(session, table)))
    written = _target_names(columns, table, dialect)
    check_target(facts, dependents, written[: plan.key], unwritten_columns(facts, written))
    loaded = [column for column, its in zip(columns, written, strict=True) if its not in facts.named("generated")]
    has_null_key = tuple(spans) == EVERYTHING and "source" not in plan.columns[0].never_null
    rows, ranges = reader.ask_side("source", lambda _, session: _cut(plan, session, tables["source"].table.estimate, spans, has_null_key))
    road = _choose_road(rows > spread_above, tables["source"].dialect, dialect)
    writer = writer_class(dialect)
    if plan.sides["target"].where and not writer.REPLACES_FILTERED:
        raise BootstrapRefused(
            f"the audit compares only some rows of {table.sql}, which one commit cannot replace; copy a range with --keys"
        )
    stage = f"auditor_new_{hashlib.sha256('.'.join(table.names).encode()).hexdigest()[:16]}"
    old = PREVIOUS if writer.COMMITS else f"{table.names[-1][:NAME_LENGTH]}_old_{now:%Y%m%d_%H%M%S}"
    statements = BootstrapStatements(
        plan,
        dialect,
        dialect.names.table(*table_parts(table), stage),
        dialect.names.table(*table_parts(table), old),
        [column.expression["target"] for column in loaded],
        overriding=bool(set(facts.named("identity")) & set(written)),
    )
    swap, why = _choose_swap(reader, plan, table, dependents, is_whole=tuple(spans) == EVERYTHING, is_large=rows > rename_above)
    sample = read_lines(plan, loaded, tables["source"].dialect, dialect, ranges[0])
    line_bytes = reader.ask_side("source", lambda _, session: _line_bytes(session, sample))
    return BootstrapPlan(
        audit=name,
        labels={side: tables[side].label for side in SIDES},
        plan=plan,
        columns=loaded,
        statements=statements,
        table=table,
        stage=stage,
        old=old,
        spans=spans,
        ranges=ranges,
        rows=rows,
        line_bytes=line_bytes,
        road=road,
        is_one_moment=road != "executors" or tables["source"].dialect.EXPORTS_SNAPSHOT,
        swap=swap,
        why=why,
        effects=_effects(swap, dialect, dependents, old),
        hides_values=any(column.masked for column in draft.columns),
    )


def _choose_road(is_spread: bool, source: Dialect, target: Dialect) -> Road:
    """Return how rows travel. Raises BootstrapRefused where executors are to read what one process alone can."""
    if not is_spread:
        return "files" if target.writing.READS_FILES else "direct"
    if source.OPENS_FILES or source.TABLES_ARE_FILES:
        raise BootstrapRefused(
            f"tables of {source.name} are read by one process, not by executors of Spark; leave out --spark, and above: under write: spark:"
        )
    return "executors"


def cut_ranges(whole: Chunk, rows: int, least: int | None, greatest: int | None, *, has_null_key: bool) -> list[Chunk]:
    """Return ranges of keys that together hold all rows of ``whole``, of about RANGE_ROWS rows each where keys lie evenly."""
    nulls = [Chunk(null_key=True)] if has_null_key and least is not None else []
    if least is None or greatest is None or greatest == least:
        return [whole, *nulls]
    count = max(1, math.ceil(rows / RANGE_ROWS))
    step = math.ceil((greatest - least + 1) / count)
    starts = list(range(least, greatest + 1, step))
    bounds = [whole.first, *starts[1:], whole.end]
    return [*(Chunk(first, end) for first, end in pairwise(bounds)), *nulls]


def table_parts(table: Table) -> tuple[str, ...]:
    """Return what stands before a table's name in those of the tables beside it."""
    return tuple(part for part in table.names[:-1] if part)


def is_there(session: Session, table: Table, name: str) -> bool:
    """Return whether a table of this name stands beside the target's."""
    place = Place((*table_parts(table)[-1:], name))
    return any(table.names[-1] == name for table in session.dialect.catalogue.describe(session, place))


def _copied_plan(draft: Plan, audit: Audit, dialect: Dialect) -> tuple[Plan, list[ColumnPlan]]:
    """Return the plan by which rows are copied exactly, and its columns. Raises ColumnRefused for one that cannot be written."""
    transfer = plan_transfer(draft, audit, dialect)
    if transfer.unwritable:
        name, why = next(iter(transfer.unwritable.items()))
        raise ColumnRefused(f"the column {name!r} cannot be copied: {why}; exclude it from the audit, or write it by hand")
    sides = {side: replace(transfer.plan.sides[side], where=draft.sides[side].where) for side in SIDES}
    return replace(transfer.plan, sides=sides), list(transfer.plan.columns)


def _read_facts(session: Session, table: Table) -> TargetFacts:
    if not table.names:
        raise BootstrapRefused(f"{table.sql} is files, which are not copied again by this command; write them again where they come from")
    return read_facts(session, table)


def _target_names(columns: Sequence[ColumnPlan], table: Table, dialect: Dialect) -> list[str]:
    by_sql = {dialect.names.quote(column.name): column.name for column in table.columns}
    return [by_sql[column.expression["target"]] for column in columns]


def join_spans(plan: Plan, side: Side, spans: Sequence[Chunk]) -> Chunk:
    """Return the rows of several ranges of keys as one chunk of a side."""
    if len(spans) == 1:
        return spans[0]
    key = plan.columns[0].expression[side]
    within = " OR ".join(f"({key} >= {span.first} AND {key} < {span.end})" for span in spans)
    return Chunk(spans[0].first, spans[-1].end, within=within)


def _cut(plan: Plan, session: Session, estimate: int | None, spans: Sequence[Chunk], has_null_key: bool) -> tuple[int, list[Chunk]]:
    """Return about how many rows are copied, and the ranges in which they are."""
    total, ranges = 0, list[Chunk]()
    for span in spans:
        rows, least, greatest = _measure(plan, session, estimate, span)
        total += rows
        ranges += cut_ranges(span, rows, least, greatest, has_null_key=has_null_key)
    return total, ranges


def _measure(plan: Plan, session: Session, estimate: int | None, span: Chunk) -> tuple[int, int | None, int | None]:
    """Return about how many rows a span has, and the least and greatest key among them where keys have an order."""
    here = plan.sides["source"]
    condition = render.where(plan, "source", span)
    rows = estimate
    if rows is None or rows < COUNTED_ROWS or span != Chunk() or here.where:
        rows = int(session.query_row(render.count(session.dialect, here.table, condition))[0])
    if not plan.has_integer_key:
        return rows, None, None
    least, greatest = session.query_row(render.bounds(plan.columns[0], "source", session.dialect, here.table, condition))
    return rows, None if least is None else int(least), None if greatest is None else int(greatest)


def _line_bytes(session: Session, sql: str) -> int:
    lines = session.query(f"{sql.rstrip()}\nLIMIT {SAMPLE_ROWS}")
    sizes = [len(str(line).encode()) + 1 for (line,) in lines if line is not None]
    return round(sum(sizes) / len(sizes)) if sizes else 0


def _choose_swap(reader: Reader, plan: Plan, table: Table, dependents: Dependents, *, is_whole: bool, is_large: bool) -> tuple[Swap, str]:
    """Return how the copy is brought into the table, and why so."""
    dialect = reader.session("target").dialect
    writing = dialect.writing
    if writer_class(dialect).COMMITS:
        return "by commit", "one commit replaces the rows, and readers see the version before until then"
    if not is_whole:
        return "in place", "only a range of keys is copied"
    if plan.sides["target"].where:
        return "in place", "the audit compares only some of the table's rows"
    if is_large and writing.CARRIES_ON_RENAME:
        if bound := reader.ask_side("target", lambda _, session: read_bound(session, table)):
            return "in place", f"it is large, but a rename would lose {', '.join(bound)}"
        return "by rename", "it is large, and what is bound to the old table can be carried to the new one"
    if not writing.SWAPS_BY_RENAME:
        return "in place", "so what hangs on the table stays: views, foreign keys, grants, publications, sequences"
    if dependents.named("parent"):
        return "in place", f"a rename would lose the foreign keys to {', '.join(dependents.named('parent'))}"
    return "by rename", "both tables change their names in one statement, and nothing hangs on the old one"


def _effects(swap: Swap, dialect: Dialect, dependents: Dependents, old: str) -> Sequence[str]:
    if swap == "by rename" and dialect.writing.CARRIES_ON_RENAME:
        return describe_carried(dependents, old)
    if swap == "by commit":
        return [
            f"the replaced rows stay in the files of {old} until VACUUM, or the keep of parquet://, removes them",
            "the commit replaces what others write meanwhile",
        ]
    if swap == "by rename":
        return [f"the old table stays as {old}; grants, views and routines go by its name, so they reach the new one"]
    effects = [f"the replaced rows stay in {old}, without grants and defaults"]
    if dialect.writing.LOCK_WRITERS:
        effects.append("other writers wait while rows are exchanged; its own wait for the table is short, and repeated")
    if kept := [*dependents.named("view"), *dependents.named("publication")]:
        effects.append(f"{', '.join(kept)}: read the table as before; a publication sends every replaced row")
    return effects
