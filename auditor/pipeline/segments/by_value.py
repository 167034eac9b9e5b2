"""Open a finding of a segment audit by value: read the events of both sides in its unequal buckets, and count those that differ by value.

So a finding names the customers whose events were lost or changed. Values of columns that the source's connection, or an audit of the
table, masks are neither shown nor stored; of those that the pipeline masks, what is shown is the digest that stands for them in segments
and targets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from auditor.compare.segment_findings import Finding
from auditor.config import Settings
from auditor.errors import AuditorError, SegmentFailed
from auditor.masking import MASK
from auditor.model import ComparedBy, RegisteredSegment, ValueDifference, ValueDifferences
from auditor.pipeline.binlog.whole_log import GlobalId
from auditor.pipeline.events import is_partition, table_of_stream
from auditor.pipeline.segments.buckets import BucketColumns, Bucketed, find_buckets, hashes_of, values_of
from auditor.pipeline.segments.event_text import TEXTS
from auditor.pipeline.segments.lacking import explain_lacking
from auditor.pipeline.segments.sides import Side, find_file, is_masked
from auditor.store import Store, segment_register

MOST_VALUES = 20
"""Values that a finding names, those with most events that differ."""

MOST_EVENTS = 1_000_000
"""Events of a finding that are held in memory; with more it is not opened by value."""

LENGTH = 120
"""Characters of a value that are kept."""

Place = tuple[int, int]
Identity = tuple[str | int, int]
Values = frozenset[str | None]


@dataclass(frozen=True, slots=True)
class _Event:
    identity: Identity
    """What an event has in common on all servers: its transaction's global id, or its position, and its row."""
    place: Place
    hash: bytes
    values: Values


