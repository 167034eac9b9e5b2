"""Let a target begin with a table whose first parts were deleted before it was added, once the stream has all its rows again behind them.

A refresh of a whole table replaces every row of the target's table, so that what came before it is not needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from auditor.config import Settings
from auditor.pipeline.events import Place
from auditor.pipeline.merge.load_tasks import settings_of
from auditor.pipeline.merge.merge_to_positions import state_positions
from auditor.pipeline.merge.positions import Held, StreamReader, Where, describe
from auditor.pipeline.staged_refreshes import is_staged
from auditor.store import pipelines, refreshes
from auditor.store.parts import StagedTable
from auditor.store.refreshes import Refresh
from dialects import Session

log = logging.getLogger(__name__)


def begin_late(session: Session, where: Where, held: Mapping[str, Held], staged: Mapping[str, StagedTable]) -> dict[str, Held]:
    """Let the target say that it holds tables up to where their parts were deleted; return what it then holds of these tables.

    They are those of which it holds no rows, and of which all rows were sent, and staged, behind that place. Raises AuditorError.
    """
    if session.dialect.writing.WRITES_COMMITS:
        return {}
    before = {table: held.get(table, Held()) for table in staged}
    now = {table: Held(position) for table, position in find_late(where, before, staged, lambda: settings_of(where.config_file)).items()}
    if now:
        state_positions(session, where, {table: before[table] for table in now}, now)
    return now


def find_late(
    where: StreamReader, held: Mapping[str, Held], staged: Mapping[str, StagedTable], settings: Callable[[], Settings]
) -> dict[str, int]:
    """Return the tables with which a target can begin behind parts that were deleted, and the positions of these.

    They are those of which it holds no rows, and of which all rows were sent, and staged, behind that place. Raises StoreError.
    """
    lacking = [table for table, one in held.items() if not one.schema_id and one.position < staged[table].pruned_through]
    if not lacking:
        return {}
    offset = pipelines.get_pipeline(where.store, where.pipeline).source_offset
    known = settings().pipelines.get(where.pipeline)
    origins = {table: known.origin_of(table) if known else table for table in lacking}
    done = refreshes.list_done(where.store, where.pipeline, sorted({*origins.values()}))
    sent = [one for one in done if is_staged(one.progress, offset)]
    behind = {table: staged[table].pruned_through for table in lacking}
    late = {table: behind[table] for table in lacking for one in sent if one.table == origins[table] and _begins_behind(one, behind[table])}
    for table, position in late.items():
        line, extra = "%s: %s begins at %s, because all its rows were sent again behind that", {"target": where.target, "table": table}
        log.info(line, where.target, table, describe(position), extra={"action": "begun_late", **extra})
    return late


def _begins_behind(refresh: Refresh, position: int) -> bool:
    """Return whether the log ended at or behind a position of the stream before a refresh of all rows wrote any of them."""
    begin, end = refresh.progress.get("begin"), refresh.progress.get("end")
    if not refresh.scope.is_all or not begin or not end or begin[2:] != end[2:]:  # of the same server, and epoch of the stream
        return False
    file, offset, _, epoch = begin
    return Place(str(file), int(offset)).position(int(epoch)).pack() >= position
