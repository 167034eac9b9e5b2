"""Cut what a pipeline staged into segments, and write these: those that end with one step are one file, whatever their tables."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Pipeline
from auditor.errors import SegmentFailed
from auditor.escaping import shell_word
from auditor.model import Part, Segment
from auditor.pipeline.events import is_partition, name_partition, split_stream
from auditor.pipeline.folders import Folder as StagingFolder
from auditor.pipeline.folders import folder_at
from auditor.pipeline.kafka.offsets import from_json
from auditor.pipeline.segments import registering
from auditor.pipeline.segments.buckets import BucketColumns, Bucketed, find_buckets, sums_of
from auditor.pipeline.segments.cut import Numbers, Open, OpenPartition, PartitionRule, Rule, find_ends, find_partition_ends, find_ticks
from auditor.pipeline.segments.event_text import SIZED_BY, TEXTS, text_bytes
from auditor.pipeline.segments.files import Archive
from auditor.pipeline.segments.folders import Blocks, JoinedFiles, SegmentFolder, Stretch
from auditor.pipeline.segments.partitions import PartitionEvents, StagedRanges
from auditor.pipeline.segments.registering import Registration
from auditor.pipeline.staged_parts import read_part
from auditor.store import Store, parts, pipelines, segments, topic_batches
from auditor.store.segments import Cut
from auditor.summary.bucket_sums import BucketSums, SegmentSums

log = logging.getLogger(__name__)

STEP_EVENTS = 1_000_000
"""Events of all tables that are cut before the manifest is written; their positions and times are held in memory."""

MOST_ROWS = 1 << 62
"""More rows than a transaction has: a place with it lies behind all events of its position."""

Place = tuple[int, int]
"""Position, and row within the transaction."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A segment that ended, before it is written."""

    table: str
    """Or the stream that is one partition of its topic."""
    first: Place
    last: Place
    events: Iterator[pa.RecordBatch]
    """They are read when they are asked for."""


@dataclass(slots=True)
class _Table:
    """What is known of a table between two steps."""

    counted: Place = (0, -1)
    """Its last event that was counted, or that of its last segment."""
    through: int = 0
    """Up to which position all its events were counted."""
    open: Open = field(default_factory=Open)
    first: Place | None = None
    """The first event of the open segment."""


