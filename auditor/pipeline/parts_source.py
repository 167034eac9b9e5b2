"""The source of a pipeline's query: its tasks write the parts of another source's events, and yield entries of the manifest.

So the events stay in the process that decodes them: they pass neither through Java nor through a second process of Python, which would
take as much time and memory again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StringType, StructField, StructType

from auditor.pipeline.stage_task import MANIFEST

WriteParts: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Writes the parts of a task's events, and yields their entries; it is pickled, and runs in the task."""

MANIFEST_TYPE = StructType([StructField(name, StringType()) for name in MANIFEST.names])


def parts_source(events: type[DataSource], write: WriteParts) -> type[DataSource]:
    """Return a source of the same options and offsets as ``events``, a streaming one, whose tasks write parts by ``write``.

    What ``write`` holds travels pickled with the class, and is in no option and no plan.
    """

    class PartsSource(events):  # type: ignore[misc, valid-type]
        """Writes parts of the events that it reads."""

        @classmethod
        def name(cls) -> str:
            """Return the name that the query calls it by."""
            return f"{events.name()}_parts"

        def schema(self) -> StructType:
            """Return the columns of the manifest's entries."""
            return MANIFEST_TYPE

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            """Return a reader that plans as that of ``events``."""
            return _PartsReader(super().streamReader(schema), write)

    return PartsSource


class _PartsReader(DataSourceStreamReader):
    """Plans as another reader, and writes the parts of what that reads."""

    def __init__(self, events: Any, write: WriteParts) -> None:
        self._events = events
        self._write = write

    def initialOffset(self) -> dict[str, Any]:
        """Return where a stream without a checkpoint begins."""
        return self._events.initialOffset()  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch brings at most."""
        return self._events.getDefaultReadLimit()  # type: ignore[no-any-return]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the source ends now, if it can tell."""
        return self._events.reportLatestOffset()  # type: ignore[no-any-return]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends."""
        return self._events.latestOffset(start, limit)  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return what each task of a batch reads."""
        return self._events.partitions(start, end)  # type: ignore[no-any-return]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the parts of a partition, and yield their entries in the manifest."""
        yield from self._write(self._events.read(partition))

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the source that a batch is done."""
        self._events.commit(end)

    def stop(self) -> None:
        """End what the source holds."""
        self._events.stop()
