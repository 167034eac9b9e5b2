"""Check what a running pipeline depends on, report what will stop it before it does, and record what it lags behind.

What is seen is a `PipelineProgress`, which the store keeps and `auditor pipeline status`, metrics and the log show.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from auditor.api_models.pipeline import PipelineProgress, StagedBatch
from auditor.background import Service
from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import AuditorError, StoreError
from auditor.pipeline.binlog.log_connection import source_of
from auditor.pipeline.binlog.server import LogFiles, read_log_files
from auditor.pipeline.events import Place
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.kafka.offsets import is_of_topics
from auditor.pipeline.kafka.topic_cluster import TopicCluster, TopicEnds, open_cluster, read_ends
from auditor.pipeline.kafka.topics import Partition
from auditor.pipeline.part_deletion import warn_of_budget
from auditor.store import Store, lags, parts, pipelines
from auditor.store.parts import Pile
from auditor.store.pipelines import PipelineState

log = logging.getLogger(__name__)

LEAST_FREE_BYTES = 256 << 20
"""Free bytes on the staging's disk below which a warning is reported, whatever a batch needs."""

BATCHES_TO_SPARE = 4
"""Batches, as large as the largest one so far, for which the staging's disk must have room, or a warning is reported."""

EXPIRY_SHARE = 0.5
"""Share of the time for which the source keeps its log after which standing still is reported."""

MOST_PARTITIONS = 20
"""Partitions of topics that are listed with what they lag behind."""

MOST_SAMPLES = 10_000
"""Remembered checks: some five hours of a pipeline that lags behind all the time."""


@dataclass(slots=True)
class Watch:
    """Checks a running pipeline every ``watch_poll`` seconds, and stores what it saw."""

    store: Store
    settings: Settings
    name: str
    batch: StagedBatch | None = None
    """The last batch; set by staging."""
    began: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    largest: int = 0
    """Bytes of the largest batch so far."""
    _files: LogFiles | None = None
    _topics: TopicEnds | None = None
    _cluster: TopicCluster | None = None
    _ends: deque[tuple[dt.datetime, TopicEnds]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))
    _open: dict[Partition, tuple[int, dt.datetime]] = field(default_factory=dict)
    """Since when which partitions are read no further, because a transaction stands open there."""
    _samples: deque[tuple[dt.datetime, Place]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))
    _current: dt.datetime | None = None
    """When the log last ended where staging is, at the last check."""
    _reported: frozenset[str] = frozenset()
    _connection: Any = None

    def service(self, stopped: threading.Event) -> Service:
        """Return what checks until ``stopped`` is set."""
        history = LagRecorder(self.store, self.name, list(self.settings.pipeline(self.name).targets))
        check, failure = partial(self._check_and_store, history), f"{self.name}: the pipeline could not be checked"
        fields = {"pipeline": self.name}
        return Service("watch", check, durations().watch_poll, failure=failure, fields=fields, at_end=self._close, stopping=stopped)

    def _check_and_store(self, history: LagRecorder) -> None:
        """Store what a check found. A source or store that is not reached is a warning in the log, and checked again."""
        try:
            progress = self.check()
            pipelines.set_progress(self.store, self.name, progress)
            history.record(progress, dt.datetime.now(dt.UTC))
        except StoreError as error:
            self._report([f"the store cannot be reached; staging and merges wait for it, and nothing is lost: {error}"])
        except AuditorError as error:
            self._report([str(error)])

    def check(self) -> PipelineProgress:
        """Return what is seen now. Raises StoreError."""
        state = pipelines.get_pipeline(self.store, self.name)
        warnings = []
        try:
            if self.settings.pipeline(self.name).topic_source:
                self._topics = self._read_topics(state.source_offset)
                warnings += self._find_open(self._topics, dt.datetime.now(dt.UTC))
            else:
                self._files = self._read_source()
        except AuditorError as error:
            warnings.append(f"the source cannot be checked: {error}")
        current_at, now = self._current_at(state), dt.datetime.now(dt.UTC)
        budget = warn_of_budget(self.store, self.name, self.settings.pipeline(self.name))
        batch = self.batch or state.progress.batch
        seen = SeenSource(self._files, self._topics, current_at)
        progress = assess(state, seen, self._disk(), now, batch, warnings, budget, began=self.began)
        self._current = progress.current_at
        self._report(progress.warnings)
        return progress

    def bytes_behind(self, offset: Any) -> int | None:
        """Return how many bytes of the log came after an offset at the last check; None if that is not known."""
        place = _place(offset)
        return self._files.bytes_behind(place) if self._files and place else None

    def note_batch(self, events: int, size: int, seconds: float) -> None:
        """Remember a batch that was staged."""
        self.batch = StagedBatch(events=events, bytes=size, seconds=round(seconds, 3))
        self.largest = max(self.largest, size)

    def _current_at(self, state: PipelineState) -> dt.datetime | None:
        """Return when the log last ended at or before the place where staging is, as far as earlier checks show."""
        place, now = _place(state.source_offset), dt.datetime.now(dt.UTC)
        if self._files:
            self._samples.append((now, self._files.end))
        current = None
        if self._topics:
            self._ends.append((now, self._topics))
            while self._ends and not self._ends[0][1].behind(state.source_offset):
                current = self._ends.popleft()[0]
        while place and self._samples and self._samples[0][1].order <= place.order:
            current = self._samples.popleft()[0]
        return current or self._current or known_current_at(state)

    def _disk(self) -> tuple[int, int] | None:
        return disk_room(folder_at(self.settings.pipeline(self.name).staging.path), self.largest)

    def _read_source(self) -> LogFiles:
        try:
            self._connection = self._connection or source_of(self.settings, self.name).connect()
            return read_log_files(self._connection)
        except AuditorError:
            self._close()
            raise

    def _read_topics(self, offset: Any) -> TopicEnds:
        if self._cluster is None:
            self._cluster = open_cluster(self.settings, self.name)
        return read_ends(self._cluster, offset)

    def _find_open(self, topics: TopicEnds, now: dt.datetime) -> list[str]:
        """Return which partitions are read no further for long, because a producer neither commits its transaction nor aborts it."""
        before = self._open
        self._open = {
            partition: before[partition] if before.get(partition, (-1, now))[0] == offset else (offset, now)
            for partition, offset in topics.hidden.items()
        }
        return [
            f"partition {number} of the topic {topic} is read up to offset {offset}: a producer's transaction stands open there since"
            f" {since:%Y-%m-%d %H:%M:%S} UTC, and hides all that follows; end its producer, or abort it (kafka-transactions.sh)"
            for (topic, number), (offset, since) in self._open.items()
            if (now - since).total_seconds() >= durations().transaction_open
        ]

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            with suppress(Exception):  # it may be lost
                connection.close()

    def _report(self, warnings: list[str]) -> None:
        """Log warnings that are new, once each until they go."""
        for sentence in warnings:
            if _kind(sentence) not in self._reported:
                log.warning("%s: %s", self.name, sentence, extra={"action": "pipeline_warning", "pipeline": self.name})
        self._reported = frozenset(_kind(sentence) for sentence in warnings)