@dataclass(slots=True)
class SegmentWriter:
    """Cuts a pipeline's staged events; one process at a time. What it holds in memory is read again from the parts after a restart."""

    store: Store
    pipeline: str
    root: StagingFolder
    """The folder of the staging."""
    folder: SegmentFolder
    rule: Rule
    buckets: BucketColumns
    """The columns by which segments have digests of buckets."""
    registrations: tuple[Registration, ...] = ()
    """The sides of segment audits that the pipeline is."""
    _registered: tuple[Registration, ...] = ()
    _tables: dict[str, _Table] = field(default_factory=dict)
    _cut: Cut | None = None

    def step(self) -> bool:
        """Cut the next events that were staged, and return whether there were any.

        All events up to a position that was staged are listed, because a batch is listed at once: so all tables are cut up to the same
        position. Where segments were replaced meanwhile, or the store says that another position was cut up to, because it was restored,
        nothing is listed, and the next step goes on behind what is. Raises SegmentFailed,
        StagingFailed and StoreError; nothing is listed then, and the step can be repeated.
        """
        before = self._cut or self._begin()
        staged = pipelines.get_pipeline(self.store, self.pipeline).staged_through or 0
        if staged <= before.through:
            return False
        through, found = self._next_parts(before.through, staged)
        if alike := next((table for table in found if is_partition(table)), ""):
            raise SegmentFailed(
                f"the name of the table {alike} ends as that of a topic's partition does, for which its segments would be taken; leave it"
                " out of the pipeline (source: tables), or rename it"
            )
        try:
            clock, next_ended = self._find_ended(found, before, through)
            ended = self._write(next_ended)
            free = {name: self._free(name, through) for name in self._tables}
            cut = Cut(through, clock, free, before.replacements)
            recorded = segments.record_cut(self.store, self.pipeline, ended, cut, before.through, self._also())
        except BaseException:
            self._cut = None  # what was counted is read again
            raise
        if not recorded:
            self._cut = None
            return True
        self._cut = cut
        if ended:
            rows, size = sum(one.rows for one in ended), sum(one.bytes for one in ended)
            extra = {"pipeline": self.pipeline, "action": "segments_ended", "segments": len(ended), "events": rows, "bytes": size}
            log.info("%s: %d segments with %d events ended", self.pipeline, len(ended), rows, extra=extra)
        return True

    def _begin(self) -> Cut:
        """Return how far the stream was cut; what open segments have is counted again with the next step."""
        self._registered = registering.begin(self.store, self.pipeline, self.registrations)
        places = segments.last_places(self.store, self.pipeline)
        cut = segments.get_cut(self.store, self.pipeline)
        self._resume(places, cut)
        self.folder.sweep(self._first_unlisted(cut), partial(segments.find_listed, self.store, self.pipeline))
        for table, staged in parts.list_tables(self.store, self.pipeline).items():
            if staged.pruned_through > cut.free.get(table, 0):  # while no segments were kept; a segment must not span what is gone
                if table in self._tables:
                    extra = {"action": "segments_interrupted", "pipeline": self.pipeline, "table": table}
                    log.warning(
                        "%s: segments of %s begin anew, because parts that they lack were deleted", self.pipeline, table, extra=extra
                    )
                self._tables[table] = _Table((staged.pruned_through, MOST_ROWS), staged.pruned_through)
        self._cut = cut
        return cut

    def _resume(self, places: Mapping[str, Place], cut: Cut) -> None:
        """Go on behind the last segment of each table."""
        self._tables = {table: _Table(place, place[0] - 1) for table, place in places.items()}

    def _first_unlisted(self, cut: Cut) -> int:
        """Return the position behind which files begin that no store may list."""
        return min(cut.free.values(), default=0)

    def _find_ended(self, found: dict[str, list[Part]], cut: Cut, through: int) -> tuple[int, Iterator[Ended]]:
        """Return the stream's clock after the next events, and the segments that end with them, as they are read."""
        ticks, clock = self._ticks(found, cut, through)
        return clock, (
            Ended(table, first, last, self._read(table, first, last))
            for table, listed in sorted(found.items())
            for first, last in self._count(self._tables[table], listed, ticks, through)
        )

    def _also(self) -> list[Callable[[Any, Sequence[Segment]], object]]:
        """Return what is done in the transaction in which segments are listed."""
        return [one.enter for one in self._registered]

    def _read(self, table: str, first: Place, last: Place) -> Iterator[pa.RecordBatch]:
        yield from staged_events(self.root, self._list(table, first[0] - 1, last[0]), first, _next(last))

    def _free(self, table: str, through: int) -> int:
        """Return up to which position a table's parts are not needed any more."""
        first = self._tables[table].first
        return first[0] - 1 if first else through

    def _list(self, table: str, after: int, through: int) -> list[Part]:
        """Return the parts of a table that have events behind one position, and not only behind another."""
        found: list[Part] = []
        while page := parts.list_parts(self.store, self.pipeline, table, found[-1].last if found else after):
            found += [one for one in page if one.first <= through]
            if page[-1].first > through:
                break
        return found

    def _next_parts(self, after: int, staged: int) -> tuple[int, dict[str, list[Part]]]:
        """Return up to which position is cut next, and the parts of each table that have events until there."""
        for table in parts.list_tables(self.store, self.pipeline):
            self._tables.setdefault(table, _Table())
        together = {table for table, state in self._tables.items() if state.through == after}
        found = {table: [] if table in together else self._list(table, state.through, staged) for table, state in self._tables.items()}
        for part in parts.list_parts_of_all(self.store, self.pipeline, after, staged, limit=None) if together else ():
            if part.table in together:
                found[part.table].append(part)
        through, events = staged, 0
        for part in sorted((one for some in found.values() for one in some if one.last > after), key=lambda one: one.last):
            events += part.rows
            if events >= STEP_EVENTS:
                through = min(part.last, staged)
                break
        return through, {table: [one for one in some if one.first <= through] for table, some in found.items()}

    def _ticks(self, found: dict[str, list[Part]], cut: Cut, through: int) -> tuple[Numbers, int]:
        positions, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for part in (one for some in found.values() for one in some):
            for batch in staged_events(self.root, [part], (cut.through + 1, -1), (through + 1, -1)):
                positions.append(batch["position"].to_numpy())
                times.append(batch["time"].cast(pa.int64()).to_numpy())
        return find_ticks(np.concatenate(positions), np.concatenate(times), self.rule.age, cut.latest_commit)

    def _count(self, state: _Table, found: Sequence[Part], ticks: Numbers, through: int) -> Iterator[tuple[Place, Place]]:
        """Count a table's next events, and yield the first and last place of each segment that ends."""
        for batch in [*staged_events(self.root, found, _next(state.counted), (through + 1, -1)), None]:
            positions, rows = (np.empty(0, np.int64),) * 2 if batch is None else (batch[name].to_numpy() for name in ("position", "row"))
            schema_ids = np.empty(0, object) if batch is None else np.array(batch["schema_id"].to_pylist(), object)
            sizes = positions if batch is None else pc.binary_length(TEXTS[SIZED_BY](batch)).to_numpy()
            until = through if batch is None else positions[-1]
            later = ticks[(ticks > state.counted[0]) & (ticks <= until)]
            ends, left = find_ends(positions, sizes, schema_ids, later, state.open, self.rule)
            start = 0
            for end in ends:
                first = state.first or (int(positions[start]), int(rows[start]))
                last = (int(positions[end - 1]), int(rows[end - 1])) if end else state.counted
                yield first, last
                state.first, start = None, end
            if len(positions):
                state.counted = (int(positions[-1]), int(rows[-1]))
                if left.rows and state.first is None:
                    state.first = (int(positions[start]), int(rows[start]))
            state.open = left
        state.through = through

    def _write(self, ended: Iterable[Ended]) -> list[Segment]:
        """Write segments, and return them with their digests."""
        read: list[_Digested] = []
        versions = registering.choose_texts(self.store, self._registered)

        def stretches() -> Iterator[Stretch]:
            for one in ended:
                hashes = {version: hashlib.sha256() for version in versions}
                read.append(_Digested(one.table, one.first, one.last, self.buckets, hashes))
                yield Stretch(one.table, *one.first, read[-1].passed(one.events))

        written = self.folder.write(stretches())
        return [one.segment(*place) for one, place in zip(read, written, strict=True)]


