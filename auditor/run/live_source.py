"""Read the source's summaries as of a place of its stream from the sums that a pipeline keeps in its target, without the source."""

from __future__ import annotations

from auditor.errors import LiveSummariesWrong, NoSuchObject
from auditor.model import LiveEpoch
from auditor.sql.live_summaries import LIVE_SUMS, LiveSums, read_links
from auditor.sql.merge import Positions
from auditor.summary import codec, live
from auditor.summary.arrays import Summaries
from dialects import Session


def read_position(session: Session, schema: str, epoch: LiveEpoch) -> int:
    """Return the position O up to which a target's snapshot says that it holds the table of an epoch; 0 if it holds nothing.

    ``schema`` is the target's. Raises EngineError.
    """
    rows = session.query(Positions(session.dialect, schema, epoch.pipeline).list())
    return next((int(position) for table, position, _ in rows if str(table) == epoch.table), 0)


def read_live(session: Session, schema: str, epoch: LiveEpoch, base: bytes, place: int) -> Summaries:
    """Return the summaries of the source as of a position, which is the one that the same snapshot of the target states.

    They are what a scan of the source at this place gives under the epoch's plan, ascending by partition and without those that have no
    row, except that the least and greatest keys are unknown (None). ``base`` is that of the epoch, from the store.

    Raises LiveSummariesWrong, with why, if a sum is missing, damaged, or cannot be one of rows: no sum is returned unchecked.
    """
    if epoch.state != "kept":
        raise LiveSummariesWrong(f"the live summaries of {epoch.audit} are {epoch.state}{f': {epoch.reason}' if epoch.reason else ''}")
    if place < epoch.position:
        raise LiveSummariesWrong(f"the target is at position {place}, and the live summaries of {epoch.audit} begin at {epoch.position}")
    begun = codec.unpack_summaries(base)[1]
    try:
        rows = session.query(LiveSums(session.dialect, schema).list(epoch.id))
    except NoSuchObject as error:
        if place > epoch.position:
            raise LiveSummariesWrong(f"the target has no table {schema}.{LIVE_SUMS}, which holds them") from error
        rows = []
    links = read_links(epoch.id, rows)
    return live.apply(begun, links, epoch=epoch.id, layout=epoch.layout, begin=epoch.position, place=place)