def check_once(settings: Settings, name: str, state: PipelineState) -> PipelineProgress:
    """Return what is seen of a pipeline that no process runs. A source that is not reached is one of the warnings."""
    files, topics, batch, warnings = None, None, state.progress.batch, []
    try:
        if settings.pipeline(name).topic_source:
            topics = read_ends(open_cluster(settings, name), state.source_offset)
        else:
            with closing(source_of(settings, name).connect()) as connection:
                files = read_log_files(connection)
    except AuditorError as error:
        warnings.append(f"the source cannot be checked: {error}")
    disk = disk_room(folder_at(settings.pipeline(name).staging.path), batch.bytes if batch else 0)
    return assess(state, SeenSource(files, topics, known_current_at(state)), disk, dt.datetime.now(dt.UTC), batch, warnings)


@dataclass(frozen=True, slots=True)
class SeenSource:
    """What was seen of a source: of its log, or of its topics; nothing where it was not reached."""

    files: LogFiles | None = None
    topics: TopicEnds | None = None
    current_at: dt.datetime | None = None
    """When it last ended where staging was."""


def assess(
    state: PipelineState,
    seen: SeenSource,
    disk: tuple[int, int] | None,
    now: dt.datetime,
    batch: StagedBatch | None = None,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    *,
    began: dt.datetime | None = None,
) -> PipelineProgress:
    """Return what is seen, from what staging recorded, the source, and the free and needed bytes of the disk.

    ``before`` and ``after`` are other warnings, which stand around its own.
    """
    place, warnings, files, current_at = _place(state.source_offset), list(before), seen.files, seen.current_at
    partitions = seen.topics.behind(state.source_offset) if seen.topics else []
    behind = files.bytes_behind(place) if files and place else None
    current_at = now if behind == 0 or (seen.topics and not partitions) else current_at
    warnings += seen.topics.warnings if seen.topics else []
    if files and place and behind is None:
        warnings.append(
            f"{place.file}, which staging reads, is gone from the source's binary log: forget the pipeline's positions with"
            " auditor pipeline reset, and copy its tables again"
        )
    elif files and files.expiry and behind and current_at and (now - current_at).total_seconds() > EXPIRY_SHARE * files.expiry:
        lost_at = current_at + dt.timedelta(seconds=files.expiry)
        warnings.append(
            f"staging has been at {place} since {current_at:%Y-%m-%d %H:%M:%S} UTC, and the source may delete what follows from"
            f" {lost_at:%Y-%m-%d %H:%M:%S} UTC on, because binlog_expire_logs_seconds is {files.expiry}; let the pipeline continue, or"
            " raise that setting"
        )
    if disk and disk[0] < disk[1]:
        warnings.append(
            f"the disk of the staging's folder has {disk[0] >> 20:,} MiB left, and fewer than {disk[1] >> 20:,} MiB may not do for the"
            " next batches; free some space there: staging waits while it is full"
        )
    return PipelineProgress(
        at=now,
        began=began,
        log_end=str(files.end) if files else None,
        log_expires=files.expiry if files else None,
        lag_bytes=behind,
        lag_messages=sum(one.end - one.offset for one in partitions) if seen.topics else None,
        partitions=partitions[:MOST_PARTITIONS],
        current_at=current_at,
        free_bytes=disk[0] if disk else None,
        needed_bytes=disk[1] if disk else None,
        batch=batch,
        warnings=[*warnings, *after],
        notes=list(files.notes) if files else state.progress.notes,
    )


