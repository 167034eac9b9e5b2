"""Read a pipeline's stream anew from its source's log, and cut it again: the other side of a segment audit of one pipeline.

It begins with the log's file in which the pipeline stands when the audit runs for the first time, and each run goes on to where the log
ends then. So what was lost, doubled or changed on the way from the log to the staged files is found, and what rots there. Needs no Spark.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor.config import Settings
from auditor.errors import PositionLost, SegmentFailed
from auditor.escaping import shell_word
from auditor.pipeline.binlog.log_connection import Source
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.part_deletion import delete_files
from auditor.pipeline.segments.registering import read_anew
from auditor.pipeline.segments.sides import Side
from auditor.pipeline.segments.writer import SegmentWriter, open_writer
from auditor.pipeline.source import BinlogStream, StreamOptions
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.store import Store, parts, pipelines, salt, segment_register, segments

BATCH_BYTES = 32 << 20
"""Bytes of the log that are decoded and cut before the store knows."""

FIRST_OFFSET = 4
"""Where events begin in each file of a log, behind its magic number."""


@dataclass(frozen=True, slots=True)
class _Here(StreamOptions):
    """Options of a stream that is read in this process, which has the connection's URL already."""

    url: str = ""

    def source(self) -> Source:
        """Return the connection's source."""
        return Source(self.url, self.connection)


def read_stream(settings: Settings, store: Store, audit: str, side: Side, stop: threading.Event) -> int:
    """Read the stream on from where the last run ended to where the log ends now, and return the number of events.

    Ends after a batch once ``stop`` is set. Raises ConfigError, ChangeStreamError, EngineError, SegmentFailed and StoreError; PositionLost
    if the log cannot be read on from there.
    """
    name = settings.segment_audit(audit).pipelines[0]
    root = folder_at(side.pipeline.staging.path)
    root.make()
    writer = open_writer(store, side.listed_as, side.pipeline, (read_anew(settings, audit),))
    reader: Any = BinlogStream(_options(settings, name))
    rules = TableRules(side.pipeline, salt.get_salt(store))
    offset = pipelines.get_pipeline(store, side.listed_as).source_offset or _begin(store, name)
    events = 0
    try:
        reader.prepareForTriggerAvailableNow()
        while not stop.is_set():
            end = reader.latestOffset(offset, ReadMaxBytes(BATCH_BYTES))
            if (end["file"], end["position"]) == (offset["file"], offset["position"]):
                break
            entries = [row for part in reader.partitions(offset, end) for row in _staged(root, rules, reader.read(part))]
            found, _ = read_entries(entries)
            schemas = {one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json}
            parts.record_batch(store, side.listed_as, [one.part for one in found if one.part.rows], schemas, end)
            events += sum(one.part.rows for one in found)
            _cut(store, side, writer)
            offset = end
    except PositionLost as error:
        reason, _, _ = str(error).partition("; ")  # what follows is a suggestion for targets
        raise PositionLost(
            f"the log cannot be read on from {offset['file']}:{offset['position']}, so what {name} staged since is not compared: {reason};"
            f" begin anew where {name} stands now: auditor segments reset {shell_word(audit)}"
        ) from error
    finally:
        reader.stop()
    _delete_matching(store, audit, side)
    return events


def _options(settings: Settings, name: str) -> _Here:
    source = settings.pipeline(name).of_log("a segment audit")
    refreshes = refreshes_of(settings, name)
    return _Here(
        source.connection,
        source.tables,
        None,
        notes=True,
        refreshes=f"{refreshes.schema}/{refreshes.pipeline}",
        skip_pipelines=source.skip_pipelines,
        url=settings.connections[source.connection].url,
    )


def _begin(store: Store, name: str) -> dict[str, Any]:
    """Return the offset of the beginning of the log's file in which a pipeline stands. Raises SegmentFailed."""
    offset = pipelines.get_pipeline(store, name).source_offset
    if not isinstance(offset, dict):
        raise SegmentFailed(f"pipeline {name} has read nothing yet; start it, and run the audit again")
    known = {key: offset[key] for key in ("epoch", "file", "server", "known") if key in offset}
    return known | {"position": FIRST_OFFSET, "gtid": ""}


def _staged(root: Folder, rules: TableRules, batches: Any) -> list[dict[str, Any]]:
    return [row for batch in stage_task(str(root), rules, batches) for row in batch.to_pylist()]


def _cut(store: Store, side: Side, writer: SegmentWriter) -> None:
    """Cut what was staged, and delete the parts that no open segment needs."""
    while writer.step():
        pass
    root = folder_at(side.pipeline.staging.path)
    gone = parts.delete_passed(store, side.listed_as, 0, segmented=True)
    emptied = delete_files(store, side.listed_as, root, gone, segmented=True)
    try:
        root.delete(emptied)  # at once: none but this process reads there
    except OSError as error:
        raise SegmentFailed(f"parts below {root} cannot be deleted: {error.strerror}; delete them") from error


def _delete_matching(store: Store, audit: str, side: Side) -> None:
    """Delete the files all of whose segments match: the other side has the same events."""
    matching: set[tuple[str, int, int]] = set()
    paths: set[str] = set()
    for table in segments.last_places(store, side.listed_as):
        listed = segment_register.list_entries(store, audit, table, side.name, verdicts=("match",), newest=True)
        last_places = {(one.last, one.end[1]) for one in listed}
        after = (min((last for last, _ in last_places), default=0), -1)
        for one in segments.list_segments(store, side.listed_as, table, after):
            if (one.last, one.last_row) in last_places:
                matching.add((table, one.last, one.last_row))
                paths.add(one.path)
    listed_there = segments.list_segments_of(store, side.listed_as, paths)
    needed = {one.path for one in listed_there if (one.table, one.last, one.last_row) not in matching}
    root = folder_at(side.pipeline.staging.path)
    try:
        root.delete(sorted(paths - needed))
    except OSError as error:
        raise SegmentFailed(f"segments below {root} cannot be deleted: {error.strerror or error}; delete them") from error


def forget(store: Store, side: Side) -> None:
    """Forget what was read anew; its folder stays for you to delete. Raises StoreError."""
    parts.forget(store, side.listed_as)
    pipelines.forget(store, side.listed_as)
    segments.forget(store, side.listed_as)
