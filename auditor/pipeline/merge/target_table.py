"""Make a target's table where it is missing; check that it can hold what its source's columns are now, and what else acts on its rows."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import monotonic

from auditor.canonical import holds
from auditor.config import TargetKeys
from auditor.durations import durations
from auditor.errors import ColumnRefused, HazardRefused, NoKey, SchemaChanged
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.planning.target_schema import native_type
from auditor.sql.merge import MergeStatements
from auditor.sql.table_definition import TableStatements, table_keys
from dialects import Column, Dialect, Kind, Place, Session, Table
from dialects.writing import Hazard

NO_KEYS = TargetKeys()

HAZARDS = {
    "trigger": "which may write something else than the source has",
    "cascade": "whose rows go or change with rows of this table",
    "row security": "whose policies hide rows from the pipeline's user",
    "partitions": "which has no partition for some values",
    "generated": "which the target computes itself",
    "identity": "which the target numbers itself",
}
"""What acts on a table's rows beside a merge, by kind, and what each means; refused unless the configuration accepts it by name.

The last two count only for columns that the pipeline carries.
"""

EXAMINED_ANEW = 20
"""How many times longer a table is believed to be as it was whose catalogue did not change, than one of which nothing is known."""

_SMALL_LETTERS = {ord(letter): letter.lower() for letter in string.ascii_uppercase}


@dataclass(slots=True)
class StageUse:
    """What a staging table of a session went through since it was made."""

    deleted: int = 0
    """Rows that were deleted from it."""


@dataclass(slots=True)
class Examination:
    """When a target's table was found as it is."""

    at: float = field(default_factory=lambda: monotonic())  # noqa: PLW0108, so that tests can set the clock
    """When the target's catalogue was asked, or was known to be as it was then (monotonic seconds)."""
    began: float = field(init=False)
    """When the table itself was described (monotonic seconds)."""
    patience: float = field(default_factory=lambda: random.uniform(0.5, 1.0))
    """After which part of the longest time it is looked at again, so that tables that were examined together are not so ever after."""

    def __post_init__(self) -> None:
        self.began = self.at


@dataclass(frozen=True)
class TargetTable:
    """A target's table that can hold the rows of one schema."""

    schema: TableSchema
    names: Mapping[str, str]
    """The target's names of the source's columns."""
    statements: MergeStatements
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The kinds of the target's own columns, by their names; without those that have none."""
    longest: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the longest value that a column holds, of columns whose values are to be looked at, by the target's names."""
    examination: Examination = field(default_factory=Examination, compare=False)
    is_staged: bool = field(default=False, compare=False)
    """Whether the session that merges has its staging table, which is empty."""
    use: StageUse = field(default_factory=StageUse, compare=False)
    """Of the staging table."""

    @property
    def is_stale(self) -> bool:
        """Whether the table may have got triggers or cascades since it was looked at."""
        return monotonic() - self.examination.at > self.examination.patience * durations().target_fresh

    @cached_property
    def columns(self) -> dict[str, Kind]:
        """The kinds of the source's columns, by the target's names, in order."""
        kinds = {column.name: source_kind(column) for column in self.schema.columns}
        return {self.names[name]: kind for name, kind in kinds.items() if kind}

    @cached_property
    def stage_columns(self) -> dict[str, Kind]:
        """The columns of the staging table with the kinds of their texts."""
        return {**self.statements.change_columns, **self.columns}


@dataclass(slots=True)
class CatalogueVersions:
    """What a target's catalogue was like when it was last asked, by schema: tables of one that did not change are not examined again.

    But for a while only: a table that was examined between two changes of which the second took back the first is another one, although
    the catalogue is as it was before both.
    """

    _versions: dict[str, str | None] = field(default_factory=dict)
    _read: float = float("-inf")
    """When they were read (monotonic seconds)."""

    def renew(self, session: Session, examined: Iterable[tuple[str, Examination]]) -> None:
        """Note of tables, of which their schemas are given, that they are as they were; now and then. Raises EngineError."""
        now = monotonic()
        if now - self._read < durations().target_fresh / 4:
            return
        known, since = self._versions, self._read
        listed = list(examined)
        self._versions = {schema: session.dialect.catalogue.version(session, schema) for schema in {schema for schema, _ in listed}}
        self._read = now
        for schema, examination in listed:
            version = self._versions[schema]
            is_recent = now - examination.began < EXAMINED_ANEW * examination.patience * durations().target_fresh
            if version is not None and version == known.get(schema) and examination.at >= since and is_recent:
                examination.at = now