def known_current_at(state: PipelineState) -> dt.datetime | None:
    """Return when the log last ended where staging stood, as the store has it."""
    return state.progress.current_at or state.staged_at


def disk_room(root: Folder, largest: int) -> tuple[int, int] | None:
    """Return the free bytes of the disk of a folder and those that batches need; None if the folder is not on this host."""
    free = root.free_bytes()
    return None if free is None else (free, max(LEAST_FREE_BYTES, BATCHES_TO_SPARE * largest))


def _place(offset: Mapping[str, Any] | None) -> Place | None:
    """Return the place of a stream's offset; None if there is none."""
    return (
        Place(offset["file"], int(offset["position"])) if offset and "." in str(offset.get("file")) and not is_of_topics(offset) else None
    )


def _kind(sentence: str) -> str:
    """Return a warning without the numbers in it, which change from check to check."""
    return "".join(character for character in sentence if not character.isdigit())


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
    if progress.is_at_end:
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
    _events: dict[lags.Place, int] = field(default_factory=dict)
    """Events that were staged and merged until the last check."""

    def record(self, progress: PipelineProgress, now: dt.datetime) -> None:
        """Store what the pipeline lags behind, if that is due; ``progress`` is what the watch saw of its source. Raises StoreError."""
        if self._last and now - self._last < INTERVAL:
            return
        seconds = (now - self._last).total_seconds() if self._last else 0.0
        self._last = now
        with self.store.share_connection():
            state, merged = pipelines.get_pipeline(self.store, self.name), pipelines.count_merged(self.store, self.name)
            missing = parts.sum_missing(self.store, self.name, self.targets)
        whole = lags.Lag(source_lag(progress, now), progress.lag_bytes, self._rate(("", ""), state.events, seconds))
        by_place: dict[lags.Place, lags.Lag] = {}
        for target in self.targets:
            piles = missing[target]
            events = dict.fromkeys(piles, 0) | {table: number for (of_target, table), number in merged.items() if of_target == target}
            rates = {table: rate for table, number in events.items() if (rate := self._rate((target, table), number, seconds))}
            of_tables = {
                table: lags.Lag(table_lag(pile, now), pile.bytes, rates.get(table, 0.0))
                for table in {*piles, *rates}
                for pile in [piles.get(table, Pile())]
            }
            by_place |= {(target, table): lag for table, lag in of_tables.items()}
            by_place[target, ""] = _together(list(of_tables.values()), whole.seconds)
        lags.record_lag(self.store, self.name, now, whole, by_place)
        if self._thinned is None or now - self._thinned >= THINNING:
            lags.thin(self.store, self.name, now)
            self._thinned = now

    def _rate(self, place: lags.Place, events: int, seconds: float) -> float:
        """Return the events a second since the last check; 0 at the first one, and after a reset."""
        before, self._events[place] = self._events.get(place), events
        return round(max(0, events - before) / seconds, 3) if before is not None and seconds else 0.0


def _together(table_lags: list[lags.Lag], behind: float | None) -> lags.Lag:
    """Return what a target lags behind as a whole."""
    waiting = [lag.seconds or 0.0 for lag in table_lags if lag.bytes]
    return lags.Lag(target_lag(waiting, behind), sum(lag.bytes or 0 for lag in table_lags), round(sum(lag.rate for lag in table_lags), 3))
