"""Find a place of one server's log in the log of another by the last heartbeat before it, where transactions have no global ids."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.pipeline.binlog.beats import Trail
from auditor.pipeline.binlog.dump import Source
from auditor.pipeline.binlog.logged import Logged, logged_transactions
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.binlog.selection import Selection


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