def examine(
    session: Session, into: tuple[str, str], pipeline: str, schema: TableSchema, earlier: TableSchema | None, keys: TargetKeys = NO_KEYS
) -> tuple[TargetTable, str]:
    """Return the table for rows of ``schema``, and the statement that makes it; '' if it is there.

    ``earlier`` is the schema of the rows that it holds; None if it holds none. Raises NoKey for a table without a key, ColumnRefused for
    a column that the target cannot hold at all, and SchemaChanged with the statement that mends it if the table has to be altered first,
    HazardRefused if it does more with rows than is written and that was not accepted;
    ConfigError for ``keys`` that it cannot have for a table whose changes cannot be undone.
    """
    dialect, table = session.dialect, f"{schema.database}.{schema.table}"
    if not schema.key:
        raise NoKey(f"{table} has no primary key, so its rows cannot be merged; add one in the source, or leave the table out")
    _check_names(dialect, schema, into)
    natives = native_types(dialect, schema)
    found = find_table(session, *into)
    if found is None:
        made, statement = make_statement(dialect, into, pipeline, schema, keys)
        return replace(made, kinds=_kinds(dialect, natives), longest=_longest(dialect, natives)), statement
    hazards = session.dialect.catalogue.hazards(session, found) if session.dialect.writing.MERGES_BY_UPDATE else []
    _check_storage(session, table, found, hazards)
    names = _match(dialect, table, found, schema, natives, earlier)
    key = [names[name] for name in schema.key]
    if found.primary_key and {name.lower() for name in found.primary_key} != {name.lower() for name in key}:
        wanted, there = ", ".join(key), ", ".join(found.primary_key)
        raise SchemaChanged(
            f"{table} has the key ({wanted}) in the source and ({there}) in {found.sql}; change the target's to the source's"
        )
    loose = _loose(dialect, schema, names)
    carried = list(names.values())
    check_hazards(table, found, hazards, carried, keys.accept)
    numbered = [one.name for one in hazards if one.kind == "identity" and one.name in carried]
    apart = replaced_columns(found, hazards, carried, key), numbered, is_only_key_unique(hazards, key)
    statements = MergeStatements(dialect, into[0], pipeline, table, found.sql, carried, key, loose, *apart)
    held = [column for column in found.columns if column.name in names.values()]
    kinds = {column.name: column.kind for column in held if column.kind}
    return TargetTable(schema, names, statements, kinds, _longest(dialect, {column.name: column.native for column in held})), ""


def make_statement(
    dialect: Dialect, into: tuple[str, str], pipeline: str, schema: TableSchema, keys: TargetKeys = NO_KEYS
) -> tuple[TargetTable, str]:
    """Return a table of these names for rows of ``schema``, and the statement that makes it. Raises ColumnRefused and ConfigError."""
    table, names = f"{schema.database}.{schema.table}", {column.name: column.name for column in schema.columns}
    statements = MergeStatements(
        dialect, into[0], pipeline, table, dialect.names.table(*into), list(names), schema.key, _loose(dialect, schema, names)
    )
    clauses = table_keys(dialect, table, list(names), {"dist": keys.dist_key, "sort": keys.sort_key})
    nullable = [column.name for column in schema.columns if column.nullable]
    return TargetTable(schema, names, statements), statements.create_target(native_types(dialect, schema), nullable, clauses)


def _check_names(dialect: Dialect, schema: TableSchema, into: tuple[str, str]) -> None:
    """Raise ColumnRefused if the target can have no schema, table or column of a name."""
    table = f"{schema.database}.{schema.table}"
    ways = zip(into, ("a schema of another name", f"tables: {{{table}: {{name: ANOTHER}}}} of the target"), strict=True)
    for name, way in ways:
        if why := dialect.writing.refuse_name(name, "table"):
            raise ColumnRefused(f"{table}: the name {name} {why}; give it another one by {way}")
    for column in schema.columns:
        if why := dialect.writing.refuse_name(column.name, "column"):
            renamed = f"columns: {{{schema.table}: {{rename: {{{column.name}: ANOTHER}}}}}}"
            raise ColumnRefused(f"{table}: the column's name {column.name} {why}; give it another one by {renamed}, or exclude it")


