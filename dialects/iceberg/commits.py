"""Changes of Iceberg tables, each one snapshot, which carries its application's numbers.

A snapshot is made of the one that was looked at, or not at all: pyiceberg would otherwise put it after what others wrote meanwhile. What
fails because another was quicker is started again from the newest snapshot.

The numbers stand in the snapshot's summary, so that a table that is rolled back has those of then. What a table carries is what the
nearest of its current snapshot and its ancestors says. Because old snapshots expire, the same commit writes them into the table's
properties, each with the sequence number of its snapshot, which count where the ancestors are gone.

https://iceberg.apache.org/spec/#snapshots
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.durations import durations
from dialects.iceberg.data_files import delete_files, format_type

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

ATTEMPTS = 8
"""How often a commit is tried while others are quicker."""

VERSION = 2
"""The version of the format that is written: 1 numbers no commits, and pyiceberg writes no later one."""

PROMOTED = {("INTEGER", "BIGINT"), ("FLOAT", "DOUBLE")}
"""Types of DuckDB that a column gets by the metadata alone. https://iceberg.apache.org/spec/#schema-evolution"""


class Overtaken(Exception):
    """Others were quicker; nothing was committed."""


def ancestors(table: Table) -> tuple[list[Snapshot], bool]:
    """Return the current snapshot and those that it was made of, the newest first, and whether earlier ones are expired.

    pyiceberg takes the parent from a snapshot when that expires, so that a first one is known by its number, which is 1.
    """
    known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    found: list[Snapshot] = []
    number = table.metadata.current_snapshot_id
    while number is not None:
        if number not in known:
            return found, True
        found.append(known[number])
        number = known[number].parent_snapshot_id
    return found, bool(found) and (found[-1].sequence_number or 0) > 1


def read_marks(table: Table, name: str, marks: Sequence[str]) -> list[int]:
    """Return the numbers that a table carries of these applications; 0 for none. Raises StatementRefused where that is not known."""
    found: dict[str, int] = {}
    chain, is_cut = ancestors(table)
    for snapshot in chain:
        for mark in marks:
            number = _own_mark(snapshot, mark)
            if mark not in found and number is not None:
                found[mark] = number
        if len(found) == len(set(marks)):
            break
    if is_cut and chain:
        for mark in marks:
            number, sequence = _kept_mark(table, mark)
            if mark not in found and number:
                if sequence > (chain[0].sequence_number or 0):
                    raise errors.StatementRefused(
                        f"{name} was rolled back to a snapshot whose ancestors are expired, so that what it holds is not known; reset the"
                        " pipeline, and fill the table again"
                    )
                found[mark] = number
    return [found.get(mark, 0) for mark in marks]


def _own_mark(snapshot: Snapshot, mark: str) -> int | None:
    summary = snapshot.summary
    text = summary.additional_properties.get(mark) if summary else None
    return None if text is None else int(text)


def _kept_mark(table: Table, mark: str) -> tuple[int, int]:
    number, _, sequence = table.properties.get(mark, "0 0").partition(" ")
    return int(number), int(sequence)


def marks_since(table: Table, mark: str, number: int, most: int) -> list[tuple[Snapshot, int]]:
    """Return the snapshots, the newest last, from the first one on that carries at least a number, each with what it carries.

    None where the last ``most`` that are there do not reach back as far.
    """
    chain, is_cut = ancestors(table)
    looked, reaches_begin = chain[:most][::-1], not is_cut and len(chain) <= most
    carried: list[tuple[Snapshot, int | None]] = []
    latest = 0 if reaches_begin else None
    for snapshot in looked:
        own = _own_mark(snapshot, mark)
        latest = latest if own is None else own
        carried.append((snapshot, latest))
    found: list[tuple[Snapshot, int]] = []
    for snapshot, held in reversed(carried):
        if held is None:
            return []
        if held < number:
            return found[::-1]
        found.append((snapshot, held))
    return found[::-1] if reaches_begin else []


def pause(attempt: int) -> None:
    """Wait a random time, growing with the attempts, before a commit that others overtook is made again."""
    time.sleep(random.uniform(0, min(durations().longest_commit_pause, 0.05 * 2**attempt)))


def write(
    table: Table,
    marks: Mapping[str, int],
    gone: Iterable[DataFile] = (),
    make: Callable[[TableMetadata], Sequence[DataFile]] | None = None,
    form: Callable[[Transaction], None] | None = None,
) -> None:
    """Make the next snapshot of a table as it was loaded: without the files that are gone, and with those that ``make`` returns.

    ``form`` changes the columns first, in the same commit. Raises Overtaken, after the new files are deleted, if the table is not as it was
    loaded any more.
    """
    from pyiceberg.exceptions import CommitFailedException

    if table.metadata.format_version != VERSION:
        raise errors.StatementRefused(
            f"{'.'.join(table.name())} has version {table.metadata.format_version} of the format, and version {VERSION} is what is written"
        )
    once = {**table.properties, "commit.retry.num-retries": "0"}  # here alone: what is committed are the differences
    table.metadata = table.metadata.model_copy(update={"properties": once})
    sequence, made = table.metadata.next_sequence_number(), list[Any]()
    transaction = table.transaction()
    try:
        if form:
            form(transaction)
        transaction.set_properties({mark: f"{number} {sequence}" for mark, number in marks.items()})
        made += make(transaction.table_metadata) if make else ()
        update = transaction.update_snapshot(snapshot_properties={mark: str(number) for mark, number in marks.items()})
        files = list(gone)
        with update.overwrite() if files else update.fast_append() as producer:
            for file in files:
                producer.delete_data_file(file)
            for file in made:
                producer.append_data_file(file)
        transaction.commit_transaction()
    except CommitFailedException as error:
        delete_files(table.io, made)
        raise Overtaken from error


