"""What ClickHouse's catalogue says of tables: which engine keeps their rows decides what a row of them is, and whether they can be read.

https://clickhouse.com/docs/engines/table-engines
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dialects.base import Catalogue, Session
from dialects.catalogue import Column, Table
from dialects.errors import AccessDenied, NoSuchObject

PLAIN = frozenset({"MergeTree", "Memory", "Log", "TinyLog", "StripeLog"})
"""Engines whose rows are those that were inserted."""

MERGING = re.compile(r"(Replacing|Collapsing|VersionedCollapsing|Coalescing|Summing|Aggregating)MergeTree")
"""Engines of whose rows FINAL makes those that the table holds."""

OF_OTHERS = frozenset({"View", "MaterializedView", "Merge", "Distributed"})
"""Engines that show rows of other tables, which are read with FINAL as well."""

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("Kafka", "RabbitMQ", "NATS", "FileLog", "S3Queue", "AzureQueue", "Redis"),
        "what reads it takes its messages away; audit the table that its materialized view fills",
    ),
    "Null": "it keeps no rows; audit the table that its materialized view fills",
    "Buffer": "it shows rows that its table does not have yet, without those being made one with others of their key; audit that table",
    "GenerateRandom": "it has other rows each time",
    "GraphiteMergeTree": "it rolls rows up at times of its own",
}
"""Why tables of an engine are not read, and what to do, as clauses."""


def engine_name(engine: str) -> str:
    """Return an engine's name without what says only where its parts are."""
    return re.sub(r"^(?:Replicated|Shared)(?=\w*MergeTree$)", "", engine)


class ClickHouseCatalogue(Catalogue):
    """The catalogue of ClickHouse."""

    FOLDED = "lowerUTF8({})"

    SYSTEM_SCHEMAS = frozenset({"information_schema", "system"})

    def knows_zone(self, session: Session, zone: str) -> bool:
        return bool(session.query(f"SELECT 1 FROM system.time_zones WHERE time_zone = {session.dialect.names.literal(zone)}"))

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        rows = session.query(f"DESCRIBE TABLE (\n{query}\n)")
        return tuple(Column(str(row[0]), str(row[1]), session.dialect.types.kind(str(row[1])), nullable=True) for row in rows)

    def protections(self, session: Session, table: Table) -> list[str]:
        return super().protections(session, table) + self._of_engine(session, table)

    def _policies(self, session: Session, table: Table, template: str) -> list[str]:
        # https://clickhouse.com/docs/operations/system-tables/row_policies
        try:
            return super()._policies(session, table, template)
        except AccessDenied:
            return [f"this user may not see whether policies hide rows of {table.sql}; the privilege SHOW ROW POLICIES lets it"]

    def _of_engine(self, session: Any, table: Table) -> list[str]:
        """Return what is to be known of a table whose rows FINAL does not make everywhere: over shards, or under a filter."""
        engine, definition = "", ""
        if table.names:
            schema, name = table.names
            engine, definition = self._engines(session, schema, [name]).get(name, ("", ""))
        found = []
        if engine == "Distributed":
            found.append(
                f"{table.sql} is a Distributed table: each shard makes one row of the versions that it has itself, so that a key whose rows"
                " lie on several shards is read several times"
            )
        if MERGING.fullmatch(engine_name(engine)) and " PARTITION BY " in definition and not session.prunes_late:
            found.append(
                f"{table.sql} has partitions, which this server leaves out before it makes one row of several versions: a filter on a"
                " column of PARTITION BY that changes shows older versions; upgrade to a server with defer_partition_pruning_after_final"
            )
        return found

    def _describe_tables(self, session: Session, schema: str, columns: Mapping[str, Sequence[Column]]) -> list[Table]:
        engines = self._engines(session, schema, list(columns))
        for name in columns:
            engine, _ = engines.get(name, ("", ""))
            known = engine_name(engine)
            if known not in PLAIN | OF_OTHERS and not MERGING.fullmatch(known):
                why = REFUSED.get(known, "what its rows are was not tried; audit a MergeTree table that holds them")
                raise NoSuchObject(f"{schema}.{name} is not read, because it is a table of the engine {engine}: {why}")
        return [self._with_columns_as_key(table) for table in super()._describe_tables(session, schema, columns)]

    @staticmethod
    def _with_columns_as_key(table: Table) -> Table:
        """Return a table without a primary key where that has parts that are no columns."""
        key = tuple(_unquoted(part) for part in table.primary_key)
        return replace(table, primary_key=key if set(key) <= {column.name for column in table.columns} else ())

    def _engines(self, session: Session, schema: str, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return by table its engine and its definition."""
        return {
            str(name): (str(engine), str(definition))
            for holes in self._holes(session, schema, names)
            for name, engine, definition in session.query(session.dialect.catalogue_query("engine", holes))
        }


def _unquoted(name: str) -> str:
    """Return a name as it is, of one that may stand in backticks."""
    if not name.startswith("`"):
        return name
    return re.sub(r"\\(.)", r"\1", name.strip("`"))