@dataclass(slots=True)
class _Digested:
    """What was seen of a segment's events while they were written."""

    table: str
    first: Place
    last: Place
    columns: BucketColumns
    hashes: dict[int, hashlib._Hash]
    """By the version of the text that is hashed, the newest first."""
    bucketed: Bucketed | None = None
    sums: dict[int, BucketSums] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    schema_id: str = ""
    began: dt.datetime = dt.datetime.max
    ended: dt.datetime = dt.datetime.min
    gtid: str | None = None
    first_gtid: str | None = None

    def passed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, none of them empty, after they were hashed."""
        for batch in batches:
            if not self.rows:
                self.began, self.first_gtid = batch["time"][0].as_py(), batch["gtid"][0].as_py()
                self.schema_id = batch["schema_id"][0].as_py()
                self.bucketed = self.columns.find(self.table, self.schema_id)
            self._digest(batch)
            self.rows += batch.num_rows
            self.ended, self.gtid = batch["time"][-1].as_py(), batch["gtid"][-1].as_py()
            yield batch

    def _digest(self, batch: pa.RecordBatch) -> None:
        texts = {version: TEXTS[version](batch) for version in {*self.hashes, SIZED_BY}}
        self.bytes += len(text_bytes(texts[SIZED_BY]))
        for version, hashed in self.hashes.items():
            hashed.update(text_bytes(texts[version]))
        if self.bucketed and self.bucketed.is_known:
            places = find_buckets(batch, self.bucketed)
            for version in self.hashes:
                self.sums[version] = self.sums.get(version, BucketSums()) + sums_of(texts[version], *places)

    def segment(self, path: str, blocks: Blocks) -> Segment:
        """Return the segment once all its events are in a file."""
        (newest, sha256), *older = ((version, hashed.hexdigest()) for version, hashed in self.hashes.items())
        buckets = SegmentSums(self.bucketed.by, self.sums).encode() if self.bucketed else b""
        return Segment(
            self.table, *self.first, *self.last, self.rows, self.bytes, self.schema_id, sha256, newest, path, self.began, self.ended,
            self.gtid, self.first_gtid, blocks, dict(older), buckets,
        )  # fmt: skip


def staged_events(root: StagingFolder, found: Sequence[Part], first: Place, before: Place) -> Iterator[pa.RecordBatch]:
    """Yield the events of parts from one place, inclusive, to another, exclusive; no batch is empty."""
    for part in found:
        for batch in read_part(root, part, first[0] - 1):
            is_late = _is_at_least(batch, first)
            chosen = batch.filter(pc.and_not(is_late, _is_at_least(batch, before)))
            if chosen.num_rows:
                yield chosen


def _is_at_least(batch: pa.RecordBatch, place: Place) -> pa.Array:
    at = pc.and_(pc.equal(batch["position"], place[0]), pc.greater_equal(batch["row"], place[1]))
    return pc.or_(pc.greater(batch["position"], place[0]), at)


def _next(place: Place) -> Place:
    return place[0], place[1] + 1


def folder_of(pipeline: Pipeline) -> SegmentFolder:
    """Return where a pipeline's segments are kept: in the staging's folder, or in an archive if one is asked for."""
    settings = pipeline.segment
    if settings is None or settings.path is None:
        return JoinedFiles(folder_at(pipeline.staging.path))
    return Archive(settings.path, settings.format, settings.kms_key)


MOST_POSITION = 1 << 62
"""Up to where parts are free of a table whose segments ended for ever: a position behind all others."""


@dataclass(slots=True)
class _Partition:
    """What is known of a topic's partition between two steps."""

    listed: int = -1
    """The offset at which its last segment ended when this writer began."""
    open: OpenPartition | None = None
    first: int = 0
    """The position of the first event of the open segment in the pipeline's stream."""
    last: int = 0
    """That of its last one."""


