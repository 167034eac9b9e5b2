"""How Iceberg tables are written to, by commits of single tables, and how their columns change. How rows are loaded: `written_session`.

Columns change by the metadata alone where no value changes, else by a snapshot of all rows in the new form. Either is one commit, which
carries the position.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from dialects.alteration import Alteration, Altering, Changes
from dialects.catalogue import Table
from dialects.duckdb.writing import DuckDBWriting
from dialects.iceberg.commits import FormItem, in_metadata, write_form


class IcebergAltering(Altering):
    """How the columns of Iceberg tables change."""

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        types = {one.column.name: one.native for one in changes.retyped}
        kept = [column for column in table.columns if column.name not in changes.dropped]
        items = [FormItem(changes.renamed.get(one.name, one.name), one.name, types.get(one.name, "")) for one in kept]
        items += [FormItem(one.name, "", one.native) for one in changes.added]
        quote = session.dialect.names.quote
        is_quick = in_metadata(items, {one.name: one.native for one in kept}) and not any(one.literal for one in changes.added)
        partitions = {name.lower() for name in session.partitioned_by(table.sql)}
        changed = [*changes.dropped, *(() if is_quick else (one.column.name for one in changes.retyped))]
        if keyed := [name for name in changed if name.lower() in partitions]:
            return Alteration(refused=f"{table.sql} is partitioned by {keyed[0]}: change its partitions first, on Spark")
        if is_quick:
            return Alteration(rows=write_form(items, table.sql, quote))
        if unread := [column.name for column in kept if column.kind is None]:
            return Alteration(refused=f"{unread[0]} of {table.sql} is not written again: change the table by hand, on Spark")
        literals = {one.name: one.literal or "NULL" for one in changes.added}
        values = []
        for item in items:
            value = quote(item.origin) if item.origin else literals[item.name]
            values.append(f"{f'CAST({value} AS {item.native})' if item.native else value} AS {quote(item.name)}")
        return Alteration(rows=f"SELECT {', '.join(values)} FROM (SELECT * FROM {table.sql}) AS t", moves_rows=True)


class IcebergWriting(DuckDBWriting):
    """How Iceberg tables are written."""

    ANALYZE = ""  # its readers plan by what stands in the metadata
    WRITES_COMMITS = True
    altering: ClassVar[Altering] = IcebergAltering()
    MERGES_LITERALS = False
    FOLDS_NAMES = "all"  # as DuckDB, which reads the tables, folds names
    NAME_LIMIT = (255, "bytes")  # of a folder's name

    def refuse_name(self, name: str, of: Literal["table", "column"]) -> str:
        if of == "table" and (not name.strip(".") or any(character in name for character in r"./\%?#")):  # which catalogues read otherwise
            return "cannot be that of a table which each catalogue finds"
        return super().refuse_name(name, of)
