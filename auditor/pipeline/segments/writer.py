"""Cut what a pipeline staged into segments, and write these: those that end with one step are one file, whatever their tables."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Pipeline
from auditor.model import Part, Segment
from auditor.pipeline.folders import Folder as StagingFolder
from auditor.pipeline.folders import folder_at
from auditor.pipeline.segments import registering
from auditor.pipeline.segments.buckets import BucketColumns, Bucketed, find_buckets, sums_of
from auditor.pipeline.segments.cut import Numbers, Open, Rule, find_ends, find_ticks
from auditor.pipeline.segments.event_text import SIZED_BY, TEXTS, text_bytes
from auditor.pipeline.segments.files import Archive
from auditor.pipeline.segments.folders import Blocks, JoinedFiles, SegmentFolder, Stretch
from auditor.pipeline.segments.registering import Registration
from auditor.pipeline.staged_parts import read_part
from auditor.store import Store, parts, pipelines, segments
from auditor.store.segments import Cut
from auditor.summary.bucket_sums import BucketSums, SegmentSums

log = logging.getLogger(__name__)

STEP_EVENTS = 1_000_000
"""Events of all tables that are cut before the manifest is written; their positions and times are held in memory."""

MOST_ROWS = 1 << 62
"""More rows than a transaction has: a place with it lies behind all events of its position."""

Place = tuple[int, int]
"""Position, and row within the transaction."""


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
        position. Where segments were replaced meanwhile, nothing is listed, and the next step goes on behind them. Raises SegmentFailed,
        StagingFailed and StoreError; nothing is listed then, and the step can be repeated.
        """
        before = self._cut or self._begin()
        staged = pipelines.get_pipeline(self.store, self.pipeline).staged_through or 0
        if staged <= before.through:
            return False
        through, found = self._next_parts(before.through, staged)
        ticks, clock = self._ticks(found, before, through)
        try:
            ended = self._write(
                (table, *places)
                for table, listed in sorted(found.items())
                for places in self._count(self._tables[table], listed, ticks, through)
            )
            free = {name: _free(state, through) for name, state in self._tables.items()}
            cut = Cut(through, clock, free, before.replacements)
            recorded = segments.record_cut(self.store, self.pipeline, ended, cut, [one.enter for one in self._registered])
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
        self._tables = {table: _Table(place, place[0] - 1) for table, place in places.items()}
        cut = segments.get_cut(self.store, self.pipeline)
        self.folder.sweep(min(cut.free.values(), default=0), partial(segments.find_listed, self.store, self.pipeline))
        for table, staged in parts.list_tables(self.store, self.pipeline).items():
            if staged.pruned_through > cut.free.get(table, 0):  # while no segments were kept; a segment must not span what is gone
                if table in places:
                    extra = {"action": "segments_interrupted", "pipeline": self.pipeline, "table": table}
                    log.warning(
                        "%s: segments of %s begin anew, because parts that they lack were deleted", self.pipeline, table, extra=extra
                    )
                self._tables[table] = _Table((staged.pruned_through, MOST_ROWS), staged.pruned_through)
        self._cut = cut
        return cut

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
            for batch in _events(self.root, [part], (cut.through + 1, -1), (through + 1, -1)):
                positions.append(batch["position"].to_numpy())
                times.append(batch["time"].cast(pa.int64()).to_numpy())
        return find_ticks(np.concatenate(positions), np.concatenate(times), self.rule.age, cut.latest_commit)

    def _count(self, state: _Table, found: Sequence[Part], ticks: Numbers, through: int) -> Iterator[tuple[Place, Place]]:
        """Count a table's next events, and yield the first and last place of each segment that ends."""
        for batch in [*_events(self.root, found, _next(state.counted), (through + 1, -1)), None]:
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

    def _write(self, ended: Iterable[tuple[str, Place, Place]]) -> list[Segment]:
        """Write segments, each given by its table and its first and last place, and return them with their digests."""
        read: list[_Digested] = []
        versions = registering.choose_texts(self.store, self._registered)

        def stretches() -> Iterator[Stretch]:
            for table, first, last in ended:
                found = self._list(table, first[0] - 1, last[0])
                read.append(_Digested(table, first, last, self.buckets, {version: hashlib.sha256() for version in versions}))
                yield Stretch(table, *first, read[-1].passed(_events(self.root, found, first, _next(last))))

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
        if self.bucketed and self.bucketed.index is not None:
            places = find_buckets(batch, self.bucketed.index)
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


def _events(root: StagingFolder, found: Sequence[Part], first: Place, before: Place) -> Iterator[pa.RecordBatch]:
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


def _free(state: _Table, through: int) -> int:
    """Return up to which position a table's parts are not needed any more."""
    return state.first[0] - 1 if state.first else through


def folder_of(pipeline: Pipeline) -> SegmentFolder:
    """Return where a pipeline's segments are kept: in the staging's folder, or in an archive if one is asked for."""
    settings = pipeline.segment
    if settings is None or settings.path is None:
        return JoinedFiles(folder_at(pipeline.staging.path))
    return Archive(settings.path, settings.format, settings.kms_key)


def open_writer(store: Store, name: str, pipeline: Pipeline, registrations: tuple[Registration, ...] = ()) -> SegmentWriter:
    """Return the writer of a pipeline whose settings keep segments, and which registers them as ``registrations``."""
    settings = pipeline.segment
    assert settings
    rule = Rule(settings.rows, settings.bytes, settings.age)
    columns = BucketColumns(store, name, pipeline)
    return SegmentWriter(store, name, folder_at(pipeline.staging.path), folder_of(pipeline), rule, columns, registrations)