@dataclass(slots=True, kw_only=True)
class PartitionWriter(SegmentWriter):
    """Cuts the staged messages of topics, each partition by itself: the places of its segments are offsets.

    Where a topic was made again, or a partition's offsets went back, other messages would be taken for those of before: then the segments
    of its table end for this pipeline, until it is reset, and its audits say so instead of a verdict.
    """

    chosen: Pipeline
    partition_rule: PartitionRule
    _partitions: dict[str, dict[int, _Partition]] = field(default_factory=dict)
    """By table, and number."""
    _given_up: dict[str, str] = field(default_factory=dict)
    """Tables whose segments ended, with the reason if this process found it."""
    _schemas: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of columns, by the ids of schemas."""

    def _resume(self, places: Mapping[str, Place], cut: Cut) -> None:
        self._tables = {table: _Table(through=min(position, cut.through)) for table, position in cut.free.items()}
        self._given_up = {table: "" for table, position in cut.free.items() if position == MOST_POSITION}
        self._partitions = {}
        for stream, (offset, _) in places.items():
            table, partition = split_stream(stream)
            self._partitions.setdefault(table, {})[partition] = _Partition(offset)

    def _first_unlisted(self, cut: Cut) -> int:
        return -1  # files are named by offsets, and those of one partition say nothing of another's

    def _find_ended(self, found: dict[str, list[Part]], cut: Cut, through: int) -> tuple[int, Iterator[Ended]]:
        ranges = self._ranges_of([part for some in found.values() for part in some], cut, through)
        self._give_up(ranges)
        return cut.latest_commit, (
            ended for table, listed in sorted(found.items()) for ended in self._count_partitions(table, listed, ranges, through)
        )

    def _ranges_of(self, listed: Sequence[Part], cut: Cut, through: int) -> StagedRanges:
        """Return which offsets parts have, and those of all batches since a cut."""
        first, last = (min([one.first for one in listed], default=through), max([through, *(one.last for one in listed)]))
        return self._ranges(min(first, cut.through + 1), last) or self._ranges(first, last) or self._refuse_unknown()

    def _ranges(self, first: int, last: int) -> StagedRanges | None:
        """Return which offsets the positions from one to another are; None if the store does not know it any more."""
        offsets = topic_batches.list_around(self.store, self.pipeline, first, last)
        return StagedRanges.of([from_json(offset) for offset in offsets]) if offsets else None

    def _refuse_unknown(self) -> StagedRanges:
        raise SegmentFailed(
            f"the store does not know any more which offsets the staged messages of {self.pipeline} have; stage them again: auditor"
            f" pipeline reset {shell_word(self.pipeline)}"
        )

    def _give_up(self, ranges: StagedRanges) -> None:
        """End the segments of tables whose topic's offsets are others than before, or that have two topics."""
        source = self.chosen.topic_source
        assert source is not None, "such writers cut topics"
        topics = {name: source.table_of(name).lower() for name in ranges.topics}
        for table in self._tables.keys() - self._given_up.keys():
            own = [name for name, origin in sorted(topics.items()) if origin == self.chosen.origin_of(table).lower()]
            why = next((ranges.replaced[name] for name in own if name in ranges.replaced), "")
            if len(own) > 1:
                why = f"the topics {' and '.join(own)} both have it"
            if why:
                self._given_up[table] = (
                    f"segments of {table} ended, because {why}; once the table is right again, reset the pipeline: auditor pipeline reset"
                    f" {shell_word(self.pipeline)}"
                )
                extra = {"action": "segments_ended_for_ever", "pipeline": self.pipeline, "table": table}
                log.warning("%s: %s", self.pipeline, self._given_up[table], extra=extra)

    def _also(self) -> list[Callable[[Any, Sequence[Segment]], object]]:
        reasons = [why for why in self._given_up.values() if why]
        refusals = [partial(one.refuse, sentence=why) for one in self._registered for why in reasons]
        return [*refusals, *SegmentWriter._also(self)]

    def _count_partitions(self, table: str, listed: Sequence[Part], ranges: StagedRanges, through: int) -> Iterator[Ended]:
        """Count a table's next messages, and yield the segments that end."""
        state = self._tables[table]
        if table not in self._given_up:
            for batch in staged_events(self.root, listed, (state.through + 1, -1), (through + 1, -1)):
                for one in ranges.split(batch, self._names):
                    known = self._partitions.setdefault(table, {}).setdefault(one.partition, _Partition())
                    yield from self._count_partition(table, known, one.after(known.listed))
        state.through = through

    def _count_partition(self, table: str, state: _Partition, one: PartitionEvents) -> Iterator[Ended]:
        if not one.events.num_rows:
            return
        offsets, times = one.events["position"].to_numpy(), one.events["time"].cast(pa.int64()).to_numpy()
        sizes = pc.binary_length(TEXTS[SIZED_BY](one.events)).to_numpy()
        ends, left = find_partition_ends(offsets, sizes, times, state.open, self.partition_rule)
        start = 0
        for end in ends:
            first = (state.open.first, state.first) if state.open else (int(offsets[start]), int(one.positions[start]))
            if end:
                last = int(offsets[end - 1]), int(one.positions[end - 1])
            else:
                assert state.open, "what ends before the first message was open"
                last = state.open.last, state.last
            events = self._read_partition(table, one.partition, first[1], last[1])
            yield Ended(name_partition(table, one.partition), (first[0], 0), (last[0], 0), events)
            state.open, start = None, end
        if state.open is None:
            state.first = int(one.positions[start])
        state.open, state.last = left, int(one.positions[-1])

    def _read_partition(self, table: str, partition: int, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the events of a partition from one position of the pipeline's stream to another, both inclusive."""
        ranges = self._ranges(first, last) or self._refuse_unknown()
        for part in self._list(table, first - 1, last):
            if ranges.has_partition(part.first, part.last, partition):
                for batch in staged_events(self.root, [part], (first, -1), (last + 1, -1)):
                    yield from (one.events for one in ranges.split(batch, self._names) if one.partition == partition)

    def _names(self, schema_id: str) -> Sequence[str]:
        if schema_id not in self._schemas:
            body = parts.get_schema(self.store, self.pipeline, schema_id)
            if not isinstance(body, dict):
                raise SegmentFailed(f"the store does not know the columns {schema_id} of messages that {self.pipeline} staged")
            self._schemas[schema_id] = tuple(str(column["name"]) for column in body["columns"])
        return self._schemas[schema_id]

    def _free(self, table: str, through: int) -> int:
        if table in self._given_up:
            return MOST_POSITION
        return min((one.first - 1 for one in self._partitions.get(table, {}).values() if one.open), default=through)


def open_writer(store: Store, name: str, pipeline: Pipeline, registrations: tuple[Registration, ...] = ()) -> SegmentWriter:
    """Return the writer of a pipeline whose settings keep segments, and which registers them as ``registrations``."""
    settings = pipeline.segment
    assert settings
    columns = BucketColumns(store, name, pipeline)
    limits = settings.rows, settings.bytes, settings.age
    of_pipeline = (store, name, folder_at(pipeline.staging.path), folder_of(pipeline), Rule(*limits), columns, registrations)
    if pipeline.reads_partitions:
        return PartitionWriter(*of_pipeline, chosen=pipeline, partition_rule=PartitionRule(*limits, settings.offsets))
    return SegmentWriter(*of_pipeline)
