"""What a pipeline, its targets and their tables lag behind, and the history of that which a running pipeline leaves in the store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from auditor.shapes.pipeline import PipelineProgress
from auditor.store import Store, lags, parts, pipelines
from auditor.store.lags import Lag, Place
from auditor.store.parts import Pile

INTERVAL = dt.timedelta(seconds=lags.SPAN)
"""Time between two checks that are stored."""

THINNING = dt.timedelta(hours=1)
"""Time between two times at which old checks are replaced by their maxima."""


def table_lag(pile: Pile, now: dt.datetime) -> float:
    """Return the age in seconds of the oldest part of a table that is missing in a target; 0 if none is."""
    return max(0.0, (now - pile.oldest).total_seconds()) if pile.oldest else 0.0


def target_lag(tables: Iterable[float], source_lag: float | None) -> float | None:
    """Return what a target lags behind, in seconds, from the lags of its tables that are incomplete; None if that is not known."""
    return max([*tables, source_lag]) if source_lag is not None else None


def source_lag(progress: PipelineProgress, now: dt.datetime) -> float | None:
    """Return the seconds since the source's log ended where staging is, by what a process saw just now."""
    if progress.lag_bytes == 0:
        return 0.0
    return max(0.0, (now - progress.current_at).total_seconds()) if progress.current_at else None


@dataclass(slots=True)
class LagRecorder:
    """Stores what a pipeline lags behind, at most once every INTERVAL."""

    store: Store
    name: str
    targets: Sequence[str]
    _last: dt.datetime | None = None
    _thinned: dt.datetime | None = None
    _events: dict[Place, int] = field(default_factory=dict)
    """Events that were staged and merged until the last check."""

    def record(self, progress: PipelineProgress, now: dt.datetime) -> None:
        """Store what the pipeline lags behind, if that is due; ``progress`` is what the watch saw of its source. Raises StoreError."""
        if self._last and now - self._last < INTERVAL:
            return
        seconds = (now - self._last).total_seconds() if self._last else 0.0
        self._last = now
        state, merges = pipelines.get_pipeline(self.store, self.name), pipelines.list_merges(self.store, self.name)
        whole = Lag(source_lag(progress, now), progress.lag_bytes, self._rate(("", ""), state.events, seconds))
        by_place: dict[Place, Lag] = {}
        for target in self.targets:
            reports = merges.get(target, {})
            piles = parts.sum_parts(self.store, self.name, {table: report.position for table, report in reports.items()})
            of_tables = {}
            for table in sorted({*piles, *reports}):
                pile, merged = piles.get(table, Pile()), reports[table].events if table in reports else 0
                of_tables[table] = Lag(table_lag(pile, now), pile.bytes, self._rate((target, table), merged, seconds))
            by_place |= {(target, table): lag for table, lag in of_tables.items()}
            by_place[target, ""] = _together(list(of_tables.values()), whole.seconds)
        lags.record_lag(self.store, self.name, now, whole, by_place)
        if self._thinned is None or now - self._thinned >= THINNING:
            lags.thin(self.store, self.name, now)
            self._thinned = now

    def _rate(self, place: Place, events: int, seconds: float) -> float:
        """Return the events a second since the last check; 0 at the first one, and after a reset."""
        before, self._events[place] = self._events.get(place), events
        return round(max(0, events - before) / seconds, 3) if before is not None and seconds else 0.0


def _together(table_lags: list[Lag], behind: float | None) -> Lag:
    """Return what a target lags behind as a whole."""
    waiting = [lag.seconds or 0.0 for lag in table_lags if lag.bytes]
    return Lag(target_lag(waiting, behind), sum(lag.bytes or 0 for lag in table_lags), round(sum(lag.rate for lag in table_lags), 3))
