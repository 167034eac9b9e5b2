"""Let a pipeline go on from another server: find where its log holds what was read, and refuse where rows may be missing.

What was staged is a beginning of the old server's log, up to one transaction. The new server is a replica of it, so its log has the same
transactions, under other files and offsets. It may be gone on with behind that transaction if the same ones stand before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from auditor.errors import FailoverRefused
from auditor.pipeline.binlog.dump import Source, log_status, query
from auditor.pipeline.binlog.global_ids import GlobalId, Search, first_state, search_log
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.binlog.ranges import Mark, as_offset, from_offset
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.server import identify_server
from auditor.pipeline.events import Position

LAST_EPOCH = 127
"""Epochs are numbers of seven bits; each failover takes one."""


@dataclass(frozen=True, slots=True)
class Failover:
    """Where a pipeline goes on in another server's log."""

    offset: dict[str, Any]
    """The offset of its stream there, in an epoch of its own, so that positions keep growing."""
    gaps: tuple[str, ...] = ()
    """Sentences on what may be missing; empty if nothing is."""

    @property
    def place(self) -> Place:
        """The place in the new server's log."""
        return from_offset(self.offset).place


def find_failover(offset: Mapping[str, Any] | None, to: Source, selection: Selection) -> Failover:
    """Find where a stream that stands at ``offset`` goes on in the log of another server.

    Where rows may be missing, the gaps say so; if the transaction is not there, the place is the end of the log now. Raises
    FailoverRefused where no place can be found at all, ChangeStreamError and EngineError.
    """
    mark, wanted = _last_read(offset)
    assert offset is not None
    with closing(to.connect()) as connection:
        server, end, mariadb = identify_server(connection), log_status(connection).end, log_status(connection).mariadb
        own = str(query(connection, "SELECT @@GLOBAL.server_id" if mariadb else "SELECT @@GLOBAL.server_uuid")[0][0])
        purged_own = "" if mariadb else _purged(connection, own)
    if mariadb == (":" in wanted.text):
        raise FailoverRefused(
            f"the last transaction that was read is {wanted.text}, which is no global id of {'MariaDB' if mariadb else 'MySQL'}; fail over"
            " to a replica of the same kind"
        )
    known = {**offset.get("known", {}), wanted.server: wanted.number}
    found = search_log(to, wanted, own, selection, known)
    gone = first_state(to).get(own, 0) > known.get(own, 0) if mariadb else bool(purged_own) and own not in known
    there = found.place or end
    epoch = int(offset["epoch"]) + 1
    if epoch > LAST_EPOCH:
        raise FailoverRefused(f"the pipeline has failed over {LAST_EPOCH} times, and positions have room for no more; reset it")
    Position(epoch, there.file_number, there.offset).pack()
    moved = as_offset(Mark(there, wanted.text if found.place else None), epoch) | {"server": server, "known": known}
    return Failover(moved, tuple(_gaps(wanted, found, mark, to.name, gone)))


def _last_read(offset: Mapping[str, Any] | None) -> tuple[Mark, GlobalId]:
    """Return the mark of an offset and the global id of the last transaction before it. Raises FailoverRefused."""
    if not offset:
        raise FailoverRefused("the pipeline has read nothing yet; name the new connection under source: and start it")
    mark = from_offset(offset)
    if not mark.gtid:
        raise FailoverRefused(
            f"no global id is known of the last transaction before {mark.place}; switch on global ids (gtid_mode) where the pipeline reads,"
            " or reset the pipeline and copy its tables again"
        )
    if mark.prepared:
        raise FailoverRefused(
            f"{len(mark.prepared)} XA transactions were prepared on the old server and not decided before {mark.place}; reset the pipeline"
            " and copy its tables again"
        )
    return mark, GlobalId.parse(mark.gtid)


def _gaps(wanted: GlobalId, found: Search, mark: Mark, name: str, own_gone: bool) -> list[str]:
    where = f"connection {name}:"
    if found.place is None:
        lost = f"the log lacks transaction {wanted.text}, which was read last, at {mark.place}"
        return [f"{where} {lost}: it never arrived there, or is purged; all tables may differ"]
    gaps = []
    if ":" not in wanted.text and len(found.sequences) > 1:
        gaps.append(f"{where} the log has several domains ({', '.join(sorted(found.sequences))}), which have no common order")
    if found.out_of_order:
        gaps.append(f"{where} {_few([one.text for one in found.out_of_order])} stand in another order than in the old server's log")
    if found.own:
        tables = sorted({f"{database}.{table}" for one in found.own for database, table in one.tables or ()})
        own = _few([one.id.text for one in found.own if one.id])
        gaps.append(f"{where} it wrote {own} itself, before {found.place}, with rows of {_few(tables) or 'tables that are not told'}")
    if own_gone:
        gaps.append(f"{where} it wrote transactions itself that its log no longer has")
    return gaps


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _purged(connection: Any, server: str) -> str:
    """Return which of MySQL's own transactions its log no longer has. https://dev.mysql.com/doc/refman/9.4/en/gtid-functions.html"""
    # Numbers of one server end at 2^63 - 2.
    everything = f"{server}:1-9223372036854775806"
    [(others,)] = query(connection, f"SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, GTID_SUBTRACT(@@GLOBAL.gtid_purged, '{everything}'))")
    return str(others or "").replace("\n", "")
