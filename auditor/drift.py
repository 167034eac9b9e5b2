"""What changed of a table's columns between two runs, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialects import Table


def schema_of(table: Table) -> dict[str, Any]:
    """A table's columns in their order, and its primary key, as plain values to be kept."""
    return {
        "columns": [{"name": column.name, "type": column.native, "nullable": column.nullable} for column in table.columns],
        "primary_key": list(table.primary_key),
    }


def changes(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> tuple[str, ...]:
    """What is not as it was, a sentence a change, each with its side in front. Both map sides to what ``schema_of`` said of them.

    Without a ``before`` nothing changed. The order of columns is no change, for they are compared by their names.
    """
    told: list[str] = []
    for side, there in now.items():
        earlier = (before or {}).get(side)
        if earlier is not None:
            told += [f"{side}: {sentence}" for sentence in _changes(earlier, there)]
    return tuple(told)


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    old = {column["name"]: column for column in before["columns"]}
    new = {column["name"]: column for column in now["columns"]}
    renamed = _renamed(old, new)
    told = []
    for name in [name for name in old if name not in new]:
        told.append(f"column {name} was dropped ({old[name]['type']}){_hint(name, renamed)}")
    for name in [name for name in new if name not in old]:
        told.append(f"column {name} was added ({new[name]['type']})")
    for name in [name for name in old if name in new]:
        told += [f"column {name} {change}" for change in _column_changes(old[name], new[name])]
    if before["primary_key"] != now["primary_key"]:
        told.append(f"the primary key was {_key(before)} and is {_key(now)}")
    return told


def _column_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    told = []
    if old["type"] != new["type"]:
        told.append(f"was {old['type']} and is {new['type']}")
    if old["nullable"] != new["nullable"]:
        told.append("may be NULL now" if new["nullable"] else "may no longer be NULL")
    return told


def _key(schema: Mapping[str, Any]) -> str:
    return f"({', '.join(schema['primary_key'])})" if schema["primary_key"] else "none"


def _hint(name: str, renamed: Mapping[str, str]) -> str:
    return f"; perhaps it is called {renamed[name]} now" if name in renamed else ""


def _renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Of dropped columns the added one that may be the same: the only one of its type between the same two that stayed."""
    gone, come = (_between(here, there) for here, there in ((old, new), (new, old)))
    return {names[0]: come[place][0] for place, names in gone.items() if len(names) == 1 and len(come.get(place, [])) == 1}


def _between(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Columns that are not ``there``, by the last column before them that is, and by their type."""
    found: dict[tuple[str, str], list[str]] = {}
    last = ""
    for name, column in here.items():
        if name in there:
            last = name
        else:
            found.setdefault((last, column["type"]), []).append(name)
    return found
