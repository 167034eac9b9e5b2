"""How Delta tables are written to, by commits of single tables, and how their columns change. How rows are loaded: `session`.

New columns come by the table's metadata alone, anything else by a commit of all rows in the new form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from dialects.alteration import Alteration, Altering, Changes
from dialects.catalogue import Table
from dialects.duckdb.writing import DuckDBWriting


class DeltaAltering(Altering):
    """How the columns of Delta tables change."""

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        if not (changes.dropped or changes.renamed or changes.retyped or any(one.literal for one in changes.added)):
            return Alteration(self._add(session, table, changes))
        partitions = {name.lower() for name in session.partitioned_by(table.sql)}
        changed = [*changes.dropped, *changes.renamed, *(one.column.name for one in changes.retyped)]
        if keyed := [name for name in changed if name.lower() in partitions]:
            return Alteration(refused=f"{table.sql} is partitioned by {keyed[0]}: write it anew without that, by hand")
        if unread := [column.name for column in table.columns if column.kind is None and column.name not in changes.dropped]:
            return Alteration(refused=f"{unread[0]} of {table.sql} cannot be read, and would be lost: change the table by hand, on Spark")
        return Alteration(rows=f"SELECT {', '.join(_values(session, table, changes))} FROM {table.sql}", moves_rows=True)


def _values(session: Any, table: Table, changes: Changes) -> Iterator[str]:
    """Yield the columns of the new form, of the rows as they are."""
    quote, types = session.dialect.names.quote, {one.column.name: one.native for one in changes.retyped}
    for column in table.columns:
        if column.name not in changes.dropped:
            value, native = quote(column.name), types.get(column.name)
            name = quote(changes.renamed.get(column.name, column.name))
            yield f"CAST({value} AS {native}) AS {name}" if native else f"{value} AS {name}"
    for added in changes.added:
        yield f"CAST({added.literal or 'NULL'} AS {added.native}) AS {quote(added.name)}"


class DeltaWriting(DuckDBWriting):
    """How Delta tables, and those of Parquet with a pointer, are written."""

    ANALYZE = ""  # its readers plan by what stands in the commits
    WRITES_COMMITS = True
    altering: ClassVar[Altering] = DeltaAltering()
    MERGES_LITERALS = False
    FOLDS_NAMES = "all"  # as folders are found by their names
    NAME_LIMIT = (255, "bytes")  # of a file's name

    def refuse_name(self, name: str, of: Literal["table", "column"]) -> str:
        if of == "table" and (name in (".", "..") or any(character in name for character in r"/\%?#")):  # which a URL reads otherwise
            return "cannot be that of a folder which each reader of Delta finds"
        return super().refuse_name(name, of)
