"""The two sides of a segment audit: whose manifest and which folder each one's segments are in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from auditor.config import ANEW, Pipeline, Settings
from auditor.errors import ConfigError
from auditor.model import RegisteredSegment, Segment
from auditor.pipeline.segments.folders import SegmentFolder
from auditor.pipeline.segments.writer import folder_of
from auditor.planning.columns import masked_columns
from auditor.store import Store, parts, segments
from dialects import Place as TablePlace


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a segment audit."""

    name: str
    listed_as: str
    """The name under which the store lists its segments."""
    pipeline: Pipeline
    """Of a log that is read anew, that of the other side with a folder of its own."""
    is_anew: bool = False

    @property
    def folder(self) -> SegmentFolder:
        """Where its segments are."""
        return folder_of(self.pipeline)


def side_of(settings: Settings, audit: str, name: str) -> Side:
    """Return a side of a segment audit. Raises UnknownAudit, and ConfigError for a name that is none of the two."""
    found = settings.segment_audit(audit)
    if name not in found.sides:
        raise ConfigError(f"{name!r} is no side of {audit}; its sides are {' and '.join(found.sides)}")
    if name != ANEW:
        return side_of_pipeline(settings, name)
    pipeline = settings.pipeline(found.pipelines[0])
    assert pipeline.segment
    root = f"{pipeline.staging.path}/{ANEW}-{audit}"
    staging = pipeline.staging.model_copy(update={"path": root})
    segment = pipeline.segment.model_copy(update={"path": None, "format": "parquet", "kms_key": None})
    return Side(name, f"{audit}/{ANEW}", pipeline.model_copy(update={"staging": staging, "segment": segment}), is_anew=True)


def side_of_pipeline(settings: Settings, name: str) -> Side:
    """Return the segments that a pipeline keeps."""
    return Side(name, name, settings.pipeline(name))


def is_masked(settings: Settings, pipeline: Pipeline, table: str, column: str) -> bool:
    """Return whether values of a source's column are not shown: its connection masks it, or an audit that reads the table.

    Behind topics there is no connection: there it is that of a target, under the table's name in that.
    """
    places = [(pipeline.source_name, TablePlace(tuple(table.split(".", 1))))]
    if pipeline.topic_source:
        places = [(target.connection, TablePlace(target.place_of(table))) for target in pipeline.table_targets.values()]
    return any(
        masked_columns(settings.connections[connection].mask, place, [column]) or _audit_masks(settings, connection, place, column)
        for connection, place in places
    )


def _audit_masks(settings: Settings, connection: str, place: TablePlace, column: str) -> bool:
    reading = [
        audit
        for audit in settings.audits.values()
        if any(one.connection == connection and one.place.parts[-1:] == place.parts[-1:] for one in audit.places.values())
    ]
    schema, table = ("", *place.parts)[-2:]
    reading += [  # of any table of a group that has this name, whether it ran yet or not
        group.template
        for group in settings.groups.values()
        if any(one.connection == connection for one in group.template.places.values()) and group.matches(schema, table)
    ]
    return any(override.mask and name.lower() == column.lower() for audit in reading for name, override in audit.columns.override.items())


def list_files(store: Store, side: Side, table: str, first: int = 0, last: int | None = None) -> Iterator[Segment]:
    """Yield the segments of a side's manifest that do not end before one position, nor start behind another. Raises StoreError."""
    after = (first, -1)
    while page := segments.list_segments(store, side.listed_as, table, after):
        for one in page:
            if last is not None and one.first > last:
                return
            yield one
        after = (page[-1].last, page[-1].last_row)


def find_file(store: Store, side: Side, entry: RegisteredSegment) -> Segment | None:
    """Return what the manifest lists of a registered segment; None if nothing. Raises StoreError."""
    listed = list_files(store, side, entry.table, entry.last, entry.last)
    return next((one for one in listed if (one.first, one.first_row) == (entry.first, entry.start[1])), None)


def read_events(side: Side, found: list[Segment]) -> list[dict[str, Any]]:
    """Return the events of segments, as rows. Raises SegmentFailed."""
    return [row for one in found for row in side.folder.read(one).to_pylist()]


def column_names(store: Store, side: Side, schema_id: str) -> list[str]:
    """Return the names of the values of a side's events; none if their schema is not known any more, or they bring them themselves.

    Raises StoreError.
    """
    body = parts.get_schema(store, side.listed_as, schema_id)
    return [column["name"] for column in body["columns"]] if isinstance(body, dict) and "columns" in body else []
