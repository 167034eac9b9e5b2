"""Render the statements that merge staged changes into a target's table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sql_templates
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind
from dialects.writing import Writing

CHANGE_COLUMNS: Mapping[str, Kind] = {
    "attempt": Kind("text"),
    "position": Kind("integer"),
    "row": Kind("integer"),
    "op": Kind("text"),
}
"""The columns of a staging table before those of the target, after a prefix."""

PREFIX = "auditor_"
"""How the names begin that templates give to columns of their own; another prefix takes its place where a table's column begins so."""

POSITIONS = "auditor_positions"
"""The table of a target that says up to which position it holds each table."""

OWN_TABLES = (POSITIONS, "auditor_live_sums", "auditor_ledger", "auditor_last")
"""Tables that a pipeline makes for itself in a schema of the target, some of them for a session alone."""

STAGE = "auditor_stage_"
"""How the names of staging tables begin."""

LONGEST_NAME = 190
"""Characters of a pipeline's or a table's name, where a text in a key has to be bounded."""

TEXT, INTEGER = Kind("text"), Kind("integer")

BOUNDS_AT_ONCE = 50
"""Intervals of keys that one statement takes."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An interval of keys in a staging table."""

    position: int
    row: int
    """Its place in the stream, as changes in the staging table have theirs."""
    low: Sequence[str] = ()
    """The values of the first columns of the key at its lower end, as SQL; none for no bound. The interval begins after it."""
    high: Sequence[str] = ()
    """The same of its upper end, with which it ends."""


def is_own_table(name: str) -> bool:
    """Return whether a pipeline makes a table of this name for itself, so that none of the source's can have it."""
    return name.lower() in OWN_TABLES or name.lower().startswith(STAGE)


def read_bounds(rows: Iterable[Sequence[Any]], kinds: Sequence[Kind], dialect: Dialect) -> list[Bound]:
    """Return the intervals whose ends these rows are: position, row, ``l`` or ``h``, and the texts of the key's columns of these kinds."""
    ends: dict[tuple[int, int], dict[str, list[str]]] = {}
    for position, row, op, *texts in rows:
        values = [
            dialect.types.value_of_text(dialect.names.literal(str(text)), kind)
            for text, kind in zip(texts, kinds, strict=True)
            if text is not None
        ]
        ends.setdefault((int(position), int(row)), {})[str(op)] = values
    return [Bound(*place, found["l"], found["h"]) for place, found in sorted(ends.items())]


@dataclass(frozen=True, slots=True)
class Positions:
    """Statements about the positions of a pipeline's tables in one schema of a target."""

    dialect: Dialect
    schema: str
    pipeline: str

    @property
    def writing(self) -> Writing:
        """How the target's engine is written to."""
        return self.dialect.writing

    def create(self) -> str:
        """Return the statement that makes the table of positions if it is missing."""
        types = {"text": TEXT, "integer": INTEGER, "timestamp": Kind("timestamp", scale=6)}
        native = {name: self.dialect.types.native_type(kind) for name, kind in types.items()}
        native["name"] = self.dialect.TABLE_FORM.key_text.format(characters=LONGEST_NAME) or native["text"]
        return _fill(self.dialect, "merge_positions_create", self._table(), native)

    def lock(self) -> Sequence[str]:
        """Return the statement by which another merge of this pipeline is waited for; none where that is not needed."""
        positions = self._table()["positions"]
        digest = hashlib.sha256(f"{positions}/{self.pipeline}".encode()).digest()
        number = int.from_bytes(digest[:8], "big") >> 1
        written = self.writing.LOCK_POSITIONS.format(positions=positions, number=number, **self._pipeline())
        return [written] if written else []

    def list(self) -> str:
        """Return the statement that lists the tables with their positions and schema ids."""
        return _fill(self.dialect, "merge_positions", self._table(), self._pipeline())

    def find(self, table: str) -> str:
        """Return the statement that lists one table likewise."""
        names = {**self._pipeline(), "table": self.dialect.names.literal(table)}
        return _fill(self.dialect, "merge_position", self._table(), names)

    def list_others(self) -> str:
        """Return the statement that lists the tables of other pipelines, with these pipelines."""
        return _fill(self.dialect, "merge_positions_others", self._table(), self._pipeline())

    def write(self, held: Mapping[str, tuple[int, str]]) -> Sequence[str]:
        """Return the statements that replace the positions of tables, with the ids of their schemas."""
        literal = self.dialect.names.literal
        rows = [
            f"({self._pipeline()['pipeline']}, {literal(table)}, {literal(position)}, {literal(schema_id)}, {self.dialect.times.UTC_NOW})"
            for table, (position, schema_id) in held.items()
        ]
        return [*self.forget(*held), _fill(self.dialect, "merge_positions_insert", self._table(), {"rows": ",\n  ".join(rows)})]

    def forget(self, *tables: str) -> Sequence[str]:
        """Return the statements that delete the positions of tables."""
        named = ", ".join(self.dialect.names.literal(table) for table in tables)
        return [_fill(self.dialect, "merge_positions_delete", self._table(), {**self._pipeline(), "tables": named})]

    def _table(self) -> dict[str, str]:
        return {"positions": self.dialect.names.table(self.schema, POSITIONS)}

    def _pipeline(self) -> dict[str, str]:
        return {"pipeline": self.dialect.names.literal(self.pipeline)}


