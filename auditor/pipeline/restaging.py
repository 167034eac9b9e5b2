"""Stage a part again from the source's log, where its file is damaged or missing.

A part has all events of its table between two ends of transactions, so the log, or the topic, between these yields it again, as long as
the source has it.
"""

from __future__ import annotations

import logging
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import AuditorError, BrokerError, ChangeStreamError, PartsGone
from auditor.model import Part, TableNote
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.log_connection import Request, other_server_id, source_of
from auditor.pipeline.binlog.ranges import LogScan, Mark
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.event_count import EventCount
from auditor.pipeline.events import FIRST_OFFSET, Place, Position
from auditor.pipeline.folders import Folder, LocalFolder, folder_at
from auditor.pipeline.incarnation import NOTE
from auditor.pipeline.kafka.offsets import from_json, ranges_between
from auditor.pipeline.kafka.own_topics import OwnTask, PublishedTopics, read_own
from auditor.pipeline.kafka.table_columns import read_columns
from auditor.pipeline.kafka.topic_cluster import open_cluster
from auditor.pipeline.kafka.topic_reading import TaskColumns, read_ranges
from auditor.pipeline.kafka.topic_stream import check_cluster
from auditor.pipeline.live.staged_sums import TaskSums
from auditor.pipeline.part_writer import copy_parts, write_parts
from auditor.pipeline.stage_task import TableRules, project
from auditor.pipeline.staged_parts import check_part
from auditor.store import Store, parts, pipelines, salt, topic_batches
from dialects.url import parse_url

log = logging.getLogger(__name__)

RANGE_BYTES = 4 << 20
"""Bytes of the log that are decoded at once."""


def restage(settings: Settings, store: Store, pipeline: str, root: Folder, table: str, after: int = 0) -> int:
    """Stage the damaged and missing parts of a table again that end after a position; return how many there were.

    None where the folder is not that of the pipeline, because this process does not reach it. Raises PartsGone where the log no longer
    yields one, or the pipeline cannot go back in it, and what reading the log raises.
    """
    if (root.read_note(NOTE) or "").strip() != pipelines.get_pipeline(store, pipeline).incarnation:
        return 0
    repaired = 0
    while listed := parts.list_parts(store, pipeline, table, after):
        for part in listed:
            if why := check_part(root, part):
                _stage_again(settings, store, pipeline, root, part, why)
                repaired += 1
        after = listed[-1].last
    return repaired


def _stage_again(settings: Settings, store: Store, pipeline: str, root: Folder, part: Part, why: str) -> None:
    sentence = f"{part.table}: {why}, and cannot be staged again from the source's log"
    way_out = "copy the table from the source again, and then let the target continue from there"
    if settings.pipeline(pipeline).tracker:
        raise PartsGone(f"{sentence}, because the pipeline's tracker does not know the columns of then; {way_out}")
    try:
        with tempfile.TemporaryDirectory(prefix="auditor-part-") as scratch:
            written = [
                entry.part
                for entry in write_parts(LocalFolder(Path(scratch)), _events_of(settings, store, pipeline, part, scratch))
                if entry.part.rows
            ]
            if [_same(staged) for staged in written] != [_same(part)]:
                raise PartsGone(f"{sentence}: the log has other events there now; {way_out}")
            [copy] = written
            [(_, new_part)] = copy_parts(LocalFolder(Path(scratch)), [copy], f"{part.first:019d}.{secrets.token_hex(4)}", into=root)
    except (ChangeStreamError, BrokerError) as error:
        if error.retryable:
            raise
        raise PartsGone(f"{sentence}: {error}; {way_out}") from error
    parts.replace_files(store, pipeline, [(part, new_part)])
    extra = {"action": "part_restaged", "pipeline": pipeline, "table": part.table, "position": part.first}
    log.warning("%s: %s; it was staged again from the source's log", pipeline, why, extra=extra)


def _same(part: Part) -> tuple[str, int, int, int, str]:
    return part.table, part.first, part.last, part.rows, part.schema_id


def _events_of(settings: Settings, store: Store, pipeline: str, part: Part, scratch: str) -> Iterator[pa.RecordBatch]:
    """Yield the projected events of a part, and the announcements of schemas before them."""
    for batch in read_source_again(settings, store, pipeline, part.table, (part.first, part.last), scratch):
        events = batch.filter(pc.equal(batch["schema_id"], part.schema_id))
        if events.num_rows:
            yield events


