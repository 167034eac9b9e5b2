"""Describe the changes of a table's columns between two runs, and refuse those that a run or its audit does not allow."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.config import Audit
from auditor.errors import ColumnsChanged, SchemaChanged
from auditor.history.handover import Schemas, StoredColumn, StoredSchema
from auditor.model import Side
from auditor.planning import introspect
from auditor.planning.columns import Endpoint
from dialects import Session, Table


def describe_schema(table: Table) -> StoredSchema:
    """Return a table's columns, in order, and its primary key as plain values for the store."""
    return {
        "columns": [{"name": column.name, "type": column.native, "nullable": column.nullable} for column in table.columns],
        "primary_key": list(table.primary_key),
    }


def describe_changes(before: Schemas | None, now: Schemas) -> tuple[str, ...]:
    """Return the changes between two runs, one sentence each, prefixed by its side.

    ``before`` and ``now`` map sides to results of ``describe_schema``; without ``before`` there are no changes. The order of columns does
    not matter, because they are compared by name.
    """
    sentences: list[str] = []
    for side, schema in now.items():
        earlier = (before or {}).get(side)
        if earlier is not None:
            sentences += [f"{side}: {sentence}" for sentence in _table_changes(earlier, schema)]
    return tuple(sentences)


def describe_breaks(before: StoredSchema, now: StoredSchema) -> tuple[str, ...]:
    """Return the changes of one table that make rows read before and after them incomparable: dropped columns and changed types.

    Columns that were added are not compared, and whether a column may be NULL changes no value.
    """
    new = {column["name"]: column["type"] for column in now["columns"]}
    return tuple(
        f"column {name} was {old} and is {new[name]}" if name in new else f"column {name} was dropped ({old})"
        for name, old in ((column["name"], column["type"]) for column in before["columns"])
        if new.get(name) != old
    )


def describe_drift(label: str, table: Table, other_label: str, other: Table) -> list[str]:
    """Return in what the tables of two shards differ, a sentence each; capitals and the order of columns do not matter."""
    mine, yours = ({column.name.lower(): column for column in each.columns} for each in (table, other))
    sentences = [f"column {column.name} is only in {label}" for low, column in mine.items() if low not in yours]
    sentences += [f"column {column.name} is only in {other_label}" for low, column in yours.items() if low not in mine]
    for low, column in mine.items():
        there = yours.get(low, column)
        if column.native.lower() != there.native.lower():
            sentences.append(f"column {column.name} is {column.native} in {label} and {there.native} in {other_label}")
        if column.nullable != there.nullable:
            with_null, without = (label, other_label) if column.nullable else (other_label, label)
            sentences.append(f"column {column.name} may be NULL in {with_null} and not in {without}")
    keys = [", ".join(name.lower() for name in each.primary_key) or "none" for each in (table, other)]
    return sentences + ([f"the primary key is ({keys[0]}) in {label} and ({keys[1]}) in {other_label}"] if keys[0] != keys[1] else [])


def _table_changes(before: StoredSchema, now: StoredSchema) -> list[str]:
    old = {column["name"]: column for column in before["columns"]}
    new = {column["name"]: column for column in now["columns"]}
    renamed = _guess_renames(old, new)
    sentences = []
    for name in [name for name in old if name not in new]:
        sentences.append(f"column {name} was dropped ({old[name]['type']}){_rename_hint(name, renamed)}")
    for name in [name for name in new if name not in old]:
        sentences.append(f"column {name} was added ({new[name]['type']})")
    for name in [name for name in old if name in new]:
        sentences += [f"column {name} {change}" for change in _column_changes(old[name], new[name])]
    if before["primary_key"] != now["primary_key"]:
        sentences.append(f"the primary key was {_key_text(before)} and is {_key_text(now)}")
    return sentences


def _column_changes(old: StoredColumn, new: StoredColumn) -> list[str]:
    sentences = []
    if old["type"] != new["type"]:
        sentences.append(f"was {old['type']} and is {new['type']}")
    if old["nullable"] != new["nullable"]:
        sentences.append("may be NULL now" if new["nullable"] else "may no longer be NULL")
    return sentences


def _key_text(schema: StoredSchema) -> str:
    return f"({', '.join(schema['primary_key'])})" if schema["primary_key"] else "none"


def _rename_hint(name: str, renamed: Mapping[str, str]) -> str:
    return f"; perhaps it is called {renamed[name]} now" if name in renamed else ""


def _guess_renames(old: Mapping[str, StoredColumn], new: Mapping[str, StoredColumn]) -> dict[str, str]:
    """Map dropped columns to added ones that may be the same: the only ones of their type after the same remaining column."""
    dropped, added = _unmatched_columns(old, new), _unmatched_columns(new, old)
    return {names[0]: added[place][0] for place, names in dropped.items() if len(names) == 1 and len(added.get(place, [])) == 1}


def _unmatched_columns(columns: Mapping[str, StoredColumn], others: Mapping[str, StoredColumn]) -> dict[tuple[str, str], list[str]]:
    """Return columns that are not among ``others``, by the last column before them that is, and by their type."""
    unmatched: dict[tuple[str, str], list[str]] = {}
    last = ""
    for name, column in columns.items():
        if name in others:
            last = name
        else:
            unmatched.setdefault((last, column["type"]), []).append(name)
    return unmatched


def compare_schemas(audit: Audit, earlier: Schemas | None, tables: Mapping[Side, Endpoint]) -> tuple[Schemas, tuple[str, ...]]:
    """Return the tables' columns, and how they changed since the last run. Raises SchemaChanged if the audit is strict about that."""
    schemas: Schemas = {side: describe_schema(end.table) for side, end in tables.items()}
    changes = describe_changes(earlier, schemas)
    if changes and audit.schema_ == "strict":
        raise SchemaChanged(
            f"the tables' columns changed since the last run that was done: {'; '.join(changes)}; to accept them, write"
            " schema: note in this audit, run it once, and write schema: strict again"
        )
    return schemas, changes


def check_columns(audit: Audit, known: Schemas, side: Side, session: Session) -> None:
    """Raise ColumnsChanged if a table's columns are no longer those that the run found when it began."""
    now = describe_schema(introspect.describe_table(audit, side, session).table)
    if changes := describe_breaks(known[side], now):
        raise ColumnsChanged(
            f"{side}: while the run read the table, {'; '.join(changes)}: nothing is claimed about rows read before and after that;"
            " run the audit again"
        )
