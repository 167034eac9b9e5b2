"""What a target's table does with rows beside what a merge writes: named, and refused unless the configuration accepts it by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from auditor.errors import HazardRefused
from dialects import Table
from dialects.writing import Hazard

MEANINGS = {
    "trigger": "which may write something else than the source has",
    "cascade": "whose rows go or change with rows of this table",
    "row security": "whose policies hide rows from the pipeline's user",
    "partitions": "which has no partition for some values",
    "generated": "which the target computes itself",
    "identity": "which the target numbers itself",
}
"""Kinds of hazards that are refused, and what each means. The last two only of columns that the pipeline carries."""


def check_hazards(table: str, found: Table, hazards: Sequence[Hazard], carried: Collection[str], accepted: Collection[str]) -> None:
    """Check what a target's table does by itself; ``carried`` are its columns that a pipeline fills. Raises HazardRefused."""
    if broken := next((one.name for one in hazards if one.kind == "broken trigger"), ""):
        raise HazardRefused(
            f"{table}: {found.sql} in the target has trigger {broken}, and rows that are inserted from another table lose values in this"
            " release of MariaDB where a trigger stands before them (MDEV-36026); update the server, or remove the trigger"
        )
    named = dict.fromkeys((one.kind, one.name) for one in hazards if one.kind in MEANINGS)
    open_ = [
        (kind, name)
        for kind, name in named
        if f"{kind} {name}" not in accepted and (kind not in ("generated", "identity") or name in carried)
    ]
    if open_:
        listed = "; ".join(f"{kind} {name}, {MEANINGS[kind]}" for kind, name in open_)
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