@dataclass(frozen=True)
class MergeStatements:
    """Statements that bring changes of the source's ``table`` into one table.

    ``target`` is that table as SQL text, in ``schema``; ``columns`` and ``key`` are its names, and ``loose`` those of the key whose texts
    the engine may find equal although they differ. Where rows are changed by UPDATE, those of which one of the columns ``replacing``
    changes are deleted and inserted, and columns that are ``numbered`` by the server take values from an INSERT alone. ``at_once``: only
    its key is unique, and no rule stands before it, so that one statement may do all where the engine has such a one.
    """

    dialect: Dialect
    schema: str
    pipeline: str
    table: str
    target: str
    columns: Sequence[str]
    key: Sequence[str]
    loose: Sequence[str] = ()
    replacing: Sequence[str] = ()
    numbered: Sequence[str] = ()
    at_once: bool = False
    of_session: bool = False
    """Whether the staging table belongs to the session that merges, on an engine where other sessions could load into it."""
    is_distinct: bool = False
    """Whether the staging table has one change of each key, the last, and no interval."""

    @property
    def writing(self) -> Writing:
        """How the target's engine is written to."""
        return self.dialect.writing

    @cached_property
    def prefix(self) -> str:
        """How the names of columns begin that are not the table's: as no column of the table does."""
        taken = [name.casefold() for name in self.columns]
        prefixes = (PREFIX, *(f"{PREFIX[:-1]}{number}_" for number in range(1, len(taken) + 1)))  # of which each name rules out one
        return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in taken))

    @cached_property
    def change_columns(self) -> dict[str, Kind]:
        """The columns of the staging table before those of the target."""
        return {f"{self.prefix}{name}": kind for name, kind in CHANGE_COLUMNS.items()}

    @cached_property
    def stage(self) -> str:
        """The staging table as SQL text: one for each pipeline and table, in the target's schema unless it belongs to the session."""
        name = f"{STAGE}{hashlib.sha256(f'{self.pipeline}/{self.table}'.encode()).hexdigest()[:16]}"
        if not self._is_of_session:
            return self.dialect.names.table(self.schema, name)
        return self._temporary(f"{name}_own" if self.of_session else name)  # else a DROP could find the one that all sessions share

    def create_target(self, types: Mapping[str, str], nullable: Collection[str] = (), clauses: Sequence[str] = ()) -> str:
        """Return the statement that makes the target's table with these native types, of which the ``nullable`` columns may be NULL.

        ``clauses`` follow its columns.
        """
        null = self.dialect.TABLE_FORM.null
        columns = [
            f"{self.dialect.names.quote(name)} {native}{f' {null}' if null and name in nullable and name not in self.key else ''}"
            for name, native in types.items()
        ]
        parts = {"columns": ",\n  ".join(columns), "key": self._names(self.key), "clauses": "\n".join(clauses)}
        return self._fill("merge_target_create", target=self.target, **parts)

    def create_stage(self) -> Sequence[str]:
        """Return the statements that make the staging table again."""
        native = self.dialect.types.native_type
        types = {"text": native(TEXT), "integer": native(INTEGER)}
        kind = "TEMPORARY TABLE" if self.of_session else self.writing.STAGING_TABLE
        parts = {"kind": kind, "columns": self._names(self.columns, ",\n  "), "target": self.target}
        return [self._fill("merge_stage_drop", stage=self.stage), self._fill("merge_stage_create", stage=self.stage, **parts, **types)]

    def clear_stage(self) -> str:
        """Return the statement that empties the staging table."""
        return self._fill("merge_stage_empty" if self.is_distinct else "merge_stage_clear", stage=self.stage)

    def lock_stage(self) -> Sequence[str]:
        """Return the statements that keep other sessions off the staging table until the transaction ends; none where there are none."""
        # Not parsed: sqlglot knows no LOCK TABLE.
        return () if self._is_of_session else [sql_templates.fill(self.dialect.template("merge_stage_lock"), {"stage": self.stage})]

    def count_staged(self, attempt: str) -> str:
        """Return the statement that counts an attempt's changes, and its intervals of keys."""
        return self._fill("merge_stage_count", stage=self.stage, attempt=self.dialect.names.literal(attempt))

    @property
    def last(self) -> str:
        """The session's table of the last change of each key, as SQL text."""
        return self.stage if self.is_distinct else self._temporary("auditor_last")

    def keep_last(self, attempt: str) -> str:
        """Return the statement that makes that table of an attempt's changes."""
        q, exact = self.dialect.names.quote, self.dialect.text.exact_text
        key = ", ".join(exact(q(name)) if name in self.loose else q(name) for name in self.key)
        staged = {"stage": self.stage, "attempt": self.dialect.names.literal(attempt)}
        return self._fill("merge_last_create", last=self.last, columns=self._names(self.columns), key=key, **staged)

    def remains(self) -> Sequence[str]:
        """Return the statements that remove what a transaction that was undone left in the session; none where nothing stays."""
        if self.writing.UNDOES_TABLES:
            return ()
        return [f"DROP TEMPORARY TABLE IF EXISTS {self._temporary('auditor_last')}"]

    def clear(self) -> Sequence[str]:
        """Return the statements that remove what a merge leaves in the session and in the staging table."""
        return [self.clear_stage()] if self.is_distinct else [self._fill("merge_last_drop", last=self.last), self.clear_stage()]

    def list_bounds(self, attempt: str, kinds: Sequence[Kind]) -> str:
        """Return the statement that lists the ends of an attempt's intervals of keys, as `read_bounds` takes them.

        ``kinds`` are those of the target's columns of the key.
        """
        quoted = map(self.dialect.names.quote, self.key)
        texts = [self.dialect.canonical.canonical_text(kind, name, kind) for name, kind in zip(quoted, kinds, strict=True)]
        return self._fill("merge_bounds", stage=self.stage, attempt=self.dialect.names.literal(attempt), key=",\n  ".join(texts))

    def merge(self, attempt: str, bounds: Sequence[Bound] = ()) -> Sequence[str]:
        """Return the statements that merge an attempt's changes, to be run in one transaction.

        ``bounds`` are its intervals of keys: of their keys the target keeps what follows them in the stream.
        """
        if self.is_distinct and not bounds:
            return self._merge_distinct
        return [*self.prepare(attempt, bounds), *self.change(bounds), *self.clear()]

    def prepare(self, attempt: str, bounds: Sequence[Bound] = ()) -> Sequence[str]:
        """Return the statements of a merge that change nothing of the target: the last change of each key is known after them."""
        return [*([] if self.is_distinct else [self.keep_last(attempt)]), *self.void_bounds(bounds)]

    def change(self, bounds: Sequence[Bound] = ()) -> Sequence[str]:
        """Return the statements of a merge that change the target; those that clear up come after them."""
        merged, gone = self._aliases[0], list[str]()
        for some in _grouped(bounds):
            interval = _either([self._interval(bound, merged) for bound in some])
            if self.writing.MERGES_BY_UPDATE:
                interval += (
                    f"\n  AND NOT EXISTS (SELECT 1 FROM {self.last} AS changed WHERE changed.{self.prefix}op = 'i' AND {self._matching})"
                )
            gone.append(self._fill("merge_bounds_delete", target=self.target, interval=interval))
        return [*gone, *self._changes()]

    def touched(self, bounds: Sequence[Bound] = ()) -> Sequence[str]:
        """Return derived tables, as SQL text: together the rows that the target has now of the keys that a prepared merge changes.

        They are those with a last change, and those without one in the intervals of ``bounds``.
        """
        q, exact = self.dialect.names.quote, self.dialect.text.exact_text
        pairs = [(f"merged.{q(name)}", f"changed.{q(name)}", name in self.loose) for name in self.key]
        alike = [f"{column} = {other}" for column, other, _ in pairs]
        alike += [f"{exact(column)} = {exact(other)}" for column, other, is_loose in pairs if is_loose]
        names = {"target": self.target, "last": self.last, "matching": " AND ".join(alike)}
        selected = [self._fill("merge_touched", **names)]
        if bounds:  # all at once: intervals may overlap
            selected.append(self._fill("merge_touched_gone", interval=_either([self._interval(one, "merged") for one in bounds]), **names))
        return [f"({one}) AS touched" for one in selected]

    def void_bounds(self, bounds: Sequence[Bound]) -> list[str]:
        """Return the statements that turn last changes in intervals, which come before these in the stream, into deletions."""
        changed, statements = self._aliases[1], list[str]()
        for some in _grouped(bounds):
            earlier = [f"{self._before(bound, changed)} AND {self._interval(bound, changed)}" for bound in some]
            statements.append(self._fill("merge_bounds_void", last=self.last, earlier=_either(earlier)))
        return statements

    def add_gone(self, bounds: Sequence[Bound]) -> list[str]:
        """Return the statements that add the deletion of the target's keys in intervals to the last changes, where these have no others."""
        merged = ", ".join(f"merged.{self.dialect.names.quote(name)}" for name in self.key)
        names = {"target": self.target, "last": self.last, "key": self._names(self.key), "merged": merged, "matching": self._matching}
        return [
            self._fill("merge_bounds_gone", interval=_either([self._interval(bound, "merged") for bound in some]), **names)
            for some in _grouped(bounds)
        ]

    @cached_property
    def _merge_distinct(self) -> Sequence[str]:
        """The statements of a staging table that has one change of each key: the same ones for each attempt."""
        return (*self._changes(), *self.clear())

    def _changes(self) -> Sequence[str]:
        """Return the statements that bring the last change of each key into the target."""
        return self._by_update() if self.writing.MERGES_BY_UPDATE else self._by_delete()

    def delete_keys(self, keys: Sequence[Sequence[str]]) -> str:
        """Return the statement that deletes the rows with these keys, whose values are given as SQL."""
        columns = [f"{self._aliases[0]}.{self.dialect.names.quote(name)}" for name in self.key]
        if len(columns) == 1:
            return self._fill("merge_delete_keys", target=self.target, key=columns[0], keys=", ".join(value for (value,) in keys))
        listed = ", ".join(f"({', '.join(values)})" for values in keys)
        return self._fill("merge_delete_keys", target=self.target, key=f"({', '.join(columns)})", keys=f"VALUES {listed}")

    def _by_delete(self) -> Sequence[str]:
        """Return the statements that delete all rows with a last change, and insert those that it did not delete."""
        return [
            self._fill("merge_delete", target=self.target, last=self.last, matching=self._matching),
            self._fill("merge_insert", target=self.target, last=self.last, columns=self._names(self.columns)),
        ]

    def _by_update(self) -> Sequence[str]:
        """Return the statements that delete what is gone, or cannot be updated beside others, update what differs, insert what is new."""
        fragments = {"target": self.target, "last": self.last, "matching": self._matching}
        if self.at_once and self.writing.MERGES_AT_ONCE and not (self.loose or self.replacing or self.numbered):
            inserted = ", ".join(f"changed.{self.dialect.names.quote(name)}" for name in self.columns)
            both = {"columns": self._names(self.columns), "inserted": inserted, **self._updated(self.columns)}
            return [self._fill("merge_at_once", **both, **fragments)]
        gone = f"changed.{self.prefix}op = 'd'"
        if self.replacing:
            gone = f"({gone} OR {self.writing.rows_differ(self._pairs(self.replacing))})"
        given = [name for name in self.columns if name not in self.numbered]
        statements = [self._fill("merge_delete", **{**fragments, "matching": f"{self._matching} AND {gone}"})]
        if given:
            statements.append(self._fill("merge_update", **self._updated(given), **fragments))
        insert = self._fill("merge_insert_new", columns=self._names(self.columns), **fragments)
        # After the check: sqlglot knows no OVERRIDING.
        return [*statements, insert.replace("\nSELECT", f"\n{self.writing.OVERRIDES_IDENTITY}SELECT", 1) if self.numbered else insert]

    def _updated(self, names: Sequence[str]) -> dict[str, str]:
        """Return what an UPDATE sets of these columns, and the condition that it changes any of them."""
        values = ", ".join(self.writing.SETS_COLUMN.format(column=self.dialect.names.quote(name)) for name in names)
        return {"values": values, "differing": "TRUE" if self.writing.KEEPS_EQUAL_ROWS else self.writing.rows_differ(self._pairs(names))}

    def _pairs(self, names: Iterable[str]) -> list[tuple[str, str]]:
        return [(f"merged.{self.dialect.names.quote(name)}", f"changed.{self.dialect.names.quote(name)}") for name in names]

    def _before(self, bound: Bound, alias: str) -> str:
        """Return the condition that a change comes before an interval in the stream."""
        position, row = f"{alias}.{self.prefix}position", f"{alias}.{self.prefix}row"
        return f"({position} < {bound.position} OR ({position} = {bound.position} AND {row} < {bound.row}))"

    def _interval(self, bound: Bound, alias: str) -> str:
        """Return the condition that a row's key lies in an interval."""
        conditions = [*self._beyond(bound.low, alias, ">", ">"), *self._beyond(bound.high, alias, "<", "<=")]
        return "\n  AND ".join(conditions) or "1 = 1"

    def _beyond(self, end: Sequence[str], alias: str, sign: str, last_sign: str) -> Sequence[str]:
        """Return the conditions that a key lies on one side of an end, whose last column is compared by ``last_sign``."""
        pairs = [(f"{alias}.{self.dialect.names.quote(name)}", value) for name, value in zip(self.key, end, strict=False)]
        if not pairs:
            return []
        column, value = pairs[-1]
        condition = f"{column} {last_sign} {value}"
        for column, value in reversed(pairs[:-1]):
            condition = f"({column} {sign} {value} OR ({column} = {value} AND {condition}))"
        by_index = [f"{column} {sign}= {value}"] if len(pairs) > 1 else []  # finds rows by the key's index
        return [*by_index, condition]

    @property
    def _matching(self) -> str:
        """The condition that a row of the target and a last change have the same key."""
        changed = self._aliases[1]
        return self.match_key({name: f"{changed}.{self.dialect.names.quote(name)}" for name in self.key})

    def match_key(self, values: Mapping[str, str]) -> str:
        """Return the condition of a DELETE that a row of the target has the key whose columns have these values, given as SQL."""
        q, exact, merged = self.dialect.names.quote, self.dialect.text.exact_text, self._aliases[0]
        pairs = [(name, f"{merged}.{q(name)}", values[name]) for name in self.key]
        alike = [f"{column} = {other}" for _, column, other in pairs]
        alike += [f"{exact(column)} = {exact(other)}" for name, column, other in pairs if name in self.loose]
        return " AND ".join(alike)

    @property
    def _aliases(self) -> tuple[str, str]:
        """What the target and the last changes are called in a DELETE."""
        if self.writing.DELETES_BY_ALIAS:
            return "merged", "changed"
        return self.target.removeprefix(f"{self.dialect.names.quote(self.schema)}."), self.dialect.names.quote("auditor_last")

    def _temporary(self, name: str) -> str:
        return self.dialect.names.table(self.schema, name) if self.writing.QUALIFIES_TEMPORARY else self.dialect.names.quote(name)

    @property
    def _is_of_session(self) -> bool:
        """Whether the staging table belongs to the session that merges."""
        return self.of_session or self.writing.LOADS in ("alone", "by files")

    def _names(self, names: Sequence[str], between: str = ", ") -> str:
        return between.join(self.dialect.names.quote(name) for name in names)

    def _fill(self, template: str, **fragments: str) -> str:
        return _fill(self.dialect, template, fragments, prefix=self.prefix)


def _grouped(bounds: Sequence[Bound]) -> list[Sequence[Bound]]:
    return [bounds[first : first + BOUNDS_AT_ONCE] for first in range(0, len(bounds), BOUNDS_AT_ONCE)]


def _either(conditions: Sequence[str]) -> str:
    """Return the condition that one of these holds."""
    return conditions[0] if len(conditions) == 1 else "(" + "\n  OR ".join(f"({one})" for one in conditions) + ")"


def _fill(dialect: Dialect, template: str, *fragments: Mapping[str, str], prefix: str = PREFIX) -> str:
    every = {name: text for some in fragments for name, text in some.items()}
    return checked(sql_templates.fill(dialect.template(template).replace(PREFIX, prefix), every), dialect)