def read_source_again(
    settings: Settings, store: Store, pipeline: str, table: str, within: tuple[int, int], scratch: str
) -> Iterator[pa.RecordBatch]:
    """Yield the projected events of a table from one position to another, both inclusive, as its source has them now.

    Announcements of schemas are among them. Sums of live summaries go into the folder ``scratch``. Raises PartsGone for positions that were
    read before a failover, or of which the topic is not known any more, and what reading the source raises.
    """
    chosen = settings.pipeline(pipeline)
    if chosen.topic_source:
        decoded = _read_topics_again(settings, store, pipeline, folder_at(chosen.staging.path), chosen.origin_of(table), within)
    else:
        decoded = _read_log_again(settings, store, pipeline, table, within)
    rules, notes = TableRules(chosen, salt.get_salt(store)), list[TableNote]()
    for batch in project(decoded, rules, notes, TaskSums(scratch), EventCount()):
        database, _, name = table.partition(".")
        of_table = pc.and_(pc.equal(batch["database"], database), pc.equal(batch["table"], name))
        inside = pc.and_(pc.greater_equal(batch["position"], within[0]), pc.less_equal(batch["position"], within[1]))
        events = batch.filter(pc.and_(of_table, inside))
        if events.num_rows:
            yield events


def _read_log_again(settings: Settings, store: Store, pipeline: str, table: str, within: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    """Yield the events of a range of the source's log, of all tables."""
    read, source = settings.pipeline(pipeline).of_log("a log"), source_of(settings, pipeline)
    offset = pipelines.get_pipeline(store, pipeline).source_offset
    first, last = (Position.unpack(position) for position in within)
    if first.epoch != int(offset["epoch"]):
        raise PartsGone(f"{table}: it was read from another server, before a failover")
    base, _, digits = str(offset["file"]).rpartition(".")
    begin, end = (Place(f"{base}.{position.file:0{len(digits)}d}", position.offset) for position in (first, last))
    start = Place(begin.file, FIRST_OFFSET)
    scan = LogScan(Request(source, start, other_server_id()), Mark(start), RANGE_BYTES, durations().source_absence)
    try:
        ranges = scan.advance(end)
    finally:
        scan.close()
    database, skipped = parse_url(source.url).database, read.skip_pipelines
    selection = Selection(read.tables, database, refreshes_of(settings, pipeline), skipped)
    reading = Reading(source, selection, first.epoch, durations().source_absence, notes=True, tracked=b"")
    for log_range in ranges:
        if log_range.ends:
            yield from reading.batches(log_range)


def _read_topics_again(
    settings: Settings, store: Store, pipeline: str, root: Folder, table: str, within: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the events of the batches that have positions between two, of the topic of a table of the source.

    Raises PartsGone if the store does not know where these batches ended, or the topic was made again, and BrokerError.
    """
    offsets = [from_json(body) for body in topic_batches.list_around(store, pipeline, *within)]
    if not offsets:
        raise PartsGone(f"{table}: the store does not know any more which offsets of its topic these events are from")
    cluster = open_cluster(settings, pipeline)
    check_cluster(cluster, offsets[-1].cluster)
    there = cluster.find()
    own = PublishedTopics(cluster, pipeline) if cluster.source.published_by else None
    with closing(own) if own else nullcontext():
        for start, end in pairwise(offsets):
            if (own is None) != (end.published is None):
                raise PartsGone(f"{table}: the configuration said otherwise, when it was read, whether a pipeline publishes its topic")
            task = next((one for one in own.tasks(start, end) if one.table == table), OwnTask(())) if own else None
            found = task.ranges if task else ranges_between(start, end)
            ranges = [one for one in found if cluster.source.table_of(one.topic) == table]
            if not ranges:
                continue
            topic = ranges[0].topic
            if topic not in there or there[topic].id != end.topics[topic].id:
                raise PartsGone(f"{table}: the topic {topic} is not the one any more that was read")
            if task:
                yield from read_own(settings, pipeline, task)
            else:
                known = read_columns(root)
                yield from read_ranges(settings, pipeline, ranges, TaskColumns({table: known[table]} if table in known else {}))


def repair_all(settings: Settings, store: Store, pipeline: str, root: Folder) -> None:
    """Stage the damaged parts of all tables again; of a table where that fails, say why."""
    for table in parts.list_tables(store, pipeline):
        try:
            restage(settings, store, pipeline, root, table)
        except AuditorError as error:
            log.warning("%s: %s", pipeline, error, extra={"action": "restaging_failed", "pipeline": pipeline, "table": table})
