"""Remember tables and their decoders by what the log says of them."""

from __future__ import annotations

from dataclasses import replace

from auditor.errors import AuditorError, LogRefused
from auditor.pipeline.binlog import column_types as types
from auditor.pipeline.binlog.dump import Source
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.binlog.row_decoder import Decoder, make_decoder
from auditor.pipeline.binlog.table_map import HIDDEN_TYPES, TableMap, is_fixed_binary, parse_table_map, with_hidden_types
from auditor.pipeline.binlog.tracked_columns import MINIMAL_WAYS, TrackedTable, complete

MAX_TABLES = 2_000
"""Table maps that are remembered, with their decoders, from one range to the next."""

HIDDEN_PERIOD, PERIOD_DIGITS = ("row_start", "row_end"), 6
"""The columns that a system-versioned table has where its definition names none, and the digits of their seconds."""

_decoders: dict[tuple[bytes, bool, Source, TrackedTable | None], tuple[TableMap, Decoder]] = {}
"""Tables and their decoders by table map, whether MariaDB wrote it, source, and what a tracker knows of them. A worker of Spark keeps them
from one task to the next."""


def known_table(
    described: bytes, mariadb: bool, source: Source, place: Place, tracked: TrackedTable | None, like: tuple[str, str] | None = None
) -> tuple[TableMap, Decoder]:
    """Return the table of a table map and its decoder.

    ``tracked`` are its columns at that place, where a tracker knows them; ``like`` names the table whose columns it has. Raises LogRefused,
    and errors of a connection.
    """
    known = _decoders.get((described, mariadb, source, tracked))
    if known is None:
        try:
            table = _described(parse_table_map(described, mariadb), mariadb, source, tracked, like)
            if mariadb and like is None:
                table = _with_period(table, source)
        except LogRefused as error:
            raise LogRefused(f"{place}: {error}") from error
        try:
            known = table, make_decoder(table)
        except AuditorError as error:
            raise LogRefused(f"{place}: {table.name}: {error}") from error
        if len(_decoders) >= MAX_TABLES:
            _decoders.clear()
        _decoders[described, mariadb, source, tracked] = known
    return known


def _with_period(table: TableMap, source: Source) -> TableMap:
    """Return the table, with the columns of its period if it is system-versioned: its key then ends with that which ends the period.

    https://mariadb.com/kb/en/system-versioned-tables/
    """
    ends = table.key[-1] if table.key else 0
    if not table.key or table.columns[ends].type != types.TIMESTAMP2 or table.columns[ends].meta != PERIOD_DIGITS:
        return table
    computed = source.computed_columns(table.database, table.table)
    if computed.get(table.columns[ends].name) == "ROW END":
        return replace(table, ends=ends)
    last = tuple(range(len(table.columns)))[-len(HIDDEN_PERIOD) :]
    if tuple(table.columns[number].name for number in last) == HIDDEN_PERIOD and ends == last[-1] and HIDDEN_PERIOD[-1] not in computed:
        return replace(table, ends=ends, hidden=last)  # no catalogue has them
    return table


def _described(table: TableMap, mariadb: bool, source: Source, tracked: TrackedTable | None, like: tuple[str, str] | None) -> TableMap:
    """Return the table with the names of its columns. Raises LogRefused, without a place, if nobody knows them."""
    if not table.is_full:
        if tracked is None:
            raise LogRefused(f"{table.name} is logged without the names of its columns; {MINIMAL_WAYS}, then refresh the tables")
        return complete(table, tracked)
    if mariadb and any(is_fixed_binary(column, size) for column in table.columns for size in set(HIDDEN_TYPES.values())):
        return with_hidden_types(table, source.name_types(*(like or (table.database, table.table))))
    return table