def _loose(dialect: Dialect, schema: TableSchema, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the target's names of the columns of the key that the engine may find equal although their texts differ."""
    kinds = {column.name: source_kind(column) for column in schema.columns if column.name in schema.key}
    return tuple(names[name] for name, kind in kinds.items() if dialect.writing.EQUAL_TEXTS_DIFFER and kind and kind.is_free_text)


def _kinds(dialect: Dialect, natives: Mapping[str, str]) -> dict[str, Kind]:
    """Return the kinds of columns of these types."""
    return {name: kind for name, native in natives.items() if (kind := dialect.types.kind(native))}


def _longest(dialect: Dialect, natives: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes of the longest values of columns of these types, where the engine bounds them."""
    if not dialect.writing.REFUSES_LONG_VALUES:
        return {}
    return {name: kind.bytes for name, kind in _kinds(dialect, natives).items() if kind.bytes}


def _check_storage(session: Session, table: str, found: Table, hazards: Sequence[Hazard]) -> None:
    """Raise SchemaChanged if the table cannot be changed in a transaction."""
    if not session.dialect.writing.MIXES_STORAGE:
        return
    engines = [one.name for one in hazards if one.kind == "storage"]
    if engines:
        raise SchemaChanged(
            f"{table}: {found.sql} in the target is stored by {engines[0]}, which knows no transactions; run there:"
            f" ALTER TABLE {found.sql} ENGINE=InnoDB"
        )


def _native(dialect: Dialect, table: str, column: ColumnSchema, in_key: bool) -> str:
    kind = source_kind(column)
    way_out = f"exclude it: columns: {{{table.partition('.')[2]}: {{exclude: [{column.name}]}}}}"
    if kind is None:
        raise ColumnRefused(f"{table}.{column.name} is of type {column.type}, which no target holds; {way_out}")
    if kind.name == "decimal" and (kind.digits or 0) > dialect.types.MAX_DECIMAL_DIGITS:
        raise ColumnRefused(
            f"{table}.{column.name} is {column.type}, and {dialect.name} holds {dialect.types.MAX_DECIMAL_DIGITS} digits at most; {way_out}"
        )
    try:
        return native_type(dialect, Column(column.name, column.type, kind, column.nullable), in_key)
    except LookupError as error:
        raise ColumnRefused(f"{table}.{column.name} is {column.type}: {error}; {way_out}") from error


def native_types(dialect: Dialect, schema: TableSchema) -> dict[str, str]:
    """Return the target's types of the columns of a schema. Raises ColumnRefused."""
    return {
        column.name: _native(dialect, f"{schema.database}.{schema.table}", column, column.name in schema.key) for column in schema.columns
    }


def find_table(session: Session, into: str, table: str) -> Table | None:
    """Return a table of a target's schema; None if there is none of that name, in letters of other cases only where these are the same."""
    found = session.dialect.catalogue.describe(session, Place((into, table)))
    exact = [one for one in found if one.sql == session.dialect.names.table(into, table)]
    fold = folding(session)
    alike = [one for one in found if fold(one.names[-1]) == fold(table)]
    return next(iter(exact or alike), None)


def folding(session: Session) -> Callable[[str], str]:
    """Return a function that makes names of tables equal that the target takes for one."""
    writing = session.dialect.writing
    if writing.FOLDS_NAMES_IF and not int(session.query(writing.FOLDS_NAMES_IF)[0][0]):
        return str
    folds: Mapping[str, Callable[[str], str]] = {"": str, "A to Z": lambda name: name.translate(_SMALL_LETTERS), "all": str.lower}
    return folds[writing.FOLDS_NAMES]


def _match(
    dialect: Dialect, table: str, found: Table, schema: TableSchema, natives: Mapping[str, str], earlier: TableSchema | None
) -> dict[str, str]:
    """Return the target's names of the source's columns. Raises SchemaChanged."""
    there = {column.name.lower(): column for column in found.columns}
    names: dict[str, str] = {}
    for column in schema.columns:
        target, native = there.get(column.name.lower()), natives[column.name]
        if target is None:
            mend = TableStatements(dialect, found.sql).add(column.name, native)
            raise SchemaChanged(f"{table} has a column {column.name!r} ({column.type}), which the target lacks; run there: {mend}")
        kind = source_kind(column)
        if kind and (target.kind is None or not holds(target.kind, kind)):
            mend = TableStatements(dialect, found.sql).retype_by_hand(target.name, native)
            raise SchemaChanged(
                f"{table}.{column.name} is {column.type}, which {target.native} in the target cannot hold; run there: {mend}"
            )
        names[column.name] = target.name
    now = {column.name.lower() for column in schema.columns}
    for dropped in earlier.columns if earlier else ():
        if dropped.name.lower() not in now and dropped.name.lower() in there:
            mend = f"ALTER TABLE {found.sql} DROP COLUMN {dialect.names.quote(there[dropped.name.lower()].name)}"
            raise SchemaChanged(f"{table} no longer has the column {dropped.name!r}, which the target has; run there: {mend}")
    return names


def check_hazards(table: str, found: Table, hazards: Sequence[Hazard], carried: Collection[str], accepted: Collection[str]) -> None:
    """Check what a target's table does by itself; ``carried`` are its columns that a pipeline fills. Raises HazardRefused."""
    if any(one.kind == "view" for one in hazards):
        raise HazardRefused(
            f"{table}: {found.sql} in the target is a view, or stores its rows elsewhere, so that they could be hidden or changed by what"
            " is beneath it; drop it there, or name the table beneath: tables:"
            f" {{{table.partition('.')[2]}: {{name: ANOTHER}}}} of the target"
        )
    if broken := next((one.name for one in hazards if one.kind == "broken trigger"), ""):
        raise HazardRefused(
            f"{table}: {found.sql} in the target has trigger {broken}, and rows that are inserted from another table lose values in this"
            " release of MariaDB where a trigger stands before them (MDEV-36026); update the server, or remove the trigger"
        )
    named = dict.fromkeys((one.kind, one.name) for one in hazards if one.kind in HAZARDS)
    open_ = [
        (kind, name)
        for kind, name in named
        if f"{kind} {name}" not in accepted and (kind not in ("generated", "identity") or name in carried)
    ]
    if open_:
        listed = "; ".join(f"{kind} {name}, {HAZARDS[kind]}" for kind, name in open_)
        names = ", ".join(f'"{kind} {name}"' for kind, name in open_)
        raise HazardRefused(
            f"{table}: {found.sql} in the target has {listed}; remove that there, or accept it: tables:"
            f" {{{table.partition('.')[2]}: {{accept: [{names}]}}}} of the target"
        )


def is_only_key_unique(hazards: Sequence[Hazard], key: Collection[str]) -> bool:
    """Return whether no two rows of different keys can stand in each other's way, and no trigger or rule stands before the table."""
    return not _unique_beside(hazards, key) and not any(one.kind == "trigger" for one in hazards)


def _unique_beside(hazards: Sequence[Hazard], key: Collection[str]) -> list[str]:
    """Return the columns of the unique indexes that hold other rows apart than the key does; '' stands for what is no column."""
    columns: dict[str, list[str]] = {}
    for one in hazards:
        if one.kind == "unique":
            columns.setdefault(one.name, []).append(one.column)
    return [column for found in columns.values() if not set(key) <= set(found) for column in found]


def replaced_columns(found: Table, hazards: Sequence[Hazard], carried: Collection[str], key: Collection[str]) -> list[str]:
    """Return the columns whose changes make a merge delete and insert a row, because others may change places with it.

    None where more than the row would go with it: rows of other tables, or values of columns that only the target has. Such rows are
    updated, and what the engine refuses then stops the table.
    """
    computed = {one.name for one in hazards if one.kind == "generated"}
    own = [column.name for column in found.columns if column.name not in carried and column.name not in computed]
    if own or any(one.kind == "cascade" for one in hazards):
        return []
    unique = _unique_beside(hazards, key)
    if "" in unique:  # an expression, or an index of some of the rows
        return [name for name in carried if name not in key]
    return [name for name in dict.fromkeys(unique) if name in carried and name not in key]