@dataclass(frozen=True, slots=True)
class Opening:
    """What is needed to open the findings of an audit by value."""

    settings: Settings
    store: Store
    audit: str
    sides: tuple[Side, Side]
    compared_by: ComparedBy

    def column_of(self, table: str) -> str | None:
        """Return the column by whose values findings of a table are opened; None if the settings name none."""
        segment = self.sides[0].pipeline.segment
        return segment.column_of(table_of_stream(table)) if segment else None

    def digest_of(self, finding: Finding) -> str:
        """Return what a finding is known by in the store: another one if its segments change, or the column, or whether that is masked."""
        by = self.column_of(finding.table) or ""
        entries = [[(one.start, one.end, one.sha256, one.rows) for one in some] for some in finding.segments]
        said = repr(
            (
                finding.kind,
                finding.table,
                finding.side,
                by,
                bool(by) and self._is_masked(finding.table, by),
                entries,
            )
        )
        return hashlib.sha256(said.encode()).hexdigest()

    def _is_masked(self, table: str, column: str) -> bool:
        return is_masked(self.settings, self.sides[0].pipeline, table_of_stream(table), column)

    def open(self, finding: Finding) -> ValueDifferences | None:
        """Return whose events differ in a finding, and why a side may lack messages of a topic; None if nothing can say it.

        Raises StoreError.
        """
        found = self._open_by_value(finding)
        if not is_partition(finding.table):
            return found
        found = found or ValueDifferences("")
        try:
            return replace(found, lacking=tuple(explain_lacking(self.settings, self.store, self.sides, finding)))
        except AuditorError as error:
            return replace(found, unexplained=f"whether the topic still has what a side lacks is not known: {error}")

    def _open_by_value(self, finding: Finding) -> ValueDifferences | None:
        by = self.column_of(finding.table)
        if by is None:
            return None
        try:
            unequal = finding.unequal_buckets
            chosen = unequal[1] if unequal and unequal[0] == by else None
            found = self._compare(finding, by, chosen)
            if not found and chosen is not None:  # the digests by bucket do not say what differs, so they are not trusted
                found = self._compare(finding, by, None)
        except SegmentFailed as error:
            return ValueDifferences(by, refused=str(error))
        named = sorted(found, key=lambda one: (-(sum(one.lacking) + one.altered), one.value is not None, one.value or ""))
        return ValueDifferences(by, tuple(named[:MOST_VALUES]), len(named[MOST_VALUES:]))

    def why_none(self, entry: RegisteredSegment, side: Side) -> str:
        """Return why a segment, whose table has no such column, has no digests by bucket. Raises StoreError."""
        found = BucketColumns(self.store, side.listed_as, side.pipeline).find(entry.table, entry.schema_id)
        return f"{side.name}: {found.refused}" if found and found.refused else f"{side.name}: {entry.table} had no such column before"

    def _compare(self, finding: Finding, by: str, buckets: Sequence[int] | None) -> list[ValueDifference]:
        is_hidden = self._is_masked(finding.table, by)
        read = [self._read(number, some, buckets, is_hidden) for number, some in enumerate(finding.segments)]
        lacking: tuple[Counter[str | None], Counter[str | None]] = (Counter(), Counter())
        altered: Counter[str | None] = Counter()
        if not all(finding.segments):
            present = 0 if finding.segments[0] else 1
            for event in read[present]:
                lacking[1 - present].update(event.values)
        else:
            until = min(self._known_before(number, finding) for number in (0, 1))
            self._count(read, until, lacking, altered)
        return [
            ValueDifference(value, (lacking[0][value], lacking[1][value]), altered[value])
            for value in {*lacking[0], *lacking[1], *altered}
            if lacking[0][value] or lacking[1][value] or altered[value]
        ]

    def _count(
        self,
        read: Sequence[Iterator[_Event]],
        until: Place,
        lacking: tuple[Counter[str | None], Counter[str | None]],
        altered: Counter[str | None],
    ) -> None:
        """Count the events before a place that only one side has, or that both have otherwise; one that came twice counts once more."""
        held: dict[Identity, tuple[list[_Event], list[_Event]]] = {}
        for number, events in enumerate(read):
            for event in events:
                if event.place < until:
                    held.setdefault(event.identity, ([], []))[number].append(event)
                    if len(held) > MOST_EVENTS:
                        raise SegmentFailed(f"more than {MOST_EVENTS:,} events would have to be held in memory")
        for first, second in held.values():
            hashes = Counter(event.hash for event in first) & Counter(event.hash for event in second)
            left = [_without(some, hashes.copy()) for some in (first, second)]
            for one, other in zip(*left, strict=False):
                altered.update(one.values | other.values)
            paired = min(len(left[0]), len(left[1]))
            for number, some in enumerate(left):
                for event in some[paired:]:
                    lacking[1 - number].update(event.values)

    def _known_before(self, number: int, finding: Finding) -> Place:
        """Return the place before which all events of a side are in a finding's segments: its next segment begins there."""
        last = max(finding.segments[number], key=lambda one: one.end)
        name = self.sides[number].name
        later = segment_register.list_entries(self.store, self.audit, finding.table, name, after=last.end, limit=1)
        return later[0].start if later else (last.end[0], last.end[1] + 1)

    def _read(self, number: int, entries: Sequence[RegisteredSegment], buckets: Sequence[int] | None, is_hidden: bool) -> Iterator[_Event]:
        """Yield the events of a side's segments in these buckets, or in all. Raises SegmentFailed."""
        side = self.sides[number]
        columns = BucketColumns(self.store, side.listed_as, side.pipeline)
        for entry in entries:
            file = find_file(self.store, side, entry)
            bucketed = columns.find(entry.table, entry.schema_id)
            if file is None:
                raise SegmentFailed(f"the manifest of {side.name} no longer lists the segment of {entry.table} that ends at {entry.last}")
            if bucketed is None or not bucketed.is_known:
                raise SegmentFailed(bucketed.refused if bucketed else f"{side.name} has no column for {entry.table}")
            for batch in side.folder.read(file).to_batches():
                for each in self._events(_in_buckets(batch, bucketed, buckets), bucketed):
                    yield _Event(each.identity, each.place, each.hash, frozenset({MASK}) if is_hidden else each.values)

    def _events(self, batch: pa.RecordBatch, bucketed: Bucketed) -> Iterator[_Event]:
        hashes = hashes_of(TEXTS[max(TEXTS)](batch))
        images = [(is_there.tolist(), values.to_pylist()) for is_there, values in values_of(batch, bucketed)]
        places = zip(*(batch[name].to_pylist() for name in ("gtid", "position", "row")), strict=True)
        for number, (gtid, position, row) in enumerate(places):
            values = {_cut(found[number]) for is_there, found in images if is_there[number]} or {None}
            at = GlobalId.parse(gtid).number if self.compared_by == "gtid" else position
            yield _Event((gtid or position, row), (at, row), hashes[number], frozenset(values))


def _in_buckets(batch: pa.RecordBatch, bucketed: Bucketed, buckets: Sequence[int] | None) -> pa.RecordBatch:
    if buckets is None:
        return batch
    numbers, of_events = find_buckets(batch, bucketed)
    return batch.take(pa.array(np.unique(numbers[np.isin(of_events, buckets)])))


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= LENGTH else f"{value[: LENGTH - 1]}…"


def _without(events: Sequence[_Event], equal: Counter[bytes]) -> list[_Event]:
    """Return the events but for as many of each hash as are equal."""
    left = []
    for event in events:
        if equal[event.hash]:
            equal[event.hash] -= 1
        else:
            left.append(event)
    return left
