"""Say why a side of a segment audit may lack messages of a topic's partition: what its pipeline noted, and what the topic no longer has.

Compaction and retention remove messages that one side has read and the other side has not. No offset shows it afterwards, but that the
topic has them no longer: so that is looked up once, when a finding is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby

from auditor.compare.segment_findings import Finding
from auditor.config import Settings
from auditor.errors import SegmentFailed
from auditor.pipeline.events import split_stream
from auditor.pipeline.kafka.broker import open_consumer
from auditor.pipeline.kafka.offsets import Range
from auditor.pipeline.kafka.topic_cluster import open_cluster
from auditor.pipeline.kafka.topic_reading import CONSUMER, Gap, offset_of, read_range
from auditor.pipeline.segments.sides import Side, find_file
from auditor.quantities import plural
from auditor.store import Store, table_notes

MOST_STRETCHES = 8
"""Stretches of offsets that a sentence names."""


def explain_lacking(settings: Settings, store: Store, sides: tuple[Side, Side], finding: Finding) -> Iterator[str]:
    """Yield why each side may lack messages of a partition that the other one has. Raises SegmentFailed, StoreError and BrokerError."""
    offsets = [_offsets(store, side, finding, number) for number, side in enumerate(sides)]
    for number, side in enumerate(sides):
        if lacking := offsets[1 - number] - offsets[number]:
            topic_id = next(one.gtid or "" for some in finding.segments for one in some).partition(":")[0]
            yield from _explain(settings, store, side, finding, lacking, topic_id)


def _offsets(store: Store, side: Side, finding: Finding, number: int) -> set[int]:
    found: set[int] = set()
    for entry in finding.segments[number]:
        file = find_file(store, side, entry)
        if file is None:
            raise SegmentFailed(
                f"the manifest of {side.name} no longer lists the segment of {entry.table} that ends at offset {entry.last}"
            )
        found.update(side.folder.read(file)["position"].to_pylist())
    return found


def _explain(settings: Settings, store: Store, side: Side, finding: Finding, lacking: set[int], topic_id: str) -> Iterator[str]:
    table, partition = split_stream(finding.table)
    origin = side.pipeline.origin_of(table)
    noted: set[int] = set()
    for note in table_notes.list_notes(store, side.listed_as, [table], kind="poison"):
        _, number, offset = str(note.body.get("place", "::")).rsplit(":", 2)
        if number == str(partition) and (gone := lacking & {*range(int(offset), int(offset) + note.events)}):
            noted |= gone
            yield f"{side.name} noted of {_listed(gone)}: {note.body.get('cause', note.reason)}"
    if not (left := lacking - noted):
        return
    cluster = open_cluster(settings, side.name)
    topic = next((one for one in cluster.find().values() if one.id == topic_id and cluster.source.table_of(one.name) == origin), None)
    if topic is None:
        yield f"the topic of which {side.name} lacks messages is not there any more, so that it does not say whether they were removed"
        return
    wanted = Range(topic.name, partition, min(left), max(left) + 1, 0)
    with closing(open_consumer(cluster.broker, cluster.source.group_of(side.name), CONSUMER)) as consumer:
        there = {offset_of(message) for message in read_range(consumer, wanted) if not isinstance(message, Gap)}
    if gone := left - there:
        yield (
            f"the topic no longer has {plural(len(gone), 'message')} that {side.name} lacks, at {_listed(gone)}: compaction or retention"
            f" may have removed {'it' if len(gone) == 1 else 'them'} before {side.name} read so far"
        )


def _listed(offsets: set[int]) -> str:
    """Return offsets for people: consecutive ones as a stretch."""
    stretches = [
        _stretch([offset for _, offset in some]) for _, some in groupby(enumerate(sorted(offsets)), lambda each: each[1] - each[0])
    ]
    more = f" and {len(stretches) - MOST_STRETCHES} stretches more" if len(stretches) > MOST_STRETCHES else ""
    return f"offset{'s' if len(offsets) > 1 else ''} {', '.join(stretches[:MOST_STRETCHES])}{more}"


def _stretch(offsets: Sequence[int]) -> str:
    return str(offsets[0]) if len(offsets) == 1 else f"{offsets[0]} to {offsets[-1]}"
