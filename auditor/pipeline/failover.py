"""Let a pipeline continue from another server: find where its log holds what was read, and refuse where rows may be missing.

What was staged is a beginning of the old server's log, up to one transaction. The new server is a replica of it, so its log has the same
transactions, under other files and offsets. It is possible to continue after that transaction if the same ones come before it. The
transaction is known by its global id; without one, by the last heartbeat before it and the transactions between.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from auditor.errors import FailoverRefused
from auditor.pipeline.binlog.heartbeats import Trail
from auditor.pipeline.binlog.log_connection import Source, log_status, query
from auditor.pipeline.binlog.ranges import Mark, SourceOffset, as_offset, from_offset
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.binlog.whole_log import GlobalId, Logged, Search, first_state, logged_transactions, search_log
from auditor.pipeline.events import Place, Position
from auditor.pipeline.tracker.follower import TRACKED


@dataclass(slots=True)
class BeatSearch:
    """What was found of a trail in a server's log."""

    beat: Place | None = None
    """Where the heartbeat's transaction ends; None if it is not there."""
    place: Place | None = None
    """Where the last transaction of the trail ends; None if it is missing in the log, or the log has others there."""
    transactions: int = 0
    """How many transactions come after the heartbeat, up to as many as the trail has."""
    own: list[Logged] = field(default_factory=list)
    """Transactions with rows of the chosen tables that this server was the first to commit, and that stand before the place."""


def search_trail(source: Source, wanted: Trail, own_server: int, selection: Selection, left: Place | None) -> BeatSearch:
    """Search all of a server's log for a trail.

    ``own_server`` is the server's number: what it committed itself is in no trail of another server. Of that, what comes before ``left``
    was read already, when this server was the source. Raises ChangeStreamError and EngineError.
    """
    search, trail = BeatSearch(), Trail(wanted.beat)
    for transaction in logged_transactions(source):
        if transaction.beat == wanted.beat:
            search.beat, trail = transaction.end, Trail(wanted.beat)
            search.place = transaction.end if trail == wanted else None
        elif transaction.server == own_server:
            is_read = left is not None and transaction.end.order <= left.order
            if search.place is None and not is_read and transaction.writes(selection):
                search.own.append(transaction)
        elif search.beat and trail.transactions < wanted.transactions:
            trail = trail.after(transaction.origin)
            search.place = transaction.end if trail == wanted else None
    search.transactions = trail.transactions if search.beat else 0
    return search


LAST_EPOCH = 127
"""Epochs are numbers of seven bits; each failover takes one."""


@dataclass(frozen=True, slots=True)
class Failover:
    """Where a pipeline continues in another server's log."""

    offset: SourceOffset
    """The offset of its stream there, in an epoch of its own, so that positions keep growing. ``left`` has for each earlier epoch the
    server that was read, and up to where."""
    behind: str
    """What it continues after; empty for the end of the log."""
    gaps: tuple[str, ...] = ()
    """Sentences on what may be missing; empty if nothing is."""
    tables: tuple[str, ...] = ()
    """The tables that may differ then; empty for all."""

    @property
    def place(self) -> Place:
        """The place in the new server's log."""
        return from_offset(self.offset).place


@dataclass(frozen=True, slots=True)
class _NewServer:
    """The server that is to be read."""

    source: Source
    identity: str
    number: int
    uuid: str
    """Of MySQL; '' for MariaDB."""
    end: Place

    @classmethod
    def look_at(cls, source: Source) -> _NewServer:
        with closing(source.connect()) as connection:
            status = log_status(connection)
            [(number,)] = query(connection, "SELECT @@GLOBAL.server_id")
            uuid = "" if status.mariadb else str(query(connection, "SELECT @@GLOBAL.server_uuid")[0][0])
            return cls(source, identify_server(connection), int(number), uuid, status.end)


