"""Read a server's whole binary log: its transactions, from headers, table maps and heartbeats; and one of them by its global id.

What comes before that one may be missing in the log of another server.

https://dev.mysql.com/doc/refman/9.4/en/replication-gtids-concepts.html and https://mariadb.com/kb/en/gtid/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from auditor.errors import LogRefused
from auditor.model import HEARTBEAT_TABLE
from auditor.pipeline.binlog import event_types as types
from auditor.pipeline.binlog.event_types import refused
from auditor.pipeline.binlog.heartbeats import Beat, BeatFinder
from auditor.pipeline.binlog.log_connection import Dump, Request, Source, first_place, log_status, other_server_id
from auditor.pipeline.binlog.ranges import file_name
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.table_map import table_name
from auditor.pipeline.binlog.transactions import HEAD, MariaDBTransactions, Transactions
from auditor.pipeline.events import Place


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


_MARIADB_ENTRY = struct.Struct("<IIQ")
"""Domain, server id and number in a GTID_LIST event. https://mariadb.com/kb/en/gtid_list_event/"""


@dataclass(frozen=True, slots=True)
class GlobalId:
    """A transaction's global id: MySQL's ``uuid:7`` or ``uuid:tag:7``, MariaDB's ``domain-server-7``."""

    text: str
    server: str
    """The server that committed it first: its UUID, or its server id."""
    sequence: str
    """What its number counts in: the server (and tag) on MySQL, the domain on MariaDB."""
    number: int

    @classmethod
    def parse(cls, text: str) -> GlobalId:
        """Return the id of a text as events have it."""
        if ":" in text:
            sequence, _, number = text.rpartition(":")
            return cls(text, sequence.partition(":")[0], sequence, int(number))
        domain, server, number = text.split("-")
        return cls(text, server, domain, int(number))


@dataclass(slots=True)
class Search:
    """What was found of a transaction in a server's log."""

    place: Place | None = None
    """Where it ends; None if it is not there."""
    out_of_order: list[GlobalId] = field(default_factory=list)
    """Transactions of its sequence that stand on the wrong side of it."""
    own: list[Logged] = field(default_factory=list)
    """Transactions with rows of the chosen tables that this server was the first to commit, and that stand before it."""
    sequences: set[str] = field(default_factory=set)
    """Sequences of all transactions in the log."""


def search_log(source: Source, wanted: GlobalId, own_server: str, selection: Selection, known: Mapping[str, int]) -> Search:
    """Search all of a server's log for a transaction.

    ``own_server`` is the server itself, as `GlobalId.server` has it; of its own transactions those are left out whose number is in
    ``known`` or below it. Raises LogRefused for a log without global ids, ChangeStreamError and EngineError.
    """
    search = Search()
    earlier: list[GlobalId] = []
    for transaction in logged_transactions(source):
        if transaction.gtid is None:
            raise LogRefused(f"{transaction.end}: a transaction has no global id; switch them on (gtid_mode) before the next failover")
        known_as = GlobalId.parse(transaction.gtid)
        search.sequences.add(known_as.sequence)
        is_same = known_as.sequence == wanted.sequence
        if known_as == wanted:
            search.place, search.out_of_order = transaction.end, earlier
        elif search.place is None:
            if is_same and known_as.number > wanted.number:
                earlier.append(known_as)
            if known_as.server == own_server and known_as.number > known.get(own_server, 0) and transaction.writes(selection):
                search.own.append(transaction)
        elif is_same and known_as.number < wanted.number:
            search.out_of_order.append(known_as)
    return search


def first_state(source: Source) -> dict[str, int]:
    """Return the last number of each server whose transactions MariaDB no longer has in its log; empty for MySQL."""
    with closing(source.connect()) as connection:
        start = first_place(connection)
    with closing(Dump(Request(source, start, other_server_id(), blocking=False))) as dump, refused(lambda: start):
        for buffer, at, _ in dump.events():
            kind = types.HEADER.unpack_from(buffer, at)[1]
            if kind == types.MARIADB_GTID_LIST:
                body = at + types.HEADER.size
                count = int.from_bytes(buffer[body : body + 4], "little") & 0x0FFFFFFF
                entries = [_MARIADB_ENTRY.unpack_from(buffer, body + 4 + number * _MARIADB_ENTRY.size) for number in range(count)]
                return {str(server): max(number for _, other, number in entries if other == server) for _, server, _ in entries}
            if kind in (types.GTID, types.ANONYMOUS_GTID, types.TAGGED_GTID, types.MARIADB_GTID):
                break
    return {}