# columns, as a SELECT states them

_NAME = r'"(?:[^"]|"")+"'
_CAST = rf"CAST\((?P<cast>{_NAME}|NULL) AS (?P<type>[A-Z][A-Z ]*(?:\(\d+, ?\d+\))?)\)"
_ITEM = re.compile(rf"(?:{_CAST}|(?P<plain>{_NAME})) AS (?P<name>{_NAME})(?P<end>, | FROM )")


@dataclass(frozen=True, slots=True)
class FormItem:
    """A column of the new form of a table."""

    name: str
    origin: str
    """The name that it has before; empty for a new one."""
    native: str
    """DuckDB's type that it gets; empty to keep its own."""


def write_form(items: Sequence[FormItem], table: str, quote: Callable[[str], str]) -> str:
    """Return the SELECT of a table's rows in a new form, as `read_form` reads it."""
    values = []
    for item in items:
        value = quote(item.origin) if item.origin else "NULL"
        values.append(f"{f'CAST({value} AS {item.native})' if item.native else value} AS {quote(item.name)}")
    return f"SELECT {', '.join(values)} FROM {table}"


def read_form(rows: str, table: str) -> list[FormItem] | None:
    """Return the columns of a SELECT that `write_form` made for this table; None for any other."""
    place, items = len("SELECT "), list[FormItem]()
    while rows.startswith("SELECT "):
        match = _ITEM.match(rows, place)
        if match is None:
            return None
        origin = match["plain"] or ("" if match["cast"] == "NULL" else match["cast"])
        items.append(FormItem(_unquoted(match["name"]), _unquoted(origin), match["type"] or ""))
        place = match.end()
        if match["end"] == " FROM ":
            return items if rows[place:] == table else None
    return None


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"')


def is_promotion(held: str, wanted: str) -> bool:
    """Return whether a column gets a type of DuckDB by the metadata alone."""
    pattern = r"DECIMAL\((\d+), ?(\d+)\)"
    narrow, wide = re.fullmatch(pattern, held), re.fullmatch(pattern, wanted)
    if narrow and wide:
        return narrow[2] == wide[2] and int(narrow[1]) <= int(wide[1])
    return held == wanted or (held, wanted) in PROMOTED


def in_metadata(items: Sequence[FormItem], natives: Mapping[str, str]) -> bool:
    """Return whether a new form of the columns, whose types are ``natives``, changes no values."""
    return all(not item.origin or not item.native or is_promotion(natives[item.origin], item.native) for item in items)


def evolve(transaction: Transaction, items: Sequence[FormItem], natives: Mapping[str, str]) -> None:
    """Give a table the columns of a new form: those that stay keep their ids."""
    origins = {item.origin: item for item in items if item.origin}
    names = [field.name for field in transaction.table_metadata.schema().fields]
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name in names:
            if name not in origins:
                update.delete_column((name,))
    taken = {name.lower() for name in (*names, *(item.name for item in items))}
    free = _free_names(taken)
    renamed = {item.origin: next(free) for item in items if item.origin and item.origin != item.name}
    with transaction.update_schema() as update:
        for name, between in renamed.items():
            update.rename_column((name,), between)
    with transaction.update_schema() as update:
        for name, between in renamed.items():
            update.rename_column((between,), origins[name].name)
    with transaction.update_schema() as update:
        for item in items:
            if not item.origin:
                update.add_column((item.name,), format_type(item.name, item.native))
            elif item.native and item.native != natives[item.origin]:
                update.update_column((item.name,), field_type=format_type(item.name, item.native))


def replace_columns(transaction: Transaction, columns: Mapping[str, str]) -> None:
    """Give a table these columns, of DuckDB's types: those of the same name and type stay, and others are new ones."""
    from dialects.iceberg.layout import native_type

    held = {field.name: native_type(field.field_type, lambda name: name) for field in transaction.table_metadata.schema().fields}
    wanted = {name: native_type(format_type(name, native), lambda name: name) for name, native in columns.items()}
    fresh = {name: columns[name] for name, native in wanted.items() if held.get(name) != native}
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name in held:
            if name not in wanted or name in fresh:
                update.delete_column((name,))
    with transaction.update_schema() as update:
        for name, native in fresh.items():
            update.add_column((name,), format_type(name, native))
    with transaction.update_schema() as update:
        for name in reversed(list(columns)):
            update.move_first((name,))


def _free_names(taken: set[str]) -> Iterator[str]:
    return (name for number in range(10**6) if (name := f"auditor_renamed_{number}") not in taken)


def why_not_written(schema: Schema) -> str:
    """Return why rows of a table are not written again, as a clause; '' if they are.

    pyiceberg 0.12 writes NULL in a list of structs as an empty list.
    """
    nested = [field.name for field in schema.fields if not field.field_type.is_primitive]
    return f"its column {nested[0]} is nested" if nested else ""