def find_failover(offset: Mapping[str, Any] | None, to: Source, selection: Selection) -> Failover:
    """Find where a stream that is at ``offset`` continues in the log of another server.

    Where rows may be missing, the gaps say so; if the transaction is not there, the place is after the last heartbeat, or the end of the
    log now. Raises FailoverRefused where no place can be found at all, ChangeStreamError and EngineError.
    """
    mark = last_read(offset)
    assert offset is not None
    epoch = int(offset["epoch"]) + 1
    if epoch > LAST_EPOCH:
        raise FailoverRefused(f"the pipeline has failed over {LAST_EPOCH} times, and positions have room for no more; reset it")
    server = _NewServer.look_at(to)
    left = dict(offset.get("left", {})) | {str(epoch - 1): [offset.get("server", ""), mark.place.file, mark.place.offset]}
    if mark.gtid:
        known, there, behind, gaps, tables = _by_global_id(offset, mark, server, selection)
    else:
        assert mark.trail
        known = dict(offset.get("known", {}))
        there, behind, gaps, tables = _by_heartbeat(left, mark, mark.trail, server, selection)
    Position(epoch, there.place.file_number, there.place.offset).pack()
    moved = as_offset(there, epoch) | {"server": server.identity, "known": known, "left": left}
    if TRACKED in offset and (there.gtid or (there.trail and there.trail == mark.trail)):  # the tracker is where the stream is
        moved[TRACKED] = offset[TRACKED]
    return Failover(moved, behind, tuple(gaps), tuple(tables))


def last_read(offset: Mapping[str, Any] | None) -> Mark:
    """Return the mark of an offset, with a global id or a heartbeat. Raises FailoverRefused."""
    if not offset:
        raise FailoverRefused("the pipeline has read nothing yet; name the new connection under source: and start it")
    mark = from_offset(offset)
    if not mark.gtid and not mark.trail:
        raise FailoverRefused(
            f"no global id is known of the last transaction before {mark.place}, and no heartbeat; switch on global ids (gtid_mode) where"
            " the pipeline reads, or write heartbeats there (auditor heartbeat run), before the next failover; now reset the pipeline and"
            " copy its tables again"
        )
    if mark.prepared:
        raise FailoverRefused(
            f"{len(mark.prepared)} XA transactions were prepared on the old server and not decided before {mark.place}; reset the pipeline"
            " and copy its tables again"
        )
    return mark


def _by_global_id(
    offset: Mapping[str, Any], mark: Mark, server: _NewServer, selection: Selection
) -> tuple[dict[str, int], Mark, str, list[str], list[str]]:
    """Return which transactions are known of each server, where to continue, after what, and the gaps with their tables."""
    wanted, is_mariadb = GlobalId.parse(mark.gtid or ""), not server.uuid
    if is_mariadb == (":" in wanted.text):
        raise FailoverRefused(
            f"the last transaction that was read is {wanted.text}, which is no global id of {'MariaDB' if is_mariadb else 'MySQL'}; fail"
            " over to a replica of the same kind"
        )
    known = {**offset.get("known", {}), wanted.server: wanted.number}
    own = str(server.number) if is_mariadb else server.uuid
    search = search_log(server.source, wanted, own, selection, known)
    if is_mariadb:
        is_gone = first_state(server.source).get(own, 0) > known.get(own, 0)
    else:
        is_gone = own not in known and bool(_purged(server.source, own))
    gaps = find_gaps(wanted, search, mark, server.source.name, is_gone)
    there = Mark(search.place, wanted.text, trail=mark.trail) if search.place else Mark(server.end)
    is_own_alone = len(gaps) == 1 and bool(search.own)
    return known, there, f"transaction {wanted.text}" if search.place else "", gaps, _tables(search.own) if is_own_alone else []


