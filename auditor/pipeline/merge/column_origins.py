"""Tell which column of a table's earlier schema each column of its new one was, from the statements between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.pipeline.events import TableSchema
from auditor.pipeline.table_ops import Op


@dataclass(frozen=True, slots=True)
class Origins:
    """Where columns come from."""

    old: Mapping[str, str] = field(default_factory=dict)
    """The name that each column of the new schema had in the earlier one; of columns that are not new."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What rows that were there have in each new column that a statement added, as `added_value` says."""
    said: Sequence[str] = ()
    """What a person should know, a sentence each."""


def find_origins(old: TableSchema, new: TableSchema, statements: Iterable[Sequence[Op]]) -> Origins:
    """Return where the columns of the new schema come from; each statement does all its changes at once."""
    table, said = f"{new.database}.{new.table}", []
    now: dict[str, str | Mapping[str, Any]] = {column.name.lower(): column.name for column in old.columns}
    for ops in statements:
        now = _apply(now, ops)
        said += [f"{table}: {op['text']!r} was not understood, so columns are told by their names" for op in ops if op["op"] == "unread"]
    names = {column.name.lower(): column.name for column in new.columns}
    unknown = [name for name in names if name not in now]
    known = {column.name.lower(): column.name for column in old.columns}
    taken = {origin for name, origin in now.items() if name in names and isinstance(origin, str)}
    for name in unknown:
        if name in known and known[name] not in taken:  # a statement that was not seen brought it back
            now[name] = known[name]
    origins = {names[name]: origin for name, origin in now.items() if name in names and isinstance(origin, str)}
    values = {names[name]: origin for name, origin in now.items() if name in names and not isinstance(origin, str)}
    new_ones = [name for name in names.values() if name not in origins and name not in values]
    lost = [origin for name, origin in now.items() if name not in names and isinstance(origin, str)]
    if new_ones and lost:
        said.append(
            f"{table}: {', '.join(new_ones)} came and {', '.join(lost)} went, and no statement says that one was renamed: the old column is"
            " dropped and the new one added"
        )
    return Origins(origins, values, said)


def _apply(now: Mapping[str, str | Mapping[str, Any]], ops: Sequence[Op]) -> dict[str, str | Mapping[str, Any]]:
    """Return by name what the columns are after a statement."""
    renamed = {op["from"].lower(): op["to"].lower() for op in ops if op["op"] == "rename"}
    dropped = {op["column"].lower() for op in ops if op["op"] == "drop"}
    found = {renamed.get(name, name): origin for name, origin in now.items() if name not in dropped}
    return found | {op["column"].lower(): op["value"] for op in ops if op["op"] == "add" and op["column"].lower() not in found}
