"""The transactions of a server's whole binary log, from headers, table maps and heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from auditor.model import HEARTBEAT_TABLE
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.dump import Dump, Request, Source, first_place, log_status, other_server_id
from auditor.pipeline.binlog.event_types import refused
from auditor.pipeline.binlog.heartbeats import Beat, BeatFinder
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.binlog.ranges import file_name
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.table_map import table_name
from auditor.pipeline.binlog.transactions import HEAD, MariaDBTransactions, Transactions


@dataclass(frozen=True, slots=True)
class Logged:
    """A transaction of a binary log."""

    gtid: str | None
    end: Place
    tables: frozenset[tuple[str, str]] | None
    """Databases and tables of its rows; None if it is compressed, so that only decoding it would tell."""
    server: int = 0
    """The number of the server that was the first to commit it."""
    origin: bytes = b""
    """Who was the first to commit it, and when."""
    beat: Beat | None = None
    """The heartbeat that it wrote."""

    def writes(self, selection: Selection) -> bool:
        """Return whether it may have rows of the chosen tables, heartbeats apart."""
        return self.tables is None or any(selection.has(*table) for table in self.tables if table[1] != HEARTBEAT_TABLE)


def logged_transactions(source: Source) -> Iterator[Logged]:
    """Yield the transactions of a server's whole log, up to where it ends now. Raises ChangeStreamError and EngineError."""
    with closing(source.connect()) as connection:
        start, end = first_place(connection), log_status(connection).end
    file, tables, checksum, beats = start.file, set[tuple[str, str]](), 0, BeatFinder()
    with closing(Dump(Request(source, start, other_server_id(), blocking=False))) as dump, refused(lambda: start):
        transactions = MariaDBTransactions() if dump.mariadb else Transactions()
        for buffer, at, stop in dump.events(head=HEAD):
            _, kind, _, size, offset, flags = types.HEADER.unpack_from(buffer, at)
            body = at + types.HEADER.size
            if kind == types.TABLE_MAP:
                tables.add(table_name(buffer[body + 6 : stop]))
                beats.feed(kind, buffer, body, stop - checksum)
            elif kind in types.ROWS_TYPES:
                beats.feed(kind, buffer, body, stop - checksum)
            elif kind == types.FORMAT:
                checksum = types.checksum_bytes(buffer, stop)
            elif kind == types.ROTATE and (flags & types.ARTIFICIAL or not offset):
                file = file_name(buffer[at : at + size])
            elif kind in transactions.KINDS and transactions.feed(kind, buffer, body, stop - checksum):
                is_compressed = kind == types.TRANSACTION_PAYLOAD
                if is_compressed:
                    beats.unpack(buffer[body : stop - checksum])
                names = None if is_compressed else frozenset(tables)
                yield Logged(transactions.last_gtid, Place(file, offset), names, transactions.server, transactions.origin, beats.take())
                tables = set()
            if Place(file, offset).order >= end.order and offset:
                return