def find_gaps(wanted: GlobalId, search: Search, mark: Mark, name: str, own_gone: bool) -> list[str]:
    """Return a sentence for each way in which the new server's log may not continue the old one's; ``own_gone``: it lost what it wrote."""
    where = f"connection {name}:"
    if search.place is None:
        lost = f"transaction {wanted.text}, which was read last, at {mark.place}, is missing in the log"
        return [f"{where} {lost}: it never arrived there, or is purged; all tables may differ"]
    gaps = []
    if ":" not in wanted.text and len(search.sequences) > 1:
        gaps.append(f"{where} the log has several domains ({', '.join(sorted(search.sequences))}), which have no common order")
    if search.out_of_order:
        gaps.append(
            f"{where} {_few([global_id.text for global_id in search.out_of_order])} are in another order than in the old server's log"
        )
    if search.own:
        own = _few([transaction.gtid for transaction in search.own if transaction.gtid])
        gaps.append(f"{where} it wrote {own} itself, before {search.place}, with rows of {_few(_tables(search.own)) or _UNKNOWN_TABLES}")
    if own_gone:
        gaps.append(f"{where} it wrote transactions itself that its log no longer has")
    return gaps


def _by_heartbeat(
    left: Mapping[str, Any], mark: Mark, trail: Trail, server: _NewServer, selection: Selection
) -> tuple[Mark, str, list[str], list[str]]:
    """Return where to continue, after what, and the gaps with their tables."""
    known = [Place(file, position) for identity, file, position in left.values() if identity == server.identity]
    search = search_trail(server.source, trail, server.number, selection, max(known, key=lambda place: place.order, default=None))
    gaps = _gaps_of_trail(trail, search, mark, server.source.name)
    there = (
        Mark(search.place, trail=trail) if search.place else Mark(search.beat, trail=Trail(trail.beat)) if search.beat else Mark(server.end)
    )
    behind = f"{trail.beat} and {_count(trail.transactions)}" if search.place else str(trail.beat) if search.beat else ""
    return there, behind, gaps, _tables(search.own) if search.place else []


def _gaps_of_trail(trail: Trail, search: BeatSearch, mark: Mark, name: str) -> list[str]:
    where, read = f"connection {name}:", f"{_count(trail.transactions)} that were read after {trail.beat}, up to {mark.place}"
    if search.beat is None:
        return [
            f"{where} {trail.beat}, the last one before {mark.place}, is missing in the log: it never arrived there, or is purged; all"
            " tables may differ"
        ]
    if search.place is None and search.transactions < trail.transactions:
        return [f"{where} of {read}, the log has {search.transactions}: the others never arrived there; all tables may differ"]
    if search.place is None:
        return [f"{where} instead of {read}, the log has others, or has them in another order; all tables may differ"]
    if search.own:
        count = "a transaction" if len(search.own) == 1 else f"{len(search.own)} transactions"
        tables = _few(_tables(search.own)) or _UNKNOWN_TABLES
        return [f"{where} it wrote {count} itself, the last one at {search.own[-1].end}, before {search.place}, with rows of {tables}"]
    return []


_UNKNOWN_TABLES = "tables that are not known"


def _count(transactions: int) -> str:
    return "1 transaction" if transactions == 1 else f"{transactions:,} transactions"


def _tables(transactions: list[Logged]) -> list[str]:
    """Return the tables of transactions; none if one of these names no tables."""
    if any(transaction.tables is None for transaction in transactions):
        return []
    return sorted({f"{database}.{table}" for transaction in transactions for database, table in transaction.tables or ()})


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _purged(source: Source, server: str) -> str:
    """Return which of MySQL's own transactions its log no longer has. https://dev.mysql.com/doc/refman/9.4/en/gtid-functions.html"""
    # Numbers of one server end at 2^63 - 2.
    everything = f"{server}:1-9223372036854775806"
    statement = f"SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, GTID_SUBTRACT(@@GLOBAL.gtid_purged, '{everything}'))"
    with closing(source.connect()) as connection:
        [(others,)] = query(connection, statement)
    return str(others or "").replace("\n", "")
