"""Renew the statistics of a target's tables after many changes, where a target's ``analyze`` asks for it.

An engine plans joins, and a merge's own statements, by what it knows of a table. Most renew that by themselves some time after many rows
have changed; a warehouse that is queried right after a large load may plan for the table as it was. It is done outside the transaction
that merges, so a failure costs nothing but the statistics: it is logged, shown as the table's reason, and tried again after as many
changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from auditor.config import PipelineTarget
from auditor.errors import AuditorError, ConfigError, ConnectionLost, EngineError
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.merge.staged_rows import plain_message
from auditor.store import pipelines
from auditor.store.pipelines import MergeNews
from dialects import Session

log = logging.getLogger(__name__)


def check_analyze(session: Session, chosen: PipelineTarget) -> None:
    """Raise ConfigError if statistics are to be renewed in an engine that has no statement for it."""
    if chosen.analyze and not session.dialect.writing.ANALYZE:
        raise ConfigError(f"analyze asks for new statistics after a merge, and {session.dialect.name} has no statement for that; remove it")


@dataclass(slots=True)
class TableStatistics:
    """What changed in the tables of one target since their statistics were renewed, by this process."""

    where: Where
    target: str
    _changed: dict[str, int] = field(default_factory=dict)
    """Events that were merged since then, by table."""

    def count(self, events: Mapping[str, int]) -> None:
        """Add the events that a transaction merged, by table."""
        if self.where.chosen.analyze:
            for table, count in events.items():
                self._changed[table] = self._changed.get(table, 0) + count

    def renew(self, session: Session, positions: Mapping[str, int], is_asked_away: Callable[[], bool]) -> None:
        """Renew the statistics of tables in which enough has changed; ``positions`` is up to where the target holds them.

        What is left when the session is asked away is done after the next merge. Raises ConnectionLost and StoreError.
        """
        settings = self.where.chosen.analyze
        due = [table for table, changed in self._changed.items() if settings and changed >= settings.after_rows]
        for table in due:
            if is_asked_away():
                return
            self._renew(session, table, positions.get(table, 0))

    def _renew(self, session: Session, table: str, position: int) -> None:
        changed, place, began = self._changed.pop(table), self.where.place(table), time.monotonic()
        try:
            reason = session.loading.analyze(session.dialect.names.table(*place))
        except ConnectionLost:
            raise
        except AuditorError as error:
            reason = str(error)
            if isinstance(error, EngineError):  # which may quote names, but no values of rows
                reason = plain_message(reason, {*place, ".".join(place), *error.names})
        about = {"target": self.target, "table": table, "events": changed, "seconds": time.monotonic() - began}
        if not reason:
            log.info("%s: %s: its statistics were renewed", self.target, table, extra={"action": "analyzed", **about})
            return
        sentence = f"its statistics were not renewed after {changed:,} changes, which are merged: {reason}"
        log.warning("%s: %s: %s", self.target, table, sentence, extra={"action": "not_analyzed", **about})
        news = {table: MergeNews(position, "merged", sentence)}
        pipelines.report_merges(self.where.store, self.where.pipeline, self.target, news)
